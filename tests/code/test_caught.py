"""Text that code puts together, in a block whose errors are caught: nobody could see what it has read, so it runs statement by statement, or is refused where it
may be home's part."""

import psycopg
import pytest

TABLES = (
    "drop table if exists caught_d, caught_l", "create table caught_d (k int primary key, v int)", "create table caught_l (n bigint)",
)
DYNAMIC = "execute 'select count(*) from ' || t into n"
CATCH = "begin {inside}; perform 1/0; exception when division_by_zero then {handler}; end"


@pytest.fixture
def filled(herd):
    herd.run(*TABLES, "select create_distributed_table('caught_d', 'k')", "insert into caught_d select g, 0 from generate_series(1, 20) g",
             "create or replace function caught_count(t text) returns bigint language plpgsql as $$ declare n bigint; begin " + DYNAMIC + "; return n; end $$")
    yield
    herd.run("drop function if exists caught_count(text)", "drop function if exists caught_f(text)", "drop procedure if exists caught_p(text)", "drop table caught_d, caught_l")


INSIDE = {"EXECUTE": DYNAMIC, "a function that does": "n := caught_count(t)", "an inner block": "begin " + DYNAMIC + "; end",
          "FOR": "for n in execute 'select count(*) from ' || t loop null; end loop"}


@pytest.mark.real_herd
@pytest.mark.parametrize("inside", INSIDE.values(), ids=INSIDE)
def test_what_nobody_could_see_is_taken_apart_or_refused(filled, herd, inside):
    kept = CATCH.format(inside=inside, handler="null") + "; insert into caught_l values (n); end"
    told = CATCH.format(inside=inside, handler="return n") + "; return 0; end"
    herd.run(
        f"create or replace procedure caught_p(t text) language plpgsql as $$ declare n bigint; begin {kept} $$",
        f"create or replace function caught_f(t text) returns bigint language plpgsql as $$ declare n bigint; begin {told} $$",
    )
    with herd.connect() as connection:
        # Of another function's text nobody knows; a function that says nothing of tables is not taken apart.
        apart = "caught_count" not in inside
        for sql, rows in ((f"do $$ declare t text := 'caught_d'; n bigint; begin {kept} $$", None), ("call caught_p('caught_d')", None), ("select caught_f('caught_d')", [(20,)])):
            if apart:
                answer = connection.execute(sql)
                assert rows is None or answer.fetchall() == rows
                continue
            with pytest.raises(psycopg.errors.FeatureNotSupported):
                connection.execute(sql)
        assert connection.execute("select n from caught_l").fetchall() == ([(20,)] * 2 if apart else [])


@pytest.mark.real_herd
def test_what_can_be_seen_runs(filled, herd):
    with herd.connect() as connection:
        for sql in (
            # The text is known; it runs in the handler, behind what was undone; beside the block.
            "do $$ begin begin execute 'insert into caught_l values (1)'; perform 1/0; exception when division_by_zero then null; end; insert into caught_l values (2); end $$",
            "do $$ declare t text := 'caught_l'; begin begin perform 1/0; exception when division_by_zero then execute 'insert into ' || t || ' values (3)'; end; end $$",
            "do $$ declare t text := 'caught_l'; begin execute 'insert into ' || t || ' values (4)'; begin perform 1/0; exception when division_by_zero then null; end; end $$",
        ):
            connection.execute(sql)
        assert connection.execute("select n from caught_l order by n").fetchall() == [(2,), (3,), (4,)]
        for sql in (
            "do $$ declare t text := 'caught_d'; n bigint; begin begin perform 1/0; exception when division_by_zero then " + DYNAMIC + "; end; end $$",
            "do $$ declare t text := 'caught_d'; n bigint; begin " + DYNAMIC + "; begin perform 1/0; exception when division_by_zero then null; end; end $$",
        ):
            with pytest.raises(psycopg.errors.FeatureNotSupported):
                connection.execute(sql)


WRITES = {
    "INSERT": "insert into caught_t values (1)", "UPDATE": "update caught_t set n = 2", "TRUNCATE": "truncate caught_t",
    "WITH": "with w as (insert into caught_t values (1) returning n) select n from w", "a view": "insert into caught_v values (1)",
    "DO": "do $$ begin insert into caught_t values (1); end $$", "a function": "select caught_w()", "a block": "select caught_b()",
    "EXPLAIN": "explain analyze insert into caught_t values (1)", "a foreign key": "delete from caught_u",
}


@pytest.mark.real_herd
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_triggers_of_local_tables(filled, herd, write):
    """A trigger may keep what it has read, too."""
    caught = "begin execute 'select count(*) from ' || tg_argv[0] into n; perform 1/0; exception when division_by_zero then null; end"
    plain = "execute 'select count(*) from ' || tg_argv[0] into n"
    body = "$$ declare n bigint; begin {}; insert into caught_l values (n); return new; end $$"
    herd.run(
        "drop view if exists caught_v", "drop table if exists caught_t, caught_u, caught_x cascade", "create table caught_u (n bigint primary key)",
        "create table caught_t (n bigint references caught_u on delete set null)", "create view caught_v as select n from caught_t",
        "create table caught_x (n bigint)", "insert into caught_u values (1), (2)", "insert into caught_t values (2)",
        f"create or replace function caught_g() returns trigger language plpgsql as {body.format(caught)}",
        f"create or replace function caught_h() returns trigger language plpgsql as {body.format(plain)}",
        "create trigger g before insert or update on caught_t for each row execute function caught_g('caught_d')",
        "create trigger tr after truncate on caught_t execute function caught_g('caught_d')",
        "create trigger h before insert on caught_x for each row execute function caught_h('caught_d')",
        "create or replace function caught_w() returns void language sql as $$ insert into caught_t values (1) $$",
        "create or replace function caught_b() returns void language plpgsql as "
        "$$ begin begin insert into caught_x values (1); perform 1/0; exception when division_by_zero then null; end; end $$",
    )
    try:
        with herd.connect() as connection:
            with pytest.raises(psycopg.errors.FeatureNotSupported):
                connection.execute(write)
            assert connection.execute("select (select count(*) from caught_l), (select array_agg(n) from caught_t)").fetchone() == (0, [2])
            connection.execute("insert into caught_l select n from caught_t")
    finally:
        herd.run("drop function caught_w, caught_b", "drop view caught_v", "drop table caught_t, caught_u, caught_x", "drop function caught_g, caught_h")

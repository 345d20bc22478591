"""Values that nobody writes out are the same on all copies of a reference table, or the statement is refused: defaults of columns,
of domains, of MERGE and of foreign keys; functions that a user's own seem to hide; one row of a subquery in ON CONFLICT."""

import psycopg
import pytest

from harness.other_order import in_other_order

pytestmark = pytest.mark.real_herd


def _other_order(db, table):
    """Another order of its rows on one node."""
    db.run(f"delete from {table} where id < 4")
    in_other_order(db.herd.node_servers[1], f"code.{table}")
    db.run(f"insert into {table} (id) select generate_series(101, 103)")


def test_a_function_of_a_users_own_does_not_hide_a_builtin_one(db):
    db.run(
        "create function random() returns float8 language sql immutable as 'select 0.5::float8'",
        "create function gen_random_uuid() returns uuid language sql immutable as 'select null::uuid'",
        "update r set w = random()::text where id = 2",
        "insert into r (id, w) values (50, gen_random_uuid()::text)",
    )
    rows = {row[0]: row[2] for row in db.same_copies("r")}
    assert rows[2] != "0.5" and rows[50]
    db.run("update r set w = code.random()::text where id = 2")
    assert {row[2] for row in db.same_copies("r") if row[0] == 2} == {"0.5"}


@pytest.mark.parametrize("value", ["random()", "gen_random_uuid()", "pg_catalog.random()"])
def test_a_trigger_cannot_hide_one_either(db, value):
    db.run(
        "create function random() returns float8 language sql immutable as 'select 0.5::float8'",
        "create function gen_random_uuid() returns uuid language sql immutable as 'select null::uuid'",
        f"create function f() returns trigger language plpgsql as 'begin new.w := {value}::text; return new; end'",
    )
    db.refused("create trigger g before insert on r for each row execute function f()", "could differ")
    db.run(
        "create or replace function f() returns trigger language plpgsql as 'begin new.w := code.random()::text; return new; end'",
        "create trigger g before insert on r for each row execute function f()",
        "insert into r values (60, 1, null)",
    )
    assert db.same_copies("r")[-1] == (60, 1, "0.5")


@pytest.fixture
def domains(db):
    db.run(
        "create domain moment as timestamptz default now()",
        "create domain chance as float8 default random()",
        "create domain chances as chance",
        "create domain five as int default 5",
        "create table m (id int primary key, ts moment, c chance, cc chances, f five)",
        "select create_reference_table('m')",
    )
    return db


def test_a_domains_default_is_computed_once(domains):
    db = domains
    for statement in (
        "insert into m (id) values (1)",
        "insert into m (id) values (2), (3)",
        "insert into m (id) select 4",
        "insert into m values (5, default, default, default, default)",
        "update m set c = default, cc = default, ts = default where id = 1",
        "merge into m using (values (9)) s(i) on s.i = id when not matched then insert (id) values (9)",
        "insert into m (id) values (1) on conflict (id) do update set cc = excluded.cc",
    ):
        db.run(statement)
        db.same_copies("m")
    with db.connection.cursor() as cursor, cursor.copy("copy m (id) from stdin") as copy:
        copy.write("20\n21\n")
    rows = db.same_copies("m")
    assert len({row[2] for row in rows}) == len(rows) == 8 and {row[4] for row in rows} == {5}


def test_a_domains_default_that_is_changed(domains):
    db = domains
    db.run("alter domain five set default (random() * 1000000000)::int", "insert into m (id) values (1), (2)")
    assert len({row[4] for row in db.same_copies("m")}) == 2
    db.refused("alter table m add column c2 chance", "default for the rows of reference table")
    db.refused("alter domain moment set default 'now'", "each node would read it by itself")
    db.refused("create domain moments as timestamptz default 'now'", "each node would read it by itself")
    db.run("alter table m add column f2 text", "create domain word as text default 'now'", "alter domain five drop default")
    db.run("insert into m (id) values (7)")
    assert db.same_copies("m")[-1][4] is None


MERGES = [
    "when not matched then insert (id) values (s.i)",
    "when not matched then insert values (s.i)",
    "when matched then update set v = m.v + 1 when not matched then insert (id, v) values (s.i, 1)",
    "when matched then delete when not matched then insert (id, v, u) values (s.i, default, default)",
]


@pytest.mark.parametrize("arms", MERGES)
def test_what_merge_leaves_out_is_computed_once(db, arms):
    db.run(
        "create table m (id int primary key, v int default (random() * 1000000000)::int, u text default gen_random_uuid()::text)",
        "insert into m values (1, 1, 'u')",
        "select create_reference_table('m')",
        f"merge into m using (values (1), (2), (3)) s(i) on m.id = s.i {arms}",
    )
    rows = db.same_copies("m")
    assert len({row[2] for row in rows}) == len(rows) >= 2


@pytest.mark.parametrize("arms", MERGES)
def test_what_merge_leaves_out_is_computed_once_without_a_key(db, arms):
    db.run(
        "create table m (id int, v int default (random() * 1000000000)::int, u text default gen_random_uuid()::text)",
        "insert into m values (1, 1, 'u')",
        "select create_reference_table('m')",
    )
    db.run(f"merge into m using (values (1), (2), (3)) s(i) on m.id = s.i {arms}")
    rows = db.same_copies("m")
    assert len({row[2] for row in rows}) == len(rows) >= 2
    db.run("merge into m using (values (4)) s(i) on m.id = s.i when not matched then insert values (s.i, 2, 'u')")
    assert len(db.same_copies("m")) == len(rows) + 1


def test_limit_in_on_conflict_is_chosen_once(db):
    db.run("create table s (id int primary key, v text default 's')", "select create_reference_table('s')")
    db.run("insert into s select g, 's' || g from generate_series(1, 9) g")
    _other_order(db, "s")
    for choice in ("(select id::text from s limit 1)", "(select id::text from s offset 3 fetch first row only)"):
        db.run(f"insert into r (id) values (1) on conflict (id) do update set w = {choice}")
        db.same_copies("r")
    db.run("create table k (v int, w text)", "select create_reference_table('k')", "create unique index on k (v)")
    db.run("insert into k values (1, 'a')")
    text = "(select id::text from s limit 1)"
    db.refused(f"insert into k values (1, 'b') on conflict (v) do update set w = {text}", "could differ")
    db.same_copies("k")


def test_a_foreign_keys_default_must_be_the_same(db):
    db.run("create sequence sq", "insert into r values (0, 0, 'r')")
    db.run("create table c (id int primary key, p int default (random() * 9)::int references r on delete set default)")
    db.refused("select create_reference_table('c')", "sets \"p\" to its default")
    db.run("alter table c alter p set default 0", "select create_reference_table('c')", "insert into c values (1, 15), (2, 15)")
    db.run("delete from r where id = 15")
    assert db.same_copies("c") == [(1, 0), (2, 0)]
    db.refused("alter table c alter p set default (random() * 9)::int", "could differ")
    db.run("alter table c add column q int", "alter table c alter q set default (random() * 9)::int")
    db.refused("alter table c add foreign key (q) references r on update set default", "sets \"q\" to its default")
    db.run("alter table c add foreign key (q) references r on update cascade on delete set null")
    db.run("create table e (id int primary key, p int default nextval('sq') references r on update set default)")
    db.refused("select create_distributed_table('e', 'id')", "comes from a sequence")
    db.run("alter table e alter p set default 0", "select create_distributed_table('e', 'id')")


LIMIT = """create function lim() returns trigger language plpgsql as
    $$ begin if (select count(*) from n) > 8 then raise exception 'too many'; end if; return null; end $$"""


def test_transition_tables_are_of_one_node(db):
    trigger = "create trigger g after insert on {} referencing new table as n for each statement execute function lim()"
    db.run(LIMIT)
    db.refused(trigger.format("d"), "transition tables")
    db.run(trigger.format("r"), trigger.format("l"))
    with pytest.raises(psycopg.errors.RaiseException):
        db.run("insert into r select g, g, 'x' from generate_series(100, 120) g")
    db.refused("select create_distributed_table('l', 'id')", "transition tables")
    db.run("drop trigger g on l", "select create_distributed_table('l', 'id')")


def test_one_time_for_all_rows(db):
    """A default that reads the clock is one value for all rows of a statement, whichever nodes they go to."""
    db.run(
        "create domain moment as timestamptz default now()",
        "create table t (k int primary key, v int default 7, ts timestamptz default now(), day date default current_date, m moment)",
        "select create_distributed_table('t', 'k')",
    )

    def one(*statements, data=None, sql=None):
        db.run("delete from t", *statements)
        if sql:
            with db.connection.cursor() as cursor, cursor.copy(sql) as copy:
                copy.write(data)
        [(count, times, moments, days, v)] = db.rows("select count(*), count(distinct ts), count(distinct m), count(distinct day), min(v) from t")
        assert (count, times, moments, days) == (20, 1, 1, 1), statements or sql
        return v

    rows = "".join(f"{i}\t1\n" for i in range(20))
    assert one(sql="copy t (k, v) from stdin", data=rows) == 1
    assert one(sql="copy t (k) from stdin", data="".join(f"{i}\n" for i in range(20))) == 7
    assert one(sql="copy t (v, k) from stdin (format csv, header)", data="v,k\n" + "".join(f"1,{i}\n" for i in range(20))) == 1
    one("insert into t (k, v) select id, v from d where id <= 20")
    one("insert into t (k, v) select g, g from generate_series(1, 20) g")
    one("insert into t (k, v) select * from (select id, v from l) q")
    one("insert into t (k, v) values " + ", ".join(f"({i}, 1)" for i in range(20)))
    db.run("delete from t")
    with db.connection.transaction():
        began = db.one("select now()")
        with db.connection.cursor() as cursor, cursor.copy("copy t (k) from stdin") as copy:
            copy.write("1\n2\n3\n4\n")
        assert db.rows("select distinct ts, m from t") == [(began, began)]


def test_who_may_insert_and_not_read(db):
    db.run(
        "create table s (id serial primary key, v int default 1, u text default gen_random_uuid()::text, ts timestamptz default clock_timestamp())",
        "select create_reference_table('s')",
        "drop role if exists adder",
        "create role adder login",
        "grant usage on schema code to adder",
        "grant insert on s to adder",
        "grant usage on sequence s_id_seq to adder",
        "grant select on d to adder",
        "set role adder",
    )
    for statement, count in (
        ("insert into s (v) values (5), (6)", 2),
        ("insert into s (v, u) select id, random()::text from d where id < 4", 3),
        ("insert into s (v) select generate_series(1, 3) on conflict do nothing", 3),
        ("insert into s (v, u) values ((random() * 100)::int, 'x')", 1),
    ):
        assert db.connection.execute(statement).statusmessage == f"INSERT 0 {count}"
    assert db.connection.execute("insert into s (v, u) values (%s, random()::text)", ("8",)).statusmessage == "INSERT 0 1"
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        db.run("insert into s (v) values (7) returning id")
    db.run("reset role")
    rows = db.same_copies("s")
    assert len(rows) == len({row[0] for row in rows}) == len({row[2] for row in rows}) == 10
    db.run("revoke all on s, d from adder", "revoke all on sequence s_id_seq from adder", "revoke all on schema code from adder", "drop role adder")


def test_what_was_there_before_is_nothing(db, one_server):
    made = ("create table s (id int primary key, v int, u text default substr(random()::text, 1, 1))",)
    db.run(*made, "select create_reference_table('s')")
    with one_server.connect() as plain:
        if plain.info.server_version < 180000:
            pytest.skip("RETURNING old and new came with PostgreSQL 18")
        plain.execute("drop table if exists s")
        plain.execute(made[0])
        for n, returning in enumerate((
            "old.*, new.id, new.v", "old.v, new.v + 1, v", "old.u, id", "with (old as o, new as n) o.id, n.*", "coalesce(old.v, new.v), old is null", "new.*", "*, old.v as before",
        )):
            sql = f"insert into s (id, v) values ({n}, 5), ({n + 100}, 6) returning {returning}"
            ours, theirs = db.connection.execute(sql), plain.execute(sql)
            shown = [(d.name, d.type_code) for d in ours.description]
            assert shown == [(d.name, d.type_code) for d in theirs.description]
            rows = [[v for v, d in zip(row, shown) if d[0] != "u"] for row in ours]
            assert rows == [[v for v, d in zip(row, shown) if d[0] != "u"] for row in theirs], returning
    db.same_copies("s")


def test_another_schemas_now_is_not_postgresqls(db):
    db.run(
        "create function now() returns timestamptz language sql immutable as $$ select timestamptz '2001-02-03 00:00+00' $$",
        "update r set w = code.now()::date::text where id < 3",
        "insert into r values (50, 1, code.now()::date::text)",
        "update d set w = code.now()::date::text where v < 9",
        "insert into d values (50, 1, code.now()::date::text), (51, 1, code.now()::date::text)",
    )
    assert {row[2] for row in db.same_copies("r") if row[0] in (1, 2, 50)} == {"2001-02-03"}
    assert db.rows("select distinct w, code.now()::date::text from d where v < 9") == [("2001-02-03", "2001-02-03")]
    assert db.one("select count(*) from d where code.now() < now()") == 42


def test_a_trigger_in_c_that_may_differ_is_refused(db):
    try:
        db.run("create extension if not exists moddatetime schema public")
    except psycopg.Error:
        pytest.skip("moddatetime is not installed")
    db.run("create table m (id int, ts timestamp)", "select create_reference_table('m')")
    db.refused("create trigger g before update on m for each row execute function public.moddatetime(ts)", "in C")


def test_an_immutable_function_is_judged_by_its_body(db):
    db.run("create table s (id int primary key, v int default 1)", "select create_reference_table('s')")
    db.run("insert into s select g from generate_series(1, 9) g")
    _other_order(db, "s")
    db.run(
        "create function one_of() returns int language plpgsql immutable as 'begin return (select id from s limit 1); end'",
        "create function clock() returns text language plpgsql immutable as 'begin return clock_timestamp()::text; end'",
        "create function plain(t text) returns text language sql immutable as $$ select upper(t) || '!' $$",
        "create table k (v int, w text)",
        "select create_reference_table('k')",
        "insert into r values (50, one_of(), clock()), (51, one_of(), plain('a'))",
        "alter table r alter w set default clock()",
        "insert into r (id) values (52), (53)",
        "insert into k values (1, plain('a'))",
        "update k set w = plain(w)",
    )
    db.same_copies("r")
    assert db.same_copies("k") == [(1, "A!!")]
    db.run("update k set v = one_of()")
    db.same_copies("k")

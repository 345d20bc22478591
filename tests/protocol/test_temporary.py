"""Temporary tables, types and functions of a session, compared with one server; what can't live in pg_temp says what to do."""

import psycopg
import pytest

from protocol.frames import bind, describe, execute, parse, query, sync
from protocol.raw import Raw

ALL = parse("select * from tt_changed") + bind() + describe() + execute() + sync()
NAMED = bind(statement="kept") + describe() + execute() + sync()
_MADE = query("create temporary table tt_changed (a int)") + query("insert into tt_changed values (1)")


@pytest.mark.parametrize("change", ["alter table tt_changed add b int default 5", "alter table tt_changed alter a type text"])
def test_parsed_anew_after_alter(oracle, herd, change):
    data = _MADE + ALL * 3 + query(change) + ALL * 2 + query("begin") + query("alter table tt_changed add c int") + ALL
    data += query("rollback") + ALL + query("drop table tt_changed") + _MADE + ALL
    with Raw(oracle) as plain, Raw(herd) as other:
        assert other.transcript(data, 16) == plain.transcript(data, 16)


def test_a_statement_kept_is_not_parsed_anew(oracle, herd):
    data = _MADE + parse("select * from tt_changed", name="kept") + sync() + NAMED + query("alter table tt_changed add b int")
    data += NAMED + ALL
    with Raw(oracle) as plain, Raw(herd) as other:
        answers = other.transcript(data, 7), plain.transcript(data, 7)
        # PostgreSQL refuses when it binds, the herd when it executes.
        assert [[line for line in lines if line[0] in "ECD"] for lines in answers][0] == [line for line in answers[1] if line[0] in "ECD"]


TYPES = (
    "create domain pg_temp.dd as int check (value > 2)", "select 3::pg_temp.dd", "select 1::pg_temp.dd",
    "create temporary table td (a pg_temp.dd)", "insert into td values (1)", "insert into td values (7)", "select a from td",
    "alter domain pg_temp.dd set not null", "insert into td values (null)", "create type pg_temp.ty as (a int, b text)",
    "select (row(1, 'x')::pg_temp.ty).b", "create type pg_temp.mood as enum ('low', 'high')", "select 'low'::pg_temp.mood < 'high'",
    "alter type pg_temp.mood add value 'top'", "select 'top'::pg_temp.mood", "drop type pg_temp.mood", "select 'low'::pg_temp.mood",
    "drop table td", "drop domain pg_temp.dd", "select 3::pg_temp.dd",
)


@pytest.mark.parametrize("block", [False, True])
def test_types(oracle, herd, block):
    told = []
    for server in (oracle, herd):
        with server.connect() as connection:
            lines = []
            for sql in ("begin", "create domain pg_temp.dd as int", "commit", *TYPES) if block else TYPES:
                try:
                    cursor = connection.execute(sql)
                    lines.append((sql, cursor.fetchall() if cursor.description else cursor.statusmessage))
                except psycopg.Error as e:
                    lines.append((sql, e.sqlstate, e.diag.message_primary))
            told.append(lines)
    assert told[1] == told[0]


@pytest.mark.real_herd
def test_types_that_would_hide_others_are_refused(herd):
    with herd.connect() as connection:
        for sql in ("drop type if exists tt_mood", "drop domain if exists tt_dm", "create type tt_mood as enum ('b', 'a')", "create domain tt_dm as int check (value < 100)"):
            connection.execute(sql)
        for sql in ("create type pg_temp.tt_mood as enum ('a', 'b')", "create domain pg_temp.tt_dm as int check (value > 100)", "create type pg_temp.tt_mood as (a int)",
                    "create type pg_temp.tt_dm as range (subtype = int)"):
            with pytest.raises(psycopg.errors.FeatureNotSupported):
                connection.execute(sql)
        assert connection.execute("select 'b'::tt_mood < 'a'::tt_mood, 3::tt_dm").fetchone() == (True, 3)
        connection.execute("drop type tt_mood; drop domain tt_dm")


_HIDES = {
    "built-in": ["create domain pg_temp.float8 as int"],
    "made later": ["create type pg_temp.tt_mood as enum ('a', 'b')", "MAKE"],
    "renamed": ["MAKE", "create type pg_temp.tt_other as enum ('a', 'b')", "alter type pg_temp.tt_other rename to tt_mood"],
    "by code": ["MAKE", "do $$ begin execute 'create type pg_temp.tt_mood as enum (''a'', ''b'')'; end $$"],
    "by code in a block": ["MAKE", "begin", "do $$ begin create type pg_temp.tt_mood as enum ('a', 'b'); end $$"],
}


@pytest.mark.real_herd
@pytest.mark.parametrize("protocol", ["simple", "extended"])
@pytest.mark.parametrize("how", _HIDES.values(), ids=_HIDES)
def test_types_that_come_to_hide_others_end_what_other_nodes_would_do(herd, how, protocol):
    asks = "select count(*) from tt_d where k = 3 and 'b'::tt_mood < 'a'::tt_mood and 1.5::float8 > 1"
    herd.run("drop table if exists tt_d", "drop type if exists tt_mood", "create table tt_d (k int)", "select create_distributed_table('tt_d', 'k')",
             "insert into tt_d values (1), (2), (3), (4)")
    prepare = protocol == "extended"
    try:
        with herd.connect() as connection, herd.connect() as other:
            if "MAKE" not in how:
                other.execute("create type tt_mood as enum ('b', 'a')")
                assert connection.execute(asks, prepare=prepare).fetchone() == (1,)
            for step in how:
                other.execute("create type tt_mood as enum ('b', 'a')") if step == "MAKE" else connection.execute(step)
            for sql in (asks, "select count(*) from tt_d", "create table tt_e (a float8)", "copy (select 1.5::float8) to stdout"):
                if connection.info.transaction_status == psycopg.pq.TransactionStatus.INERROR:
                    break
                with pytest.raises(psycopg.errors.FeatureNotSupported) as e:
                    connection.execute(sql, prepare=prepare)
                assert "Drop it" in e.value.diag.message_hint
            if "begin" in how:
                connection.execute("rollback")
            else:
                connection.execute("drop domain if exists pg_temp.float8")
                connection.execute("drop type if exists pg_temp.tt_mood")
            assert connection.execute(asks, prepare=prepare).fetchone() == (1,)
    finally:
        herd.run("drop table tt_d", "drop type tt_mood")


FUNCTIONS = (
    "create function pg_temp.twice(a int) returns int language sql immutable as 'select a * 2'", "select pg_temp.twice(4)",
    "select k, pg_temp.twice(k) from tf_local where pg_temp.twice(k) > 2 order by 1", "select k from tf_kept where pg_temp.twice(k) = 4",
    "select count(*) from tf_local l join tf_kept r on r.k = pg_temp.twice(l.k)",
    "create procedure pg_temp.adds(a int) language plpgsql as 'begin insert into tf_local values (a); end'", "call pg_temp.adds(7)",
    "select k from tf_local order by 1", "do $$ begin perform pg_temp.twice(1); call pg_temp.adds(8); end $$", "select max(k) from tf_local",
    "create function pg_temp.rows(n int) returns table (a int, b text) language sql as $$ select g, 'r' || g from generate_series(1, n) g $$",
    "select * from pg_temp.rows(3) where a > 1", "insert into tf_local select pg_temp.twice(a) + 100 from pg_temp.rows(2)", "select k from tf_local order by 1",
    "create temp table tf_temp (k int)", "insert into tf_temp select a from pg_temp.rows(4)", "select sum(pg_temp.twice(k)) from tf_temp",
    "update tf_local set k = pg_temp.twice(k) where k = 7", "delete from tf_local where k = pg_temp.twice(7)", "select k from tf_local order by 1",
    "prepare tf as select pg_temp.twice($1)", "execute tf(21)", "explain (costs off) select pg_temp.twice(1)",
    "create or replace function pg_temp.twice(a int) returns int language sql immutable as 'select a * 3'", "select pg_temp.twice(4)",
    "alter function pg_temp.twice(int) cost 7", "select twice(4)", "begin", "create function pg_temp.gone() returns int language sql as 'select 1'",
    "select pg_temp.gone()", "rollback", "select pg_temp.gone()", "drop function pg_temp.twice(int)", "select pg_temp.twice(4)",
)


@pytest.fixture
def tables(oracle, herd):
    for server in (oracle, herd):
        for name in ("tf_local", "tf_kept", "tf_spread"):
            server.run(f"drop table if exists {name}", f"create table {name} (k int)")
    herd.run("select create_reference_table('tf_kept')", "select create_distributed_table('tf_spread', 'k')")
    for server in (oracle, herd):
        for name in ("tf_local", "tf_kept", "tf_spread"):
            server.run(f"insert into {name} values (1), (2), (3)")
    yield oracle, herd
    for server in (oracle, herd):
        server.run("drop table tf_local, tf_kept, tf_spread")


@pytest.mark.parametrize("prepare", [False, True])
def test_functions(tables, prepare):
    told = []
    for server in tables:
        with server.connect(autocommit=True) as connection:
            lines = []
            for sql in FUNCTIONS:
                try:
                    cursor = connection.execute(sql, prepare=prepare and not sql.startswith("execute"))
                    lines.append((sql, cursor.fetchall() if cursor.description else cursor.statusmessage))
                except psycopg.Error as e:
                    lines.append((sql, e.sqlstate, e.diag.message_primary))
            told.append(lines)
    assert told[1] == told[0]


def _refused(connection, sql: str) -> None:
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        connection.execute(sql)


@pytest.mark.real_herd
def test_what_functions_may_not(tables):
    """They are the session's, on home: other nodes have none, nothing is made of them, and what every node has they do not touch."""
    herd = tables[1]
    with herd.connect(autocommit=True) as connection:
        for sql in (
            "create aggregate pg_temp.g (int) (sfunc = int4pl, stype = int)", "create operator pg_temp.=== (leftarg = int, rightarg = int, function = int4pl)",
        ):
            _refused(connection, sql)
        for sql in (
            "create function pg_temp.f(a int) returns int language sql as 'select a'", "create function pg_temp.t() returns trigger language plpgsql as 'begin return new; end'",
            "create function pg_temp.counts() returns bigint language sql as 'select count(*) from tf_spread'",
            "create function pg_temp.writes() returns int language plpgsql as 'begin insert into tf_kept values (9); return 1; end'",
            "create function pg_temp.puts() returns int language plpgsql as $$ begin execute 'alter table tf_' || 'kept add column x int'; return 1; end $$",
        ):
            connection.execute(sql)
        for sql in (
            "select pg_temp.counts()", "select pg_temp.writes()", "select pg_temp.puts()", "do $$ begin perform pg_temp.writes(); end $$",
            "insert into tf_local select pg_temp.counts()", "update tf_local set k = pg_temp.writes()",
            "select k, pg_temp.f(k) from tf_spread", "select k from tf_spread where k = 1 and pg_temp.f(k) = 1", "update tf_spread set k = k where pg_temp.f(k) = 1",
            "delete from tf_kept where pg_temp.f(k) = 1", "insert into tf_kept values (pg_temp.f(1))",
            "alter table tf_local alter k set default pg_temp.f(1)", "alter table tf_local add check (pg_temp.f(k) > 0)", "create index on tf_local (pg_temp.f(k))",
            "create trigger t before insert on tf_local for each row execute function pg_temp.t()", "create view tf_view as select pg_temp.f(k) from tf_local",
            "create temp view tf_view as select pg_temp.f(k) from tf_local", "create temp table tf_x (k int default pg_temp.f(1))", "create table tf_x as select pg_temp.f(1) as k",
            "create cast (int as point) with function pg_temp.f(int)", "create aggregate tf_a (int) (sfunc = pg_temp.f, stype = int)",
            "create function tf_f() returns int begin atomic select pg_temp.f(1); end", "create policy p on tf_local using (pg_temp.f(k) = 1)",
        ):
            _refused(connection, sql)
        assert connection.execute("select pg_temp.f(5), (select count(*) from tf_kept)").fetchone() == (5, 3)
        assert connection.execute("select count(*) from tf_spread").fetchone() == (3,)
    with herd.connect(autocommit=True) as other:
        with pytest.raises((psycopg.errors.UndefinedFunction, psycopg.errors.InvalidSchemaName)):
            other.execute("select pg_temp.f(1)")


_LEAVES = (
    "create schema if not exists tf_s", "create table if not exists tf_s.tf_spread (k int)",
    "create function pg_temp.moves() returns text language sql as $$ select set_config('search_path', 'tf_s, public', false) $$",
    "create function pg_temp.sets() returns text language plpgsql as $$ begin return set_config('app.' || 'kept', 'x', false); end $$",
    "select pg_temp.moves()", "show search_path", "select count(*) from tf_spread", "reset search_path", "select pg_temp.sets()", "show app.kept",
    "select current_setting('app.kept'), count(*) from tf_spread", "do $$ begin perform pg_temp.moves(); end $$", "select count(*) from tf_spread",
    "begin", "reset search_path", "select pg_temp.moves()", "rollback", "reset search_path", "select count(*) from tf_spread", "drop schema tf_s cascade",
)


def test_what_functions_leave_in_the_session(tables):
    told = []
    for server in tables:
        with server.connect(autocommit=True) as connection:
            cursors = [connection.execute(sql) for sql in _LEAVES]
            told.append([cursor.fetchall() if cursor.description else cursor.statusmessage for cursor in cursors])
    assert told[1] == told[0]


@pytest.mark.real_herd
def test_code_that_calls_temporary_functions_is_watched(tables):
    """What a function's body calls in pg_temp is whatever its caller has there."""
    herd = tables[1]
    try:
        with herd.connect(autocommit=True) as connection:
            connection.execute("create function tf_calls() returns int language plpgsql as 'begin return pg_temp.writes(); end'")
            connection.execute("create function pg_temp.writes() returns int language plpgsql as 'begin insert into tf_kept values (9); return 1; end'")
            _refused(connection, "select tf_calls()")
            _refused(connection, "select tf_calls() from tf_local")
            assert connection.execute("select count(*) from tf_kept").fetchone() == (3,)
    finally:
        herd.run("drop function tf_calls()")


# Lasting tables of every kind, and a temporary one that hides each in the session: whatever is said of the name is said of that.
_HIDING = [f"create temporary table {name} (k int, v text)" for name in ("th_local", "th_kept", "th_spread")]
_OF_HIDDEN = [
    "insert into th_local values (1, 't')", "insert into th_spread values (1, 't'), (2, 't'), (3, 't')", "insert into th_kept values (7, 't'), (1, 't')",
    "update only th_spread set v = 'u' where k = 2", "delete from only th_kept where k = 1", "select count(*) from th_local", "select k, v from only th_spread order by k",
    "select tableoid::regclass::text like 'th_spread' from th_spread limit 1", "with w as (select 1 from th_local) select count(*) from th_spread",
    "merge into th_spread t using (values (2)) s (k) on t.k = s.k when matched then update set v = 'm'", "select k, v from th_spread order by k",
    "insert into th_local select k, v from th_other", "insert into th_spread select k, v from th_other where k < 3",
]
_HIDDEN_ONES = [f"select count(*), max(v) from public.{name}" for name in ("th_local", "th_kept", "th_spread")]


def test_what_hides_lasting_tables(oracle, herd):
    names = ("th_local", "th_kept", "th_spread", "th_other")
    answers = []
    for server in (oracle, herd):
        with psycopg.connect(server.url, autocommit=True) as c:
            c.execute("".join(f"drop table if exists public.{n};" for n in names))
            for n in names:
                c.execute(f"create table public.{n} (k int, v text)")
                c.execute(f"insert into public.{n} select n, 'lasting' from generate_series(1, 9) n")
            if server is herd:
                c.execute("select create_reference_table('public.th_kept')")
                c.execute("select create_distributed_table('public.th_spread', 'k')")
                c.execute("select create_distributed_table('public.th_other', 'k')")
            said = []
            for statement in _HIDING + _OF_HIDDEN + _HIDDEN_ONES:
                try:
                    cursor = c.execute(statement)
                    said.append((statement, cursor.statusmessage, sorted(cursor.fetchall()) if cursor.description else None))
                except psycopg.Error as e:
                    said.append((statement, e.sqlstate, None))
            answers.append(said)
            c.execute("".join(f"drop table if exists pg_temp.{n};" for n in names[:3]) + "".join(f"drop table public.{n};" for n in names))
    different = [(a, b) for a, b in zip(*answers) if a != b and b[1] != "0A000"]
    assert different == []
    assert [b for b in answers[1] if b[1] == "0A000" and "th_other" not in b[0]] == []


# The session's transactions, statement by statement, while tg_spread (100 rows) is distributed and tg_late is looked up.
_MAKES = "execute 'create temp table ' || chr(116) || 'g_spread (k int)'"
_GOES = {
    "rolled back": ["begin", "create temp table tg_spread (k int)", "LOOK", "rollback"],
    "rolled back to a savepoint": ["begin", "savepoint s", "create temp table tg_spread (k int)", "LOOK", "rollback to s", "LOOK", "commit"],
    "a savepoint is released": [
        "begin", "savepoint a", "create temp table tg_spread (k int)", "release a", "savepoint b", "rollback to b", "LOOK", "rollback",
    ],
    "on commit drop": ["begin", "create temp table tg_spread (k int) on commit drop", "LOOK", "commit"],
    "on commit drop, by itself": ["create temp table tg_spread (k int) on commit drop"],
    "a drop rolled back": ["create temp table tg_spread (k int)", "begin", "drop table tg_spread", "LOOK", "rollback"],
    "a drop rolled back to a savepoint": [
        "create temp table tg_spread (k int)", "begin", "savepoint s", "drop table tg_spread", "LOOK", "rollback to s", "LOOK", "commit",
    ],
    "renamed away": ["create temp table tg_spread (k int)", "alter table tg_spread rename to tg_other", "LOOK", "alter table tg_other rename to tg_spread"],
    "renamed to": ["create temp table tg_other (k int)", "begin", "alter table tg_other rename to tg_spread", "LOOK", "rollback"],
    "dropped with what it is made of": [
        "create temp table tg_other (k int)", "create temp view tg_view as select k from tg_other",
        "alter view tg_view rename to tg_spread", "LOOK", "drop table tg_other cascade",
    ],
    "made by code": [f"do $$ begin {_MAKES}; end $$", "LOOK", "do $$ begin drop table pg_temp.tg_spread; end $$"],
    "made by code, rolled back": ["begin", f"do $$ begin {_MAKES}; end $$", "LOOK", "rollback"],
    "dropped by code in a block": ["create temp table tg_spread (k int)", "begin", "do $$ begin drop table pg_temp.tg_spread; end $$", "LOOK", "rollback"],
    "dropped by code, on commit drop": ["begin", f"do $$ begin {_MAKES.replace('int)', 'int) on commit drop')}; end $$", "LOOK", "commit"],
    "made by a query": [
        "select 1 as k into temp tg_other", "alter table tg_other rename to tg_spread", "LOOK", "begin", "drop table tg_spread",
        "create temp table tg_other as select 1 as k union all select 2", "alter table tg_other rename to tg_spread", "LOOK", "rollback",
    ],
    "a view": ["create temp view tg_spread as select 1 as k", "LOOK", "drop view tg_spread"],
    "an index": ["create temp table tg_other (k int)", "create index tg_index on tg_other (k)", "drop index tg_index", "drop index tg_index"],
    "a sequence": ["create temp sequence tg_spread", "LOOK", "drop sequence tg_spread"],
    "discarded": ["create temp table tg_spread (k int)", "discard temp", "LOOK", "create temp table tg_spread (k int)", "discard all"],
    "behind public in the path": [
        "create temp table tg_spread (k int)", "set search_path = public, pg_temp", "LOOK", "set search_path = pg_temp, public", "LOOK", "reset search_path",
    ],
    "an error": ["begin", "create temp table tg_spread (k int)", "select 1 / 0", "rollback"],
    "an error behind a savepoint": ["begin", "savepoint s", "create temp table tg_spread (k int)", "select 1 / 0", "rollback to s", "LOOK", "commit"],
    "several at once": ["create temp table tg_spread (k int); drop table tg_spread; create temp table tg_spread (k int)"],
    "several at once, that fail": ["create temp table tg_spread (k int); select 1 / 0"],
    "a setting behind a released savepoint": [
        "begin", "savepoint a", "set local work_mem = '5MB'", "set extra_float_digits = 2", "release a", "savepoint b", "rollback to b",
        "select current_setting('work_mem'), current_setting('extra_float_digits')", "commit", "show extra_float_digits",
    ],
}
_LOOK = ["select count(*), sum(k) from tg_spread", "update tg_spread set k = k where k < 50", "select k from tg_spread where k = 7"]


@pytest.fixture
def going(oracle, herd):
    for server in (oracle, herd):
        server.run("drop table if exists tg_spread", "create table tg_spread (k int)", "insert into tg_spread select generate_series(1, 100)", "create index tg_index on tg_spread (k)")
    herd.run("select create_distributed_table('tg_spread', 'k')")


@pytest.mark.parametrize("name", _GOES)
def test_what_comes_and_goes(going, oracle, herd, name):
    """What a name means goes with the temporary table, however that goes."""

    def said(server):
        lines = []
        with server.connect(autocommit=True) as connection:
            for sql in [s for line in [*_GOES[name], "LOOK"] for s in (_LOOK if line == "LOOK" else [line])]:
                try:
                    cursor = connection.execute(sql)
                    lines.append((sql, cursor.fetchall() if cursor.description else cursor.statusmessage))
                except psycopg.Error as e:
                    lines.append((sql, e.sqlstate, e.diag.message_primary))
        return lines

    assert said(herd) == said(oracle)


def test_tables_are_not_made_of_a_part(herd):
    """Home by itself would read its part of the distributed table, and the temporary one only it has."""
    herd.run(
        "create table tnp_d (k int primary key)", "select create_distributed_table('tnp_d', 'k')", "insert into tnp_d select generate_series(1, 20)",
        "create table tnp_r (id int, v int)", "select create_reference_table('tnp_r')", "insert into tnp_r select g, g from generate_series(1, 20) g",
    )
    try:
        with psycopg.connect(herd.conninfo, autocommit=True) as connection:
            for made in ("table", "temporary table", "materialized view"):
                with pytest.raises(psycopg.errors.FeatureNotSupported):
                    connection.execute(f"explain analyze create {made} tnp_made as select * from tnp_d")
            connection.execute("create temporary table tnp_r (id int, v int)")
            connection.execute("insert into tnp_r values (1, 100), (2, 200)")
            connection.execute("create table tnp_made as select k, v from tnp_d join tnp_r on id = k")
            assert connection.execute("select k, v from tnp_made order by k").fetchall() == [(1, 100), (2, 200)]
            connection.execute("drop table tnp_made")
            assert connection.execute("explain create table tnp_made as select count(*) from tnp_d").fetchall()
    finally:
        herd.run("drop table tnp_d, tnp_r")


def test_a_statement_that_is_looked_after_keeps_its_columns(oracle, herd):
    """Where a type of anybody's leaves something in sessions, statements on temporary tables run by their trees."""
    made = "create function tt_locks(int) returns bool language sql volatile as 'select pg_advisory_lock(1) is null'", "create domain tt_locking as int check (tt_locks(value))"
    herd.run(*made)
    try:
        test_a_statement_kept_is_not_parsed_anew(oracle, herd)
    finally:
        herd.run("drop domain tt_locking", "drop function tt_locks(int)")

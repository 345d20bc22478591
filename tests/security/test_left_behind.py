"""What a statement leaves in the session stays with the session: nothing of it reaches another client of the same role, whatever
kind of statement it was; and the session itself goes on as on PostgreSQL."""

import time

import psycopg
import pytest
from psycopg.pq import DiagnosticField, ExecStatus

from harness.plain_postgres import PlainPostgres

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("security")]

_LEAVE = "concat(set_config('app.left', 'x', false), set_config('work_mem', '7MB', false), pg_advisory_lock(77))"
_SET = "concat(set_config('app.left', 'x', false), set_config('work_mem', '7MB', false))"
# Left to a new session: nothing. A parameter that was set once and reset is shown as ''.
_NOW = "select nullif(current_setting('app.left', true), ''), current_setting('work_mem')"
_DROP = "drop schema if exists left_s cascade"
_BASE = [
    "create schema left_s", "create table left_s.d (k int primary key, v text)",
    "insert into left_s.d select g, 'v' || g from generate_series(1, 20) g",
]
# Name: what is there beforehand, and what is run by the client.
CASES = {
    "explain analyze": ([], [f"explain analyze select {_LEAVE}"]),
    "copy a query": ([], [f"copy (select {_LEAVE}) to stdout"]),
    "cursor": ([], ["begin", f"declare c cursor for select {_LEAVE}", "fetch all from c", "commit"]),
    "cursor over nodes": ([], ["begin", f"declare c cursor for select k, {_SET} from left_s.d", "fetch all from c", "commit"]),
    "cursor with hold": ([], [f"declare c cursor with hold for select {_LEAVE}", "fetch all from c", "close c"]),
    "create table as": ([], [f"create table left_s.made as select {_LEAVE} as a"]),
    "select into": ([], [f"select {_LEAVE} as a into left_s.made"]),
    "materialized view": ([], [f"create materialized view left_s.made as select {_LEAVE} as a", "refresh materialized view left_s.made"]),
    "ts_stat": ([], [f"select * from ts_stat($$select to_tsvector({_LEAVE})$$)"]),
    "ts_rewrite": ([], [f"select ts_rewrite('a'::tsquery, $$select 'a'::tsquery, to_tsquery(left({_LEAVE}, 0) || 'b')$$)"]),
    "update pg_settings": ([], ["update pg_settings set setting = '7168' where name = 'work_mem'"]),
    "view over pg_settings": (["create view left_s.s as select * from pg_settings"], ["update left_s.s set setting = '7168' where name = 'work_mem'"]),
    "default": ([f"create table left_s.t (a int, b text default {_LEAVE})"], ["insert into left_s.t values (1)"]),
    "default, copy": ([f"create table left_s.t (a int, b text default {_LEAVE})"], ["copy left_s.t (a) from stdin"]),
    "check": ([f"create table left_s.t (a int check ({_LEAVE} is not null))"], ["insert into left_s.t values (1)"]),
    "check added": (["create table left_s.t (a int)", "insert into left_s.t values (1)"], [f"alter table left_s.t add check ({_LEAVE} is not null)"]),
    "type using": (["create table left_s.t (a int)", "insert into left_s.t values (1)"], [f"alter table left_s.t alter a type text using {_LEAVE}"]),
    "column added": (["create table left_s.t (a int)", "insert into left_s.t values (1)"], [f"alter table left_s.t add b text default {_LEAVE}"]),
    "rule": (["create table left_s.t (a int)", f"create rule r as on insert to left_s.t do also select {_LEAVE}"], ["insert into left_s.t values (1)"]),
    "trigger's condition": (
        ["create table left_s.t (a int)", "create function left_s.keep() returns trigger language plpgsql as 'begin return new; end'",
         f"create trigger z before insert on left_s.t for each row when ({_LEAVE} is not null) execute function left_s.keep()"],
        ["insert into left_s.t values (1)"],
    ),
    "domain": ([f"create domain left_s.dom as text check ({_LEAVE} is not null)"], ["select 'a'::left_s.dom"]),
    "domain's default": ([f"create domain left_s.dom as text default {_LEAVE}", "create table left_s.t (a int, b left_s.dom)"], ["insert into left_s.t values (1)"]),
    "default argument": ([f"create function left_s.f(a text default {_LEAVE}) returns text language sql as 'select a'"], ["select left_s.f()"]),
    "operator": (["create operator left_s.@@@ (procedure = pg_advisory_lock, rightarg = bigint)"], ["select operator(left_s.@@@) 77::bigint"]),
    "operator, two sides": (["create operator left_s.@@@ (procedure = pg_advisory_lock, leftarg = int, rightarg = int)"], ["select 7 operator(left_s.@@@) 7"]),
    "row's function": (
        ["create type left_s.two as (a int)", f"create function left_s.leaver(left_s.two) returns text language sql as $$ select {_LEAVE} $$"],
        ["set search_path = left_s, public", "select (x).leaver from (select row(1)::left_s.two as x) s", "reset search_path"],
    ),
    "argument's domain": (
        [f"create domain left_s.dom as text check ({_LEAVE} is not null)", "create function left_s.g(left_s.dom) returns int language sql as 'select 1'"],
        ["select left_s.g('a')"],
    ),
    "column's domain, inside": (
        [f"create domain left_s.dom as text check ({_LEAVE} is not null)", "create type left_s.two as (a left_s.dom)", "create table left_s.t (a int, b left_s.two[])"],
        ["insert into left_s.t values (1, array[row('a')]::left_s.two[])"],
    ),
    "rows' type": (
        [f"create domain left_s.dom as text check ({_LEAVE} is not null)"],
        ["select * from json_to_record('{\"a\": \"x\"}') as r (a left_s.dom)"],
    ),
    "operator of a column's type": (
        ["create type left_s.two as (a int)",
         f"create function left_s.eq(left_s.two, left_s.two) returns bool language plpgsql as $$ begin return {_LEAVE} is not null; end $$",
         "create operator left_s.= (leftarg = left_s.two, rightarg = left_s.two, function = left_s.eq)", "create table left_s.t (a int, b left_s.two)",
         "insert into left_s.t values (1, row(1))"],
        ["set search_path = left_s, public", "select a from t where b in (select b from t)", "reset search_path"],
    ),
    "operator inside a function": (
        ["create type left_s.two as (a int)",
         f"create function left_s.eq(left_s.two, left_s.two) returns bool language plpgsql as $$ begin return {_LEAVE} is not null; end $$",
         "create operator left_s.= (leftarg = left_s.two, rightarg = left_s.two, function = left_s.eq)", "create table left_s.t (a int, b left_s.two)",
         "insert into left_s.t values (1, row(1))",
         "create function left_s.h() returns int language plpgsql as $$ begin return (select a from left_s.t where b in (select b from left_s.t)); end $$"],
        ["set search_path = left_s, public", "select h()", "reset search_path"],
    ),
    "path of its own": (
        [f"create function left_s.leaver() returns text language sql as $$ select {_LEAVE} $$",
         "create function left_s.h() returns text language plpgsql set search_path = left_s as $$ begin return leaver(); end $$"],
        ["select left_s.h()"],
    ),
    "named by characters' numbers": (
        ["""create function left_s.h() returns text language plpgsql as $$ begin return concat(U&"\\0073et_config"('app.left', 'x', false), U&"\\0070g_advisory_lock"(77)); end $$"""],
        ["select left_s.h()"],
    ),
    "do, named by characters' numbers": ([], ["""do $$ begin perform U&"\\0073et_config"('app.left', 'x', false), U&"\\0070g_advisory_lock"(77); end $$"""]),
    "partition's bound": (["create table left_s.t (a text) partition by list (a)"], [f"create table left_s.p partition of left_s.t for values in ({_LEAVE})"]),
    "prepared": ([], [f"prepare p as select {_LEAVE}", "execute p"]),
    "explain execute": ([], [f"prepare p as select {_LEAVE}", "explain analyze execute p"]),
    "lock": ([], ["select pg_advisory_lock(77)"]),
    "lock, tried": ([], ["select pg_try_advisory_lock_shared(77)"]),
    "xml": (["create view left_s.v as select " + _LEAVE], ["select table_to_xml('left_s.v', true, true, '')"]),
}
# The same where a type stands in what is stored, or is named by a text, by its number or by a parameter's type: what is beforehand,
# and what is run. `left_s.dom` leaves something, `left_s.comp` has a column of it.
_TYPES = [
    f"create domain left_s.dom as text check ({_LEAVE} is not null)", "create type left_s.comp as (a int, d left_s.dom)",
    "create type left_s.span as range (subtype = left_s.dom)",
]
_NOTED = "create table left_s.t (a int, b text default ('x'::left_s.dom)::text)"
_TAKERS = {
    "pg_input_is_valid": "pg_input_is_valid('x', 'left_s.dom')",
    "pg_input_error_info": "(select message from pg_input_error_info('x', 'left_s.dom')) is null",
    "array_in": "array_in('{x}', 'left_s.dom'::regtype, -1) is not null",
    "record_in": "record_in('(1,x)', 'left_s.comp'::regtype, -1) is not null",
    "range_in": "range_in('[a,b]', 'left_s.span'::regtype, -1) is not null",
    "domain_in": "domain_in('x', 'left_s.dom'::regtype, -1) is not null",
}
STORED = {
    "default": ([_NOTED], ["insert into left_s.t values (1)"]),
    "default, update": ([_NOTED, "insert into left_s.t values (1, 'a')"], ["update left_s.t set b = default"]),
    "default, with": ([_NOTED], ["with w as (insert into left_s.t values (1) returning a) select * from w"]),
    "default, merge": (
        [_NOTED], ["merge into left_s.t using (values (1)) s (a) on t.a = s.a when not matched then insert (a) values (s.a)"]),
    "default, child": ([_NOTED, "create table left_s.child () inherits (left_s.t)"], ["insert into left_s.child values (1)"]),
    "check": (["create table left_s.t (b text check ((b::left_s.dom)::text is not null))"], ["insert into left_s.t values ('a')"]),
    "check, array": (["create table left_s.t (b text check ((b::left_s.dom[]) is not null))"], ["insert into left_s.t values ('{a}')"]),
    "check, row": (["create table left_s.t (b text check ((b::left_s.comp) is not null))"], ["insert into left_s.t values ('(1,a)')"]),
    "check, rows of json": (
        ["create table left_s.t (b json check (json_populate_record(null::left_s.comp, b) is distinct from null))"], ["insert into left_s.t values ('{\"d\": \"x\"}')"]),
    "policy": (
        ["create table left_s.t (b text)", "insert into left_s.t values ('a')", "create policy p on left_s.t using ((b::left_s.dom)::text is not null)",
         "alter table left_s.t enable row level security", "alter table left_s.t force row level security"],
        ["select * from left_s.t"],
    ),
    "rule": (["create table left_s.t (b text)", "create rule r as on insert to left_s.t do also select new.b::left_s.dom"], ["insert into left_s.t values ('a')"]),
    "rule, rows of json": (
        ["create table left_s.t (b text)", "create rule r as on insert to left_s.t do also select x.* from json_to_record('{\"d\": \"x\"}') as x (d left_s.dom)"],
        ["insert into left_s.t values ('a')"],
    ),
    "body": (["create function left_s.f() returns text language sql begin atomic select 'x'::left_s.dom::text; end"], ["select left_s.f()"]),
    "body, json_value": (
        ["create function left_s.f() returns text language sql begin atomic select json_value('\"x\"', '$' returning left_s.dom)::text; end"], ["select left_s.f()"]),
    "argument's default": (["create function left_s.f(a text default 'x'::left_s.dom) returns text language sql return a"], ["select left_s.f()"]),
    "rows of json_table": ([], ["""select * from json_table('[{"d": "x"}]', '$[*]' columns (d left_s.dom))"""]),
    "temporary table": ([], ["create temp table tt (b left_s.dom)", "insert into tt values ('a')", "drop table tt"]),
    "prepared, by its type": ([], ["prepare p (left_s.dom) as select $1", "execute p('x')"]),
    **{name: ([], [f"select {call}"]) for name, call in _TAKERS.items()},
    **{f"{name}, in a check": ([f"create table left_s.t (a int check ({call}))"], ["insert into left_s.t values (1)"])
       for name, call in _TAKERS.items() if "select" not in call},
    **{f"{name}, in a body": ([f"create function left_s.f() returns bool stable language sql as $$ select {call} $$"], ["select left_s.f()"])
       for name, call in _TAKERS.items()},
    "named at run time": ([], ["select pg_input_is_valid('x', 'left' || chr(95) || 's.d' || 'om')"]),
    "do": ([], ["do $$ begin perform pg_input_is_valid('x', 'left' || chr(95) || 's.d' || 'om'); end $$"]),
    **{f"parameter, {name}": ([], [(name, value)]) for name, value in {"dom": "x", "_dom": "{x}", "comp": "(1,x)"}.items()},
}
CASES |= {f"type in what is stored: {name}": (_TYPES + before, statements) for name, (before, statements) in STORED.items()}
# Run by several nodes, or by one that is not home.
NODES = {
    "explain analyze, key": ([], [f"explain analyze select {_SET} from left_s.d where k = {k}" for k in range(1, 7)]),
    "copy, nodes": ([], [f"copy (select k, {_SET} from left_s.d) to stdout"]),
    "copy, key": ([], [f"copy (select k, {_SET} from left_s.d where k = {k}) to stdout" for k in range(1, 7)]),
    "policy": (
        [f"create policy p on left_s.d using ({_SET} is not null)", "alter table left_s.d enable row level security"],
        ["select count(*) from left_s.d", *(f"select v from left_s.d where k = {k}" for k in range(1, 7))],
    ),
    "check, distributed": (
        ["create table left_s.c (k int primary key, v text, check (set_config('app.left', 'x', false) is not null))"],
        [f"insert into left_s.c values ({k})" for k in range(1, 7)] + ["insert into left_s.c select g from generate_series(10, 30) g"],
    ),
    "default, distributed": (
        ["create table left_s.c (k int primary key, v text default set_config('app.left', 'x', false))"],
        [f"insert into left_s.c values ({k})" for k in range(1, 7)],
    ),
    "create table as, nodes": ([], [f"create table left_s.made as select k, {_SET} as a from left_s.d"]),
    "lock, key": ([], [f"select pg_advisory_lock(77) from left_s.d where k = {k}" for k in range(1, 7)]),
    "lock, nodes": ([], ["select pg_advisory_lock(77) from left_s.d"]),
}


def _client(server, role="mallory"):
    return server.connect(user=role, autocommit=True)


def _bind(connection, ty: str, value: str) -> None:
    """A statement with a parameter that is declared to be of a type, by its number."""
    (oid,) = connection.execute("select t.oid from pg_type t where t.typname = %s and t.typnamespace = 'left_s'::regnamespace", (ty,)).fetchone()
    wire = connection.pgconn
    for result in (wire.prepare(b"", b"select $1", [oid]), wire.exec_prepared(b"", [value.encode()])):
        if result.status not in (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK):
            raise psycopg.errors.lookup(result.error_field(DiagnosticField.SQLSTATE).decode())(result.error_message.decode())


def _run(connection, statements) -> bool:
    """False: the router refused something, which leaves nothing."""
    for sql in statements:
        try:
            if isinstance(sql, tuple):
                _bind(connection, *sql)
            elif sql.startswith("copy "):
                with connection.cursor().copy(sql) as copy:
                    if " from stdin" in sql:
                        copy.write("1\n")
                    else:
                        for _ in copy:
                            pass
            else:
                connection.execute(sql)
        except psycopg.errors.FeatureNotSupported as error:
            print(sql, error)
            connection.execute("rollback")
            return False
    return True


@pytest.fixture(scope="module")
def plain():
    server = PlainPostgres("left")
    server.server.run("create role mallory login")
    yield server.server
    server.stop()


def _prepare(server, before, distribute: bool) -> None:
    server.run(_DROP)
    with server.connect() as boss:
        for sql in ["grant create on database postgres to mallory", "set role mallory", *_BASE, *before, "reset role"]:
            boss.execute(sql)
        if distribute:
            for table, key in (("d", "k"), ("c", "k")):
                if boss.execute(f"select to_regclass('left_s.{table}')").fetchone()[0]:
                    boss.execute(f"select create_distributed_table('left_s.{table}', '{key}')")


def _everywhere(place) -> set:
    """Advisory locks that last on all nodes, with what held them last said. DDL's own are not sessions'."""
    seen = set()
    for number in range(3):
        with place.on_node(number) as boss:
            seen |= {(number, *row) for row in boss.execute(
                "select l.objid, a.query from pg_locks l join pg_stat_activity a using (pid) where l.locktype = 'advisory' and a.usename = 'mallory'")}
    return seen


def _nothing_is_left(place) -> None:
    deadline = time.monotonic() + 60
    while (locks := _everywhere(place)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not locks, locks
    # Several at once: all idle connections are used.
    others = [_client(place.server) for _ in range(4)]
    try:
        for other in others:
            other.execute("begin")
            assert other.execute(_NOW).fetchone() == (None, "4MB")
            said = other.execute("select distinct nullif(current_setting('app.left', true), ''), current_setting('work_mem') from left_s.d").fetchall()
            assert said in ([(None, "4MB")], []), said
    finally:
        for other in others:
            other.close()


@pytest.mark.parametrize("name", [*CASES, *NODES])
def test_nothing_reaches_another_client(place, plain, name):
    before, statements = (CASES | NODES)[name]
    _prepare(place.server, before, True)
    _prepare(plain, before, False)
    said = []
    for server in (plain, place.server):
        with _client(server) as session:
            done = _run(session, statements)
            locks = session.execute("select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()").fetchone()
            said.append((session.execute(_NOW).fetchone(), locks if name in CASES else None))
    _nothing_is_left(place)
    if done:
        assert said[1] == said[0]


_OTHERS_CODE = [
    "create type hers.et as (a int)", "create table hers.pq (k int, v text)",
    "create function hers.lock(hers.et, hers.et) returns bool language plpgsql as $$ begin perform pg_advisory_lock(1); perform set_config('a.b', 'c', false); return true; end $$",
    "create operator hers.= (leftarg = hers.et, rightarg = hers.et, function = hers.lock)",
    "create function hers.lower(hers.et) returns text language plpgsql as $$ begin perform nextval('hers.s'); perform pg_advisory_lock(1); return ''; end $$",
    "create function hers.k(hers.pq) returns int language plpgsql as $$ begin perform pg_advisory_lock(1); return 1; end $$",
    "create domain hers.text as text check (pg_advisory_lock(1) is not null)",
    "create view hers.local_one as select pg_advisory_lock(1)::text as l",
]
_VICTIMS = [
    "select v from left_s.pq where k = 7", "select count(*) from left_s.pq", "update left_s.pq set v = v where k = 7", "select lower(v) from left_s.pq where k = 7",
    "select x.k from left_s.pq x where lower(v) = 'a' and k in (select k from left_s.pq)", "select left_s.mine('A')", "select 'a'::text, lower('A')",
    "insert into left_s.local_one values (1)", "select * from left_s.seen where k = 7",
]


def _looked(place, since) -> list[str]:
    """What the nodes were asked last, `since` then, on connections of victim's that was no statement of his."""
    last = []
    for number in range(3):
        with place.on_node(number) as boss:
            last += [q for (q,) in boss.execute("select query from pg_stat_activity where usename = 'victim' and query_start > %s", (since,))]
    # Of a long statement only the beginning is shown.
    return [q for q in last if q.startswith(("SELECT 's', pg_catalog.lower(name)", "SELECT relname", "DISCARD", "CLOSE ALL"))]


def test_what_others_have_elsewhere_costs_nobody_anything(place):
    """Names mean what the search path gives them: nobody is looked after for what somebody has made in a schema of his own."""
    place.server.run(_DROP)
    with place.server.connect() as boss:
        for sql in ["create schema left_s authorization victim", "set role victim", "create table left_s.pq (k int primary key, v text)", "create table left_s.local_one (a int)",
                    "create function left_s.mine(text) returns text language sql stable as 'select lower($1)'", "reset role",
                    "select create_distributed_table('left_s.pq', 'k')", "set role victim", "create view left_s.seen as select k, lower(v) from left_s.pq", "reset role",
                    "set role mallory", "create sequence hers.s", *_OTHERS_CODE, "reset role"]:  # fmt: skip
            boss.execute(sql)
    try:
        # Connections of victim's that others have used before were looked after then.
        with place.on_node(0) as boss:
            deadline = time.monotonic() + 60
            while _looked(place, boss.execute("select clock_timestamp() - interval '500 ms'").fetchone()[0]):
                assert time.monotonic() < deadline
            (since,) = boss.execute("select clock_timestamp()").fetchone()
        with place.as_role("victim", autocommit=True) as victim:
            for sql in _VICTIMS:
                victim.execute(sql)
                assert not _looked(place, since), sql
            # Who looks there is looked after.
            place.server.run("grant usage on schema hers to victim")
            victim.execute("set search_path = public, hers")
            deadline = time.monotonic() + 60
            while not _looked(place, since):
                assert time.monotonic() < deadline
                victim.execute("select lower('A')")
                time.sleep(0.1)
    finally:
        place.server.run("drop schema hers cascade", "create schema hers authorization mallory")


# What changes the state of a session among the functions that come with PostgreSQL, of version 15 to 18: all else that is volatile
# (clocks, chance, files, locks of transactions, statistics, large objects, replication slots that belong to nobody) does not.
_LASTING = {
    "binary_upgrade_", "cursor_to_xml", "database_to_xml", "pg_advisory_lock", "pg_backup_", "pg_replication_origin_",
    "pg_try_advisory_lock", "query_to_xml", "schema_to_xml", "set_config", "setseed", "table_to_xml", "ts_rewrite", "ts_stat",
}


def test_views_of_postgresql_call_nothing_that_lasts(plain):
    """Only pg_settings, when it is updated."""
    lasting = " or ".join(f"starts_with(p.proname, '{word}')" for word in sorted(_LASTING))
    with plain.connect() as boss:
        rows = boss.execute(
            "select distinct c.relname::text, p.proname::text from pg_rewrite r join pg_class c on c.oid = r.ev_class, "
            "regexp_matches(r.ev_action::text || r.ev_qual::text, ':(?:funcid|opfuncid|aggfnoid|winfnoid) ([0-9]+)', 'g') m "
            f"join pg_proc p on p.oid = m[1]::oid where r.oid < 16384 and ({lasting})"
        ).fetchall()
    assert set(rows) <= {("pg_settings", "set_config")}, rows


# Of `TAKE_TYPES` in crates/catalog/src/code.rs, those that SQL can call.
_TAKE_TYPES = {"array_in", "domain_in", "multirange_in", "pg_input_error_info", "pg_input_is_valid", "range_in", "record_in"}


def test_what_makes_values_of_a_type_it_is_told(plain):
    """By a type's number, beside a text, a value of any type; by its name, whether a text is one. Enums run nothing, and anyrange has no values."""
    with plain.connect() as boss:
        rows = boss.execute(
            "select p.proname from pg_proc p join pg_type r on r.oid = p.prorettype where p.oid < 16384 and (starts_with(p.proname, 'pg_input_')"
            " or 'cstring'::regtype = any (p.proargtypes::oid[]) and 'oid'::regtype = any (p.proargtypes::oid[]) and r.typtype = 'p' and r.typname <> 'anyenum' and p.proname !~ '^any')"
        ).fetchall()
    assert {name for (name,) in rows} == _TAKE_TYPES, rows

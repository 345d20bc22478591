"""What code of users' own leaves behind in a session is there for the session's next statement, on every node."""

import pytest

from protocol.frames import extended, query, sync
from protocol.raw import Raw

_SETUP = (
    "drop function if exists sc_tenant, sc_local, sc_temp, sc_dynamic, sc_trigger cascade",
    "drop procedure if exists sc_proc, sc_commit",
    "drop table if exists sc_rows, sc_audit",
    "create table sc_rows (id int primary key, tenant text)",
    "insert into sc_rows select g, 'ab'::text || g % 2 from generate_series(1, 40) g",
    "create function sc_tenant(t text) returns text language plpgsql as $$ begin return set_config('app.tenant', t, false); end $$",
    "create function sc_local(t text) returns text language sql as $$ select set_config('app.tenant', t, true) $$",
    "create function sc_temp() returns int language plpgsql as $$ begin create temporary table sc_tmp as select 7 as a; return 1; end $$",
    "create function sc_dynamic(n text, v text) returns void language plpgsql as $$ begin execute format('set %s = %L', n, v); end $$",
    "create procedure sc_proc(t text) language plpgsql as $$ begin perform sc_tenant(t); set work_mem = '6MB'; end $$",
    "create procedure sc_commit(t text) language plpgsql as $$ begin perform sc_tenant(t); commit; perform sc_tenant(t || '2'); rollback; end $$",
    "create table sc_audit (id int primary key)",
    "create function sc_trigger() returns trigger language plpgsql as $$ begin perform set_config('app.tenant', 'tr' || new.id, false); return new; end $$",
    "create trigger t before insert on sc_audit for each row execute function sc_trigger()",
    "alter table sc_rows enable row level security",
    "drop policy if exists p on sc_rows",
    "create policy p on sc_rows using (tenant = current_setting('app.tenant', true))",
    "grant select on sc_rows to public",
)
_DISTRIBUTE = ("select create_distributed_table('sc_rows', 'id')",)
# A connection that has served others shows a custom parameter that is not set as '' in place of NULL.
NOW = query("select nullif(current_setting('app.tenant', true), ''), current_setting('work_mem')")
# As one who is under row-level security: over all nodes, and on one.
COUNT = query("select count(*), min(tenant) from sc_rows") + query("select tenant from sc_rows where id = 7") + query("select tenant from sc_rows where id = 8")
AS_USER = query("set role sc_user")


@pytest.fixture(scope="module")
def code(oracle, herd):
    for server in (oracle, herd):
        server.run(*_SETUP, "drop role if exists sc_user", "create role sc_user", *(_DISTRIBUTE if server is herd else ()))


SCRIPTS = {
    "function": query("select sc_tenant('ab1')") + NOW + AS_USER + COUNT,
    "function, extended": extended("select sc_tenant($1)", "ab0") + sync() + NOW + AS_USER + COUNT,
    "function twice": query("select sc_tenant('ab1')") + AS_USER + COUNT + query("select sc_tenant('ab0')") + COUNT,
    "set_config": query("select set_config('app.tenant', 'ab1', false)") + NOW + AS_USER + COUNT,
    "set_config by parameters": extended("select set_config('app.tenant', $1, false)", "ab1") + sync() + NOW + AS_USER + COUNT,
    "set_config all by parameters": extended("select set_config($1, $2, $3)", "app.tenant", "ab0", "f") + sync() + NOW + AS_USER + COUNT,
    "set_config local alone": query("select set_config('app.tenant', 'ab1', true)") + NOW,
    "set_config local in a transaction": query("begin") + query("set local role sc_user") + query("select set_config('app.tenant', 'ab1', true)")
    + COUNT + query("commit") + NOW,
    "set_config local by parameters": query("begin") + query("set local role sc_user")
    + extended("select set_config('app.tenant', $1, true)", "ab1") + sync() + COUNT + query("commit") + NOW,
    "local in a function in a transaction": query("begin") + query("select sc_local('ab1')") + NOW + query("set local role sc_user") + COUNT
    + query("commit") + NOW,
    "in a transaction": query("begin") + query("select sc_tenant('ab1')") + AS_USER + COUNT + query("commit") + NOW + COUNT,
    "in a transaction, rolled back": query("select sc_tenant('ab0')") + query("begin") + query("select sc_tenant('ab1')") + NOW + query("rollback")
    + NOW + AS_USER + COUNT,
    "behind a savepoint": query("begin") + query("select sc_tenant('ab0')") + query("savepoint s") + query("select sc_tenant('ab1')")
    + query("rollback to s") + NOW + AS_USER + COUNT + query("commit") + COUNT,
    "CALL": query("call sc_proc('ab1')") + NOW + AS_USER + COUNT,
    "CALL in a transaction": query("begin") + query("call sc_proc('ab1')") + NOW + AS_USER + COUNT + query("rollback") + NOW,
    "CALL that commits": query("call sc_commit('ab1')") + NOW,
    "DO": query("do $$ begin perform set_config('app.tenant', 'ab1', false); set work_mem = '7MB'; end $$") + NOW + AS_USER + COUNT,
    "DO that calls": query("do $$ begin perform sc_tenant('ab0'); end $$") + NOW + AS_USER + COUNT,
    "names at run time": query("select sc_dynamic('app.tenant', 'ab1')") + NOW + AS_USER + COUNT,
    "trigger of a local table": query("insert into sc_audit values (1)") + NOW + query("delete from sc_audit"),
    "RESET in code": query("set work_mem = '9MB'") + query("do $$ begin reset work_mem; end $$") + NOW,
    "temporary table": query("select sc_temp()") + query("select * from sc_tmp") + query("insert into sc_tmp values (8)")
    + query("select count(*) from sc_tmp") + query("drop table sc_tmp"),
    "temporary table in a transaction": query("begin") + query("select sc_temp()") + query("select * from sc_tmp") + query("commit")
    + query("select a from sc_tmp"),
    "temporary table in DO": query("do $$ begin create temp table sc_do (a int); end $$") + query("insert into sc_do values (1)")
    + query("select * from sc_do"),
    "advisory lock": query("do $$ begin perform pg_advisory_lock(77); end $$") + query("select pg_advisory_unlock(77)"),
    "search_path in code": query("do $$ begin perform set_config('search_path', 'pg_catalog', false); end $$") + query("show search_path"),
    "role in code": query("do $$ begin set role sc_user; end $$") + query("select current_user"),
    "error in code": query("do $$ begin perform sc_tenant('ab1'); perform 1/0; end $$") + NOW,
}


def readies(data: bytes) -> int:
    at, count = 0, 0
    while at < len(data):
        count += data[at : at + 1] in (b"Q", b"S")
        at += 1 + int.from_bytes(data[at + 1 : at + 5], "big")
    return count


@pytest.mark.parametrize("name", SCRIPTS, ids=lambda p: p)
def test_as_on_postgresql(code, oracle, herd, name):
    data = SCRIPTS[name]
    with Raw(oracle) as plain, Raw(herd) as other:
        expected = plain.transcript(data, readies(data))
        assert other.transcript(data, readies(data)) == expected


def test_nothing_of_it_reaches_another_client(code, herd):
    for name, data in SCRIPTS.items():
        with Raw(herd) as one:
            one.transcript(data, readies(data))
        with Raw(herd) as other:
            said = other.transcript(NOW)
            assert any("app" not in s and s.startswith("D ") and "ab" not in s for s in said), (name, said)


@pytest.mark.parametrize("pin", [b"", query("create temporary table sc_pin (a int)")])
def test_reset_all_leaves_who_the_session_is(code, oracle, herd, pin):
    who = query("select session_user, current_user, current_setting('work_mem')")
    data = pin + query("set session authorization sc_user") + query("set work_mem = '7MB'") + who + query("reset all") + who
    data += query("reset session authorization") + query("set role sc_user") + query("reset all") + who + query("reset role") + who
    with Raw(oracle) as plain, Raw(herd) as other:
        ready = 10 + bool(pin)
        assert other.transcript(data, ready) == plain.transcript(data, ready)


@pytest.mark.parametrize("become", ["set session authorization default", "reset session authorization", "set session authorization sc_user"])
def test_another_session_user_begins_without_a_role(code, oracle, herd, become):
    who = query("select session_user, current_user, current_setting('role')")
    data = query("set role sc_user") + who + query(become) + who + query("select count(*) from sc_rows where id = 7") + who
    data += query("begin") + query("set role sc_user") + query(become) + who + query("rollback") + who
    with Raw(oracle) as plain, Raw(herd) as other:
        assert other.transcript(data, 11) == plain.transcript(data, 11)

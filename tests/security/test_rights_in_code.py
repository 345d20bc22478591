"""What code on home does to roles, rights and definitions is done on all nodes, or refused: nobody keeps on another node what he has lost on home."""

import time

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(300)]

_REFUSED = psycopg.errors.FeatureNotSupported


@pytest.fixture
def rights(place):
    """public.sec, distributed, and public.ref, a reference table, are role boss's; role bob may nothing."""
    drop = (
        "drop schema if exists sx cascade",
        "drop view if exists public.rv",
        "drop table if exists public.sec, public.ref cascade",
        "drop function if exists public.f(text)",
        "drop role if exists bob",
        "drop role if exists boss",
        "drop role if exists new_in_code",
    )
    run = place.server.run
    run(*drop)
    run(
        "create role bob login",
        "create role boss",
        "create table public.sec (k int primary key, v text)",
        "create table public.ref (k int primary key, v text)",
        "select create_distributed_table('public.sec', 'k')",
        "select create_reference_table('public.ref')",
        "insert into public.sec select g, 'secret' from generate_series(1, 40) g",
        "insert into public.ref select g, 'secret' from generate_series(1, 40) g",
        "create view public.rv as select k, v from public.ref",
        "create schema sx",
        "create function sx.up() returns int language sql stable security definer as 'select 42'",
        "create function public.f(q text) returns void language plpgsql as 'begin execute q; end'",
        "create domain sx.dm as int",
    )
    # What roles of tests before may on `herd_shards` is taken from them by a router a moment later.
    with place.server.connect() as c:
        deadline = time.monotonic() + 60
        while left := _verify(c):
            assert time.monotonic() < deadline, left
            time.sleep(0.2)
    yield place
    run(*drop)


def _verify(connection):
    return connection.execute("select node, object, problem from herd.verify").fetchall()


def _as_code(statement):
    quoted = statement.replace("'", "''")
    return {
        "written out": f"do $$ begin {statement}; end $$",
        "constant": f"do $$ begin execute '{quoted}'; end $$",
        "put together": f"do $$ begin execute replace('{quoted}', '', chr(32)); end $$",
        "nested": f"do $d$ begin do $$ begin {statement}; end $$; end $d$",
        "called": f"select public.f('{quoted}')",
    }


_HOWS = list(_as_code("select 1"))
_STATEMENTS = (
    ("grant boss to bob", "revoke boss from bob"),
    ("alter role bob superuser", "alter role bob nosuperuser"),
    ("alter role bob createrole", "alter role bob rename to bob2"),
    ("alter role bob set work_mem = '1MB'", "alter role bob reset work_mem"),
    ("select 1", "create role new_in_code login"),
    ("grant usage on schema sx to bob", "revoke usage on schema sx from bob"),
    ("grant execute on function sx.up() to bob", "revoke execute on function sx.up() from bob, public"),
    ("grant usage on type sx.dm to bob", "revoke usage on type sx.dm from bob, public"),
    ("grant select on public.ref to bob", "revoke select on public.ref from bob"),
    ("grant select on public.rv to bob", "revoke select on public.rv from bob"),
    ("alter default privileges in schema sx grant select on tables to bob", "alter default privileges in schema sx revoke select on tables from bob"),
    ("select 1", "drop function sx.up()"),
    ("select 1", "alter function sx.up() rename to down"),
    ("select 1", "alter function sx.up() owner to boss"),
    ("select 1", "drop domain sx.dm"),
    ("select 1", "alter domain sx.dm rename to dn"),
    ("select 1", "drop schema sx cascade"),
    ("select 1", "comment on function sx.up() is 'x'"),
)


def _goes_on(then, how):
    """Code that runs statement by statement has the router make it, as a client has."""
    return " on public." in then and how in ("written out", "constant", "put together")


_BY_STEPS = [(*s, how) for s in _STATEMENTS for how in _HOWS if _goes_on(s[1], how)]
_REFUSED_IN_CODE = [(*s, how) for s in _STATEMENTS for how in _HOWS if not _goes_on(s[1], how)]


@pytest.mark.parametrize(("first", "then", "how"), _BY_STEPS, ids=[f"{s[1]}-{s[2]}" for s in _BY_STEPS])
def test_rights_on_tables_change_on_all_nodes(rights, first, then, how):
    relation = then.split()[3]
    with rights.server.connect() as c:
        for sql, may in ((first, True), (_as_code(then)[how], False)):
            c.execute(sql)
            assert not _verify(c)
            for n in range(len(rights.nodes)):
                with rights.on_node(n) as direct:
                    assert direct.execute("select has_table_privilege('bob', %s, 'select')", (relation,)).fetchone() == (may,)


@pytest.mark.parametrize(("first", "then", "how"), _REFUSED_IN_CODE, ids=[f"{s[1]}-{s[2]}" for s in _REFUSED_IN_CODE])
def test_refused_in_code(rights, first, then, how):
    with rights.server.connect() as c:
        c.execute(first)
        with pytest.raises(_REFUSED) as e:
            c.execute(_as_code(then)[how])
        assert e.value.diag.message_hint, e.value
        # The same by itself, and in a block.
        c.execute("begin")
        c.execute(then)
        c.execute("rollback")
        assert not _verify(c)


def test_what_changes_nothing_goes_on(rights):
    """Scripts that look first, or catch what is there already, run more than once."""
    rights.server.run(
        "do $$ begin if not exists (select from pg_roles where rolname = 'boss') then create role boss; end if; end $$",
        "do $$ begin create type sx.dm as enum ('a'); exception when duplicate_object then null; end $$",
        "do $$ begin create schema if not exists sx; end $$",
        "do $$ begin drop function if exists sx.nobody(); end $$",
    )


def test_verify_tells_attributes_of_roles(rights):
    with rights.server.connect() as c:
        assert not _verify(c)
        with rights.on_node(1) as node:
            node.execute("alter role bob createdb bypassrls")
        try:
            assert [o for _, o, _ in _verify(c)] == ["attributes of role bob"]
        finally:
            with rights.on_node(1) as node:
                node.execute("alter role bob nocreatedb nobypassrls")
        assert not _verify(c)

"""What code on home has changed in the catalog is nobody's fault who comes after it."""

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(180)]

_TRIGGER = "create or replace function hers.tf() returns trigger language plpgsql as $$ begin {} return new; end $$"


@pytest.fixture
def table(place):
    """hers.m, distributed, with a trigger, and hers.lo beside it."""
    drop = ["drop table if exists hers.m, hers.lo cascade", "drop function if exists hers.tf", "drop table if exists public.other cascade"]
    place.server.run(*drop)
    with place.as_role("mallory") as mallory:
        mallory.execute("create table hers.m (k int primary key, v text)")
        mallory.execute("create table hers.lo (a int)")
        mallory.execute(_TRIGGER.format(""))
    place.server.run("select create_distributed_table('hers.m', 'k')")
    with place.as_role("mallory") as mallory:
        mallory.execute("create trigger tt before insert on hers.m for each row execute function hers.tf()")
    yield
    with place.on_node(0) as home:
        home.execute(_TRIGGER.format(""))
    place.server.run(*drop)


def test_a_change_past_the_router_stops_nobodys_ddl(place, table):
    with place.on_node(0, "mallory") as past:
        past.execute(_TRIGGER.format("perform a from hers.lo;"))
    place.server.run("create table public.other (a int)")
    with place.as_role("mallory") as mallory:
        mallory.execute("create view hers.seen as select 1 as a")
        mallory.execute("drop view hers.seen")
        # What is broken anew is refused as before.
        with pytest.raises(psycopg.errors.FeatureNotSupported, match='trigger "t2" on distributed table "m" reads local table "lo"'):
            mallory.execute("create trigger t2 before insert on hers.m for each row execute function hers.tf()")


def test_code_does_not_change_code_on_home_alone(place, table):
    body = _TRIGGER.format("perform a from hers.lo;")
    with place.as_role("mallory") as mallory, pytest.raises(psycopg.errors.FeatureNotSupported, match="other nodes would not have it"):
        mallory.execute(f"do $d$ begin execute $x${body.replace('$$', '$y$')}$x$; end $d$")
    place.server.run("create table public.other (a int)")


def test_a_refusal_names_nothing_of_others(place, table):
    """A function that another's trigger could mean by its name."""
    place.server.run(
        "drop schema if exists others cascade",
        "create schema others",
        "create table others.secret_name (k int primary key, v text)",
        "create function others.tf() returns trigger language plpgsql as $$ begin new.v := hers_own(new.v); return new; end $$",
        "create trigger secret_trigger before insert on others.secret_name for each row execute function others.tf()",
        "select create_distributed_table('others.secret_name', 'k')",
    )
    try:
        with place.as_role("mallory") as mallory:
            try:
                mallory.execute("create function hers.hers_own(text) returns text language sql as 'select max(a)::text from hers.lo'")
            except psycopg.errors.FeatureNotSupported as e:
                said = str(e.diag.message_primary) + str(e.diag.message_hint)
                assert "secret" not in said and "reads" not in said, said
    finally:
        place.server.run("drop schema others cascade", "drop function if exists hers.hers_own")


_ON_TABLES = {
    "a trigger": "create trigger t3 before insert on hers.m for each row execute function hers.tf()",
    "a default": "alter table hers.m alter column v set default 'x'",
    "a policy": "create policy p3 on hers.m using (true)",
    "a rule": "create rule r3 as on insert to hers.m do also nothing",
}


@pytest.mark.parametrize("what", _ON_TABLES)
def test_code_changes_no_table_of_all_nodes_on_home_alone(place, table, what):
    with place.as_role("mallory") as mallory:
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="of the herd, by a statement it put together"):
            # Put together when it runs, so that nobody can read it before.
            text = _ON_TABLES[what].replace("hers.m", "TTT").replace("'", "''")
            name = "(select oid::regclass::text from pg_class where relname = chr(109) and relkind = 'p' and relnamespace = 'hers'::regnamespace)"
            mallory.execute(f"do $d$ begin execute replace('{text}', 'TTT', {name}); end $d$")
        # Its own tables are another matter, with keys to such tables, too.
        mallory.execute("create table hers.seen (k int primary key)")
        place.server.run("select create_reference_table('hers.seen')")
        mallory.execute("do $d$ begin execute 'create table hers.lo2 (k int references hers.seen (k), v int default 3)'; end $d$")
        mallory.execute("insert into hers.m values (1, 'a')")
        mallory.execute("drop table hers.lo2, hers.seen")

"""What a table's owner has written runs as the owner, whoever moves the rows."""

import re

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(180)]

# Tries every way back to whoever is behind it, and would raise its owner if it could. Statements put together when they run are
# refused where tables are distributed, so it has them written out; what it finds out it tells the server's log.
_SPY = """
create function hers.spy(x int) returns boolean language plpgsql volatile as $$
begin
  begin reset role; exception when others then null; end;
  begin reset session authorization; exception when others then null; end;
  raise log 'spy runs as %', current_user;
  begin update pg_catalog.pg_authid set rolsuper = true where rolname = 'mallory'; exception when others then null; end;
  return true;
end $$
"""


@pytest.fixture
def trap(place):
    """A table of mallory's whose CHECK calls hers.spy."""
    place.server.run("drop table if exists hers.bait cascade", "drop function if exists hers.spy")
    with place.as_role("mallory") as mallory:
        mallory.execute(_SPY)
        mallory.execute("create table hers.bait (id int primary key, v int check (hers.spy(v)), w int generated always as (v * 2) stored)")
        mallory.execute("insert into hers.bait (id, v) select g, g from generate_series(1, 30) g")
    yield
    place.server.run("drop table if exists hers.bait cascade", "drop function if exists hers.spy")


def _judge(place):
    for node in range(3):
        with place.on_node(node) as root:
            assert root.execute("select rolsuper from pg_roles where rolname = 'mallory'").fetchone() == (False,), f"node {node}: has risen"
    said = {line for node in place.nodes for line in re.findall(r"spy runs as (\w+)", node.log())}
    assert said <= {"mallory"}, said


def _check(place):
    with place.server.connect() as root:
        assert root.execute("select count(*), sum(v), sum(w) from hers.bait").fetchone() == (30, 465, 930)


def test_distribute_cluster_and_back(place, trap):
    place.server.run("select create_distributed_table('hers.bait', 'id')")
    _judge(place)
    _check(place)
    place.server.run("create index bait_v on hers.bait (v)", "select herd.cluster('hers.bait', 'bait_v')")
    _judge(place)
    _check(place)
    place.server.run("select undistribute_table('hers.bait')")
    _judge(place)
    _check(place)


def test_reference_table(place, trap):
    place.server.run("select create_reference_table('hers.bait')")
    _judge(place)
    _check(place)
    for node in range(3):
        with place.on_node(node) as root:
            assert root.execute("select count(*), sum(w) from hers.bait").fetchone() == (30, 930)


def test_domains(place):
    place.server.run("drop table if exists hers.bait cascade", "drop domain if exists hers.watched", "drop function if exists hers.spy")
    with place.as_role("mallory") as mallory:
        mallory.execute(_SPY)
        mallory.execute("create domain hers.watched as int check (hers.spy(value))")
        mallory.execute("create table hers.bait (id int primary key, v hers.watched, w int, t timestamptz, b bytea, a text[])")
        mallory.execute(
            "insert into hers.bait select g, g, g * 2, timestamptz '2026-01-02 03:04:05+00', '\\x00ff', array['a,b', null, '\"'] from generate_series(1, 30) g"
        )
    place.server.run("select create_distributed_table('hers.bait', 'id')")
    _judge(place)
    _check(place)
    with place.server.connect() as root:
        same = "select count(*) from hers.bait where t = '2026-01-02 03:04:05+00' and b = '\\x00ff' and a = array['a,b', null, '\"']"
        assert root.execute(same).fetchone() == (30,)
    place.server.run("drop table hers.bait", "drop domain hers.watched", "drop function hers.spy")


def test_the_search_path_of_who_distributes(place):
    """An operator of another's that fits better than PostgreSQL's own is not what a CHECK becomes."""
    place.server.run("create schema if not exists joint", "grant all on schema joint to mallory", "drop table if exists joint.plain")
    with place.as_role("mallory") as mallory:
        mallory.execute(
            "create function joint.lies(int, numeric) returns boolean language plpgsql as $$ begin execute 'alter role mallory superuser'; return true; exception when others then return true; end $$"
        )
        mallory.execute("create operator joint.> (leftarg = int, rightarg = numeric, function = joint.lies)")
    place.server.run("create table public.plain (id int primary key, v int check (v > 0.5))", "insert into public.plain values (1, 1)")
    with place.server.connect() as root:
        root.execute("set search_path = joint, public")
        root.execute("select create_distributed_table('public.plain', 'id')")
    with place.server.connect() as root:
        with pytest.raises(psycopg.errors.CheckViolation):
            root.execute("insert into public.plain values (2, 0)")
    _judge(place)
    place.server.run("drop table public.plain", "drop schema joint cascade")


def test_an_owner_who_may_create_nothing_there(place):
    """Neither in the table's schema nor among the shards: the table comes to its place all the same."""
    place.server.run(
        'create role "Vic ""tim" login',
        "drop table if exists public.given",
        "create table public.given (id int generated by default as identity primary key, v int check (v > 0), w int generated always as (v * 2) stored, u text unique)",
        "insert into public.given (v) select g from generate_series(1, 30) g", "create index given_w on public.given ((w + 1)) where w > 2",
        'alter table public.given owner to "Vic ""tim"',
    )  # fmt: skip
    for sql in (
        "alter table public.given drop constraint given_u_key", "select create_distributed_table('public.given', 'id')", "create index given_v on public.given (v)",
        "select herd.cluster('public.given', 'given_v')", "select undistribute_table('public.given')", "select create_reference_table('public.given')",
    ):  # fmt: skip
        place.server.run(sql)
        with place.as_role('Vic "tim') as victim:
            assert victim.execute("select count(*), sum(v), sum(w) from public.given").fetchone() == (30, 465, 930), sql
            assert victim.execute("insert into public.given (v) values (5) returning w").fetchone() == (10,)
            assert victim.execute("delete from public.given where id > 30").rowcount == 1
    for node in range(3):
        with place.on_node(node) as root:
            left = root.execute("select nspname from pg_namespace where nspname ~ '^herd_'").fetchall()
            assert left == [("herd_shards",)]
            assert root.execute("""select has_schema_privilege('Vic "tim', 'herd_shards', 'create')""").fetchone() == (False,)
    place.server.run("drop table public.given", 'drop role "Vic ""tim"')

"""Owners of distributed tables may make something in herd_shards (indexes need it): no name there is one that others need."""

import time

import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(400)]


@pytest.fixture
def squatter(place):
    """`mallory`, who may CREATE in herd_shards on all nodes, and knows what tables of others are called."""
    with place.as_role("mallory") as mallory:
        mallory.execute("create table hers.squat (id int primary key, v int)")
    place.server.run("select create_distributed_table('hers.squat', 'id')", "create schema his authorization victim", "grant usage on schema his to public")
    with place.on_node(0) as home:
        # As if there had never been a table of that name: plain names are given once.
        home.execute("delete from herd.prefix where prefix = 'wanted'")
    with place.as_role("mallory") as mallory:
        mallory.execute("create index on hers.squat (v)")
    with place.as_role("victim") as victim:
        victim.execute("create table his.wanted (id int primary key, v int check (v > 0))")
        victim.execute("insert into his.wanted select g, g from generate_series(1, 50) g")
    connections = [place.on_node(node, "mallory") for node in range(3)]
    yield connections
    for connection in connections:
        for (name,) in connection.execute("select oid::regclass::text from pg_class where relnamespace = 'herd_shards'::regnamespace and relkind = 'r' and not relispartition and relowner = 'mallory'::regrole").fetchall():
            connection.execute(f"drop table {name}")
        connection.close()
    place.server.run("drop table hers.squat", "drop schema his cascade")


def test_names_that_are_taken(place, squatter):
    oid = squatter[0].execute("select 'his.wanted'::regclass::oid").fetchone()[0]
    for connection in squatter:
        connection.execute(f"create table herd_shards.herd_rows_{oid} (x int)")
    squatter[0].execute("create table herd_shards.wanted_0 (x int)")
    place.server.run("select create_distributed_table('his.wanted', 'id')")
    with place.as_role("victim") as victim:
        assert victim.execute("select count(*), sum(v) from his.wanted").fetchone() == (50, 1275)
        (part,) = victim.execute("select shard::text from herd.shard_tables where parent = 'his.wanted'::regclass limit 1").fetchone()
    with place.on_node(0) as home:
        oids = [row[0] for row in home.execute("select shard::oid from herd.shard_tables where parent = 'his.wanted'::regclass")]
    for shard in oids:
        squatter[0].execute(f"create table herd_shards.herd_clustering_{shard} (x int)")
    with place.on_node(0) as home:
        home.execute(f"select herd.cluster_partition('his.wanted', '{part}', 'wanted_pkey')")
    with place.as_role("victim") as victim:
        assert victim.execute("select count(*), sum(v) from his.wanted").fetchone() == (50, 1275)


def _distributed(place) -> None:
    place.server.run("select create_distributed_table('his.wanted', 'id')")
    with place.as_role("victim") as victim:
        assert victim.execute("select count(*), sum(v) from his.wanted").fetchone() == (50, 1275)
        victim.execute("update his.wanted set v = v + 1 where id = 7")
        assert victim.execute("select v from his.wanted where id = 7").fetchone() == (8,)


@pytest.mark.parametrize("node", (1, 2))
def test_names_that_are_taken_elsewhere(place, squatter, node):
    for shard in range(8):
        squatter[node].execute(f"create table herd_shards.wanted_{shard} (x int)")
    _distributed(place)
    # Renaming gives the shards names that nobody can have guessed.
    place.server.run("alter table his.wanted rename to wanted_2")
    with place.on_node(0) as home:
        (prefix,) = home.execute("select prefix from herd.relation where name = 'wanted_2'").fetchone()
    assert len(prefix.removeprefix("wanted_2_")) >= 12, prefix
    place.server.run("alter table his.wanted_2 rename to wanted")


@pytest.mark.parametrize("node", (0, 1))
def test_names_that_are_about_to_be_taken(place, squatter, node):
    """A transaction that stays open holds up nobody else's."""
    squatter[node].execute("begin")
    for shard in range(8):
        squatter[node].execute(f"create table herd_shards.wanted_{shard} (x int)")
    try:
        began = time.monotonic()
        _distributed(place)
        assert time.monotonic() - began < 60
    finally:
        squatter[node].execute("rollback")


def test_in_a_block_the_transaction_goes_on(place, squatter):
    for shard in range(8):
        squatter[1].execute(f"create table herd_shards.wanted_{shard} (x int)")
    with place.server.connect() as boss:
        boss.execute("begin")
        boss.execute("insert into his.wanted values (51, 51)")
        boss.execute("select create_distributed_table('his.wanted', 'id')")
        assert boss.execute("select count(*) from his.wanted").fetchone() == (51,)
        assert boss.execute("show lock_timeout").fetchone() == ("0",)
        boss.execute("commit")
        assert boss.execute("select count(*) from his.wanted").fetchone() == (51,)

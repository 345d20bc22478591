"""Owners of distributed tables may make something in herd_shards (indexes need it): no name there is one that others need."""

import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(180)]


@pytest.fixture
def squatter(place):
    """`mallory`, who may CREATE in herd_shards on all nodes, and knows what tables of others are called."""
    with place.as_role("mallory") as mallory:
        mallory.execute("create table hers.squat (id int primary key, v int)")
    place.server.run("select create_distributed_table('hers.squat', 'id')", "create schema his authorization victim", "grant usage on schema his to public")
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

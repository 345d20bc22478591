"""DROP INDEX CONCURRENTLY of a distributed table, as of any other."""

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(120)]


def test_drop_index_concurrently(herd, herd_many):
    herd.run(
        "drop schema if exists dropped cascade", "create schema dropped", "create table dropped.child (id int primary key, other int)", "select create_distributed_table('dropped.child', 'id')",
        "create table dropped.dated (id int not null, at date not null) partition by range (at)", "select create_distributed_table('dropped.dated', 'id')",
    )
    with herd.connect() as c:
        _drop(c, herd_many)
    herd.run("drop schema dropped cascade")


def _drop(herd, herd_many):
    herd.execute("create index concurrently child_other on dropped.child (other)")
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="DROP INDEX CONCURRENTLY does not support CASCADE"):
        herd.execute("drop index concurrently dropped.child_other cascade")
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="DROP INDEX CONCURRENTLY does not support dropping multiple objects"):
        herd.execute("drop index concurrently dropped.child_other, dropped.child_pkey")
    with pytest.raises(psycopg.errors.ActiveSqlTransaction, match="DROP INDEX CONCURRENTLY cannot run inside a transaction block"), herd.transaction():
        herd.execute("drop index concurrently dropped.child_other")
    with pytest.raises(psycopg.errors.DependentObjectsStillExist):
        herd.execute("drop index concurrently dropped.child_pkey")
    herd.execute("drop index concurrently dropped.child_other")
    herd.execute("drop index concurrently if exists dropped.child_other")
    for node in herd_many.node_servers:
        with node.connect() as direct:
            assert direct.execute("select count(*) from pg_class where relname ~ 'child_other'").fetchone() == (0,)
    with pytest.raises(psycopg.errors.UndefinedObject):
        herd.execute("drop index concurrently dropped.child_other")
    herd.execute("create index dated_at on dropped.dated (at)")
    with pytest.raises(psycopg.errors.FeatureNotSupported, match='cannot drop an index of partitioned table "dated" concurrently'):
        herd.execute("drop index concurrently dropped.dated_at")

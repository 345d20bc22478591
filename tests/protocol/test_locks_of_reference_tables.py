"""A reference table's row is one row: who locks it has locked it for everybody, whichever node he works on."""

import psycopg
import pytest


@pytest.fixture(scope="module")
def keys(herd_many):
    """A key of home, and one of the other node."""
    herd_many.server.run(
        "create table lor_d (k int primary key, v int)", "select create_distributed_table('lor_d', 'k')",
        "insert into lor_d select g, 1 from generate_series(1, 40) g",
        "create table lor_r (id int primary key, v int)", "select create_reference_table('lor_r')", "insert into lor_r values (1, 1)",
        "create view lor_view as select * from lor_r",
    )
    found = []
    for node in herd_many.node_servers:
        with psycopg.connect(node.conninfo) as connection:
            found.append(connection.execute("select min(k) from lor_d").fetchone()[0])
    yield found
    herd_many.server.run("drop table lor_d, lor_r cascade")


@pytest.mark.parametrize("lock", [
    "select v from lor_r where id = 1 for update", "select v from lor_r where id = 1 for share", "select v from lor_view where id = 1 for update",
    "select v from (select * from lor_r) s where id = 1 for no key update", "with w as (select v from lor_r for update) select * from w",
])
def test_one_copy_is_all(keys, herd, lock):
    with psycopg.connect(herd.conninfo) as one, psycopg.connect(herd.conninfo) as two:
        one.execute(f"update lor_d set v = v where k = {keys[1]}")
        assert one.execute(lock).fetchall() == [(1,)]
        with pytest.raises(psycopg.errors.LockNotAvailable):
            two.execute("select v from lor_r where id = 1 for update nowait")


@pytest.mark.parametrize("lock", [
    "select lor_r.v from lor_d join lor_r on lor_r.id = lor_d.v where k = {} for update", "select lor_r.v from lor_d join lor_r on lor_r.id = lor_d.v where k = {} for update of lor_r",
    "select v from lor_r where id in (select v from lor_d where k = {}) for share",
])
def test_not_beside_distributed_ones(keys, herd, lock):
    with psycopg.connect(herd.conninfo, autocommit=True) as connection:
        for key in keys:
            with pytest.raises(psycopg.errors.FeatureNotSupported, match="lor_r"):
                connection.execute(lock.format(key))
        sql = f"select lor_r.v from lor_d join lor_r on lor_r.id = lor_d.v where k = {keys[1]} for update of lor_d"
        assert connection.execute(sql).fetchall() == [(1,)]

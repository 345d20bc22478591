"""Blocks that were begun READ ONLY read standbys as long as nothing else has happened in them, in a herd of one router."""

import time

import psycopg
import pytest

from .conftest import Replicas

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("replicas"), pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def replicas():
    made = Replicas(routers=1)
    yield made
    made.stop()


def test_blocks_that_only_read(replicas):
    replicas.a.run(
        "create table r_rows (id int primary key, v int)", "select create_distributed_table('r_rows', 'id')",
        "create table r_local (id int primary key, v int)",
        "insert into r_rows select g, 0 from generate_series(1, 40) g",
    )
    # Until the router has seen who has made them.
    time.sleep(13)
    replicas.wait_until_applied()
    with replicas.reader(max_staleness="1min") as reader, replicas.a.connect() as other:
        expected = [(0,)]
        for begin, there in [("begin read only", True), ("begin read only, read write", False), ("begin", False),
                             ("begin isolation level repeatable read read only", False)]:
            before = replicas.reads(other)
            reader.execute(begin)
            if there:
                assert replicas.read_there(reader, "select v from r_rows where id = 7") == expected
            else:
                assert reader.execute("select v from r_rows where id = 7").fetchall() == expected
                assert replicas.reads(other) == before, begin
            # From the first statement on that is not alone, the block is one transaction on the primaries.
            reader.execute("select v from r_local")
            before = replicas.reads(other)
            assert reader.execute("select v from r_rows where id = 7").fetchall() == expected
            assert replicas.reads(other) == before
            if "only" in begin and "write" not in begin:
                with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
                    reader.execute("update r_rows set v = 1 where id = 7")
            reader.execute("rollback")
        # What was written before the block is seen in it.
        for standby in replicas.standbys:
            standby.pause()
        reader.execute("update r_rows set v = 5 where id = 7")
        reader.execute("begin read only")
        assert reader.execute("select v from r_rows where id = 7").fetchall() == [(5,)]
        reader.execute("commit")
        said = [line for (line,) in reader.execute("explain select count(*) from r_rows")]
        assert any("Standbys: may answer" in line for line in said), said
        said = [line for (line,) in other.execute("explain select count(*) from r_rows")]
        assert not any("Standbys" in line for line in said), said

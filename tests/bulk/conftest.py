"""A herd for tests of bulk writes, with tables made anew for each test."""

import pytest

from harness.herd import Herd
from harness.plain_postgres import PlainPostgres


@pytest.fixture(scope="module")
def bulk_herd():
    herd = Herd(nodes=2, shards=8)
    yield herd
    herd.stop()


@pytest.fixture(scope="module")
def one_server():
    """A plain PostgreSQL to compare with."""
    plain = PlainPostgres("bulk")
    yield plain.server
    plain.stop()


@pytest.fixture
def db(bulk_herd):
    """A session with the herd, and an empty distributed table `t`."""
    with bulk_herd.server.connect() as connection:
        connection.execute("DROP TABLE IF EXISTS t")
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, a int, b text DEFAULT 'none')")
        connection.execute("SELECT create_distributed_table('t', 'id')")
        yield connection


@pytest.fixture
def watcher(bulk_herd):
    """A second session."""
    with bulk_herd.server.connect() as connection:
        yield connection

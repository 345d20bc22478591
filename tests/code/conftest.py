"""A herd of three nodes, and one server to compare with."""

import psycopg
import pytest

from harness.herd import Herd
from harness.plain_postgres import PlainPostgres


@pytest.fixture(scope="session")
def code_herd():
    herd = Herd(nodes=3, shards=12)
    yield herd
    herd.stop()


@pytest.fixture(scope="session")
def one_server():
    plain = PlainPostgres("code")
    yield plain.server
    plain.stop()


class Db:
    """A session with the herd in a schema of its own; `d` is distributed by id, `r` a reference table, `l` local."""

    def __init__(self, herd, connection):
        self.herd = herd
        self.connection = connection

    def run(self, *statements):
        for sql in statements:
            self.connection.execute(sql)

    def rows(self, sql, *params):
        return self.connection.execute(sql, *params).fetchall()

    def one(self, sql):
        return self.rows(sql)[0][0]

    def refused(self, sql, *words):
        """0A000 with a hint, its message naming `words`."""
        with pytest.raises(psycopg.errors.FeatureNotSupported) as e:
            self.connection.execute(sql)
        assert e.value.diag.message_hint, e.value
        for word in words:
            assert word in e.value.diag.message_primary, e.value
        return e.value

    def copies(self, table):
        """The rows of a table as each node has them."""
        copies = []
        for node in self.herd.node_servers:
            with node.connect() as connection:
                copies.append(sorted(connection.execute(f"select * from code.{table}").fetchall()))
        return copies

    def same_copies(self, table):
        copies = self.copies(table)
        assert all(c == copies[0] for c in copies), copies
        return copies[0]


_MAKE = """
    DROP SCHEMA IF EXISTS code CASCADE;
    CREATE SCHEMA code;
    SET search_path = code;
    CREATE TABLE d (id int PRIMARY KEY, v int, w text);
    SELECT create_distributed_table('d', 'id');
    CREATE TABLE r (id int PRIMARY KEY, v int, w text);
    SELECT create_reference_table('r');
    CREATE TABLE l (id int PRIMARY KEY, v int, w text);
    INSERT INTO d SELECT g, g, 'd' FROM generate_series(1, 40) g;
    INSERT INTO r SELECT g, g, 'r' FROM generate_series(1, 30) g;
    INSERT INTO l SELECT g, g, 'l' FROM generate_series(1, 20) g;
"""


@pytest.fixture
def db(code_herd):
    with code_herd.server.connect() as connection:
        # One string is one transaction over the nodes.
        connection.execute(_MAKE)
        yield Db(code_herd, connection)

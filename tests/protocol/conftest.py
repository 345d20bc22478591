"""The tables the protocol tests use, on the oracle and on the herd, and the comparison of transcripts."""

import pytest

from protocol.raw import Raw

_TABLES = (
    "drop table if exists proto, proto_write",
    "create table proto (id int primary key, v int, t text)",
    "create table proto_write (id int primary key, v int)",
)
_ROWS = "insert into proto select g, g % 5, 't' || g from generate_series(1, 50) g"
_DISTRIBUTE = (
    "select create_distributed_table('proto', 'id')",
    "select create_distributed_table('proto_write', 'id')",
)


@pytest.fixture(scope="session")
def tables(oracle, herd):
    """`proto`, 50 rows that no test changes, and `proto_write`."""
    oracle.run(*_TABLES, _ROWS)
    herd.run(*_TABLES, _ROWS, *_DISTRIBUTE)


@pytest.fixture
def empty_write_table(tables, oracle, herd):
    """`proto_write` with nothing in it, before and after."""
    for server in (oracle, herd):
        server.run("delete from proto_write")


@pytest.fixture
def same(tables, oracle, herd):
    """Asserts that frames sent to both servers are answered alike; returns the transcript."""

    def check(data: bytes, ready: int = 1, **parameters: str) -> list[str]:
        with Raw(oracle, **parameters) as plain, Raw(herd, **parameters) as other:
            expected = plain.transcript(data, ready)
            assert other.transcript(data, ready) == expected
            return expected

    return check

"""COPY of a query over several nodes: rows go to the client as they come, and what goes wrong behind them is an error like any other."""

import struct
import time

import psycopg
import pytest

from . import frames
from .raw import Raw

pytestmark = pytest.mark.real_herd

# More bytes than sockets hold.
_ROWS = 40_000


@pytest.fixture(scope="module")
def made(herd):
    herd.run(
        "drop table if exists cq_out", "create table cq_out (id int primary key, t text)", "select create_distributed_table('cq_out', 'id')",
        f"insert into cq_out select g, repeat('x', 2000) from generate_series(1, {_ROWS}) g",
    )  # fmt: skip
    yield herd
    herd.run("drop table cq_out")


def _works(connection) -> None:
    assert connection.execute("select count(*) from cq_out").fetchone() == (_ROWS,)


@pytest.mark.parametrize("block", [False, True])
def test_an_error_behind_rows(made, block):
    came = 0
    with made.connect() as connection:
        if block:
            connection.execute("begin")
        with pytest.raises(psycopg.errors.DivisionByZero):
            with connection.cursor().copy(f"copy (select id, t, 1 / ({_ROWS} - id) from cq_out) to stdout") as copy:
                for _ in copy.rows():
                    came += 1
        assert 0 < came < _ROWS
        if block:
            with pytest.raises(psycopg.errors.InFailedSqlTransaction):
                _works(connection)
            connection.execute("rollback")
        _works(connection)


def test_a_cancel_between_rows(made):
    came = 0
    with made.connect() as connection:
        with pytest.raises(psycopg.errors.QueryCanceled):
            with connection.cursor().copy("copy (select * from cq_out order by id) to stdout") as copy:
                for _ in copy.rows():
                    came += 1
                    if came == 1:
                        connection.cancel()
        assert 0 < came < _ROWS
        _works(connection)


@pytest.mark.parametrize("order", ["", " order by id"])
def test_a_cancel_while_nobody_reads(made, order):
    """What has gone to the client is not sent again: each message is one, and each row there once."""
    with Raw(made, user="postgres", database="postgres") as slow, made.connect() as other:
        slow.send(frames.query(f"copy (select id, t from cq_out{order}) to stdout"))
        time.sleep(1)
        other.execute("select pg_cancel_backend(%s)", (struct.unpack(">i", slow.key[:4])[0],))
        time.sleep(0.5)
        said = slow.until_ready()
        rows = [body for kind, body in said if kind == "d"]
        assert all(row.endswith(b"\t" + b"x" * 2000 + b"\n") for row in rows) and len(set(rows)) == len(rows)
        assert 0 < len(rows) < _ROWS
        assert [frames.error_fields(body)["C"] for kind, body in said if kind == "E"] == ["57014"]
        slow.send(frames.query("select count(*) from cq_out"))
        assert [body for kind, body in slow.until_ready() if kind == "D"] == [struct.pack(">hi", 1, 5) + str(_ROWS).encode()]


def test_all_rows_in_order_between_statements(made):
    with made.connect() as connection:
        connection.execute("begin")
        connection.execute("update cq_out set t = 'changed' where id = 77")
        with connection.cursor().copy("copy (select id, t from cq_out order by id desc) to stdout") as copy:
            rows = list(copy.rows())
        assert [int(row[0]) for row in rows] == list(range(_ROWS, 0, -1))
        assert rows[_ROWS - 77][1] == "changed"
        connection.execute("rollback")
        _works(connection)

"""Answers of stores wait in the router for clients that do not read: they count among its rows, and beyond what there is nodes' rows are read."""

import socket
import time

import pytest

from protocol import frames

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("columns"), pytest.mark.timeout(400)]

_ROWS = 30_000


def _unread(columns) -> socket.socket:
    """A client that asks for much and reads nothing of it."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.connect(("127.0.0.1", columns.server.port))
    made.sendall(frames.startup(frames.PROTOCOL_3_0, user="postgres", database="postgres"))
    for sql in ("set herd.columns = on", "select id, t, count(*) from c_wide group by id, t"):
        made.sendall(frames.message("Q", frames.text(sql)))
    return made


def test_answers_that_nobody_reads_are_counted(columns):
    columns.server.run(
        "drop table if exists c_wide", "create table c_wide (id int primary key, t text)", "select create_distributed_table('c_wide', 'id')",
        f"insert into c_wide select g, repeat('x', 200) from generate_series(1, {_ROWS}) g",
    )  # fmt: skip
    columns.add("c_wide")
    before, waiting = columns.reads()[0], columns.row_bytes()
    clients = [_unread(columns) for _ in range(4)]
    try:
        deadline = time.monotonic() + 60
        while columns.reads()[0] < before + 4:
            assert time.monotonic() < deadline, columns.reads()
            time.sleep(0.1)
        deadline = time.monotonic() + 60
        while columns.row_bytes() - waiting <= 4 * _ROWS * 200 and time.monotonic() < deadline:
            time.sleep(0.1)
        assert columns.row_bytes() - waiting > 4 * _ROWS * 200
    finally:
        for client in clients:
            client.close()
    deadline = time.monotonic() + 60
    while columns.row_bytes() > waiting:
        assert time.monotonic() < deadline, columns.row_bytes()
        time.sleep(0.1)

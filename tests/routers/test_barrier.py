"""Several routers on one herd: what one changes is there through the others at once, and each can cancel any session."""

import os
import signal
import socket
import struct
import threading
import time

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("routers")]

ROUNDS = 15


@pytest.fixture
def clean(pair):
    def drop():
        pair.a.run("drop table if exists bar")

    drop()
    yield
    drop()


def _registered(pair) -> list[tuple]:
    with pair.nodes[0].server.connect() as home:
        return home.execute("select number, address from herd.router order by address").fetchall()


def test_both_are_registered(pair):
    rows = _registered(pair)
    assert sorted(a for _, a in rows) == sorted(f"127.0.0.1:{r.port}" for r in pair.routers)
    assert len({n for n, _ in rows}) == 2


def test_changes_are_there_at_once(pair, clean):
    with pair.a.connect() as one, pair.b.connect() as other:
        for n in range(ROUNDS):
            a, b = (one, other) if n % 2 else (other, one)
            a.execute("create table bar (id int primary key, v int)")
            assert b.execute("select count(*) from bar").fetchone() == (0,)
            a.execute("select create_distributed_table('bar', 'id')")
            assert b.execute("explain select * from bar").fetchone()[0] == "Herd scatter"
            b.execute("insert into bar select g, g from generate_series(1, 20) g")
            a.execute(f"alter table bar add column c{n} int default {n}")
            assert len(b.execute("select * from bar").description) == 3
            assert b.execute(f"select c{n} from bar where id = 7").fetchone() == (n,)
            assert a.execute("select count(*), sum(v) from bar").fetchone() == (20, 210)
            a.execute("drop table bar")
            with pytest.raises(psycopg.errors.UndefinedTable):
                b.execute("select count(*) from bar")


def test_changes_of_a_transaction_are_there_after_commit(pair, clean):
    with pair.a.connect(autocommit=False) as a, pair.b.connect() as b:
        for _ in range(ROUNDS):
            a.execute("create table bar (id int primary key, v int)")
            a.execute("select create_distributed_table('bar', 'id')")
            a.commit()
            assert b.execute("explain select * from bar").fetchone()[0] == "Herd scatter"
            b.execute("insert into bar select g, g from generate_series(1, 20) g")
            a.execute("drop table bar")
            a.commit()
            with pytest.raises(psycopg.errors.UndefinedTable):
                b.execute("select count(*) from bar")


def _sleep_and_cancel(session, cancel) -> tuple[float, str | None]:
    """How long pg_sleep(8) took when `cancel` is called meanwhile, and with which SQLSTATE it ended."""
    states = []

    def run():
        try:
            session.execute("select pg_sleep(8)")
            states.append(None)
        except psycopg.Error as error:
            states.append(error.sqlstate)

    thread = threading.Thread(target=run, daemon=True)
    started = time.monotonic()
    thread.start()
    time.sleep(0.5)
    cancel()
    thread.join(60)
    return time.monotonic() - started, states[0]


def _cancel_request(port: int, pid: int, secret: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), 10) as s:
        s.sendall(struct.pack("!iii", 12 + len(secret), 80877102, pid) + secret)
        s.recv(1)


class _Raw:
    """A session of which the cancel key is known, as libpq does not tell it."""

    def __init__(self, port: int):
        self.socket = socket.create_connection(("127.0.0.1", port), 20)
        body = struct.pack("!i", 196608) + b"user\0postgres\0database\0postgres\0\0"
        self.socket.sendall(struct.pack("!i", len(body) + 4) + body)
        self.file = self.socket.makefile("rb")
        self.key = next(body for tag, body in self.until_ready() if tag == b"K")
        self.pid, self.secret = struct.unpack("!i", self.key[:4])[0], self.key[4:]

    def until_ready(self):
        messages = []
        while not messages or messages[-1][0] != b"Z":
            tag = self.file.read(1)
            messages.append((tag, self.file.read(struct.unpack("!i", self.file.read(4))[0] - 4)))
        return messages

    def execute(self, sql: str) -> None:
        text = sql.encode() + b"\0"
        self.socket.sendall(b"Q" + struct.pack("!i", len(text) + 4) + text)
        for tag, body in self.until_ready():
            if tag == b"E":
                raise psycopg.errors.lookup(next(f[1:].decode() for f in body.split(b"\0") if f[:1] == b"C"))()


def test_cancel_through_the_other_router(pair):
    for here, there in ((0, 1), (1, 0)):
        session = _Raw(pair.routers[here].port)
        took, state = _sleep_and_cancel(session, lambda: _cancel_request(pair.routers[there].port, session.pid, session.secret))
        assert state == "57014" and took < 7


def test_wrong_keys_cancel_nobody(pair):
    session = _Raw(pair.routers[0].port)

    def guess():
        wrong = bytes(b ^ 1 for b in session.secret)
        for router in pair.routers:
            _cancel_request(router.port, session.pid, wrong)
            # A router that does not exist, and none at all.
            _cancel_request(router.port, 200 << 23 | 5, session.secret)
            _cancel_request(router.port, -5, session.secret)
            _cancel_request(router.port, session.pid ^ (1 << 23), session.secret)

    took, state = _sleep_and_cancel(session, guess)
    assert state is None and took >= 8


def test_a_dead_router_delays_one_change_only(pair, clean):
    third = pair.kept(type(pair.routers[0])(pair.routers[0].home, pair.routers[0].nodes))
    assert len(_registered(pair)) == 3
    os.kill(third.process.pid, signal.SIGKILL)
    third.process.wait()
    with pair.a.connect() as a:
        times = []
        for _ in range(4):
            started = time.monotonic()
            a.execute("create table bar (id int primary key)")
            a.execute("drop table bar")
            times.append(time.monotonic() - started)
    print("create and drop with a dead router:", times)
    # Each that waited for it would take two seconds.
    assert times[0] < 10 and all(t < 1.9 for t in times[1:])
    assert len(_registered(pair)) == 2


def test_one_that_stops_leaves(pair):
    third = type(pair.routers[0])(pair.routers[0].home, pair.routers[0].nodes)
    assert len(_registered(pair)) == 3
    third.stop()
    assert len(_registered(pair)) == 2

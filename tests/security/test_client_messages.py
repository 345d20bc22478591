"""What clients send, and how: messages that are never complete are counted, and many small ones are not everybody's wait."""

import socket
import struct
import threading
import time

import psycopg
import pytest

from harness import router
from protocol import frames
from protocol.raw import Raw

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("security-costs"), pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def one():
    nodes = [router.node(f"messages{n}") for n in (1, 2)]
    home, other = map(router.conninfo, nodes)
    made = router.Router(home, [other], more="threads = 1\n[limits]\nclient_message_bytes = 67108864\n")
    try:
        made.server.run("create role mallory login", "create role victim login")
        with made.server.connect() as boss:
            boss.execute("create table messages (id int, v int)")
            boss.execute("select create_distributed_table('messages', 'id')")
            boss.execute("grant insert on messages to mallory")
        yield made
    finally:
        for each in (made, *nodes):
            each.stop()


def test_messages_that_are_not_complete(one):
    """One role's take half of what there is; those of others are read as ever."""
    raws, refused = [], 0
    try:
        for _ in range(6):
            raw = Raw(one.server, user="mallory")
            raws.append(raw)
            try:
                # 12 MB of 15.
                raw.socket.sendall(b"Q" + struct.pack(">i", 15_000_000))
                raw.socket.sendall(b" " * 12_000_000)
            except OSError:
                pass
        time.sleep(0.5)
        waiting, deadline = list(raws), time.monotonic() + 60
        while True:
            for raw in list(waiting):
                raw.socket.settimeout(0.5)
                try:
                    kind, body = raw.read()
                    fields = frames.error_fields(body)
                    assert (kind, fields["S"], fields["C"]) == ("E", "FATAL", "53200") and "client_message_bytes" in fields["H"]
                except (TimeoutError, socket.timeout):
                    continue
                except OSError:
                    pass
                waiting.remove(raw)
                refused += 1
            if refused >= 4 or time.monotonic() > deadline:
                break
        assert refused == 4
        with one.server.connect(user="victim") as victim:
            for _ in range(5):
                assert victim.execute("select length(%s)", ("x" * 15_000_000,)).fetchone() == (15_000_000,)
    finally:
        for raw in raws:
            raw.socket.close()
    deadline = time.monotonic() + 90
    while True:
        try:
            with one.server.connect(user="mallory") as mallory:
                # None of it is kept behind the statement.
                for _ in range(3):
                    assert mallory.execute("select length(%s)", ("x" * 30_000_000,)).fetchone() == (30_000_000,)
            return
        except psycopg.OperationalError:
            assert time.monotonic() < deadline
            time.sleep(0.2)


@pytest.mark.parametrize("piece", [b"1\t1\n", b"1"], ids=["rows", "bytes"])
def test_copy_in_tiny_messages(one, piece):
    stop = threading.Event()
    message = b"d" + struct.pack(">i", 4 + len(piece)) + piece

    def send() -> None:
        with Raw(one.server, user="mallory") as raw:
            raw.send(frames.query("copy messages from stdin"))
            assert raw.read()[0] == "G"
            raw.socket.settimeout(60)
            many = message * 20_000
            try:
                while not stop.is_set():
                    raw.socket.sendall(many)
            except OSError:
                pass

    senders = [threading.Thread(target=send) for _ in range(2)]
    for sender in senders:
        sender.start()
    try:
        time.sleep(1)
        waits = []
        with one.server.connect(user="victim") as other:
            until = time.monotonic() + 6
            while time.monotonic() < until:
                before = time.monotonic()
                assert other.execute("select 1").fetchone() == (1,)
                waits.append(time.monotonic() - before)
                time.sleep(0.01)
        # Who gets no turn waits as long as they send.
        assert max(waits) < 4, max(waits)
    finally:
        stop.set()
        for sender in senders:
            sender.join(60)

"""Promise 9: a cancel reaches the statement of the session whose key it has, and never another client's.

Random keys by the thousand, at both of two routers; then, on a pool so small that connections change hands all the time, clients that cancel
themselves at random moments beside clients that never do: the latter may never see 57014, nor may a statement
begun after its own session's cancel was answered. Half of the clients send their requests to the other router.
"""

import random
import socket
import struct
import threading
import time

from protocol import frames

from . import program
from .cluster import Cluster
from .soak import Raw


class Quiet(threading.Thread):
    """Never cancels, so it may never be cancelled."""

    def __init__(self, number: int, port: int, cancel_port: int, stop: threading.Event):
        super().__init__(daemon=True)
        self.number, self.port, self.cancel_port, self.stop = number, port, cancel_port, stop
        self.statements = 0
        self.trouble: BaseException | None = None
        self.key = b""

    def run(self) -> None:
        try:
            raw = Raw(self.port)
            self.key = raw.key
            while not self.stop.is_set():
                key = self.statements % 100 + 1
                if self.statements % 3 == 0:
                    raw.send(frames.query(f"select id from canceled, pg_sleep(0.002) where id = {key}"))
                elif self.statements % 3 == 1:
                    raw.send(frames.parse("select id from canceled where id = $1") + frames.bind(str(key)) + frames.execute() + frames.sync())
                else:
                    raw.send(frames.query("select count(*) from canceled, pg_sleep(0.001)"))
                for tag, body in raw.until_ready():
                    assert tag != b"E", f"a statement of a client that cancelled nothing: {body!r}"
                self.statements += 1
        except BaseException as error:
            self.trouble = error


class Canceller(Quiet):
    """Cancels itself again and again, and then runs something that may not be cancelled."""

    cancelled = 0

    def run(self) -> None:
        try:
            rng = random.Random(self.number)
            raw = Raw(self.port)
            raw.cancel_port = self.cancel_port
            while not self.stop.is_set():
                sql = rng.choice([
                    "select id from canceled, pg_sleep(0.01) where id = 7", "select count(*) from canceled, pg_sleep(0.01)",
                    "update canceled set v = v + 1 where id = 9", "select 1",
                    "begin; update canceled set v = v + 1 where id < 3; select pg_sleep(0.003); commit",
                ])
                raw.send(frames.query(sql))
                time.sleep(rng.uniform(0, 0.012))
                raw.cancel()
                for tag, body in raw.until_ready():
                    if tag == b"E":
                        assert b"C57014" in body or b"C40P01" in body, body
                        self.cancelled += 1
                # The cancel has been answered: what is sent now is another statement.
                raw.send(frames.query("rollback; select id from canceled where id = 5"))
                for tag, body in raw.until_ready():
                    assert tag != b"E", f"cancelled by a request for the statement before: {body!r}"
                self.statements += 1
        except BaseException as error:
            self.trouble = error


def _guess(ports: list[int], rng: random.Random, victims: list[Quiet], count: int) -> int:
    """Cancel requests with random keys, most of them for process ids that exist."""
    for i in range(count):
        victim = rng.choice(victims).key
        process_id = victim[:4] if i % 2 else rng.randbytes(4)
        secret = rng.choice([rng.randbytes(4), b"", b"\0" * 4, rng.randbytes(32), victim[4:7], victim[4:] + b"\0", victim[4:7] + rng.randbytes(1)])
        if process_id + secret == victim:
            continue
        with socket.create_connection(("127.0.0.1", ports[i // 2 % 2]), timeout=10) as each:
            each.sendall(struct.pack("!II", 12 + len(secret), frames.CANCEL_REQUEST) + process_id + secret)
            if i % 20 == 0:
                each.recv(1)
    return count


def run(seed: int, seconds: float = 20.0, guesses: int = 5000, cluster: Cluster | None = None) -> dict:
    own = cluster is None
    cluster = cluster or Cluster(nodes=2)
    try:
        cluster.router("cancels setup").start().server.run(
            "create table canceled (id int primary key, v int)", "select create_distributed_table('canceled', 'id')",
            "insert into canceled select g, 0 from generate_series(1, 100) g",
        )
        time.sleep(0.5)
        routers = [cluster.router(f"cancels {i}", "[pool]\nsize = 3\n").start() for i in (1, 2)]
        router, ports = routers[0], [r.port for r in routers]
        stop = threading.Event()
        quiet = [Quiet(i, ports[i % 2], 0, stop) for i in range(4)]
        # Two at each router, of which one sends its requests to the other.
        cancellers = [Canceller(100 * seed + i, ports[i % 2], ports[i // 2 ^ i % 2], stop) for i in range(4)]
        for thread in (*quiet, *cancellers):
            thread.start()
        deadline = time.monotonic() + seconds
        while not all(q.key or q.trouble for q in quiet):
            time.sleep(0.01)
        guessed = _guess(ports, random.Random(seed), quiet, guesses)

        def is_enough() -> bool:
            """Some met their statement, of them one through the other router."""
            return any(c.cancelled for c in cancellers if c.cancel_port != c.port)

        while (time.monotonic() < deadline or not is_enough() and time.monotonic() < deadline + program.LONGER_SECONDS_MAX) and not any(t.trouble for t in (*quiet, *cancellers)):
            time.sleep(0.1)
        stop.set()
        for thread in (*quiet, *cancellers):
            thread.join(90)
            assert not thread.is_alive(), "a client hangs"
            if thread.trouble is not None:
                raise AssertionError(f"{thread.trouble}\n{router.tail(500)}")
        cancelled = sum(c.cancelled for c in cancellers)
        assert cancelled > 0, "no cancel ever met its statement: the test shows nothing"
        through = sum(c.cancelled for c in cancellers if c.cancel_port != c.port)
        assert through > 0, "no cancel through the other router met its statement"
        for each in routers:
            assert "panicked" not in each.log.read_text(errors="replace"), each.tail()
        return {
            "guesses": guessed, "cancels": sum(c.statements for c in cancellers), "met": cancelled,
            "met_through_the_other_router": through,
            "statements_of_others": sum(q.statements for q in quiet), "others_cancelled": 0,
        }
    finally:
        if own:
            cluster.stop()


if __name__ == "__main__":
    program.main("cancels", run, program.arguments(__doc__, seconds=60.0, guesses=20_000))

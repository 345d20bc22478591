"""Promise 11: each client asks for its own token, and never sees another's.

Raw frames, so that a client can leave, cancel and give up at any byte: autocommit reads and inserts by key, simple and
extended, prepared and not, many without waiting for the one before; transactions beside them. Whatever comes back to a
client must carry that client's token. File descriptors and memory of the router are watched.
"""

import random
import socket
import struct
import threading
import time

from protocol import frames

from . import program
from .cluster import Cluster, Router

_ROWS = 400


class Foreign(Exception):
    """A reply that was another client's."""


class Raw:
    """A socket that speaks the protocol; it keeps no state but the key for cancelling."""

    def __init__(self, port: int, user: str = "postgres"):
        # A cancel request may go to another router.
        self.port = self.cancel_port = port
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        body = struct.pack("!I", 196608) + f"user\0{user}\0database\0postgres\0\0".encode()
        self.socket.sendall(struct.pack("!I", len(body) + 4) + body)
        self.key = b""
        for tag, body in self.until_ready():
            if tag == b"K":
                self.key = body
            assert tag != b"E", body

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def message(self) -> tuple[bytes, bytes]:
        while True:
            if len(self.buffer) >= 5:
                length = struct.unpack("!I", self.buffer[1:5])[0] + 1
                if len(self.buffer) >= length:
                    found, self.buffer = self.buffer[:length], self.buffer[length:]
                    return found[:1], found[5:]
            more = self.socket.recv(65536)
            if not more:
                raise ConnectionError("closed")
            self.buffer += more

    def until_ready(self):
        while True:
            tag, body = self.message()
            yield tag, body
            if tag == b"Z":
                return

    def cancel(self) -> None:
        with socket.create_connection(("127.0.0.1", self.cancel_port), timeout=60) as other:
            other.sendall(struct.pack("!II", 12 + len(self.key) - 4, 80877102) + self.key)
            other.settimeout(60)
            other.recv(1)

    def leave(self, rng: random.Random) -> None:
        if rng.random() < 0.5:
            # RST instead of FIN.
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


def _field(body: bytes) -> bytes | None:
    """The first value of a DataRow."""
    length = struct.unpack("!i", body[2:6])[0]
    return None if length < 0 else body[6 : 6 + length]


class Client(threading.Thread):
    def __init__(self, number: int, seed: int, router: Router, stop: threading.Event):
        super().__init__(daemon=True)
        self.number, self.router, self.stop = number, router, stop
        self.random = random.Random(f"{seed}/{number}")
        self.replies = self.errors = self.left = self.cancels = 0
        self.trouble: BaseException | None = None
        self.token = 0
        self.aborted = False

    def run(self) -> None:
        try:
            while not self.stop.is_set():
                try:
                    self._session()
                except (ConnectionError, TimeoutError, socket.timeout) as error:
                    # The one on the other side may be gone; a hang is not allowed.
                    if isinstance(error, (TimeoutError, socket.timeout)):
                        raise AssertionError(f"client {self.number}: no answer in 60 s") from error
        except BaseException as error:
            self.trouble = error

    def _session(self) -> None:
        raw = Raw(self.router.port)
        self.aborted = False
        prepared = self.random.random() < 0.7
        # A setting of its own, which must follow it to whatever connection serves it.
        self.own = f"own{self.number}.{self.random.randrange(10**6)}" if self.random.random() < 0.3 else None
        if self.own:
            raw.send(frames.query(f"set soak.own = '{self.own}'"))
            for tag, body in raw.until_ready():
                assert tag != b"E", body
        if prepared:
            raw.send(
                frames.parse("select $1::text || ':' || id from soak where id = $2", "token")
                + frames.parse("insert into soak_log (id, token) values ($2, $1)", "log") + frames.sync()
            )
            for tag, body in raw.until_ready():
                assert tag != b"E", body
        for _ in range(self.random.randrange(1, 40)):
            if self.stop.is_set():
                break
            batch = [self._request(prepared) for _ in range(self.random.choice([1, 1, 1, 2, 5, 20]))]
            data = b"".join(sent for sent, _ in batch)
            what = self.random.random()
            if what < 0.02:
                # Leaves with a statement half written, or with answers unread.
                raw.send(data[: self.random.randrange(1, len(data) + 1)])
                time.sleep(self.random.choice([0, 0, 0.001, 0.01]))
                self.left += 1
                raw.leave(self.random)
                return
            raw.send(data)
            if what < 0.06:
                time.sleep(self.random.choice([0, 0, 0.0005, 0.002]))
                self.cancels += 1
                raw.cancel()
            for _, expected in batch:
                self._answer(raw, expected)
            if self.aborted:
                raw.send(frames.query("rollback"))
                self._answer(raw, None)
        raw.send(frames.terminate())
        raw.socket.close()

    def _request(self, prepared: bool) -> tuple[bytes, bytes | None]:
        """What is sent, and the only value that may come back."""
        self.token += 1
        token = f"{self.number}.{self.token}"
        key = self.random.randrange(1, _ROWS + 1)
        answer = f"{token}:{key}".encode()
        kind = self.random.randrange(12)
        if kind < 4 and prepared:
            return frames.bind(token, str(key), statement="token") + frames.execute() + frames.sync(), answer
        if kind < 5 and prepared:
            new = str(self.random.randrange(10**9))
            return frames.bind(f"{token}@{new}", new, statement="log") + frames.execute() + frames.sync(), None
        if kind < 7:
            return frames.query(f"select '{token}' || ':' || id from soak where id = {key}"), answer
        if kind == 7:
            new = self.random.randrange(10**9)
            return frames.query(f"insert into soak_log (id, token) values ({new}, '{token}@{new}')"), None
        if kind == 8:
            return frames.query(
                f"begin; update soak set v = v + 1 where id = {key}; select '{token}' || ':' || id from soak where id = {key}; commit"
            ), answer
        if kind == 9 and self.own:
            return frames.query(f"select current_setting('soak.own') || ':' || id from soak where id = {key}"), f"{self.own}:{key}".encode()
        if kind == 10:
            # Long enough for a cancel to meet it.
            return frames.query(f"select '{token}' || ':' || id from soak, pg_sleep(0.003) where id = {key}"), answer
        return (
            frames.parse("select $1::text || ':' || id from soak where id = $2")
            + frames.bind(token, str(key)) + frames.execute() + frames.sync()
        ), answer

    def _answer(self, raw: Raw, expected: bytes | None) -> None:
        rows, error, aborted = [], None, self.aborted
        for tag, body in raw.until_ready():
            if tag == b"D":
                rows.append(_field(body))
            elif tag == b"Z":
                # A transaction cancelled before its COMMIT: what was sent behind it fails, as on any server.
                self.aborted = body == b"E"
            elif tag == b"E":
                error = body
        self.replies += 1
        if error is not None:
            self.errors += 1
            code = next(part[1:] for part in error.split(b"\0") if part[:1] == b"C")
            # Cancelled by this client itself, or a duplicate id.
            if code not in (b"57014", b"23505", b"40P01") and not (aborted and code == b"25P02"):
                raise AssertionError(f"client {self.number}: {error!r}")
        if any(row != expected for row in rows) or (error is None and len(rows) != (0 if expected is None else 1)):
            raise Foreign(f"client {self.number} expected {expected!r} and got {rows!r}")


def run(seed: int, seconds: float = 60.0, clients: int = 16, pool: int = 4, least: int = 0, cluster: Cluster | None = None) -> dict:
    """`least`: it goes on until there are more replies."""
    own = cluster is None
    cluster = cluster or Cluster(nodes=2)
    try:
        router = cluster.router("soak", f"[pool]\nsize = {pool}\n").start()
        return _run(seed, seconds, clients, least, cluster, router)
    finally:
        if own:
            cluster.stop()


def _run(seed: int, seconds: float, clients: int, least: int, cluster: Cluster, router: Router) -> dict:
    # A change of the schema needs more connections than the small pool has.
    cluster.router("soak setup").start().server.run(
        "create table soak (id int primary key, v int)", "create table soak_log (id int, token text)",
        "select create_distributed_table('soak', 'id')", "select create_distributed_table('soak_log', 'id')",
        f"insert into soak select g, 0 from generate_series(1, {_ROWS}) g",
    )
    time.sleep(0.5)
    stop = threading.Event()
    crew = [Client(i, seed, router, stop) for i in range(clients)]
    for client in crew:
        client.start()
    # The first part of the time fills caches; growth counts after it.
    deadline = time.monotonic() + seconds
    samples = []


    def is_enough() -> bool:
        return not least or sum(c.replies for c in crew) > least

    while (time.monotonic() < deadline or not is_enough() and time.monotonic() < deadline + program.LONGER_SECONDS_MAX) and all(c.trouble is None for c in crew):
        time.sleep(min(1.0, seconds / 20))
        samples.append((router.open_files(), router.resident_kib()))
    stop.set()
    for client in crew:
        client.join(120)
        assert not client.is_alive(), f"client {client.number} hangs"
        if client.trouble is not None:
            raise AssertionError(f"{type(client.trouble).__name__}: {client.trouble}\n{router.tail(500)}")
    time.sleep(1)
    rest = time.monotonic() + 30
    while router.open_files() >= 60 and time.monotonic() < rest:
        time.sleep(0.2)
    third = len(samples) // 3
    files = router.open_files()
    early, late = max(s[1] for s in samples[third : 2 * third + 1]), max(s[1] for s in samples[2 * third :])
    figures = {
        "replies": sum(c.replies for c in crew), "foreign": 0, "errors": sum(c.errors for c in crew),
        "left": sum(c.left for c in crew), "cancels": sum(c.cancels for c in crew), "clients": clients,
        "files_at_rest": files, "kib_middle_third": early, "kib_last_third": late,
    }
    # At rest: pools, listeners, the router's own connections.
    assert files < 60, f"open files at rest: {figures}"
    assert late - early < max(8192, early // 5), f"memory grows: {figures}"
    with router.server.connect() as connection:
        # Rows of different clients travel as rows of one statement: each has kept its own values.
        wrong = connection.execute("select count(*) from soak_log where token !~ ('^[0-9]+[.][0-9]+@' || id || '$')").fetchone()[0]
        assert wrong == 0, f"{wrong} rows with values of two clients, or of none"
    return figures


if __name__ == "__main__":
    program.main("soak", run, program.arguments(__doc__, seconds=60.0, clients=16, pool=4))

"""Promise 5: bytes that no client would send. The router neither panics nor grows, and serves others meanwhile.

Stateful: a session is a random walk over messages of the protocol, good ones more often than bad, so that nonsense meets
every state: before the startup, in it, twice, inside a batch, inside COPY, with lengths that are negative or 4 GiB.
A stub of a node that answers with nonsense is the other direction.
"""

import random
import socket
import struct
import threading

from protocol import frames

from . import program
from .cluster import Cluster

_SQL = [
    "select 1", "select * from fuzz", "select v from fuzz where id = 3", "begin", "commit", "rollback", "savepoint a", "rollback to a",
    "insert into fuzz values (1, 1)", "update fuzz set v = 1", "copy fuzz from stdin", "copy fuzz to stdout", "copy fuzz from stdin (format binary)",
    "select 1/0", "", ";", ";;", "select $1", "set work_mem = '1MB'", "declare c cursor for select * from fuzz", "fetch 3 from c", "prepare p as select 1",
    "execute p", "deallocate all", "listen x", "notify x", "select pg_sleep(0.01)", "discard all", "lock fuzz", "explain select * from fuzz",
    "select '", "select $$", "/* ", "select \"", "select E'\\", "create temp table t (x int)", "truncate fuzz", "\0", "\u00e9", "select 1; select 2; sel",
    "with x as (" * 200 + "select 1" + ")" * 200, "select " + "(" * 3000 + "1" + ")" * 3000, "select " + "1+" * 5000 + "1", "select '" + "x" * 100_000 + "'",
]


def _good(rng: random.Random) -> bytes:
    sql = rng.choice(_SQL)
    name = rng.choice(["", "", "s", "t", "x" * 100])
    kind = rng.randrange(14)
    values = [rng.choice([None, "1", "3", "x", "", "9" * 50, b"\0\0\0\1", b"\xff\xfe"]) for _ in range(rng.randrange(0, 3))]
    return [
        lambda: frames.query(sql), lambda: frames.query(sql), lambda: frames.parse(sql, name, tuple(rng.choice([0, 23, 25, 99999]) for _ in range(rng.randrange(0, 3)))),
        lambda: frames.bind(*values, statement=name, portal=rng.choice(["", "p"]), formats=tuple(rng.choice([0, 1, 7]) for _ in range(rng.randrange(0, 3)))),
        lambda: frames.describe(rng.choice("SPX"), name), lambda: frames.execute(rng.choice(["", "p"]), rng.choice([0, 1, -1, 2**31 - 1])),
        lambda: frames.close(rng.choice("SPX"), name), frames.sync, frames.sync, frames.flush, lambda: frames.copy_data(rng.choice([b"1\t2\n", b"x", b"\\.\n", b""])),
        frames.copy_done, lambda: frames.copy_fail("no"), lambda: frames.extended(sql, *values),
    ][kind]()


def _bad(rng: random.Random) -> bytes:
    good = _good(rng)
    kind = rng.randrange(9)
    if kind == 0:
        at = rng.randrange(len(good))
        return good[:at] + bytes([rng.randrange(256)]) + good[at + 1 :]
    if kind == 1:
        return good[: rng.randrange(len(good))]
    if kind == 2:
        return good[:1] + struct.pack("!I", rng.choice([0, 1, 3, 4, 5, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x40000001, len(good) + 1])) + good[5:]
    if kind == 3:
        return bytes([rng.randrange(256)]) + good[1:]
    if kind == 4:
        return rng.randbytes(rng.randrange(1, 300))
    if kind == 5:
        return frames.startup()
    if kind == 6:
        return frames.int32(16) + frames.int32(frames.CANCEL_REQUEST) + rng.randbytes(8)
    if kind == 7:
        return frames.int32(8) + frames.int32(rng.choice([frames.SSL_REQUEST, frames.GSSENC_REQUEST]))
    # Counts that promise more than there is.
    return frames.message("B", b"\0\0" + struct.pack("!h", rng.choice([-1, 32767, 1])) + b"\0\1" + struct.pack("!i", rng.choice([-2, 2**31 - 1, 5])))


def _startup(rng: random.Random) -> bytes:
    kind = rng.randrange(10)
    if kind < 6:
        return frames.startup()
    if kind == 6:
        return frames.startup(rng.choice([0, 1, 2 << 16, 3 << 16 | 1, 3 << 16 | 2, 3 << 16 | 99, 4 << 16, 0x7FFFFFFF]))
    if kind == 7:
        return struct.pack("!I", rng.choice([0, 1, 4, 7, 8, 9999, 10001, 0x7FFFFFFF, 0xFFFFFFFF])) + rng.randbytes(rng.randrange(40))
    if kind == 8:
        return frames.startup(user=rng.choice(["postgres", "x", "", "é" * 40]), **{rng.choice(["options", "TimeZone", "x.y", "role"]): rng.choice(["-c", "-c a=b", "x", "\\"])})
    body = frames.int32(3 << 16) + rng.randbytes(rng.randrange(60))
    return frames.int32(len(body) + 4) + body


def _session(port: int, rng: random.Random) -> int:
    """One walk; messages sent."""
    sent = 0
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
            client.sendall(_startup(rng))
            client.settimeout(0.02)
            for _ in range(rng.randrange(1, 30)):
                data = _good(rng) if rng.random() < 0.85 else _bad(rng)
                sent += 1
                if rng.random() < 0.1:
                    for i in range(0, min(len(data), 50)):
                        client.sendall(data[i : i + 1])
                    data = data[50:]
                client.settimeout(5)
                client.sendall(data)
                client.settimeout(0.003)
                try:
                    while client.recv(65536):
                        pass
                    return sent
                except TimeoutError:
                    pass
    except OSError:
        pass
    return sent


class NonsenseNode:
    """Takes a login as a node would, then answers everything with mutated messages."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.answers = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        rng = self.random
        try:
            client.settimeout(5)
            first = client.recv(8192)
            if len(first) >= 8 and struct.unpack("!I", first[4:8])[0] == frames.SSL_REQUEST:
                client.sendall(b"N")
                client.recv(8192)
            # A silent node is a slow one to the router: this one gives up instead.
            client.settimeout(0.2)
            login = frames.message("R", b"\0\0\0\0") + frames.message("S", b"server_version\0" + b"18.0\0") + frames.message("K", b"\0\0\0\1\0\0\0\1") + frames.message("Z", b"I")
            client.sendall(login if rng.random() < 0.9 else self._nonsense(login))
            while client.recv(65536):
                row = frames.message("D", b"\0\1\0\0\0\1x")
                answer = frames.message("T", b"\0\1x\0" + bytes(18)) + row * 3 + frames.message("C", b"SELECT 3\0") + frames.message("Z", b"I")
                answer = rng.choice([answer, frames.message("1") + frames.message("2") + answer, frames.message("E", b"SERROR\0C42P01\0Mno\0\0") + frames.message("Z", b"I")])
                client.sendall(self._nonsense(answer) if rng.random() < 0.8 else answer)
                self.answers += 1
        except OSError:
            pass
        finally:
            client.close()

    def _nonsense(self, answer: bytes) -> bytes:
        rng = self.random
        data = bytearray(answer)
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        if rng.random() < 0.3:
            del data[rng.randrange(len(data)) :]
        return bytes(data)

    def stop(self) -> None:
        self.listener.close()


def run(seed: int, sessions: int = 1000, cluster: Cluster | None = None) -> dict:
    own = cluster is None
    cluster = cluster or Cluster(nodes=2)
    nonsense = NonsenseNode(seed)
    try:
        router = cluster.router("fuzz", "[pool]\nwait_timeout_ms = 3000\n").start()
        router.server.run(
            "create table fuzz (id int, v int)", "select create_distributed_table('fuzz', 'id')", "create table fuzz_alive (id int primary key)",
            "insert into fuzz_alive values (42)",
        )
        rng = random.Random(seed)
        messages = 0
        kib = []
        for number in range(sessions):
            messages += _session(router.port, random.Random(rng.random()))
            if number % 50 == 0:
                assert router.is_up(), f"session {number}: the router is gone\n{router.tail()}"
                with router.server.connect() as connection:
                    assert connection.execute("select id from fuzz_alive").fetchone() == (42,)
                kib.append(router.resident_kib())
        _node_side(cluster, router, nonsense, sessions // 5)
        log = router.log.read_text(errors="replace")
        assert "panicked" not in log, log[log.index("panicked") - 300 :][:1500]
        assert kib[-1] < kib[len(kib) // 3] + 60_000, f"memory grows: {kib}"
        return {"sessions": sessions, "messages": messages, "node_answers": nonsense.answers, "panics": 0, "kib": [kib[0], kib[-1]]}
    finally:
        nonsense.stop()
        if own:
            cluster.stop()


def _node_side(cluster: Cluster, router, nonsense: NonsenseNode, statements: int) -> None:
    """The second node becomes one that talks nonsense: errors for those who need it, and answers for all others."""
    router.server.run("create table fuzz_two (id int primary key)", "select create_distributed_table('fuzz_two', 'id')", "insert into fuzz_two select generate_series(1, 40)")
    here = cluster.keys_by_node("fuzz_two")[0][0]
    with cluster.nodes[0].server.connect() as home:
        home.execute("update herd.node set port = %s where port = %s", (nonsense.port, cluster.nodes[1].server.port))
        home.execute("select herd.bump_epoch()")
    router.kill()
    router.start()
    import psycopg

    for number in range(statements):
        with router.server.connect(prepare_threshold=[None, 0][number % 2]) as connection:
            try:
                connection.execute("set statement_timeout = '2s'")
                connection.execute(["select count(*) from fuzz_two", "select id from fuzz_two order by id", "update fuzz_two set id = id"][number % 3])
            except psycopg.Error:
                pass
        if number % 20 == 0:
            with router.server.connect() as connection:
                assert connection.execute("select id from fuzz_two where id = %s", (here,)).fetchone() == (here,)
    with cluster.nodes[0].server.connect() as home:
        home.execute("update herd.node set port = %s where port = %s", (cluster.nodes[1].server.port, nonsense.port))
        home.execute("select herd.bump_epoch()")


if __name__ == "__main__":
    program.main("wire fuzz", run, program.arguments(__doc__, sessions=20_000))

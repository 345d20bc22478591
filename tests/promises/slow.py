"""Promise 6: half-open logins that drip, and clients that do not read, cost the others next to nothing.

The slow ones live in a process of their own. Others' latency is measured before and meanwhile; the login timeout has
to close every one of them, and the router's memory to stay flat.
"""

import multiprocessing
import resource
import socket
import struct
import time

from protocol import frames

from . import program
from .cluster import Cluster, Router
from .soak import Raw

_LOGIN_TIMEOUT_S = 6


def _drip(port: int, count: int, ready, closed) -> None:
    """A startup packet at one byte a second, so many times at once, until the router closes all of them."""
    data = struct.pack("!II", 200, 196608) + b"user\0postgres\0" + b"application_name\0" + b"x" * 200
    sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
    for each in sockets:
        each.setblocking(False)
    ready.set()
    at = 0
    while sockets and at < 40:
        left = []
        for each in sockets:
            try:
                each.send(data[at : at + 1])
                if each.recv(100) == b"":
                    raise ConnectionError
            except BlockingIOError:
                left.append(each)
            except OSError:
                each.close()
                continue
            else:
                left.append(each)
        sockets = left
        with closed.get_lock():
            closed.value = count - len(sockets)
        at += 1
        time.sleep(1)


def _latencies(router: Router, seconds: float) -> list[float]:
    """Of point reads, one client, in ms."""
    raw = Raw(router.port)
    took = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        started = time.perf_counter()
        raw.send(frames.query(f"select id from slow where id = {len(took) % 40 + 1}"))
        for tag, body in raw.until_ready():
            assert tag != b"E", body
        took.append((time.perf_counter() - started) * 1000)
    raw.socket.close()
    return sorted(took)


def run(seed: int, half_open: int = 500, readers: int = 4, seconds: float = 6.0, cluster: Cluster | None = None) -> dict:
    own = cluster is None
    cluster = cluster or Cluster(nodes=2)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        router = cluster.router("slow", f"[limits]\nlogin_timeout_s = {_LOGIN_TIMEOUT_S}\n").start()
        router.server.run(
            "create table slow (id int primary key, v int)", "select create_distributed_table('slow', 'id')",
            "insert into slow select g, 0 from generate_series(1, 40) g",
        )
        alone = _latencies(router, seconds / 2)
        before = router.resident_kib()
        ready, closed = multiprocessing.Event(), multiprocessing.Value("i", 0)
        dripping = multiprocessing.Process(target=_drip, args=(router.port, half_open, ready, closed), daemon=True)
        dripping.start()
        assert ready.wait(60)
        # 25 GB each, if anybody read it.
        stuck = [Raw(router.port) for _ in range(readers)]
        for raw in stuck:
            raw.send(frames.query("select repeat('x', 10000) from slow, generate_series(1, 70000)"))
        beside = _latencies(router, min(seconds, _LOGIN_TIMEOUT_S - 1))
        during = router.resident_kib()
        dripping.join(_LOGIN_TIMEOUT_S + 40)
        left_open = half_open - closed.value
        for raw in stuck:
            raw.socket.close()
        time.sleep(1)
        figures = {
            "half_open": half_open, "closed_by_timeout": closed.value, "not_reading": readers,
            "p50_ms": [round(_at(alone, 0.5), 2), round(_at(beside, 0.5), 2)], "p99_ms": [round(_at(alone, 0.99), 2), round(_at(beside, 0.99), 2)],
            "kib": [before, during, router.resident_kib()],
        }
        assert left_open == 0, f"{left_open} half-open logins are still open: {figures}"
        assert during - before < 40_000 + 40 * half_open, f"memory: {figures}"
        # On a busy machine a few milliseconds are noise.
        assert _at(beside, 0.99) < 2 * _at(alone, 0.99) + 10, f"others are slowed down: {figures}"
        assert "panicked" not in router.log.read_text(errors="replace"), router.tail()
        return figures
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        if own:
            cluster.stop()


def _at(values: list[float], share: float) -> float:
    return values[min(len(values) - 1, int(len(values) * share))]


if __name__ == "__main__":
    program.main("slow clients", run, program.arguments(__doc__, half_open=5000, readers=8, seconds=6.0))

"""Cancel requests: stop the statement of the connection whose key was sent, and nothing else."""

import threading
import time

import pytest

from protocol import frames
from protocol.frames import query
from protocol.raw import Raw

SLEEPS = {
    "no table": "select pg_sleep(20)",
    "one shard": "select pg_sleep(20) from proto where id = 7",
    "all shards": "select count(pg_sleep(20)) from proto where id in (1, 2, 3, 4, 5, 6, 7, 8)",
}


def cancel(server, key: bytes) -> None:
    with Raw(server, start=False) as raw:
        raw.send(frames.int32(12 + len(key) - 4) + frames.int32(frames.CANCEL_REQUEST) + key)
        raw.is_closed()


@pytest.mark.parametrize("version", [frames.PROTOCOL_3_0, frames.PROTOCOL_3_2], ids=["3.0", "3.2"])
@pytest.mark.parametrize("sql", SLEEPS.values(), ids=SLEEPS.keys())
def test_a_running_statement_is_cancelled(tables, herd, sql, version):
    with Raw(herd, version=version) as raw:
        timer = threading.Timer(0.5, cancel, (herd, raw.key))
        timer.start()
        started = time.monotonic()
        got = raw.transcript(query(sql))
        assert time.monotonic() - started < 15
        assert [line for line in got if line.startswith("E")][0].startswith("E ERROR 57014")
        assert got[-1] == "Z I"
        assert raw.transcript(query("select count(*) from proto"))[-2:] == ["C SELECT 1", "Z I"]
        timer.join()


def test_a_transaction_is_failed_by_cancel(tables, herd):
    with Raw(herd) as raw:
        raw.transcript(query("begin"))
        timer = threading.Timer(0.3, cancel, (herd, raw.key))
        timer.start()
        assert raw.transcript(query(SLEEPS["one shard"]))[-1] == "Z E"
        assert raw.transcript(query("rollback"))[-1] == "Z I"
        timer.join()


def test_cancel_when_idle_does_nothing(tables, herd):
    with Raw(herd) as raw:
        cancel(herd, raw.key)
        for _ in range(20):
            assert raw.transcript(query("select v from proto where id = 7"))[-1] == "Z I"


def test_a_wrong_secret_does_nothing(tables, herd):
    with Raw(herd) as raw:
        wrong = raw.key[:-1] + bytes([raw.key[-1] ^ 1])
        timer = threading.Timer(0.2, cancel, (herd, wrong))
        timer.start()
        assert raw.transcript(query("select pg_sleep(1)"))[-2:] == ["C SELECT 1", "Z I"]
        timer.join()


def test_many_cancels_hit_only_their_own(tables, herd):
    """Two sessions that sleep; only the first is cancelled, many times over."""
    with Raw(herd) as victim, Raw(herd) as other:
        other.send(query("select pg_sleep(1.5)"))
        victim.send(query("select pg_sleep(20)"))
        time.sleep(0.3)
        for _ in range(20):
            cancel(herd, victim.key)
        assert any(kind == "E" for kind, _ in victim.until_ready())
        assert [kind for kind, _ in other.until_ready()] == ["T", "D", "C", "Z"]
        assert victim.transcript(query("select 1"))[-1] == "Z I"


def test_a_client_that_leaves_stops_its_statement(tables, herd):
    """A closed socket in the middle of a statement: the connection behind it comes back clean, or not at all."""
    for _ in range(5):
        with Raw(herd) as raw:
            raw.send(query("begin; select count(*) from proto; set timezone = 'Asia/Tokyo'; select pg_sleep(1) from proto where id = 7"))
            time.sleep(0.05)
    with Raw(herd) as next_one:
        before = next_one.parameters["TimeZone"]
        assert before != "Asia/Tokyo"
        assert before in next_one.transcript(query("show timezone"))[1]
        assert next_one.transcript(query("select v from proto where id = 7"))[-1] == "Z I"

"""A node dies in the middle of a bulk load: what is said to be committed is there when it is back."""

import os
import re
import signal
import threading
import time

import psycopg
import pytest

from harness.herd import Herd

pytestmark = pytest.mark.real_herd


@pytest.fixture
def mortal():
    herd = Herd(nodes=2, shards=8)
    yield herd
    herd.stop()


@pytest.mark.parametrize("upsert", ["off", "on"])
def test_a_killed_node(mortal, upsert):
    mortal.server.run("CREATE TABLE t (id int PRIMARY KEY, a text)", "SELECT create_distributed_table('t', 'id')")
    victim = mortal.process_id(mortal.port + 2)

    def kill():
        with mortal.server.connect() as watcher:
            for _ in range(3000):
                if watcher.execute("SELECT count(*) FROM t").fetchone()[0] > 1000:
                    break
                time.sleep(0.02)
        os.kill(victim, signal.SIGKILL)

    with mortal.server.connect() as db:
        db.execute("SET herd.bulk_load = on")
        db.execute("SET herd.batch_rows = 100")
        db.execute(f"SET herd.upsert = {upsert}")
        thread = threading.Thread(target=kill)
        thread.start()
        with pytest.raises(psycopg.Error) as raised:
            db.execute("INSERT INTO t SELECT g, repeat('x', 200) FROM generate_series(1, 2000000) g")
        thread.join()
        detail = raised.value.diag.message_detail or ""
        least = int(re.search(r"(\d+) rows of this statement are committed", detail).group(1))
        assert least > 0
    mortal.up()
    with mortal.server.connect() as db:
        there = db.execute("SELECT count(*) FROM t").fetchone()[0]
        assert there >= least
        if "At least" not in detail:
            assert there == least
        assert db.execute("SELECT count(*) FROM (SELECT FROM t GROUP BY id HAVING count(*) > 1) d").fetchone() == (0,)
        assert db.execute("SELECT count(*) FROM herd.transactions").fetchone() == (0,)


@pytest.mark.parametrize("upsert", ["off", "on"])
def test_what_was_acknowledged_survives_a_kill_at_once(mortal, upsert):
    """Batches commit without waiting for the disk; the statement's end must have waited for all of them."""
    mortal.server.run("CREATE TABLE t (id int PRIMARY KEY, a text)", "SELECT create_distributed_table('t', 'id')")
    for round in range(3):
        victims = [mortal.process_id(mortal.port + node) for node in (1, 2)]
        with mortal.server.connect() as db:
            db.execute("SET herd.bulk_load = on")
            db.execute("SET herd.batch_rows = 100")
            db.execute(f"SET herd.upsert = {upsert}")
            db.execute("INSERT INTO t SELECT g, 'x' FROM generate_series(%s::int, %s) g", (round * 5000 + 1, round * 5000 + 5000))
            for victim in victims:
                os.kill(victim, signal.SIGKILL)
        mortal.up()
        with mortal.server.connect() as db:
            assert db.execute("SELECT count(*) FROM t").fetchone() == ((round + 1) * 5000,)

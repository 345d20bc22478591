"""A role may set for itself what it likes, of any length: that costs its own logins, and nobody else's. Who logs in has it looked at
before he has proved anything."""

import threading
import time

import psycopg
import pytest

from harness import router

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("security-costs"), pytest.mark.timeout(300)]

_LENGTH = 30_000_000


@pytest.fixture(scope="module")
def one():
    home = router.node("own-settings")
    made = router.Router(router.conninfo(home), [])
    try:
        made.server.run("create role mallory login", "create role victim login")
        yield made, home
    finally:
        for each in (made, home):
            each.stop()


def test_logins_of_others(one):
    made, _ = one
    with made.server.connect(user="mallory") as mallory:
        mallory.execute(f"alter role mallory set application_name = '{'x' * _LENGTH}'")
    over = threading.Event()

    def knock() -> None:
        while not over.is_set():
            try:
                made.server.connect(user="mallory").close()
            except psycopg.Error:
                pass

    threads = [threading.Thread(target=knock, daemon=True) for _ in range(24)]
    for thread in threads:
        thread.start()
    try:
        time.sleep(2)
        waits = []
        for _ in range(5):
            began = time.monotonic()
            with made.server.connect(user="victim", connect_timeout=60) as victim:
                assert victim.execute("select 1").fetchone() == (1,)
            waits.append(time.monotonic() - began)
        assert max(waits) < 20, waits
    finally:
        over.set()
        for thread in threads:
            thread.join(60)


def test_a_change_is_still_seen(one):
    """What is not read is noticed all the same: each change ends the connections that were opened before it."""
    made, home = one
    made.server.run("alter role victim reset all")
    for n in range(3):
        with home.server.connect() as boss:
            boss.execute(f"alter role victim set work_mem = '{n + 1}MB'")
        with made.server.connect(user="victim") as victim:
            assert victim.execute("show work_mem").fetchone() == (f"{n + 1}MB",)
    made.server.run("alter role victim reset all")
    with made.server.connect(user="victim") as victim:
        assert victim.execute("show work_mem").fetchone() == ("4MB",)

"""Signalling what is no backend costs nobody else anything, however many pids there are, and is cancelled as any statement."""

import threading
import time

import psycopg
import pytest

from harness import router

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("security-costs"), pytest.mark.timeout(400)]
_NUMBER_SHIFT = 23


@pytest.fixture(scope="module")
def one():
    home = router.node("many-pids")
    made = router.Router(router.conninfo(home), [], more="threads = 1\n")
    made.server.run("create role mallory login")
    sessions = [made.server.connect(user="mallory") for _ in range(150)]
    try:
        yield made, sessions
    finally:
        for session in sessions:
            session.close()
        for each in (made, home):
            each.stop()


def _pids(sessions) -> str:
    """Nobody's pids, as this router would make them."""
    first = sessions[0].info.backend_pid >> _NUMBER_SHIFT << _NUMBER_SHIFT
    taken = ",".join(str(s.info.backend_pid) for s in sessions)
    # No process of a machine has such a number, either.
    return f"from generate_series({first} + 8000000, {first} + 8380000) g where g <> all ('{{{taken}}}')"


def test_others_go_on(one):
    made, sessions = one
    with made.server.connect(user="mallory") as mallory, made.server.connect() as other:
        # The warnings are PostgreSQL's, and many.
        mallory.execute("set client_min_messages = error")
        answers, waits = [], []
        ask = f"select pg_cancel_backend(g) {_pids([*sessions, mallory, other])}"
        thread = threading.Thread(target=lambda: answers.extend(mallory.execute(ask).fetchall()))
        began = time.monotonic()
        thread.start()
        while thread.is_alive():
            before = time.monotonic()
            other.execute("select 1")
            waits.append(time.monotonic() - before)
            time.sleep(0.01)
        took = time.monotonic() - began
    assert len(answers) > 379_000 and not any(answer for (answer,) in answers)
    assert max(waits) < max(1, took / 2), (max(waits), took)


def test_it_is_cancelled(one):
    """While the pids are found, and while they are looked at."""
    made, sessions = one
    which = _pids(sessions)
    for ask in (f"select pg_cancel_backend(g) {which}", "select pg_cancel_backend(1) from (select pg_sleep(60)) s"):
        with made.server.connect(user="mallory") as mallory:
            mallory.execute("set client_min_messages = error")
            timer = threading.Timer(1, mallory.cancel)
            timer.start()
            began = time.monotonic()
            try:
                mallory.execute(ask)
            except psycopg.errors.QueryCanceled:
                pass
            assert time.monotonic() - began < 45, ask
            timer.join()
            assert mallory.execute("select 1").fetchone() == (1,)


def test_one_pid_many_times(one):
    made, sessions = one
    victim = sessions[0]
    with made.server.connect(user="mallory") as mallory:
        pid = victim.info.backend_pid
        assert mallory.execute(f"select pg_cancel_backend(p) from (select {pid} p from generate_series(1, 10)) s").fetchall() == [(True,)] * 10
        # The pids that are nobody's are for home to answer, as ever.
        nobodys = (victim.info.backend_pid >> _NUMBER_SHIFT) + 1 << _NUMBER_SHIFT | 5
        assert mallory.execute(f"select pg_terminate_backend(p) from unnest(array[{pid}, {nobodys}, {pid}]) p").fetchall() == [(True,), (False,), (True,)]
        with pytest.raises(psycopg.errors.AdminShutdown):
            victim.execute("select 1")

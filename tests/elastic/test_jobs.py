"""`herd jobs`: what runs and what has ended, in a table and watched to the end."""

import subprocess
import time

import pytest

from harness import binaries

from .test_interrupted import waiting  # noqa: F401  (a fixture)

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("elastic"), pytest.mark.timeout(400)]


def _command(elastic, *more: str) -> list[str]:
    return [str(binaries.herd()), "jobs", "--url", f"postgresql://postgres@127.0.0.1:{elastic.b.port}/postgres", *more]


@pytest.mark.parametrize("cancelled", [False, True])
def test_watched_to_the_end(elastic, waiting, cancelled):  # noqa: F811
    listed = subprocess.run(_command(elastic), capture_output=True, text=True, timeout=90)
    assert listed.returncode == 0 and "i_waits from" in listed.stdout and "running" in listed.stdout, listed
    watching = subprocess.Popen(_command(elastic, "--watch"), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    # It has begun to watch when it says so.
    first = watching.stderr.readline()
    assert first.startswith("move of shard 1 of i_waits from "), first
    if cancelled:
        with elastic.b.connect() as connection:
            assert connection.execute("select bool_and(herd.cancel_job(id)) from herd.jobs where state = 'running'").fetchone() == (True,)
    error = waiting()
    assert (error is not None) == cancelled
    out, said = watching.communicate(timeout=90)
    last = said.splitlines()[-1]
    if cancelled:
        assert watching.returncode == 1 and "cancelled: it was cancelled by herd.cancel_job()" in last, said
    else:
        assert watching.returncode == 0 and last.endswith(": done"), said
    assert out == ""
    listed = subprocess.run(_command(elastic), capture_output=True, text=True, timeout=90)
    assert ("cancelled" if cancelled else "done") in listed.stdout.splitlines()[-3], listed.stdout
    # Nothing runs: there is nothing to wait for.
    assert subprocess.run(_command(elastic, "--watch"), capture_output=True, text=True, timeout=90).returncode == 0


def test_time_left(elastic, waiting):  # noqa: F811
    deadline = time.monotonic() + 90
    with elastic.b.connect() as connection:
        # It is told twice a second.
        while True:
            (done, total, left), = connection.execute("select bytes_done, bytes_total, time_left from herd.jobs where state = 'running'").fetchall()
            if done > 0:
                break
            assert left is None and time.monotonic() < deadline, (done, total, left)
            time.sleep(0.1)
    assert done >= total or left.total_seconds() > 0, (done, total, left)

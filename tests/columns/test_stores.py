"""Which stores there are, whether they answer and how far they are behind: `herd status`, `herd.column_stores`, the router's metrics page and log."""

import json
import os
import re
import signal
import subprocess
import time

import pytest

from harness import binaries

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("columns"), pytest.mark.timeout(300)]


def _status(*where, json_: bool = False) -> subprocess.CompletedProcess:
    command = [binaries.herd(), "status", *map(str, where), *(["--json"] if json_ else [])]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def _eventually(ask, wanted, seconds_max: float = 90):
    deadline = time.monotonic() + seconds_max
    while (got := ask()) != wanted and time.monotonic() < deadline:
        time.sleep(0.1)
    assert got == wanted


def test_a_store_goes_and_comes_back(columns):
    server, herd = columns.server, columns.herd
    server.run("drop table if exists c_stores", "create table c_stores (id int primary key)", "select create_distributed_table('c_stores', 'id')")
    columns.add("c_stores")
    by_dir, by_url = ("--dir", herd.dir), ("--url", server.url)
    ports, up = [store.port for store in columns.stores], lambda: re.findall(r'^herd_column_store_up\{node="(\w+)"\} (\d)', columns.page(), re.M)
    _eventually(up, [("home", "1"), ("node2", "1")])
    _eventually(lambda: bool(re.search(r'^herd_column_store_copies_ready\{node="node2"\} [1-9]', columns.page(), re.M)), True)
    for where, nodes in ((by_dir, ["node1", "node2"]), (by_url, ["home", "node2"])):
        done = _status(*where, json_=True)
        found = json.loads(done.stdout)
        assert done.returncode == 0 and found["up"], done.stdout + done.stderr
        assert [(s["node"], s["host"], s["port"], s["up"]) for s in found["stores"]] == [(n, "127.0.0.1", p, True) for n, p in zip(nodes, ports)]
        assert all(s["copies"] >= 1 and s["lag_ms"] < 60_000 and s["bytes"] > 0 for s in found["stores"]), found["stores"]
        # A local herd's own processes are known.
        assert sorted(s["pid"] or 0 for s in found["stores"]) == (sorted(columns.store_pids()) if where is by_dir else [0, 0])
    with server.connect() as connection:
        asked = "select node, port, state, copies >= ready and ready >= 1, lag_bytes is not null, lag < '1 min', file_bytes > 0 from herd.column_stores order by port"
        assert connection.execute(asked).fetchall() == [(n, p, "up", True, True, True, True) for n, p in zip(["home", "node2"], ports)]

    text = (herd.dir / "column2.toml").as_posix()
    (pid,) = [p for p in columns.store_pids() if text in open(f"/proc/{p}/cmdline").read()]
    os.kill(pid, signal.SIGKILL)
    for where in (by_dir, by_url):
        done = _status(*where)
        assert done.returncode == 1, done.stdout + done.stderr
        assert re.search(rf"^  store +down +{ports[1]} .*could not connect", done.stdout, re.M) and re.search(rf"^  store +up +{ports[0]} ", done.stdout, re.M), done.stdout
    assert [s["up"] for s in json.loads(_status(*by_dir, json_=True).stdout)["stores"]] == [True, False]
    _eventually(up, [("home", "1"), ("node2", "0")])
    herd.up()
    _eventually(up, [("home", "1"), ("node2", "1")])
    assert _status(*by_dir).returncode == 0
    assert "a store of column copies can't be reached" in herd.logs() and "the store of column copies is back" in herd.logs()
    columns.ready("c_stores")
    server.run("drop table c_stores")


def test_what_a_copy_takes_is_told(columns):
    """Of each node's: bytes, once they are in the file, and by what values are compressed."""
    columns.server.run(
        "drop table if exists c_sizes", "create table c_sizes (id int primary key, v text)", "select create_distributed_table('c_sizes', 'id')",
        "insert into c_sizes select i, md5(i::text) from generate_series(1, 300000) i",
    )  # fmt: skip
    columns.add("c_sizes")
    with columns.server.connect() as connection:
        sizes = "select bytes, compression, rows, file_bytes from herd.column_copies where relation = 'public.c_sizes' order by node"
        told = connection.execute(sizes).fetchall()
        assert len(told) == 2 and sum(row[2] for row in told) == 300_000
        for taken, compression, rows, file_bytes in told:
            assert rows * 16 < taken <= file_bytes and taken % 262144 == 0, told
            parts = [int(part.split()[-2]) for part in compression.split(", ")]
            assert 98 <= sum(parts) <= 102 and parts == sorted(parts, reverse=True), told
        connection.execute("truncate c_sizes")
        deadline = time.monotonic() + 60
        while [row[2:3] for row in connection.execute(sizes)] != [(0,), (0,)]:
            assert time.monotonic() < deadline
        connection.execute("drop table c_sizes")

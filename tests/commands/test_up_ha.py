"""`herd up --ha`: nodes with a standby each lose a primary, home's too: with its Patroni, or because it hangs. Nothing acknowledged is lost."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from harness import binaries, patroni, ports, processes, unprivileged
from harness.herd import Herd
from harness.server import Server
from harness.writer import CODES, ROWS, Writer

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("up-ha"), pytest.mark.timeout(900)]

needs_patroni = pytest.mark.skipif(patroni.missing() is not None, reason=str(patroni.missing()))

# A bound for slow machines; how long it took is printed.
_FAILOVER_SECONDS_MAX = 180
_COMPLETE = {"node1": ["leader", "sync standby"], "node2": ["leader", "sync standby"]}


def _members(herd, node: str) -> list[dict]:
    return next(one["members"] for one in herd.status()["nodes"] if one["name"] == node)


def _roles(herd) -> dict[str, list[str]]:
    return {node["name"]: sorted(member["role"] for member in node["members"]) for node in herd.status()["nodes"]}


def _leader(herd, node: str) -> dict | None:
    return next((member for member in _members(herd, node) if member["role"] == "leader"), None)


def _wait_for_another(herd, node: str, former: str, since: float) -> None:
    while (now := _leader(herd, node)) is None or now["name"] == former:
        assert time.monotonic() < since + _FAILOVER_SECONDS_MAX, _status(herd).stdout
        time.sleep(0.2)


def _wait_until_complete(herd) -> None:
    deadline = time.monotonic() + _FAILOVER_SECONDS_MAX
    while _roles(herd) != _COMPLETE:
        assert time.monotonic() < deadline, _status(herd).stdout
        time.sleep(0.3)


def _status(herd) -> subprocess.CompletedProcess:
    return subprocess.run([herd.binary, "status", "--dir", herd.dir], capture_output=True, text=True, timeout=60)


def _processes(folder: Path) -> list[str]:
    """What works in this folder, or was told of it."""
    found = []
    for process in filter(lambda path: path.name.isdigit(), Path("/proc").iterdir()):
        try:
            command, place = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(), os.readlink(process / "cwd")
        except OSError:
            continue
        if f"{folder}/" in f"{command} {place}/":
            found.append(f"{process.name} {command}")
    return found


@needs_patroni
def test_a_primary_is_lost_and_nothing_acknowledged():
    herd, writer = Herd(nodes=2, shards=8, ha=True), None
    try:
        assert _roles(herd) == _COMPLETE and herd.status()["up"] and _status(herd).returncode == 0
        herd.server.run("create table rows (id bigint primary key, batch bigint)", "select create_distributed_table('rows', 'id')")
        writer = Writer(herd.server)
        writer.wait_for(20, 90)
        for node, kind in (("node2", "its machine"), ("node1", "its machine"), ("node2", "hangs"), ("node1", "all of it hangs")):
            former, lost_at = _leader(herd, node), time.monotonic()
            if kind == "its machine":
                # Nobody is left who could say that it stopped; the watch starts Patroni again.
                os.kill(former["patroni_pid"], signal.SIGKILL)
                os.kill(former["pid"], signal.SIGKILL)
            else:
                if kind == "all of it hangs":
                    os.kill(former["patroni_pid"], signal.SIGSTOP)
                processes.freeze_family(former["pid"])
            _wait_for_another(herd, node, former["name"], lost_at)
            writer.wait_for(10, lost_at + _FAILOVER_SECONDS_MAX - time.monotonic())
            print(f"{node}, {kind}: writes {time.monotonic() - lost_at:.1f} s after its primary was lost")
            # It comes back by itself, as a standby.
            _wait_until_complete(herd)
        told = (herd.dir / "watch.log").read_text()
        assert told.count("has ended: starting it again") == 3 and told.count("PostgreSQL (process") == 2 and told.count("Patroni (process") == 1, told
        # One of three may go as well.
        os.kill(next(etcd["pid"] for etcd in herd.status()["etcd"] if etcd["name"] == "etcd2"), signal.SIGKILL)
        writer.wait_for(10, 90)
        # If it led, the others elect one of them first.
        deadline = time.monotonic() + 120
        while [etcd["up"] for etcd in herd.status()["etcd"]] != [True, False, True]:
            assert time.monotonic() < deadline, _status(herd).stdout
            time.sleep(0.2)

        # Without the watch nobody starts Patroni again.
        os.kill(herd.status()["watch"]["pid"], signal.SIGKILL)
        former = _leader(herd, "node2")
        os.kill(former["patroni_pid"], signal.SIGKILL)
        os.kill(former["pid"], signal.SIGKILL)
        lost_at = time.monotonic()
        _wait_for_another(herd, "node2", former["name"], lost_at)
        writer.wait_for(10, lost_at + _FAILOVER_SECONDS_MAX - time.monotonic())
        print(f"node2, its machine, and nobody watches: writes {time.monotonic() - lost_at:.1f} s after its primary was lost")
        told = _status(herd)
        assert told.returncode == 1 and re.search(rf"^ +{former['name']} +down .* down ", told.stdout, re.M), told.stdout
        assert re.search(r"^watch +down", told.stdout, re.M), told.stdout
        said = herd.up().stderr
        assert f"{former['name']}: starting its Patroni" in said and "etcd2: ready" in said and "watch: started" in said, said
        assert _roles(herd) == _COMPLETE and _status(herd).returncode == 0, _status(herd).stdout
        writer.wait_for(10, 90)
        writer.stop()
        assert set(writer.codes) <= CODES, set(writer.codes)
        with herd.server.connect() as connection:
            counted = dict(connection.execute("select batch, count(*) from rows group by 1").fetchall())
        missing = [batch for batch in writer.acknowledged if counted.get(batch) != ROWS]
        print(f"{len(writer.acknowledged)} transactions acknowledged, {len(missing)} lost")
        assert not missing and set(counted.values()) == {ROWS}, missing[:5]

        herd.down()
        assert _processes(herd.dir) == []
        assert set(sum(_roles(herd).values(), [])) == {"down"} and _status(herd).returncode == 1
        herd.up()
        assert _roles(herd) == _COMPLETE
        with herd.server.connect() as connection:
            assert connection.execute("select count(*) from rows").fetchone() == (ROWS * len(counted),)
        # What is half stopped, or hangs, is stopped whole: a PostgreSQL without its Patroni, a frozen one, and Patronis without etcd.
        os.kill(herd.status()["watch"]["pid"], signal.SIGKILL)
        os.kill(_leader(herd, "node2")["patroni_pid"], signal.SIGKILL)
        for etcd in herd.status()["etcd"]:
            os.kill(etcd["pid"], signal.SIGKILL)
        assert "without Patroni" in _status(herd).stdout
        processes.freeze_family(next(member["pid"] for member in _members(herd, "node1") if member["role"] != "leader"))
        herd.down()
        assert _processes(herd.dir) == []
    finally:
        if writer is not None:
            writer.stop()
        herd.stop()


@needs_patroni
def test_settings_come_to_all_members_and_shards_move():
    herd = Herd(nodes=2, shards=4, ha=True)
    try:
        herd._command(["up", "--dir", herd.dir, "--set", "work_mem=7MB"], 240, True)
        for node in ("node1", "node2"):
            for member in _members(herd, node):
                shown = "select current_setting('work_mem'), current_setting('max_prepared_transactions'), current_setting('wal_level')"
                server = Server(member["name"], member["port"])
                deadline = time.monotonic() + 90
                while (found := _one(server, shown)) != ("7MB", "300", "logical"):
                    assert time.monotonic() < deadline, found
                    time.sleep(0.1)
        herd.server.run(
            "create table t (id int primary key, v int)", "select create_distributed_table('t', 'id')",
            "insert into t select g, g from generate_series(1, 1000) g",
        )
        (shard,) = _one(herd.server, "select min(shard) from herd.shards where name = 't' and node = 'home'")
        herd.server.run(f"select herd.move_shard('t', {shard}, 'node2')")
        assert _one(herd.server, "select count(*), sum(v) from t") == (1000, 500500)
    finally:
        herd.stop()


def _one(server, sql: str) -> tuple:
    with server.connect() as connection:
        return connection.execute(sql).fetchone()


def test_what_is_missing_or_impossible_is_told():
    folder = unprivileged.new_directory("up-ha")
    try:
        def up(*more, **environment) -> str:
            command = [binaries.herd(), "up", "--ha", "--dir", folder / "herd", "--port", ports.free_row(24), *more]
            environment = os.environ | {"HERD_PG_BIN": str(binaries.postgres_bin())} | environment
            done = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, timeout=60)
            assert done.returncode != 0, done.stderr
            return done.stderr

        said = up(HERD_ETCD=str(folder / "nowhere"))
        assert "no program etcd" in said and "apt-get install etcd-server" in said and "HERD_ETCD" in said, said
        broken = folder / "broken"
        broken.write_text("#!/bin/sh\necho cannot import patroni >&2\nexit 1\n")
        broken.chmod(0o755)
        said = up(HERD_ETCD="/bin/true", HERD_PATRONI=str(broken))
        assert "no program patroni" in said and "pip install" in said and "cannot import patroni" in said, said
        assert "standbys has at most" in up("--nodes", "64")
        assert "cannot be used with" in up("--columns")
    finally:
        unprivileged.remove_directory(folder)

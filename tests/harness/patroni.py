"""Clusters of Patroni's with one etcd: a primary and a synchronous standby each. It knows nothing of herds."""

import importlib.util
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from . import binaries, ports, unprivileged
from .server import Server
from .started import Started

# Seconds. Patroni allows no shorter ttl: after so long without its holder's word the leader's key is free.
TTL, LOOP_WAIT = 20, 1
_READY_SECONDS_MAX = 150


def missing() -> str | None:
    """What has to be installed before any of this works."""
    if binaries.tool("etcd") is None:
        return "no program etcd on PATH: apt-get install etcd-server"
    if importlib.util.find_spec("patroni") is None:
        return "no Python module patroni: make venv"
    if unprivileged.python() is None:
        return "no Python of this version that the user PostgreSQL runs as may run"
    return None


def program(folder: Path) -> Path:
    """A program `patroni` that the user PostgreSQL runs as may run: what this process can import, whichever Python runs it."""
    made, packages = folder / "patroni", os.pathsep.join(filter(os.path.isdir, sys.path))
    made.write_text(f'#!/bin/sh\nexport PYTHONPATH={shlex.quote(packages)}\nexec {shlex.quote(unprivileged.python())} -m patroni "$@"\n')
    made.chmod(0o755)
    return made


class _Process:
    def __init__(self, command: list, log, **environment: str):
        self._process = subprocess.Popen(
            command, cwd=log.parent, stdin=subprocess.DEVNULL, stdout=open(log, "ab"), stderr=subprocess.STDOUT,
            env=os.environ | environment, start_new_session=True, **unprivileged.popen_arguments(),
        )

    def stop(self) -> None:
        # Patroni stops its PostgreSQL with itself.
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class PatroniCluster:
    """Two members of one scope."""

    def __init__(self, scope: str):
        self.scope = scope
        base = ports.free_row(4)
        self.postgres_ports, self.rest_ports = [base, base + 1], [base + 2, base + 3]

    @property
    def toml(self) -> str:
        """As a node of herd.toml."""
        hosts, listed = "127.0.0.1,127.0.0.1", ",".join(map(str, self.postgres_ports))
        urls = json.dumps([f"http://127.0.0.1:{port}" for port in self.rest_ports])
        attrs = "target_session_attrs=primary"
        return f'{{ conninfo = "host={hosts} port={listed} dbname=postgres user=postgres {attrs}", patroni = {urls} }}'

    def config(self, member: int, root, etcd: str) -> dict:
        postgres, rest = self.postgres_ports[member], self.rest_ports[member]
        return {
            "scope": self.scope,
            "name": f"{self.scope}{member}",
            "restapi": {"listen": f"127.0.0.1:{rest}", "connect_address": f"127.0.0.1:{rest}"},
            "etcd3": {"hosts": etcd},
            "bootstrap": {
                "dcs": {
                    "ttl": TTL, "loop_wait": LOOP_WAIT, "retry_timeout": 3,
                    # A primary that has crashed is not waited for.
                    "primary_start_timeout": 0,
                    "synchronous_mode": True,
                    "postgresql": {"parameters": {"max_prepared_transactions": 100, "wal_level": "logical"}},
                },
                "initdb": [{"auth": "trust"}, {"encoding": "UTF8"}, {"locale": "C"}],
            },
            "postgresql": {
                "listen": f"127.0.0.1:{postgres}", "connect_address": f"127.0.0.1:{postgres}",
                "data_dir": str(root / f"{self.scope}{member}"), "bin_dir": str(binaries.postgres_bin()),
                "pgpass": str(root / f"{self.scope}{member}.pgpass"),
                "authentication": {"superuser": {"username": "postgres"}, "replication": {"username": "replicator"}},
                "parameters": {"unix_socket_directories": str(root), "shared_buffers": "16MB", "max_wal_size": "64MB", "min_wal_size": "32MB"},
                "pg_hba": ["local all all trust", "host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"],
                "basebackup": [{"checkpoint": "fast"}],
            },
        }

    def members(self) -> list[dict]:
        """As the first REST API that answers tells them."""
        for port in self.rest_ports:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/cluster", timeout=3) as answer:
                    return json.load(answer)["members"]
            except OSError:
                continue
        return []

    def primary(self) -> Server | None:
        ports_of = [member["port"] for member in self.members() if member["role"] == "leader"]
        return Server(self.scope, ports_of[0]) if ports_of else None

    def wait(self) -> None:
        """Until the leader has its synchronous standby."""
        deadline = time.monotonic() + _READY_SECONDS_MAX
        while {member["role"] for member in self.members()} != {"leader", "sync_standby"}:
            assert time.monotonic() < deadline, f"{self.scope} is not complete: {self.members()}"
            time.sleep(0.2)

    def kill_primary(self, root) -> None:
        """SIGKILL to the postmaster of whichever member leads; its children end by themselves."""
        member = self.postgres_ports.index(self.primary().port)
        postmaster = (root / f"{self.scope}{member}" / "postmaster.pid").read_text().split()[0]
        os.kill(int(postmaster), signal.SIGKILL)


class PatroniClusters(Started):
    """One etcd and clusters of these scopes, complete."""

    def __init__(self, *scopes: str):
        self.clusters = [PatroniCluster(scope) for scope in scopes]
        self.root = unprivileged.new_directory("patroni")
        super().__init__()

    def start(self) -> None:
        client, peer = (f"http://127.0.0.1:{port}" for port in (ports.free_row(1), ports.free_row(1)))
        self.kept(_Process(
            [binaries.tool("etcd"), "--data-dir", self.root / "etcd", "--listen-client-urls", client,
             "--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
             "--initial-cluster", f"default={peer}"],
            self.root / "etcd.log",
        ))
        run = program(self.root)
        for cluster in self.clusters:
            for member in range(2):
                file = self.root / f"{cluster.scope}{member}.yml"
                # YAML can be written as JSON.
                file.write_text(json.dumps(cluster.config(member, self.root, client.removeprefix("http://"))))
                self.kept(_Process([run, file], file.with_suffix(".log"), LC_ALL="C.UTF-8"))
        for cluster in self.clusters:
            cluster.wait()

    def stop(self) -> None:
        super().stop()
        if not os.environ.get("PGHERD_TEST_KEEP"):
            shutil.rmtree(self.root, ignore_errors=True)

"""A herd started, asked and stopped through its own command line, as a user would."""

import json
import os
import re
import subprocess
import time
from pathlib import Path

from . import binaries, patroni, ports, unprivileged
from .server import Server

_UP_SECONDS_MAX = 240
_DOWN_SECONDS_MAX = 150


class Herd:
    """`herd up` in a temporary directory. The herd's nodes listen on port+1 … port+nodes, its stores of column copies, if any, on the ports behind.
    With `ha` each node is two members, and nodes' ports are whatever `status` says."""

    def __init__(self, nodes: int, shards: int, columns: bool = False, ha: bool = False):
        self.columns, self.ha = columns, ha
        self.nodes = nodes
        self.shards = shards
        self.binary = binaries.herd()
        self.root = unprivileged.new_directory(f"herd{nodes}x{shards}")
        self.dir = self.root / "herd"
        self.port = 0
        try:
            self._first_up()
        except BaseException:
            self.stop()
            raise

    @property
    def name(self) -> str:
        return f"{self.nodes}x{self.shards}"

    @property
    def server(self) -> Server:
        return Server(f"herd {self.name}", self.port)

    @property
    def node_servers(self) -> list[Server]:
        """The PostgreSQL servers behind the router, reached directly."""
        return [Server(f"node {i}", self.port + i) for i in range(1, self.nodes + 1)]

    def _first_up(self) -> None:
        said = ""
        for _ in range(5):
            self.port = ports.free_row(self.nodes * (4 if self.ha else 2 if self.columns else 1) + (8 if self.ha else 2))
            done = self.up(check=False)
            if done.returncode == 0:
                return
            said = done.stdout + done.stderr
            # Another run may have taken a port since the check: only then is a new base worth a try.
            if not re.search(r"in use|port", said, re.IGNORECASE):
                break
        raise RuntimeError(f"herd up failed:\n{said}\n{self.logs()}")

    def up(self, check: bool = True) -> subprocess.CompletedProcess:
        arguments = ["up", "--dir", self.dir, "--nodes", self.nodes, "--port", self.port, "--shards", self.shards]
        arguments += ["--set", "fsync=off"]
        arguments += (["--columns"] if self.columns else []) + (["--ha"] if self.ha else [])
        return self._command(arguments, _UP_SECONDS_MAX * (2 if self.ha else 1), check)

    def down(self, check: bool = True) -> subprocess.CompletedProcess:
        return self._command(["down", "--dir", self.dir], _DOWN_SECONDS_MAX, check)

    def status(self) -> dict | list:
        return json.loads(self._command(["status", "--dir", self.dir, "--json"], 60, False).stdout)

    def process_id(self, port: int) -> int:
        """The pid of whatever `herd status --json` says listens on this port (a node, or the router)."""
        status = self.status()
        for entry in _objects(status):
            if entry.get("port") == port and entry.get("pid"):
                return int(entry["pid"])
        raise AssertionError(f"herd status --json names no process on port {port}: {json.dumps(status)}")

    def _command(self, arguments: list, seconds_max: float, check: bool) -> subprocess.CompletedProcess:
        command = [str(self.binary), *map(str, arguments)]
        environment = os.environ | {"HERD_PG_BIN": str(binaries.postgres_bin())}
        if self.columns:
            environment["HERD_COLUMN_BIN"] = str(binaries.herd_column())
        if self.ha:
            environment["HERD_PATRONI"] = str(patroni.program(self.root))
        # Output goes to files: a daemon that kept our pipe open would make us wait for its end.
        out, err = self.root / "stdout", self.root / "stderr"
        with open(out, "w") as stdout, open(err, "w") as stderr:
            try:
                code = subprocess.run(
                    command, env=environment, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, timeout=seconds_max
                ).returncode
            except subprocess.TimeoutExpired:
                code = -1
                stderr.write(f"\n(no answer in {seconds_max} s)")
        done = subprocess.CompletedProcess(command, code, out.read_text(), err.read_text())
        if check and code != 0:
            raise RuntimeError(f"{' '.join(command)} exited {code}:\n{done.stdout}{done.stderr}\n{self.logs()}")
        return done

    def logs(self) -> str:
        """The ends of the herd's log files, for a failure's report."""
        if not self.dir.exists():
            return ""
        found = [p for p in sorted(self.dir.rglob("*")) if p.is_file() and (p.suffix == ".log" or p.name == "log")]
        return "\n".join(f"--- {p}\n{_tail(p)}" for p in found)

    def stop(self) -> None:
        if self.dir.exists():
            self.down(check=False)
            time.sleep(0.1)
        if not os.environ.get("PGHERD_TEST_KEEP"):
            unprivileged.remove_directory(self.root)


def _tail(path: Path, bytes_max: int = 3000) -> str:
    return path.read_bytes()[-bytes_max:].decode(errors="replace")


def _objects(value):
    """Every JSON object inside a value, however deep."""
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from _objects(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _objects(inner)

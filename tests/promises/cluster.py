"""Nodes and routers that are started, killed with SIGKILL and started again, one by one.

`herd up` makes the nodes; from then on each process is this module's own, so that nothing repairs what a program
has just broken. It does not know what is run on them.
"""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import psycopg

from harness import binaries, ports, processes, unprivileged
from harness.herd import Herd
from harness.server import Server

_READY_SECONDS_MAX = 150


class Node:
    """One PostgreSQL of the herd."""

    def __init__(self, number: int, port: int, data: Path):
        self.number = number
        self.server = Server(f"node {number}", port)
        self.data = data
        self._process: subprocess.Popen | None = None

    def kill(self) -> None:
        """SIGKILL to the postmaster and to every process of it, as when the machine stops."""
        postmaster = self._postmaster()
        if postmaster is None:
            return
        processes.kill_family(postmaster)
        if self._process is not None:
            self._process.wait(60)
            self._process = None
        # All of them are gone for certain; a postmaster nobody has waited for would look alive to the next one.
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def hang(self) -> None:
        """SIGSTOP to all its processes: connections stay open, and nothing answers."""
        processes.freeze_family(self._postmaster())

    def start(self, wait: bool = True) -> None:
        if self.is_up():
            return
        command = [binaries.postgres_bin() / "postgres", "-D", self.data]
        with open(self.data.parent / f"node{self.number}.again.log", "ab") as log:
            self._process = subprocess.Popen(
                command, cwd=self.data, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env={"LC_ALL": "C.UTF-8", "PATH": os.environ.get("PATH", "")}, **unprivileged.popen_arguments(),
            )
        if wait:
            self.wait()

    def wait(self) -> None:
        _wait_until(lambda: _answers(self.server), _READY_SECONDS_MAX, f"node {self.number} does not start")

    def is_up(self) -> bool:
        return self._postmaster() is not None

    def stop(self) -> None:
        postmaster = self._postmaster()
        if postmaster is not None:
            processes.signal(postmaster, signal.SIGINT)
            _wait_until(lambda: self._postmaster() is None, 90, f"node {self.number} does not stop")

    def _postmaster(self) -> int | None:
        if self._process is not None and self._process.poll() is not None:
            self._process = None
        try:
            process_id = int((self.data / "postmaster.pid").read_text().split()[0])
        except (FileNotFoundError, IndexError, ValueError):
            return None
        # Another process may have got the number since.
        return process_id if processes.is_alive(process_id) and _runs_postgres(process_id) else None

    def prepared(self) -> list[str]:
        """Names of prepared transactions, all of them."""
        with self.server.connect() as connection:
            return [row[0] for row in connection.execute("select gid from pg_prepared_xacts order by gid")]


class Router:
    """One `herd router` process. Each start gives it another identity."""

    def __init__(self, cluster: "Cluster", name: str, config: str = "", environment: dict[str, str] | None = None):
        self.name = name
        self.cluster = cluster
        self.port = ports.free_row(1)
        self.server = Server(f"router {name}", self.port)
        self.environment = environment or {}
        self.file = cluster.root / f"{name}.toml"
        self.log = cluster.root / f"{name}.log"
        self.process: subprocess.Popen | None = None
        self.write_config(config)

    def write_config(self, config: str) -> None:
        def address(node: Node) -> str:
            return f'"host=127.0.0.1 port={self.cluster.ports.get(node.number, node.server.port)} dbname=postgres user=postgres"'

        home, *others = self.cluster.nodes
        self.file.write_text(
            f'listen = ["127.0.0.1:{self.port}"]\nhome = {address(home)}\n'
            f"nodes = [{', '.join(map(address, others))}]\nshards = {self.cluster.shards}\n"
            + ("" if "auth =" in config else 'auth = "trust"\n') + 'log = "info"\n' + config
        )

    def start(self, wait: bool = True, **environment: str) -> "Router":
        command = [binaries.herd(), "router", "--config", self.file]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env=os.environ | self.environment | environment,
            )
        if wait:
            self.wait()
        return self

    def wait(self) -> None:
        def ready() -> bool:
            if self.process is None or self.process.poll() is not None:
                raise AssertionError(f"router {self.name} ended:\n{self.tail()}")
            return _answers(self.server)

        _wait_until(ready, _READY_SECONDS_MAX, f"router {self.name} does not start")

    def is_up(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def kill(self, how: int = signal.SIGKILL) -> None:
        if self.is_up():
            self.process.send_signal(how)
        if self.process is not None:
            self.process.wait(60)
            self.process = None

    def tail(self, bytes_max: int = 3000) -> str:
        return self.log.read_bytes()[-bytes_max:].decode(errors="replace") if self.log.exists() else ""

    def resident_kib(self) -> int:
        with open(f"/proc/{self.process.pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))

    def open_files(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


class Store:
    """The store of column copies beside a node."""

    def __init__(self, cluster: "Cluster", number: int):
        self.node = number
        self.server = Server(f"store {number}", cluster.herd.port + cluster.herd.nodes + number, user="herd", dbname="herd")
        self.config = cluster.herd.dir / f"column{number}.toml"
        self.log = cluster.herd.dir / f"column{number}.log"
        self.process: subprocess.Popen | None = None

    def start(self, wait: bool = True) -> "Store":
        if not self.is_up():
            with open(self.log, "ab") as log:
                self.process = subprocess.Popen(
                    [binaries.herd_column(), "--config", self.config], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
        if wait:
            _wait_until(self._listens, _READY_SECONDS_MAX, f"store {self.node} does not start")
        return self

    def is_up(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def kill(self, how: int = signal.SIGKILL) -> None:
        if self.process is not None:
            processes.signal(self.process.pid, how)
            self.process.wait(60)
            self.process = None

    def copies(self) -> list[dict]:
        """What it says of its copies."""
        with self.server.connect() as connection:
            cursor = connection.execute("SHOW copies")
            return [dict(zip((column.name for column in cursor.description), row)) for row in cursor.fetchall()]

    def _listens(self) -> bool:
        assert self.is_up(), f"store {self.node} ended:\n{self.log.read_bytes()[-3000:].decode(errors='replace')}"
        try:
            self.copies()
        except psycopg.Error:
            return False
        return True


class Cluster:
    """Nodes made by `herd up`, and the routers a program starts; with `columns`, a store of column copies beside each node."""

    def __init__(self, nodes: int = 2, shards: int = 8, columns: bool = False):
        self.shards = shards
        self.herd = Herd(nodes=nodes, shards=shards, columns=columns)
        self.root = self.herd.root
        self.nodes = [
            Node(i, self.herd.port + i, (self.herd.dir / f"node{i}").resolve()) for i in range(1, nodes + 1)
        ]
        # Where routers find a node, if not where it listens: a proxy's port, by the node's number.
        self.ports: dict[int, int] = {}
        self.routers: list[Router] = []
        # The herd's own router would recover what a program wants to see recovered by another.
        processes.signal(self.herd.process_id(self.herd.port), signal.SIGTERM)
        self.stores = [Store(self, node.number) for node in self.nodes] if columns else []
        for store in self.stores:
            # Those that `herd up` has started are not ours to wait for.
            for process_id in processes.with_argument(str(store.config)):
                processes.signal(process_id, signal.SIGTERM)
                _wait_until(lambda: not processes.is_alive(process_id), 60, f"store {store.node} does not stop")
            store.start()

    def router(self, name: str | None = None, config: str = "", **environment: str) -> Router:
        """A new router, not yet started."""
        made = Router(self, name or f"router{len(self.routers) + 1}", config, environment)
        self.routers.append(made)
        return made

    def keys_by_node(self, table: str, column: str = "id") -> list[list[int]]:
        found = []
        for node in self.nodes:
            with node.server.connect() as connection:
                found.append([row[0] for row in connection.execute(f"select {column} from {table} order by 1")])
        return found

    def prepared(self) -> list[str]:
        """Prepared transactions of this herd's own making, over all nodes."""
        with self.nodes[0].server.connect() as connection:
            herd = connection.execute("select id from herd.herd").fetchone()[0]
        ours = re.compile(rf"herd_{herd}_\d+_[0-9a-f]{{16}}_\d+_\d+_\d+")
        return [gid for node in self.nodes for gid in node.prepared() if ours.fullmatch(gid)]

    def wait_until_nothing_is_prepared(self, seconds_max: float) -> float:
        """Seconds it took."""
        started = time.monotonic()
        while left := self.prepared():
            if time.monotonic() - started > seconds_max:
                raise AssertionError(f"still prepared after {seconds_max} s: {left}")
            time.sleep(0.1)
        return time.monotonic() - started

    def stop(self) -> None:
        for process in (*self.routers, *self.stores):
            process.kill()
        for node in self.nodes:
            node.stop()
        self.herd.stop()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def _answers(server: Server) -> bool:
    try:
        with server.connect() as connection:
            return connection.execute("select 1").fetchone() == (1,)
    except psycopg.Error:
        return False


def _wait_until(done, seconds_max: float, message: str) -> None:
    deadline = time.monotonic() + seconds_max
    while not done():
        if time.monotonic() > deadline:
            raise AssertionError(message)
        time.sleep(0.05)


def _runs_postgres(process_id: int) -> bool:
    try:
        return b"postgres" in Path(f"/proc/{process_id}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False

"""Servers that exist already and routers in front of them: `herd router --config`, as an operator starts it.

Knows how to write herd.toml and to start, stop and kill the process; not what is asked of it.
"""

import os
import subprocess
import time
from pathlib import Path

import psycopg

from . import binaries, ports, unprivileged
from .plain_postgres import PlainPostgres
from .server import Server

# What two-phase commit needs, and a WAL that does not fill small disks.
NODE_SETTINGS = {"max_prepared_transactions": "100", "max_wal_size": "64MB", "min_wal_size": "32MB"}


def node(name: str, settings: dict[str, str] | None = None, **options) -> PlainPostgres:
    """A server fit to be a node."""
    return PlainPostgres(name, NODE_SETTINGS | (settings or {}), **options)


def conninfo(server: PlainPostgres, **more: str) -> str:
    words = {"host": "127.0.0.1", "port": str(server.port), "dbname": "postgres", "user": "postgres"} | more
    return " ".join(f"{key}={value}" for key, value in words.items())


class Router:
    """One router process. `home` and `nodes` are connection strings, or inline tables of TOML; `more` is further text of herd.toml."""

    def __init__(
        self, home: str, nodes: list[str], shards: int = 8, more: str = "", attempts: int = 5, start_seconds_max: float = 90
    ):
        self.attempts, self.start_seconds_max = attempts, start_seconds_max
        self.root = unprivileged.new_directory("router")
        self.home, self.nodes, self.shards, self.more = home, nodes, shards, more
        self.process: subprocess.Popen | None = None
        self.port = 0
        try:
            self.start()
        except BaseException:
            self.stop()
            raise

    @property
    def server(self) -> Server:
        return Server(f"router {self.port}", self.port)

    def start(self) -> None:
        for _ in range(self.attempts):
            self.port = ports.free_row(1)
            if self._try_start():
                return
        raise RuntimeError(f"the router did not start:\n{self.log()[-4000:]}")

    def _try_start(self) -> bool:
        nodes = ", ".join(map(_toml, self.nodes))
        config = self.root / "herd.toml"
        # A later table would swallow plain settings: they come first.
        config.write_text(
            f'listen = ["127.0.0.1:{self.port}"]\nhome = {_toml(self.home)}\nnodes = [{nodes}]\nshards = {self.shards}\n{self.more}'
        )
        with open(self.root / "log", "ab") as log:
            self.process = subprocess.Popen(
                [binaries.herd(), "router", "--config", config], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + self.start_seconds_max
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                return False
            if _listens(self.port):
                return True
            time.sleep(0.05)
        return False

    def log(self) -> str:
        path = self.root / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process = None
        if not os.environ.get("PGHERD_TEST_KEEP"):
            unprivileged.remove_directory(self.root)


def _toml(node: str) -> str:
    return node if node.startswith("{") else f'"{node}"'


def _listens(port: int) -> bool:
    try:
        psycopg.connect(f"host=127.0.0.1 port={port} user=nobody dbname=nosuch connect_timeout=5 sslmode=disable").close()
        return True
    except psycopg.OperationalError as error:
        return "Connection refused" not in str(error)


def certificates(directory: Path) -> dict[str, Path]:
    """An authority, a server's certificate for 127.0.0.1 (not localhost) signed by it, and a second authority."""

    def run(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True)

    for name in ("authority", "stranger"):
        run(
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", f"/CN=test {name}",
            "-addext", "basicConstraints=critical,CA:TRUE", "-keyout", f"{name}.key", "-out", f"{name}.crt",
        )
    (directory / "names.cnf").write_text("subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
    run("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=node", "-keyout", "server.key", "-out", "server.csr")
    run(
        "x509", "-req", "-in", "server.csr", "-CA", "authority.crt", "-CAkey", "authority.key", "-CAcreateserial", "-days", "2",
        "-extfile", "names.cnf", "-out", "server.crt",
    )
    return {name: directory / name for name in ("authority.crt", "stranger.crt", "server.crt", "server.key")}

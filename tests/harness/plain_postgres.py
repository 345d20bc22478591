"""One plain PostgreSQL: the oracle every answer is compared with.

Set up the way `herd up` sets up its nodes (encoding, collation provider, trust on loopback), because collations
and encodings show in answers. Durability is off: it does not.
"""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psycopg

from . import binaries, ports, unprivileged
from .server import Server

_START_SECONDS_MAX = 90


class PlainPostgres:
    """A PostgreSQL server of its own in a temporary directory; `stop` removes both."""

    def __init__(
        self,
        name: str = "plain",
        settings: dict[str, str] | None = None,
        bin_directory: Path | None = None,
        configure: Callable[[Path], None] | None = None,
        locale: list[str] | None = None,
    ):
        """`configure` is called with the data directory before the first start. `bin_directory`: another PostgreSQL. `locale`: other arguments of initdb."""
        self.name = name
        self.settings = settings or {}
        self.bin_directory = bin_directory
        self.configure = configure
        self.locale = locale
        self.root = unprivileged.new_directory(name)
        self.data = self.root / "data"
        self.process: subprocess.Popen | None = None
        self.port = 0
        try:
            self.bin = self.bin_directory or _executable_bin(self.root)
            self._initdb()
            if self.configure:
                self.configure(self.data)
            self._start()
        except BaseException:
            self.stop()
            raise

    @property
    def server(self) -> Server:
        return Server(self.name, self.port)

    @property
    def major(self) -> int:
        return _major(self.bin)

    def _initdb(self) -> None:
        locale = ["-E", "UTF8", "--locale=C.UTF-8"]
        if self.major >= 17:
            locale += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        locale = self.locale or locale
        command = [self.bin / "initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "-N", *locale]
        done = subprocess.run(
            command, cwd=self.root, env=_environment(self.root), capture_output=True, text=True, **unprivileged.popen_arguments()
        )
        if done.returncode != 0:
            raise RuntimeError(f"initdb failed:\n{done.stdout}{done.stderr}")

    def _start(self) -> None:
        for attempt in range(5):
            self.port = ports.free_row(1)
            if self._try_start():
                return
        raise RuntimeError(f"plain PostgreSQL did not start:\n{self.log()[-4000:]}")

    def _try_start(self) -> bool:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self.root),
            "fsync": "off",
            "max_connections": "200",
            "shared_buffers": "128MB",
            **self.settings,
        }
        command = [self.bin / "postgres", "-D", self.data]
        for key, value in settings.items():
            command += ["-c", f"{key}={value}"]
        with open(self.root / "log", "ab") as log:
            self.process = subprocess.Popen(
                command, cwd=self.root, env=_environment(self.root), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True, **unprivileged.popen_arguments(),
            )
        deadline = time.monotonic() + _START_SECONDS_MAX
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                return False
            try:
                self.server.connect().close()
                return True
            except psycopg.OperationalError as error:
                # Who may come in is another question; it listens.
                if "pg_hba.conf" in str(error) or "password" in str(error):
                    return True
                time.sleep(0.05)
        return False

    def log(self) -> str:
        path = self.root / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(2)  # SIGINT: PostgreSQL's fast shutdown
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process = None
        unprivileged.remove_directory(self.root)


def _environment(root: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "LC_", "LANG"))}
    return kept | {"HOME": str(root), "LC_ALL": "C.UTF-8"}


def _major(bin_directory: Path) -> int:
    said = subprocess.run([bin_directory / "postgres", "--version"], capture_output=True, text=True, check=True).stdout
    return int(re.search(r"(\d+)", said).group(1))


def _executable_bin(root: Path) -> Path:
    """The binaries' directory, or a copy of the installation if the unprivileged user may not enter it."""
    found = binaries.postgres_bin()
    try:
        subprocess.run([found / "postgres", "--version"], capture_output=True, check=True, **unprivileged.popen_arguments())
        return found
    except (PermissionError, subprocess.CalledProcessError):
        shutil.copytree(found.parent, root / "install", symlinks=True)
        return root / "install" / found.name

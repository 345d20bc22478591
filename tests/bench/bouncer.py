"""PgBouncer, for measurements beside it; `shutil.which("pgbouncer")` says whether it is there."""

import shutil
import socket
import subprocess
import time

import common  # noqa: F401  where the tests' own modules are
from harness import ports, unprivileged
from harness.server import Server


class PgBouncer:
    """A pool before one server, over loopback as a router is."""

    def __init__(self, server_port: int, clients: int, password: str | None = None, pooling: str = "transaction"):
        """`pooling`: its pool_mode. `password`: of postgres, who logs in by SCRAM; without one he is trusted."""
        self.root = unprivileged.new_directory("pgbouncer")
        self.port = ports.free_row(1)
        (self.root / "users").write_text(f'"postgres" "{password or ""}"\n')
        config = self.root / "pgbouncer.ini"
        config.write_text(
            f"[databases]\npostgres = host=127.0.0.1 port={server_port} dbname=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {self.port}\n"
            f"auth_type = {'scram-sha-256' if password else 'trust'}\nauth_file = {self.root}/users\npool_mode = {pooling}\n"
            f"max_client_conn = {clients + 100}\ndefault_pool_size = {clients + 10 if pooling == 'session' else 20}\n"
            "unix_socket_dir =\nlog_connections = 0\nlog_disconnections = 0\nlisten_backlog = 4096\n" + ("max_prepared_statements = 100\n" if _knows_prepared() else "")
        )
        with open(self.root / "log", "ab") as log:
            self.process = subprocess.Popen(
                [shutil.which("pgbouncer"), config], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, **unprivileged.popen_arguments()
            )
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
                return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError((self.root / "log").read_text())

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(10)
        unprivileged.remove_directory(self.root)

    @property
    def server(self) -> Server:
        return Server("PgBouncer", self.port)


def _knows_prepared() -> bool:
    """Since 1.21 it keeps prepared statements over transactions."""
    version = subprocess.run(["pgbouncer", "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    return tuple(map(int, version.split(".")[:2])) >= (1, 21)

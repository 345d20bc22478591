"""Memory for thousands of idle clients, each of which has run one statement: of the router, and of PgBouncer beside it.

    python tests/bench/idle_memory.py [--clients 10000]

Both stand before the same server and keep transactions' connections only. The figures are resident memory (VmRSS).
"""

import shutil
import socket
import struct
import subprocess
import time

from common import allow_many_files, arguments, print_table
from harness import ports, router, unprivileged
from protocol.frames import query

_STARTUP = b"user\0postgres\0database\0postgres\0application_name\0idle\0\0"


class Client:
    """A session with nothing of a driver's own."""

    def __init__(self, port: int, number: int):
        # Several addresses: one has not ports enough for tens of thousands that come and go.
        source = (f"127.0.0.{2 + number % 50}", 0)
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60, source_address=source)
        self.socket.sendall(struct.pack("!II", len(_STARTUP) + 8, 196608) + _STARTUP)
        self.until_ready()

    def run(self, sql: str) -> None:
        self.socket.sendall(query(sql))
        self.until_ready()

    def until_ready(self) -> None:
        data = b""
        while True:
            while len(data) >= 5 and len(data) > (length := struct.unpack("!I", data[1:5])[0]):
                tag, data = data[:1], data[length + 1 :]
                if tag == b"Z":
                    return
                if tag == b"E":
                    raise RuntimeError("an error in place of an answer")
            more = self.socket.recv(65536)
            if not more:
                raise ConnectionError("closed")
            data += more


class PgBouncer:
    """Transaction pooling before one server."""

    def __init__(self, server_port: int, clients: int):
        self.root = unprivileged.new_directory("pgbouncer")
        self.port = ports.free_row(1)
        (self.root / "users").write_text('"postgres" ""\n')
        config = self.root / "pgbouncer.ini"
        config.write_text(
            f"[databases]\npostgres = host=127.0.0.1 port={server_port} dbname=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {self.port}\n"
            f"auth_type = trust\nauth_file = {self.root}/users\npool_mode = transaction\nmax_client_conn = {clients + 100}\ndefault_pool_size = 20\n"
            "unix_socket_dir =\nlog_connections = 0\nlog_disconnections = 0\nlisten_backlog = 4096\n"
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


def resident_kib(process_id: int) -> int:
    with open(f"/proc/{process_id}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


def measure(name: str, port: int, process_id: int, counts: list[int], rows: list) -> None:
    clients: list[Client] = []
    # What the first few make it allocate once is not a client's.
    for number in range(20):
        warm = Client(port, number)
        warm.run("select 1")
        warm.socket.close()
    time.sleep(1)
    before = resident_kib(process_id)
    started = time.monotonic()
    for count in counts:
        while len(clients) < count:
            clients.append(Client(port, len(clients)))
            clients[-1].run("select 1")
        time.sleep(1)
        grown = resident_kib(process_id) - before
        rows.append([f"{name}, {count:,} clients", before / 1024, grown / 1024, grown / count])
    for number in (0, len(clients) // 2, len(clients) - 1):
        clients[number].run("select 1")
    print(f"{name}: {len(clients):,} logins and statements in {time.monotonic() - started:.1f} s; the first, the middle and the last still answered")
    for client in clients:
        client.socket.close()
    time.sleep(3)
    print(f"{name}, after they left: {(resident_kib(process_id) - before) / 1024:.1f} MiB more than before")


def main() -> None:
    chosen = arguments(__doc__, clients=10_000)
    allow_many_files()
    counts = sorted({max(chosen.clients // 10, 1), max(chosen.clients // 2, 1), chosen.clients})
    rows: list = []
    server = router.node("idle")
    try:
        made = router.Router(router.conninfo(server), [], more=f"[limits]\nconnections = {chosen.clients + 100}\n")
        try:
            measure("router", made.port, made.process.pid, counts, rows)
        finally:
            made.stop()
        if shutil.which("pgbouncer") is None:
            print("pgbouncer is not installed: nothing to compare with")
        else:
            bouncer = PgBouncer(server.port, chosen.clients)
            try:
                measure("pgbouncer", bouncer.port, bouncer.process.pid, counts, rows)
            finally:
                bouncer.stop()
    finally:
        server.stop()
    print_table("idle clients", ["", "MiB without them", "MiB more", "KiB a client"], rows)


if __name__ == "__main__":
    main()

"""Memory for thousands of idle clients: of one router or several (`--herd PROGRAM`, each in turn), and of PgBouncer beside them.

    python tests/bench/idle_memory.py [--clients 9000] [--rounds 2] [--tls] [--trust] [--herd PROGRAM]…

All stand before the same server and keep transactions' connections only. Clients log in (SCRAM-SHA-256), run a statement, prepare one,
set a setting, one thing after the other; after each the resident memory (VmRSS) is read, at 1 000 clients and at all of them. The
figure is the difference, a client of those between. The programs take turns, A B, B A.
"""

import argparse
import contextlib
import os
import shutil
import time
from pathlib import Path

from bouncer import PgBouncer
from common import print_table
from harness import binaries, router, unprivileged
from harness.idle import Client, allow_many_files, resident_bytes

_FEW = 1000
_PASSWORD = "idle"
_READ = "select c from idle where id = 7"
STAGES = {
    "logged in": lambda client: None,
    "a statement": lambda client: client.run(_READ),
    "one prepared": lambda client: client.prepare("s1", "select c from idle where id = $1"),
    "SET": lambda client: client.run("set work_mem = '8MB'"),
}


def measure(port: int, process_id: int, count: int, tls: bool, password: str | None) -> list[float]:
    """KiB a client after each stage."""

    def settled() -> int:
        time.sleep(1.5)
        return resident_bytes(process_id)

    clients = [Client(port, number, password, tls) for number in range(_FEW)]
    for stage in STAGES.values():
        for client in clients:
            stage(client)
    few = settled()
    figures = []
    clients += [Client(port, number, password, tls) for number in range(_FEW, count)]
    for stage in STAGES.values():
        for client in clients[_FEW:]:
            stage(client)
        figures.append((settled() - few) / (count - _FEW) / 1024)
    for number in (0, len(clients) // 2, len(clients) - 1):
        clients[number].run(_READ)
    for client in clients:
        client.socket.close()
    return figures


@contextlib.contextmanager
def started(program: Path, server, chosen: argparse.Namespace):
    if chosen.tls:
        files = router.certificates(unprivileged.new_directory("tls"))
        tls = f'[tls]\ncertificate = "{files["server.crt"]}"\nkey = "{files["server.key"]}"\n'
    auth = "" if chosen.trust else 'auth = "scram"\n'
    os.environ["HERD_BIN"] = str(program)
    made = router.Router(
        router.conninfo(server), [],
        more=f"{auth}[limits]\nconnections = {chosen.clients + 100}\n" + (tls if chosen.tls else ""),
    )
    try:
        yield made
    finally:
        made.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=9000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--trust", action="store_true", help="clients need no password")
    parser.add_argument("--herd", type=Path, action="append", help="a program to measure; by default the one the tests use")
    chosen = parser.parse_args()
    allow_many_files()
    programs = chosen.herd or [Path(binaries.herd())]
    figures: dict[str, list[list[float]]] = {}
    password = None if chosen.trust else _PASSWORD
    server = router.node("idle")
    try:
        with server.server.connect() as connection:
            connection.execute(f"alter role postgres password '{_PASSWORD}'")
        server.server.run("create table idle (id int primary key, c text)", "insert into idle values (7, 'seven')")
        for turn in range(chosen.rounds):
            for program in programs if turn % 2 == 0 else reversed(programs):
                with started(program, server, chosen) as made:
                    got = measure(made.port, made.process.pid, chosen.clients, chosen.tls, password)
                figures.setdefault(program.name, []).append(got)
                print(program.name, " ".join(f"{kib:.2f}" for kib in got), flush=True)
        if shutil.which("pgbouncer") is None or chosen.tls:
            print("PgBouncer is not installed, or not asked for TLS: nothing to compare with")
        else:
            bouncer = PgBouncer(server.port, chosen.clients, _PASSWORD)
            try:
                figures["PgBouncer"] = [measure(bouncer.port, bouncer.process.pid, chosen.clients, False, _PASSWORD)]
            finally:
                bouncer.stop()
    finally:
        server.stop()
    rows = [[name, *(min(stage) for stage in zip(*turns))] for name, turns in figures.items()]
    print_table(f"idle clients, KiB each, from {_FEW:,} to {chosen.clients:,}", ["least of all turns", *STAGES], rows)


if __name__ == "__main__":
    main()

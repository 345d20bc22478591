"""Memory of the router for thousands of idle clients, each of which has run one statement.

    python tests/bench/idle_memory.py [--clients 5000]
"""

import socket
import time

from common import arguments, herd, print_table
from protocol.frames import query
from protocol.raw import Raw


def resident_kib(process_id: int) -> int:
    with open(f"/proc/{process_id}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


def main() -> None:
    chosen = arguments(__doc__, clients=5000)
    with herd() as many:
        if not hasattr(many, "process_id"):
            raise SystemExit("needs a real herd: unset PGHERD_TEST_FAKE")
        process_id = many.process_id(many.port)
        rows, clients = [], []
        with Raw(many.server) as first:
            first.transcript(query("select 1"))
        before = resident_kib(process_id)
        started = time.monotonic()
        for count in sorted({chosen.clients // 5, chosen.clients}):
            while len(clients) < count:
                clients.append(Raw(many.server))
                clients[-1].transcript(query("select 1"))
            time.sleep(1)
            grown = resident_kib(process_id) - before
            rows.append([f"{count:,} clients", grown / 1024, grown / count])
        seconds = time.monotonic() - started
        last = clients[-1].transcript(query("select 1"))[-1]
        print_table(f"idle clients, router of {before / 1024:.1f} MiB without them", ["", "MiB more", "KiB a client"], rows)
        print(f"{len(clients):,} logins in {seconds:.1f} s; the last one is {'answered' if last == 'Z I' else 'NOT answered'}")
        for client in clients:
            client.socket.shutdown(socket.SHUT_RDWR)
            client.socket.close()
        time.sleep(2)
        print(f"after they left: {(resident_kib(process_id) - before) / 1024:.1f} MiB more than before")


if __name__ == "__main__":
    main()

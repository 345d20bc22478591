"""What a client that waits costs the router: thousands of them are connected, and few of them work."""

import time

import pytest

from harness import router
from harness.idle import Client, allow_many_files, resident_bytes

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("routers-idle-memory")]

_CLIENTS = 1500
# Measured: 5 to 6. A statement's state, kept while there is none, would be 10 more.
_KIB_MAX = 10


def test_a_client_that_waits_costs_little():
    allow_many_files()
    node = router.node("idle")
    try:
        made = router.Router(router.conninfo(node), [], more=f"[limits]\nconnections = {_CLIENTS + 500}\n")
        try:
            clients: list[Client] = []

            def grow(count: int) -> int:
                while len(clients) < count:
                    client = Client(made.port, len(clients))
                    client.run("select 1")
                    client.prepare("s1", "select $1::int")
                    client.run("set work_mem = '8MB'")
                    clients.append(client)
                time.sleep(1)
                return resident_bytes(made.process.pid)

            # What the first make it allocate once is not a client's.
            few = grow(500)
            kib = (grow(500 + _CLIENTS) - few) / _CLIENTS / 1024
            assert kib < _KIB_MAX, f"{kib:.1f} KiB a client"
            clients[0].run("select 1")
            for client in clients:
                client.socket.close()
        finally:
            made.stop()
    finally:
        node.stop()

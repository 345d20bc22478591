"""What a router does when it is signalled, and when it is full: certificates are read anew, clients hear why they end, and cancels find their way."""

import hashlib
import select
import signal
import socket
import ssl
import struct
import time

import psycopg
import pytest

from elastic.places import Asked
from harness import binaries, router, unprivileged
from harness.until import until

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("routers-signals")]


@pytest.fixture(scope="module")
def node():
    made = router.node("signals")
    yield made
    made.stop()


@pytest.fixture
def started(node):
    made = []

    def starts(more: str = "") -> router.Router:
        made.append(router.Router(router.conninfo(node), [], more=more))
        return made[-1]

    yield starts
    for each in made:
        each.stop()


def test_a_cancel_comes_through_to_a_router_that_is_full(started):
    server = started("[limits]\nconnections = 1\n").server
    with server.connect() as connection:
        asked = Asked(lambda: connection.execute("select pg_sleep(120)"))
        with pytest.raises(psycopg.OperationalError, match="sorry, too many clients already"):
            server.connect()
        # A cancel may come before its statement.
        until(lambda: connection.cancel_safe(timeout=10) or not asked.is_alive(), every=0.3)
        asked.join(60)
        assert asked.sqlstates == ["57014"]
    # Its place is free again.
    until(lambda: _lets_in(server))


def _lets_in(server) -> bool:
    try:
        server.connect().close()
        return True
    except psycopg.OperationalError:
        return False


def _next_message(connection) -> psycopg.Error:
    with pytest.raises(psycopg.Error) as error:
        connection.execute("select 1")
    return error.value


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_clients_hear_why_they_end(started, sent):
    made = started()
    idle, busy, within = (made.server.connect() for _ in range(3))
    within.execute("begin")
    within.execute("create table signals_gone (id int)")
    asked = Asked(lambda: busy.execute("select pg_sleep(120)"))
    time.sleep(0.5)
    made.process.send_signal(sent)
    # An idle one at once; those that are within something have their time.
    first, _, _ = select.select([idle.fileno(), within.fileno()], [], [], 10)
    assert first == [idle.fileno()]
    assert _next_message(idle).sqlstate == "57P01"
    assert select.select([within.fileno()], [], [], 10)[0] and _next_message(within).sqlstate == "57P01"
    until(lambda: made.process.poll() is not None, 30)
    asked.join(30)
    assert asked.sqlstates == ["57P01"]
    assert made.process.returncode == 0
    for connection in (idle, busy, within):
        connection.close()


def _fingerprint(port: int) -> str:
    """Of the certificate that the router shows."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as plain:
        plain.sendall(struct.pack("!ii", 8, 80877103))
        assert plain.recv(1) == b"S"
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with context.wrap_socket(plain) as safe:
            return hashlib.sha256(safe.getpeercert(binary_form=True)).hexdigest()


def test_the_certificate_is_read_anew(started):
    if binaries.tool("openssl") is None:
        pytest.skip("openssl is not installed: TLS is not tested here")
    first, second = (unprivileged.new_directory("signals") for _ in range(2))
    try:
        old, new = router.certificates(first), router.certificates(second)
        made = started(f'[tls]\ncertificate = "{old["server.crt"]}"\nkey = "{old["server.key"]}"\n')
        before = _fingerprint(made.port)
        with made.server.connect() as connection:
            for name in ("server.crt", "server.key"):
                old[name].write_bytes(new[name].read_bytes())
            made.process.send_signal(signal.SIGHUP)
            until(lambda: _fingerprint(made.port) != before)
            after = _fingerprint(made.port)
            # What can't be read leaves it as it is.
            old["server.key"].write_text("nothing of that kind")
            made.process.send_signal(signal.SIGHUP)
            until(lambda: "the certificate stays as it was" in made.log())
            assert _fingerprint(made.port) == after
            assert connection.execute("select 1").fetchone() == (1,)
        assert made.process.poll() is None
    finally:
        for directory in (first, second):
            unprivileged.remove_directory(directory)

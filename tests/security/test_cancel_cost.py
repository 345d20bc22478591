"""Who asks for a cancel proves nothing: what that costs the router is limited as logins are."""

import socket
import struct
import time

import psycopg
import pytest

from harness import router

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("security-costs"), pytest.mark.timeout(300)]
# As the router makes its pids: its number in front.
_NUMBER_SHIFT, _CANCEL, _OTHER = 23, 80877102, 77


def test_cancel_requests_keep_their_place_among_logins():
    home = router.node("cancels")
    deaf = socket.create_server(("127.0.0.1", 0))
    one = router.Router(router.conninfo(home), [], more="[limits]\nlogins = 1\n")
    try:
        # Another router, as it seems, which takes connections and never answers.
        address = f"127.0.0.1:{deaf.getsockname()[1]}"
        with home.server.connect() as boss:
            boss.execute("insert into herd.router (id, number, address, epoch) select 1, %s, %s, epoch from herd.epoch", [_OTHER, address])
        asks = socket.create_connection(("127.0.0.1", one.port))
        asks.sendall(struct.pack(">iiii", 16, _CANCEL, _OTHER << _NUMBER_SHIFT | 1, 1))
        time.sleep(0.3)
        with pytest.raises(psycopg.OperationalError, match="too many logins at once"):
            one.server.connect()
        deadline = time.monotonic() + 90
        while True:
            try:
                one.server.connect().close()
                break
            except psycopg.OperationalError:
                assert time.monotonic() < deadline
                time.sleep(0.2)
        asks.close()
    finally:
        for each in (one, home):
            each.stop()
        deaf.close()

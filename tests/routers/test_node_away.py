"""A node that goes away: the router says so once, and once when it is back; its metrics page and `herd status` show it."""

import json
import re
import subprocess
import time
import urllib.request

import pytest

from harness import binaries, ports, router
from harness.herd import Herd

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("routers-away"), pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def nodes():
    made = [router.node(f"away{n}") for n in (1, 2)]
    yield made
    for one in made:
        one.stop()


@pytest.fixture(scope="module")
def herd(nodes):
    port = ports.free_row(1)
    one = router.Router(router.conninfo(nodes[0]), [router.conninfo(nodes[1])], more=f'metrics = "127.0.0.1:{port}"\n')
    one.page = f"http://127.0.0.1:{port}/metrics"
    yield one
    one.stop()


def _up(herd) -> dict[str, str]:
    text = urllib.request.urlopen(herd.page, timeout=30).read().decode()
    return dict(re.findall(r'^herd_node_up\{node="(.*)"\} (\d)$', text, re.M))


def _eventually(ask, wanted, seconds_max: float = 90):
    deadline = time.monotonic() + seconds_max
    while (got := ask()) != wanted and time.monotonic() < deadline:
        time.sleep(0.1)
    assert got == wanted


def _status(herd, *more: str) -> subprocess.CompletedProcess:
    url = f"postgresql://postgres@127.0.0.1:{herd.port}/postgres"
    return subprocess.run([binaries.herd(), "status", "--url", url, *more], capture_output=True, text=True, timeout=60)


def _crash(node) -> None:
    """All of its processes, as when the machine stops; the data stays."""
    node.process.send_signal(3)
    node.process.wait(60)


def test_a_node_goes_and_comes_back(nodes, herd):
    _eventually(lambda: _up(herd), {"home": "1", "node2": "1"})
    with nodes[1].server.connect(autocommit=False) as direct:
        # One of the herd's that stands prepared, and one that is none of its.
        direct.execute("create table left_behind (id int)")
        direct.execute("prepare transaction 'somebody else''s'")
    found = json.loads(_status(herd, "--json").stdout)
    assert found["up"] and [(n["name"], n["up"], n["in_recovery"], n["prepared"]) for n in found["nodes"]] == [("home", True, False, 0), ("node2", True, False, 0)]
    assert all(n["bytes"] > 1_000_000 and n["version"] and n["host"] == "127.0.0.1" for n in found["nodes"])
    assert [n["port"] for n in found["nodes"]] == [n.port for n in nodes]
    plain = _status(herd)
    assert plain.returncode == 0 and re.search(r"^node2 +up ", plain.stdout, re.M), plain.stdout + plain.stderr

    _crash(nodes[1])
    _eventually(lambda: _up(herd), {"home": "1", "node2": "0"})
    plain = _status(herd)
    assert plain.returncode == 1 and re.search(r"^node2 +down ", plain.stdout, re.M), plain.stdout + plain.stderr
    assert json.loads(_status(herd, "--json").stdout)["nodes"][1]["up"] is False
    time.sleep(5)
    assert herd.log().count("a node can't be reached") == 1, herd.log()

    assert nodes[1]._try_start()
    _eventually(lambda: _up(herd), {"home": "1", "node2": "1"})
    assert _status(herd).returncode == 0
    assert herd.log().count("the node is back") == 1 and herd.log().count("a node can't be reached") == 1, herd.log()


def test_without_a_router_it_says_so():
    url = f"postgresql://postgres@127.0.0.1:{ports.free_row(1)}/postgres"
    done = subprocess.run([binaries.herd(), "status", "--url", url], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "refused" in done.stderr


def test_a_local_herd_shows_nodes_that_joined_it():
    local, joined = Herd(nodes=1, shards=4), None
    try:
        joined = router.node("away-joined")
        local.server.run(f"select citus_add_node('127.0.0.1', {joined.port})")
        found = local.status()
        assert found["up"] and [(n["name"], n["port"], n["prepared"]) for n in found["nodes"]] == [("node1", local.port + 1, 0), ("node2", joined.port, 0)]
        _crash(joined)
        found = local.status()
        assert not found["up"] and [n["up"] for n in found["nodes"]] == [True, False]
    finally:
        for one in (joined, local):
            if one:
                one.stop()

"""Each program of this directory for a short while. `make promises` runs them for long.

A program fails by itself where a promise is broken; what is asserted here is that it has done its work.
"""

import os

import pytest

from harness import needs

from . import bank, cancels, crash_matrix, fresh, fuzz, kinds, leaks, login, packets, renames, slow, snapshot, soak
from .cluster import Cluster

# One group: these want the machine to themselves, as far as pytest can give it.
pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("promises"), pytest.mark.timeout(700)]

# A fixed seed shows the same to everybody; another may be given.
SEED = int(os.environ.get("PROMISES_SEED", "1"))


@pytest.fixture
def cluster(request):
    with Cluster(nodes=getattr(request, "param", 2), shards=8) as made:
        yield made


@pytest.mark.parametrize("cluster", [3], indirect=True)
def test_the_bank_under_kill_9(cluster):
    assert bank.run(SEED, seconds=12, clients=8, least=100, cluster=cluster)["transfers"] > 100


def test_the_bank_while_shards_move(cluster):
    """Clients that deadlock all the time do not keep a move from its locks, and nobody is cancelled for one that gave a connection back."""
    figures = bank.run(SEED, seconds=25, clients=12, moves=1, least=100, cluster=cluster)
    assert figures["transfers"] > 100 and sum(figures["moves"].values()) > 0 and "57014" not in figures["errors"], figures


@pytest.mark.parametrize("cluster", [3], indirect=True)
@pytest.mark.parametrize("who", ["off", "client", "role"])
def test_the_bank_without_flushes(cluster, who):
    assert bank.run(SEED, seconds=10, clients=8, synchronous_commit=who, least=100, cluster=cluster)["transfers"] > 100


@pytest.mark.parametrize("cluster", [3], indirect=True)
@pytest.mark.parametrize("what, writers", [("rename,schema", 16), ("anew,kind", 16), ("kind", 32), ("alter,index", 16)])
def test_names_move_under_load(cluster, what, writers):
    figures = renames.run(SEED, seconds=10, writers=writers, what=what, stall_s_max=45, least=100, cluster=cluster)
    assert figures["statements"] > 100 and all(figures["changes"].values())


@pytest.mark.parametrize("cluster", [3], indirect=True)
def test_kinds_change_under_load(cluster):
    assert kinds.run(SEED, stall_s_max=45, cluster=cluster)["transactions"] > 100


@pytest.mark.parametrize("cluster", [3], indirect=True)
def test_a_death_at_every_step_of_a_commit(cluster):
    outcomes = crash_matrix.run(SEED, cases=10, cluster=cluster)["outcomes"]
    # Each case died and was looked at; some were committed, some were not.
    assert sum(outcomes.values()) == 10 and len(outcomes) > 1, outcomes


@pytest.mark.parametrize("cluster", [3], indirect=True)
@pytest.mark.parametrize("kills", [False, True])
def test_reads_of_several_nodes_are_whole(cluster, kills):
    figures = snapshot.run(SEED, seconds=6, writers=4, readers=3, kills=kills, least=50, cluster=cluster)
    assert figures["reads_on"] > 50 and figures["transfers"] > 20
    # Without the setting some are not, or the program would show nothing.
    assert figures["wrong_off"] > 0


def test_packet_faults(cluster):
    assert packets.run(SEED, cases=80, cluster=cluster)["hit"] > 20


def test_nothing_leaks(cluster):
    assert leaks.run(SEED, sequences=400, cluster=cluster)["sequences"] == 400


def test_nobody_gets_anothers_answer(cluster):
    assert soak.run(SEED, seconds=12, least=1000, cluster=cluster)["replies"] > 1000


def test_a_cancel_reaches_nobody_else(cluster):
    assert cancels.run(SEED, seconds=6, guesses=1000, cluster=cluster)["met"] > 0


def test_logins_that_must_fail(cluster):
    assert login.run(SEED, cluster=cluster)["attacks"] > 60


def test_slow_clients(cluster):
    assert slow.run(SEED, half_open=400, readers=3, seconds=4, cluster=cluster)["closed_by_timeout"] == 400


def test_nonsense_on_the_wire(cluster):
    figures = fuzz.run(SEED, sessions=200, cluster=cluster)
    assert figures["messages"] > 1000 and figures["node_answers"] > 10, figures


def test_columns_are_never_stale():
    needs.herd_column()
    with Cluster(nodes=2, shards=8, columns=True) as made:
        figures = fresh.run(SEED, seconds=12, writers=4, readers=3, least=50, cluster=made)
    assert figures["writes"] > 50 and figures["reads_own"] > 20 and figures["by_columns"] > 50, figures

"""Views that name views, each twice: what a statement takes that comes to them does not double with each, and nobody waits for it."""

import threading
import time

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(240)]

# Home's own rewriter opens a view wherever it is named, without a look at cancels: what is run is less of a tower.
_MADE, _RUN = 26, 13

# Home's planner takes long with what comes of it, too, which is its session's cost.
_ANSWERED_SOON = ("set statement_timeout = '2s'", "set from_collapse_limit = 1", "set join_collapse_limit = 1")


@pytest.fixture
def chains(place):
    place.server.run(
        "create schema chain authorization mallory",
        "create table chain.spread (id int primary key)",
        "select create_distributed_table('chain.spread', 'id')",
        "create table chain.local (id int)",
        "grant all on chain.spread, chain.local to mallory",
    )
    yield place
    place.server.run("drop schema chain cascade")


def _made(place, over: str, levels: int) -> str:
    """A tower of views."""
    with place.as_role("mallory", autocommit=True) as c:
        c.execute("set statement_timeout = '90s'")
        c.execute(f"create view chain.{over}_0 as select id from chain.{over}")
        for n in range(1, levels):
            below = f"chain.{over}_{n - 1}"
            c.execute(f"create view chain.{over}_{n} as select a.id from {below} a join {below} b on a.id = b.id")
    return f"chain.{over}_{levels - 1}"


def _runs_beside_others(place, statement: str) -> None:
    answers = []

    def run():
        with place.as_role("mallory", autocommit=True) as c:
            for setting in _ANSWERED_SOON:
                c.execute(setting)
            try:
                c.execute(statement)
                answers.append(None)
            except psycopg.Error as error:
                answers.append(error)

    thread = threading.Thread(target=run, daemon=True)
    with place.as_role("victim", autocommit=True) as other:
        thread.start()
        time.sleep(0.5)
        other.execute("set statement_timeout = '90s'")
        begun = time.monotonic()
        other.execute("select 1")
        assert time.monotonic() - begun < 30
    thread.join(120)
    assert answers, statement


def test_a_view_of_many_is_made(chains):
    tower = _made(chains, "local", _MADE)
    _runs_beside_others(chains, f"create view chain.top as select id from {tower}")


def test_a_write_in_with_beside_many(chains):
    tower = _made(chains, "local", _RUN)
    _runs_beside_others(
        chains, f"with w as (insert into chain.spread values (1), (2), (3), (4), (5) returning id) select count(*) from w, {tower}"
    )


def test_one_of_many_that_nobody_reads(chains):
    tower = _made(chains, "spread", _MADE)
    _runs_beside_others(chains, f"with unread as (select * from {tower}) select count(*) from chain.spread")

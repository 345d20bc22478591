"""Fixtures: one plain PostgreSQL and up to two herds for each pytest worker, stopped however the run ends."""

import atexit
import os

import pytest

from harness import binaries
from harness.fake_herd import FakeHerd
from harness.herd import Herd
from harness.plain_postgres import PlainPostgres
from harness.server import Server

FAKE = os.environ.get("PGHERD_TEST_FAKE") == "1"


def _until_the_end(thing):
    """Stops `thing` at the end of the session, and at exit if pytest itself dies first."""
    atexit.register(thing.stop)
    yield thing
    atexit.unregister(thing.stop)
    thing.stop()


@pytest.fixture(scope="session")
def plain():
    """The oracle's process."""
    yield from _until_the_end(PlainPostgres("oracle"))


@pytest.fixture(scope="session")
def oracle(plain) -> Server:
    """The plain PostgreSQL that answers are compared with."""
    return plain.server


@pytest.fixture(scope="session")
def _fake():
    yield from _until_the_end(FakeHerd("plain"))


@pytest.fixture(scope="session")
def herd_many(request):
    """A herd of 2 nodes and 32 shards a table."""
    if FAKE:
        yield request.getfixturevalue("_fake")
    else:
        yield from _until_the_end(Herd(nodes=2, shards=32))


@pytest.fixture(scope="session")
def herd_one(request):
    """A herd of 1 node and 1 shard a table."""
    if FAKE:
        yield request.getfixturevalue("_fake")
    else:
        yield from _until_the_end(Herd(nodes=1, shards=1))


@pytest.fixture(scope="session")
def herd(herd_many) -> Server:
    """The router of the herd of 2 nodes: what most tests talk to."""
    return herd_many.server


@pytest.fixture(scope="session")
def postgres_bin():
    return binaries.postgres_bin()


def _shares_a_module(item) -> bool:
    """It has a fixture that is made once for all tests of its file."""
    found = getattr(item, "_fixtureinfo", None)
    return any(definition.scope == "module" for definitions in (found.name2fixturedefs.values() if found else ()) for definition in definitions)


# Before the groups are read.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    # One worker has all tests that share what is made for their file: it took longer to make it three times than to run them.
    for item in items:
        if item.get_closest_marker("xdist_group") is None and _shares_a_module(item):
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))
    if FAKE:
        skip = pytest.mark.skip(reason="PGHERD_TEST_FAKE=1: needs a real herd")
        for item in items:
            if "real_herd" in item.keywords:
                item.add_marker(skip)


def pytest_collection_finish(session):
    """Groups whose names nobody reads would cost an hour, and tests that must not run beside each other would."""
    if getattr(session.config.option, "loadgroup", False):
        lost = [item.nodeid for item in session.items if item.get_closest_marker("xdist_group") and "@" not in item.nodeid.rpartition("]")[2]]
        if lost:
            raise pytest.UsageError(f"pytest-xdist's groups are not heeded: {lost[0]}")


def pytest_runtest_logreport(report):
    """Says at once what failed, and why: of a run that is ended from outside, nothing else would be known."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        print(f"\nFAILED {report.nodeid} ({report.when}, {report.duration:.0f} s)\n{report.longreprtext[-3000:]}", flush=True)


def pytest_terminal_summary(terminalreporter):
    """Sums up the differential suite, whose items each compare many statements."""
    totals: dict[str, int] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            for key, value in getattr(report, "user_properties", []):
                if key.startswith("differential:"):
                    totals[key.removeprefix("differential:")] = totals.get(key.removeprefix("differential:"), 0) + value
    if totals:
        terminalreporter.section("differential")
        terminalreporter.write_line(", ".join(f"{value} {key}" for key, value in totals.items()))

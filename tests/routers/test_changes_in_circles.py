"""Transactions that have used a table each, and then change the other's: one of them loses, as on one server, instead of both waiting for ever."""

import threading
import time

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("routers"), pytest.mark.timeout(300)]

BEFORE = {
    "written": "insert into {own} values ({key}, 1)",
    "updated": "update {own} set v = v + 1",
    "read by key": "select v from {own} where id = 1",
    "read": "select count(*) from {own}",
    "changed": "alter table {own} add column if not exists u int",
    "locked": "lock table {own} in access share mode",
}
CHANGES = {
    "alter": "alter table {other} add column if not exists w int",
    "index": "create index on {other} (v)",
    "lock": "lock table {other}",
    "truncate": "truncate {other}",
    "drop": "drop table {other} cascade",
}


@pytest.fixture
def tables(pair):
    names = ("ci_one", "ci_two")
    for name in names:
        pair.a.run(
            f"drop table if exists {name}", f"create table {name} (id int primary key, v int)", f"select create_distributed_table('{name}', 'id')",
            f"insert into {name} select g, g from generate_series(1, 100) g",
        )
    yield names
    pair.a.run(*(f"drop table if exists {name}" for name in names))


@pytest.mark.parametrize("routers", ["one router", "two routers"])
@pytest.mark.parametrize("before, change", [
    *((before, "alter") for before in BEFORE), *((before, change) for change in CHANGES if change != "alter" for before in ("written", "read")),
])
def test_one_of_them_loses(pair, tables, before, change, routers):
    if (before, change) == ("read", "index"):
        pytest.skip("who reads is in nobody's way")
    through = (pair.a, pair.b if routers == "two routers" else pair.a)
    said, both = {}, threading.Barrier(2)

    def run(me: int) -> None:
        names = {"own": tables[me], "other": tables[1 - me], "key": 1000 + me}
        with through[me].connect(autocommit=False) as connection:
            try:
                connection.execute(BEFORE[before].format(**names))
                both.wait(60)
                connection.execute(CHANGES[change].format(**names))
                said[me] = "done"
            except psycopg.Error as error:
                said[me] = error.sqlstate
            connection.rollback()

    threads = [threading.Thread(target=run, args=(me,)) for me in (0, 1)]
    begun = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), f"they wait for each other: {said}"
    assert sorted(said.values()) == ["40P01", "done"], said
    # Servers look after a second, routers twice a second; nobody waits for minutes.
    assert time.monotonic() - begun < 60
    with pair.a.connect() as connection:
        for table in tables:
            assert connection.execute(f"select count(*) from {table}").fetchone() == (100,)


def test_no_circle_is_none(pair, tables):
    """Who only waits gets his turn, however long that takes, though he has locks."""
    said = []
    with pair.a.connect(autocommit=False) as holds, pair.b.connect(autocommit=False) as waits:
        holds.execute("select count(*) from ci_two")
        holds.execute("update ci_two set v = v where id = 1")
        waits.execute("select count(*) from ci_one")
        waits.execute("update ci_one set v = v where id = 1")

        def change():
            try:
                waits.execute("alter table ci_two add column w int")
                waits.commit()
                said.append("done")
            except psycopg.Error as error:
                said.append(error)

        thread = threading.Thread(target=change)
        thread.start()
        time.sleep(6)
        assert not said
        # Others read meanwhile, and wait for a try at most.
        longest = 0.0
        with pair.a.connect() as reader:
            for _ in range(20):
                begun = time.monotonic()
                reader.execute("select v from ci_two where id = 7")
                longest = max(longest, time.monotonic() - begun)
        assert longest < 6, longest
        holds.commit()
        thread.join(90)
    assert said == ["done"]

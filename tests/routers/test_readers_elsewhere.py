"""Reads at the beginning of a READ COMMITTED transaction begin on no node in a herd of several routers, too: who wants the table for himself
through another router waits for the transaction all the same."""

import random
import signal
import threading
import time

import psycopg
import pytest

from harness import router

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("routers"), pytest.mark.timeout(120)]

OPEN = "select count(*) from pg_stat_activity where state like 'idle in transaction%' and pid <> pg_backend_pid()"


@pytest.fixture
def read(pair):
    pair.a.run(
        "drop table if exists re_t, re_other", "create table re_t (id int primary key, v int)", "create table re_other (id int primary key)",
        "select create_distributed_table('re_t', 'id')", "select create_distributed_table('re_other', 'id')", "insert into re_t select g, g from generate_series(1, 100) g",
    )
    yield pair
    pair.a.run("drop table if exists re_t, re_other")


def _open_on_nodes(pair) -> int:
    total = 0
    for node in pair.nodes:
        with node.server.connect() as connection:
            total += connection.execute(OPEN).fetchone()[0]
    return total


def _begins(pair) -> psycopg.Connection:
    """A transaction through `a` that has read, and has begun nowhere."""
    reader = pair.a.connect()
    reader.execute("begin")
    assert reader.execute("select count(*) from re_t").fetchone() == (100,)
    assert reader.execute("select v from re_t where id = 7").fetchone() == (7,)
    assert _open_on_nodes(pair) == 0
    return reader


@pytest.mark.parametrize("change", ["alter table re_t add column more int default 5", "drop table re_t", "truncate re_t", "alter table re_t rename to re_renamed", "begin; lock table re_t; commit", "select undistribute_table('re_t')"])
def test_a_change_waits_for_readers_of_another_router(read, change):
    failed = []
    with _begins(read) as reader, read.b.connect() as b:
        def run():
            try:
                b.execute(change)
            except psycopg.Error as error:
                failed.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        for _ in range(4):
            time.sleep(0.4)
            assert thread.is_alive(), failed
            assert reader.execute("select * from re_t where id = 7").fetchone() == (7, 7)
            assert reader.execute("select sum(v) from re_t").fetchone() == (5050,)
        reader.execute("commit")
        ended = time.monotonic()
        thread.join(20)
        assert not thread.is_alive() and failed == []
        assert time.monotonic() - ended < 10
        b.execute("drop table if exists re_renamed")


def test_what_touches_other_tables_or_less_does_not_wait(read):
    with _begins(read) as reader, read.b.connect() as b:
        b.execute("set lock_timeout = '3s'")
        b.execute("alter table re_other add column more int")
        b.execute("create index on re_t (v)")
        b.execute("insert into re_t values (101, 101)")
        assert reader.execute("select count(*) from re_t").fetchone() == (101,)
        reader.execute("commit")


def test_limits_of_who_waits(read):
    with _begins(read) as reader, read.b.connect() as b:
        b.execute("set lock_timeout = '1s'")
        for sql in ("alter table re_t add column more int", "begin; lock table re_t"):
            with pytest.raises(psycopg.errors.LockNotAvailable):
                b.execute(sql)
            b.execute("rollback")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            b.execute("begin; lock table re_t nowait")
        b.execute("rollback")
        # Nobody waits in front of the table any more.
        assert reader.execute("select count(*) from re_t").fetchone() == (100,)
        with read.a.connect() as third:
            assert third.execute("select count(*) from re_t").fetchone() == (100,)


def test_what_bears_no_seal_is_not_believed(read):
    with _begins(read) as reader, read.b.connect() as b, read.nodes[0].server.connect() as forger:
        ids = [n for n, in forger.execute("select id from herd.router").fetchall()]
        failed = []

        def run():
            try:
                b.execute("alter table re_t add column more int")
            except psycopg.Error as error:
                failed.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        until = time.monotonic() + 2
        while time.monotonic() < until:
            for to in ids:
                for said in ids:
                    for number in range(40):
                        forger.execute(f"notify herd_epoch, 'read! {to % 2**64} {number} {said % 2**64} 0 {'0' * 64}'")
        assert thread.is_alive() and failed == []
        reader.execute("commit")
        thread.join(20)
        assert failed == []


def test_a_router_that_dies_is_not_waited_for(read):
    home, other = (router.conninfo(n) for n in read.nodes)
    third = router.Router(home, [other])
    try:
        for end in (signal.SIGSTOP, signal.SIGKILL):
            reader = third.server.connect()
            reader.execute("begin")
            assert reader.execute("select count(*) from re_t").fetchone() == (100,)
            third.process.send_signal(end)
            begun = time.monotonic()
            read.b.run("alter table re_t add column more int", "alter table re_t drop column more")
            assert time.monotonic() - begun < 20
            if end == signal.SIGSTOP:
                third.process.send_signal(signal.SIGCONT)
                time.sleep(1)
                reader.close()
    finally:
        third.process.send_signal(signal.SIGKILL)
        third.stop()


def test_readers_and_changes_through_both(read):
    """A transaction sees one form of the table from its first read to its last."""
    stop, failed, done = threading.Event(), [], [0, 0]

    def reads(server, seed):
        dice = random.Random(seed)
        try:
            with server.connect() as c:
                # By the simple protocol; the extended one's statements are prepared, and their columns may not change.
                c.prepare_threshold = None
                while not stop.is_set():
                    c.execute("begin")
                    try:
                        answer = c.execute("select * from re_t where id = %s", (3,)) if seed < 2 else c.execute("select * from re_t where id = 3")
                    except psycopg.errors.FeatureNotSupported as error:
                        assert "cached plan must not change result type" in str(error)
                        c.execute("rollback")
                        continue
                    first = len(answer.description)
                    assert {len(row) for row in answer.fetchall()} == {first}
                    for _ in range(dice.randrange(4)):
                        time.sleep(dice.random() * 0.02)
                        sql = dice.choice(["select * from re_t where id = 5", "select * from re_t order by id limit 3", "select * from re_t where v > 50"])
                        assert len(c.execute(sql).description) == first, "another form"
                    if dice.random() < 0.3:
                        c.execute("update re_t set v = v where id = 4")
                        assert len(c.execute("select * from re_t where id = 5").description) == first, "another form behind a write"
                    c.execute(dice.choice(["commit", "rollback"]))
                    done[0] += 1
        except Exception as error:  # noqa: BLE001
            failed.append(error)

    def changes(server, name):
        try:
            with server.connect() as c:
                while not stop.is_set():
                    c.execute(f"alter table re_t add column {name} int default 1")
                    time.sleep(0.03)
                    c.execute(f"alter table re_t drop column {name}")
                    done[1] += 1
        except Exception as error:  # noqa: BLE001
            failed.append(error)

    threads = [threading.Thread(target=reads, args=(s, n)) for n, s in enumerate((read.a, read.b, read.a, read.b))]
    threads += [threading.Thread(target=changes, args=(s, n)) for n, s in (("of_a", read.a), ("of_b", read.b))]
    [t.start() for t in threads]
    time.sleep(12)
    stop.set()
    [t.join(40) for t in threads]
    assert failed == [] and not any(t.is_alive() for t in threads)
    assert done[0] > 50 and done[1] > 2, done
    print(f"{done[0]} transactions, {done[1]} pairs of changes")

"""Reads of standbys: which go there, what they see, and what happens when a standby is behind, gone or in the way."""

import os
import signal
import threading
import time
import urllib.request

import psycopg
import pytest

from harness import router
from harness.standby import Standby

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("replicas"), pytest.mark.timeout(500)]

# When a standby that is lost is left out: a second, and something for a machine that is busy.
LEFT_OUT = 1.2


@pytest.fixture
def rows(replicas):
    """40 rows of both nodes, a reference table and a local one, on standbys too."""
    replicas.a.run(
        "create table r_rows (id int primary key, v int)", "select create_distributed_table('r_rows', 'id')",
        "create table r_kind (k int primary key, name text)", "select create_reference_table('r_kind')",
        "create table r_local (id int primary key, v int)", "create sequence r_numbers",
        "create function r_own(int) returns int language sql stable as 'select $1 + 0'",
        "insert into r_rows select g, 0 from generate_series(1, 40) g", "insert into r_kind values (0, 'none')",
        "insert into r_local values (1, 0)",
        "create view r_view as select v, count(*) n from r_rows group by v",
        "create table r_closed (id int primary key)", "select create_distributed_table('r_closed', 'id')",
        "alter table r_closed enable row level security",
    )
    replicas.wait_until_applied()
    yield
    for standby in replicas.standbys:
        standby.start()
        standby.resume()
    replicas.wait_until_ready()
    replicas.a.run("drop view r_view", "drop table r_rows, r_kind, r_local, r_closed", "drop sequence r_numbers", "drop function r_own")


THERE = [
    ("select v from r_rows where id = 7", 1),
    ("select count(*), sum(v) from r_rows", 2),
    ("select * from r_rows order by id limit 3", 2),
    ("select name from r_kind where k = 0", 1),
    ("select v, now() > '2020-01-01' from r_local where id = 1", 1),
    ("select k.name, count(*) from r_rows r join r_kind k on k.k = r.v group by 1", 2),
    ("select n from r_view", 2),
    ("select count(*) from r_rows where v = (select v from r_local where id = 1)", 2),
    ("with w as (select id from r_rows) select count(*) from w", 2),
]
NOT_THERE = [
    "select 1",
    "update r_rows set v = v where id = 7",
    "select v from r_rows where id = 7 for update",
    "select v from r_rows for share",
    "select id, random() from r_rows",
    "select nextval('r_numbers'), id from r_local",
    "select r_own(v) from r_rows where id = 7",
    "select pg_try_advisory_xact_lock(1), id from r_rows where id = 7",
    "select current_setting('port'), id from r_rows where id = 7",
    "select inet_server_port(), id from r_local",
    "select count(*) from pg_class",
    "select name, setting from pg_settings where name = 'transaction_read_only'",
    "select count(*) from r_closed",
    "with w as (delete from r_rows where id = 99 returning id) select count(*) from w",
    "explain select v from r_rows where id = 7",
]


def test_which_statements_go_there(replicas, rows):
    with replicas.reader(max_staleness="1min") as reader, replicas.a.connect() as other:
        for sql, least in THERE:
            expected = other.execute(sql).fetchall()
            for how in ({}, {"params": (), "binary": True}):
                assert replicas.read_there(reader, sql, least, **how) == expected, sql
        for sql in NOT_THERE:
            before = replicas.reads(other)
            reader.execute(sql)
            assert replicas.reads(other) == before, sql
        # A block may write yet; what is on home alone is not on its standby.
        replicas.wait_until_applied()
        before = replicas.reads(other)
        with reader.transaction():
            reader.execute("select v from r_rows where id = 7")
        reader.execute("create temporary table r_local as select 1 as id, 5 as v")
        assert reader.execute("select v from r_local").fetchall() == [(5,)]
        reader.execute("drop table pg_temp.r_local")
        assert replicas.reads(other) == before


def test_who_does_not_ask_reads_primaries(replicas, rows):
    with replicas.a.connect() as session:
        before = replicas.reads(session)
        for sql, _ in THERE:
            session.execute(sql)
        assert replicas.reads(session) == before
        assert session.execute("show herd.read_from").fetchone() == ("primary",)
        assert session.execute("show herd.max_staleness").fetchone() == ("5s",)
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            session.execute("set herd.read_from = nowhere")


def test_servers_have_really_read(replicas, rows):
    def begun(standby):
        with standby.server.connect() as connection:
            return connection.execute("select xact_commit from pg_stat_database where datname = 'postgres'").fetchone()[0]

    before = list(map(begun, replicas.standbys))
    with replicas.reader(max_staleness="1min") as reader:
        for n in range(2000):
            reader.execute("select v from r_rows where id = %s", (n % 40 + 1,), prepare=True)
    deadline = time.monotonic() + 60
    while any(now < then + 700 for now, then in zip(map(begun, replicas.standbys), before)):
        assert time.monotonic() < deadline, (before, list(map(begun, replicas.standbys)))
        time.sleep(0.2)


def test_what_is_shown(replicas, rows):
    with replicas.reader(max_staleness="1min") as reader:
        replicas.read_there(reader, "select count(*) from r_rows", 2)
        shown = reader.execute("select node, state, why, lag_bytes >= 0, age < '1min', reads > 0 from herd.replicas where state = 'ready' order by node")
        assert shown.fetchall() == [("home", "ready", None, True, True, True), ("node2", "ready", None, True, True, True)]
    with urllib.request.urlopen(f"http://127.0.0.1:{replicas.metrics}/metrics", timeout=10) as answer:
        page = answer.read().decode()
    for node, standby in zip(("home", "node2"), replicas.standbys):
        of = f'{{node="{node}",standby="127.0.0.1:{standby.port}"}}'
        assert f"herd_standby_ready{of} 1\n" in page, page
        assert int(page.split(f"herd_standby_reads_total{of} ")[1].split("\n")[0]) > 0
        assert float(page.split(f"herd_standby_age_seconds{of} ")[1].split("\n")[0]) < 60


def test_a_read_can_be_cancelled(replicas, rows):
    long = "select count(*) from r_rows a, r_rows b, r_rows c, r_rows d, generate_series(1, 1000) g where (a.id + b.id + c.id + d.id + g) % 7 = 1"
    with replicas.reader(max_staleness="1min") as reader:
        replicas.read_there(reader, "select count(*) from r_rows", 2)
        for cancel in (True, False):
            if cancel:
                threading.Timer(0.7, reader.cancel).start()
            else:
                reader.execute("set statement_timeout = '700ms'")
            begun = time.monotonic()
            with pytest.raises(psycopg.errors.QueryCanceled):
                reader.execute(long)
            assert time.monotonic() - begun < 30
        deadline = time.monotonic() + 30
        at_work = "select count(*) from pg_stat_activity where state = 'active' and query like '%generate_series(1, 1000)%' and pid <> pg_backend_pid()"
        for standby in replicas.standbys:
            with standby.server.connect() as connection:
                while connection.execute(at_work).fetchone() != (0,):
                    assert time.monotonic() < deadline
                    time.sleep(0.1)


def test_own_writes_are_seen(replicas, rows):
    for standby in replicas.standbys:
        standby.pause()
    with replicas.reader(max_staleness="1h") as reader:
        for n in range(1, 20):
            # By one node, by two phases, in a block, by COPY, and by rows that travel with others'.
            reader.execute("update r_rows set v = %s where id = 7", (n,))
            assert reader.execute("select v from r_rows where id = 7").fetchone() == (n,)
            reader.execute("update r_rows set v = %s", (n,))
            assert reader.execute("select min(v), max(v) from r_rows").fetchone() == (n, n)
            with reader.transaction():
                reader.execute("update r_local set v = %s", (n,))
            assert reader.execute("select v from r_local").fetchone() == (n,)
            reader.execute("insert into r_rows values (%s, 0), (%s, 0)", (100 + n, 200 + n))
            assert reader.execute("select count(*) from r_rows").fetchone() == (40 + 3 * n - 1,)
            with reader.cursor().copy("copy r_rows from stdin") as copy:
                copy.write(f"{300 + n}\t0\n")
            assert reader.execute("select count(*) from r_rows").fetchone() == (40 + 3 * n,)
        # What it wrote before it asked for standbys, too.
        reader.execute("set herd.read_from = 'primary'")
        reader.execute("update r_rows set v = -1 where id = 7")
        reader.execute("set herd.read_from = 'any'")
        assert reader.execute("select v from r_rows where id = 7").fetchone() == (-1,)


def test_own_writes_are_seen_while_standbys_follow(replicas, rows):
    with replicas.reader() as reader, replicas.a.connect() as other:
        before = replicas.reads(other)
        for n in range(200):
            reader.execute("update r_rows set v = %s where id = %s", (n, n % 40 + 1))
            assert reader.execute("select v from r_rows where id = %s", (n % 40 + 1,)).fetchone() == (n,)
        # It was worth waiting for them.
        assert replicas.reads(other) > before + 20


def test_what_is_too_old_is_not_read(replicas, rows):
    with replicas.reader(max_staleness="1h") as patient, replicas.reader(max_staleness="4s") as reader:
        for session in (patient, reader):
            assert session.execute("select v from r_rows where id = 7").fetchone() == (0,)
        # Routers see late that rights may have been changed, by who made the tables.
        time.sleep(13)
        replicas.wait_until_applied()
        for standby in replicas.standbys:
            standby.pause()
        replicas.b.run("update r_rows set v = 1")
        written = time.monotonic()
        assert patient.execute("select v from r_rows where id = 7").fetchone() == (0,)
        assert patient.execute("select distinct v from r_rows").fetchall() == [(0,)]
        seen = []
        while time.monotonic() < written + 5:
            seen.append((time.monotonic() - written, reader.execute("select v from r_rows where id = 7").fetchone()[0]))
            time.sleep(0.02)
        assert all(v == 1 for after, v in seen if after > 4), seen[-5:]
        assert seen[0][1] == 0, seen[:3]
        assert patient.execute("select v from r_rows where id = 7").fetchone() == (0,)
        with replicas.a.connect() as other:
            shown = other.execute("select lag_bytes > 0, age > '1s' from herd.replicas where state = 'ready'").fetchall()
        assert shown == [(True, True)] * 2
        for standby in replicas.standbys:
            standby.resume()
        replicas.wait_until_applied()
        assert patient.execute("select v from r_rows where id = 7").fetchone() == (1,)


def test_a_change_of_the_schema_is_seen(replicas, rows):
    """Whoever has made it, through whichever router: a standby that has not applied it is not read by a catalog that has it."""
    for standby in replicas.standbys:
        standby.pause()
    with replicas.reader(max_staleness="1h") as reader:
        reader.execute("select * from r_rows where id = 7")
        for n, change in enumerate([
            "alter table r_rows add column w int default 5",
            "alter table r_kind add column w int default 5",
            "alter table r_local add column w int default 5",
        ]):
            replicas.b.run(change)
            table, by = [("r_rows", "id = 7"), ("r_kind", "k = 0"), ("r_local", "id = 1")][n]
            assert len(reader.execute(f"select * from {table} where {by}").fetchone()) == 3, change
            assert reader.execute(f"select w from {table} where {by}").fetchone() == (5,)
        replicas.b.run("alter table r_rows drop column w", "select undistribute_table('r_rows')")
        assert reader.execute("select count(*) from r_rows").fetchone() == (40,)
        replicas.b.run("select create_distributed_table('r_rows', 'id')")
        assert reader.execute("select count(*) from r_rows").fetchone() == (40,)
        replicas.b.run("create role r_stranger login", "grant select on r_rows to r_stranger")
        try:
            with psycopg.connect(replicas.a.conninfo.replace("user=postgres", "user=r_stranger"), autocommit=True) as stranger:
                stranger.execute("set herd.read_from = replica")
                stranger.execute("set herd.max_staleness = '1h'")
                assert stranger.execute("select count(*) from r_rows").fetchone() == (40,)
                for standby in replicas.standbys:
                    standby.resume()
                replicas.wait_until_applied()
                assert stranger.execute("select count(*) from r_rows").fetchone() == (40,)
                for standby in replicas.standbys:
                    standby.pause()
                replicas.a.run("revoke select on r_rows from r_stranger")
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    stranger.execute("select count(*) from r_rows")
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    stranger.execute("select v from r_rows where id = 7")
                # Through another router, or none, in some seconds, whatever `herd.max_staleness` is.
                replicas.b.run("grant select on r_rows to r_stranger")
                for standby in replicas.standbys:
                    standby.resume()
                replicas.wait_until_applied()
                time.sleep(12)
                for standby in replicas.standbys:
                    standby.pause()
                assert stranger.execute("select count(*) from r_rows").fetchone() == (40,)
                replicas.b.run("revoke select on r_rows from r_stranger")
                revoked = time.monotonic()
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    while time.monotonic() < revoked + 60:
                        stranger.execute("select count(*) from r_rows")
                        time.sleep(0.2)
                print(f"a REVOKE through another router counts after {time.monotonic() - revoked:.1f} s")
        finally:
            replicas.b.run("drop owned by r_stranger", "drop role r_stranger")


def test_a_shard_that_has_moved_is_read_where_it_is(replicas, rows):
    for standby in replicas.standbys:
        standby.pause()
    with replicas.reader(max_staleness="1h") as reader, replicas.b.connect() as other:
        for shard, node in other.execute("select shard, node from herd.shards where name = 'r_rows' and shard < 2").fetchall():
            to = [n for (n,) in other.execute("select name from herd.nodes").fetchall() if n != node][0]
            other.execute("select herd.move_shard('r_rows', %s, %s)", (shard, to))
            assert reader.execute("select count(*) from r_rows").fetchone() == (40,)
            for id in range(1, 41):
                assert reader.execute("select v from r_rows where id = %s", (id,)).fetchone() == (0,)


def test_any_spreads_reads(replicas, rows):
    """One of some rounds shows it: who is slow, or has not answered in time, on a busy machine has less for that while."""
    with replicas.a.connect() as other:

        def reads():
            of_state = "select sum(reads) from herd.replicas where state = %s"
            return [other.execute(of_state, (state,)).fetchone()[0] or 0 for state in ("primary", "ready")]

        def read():
            with replicas.reader(read_from="any", max_staleness="1min") as reader:
                for n in range(300):
                    reader.execute("select v from r_rows where id = %s", (n % 40 + 1,))

        seen = []
        for _ in range(5):
            before = reads()
            threads = [threading.Thread(target=read) for _ in range(4)]
            [t.start() for t in threads]
            [t.join() for t in threads]
            shares = [now - then for now, then in zip(reads(), before)]
            if sum(shares) >= 1200 and min(shares) > 60:
                return
            seen.append((shares, other.execute("select node, host, port, state, why, age, reads from herd.replicas").fetchall()))
        raise AssertionError(seen)


@pytest.mark.parametrize("dies", ["killed", "hangs"])
def test_a_standby_is_lost_under_load(replicas, rows, dies):
    """What begins a second later is answered by others, as if there were no such standby; what waits for it then is answered in some seconds."""
    failed, done, stop = [], [], threading.Event()

    def read(n):
        with replicas.reader(read_from="any" if n == 5 else "replica", max_staleness="1min") as reader:
            while not stop.is_set():
                begun = time.monotonic()
                try:
                    if n % 2:
                        assert reader.execute("select count(*) from r_rows").fetchone() == (40,)
                    else:
                        assert reader.execute("select v from r_rows where id = %s", (n + 1,)).fetchone() == (0,)
                except Exception as error:  # noqa: BLE001
                    failed.append(error)
                    return
                done.append((begun, time.monotonic() - begun))

    def asked(connection) -> list[tuple]:
        return connection.execute("select state, reads from herd.replicas where port = %s", (standby.port,)).fetchall()

    threads = [threading.Thread(target=read, args=(n,)) for n in range(6)]
    [t.start() for t in threads]
    time.sleep(1)
    standby = replicas.standbys[1]
    standby.kill() if dies == "killed" else standby.hang()
    lost = time.monotonic()
    time.sleep(LEFT_OUT)
    with replicas.a.connect() as connection:
        # A second, and on a busy machine more.
        while asked(connection)[0][0] != "unreachable":
            assert time.monotonic() < lost + 10, asked(connection)
            time.sleep(0.05)
    left_out = time.monotonic()
    late = threading.Thread(target=read, args=(4,))
    late.start()
    threads.append(late)
    with replicas.a.connect() as connection:
        seen = asked(connection)
        # So long that who waits for it is answered before, also on a busy machine.
        time.sleep(max(lost + 15 - time.monotonic(), 4))
        assert asked(connection) == seen and seen[0][0] == "unreachable", (seen, asked(connection))
    back = time.monotonic()
    standby.start() if dies == "killed" else standby.go_on()
    time.sleep(3)
    stop.set()
    [t.join(60) for t in threads]
    assert not failed, failed[:3]
    meanwhile = [took for begun, took in done if left_out < begun < back]
    assert len(meanwhile) > 100 and not any(t.is_alive() for t in threads), len(meanwhile)
    slowest = max(took for _, took in done)
    print(f"{dies}: slowest begun {left_out - lost:.1f} s later {max(meanwhile):.3f} s, of all {slowest:.3f} s")
    # Who is asked by mistake is waited for until it goes on, or for seconds.
    assert max(meanwhile) < 3, max(meanwhile)
    assert slowest < (8 if dies == "killed" else 14), slowest
    replicas.wait_until_ready()


def test_a_standby_that_restarts_has_less(replicas, rows):
    """Its last moments before a crash count for nothing afterwards: it may have applied less of the log than it had."""
    wrong, done, stop = [], [0], threading.Event()

    def work(id):
        value = 0
        with replicas.reader(max_staleness="1h") as reader:
            while not stop.is_set():
                value += 1
                reader.execute("update r_rows set v = %s where id = %s", (value, id))
                for _ in range(3):
                    seen = reader.execute("select v from r_rows where id = %s", (id,)).fetchone()[0]
                    if seen != value:
                        wrong.append((id, value, seen))
                done[0] += 1

    threads = [threading.Thread(target=work, args=(id,)) for id in range(1, 7)]
    [t.start() for t in threads]
    for n in range(6):
        time.sleep(1.2)
        standby = replicas.standbys[n % 2]
        with standby.server.connect() as victim:
            pid = victim.info.backend_pid
            # A backend that dies takes all others with it, and the server recovers.
            os.kill(pid, signal.SIGKILL)
    time.sleep(2)
    deadline = time.monotonic() + 120
    while done[0] <= 200 and any(t.is_alive() for t in threads) and time.monotonic() < deadline:
        time.sleep(0.1)
    stop.set()
    [t.join(60) for t in threads]
    assert not wrong and not any(t.is_alive() for t in threads), wrong[:5]
    assert done[0] > 200
    replicas.wait_until_ready()


def _one(server, sql: str):
    with server.server.connect() as connection:
        return connection.execute(sql).fetchone()[0]


def test_a_conflict_with_recovery_is_no_error(replicas, rows):
    """The standby ends a read that keeps it from applying what VACUUM did: the primary answers."""
    for standby in replicas.standbys:
        standby.server.run("alter system set max_standby_streaming_delay = 0", "select pg_reload_conf()")
    result = []
    sql = "select count(*) from r_local a, generate_series(1, 8000000) g where g %% (a.id + 1) = 0".replace("%%", "%")
    with replicas.reader(max_staleness="1min") as reader, replicas.a.connect() as other:
        expected = other.execute(sql).fetchone()
        replicas.wait_until_applied()
        failed_before = other.execute("select sum(reads) from herd.replicas").fetchone()
        at_work = "select count(*) from pg_stat_activity where state = 'active' and query like '%generate_series(1, 8000000)%' and pid <> pg_backend_pid()"
        deadline, thread = time.monotonic() + 90, None
        while not (thread and any(_one(standby, at_work) for standby in replicas.standbys)):
            if thread is None or not thread.is_alive():
                # On a busy machine the primary is asked where no standby has been heard of for a moment.
                assert time.monotonic() < deadline, "no standby is asked"
                result.clear()
                thread = threading.Thread(target=lambda: result.append(reader.execute(sql).fetchone()))
                thread.start()
            time.sleep(0.02)
        time.sleep(0.3)
        for _ in range(3):
            replicas.nodes[0].server.run("update r_local set v = v + 1", "vacuum (freeze) r_local", "vacuum full r_local")
        thread.join(200)
        assert result == [expected]
        assert other.execute("select sum(reads) from herd.replicas").fetchone() > failed_before
    # Whichever of them was asked; a backend that goes on idle tells what it has counted within ten seconds.
    deadline = time.monotonic() + 60
    while True:
        conflicts = 0
        for standby in replicas.standbys:
            with standby.server.connect() as connection:
                conflicts += connection.execute("select sum(confl_snapshot + confl_lock + confl_bufferpin) from pg_stat_database_conflicts").fetchone()[0]
        if conflicts > 0:
            break
        assert time.monotonic() < deadline
        time.sleep(0.5)
    for standby in replicas.standbys:
        standby.server.run("alter system reset max_standby_streaming_delay", "select pg_reload_conf()")


def test_prepared_statements_and_pipelines(replicas, rows):
    with replicas.reader(max_staleness="1min") as reader:
        for n in range(60):
            assert reader.execute("select v from r_rows where id = %s", (n % 40 + 1,), prepare=True).fetchone() == (0,)
            assert reader.execute("select count(*) from r_rows where v = %s", (0,), prepare=True).fetchone() == (40,)
        with reader.pipeline():
            reader.execute("update r_rows set v = 3 where id = 5")
            cursor = reader.execute("select v from r_rows where id = 5")
            assert cursor.fetchone() == (3,)
        assert reader.execute("select v from r_rows where id = 5").fetchone() == (3,)
        # Several statements of a string are one transaction.
        cursor = reader.cursor()
        cursor.execute("update r_rows set v = 4 where id = 5; select v from r_rows where id = 5")
        cursor.nextset()
        assert cursor.fetchone() == (4,)
        reader.execute("set herd.snapshot = on")
        assert reader.execute("select count(*) from r_rows").fetchone() == (40,)
        reader.execute("set default_transaction_isolation = 'serializable'")
        assert reader.execute("select count(*) from r_rows").fetchone() == (40,)


def test_settings_of_roles_and_databases(replicas, rows):
    replicas.a.run("create role r_reader login", "alter role r_reader set herd.read_from = replica", "grant select on r_rows to r_reader",
                   "alter role r_reader set datestyle = 'SQL, DMY'")
    try:
        replicas.wait_until_applied()
        who = replicas.a.conninfo.replace("user=postgres", "user=r_reader")
        with psycopg.connect(who, autocommit=True) as reader:
            assert reader.execute("show herd.read_from").fetchone() == ("replica",)
            replicas.wait_until_applied()
            assert replicas.read_there(reader, "select date '2026-02-01'::text, count(*) from r_rows", 2) == [("01/02/2026", 40)]
            reader.execute("set datestyle = 'ISO, YMD'")
            assert reader.execute("select date '2026-02-01'::text from r_rows where id = 1").fetchone() == ("2026-02-01",)
            # Set while standbys do not hear of it: a login after that has it.
            for standby in replicas.standbys:
                standby.pause()
            replicas.a.run("alter role r_reader set datestyle = 'German'", "alter role r_reader set herd.max_staleness = '1h'")
            with psycopg.connect(who, autocommit=True) as late:
                assert late.execute("select date '2026-02-01'::text from r_rows where id = 1").fetchone() == ("01.02.2026",)
    finally:
        replicas.a.run("drop owned by r_reader", "drop role r_reader")


def test_a_stranger_is_not_read(replicas, rows):
    """A standby of another server among the hosts of a node."""
    one, other = router.node("one"), router.node("other")
    stranger = Standby(other)
    made = None
    try:
        made = router.Router(replicas.conninfo(one, stranger), [], more='auth = "trust"\n')
        made.server.run("create table r_alone (v int)", "insert into r_alone values (1)")
        time.sleep(1.5)
        with replicas.reader(made.server, max_staleness="1h") as reader:
            deadline = time.monotonic() + 30
            while "stranger" not in replicas.states(made.server):
                assert time.monotonic() < deadline, replicas.states(made.server)
                time.sleep(0.1)
            assert reader.execute("select v from r_alone").fetchall() == [(1,)]
            assert sorted(reader.execute("select state, reads from herd.replicas").fetchall())[1] == ("stranger", 0)
    finally:
        for thing in (made, stranger, one, other):
            if thing is not None:
                thing.stop()


def test_a_standby_that_is_promoted(replicas, rows):
    """It is the node from then on, and is read as that; last, as the servers of this file are others afterwards."""
    with replicas.reader(read_from="any", max_staleness="1min") as reader:
        assert reader.execute("select count(*) from r_rows").fetchone() == (40,)
        old, new = replicas.nodes[1], replicas.standbys[1]
        old.process.send_signal(9)
        old.process.wait(60)
        new.server.run("select pg_promote(true, 30)")
        deadline = time.monotonic() + 90
        while True:
            try:
                reader.execute("update r_rows set v = 9")
                break
            except psycopg.Error:
                assert time.monotonic() < deadline
                time.sleep(0.1)
                if reader.closed:
                    reader = replicas.reader(read_from="any")
        assert reader.execute("select min(v), max(v), count(*) from r_rows").fetchone() == (9, 9, 40)
        # The router looks at replicas once in a while: a write may have come before it.
        while reader.execute("select count(*) from herd.replicas where node = 'node2' and state = 'primary'").fetchone() != (1,):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        reader.execute("update r_rows set v = 10 where id = 7")
        assert reader.execute("select v from r_rows where id = 7").fetchone() == (10,)
    old.process = None
    replicas.standbys[1] = replicas.kept(Standby(new))
    with replicas.a.connect() as boss:
        hosts = f"127.0.0.1:{new.port},127.0.0.1:{replicas.standbys[1].port}"
        replicas.nodes[0].server.run(f"update herd.node set host = '{hosts}' where id = 2", "select herd.bump_epoch()")
        assert boss.execute("select count(*) from r_rows").fetchone() == (40,)
    replicas.nodes[1] = new
    replicas.wait_until_ready()

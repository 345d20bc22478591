"""What drivers and poolers do beside their statements: they close portals before Sync, write message by message, reset sessions and look at what is reported of them."""

import contextlib
import threading
import time

import psycopg
import pytest

from protocol.frames import bind, close, execute, parse, query, sync
from protocol.raw import Raw

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def made(herd, oracle):
    for server in (herd, oracle):
        server.run(
            "drop table if exists dw_a, dw_b, dw_child, dw_parent, dw_local cascade", "create table dw_a (id int primary key, v int)",
            "create or replace procedure dw_commits() language plpgsql as $$begin perform 1; commit; perform 2; end$$",
            "create table dw_local (id int primary key)", "insert into dw_local select generate_series(1, 20)",
            "create table dw_parent (id int primary key)", "create table dw_child (id int primary key, parent int references dw_parent deferrable initially deferred)", "create table dw_b (id int primary key, v int)",
        )
    herd.run("select create_distributed_table('dw_a', 'id')", "select create_distributed_table('dw_b', 'id')", "select create_reference_table('dw_parent')", "select create_distributed_table('dw_child', 'id')")
    for server in (herd, oracle):
        server.run("insert into dw_a select g, g from generate_series(1, 60) g", "insert into dw_b select g, g from generate_series(1, 60) g", "insert into dw_parent select generate_series(1, 3)")
    yield
    for server in (herd, oracle):
        server.run("drop table dw_a, dw_b, dw_child, dw_parent, dw_local", "drop procedure dw_commits")


@pytest.mark.parametrize("sql", ["call dw_commits()", "do $$begin commit; end$$", "reindex table dw_local", "vacuum dw_local", "insert into dw_local values (100)", "delete from dw_local where id = 100"])
def test_a_portal_is_closed_before_sync(made, herd, oracle, sql):
    said = [Raw(server).transcript(parse(sql) + bind(portal="c") + execute("c") + close("P", "c") + close("S", "") + sync()) for server in (herd, oracle)]
    assert said[0] == said[1] and said[0][-1] == "Z I", said


@pytest.mark.parametrize("sql", ["call dw_commits()", "reindex table dw_local"])
def test_messages_that_come_one_by_one(made, herd, sql):
    for _ in range(20):
        with Raw(herd) as raw:
            for message in (parse(sql), bind(), execute()):
                raw.send(message)
            time.sleep(0.0005)
            said = raw.transcript(sync())
        assert said[-1] == "Z I" and said[-2].startswith("C "), said


def test_a_statement_that_is_closed_is_no_statement_of_sqls(made, herd, oracle):
    frames = query("prepare q as select 1") + close("S", "q") + sync() + parse("select 2", "q") + sync() + query("execute q") + close("S", "q") + sync() + query("execute q")
    said = [Raw(server).transcript(frames, 6) for server in (herd, oracle)]
    assert said[0] == said[1], said


def test_a_portals_name_is_nobodys_cursor(made, herd, oracle):
    rows = parse("select id from dw_local order by id") + bind(portal="mine") + execute("mine", rows_max=3) + sync()
    for first in ("p1", "p2", "p3"):
        frames = query("begin") + query(f"declare {first} cursor for select id from dw_local order by id") + rows + query(f"fetch 2 from {first}") + execute("mine", rows_max=2) + sync() + query("commit")
        said = [Raw(server).transcript(frames, 6) for server in (herd, oracle)]
        assert said[0] == said[1], said


@pytest.mark.parametrize("reset", ["reset all", "discard all"])
def test_who_resets_hears_of_what_he_had_set(made, herd, oracle, reset):
    """Poolers keep what was reported, and set nothing that they take for set."""
    sets = ("set timezone = 'Asia/Tokyo'", "set datestyle = 'SQL, DMY'", "set standard_conforming_strings = off", "set application_name = 'other'", "set intervalstyle = 'iso_8601'")
    names = ("TimeZone", "DateStyle", "standard_conforming_strings", "application_name", "IntervalStyle")
    with herd.connect(application_name="mine") as connection:
        began = [connection.info.parameter_status(name) for name in names]
        for sql in sets:
            connection.execute(sql)
        assert [connection.info.parameter_status(name) for name in names] != began
        connection.execute(reset)
        assert [connection.info.parameter_status(name) for name in names] == began
        connection.execute(sets[0])
        assert connection.info.parameter_status("TimeZone") == "Asia/Tokyo"
        connection.execute("select 1")
        assert connection.info.parameter_status("TimeZone") == "Asia/Tokyo"


@pytest.mark.parametrize("wrong", ["selec", "select * from nothing_there", "select 1/0", "create table dw_a (id int) inherits (dw_b, dw_b)"])
def test_a_block_that_has_failed_holds_nothing(made, herd, wrong):
    """Whoever leaves it so keeps nobody waiting."""
    for key in range(1, 9):
        with herd.connect(autocommit=False) as one, herd.connect() as other:
            one.execute("update dw_a set v = v + 1 where id = %s", (key,))
            with pytest.raises(psycopg.Error):
                one.execute(wrong)
            other.execute("set lock_timeout = '5s'")
            other.execute("update dw_a set v = v + 1 where id = %s", (key,))
            with pytest.raises(psycopg.errors.InFailedSqlTransaction):
                one.execute("select 1")
            one.rollback()
            assert one.execute("select 1").fetchone() == (1,)


def test_discard_temp_is_part_of_its_transaction(made, herd, oracle):
    for server in (herd, oracle):
        with server.connect() as connection:
            connection.execute("create temp table dw_temp as select 1 as a")
            with contextlib.suppress(psycopg.Rollback), connection.transaction() as block:
                connection.execute("discard temp")
                raise psycopg.Rollback(block)
            assert connection.execute("select a from dw_temp").fetchone() == (1,)
            with connection.transaction():
                assert connection.execute("select a from dw_temp").fetchone() == (1,)
                connection.execute("discard temp")
            with pytest.raises(psycopg.errors.UndefinedTable):
                connection.execute("select a from dw_temp")


def test_an_error_of_one_node_is_told_while_another_works_on(made, herd):
    """Where it is the one that is heard first, and comes early: of many keys some are."""
    work = "select sum(case when v = {key} then 1 / (v - {key}) else length(md5(repeat(v::text, 10000000))) end) from dw_b"
    taken = []
    with herd.connect() as connection:
        begun = time.monotonic()
        connection.execute(work.format(key=0))
        whole = time.monotonic() - begun
        for key in range(1, 61):
            begun = time.monotonic()
            with pytest.raises(psycopg.errors.DivisionByZero):
                connection.execute(work.format(key=key))
            taken.append(time.monotonic() - begun)
            assert connection.execute("select count(*) from dw_b").fetchone() == (60,)
            if len(taken) >= 12 and min(taken) < 0.6 * whole:
                break
    assert min(taken) < 0.6 * whole, (taken, whole)


def test_a_deadlock_with_one_side_in_its_commit(made, herd):
    """The check of a foreign key waits in COMMIT for who waits for what the transaction has locked on another node."""
    for key in range(1, 7):
        with herd.connect(autocommit=False) as one, herd.connect(autocommit=False) as two:
            one.execute("select id from dw_parent where id = 1 for update")
            two.execute("insert into dw_child values (%s, 1), (%s, 1), (%s, 1), (%s, 1)", tuple(range(100 * key, 100 * key + 4)))
            two.execute("update dw_b set v = v + 1 where id in (%s, %s)", (key, key + 20))
            said = []

            def run(what):
                try:
                    what()
                    said.append(None)
                except psycopg.Error as error:
                    said.append(error.sqlstate)

            waits = threading.Thread(target=run, args=(lambda: one.execute("update dw_b set v = v + 1 where id in (%s, %s)", (key, key + 20)),))
            commits = threading.Thread(target=run, args=(two.commit,))
            commits.start()
            time.sleep(0.1)
            waits.start()
            waits.join(30)
            if waits.is_alive():
                one.cancel()
                two.cancel()
                pytest.fail("both wait")
            one.rollback()
            commits.join(30)
            assert sorted(said, key=str) == ["40P01", None], said


def test_a_commit_that_waits_can_be_cancelled(made, herd):
    with herd.connect(autocommit=False) as one, herd.connect(autocommit=False) as two:
        one.execute("select id from dw_parent where id = 2 for update")
        two.execute("insert into dw_child values (1001, 2), (1002, 2), (1003, 2), (1004, 2)")
        timer = threading.Timer(1, two.cancel)
        timer.start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            two.commit()
        timer.join()
        one.rollback()
        two.rollback()
        assert two.execute("select count(*) from dw_child where id > 1000").fetchone() == (0,)

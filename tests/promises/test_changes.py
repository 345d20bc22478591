"""Changes of the schema beside others: only what conflicts in PostgreSQL conflicts, and who waits can stop waiting."""

import threading
import time

import psycopg
import pytest

from .cluster import Cluster

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("promises"), pytest.mark.timeout(500)]


@pytest.fixture(scope="module")
def server():
    made = Cluster(nodes=2)
    try:
        one = made.router().start().server
        one.run(
            "create table a (k int primary key, n int)", "select create_distributed_table('a', 'k')",
            "create table b (k int primary key, n int)", "select create_distributed_table('b', 'k')",
            "create table c (k int primary key, n int)", "create table alone (k int primary key, n int)",
            "insert into a select g, 0 from generate_series(1, 50) g", "insert into b select g, 0 from generate_series(1, 50) g",
            "insert into alone values (1, 0)",
        )
        yield one
    finally:
        made.stop()


@pytest.fixture
def open_change(server):
    """A transaction that has changed table a and stays open."""
    with server.connect() as connection:
        connection.execute("begin")
        connection.execute("alter table a add column held int")
        yield connection
        connection.execute("rollback")


def _within(seconds: float, connection, sql: str):
    started = time.monotonic()
    done = connection.execute(sql)
    assert time.monotonic() - started < seconds, sql
    return done


def test_other_tables_change_meanwhile(server, open_change):
    with server.connect() as other:
        other.execute("set statement_timeout = '60s'")
        for sql in (
            "alter table b add column m int", "create index b_n on b (n)", "alter table b rename to bb", "alter table bb rename to b",
            "drop index b_n", "alter table b drop column m", "create table d (k int)", "drop table d", "truncate b",
            "insert into b select g, 0 from generate_series(1, 50) g", "update b set n = n + 1", "update alone set n = n + 1",
        ):
            _within(40, other, sql)
        with pytest.raises(psycopg.errors.LockNotAvailable):
            other.execute("set lock_timeout = '700ms'")
            other.execute("alter table a add column more int")


@pytest.mark.parametrize("limit, error", [
    ("statement_timeout", psycopg.errors.QueryCanceled), ("lock_timeout", psycopg.errors.LockNotAvailable),
])
@pytest.mark.parametrize("change", [
    "select undistribute_table('a')", "alter table a add column more int", "alter table a rename to aa",
])
def test_limits_end_the_wait(server, open_change, limit, error, change):
    with server.connect() as waiting:
        waiting.execute(f"set {limit} = '1200ms'")
        started = time.monotonic()
        with pytest.raises(error):
            waiting.execute(change)
        assert 1 < time.monotonic() - started < 15


@pytest.mark.parametrize("change", ["select undistribute_table('a')", "alter table a add column more int"])
def test_a_cancel_ends_the_wait(server, open_change, change):
    with server.connect() as waiting:
        timer = threading.Timer(1, waiting.cancel)
        timer.start()
        started = time.monotonic()
        with pytest.raises(psycopg.errors.QueryCanceled):
            waiting.execute(change)
        assert time.monotonic() - started < 15
        timer.join()


def test_a_default_keeps_nobody_waiting(server):
    """The catalog is read while the table is locked."""
    with server.connect() as holder, server.connect() as other:
        holder.execute("alter table a alter column n set default 7")
        holder.execute("begin")
        holder.execute("alter table a rename to renamed")
        other.execute("set statement_timeout = '60s'")
        for sql in ("alter table b rename to bb", "alter table bb rename to b", "create table d (k int default 1)", "drop table d"):
            _within(40, other, sql)
        holder.execute("rollback")
        holder.execute("alter table a alter column n drop default")


def test_who_waits_goes_on_when_the_other_has_ended(server):
    with server.connect() as holder, server.connect() as waiting:
        holder.execute("begin")
        holder.execute("alter table a add column held int")
        timer = threading.Timer(1, lambda: holder.execute("commit"))
        timer.start()
        waiting.execute("alter table a drop column held")
        timer.join()
        assert waiting.execute("select * from a limit 1").description[-1].name == "n"


@pytest.fixture(scope="module")
def many(server):
    """Tables of the herd for blocks that change them and stay open."""
    for name in ("kept", "gone", "called", "lonely"):
        server.run(f"create table {name} (k int primary key, n int)")
    server.run(
        "select create_distributed_table('gone', 'k', colocate_with => 'none')", "select create_distributed_table('called', 'k')",
    )
    return server


_OPEN = {
    "kind": ["select create_distributed_table('kept', 'k')"],
    "kind, at once": ["set constraints all immediate", "select create_distributed_table('kept', 'k')"],
    "own group": ["select create_distributed_table('kept', 'k', shard_count => 3, colocate_with => 'none')"],
    "reference": ["select create_reference_table('kept')"],
    "undistribute": ["select undistribute_table('gone')"],
    "constraints": ["set constraints all immediate"],
    "drop, at once": ["set constraints all immediate", "drop table gone"],
    "rename, at once": ["set constraints all immediate", "alter table called rename to otherwise"],
    "at once, after": ["drop table gone", "alter table called rename to otherwise", "set constraints all immediate"],
}


@pytest.mark.parametrize("what", _OPEN)
def test_an_open_change_of_a_kind_holds_up_nobody_else(many, what):
    with many.connect() as holder, many.connect() as other:
        holder.execute("begin")
        for sql in _OPEN[what]:
            holder.execute(sql)
        other.execute("set statement_timeout = '60s'")
        for sql in (
            "create table d (k int primary key)", "alter table b add column m int", "create index b_n on b (n)", "alter table b rename to bb",
            "alter table bb rename to b", "alter table b drop column m", "drop index b_n",
            "create function nothing() returns int language sql as 'select 1'", "drop function nothing()", "create view v as select * from b",
            "drop view v", "drop table d", "create schema more", "drop schema more", "update a set n = n + 1", "update alone set n = n + 1",
        ):
            _within(40, other, sql)
        holder.execute("rollback")
        assert other.execute("select count(*) from herd.tables where name in ('kept', 'gone', 'called')").fetchone() == (2,)


def test_what_both_did_is_there(many):
    """Each commits what it has done while the other was open."""
    with many.connect() as holder, many.connect() as other:
        holder.execute("begin")
        holder.execute("select create_distributed_table('kept', 'k', shard_count => 5, colocate_with => 'none')")
        holder.execute("insert into kept select g, g from generate_series(1, 40) g")
        other.execute("create table beside (k int primary key, n int default 5)")
        other.execute("drop table gone")
        holder.execute("commit")
        with pytest.raises(psycopg.errors.UndefinedTable):
            holder.execute("select from gone")
        for connection in (holder, other):
            assert connection.execute("select count(*), sum(n) from kept").fetchone() == (40, 820)
            connection.execute("insert into beside values (1) on conflict do nothing")
            connection.execute("update beside set n = n + 1")
        other.execute("select undistribute_table('kept')")
        assert holder.execute("select count(*), sum(n) from kept").fetchone() == (40, 820)
        # The group has gone with its last table, when kinds changed next.
        other.execute("truncate kept")
        other.execute("drop table beside")
        for sql in ("create table gone (k int primary key, n int)", "select create_distributed_table('gone', 'k', colocate_with => 'none')"):
            other.execute(sql)


_CODE = "create or replace function reads() returns trigger language plpgsql as $$ begin {} return new; end $$"


@pytest.fixture
def judged(many):
    """A trigger on every node, whose code may be replaced; and a table that it may read there, as long as every node has it."""
    many.run(
        _CODE.format(""), "drop table if exists judged", "create table judged (k int primary key)", "select create_distributed_table('judged', 'k')",
        "create trigger t before insert on judged for each row execute function reads()", "select create_reference_table('lonely')",
    )
    yield many
    many.run("drop table judged")
    if many_kind(many, "lonely"):
        many.run("select undistribute_table('lonely')")


def many_kind(server, table: str) -> str | None:
    with server.connect() as connection:
        return next((kind for (kind,) in connection.execute("select kind from herd.tables where name = %s", (table,))), None)


@pytest.mark.parametrize("first", ["code", "kind"])
@pytest.mark.parametrize("ends_first", ["code", "kind"])
def test_what_was_judged_beside_others_is_judged_again(judged, first, ends_first):
    """Code that reads a table as it is, and the table becoming another one: each is right by itself, and both together are not."""
    with judged.connect() as code, judged.connect() as kind:
        reads, moves = _CODE.format("perform k from lonely;"), "select undistribute_table('lonely')"
        does = {"code": (code, reads), "kind": (kind, moves)}
        for connection in (code, kind):
            connection.execute("begin")
        for name in sorted(does, key=lambda name: name != first):
            does[name][0].execute(does[name][1])
        last = "kind" if ends_first == "code" else "code"
        does[ends_first][0].execute("commit")
        with pytest.raises(psycopg.errors.FeatureNotSupported, match='reads local table "lonely"'):
            does[last][0].execute("commit")
        assert many_kind(judged, "lonely") == ("reference" if ends_first == "code" else None)
        (body,) = code.execute("select prosrc from pg_proc where proname = 'reads'").fetchone()
        assert ("lonely" in body) is (ends_first == "code")
        # What none of it breaks goes on beside others.
        code.execute("begin")
        code.execute("create function innocent() returns int language sql as 'select 1'")
        judged.run("select create_distributed_table('c', 'k')")
        code.execute("drop function innocent()")
        code.execute("commit")
        judged.run("select undistribute_table('c')")


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_a_kept_snapshot_moves_no_rows(many, level):
    """Rows that were committed since would be passed over."""
    with many.connect() as holder, many.connect() as other:
        holder.execute(f"begin isolation level {level}")
        holder.execute("select * from alone")
        other.execute("insert into kept values (99, 99)")
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            holder.execute("select create_distributed_table('kept', 'k')")
        holder.execute("rollback")
        holder.execute(f"set default_transaction_isolation = '{level}'")
        holder.execute("select create_distributed_table('kept', 'k')")
        assert other.execute("select n from kept where k = 99").fetchone() == (99,)
        holder.execute("select undistribute_table('kept')")
        assert other.execute("delete from kept where k = 99").rowcount == 1


@pytest.fixture
def renamers(many):
    """Names of other tables of the herd move without end: one back and forth, two exchange theirs. What they failed with."""
    names = ("moved", "front", "back")
    for name in names:
        many.run(f"create table {name} (k int primary key, n int)", f"select create_distributed_table('{name}', 'k')")
    stop, failed = threading.Event(), []

    def exchange(*statements: str) -> None:
        with many.connect(autocommit=True) as connection:
            while not stop.is_set():
                try:
                    with connection.transaction():
                        for sql in statements:
                            connection.execute(sql)
                except psycopg.Error as error:
                    failed.append((str(error), sql))

    threads = [
        threading.Thread(target=exchange, args=("alter table moved rename to on_its_way", "alter table on_its_way rename to moved")),
        threading.Thread(target=exchange, args=(
            "alter table front rename to aside", "alter table back rename to front", "alter table aside rename to back",
        )),
    ]
    for thread in threads:
        thread.start()
    yield failed
    stop.set()
    for thread in threads:
        thread.join()
    many.run(*(f"drop table {name}" for name in names))


def test_kinds_change_in_blocks_while_names_move(many, renamers):
    """In the middle of a block nothing can begin again by itself, so nothing of others' may make it fail."""
    many.run("create table anew (k int primary key, n int)")
    with many.connect(autocommit=True) as connection:
        for i in range(12):
            with connection.transaction():
                connection.execute("drop table anew")
                connection.execute("create table anew (k int primary key, n int)")
                connection.execute("insert into anew select g, g from generate_series(1, 10) g")
                if i % 3 == 2:
                    connection.execute("select create_reference_table('anew')")
                else:
                    connection.execute(f"select create_distributed_table('anew', 'k', colocate_with => '{('none', 'moved')[i % 3]}')")
            with connection.transaction():
                assert connection.execute("select count(*), sum(n) from anew").fetchone() == (10, 55)
            # One string is a transaction, too.
            connection.execute("begin; select undistribute_table('anew'); commit")
    many.run("drop table anew")
    assert renamers == []


def test_a_kind_changes_in_a_block_while_its_name_moves(many, renamers):
    """The table that has the name when it can be locked."""
    with many.connect(autocommit=True) as connection:
        for _ in range(3):
            with connection.transaction():
                connection.execute("select 1")
                connection.execute("select undistribute_table('front')")
                connection.execute("select create_distributed_table('front', 'k')")
    assert renamers == []

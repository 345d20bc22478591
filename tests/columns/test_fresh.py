"""A strict read misses nothing that was acknowledged before it began, whatever happens to the table meanwhile, and whoever is gone."""

import os
import signal
import threading
import time

import psycopg
import pytest

from harness import router

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("columns"), pytest.mark.timeout(300)]


def _made(columns, table: str, more: str = "") -> None:
    columns.server.run(
        f"drop table if exists {table}", f"create table {table} (id int primary key, k int not null, t text{more})",
        f"select create_distributed_table('{table}', 'id')", f"insert into {table} select g, g % 7, 't' || g from generate_series(1, 500) g",
    )  # fmt: skip
    columns.add(table)


@pytest.mark.parametrize("commit", ["on", "off"])
def test_ones_own_writes_are_seen(columns, commit):
    _made(columns, "c_own")
    before = columns.reads()
    with columns.server.connect() as connection:
        connection.execute(f"set synchronous_commit = {commit}")
        connection.execute("set herd.columns = on")
        count, total = connection.execute("select count(*), sum(k) from c_own").fetchone()
        for n in range(60):
            connection.execute("insert into c_own values (%s, 3, 'x')", (10_000 + n,))
            count, total = count + 1, total + 3
            if n % 3 == 0:
                connection.execute("update c_own set k = k + 1 where id = %s", (n + 1,))
                total += 1
            if n % 5 == 0:
                gone = connection.execute("delete from c_own where id = %s returning k", (n + 100,)).fetchone()
                count, total = count - 1, total - gone[0]
            assert connection.execute("select count(*), sum(k) from c_own").fetchone() == (count, total), n
    # On a machine that others use many find the copies behind, and read rows.
    assert columns.reads()[0] - before[0] > 10


def test_beside_writers(columns):
    """Each writer knows what it was told; a reader that begins then sees at least as much."""
    _made(columns, "c_beside")
    done, failures, over = [0] * 3, [], threading.Event()

    def write(number: int) -> None:
        with columns.server.connect() as connection:
            while not over.is_set():
                keys = [1_000_000 * (number + 1) + done[number] * 2 + i for i in range(2)]
                # Both nodes, most likely: a transaction over several.
                connection.execute("insert into c_beside values (%s, 1, 'w'), (%s, 1, 'w')", keys)
                done[number] += 1

    def read() -> None:
        with columns.server.connect() as connection:
            connection.execute("set herd.columns = on")
            while not over.is_set():
                least = [500 + 2 * sum(done)]
                seen = connection.execute("select count(*) from c_beside").fetchone()[0]
                if seen < least[0]:
                    failures.append((seen, least))

    before = columns.reads()
    threads = [threading.Thread(target=write, args=(n,)) for n in range(3)] + [threading.Thread(target=read) for _ in range(2)]
    [t.start() for t in threads]
    try:
        time.sleep(7.5)
        # On a slow machine until there is enough to judge by.
        deadline = time.monotonic() + 120
        while not (sum(done) > 20 and columns.reads()[0] - before[0] > 5) and time.monotonic() < deadline:
            time.sleep(0.5)
    finally:
        over.set()
    [t.join() for t in threads]
    assert not failures, failures[:3]
    assert sum(done) > 20 and columns.reads()[0] - before[0] > 5


def test_parts_of_a_statement_are_of_one_moment(columns):
    """What a node's store is asked for several parts is answered from one state: each row that is written makes the totals greater by the same."""
    columns.server.run("drop table if exists c_parts", "create table c_parts (id int primary key, k int not null)", "select create_distributed_table('c_parts', 'id')", "insert into c_parts select g, 1 from generate_series(1, 5000) g")
    columns.add("c_parts")
    statements = [
        "select (select count(*) from c_parts), (select sum(k) from c_parts)",
        "select min(n), max(n) from (select count(*) as n from c_parts union all select sum(k) from c_parts) x",
        "select a.n, b.n from (select count(*) as n from c_parts) a, (select sum(k) as n from c_parts) b",
    ]
    over, written, different, asked = threading.Event(), [0], [], 0

    def write() -> None:
        with columns.server.connect() as connection:
            while not over.is_set():
                connection.execute("insert into c_parts select %s + g, 1 from generate_series(0, 9) g", (10_000 + written[0],))
                written[0] += 10

    with columns.server.connect() as connection:
        connection.execute("set herd.columns = on")
        # On a busy machine stores are behind for longer than they are waited for by default.
        connection.execute("set herd.freshness_wait = '10s'")
        for sql in statements:
            text = "\n".join(line for (line,) in connection.execute(f"explain {sql}").fetchall())
            assert text.count("Columns: DuckDB: ") == text.count("DuckDB Plan: ") == 2, text
        before, thread = columns.reads(), threading.Thread(target=write)
        thread.start()
        begun = time.monotonic()
        try:
            while time.monotonic() < begun + (6 if written[0] > 100 and asked > 20 else 120):
                for sql in statements:
                    least, (one, other) = 5000 + written[0], connection.execute(sql).fetchone()
                    asked += 1
                    if one != other or one < least:
                        different.append((sql, one, other, least))
        finally:
            over.set()
            thread.join()
    after = columns.reads()
    assert not different, (len(different), asked, different[:3])
    assert written[0] > 100 and asked > 20 and after[0] - before[0] > asked / 2, (written, asked, before, after)


def _agree(columns, table: str, sql: str) -> None:
    with columns.server.connect() as connection:
        connection.execute("set herd.columns = on")
        got = connection.execute(sql).fetchall()
        connection.execute("set herd.columns = off")
        assert got == connection.execute(sql).fetchall(), (table, sql)


def test_changes_of_the_table(columns):
    _made(columns, "c_changed", ", n numeric(10,2) default 1.5")
    total = "select count(*), sum(k), count(t), max(t) from c_changed"
    for change in [
        "alter table c_changed add column extra int default 5",
        "alter table c_changed alter column k type int using k + 1",
        "alter table c_changed rename column t to t2; alter table c_changed rename column t2 to t",
        "truncate c_changed",
        "insert into c_changed (id, k, t) select g, 1, 'again' from generate_series(1, 50) g",
        "alter table c_changed alter column k type bigint",
        "alter table c_changed drop column n",
        "alter table c_changed rename to c_other",
        "alter table c_other rename to c_changed",
        "update c_changed set t = repeat('long', 3000) where id < 20",
        "update c_changed set k = k + 1",
        "create index on c_changed (k)",
        "select herd.cluster('c_changed', 'c_changed_pkey')",
    ]:
        columns.server.run(change)
        if "rename to c_other" not in change:
            _agree(columns, "c_changed", total)
    columns.ready("c_changed")
    _agree(columns, "c_changed", total)
    _agree(columns, "c_changed", "select count(*) from c_changed where t like 'longlong%'")


def test_two_tables_exchange_their_names(columns):
    _made(columns, "c_one")
    _made(columns, "c_two")
    columns.server.run("update c_two set k = 100")
    columns.server.run("alter table c_one rename to c_three", "alter table c_two rename to c_one", "alter table c_three rename to c_two")
    with columns.server.connect() as connection:
        connection.execute("set herd.columns = on")
        assert connection.execute("select min(k) from c_one").fetchone() == (100,)
        assert connection.execute("select max(k) from c_two").fetchone() == (6,)


def test_shards_move_and_split(columns):
    _made(columns, "c_moved")
    stop, failures = threading.Event(), []

    def read() -> None:
        with columns.server.connect() as connection:
            connection.execute("set herd.columns = on")
            while not stop.is_set():
                seen = connection.execute("select count(*), sum(k) from c_moved").fetchone()
                if seen != want:
                    failures.append(seen)

    with columns.server.connect() as connection:
        want = connection.execute("select count(*), sum(k) from c_moved").fetchone()
        reader = threading.Thread(target=read)
        reader.start()
        shard, node = connection.execute(
            "select s.shard, n.id from herd.shards s join herd.nodes n on n.name = s.node where s.name = 'c_moved' order by 1 limit 1"
        ).fetchone()
        try:
            connection.execute(f"select herd.move_shard('c_moved', {shard}, '{3 - node}')")
            connection.execute(f"select herd.split_shard('c_moved', {shard})")
            connection.execute(f"select herd.move_shard('c_moved', {shard}, '{node}')")
        finally:
            stop.set()
            reader.join()
    assert not failures, failures[:3]
    columns.ready("c_moved")
    _agree(columns, "c_moved", "select k, count(*), min(t) from c_moved group by k order by k")


def test_stores_that_are_gone_cost_nothing_but_time(columns):
    _made(columns, "c_gone")
    pids = columns.store_pids()
    assert len(pids) == 2, pids
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    with columns.server.connect() as connection:
        connection.execute("set herd.columns = on")
        connection.execute("insert into c_gone values (9000, 1, 'while away')")
        assert connection.execute("select count(*) from c_gone").fetchone() == (501,)
        columns.herd.up()
        columns.ready("c_gone")
        before = columns.reads()
        deadline = time.monotonic() + 120
        while columns.reads()[0] == before[0]:
            assert connection.execute("select count(*) from c_gone").fetchone() == (501,)
            assert time.monotonic() < deadline
    _agree(columns, "c_gone", "select k, count(*), max(t) from c_gone group by k order by k")


def _until_gone(columns, number: str) -> None:
    deadline = time.monotonic() + 120
    while left := [c for store in columns.stores for c in columns.copies(store) if str(c["copy"]) == number]:
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


def test_no_copy_is_left(columns):
    _made(columns, "c_left")
    number = columns.id("c_left")
    columns.server.run("select herd.drop_column_copy('c_left')", "drop table c_left")
    _until_gone(columns, number)
    _made(columns, "c_dropped")
    number = columns.id("c_dropped")
    columns.server.run("drop table c_dropped")
    _until_gone(columns, number)
    with pytest.raises(psycopg.errors.UndefinedTable):
        columns.server.run("select count(*) from c_dropped")


def test_a_node_that_joins_is_told_of_the_copies(columns):
    """It has no store here: rows answer, right, and the list of copies says why; a store beside it would find what to copy."""
    _made(columns, "c_joined")
    joins = router.node("columns-joins", {"wal_level": "logical", "max_prepared_transactions": "100"})
    try:
        with columns.server.connect(autocommit=True) as boss:
            boss.execute(f"select citus_add_node('127.0.0.1', {joins.port})")
            name = boss.execute("select name from herd.nodes where port = %s", [joins.port]).fetchone()[0]
            try:
                listed = "select k.id, k.relation::regclass::text, k.columns, k.order_by from herd.column_copy k order by 1"
                with joins.server.connect() as node:
                    assert node.execute(listed).fetchall() == boss.execute(listed).fetchall()
                shard = boss.execute("select shard from herd.shards where name = 'c_joined' order by 1 limit 1").fetchone()[0]
                boss.execute(f"select herd.move_shard('c_joined', {shard}, '{name}')")
                boss.execute("set herd.columns = on")
                assert boss.execute("select count(*) from c_joined").fetchone() == (500,)
                states = dict(boss.execute("select node, state from herd.column_copies where relation = 'public.c_joined'"))
                assert states.pop(name) == "no store" and len(states) == 2
            finally:
                boss.execute(f"select herd.drain_node('{name}')")
                boss.execute(f"select citus_remove_node('127.0.0.1', {joins.port})")
        columns.ready("c_joined")
        _agree(columns, "c_joined", "select k, count(*), max(t) from c_joined group by k order by k")
    finally:
        joins.stop()

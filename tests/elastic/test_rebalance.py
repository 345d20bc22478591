"""Rebalancing by what is on nodes and by what is done with it, what would be moved, and what a herd does by itself."""

import threading
import time
from contextlib import contextmanager

import psycopg
import pytest

from .conftest import NODES

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("elastic"), pytest.mark.timeout(600)]

SHARDS = 6


def _skewed(elastic, name: str, heavy: int = 4000) -> None:
    """As many shards on every node; those of node 1 have nearly all rows."""
    elastic.without_tables()
    ends = ["minvalue", *range(100, SHARDS * 100, 100), "maxvalue"]
    bounds = [f"FROM ({low}) TO ({high})" for low, high in zip(ends, ends[1:])]
    elastic.a.run(
        f"create table {name} (id int primary key, v text not null)", f"alter table {name} alter v set storage external",
        f"select create_distributed_table('{name}', 'id', 'range', bounds => array[{', '.join(map(repr, bounds))}])",
    )
    shards = elastic.shards(name)
    for shard in sorted(shards):
        if shards[shard] != shard // 2 + 1:
            elastic.a.run(f"select herd.move_shard('{name}', {shard}, {shard // 2 + 1})")
    # Rows of shards 0 and 1: so many bytes each.
    elastic.a.run(f"insert into {name} select g, repeat(md5(g::text), {heavy // 32}) from generate_series(1, 199) g", f"insert into {name} select g, '' from generate_series(200, 599) g")
    for node in range(1, NODES + 1):
        elastic.on_node(node, "analyze")
    _checked(elastic, name)


def _checked(elastic, name: str) -> None:
    with elastic.b.connect() as connection:
        assert connection.execute(f"select count(*), sum(id) from {name}").fetchone() == (599, 599 * 600 // 2)
        assert connection.execute("select object, problem from herd.verify").fetchall() == []
    elastic.is_tidy()


def _plan(elastic, by: str) -> list[tuple]:
    with elastic.a.connect() as connection:
        return connection.execute(f"select * from herd.rebalance_plan(by => '{by}')").fetchall()


def test_by_size(elastic):
    _skewed(elastic, "r_size")
    assert _plan(elastic, "shards") == []
    plan = _plan(elastic, "size")
    with elastic.a.connect() as connection:
        # As it is asked for by drivers: in binary.
        cursor = connection.cursor(binary=True).execute("select * from herd.rebalance_plan(by => 'size')")
        assert [c.name for c in cursor.description] == ["table_name", "shard", "from_node", "to_node", "bytes", "rows"]
        # Rows are an estimate, as PostgreSQL's are, and may be counted anew meanwhile.
        assert [row[:-1] for row in cursor.fetchall()] == [row[:-1] for row in plan]
    (table, shard, _, _, size, rows), before = plan[0], elastic.shards("r_size")
    assert (table, shard in (0, 1), before[shard]) == ("public.r_size", True, 1) and rows >= 99 and size > 300_000, plan
    with elastic.a.connect() as connection:
        assert connection.execute("select herd.rebalance(by => 'shards')").fetchone() == (0,)
        assert connection.execute("select herd.rebalance(by => 'size')").fetchone() == (len(plan),)
        nodes = dict(connection.execute("select name, id from herd.nodes").fetchall())
    assert elastic.shards("r_size") == before | {row[1]: nodes[row[3]] for row in plan}
    assert _plan(elastic, "size") == []
    _checked(elastic, "r_size")


def test_by_rows(elastic):
    _skewed(elastic, "r_rows")
    # Few bytes, most rows.
    assert [row[1] for row in _plan(elastic, "rows")] == []
    elastic.a.run("insert into r_rows select g, '' from generate_series(1000, 9000) g")
    elastic.on_node(3, "analyze")
    # The shard of all of them is more than the others together: it stays, and what is beside it leaves.
    before = elastic.shards("r_rows")
    with elastic.a.connect() as connection:
        assert connection.execute("select herd.rebalance(by => 'rows')").fetchone()[0] >= 1
    after = elastic.shards("r_rows")
    assert after[5] == before[5] == 3 and after[4] != 3, (before, after)
    elastic.a.run("delete from r_rows where id >= 1000")
    _checked(elastic, "r_rows")


@contextmanager
def _hot(elastic, name: str):
    """Both shards of node 2 are read all the time, and no other."""
    stop = []

    def reads():
        with elastic.b.connect() as connection:
            while not stop:
                connection.execute(f"select count(v) from {name} where id between 200 and 399")

    thread = threading.Thread(target=reads)
    thread.start()
    try:
        # Servers tell what was done every second.
        time.sleep(2)
        yield
    finally:
        stop.append(True)
        thread.join()


def test_by_load(elastic):
    _skewed(elastic, "r_load")
    before = elastic.shards("r_load")
    with _hot(elastic, "r_load"):
        # What is read is found, however many bytes others have; one of the two leaves, and then all is as even as it can be.
        _until(lambda: _plan(elastic, "load"))
        plan = _plan(elastic, "load")
        assert plan[0][0] == "public.r_load" and plan[0][1] in (2, 3) and plan[0][2] == "node2", plan
        with elastic.a.connect() as connection:
            assert connection.execute("select herd.rebalance(by => 'load')").fetchone()[0] >= 1
    after = elastic.shards("r_load")
    assert {after[2], after[3]} != {2} and after[0] == before[0], (before, after)
    _checked(elastic, "r_load")


def test_what_it_does_not_know(elastic):
    with elastic.a.connect() as connection:
        for call, code in {"rebalance(by => 'colour')": "22023", "rebalance_plan('colour')": "22023", "rebalance_plan(of => 'size')": "42883"}.items():
            with pytest.raises(psycopg.Error) as error:
                connection.execute(f"select herd.{call}")
            assert error.value.sqlstate == code, error.value


@pytest.fixture
def automatic(elastic):
    """Sets what the herd does by itself."""
    names = ("herd.auto_rebalance", "herd.auto_split_bytes", "herd.auto_move_bytes_per_hour", "herd.auto_interval")

    def sets(**values: str) -> None:
        elastic.a.run(*(f"alter database postgres set herd.{name} = '{value}'" for name, value in values.items()))

    yield sets
    elastic.a.run(*(f"alter database postgres reset {name}" for name in names))
    deadline = time.monotonic() + 120
    while elastic.on_node(1, "select 1 from herd.job where state = 'running'"):
        assert time.monotonic() < deadline
        time.sleep(0.2)


def _until(what, seconds_max: float = 200) -> None:
    deadline = time.monotonic() + seconds_max
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_moves_by_itself(elastic, automatic):
    _skewed(elastic, "r_auto")
    before = elastic.shards("r_auto")
    automatic(auto_interval="1s", auto_rebalance="size")
    _until(lambda: elastic.shards("r_auto") != before)
    _until(lambda: _plan(elastic, "size") == [])
    _checked(elastic, "r_auto")
    with elastic.a.connect() as connection:
        jobs = connection.execute("select state, parent is null from herd.jobs where about like '%r_auto%' order by id desc limit 2").fetchall()
    assert jobs == [("done", False), ("done", True)]


def test_moves_what_is_hot_by_itself(elastic, automatic):
    """What is read most is taken apart, once; then it is left alone, though it is read on."""
    _skewed(elastic, "r_hot")
    before = elastic.shards("r_hot")
    assert before[2] == before[3] == 2
    _a_while_ago(elastic)
    with _hot(elastic, "r_hot"):
        automatic(auto_interval="1s", auto_rebalance="load")
        _until(lambda: elastic.shards("r_hot")[2] != elastic.shards("r_hot")[3])
        _until(lambda: not elastic.on_node(1, "select 1 from herd.job where state = 'running'"))
        after = elastic.shards("r_hot")
        # Two looks and more, and what keeps one from beginning right behind another.
        time.sleep(16)
        assert elastic.shards("r_hot") == after, (before, after)
    assert {shard for shard in before if before[shard] != after[shard]} <= {2, 3}, (before, after)
    _checked(elastic, "r_hot")


def test_moves_no_more_than_it_may(elastic, automatic):
    """One move is made whatever its size, and no second one within the hour."""
    elastic.without_tables()
    bounds = [f"FROM ({low}) TO ({high})" for low, high in ((0, 100), (100, 200), (200, 300))]
    elastic.a.run(
        "create table r_bound (id int primary key, v text not null)", "alter table r_bound alter v set storage external",
        f"select create_distributed_table('r_bound', 'id', 'range', bounds => array[{', '.join(map(repr, bounds))}], colocate_with => 'none')",
    )
    for shard, node in elastic.shards("r_bound").items():
        if node != 1:
            elastic.a.run(f"select herd.move_shard('r_bound', {shard}, 1)")
    # A node without any shards is left alone.
    elastic.a.run(
        "create table r_few (id int primary key)", "select create_distributed_table('r_few', 'id', colocate_with => 'none')",
        "insert into r_bound select g, repeat(md5(g::text), 100) from generate_series(0, 299) g",
    )
    assert set(elastic.shards("r_bound").values()) == {1} and len(_plan(elastic, "size")) >= 2
    before = elastic.shards("r_bound")

    def blocked() -> bool:
        return any("is more than may be moved in this hour" in r.log() and "r_bound" in r.log() for r in elastic.routers)

    _a_while_ago(elastic)
    automatic(auto_interval="1s", auto_rebalance="size", auto_move_bytes_per_hour="1kB")
    _until(blocked)
    held = elastic.shards("r_bound")
    assert sum(held[shard] != node for shard, node in before.items()) <= 1 and _plan(elastic, "size") != []
    time.sleep(3)
    assert elastic.shards("r_bound") == held
    # It is the bound that held it.
    automatic(auto_move_bytes_per_hour="100GB")
    _until(lambda: _plan(elastic, "size") == [])
    elastic.is_tidy()


def _a_while_ago(elastic) -> None:
    """As if what the test itself has moved had been moved before: nothing is done automatically right behind moves that somebody asked for."""
    elastic.on_node(1, "update herd.job set ended_at = ended_at - interval '20 s' where ended_at is not null")


def test_a_node_that_was_drained_stays_empty(elastic, automatic):
    _skewed(elastic, "r_drained")
    elastic.a.run("select herd.drain_node('node3')")
    automatic(auto_interval="1s", auto_rebalance="size")
    time.sleep(18)
    assert 3 not in elastic.shards("r_drained").values()
    elastic.a.run("select herd.rebalance()")
    assert 3 in elastic.shards("r_drained").values()


def test_splits_by_itself(elastic, automatic):
    _skewed(elastic, "r_large", heavy=20_000)
    # Below a megabyte nothing is split.
    automatic(auto_interval="1s", auto_split_bytes="20kB")
    _until(lambda: len(elastic.shards("r_large")) >= SHARDS + 2)
    # Halves are small enough.
    _until(lambda: not elastic.on_node(1, "select 1 from herd.job where state = 'running'"))
    _checked(elastic, "r_large")


def test_splits_hash_shards_by_itself(elastic, automatic):
    elastic.without_tables()
    elastic.a.run(
        "create table r_hash (id int primary key, v text)", "alter table r_hash alter v set storage external", "select create_distributed_table('r_hash', 'id', shard_count => 2)",
        "insert into r_hash select g, repeat(md5(g::text), 100) from generate_series(1, 1000) g",
    )
    before = elastic.shards("r_hash")
    _a_while_ago(elastic)
    automatic(auto_interval="1s", auto_split_bytes="1MB")
    # Of 3.2 MB and more: each shard once, and no half of them once more.
    _until(lambda: len(elastic.shards("r_hash")) >= 2 * len(before))
    _until(lambda: not elastic.on_node(1, "select 1 from herd.job where state = 'running'"))
    time.sleep(3)
    with elastic.b.connect() as connection:
        assert len(elastic.shards("r_hash")) == 2 * len(before)
        assert connection.execute("select count(*), sum(id) from r_hash").fetchone() == (1000, 1000 * 1001 // 2)
        assert connection.execute("select object, problem from herd.verify").fetchall() == []
    elastic.is_tidy()


def test_one_large_key_is_not_split_for_ever(elastic, automatic):
    elastic.without_tables()
    elastic.a.run(
        "create table r_one (k int, n int, v text, primary key (k, n))", "alter table r_one alter v set storage external", "select create_distributed_table('r_one', 'k', shard_count => 3)",
        "insert into r_one select 7, g, repeat(md5(g::text), 400) from generate_series(1, 199) g",
    )
    _a_while_ago(elastic)
    automatic(auto_interval="1s", auto_split_bytes="100kB")
    # Once, which shows that another one would be of no use. Of an even number of shards, one would be another's half already.
    _until(lambda: len(elastic.shards("r_one")) == 4)
    time.sleep(6)
    assert len(elastic.shards("r_one")) == 4

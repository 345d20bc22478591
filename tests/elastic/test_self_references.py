"""Shards of a table that refers to itself move, split and merge, and its foreign key holds all the while."""

import threading
import time

import psycopg
import pytest

from .conftest import NODES

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("elastic"), pytest.mark.timeout(400)]

CONSTRAINTS = "select conname, pg_get_constraintdef(oid), convalidated, obj_description(oid, 'pg_constraint') from pg_constraint where conrelid = 's_tree'::regclass and contype = 'f' and conparentid = 0 order by 1"
SHARDS = 4
ROOTS = 200


@pytest.fixture(scope="module")
def tree(elastic):
    elastic.without_tables()
    elastic.a.run(
        "drop role if exists s_owner", "create role s_owner login", "grant create on schema public to s_owner",
        "create table s_tree (k int, id int, parent int, boss int, primary key (k, id), constraint s_up foreign key (k, parent) references s_tree on delete cascade)",
        f"select create_distributed_table('s_tree', 'k', shard_count => {SHARDS})",
        "create table s_leaf (k int, n int, node int, primary key (k, n), foreign key (k, node) references s_tree on delete cascade)",
        "select create_distributed_table('s_leaf', 'k', colocate_with => 's_tree')",
        # Nobody has looked whether rows satisfy this one, and they do not: it stays so.
        f"insert into s_tree select k, id, nullif(id / 2, 0), case when id = 3 then 99 end from generate_series(1, {ROOTS}) k, generate_series(1, 7) id",
        "alter table s_tree add constraint s_boss foreign key (k, boss) references s_tree (k, id) not valid",
        "comment on constraint s_up on s_tree is 'whose child it is'",
        f"insert into s_leaf select k, 1, 7 from generate_series(1, {ROOTS}) k",
        "alter table s_tree owner to s_owner", "alter table s_leaf owner to s_owner",
    )
    before = [elastic.on_node(n, CONSTRAINTS) for n in range(1, NODES + 1)]
    assert before[0] == before[1] == before[2] and [row[2] for row in before[0]] == [False, True], before
    return before[0]


def _holds(elastic, tree) -> None:
    """It is what it was on all nodes once the jobs are through, and rows satisfy it."""
    elastic.is_tidy()
    assert [elastic.on_node(n, CONSTRAINTS) for n in range(1, NODES + 1)] == [tree] * NODES
    with elastic.b.connect() as connection:
        assert connection.execute("select object, problem from herd.verify").fetchall() == []
        assert connection.execute("select * from herd.jobs where kind = 'validate' and (state, error is null) is distinct from ('done', true)").fetchall() == []
        assert connection.execute("select count(*) from s_tree a where parent is not null and not exists (select from s_tree b where b.k = a.k and b.id = a.parent)").fetchone() == (0,)
        # Of every shard.
        for k in range(1, ROOTS, 7):
            for sql in (f"insert into s_tree values ({k}, 100, 50)", f"update s_tree set parent = 51 where k = {k} and id = 7", f"insert into s_tree values ({k}, 100, 1, 50)"):
                with pytest.raises(psycopg.errors.ForeignKeyViolation):
                    connection.execute(sql)
            connection.execute(f"insert into s_tree values ({k}, 8, 4), ({k}, 9, 8)")
            connection.execute(f"delete from s_tree where k = {k} and id = 8")
            assert connection.execute(f"select count(*) from s_tree where k = {k}").fetchone() == (7,), "what refers to it goes along"


class Writer(threading.Thread):
    """Adds what refers to rows of its own, and to none, which must fail each time."""

    def __init__(self, server):
        super().__init__()
        self.server, self.over, self.error, self.refused = server, threading.Event(), None, 0

    def run(self):
        try:
            with self.server.connect() as connection:
                n = 0
                while not self.over.is_set():
                    n += 1
                    k = n % ROOTS + 1
                    connection.execute(f"insert into s_tree values ({k}, 1000, 1)")
                    try:
                        connection.execute(f"insert into s_tree values ({k}, 2000, 1999)")
                        raise AssertionError("it refers to none")
                    except psycopg.errors.ForeignKeyViolation:
                        self.refused += 1
                    assert connection.execute(f"delete from s_tree where k = {k} and id = 1000").rowcount == 1
        except Exception as e:  # noqa: BLE001
            self.error = e


def test_it_moves_splits_and_merges_beside_writers(elastic, tree):
    writer = Writer(elastic.b)
    writer.start()
    try:
        for shard in range(2):
            elastic.moves("s_tree", shard)
            elastic.moves("s_tree", shard)
        with elastic.a.connect() as connection:
            (half,) = connection.execute("select herd.split_shard('s_tree', 2)").fetchone()
            connection.execute(f"select herd.merge_shards('s_leaf', 2, {half})")
        deadline = time.monotonic() + 120
        while writer.error is None and writer.refused <= 5 and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        writer.over.set()
        writer.join(60)
    assert writer.error is None and writer.refused > 5, (writer.error, writer.refused)
    with elastic.a.connect() as connection:
        assert connection.execute("select count(*), sum(id) from s_tree").fetchone() == (ROOTS * 7, ROOTS * 28)
        assert connection.execute("select count(*) from s_leaf").fetchone() == (ROOTS,)
        assert connection.execute("select count(*) from herd.jobs where kind = 'validate'").fetchone()[0] > 0
    _holds(elastic, tree)


def test_a_node_is_drained_of_it_and_a_dead_router_leaves_it_whole(elastic, tree):
    """A router dies before its change is committed; and all shards leave a node, one behind the other, while jobs look at rows."""
    dying = elastic.router("move.locked:abort")
    with pytest.raises(psycopg.OperationalError):
        elastic.moves("s_tree", 0, dying.server)
    elastic.is_tidy()
    elastic.a.run("select herd.drain_node('1')")
    assert 1 not in elastic.shards("s_tree").values()
    elastic.a.run("select herd.rebalance()")
    assert 1 in elastic.shards("s_tree").values()
    _holds(elastic, tree)


def test_by_time_it_stays(elastic):
    elastic.a.run(
        "drop table if exists s_time", "create table s_time (k int, at date, id int, parent int, primary key (k, at, id), foreign key (k, at, parent) references s_time) partition by range (at)",
        "create table s_time_1 partition of s_time for values from ('2026-01-01') to ('2027-01-01')",
        "select create_distributed_table('s_time', 'k', colocate_with => 'none')",
    )
    with pytest.raises(psycopg.errors.FeatureNotSupported, match='table "s_time".*foreign key to itself') as failed:
        elastic.a.run("select herd.split_shard('s_time', 0)")
    assert "Drop the foreign key" in failed.value.diag.message_hint
    elastic.a.run("drop table s_time")

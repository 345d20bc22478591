"""Many moves: a node that is emptied, and one that is filled."""

import threading

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("elastic"), pytest.mark.timeout(300)]


def _counts(connection, table: str) -> list[int]:
    return [n for n, in connection.execute(
        "select (select count(*) from herd.shards s where s.name = %s and s.node = n.name) from herd.nodes n order by n.id", (table,)).fetchall()]


def test_a_node_is_emptied_and_filled_again(elastic):
    elastic.without_tables()
    with elastic.a.connect() as connection:
        for table in ("s_one", "s_two"):
            connection.execute(f"create table {table} (id int primary key, v int)")
            connection.execute(f"select create_distributed_table('{table}', 'id', colocate_with => 'none', shard_count => {4 if table == 's_two' else 6})")
            connection.execute(f"insert into {table} select g, 0 from generate_series(1, 500) g")
        stop, failed, done = threading.Event(), [], [0]

        def writes():
            try:
                with elastic.b.connect() as other:
                    while not stop.is_set():
                        done[0] += other.execute("update s_one set v = v + 1 where id = %s", (done[0] % 500 + 1,)).rowcount
                        assert other.execute("select count(*) from s_two").fetchone() == (500,)
            except Exception as error:  # noqa: BLE001
                failed.append(error)

        thread = threading.Thread(target=writes)
        thread.start()
        try:
            before = {t: _counts(connection, t) for t in ("s_one", "s_two")}
            moved = connection.execute("select herd.drain_node('node3')").fetchone()[0]
            assert moved == sum(c[2] for c in before.values()) > 0
            assert [_counts(connection, t) for t in ("s_one", "s_two")] == [[3, 3, 0], [2, 2, 0]]
            assert connection.execute("select herd.drain_node('3')").fetchone() == (0,)
            assert connection.execute("select herd.rebalance()").fetchone()[0] == 3
            assert _counts(connection, "s_one") == [2, 2, 2] and max(_counts(connection, "s_two")) == 2
            assert connection.execute("select herd.rebalance()").fetchone() == (0,)
        finally:
            stop.set()
            thread.join(30)
        assert failed == [] and done[0] > 0
        assert connection.execute("select count(*), sum(v) from s_one").fetchone() == (500, done[0])
        with pytest.raises(psycopg.errors.UndefinedObject):
            connection.execute("select herd.drain_node('nosuch')")
        # What can't be moved ends it, and says how far it has come.
        connection.execute("create table s_not (id int)")
        connection.execute("select create_distributed_table('s_not', 'id', colocate_with => 'none')")
        with pytest.raises(psycopg.errors.FeatureNotSupported) as refused:
            connection.execute("select herd.drain_node('node2')")
        assert "s_not" in str(refused.value) and "shards were moved before" in (refused.value.diag.message_detail or "")
        connection.execute("drop table s_not")
        connection.execute("begin")
        for call in ("herd.drain_node('node2')", "herd.rebalance()"):
            with pytest.raises(psycopg.Error):
                connection.execute(f"select {call}")
        connection.execute("rollback")
    elastic.is_tidy()


def test_a_node_that_was_emptied_stays_empty(elastic):
    elastic.without_tables()
    with elastic.a.connect() as connection:
        connection.execute("create table s_emptied (id int primary key)")
        connection.execute("select create_distributed_table('s_emptied', 'id', colocate_with => 'none')")
        connection.execute("select herd.drain_node('node3')")
        connection.execute("select herd.drain_node('node2')")
        assert _counts(connection, "s_emptied") == [6, 0, 0]
        # Where none has any, all of them are filled.
        connection.execute("select herd.drain_node('1')")
        assert _counts(connection, "s_emptied") == [0, 3, 3]
        # One that nothing was moved away from has just joined.
        connection.execute("select herd.rebalance()")
        elastic.on_node(1, "update herd.job set ended_at = ended_at - interval '1 day' where kind = 'move'")
        connection.execute("select herd.drain_node('node3')")
        elastic.on_node(1, "update herd.job set ended_at = ended_at - interval '1 day' where kind = 'move'")
        connection.execute("select herd.drain_node('node2')")
        assert _counts(connection, "s_emptied") == [3, 0, 3]
        connection.execute("drop table s_emptied")
    elastic.is_tidy()

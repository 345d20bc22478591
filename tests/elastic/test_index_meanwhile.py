"""CREATE INDEX CONCURRENTLY while shards move, and moves of tables whose constraints hold at a transaction's end only."""

import contextlib
import threading
import time

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("elastic"), pytest.mark.timeout(300)]


class _Asked(threading.Thread):
    """A statement in a connection of its own; what became of it."""

    def __init__(self, server, sql: str):
        super().__init__()
        self.server, self.sql, self.error = server, sql, None
        self.start()

    def run(self):
        try:
            with self.server.connect() as connection:
                connection.execute(self.sql)
        except psycopg.Error as error:
            self.error = error


def _until(ask, seconds_max: float = 60) -> None:
    deadline = time.monotonic() + seconds_max
    while not ask():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@contextlib.contextmanager
def _old_snapshot(elastic, node: int):
    """Which every CREATE INDEX CONCURRENTLY on that node waits for."""
    with elastic.nodes[node - 1].server.connect(autocommit=False) as connection:
        connection.execute("set transaction isolation level repeatable read")
        connection.execute("select count(*) from pg_class")
        yield


def test_a_shard_that_comes_to_a_node_before_its_turn(elastic):
    """Its node has the index afterwards, valid, or the statement says that it did nothing."""
    elastic.a.run("drop table if exists ix_moves", "create table ix_moves (id int primary key, v int)",
                  "select create_distributed_table('ix_moves', 'id', colocate_with => 'none')", "insert into ix_moves select g, g from generate_series(1, 600) g")
    first = min(shard for shard, node in elastic.shards("ix_moves").items() if node == 1)
    joined = "select count(*) from pg_inherits where inhparent = to_regclass('ix_moves_v')"
    # Home is first. When its first shard has its index, the second has to wait, and the first goes to the next node.
    asked = _Asked(elastic.a, "create unique index concurrently ix_moves_v on ix_moves (id, v)")
    _until(lambda: elastic.on_node(1, joined) >= [(1,)] or not asked.is_alive())
    with _old_snapshot(elastic, 1):
        moved = elastic.on_node(1, joined) == [(1,)]
        if moved:
            elastic.moves("ix_moves", first, elastic.b)
    asked.join()
    with elastic.a.connect() as connection:
        if asked.error is not None:
            assert asked.error.sqlstate == "55006", asked.error
            assert connection.execute("select count(*) from pg_class where relname like '%ix_moves_v%'").fetchone() == (0,)
            connection.execute("create unique index concurrently ix_moves_v on ix_moves (id, v)")
    for node in (1, 2, 3):
        assert elastic.on_node(node, "select indisvalid from pg_index where indexrelid = 'ix_moves_v'::regclass") == [(True,)], node
        missing = """select count(*) from pg_inherits s where s.inhparent = 'ix_moves'::regclass
                     and not exists (select from pg_index i join pg_inherits h on h.inhrelid = i.indexrelid where i.indrelid = s.inhrelid and h.inhparent = 'ix_moves_v'::regclass)"""
        assert elastic.on_node(node, missing) == [(0,)], node
    elastic.a.run("drop table ix_moves")


@pytest.mark.parametrize("when", ["immediate", "deferred"])
def test_values_that_are_swapped_while_a_shard_moves(elastic, when):
    """In the midst of the statement, and of the transaction, two rows have the same."""
    elastic.a.run("drop table if exists ix_swap", f"create table ix_swap (id int, n int, slot int not null, primary key (id, n), unique (id, slot) deferrable initially {when})",
                  "select create_distributed_table('ix_swap', 'id', colocate_with => 'none')",
                  "insert into ix_swap select id, n, n from generate_series(1, 20) id, generate_series(1, 200) n where id % 5 = 0 or n <= 2")
    stop, errors, swapped = threading.Event(), [], [0]

    def swaps():
        try:
            with elastic.b.connect() as connection:
                while not stop.is_set():
                    connection.execute("update ix_swap set slot = 3 - slot where id % 5 <> 0")
                    if swapped[0] % 10 == 0:
                        # More rows than are applied at once.
                        connection.execute("update ix_swap set slot = 201 - slot where id % 5 = 0")
                    swapped[0] += 1
                    # A shard follows until there is little left.
                    time.sleep(0.02)
        except psycopg.Error as error:
            errors.append(error)

    writer = threading.Thread(target=swaps)
    writer.start()
    try:
        for shard in (1, 2, 3):
            elastic.moves("ix_swap", shard)
            before = swapped[0]
            _until(lambda before=before: swapped[0] > before or errors)
    finally:
        stop.set()
        writer.join()
    assert not errors, errors
    with elastic.a.connect() as connection:
        assert connection.execute("select count(*), count(distinct (id, slot)), sum(slot) from ix_swap").fetchone() == (832, 832, 4 * 20100 + 16 * 3)
        with pytest.raises(psycopg.errors.UniqueViolation):
            connection.execute("insert into ix_swap values (1, 1000, 1)")
    elastic.a.run("drop table ix_swap")
    elastic.is_tidy()

"""Reads that must see one state of all nodes, beside shards that move, split and merge: what comes of them is right, or they wait, or they say 40001."""

import threading
import time

import psycopg
import pytest

from .conftest import NODES

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("elastic"), pytest.mark.timeout(400)]

ACCOUNTS, EACH = 600, 100


class Client(threading.Thread):
    """Does one thing again and again until it is stopped."""

    def __init__(self, server, work, stop: threading.Event):
        super().__init__()
        self.server, self.work, self.stop, self.done, self.again, self.error = server, work, stop, 0, 0, None

    def run(self):
        try:
            with self.server.connect() as connection:
                connection.execute("set statement_timeout = '90s'")
                while not self.stop.is_set():
                    try:
                        self.work(connection, self.done + self.again)
                        self.done += 1
                    except (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected):
                        self.again += 1
        except Exception as e:  # noqa: BLE001
            self.error = e


def _transfers(connection, n: int) -> None:
    one, other = (n * 37) % ACCOUNTS + 1, (n * 101 + 13) % ACCOUNTS + 1
    with connection.transaction():
        for id, by in sorted(((one, -7), (other, 7))):
            assert connection.execute("update o_bank set v = v + %s where id = %s", (by, id)).rowcount == 1


def _is_all(found) -> None:
    assert (int(found[0]), int(found[1])) == (ACCOUNTS, ACCOUNTS * EACH), found


def _statement(connection, n: int) -> None:
    connection.execute("set herd.snapshot = 'on'")
    _is_all(connection.execute("select count(*), sum(v) from o_bank").fetchone())


def _repeatable(connection, n: int) -> None:
    with connection.transaction():
        connection.execute("set transaction isolation level repeatable read")
        if n % 2:
            connection.execute("select v from o_bank where id = 1").fetchone()
            time.sleep(0.02)
        for _ in range(2):
            _is_all(connection.execute("select count(*), sum(v) from o_bank").fetchone())
            _is_all(connection.execute("select count(distinct id), sum(v) from o_bank").fetchone())
        _is_all(_copied(connection, "copy o_bank to stdout"))


def _whole(connection, n: int) -> None:
    connection.execute("set herd.snapshot = 'on'")
    _is_all(_copied(connection, "copy o_bank to stdout" if n % 2 else "copy (select id, v from o_bank) to stdout"))


def _rows(connection, n: int) -> None:
    """Without a common state the total may be another, but each account is there, once."""
    with connection.cursor().copy("copy o_bank to stdout") as copy:
        ids = [row[0] for row in copy.rows()]
    assert len(ids) == len(set(ids)) == ACCOUNTS, len(ids)


def _cursor(connection, n: int) -> None:
    """Likewise."""
    with connection.transaction():
        connection.execute("declare o_rows cursor for select id from o_bank order by id")
        assert [id for id, in connection.execute("fetch all from o_rows")] == list(range(1, ACCOUNTS + 1))


def _copied(connection, sql: str) -> tuple[int, int]:
    with connection.cursor().copy(sql) as copy:
        rows = list(copy.rows())
    assert len({row[0] for row in rows}) == len(rows)
    return len(rows), sum(int(row[1]) for row in rows)


def test_the_total_is_always_the_same(elastic):
    elastic.a.run(
        "drop table if exists o_bank", "create table o_bank (id int primary key, v int not null)", "select create_distributed_table('o_bank', 'id', colocate_with => 'none')",
        f"insert into o_bank select g, {EACH} from generate_series(1, {ACCOUNTS}) g",
    )
    stop = threading.Event()
    works = [_transfers, _transfers, _statement, _repeatable, _whole, _rows, _cursor]
    clients = [Client((elastic.a, elastic.b)[n % 2], work, stop) for n, work in enumerate(works)]
    for client in clients:
        client.start()
    took = []

    def step(sql: str):
        begun = time.monotonic()
        with elastic.b.connect() as connection:
            said = connection.execute(sql).fetchone()
        took.append(round(time.monotonic() - begun, 1))
        print(sql, took[-1], [(c.work.__name__, c.done, c.again) for c in clients], flush=True)
        time.sleep(0.3)
        return said[0]

    try:
        for shard in (0, 1, 0):
            step(f"select herd.move_shard('o_bank', {shard}, {elastic.shards('o_bank')[shard] % NODES + 1})")
        half = step("select herd.split_shard('o_bank', 3)")
        step(f"select herd.merge_shards('o_bank', 3, {half})")
        # On a slow machine until each has done something.
        deadline = time.monotonic() + 120
        while not all(c.done > 5 or c.error for c in clients) and time.monotonic() < deadline:
            time.sleep(0.1)
    finally:
        stop.set()
        for client in clients:
            client.join(120)
    print([(c.work.__name__, c.done, c.again) for c in clients])
    assert [c.error for c in clients if c.error] == []
    # Who reads all of a table again and again keeps no shard from moving: COPY and cursors wait in front of the exchange, as others do.
    # It is tried for some minutes else.
    assert max(took) < 40, took
    assert all(c.done > 5 for c in clients), [(c.work.__name__, c.done, c.again) for c in clients]
    with elastic.a.connect() as connection:
        _is_all(connection.execute("select count(*), sum(v) from o_bank").fetchone())
    elastic.is_tidy()

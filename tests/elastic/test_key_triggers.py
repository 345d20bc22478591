"""Triggers that write rows of their row's key into other tables, while shards move and are split under them."""

import random
import threading
import time

import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("elastic"), pytest.mark.timeout(400)]

_ROWS = 200


class _Writer(threading.Thread):
    """Changes rows by all means, and counts the changes of each that were committed."""

    def __init__(self, server, number, stop):
        super().__init__()
        self.server, self.number, self.stop = server, number, stop
        self.random = random.Random(number)
        self.changes: dict[int, int] = {}
        self.error = None

    def run(self):
        try:
            with self.server.connect(prepare_threshold=0 if self.number % 2 else None) as connection:
                while not self.stop.is_set():
                    self.one(connection)
        except Exception as e:  # noqa: BLE001
            self.error = e

    def one(self, connection):
        first = self.random.randrange(1, _ROWS - 10)
        ids = [first]
        match self.random.randrange(4):
            case 0:
                connection.execute("update kt_row set v = v + 1 where id = %s", (first,))
            case 1:
                # Nobody else's rows: who takes rows on several nodes at once may wait for another in a circle.
                own = _ROWS + 10 * self.number
                ids = list(range(own + 1, own + 11))
                connection.execute("update kt_row set v = v + 1 where id between %s and %s", (own + 1, own + 10))
            case 2:
                with connection.transaction():
                    connection.execute("update kt_row set v = v + 1 where id = %s", (first,))
                    connection.execute("update kt_row set v = v + 1 where id = %s", (first + 1,))
                ids.append(first + 1)
            case 3:
                connection.execute("insert into kt_row values (%s, 0) on conflict (id) do update set v = kt_row.v + 1", (first,))
        for id in ids:
            self.changes[id] = self.changes.get(id, 0) + 1


def test_all_that_they_write_is_where_it_belongs(elastic):
    elastic.a.run(
        "drop table if exists kt_row, kt_audit, kt_count",
        "create table kt_row (id int primary key, v int)", "create table kt_audit (id int, v int, primary key (id, v))", "create table kt_count (id int primary key, n int)",
        "select create_distributed_table('kt_row', 'id', colocate_with => 'none')",
        "select create_distributed_table('kt_audit', 'id', colocate_with => 'kt_row')",
        "select create_distributed_table('kt_count', 'id', colocate_with => 'kt_row')",
        f"insert into kt_row select g, 0 from generate_series(1, {_ROWS + 60}) g",
        """create or replace function kt_writes() returns trigger language plpgsql as $$ begin
             insert into kt_audit values (new.id, new.v);
             insert into kt_count values (new.id, 1) on conflict (id) do update set n = kt_count.n + 1;
             if (select n from kt_count where id = new.id) <> new.v or (select count(*) from kt_audit where id = new.id) <> new.v then
               raise exception 'row % has % changes', new.id, new.v;
             end if; return null; end $$""",
        "create trigger kt_writes after update on kt_row for each row execute function kt_writes()",
    )
    stop = threading.Event()
    writers = [_Writer((elastic.a, elastic.b)[n % 2], n, stop) for n in range(6)]
    for writer in writers:
        writer.start()
    try:
        for n in range(4):
            time.sleep(0.3)
            elastic.moves(("kt_row", "kt_audit")[n % 2], n, (elastic.a, elastic.b)[n % 2])
        for n in range(2):
            time.sleep(0.3)
            elastic.b.run(f"select herd.split_shard('kt_row', {n})")
    finally:
        stop.set()
        for writer in writers:
            writer.join(60)
    assert [w.error for w in writers if w.error] == []
    expected: dict[int, int] = {}
    for writer in writers:
        for id, n in writer.changes.items():
            expected[id] = expected.get(id, 0) + n
    with elastic.a.connect() as connection:
        assert dict(connection.execute("select id, v from kt_row where v > 0").fetchall()) == expected
        assert dict(connection.execute("select id, n from kt_count").fetchall()) == expected
        assert dict(connection.execute("select id, count(*) from kt_audit group by id").fetchall()) == expected
        for id in list(expected)[:30]:
            assert connection.execute("select count(*) from kt_audit where id = %s", (id,)).fetchone() == (expected[id],)
    elastic.is_tidy()

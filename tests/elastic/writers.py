"""Eight clients that write to `m_load` through two routers while its shards are moved, split or merged: nothing fails, nothing is lost, nothing is
there twice."""

import random
import threading
import time
from collections.abc import Callable

import psycopg

ROWS = 4000


class Writer(threading.Thread):
    """Writes rows of its own and changes others', and knows what must be there in the end."""

    def __init__(self, number: int, server, stop: threading.Event, crosses: bool = False):
        """`crosses`: updates take rows from partition to partition, which PostgreSQL lets fail where others wait for the row."""
        super().__init__()
        self.crosses = crosses
        self.number, self.server, self.stop = number, server, stop
        self.rows: dict[int, int] = {}
        self.added, self.statements, self.stall, self.error = 0, 0, 0.0, None
        self.random = random.Random(number)

    def run(self):
        try:
            with self.server.connect(prepare_threshold=0 if self.number % 2 else None) as connection:
                while not self.stop.is_set():
                    begun = time.monotonic()
                    try:
                        self.one(connection)
                    except psycopg.errors.SerializationFailure:
                        if not self.crosses:
                            raise
                    self.stall = max(self.stall, time.monotonic() - begun)
                    self.statements += 1
        except Exception as e:  # noqa: BLE001
            self.error = e

    def one(self, connection):
        kind = self.random.randrange(8)
        shared = self.random.randrange(1, ROWS)
        mine = 1_000_000 * (self.number + 1) + len(self.rows) + self.statements * 10
        if kind == 0:
            connection.execute("insert into m_load values (%s, 7, 'new')", (mine,))
            self.rows[mine] = 7
        elif kind == 1 and self.rows:
            gone = self.random.choice(list(self.rows))
            assert connection.execute("delete from m_load where id = %s", (gone,)).rowcount == 1
            del self.rows[gone]
        elif kind == 2:
            connection.execute("update m_load set v = v + 1 where id = %s", (shared,))
            self.added += 1
        elif kind == 3:
            with connection.transaction():
                for id, by in ((shared, -3), (shared % ROWS + 1, 3)):
                    assert connection.execute("update m_load set v = v + %s where id = %s", (by, id)).rowcount == 1
        elif kind == 4:
            with connection.cursor().copy("copy m_load from stdin") as copy:
                for n in range(5):
                    copy.write_row((mine + n, n, "x" * 3000 if n == 3 else None))
            self.rows.update({mine + n: n for n in range(5)})
        elif kind == 5:
            assert connection.execute("select id from m_load where id = %s", (shared,)).fetchall() == [(shared,)]
        elif kind == 6:
            assert connection.execute("select count(*), count(distinct id) from m_load where id between 1 and %s", (ROWS,)).fetchone() == (ROWS, ROWS)
        elif kind == 7 and self.rows:
            changed = self.random.choice(list(self.rows))
            assert connection.execute("update m_load set v = 100, note = note || 'y' where id = %s returning v", (changed,)).fetchone() == (100,)
            self.rows[changed] = 100


def beside_writers(elastic, step: Callable, steps: int = 6, crosses: bool = False) -> None:
    """Takes the steps, each given its number and a router, and then holds what is in the table against what each client knows."""
    stop = threading.Event()
    writers = [Writer(n, (elastic.a, elastic.b)[n % 2], stop, crosses) for n in range(8)]
    for writer in writers:
        writer.start()
    try:
        for n in range(steps):
            time.sleep(0.3)
            step(n, (elastic.a, elastic.b)[n % 2])
    finally:
        stop.set()
        for writer in writers:
            writer.join(60)
    assert [w.error for w in writers if w.error] == []
    expected = {id: v for w in writers for id, v in w.rows.items()}
    with elastic.b.connect() as connection:
        found = connection.execute("select id, v from m_load where id > %s", (ROWS,)).fetchall()
        assert len(found) == len(expected) and dict(found) == expected
        shared = connection.execute("select count(*), sum(v) from m_load where id <= %s", (ROWS,)).fetchone()
        assert shared == (ROWS, ROWS * 10 + sum(w.added for w in writers))
    stall, statements = max(w.stall for w in writers), sum(w.statements for w in writers)
    print(f"longest statement {stall * 1000:.0f} ms of {statements}")
    # A patient try may hold them for five seconds (PATIENT_MAX in move_shard/switch.rs).
    assert stall < 15

"""Changes of a table's schema wait for who has written to it in tries: others, who come after them, do not wait for the one they wait for."""

import threading

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(400)]

CHANGES = (
    "create index concurrently queued_v on queued (v)",
    "alter table queued add constraint queued_positive check (v > -1) not valid",
    "alter table queued validate constraint queued_positive",
    "alter table queued alter column v set default 7",
    "alter table queued add column w int default 3",
    "alter table queued drop column w",
    "drop index concurrently queued_v",
)


def test_who_comes_behind_a_change_does_not_wait_with_it(herd):
    herd.run("drop table if exists queued", "create table queued (id int primary key, v int not null)", "select create_distributed_table('queued', 'id')", "insert into queued select g, g from generate_series(1, 100) g")
    with herd.connect() as before, herd.connect() as behind, herd.connect() as watch:
        before.autocommit = False
        for change in CHANGES:
            # The table as a whole is written to, and shards.
            before.execute("update queued set v = v + 1 where v < 50")
            changing = Changing(herd, change)
            changing.start()
            for n in range(15):
                behind.execute("update queued set v = v + 1 where v > 60")
                behind.execute("insert into queued values (%s, 100)", (1000 + n,))
                assert behind.execute("select count(*) > 99 from queued").fetchone() == (True,)
                behind.execute("delete from queued where id >= 1000")
                changing.join(0.05)
            # Writers are in nobody's way who validates.
            if "validate" in change:
                changing.join(60)
            assert changing.error is None and changing.is_alive() == ("validate" not in change), (change, changing.error)
            before.commit()
            changing.join(60)
            assert not changing.is_alive() and changing.error is None, (change, changing.error)
        assert watch.execute("select count(*) from pg_constraint where conname = 'queued_positive' and convalidated and conrelid = 'queued'::regclass").fetchone() == (1,)
    herd.run("drop table queued")


def test_a_limit_of_time_ends_the_wait(herd):
    herd.run("drop table if exists queued_limit", "create table queued_limit (id int primary key, v int)", "select create_distributed_table('queued_limit', 'id')")
    with herd.connect() as before, herd.connect() as late:
        before.autocommit = False
        before.execute("update queued_limit set v = 1")
        for name, error in (("lock_timeout", psycopg.errors.LockNotAvailable), ("statement_timeout", psycopg.errors.QueryCanceled)):
            late.execute(f"set {name} = '1s'")
            with pytest.raises(error):
                late.execute("create index concurrently queued_limit_v on queued_limit (v)")
            late.execute(f"reset {name}")
        before.rollback()
        late.execute("create index concurrently queued_limit_v on queued_limit (v)")
        assert late.execute("select count(*) from pg_index where indrelid = 'queued_limit'::regclass and indisvalid").fetchone() == (2,)
    herd.run("drop table queued_limit")


class Changing(threading.Thread):
    def __init__(self, server, sql: str):
        super().__init__(daemon=True)
        self.server, self.sql, self.error = server, sql, None

    def run(self):
        try:
            self.server.run(self.sql)
        except psycopg.Error as error:
            self.error = error

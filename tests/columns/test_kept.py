"""What stores keep of totals and groups is what they would say anew: rows that come, change and go, a table that is emptied, altered, or copied again. Beside it how
often a store used what it kept."""

import random
import threading
import time

import pytest

from .conftest import Columns

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("columns"), pytest.mark.timeout(300)]

# A store keeps nothing of copies with fewer than 65 536 rows.
_ROWS = 300_000
_ASKED = [
    "select count(*), min(k), max(k), sum(k) from {table}",
    "select count(*), sum(k), max(t), avg(n) from {table} where t like '1%'",
    "select g, count(*), sum(k), min(n), max(t), bool_or(k % 1000 = 7) from {table} group by g order by g",
    "select g % 3, k % 4, count(n), sum(n) from {table} where k > 50 group by 1, 2 order by 1, 2",
    "select count(*) from {table} where k = 77",
]
_MAKE = "select i, (i::int8 * 7919 % 100003)::int, i % 10, (i % 1009)::text, case when i % 11 > 0 then i % 1000 / 7.0 end from generate_series({first}, {last}) i"


class Table:
    """A table with a copy; its answers by columns are those by rows."""

    def __init__(self, columns: Columns, name: str, odd: str = ""):
        self.columns, self.name, self.last = columns, name, 0
        columns.server.run(
            f"drop table if exists {name}", f"create table {name} (id bigint primary key, k int not null, g int, t text collate \"C\", n numeric(12,4){odd})",
            f"select create_distributed_table('{name}', 'id')",
        )  # fmt: skip

    def insert(self, rows: int) -> None:
        self.columns.server.run(f"insert into {self.name} (id, k, g, t, n) " + _MAKE.format(first=self.last + 1, last=self.last + rows))
        self.last += rows

    def run(self, sql: str) -> None:
        self.columns.server.run(sql.format(table=self.name, last=self.last))

    def check(self, times: int = 1) -> None:
        with self.columns.server.connect() as connection:
            for sql in _ASKED:
                sql = sql.format(table=self.name)
                connection.execute("set herd.columns = off")
                rows = connection.execute(sql).fetchall()
                connection.execute("set herd.columns = on")
                for _ in range(times):
                    assert connection.execute(sql).fetchall() == rows, sql


def _uses(columns: Columns) -> int:
    total = 0
    for store in columns.stores:
        with store.connect(user="herd", dbname="herd") as connection:
            total += int(connection.execute("SHOW kept").fetchone()[2])
    return total


def test_answers_are_used_again_while_rows_are_only_added(columns):
    table = Table(columns, "kept_a")
    table.insert(_ROWS)
    columns.add("kept_a")
    before = _uses(columns)
    table.check(5)
    # Each of five SELECTs, three times of five, in two stores; more, where a read began again.
    assert _uses(columns) >= before + 30
    # Pieces, and all anew when there are many.
    for rows in (1, 100, 0, *[150_000] * 10, 3):
        table.insert(rows)
        before = _uses(columns)
        table.check(2)
        assert _uses(columns) > before, rows


def test_what_changes_or_goes_is_not_what_was_kept(columns):
    table = Table(columns, "kept_b")
    table.insert(_ROWS)
    columns.add("kept_b")
    table.check(3)
    for change in (
        "update {table} set k = k + 1000000 where id = 77", "delete from {table} where id % 1000 = 3", "update {table} set id = -id where id = 500", "update {table} set t = null where id = {last}",
        "delete from {table} where id > {last} - 10", "truncate {table}", "alter table {table} add column more int default 5", "alter table {table} alter column k type bigint",
    ):  # fmt: skip
        table.run(change)
        if change.startswith("alter"):
            columns.ready("kept_b")
        table.check(1)
        table.insert(1000 if not change.startswith("truncate") else _ROWS)
        table.check(2)
        # An altered table's copy is made anew first.
        before, deadline = _uses(columns), time.monotonic() + 120
        while _uses(columns) == before:
            assert time.monotonic() < deadline, change
            table.check(2)
    columns.server.run("select herd.drop_column_copy('kept_b')", "update kept_b set k = -k where id % 2 = 0")
    columns.add("kept_b", ", order_by => array['k']")
    table.check(3)


def test_random_changes(columns):
    rng, table = random.Random(20261130), Table(columns, "kept_c")
    table.insert(_ROWS)
    columns.add("kept_c")
    before = _uses(columns)
    for _ in range(25):
        table.check(rng.randrange(1, 4))
        for _ in range(rng.randrange(3)):
            table.insert(rng.choice([1, 10, 5000, 70_000]))
        if rng.random() < 0.2:
            table.run(rng.choice(["update {table} set k = 77 where id % 5000 = 0", "delete from {table} where id = (select max(id) from kept_c)", "delete from {table} where id % 7000 = 1"]))
    assert _uses(columns) > before


def test_a_column_with_the_name_of_a_rows_number(columns):
    table = Table(columns, "kept_d", ', "RowId" bigint default 0')
    table.insert(_ROWS)
    columns.add("kept_d")
    before = _uses(columns)
    table.check(4)
    table.insert(10)
    table.check(4)
    assert _uses(columns) == before


def test_a_transaction_sees_what_it_has_written(columns):
    table = Table(columns, "kept_e")
    table.insert(_ROWS)
    columns.add("kept_e")
    table.check(3)
    with columns.server.connect(autocommit=False) as connection:
        connection.execute("set herd.columns = on")
        (count,) = connection.execute("select count(*) from kept_e where k = 77").fetchone()
        connection.execute("insert into kept_e values (-1, 77, 0, 'x', 0)")
        assert connection.execute("select count(*) from kept_e where k = 77").fetchone() == (count + 1,)
        connection.rollback()
    table.check(2)


def test_the_file_is_opened_anew_behind_a_large_copy_while_others_are_read(columns):
    """Reads go on: they wait, or rows answer."""
    small, large, failures, end = Table(columns, "kept_f"), Table(columns, "kept_g"), [], threading.Event()
    small.insert(1000)
    columns.add("kept_f")
    large.insert(_ROWS)
    before = _opened(columns)

    def read() -> None:
        with columns.server.connect() as connection:
            connection.execute("set herd.columns = on")
            while not end.is_set():
                if (found := connection.execute("select count(*), sum(g) from kept_f").fetchone()) != (1000, 4500):
                    failures.append(found)

    readers = [threading.Thread(target=read) for _ in range(6)]
    for reader in readers:
        reader.start()
    columns.add("kept_g")
    deadline = time.monotonic() + 120
    while _opened(columns) < before + 2:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    large.check(3)
    large.insert(10)
    large.check(1)
    end.set()
    for reader in readers:
        reader.join()
    assert not failures
    small.run("update {table} set g = 0")
    small.check(1)


def _opened(columns: Columns) -> int:
    return sum((columns.herd.dir / f"column{n}.log").read_text().count("the file of copies was opened anew") for n in (1, 2))

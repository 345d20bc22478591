"""Reference tables have copies in every node's store: joins with them are a plain PostgreSQL's, and see what was acknowledged before."""

import threading
import time

import psycopg
import pytest

from . import tables

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("columns"), pytest.mark.timeout(300)]

_TABLES = [
    "create table cr_sales (id bigint primary key, place int, day date, n numeric(12,2), note text)",
    "create table cr_lines (id bigint, line int, item int, primary key (id, line))",
    "create table cr_places (id int primary key, name text, area int)",
    "create table cr_areas (id int primary key, low int not null, high int not null, label varchar(30))",
    "create table cr_plain (id int primary key, label text)",
]
_ROWS = [
    "insert into cr_sales select g, nullif(g % 23, 0), date '2026-01-01' + (g % 90)::int, (g % 1000) / 7.0, 'note ' || g % 5 from generate_series(1, 3000) g",
    "insert into cr_lines select g % 1000, g / 1000, g % 31 from generate_series(1, 3000) g",
    "insert into cr_places select g, case when g % 6 > 0 then 'place ' || g % 11 end, nullif(g % 4, 0) from generate_series(1, 30) g",
    "insert into cr_areas select g, g * 3, g * 9, 'area ' || g from generate_series(1, 5) g",
    "insert into cr_plain values (1, 'one')",
]
_DISTRIBUTED = ["select create_distributed_table('cr_sales', 'id')", "select create_distributed_table('cr_lines', 'id', colocate_with => 'cr_sales')"]
_REFERENCE = [f"select create_reference_table('{name}')" for name in ("cr_places", "cr_areas", "cr_plain")]
_NAMES = "cr_sales, cr_lines, cr_places, cr_areas, cr_plain"

# By columns.
_JOINS = [
    "select p.name, count(*), sum(s.n), min(s.day) from cr_sales s join cr_places p on p.id = s.place group by p.name",
    "select a.label, p.area, count(*), sum(s.n) from cr_sales s, cr_places p, cr_areas a where s.place = p.id and p.area = a.id and s.day >= date '2026-02-01' group by 1, 2",
    "select count(*), count(p.id), count(p.name), sum(p.area) from cr_sales s left join cr_places p on p.id = s.place and p.area > 1",
    "select p.area, count(*) from cr_places p right join cr_sales s on p.id = s.place group by p.area order by p.area nulls first",
    "select count(*), sum(a.low) from cr_sales s cross join cr_areas a",
    "select a.label, count(*), max(s.note) from cr_sales s join cr_areas a on s.place between a.low and a.high group by a.label having count(*) > 3",
    "select p.name, sum(l.item), count(s.place) from cr_sales s join cr_lines l on l.id = s.id join cr_places p on p.id = l.item group by p.name",
    "select count(*), count(a.id) from cr_sales s left join (cr_places p join cr_areas a on a.id = p.area) on p.id = s.place",
    "select p.id, count(l.item) from cr_lines l left join cr_places p on p.id = l.item where p.name is null or p.name like 'place 1%' group by p.id",
    "select s.id, p.name, s.n from cr_sales s join cr_places p on p.id = s.place order by s.n desc, s.id limit 7 offset 2",
    "select distinct p.name, o.name from cr_sales s join cr_places p on p.id = s.place join cr_places o on o.id = p.area",
    "select p.name, count(s.id), max(s.n) from cr_places p left join cr_sales s on p.id = s.place group by p.name",
    # Subqueries of what nodes have together.
    "select count(*) from cr_sales where place in (select id from cr_places where area = 2)",
    "select place, count(*) from cr_sales s where exists (select * from cr_lines l where l.id = s.id and l.item > s.place) group by place",
    "select count(*) from cr_sales s where not exists (select 1 from cr_lines l where l.id = s.id and l.line = 0) and s.n < (select max(high) from cr_areas)",
    "select x.area, sum(x.n), count(*) from (select p.area, s.n from cr_sales s left join cr_places p on p.id = s.place where s.day < date '2026-01-01' + interval '1 month') x group by x.area",
    "select x.c, count(*) from (select id, count(*) from cr_lines group by id) x (id, c) group by x.c",
    "select count(*) from cr_sales s where s.id in (select l.id from cr_lines l group by l.id having sum(l.item) > 40)",
    # Of reference tables alone.
    "select area, count(*), min(name) from cr_places group by area",
    "select count(*), sum(a.low) from cr_places p join cr_areas a on a.id = p.area where p.name like 'place 1%'",
    "select count(*) from cr_places p where p.area > 1 and exists (select 1 from cr_areas a where a.id = p.area and a.low > 2)",
]
# By rows, or by both.
_OTHERS = [
    "select p.name, count(distinct s.place) from cr_sales s join cr_places p on p.id = s.place group by p.name",
    "select count(*) from cr_places p left join cr_sales s on p.id = s.place",
    "select p.id, s.id from cr_sales s right join cr_places p on p.id = s.place where p.id > 20",
    "select count(*), count(s.id), count(p.id) from cr_sales s full join cr_places p on p.id = s.place",
    "select count(*) from cr_sales s join cr_plain p on p.id = s.place",
    "select name from cr_places where id = 5",
    "select id, name from cr_places order by id",
    "select count(*) from cr_places p join cr_plain l on l.id = p.id",
    "select p.name from cr_places p where exists (select from cr_sales s where s.place = p.id)",
    "select x.n, p.name from (select place, count(*) as n from cr_sales group by place) x join cr_places p on p.id = x.place",
    "select (select count(*) from cr_sales), (select count(*) from cr_places)",
]


@pytest.fixture(scope="module")
def star(columns, oracle):
    columns.server.run(f"drop table if exists {_NAMES}", *_TABLES, *_DISTRIBUTED, *_REFERENCE, *_ROWS)
    oracle.run(f"drop table if exists {_NAMES}", *_TABLES, *_ROWS)
    columns.add("cr_sales", ", order_by => array['day']")
    columns.add("cr_lines")
    columns.add("cr_places")
    with columns.server.connect() as connection:
        job = connection.execute("select herd.add_column_copy('cr_areas', background => true)").fetchone()[0]
        connection.execute(f"select herd.wait_job({job})")
        done = connection.execute(f"select state, bytes_done, bytes_total from herd.jobs where parent = {job}").fetchone()
    assert columns.states("cr_areas") == ["ready"] * 2
    # A plain table has a size, too.
    assert done[0] == "done" and done[1] == done[2] > 0, done
    yield columns
    columns.server.run(f"drop table {_NAMES}")
    oracle.run(f"drop table {_NAMES}")


def _same(herd, plain, sql: str) -> None:
    (types, got), (wanted_types, want) = tables.answer(herd, sql), tables.answer(plain, sql)
    if "order by" not in sql:
        got, want = sorted(got, key=repr), sorted(want, key=repr)
    assert (types, got) == (wanted_types, want), sql


def test_joins_are_answered_by_columns(star, oracle):
    with star.server.connect() as herd, oracle.connect() as plain:
        for way in ["on", "auto", "off"]:
            herd.execute(f"set herd.columns = {way}")
            for sql in _JOINS:
                before = star.reads()[0]
                _same(herd, plain, sql)
                assert (star.reads()[0] > before) == (way != "off"), (way, sql)
            for sql in _OTHERS:
                _same(herd, plain, sql)


def test_reference_tables_by_an_index_stay_on_rows(star, oracle):
    with star.server.connect() as herd, oracle.connect() as plain:
        for sql in ["select count(*) from cr_places where id = 5", "select name from cr_places order by id limit 3"]:
            before = star.reads()[0]
            _same(herd, plain, sql)
            assert star.reads()[0] == before, sql
            herd.execute("set herd.columns = on")
            _same(herd, plain, sql)
            assert star.reads()[0] == before + 1, sql
            herd.execute("reset herd.columns")


def test_explain_of_reference_tables(star):
    with star.server.connect() as herd:
        sql = "select area, count(*) from cr_places group by area"
        said = "\n".join(row[0] for row in herd.execute(f"explain (costs off) {sql}").fetchall())
        assert "Columns: DuckDB: SELECT" in said and "DuckDB Plan: of the store of home" in said, said
        said = "\n".join(row[0] for row in herd.execute(f"explain (analyze, costs off) {sql}").fetchall())
        assert "Answer of the store of home" in said, said
        herd.execute("set herd.columns = off")
        said = "\n".join(row[0] for row in herd.execute(f"explain (costs off) {sql}").fetchall())
        assert "DuckDB" not in said, said


def test_every_node_is_listed(star):
    with star.server.connect() as connection:
        states = connection.execute("select node, state, rows from herd.column_copies where relation = 'public.cr_places' order by node").fetchall()
    assert [(state, rows) for _, state, rows in states] == [("ready", 30)] * 2, states


def test_writes_of_both_are_seen(star, oracle):
    changes = [
        "insert into cr_places values (100, 'new', 1)", "insert into cr_sales values (100001, 100, '2026-03-03', 5.5, 'x')", "update cr_places set name = 'newer', area = 2 where id = 100",
        "update cr_places set id = 101 where id = 100", "update cr_sales set place = 101 where id = 100001", "update cr_places set area = area + 1", "delete from cr_places where id % 7 = 0",
        "begin; insert into cr_places values (102, 'both', 1); insert into cr_sales values (100002, 102, '2026-03-04', 6, 'y'); commit", "begin; delete from cr_places; rollback",
        "delete from cr_areas", "insert into cr_areas select g, g, g * 2, 'again' from generate_series(1, 9) g",
    ]  # fmt: skip
    before = star.reads()[0]
    with star.server.connect() as herd, oracle.connect() as plain:
        herd.execute("set herd.columns = on")
        for change in changes:
            herd.execute(change), plain.execute(change)
            for sql in _JOINS[:6]:
                _same(herd, plain, sql)
    assert star.reads()[0] - before > 3 * len(changes)


def test_beside_writers(star):
    """Who begins after a write was acknowledged sees it in what every node joins, although it was written on all of them."""
    done, failures, over = [0], [], threading.Event()
    star.server.run("insert into cr_areas values (1000, 0, 0, 'counts')")

    def write() -> None:
        with star.server.connect() as connection:
            while not over.is_set():
                connection.execute("update cr_areas set low = %s where id = 1000", (done[0] + 1,))
                done[0] += 1

    def read() -> None:
        with star.server.connect() as connection:
            connection.execute("set herd.columns = on")
            while not over.is_set():
                least = done[0]
                seen = connection.execute("select min(a.low), max(a.low) from cr_sales s join cr_areas a on a.id = 1000 where s.place is not null").fetchone()
                if seen[0] < least:
                    failures.append((seen, least))

    before = star.reads()
    threads = [threading.Thread(target=write)] + [threading.Thread(target=read) for _ in range(2)]
    [t.start() for t in threads]
    try:
        time.sleep(4.5)
        # On a slow machine until there is enough to judge by.
        deadline = time.monotonic() + 120
        while not (done[0] > 20 and star.reads()[0] - before[0] > 5) and time.monotonic() < deadline:
            time.sleep(0.5)
    finally:
        over.set()
    [t.join() for t in threads]
    star.server.run("delete from cr_areas where id = 1000")
    assert not failures, failures[:3]
    assert done[0] > 20 and star.reads()[0] - before[0] > 5


def test_changes_of_the_table(star, oracle):
    sql = "select p.name, count(*), sum(p.area) from cr_sales s join cr_places p on p.id = s.place group by p.name"
    with star.server.connect() as herd, oracle.connect() as plain:
        herd.execute("set herd.columns = on")
        for change in [
            "alter table cr_places add column extra int default 5", "alter table cr_places alter column area type bigint using area + 1", "alter table cr_places drop column extra",
            "alter table cr_places rename column name to was", "alter table cr_places rename column was to name", "alter table cr_places rename to cr_other", "alter table cr_other rename to cr_places",
            "truncate cr_places", "insert into cr_places select g, 'again', g from generate_series(1, 12) g",
            "alter table cr_places rename to cr_third; alter table cr_areas rename to cr_places; alter table cr_places rename column label to name; alter table cr_places rename column low to area",
            "alter table cr_places rename column name to label; alter table cr_places rename column area to low; alter table cr_places rename to cr_areas; alter table cr_third rename to cr_places",
        ]:  # fmt: skip
            for statement in change.split("; "):
                herd.execute(statement), plain.execute(statement)
            if not change.endswith(("to cr_other", "name to was")):
                _same(herd, plain, sql)
        star.ready("cr_places")
        # A store that is behind for longer than a read waits is not read.
        before, deadline = star.reads()[0], time.monotonic() + 120
        while star.reads()[0] <= before:
            assert time.monotonic() < deadline
            _same(herd, plain, sql)


def test_a_copy_is_dropped_with_the_table_or_without(star):
    listed = "select count(*) from herd.column_copy where relation = to_regclass('cr_gone')"

    def counts() -> list[int]:
        found = []
        for node in star.herd.node_servers:
            with node.connect() as connection:
                found += connection.execute(listed).fetchone()
        return found

    star.server.run("create table cr_gone (id int primary key, v text)", "select create_reference_table('cr_gone')", "insert into cr_gone values (1, 'a')")
    star.add("cr_gone")
    assert counts() == [1, 1]
    star.server.run("select herd.drop_column_copy('cr_gone')")
    assert counts() == [0, 0]
    star.add("cr_gone")
    # Home's table is the same one: no store goes on with it.
    number = star.id("cr_gone")
    star.server.run("select undistribute_table('cr_gone')")
    assert counts() == [0, 0]
    deadline = time.monotonic() + 120
    while any(str(c["copy"]) == number for store in star.stores for c in star.copies(store)):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    star.server.run("select create_reference_table('cr_gone')")
    star.add("cr_gone")
    star.server.run("drop table cr_gone")


def test_a_key_that_is_checked_late_is_refused_by_stores(star):
    """It is no replica identity: published, the table would refuse its UPDATEs."""
    star.server.run("create table cr_late (id int primary key deferrable, v text)", "select create_reference_table('cr_late')", "insert into cr_late values (1, 'a')")
    with star.server.connect() as connection:
        with pytest.raises(psycopg.Error, match="NOT DEFERRABLE"):
            job = connection.execute("select herd.add_column_copy('cr_late', background => true)").fetchone()[0]
            connection.execute(f"select herd.wait_job({job})")
        connection.execute("update cr_late set v = 'b'")
        # One store may not have heard of it yet.
        states = {state for (state,) in connection.execute("select state from herd.column_copies where relation = 'public.cr_late'")}
        assert states in ({"refused"}, {"refused", "unknown to the store"}), states
        connection.execute("drop table cr_late")

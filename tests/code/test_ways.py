"""Queries of tables that are not colocated, by all ways: all rows come home, or those that meet others which are read before
(`herd.semijoin`), or those of all tables but the largest go to its nodes (`herd.broadcast`), or all go to nodes by what they are joined by
(`herd.shuffle`). The same rows, types and errors as on one server."""

import threading
import time

import psycopg
import pytest

from harness.both import both_made

pytestmark = pytest.mark.real_herd

_MAKE = (
    "drop schema if exists bc cascade", "create schema bc", "set search_path = bc, public",
    "create domain bc.amount as numeric(12,2) check (value >= 0)", "create type bc.mood as enum ('sad', 'fine')",
    "create table orders (o bigint primary key, c int, at date, state char(4), total bc.amount, tags text[], m bc.mood)",
    "create table lines (o bigint, n int, item text, quantity int, price double precision, primary key (o, n))",
    "create table customers (c int primary key, name text, region int, since timestamptz)",
    "create table items (item text primary key, kind int, weight real)",
    "create domain bc.given as int not null", "create table strict (id int primary key, c int, weight bc.given, m bc.given check (m > 0))",
    "create table regions (region int primary key, name text)", "create table local_notes (c int, note text)",
)
_PLACE = (
    "select create_distributed_table('orders', 'o')", "select create_distributed_table('lines', 'o', colocate_with => 'orders')",
    "select create_distributed_table('customers', 'c')", "select create_distributed_table('items', 'item')", "select create_distributed_table('strict', 'id', colocate_with => 'none')", "select create_reference_table('regions')",
)
_FILL = (
    """insert into orders select g, case when g % 17 = 0 then null else g % 40 end, date '2024-01-01' + g % 90, (array['new', 'paid', 'x'])[g % 3 + 1], g % 100 + 0.5,
       case when g % 5 = 0 then null else array['t' || g % 3, null] end, (array['sad', 'fine'])[g % 2 + 1]::bc.mood from generate_series(1, 600) g""",
    "insert into lines select g % 700 + 1, g, 'i' || g % 25, g % 7, g / 8.0 from generate_series(1, 2000) g",
    "insert into customers select g, 'name ' || g % 12, g % 5, timestamptz '2024-03-01 10:00+00' + g * interval '1 hour' from generate_series(1, 45) g",
    "insert into items select 'i' || g, g % 4, g * 0.1 from generate_series(0, 29) g", "insert into regions select g, 'r' || g from generate_series(0, 3) g",
    "insert into strict select g, g * 2, g % 5, 1 + g % 3 from generate_series(1, 12) g",
    "insert into local_notes select g, 'n' || g from generate_series(1, 10) g",
    "create view per_customer as select c, count(*) orders, sum(total) total from orders group by c", "analyze",
)
# Each has a way: the largest tables stay, and EXPLAIN says so.
OTHER_WAY = [
    "select c.name, count(*), sum(o.total) from orders o join customers c using (c) group by c.name order by 1",
    "select c.name, o.o from orders o join customers c on c.c = o.c where c.region = 2 and o.at < '2024-02-01' order by 2, 1 limit 7 offset 3",
    "select o.o, l.n, c.name, i.kind from orders o join lines l using (o) join customers c using (c) join items i using (item) where i.kind = 1 and c.region < 3 order by 2",
    "select i.kind, avg(l.price), count(distinct l.o) from lines l join items i using (item) group by rollup (i.kind) order by 1",
    "select o.o, c.name from orders o left join customers c on c.c = o.c and c.region = 1 where o.o < 60 order by 1",
    "select o.o from orders o where exists (select from customers c where c.c = o.c and c.region = o.o % 5) order by 1",
    "select o.o from orders o where o.c not in (select c.c from customers c where c.region <> 2) order by 1",
    "select count(*) from orders o where not exists (select from customers c where c.c = o.c)",
    "select o.m, o.tags, o.state, o.total, c.since from orders o join customers c using (c) where o.o < 40 order by o.o",
    "select max(o.total), min(c.name), count(*) from orders o join customers c using (c) where c.c > 1000",
    "select c.name, rank() over (order by sum(o.total) desc, c.name) from orders o join customers c using (c) group by c.name order by 2, 1",
    "select r.name, count(*) from orders o join customers c using (c) join regions r on r.region = c.region group by r.name order by 1",
    "select distinct c.region, o.state from orders o join customers c using (c) order by 1, 2",
    "select o.o, x.kind from orders o join lines l using (o), lateral (select i.kind from items i where i.item = l.item) x where o.o < 30 order by 1, 2",
    "select o.o from orders o join customers c using (c) where c.name = 'name 3' union all select l.o from lines l join items i using (item) where i.kind = 2 and l.n < 40 order by 1",
    "with c as (select * from customers where region = 3) select o.o, c.name from orders o join c using (c) order by 1",
    "select c.name, c.c, count(*) from orders o join customers c using (c) group by c.c order by 2",
    "select l.o, l.n from lines l join items i on i.item = l.item and i.weight > l.price order by 2",
    "select (c).name, pg_typeof(o.total), pg_typeof(c.since) from orders o join customers c using (c) where o.o = any ('{1,2,3}'::bigint[]) order by 1",
]
# Subqueries that stand by themselves are run before; what reads a table twice sees one state of it.
OTHER_WAY += [
    "select o.o from orders o where o.total > (select avg(total) * 1.9 from orders) order by 1",
    "select c, sum(total) from orders group by c having sum(total) > (select avg(x.t) from (select sum(o.total) t from orders o join customers c using (c) group by c.c) x) order by 1",
    "select o.o from orders o where o.c in (select c.c from customers c order by c.c desc limit 4) order by 1",
    "select (select max(l.price) from lines l join items i using (item)), count(*), sum(total) - (select sum(total) from orders) from orders o where o.total >= (select min(total) from orders where state = 'paid')",
    "select o.o, array(select i.item from items i where i.kind = 2 order by i.weight desc) from orders o where o.o < 20 and o.c = (select max(o.c) - 29 from customers c join orders o on o.c = c.c) order by 1",
    "select o.o, exists (select from items where kind = 9), o.m in (select m from orders where state = 'x' and total > 80) from orders o where o.o < 20 order by 1",
    "select a.o, b.o from orders a join orders b on a.c = b.c and a.o < b.o where a.o < 9 order by 1, 2",
    "select o.o from orders o where (o.c, o.state) in (select c.c, 'paid' from customers c where c.region = 1 union select 3, 'new') order by 1",
    "select o.o from orders o where o.c <> all (select c.c from customers c where c.region < 4 order by c.c offset 1) order by 1",
    "select count(*) from lines where o > (select c.c from customers c where c.name = 'none')",
    "select o.state, count(*) from orders o group by o.state having count(*) > (select count(*) from lines where n < 150) order by 1",
]
# Some of these have no other way, or come home by what they are: they are the same all the same.
ANY_WAY = [
    "select o.o, (select c.name from customers c where c.c = o.c) from orders o where o.o % 50 = 0 order by 1",
    "select pg_typeof(q.total), count(*) from (select c, total from orders) q join customers c using (c) group by 1",
    "select c.c, (select array_agg(i.item order by i.item) from items i join regions r on r.region = i.kind) from customers c where c.c < 3 order by 1",
    "select l.n, q.rn > 0 from lines l join (select i.item, row_number() over () rn from items i join customers c on c.region = i.kind) q on q.item = l.item order by 1, 2 limit 20",
    "select c.c, count(o.o) from customers c left join orders o using (c) group by c.c order by 1",
    "select c.c, o.o from customers c full join orders o on o.c = c.c and o.o < 20 order by 1, 2",
    "select o.o from orders o where o.c = (select c.c from customers c where c.region = 1)",
    "select o.o from orders o where o.c = (select 1 / (c.c - c.c) from customers c where c.c = 1)",
    "select o.o, (select count(*) from customers c where c.region = o.o % 5 and c.c > (select avg(c.c) from customers c)) from orders o where o.o < 9 order by 1",
    "with top as (select c, sum(total) t from orders group by c) select max(t), (select t from top where c = 4) from top where t < (select max(t) from top)",
    "select c.name, p.orders from customers c join per_customer p using (c) order by 1, 2",
    "select o.o, n.note from orders o join local_notes n using (c) order by 1, 2",
    "select o.o, c.name from orders o join customers c using (c) where c.since > now() - interval '100 years' order by 1",
    "select c.c from customers c where c.c in (select o.c from orders o group by o.c having count(*) > 14) order by 1",
    "with recursive w as (select c, 1 as n from customers where c < 4 union all select o.c, w.n + 1 from w join orders o on o.c = w.c + 1 where w.n < 3) select n, count(*) from w group by n order by 1",
    "select grouping(c.region), c.region, count(*) from orders o join customers c using (c) group by grouping sets ((), (c.region)) order by 1, 2",
    "select o.o, g from orders o join customers c using (c), generate_series(1, c.region) g where o.o < 20 order by 1, 2",
    "select c.name, o.o / 0 from orders o join customers c using (c)",
    "select o.o + c.name from orders o join customers c using (c)",
]


# Each is shuffled if that is asked for.
SHUFFLED = [
    "select c.name, count(*), sum(o.total) from orders o join customers c using (c) group by c.name order by 1",
    "select i.kind, avg(l.price), count(distinct l.o) from lines l join items i using (item) group by rollup (i.kind) order by 1",
    "select o.o, c.name from orders o left join customers c on c.c = o.c and c.region = 1 where o.o < 60 order by 1",
    "select o.c, count(*), count(c.c) from orders o left join customers c using (c) group by o.c order by 1",
    "select distinct o.c from orders o left join customers c on c.c = o.c order by 1",
    "select o.o from orders o where exists (select from customers c where c.c = o.c and c.region = o.o % 5) order by 1",
    "select count(*) from orders o where not exists (select from customers c where c.c = o.c)",
    "select o.m, o.tags, o.state, o.total, c.since from orders o join customers c using (c) where o.o < 40 order by o.o",
    "select max(o.total), min(c.name), count(*) from orders o join customers c using (c) where c.c > 1000",
    "select c.name, rank() over (order by sum(o.total) desc, c.name) from orders o join customers c using (c) group by c.name order by 2, 1",
    "select r.name, count(*) from orders o join customers c using (c) join regions r on r.region = c.region group by r.name order by 1",
    "select l.n, o.o from lines l join orders o on o.o = l.n where l.n < 50 order by 1",
    "select l.n, c.name, o.total from lines l join orders o on o.o = l.n join customers c on c.c = l.n order by 1",
    "select c.since::date, count(*) from customers c join orders o on o.at = c.since::date and o.c = c.c group by 1 order by 1",
    "select o.o, (select c.name from customers c where c.c = o.c) from orders o where o.o % 50 = 0 order by 1",
    "select o.o, x.name from orders o, lateral (select c.name from customers c where c.c = o.c order by c.since limit 1) x order by 1",
    "select c.name, count(*) from customers c join items i on i.item = c.name group by 1",
    "select c.name, i.item from customers c left join items i on i.item = c.name order by c.c limit 5 offset 2",
]
ANY_WAY += SHUFFLED
# What a left join makes NULL is no value of a domain that has none; a row is more than its columns; values that can't travel.
AT_HOME = [
    "select c.c, i.weight, i.m, count(*) from customers c left join strict i on i.c = c.c group by 1, 2, 3 order by 1",
    "select c.c, i.weight from customers c left join strict i on i.c = c.c order by 1",
    "select json_agg(c order by c.c) from customers c join orders o on o.c = c.c where c.c < 3",
    "select (c.name, o.state), count(*) from customers c join orders o on o.c = c.c group by 1 order by 1",
    "select array_agg(l.price order by l.n) from lines l join orders o on o.o = l.n",
]
# Conditions on what is computed of a column are asked of the nodes.
ANY_WAY += [
    "select o.o, c.name from orders o join customers c using (c) where lower(c.name) = 'name 3' and upper(left(c.name, 4)) = 'name' order by 1",
    "select o.o, c.name from orders o join customers c using (c) where substring(o.state from 1 for 2) in ('ne', 'x') and length(c.name) between 6 and 6 order by 1",
    "select o.o, c.name from orders o join customers c using (c) where substr(c.name, -2, 8) like 'name%' and length(o.state) <> 4 and left(c.name, -2) = 'name' order by 1",
    "select count(*) from orders o join customers c using (c) where char_length(o.state) = 1 or lower(c.name) > 'name 5'",
]
# What goes to all nodes is not read a second time where answers are put together.
ANY_WAY += [
    "select count(*) from items where kind not in (select c.region from customers c join orders o on o.c = c.c where c.region < 3)",
    "select count(*) from lines where quantity > (select avg(c.region) from customers c join orders o on o.c = c.c)",
    "select i.kind, count(*) from items i join (select c.region, count(*) n from customers c join orders o on o.c = c.c group by c.region) s on s.region = i.kind group by 1 order by 1",
    "select i.item, j.item from items i join items j on i.weight < j.weight and j.kind = 1 union all select c.name, o.state from customers c join orders o on o.c = c.c order by 1, 2",
    "select s.region, i.item from (select c.region, count(*) n from customers c join orders o on o.c = c.c group by c.region) s left join items i on i.kind = s.n % 5 order by 1, 2",
    "select x.region, y.region, x.n, y.n from (select c.region, sum(r.region) n from orders o join customers c using (c) join regions r on r.region = c.region group by 1) x "
    "join (select c.region, count(*) n from orders o join customers c using (c) join regions r on r.region = o.o % 4 group by 1) y on x.region = y.region order by 1",
]
# `herd.broadcast`, `herd.shuffle` and `herd.semijoin`.
WAYS = {
    "home": ("off", "off", "off"), "broadcast": ("on", "off", "off"), "shuffle": ("off", "on", "off"), "semijoin": ("off", "off", "on"),
    "auto": ("auto", "auto", "auto"), "all": ("on", "on", "on"),
}


def go(connection, way: str) -> None:
    for name, value in zip(("broadcast", "shuffle", "semijoin"), WAYS[way], strict=True):
        connection.execute(f"set herd.{name} = {value}")


@pytest.fixture(scope="module")
def both(oracle, herd):
    with both_made(oracle, herd, _MAKE, _PLACE, _FILL, "bc") as connections:
        yield connections


def answer(connection, sql: str, parameters=None, binary: bool = False):
    try:
        cursor = connection.cursor(binary=binary)
        rows = cursor.execute(sql, parameters).fetchall()
    except psycopg.Error as error:
        return error.sqlstate
    return [c.type_code if c.type_code < 16384 else "own" for c in cursor.description], [c.name for c in cursor.description], rows


def how(connection, sql: str) -> str:
    return next(row[0] for row in connection.execute(f"explain {sql}").fetchall() if row[0].strip().startswith("How"))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("query", OTHER_WAY + ANY_WAY)
def test_same_rows(both, query, way):
    plain, many = both
    go(many, way)
    expected = answer(plain, query)
    assert answer(many, query) == expected
    assert answer(many, query) == expected


@pytest.mark.parametrize("way", ["home", "shuffle", "semijoin", "auto"])
@pytest.mark.parametrize("query", AT_HOME)
def test_same_rows_at_home(both, query, way):
    test_same_rows(both, query, way)


@pytest.mark.parametrize("query", OTHER_WAY)
def test_explained(both, query, herd_many):
    _, many = both
    if herd_many.nodes < 2:
        pytest.skip("one node has all of it")
    go(many, "broadcast")
    assert " go to the nodes of " in how(many, query), how(many, query)
    go(many, "home")
    assert " move to home" in how(many, query)
    # So few rows may as well come home.
    go(many, "auto")
    assert " move to home" in how(many, query)


@pytest.mark.parametrize("query", SHUFFLED)
def test_shuffle_is_explained(both, query, herd_many):
    _, many = both
    if herd_many.nodes < 2:
        pytest.skip("one node has all of it")
    go(many, "shuffle")
    assert " go to nodes where equal values meet" in how(many, query), how(many, query)
    assert any(line.strip().startswith("Each node") for (line,) in many.execute(f"explain {query}").fetchall())
    go(many, "auto")
    assert " move to home" in how(many, query)


# Rows of some table come home only if they meet others'; of the last ones none may be left behind.
SEMIJOINED = [
    "select c.name, o.o from orders o join customers c on c.c = o.c where c.region = 2 order by 2, 1",
    "select o.o, l.n, c.name from orders o join lines l on l.n = o.o join customers c using (c) where c.name = 'name 3' order by 2",
    "select o.o from orders o where exists (select from customers c where c.c = o.c and c.region = o.o % 5) order by 1",
    "select o.o from orders o where o.c in (select c.c from customers c where c.region = 2) order by 1",
    "select o.o from orders o where o.c in (select c.c from customers c order by c.since desc limit 7) order by 1",
    "select o.o from orders o where o.c = 41 and o.c in (select c.c from customers c order by c.since limit 7) order by 1",
    "select o.o, (select max(c.name) from customers c where c.c = o.c) from orders o where o.o < 30 order by 1",
    "select o.o, x.n from orders o left join lateral (select count(*) n from lines l where l.n = o.c and l.o = o.o + 1) x on true where o.o < 50 order by 1",
    "select c.since::date, count(*) from customers c join orders o on o.at = c.since::date and o.c = c.c group by 1 order by 1",
    "select i.kind, s.id from items i join lines l using (item) join strict s on s.c = l.n where s.m = 2 order by 2",
    "select o.o, c.name from orders o left join customers c on c.c = o.c and c.region = 1 where o.o < 60 order by 1",
    "select a.name, o.o from (select * from customers order by since limit 5) a join orders o using (c) order by 2",
    "select o.o from (select * from orders order by total, o limit 20) o join customers c on c.c = o.c where c.region = 2 order by 1",
    "select i.item from items i where i.item in (select l.item from lines l where l.n in (select s.c from strict s where s.m = 2) and l.quantity >= "
    "(select avg(o.total) / 100 from orders o where o.c = l.n and o.o > l.o)) order by 1",
]
NOT_SEMIJOINED = [
    "select a.c, a.n from (select c, count(*) n from orders group by c) a join customers using (c) where region = 1 order by 1",
    "select o.o from orders o where o.c in (select max(c.c) from customers c group by c.region) order by 1",
    "select a.name, b.item from customers a full join items b on b.item = a.name order by 1, 2",
    "select c.name from customers c where c.c not in (select o.c from orders o where o.o < 30) order by c.c",
    "select c.name, c.c not in (select o.c from orders o where o.o < 30 and o.c is not null) from customers c order by c.c",
    "select c.c from customers c left join items i on c.c in (select o.c from orders o where o.o < 20) and i.item = c.name order by 1",
    "select c.c, o.o from customers c left join orders o on o.c is null and o.o < 100 and c.c in (select n from lines where quantity = 3) order by 1, 2",
]


@pytest.mark.parametrize("way", ["semijoin", "all", "home"])
@pytest.mark.parametrize("query", SEMIJOINED + NOT_SEMIJOINED)
def test_rows_that_meet_others(both, query, way, herd_many):
    test_same_rows(both, query, way)
    if way == "semijoin" and herd_many.nodes > 1 and query in SEMIJOINED:
        said = [line.strip() for (line,) in both[1].execute(f"explain {query}").fetchall()]
        assert any(line.startswith("Semijoin: of ") for line in said), said


PARAMETERS = [
    ("select c.name, o.o from orders o join customers c using (c) where c.region = %s and o.at < %s and o.o > %s order by 2", (2, "2024-02-10", 20)),
    ("select count(*) from orders o join customers c using (c) where c.name = any (%s) and o.total > %s", (["name 1", "name 2"], "20.5")),
    ("select o.o, c.name, o.total, c.since from orders o join customers c using (c) where c.c = %s or o.o = %s order by 1", (7, 8)),
    ("select o.o, %s::text from orders o join customers c using (c) where c.region = %s order by o.o limit %s", ("x", 1, 4)),
]


@pytest.mark.parametrize("way", ["broadcast", "shuffle", "semijoin"])
@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize(("query", "parameters"), PARAMETERS)
def test_parameters(both, query, parameters, binary, way):
    plain, many = both
    go(many, way)
    for values in (parameters, parameters):
        assert answer(many, query, values, binary) == answer(plain, query, values, binary)


@pytest.mark.parametrize("begin", ["begin", "begin isolation level repeatable read", "begin isolation level serializable"])
@pytest.mark.parametrize("snapshot", ["repeatable", "on", "off"])
@pytest.mark.parametrize("way", ["broadcast", "shuffle", "semijoin"])
def test_what_the_transaction_has_written_is_seen(both, begin, snapshot, way):
    plain, many = both
    go(many, way)
    many.execute(f"set herd.snapshot = {snapshot}")
    query = "select c.name, count(*), sum(o.total) from orders o join customers c using (c) group by c.name order by 1"
    seen = []
    for connection in (plain, many):
        connection.execute(begin)
        connection.execute("insert into customers values (900, 'new', 1, null), (901, 'newer', 1, null)")
        connection.execute("insert into orders values (9001, 900, '2024-01-01', 'new', 1), (9002, 901, '2024-01-01', 'new', 2), (9003, 900, '2024-01-01', 'new', 3)")
        connection.execute("delete from customers where c = 5")
        seen.append(answer(connection, query))
        connection.execute("rollback")
    many.execute("reset herd.snapshot")
    assert seen[0] == seen[1] and seen[0][2]


@pytest.mark.parametrize("way", ["broadcast", "shuffle", "semijoin"])
def test_nothing_is_left_of_what_planners_were_told(both, herd_many, way):
    plain, many = both
    go(many, way)
    query = "select count(*) from orders o join customers c using (c)"
    for _ in range(3):
        assert answer(many, query) == answer(plain, query)
        assert many.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        assert many.execute("show enable_nestloop").fetchone() == ("on",)
        assert many.execute("select current_setting('enable_nestloop')").fetchone() == ("on",)
    for node in herd_many.node_servers:
        with node.connect() as direct:
            assert direct.execute("select count(*) from pg_stat_activity where state like 'idle in transaction%'").fetchone() == (0,)


@pytest.mark.parametrize("way", ["broadcast", "home", "shuffle", "semijoin"])
def test_one_state_of_a_table_that_is_read_twice(both, herd, way):
    """While others change it: what a subquery adds up is what the query around it does."""
    query = "select sum(total) - (select sum(total) from orders), (select count(*) from orders) - count(*) from orders"
    stop = threading.Event()

    def change(number: int) -> None:
        with herd.connect() as connection:
            while not stop.is_set():
                connection.execute("update bc.orders set total = total + 1 where o = %s", [number])
                connection.execute("insert into bc.orders values (%s, 1, null, 'x', 5, null, 'sad')", [10_000 + number])
                connection.execute("delete from bc.orders where o = %s", [10_000 + number])

    changing = [threading.Thread(target=change, args=[number]) for number in (1, 2, 3)]
    with herd.connect() as reader:
        reader.execute("set search_path = bc")
        go(reader, way)
        for thread in changing:
            thread.start()
        try:
            seen = {reader.execute(query).fetchone() for _ in range(60)}
        finally:
            stop.set()
            for thread in changing:
                thread.join()
            with herd.connect() as connection:
                connection.execute("delete from bc.orders where o > 10000")
                connection.execute("update bc.orders set total = o % 100 + 0.5 where o < 4")
    assert seen == {(0, 0)}


_LONG = "select count(*) from orders o join customers c using (c), generate_series(1, 2000000) g where g % 7 = c.region"


def _left_on(herd_many) -> int:
    count = 0
    for node in herd_many.node_servers:
        with node.connect() as direct:
            sql = "select count(*) from pg_stat_activity where state like 'idle in transaction%' or state = 'active' and query like '%generate_series(1, 2000000)%' and pid <> pg_backend_pid()"
            count += direct.execute(sql).fetchone()[0]
    return count


@pytest.mark.parametrize("ended", ["by a cancel", "by statement_timeout"])
def test_a_shuffle_is_ended_while_nodes_answer(both, herd_many, ended):
    _, many = both
    go(many, "shuffle")
    if ended == "by a cancel":
        cancel = threading.Timer(1.5, many.cancel)
        cancel.start()
    else:
        many.execute("set statement_timeout = '1500ms'")
    with pytest.raises(psycopg.errors.QueryCanceled):
        many.execute(_LONG)
    if ended == "by a cancel":
        cancel.join()
    many.execute("reset statement_timeout")
    assert many.execute("select count(*) from customers").fetchone() == (45,)
    deadline = time.monotonic() + 60
    # The router's own work has transactions, too, for a moment.
    while (left := _left_on(herd_many)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == 0


@pytest.mark.parametrize("begin", ["begin read only", "begin; set local default_transaction_read_only = on", "begin; set local temp_buffers = 100", "begin; set local work_mem = '64kB'"])
def test_transactions_of_other_manners(both, begin):
    plain, many = both
    go(many, "shuffle")
    for query in SHUFFLED[:4]:
        for connection in (plain, many):
            connection.execute(begin)
        assert answer(many, query) == answer(plain, query)
        for connection in (plain, many):
            connection.execute("commit")


@pytest.mark.parametrize("way", ["broadcast", "shuffle"])
@pytest.mark.parametrize("setting", ["default_transaction_read_only = on", "temp_buffers = 100", "default_statistics_target = 7", "default_transaction_isolation = 'repeatable read'", "search_path = bc, pg_temp, public"])
def test_sessions_of_other_manners(both, herd, setting, way):
    plain, _ = both
    with herd.connect() as many:
        many.execute("set search_path = bc, public")
        many.execute(f"set {setting}")
        go(many, way)
        for query in [*OTHER_WAY[:6], *SHUFFLED[:3]]:
            assert answer(many, query) == answer(plain, query), query
        assert many.execute("show default_statistics_target").fetchone() == ("7" if "= 7" in setting else "100",)


@pytest.mark.parametrize("way", ["broadcast", "shuffle"])
def test_who_may_not_make_temporary_tables(both, herd_many, way):
    plain, many = both
    many.execute("create role bc_poor login")
    grants = ["grant usage on schema bc to bc_poor", "grant select on all tables in schema bc to bc_poor"]
    for sql in grants:
        many.execute(sql)
    try:
        for node in herd_many.node_servers:
            with node.connect() as direct:
                direct.execute("revoke temporary on database postgres from public")
        many.execute("set role bc_poor")
        go(many, way)
        for query in [*OTHER_WAY[:4], *SHUFFLED[:4]]:
            assert answer(many, query) == answer(plain, query)
    finally:
        many.execute("reset role")
        for node in herd_many.node_servers:
            with node.connect() as direct:
                direct.execute("grant temporary on database postgres to public")
        many.execute("revoke all on all tables in schema bc from bc_poor")
        many.execute("revoke all on schema bc from bc_poor")
        many.execute("drop role bc_poor")


def test_many_at_once(both, herd):
    """Each takes two connections to each node; there are enough, or rows come home."""
    plain, _ = both
    expected = [answer(plain, query) for query in SHUFFLED[:4]]
    failures = []

    def ask() -> None:
        with herd.connect() as connection:
            connection.execute("set search_path = bc, public")
            go(connection, "shuffle")
            failures.extend(query for _ in range(4) for query, rows in zip(SHUFFLED, expected, strict=False) if answer(connection, query) != rows)

    asking = [threading.Thread(target=ask) for _ in range(12)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    assert failures == []


@pytest.mark.parametrize("way", ["broadcast", "shuffle", "semijoin"])
def test_into_a_table_and_out_by_copy(both, way):
    plain, many = both
    go(many, way)
    many.execute("create table taken (o bigint, name text)")
    many.execute("select create_distributed_table('taken', 'o')")
    plain.execute("create table taken (o bigint, name text)")
    query = "select o.o, c.name from orders o join customers c using (c) where c.region = 2"
    for connection in (plain, many):
        assert connection.execute(f"insert into taken {query}").rowcount > 0
    assert answer(many, "select * from taken order by 1") == answer(plain, "select * from taken order by 1")
    copied = []
    for connection in (plain, many):
        with connection.cursor().copy(f"copy ({query}) to stdout") as copy:
            copied.append(sorted(bytes(row) for row in copy))
        connection.execute("drop table taken")
    assert copied[0] == copied[1]


@pytest.mark.parametrize("way", ["broadcast", "shuffle", "semijoin"])
def test_who_may_not_read_a_table_is_told(both, herd, way):
    _, many = both
    many.execute("drop role if exists bc_reader")
    many.execute("create role bc_reader login")
    many.execute("grant usage on schema bc to bc_reader")
    many.execute("grant select on bc.orders to bc_reader")
    query = "select c.name, count(*) from bc.orders o join bc.customers c using (c) group by 1 order by 1"
    try:
        many.execute("set role bc_reader")
        go(many, way)
        assert answer(many, query) == "42501"
        many.execute("reset role")
        many.execute("grant select (c, name) on bc.customers to bc_reader")
        many.execute("set role bc_reader")
        assert len(answer(many, query)[2]) > 5
        assert answer(many, query.replace("c.name", "c.since")) == "42501"
    finally:
        many.execute("reset role")
        many.execute("revoke all on all tables in schema bc from bc_reader")
        many.execute("revoke all on schema bc from bc_reader")
        many.execute("drop role bc_reader")


@pytest.mark.parametrize("setting", ["herd.broadcast", "herd.shuffle", "herd.semijoin"])
def test_setting(both, setting):
    _, many = both
    many.execute(f"set {setting} = on")
    assert many.execute(f"show {setting}").fetchone() == ("on",)
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        many.execute(f"set {setting} = sometimes")
    many.execute(f"reset {setting}")
    assert many.execute(f"show {setting}").fetchone() == ("auto",)

"""Copies of a reference table stay the same though their rows lie in another order on each node."""

import psycopg
import pytest

from harness.other_order import in_other_order

pytestmark = pytest.mark.real_herd

_MAKE = (
    "drop table if exists copied, copied_from, copied_floats",
    "create or replace function first_step(int, int) returns int immutable language sql as 'select coalesce($1, $2)'",
    "create or replace aggregate first_of_all(int) (sfunc = first_step, stype = int)",
    "create table copied (k int primary key, v int, n numeric)",
    "create table copied_from (id int primary key, a int not null unique, k int, v int)",
    "create table copied_floats (k int primary key, f float8, g float8)",
)
_FILL = (
    "insert into copied select g, g, g from generate_series(1, 20) g",
    "insert into copied_from select g, g, g % 10, g from generate_series(1, 30) g",
    "insert into copied_floats select g, 10.0 ^ (g % 19), 0 from generate_series(1, 30) g",
)
# What autovacuum may do on one node and not on another: new rows take the place of old ones there.
_HOLES = ("delete from copied where k < 10", "delete from copied_from where id < 10", "delete from copied_floats where k < 10")
_REFILL = (
    "insert into copied select g, g, g from generate_series(30, 36) g",
    "insert into copied_from select g, g, g % 10, g from generate_series(40, 46) g",
    "insert into copied_floats select g, 10.0 ^ (g % 19), 0 from generate_series(40, 46) g",
)

# What could come out differently on each copy: it is computed once.
DIFFERENT = [
    "update copied set v = q.n from (select k, row_number() over () n from copied) q where q.k = copied.k",
    "update copied set v = q.n from (select k, row_number() over (order by v % 2) n from copied) q where q.k = copied.k",
    "update copied set v = q.n from (select k, lag(v) over (partition by v % 2) n from copied) q where q.k = copied.k",
    "update copied set v = q.n from (select k, first_value(v) over w n from copied window w as (order by v % 3)) q where q.k = copied.k",
    "update copied set v = q.n from (select k, count(*) over (order by v % 3 rows unbounded preceding) n from copied) q where q.k = copied.k",
    "update copied set v = q.n from (select distinct on (v % 2) v % 2 m, k n from copied) q where q.m = copied.k % 2",
    "update copied c set v = q.id from copied_from q where q.k = c.k % 10",
    "update copied c set v = q.k from copied q where q.k <> c.k",
    "update copied c set v = q.v from (values (11, 1), (11, 2)) q(k, v) where q.k = c.k",
    "update copied c set v = q.v from unnest(array[11, 11], array[1, 2]) q(k, v) where q.k = c.k",
    "update copied c set v = f.id from copied_from q left join copied_from f on f.k = q.k where q.id = c.k",
    "delete from copied using (select k, row_number() over () n from copied) q where q.k = copied.k and q.n < 4",
    "delete from copied where k in (select k from (select k, row_number() over () n from copied) q where n < 4)",
    "update copied_floats set g = (select sum(f) from copied_floats)",
    "update copied_floats set g = (select avg(x) from (select f * 2 as x from copied_floats) q)",
    "delete from copied where k in (select k from copied_from for update skip locked)",
    "update copied set v = (array(select id from copied_from))[1]",
    "update copied set v = (array(select id from copied_from order by v % 2))[1]",
    "update copied set v = (select first_of_all(id) from copied_from)",
    "update copied c set v = q.n from (select k, generate_series(1, 2) n from copied_from where id > 20) q where q.k = c.k",
    "update copied c set v = q.n from (select k, generate_series(1, k) n from copied_from group by k) q where q.k = c.k",
    "update copied c set v = q.n from (select max(k) k, generate_series(1, 2) n from copied_from) q",
    "update copied c set v = q.v from (with copied_from as (select 11 id, g v from generate_series(1, 2) g) select id, v from copied_from) q where q.id = c.k",
    "update copied c set v = q.w from (select distinct on (id) v % 2 as id, id w from copied_from) q where q.id = c.k % 2",
    "update copied set v = q.w from (select distinct on (k) k, x w from copied_from as s(x, y, k)) q where q.k = copied.k",
    "update copied_floats set g = (select sum(round(k)) from copied_floats)",
    "update copied_floats set g = (select sum(x) from (select v x from copied union all select f from copied_floats) q)",
    "update copied_floats set g = (select sum(f) from json_to_recordset('[]') as t(f float8))",
    "merge into copied c using (select distinct on (k) k, id from copied_from) q on q.k = c.k when matched then update set v = q.id",
]
# What can't; each is PostgreSQL's answer on all copies.
ALLOWED = [
    "update copied set v = q.n from (select k, row_number() over (order by k desc) n from copied) q where q.k = copied.k",
    "update copied set v = q.n from (select k, row_number() over (partition by v % 2 order by v, k) n from copied) q where q.k = copied.k",
    "update copied set v = q.n from (select k, rank() over (order by v % 3) n from copied) q where q.k = copied.k",
    "update copied set n = q.n from (select k, sum(v) over (partition by v % 3) n from copied) q where q.k = copied.k",
    "update copied set v = q.n from (select distinct on (v % 2) v % 2 m, k n from copied order by v % 2, k) q where q.m = copied.k",
    "update copied c set v = q.id from copied_from q where q.a = c.k",
    "update copied c set v = q.id + c.v from copied_from q join copied p on p.k = q.a where q.id = c.k",
    "update copied c set v = f.id from copied_from q left join copied_from f on f.id = q.id where q.id = c.k",
    "update copied c set v = q.v from (values (11, 1), (12, 2)) q(k, v) where q.k = c.k",
    "update copied c set v = q.v from (select k, max(v) v from copied_from group by k) q where q.k = c.k % 10",
    "with q as (select k, count(*) v from copied_from group by 1) update copied c set v = q.v from q where q.k = c.k",
    "update copied c set v = q.m from (select max(v) m from copied_from) q",
    "update copied c set v = 0 from copied_from q where q.k = c.k % 10",
    "update copied c set v = c.v + 1 from copied_from q where q.k = c.k % 10 and q.v > 5",
    "delete from copied c using copied_from q where q.k = c.k % 10 and q.v > 25",
    "update copied set n = (select sum(v) + avg(n) from copied)",
    "update copied set n = (select sum(x) from (select v * 2 as x from copied) q)",
    "delete from copied where k in (select k from copied_from where id > 44 for update)",
    "update copied set v = (array(select id from copied_from order by id desc))[1]",
    "update copied set v = (array(select generate_series(1, 3)))[2]",
    "update copied c set v = q.v from (select distinct on (s.id) s.id, v from copied_from s) q where q.id = c.k",
    "update copied set n = (select sum(round(k::numeric)) from copied)",
    "insert into copied select k + 100, row_number() over () from copied",
    "insert into copied select distinct on (k) k + 100, id from copied_from where id > 20 order by k, id desc",
    "insert into copied select g, g from generate_series(11, 60) g on conflict do nothing",
]
# One row of several; which one is PostgreSQL's choice.
CHOSEN = [
    "insert into copied select k + 100, id from copied_from on conflict do nothing",
    "insert into copied select distinct on (k) k + 100, id from copied_from",
    "insert into copied_floats select 100, sum(f) from copied_floats",
]


@pytest.fixture
def made(herd, herd_many, oracle):
    oracle.run(*_MAKE, *_FILL, *_HOLES, *_REFILL)
    herd.run(*_MAKE, *(f"select create_reference_table('{t}')" for t in ("copied", "copied_from", "copied_floats")), *_FILL, *_HOLES)
    for table in ("copied", "copied_from", "copied_floats"):
        in_other_order(herd_many.node_servers[1], table)
    herd.run(*_REFILL)
    orders = [_rows(node, "copied", "") for node in herd_many.node_servers]
    assert orders[0] != orders[1] and sorted(orders[0]) == sorted(orders[1])
    yield herd_many.node_servers
    for server in (herd, oracle):
        server.run("drop table copied, copied_from, copied_floats", "drop aggregate first_of_all(int)", "drop function first_step(int, int)")


def _rows(server, table, order="order by 1"):
    with server.connect() as connection:
        return connection.execute(f"select * from {table} {order}").fetchall()


def _same_copies(nodes):
    for table in ("copied", "copied_from", "copied_floats"):
        first, second = (_rows(node, table) for node in nodes)
        assert first == second, table


def test_what_could_differ_is_computed_once(herd, made):
    for text in DIFFERENT:
        herd.run(text)
        _same_copies(made)


def test_what_can_not_is_done(herd, oracle, made):
    for text in ALLOWED:
        tags = []
        for server in (herd, oracle):
            with server.connect() as connection:
                tags.append(connection.execute(text).statusmessage)
        assert tags[0] == tags[1], text
        _same_copies(made)
        assert text.startswith("insert into copied select k +") or _rows(herd, "copied") == _rows(oracle, "copied"), text
        if text.startswith("insert into copied select k +"):
            for server in (herd, oracle):
                server.run("delete from copied where k >= 100")


def test_a_row_that_is_chosen_is_the_same_everywhere(herd, made):
    for text in CHOSEN:
        herd.run(text)
        _same_copies(made)
        herd.run("delete from copied where k >= 100")


def test_what_is_returned_is_what_was_added(herd, oracle, made):
    text = "insert into copied select g, g from generate_series(15, 22) g on conflict do nothing returning k, v"
    answers = []
    for server in (herd, oracle):
        with server.connect() as connection:
            answers.append(sorted(connection.execute(text).fetchall()))
    assert answers[0] == answers[1]
    _same_copies(made)


# Writes of a reference table inside WITH.
_IN_WITH = [
    "with c as (update copied set v = (random() * 1000)::int where k > 12 returning k, v) insert into copied_floats select k + 500, v, 0 from c",
    "with c as (insert into copied select g, g from generate_series(70, 80) g returning k) delete from copied_from where id in (select k - 40 from c)",
    "with c as (delete from copied where k < 15 returning *), d as (update copied_floats set g = f) select * from c",
]


def test_writes_in_with_reach_all_copies(herd, made):
    for text in _IN_WITH:
        herd.run(text)
        _same_copies(made)
    with herd.connect() as connection, pytest.raises(psycopg.errors.DivisionByZero):
        connection.execute("with c as (delete from copied returning k) select 1 / (k - k) from c")
    _same_copies(made)
    assert len(_rows(herd, "copied")) > 5

"""What a statement reads of reference tables is one thing for all nodes, though each has their rows in an order of its own: LIMIT,
DISTINCT ON, windows and aggregates deep inside of subqueries; and so are volatile functions in FROM."""

import psycopg
import pytest

pytestmark = pytest.mark.real_herd

# One value for all rows of a statement.
ONE_VALUE = [
    "(select f from read_r limit 1)",
    "(select * from (select f from read_r limit 1) y)",
    "(select max(f) f from (select f from read_r limit 1) y)",
    "(select f from (select distinct on (code / 100) code, f from read_r) y)",
    "(select f from read_s where code in (select code from read_r limit 1))",
    "(select max(f) f from (select f from read_r union all select f from read_r limit 1) y)",
    "((select f from read_r limit 1) union select f from read_r where false)",
    "(select f from (select f, row_number() over () n from read_r) y where n = 1)",
    "(select (array_agg(f))[1] f from read_r)",
    "(select (array(select f from read_r))[1] f)",
    "(select r.f from read_r r, lateral (select code c from read_r limit 1) z where z.c = r.code)",
    "(with w as (select f from read_r limit 1) select f from w)",
    "(select count(*) f from read_r tablesample bernoulli (50))",
]
SUBQUERIES = [
    "select count(distinct f) from (select x.f from read_d, {} x) z",
    "select count(distinct f) from (select (select max(f) from {} x) f from read_d) z",
    "update read_d set k = x.f from {} x",
    "update read_d set k = (select max(x.f) from {} x)",
    "with u as (update read_d set k = x.f from {} x returning id) select count(*) from u",
    "insert into read_d select 1000 + id, x.f from read_d, {} x where id > 0",
]
# The same with what is named in FROM.
IN_FROM = [
    "select count(distinct r) from read_d, random() r",
    "select count(distinct r) from read_d left join random() r on true",
    "select count(distinct x.n) from read_d, (select * from random() n) x",
    "select count(distinct n) from (select count(*) over (partition by d.id) n from read_d d, read_r tablesample bernoulli (50)) x",
    "update read_d set k = 1000000 * r from random() r",
    "update read_d set k = 1000000 * q.n from random() as q(n)",
    "update read_d d set k = q.n from read_d e, random() as p(m), cast(1000000 * random() as int) as q(n) where e.id = d.k and p.m < 2",
    "update read_d set k = q.n from read_call(7) q(n)",
    "merge into read_d d using read_call(7) q(n) on d.id > q.n when matched then update set k = q.n",
]


@pytest.fixture(scope="module")
def herd(herd_many):
    server = herd_many.server
    server.run(
        "drop table if exists read_d, read_r, read_s cascade",
        "create table read_d (id int primary key, k int)",
        "create table read_r (code int primary key, f int)",
        "create table read_s (code int primary key, f int)",
        "select create_distributed_table('read_d', 'id')",
        "select create_reference_table('read_r')",
        "select create_reference_table('read_s')",
        "insert into read_r select i, i * 10 from generate_series(1, 20) i",
        "insert into read_s select i, i * 10 from generate_series(1, 20) i",
        "create or replace function read_call(int) returns int language plpgsql as 'begin return $1; end'",
    )
    # As vacuum and new rows would have it after a while.
    with herd_many.node_servers[1].connect() as node:
        node.execute("set session_replication_role = replica")
        node.execute("create temp table rows_of_it as select * from public.read_r")
        node.execute("delete from public.read_r")
        node.execute("insert into public.read_r select * from rows_of_it order by code desc")
        assert node.execute("select code from public.read_r limit 1").fetchone() == (20,)
    yield server
    server.run("drop table read_d, read_r, read_s", "drop function read_call")


def _values(herd, sql: str) -> int:
    herd.run("truncate read_d", "insert into read_d select i, i from generate_series(1, 40) i")
    with herd.connect() as c:
        done = c.execute(sql)
        if sql.startswith("select"):
            return done.fetchone()[0]
        where = "id > 1000" if sql.startswith("insert") else "k > 0 and (k <> id or id = 7)"
        return c.execute(f"select count(distinct k) from read_d where {where}").fetchone()[0]


@pytest.mark.parametrize("around", SUBQUERIES)
@pytest.mark.parametrize("subquery", ONE_VALUE)
def test_what_is_chosen_among_copies_is_chosen_once(herd, around, subquery):
    assert _values(herd, around.format(subquery)) == 1


@pytest.mark.parametrize("sql", IN_FROM)
def test_what_is_computed_in_from_is_computed_once(herd, sql):
    assert _values(herd, sql) == 1


def test_what_names_a_row_is_asked_on_its_node(herd):
    """Each evaluation stands for itself."""
    with herd.connect() as c:
        plan = c.execute("explain select id, (select array_agg(code) from read_r where code = k) from read_d").fetchall()
        assert "gather" not in str(plan).lower()


def test_names_of_with_queries_in_a_key(herd):
    """A table of the same name is not read in place of a WITH query."""
    herd.run("truncate read_d", "create table read_with (v int)", "insert into read_with values (13)")
    try:
        with herd.connect() as c, pytest.raises(psycopg.errors.FeatureNotSupported):
            c.execute("with read_with as (select 5 as v) insert into read_d values ((select v from read_with), 1)")
        with herd.connect() as c:
            c.execute("with read_with as (select 5 as v) insert into read_d values (1, (select v from read_with))")
            assert c.execute("select * from read_d").fetchall() == [(1, 5)]
    finally:
        herd.run("drop table read_with")

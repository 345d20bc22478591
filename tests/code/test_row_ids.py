"""ctid where it says which rows are meant: changes in batches. Each shard has ctids of its own, so these must never meet another shard's rows."""

import psycopg
import pytest

from harness.both import both_made

pytestmark = pytest.mark.real_herd

_MAKE = (
    "drop schema if exists ri cascade", "create schema ri", "set search_path = ri, public",
    "create table one (id bigint primary key, v int, d int)", "create table two (tenant int, id bigint, v int, primary key (tenant, id))", "create table bare (id int, v int)",
)
_PLACE = ("select create_distributed_table('one', 'id')", "select create_distributed_table('two', 'tenant')", "select create_distributed_table('bare', 'id')")
_FILL = (
    "insert into one select g, g % 10, g % 40 from generate_series(1, 300) g", "insert into two select g % 20, g, g % 10 from generate_series(1, 300) g",
    "insert into bare select g, g % 10 from generate_series(1, 50) g",
)
# How many rows, and which of them, is the same.
SAME = [
    "delete from {t} where ctid in (select ctid from {t} where v = 3 order by id limit 7) returning id",
    "delete from {t} where ctid in (select ctid from {t} where v < 2) returning id",
    "delete from {t} where ctid = any (array(select ctid from {t} where v = 3 order by id desc limit 7)) returning id",
    "delete from {t} where ctid = any (select x.ctid from {t} x where x.v = 3 order by x.id limit 7 for update skip locked) returning id",
    "delete from {t} a where a.ctid = (select b.ctid from {t} b where b.v = 4 order by b.id limit 1) returning id",
    "delete from {t} using (select ctid from {t} where v = 5 order by id limit 6) d where {t}.ctid = d.ctid returning {t}.id",
    "with d as (select ctid from {t} where v = 5 order by id limit 6) delete from {t} using d where {t}.ctid = d.ctid returning {t}.id",
    "with d as (select ctid from {t} where v = 5 order by id limit 6 for update skip locked) delete from {t} t where t.ctid in (select ctid from d) returning t.id",
    "update {t} set v = 100 where ctid in (select ctid from {t} where v = 3 order by id limit 7) returning id, v",
    "update {t} x set v = y.v + 1 from {t} y where x.ctid = y.ctid and y.v = 8 returning x.id, x.v",
    "select id from {t} where ctid in (select ctid from {t} where v = 2 order by id limit 4)",
    "select a.id from {t} a join {t} b on a.ctid = b.ctid where b.v = 1",
    "select count(*) from {t} where ctid not in (select ctid from {t} where v = 2)",
    "delete from {t} a where exists (select from {t} b where b.ctid = a.ctid and b.v = 6) returning id",
]
# Places in lists of columns stay what they are; what nobody asks for may be there.
SAME += [
    "delete from {t} using (select ctid, v, id from {t} order by 2, 3 limit 5) d where {t}.ctid = d.ctid returning {t}.id",
    "delete from {t} using (select ctid, id % 7 as m, id from {t} order by 2 desc, 3 limit 5) d where {t}.ctid = d.ctid returning {t}.id",
    "with d as (select ctid, v, id from {t} order by 2 desc, 3 limit 5) update {t} set v = 99 from d where {t}.ctid = d.ctid returning {t}.id",
    "select {t}.id, d.n from {t} join (select ctid, row_number() over (order by id) n, v from {t} order by 3, 2 limit 9) d on d.ctid = {t}.ctid",
    "delete from {t} where (select ctid from {t} order by v, id limit 1) = ctid returning id",
    "delete from {t} where id in (select id from (select ctid, id, row_number() over (partition by v order by id) n from {t}) s where n > 3) returning id",
    "merge into {t} using (select ctid, v from {t} order by v, id limit 3) s on {t}.ctid = s.ctid and {t}.v = s.v when matched then delete",
]
# It says more than which row it is.
REFUSED = [
    "delete from {t} a using {t} b where a.ctid < b.ctid and a.v = b.v", "update {t} set v = 1 where ctid in (select ctid from {t} limit 3) returning ctid",
    "with d as (select ctid from {t} limit 3) delete from {t} using d where {t}.ctid = d.ctid returning d.ctid", "delete from {t} where ctid in (select max(ctid) from {t} group by v)",
    "merge into {t} using (select 1) s on {t}.ctid = '(0,1)' when matched then update set v = 999", "select ctid, count(*) from {t} group by 1", "select ctid, count(*) from {t} group by rollup (1)",
    "insert into {t} (id, v) select g, 5 from generate_series(1, 20) g on conflict do nothing returning (select count(*) from {t} x where x.ctid = '(0,1)')",
    "delete from {t} using (select ctid, v from {t} order by v limit 2) d where {t}.ctid = d.ctid returning d", "select d from (select ctid, v from {t}) d",
    "with d as (select '(0,1)'::tid as ctid) delete from {t} using d where {t}.ctid = d.ctid", "delete from {t} using (select distinct on (1) ctid, v from {t} order by 1) d where {t}.ctid = d.ctid",
    "select count(*) from (select distinct ctid, v from {t}) d", "delete from {t} using (select ctid, v from {t} order by 1 limit 3) d where {t}.ctid = d.ctid",
    "select count(*) from (select ctid, v from {t}) x join (select ctid, id from {t}) y using (ctid)", "select ctid as place, count(*) from {t} group by 1", "delete from {t} where ctid = '(0,1)'", """delete from {t} where U&"\\0063tid" = '(0,1)'""", "update {t} set v = 1 where ctid = any ('{{\"(0,1)\",\"(0,2)\"}}'::tid[])", "select id from {t} where ctid = '(0,1)'", "select count(distinct ctid) from {t}",
    "select ctid, count(*) from {t} group by ctid", "select * from (select ctid from {t}) x", "delete from {t} where ctid in (select ctid from {t}, pg_class limit 3)",
]


@pytest.fixture(scope="module")
def both(oracle, herd):
    with both_made(oracle, herd, _MAKE, _PLACE, _FILL, "ri") as connections:
        yield connections


@pytest.fixture(autouse=True)
def nothing_open(both):
    yield
    for connection in both:
        connection.execute("rollback")


@pytest.mark.parametrize("table", ["one", "two"])
@pytest.mark.parametrize("sql", SAME)
def test_same_rows(both, sql, table):
    answers = []
    for connection in both:
        connection.execute("begin")
        cursor = connection.execute(sql.format(t=table))
        rows = sorted(cursor.fetchall()) if cursor.description else [cursor.statusmessage]
        left = connection.execute(f"select count(*), sum(id), sum(v) from {table}").fetchone()
        connection.execute("rollback")
        answers.append((rows, left))
    assert answers[0] == answers[1] and answers[0][0]


@pytest.mark.parametrize("table", ["one", "two", "bare"])
@pytest.mark.parametrize("sql", REFUSED)
def test_what_needs_the_place_itself_is_refused(both, sql, table):
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        both[1].execute(sql.format(t=table))


ONE_SHARD = [
    "select id from one where id = 7 and ctid = (select ctid from one where id = 7)", "select count(*) from two where tenant = 3 and ctid <> '(0,1)' and ctid >= '(0,0)'",
    "delete from two a using two b where a.tenant = 3 and b.tenant = 3 and a.ctid < b.ctid and a.v = b.v returning 1",
    "select id from bare where id = 5 and ctid in (select ctid from bare where id = 5)", "select length(ctid::text) > 2 from one where id = 7",
]


@pytest.mark.parametrize("sql", ONE_SHARD)
def test_of_one_key_value_it_may_say_anything(both, sql):
    answers = []
    for connection in both:
        connection.execute("begin")
        answers.append(connection.execute(sql).fetchall())
    assert len(answers[0]) == len(answers[1]) > 0


def test_of_a_conflict_it_is_refused(both):
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="ctid"):
        both[1].execute("insert into one (id, v) select g, 5 from generate_series(1, 20) g on conflict (id) do update set v = 4242 where one.ctid = '(0,1)'")


def test_it_is_shown(both):
    for shown in ("ctid, id", "ctid as place, id", "ctid::text, id", "id, ctid::text::varchar as place"):
        assert len(both[1].execute(f"select {shown} from one").fetchall()) == 300


def test_without_a_key_it_is_refused(both):
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="primary key"):
        both[1].execute("delete from bare where ctid in (select ctid from bare limit 3)")

"""RETURNING of rows that go to several nodes comes in the order in which the rows came, as from one server: clients put keys and rows together by it."""

import psycopg
import pytest

pytestmark = pytest.mark.real_herd

_MAKE = (
    "drop schema if exists ro cascade", "create schema ro", "create table ro.t (id bigserial primary key, v text, n int unique)",
    "create table ro.s (id int primary key, v text)", "create table ro.skips (id int primary key, v int)",
    "create function ro.skip() returns trigger language plpgsql as $$ begin if new.v % 7 = 0 then return null; end if; return new; end $$",
)
_PLACE = (
    "select create_distributed_table('ro.s', 'id')", "select create_distributed_table('ro.skips', 'id')",
    "create trigger skip before insert on ro.skips for each row execute function ro.skip()",
)
ORDERED = [
    "insert into ro.t (v) select * from unnest(array(select 'v' || g from generate_series(1, 500) g)) returning v, id > 0",
    "insert into ro.t (v) select 'g' || g from generate_series(1, 5000) g returning v",
    "insert into ro.t (id, v) select g, 'd' || g from generate_series(90300, 90000, -1) g returning id, v",
    "insert into ro.t (id, v) select * from (values (80001, 'a'), (80007, 'b'), (80002, 'c'), (80003, 'd'), (80009, 'e')) x returning id, v",
    "insert into ro.t (id, v) select id + 70000, v from ro.s order by v desc, id returning id, v",
    "insert into ro.t (id, v) select g, 'u' from generate_series(60300, 60001, -3) g on conflict (id) do update set v = excluded.v returning id",
    "with x as (insert into ro.t (id, v) select g, 'w' || g from generate_series(50100, 50001, -1) g returning id, v) select * from x",
]
# Not each row has become one: which are there is the same.
SOME = [
    "insert into ro.t (id, v) select g, 'z' from generate_series(90200, 90400) g on conflict do nothing returning id",
    "insert into ro.skips select g, g from generate_series(1, 200) g returning id",
]


@pytest.fixture(scope="module")
def both(oracle, herd):
    with oracle.connect() as plain, herd.connect() as many:
        for connection in (plain, many):
            for sql in _MAKE:
                connection.execute(sql)
        many.execute("alter table ro.t drop constraint t_n_key")
        many.execute("select create_distributed_table('ro.t', 'id')")
        for sql in _PLACE:
            many.execute(sql)
        plain.execute(_PLACE[-1])
        for connection in (plain, many):
            connection.execute("insert into ro.s select g, 's' || g % 10 from generate_series(1, 200) g")
        yield plain, many
        for connection in (plain, many):
            connection.execute("drop schema ro cascade")


@pytest.mark.parametrize("begin", [False, True])
@pytest.mark.parametrize("sql", ORDERED)
def test_in_the_order_of_rows(both, sql, begin):
    answers = []
    for connection in both:
        connection.execute("begin")
        if begin:
            connection.execute("insert into ro.s values (100000, 'before')")
        answers.append(connection.execute(sql).fetchall())
        connection.execute("rollback")
    assert answers[0] == answers[1] and len(answers[0]) > 4


@pytest.mark.parametrize("sql", SOME)
def test_those_that_became_rows(both, sql):
    answers = []
    for connection in both:
        connection.execute("begin")
        connection.execute("insert into ro.t (id, v) values (90210, 'there'), (90377, 'there')")
        answers.append(sorted(connection.execute(sql).fetchall()))
        connection.execute("rollback")
    assert answers[0] == answers[1] and len(answers[0]) > 4


def test_what_partitions_do_not_tell_is_refused(both, herd_many):
    many = both[1]
    upsert = "insert into ro.s (id, v) values {} on conflict (id) do update set v = excluded.v returning id, (xmax = 0) as is_new"
    assert [row[1] for row in many.execute(upsert.format("(5, 'x')")).fetchall()] == [False]
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="system columns") as e:
        many.execute(upsert.format("(5, 'x'), (900001, 'y')"))
    assert "row by row" in e.value.diag.message_hint
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="system columns"):
        many.execute("insert into ro.s (id, v) select g, 'x' from generate_series(900001, 900003) g returning xmin")

"""Cursors over several nodes: in READ ONLY transactions, for roles that may make no temporary table, beside writes, large ones."""

import psycopg
import pytest

COUNT = 60


@pytest.fixture(scope="module")
def filled(herd, oracle):
    for server in (herd, oracle):
        server.run("drop table if exists held", "create table held (k int primary key, v varchar(20), a int[], n numeric(8,2), j jsonb)")
        if server is herd:
            server.run("select create_distributed_table('held', 'k')")
        server.run(
            f"insert into held select g, case when g % 7 > 0 then 'v' || g end, array[g, null, g + 1], g / 3.0, jsonb_build_object('g', g) from generate_series(1, {COUNT}) g",
            "drop role if exists held_reader", "create role held_reader login",
            "revoke temporary on database postgres from public", "grant select on held to held_reader",
        )
    yield
    for server in (herd, oracle):
        server.run("grant temporary on database postgres to public", "drop table held", "drop role held_reader")


FETCHES = ("fetch 3 from c", "fetch absolute 10 from c", "fetch backward 2 from c", "fetch last from c", "fetch 1 from c", "fetch first from c",
           "fetch relative 5 from c", "move forward 4 in c", "fetch next from c", "fetch absolute -2 from c", "fetch backward all from c")


def _fetched(connection, declare, begin):
    connection.execute(begin)
    connection.execute(declare)
    said = []
    for sql in FETCHES:
        done = connection.execute(sql)
        columns = [(c.name, c.type_code, c.internal_size) for c in done.description] if done.description else None
        said.append((done.statusmessage, columns, done.fetchall() if done.description else None))
    connection.execute("commit")
    return said


@pytest.mark.parametrize("begin", ["begin", "begin read only", "begin isolation level repeatable read read only"])
@pytest.mark.parametrize("declare", [
    "declare c scroll cursor for select * from held order by k",
    "declare c scroll cursor for select k, v as \"a name\", 1.5 as n, null as nothing from held where k > 5 order by k",
    "declare c scroll cursor for select * from held where false",
    "declare c scroll cursor for select v is null as missing, count(*), sum(n) from held group by 1 order by 1",
])
def test_they_need_no_table(filled, herd, oracle, begin, declare):
    told = []
    for server in (herd, oracle):
        with server.connect(prepare_threshold=None) as connection:
            told.append(_fetched(connection, declare, begin))
    assert told[0] == told[1]


def test_nor_the_right_to_make_one(filled, herd, oracle):
    told = []
    for server in (herd, oracle):
        with psycopg.connect(server.conninfo.replace("user=postgres", "user=held_reader"), autocommit=True, prepare_threshold=None) as connection:
            told.append(_fetched(connection, "declare c scroll cursor for select * from held order by k", "begin"))
    assert told[0] == told[1]


def test_nor_do_they_keep_others_from_committing(filled, herd):
    """A transaction that has touched a temporary table can't be prepared."""
    with herd.connect(prepare_threshold=None) as connection:
        connection.execute("begin")
        connection.execute("declare c cursor for select k from held order by k")
        assert connection.execute("fetch 2 from c").fetchall() == [(1,), (2,)]
        connection.execute("update held set v = 'w'")
        connection.execute("update held set v = case when k % 7 > 0 then 'v' || k end")
        connection.execute("commit")


@pytest.mark.parametrize("begin", ["begin", "begin read only"])
def test_large_ones(filled, herd, oracle, begin):
    sql = "declare c scroll cursor for select k, repeat(k::text, 200000 / length(k::text)) as t from held order by k"
    for server in (herd, oracle):
        with server.connect(prepare_threshold=None) as connection:
            connection.execute(begin)
            connection.execute(sql)
            rows = connection.execute("fetch 5 from c").fetchall() + connection.execute("fetch last from c").fetchall()
            assert [k for k, _ in rows] == [1, 2, 3, 4, 5, COUNT]
            assert all(len(t) == 200000 // len(str(k)) * len(str(k)) for k, t in rows)
            connection.execute("commit")

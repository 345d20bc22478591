"""Copies of reference tables without a key take over what home has done: their rows stay alike, those that occur several times, too."""

import threading

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(400)]

_MAKE = [
    "create schema img",
    "create table img.bare (id int, v int, w text, f float8, j json, n numeric, g int generated always as (v * 2) stored)",
    "create table img.d (id int primary key, k int, x text)",
]
_FILL = [
    """insert into img.bare select i % 5, i % 3, case when i % 4 > 0 then 'w' || i % 3 end, i / 4.0, ('{"a":' || i % 2 || '}')::json, 1.50
         from generate_series(1, 40) i""",
    "insert into img.bare select id, v, w, f, j, n from img.bare where id < 3",
    "insert into img.d select i, i % 4, 'x' || i from generate_series(1, 20) i",
]
_CHANGES = [
    "update img.bare b set v = d.k + 100 from img.d d where d.id = b.id and b.v = 1",
    "update img.bare b set v = b.v + 1, w = d.x from img.d d where d.id = b.id returning b.id, b.v, b.w, b.g, d.k",
    "update img.bare b set f = '-0', n = 2.0 from img.d d where d.id = b.id and b.id = 3",
    "update img.bare b set n = 2.00 from img.d d where d.id = b.id and b.id = 3 returning n, f",
    "delete from img.bare where id in (select k from img.d where id < 3) returning id, w",
    "delete from img.bare b using img.d d where d.k = b.id and b.w is null",
    """merge into img.bare b using img.d d on b.id = d.id when matched and d.k = 1 then delete when matched then update set v = d.k * 3, w = 'm'
         when not matched and d.id > 18 then insert (id, v, w) values (d.id, d.k, d.x)""",
    "update img.bare b set v = (select max(k) from img.d)",
]


def _rows(server) -> list[str]:
    with server.connect() as c:
        return sorted(row for (row,) in c.execute("select b::text from img.bare b"))


@pytest.fixture
def made(herd_many, oracle):
    with oracle.connect(autocommit=True) as plain, herd_many.server.connect(autocommit=True) as many:
        for c in (plain, many):
            for sql in _MAKE:
                c.execute(sql)
        many.execute("select create_reference_table('img.bare')")
        many.execute("select create_distributed_table('img.d', 'id')")
        for c in (plain, many):
            for sql in _FILL:
                c.execute(sql)
        yield plain, many
        for c in (plain, many):
            c.execute("drop schema img cascade")


def test_all_copies_do_what_one_server_does(made, herd_many, oracle):
    plain, many = made
    for sql in _CHANGES:
        ours, theirs = many.execute(sql), plain.execute(sql)
        assert ours.statusmessage == theirs.statusmessage, sql
        if theirs.description:
            assert sorted(ours.fetchall()) == sorted(theirs.fetchall()), sql
        expected = _rows(oracle)
        for node in herd_many.node_servers:
            assert _rows(node) == expected, (node.name, sql)


def test_copies_stay_alike_while_many_change_them(made, herd_many):
    def change(start: int) -> None:
        with herd_many.server.connect(autocommit=True) as c:
            for i in range(40):
                try:
                    c.execute("update img.bare b set v = b.v + 1 from img.d d where d.id = b.id and d.id = %s", ((i + start) % 5,))
                except (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure):
                    pass

    threads = [threading.Thread(target=change, args=(n,)) for n in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    copies = [_rows(node) for node in herd_many.node_servers]
    assert all(copy == copies[0] for copy in copies[1:]) and len(copies[0]) > 40

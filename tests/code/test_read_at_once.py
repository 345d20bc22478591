"""Copies of a reference table stay the same where its changes read rows that others change at the same moment.

What others commit one node has a moment before another. Writers move values between rows of what is read, so that every
commit changes what a statement makes of them, while others run such statements; then the copies are compared."""

import itertools
import random
import threading
import time

import psycopg
import pytest

pytestmark = pytest.mark.real_herd

ROWS = 24
SECONDS = 3
_MAKE = (
    "drop schema if exists at_once cascade",
    "create schema at_once",
    "set search_path = at_once",
    "create table src (id int primary key, n int not null)",
    "create table t (id int primary key, v bigint, w text)",
    "create table u (a int, b text, v bigint, c int generated always as (a * 2) stored, unique (b, a))",
    "alter table u alter a set not null, alter b set not null",
    "select create_reference_table('src')",
    "select create_reference_table('t')",
    "select create_reference_table('u')",
    "create function summed() returns bigint language sql immutable as 'select sum(n * id) from at_once.src'",
    f"insert into src select g, g from generate_series(1, {ROWS}) g",
    f"insert into t select g, 0, 'x' from generate_series(1, {ROWS}) g",
    f"insert into u (a, b, v) select g, 'k''\"' || g, 0 from generate_series(1, {ROWS}) g",
)
# Each is one string: most are one statement, some are a block or several.
STATEMENTS = {
    "UPDATE … FROM": "update t set v = s.n from src s where s.id = t.id",
    "in SET": "update t set v = (select sum(n * id) from src) where id = {row}",
    "in WHERE": "update u set v = v + 1 where a in (select id from src where n % 2 = 0)",
    "two columns": "update u as x set (v) = (select x.v + max(n) from src where id <= x.a) where exists (select from src where n % 3 = 0)",
    "DELETE … USING": "delete from t using src s where s.id = t.id and s.n % 5 = 0",
    "ON CONFLICT of a SELECT": "insert into t select id, n, 'y' from src where n % 3 > 0 on conflict (id) do update set v = excluded.v, w = 'z'",
    "ON CONFLICT … SET": "insert into t values ({row}, 0) on conflict (id) do update set v = (select sum(n * id) from src)",
    "code": "update t set v = at_once.summed() where id = {row}",
    "MERGE": "merge into t using src s on s.id = t.id when matched and s.n % 4 = 0 then delete when matched then update set v = s.n "
    "when not matched and s.n % 2 = 0 then insert values (s.id, s.n, 'm')",
    "a block": "begin; update t set v = (select sum(n * id) from src) where id = {row}; update u set v = (select sum(n * id) from src); commit",
    "a string": "update t set v = s.n from src s where s.id = t.id; delete from u using src s where s.id = u.a and s.n % 7 = 0; "
    "insert into u (a, b, v) select id, 'k''\"' || id, n from src on conflict (b, a) do update set v = excluded.v",
    "with parameters": None,
}


def _set_up(herd):
    with herd.server.connect() as connection:
        for sql in _MAKE:
            connection.execute(sql)


def _writer(herd, seed, until, failures):
    """Moves values between rows: their number and their sum stay what they are, or the rows themselves come and go."""
    rnd = random.Random(seed)
    with herd.server.connect() as connection:
        connection.execute("set search_path = at_once")
        while time.monotonic() < until:
            one, other = rnd.sample(range(1, ROWS + 1), 2)
            try:
                connection.execute(
                    f"begin; update src set n = n + 1 where id = {min(one, other)}; update src set n = n - 1 where id = {max(one, other)}; commit"
                )
                if rnd.random() < 0.3:
                    connection.execute(
                        f"begin; delete from src where id = {one}; insert into src values ({one}, {rnd.randrange(100)}); commit"
                    )
            except (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure, psycopg.errors.UniqueViolation):
                connection.execute("rollback")
            except psycopg.Error as e:
                failures.append(e)
                return


def _reader(herd, seed, name, until, failures, done):
    rnd = random.Random(seed)
    text = STATEMENTS[name]
    with herd.server.connect() as connection:
        connection.execute("set search_path = at_once")
        # On a slow machine until it was done once; by then nobody else writes.
        while time.monotonic() < until or not done and time.monotonic() < until + 60:
            try:
                if text is None:
                    row = rnd.randrange(ROWS) + 1
                    connection.execute(
                        "update t set v = s.n + %s from src s where s.id = t.id and s.id >= %s returning t.id, s.n", (row, row)
                    )
                else:
                    connection.execute(text.format(row=rnd.randrange(ROWS) + 1))
                done.append(name)
            except psycopg.errors.DeadlockDetected:
                connection.execute("rollback")
            except psycopg.errors.UniqueViolation:
                # So it is in PostgreSQL: two insert the row that neither has found.
                assert name == "MERGE"
            except psycopg.Error as e:
                failures.append((name, e))
                return


def _copies(herd, table):
    copies = []
    for node in herd.node_servers:
        with node.connect() as connection:
            copies.append(connection.execute(f"select * from at_once.{table} order by 1, 2").fetchall())
    return copies


@pytest.mark.parametrize("name", list(STATEMENTS))
def test_copies_stay_the_same(code_herd, name):
    _set_up(code_herd)
    until, failures, done = time.monotonic() + SECONDS, [], []
    seeds = itertools.count(1)
    threads = [threading.Thread(target=_writer, args=(code_herd, next(seeds), until, failures)) for _ in range(3)]
    threads += [threading.Thread(target=_reader, args=(code_herd, next(seeds), name, until, failures, done)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for table in ("src", "t", "u"):
        copies = _copies(code_herd, table)
        assert all(copy == copies[0] for copy in copies), (name, table, len(done))
    assert not failures, failures
    assert done
    print(name, len(done))

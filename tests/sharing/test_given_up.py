"""Statements that wait with those of others and are cancelled: their clients are told at once, and nothing happens afterwards.

And what functions say of the transaction is said of each client's own.
"""

import asyncio
import threading
import time

import asyncpg
import psycopg
import pytest

WAITERS = 6


@pytest.fixture(scope="module")
def tables(sharing):
    sharing.server.run(
        "CREATE TABLE given (id int PRIMARY KEY, n int NOT NULL, tx bigint)",
        "SELECT create_distributed_table('given', 'id')",
        "INSERT INTO given SELECT g, 0 FROM generate_series(1, 100) g",
        "CREATE TABLE numbered (id int PRIMARY KEY, tx bigint DEFAULT txid_current())",
        "SELECT create_distributed_table('numbered', 'id')",
    )
    return sharing


HELD = {
    "update": ("UPDATE given SET n = 1 WHERE id = 2", "UPDATE given SET n = n + 10 WHERE id = 2"),
    "delete": ("UPDATE given SET n = 1 WHERE id = 3", "DELETE FROM given WHERE id = 3"),
    "insert": ("INSERT INTO given VALUES (777, 1)", "INSERT INTO given (id, n) VALUES (777, 1)"),
}


@pytest.mark.parametrize("how", ["cancelled", "terminated"])
@pytest.mark.parametrize("what", HELD)
def test_what_waits_can_be_given_up(tables, what, how):
    hold, sql = HELD[what]
    tables.server.run(
        "DELETE FROM given WHERE id IN (2, 3, 777)", "INSERT INTO given (id, n) VALUES (2, 0)", "INSERT INTO given (id, n) VALUES (3, 0)"
    )
    out, connections = [None] * WAITERS, [tables.server.connect() for _ in range(WAITERS)]

    def waiter(n):
        try:
            out[n] = connections[n].execute(sql).statusmessage
        except psycopg.Error as error:
            out[n] = error.sqlstate

    threads = [threading.Thread(target=waiter, args=(n,)) for n in range(WAITERS)]
    with tables.server.connect(autocommit=False) as holder, tables.server.connect() as control:
        holder.execute(hold)
        try:
            for thread in threads:
                thread.start()
                time.sleep(0.05)
            time.sleep(1)
            assert out == [None] * WAITERS
            for connection in connections:
                if how == "cancelled":
                    connection.cancel()
                else:
                    control.execute("SELECT pg_terminate_backend(%s)", (connection.info.backend_pid,))
            begun = time.monotonic()
            while None in out and time.monotonic() < begun + 30:
                time.sleep(0.02)
            told = list(out)
        finally:
            holder.rollback()
            for thread in threads:
                thread.join()
        stored = control.execute("SELECT id, n FROM given WHERE id IN (2, 3, 777) ORDER BY id").fetchall()
    assert told == ["57014" if how == "cancelled" else "57P01"] * WAITERS
    assert stored == [(2, 0), (3, 0)]
    for connection in connections:
        if how == "cancelled":
            assert connection.execute("SELECT n FROM given WHERE id = 2").fetchone() == (0,)
        connection.close()


def test_time_is_counted_from_the_beginning(tables):
    """`statement_timeout` is that of a statement and not of each of its attempts."""
    hold, sql = HELD["update"]

    async def run():
        holder = await asyncpg.connect(tables.server.url)
        await holder.execute("BEGIN")
        await holder.execute(hold)
        clients = [await asyncpg.connect(tables.server.url) for _ in range(WAITERS)]

        async def one(client, n):
            await client.execute("SET statement_timeout = '2s'")
            await asyncio.sleep(n * 0.05)
            begun = time.monotonic()
            with pytest.raises(asyncpg.QueryCanceledError):
                await client.execute(sql)
            return time.monotonic() - begun

        took = await asyncio.gather(*(one(client, n) for n, client in enumerate(clients)))
        await holder.execute("ROLLBACK")
        for client in [holder, *clients]:
            await client.close()
        return took

    took = asyncio.run(run())
    # Counted anew for an attempt that begins late it would be nearly twice as much.
    assert all(1.95 < t < 3.6 for t in took), took


def test_each_has_a_transaction_of_its_own(tables):
    asked = {
        "SELECT current_setting('lock_timeout') FROM given WHERE id = 7": lambda values: set(values) == {"0"},
        "SELECT txid_current() FROM given WHERE id = 7": lambda values: len(set(values)) == len(values),
        "SELECT pg_current_xact_id()::text FROM given WHERE id = 7": lambda values: len(set(values)) == len(values),
        "UPDATE given SET tx = txid_current() WHERE id = 8 RETURNING tx": lambda values: len(set(values)) == len(values),
    }

    async def client(sql):
        connection = await asyncpg.connect(tables.server.url)
        values = [row[0] for _ in range(20) for row in await connection.fetch(sql)]
        await connection.close()
        return values

    async def run(sql):
        return [v for values in await asyncio.gather(*(client(sql) for _ in range(24))) for v in values]

    for sql, good in asked.items():
        assert good(asyncio.run(run(sql))), sql


def test_defaults_that_speak_of_the_transaction(tables):
    async def client(n):
        connection = await asyncpg.connect(tables.server.url)
        for i in range(20):
            await connection.execute(f"INSERT INTO numbered (id) VALUES ({n * 100 + i})")
        await connection.close()

    async def run():
        await asyncio.gather(*(client(n) for n in range(24)))

    asyncio.run(run())
    # Of one node: each counts for itself.
    for node in tables.herd.node_servers:
        with node.connect() as connection:
            rows, numbers = connection.execute("SELECT count(*), count(DISTINCT xmin::text) FROM numbered").fetchone()
            assert rows == numbers

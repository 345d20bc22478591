"""INSERTs of rows of many clients at once: they travel together, into all kinds of tables, and none of them can tell.

A statement's rows are all there or none of them, also when the router is killed; a faulty row costs its own statement.
"""

import asyncio
import datetime
import os
import random
import signal
import struct
import threading
import time
import uuid
from decimal import Decimal

import asyncpg
import pytest

from .test_shared_lanes import FAULTS, connect, literal, row

CLIENTS = 32
EACH = 40

UTC = datetime.timezone.utc


@pytest.fixture(scope="module")
def tables(sharing):
    sharing.server.run(
        "CREATE TABLE kinds (id int PRIMARY KEY, name text)",
        "SELECT create_reference_table('kinds')",
        "INSERT INTO kinds SELECT g, 'kind ' || g FROM generate_series(1, 10) g",
        "CREATE TABLE things (id bigint PRIMARY KEY, kind int NOT NULL REFERENCES kinds, weight numeric(10,2) CHECK (weight > 0),"
        " label varchar(20), made timestamptz DEFAULT now())",
        "SELECT create_distributed_table('things', 'id')",
        "INSERT INTO things VALUES (0, 1, 1, 'the first')",
        "CREATE TABLE events (id bigserial PRIMARY KEY, client int, i int, at timestamptz NOT NULL DEFAULT now())",
        "SELECT create_distributed_table('events', 'id')",
        "CREATE TABLE days (day date NOT NULL, n bigint, t text)",
        "SELECT create_distributed_table('days', 'day', strategy => 'range',"
        " bounds => ARRAY['FROM (MINVALUE) TO (''2024-01-01'')', 'FROM (''2024-01-01'') TO (''2025-01-01'')',"
        " 'FROM (''2025-01-01'') TO (MAXVALUE)'])",
        "CREATE TABLE regions (region text, n bigint)",
        "SELECT create_distributed_table('regions', 'region', strategy => 'list',"
        " bounds => ARRAY['IN (''north'', ''east'')', 'IN (''south'', ''west'')', 'DEFAULT'])",
        "CREATE TABLE everything (id int8 PRIMARY KEY, small int2, middle int4, real float4, double float8, yes bool, t text,"
        " v varchar(40), c char(8), b bytea, j json, jb jsonb, d date, ts timestamp, tz timestamptz, u uuid, num numeric(20,4))",
        "SELECT create_distributed_table('everything', 'id')",
    )
    return sharing


async def insert_simple(connection, rows):
    def one(values):
        key, kind, weight, label = values
        return f"({key}, {'NULL' if kind is None else kind}, {weight}, {literal(label)})"

    return await connection.execute(f"INSERT INTO things (id, kind, weight, label) VALUES {', '.join(map(one, rows))}")


async def insert_prepared(connection, rows):
    places = ", ".join(f"(${4 * i + 1}, ${4 * i + 2}, ${4 * i + 3}::numeric, ${4 * i + 4})" for i in range(len(rows)))
    values = [Decimal(v) if i == 2 else v for values in rows for i, v in enumerate(values)]
    return await connection.execute(f"INSERT INTO things (id, kind, weight, label) VALUES {places}", *values)


async def insert_short(connection, rows):
    """Parameters that are all of kinds the router turns into text."""
    places = ", ".join(f"(${3 * i + 1}, ${3 * i + 2}, 1.5, ${3 * i + 3})" for i in range(len(rows)))
    values = [v for values in rows for i, v in enumerate(values) if i != 2]
    return await connection.execute(f"INSERT INTO things (id, kind, weight, label) VALUES {places}", *values)


WAYS = {"literals": insert_simple, "parameters": insert_prepared, "plain parameters": insert_short}


@pytest.mark.parametrize("way", WAYS)
def test_a_faulty_row_costs_its_own_statement(tables, way):
    insert = WAYS[way]
    before = tables.shared()
    base = 1_000_000 * (1 + list(WAYS).index(way))
    chance = random.Random(11)
    faults = [f for f in FAULTS if insert is not insert_short or f not in ("check", "out of range")]

    def statement(c, i):
        first = base + (c * EACH + i) * 10
        rows = [(first + n, None) for n in range(chance.randint(1, 6))]
        if chance.random() < 0.03:
            at = chance.randrange(len(rows))
            rows[at] = (rows[at][0], chance.choice(faults))
        return rows

    plans = [[statement(c, i) for i in range(EACH)] for c in range(CLIENTS)]

    async def client(plan):
        connection = await connect(tables.server)
        wrong = []
        for keys in plan:
            fault = next((f for _, f in keys if f), None)
            try:
                tag = await insert(connection, [row(key, f) for key, f in keys])
                if fault or tag != f"INSERT 0 {len(keys)}":
                    wrong.append((keys, tag))
            except asyncpg.PostgresError as error:
                if not fault or error.sqlstate != FAULTS[fault]:
                    wrong.append((keys, error.sqlstate, str(error)))
                elif "herd_shards" in str(error) or "things_" in (error.table_name or ""):
                    wrong.append((keys, "a partition's name", str(error)))
        await connection.close()
        return wrong

    async def run():
        return [w for found in await asyncio.gather(*(client(p) for p in plans)) for w in found]

    assert asyncio.run(run()) == []
    good = [key for plan in plans for keys in plan if not any(f for _, f in keys) for key, _ in keys]
    with tables.server.connect() as connection:
        stored = connection.execute(
            "SELECT id, kind, weight::text, label, made > now() - interval '10 minutes' FROM things"
            " WHERE id BETWEEN %s AND %s ORDER BY id",
            (base, base + 999_999),
        ).fetchall()
    assert [r[0] for r in stored] == sorted(good)
    assert all(r == (*row(r[0], None), True) for r in stored)
    after = tables.shared()
    assert after["statements"] > before["statements"], "nothing was shared: this test has shown nothing"


def test_keys_from_a_sequence(tables):
    before = tables.shared()

    async def client(c):
        connection = await connect(tables.server)
        for i in range(EACH):
            if i % 2:
                tag = await connection.execute("INSERT INTO events (client, i) VALUES ($1, $2)", c, i)
                assert tag == "INSERT 0 1"
            else:
                tag = await connection.execute(f"INSERT INTO events (client, i) VALUES ({c}, {i}), ({c}, {-i})")
                assert tag == "INSERT 0 2"
        await connection.close()

    async def run():
        await asyncio.gather(*(client(c) for c in range(CLIENTS)))

    asyncio.run(run())
    with tables.server.connect() as connection:
        counted = connection.execute(
            "SELECT count(*), count(DISTINCT id), count(DISTINCT (client, i)), min(id) > 0, max(at) <= clock_timestamp() FROM events"
        ).fetchone()
        # 0 and −0 are the same.
        assert counted == (CLIENTS * EACH * 3 // 2, CLIENTS * EACH * 3 // 2, CLIENTS * (EACH * 3 // 2 - 1), True, True)
        # No value is used twice afterwards, either.
        connection.execute("INSERT INTO events (client, i) VALUES (-1, 0)")
    assert tables.shared()["statements"] > before["statements"]


def test_reference_range_and_list_tables(tables):
    before = tables.shared()
    base = 1000

    async def client(c):
        connection = await connect(tables.server)
        for i in range(EACH):
            n = c * EACH + i
            assert await connection.execute(f"INSERT INTO kinds VALUES ({base + n}, 'it''s\t{n}\\')") == "INSERT 0 1"
            day = datetime.date(2023, 1, 1) + datetime.timedelta(days=n)
            tag = await connection.execute(
                "INSERT INTO days VALUES ($1, $2, 'x'), ($3, $4, NULL)", day, n, day + datetime.timedelta(days=365), n
            )
            assert tag == "INSERT 0 2"
            tag = await connection.execute(f"INSERT INTO regions VALUES ('north', {n}), ('west', {n}), (NULL, {n}), ('?', {n})")
            assert tag == "INSERT 0 4"
        await connection.close()

    async def run():
        await asyncio.gather(*(client(c) for c in range(CLIENTS)))

    asyncio.run(run())
    total = CLIENTS * EACH
    with tables.server.connect() as connection:
        assert connection.execute("SELECT count(*), count(DISTINCT n) FROM days").fetchone() == (2 * total, total)
        regions = "SELECT region, count(*), count(DISTINCT n) FROM regions GROUP BY region ORDER BY region NULLS FIRST"
        assert connection.execute(regions).fetchall() == [(r, total, total) for r in (None, "?", "north", "west")]
    for node in tables.herd.node_servers:
        with node.connect() as connection:
            kinds = f"SELECT count(*), bool_and(name = 'it''s' || E'\\t' || (id - {base}) || E'\\\\') FROM kinds WHERE id >= {base}"
            assert connection.execute(kinds).fetchone() == (total, True)
    assert tables.shared()["statements"] > before["statements"]


def test_values_of_every_kind_arrive_as_they_were(tables):
    chance = random.Random(3)
    characters = "aé\u20ac\U0001f600 \t\n\r\\'\"\\N{}"

    def text(n):
        return "".join(chance.choice(characters) for _ in range(chance.randint(0, n)))

    def values(key):
        moment = datetime.datetime(1999, 12, 31, 23, 59, 59, 999_999) + datetime.timedelta(microseconds=chance.getrandbits(50))
        return (
            key, chance.choice([-32768, 0, 32767]), chance.randint(-(2**31), 2**31 - 1),
            chance.choice([0.0, -1.5, 3.0e38, float("inf")]), chance.choice([1e-300, 0.1, -1e300, float("-inf")]),
            chance.random() < 0.5, text(20), text(9), text(3).strip() or None, chance.randbytes(8),
            '{"a": [1, "\\\\"]}', '{"b": null}', moment.date(), moment, moment.replace(tzinfo=UTC), uuid.UUID(int=chance.getrandbits(128)),
        )  # fmt: skip

    plans = [[[values(c * 1000 + i * 2 + n) for n in range(2)] for i in range(20)] for c in range(CLIENTS)]
    columns = "id, small, middle, real, double, yes, t, v, c, b, j, jb, d, ts, tz, u"
    width = columns.count(",") + 1
    one = "(" + ", ".join(f"${n}" for n in range(1, width + 1)) + ")"
    two = one + ", (" + ", ".join(f"${n}" for n in range(width + 1, 2 * width + 1)) + ")"
    before = tables.shared()

    async def client(plan):
        connection = await connect(tables.server)
        for rows in plan:
            sql = f"INSERT INTO everything ({columns}) VALUES {two}"
            assert await connection.execute(sql, *rows[0], *rows[1]) == "INSERT 0 2"
        await connection.close()

    async def run():
        await asyncio.gather(*(client(p) for p in plans))
        connection = await connect(tables.server)
        stored = await connection.fetch(f"SELECT {columns} FROM everything ORDER BY id")
        await connection.close()
        return [tuple(r) for r in stored]

    stored = asyncio.run(run())

    def padded(values):
        return (*values[:8], values[8] and values[8].ljust(8), *values[9:])


    def single(values):
        # float4 keeps what it can.
        return (*values[:3], struct.unpack("f", struct.pack("f", values[3]))[0], *values[4:])

    expected = sorted(single(padded(values)) for plan in plans for rows in plan for values in rows)
    assert stored == expected
    assert tables.shared()["statements"] > before["statements"]


def test_numbers_keep_their_meaning(tables):
    """Literals that are not read by the column's own input function stay what PostgreSQL's parser makes of them."""
    before = tables.shared()

    async def client(c):
        connection = await connect(tables.server)
        for i in range(20):
            key = 5_000_000 + c * 100 + i * 2
            await connection.execute(
                f"INSERT INTO everything (id, middle, num, t, double) VALUES ({key}, 1.5, 1e2, '007', -0.0), ({key + 1}, -2.5, -00.5, 'x', .5)"
            )
            await connection.execute(
                f"INSERT INTO everything (id, middle, num, t, double) VALUES ({-key}, -7, 0100.50, '007', 1.25), ({-key - 1}, 0, -3, '', 5)"
            )
        await connection.close()

    async def run():
        await asyncio.gather(*(client(c) for c in range(16)))

    asyncio.run(run())
    with tables.server.connect() as connection:
        found = "SELECT DISTINCT middle, num::text, t, double FROM everything WHERE {} ORDER BY middle"
        assert connection.execute(found.format("id >= 5000000")).fetchall() == [(-3, "-0.5000", "x", 0.5), (2, "100.0000", "007", 0.0)]
        assert connection.execute(found.format("id <= -5000000")).fetchall() == [(-7, "100.5000", "007", 1.25), (0, "-3.0000", "", 5.0)]
    assert tables.shared()["statements"] > before["statements"]


def test_settings_and_transactions_stay_out(tables):
    async def run():
        connections = [await connect(tables.server) for _ in range(12)]
        for n, connection in enumerate(connections):
            if n % 2:
                await connection.execute("SET herd.coalesce = off")

        async def busy(n, connection):
            for i in range(20):
                key = 7_000_000 + n * 1000 + i * 2
                transaction = connection.transaction()
                if n % 2 == 0:
                    await transaction.start()
                await connection.execute(f"INSERT INTO things (id, kind, weight) VALUES ({key}, 1, 1), ({key + 1}, 1, 1)")
                if n % 2 == 0:
                    await transaction.rollback()

        before = tables.shared()
        await asyncio.gather(*(busy(n, c) for n, c in enumerate(connections)))
        assert tables.shared() == before
        count = await connections[0].fetchval("SELECT count(*) FROM things WHERE id >= 7000000 AND id < 8000000")
        assert count == 6 * 20 * 2
        for connection in connections:
            await connection.close()

    asyncio.run(run())


def test_nobody_waits_for_somebody_elses_lock(tables):
    """An INSERT that waits for another transaction's key is taken out of the others' way."""

    async def run():
        holder, blocked = await connect(tables.server), await connect(tables.server)
        others = [await connect(tables.server) for _ in range(12)]
        await holder.execute("BEGIN")
        await insert_simple(holder, [row(9_000_000, None), row(9_000_001, None)])
        waiting = asyncio.create_task(insert_simple(blocked, [row(9_000_000, None), row(9_000_002, None)]))

        async def busy(c, connection):
            for i in range(20):
                key = 9_100_000 + c * 1000 + i * 2
                assert await insert_simple(connection, [row(key, None), row(key + 1, None)]) == "INSERT 0 2"

        await asyncio.wait_for(asyncio.gather(*(busy(c, o) for c, o in enumerate(others))), 120)
        assert not waiting.done()
        await holder.execute("ROLLBACK")
        assert await asyncio.wait_for(waiting, 60) == "INSERT 0 2"
        for connection in [holder, blocked, *others]:
            await connection.close()

    asyncio.run(run())


def together(server, statements, clients=16, times=20):
    """Runs `statements(client, i)` on that many clients at once."""

    async def client(c):
        connection = await connect(server)
        for i in range(times):
            await connection.execute(statements(c, i))
        await connection.close()

    async def run():
        await asyncio.gather(*(client(c) for c in range(clients)))

    asyncio.run(run())


def test_copies_of_a_reference_table_are_the_same(tables):
    tables.server.run(
        "CREATE TABLE moments (id bigserial PRIMARY KEY, k text, at timestamptz, made timestamptz DEFAULT now(), n int)",
        "SELECT create_reference_table('moments')",
    )
    together(tables.server, lambda c, i: f"INSERT INTO moments (k, at) VALUES ('{c}', 'now'), ('{i}', 'Tomorrow')")
    together(tables.server, lambda c, i: f"INSERT INTO moments (k, n) VALUES ('{c}', {i}), (NULL, NULL)")
    digests = set()
    for node in tables.herd.node_servers:
        with node.connect() as connection:
            digests.add(connection.execute("SELECT count(*), md5(string_agg(m::text, ',' ORDER BY id)) FROM moments m").fetchone())
    assert len(digests) == 1 and digests.pop()[0] == 16 * 20 * 4


def test_a_table_that_becomes_a_reference_table_keeps_all_rows(tables):
    tables.server.run("CREATE TABLE later (id bigint PRIMARY KEY, t text)")
    def change():
        time.sleep(0.1)
        tables.server.run("SELECT create_reference_table('later')")

    changing = threading.Thread(target=change)
    changing.start()
    together(tables.server, lambda c, i: f"INSERT INTO later VALUES ({c * 1000 + 2 * i}, 'x'), ({c * 1000 + 2 * i + 1}, 'y')", times=60)
    changing.join()
    for node in tables.herd.node_servers:
        with node.connect() as connection:
            assert connection.execute("SELECT count(*) FROM later").fetchone() == (16 * 60 * 2,)


def test_columns_that_change_their_names_meanwhile(tables):
    tables.server.run("CREATE TABLE names (id bigint PRIMARY KEY, a int, b int)", "SELECT create_distributed_table('names', 'id')")
    def swap():
        with tables.server.connect(autocommit=False) as connection:
            for _ in range(3):
                time.sleep(0.05)
                for change in ("a TO x", "b TO a", "x TO b"):
                    connection.execute(f"ALTER TABLE names RENAME {change}")
                connection.commit()

    swapping = threading.Thread(target=swap)
    swapping.start()
    together(tables.server, lambda c, i: f"INSERT INTO names VALUES ({c * 1000 + 2 * i}, 1, 2), ({c * 1000 + 2 * i + 1}, 1, 2)", times=60)
    swapping.join()
    with tables.server.connect() as connection:
        # Three swaps: what is in the second place is called a now.
        assert connection.execute("SELECT DISTINCT b, a FROM names").fetchall() == [(1, 2)]
        assert connection.execute("SELECT count(*) FROM names").fetchone() == (16 * 60 * 2,)


def test_a_slow_statement_is_cancelled_and_holds_nobody_up(tables):
    tables.server.run(
        "CREATE FUNCTION slow(t text) RETURNS boolean LANGUAGE sql STABLE AS"
        " $$SELECT CASE WHEN t = 'slow' THEN pg_sleep(30) IS NOT NULL ELSE true END$$",
        "CREATE TABLE checked (id bigint PRIMARY KEY, t text CHECK (slow(t)))",
        "SELECT create_distributed_table('checked', 'id')",
    )

    async def run():
        slow = await connect(tables.server)
        others = [await connect(tables.server) for _ in range(12)]

        async def busy(c, connection):
            longest = 0.0
            for i in range(30):
                begun = time.monotonic()
                key = c * 1000 + 2 * i
                await connection.execute(f"INSERT INTO checked VALUES ({key}, 'x'), ({key + 1}, 'y')")
                longest = max(longest, time.monotonic() - begun)
            return longest

        async def cancelled():
            await asyncio.sleep(0.05)
            begun = time.monotonic()
            with pytest.raises((asyncpg.QueryCanceledError, asyncio.TimeoutError)):
                await slow.execute("INSERT INTO checked VALUES (-1, 'slow'), (-2, 'slow')", timeout=1)
            return time.monotonic() - begun

        taken, *longest = await asyncio.gather(cancelled(), *(busy(c, o) for c, o in enumerate(others)))
        assert await others[0].fetchval("SELECT count(*) FROM checked WHERE id < 0") == 0
        for connection in [slow, *others]:
            connection.terminate()
        return taken, max(longest)

    taken, longest = asyncio.run(run())
    assert taken < 15 and longest < 15


def test_zero_has_no_sign(tables):
    def statement(c, i):
        key = 20_000_000 + c * 100 + 2 * i
        return f"INSERT INTO everything (id, double, real) VALUES ({key}, -0, -0.0), ({key + 1}, -0.00, 0)"

    together(tables.server, statement)
    with tables.server.connect() as connection:
        found = "SELECT DISTINCT double::text, real::text FROM everything WHERE id >= 20000000"
        assert connection.execute(found).fetchall() == [("0", "0")]


def test_a_killed_router_leaves_no_statement_half(tables):
    each = 5

    async def client(n, acknowledged):
        connection = await connect(tables.server)
        try:
            for i in range(100_000):
                first = 100_000_000 + (n * 100_000 + i) * 10
                await insert_simple(connection, [row(first + k, None) for k in range(each)])
                acknowledged.append(first)
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            pass
        finally:
            connection.terminate()

    async def run():
        acknowledged = []
        clients = [asyncio.create_task(client(n, acknowledged)) for n in range(32)]
        deadline = time.monotonic() + 90
        await asyncio.sleep(1.5)
        while len(acknowledged) <= 50 and time.monotonic() < deadline:
            await asyncio.sleep(0.1)
        os.kill(tables.herd.status()["router"]["pid"], signal.SIGKILL)
        await asyncio.wait_for(asyncio.gather(*clients), 60)
        return acknowledged

    acknowledged = asyncio.run(run())
    assert len(acknowledged) > 50
    tables.herd.up()
    query = "SELECT id / 10 * 10, count(*) FROM things WHERE id >= 100000000 GROUP BY 1"
    with tables.server.connect() as connection:
        # What the router had prepared is finished by recovery, within seconds.
        connection.execute("SELECT 1")
        for _ in range(300):
            stored = dict(connection.execute(query).fetchall())
            if not connection.execute("SELECT FROM herd.transactions").fetchall():
                break
            time.sleep(0.2)
        stored = dict(connection.execute(query).fetchall())
    assert set(acknowledged) <= set(stored), "an acknowledged statement is missing"
    assert {n for n in stored.values()} == {each}, "half a statement is there"

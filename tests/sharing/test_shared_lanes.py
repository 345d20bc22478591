"""Statements of many clients at once: they travel together, and none of them can tell.

Who is faulty gets his own error, who is not is served exactly once, and nobody waits for somebody else's lock.
"""

import asyncio
import os
import random
import signal
import time
from decimal import Decimal

import asyncpg
import pytest

CLIENTS = 48
EACH = 120

# What is wrong with a row, and the SQLSTATE plain PostgreSQL gives for it.
FAULTS = {
    "unique": "23505",
    "check": "23514",
    "not null": "23502",
    "foreign key": "23503",
    "too long": "22001",
    "out of range": "22003",
}


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
        "CREATE TABLE counters (id int PRIMARY KEY, n int NOT NULL)",
        "SELECT create_distributed_table('counters', 'id')",
        "INSERT INTO counters SELECT g, 0 FROM generate_series(1, 200) g",
    )
    return sharing


def row(key: int, fault: str | None):
    """A row's values; with a fault, one of them is wrong."""
    return {
        None: (key, key % 10 + 1, "1.50", f"it's {key}"),
        "unique": (0, 1, "1", "again"),
        "check": (key, 1, "-1", "light"),
        "not null": (key, None, "1", "kindless"),
        "foreign key": (key, 99, "1", "odd"),
        "too long": (key, 1, "1", "x" * 21),
        "out of range": (key, 1, "123456789012", "heavy"),
    }[fault]


async def connect(server, **options):
    return await asyncpg.connect(server.url, **options)


def literal(value) -> str:
    return "NULL" if value is None else "'" + str(value).replace("'", "''") + "'"


async def insert_simple(connection, values):
    key, kind, weight, label = values
    kind = "NULL" if kind is None else kind
    return await connection.execute(
        f"INSERT INTO things (id, kind, weight, label) VALUES ({key}, {kind}, {weight}, {literal(label)})"
    )


async def insert_prepared(connection, values):
    key, kind, weight, label = values
    statement = "INSERT INTO things (id, kind, weight, label) VALUES ($1, $2, $3::text::numeric, $4)"
    return await connection.execute(statement, key, kind, weight, label)


@pytest.mark.parametrize("insert", [insert_simple, insert_prepared], ids=["literals", "parameters"])
def test_each_faulty_row_fails_alone(tables, insert):
    before = tables.shared()
    base = 1_000_000 if insert is insert_simple else 2_000_000
    chance = random.Random(7)
    plans = [
        [(base + c * EACH + i, chance.choice(list(FAULTS)) if chance.random() < 0.02 else None) for i in range(EACH)]
        for c in range(CLIENTS)
    ]

    async def client(plan):
        connection = await connect(tables.server)
        wrong = []
        for key, fault in plan:
            try:
                tag = await insert(connection, row(key, fault))
                if fault or tag != "INSERT 0 1":
                    wrong.append((key, fault, tag))
            except asyncpg.PostgresError as error:
                if not fault or error.sqlstate != FAULTS[fault]:
                    wrong.append((key, fault, error.sqlstate, str(error)))
                elif "herd_shards" in str(error) or "things_" in (error.table_name or ""):
                    wrong.append((key, fault, "a partition's name", str(error)))
        await connection.close()
        return wrong

    async def run():
        return [w for found in await asyncio.gather(*(client(p) for p in plans)) for w in found]

    assert asyncio.run(run()) == []
    good = sorted(key for plan in plans for key, fault in plan if not fault)
    with tables.server.connect() as connection:
        stored = connection.execute(
            "SELECT id, kind, weight::text, label FROM things WHERE id BETWEEN %s AND %s ORDER BY id",
            (base, base + CLIENTS * EACH),
        ).fetchall()
    assert [r[0] for r in stored] == good
    assert all(r == row(r[0], None) for r in stored)
    after = tables.shared()
    assert after["statements"] > before["statements"], "nothing was shared: this test has shown nothing"
    assert after["sent_away"] > before["sent_away"]


def test_changes_of_one_row_add_up(tables):
    async def client(n):
        connection = await connect(tables.server)
        for i in range(100):
            tag = await connection.execute(f"UPDATE counters SET n = n + 1 WHERE id = {i % 5 + 1}")
            assert tag == "UPDATE 1"
            returned = await connection.fetchval("UPDATE counters SET n = n + 1 WHERE id = $1 RETURNING id", n % 50 + 10)
            assert returned == n % 50 + 10
        await connection.close()

    async def run():
        await asyncio.gather(*(client(n) for n in range(32)))

    asyncio.run(run())
    with tables.server.connect() as connection:
        assert connection.execute("SELECT sum(n) FROM counters").fetchone() == (32 * 200,)


def test_upserts_and_returning(tables):
    async def client(n):
        connection = await connect(tables.server)
        for i in range(60):
            key = 3_000_000 + i
            label = await connection.fetchval(
                "INSERT INTO things (id, kind, weight, label) VALUES ($1, 1, 1, $2)"
                " ON CONFLICT (id) DO UPDATE SET label = excluded.label RETURNING label",
                key,
                f"of {n}",
            )
            assert label == f"of {n}"
        await connection.close()

    async def run():
        await asyncio.gather(*(client(n) for n in range(24)))

    asyncio.run(run())
    with tables.server.connect() as connection:
        count = "SELECT count(*), count(DISTINCT id) FROM things WHERE id >= 3000000"
        assert connection.execute(count).fetchone() == (60, 60)


def test_reads_come_to_who_asked(tables):
    async def client(n, simple):
        connection = await connect(tables.server, statement_cache_size=0 if simple else 100)
        for i in range(150):
            key = (n * 37 + i) % 200 + 1
            if simple:
                reply = await connection.fetch(f"SELECT id, {n} FROM counters WHERE id = {key}")
            else:
                reply = await connection.fetch("SELECT id, $2::int FROM counters WHERE id = $1", key, n)
            assert [tuple(r) for r in reply] == [(key, n)]
            assert await connection.fetch("SELECT n FROM counters WHERE id = $1", -key) == []
        await connection.close()

    async def run():
        await asyncio.gather(*(client(n, n % 2 == 0) for n in range(40)))

    before = tables.shared()["statements"]
    asyncio.run(run())
    assert tables.shared()["statements"] > before


def test_ranges_come_to_who_asked(tables):
    """Of few keys they travel with others'; of many, or of long rows, by themselves."""
    tables.server.run(
        "CREATE TABLE spans (id int PRIMARY KEY, n int, note text)",
        "SELECT create_distributed_table('spans', 'id', strategy => 'range', bounds => ARRAY['FROM (MINVALUE) TO (250)', 'FROM (250) TO (500)', 'FROM (500) TO (MAXVALUE)'])",
        "INSERT INTO spans SELECT g, g % 7, CASE WHEN g > 900 THEN repeat(g::text, 40000) ELSE 'note ' || g END FROM generate_series(1, 1000) g",
    )

    async def client(n):
        connection = await connect(tables.server)
        for i in range(30):
            low = (n * 53 + i * 29) % 850
            found = range(max(low, 1), low + (5, 60, 700)[i % 3])
            found = [id for id in found if id <= 1000]
            rows = await connection.fetch("SELECT id, $3::int FROM spans WHERE id BETWEEN $1 AND $2 ORDER BY n, id", low, found[-1], n)
            assert [tuple(r) for r in rows] == [(id, n) for id in sorted(found, key=lambda id: (id % 7, id))]
            total = await connection.fetchval("SELECT sum(n) FROM spans WHERE id >= $1 AND $2 > id", low + 1, low + 40)
            assert total == sum(id % 7 for id in range(low + 1, low + 40))
            if i % 10 == n % 10:
                notes = await connection.fetch("SELECT note FROM spans WHERE id BETWEEN $1 AND $2 ORDER BY id", 930, 945)
                assert [r[0] for r in notes] == [str(id) * 40000 for id in range(930, 946)]
        await connection.close()

    async def run():
        await asyncio.gather(*(client(n) for n in range(24)))

    before = tables.shared()["statements"]
    asyncio.run(run())
    assert tables.shared()["statements"] > before


def test_nobody_waits_for_somebody_elses_lock(tables):
    """A locked row makes its own client wait, not those whose statements go the same way."""

    async def run():
        holder, blocked = await connect(tables.server), await connect(tables.server)
        others = [await connect(tables.server) for _ in range(16)]
        await holder.execute("BEGIN")
        await holder.execute("UPDATE counters SET n = -1 WHERE id = 150")
        waiting = asyncio.create_task(blocked.execute("UPDATE counters SET n = -2 WHERE id = 150"))

        async def busy(connection, n):
            slowest = 0.0
            for i in range(40):
                begun = time.monotonic()
                assert await connection.execute(f"UPDATE counters SET n = 1 WHERE id = {160 + n}") == "UPDATE 1"
                slowest = max(slowest, time.monotonic() - begun)
            return slowest

        slowest = max(await asyncio.gather(*(busy(c, n) for n, c in enumerate(others))))
        assert not waiting.done()
        await holder.execute("COMMIT")
        assert await asyncio.wait_for(waiting, 60) == "UPDATE 1"
        assert await holder.fetchval("SELECT n FROM counters WHERE id = 150") == -2
        for connection in [holder, blocked, *others]:
            await connection.close()
        return slowest

    # The lock is held until all of them are done; the machine may be busy.
    assert asyncio.run(run()) < 10


def test_nobody_waits_for_a_table_that_somebody_else_reads(tables):
    """Who reads a table that is locked waits for that, not those whose reads go the same way, though all of them run on one connection."""

    async def run():
        readers = [await connect(tables.server) for _ in range(16)]
        blocked = [await connect(tables.server) for _ in range(4)]
        holders = [await connect(node) for node in tables.herd.node_servers]
        locked, over = asyncio.Event(), asyncio.Event()

        async def wait(connection):
            """Until it has waited for the lock."""
            while not locked.is_set() or not over.is_set():
                assert [tuple(row) for row in await connection.fetch("SELECT label FROM things WHERE id = $1", 0)] == [("the first",)]

        async def busy(connection, n):
            """How many reads there were while the table was locked, of which a slow machine is given the time, and how long one took at most."""
            number, slowest, began = 0, 0.0, None
            while began is None or time.monotonic() - began < 1 or number <= 10:
                begun = time.monotonic()
                assert len(await connection.fetch("SELECT n FROM counters WHERE id = $1", 160 + (n + number) % 20)) == 1
                if locked.is_set():
                    began = began or begun
                    number, slowest = number + 1, max(slowest, time.monotonic() - begun)
            return number, slowest

        reading = [asyncio.create_task(busy(c, n)) for n, c in enumerate(readers)]
        waiting = [asyncio.create_task(wait(c)) for c in blocked]
        await asyncio.sleep(0.5)
        for holder in holders:
            await holder.execute("BEGIN")
            shards = await holder.fetch("SELECT inhrelid::regclass::text AS shard FROM pg_inherits WHERE inhparent = 'things'::regclass")
            local = [row["shard"] for row in shards if await holder.fetchval("SELECT relkind FROM pg_class WHERE oid = to_regclass($1)", row["shard"]) == b"r"]
            await holder.execute(f"LOCK TABLE {', '.join(local)} IN ACCESS EXCLUSIVE MODE")
        locked.set()
        done = await asyncio.wait_for(asyncio.gather(*reading), 120)
        assert not any(task.done() for task in waiting)
        over.set()
        for holder in holders:
            await holder.execute("ROLLBACK")
        await asyncio.wait_for(asyncio.gather(*waiting), 60)
        for connection in [*readers, *blocked, *holders]:
            await connection.close()
        return done

    before = tables.shared()
    done = asyncio.run(run())
    after = tables.shared()
    # The machine may be slow and busy; who was held back by the lock would have read nothing until the end.
    assert after["statements"] - before["statements"] > 100
    # One of those who wait was in somebody's batch.
    assert after["sent_away"] > before["sent_away"]
    assert min(number for number, _ in done) > 10
    assert max(slowest for _, slowest in done) < 5


def test_it_can_be_turned_off(tables):
    async def run():
        connections = [await connect(tables.server) for _ in range(16)]
        for connection in connections:
            await connection.execute("SET herd.coalesce = off")
            await connection.execute("SET herd.multiplex = off")

        async def busy(connection):
            for i in range(30):
                await connection.execute(f"UPDATE counters SET n = 1 WHERE id = {i + 1}")
                await connection.fetch("SELECT n FROM counters WHERE id = $1", i + 1)

        before = tables.shared()
        await asyncio.gather(*(busy(c) for c in connections))
        assert tables.shared() == before
        for connection in connections:
            await connection.close()

    asyncio.run(run())


def test_settings_keep_clients_apart(tables):
    """Statements under other settings never meet: what they return depends on them."""

    async def client(zone, noon):
        connection = await connect(tables.server)
        await connection.execute(f"SET timezone = '{zone}'")
        for i in range(60):
            statement = "SELECT to_char('2024-01-01 12:00+00'::timestamptz, 'HH24:MI') FROM counters WHERE id = $1"
            assert [tuple(row) for row in await connection.fetch(statement, i + 1)] == [(noon,)]
        await connection.close()

    async def run():
        zones = [("UTC", "12:00"), ("Asia/Tokyo", "21:00"), ("Europe/Berlin", "13:00")]
        await asyncio.gather(*(client(*zones[n % 3]) for n in range(24)))

    asyncio.run(run())


def test_statements_that_are_new_under_other_settings(tables):
    """Before its first rows come from a connection a node is asked for a statement's columns, under its client's settings: their own answer is none of the
    statements', and nobody is sent away for it."""
    noon = {"UTC": "12:00", "Asia/Tokyo": "21:00", "Europe/Berlin": "13:00"}
    statements = {
        "SELECT id FROM counters WHERE id = $1": lambda i, zone: (i,),
        "SELECT to_char('2024-01-01 12:00+00'::timestamptz, 'HH24:MI'), id::text FROM counters WHERE id = $1": lambda i, zone: (noon[zone], str(i)),
        "SELECT id::text, 1.5 AS x, id FROM counters WHERE id = $1": lambda i, zone: (str(i), Decimal("1.5"), i),
        "SELECT to_char('2024-01-01 12:00+00'::timestamptz, 'HH24:MI') FROM counters WHERE id = $1": lambda i, zone: (noon[zone],),
    }
    before = tables.shared()

    async def client(zone, n):
        connection = await connect(tables.server)
        await connection.execute(f"SET timezone = '{zone}'")
        dice = random.Random(n)
        for i in range(1, 60):
            sql = dice.choice(list(statements))
            # Without a row limit, which does not travel with others.
            assert [tuple(row) for row in await connection.fetch(sql, i)] == [statements[sql](i, zone)], sql
        await connection.close()

    async def run():
        zones = ["UTC", "Asia/Tokyo", "Europe/Berlin"]
        await asyncio.gather(*(client(zones[n % 3], n) for n in range(36)))

    asyncio.run(run())
    after = tables.shared()
    told = {name: after[name] - before[name] for name in after}
    assert told["statements"] > 300 and told["sent_away"] * 20 < told["statements"], told


def test_a_killed_router_loses_nothing_acknowledged(tables):
    async def client(n, acknowledged):
        connection = await connect(tables.server)
        try:
            for i in range(100_000):
                key = 10_000_000 + n * 100_000 + i
                await insert_simple(connection, row(key, None))
                acknowledged.append(key)
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            pass
        finally:
            connection.terminate()

    async def run():
        acknowledged = []
        clients = [asyncio.create_task(client(n, acknowledged)) for n in range(32)]
        deadline = time.monotonic() + 90
        await asyncio.sleep(1.5)
        while len(acknowledged) <= 100 and time.monotonic() < deadline:
            await asyncio.sleep(0.1)
        os.kill(tables.herd.status()["router"]["pid"], signal.SIGKILL)
        await asyncio.wait_for(asyncio.gather(*clients), 60)
        return acknowledged

    acknowledged = asyncio.run(run())
    assert len(acknowledged) > 100
    tables.herd.up()
    with tables.server.connect() as connection:
        stored = {r[0] for r in connection.execute("SELECT id FROM things WHERE id >= 10000000")}
    assert set(acknowledged) <= stored

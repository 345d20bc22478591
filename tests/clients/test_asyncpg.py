"""asyncpg: binary protocol throughout, its own prepared statements, cursors, COPY and pool."""

import asyncio
import datetime
import decimal
import uuid

import asyncpg
import pytest


@pytest.fixture
def go(herd):
    """Runs a coroutine function with a connection."""

    def call(work):
        async def inside():
            connection = await asyncpg.connect(host=herd.host, port=herd.port, user=herd.user, database=herd.dbname, ssl=False)
            try:
                return await work(connection)
            finally:
                await connection.close(timeout=5)

        return asyncio.run(asyncio.wait_for(inside(), 60))

    return call


def test_everyday_and_prepared(go, table):
    name = table("apg_everyday")

    async def work(connection):
        assert await connection.execute(f"insert into {name} values ($1, $2, $3)", 1, 10, "one") == "INSERT 0 1"
        await connection.executemany(f"insert into {name} values ($1, $2, $3)", [(i, i * 10, f"t{i}") for i in range(2, 101)])
        statement = await connection.prepare(f"select t, v from {name} where id = $1")
        for i in range(2, 101):
            assert tuple(await statement.fetchrow(i)) == (f"t{i}", i * 10)
        assert [a.name for a in statement.get_attributes()] == ["t", "v"]
        assert [p.name for p in statement.get_parameters()] == ["int4"]
        assert tuple(await connection.fetchrow(f"select count(*), sum(v), max(t) from {name}")) == (100, 50500, "t99")
        assert await connection.fetchval(f"select count(*) from {name} where id = any($1::int[])", [1, 2, 3, 999]) == 3
        rows = await connection.fetch(f"select v % 3 as m, count(*) as n from {name} group by 1 order by 1")
        assert [tuple(row) for row in rows] == [(0, 33), (1, 34), (2, 33)]

    go(work)


def test_transactions_and_errors(go, table):
    name = table("apg_tx", rows=10)

    async def work(connection):
        async with connection.transaction():
            await connection.execute(f"update {name} set v = 0")
        with pytest.raises(RuntimeError):
            async with connection.transaction(isolation="repeatable_read"):
                await connection.execute(f"update {name} set v = 1 where id in (1, 2, 3, 4)")
                raise RuntimeError
        assert await connection.fetchval(f"select sum(v) from {name}") == 0
        with pytest.raises(asyncpg.UniqueViolationError) as caught:
            await connection.execute(f"insert into {name} values ($1)", 1)
        assert caught.value.constraint_name == f"{name}_pkey"
        with pytest.raises(asyncpg.DataError):
            await connection.fetch(f"select * from {name} where id = $1", "x")
        with pytest.raises(asyncpg.UndefinedTableError):
            await connection.fetch("select * from nosuch")
        async with connection.transaction():
            with pytest.raises(asyncpg.DivisionByZeroError):
                async with connection.transaction():
                    await connection.fetch(f"select 1 / (id - 5) from {name}")
            assert await connection.fetchval(f"select count(*) from {name}") == 10

    go(work)


def test_cursors(go, table):
    name = table("apg_cursor", rows=200)

    async def work(connection):
        async with connection.transaction():
            seen = [row["id"] async for row in connection.cursor(f"select id from {name} order by id", prefetch=17)]
            assert seen == list(range(1, 201))
            cursor = await connection.cursor(f"select id from {name} where id > $1 order by id", 100)
            assert [row["id"] for row in await cursor.fetch(3)] == [101, 102, 103]
            assert await cursor.forward(10) == 10
            assert (await cursor.fetchrow())["id"] == 114
            assert await connection.fetchval(f"select v from {name} where id = 7") == 7

    go(work)


def test_copy(go, table):
    name = table("apg_copy")

    async def work(connection):
        records = [(i, i % 7, f"text {i}") for i in range(2000)]
        assert await connection.copy_records_to_table(name, records=records) == "COPY 2000"
        parts = []

        async def collect(data):
            parts.append(bytes(data))

        assert await connection.copy_from_table(name, output=collect, format="csv") == "COPY 2000"
        assert sorted(b"".join(parts).splitlines()) == sorted(f"{i},{i % 7},text {i}".encode() for i in range(2000))
        parts.clear()
        await connection.copy_from_query(f"select id from {name} where id < $1 order by id", 5, output=collect)
        assert b"".join(parts) == b"0\n1\n2\n3\n4\n"

    go(work)


def test_types_by_binary(go, herd):
    async def work(connection):
        await connection.execute("drop table if exists apg_types")
        await connection.execute(
            "create table apg_types (id uuid primary key, n numeric, d date, ts timestamptz, i interval, a text[], j jsonb, r int4range)"
        )
        await connection.execute("select create_distributed_table('apg_types', 'id')")
        row = (
            uuid.uuid4(), decimal.Decimal("1.50"), datetime.date(2024, 2, 29), datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc),
            datetime.timedelta(days=1, hours=2), ["a", None], '{"a": 1}', asyncpg.Range(1, 5),
        )
        await connection.execute("insert into apg_types values ($1, $2, $3, $4, $5, $6, $7, $8)", *row)
        assert tuple(await connection.fetchrow("select * from apg_types where id = $1", row[0])) == row
        assert tuple(await connection.fetchrow("select * from apg_types")) == row
        await connection.execute("drop table apg_types")

    go(work)


def test_enum_type_is_introspected(go):
    """asyncpg asks the catalog about types it does not know."""

    async def work(connection):
        await connection.execute("drop table if exists apg_enum; drop type if exists apg_mood")
        await connection.execute("create type apg_mood as enum ('sad', 'happy')")
        await connection.execute("create table apg_enum (id int primary key, m apg_mood, ms apg_mood[])")
        await connection.execute("select create_distributed_table('apg_enum', 'id')")
        for i in range(1, 9):
            await connection.execute("insert into apg_enum values ($1, $2, $3)", i, "happy", ["sad", "happy"])
        assert tuple(await connection.fetchrow("select m, ms from apg_enum where id = $1", 5)) == ("happy", ["sad", "happy"])
        assert tuple(await connection.fetchrow("select m, count(*) from apg_enum group by m")) == ("happy", 8)
        await connection.execute("drop table apg_enum; drop type apg_mood")

    go(work)


def test_pool_resets_its_connections(herd, table):
    name = table("apg_pool", rows=20)

    async def inside():
        async with asyncpg.create_pool(
            host=herd.host, port=herd.port, user=herd.user, database=herd.dbname, ssl=False, min_size=2, max_size=5
        ) as pool:

            async def one(i: int) -> int:
                async with pool.acquire() as connection:
                    await connection.execute("set timezone = 'Asia/Tokyo'")
                    return await connection.fetchval(f"select v from {name} where id = $1", i % 20 + 1)

            assert await asyncio.gather(*(one(i) for i in range(100))) == [(i % 20 + 1) % 10 for i in range(100)]
            # The pool sends RESET ALL when a connection is given back.
            assert await pool.fetchval("show timezone") != "Asia/Tokyo"

    asyncio.run(asyncio.wait_for(inside(), 60))


def test_statement_timeout_of_the_client(go):
    async def work(connection):
        with pytest.raises(TimeoutError):
            await connection.fetch("select pg_sleep(20)", timeout=0.3)
        assert await connection.fetchval("select 1") == 1

    go(work)

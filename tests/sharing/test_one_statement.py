"""INSERTs of many clients that a node gets as one statement of many rows: each row is there once and as it was given."""

import asyncio
import datetime
import random
import uuid

import asyncpg
import psycopg
import pytest

CLIENTS = 32
EACH = 40
UTC = datetime.timezone.utc


@pytest.fixture(scope="module")
def tables(sharing):
    sharing.server.run(
        "CREATE TABLE every (id bigint PRIMARY KEY, small smallint, real real, yes bool, t text, v varchar(9), c char(8), b bytea,"
        " jb jsonb, d date, ts timestamptz DEFAULT now(), u uuid, n numeric(12,3), a int[], made text DEFAULT current_user,"
        " twice bigint GENERATED ALWAYS AS (id * 2) STORED)",
        "SELECT create_distributed_table('every', 'id')",
        "CREATE TABLE tree (id int PRIMARY KEY, parent int REFERENCES tree)",
        "CREATE FUNCTION loud(id int) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS"
        " $$BEGIN RAISE NOTICE 'row %', id; RETURN true; END$$",
        "CREATE TABLE noisy (id int PRIMARY KEY CHECK (loud(id)))",
        "SELECT create_distributed_table('noisy', 'id')",
        "CREATE TABLE root (g int, id int, parent int, PRIMARY KEY (g, id), FOREIGN KEY (g, parent) REFERENCES root)",
        "SELECT create_distributed_table('root', 'g')",
        "CREATE FUNCTION odd_ones_out() RETURNS trigger LANGUAGE plpgsql AS"
        " $$BEGIN RETURN CASE WHEN NEW.id % 2 = 0 THEN NEW END; END$$",
        "CREATE TABLE parts (id int, a int) PARTITION BY RANGE (id)",
        "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (1000000)",
        "CREATE TRIGGER odd BEFORE INSERT ON parts_1 FOR EACH ROW EXECUTE FUNCTION odd_ones_out()",
        "CREATE TABLE picky (id int PRIMARY KEY)",
        "SELECT create_distributed_table('picky', 'id')",
        "CREATE TABLE kin (id int PRIMARY KEY, parent int REFERENCES kin)",
        "SELECT create_reference_table('kin')",
        "CREATE TABLE swaps (id int PRIMARY KEY, a int UNIQUE DEFERRABLE INITIALLY DEFERRED)",
        f"INSERT INTO swaps SELECT g, g FROM generate_series(0, {CLIENTS * EACH - 1}) g",
        "CREATE TABLE zeros (id int PRIMARY KEY, f float8)",
        "SELECT create_distributed_table('zeros', 'id')",
        "CREATE TABLE heard (n int)",
        "CREATE FUNCTION hear(a int, b int) RETURNS bool LANGUAGE plpgsql AS"
        " $$BEGIN INSERT INTO heard VALUES (a); RETURN a = b; END$$",
        "CREATE OPERATOR === (FUNCTION = hear, LEFTARG = int, RIGHTARG = int)",
        "CREATE TABLE few (id int PRIMARY KEY, a int NOT NULL DEFAULT 7, b text)",
        "SELECT create_distributed_table('few', 'id')",
    )
    return sharing


async def all_at_once(tables, client):
    """`client(connection, n)` for each of many connections, and how many statements became rows of others'."""
    before = tables.shared()["merged"]
    connections = [await asyncpg.connect(tables.server.url) for _ in range(CLIENTS)]
    results = await asyncio.gather(*(client(c, n) for n, c in enumerate(connections)))
    for connection in connections:
        await connection.close()
    return results, tables.shared()["merged"] - before


def test_values_keep_their_bytes_and_formats(tables):
    chance = random.Random(5)
    characters = "aé\u20ac\U0001f600 \t\n\r\\'\"\\N{}$1"

    def text(n):
        return "".join(chance.choice(characters) for _ in range(chance.randint(0, n)))

    def values(key):
        def perhaps(value):
            return value if chance.random() < 0.9 else None

        moment = datetime.datetime(1999, 12, 31, 23, 59, 59, 999_999, UTC) + datetime.timedelta(microseconds=chance.getrandbits(50))
        return (
            key, perhaps(chance.choice([-32768, 0, 32767])), perhaps(chance.choice([0.5, -1.5, float("inf")])),
            perhaps(chance.random() < 0.5), perhaps(text(30)), perhaps(text(9)), perhaps(text(8).ljust(8)), perhaps(chance.randbytes(8)),
            perhaps('{"b": null}'), perhaps(moment.date()), moment, perhaps(uuid.UUID(int=chance.getrandbits(128))),
            perhaps(chance.choice(["0.125", "-7.000", "123456789.999"])), perhaps([1, None, chance.randint(-9, 9)]),
        )  # fmt: skip

    columns = "id, small, real, yes, t, v, c, b, jb, d, ts, u, n, a"
    cells = ", ".join(f"${n + 1}::text::numeric" if name == "n" else f"${n + 1}" for n, name in enumerate(columns.split(", ")))
    plans = [[values(c * EACH + i) for i in range(EACH)] for c in range(CLIENTS)]

    async def client(connection, n):
        for row in plans[n]:
            assert await connection.execute(f"INSERT INTO every ({columns}) VALUES ({cells})", *row) == "INSERT 0 1"

    _, merged = asyncio.run(all_at_once(tables, client))
    assert merged > 0
    with tables.server.connect() as connection:
        stored = connection.execute(
            f"SELECT {columns.replace('jb', 'jb::text').replace(' n,', ' n::text,')}, made, twice FROM every ORDER BY id"
        ).fetchall()
    expected = [(*row, "postgres", 2 * row[0]) for plan in plans for row in plan]
    assert stored == expected


def test_literals_parameters_and_settings_side_by_side(tables):
    """What differs in text, types or settings never meets in one statement; what is left out takes its default."""

    async def client(connection, n):
        for i in range(EACH):
            key = 1_000_000 + n * EACH + i
            match n % 4:
                case 0:
                    await connection.execute(f"INSERT INTO few VALUES ({key}, DEFAULT, 'l''{key}')")
                case 1:
                    await connection.execute("INSERT INTO few (b, id) VALUES ($1, $2)", f"l'{key}", key)
                case 2:
                    await connection.execute(f"insert /* ) */ into few(id,b)values({key},E'l\\'{key}') ; -- end")
                case 3:
                    await connection.execute("INSERT INTO few (id, a, b) VALUES ($1::bigint, '7', 'l''' || $1::bigint)", key)

    _, merged = asyncio.run(all_at_once(tables, client))
    assert merged > 0
    with tables.server.connect() as connection:
        stored = connection.execute("SELECT id, a, b FROM few WHERE id >= 1000000 ORDER BY id").fetchall()
    assert stored == [(k, 7, f"l'{k}") for k in range(1_000_000, 1_000_000 + CLIENTS * EACH)]


def test_one_faulty_row_fails_alone(tables):
    async def client(connection, n):
        failed = []
        for i in range(EACH):
            key = 2_000_000 + n * EACH + i
            value = None if i % 10 == 9 else 1
            try:
                assert await connection.execute("INSERT INTO few (id, a) VALUES ($1, $2)", key, value) == "INSERT 0 1"
            except asyncpg.NotNullViolationError as error:
                assert error.table_name == "few"
                failed.append(key)
        return failed

    failed, merged = asyncio.run(all_at_once(tables, client))
    assert merged > 0
    with tables.server.connect() as connection:
        stored = {k for (k,) in connection.execute("SELECT id FROM few WHERE id >= 2000000").fetchall()}
    lost = set(range(2_000_000, 2_000_000 + CLIENTS * EACH)) - stored
    assert lost == {key for keys in failed for key in keys} == {k for k in range(2_000_000, 2_000_000 + CLIENTS * EACH) if k % 10 == 9}


def test_notices_come_to_whose_row_it_is(tables):
    async def client(connection, n):
        heard = []
        connection.add_log_listener(lambda _, message: heard.append(message.message))
        for i in range(EACH):
            await connection.execute("INSERT INTO noisy VALUES ($1)", n * EACH + i)
        await asyncio.sleep(0.1)
        return heard

    (heard, _) = asyncio.run(all_at_once(tables, client))
    for n, notices in enumerate(heard):
        own = [f"row {n * EACH + i}" for i in range(EACH)]
        assert [m for m in notices if m not in own] == [], "somebody else's"
    # The first ones may be nobody's; then each goes by itself.
    assert sum(len(notices) for notices in heard) > CLIENTS * EACH / 2
    (heard, merged) = asyncio.run(all_at_once(tables, lambda c, n: client(c, n + CLIENTS)))
    assert merged == 0
    assert heard == [[f"row {(n + CLIENTS) * EACH + i}" for i in range(EACH)] for n in range(CLIENTS)]


def test_rows_that_refer_to_rows_of_the_same_table(tables):
    """A local table: whoever is told that a parent is there can refer to it at once."""

    async def client(connection, n):
        parent = None
        for i in range(EACH):
            key = n * EACH + i
            await connection.execute("INSERT INTO tree VALUES ($1, $2)", key, parent)
            parent = key

    asyncio.run(all_at_once(tables, client))
    with tables.server.connect() as connection:
        assert connection.execute("SELECT count(*), count(parent) FROM tree").fetchone() == (CLIENTS * EACH, CLIENTS * (EACH - 1))


def test_rows_that_need_each_other_fail(tables):
    """Two rows that refer to each other, by two clients: in no order would PostgreSQL take the first."""

    async def client(connection, n):
        for i in range(EACH):
            me, other = (1, 2) if n % 2 else (2, 1)
            with pytest.raises(asyncpg.ForeignKeyViolationError):
                await connection.execute("INSERT INTO root VALUES ($1, $2, $3)", n // 2 * EACH + i, me, other)
            row = (n // 2 * EACH + i) * 2
            with pytest.raises(asyncpg.ForeignKeyViolationError):
                await connection.execute("INSERT INTO kin VALUES ($1, $2)", row + me, row + other)

    asyncio.run(all_at_once(tables, client))


def test_what_is_checked_at_commit_is_checked_for_each(tables):
    """Two rows that change places, by two clients: in no order would PostgreSQL take the first."""

    async def client(connection, n):
        for i in range(EACH):
            me, other = (n // 2 * EACH + i) * 2 + n % 2, (n // 2 * EACH + i) * 2 + 1 - n % 2
            with pytest.raises((asyncpg.UniqueViolationError, asyncpg.DeadlockDetectedError)):
                await connection.execute("UPDATE swaps SET a = $2 WHERE id = $1", me, other)

    asyncio.run(all_at_once(tables, client))


def test_zero_has_no_sign(tables):
    """`-0` is a number without a point to the parser, and a float with a sign as a text."""

    async def client(connection, n):
        for i in range(EACH):
            literal = ("-1", "-0", "-0.0")[min(i, i % 3)]
            await connection.execute(f"INSERT INTO zeros VALUES ({n * EACH + i}, {literal})")
            await connection.execute(f"UPDATE zeros SET f = {literal} WHERE id = {n * EACH + i}")

    asyncio.run(all_at_once(tables, client))
    with tables.server.connect() as connection:
        found = connection.execute("SELECT f::text, count(*) FROM zeros GROUP BY 1").fetchall()
    assert {text for text, _ in found} == {"-1", "0"} and sum(n for _, n in found) == CLIENTS * EACH


def test_what_reads_write_stays(tables):
    """An operator whose function writes, beside statements that fail."""

    async def client(connection, n):
        for i in range(EACH):
            if n % 2:
                await connection.fetch("SELECT id === 7 FROM swaps WHERE id = $1", n * EACH + i)
            else:
                with pytest.raises(asyncpg.DivisionByZeroError):
                    await connection.fetch("SELECT id / (id - $1) FROM swaps WHERE id = $1", n * EACH + i)

    asyncio.run(all_at_once(tables, client))
    with tables.server.connect() as connection:
        assert connection.execute("SELECT count(*) FROM heard").fetchone() == (CLIENTS * EACH // 2,)


def test_a_trigger_that_takes_rows_away(tables):
    """One of a partition, and one that comes and goes while clients insert: each client gets his own count, or learns that
    nobody knows it."""

    def insert(table):
        async def client(connection, n):
            rows = unknown = 0
            for i in range(120):
                try:
                    rows += int((await connection.execute(f"INSERT INTO {table} VALUES ($1)", n * 120 + i)).split()[2])
                except asyncpg.PostgresError as error:
                    assert error.sqlstate == "08007"
                    unknown += 1
            return rows, unknown

        return client

    async def come_and_go():
        connection = await asyncpg.connect(tables.server.url)
        for _ in range(6):
            await asyncio.sleep(0.05)
            await connection.execute("CREATE TRIGGER odd BEFORE INSERT ON picky FOR EACH ROW EXECUTE FUNCTION odd_ones_out()")
            await asyncio.sleep(0.02)
            await connection.execute("DROP TRIGGER odd ON picky")
        await connection.close()

    async def both():
        (counted, _), _ = await asyncio.gather(all_at_once(tables, insert("picky")), come_and_go())
        return counted

    counted, _ = asyncio.run(all_at_once(tables, insert("parts")))
    assert counted == [(60, 0)] * CLIENTS
    counted = asyncio.run(both())
    rows, unknown = (sum(c) for c in zip(*counted))
    assert unknown < 2 * CLIENTS
    with tables.server.connect() as connection:
        assert connection.execute("SELECT count(*) FROM parts").fetchone() == (CLIENTS * 60,)
        (stored,) = connection.execute("SELECT count(*) FROM picky").fetchone()
    assert rows <= stored <= rows + unknown


@pytest.mark.parametrize(
    "change",
    [
        ["SELECT undistribute_table('flip')", "SELECT create_reference_table('flip')"],
        ["ALTER TABLE flip RENAME TO flop", "ALTER TABLE flap RENAME TO flip"],
    ],
    ids=["made one", "exchanged"],
)
def test_a_name_that_comes_to_mean_a_reference_table(tables, change):
    """Rows on their way to one node's shards do not get into that node's copy alone."""

    async def run():
        ddl = await asyncpg.connect(tables.server.url)
        nodes = [await asyncpg.connect(node.url) for node in tables.herd.node_servers]
        clients = [await asyncpg.connect(tables.server.url) for _ in range(CLIENTS)]
        merged = 0
        for i in range(6):
            for name in ["flip", "flop", "flap"]:
                await ddl.execute(f"DROP TABLE IF EXISTS {name}")
            for name in ["flip", "flap"]:
                await ddl.execute(f"CREATE TABLE {name} (id bigint PRIMARY KEY, a int)")
            await ddl.execute("SELECT create_distributed_table('flip', 'id')")
            await ddl.execute("SELECT create_reference_table('flap')")

            async def insert(key):
                await asyncio.gather(*(c.execute("INSERT INTO flip VALUES ($1, 1)", key + n) for n, c in enumerate(clients)))

            before = tables.shared()["merged"]
            await insert(0)
            merged += tables.shared()["merged"] - before
            await ddl.execute("BEGIN")
            for statement in change:
                await ddl.execute(statement)
            waiting = asyncio.create_task(insert(100))
            await asyncio.sleep(0.002 * i)
            await ddl.execute("COMMIT")
            await waiting
            copies = [await node.fetch("SELECT id FROM flip ORDER BY id") for node in nodes]
            assert copies[0] == copies[1]
            there = {r["id"] for r in copies[0]}
            if "undistribute" not in change[0]:
                there |= {r["id"] for r in await ddl.fetch("SELECT id FROM flop")}
            assert there == {*range(CLIENTS), *range(100, 100 + CLIENTS)}
        for connection in [ddl, *nodes, *clients]:
            await connection.close()
        return merged

    assert asyncio.run(run()) > 0


def test_long_texts_keep_to_themselves(tables):
    """A statement of many such rows would cost more memory than it saves time."""
    text = "x" * 40_000

    async def client(connection, n):
        for i in range(4):
            await connection.execute(f"INSERT INTO few (id, b) VALUES ($1, '{text}'::text)", 5_000_000 + n * 4 + i)

    _, merged = asyncio.run(all_at_once(tables, client))
    assert merged == 0


def test_statements_of_one_row_that_are_more_than_that(tables):
    """RETURNING, ON CONFLICT and texts with backslashes keep to themselves."""

    async def client(connection, n):
        for i in range(EACH):
            key = 3_000_000 + n * EACH + i
            assert await connection.fetchval("INSERT INTO few (id) VALUES ($1) RETURNING id", key) == key
            assert await connection.execute("INSERT INTO few (id) VALUES ($1) ON CONFLICT DO NOTHING", key) == "INSERT 0 0"

    _, merged = asyncio.run(all_at_once(tables, client))
    assert merged == 0
    with tables.server.connect() as connection:
        with pytest.raises(psycopg.errors.UniqueViolation):
            connection.execute("INSERT INTO few (id) VALUES (3000000)")


def test_a_lock_makes_its_own_client_wait(tables):
    """A key that somebody has inserted and not committed holds up only who wants the same."""

    async def run():
        holder, blocked = await asyncpg.connect(tables.server.url), await asyncpg.connect(tables.server.url)
        await holder.execute("BEGIN")
        await holder.execute("INSERT INTO few (id) VALUES (4000000)")
        waiting = asyncio.create_task(blocked.execute("INSERT INTO few (id) VALUES ($1)", 4_000_000))

        async def client(connection, n):
            for i in range(EACH):
                await connection.execute("INSERT INTO few (id) VALUES ($1)", 4_000_001 + n * EACH + i)

        await asyncio.wait_for(all_at_once(tables, client), 120)
        assert not waiting.done()
        await holder.execute("COMMIT")
        with pytest.raises(asyncpg.UniqueViolationError):
            await asyncio.wait_for(waiting, 60)
        count = await holder.fetchval("SELECT count(*) FROM few WHERE id BETWEEN 4000000 AND 4999999")
        await holder.close()
        await blocked.close()
        return count

    assert asyncio.run(run()) == CLIENTS * EACH + 1

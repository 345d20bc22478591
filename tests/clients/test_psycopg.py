"""psycopg 3: pipeline mode, COPY in and out, server-side and binary cursors, transactions, notices."""

import asyncio
import datetime
import decimal
import threading
import uuid

import psycopg
import pytest
from psycopg.rows import dict_row


@pytest.fixture
def connection(herd):
    with herd.connect() as made:
        yield made


def test_everyday(connection, table):
    name = table("pg3_everyday")
    cursor = connection.cursor(row_factory=dict_row)
    cursor.execute(f"insert into {name} values (%s, %s, %s) returning id", (1, 10, "one"))
    assert cursor.fetchone() == {"id": 1}
    cursor.executemany(f"insert into {name} values (%s, %s, %s)", [(i, i * 10, f"t{i}") for i in range(2, 30)])
    assert cursor.execute(f"select t from {name} where id = %s", (7,)).fetchall() == [{"t": "t7"}]
    assert cursor.execute(f"select count(*) as n, sum(v) as s from {name}").fetchone() == {"n": 29, "s": 4350}
    assert cursor.execute(f"select id from {name} where id = any(%s) order by id", ([3, 1, 2],)).fetchall() == [{"id": i} for i in (1, 2, 3)]


def test_prepared_after_some_runs(connection, table):
    """psycopg prepares a statement on its sixth run."""
    name = table("pg3_prepared", rows=20)
    for i in range(1, 21):
        assert connection.execute(f"select t from {name} where id = %s", (i,)).fetchone() == (f"t{i}",)
    for i in range(1, 21):
        assert connection.execute(f"select t from {name} where id = %s", (i,), prepare=True).fetchone() == (f"t{i}",)


@pytest.mark.parametrize("binary", [False, True])
def test_types_go_there_and_back(connection, table, herd, binary):
    herd.run(
        "drop table if exists pg3_types",
        "create table pg3_types (id uuid primary key, n numeric, f float8, b bytea, d date, ts timestamptz, j jsonb, a int[], x bool)",
        "select create_distributed_table('pg3_types', 'id')",
    )
    key = uuid.UUID("123e4567-e89b-12d3-a456-426614174000")
    row = (
        key, decimal.Decimal("12345.6789"), 1.5, b"\0\xff", datetime.date(2024, 2, 29),
        datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.timezone.utc), {"a": [1, None]}, [1, 2, None], True,
    )
    cursor = connection.cursor(binary=binary)
    sent = tuple(psycopg.types.json.Jsonb(v) if isinstance(v, dict) else v for v in row)
    cursor.execute("insert into pg3_types values (%s, %s, %s, %s, %s, %s, %s, %s, %s)", sent)
    assert cursor.execute("select * from pg3_types where id = %s", (key,)).fetchone() == row
    assert cursor.execute("select * from pg3_types").fetchone() == row
    herd.run("drop table pg3_types")


def test_pipeline_mode(connection, table):
    name = table("pg3_pipeline")
    with connection.pipeline() as pipeline:
        for i in range(1, 101):
            connection.execute(f"insert into {name} values (%s, %s, 'x')", (i, i % 10))
        pipeline.sync()
        cursors = [connection.execute(f"select v from {name} where id = %s", (i,)) for i in range(1, 101)]
        total = connection.execute(f"select count(*), sum(v) from {name}")
        assert [c.fetchone()[0] for c in cursors] == [i % 10 for i in range(1, 101)]
        assert total.fetchone() == (100, 450)


def test_pipeline_error_aborts_the_rest(connection, table):
    name = table("pg3_pipeline")
    with pytest.raises(psycopg.errors.DivisionByZero), connection.pipeline():
        connection.execute(f"insert into {name} values (1, 1, 'x')")
        connection.execute(f"select 1 / 0 from {name}")
        connection.execute("select 1 / (1 - 1)")
        connection.execute(f"insert into {name} values (2, 1, 'x')")
    assert connection.execute(f"select id from {name} where id = 2").fetchall() == []


def test_transactions(connection, table):
    name = table("pg3_tx", rows=10)
    with connection.transaction():
        connection.execute(f"update {name} set v = 100 where id in (1, 2, 3)")
        with pytest.raises(psycopg.errors.UniqueViolation), connection.transaction():
            connection.execute(f"insert into {name} values (50, 1, 'gone')")
            connection.execute(f"insert into {name} values (1, 1, 'duplicate')")
        connection.execute(f"insert into {name} values (51, 1, 'kept')")
    assert connection.execute(f"select count(*) from {name} where v = 100").fetchone() == (3,)
    assert connection.execute(f"select id from {name} where id > 49").fetchall() == [(51,)]
    with pytest.raises(RuntimeError), connection.transaction():
        connection.execute(f"delete from {name}")
        raise RuntimeError
    assert connection.execute(f"select count(*) from {name}").fetchone() == (11,)


@pytest.mark.parametrize("format_", ["text", "binary"])
def test_copy_in_rows(connection, table, format_):
    name = table("pg3_copy")
    cursor = connection.cursor()
    with cursor.copy(f"copy {name} (id, v, t) from stdin (format {format_})") as copy:
        copy.set_types(["int4", "int4", "text"])
        for i in range(5000):
            copy.write_row((i, i % 7, None if i % 5 == 0 else f"text {i}"))
    assert cursor.rowcount == 5000
    assert connection.execute(f"select count(*), count(t), sum(v) from {name}").fetchone() == (5000, 4000, sum(i % 7 for i in range(5000)))
    assert connection.execute(f"select t from {name} where id = 4321").fetchone() == ("text 4321",)


@pytest.mark.parametrize("format_", ["text", "binary"])
def test_copy_out_rows(connection, table, format_):
    name = table("pg3_copy", rows=500)
    with connection.cursor().copy(f"copy {name} to stdout (format {format_})") as copy:
        copy.set_types(["int4", "int4", "text"])
        assert sorted(copy.rows()) == [(i, i % 10, f"t{i}") for i in range(1, 501)]


def test_copy_that_the_client_gives_up(connection, table):
    name = table("pg3_copy")
    with pytest.raises(RuntimeError), connection.cursor().copy(f"copy {name} from stdin") as copy:
        copy.write(b"1\t1\tx\n")
        raise RuntimeError
    assert connection.execute(f"select count(*) from {name}").fetchone() == (0,)


def test_copy_from_one_herd_table_to_another(herd, table):
    source, target = table("pg3_from", rows=300), table("pg3_to")
    with herd.connect() as one, herd.connect() as two:
        with one.cursor().copy(f"copy {source} to stdout") as out, two.cursor().copy(f"copy {target} from stdin") as into:
            for data in out:
                into.write(data)
        assert two.execute(f"select count(*) from {target}").fetchone() == (300,)


@pytest.mark.parametrize("binary", [False, True])
def test_server_side_cursor(connection, table, binary):
    name = table("pg3_cursor", rows=250)
    with connection.transaction(), connection.cursor("server_side", binary=binary) as cursor:
        cursor.itersize = 40
        cursor.execute(f"select id from {name} where id > %s order by id", (50,))
        assert [row[0] for row in cursor] == list(range(51, 251))
    with connection.transaction(), connection.cursor("scrolling", scrollable=True) as cursor:
        cursor.execute(f"select id from {name} order by id")
        cursor.scroll(100)
        assert cursor.fetchone() == (101,)
        cursor.scroll(-50)
        assert cursor.fetchmany(2) == [(52,), (53,)]


def test_stream(connection, table):
    name = table("pg3_stream", rows=200)
    assert sum(row[0] for row in connection.cursor().stream(f"select id from {name}")) == 20100


def test_errors_have_fields_and_the_session_goes_on(connection, table):
    name = table("pg3_errors", rows=1)
    with pytest.raises(psycopg.errors.UniqueViolation) as caught:
        connection.execute(f"insert into {name} values (1, 1, 'x')")
    assert caught.value.diag.table_name == name and caught.value.diag.constraint_name == f"{name}_pkey"
    with pytest.raises(psycopg.errors.UndefinedColumn):
        connection.execute(f"select nosuch from {name} where id = 1")
    with pytest.raises(psycopg.errors.SyntaxError):
        connection.execute("selec 1")
    assert connection.execute("select 1").fetchone() == (1,)


def test_notices(connection):
    said = []
    connection.add_notice_handler(lambda diagnostic: said.append((diagnostic.severity, diagnostic.message_primary)))
    connection.execute("do $$ begin raise notice 'hello'; end $$")
    assert said == [("NOTICE", "hello")]


def test_cancel(connection):
    threading.Timer(0.3, connection.cancel).start()
    with pytest.raises(psycopg.errors.QueryCanceled):
        connection.execute("select pg_sleep(20)")
    assert connection.execute("select 1").fetchone() == (1,)


def test_async_clients_at_once(herd, table):
    """Fifty connections at work: each gets its own answers, and no update is lost."""
    name = table("pg3_async", rows=10)

    async def one(n: int) -> None:
        async with await psycopg.AsyncConnection.connect(herd.conninfo, autocommit=True) as connection:
            for i in range(10):
                token = f"{n}-{i}"
                row = await (await connection.execute("select %s::text, t from " + name + " where id = %s", (token, i + 1))).fetchone()
                assert row == (token, f"t{i + 1}")
                await connection.execute(f"update {name} set v = v + 1 where id = %s", (i + 1,))

    async def all_of_them() -> None:
        await asyncio.gather(*(one(n) for n in range(50)))

    asyncio.run(all_of_them())
    with herd.connect() as connection:
        assert connection.execute(f"select sum(v) from {name}").fetchone() == (sum(i % 10 for i in range(1, 11)) + 500,)


def test_sessions_keep_their_own_state(herd):
    """Settings and temporary tables of one session are not another's, on whichever connection it is served."""
    with herd.connect() as one, herd.connect() as two:
        one.execute("set timezone = 'Asia/Tokyo'")
        two.execute("set timezone = 'Asia/Kolkata'")
        one.execute("create temp table mine (a int)")
        for _ in range(5):
            assert one.execute("show timezone").fetchone() == ("Asia/Tokyo",)
            assert two.execute("show timezone").fetchone() == ("Asia/Kolkata",)
            assert one.execute("select count(*) from mine").fetchone() == (0,)
            with pytest.raises(psycopg.errors.UndefinedTable):
                two.execute("select count(*) from mine")


def test_listen_and_notify(herd):
    with herd.connect() as listener, herd.connect() as sender:
        listener.execute("listen herd_test")
        sender.execute("select pg_notify('herd_test', 'hello')")
        got = list(listener.notifies(timeout=60, stop_after=1))
        assert [(n.channel, n.payload) for n in got] == [("herd_test", "hello")]


def test_advisory_locks_belong_to_the_session(herd):
    with herd.connect() as one, herd.connect() as two:
        assert one.execute("select pg_try_advisory_lock(4711)").fetchone() == (True,)
        assert two.execute("select pg_try_advisory_lock(4711)").fetchone() == (False,)
        assert one.execute("select pg_advisory_unlock(4711)").fetchone() == (True,)
        assert two.execute("select pg_try_advisory_lock(4711)").fetchone() == (True,)

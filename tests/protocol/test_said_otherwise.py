"""The same statements said otherwise than most do: a BEGIN in a block, a portal that is asked again at its end, `$1` where nobody gives it, names with blanks,
numbers for texts, and what only one's own session remembers, while others do the same."""

import threading

import psycopg
import pytest

from protocol.frames import bind, describe, execute, parse, query, sync
from protocol.raw import Raw

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def made(herd, oracle):
    for server in (herd, oracle):
        server.run(
            "drop table if exists so_t, so_text, so_local, so_own, values, so_serial cascade", "drop schema if exists so_clock cascade", "create table so_t (id int primary key, v int)", "create table so_text (k text primary key, v int)",
            "create table so_local (id int primary key, v int)", "create table values (id int primary key, v int)", "create table so_serial (id serial primary key, a int)",
            "create schema so_clock", "create function so_clock.now() returns timestamptz language sql as $$select '2000-01-01 00:00:00+00'::timestamptz$$",
            "create or replace function so_who() returns text language sql volatile return pg_current_xact_id()::text", "create table so_own (id int primary key, tx text default so_who(), at timestamptz)",
            "insert into so_local select g, g from generate_series(1, 20) g",
        )
    herd.run(*(f"select create_distributed_table('{table}', '{key}')" for table, key in (("so_t", "id"), ("so_text", "k"), ("values", "id"), ("so_own", "id"))))
    for server in (herd, oracle):
        server.run("insert into so_t select g, g from generate_series(1, 60) g")
    yield
    for server in (herd, oracle):
        server.run("drop table so_t, so_text, so_local, so_own, values, so_serial", "drop function so_who()", "drop schema so_clock cascade")


def _alike(herd, oracle, frames: bytes, syncs: int = 1) -> list[str]:
    said = [Raw(server).transcript(frames, syncs) for server in (herd, oracle)]
    assert said[0] == said[1], said
    return said[0]


@pytest.mark.parametrize("options", ["isolation level serializable", "read only", "isolation level repeatable read, read only", "read write"])
@pytest.mark.parametrize("before", ["", "select 1", "select v from so_t where id = 1", "select count(*) from so_t"])
def test_begin_in_a_block_says_how_the_transaction_is(made, herd, oracle, options, before):
    shows = query("select current_setting('transaction_isolation'), current_setting('transaction_read_only')")
    work = query("begin") + (query(before) if before else b"") + query(f"begin {options}") + shows + query("update so_t set v = v where id = 1") + query("rollback") + shows
    _alike(herd, oracle, work, 7 if before else 6)


@pytest.mark.parametrize("sql", ["select id from so_t where id = 3", "select id from so_local where id < 16 order by id", "select id from so_t where id < 16 order by id", "select 1"])
def test_a_portal_that_has_ended_is_asked_again(made, herd, oracle, sql):
    again = execute("p", rows_max=10) + sync()
    work = query("begin") + parse(sql) + bind(portal="p") + again + again + again + again + query("commit")
    _alike(herd, oracle, work, 6)


@pytest.mark.parametrize("kind", ["S", "P"])
def test_nothing_is_described_in_a_failed_transaction(made, herd, oracle, kind):
    for sql, named in (("select v from so_t where id = 1", "one"), ("update so_t set v = 2 where id = 1", "two")):
        work = parse(sql, named) + sync() + query("begin") + bind(statement=named, portal=named) + sync() + query("select 1/0") + describe(kind, named) + sync() + query("rollback")
        _alike(herd, oracle, work, 6)


@pytest.mark.parametrize("sql", [
    "update so_t set v = $1 where id = 5", "delete from so_t where id = 5 and v = $1", "select v from so_t where id = 5 and v = $1", "select count(*) from so_t where v = $1",
    "insert into so_t values ($1, 1)", "insert into so_local values (50, $1)",
])
def test_a_parameter_that_nobody_gives(made, herd, sql):
    """Also where such statements would travel together, a literal in its place."""
    stop, errors = threading.Event(), []

    def others() -> None:
        try:
            with herd.connect() as connection:
                n = 0
                while not stop.is_set():
                    n += 1
                    connection.execute(f"update so_t set v = {n} where id = {n % 40 + 10}")
        except psycopg.Error as error:
            errors.append(error)

    threads = [threading.Thread(target=others) for _ in range(6)]
    for thread in threads:
        thread.start()
    try:
        with Raw(herd) as raw:
            for _ in range(60):
                said = raw.transcript(query(sql))
                assert "42P02" in said[0], said
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not errors, errors


def test_what_the_protocol_has_prepared_is_executed_by_sql(made, herd, oracle):
    for declared, sql, call in ((20, "select $1 + 1", "execute s(3000000000)"), (20, "select v, $1 from so_t where id = $1", "execute s(7)"), (1700, "select $1", "execute s(1.50)"), (0, "select $1 + 1", "execute s(3000000000)")):
        _alike(herd, oracle, parse(sql, "s", (declared,)) + sync() + query(call), 2)


@pytest.mark.parametrize("table", ["public . so_t", "public/* in */./* between */so_t", "public\n.\nso_t", 'U&"so_t"', "so_t *", "public.so_t", '"public"."so_t"', "only (so_t)", "so_t as a", "public . so_t a", "public . so_t *"])
def test_names_with_blanks(made, herd, oracle, table):
    for sql in (f"select v from {table} where id = 9", f"select count(*) from {table}", f"update {table} set v = v + 1 where id = 9", f"delete from {table} where id = 99"):
        _alike(herd, oracle, query(sql))
        _alike(herd, oracle, query(sql.replace("9", "8")))


def test_a_table_called_values(made, herd, oracle):
    for sql in (
        "insert into values values (1, 1), (2, 2), (3, 3)", "insert into values (id, v) values (4, 4), (5, 5)", "insert into public.values as values values (6, 6), (7, 7)",
        "with values as (select 1) insert into public.values values (8, 8), (9, 9)", "select * from values order by id",
    ):
        _alike(herd, oracle, query(sql))


def test_numbers_are_printed_before_they_are_texts(made, herd, oracle):
    numbers = ("7", "1e3", ".5", "5.", "007", "0x10", "1_000", "-0", "+5", "1.50", "-.5e1", "12345678901234567890", "0.00000001")
    for n, number in enumerate(numbers):
        for server in (herd, oracle):
            server.run(f"delete from so_text where k = ({number})::text")
        _alike(herd, oracle, query(f"insert into so_text values ({number}, {n})"))
        _alike(herd, oracle, query(f"insert into so_text values ({number}, {n}), ({number} + 1000, {n}) on conflict do nothing"))
    _alike(herd, oracle, query('select k, v from so_text order by k collate "C"'))
    for sql in ("select v from so_text where k = '1000'", "select v from so_text where k = '7'", "select v from so_text where k = '0.5'"):
        _alike(herd, oracle, query(sql))


def test_numbers_for_keys_that_have_no_room_for_them(made, herd, oracle):
    for n, kind in enumerate(("varchar(3)", "char(3)", "boolean", "date", "uuid", "name", "varchar", "char(12)")):
        for server in (herd, oracle):
            server.run(f"drop table if exists so_narrow_{n}", f"create table so_narrow_{n} (k {kind}, v int)")
        herd.run(f"select create_distributed_table('so_narrow_{n}', 'k')")
        for number in ("12345", "7", "1e3", "1", "007", "-1"):
            _alike(herd, oracle, query(f"insert into so_narrow_{n} values ({number}, 1)"))
            _alike(herd, oracle, query(f"insert into so_narrow_{n} values ({number}, 2), ({number}, 3)"))
        _alike(herd, oracle, query(f'select k, v from so_narrow_{n} order by k::text collate "C", v'))
        _alike(herd, oracle, query(f"select count(*) from so_narrow_{n} where k::text = '1000'"))
        for server in (herd, oracle):
            server.run(f"drop table so_narrow_{n}")


def test_tables_called_like_keywords(made, herd, oracle):
    for server in (herd, oracle):
        server.run("drop table if exists recursive", "create table recursive (id int primary key, v int)")
    herd.run("select create_distributed_table('recursive', 'id')")
    for sql in (
        "insert into recursive values (1, 1), (2, 2)", "insert into so_t as recursive values (9001, 1), (9002, 2)", "with recursive values as (select 1) insert into recursive values (3, 3), (4, 4)",
        "with recursive as (select 1) insert into recursive values (5, 5), (6, 6)", "select * from recursive order by id", "delete from so_t where id > 9000",
    ):
        _alike(herd, oracle, query(sql))
    for server in (herd, oracle):
        server.run("drop table recursive")


def test_dollars_in_strings(made, herd, oracle):
    for scs in ("on", "off"):
        _alike(herd, oracle, query(f"set standard_conforming_strings = {scs}") + query("select 'a $1 b', $$x $2$$, v from so_t where id = 2") + query(r"select 'don\'t pay $5 now' from so_t where id = 2" if scs == "off" else "select 'pay $5'") + query("update so_t set v = 3 where id = 2 and '$1' <> 'a'"), 4)
    _alike(herd, oracle, query("select $1 from so_gone"))
    _alike(herd, oracle, query("select $1 from so_t where id = 1"))


_TAKING = {
    "left out": ("insert into so_serial (a) values (%s)", lambda a: (a,)), "default": ("insert into so_serial values (default, %s)", lambda a: (a,)),
    "set to it": ("update so_numbered set n = default where id = %s", lambda a: (a % 8 + 1,)), "among others": ("update so_numbered set (n, v) = (default, 1) where id = %s", lambda a: (a % 8 + 1,)),
    "in conflict": ("insert into so_numbered values (%s, 1) on conflict (id) do update set n = default", lambda a: (a % 8 + 1,)),
}


@pytest.mark.parametrize("name", _TAKING)
def test_what_a_session_took_of_a_sequence_it_knows(made, herd, name):
    """Also where many do so at once, of whom each has what the others have not."""
    sql, values = _TAKING[name]
    herd.run("create sequence if not exists so_numbers", "create table if not exists so_numbered (id int primary key, n bigint default nextval('so_numbers'), v int)", "insert into so_numbered select g, 1 from generate_series(1, 8) g on conflict do nothing")
    errors, all_taken = [], []

    def client(n: int) -> None:
        try:
            with herd.connect() as connection:
                for turn in range(25):
                    connection.execute(sql, values(n * 1000 + turn))
                    all_taken.append(connection.execute("select lastval()").fetchone()[0])
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=client, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    assert len(set(all_taken)) == len(all_taken) == 200
    herd.run("drop table so_numbered", "drop sequence so_numbers")


def test_a_default_that_asks_for_its_transaction(made, herd):
    """Rows of several clients may be one transaction on a node, unless their defaults call what users have made."""

    def client(n: int) -> None:
        with herd.connect() as connection:
            for turn in range(25):
                connection.execute("insert into so_own (id) values (%s)" if n % 2 else "insert into so_own (id, at) values (%s, '2020-01-01')", (n * 1000 + turn,))

    threads = [threading.Thread(target=client, args=(n,)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # On one node each has a number of its own.
    with herd.connect() as connection:
        for shard in [row[0] for row in connection.execute("select distinct tableoid::regclass::text from so_own").fetchall()]:
            count, different = connection.execute(f"select count(*), count(distinct tx) from so_own where tableoid::regclass::text = '{shard}'").fetchone()
            assert count == different, shard


def test_a_clock_of_ones_own(made, herd, oracle):
    statements = (
        "select now(), transaction_timestamp() > now()", "select count(*) from so_own where at > now()", "insert into so_own (id, at) values (100001, now()), (100002, now())",
        "update so_own set at = now() where id > 100000", "select at from so_own where id > 100000 order by id", "select extract(year from now()) from so_t where id < 3", "select * from now()",
        "delete from so_own where id > 100000 and at = now()", "set search_path = public, so_clock", "select now() > '2001-01-01'",
    )
    for server in (herd, oracle):
        server.run("delete from so_own")
    with herd.connect() as one, oracle.connect() as other:
        for connection in (one, other):
            connection.execute("set search_path = so_clock, public, pg_catalog")
        for sql in statements:
            said = []
            for connection in (one, other):
                cursor = connection.execute(sql)
                said.append((cursor.statusmessage, cursor.fetchall() if cursor.description else None))
            assert said[0] == said[1], sql


def test_a_statement_limit_holds_for_who_travels_with_others(made, herd):
    with herd.connect(autocommit=False) as holder:
        holder.execute("lock table so_t in exclusive mode")
        said = []

        def client(n: int) -> None:
            with herd.connect() as connection:
                connection.execute("set statement_timeout = '700ms'")
                try:
                    connection.execute(f"insert into so_t values ({70000 + 2 * n}, 1), ({70001 + 2 * n}, 1)")
                    said.append(None)
                except psycopg.Error as error:
                    said.append(error.sqlstate)

        threads = [threading.Thread(target=client, args=(n,)) for n in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert said == ["57014"] * 40, said
        holder.rollback()
    herd.run("delete from so_t where id >= 70000")

"""Where DuckDB would answer otherwise than PostgreSQL, or take its time: floats of texts, the first rows of an outer join, many rows, many readers, long keys."""

import json
import threading

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("columns"), pytest.mark.timeout(300)]


def _same(connection, statements: list[str]) -> None:
    for sql in statements:
        connection.execute("set herd.columns = off")
        rows = connection.execute(sql).fetchall()
        connection.execute("set herd.columns = on")
        assert connection.execute(sql).fetchall() == rows, sql


def test_floats_that_stand_beside_other_numbers(columns):
    columns.server.run(
        "drop table if exists d_floats", "create table d_floats (id int primary key, f8 float8, f4 real, i4 int, n numeric(12,3), wide numeric(20,1))",
        "select create_distributed_table('d_floats', 'id')",
        "insert into d_floats values (1, 0.1, 0.1, 16777217, 0.1, 9007199254740993.5), (2, '0.1'::real, 0.5, 16777216, 0.5, 9007199254740992), (3, null, null, null, null, null)",
    )
    columns.add("d_floats")
    before = columns.reads()[0]
    with columns.server.connect() as connection:
        _same(connection, [
            f"select count(*), min(id) from d_floats where {condition}" for condition in (
                "f8 = '0.1'::real", "f8 > '0.1'::real", "i4 = '16777217'::real", "n = '0.1'::real", "f4 = '0.1'::real", "f4 = 0.1", "f8 = 0.1", "i4 between '16777217'::real and 1e9::real",
                "n = 0.5::float8", "wide = 9007199254740994::float8", "wide < 9007199254740994::float8", "n in ('0.1'::real, '0.5'::real)", "f4 > '1e-45'::real",
            )
        ])
    assert columns.reads()[0] > before


def test_the_first_rows_of_an_outer_join(columns):
    """DuckDB leaves out blocks of the table whose rows may be missing, and takes them for missing."""
    columns.server.run(
        "drop table if exists d_few, d_many", "create table d_few (id bigint primary key)", "create table d_many (id bigint, seq bigint, v bigint not null, primary key (id, seq))",
        "select create_distributed_table('d_few', 'id')", "select create_distributed_table('d_many', 'id', colocate_with => 'd_few')",
        "insert into d_few select g from generate_series(0, 31999) g", "insert into d_many select g / 10, g % 10, 320000 - g from generate_series(0, 319999) g",
    )
    columns.add("d_few")
    columns.add("d_many")
    joins = ("d_few u left join d_many e on e.id = u.id", "d_many e right join d_few u on e.id = u.id", "d_few u full join d_many e on e.id = u.id")
    before = columns.reads()[0]
    with columns.server.connect() as connection:
        for join in joins:
            _same(connection, [
                f"select u.id, e.v from {join} order by e.v desc limit 10", f"select u.id, e.v from {join} order by e.v nulls first limit 10",
                f"select * from (select e.v, u.id from {join}) x order by v desc limit 10", f"select u.id, max(e.v) from {join} group by u.id order by 2 desc limit 10",
                f"select e.v from {join} group by e.v order by e.v desc limit 10", f"select distinct e.v from {join} order by e.v desc limit 10",
            ])
    # Groups have been made of all.
    assert columns.reads()[0] > before
    # More groups than a store tells of: rows answer.
    with columns.server.connect() as connection:
        connection.execute("set herd.columns = on")
        assert len(connection.execute("select v, count(*) from d_many group by v").fetchall()) == 320_000
    columns.server.run("drop table d_few, d_many")


def _says(connection, sql: str):
    try:
        return connection.execute(sql).fetchall()
    except psycopg.Error as error:
        return error.sqlstate


def test_what_can_not_be_computed_is_an_error(columns):
    """Also where DuckDB knows by the column's bounds what would come out."""
    columns.server.run(
        "drop table if exists d_case", "create table d_case (id int primary key, x int not null, a int not null, b int not null, s text not null)", "select create_distributed_table('d_case', 'id')",
        "insert into d_case values (1, 1, 0, 0, 'a'), (2, 2147483647, 0, 0, 'b')",
    )
    columns.add("d_case")
    statements = (
        "select count(case when x + 1 > 0 then 1 else 0 end) from d_case", "select count(*) from d_case where case when x + 1 > 0 then 1 else 0 end < 5", "select count(*) from d_case where case when x + 1 > 0 then 1 else 0 end in (2, 3)",
        "select count(case x + 1 when 1 then 'a' else 'b' end) from d_case", "select bool_and(case when x + 1 > 0 then 1 else 0 end >= 0) from d_case", "select count(case when x * x > 0 then a else b end) from d_case",
        "select count(*) from d_case where case when x + 1 > 0 then true else false end is null", "select count(case when x + 1 > 0 then true else false end) from d_case", "select count(case when x + 1 > 0 then 1.5 else 2 end) from d_case",
        "select count(*) from d_case where x + 1 between 0 and 9", "select count(*) from d_case where nullif(a, x + 1) > 100000", "select max(case when x + 1 > 0 then s else 'z' end) from d_case",
        "select case when x + 1 > 0 then 1 else 0 end, count(*) from d_case group by 1", "select count(*) from d_case where (case when x + 1 > 0 then 1 else 0 end) is not null",
    )
    with columns.server.connect() as connection:
        connection.execute("set herd.columns = on")
        for sql in statements:
            assert _says(connection, sql) == "22003", sql
        columns.server.run("insert into d_case values (3, 2147483647, 10, 0, 'c')")
        assert _says(connection, "select count(*) from d_case where a not between x + 1 and 9") == "22003"
    columns.server.run("drop table d_case")


def test_a_full_join_for_which_postgresql_has_no_plan(columns):
    columns.server.run(
        "drop table if exists d_left, d_right", "create table d_left (a int primary key, x int)", "create table d_right (b int primary key, y int, n numeric(8,2))", "select create_reference_table('d_left')", "select create_reference_table('d_right')",
        "insert into d_left select g, g % 3 from generate_series(1, 30) g", "insert into d_right select g, g % 4, g from generate_series(20, 50) g",
    )
    columns.add("d_left")
    columns.add("d_right")
    with columns.server.connect() as connection:
        connection.execute("set herd.columns = on")
        for on in ("a < b", "a = b or x = y", "a is not distinct from b", "a = 1", "a = b and a < b", "a = b and a = 3", "a + b = 40", "true", "a = x", "a = b and not x = y"):
            with_columns = _says(connection, f"select count(*), sum(a), sum(b) from d_left full join d_right on {on}")
            connection.execute("set herd.columns = off")
            assert _says(connection, f"select count(*), sum(a), sum(b) from d_left full join d_right on {on}") == with_columns, on
            connection.execute("set herd.columns = on")
        before = columns.reads()[0]
        _same(connection, [f"select count(*), sum(a), sum(b) from d_left full join d_right on {on}" for on in ("a = b", "a = b and x = y", "b = a", "a + 1 = b", "a = n")])
        assert columns.reads()[0] > before
    columns.server.run("drop table d_left, d_right")


def test_what_grows_with_every_level(columns):
    """Neither the router nor a store takes long for what says little."""
    columns.server.run(
        "drop table if exists d_deep", 'create table d_deep (id int primary key, x int, m timestamp, s text collate "C")', "select create_distributed_table('d_deep', 'id')",
        "insert into d_deep select g, g, '2020-01-01'::timestamp + g * interval '1 day', repeat('a', 200) from generate_series(1, 10) g",
    )
    columns.add("d_deep")

    def nested(begin: str, end: str, of: str, depth: int) -> str:
        return begin * depth + of + end * depth

    nullif, lower, days = nested("nullif(", ", 1)", "x", 40), nested("lower(", ")", "s", 40), nested("date_trunc('day', ", ")", "m", 30)
    cases, whens = nested("case ", " when 1 then 1 when 2 then 2 end", "x", 40), " ".join(f"when {n} then {n}" for n in range(2000))
    statements = (
        f"select count({nullif}) from d_deep", f"select count(*) from d_deep where {lower} = 'a'", f"select count({days}) from d_deep",
        f"select count(*) from d_deep where {cases} = 1", f"select count(*) from d_deep where case coalesce({'x, ' * 2000}x) {whens} end = 1",
        f"select count(*) from d_deep where {nested('(', ' between 1 and 9)::int', 'x', 12)} = 1",
        "select count(*) from d_deep where s like '%_a%_a%_a%_a%_a%_a%b'", "select count(*) from d_deep where s ilike '%a%a%a%a%a%a%b'", r"select count(*) from d_deep where s like '%\a%\a%\a%\a%\a%b'", "select count(*) from d_deep where lower(s) like '%_a%_a%_a%_a%_a%b'",
    )
    with columns.server.connect() as connection:
        connection.execute("set statement_timeout = '20s'")
        _same(connection, list(statements))
        before = columns.reads()[0]
        _same(connection, ["select count(*) from d_deep where s like '%_a%'", "select count(*) from d_deep where s ilike 'A%aa'", "select count(*) from d_deep where s like 'a%a%a%a%b'", r"select count(*) from d_deep where s like '%\_a%'"])
        assert columns.reads()[0] > before
    columns.server.run("drop table d_deep")


def test_a_name_of_a_type_that_is_somebodys_own(columns):
    columns.server.run(
        "drop schema if exists d_own cascade", "drop table if exists d_named", "create table d_named (id int primary key, s text)", "select create_distributed_table('d_named', 'id')",
        "insert into d_named values (1, 'a'), (2, 'ab')", "create schema d_own", "create domain d_own.text as varchar(1)",
    )
    columns.add("d_named")
    with columns.server.connect() as connection:
        connection.execute("set search_path = d_own, public, pg_catalog")
        _same(connection, ["select count(*), min(id) from d_named where s = 'ab'::text", "select count(*), min(id) from d_named where s = 'ab'::pg_catalog.text"])
    columns.server.run("drop schema d_own cascade", "drop table d_named")


def test_readers_that_are_all_busy(columns):
    """Who comes to them is not kept from his rows for longer than he waits for fresh ones."""
    columns.server.run("drop table if exists d_busy", "create table d_busy (id int primary key, v int)", "select create_distributed_table('d_busy', 'id')", "insert into d_busy select g, g from generate_series(1, 5000) g")
    columns.add("d_busy")
    number, shards = columns.id("d_busy"), """select md5(string_agg(c.relname::text, ',' order by c.relname::text collate "C"))
        from pg_partition_tree('d_busy') t join pg_class c on c.oid = t.relid where t.isleaf"""
    with columns.herd.node_servers[0].connect() as node:
        table = {"copy": int(number), "schema": "public", "name": "d_busy", "shards": node.execute(shards).fetchone()[0]}
    # Some minutes of work each.
    slow = f"SELECT count(*) FROM copy_{number} a, copy_{number} b, copy_{number} c, copy_{number} d WHERE a.v + b.v + c.v + d.v = 7"
    busy = [columns.stores[0].connect(user="herd", dbname="herd") for _ in range(4)]
    said = []

    def ask(connection) -> None:
        try:
            connection.execute(json.dumps({"tables": [table], "types": ["int8"], "wait_ms": 30000}) + "\n" + slow)
        except psycopg.Error as error:
            said.append(error.sqlstate)

    threads = [threading.Thread(target=ask, args=(connection,)) for connection in busy]
    for thread in threads:
        thread.start()
    with columns.server.connect() as connection:
        connection.execute("set herd.columns = on")
        connection.execute("set statement_timeout = '60s'")
        for _ in range(3):
            assert connection.execute("select count(*), sum(v) from d_busy").fetchone() == (5000, 12502500)
    for connection in busy:
        connection.close()
    for thread in threads:
        thread.join(60)


def test_a_long_key_of_a_copy_that_is_sorted(columns):
    """An UPDATE does not tell it again."""
    columns.server.run(
        "drop table if exists d_keys", "create table d_keys (url text primary key, k bigint not null, n int)", "alter table d_keys alter column url set storage external",
        "select create_distributed_table('d_keys', 'url')", "insert into d_keys select repeat(md5(g::text), 70) || g, (g::int8 * 7919) % 100003, 0 from generate_series(1, 1000) g",
    )
    columns.add("d_keys", ", order_by => array['k']")
    stop, errors = threading.Event(), []

    def write() -> None:
        try:
            with columns.server.connect() as connection:
                # What is said here the stores have to follow: no faster than they can, beside whatever else runs.
                while not stop.wait(0.1):
                    connection.execute("update d_keys set n = n + 1 where k % 7 = 3")
        except psycopg.Error as error:
            errors.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        # Enough that it is sorted anew.
        columns.server.run("insert into d_keys select 'short ' || g, (g::int8 * 7919) % 100003, 0 from generate_series(1, 220000) g")
        with columns.server.connect() as connection:
            connection.execute("set herd.columns = on")
            for _ in range(30):
                assert connection.execute("select count(*) from d_keys").fetchone() == (221000,)
    finally:
        stop.set()
        writer.join()
    assert not errors, errors
    with columns.server.connect() as connection:
        connection.execute("set herd.freshness_wait = '60s'")
        _same(connection, ["select count(*), sum(n), sum(k) from d_keys"])
    columns.server.run("drop table d_keys")

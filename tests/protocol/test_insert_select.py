"""INSERT … SELECT from shard to shard, wherever it stands in a transaction: its source is what one server would read then."""

import psycopg
import pytest

_RUNS = {
    "behind writes": ["begin", "insert into is_from values (101, 'new'), (102, 'new')", "insert into is_to select v, k from is_from where k > 100", "commit"],
    "behind a delete": ["begin", "delete from is_from where k < 5", "insert into is_to select v, k from is_from", "commit"],
    "behind its own": ["begin", "insert into is_to select v, k from is_from", "insert into is_from select k + 1000, v from is_to", "insert into is_to select v, k from is_from where k > 1000", "commit"],
    "a string": ["insert into is_local values (77, 'new'); insert into is_to select v, k from is_local"],
    "a string of rows": ["insert into is_from values (201, 'a'), (202, 'b'), (203, 'c'); insert into is_to select v, k from is_from where k > 200"],
    "a string that empties": ["delete from is_from; insert into is_to select v, k from is_from"],
    "truncate in a string": ["truncate is_from; insert into is_to select v, k from is_from"],
    "a lock in a string": ["lock table is_from in access exclusive mode; insert into is_to select v, k from is_from"],
    "a lock": ["begin", "lock table is_from in access exclusive mode", "insert into is_to select v, k from is_from", "commit"],
    "a new column": ["begin", "alter table is_from add extra int default 4", "insert into is_to select v, extra from is_from", "rollback"],
    "a new table": ["insert into is_from values (900, 'n'); create table is_made as select k, v from is_from", "select count(*), max(k) from is_made", "drop table is_made"],
    "a local setting": ["set my.v = 'x'", "begin", "set local my.v = 'y'", "insert into is_to select current_setting('my.v'), k from is_from", "commit"],
    "a setting": ["begin", "set my.v = 'z'", "insert into is_to select current_setting('my.v'), k from is_from", "rollback", "begin", "set my.v = 'w'", "insert into is_to select current_setting('my.v'), k from is_from", "commit"],
    "a setting in a string": ["set my.v = 's'; insert into is_to select current_setting('my.v'), k from is_from", "select current_setting('my.v')"],
    "timezone": ["begin", "set local timezone = 'Asia/Tokyo'", "insert into is_to select '2024-02-01 00:00+00'::timestamptz::text, k from is_from", "commit"],
    "search_path": ["begin", "set local search_path = is_other, public", "insert into public.is_to select v, k from is_from", "commit"],
    "set_config": ["begin", "select set_config('my.v', 'c', true)", "insert into is_to select current_setting('my.v'), k from is_from", "commit"],
    "a local role": ["begin", "set local role is_nobody", "insert into is_free select v, k from is_from", "rollback"],
    "a policy's tenant": ["begin", "set local role is_nobody", "set local my.tenant = 'b'", "insert into is_free select v, k from is_secrets", "commit", "select v, count(*) from is_free group by 1"],
    "a policy of the target": [
        "begin", "set local role is_nobody", "set local my.tenant = 'b'", "insert into is_secrets select k + 500, v, 'b' from is_secrets", "select count(*) from is_secrets", "rollback",
        "begin", "set local role is_nobody", "set local my.tenant = 'b'", "insert into is_secrets select k + 500, v, 'a' from is_secrets", "rollback",
    ],
    "repeatable read": ["begin isolation level repeatable read", "select count(*) from is_from", "OTHER insert into is_from values (300, 'late')", "insert into is_to select v, k from is_from", "commit"],
    "repeatable read from the start": ["begin isolation level repeatable read", "insert into is_to select v, k from is_from", "OTHER insert into is_from values (301, 'late')", "select count(*) from is_from", "commit"],
    "with RETURNING": ["begin", "insert into is_from values (400, 'r')", "insert into is_to select v, k from is_from where k = 400 returning k, v", "commit"],
    "on conflict": ["begin", "insert into is_from values (401, 'r')", "insert into is_unique select v, k from is_from where k in (401, 3) on conflict (v) do update set k = excluded.k", "insert into is_unique select v, k + 1 from is_from where k in (401, 3) on conflict (v) do update set k = excluded.k", "commit", "select v, k from is_unique order by k"],
    "sequences": ["begin", "insert into is_from values (402, 'r')", "insert into is_to select v || nextval('is_values'), k from is_from where k = 402", "select currval('is_values') = lastval()", "commit"],
    "a savepoint": ["begin", "savepoint s", "insert into is_from values (403, 'r')", "insert into is_to select v, k from is_from where k > 400", "rollback to s", "insert into is_to select v, k from is_from where k > 19", "commit"],
    "an error in the source": ["begin", "delete from is_from where k = 1", "insert into is_to select v, 1 / (k - 7) from is_from", "rollback"],
    "an error in the target": ["begin", "delete from is_from where k = 1", "insert into is_to select null, k from is_from", "rollback"],
    "a temporary table": ["create temp table is_local (k int, v text)", "insert into is_local values (9, 'temp')", "insert into is_to select v, k from is_local"],
    "a temporary table, upsert": ["create temp table is_stage (k int, v text)", "insert into is_stage values (9, 'a'), (10, 'b')", "insert into is_unique select v, k from is_stage on conflict (v) do update set k = 0", "select v, k from is_unique order by v"],
    "one that hides a distributed one": ["create temp table is_from (k int, v text)", "insert into is_from values (9, 'temp')", "insert into is_to select v, k from is_from"],
    "a temporary view and sequence": ["create temp table is_stage (k int, v text)", "create temp view is_seen as select * from is_stage", "create temp sequence is_counts", "insert into is_stage values (9, 'temp')", "insert into is_to select v || nextval('is_counts'), k from is_seen"],
    "two WITH": ["insert into is_local values (100, 'l')", "with z as (select * from is_local) insert into is_to with recursive is_local(k) as (select 1 union all select k + 1 from is_local where k < 3) select 'r' || k, k from is_local union all select 'z' || k, k from z"],
    "two WITH of one name": ["with w as (select 1 as a) insert into is_to with w as (select k * 7 as a, v from is_from) select v, a from w order by a limit 3"],
    "a recursive one outside": ["with recursive z as (select 1 as a) insert into is_to with is_from as (select k * 7 as k, v from is_from) select v, k from is_from"],
    "chained": ["begin", "set transaction isolation level serializable", "select 1", "commit and chain", "select current_setting('transaction_isolation')", "commit"],
    "chained read only": ["begin", "set transaction read only", "select count(*) from is_from", "rollback and chain", "insert into is_from values (1, 'x')", "rollback"],
    "chained once more": ["begin isolation level repeatable read", "set transaction read only", "commit and chain", "commit and chain", "select current_setting('transaction_isolation'), current_setting('transaction_read_only')", "select count(*), count(distinct current_setting('transaction_read_only')) from is_from", "commit"],
    "no rows": ["begin", "delete from is_from", "insert into is_to select v, k from is_from", "commit"],
    "rounded floats": ["set extra_float_digits = 1", "insert into is_floats values (sqrt(2.0::float8), 1)", "select count(*) from is_floats where f = sqrt(2.0::float8)"],
}
_ENDS = ["select count(*), count(distinct v), sum(k), min(v), max(v) from is_to", "select count(*), sum(k) from is_from"]


_DROPS = [
    "drop schema if exists is_other cascade", "drop table if exists is_from, is_to, is_local, is_free, is_secrets, is_unique, is_floats",
    "drop sequence if exists is_values", "drop role if exists is_nobody",
]


@pytest.fixture(scope="module")
def tables(oracle, herd):
    for server in (oracle, herd):
        server.run(
            *_DROPS, "create role is_nobody", "create sequence is_values", "create table is_from (k int, v text)",
            "create table is_to (v text not null, k int)", "create table is_local (k int, v text)", "create table is_free (v text, k int)", "create table is_unique (v text primary key, k int)",
            "create table is_secrets (k int, v text, tenant text)", "create table is_floats (f float8, k int)",
            "insert into is_secrets select g, 'of ' || t, t from generate_series(1, 10) g, unnest(array['a', 'b']) t", "alter table is_secrets enable row level security",
            "create policy p on is_secrets using (tenant = current_setting('my.tenant', true))", "grant select, insert on is_secrets to is_nobody", "grant all on is_free to is_nobody",
            "create schema is_other", "create table is_other.is_from (k int, v text)", "insert into is_other.is_from values (1, 'other')",
        )
    herd.run("select create_distributed_table('is_from', 'k')", "select create_distributed_table('is_other.is_from', 'k')", "select create_distributed_table('is_secrets', 'k')")
    herd.run(*(f"select create_distributed_table('{t}', 'v')" for t in ("is_to", "is_free", "is_unique")), "select create_distributed_table('is_floats', 'f')")
    yield
    for server in (oracle, herd):
        server.run(*_DROPS)


@pytest.fixture
def made(tables, oracle, herd):
    for server in (oracle, herd):
        server.run("truncate is_from, is_to, is_local, is_free, is_unique, is_floats", "insert into is_from select g, 'v' || g from generate_series(1, 20) g")


@pytest.mark.parametrize("name", _RUNS)
def test_as_one_server(made, oracle, herd, name):
    def said(server):
        lines = []
        with server.connect(autocommit=True) as connection, server.connect(autocommit=True) as another:
            connection.execute("set statement_timeout = '60s'")
            for sql in _RUNS[name] + _ENDS:
                of, sql = (another, sql.removeprefix("OTHER ")) if sql.startswith("OTHER ") else (connection, sql)
                try:
                    cursor = of.execute(sql)
                    while cursor.nextset():
                        pass
                    lines.append((sql, cursor.fetchall() if cursor.description else cursor.statusmessage))
                except psycopg.Error as e:
                    lines.append((sql, e.sqlstate))
        return lines

    assert said(herd) == said(oracle)


def test_pipelines(made, oracle, herd):
    def said(server):
        with server.connect(autocommit=True) as connection:
            with connection.pipeline():
                connection.execute("insert into is_from values (501, 'a'), (502, 'b')")
                connection.execute("insert into is_to select v, k from is_from where k > 500")
            return connection.execute("select count(*) from is_to").fetchone()

    assert said(herd) == said(oracle) == (2,)


def test_values_of_sequences_are_taken_with_the_local_role(made, herd):
    herd.run("drop table if exists is_serial", "create table is_serial (k int, n bigserial, v text)", "select create_distributed_table('is_serial', 'k')", "grant all on is_serial to is_nobody")
    with herd.connect(autocommit=True) as connection, connection.transaction(force_rollback=True):
        connection.execute("set local role is_nobody")
        with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.cursor().copy("copy is_serial (k, v) from stdin") as copy:
            copy.write("1\ta\n2\tb\n3\tc\n")
    herd.run("drop table is_serial")


def test_rounded_floats_do_not_travel(made, herd):
    with herd.connect(autocommit=True) as connection:
        connection.execute("set extra_float_digits = -6")
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            connection.execute("insert into is_floats values (sqrt(2.0::float8), 1), (sqrt(3.0::float8), 2)")


@pytest.mark.parametrize("name", ["extra_float_digits", 'u&"extra\\005ffloat_digits"', """u&"extra!005ffloat_digits" uescape '!'"""])
def test_settings_are_known_however_they_are_written(made, herd, name):
    """Floats that are read in a transaction in which they are rounded don't get into another table."""
    with herd.connect(autocommit=True) as connection, connection.transaction(force_rollback=True):
        connection.execute(f"set local {name} = -6")
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            connection.execute("insert into is_floats select sqrt(k::float8), k + 1 from is_from")


def test_locks_of_the_source_last(made, herd):
    with herd.connect() as connection, herd.connect(autocommit=True) as another:
        connection.autocommit = False
        connection.execute("insert into is_to select v, k from is_from where k = 7 for update")
        another.execute("set lock_timeout = '300ms'")
        for wait in (True, False):
            if wait:
                with pytest.raises(psycopg.errors.LockNotAvailable):
                    another.execute("update is_from set v = 'w' where k = 7")
            else:
                connection.rollback()
                assert another.execute("update is_from set v = 'w' where k = 7").rowcount == 1


@pytest.mark.parametrize("first", ["truncate is_serial restart identity", "alter sequence is_serial_n_seq restart with 500"])
def test_values_of_a_restarted_sequence_are_not_waited_for(made, herd, first):
    herd.run("drop table if exists is_serial", "create table is_serial (k int, n bigserial, v text)", "select create_distributed_table('is_serial', 'k')")
    with herd.connect(autocommit=True) as connection:
        connection.execute("set statement_timeout = '30s'")
        with connection.transaction(force_rollback=True):
            connection.execute(first)
            with pytest.raises(psycopg.errors.FeatureNotSupported), connection.cursor().copy("copy is_serial (k, v) from stdin") as copy:
                copy.write("1\ta\n2\tb\n")
        with connection.cursor().copy("copy is_serial (k, v) from stdin") as copy:
            copy.write("1\ta\n2\tb\n")
    herd.run("drop table is_serial")


@pytest.mark.parametrize("schema", ["pg_catalog", "herd", "herd_shards", "information_schema"])
def test_no_table_goes_where_it_is_not_known(made, herd, schema):
    with herd.connect(autocommit=True) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(f"alter table is_from set schema {schema}")


@pytest.mark.parametrize("snapshot", ["on", "off"])
def test_set_transaction_in_a_string(made, oracle, herd, snapshot):
    def said(server, *before):
        lines = []
        with server.connect(autocommit=True) as connection:
            for sql in before:
                connection.execute(sql)
            for sql in (
                "set transaction read only; select count(*) from is_from; insert into is_from values (5001, 'x')",
                "set transaction isolation level serializable; select count(distinct current_setting('transaction_isolation')), min(current_setting('transaction_isolation')) from is_from",
            ):
                try:
                    cursor = connection.execute(sql)
                    while cursor.nextset():
                        pass
                    lines.append(cursor.fetchall())
                except psycopg.Error as e:
                    lines.append(e.sqlstate)
        return lines

    assert said(herd, f"set herd.snapshot = {snapshot}") == said(oracle)


def test_it_still_streams_by_itself(made, herd):
    """Rows do not wait in the router where nothing forbids to read beside: 200 MB would not fit."""
    with herd.connect(autocommit=True) as connection:
        connection.execute("insert into is_to select repeat('x', 100000) || g, g from is_from, generate_series(1, 100) h(g)")
        assert connection.execute("select count(*) from is_to").fetchone() == (2000,)
        with connection.transaction(force_rollback=True):
            connection.execute("insert into is_to select repeat('y', 100000) || g, g from is_from, generate_series(1, 100) h(g)")

"""What goes wrong in COPY FROM is told as one server tells it: at once, with the line of the client's data."""

import psycopg
import pytest

from protocol.frames import copy_data, error_fields, message, query
from protocol.raw import Raw

_MAKE = (
    "drop table if exists ce_spread, ce_reference, ce_local, ce_serial",
    *(f"create table {t} (id int primary key, v int check (v < 1000), t text)" for t in ("ce_spread", "ce_reference", "ce_local")),
    "create table ce_serial (id int, v int not null, n bigserial)",
)
_SPREAD = (
    "select create_distributed_table('ce_spread', 'id')",
    "select create_reference_table('ce_reference')",
    "select create_distributed_table('ce_serial', 'id')",
)
_TABLES = "ce_spread", "ce_reference", "ce_local"


@pytest.fixture(scope="module")
def made(oracle, herd):
    oracle.run(*_MAKE)
    herd.run(*_MAKE, *_SPREAD)


def _text(rows):
    return "".join("\t".join(map(str, row)) + "\n" for row in rows)


_GOOD = [(n, n % 7, f"t{n}") for n in range(1, 200)]


def _with(*changed):
    rows = list(_GOOD)
    for at, row in changed:
        rows[at] = row
    return _text(rows)


_CSV = "".join(f'{n},{n % 7},"line\nand line {n}"\n' for n in range(1, 60))
# options, data
CASES = {
    "bad value": ("", _with((77, (78, "x", "t")))),
    "bad key": ("", _with((77, ("x", 1, "t")))),
    "check": ("", _with((150, (151, 5000, "t")))),
    "unique": ("", _with((100, (20, 1, "t")))),
    "two bad rows": ("", _with((20, (21, "x", "t")), (23, (24, "y", "t")), (150, (151, "z", "t")))),
    "bad rows everywhere": ("", _text((n, "x" if n > 30 else 1, "t") for n in range(1, 200))),
    "first": ("", _with((0, (1, "x", "t")))),
    "last": ("", _with((198, (199, "x", "t")))),
    "header": ("(format csv, header)", "id,v,t\n" + "".join(f"{n},{'x' if n == 40 else 1},t\n" for n in range(1, 60))),
    "csv": ("(format csv)", "".join(f"{n},{'x' if n == 40 else 1},t\n" for n in range(1, 60))),
    "csv of many lines": ("(format csv)", _CSV + '60,x,"last"\n'),
    "csv of many lines, header": ("(format csv, header)", "id,v,t\n" + _CSV + '60,x,"last"\n'),
    "no end": ("", _text(_GOOD) + "300\tx\tt"),
    "too few": ("", _with((50, (51, 1)))),
}


def _error(server, table, options, data):
    with server.connect() as connection:
        connection.execute(f"delete from {table}")
        with pytest.raises(psycopg.Error) as e, connection.cursor().copy(f"copy {table} from stdin {options}") as copy:
            copy.write(data)
        d = e.value.diag
        # psycopg says by itself what it stopped for.
        return d.sqlstate, d.message_primary, d.message_detail, d.context, connection.execute(f"select count(*) from {table}").fetchone()


@pytest.mark.parametrize("table", _TABLES)
@pytest.mark.parametrize("case", CASES)
def test_the_line_is_the_clients(made, oracle, herd, table, case):
    assert _error(herd, table, *CASES[case]) == _error(oracle, table, *CASES[case])


def test_the_line_where_the_router_adds_values(made, oracle, herd):
    data = "".join(f"{n}\t{'x' if n == 33 else n}\n" for n in range(1, 60))
    for columns in ("ce_serial (id, v)",):
        answers = []
        for server in (oracle, herd):
            with server.connect() as connection:
                with pytest.raises(psycopg.Error) as e, connection.cursor().copy(f"copy {columns} from stdin") as copy:
                    copy.write(data)
                answers.append((e.value.diag.message_primary, e.value.diag.context))
        assert answers[0] == answers[1]


@pytest.mark.parametrize("columns", ["id, v", "v, id"])
def test_a_short_row_misses_the_clients_column(made, oracle, herd, columns):
    """Behind the client's columns the router adds one; the node misses that, and the router misses the key by itself."""
    told = []
    for server in (oracle, herd):
        with server.connect() as connection:
            with pytest.raises(psycopg.Error) as e, connection.cursor().copy(f"copy ce_serial ({columns}) from stdin") as copy:
                copy.write("1\t2\n3\n")
            told.append((e.value.diag.sqlstate, e.value.diag.message_primary))
    assert told[0] == told[1]


@pytest.mark.parametrize("table", _TABLES)
@pytest.mark.parametrize("bad", ["1\tx\tt\n", "1\t5000\tt\n", "x\t1\tt\n"])
def test_an_error_does_not_wait_for_the_end(made, oracle, herd, table, bad):
    told = []
    for server in (oracle, herd):
        server.run(f"delete from {table}")
        with Raw(server) as raw:
            raw.transcript(query("select 1"))
            raw.send(query(f"copy {table} from stdin") + copy_data(b"5\t1\tt\n") + copy_data(bad.encode()))
            first = error_fields(raw.until("E")[-1][1])
            raw.until_ready()
            # More of it is passed over, and the session goes on.
            raw.send(copy_data(b"6\t1\tt\n") + message("c"))
            told.append(({k: v for k, v in first.items() if k not in "FLR"}, raw.transcript(query("select 7"))[-3:]))
        told.append(server.connect().execute(f"select count(*) from {table}").fetchone())
    assert told[2:] == told[:2]


_REFUSED = (
    "copy ce_missing from stdin", "copy ce_missing to stdout", "copy ce_no_schema.t from stdin", "copy ce_no_schema.t to stdout",
    'copy "Ce schema".missing to stdout', "copy pg_temp.ce_missing to stdout", "copy ce_view to stdout", "copy ce_view from stdin",
    "copy ce_local_pkey to stdout", "copy ce_counter to stdout", "copy ce_local (nope) from stdin", "copy ce_local (id, nope) to stdout",
    "copy ce_local from stdin where nope > 1", "/* before */ copy ce_local from stdin where id > 'x'", "copy ce_hidden to stdout",
    "copy ce_hidden from stdin", "copy ce_half to stdout", "copy ce_half (a) to stdout", "copy ce_half (a) from stdin",
)


@pytest.fixture(scope="module")
def others(made, oracle, herd):
    for server in (oracle, herd):
        server.run(
            "drop schema if exists \"Ce schema\"", "create schema \"Ce schema\"", "drop view if exists ce_view",
            "create view ce_view as select 1 as one", "drop sequence if exists ce_counter", "create sequence ce_counter",
            "drop table if exists ce_hidden, ce_half", "create table ce_hidden (a int)", "create table ce_half (a int, b int)",
            "drop role if exists ce_reader", "create role ce_reader", "grant select (a) on ce_half to ce_reader",
        )


@pytest.mark.parametrize("block", [False, True])
@pytest.mark.parametrize("sql", _REFUSED)
def test_what_one_server_refuses_of_local_tables(others, oracle, herd, sql, block):
    """The fence in front of a COPY says nothing of its own."""

    def said(server):
        with server.connect(autocommit=True) as connection:
            if "ce_h" in sql:
                connection.execute("set role ce_reader")
            if block:
                connection.execute("begin")
            try:
                with connection.cursor().copy(sql) as copy:
                    return list(copy.rows()) if "to stdout" in sql else "no error"
            except psycopg.Error as e:
                d = e.diag
                return d.sqlstate, d.message_primary, d.message_detail, d.message_hint, d.statement_position, d.context

    assert said(herd) == said(oracle)


@pytest.mark.parametrize("before", [
    (), ("select pg_advisory_lock(77)",), ("create temp table ce_had (a int)",), ("create temp table ce_had (a int)", "drop table ce_had"),
    ("create temp table ce_had (a int)", "discard temp"), ("create temp table ce_had (a int)", "discard all"),
    ("begin", "create temp table ce_had (a int)", "rollback"), ("do $$ begin create temp table ce_had (a int); end $$",),
], ids=lambda before: "; ".join(before) or "nothing")
@pytest.mark.parametrize("sql", ["copy pg_temp.ce_missing to stdout", "copy pg_temp.ce_missing from stdin"])
def test_whether_there_is_a_pg_temp_is_the_sessions(made, oracle, herd, before, sql):
    """Whatever the node's connection has had for sessions before."""

    def said(server):
        for _ in range(3):
            with server.connect(autocommit=True) as connection:
                connection.execute("create temp table ce_of_another (a int)")
        with server.connect(autocommit=True) as connection:
            for statement in before:
                connection.execute(statement)
            with pytest.raises(psycopg.Error) as e, connection.cursor().copy(sql) as copy:
                list(copy.rows()) if "to stdout" in sql else copy.write("")
            return e.value.diag.sqlstate, e.value.diag.message_primary

    assert said(herd) == said(oracle)


def test_reject_limit_counts_all_rows(oracle, herd_many):
    """Each node counts its own, and all together what they have passed over; where something else may pass over rows it is refused."""
    make = "drop table if exists cl_spread, cl_copies", "create table cl_spread (id int, v int)", "create table cl_copies (id int, v int)"
    oracle.run(*make)
    herd_many.server.run(*make, "select create_distributed_table('cl_spread', 'id')", "select create_reference_table('cl_copies')")
    data = "".join(f"{i}\t{'x' if i % 10 == 0 else i}\n" for i in range(60))

    def copied(server, table, options):
        with server.connect() as connection:
            if connection.info.server_version < 180000:
                pytest.skip("REJECT_LIMIT came with PostgreSQL 18")
            try:
                with connection.cursor() as cursor:
                    with cursor.copy(f"copy {table} from stdin ({options})") as copy:
                        copy.write(data)
                    return cursor.statusmessage
            except psycopg.Error as e:
                return e.sqlstate

    def rows(server, table):
        with server.connect() as connection:
            return connection.execute(f"select count(*) from {table}").fetchone()[0]

    for table in ("cl_spread", "cl_copies"):
        for options in ("on_error ignore", "on_error ignore, reject_limit 3", "on_error ignore, reject_limit 10"):
            assert copied(herd_many.server, table, options) == copied(oracle, table, options)
            assert rows(herd_many.server, table) == rows(oracle, table)
            for server in (oracle, herd_many.server):
                server.run(f"truncate {table}")
    assert copied(herd_many.server, "cl_spread", "on_error ignore, reject_limit 9) where (id > 0") == "0A000"

"""Implicit transaction blocks: strings of several statements, and pipelines (PostgreSQL's xact.c, TBLOCK_IMPLICIT_INPROGRESS)."""

import struct

import pytest

from protocol.frames import bind, close, describe, execute, parse, query, sync
from protocol.raw import Raw

STRINGS = [
    "select 1; commit and chain",
    "select 1; rollback and chain",
    "commit and chain",
    "rollback and chain",
    "commit and chain; select 1",
    "select 1; savepoint s",
    "savepoint s; select 1",
    "savepoint s",
    "select 1; release savepoint s",
    "select 1; rollback to savepoint s",
    "release s",
    "rollback to s",
    "select 1; vacuum proto",
    "vacuum proto; select 1",
    "vacuum proto",
    "select 1; create index concurrently on proto (v)",
    "select 1; discard all",
    "select 1; lock table proto in share mode; select 2",
    "lock table proto in share mode; select 2",
    "lock table proto in share mode",
    "select 1; declare c cursor for select 1; fetch c",
    "declare c cursor for select 1; fetch c; close c",
    "declare c cursor for select 1",
    "select 1; set local work_mem = '5MB'; show work_mem",
    "set local work_mem = '5MB'; show work_mem",
    "set local work_mem = '5MB'",
    "select 1; start transaction; savepoint s; release s; commit; select 2",
    "begin; select 1; commit and chain; select 2; commit; select 3; savepoint s",
    "begin; savepoint s; select 1; rollback to s; commit",
    "select 1; begin; commit and chain; rollback and chain; commit",
    "select 1; commit; savepoint s",
    "select 1; rollback; select 2",
    "commit; select 1",
    "begin; begin; commit",
    "select 1; begin /* read */ isolation level serializable; show transaction_isolation; commit",
    "select 1; start transaction isolation level repeatable read, read only, not deferrable; show transaction_read_only; commit",
]


# Each begins with work_mem and search_path as the session has set them, which is looked at behind it.
SETTINGS = [
    "reset all; show work_mem",
    "select 1; reset all; show work_mem",
    "set work_mem = '6MB'; reset all",
    "select 1; reset all; select 1 / (now() is null)::int",
    "reset all; select 1 / (now() is null)::int",
    "set work_mem = '6MB'; select 1 / (now() is null)::int",
    "select count(*) from proto; reset all; select relname from pg_class where oid = to_regclass('proto')",
    "begin; reset all; select 1; rollback",
    "begin; reset all; select 1; commit",
]


@pytest.mark.parametrize("sql", SETTINGS)
@pytest.mark.parametrize("way", ["string", "pipeline"])
def test_settings_are_part_of_the_block(same, sql, way):
    set_first = query("set work_mem = '5MB'") + query("set search_path = public, pg_temp")
    if way == "string":
        block = query(sql)
    else:
        block = b"".join(parse(s) + bind() + describe() + execute() for s in sql.split("; ")) + sync()
    same(set_first + block + query("rollback") + query("show work_mem") + query("show search_path"), 6)


SET_IN_PIPELINES = [
    ["set transaction isolation level serializable", "show transaction_isolation"],
    ["select 1", "set transaction isolation level serializable", "show transaction_isolation"],
    ["set work_mem = '6MB'", "begin", "select 1", "rollback"],
    ["set local work_mem = '6MB'", "show work_mem"],
    ["set session characteristics as transaction isolation level serializable", "select 1 / (now() is null)::int"],
    ["set session characteristics as transaction read only", "show default_transaction_read_only"],
    ["set work_mem = 'much'", "select 1"],
    ["set herd_none.it = '1'", "select current_setting('herd_none.it')"],
]


@pytest.mark.parametrize("statements", SET_IN_PIPELINES, ids=" | ".join)
def test_set_in_pipelines(same, statements):
    pipeline = b"".join(parse(s) + bind() + describe() + execute() for s in statements) + sync()
    after = query("rollback") + query("show work_mem") + query("show default_transaction_isolation") + query("show default_transaction_read_only")
    same(pipeline + after, 5)


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("change", ["truncate proto", "alter table proto add column more int"])
def test_portals_that_are_closed_before_their_end(same, named, change):
    """Several of one node; what comes behind them is still of the one transaction."""
    of_one_node = parse("select id, g from proto, generate_series(1, 10) g where id = 7", "few")
    portals = b""
    for n in range(3):
        portal = f"p{n}" if named else ""
        portals += bind(statement="few", portal=portal) + execute(portal, 2) + (close("P", portal) if named else b"")
    begun = query("begin") + query("update proto set t = 'seen' where id = 7") + of_one_node + portals + sync()
    behind = query(change) + query("insert into proto (id, t) values (7, 'again') on conflict (id) do nothing") + query("select t from proto where id = 7")
    same(begun + behind + query("rollback"), 7)


def test_set_in_front_of_a_block_takes_no_snapshot(same):
    pipeline = [parse(s) + bind() + describe() + execute() for s in ("set statement_timeout = 60000", "begin isolation level serializable", "select count(*) from proto")]
    same(b"".join(pipeline) + sync() + query("show transaction_isolation") + query("rollback") + query("show statement_timeout"), 4)


CHAINS = [
    "begin isolation level serializable, read only, deferrable",
    "begin; set transaction isolation level serializable, read only",
    "begin isolation level repeatable read; set transaction read only",
]


@pytest.mark.parametrize("begin", CHAINS)
@pytest.mark.parametrize("read", ["select 1", "select count(*) from proto"])
@pytest.mark.parametrize("end", ["rollback and chain", "commit and chain"])
@pytest.mark.parametrize("failed", [True, False])
def test_a_chained_block_runs_as_the_one_before(same, begin, read, end, failed):
    statements = [*begin.split("; "), read, *(["select 1/0"] if failed else []), end]
    statements += ["show transaction_isolation", "show transaction_read_only", "rollback"]
    same(b"".join(map(query, statements)), len(statements))


@pytest.mark.parametrize("sql", STRINGS)
def test_strings(same, sql):
    same(query(sql) + query("select 'after'") + query("rollback"), 3)


PIPELINES = [
    ["select 1", "savepoint s"],
    ["savepoint s", "select 1"],
    ["select 1", "commit and chain"],
    ["select 1", "vacuum proto"],
    ["select 1", "lock table proto in share mode"],
    ["select 1", "begin", "savepoint s", "commit"],
    ["begin", "savepoint s", "select 1", "rollback to s", "commit"],
    ["select 1", "declare c cursor for select 1", "fetch c"],
    ["select 1", "commit", "select 2"],
]


@pytest.mark.parametrize("statements", PIPELINES, ids=" | ".join)
def test_pipelines(same, statements):
    same(b"".join(parse(s) + bind() + execute() for s in statements) + sync() + query("select 'after'") + query("rollback"), 3)


def test_call_gives_binary_results_where_they_are_asked_for(oracle, herd, same):
    for server in (oracle, herd):
        server.run("create or replace procedure block_p(inout b int, inout t text) language plpgsql as $$ begin b := b * 2; end $$")
    same(parse("call block_p(617, 'x')") + bind(results=(1,)) + describe() + execute() + sync())
    same(parse("call block_p($1, 'x')", types=(23,)) + bind(struct.pack(">i", 617), formats=(1,), results=(1,)) + describe() + execute() + sync())
    same(parse("call block_p(617, 'x')") + bind(results=(1, 0)) + describe() + execute() + sync())


def test_fetch_parsed_before_its_cursor_is_declared(same):
    fetch = parse("fetch 2 from early", "f") + describe("S", "f") + sync()
    declared = query("begin") + query("declare early cursor for select id, t from proto order by id")
    same(fetch + declared + bind(statement="f") + describe() + execute() + sync() + query("rollback"), 5)
    same(fetch + declared + bind(statement="f", results=(1,)) + describe() + execute() + sync() + query("rollback"), 5)


@pytest.mark.parametrize("sql", ["create database other", "drop database other", "alter database postgres with connection limit 5"])
def test_other_databases_are_refused(herd, sql):
    with Raw(herd) as raw:
        assert raw.transcript(query(sql))[0].startswith("E ERROR 0A000")


def test_prepare_transaction_that_fails_ends_its_block(oracle, herd):
    """The oracle has max_prepared_transactions = 0, or a temporary table in the transaction: it fails there, too."""
    for server in (oracle, herd):
        with Raw(server) as raw:
            begun = query("create temp table ended (a int)") + query("begin") + query("insert into ended values (1)")
            answered = raw.transcript(begun + query("prepare transaction 'x'") + query("select count(*) from ended"), 5)
            at = next(i for i, line in enumerate(answered) if line.startswith("E ERROR"))
            assert answered[at + 1] == "Z I", (server, answered)
            # What had been written is gone.
            assert [line for line in answered if line.startswith("D")][0].endswith("\\x010'"), (server, answered)

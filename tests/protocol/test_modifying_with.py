"""Data-modifying WITH over several nodes: parameters, row limits, and that all of it is done or nothing."""

import struct

import psycopg
import pytest

from protocol.frames import bind, describe, execute, extended, parse, query, sync

_ADD = "with m as (insert into proto_write values ($1, $2), ($1 + 1, $2), ($1 + 2, null), ($1 + 3, $2) returning id, v * 2 as w)"
_SHOWN = f"{_ADD} select id, w, $3::text as said from m order by id"
_MOVED = "with d as (delete from proto_write where id > $1 returning *) insert into proto_write select id + $2, v from d returning v"
_COUNTED = "with u as (update proto_write set v = $1 where id <> $2 returning id) select count(*), sum(id), $3::int[] from u"


def _int(n: int) -> bytes:
    return struct.pack(">i", n)


# name → (frames, number of Syncs and Queries in them)
SCRIPTS = {
    "text": (extended(_SHOWN, "10", "5", "x") + sync() + query("select * from proto_write order by id"), 2),
    "binary": (extended(_SHOWN, _int(10), _int(5), b"x", formats=(1, 1, 0), results=(1,)) + sync(), 1),
    "binary results of some": (extended(_SHOWN, "10", _int(5), "x", formats=(0, 1, 0), results=(1, 0, 1)) + sync(), 1),
    "NULL": (extended(_SHOWN, "20", None, None) + sync(), 1),
    "described": (parse(_SHOWN, "s") + describe("S", "s") + sync(), 1),
    "prepared, twice": (
        parse(_SHOWN, "s") + bind("10", "5", "a", statement="s") + execute() + sync() + bind("30", None, "b", statement="s") + execute() + sync(), 2,
    ),
    "row limit": (parse(_SHOWN) + bind("10", "5", "x") + execute(rows_max=1) + execute(rows_max=2) + execute() + sync(), 1),
    "in one transaction": (
        extended(_SHOWN, "10", "5", "x") + extended(_COUNTED, "7", "11", "{1,2}") + extended(_SHOWN, "10", "5", "x") + sync()
        + query("select count(*) from proto_write"), 2,
    ),
    "an array": (extended(_SHOWN, "10", "5", "x") + extended(_COUNTED, _int(7), _int(11), "{1,2}", formats=(1, 1, 0)) + sync(), 1),
    "simple": (query("with m as (insert into proto_write values (1, 1), (2, 2), (3, 3) returning *) select * from m order by id"), 1),
    "simple, no rows": (query("with m as (insert into proto_write values (1, 1), (2, 2), (3, 3)) delete from proto where false"), 1),
    "several in a string": (query("with m as (insert into proto_write values (1, 1), (2, 2), (3, 3) returning *) select count(*) from m; select 1 / 0"), 1),
    "a block": (
        query("begin") + extended(_SHOWN, "10", "5", "x") + sync() + query("rollback") + query("select count(*) from proto_write"), 4,
    ),
}


@pytest.mark.parametrize("data, ready", [pytest.param(*script, id=name) for name, script in SCRIPTS.items()])
def test_same_answers(same, empty_write_table, data, ready):
    same(data, ready)


def test_what_a_failed_statement_wrote_is_undone_on_all_nodes(tables, empty_write_table, herd):
    herd.run("insert into proto_write select g, g from generate_series(1, 40) g")
    with herd.connect(autocommit=True) as conn:
        with pytest.raises(psycopg.errors.UniqueViolation):
            conn.execute("with d as (delete from proto_write where id < 30 returning id) insert into proto_write select 35, id from d")
        with pytest.raises(psycopg.errors.DivisionByZero):
            conn.execute("with d as (delete from proto_write where id < 30 returning id) select 1 / (id - id) from d")
        assert conn.execute("select count(*), sum(id) from proto_write").fetchone() == (40, 820)


def test_kept_rows_are_limited(tables, empty_write_table, herd):
    herd.run("insert into proto_write select g, g from generate_series(1, 100) g")
    wide = "with d as (delete from proto_write returning repeat('x', 30000000) as t) select sum(length(t)) from d"
    with herd.connect(autocommit=True) as conn:
        with pytest.raises(psycopg.errors.OutOfMemory):
            conn.execute(wide)
        assert conn.execute("select count(*) from proto_write").fetchone() == (100,)


def test_explain_shows_them_one_after_the_other(tables, empty_write_table, herd):
    with herd.connect(autocommit=True) as conn:
        shown = conn.execute("explain (costs off) with d as (delete from proto_write returning id) insert into proto_write select id + 1, id from d")
        text = "\n".join(row[0] for row in shown)
        assert text.index("DELETE FROM proto_write") < text.index("INSERT INTO proto_write"), text
        analyzed = conn.execute("explain (analyze, costs off) with d as (insert into proto_write values (1, 1), (2, 2), (3, 3) returning id) select id from d")
        assert any("3" in row[0] for row in analyzed)
        assert conn.execute("select count(*) from proto_write").fetchone() == (3,)


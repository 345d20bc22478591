"""Temporary tables and types of a session, compared with one server; what can't live in pg_temp says what to do."""

import psycopg
import pytest

from protocol.frames import bind, describe, execute, parse, query, sync
from protocol.raw import Raw

ALL = parse("select * from tt_changed") + bind() + describe() + execute() + sync()
NAMED = bind(statement="kept") + describe() + execute() + sync()
_MADE = query("create temporary table tt_changed (a int)") + query("insert into tt_changed values (1)")


@pytest.mark.parametrize("change", ["alter table tt_changed add b int default 5", "alter table tt_changed alter a type text"])
def test_parsed_anew_after_alter(oracle, herd, change):
    data = _MADE + ALL * 3 + query(change) + ALL * 2 + query("begin") + query("alter table tt_changed add c int") + ALL
    data += query("rollback") + ALL + query("drop table tt_changed") + _MADE + ALL
    with Raw(oracle) as plain, Raw(herd) as other:
        assert other.transcript(data, 16) == plain.transcript(data, 16)


def test_a_statement_kept_is_not_parsed_anew(oracle, herd):
    data = _MADE + parse("select * from tt_changed", name="kept") + sync() + NAMED + query("alter table tt_changed add b int")
    data += NAMED + ALL
    with Raw(oracle) as plain, Raw(herd) as other:
        answers = other.transcript(data, 7), plain.transcript(data, 7)
        # PostgreSQL refuses when it binds, the herd when it executes.
        assert [[line for line in lines if line[0] in "ECD"] for lines in answers][0] == [line for line in answers[1] if line[0] in "ECD"]


TYPES = (
    "create domain pg_temp.dd as int check (value > 2)", "select 3::pg_temp.dd", "select 1::pg_temp.dd",
    "create temporary table td (a pg_temp.dd)", "insert into td values (1)", "insert into td values (7)", "select a from td",
    "alter domain pg_temp.dd set not null", "insert into td values (null)", "create type pg_temp.ty as (a int, b text)",
    "select (row(1, 'x')::pg_temp.ty).b", "create type pg_temp.mood as enum ('low', 'high')", "select 'low'::pg_temp.mood < 'high'",
    "alter type pg_temp.mood add value 'top'", "select 'top'::pg_temp.mood", "drop type pg_temp.mood", "select 'low'::pg_temp.mood",
    "drop table td", "drop domain pg_temp.dd", "select 3::pg_temp.dd",
)


@pytest.mark.parametrize("block", [False, True])
def test_types(oracle, herd, block):
    told = []
    for server in (oracle, herd):
        with server.connect() as connection:
            lines = []
            for sql in ("begin", "create domain pg_temp.dd as int", "commit", *TYPES) if block else TYPES:
                try:
                    cursor = connection.execute(sql)
                    lines.append((sql, cursor.fetchall() if cursor.description else cursor.statusmessage))
                except psycopg.Error as e:
                    lines.append((sql, e.sqlstate, e.diag.message_primary))
            told.append(lines)
    assert told[1] == told[0]


def test_functions_are_refused(herd):
    with herd.connect() as connection:
        for sql in (
            "create function pg_temp.f() returns int language sql as 'select 3'",
            "create or replace procedure pg_temp.p() language sql as 'select 1'",
            "create aggregate pg_temp.g (int) (sfunc = int4pl, stype = int)",
        ):
            with pytest.raises(psycopg.errors.FeatureNotSupported) as e:
                connection.execute(sql)
            assert "schema of its own" in e.value.diag.message_hint
        assert connection.execute("select 1").fetchone() == (1,)

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


# Lasting tables of every kind, and a temporary one that hides each in the session: whatever is said of the name is said of that.
_HIDING = [f"create temporary table {name} (k int, v text)" for name in ("th_local", "th_kept", "th_spread")]
_OF_HIDDEN = [
    "insert into th_local values (1, 't')", "insert into th_spread values (1, 't'), (2, 't'), (3, 't')", "insert into th_kept values (7, 't'), (1, 't')",
    "update only th_spread set v = 'u' where k = 2", "delete from only th_kept where k = 1", "select count(*) from th_local", "select k, v from only th_spread order by k",
    "select tableoid::regclass::text like 'th_spread' from th_spread limit 1", "with w as (select 1 from th_local) select count(*) from th_spread",
    "merge into th_spread t using (values (2)) s (k) on t.k = s.k when matched then update set v = 'm'", "select k, v from th_spread order by k",
    "insert into th_local select k, v from th_other", "insert into th_spread select k, v from th_other where k < 3",
]
_HIDDEN_ONES = [f"select count(*), max(v) from public.{name}" for name in ("th_local", "th_kept", "th_spread")]


def test_what_hides_lasting_tables(oracle, herd):
    names = ("th_local", "th_kept", "th_spread", "th_other")
    answers = []
    for server in (oracle, herd):
        with psycopg.connect(server.url, autocommit=True) as c:
            c.execute("".join(f"drop table if exists public.{n};" for n in names))
            for n in names:
                c.execute(f"create table public.{n} (k int, v text)")
                c.execute(f"insert into public.{n} select n, 'lasting' from generate_series(1, 9) n")
            if server is herd:
                c.execute("select create_reference_table('public.th_kept')")
                c.execute("select create_distributed_table('public.th_spread', 'k')")
                c.execute("select create_distributed_table('public.th_other', 'k')")
            said = []
            for statement in _HIDING + _OF_HIDDEN + _HIDDEN_ONES:
                try:
                    cursor = c.execute(statement)
                    said.append((statement, cursor.statusmessage, sorted(cursor.fetchall()) if cursor.description else None))
                except psycopg.Error as e:
                    said.append((statement, e.sqlstate, None))
            answers.append(said)
            c.execute("".join(f"drop table if exists pg_temp.{n};" for n in names[:3]) + "".join(f"drop table public.{n};" for n in names))
    different = [(a, b) for a, b in zip(*answers) if a != b and b[1] != "0A000"]
    assert different == []
    assert [b for b in answers[1] if b[1] == "0A000" and "th_other" not in b[0]] == []

"""The simple protocol: several statements in a string, notices, ParameterStatus, COPY, function calls, large messages."""

import pytest

from protocol.frames import copy_data, copy_done, copy_fail, error_fields, execute, int16, int32, message, parse, bind, query, sync
from protocol.raw import Raw

QUERIES = {
    "empty": "",
    "blank": "  \n ",
    "semicolons": ";;;",
    "comment": "/* nothing */ -- at all",
    "one by key": "select id, v, t from proto where id = 7",
    "all": "select id, t from proto order by id",
    "count": "select count(*) from proto",
    "no rows": "select id from proto where id = 777",
    "no columns": "select from proto where id = 7",
    "several": "select 1; select t from proto where id = 3; select count(*) from proto;",
    "several with blanks": "select 1;; ;select 2",
    "error in the middle": "select 1; select 1 / 0; select 2",
    "syntax error runs nothing": "select 1; selec 2",
    "begin and error": "begin; select 1; select 1 / 0; select 2",
    "set": "set timezone = 'Asia/Tokyo'",
    "set several": "set application_name = 'raw'; set datestyle = 'German'; set intervalstyle = 'iso_8601'",
    "set and roll back": "begin; set timezone = 'Asia/Tokyo'; rollback",
    "set that changes nothing": "set standard_conforming_strings = on",
    "set_config": "select set_config('timezone', 'Asia/Kolkata', false)",
    "notice": "do $$ begin raise notice 'hello'; raise warning 'careful'; end $$",
    "notice and rows": "drop table if exists nosuch; select 1",
    "notice of begin": "begin; begin; commit; commit",
    "show": "show server_encoding",
    "table of types": "select 1::int2, 2::int8, 3.50::numeric(5,2), 'x'::varchar(7), null::text, true, '{1,2}'::int[]",
    "values": "values (1, 'a'), (2, null)",
    "long literal": "select length('" + "x" * 100000 + "')",
    "many columns": "select " + ", ".join(f"{i} as c{i}" for i in range(1000)),
    "unicode": "select 'äöü € 𝄞' as \"späte Spalte\"",
}


@pytest.mark.parametrize("sql", QUERIES.values(), ids=QUERIES.keys())
def test_same_answers(same, sql):
    same(query(sql) + query("rollback"), 2)


def test_strings_of_statements_are_one_transaction(empty_write_table, same):
    same(query("insert into proto_write values (1, 1); insert into proto_write values (2, 1); select 1 / 0") + query("table proto_write"), 2)
    same(query("insert into proto_write values (1, 1); insert into proto_write values (2, 1)") + query("select count(*) from proto_write"), 2)


def test_commit_inside_a_string(empty_write_table, same):
    same(query("insert into proto_write values (1, 1); commit; insert into proto_write values (2, 1); select 1 / 0"))
    same(query("select id from proto_write order by id"))


COPIES = {
    "in": [copy_data(b"1\t10\n2\t20\n3\t30\n"), copy_done()],
    "in, split within a line": [copy_data(b"1\t1"), copy_data(b"0\n2\t2"), copy_data(b"0\n"), copy_done()],
    "in, without last newline": [copy_data(b"1\t10\n2\t20"), copy_done()],
    "in, end marker": [copy_data(b"1\t10\n\\.\n"), copy_done()],
    "in, nothing": [copy_done()],
    "in, fails by client": [copy_data(b"1\t10\n"), copy_fail("changed my mind")],
    "in, bad line": [copy_data(b"1\t10\nx\t20\n3\t30\n"), copy_done()],
    "in, duplicate": [copy_data(b"1\t10\n1\t20\n"), copy_done()],
    "in, with Sync and Flush between": [copy_data(b"1\t10\n"), sync(), message("H"), copy_data(b"2\t20\n"), copy_done()],
    "in, with another message between": [copy_data(b"1\t10\n"), query("select 1")],
    "in, carriage returns": [copy_data(b"1\t10\r\n2\t20\r\n"), copy_done()],
}


@pytest.mark.parametrize("parts", COPIES.values(), ids=COPIES.keys())
def test_copy_in(empty_write_table, same, parts):
    same(query("copy proto_write from stdin") + b"".join(parts))
    same(query("select id, v from proto_write order by id"))


def test_copy_in_by_the_extended_protocol(empty_write_table, same):
    start = parse("copy proto_write from stdin") + bind() + execute()
    same(start + sync() + copy_data(b"5\t50\n6\t60\n") + copy_done() + sync())
    same(query("select id, v from proto_write order by id"))


def test_copy_fails_in_a_transaction(empty_write_table, same):
    same(
        query("begin") + query("insert into proto_write values (9, 9)") + query("copy proto_write from stdin")
        + copy_data(b"1\t10\n") + copy_fail("no") + query("select 1") + query("commit") + query("table proto_write"), 6,
    )


def test_copy_data_without_copy_is_ignored(tables, herd):
    """What PostgreSQL does with the rest of a COPY that failed."""
    with Raw(herd) as raw:
        assert raw.transcript(copy_data(b"1\t1\n") + copy_done() + copy_fail("x") + query("select 1"))[-2:] == ["C SELECT 1", "Z I"]


@pytest.mark.parametrize("sql", ["copy proto to stdout", "copy (select id from proto order by id) to stdout csv header"])
def test_copy_out(tables, oracle, herd, sql):
    with Raw(oracle) as plain, Raw(herd) as other:
        assert sorted(other.transcript(query(sql))) == sorted(plain.transcript(query(sql)))


def test_function_call_is_refused_and_the_session_goes_on(tables, herd):
    """The fast-path interface: an answer or a clear error, never silence."""
    call = message("F", int32(1598) + int16(0) + int16(0) + int16(0))  # random()
    with Raw(herd) as raw:
        kinds = [line[0] for line in raw.transcript(call)]
        assert kinds in (["E", "Z"], ["V", "Z"])
        assert raw.transcript(query("select 1"))[-1] == "Z I"


def test_a_large_query_and_a_large_row(tables, herd):
    with Raw(herd) as raw:
        raw.socket.settimeout(30)
        value = "x" * (8 << 20)
        raw.send(query(f"select '{value}' as big"))
        answers = dict(raw.until_ready())
        assert len(answers["D"]) == len(value) + 6


def test_many_rows(tables, herd):
    with Raw(herd) as raw:
        raw.socket.settimeout(30)
        raw.send(query("select p.id, g from proto p, generate_series(1, 1000) g"))
        assert sum(kind == "D" for kind, _ in raw.until_ready()) == 50000


def test_a_setting_reaches_later_statements_on_every_shard(tables, same):
    same(
        query("set timezone = 'Asia/Tokyo'") + query("select count(*), max('2024-01-01 00:00+00'::timestamptz::text) from proto")
        + query("select '2024-01-01 00:00+00'::timestamptz::text from proto where id = 3"), 3,
    )


def test_error_fields_are_postgres_own(empty_write_table, oracle, herd):
    """Position, detail, table and constraint: what psql prints and what an ORM reads."""
    statements = [
        "select nosuch from proto where id = 3", "select id, nosuch from proto", "insert into proto values (1, 1, 't')",
        "insert into proto values (null, 1, 't')", "selec 1", "select v from proto where id = 'x'",
    ]
    for sql in statements:
        with Raw(oracle) as plain, Raw(herd) as other:
            expected, got = _error(plain, sql), _error(other, sql)
            for letter in "SVCMDHPsctdn":
                assert got.get(letter) == expected.get(letter), f"{sql}: field {letter}"


def _error(raw: Raw, sql: str) -> dict[str, str]:
    raw.send(query(sql))
    return next(error_fields(body) for kind, body in raw.until_ready() if kind == "E")

"""Code behind a domain runs wherever a value becomes one: by a cast, as a column of rows made of JSON, by RETURNING, in a temporary table, as
a parameter, or in a function that is told the type. What it writes no copy has alone."""

import psycopg
import pytest
from psycopg.pq import ExecStatus

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(120)]

_CODE = (
    "create function wr(t text) returns bool language plpgsql as $$ begin insert into code.r values (1000 + (random() * 1000000)::int, 1, t); return true; end $$",
    "create domain dom as text check (code.wr(value))",
    "create type comp as (a int, d dom)",
    "create table d2 (id int primary key, v int)", "select create_distributed_table('d2', 'id')", "insert into d2 select g, g from generate_series(1, 9) g",
)
# None of them changes a copy.
_REFUSED = [
    "select 'x'::dom", "select 'x'::code.dom", "select '{x}'::dom[]", "select '{x}'::_dom", "select '(1,x)'::comp",
    """select id, x.* from d2, json_to_record(('{"d":"' || id || '"}')::json) as x (d dom)""",
    """select * from json_to_record('{"d":"a"}') as x (d dom)""",
    """select * from rows from (json_to_record('{"d":"a"}') as (d dom)) x""",
    """select * from jsonb_to_recordset('[{"c":{"a":1,"d":"q"}}]') as x (c comp)""",
    """select id, json_value('"jv"', '$' returning dom) from d2""",
    """select json_query('"jv"', '$' returning dom omit quotes)""",
    """select * from json_table('[{"d":"jt"}]', '$[*]' columns (d dom))""",
    """select * from json_table('[{"d":["jt"]}]', '$[*]' columns (nested '$.d[*]' columns (e dom path '$')))""",
    """insert into l (id, w) select 500, x.d from json_to_record('{"d":"a"}') as x (d dom)""",
    """update d set w = (select x.d from json_to_record('{"d":"a"}') as x (d dom)) where id = 1""",
    "select id, pg_input_is_valid('node' || id, 'code.dom') from d2",
    "select pg_input_is_valid('x', 'code.' || 'dom')", "select id, pg_input_is_valid('x' || id, 'code.' || 'dom') from d2",
    "select * from typed_named",
    "select count(*) from d2 where pg_input_is_valid('node' || id, 'code.dom')",
    "select * from d2, pg_input_error_info('x' || id, 'code.dom')",
    "select id, array_in('{x}', 'dom'::regtype, -1) from d2",
    "select id, record_in('(1,x)', 'comp'::regtype, -1)::text from d2",
    "update d2 set v = 0 where array_in('{x}', 'dom'::regtype, -1) is not null",
    "insert into d2 values (100, array_in('{x}', 'dom'::regtype, -1)::text::int)",
    "select typed(id) from d2",
    "select * from typed_view",
    "insert into typed_local values (1)",
    "create temp table tt (id int, d dom)",
    "create temp table tt of comp",
    "create temp table tt (like comp)",
    "create temp table tt as select 'x'::dom as d",
    "create table d3 (id int, d dom)",
]
_TYPED = (
    "create function typed(i int) returns bool language plpgsql stable as $$ begin return pg_input_is_valid('node' || i, 'code.' || 'dom'); end $$",
    "create view typed_view as select id, pg_input_is_valid('node' || id, 'code.' || 'dom') from d2",
    "create view typed_named as select id, pg_input_is_valid('node' || id, 'code.dom') from d2",
    "create table typed_local (id int, check (pg_input_is_valid('node' || id, 'code.' || 'dom')))",
)


@pytest.mark.parametrize("sql", _REFUSED)
def test_what_a_domain_writes_reaches_no_copy_alone(db, sql):
    db.run(*_CODE, *_TYPED)
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        db.run(sql)
    assert len(db.same_copies("r")) == 30


@pytest.mark.parametrize("ty, value", [("dom", "x"), ("_dom", "{x}"), ("comp", "(1,x)"), ("_comp", '{"(1,x)"}')])
@pytest.mark.parametrize("sql", ["select $1", "select 1", "select id, $1 from d2", "select v from d2 where id = 1 and $1 is not null"])
def test_parameters_of_its_type(db, ty, value, sql):
    db.run(*_CODE)
    oid = db.one(f"select 'code.{ty}'::regtype::oid::int")
    wire = db.connection.pgconn
    said = wire.prepare(b"", sql.encode(), [oid])
    if said.status == ExecStatus.COMMAND_OK:
        said = wire.exec_prepared(b"", [value.encode()])
    assert said.status == ExecStatus.FATAL_ERROR and b"reference" in said.error_message, (said.status, said.error_message)
    assert len(db.same_copies("r")) == 30


def test_temporary_tables_of_a_type_that_changes(db):
    db.run(
        "create function wr(t text) returns bool language plpgsql as 'begin return true; end'", "create domain dom as text check (code.wr(value))",
        "create type comp as (a int, d dom)", "create temp table tt (id int, d dom)", "create temp table plain (id int)",
        "insert into tt values (1, 'x')", "insert into plain values (1)",
        _CODE[0].replace("create function", "create or replace function"), "insert into plain values (2)",
    )
    for sql in ("insert into tt values (2, 'x')", "update tt set d = 'y'", "insert into tt select id, w from d", "alter table plain add d dom default 'x'"):
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            db.run(sql)
        assert len(db.same_copies("r")) == 30
    assert db.rows("select * from tt") == [(1, "x")]
    assert db.rows("select id from plain order by 1") == [(1,), (2,)]


def test_where_it_reads_what_home_has(db):
    """It runs on home, whatever the value becomes one by."""
    db.run(
        "create function known(t text) returns bool language sql stable as 'select exists (select from code.l where id = t::int)'",
        "create domain dom as text check (code.known(value))",
    )
    assert db.rows("select d.id, x.a from d, json_to_record('{\"a\":\"7\"}') as x (a dom) where d.id < 3 order by 1") == [(1, "7"), (2, "7")]
    assert db.rows("select id from d where pg_input_is_valid(id::text, 'code.dom') order by 1") == [(i,) for i in range(1, 21)]
    assert db.rows("select id, json_value(to_json(id), '$' returning dom) from d where id = 3") == [(3, "3")]
    oid = db.one("select 'code.dom'::regtype::oid::int")
    wire = db.connection.pgconn
    for node in range(1, 9):
        wire.prepare(b"", b"select $1, id from d where id = $2", [oid, 23])
        said = wire.exec_prepared(b"", [b"7", str(node).encode()])
        assert said.status == ExecStatus.TUPLES_OK and said.get_value(0, 0) == b"7", said.error_message


def test_what_takes_types_costs_nothing_where_none_runs_code(db):
    db.run("create domain dom as text check (value <> '')", "create table checked (id int primary key, w text check (pg_input_is_valid(w, 'int4')))",
           "select create_distributed_table('checked', 'id')", "insert into checked values (1, '1'), (2, '2')", "create temp table tt (d dom)", "insert into tt values ('a')")
    assert db.rows("select id from checked where pg_input_is_valid(w, 'code.dom') order by 1") == [(1,), (2,)]
    db.run("create type comp as (a int, d dom)", "drop type comp", "drop table tt", "drop domain dom")

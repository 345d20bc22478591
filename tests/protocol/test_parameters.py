"""As many parameters as the protocol has room for, and parameters of users' types, in statements over several nodes."""

import pytest

PARAMETERS_MAX = 65_535
NUMBERS = [str(i).encode() for i in range(PARAMETERS_MAX)]
LIST = ",".join(f"${i + 1}" for i in range(PARAMETERS_MAX))
PAIRS = ",".join(f"(${2 * i + 1}::int, ${2 * i + 2})" for i in range(PARAMETERS_MAX // 2))
NODES_SEE = "insert into par values ($1::int8, $2::par_pair, $3), (9, $4::par_pair, null), (3, $4, $3), (4, null, null)"


@pytest.fixture
def two(oracle, herd):
    """A connection to each server, with a table distributed by `k`."""
    herd.run("drop table if exists many, par", "drop type if exists par_pair")
    oracle.run("drop table if exists many, par", "drop type if exists par_pair")
    for server in (oracle, herd):
        server.run("create type par_pair as (a int, b text)")
        server.run("create table many (k int, v text)", "create table par (k int8, p par_pair, e date)")
    herd.run("select create_distributed_table('many', 'k')", "select create_distributed_table('par', 'k')")
    with oracle.connect() as plain, herd.connect() as other:
        yield plain, other


def answer(connection, sql, values):
    result = connection.pgconn.exec_params(sql.encode(), values)
    rows = [[result.get_value(i, j) for j in range(result.nfields)] for i in range(result.ntuples)]
    return result.error_field(ord("C")), result.command_status, rows


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "sql",
    [
        f"insert into many select k + 1000000, v from many where v in ({LIST})",
        f"select count(*), max(v), count(distinct v) from many where k in ({LIST})",
        f"update many set v = v where v in ({LIST})",
    ],
    ids=["insert select", "select", "update"],
)
def test_every_parameter_the_protocol_has_room_for(two, sql):
    fill = (f"insert into many values {PAIRS}", NUMBERS[:-1])
    assert answer(two[1], *fill) == answer(two[0], *fill) == (None, b"INSERT 0 32767", [])
    expected = answer(two[0], sql, NUMBERS)
    assert expected[0] is None and answer(two[1], sql, NUMBERS) == expected


def test_parameters_of_users_types_that_a_nodes_text_does_not_hold(two):
    for sql, values in [
        (NODES_SEE, [b"7", b"(1,x)", b"2024-01-01", b"(2,y)"]),
        ("select k from par where k <> $1 and p is distinct from $2::par_pair order by 1", [b"1", b"(1,x)"]),
        ("select k from par where p = $2::par_pair union select k from par where k < $1 order by 1", [b"5", b"(1,x)"]),
        ("with w as (select k, p from par) select max(k) from w where p <> $1::par_pair or $2::par_pair is null", [b"(1,x)", None]),
        ("update par set p = $1::par_pair where k > $2", [b"(5,z)", b"5"]),
        ("insert into par select k + 10, $1::par_pair, $2 from par where k > $3", [b"(6,z)", b"2024-05-05", b"5"]),
        ("select count(*), min(p::text) from par where p = any($1::par_pair[])", [b'{"(5,z)","(6,z)"}']),
        ("delete from par where p = $1::par_pair returning p", [b"(6,z)"]),
    ]:
        expected = answer(two[0], sql, values)
        assert expected[0] is None and answer(two[1], sql, values) == expected, sql


# In this order: PostgreSQL says what is wrong when it is told of the statement, before parameters are counted.
WRONG = [
    "create table made as select * from no_such where k > $1::int and v = $2",
    "create table made as select no_such from many where k > $1 and v = $2",
    "create temp table made as select no_such(k) from many where k > $1 and v = $2",
    "create materialized view made as select $1::int from no_such",
    "declare c cursor for select * from no_such where k > $1 and v = $2",
    "explain select * from no_such where k > $1 and v = $2",
    "explain analyze select no_such from many where k > $1 and v = $2",
    "call no_such($1::int, $2)",
]


@pytest.mark.parametrize("sql", WRONG)
def test_what_is_wrong_with_a_statement_comes_before_its_parameters(two, sql):
    expected = answer(two[0], sql, [b"1", b"x"])
    assert expected[0] is not None and answer(two[1], sql, [b"1", b"x"]) == expected
    prepared = [c.pgconn.prepare(b"s", sql.encode()).error_field(ord("C")) for c in two]
    assert prepared[0] == prepared[1] == expected[0]


def test_parameters_of_users_types_in_with_queries_that_nobody_names(two):
    for connection in two:
        connection.execute("drop table if exists whole")
        connection.execute("create table whole (a int)")
        connection.execute("insert into par select n, row(n, 'x')::par_pair from generate_series(1, 10) n")
    for sql, values in [
        ("with w as (select a from whole where $1::par_pair is not null) select k from par where k = 3", [b"(1,x)"]),
        ("with w as (select a from whole where $1::par_pair is not null) select k from par where k = $2", [b"(1,x)", b"4"]),
        ("with w as (select a from whole where $2::par_pair is not null) select k from par where k = $1", [b"4", b"(1,x)"]),
        ("with w as (select a from whole where $1::par_pair is not null) select count(*) from par where k > $2", [b"(1,x)", b"4"]),
        ("with w as (select a from whole where $1::par_pair is not null) select p from par where p = $2::par_pair", [b"(1,x)", b"(4,x)"]),
        ("with w as (select a from whole where $1::par_pair is not null) update par set e = '2024-01-01' where k = $2 returning k", [b"(1,x)", b"4"]),
        ("with w as (select a from whole where $1::par_pair is not null) delete from par where k = $2::int8", [None, b"4"]),
        ("with w as (select a from whole where $1 > a) select k from par where k = $2", [b"7", b"5"]),
    ]:
        expected = answer(two[0], sql, values)
        assert expected[0] is None and answer(two[1], sql, values) == expected, sql

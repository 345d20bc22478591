"""Keys from parameters that are declared as another type: a row goes where PostgreSQL's own value belongs."""

import struct

import pytest

from protocol.frames import bind, describe, execute, parse, query, sync
from protocol.raw import Raw

TEXT, VARCHAR, INT4, INT8, FLOAT8 = 25, 1043, 23, 20, 701
_TABLES = {"pk_uuid": "uuid", "pk_int": "int", "pk_big": "bigint", "pk_float": "float8", "pk_numeric": "numeric", "pk_text": "text"}
UUIDS = [f"0000{n:04x}-1111-2222-3333-44445555666{n % 10}" for n in range(12)]


def double(value):
    return struct.pack(">d", value)


def int4(value):
    return struct.pack(">i", value)


# table, the parameter's expression, its declared type, values in binary
CASES = {
    "uuid from text": ("pk_uuid", "$1::uuid", TEXT, UUIDS),
    "uuid from varchar": ("pk_uuid", "$1::uuid", VARCHAR, UUIDS),
    "uuid from text through text": ("pk_uuid", "$1::text::uuid", TEXT, UUIDS),
    "int from text": ("pk_int", "$1::int", TEXT, [str(n) for n in range(-4, 9)]),
    "int from double": ("pk_int", "$1::int", FLOAT8, [double(n + 0.7) for n in range(12)]),
    "int by assignment": ("pk_int", "$1", FLOAT8, [double(n + 0.7) for n in range(12)]),
    "float through int": ("pk_float", "$1::int", FLOAT8, [double(n + 0.7) for n in range(12)]),
    "numeric through int": ("pk_numeric", "$1::int", FLOAT8, [double(n + 0.7) for n in range(12)]),
    "bigint from int": ("pk_big", "$1::bigint", INT4, [int4(n) for n in range(-4, 9)]),
    "text from int": ("pk_text", "$1::text", INT4, [int4(n) for n in range(12)]),
    "not an int": ("pk_int", "$1::int", TEXT, ["x"]),
    "too large": ("pk_int", "$1::int", FLOAT8, [double(1e12)]),
}


@pytest.fixture(scope="module")
def keys(oracle, herd):
    for server in (oracle, herd):
        for table, key in _TABLES.items():
            server.run(f"drop table if exists {table}", f"create table {table} (k {key}, a int)")
    herd.run(*(f"select create_distributed_table('{table}', 'k')" for table in _TABLES))


@pytest.mark.parametrize("rows", ["one", "two", "returning"])
@pytest.mark.parametrize("case", CASES)
def test_rows_go_where_they_belong(keys, oracle, herd, case, rows):
    table, expression, declared, values = CASES[case]
    insert = {"one": f"insert into {table} values ({expression}, 1)", "two": f"insert into {table} values ({expression}, 1), ({expression}, 2)"}
    sql = insert.get(rows, f"insert into {table} values ({expression}, 1) returning k::text")
    look = f"select count(*), min(k::text) from {table} where k = {expression}"
    data = query(f"delete from {table}")
    for value in values:
        for text in (sql, look, f"update {table} set a = a + 1 where k = {expression}"):
            data += parse(text, types=(declared,)) + bind(value, formats=(1,)) + describe() + execute() + sync()
    data += query(f"select count(*), sum(a) from {table}")
    with Raw(oracle) as plain, Raw(herd) as other:
        ready = 3 * len(values) + 2
        here, there = other.transcript(data, ready), plain.transcript(data, ready)
    if any(line.startswith("E ") for line in there):
        # PostgreSQL computes the constant when it plans, at Bind; the herd when it executes.
        here, there = ([line for line in lines if line[0] in "ECD"] for lines in (here, there))
    assert here == there

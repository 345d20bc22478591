"""`herd export`: the rows of tables and queries as CSV and Parquet, value by value those of a plain PostgreSQL."""

import datetime
import decimal
import struct
import subprocess

import pytest

from commands import exports
from commands.exports import csv, copied, export, parquet, types
from harness import unprivileged
from harness.both import both_made
from harness.herd import Herd

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("export")]

MAKE = (
    "CREATE SCHEMA export",
    "CREATE TYPE export.mood AS ENUM ('sad', 'it''s \"ok\"')",
    "CREATE DOMAIN export.share AS numeric(6,3) CHECK (VALUE < 500)",
    "CREATE TYPE export.pair AS (a int, b text)",
    """CREATE TABLE export.kinds (id int PRIMARY KEY, b bool, i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, n9 numeric(9,2), n18 numeric(18,4), n38 numeric(38,10),
        n numeric, wide numeric(40,2), neg numeric(5,-2), t text, v varchar(20), c char(6), y bytea, u uuid, d date, ti time, ts timestamp, tz timestamptz, ttz timetz,
        iv interval, j json, jb jsonb, a int[], ta text[], e export.mood, dom export.share, ip inet, bits bit(3), o oid, p export.pair, r int4range)""",
    'CREATE TABLE export."Ev ents" (id bigint PRIMARY KEY, gone int, "na:me ""q""" text, twice bigint GENERATED ALWAYS AS (id * 2) STORED, "select" int)',
    "CREATE TABLE export.names (id int PRIMARY KEY, name text)",
    "CREATE TABLE export.own (id int, x text)",
    "CREATE TABLE export.own_parts (id int, x text) PARTITION BY RANGE (id)",
    "CREATE TABLE export.own_1 PARTITION OF export.own_parts FOR VALUES FROM (0) TO (50)",
    "CREATE TABLE export.own_2 PARTITION OF export.own_parts FOR VALUES FROM (50) TO (1000)",
    "CREATE TABLE export.by_time (device int, at timestamptz, v float8, PRIMARY KEY (device, at)) PARTITION BY RANGE (at)",
    "CREATE TABLE export.a_month PARTITION OF export.by_time FOR VALUES FROM ('2026-10-01 00:00+00') TO ('2026-11-01 00:00+00')",
    "CREATE TABLE export.later PARTITION OF export.by_time FOR VALUES FROM ('2026-11-01 00:00+00') TO ('2026-12-01 00:00+00')",
    "CREATE TABLE export.byrange (k int PRIMARY KEY, s text)",
    "CREATE TABLE export.empty (id int PRIMARY KEY, x text)",
)
PLACE = (
    "SELECT create_distributed_table('export.kinds', 'id')",
    "SELECT create_distributed_table('export.\"Ev ents\"', 'id')",
    "SELECT create_reference_table('export.names')",
    "SELECT create_distributed_table('export.by_time', 'device')",
    "SELECT create_distributed_table('export.byrange', 'k', strategy => 'range', bounds => ARRAY['FROM (MINVALUE) TO (100)', 'FROM (100) TO (MAXVALUE)'])",
    "SELECT create_distributed_table('export.empty', 'id')",
)
FILL = (
    "SET timezone = 'UTC'",
    "INSERT INTO export.kinds (id) VALUES (0)",
    r"""INSERT INTO export.kinds VALUES
    (1, true, -32768, -2147483648, -9223372036854775808, 'NaN', '-Infinity', -9999999.99, 99999999999999.9999, 9999999999999999999999999999.9999999999,
     'NaN', 12345678901234567890123456789012345678.12, 12300, '', '', '', '', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '4713-01-01 BC', '00:00:00', '4713-01-01 00:00:00 BC',
     '4713-01-02 00:00:00+00 BC', '23:59:59.999999+15:59', '-178 years 3 mons -5 days 04:05:06.000007', '{"b": 1, "a":  [null]}', '{"b": 1, "a":  [null]}', '{}', '{}', 'sad', 499.999, '::1/64', B'101', 4294967295,
     (1, 'x"y'), '[1,5)'),
    (2, false, 32767, 2147483647, 9223372036854775807, '-0', '-0', 0, -0.0001, -0.0000000001, 1e-40, 0, 0, E'tab\t nl\n cr\r back\\ quote" ''', E'\\N', 'ab', '\xdeadbeef00', '00000000-0000-0000-0000-000000000000',
     '5874897-12-31', '23:59:59.999999', '294246-12-31 23:59:59.999999', '294246-12-31 23:59:59.999999+00', '00:00:00-15:59', '0', '"\\u00e9"', '"é"', '{{1,2},{3,NULL}}', '{"a,b","q\"","NULL",NULL}', 'it''s "ok"', -0.001,
     '10.0.0.1', B'000', 0, (NULL, NULL), 'empty'),
    (3, NULL, 0, 0, 0, '3.4028235e+38', '5e-324', 1.10, 1, 1, 1.1000, 1, -99900, 'NULL', 'é€😀', 'é     ', '\x0a5c4e', 'ffffffff-ffff-ffff-ffff-ffffffffffff', '1969-12-31', '12:00:00.5', '1969-12-31 23:59:59.999999',
     '1970-01-01 02:00:00+02', NULL, '1 day', 'null', 'null', '[0:1]={7,8}', '{\\}', NULL, 0, NULL, NULL, 1, NULL, '(,)'),
    (4, true, 1, 1, 1, '1e-45', '1.7976931348623157e+308', 0.1, 0.1, 0.1, -123456789012345678901234567890.123, -1, 100, '\.', ',', '"', '\x00', gen_random_uuid(), '0001-01-01', '01:02:03', '0001-01-01 00:00:00',
     '0001-12-31 23:59:59.5+00 BC', NULL, 'P1Y2M', '[]', '[]', '{1}', '{x}', 'sad', 1, NULL, NULL, 2, NULL, NULL)""",
    "UPDATE export.kinds SET u = '11111111-2222-3333-4444-555555555555' WHERE id = 4",
    # Zeros and not quite zeros among many: a dictionary would make one of them.
    "INSERT INTO export.kinds (id, f4, f8, t) SELECT i, (ARRAY['0', '-0', '1', 'NaN'])[1 + i % 4]::float4, (ARRAY['-0', '0', '2', '-Infinity'])[1 + i % 4]::float8, repeat('x', i % 50) || i FROM generate_series(100, 3000) i",
    'INSERT INTO export."Ev ents" (id, gone, "na:me ""q""", "select") SELECT i, i, \'n\' || i, i % 3 FROM generate_series(1, 500) i',
    'ALTER TABLE export."Ev ents" DROP COLUMN gone',
    "INSERT INTO export.names SELECT i, 'n' || i FROM generate_series(1, 50) i",
    "INSERT INTO export.own SELECT i, 'x' || i FROM generate_series(1, 20) i",
    "INSERT INTO export.own_parts SELECT i, 'x' || i FROM generate_series(1, 100) i",
    "INSERT INTO export.by_time SELECT i % 9, timestamptz '2026-10-01 00:00+00' + i * interval '3 hours', i FROM generate_series(0, 480) i",
    "INSERT INTO export.byrange SELECT i, 'r' || i FROM generate_series(1, 300) i",
    'CREATE VIEW export.thirds AS SELECT "select" AS third, count(*), sum(id) FROM export."Ev ents" GROUP BY 1',
    "CREATE MATERIALIZED VIEW export.kept AS SELECT id, name FROM export.names",
)

# A column, what PostgreSQL is asked for, what DuckDB is asked for, and the type it has there. None: the text that PostgreSQL prints.
NUMBER, TEXT = "{}", "{}::text"
COLUMNS = {
    "id": (NUMBER, "{}", "INTEGER"), "b": (NUMBER, "{}", "BOOLEAN"), "i2": (NUMBER, "{}", "SMALLINT"), "i4": (NUMBER, "{}", "INTEGER"), "i8": (NUMBER, "{}", "BIGINT"),
    "f4": ("encode(float4send({}), 'hex')", "{}", "FLOAT"), "f8": ("encode(float8send({}), 'hex')", "{}", "DOUBLE"),
    "n9": (TEXT, "{}::varchar", "DECIMAL(9,2)"), "n18": (TEXT, "{}::varchar", "DECIMAL(18,4)"), "n38": (TEXT, "{}::varchar", "DECIMAL(38,10)"), "dom": (TEXT, "{}::varchar", "DECIMAL(6,3)"),
    "y": ("encode({}, 'hex')", "lower(hex({}))", "BLOB"), "u": (TEXT, "{}::varchar", "UUID"),
    "d": ("{} - date '1970-01-01'", "{} - DATE '1970-01-01'", "DATE"), "ti": ("(extract(epoch FROM {}) * 1000000)::int8", "epoch_us({})", "TIME"),
    "ts": ("(extract(epoch FROM {}) * 1000000)::int8", "epoch_us({})", "TIMESTAMP"), "tz": ("(extract(epoch FROM {}) * 1000000)::int8", "epoch_us({})", "TIMESTAMP WITH TIME ZONE"),
    "j": (TEXT, "{}::varchar", "JSON"), "jb": (TEXT, "{}::varchar", "JSON"), "o": ("{}::int8", "{}", "BIGINT"),
    # char(n) is text without its blanks.
    "c": ("rpad({}::text, 6)", "{}", "VARCHAR"),
} | {name: (TEXT, "{}", "VARCHAR") for name in ("n", "wide", "neg", "t", "v", "ttz", "iv", "a", "ta", "e", "bits", "p", "r")}  # fmt: skip
# The cast to text is not what is printed.
COLUMNS["ip"] = ("nullif(format('%s', {}), '')", "{}", "VARCHAR")


@pytest.fixture(scope="module")
def many():
    made = Herd(nodes=3, shards=8)
    yield made.server
    made.stop()


@pytest.fixture(scope="module")
def both(oracle, many):
    with both_made(oracle, many, MAKE, PLACE, FILL, "export"):
        yield oracle, many


@pytest.fixture
def folder():
    path = unprivileged.new_directory("export")
    yield path / "made" / "here"
    unprivileged.remove_directory(path)


def bits(name: str, value):
    """Floats by their bits, as PostgreSQL sends them; NaN is one."""
    if value is None or name not in ("f4", "f8"):
        return value
    return struct.pack(">f" if name == "f4" else ">d", value if value == value else float("nan")).hex()


def check_every_type(oracle, folder) -> None:
    assert types(folder) == {name: of for name, (_, _, of) in COLUMNS.items()}
    ours = parquet(folder, ", ".join(duck.format(name) for name, (_, duck, _) in COLUMNS.items()), "ORDER BY id")
    ours = [tuple(bits(name, value) for name, value in zip(COLUMNS, row)) for row in ours]
    with oracle.connect() as connection:
        connection.execute("SET timezone = 'UTC'")
        select = ", ".join(f"{postgres.format(name)} AS {name}" for name, (postgres, _, _) in COLUMNS.items())
        theirs = connection.execute(f"SELECT {select} FROM export.kinds ORDER BY id").fetchall()
    assert len(ours) == len(theirs) == 2906
    for mine, other in zip(ours, theirs):
        assert dict(zip(COLUMNS, mine)) == dict(zip(COLUMNS, other))


def test_every_type_as_parquet(both, folder):
    oracle, many = both
    assert export(many, "export.kinds", "parquet", folder) == ["kinds-1.parquet", "kinds-2.parquet", "kinds-3.parquet"]
    check_every_type(oracle, folder)
    # For nobody else to read.
    assert folder.stat().st_mode & 0o077 == 0


def test_every_type_of_a_query_as_parquet(both, folder):
    oracle, many = both
    assert export(many, '/*{"full_export":true}*/ SELECT * FROM export.kinds -- all', "parquet", folder) == ["query.parquet"]
    check_every_type(oracle, folder)


@pytest.mark.parametrize("what", ["export.kinds", "SELECT * FROM export.kinds", "SELECT * FROM export.kinds ORDER BY t, id DESC;"])
def test_every_type_as_csv(both, folder, what):
    oracle, many = both
    names = export(many, what, "csv", folder)
    assert names == (["query.csv"] if " " in what else ["kinds-1.csv", "kinds-2.csv", "kinds-3.csv"])
    assert csv(folder) == copied(oracle, "SELECT * FROM export.kinds")
    if "ORDER" in what:
        ids = [int(line.split(b",")[0]) for line in exports.records((folder / "query.csv").read_bytes())[1:]]
        with oracle.connect() as connection:
            assert ids == [row[0] for row in connection.execute("SELECT id FROM export.kinds ORDER BY t, id DESC").fetchall()]


# What is exported, the query that says the same to PostgreSQL, and the names of the files.
THREE = ["{}-1", "{}-2", "{}-3"]
TABLES = [
    ('export."Ev ents"', None, [name.format("Ev_ents") for name in THREE]),
    ("export.names", None, ["names"]),
    ("export.own", None, ["own"]),
    ("EXPORT.own_parts", None, ["own_parts"]),
    ("export.by_time", None, [name.format("by_time") for name in THREE]),
    ("export.a_month", None, [name.format("a_month") for name in THREE]),
    ("export.byrange", None, ["byrange-1", "byrange-2"]),
    ("export.empty", None, [name.format("empty") for name in THREE]),
    ("export.thirds", None, ["thirds"]),
    ("export.kept", None, ["kept"]),
    ('SELECT n.name, e."na:me ""q""" AS "a:b" FROM export."Ev ents" e JOIN export.names n ON n.id = e.id % 50', 0, ["query"]),
    ("SELECT device, count(*) AS n, sum(v) AS s FROM export.by_time GROUP BY device HAVING count(*) > 3", 0, ["query"]),
    ("WITH a AS (SELECT ARRAY[1, 2, 3] AS x, 1 AS \"user\") SELECT x[1:\"user\"] AS y, ':user', $$\\d :\"x\"$$ AS z FROM a", 0, ["query"]),
    ("VALUES (1, 'a\"b'), (2, NULL), (3, '')", 0, ["query"]),
    ("SELECT o.id, o.x, e.twice FROM export.own o LEFT JOIN export.\"Ev ents\" e ON e.\"select\" = o.id", 0, ["query"]),
]


@pytest.mark.parametrize("what, query, names", TABLES)
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_tables_and_queries(both, folder, form, what, query, names):
    oracle, many = both
    assert export(many, what, form, folder) == [f"{name}.{form}" for name in names]
    query = what if query == 0 else f"SELECT * FROM {what}"
    if form == "csv":
        assert csv(folder) == copied(oracle, query)
        return
    with oracle.connect() as connection:
        cursor = connection.execute(query)
        theirs = cursor.fetchall()
        columns = [column.name for column in cursor.description]
    assert list(types(folder)) == columns
    shown = ", ".join('"at" AT TIME ZONE \'UTC\'' if name == "at" else '"%s"' % name.replace('"', '""') for name in columns)
    assert sorted(map(repr, parquet(folder, shown))) == sorted(repr(tuple(map(plain, row))) for row in theirs)


def plain(value):
    """As it is in Parquet: numerics without a scale and arrays are text, times are UTC's."""
    match value:
        case decimal.Decimal():
            return str(value)
        case list():
            return "{%s}" % ",".join(map(str, value))
        case datetime.datetime():
            return value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
        case _:
            return value


@pytest.mark.parametrize(
    "column, value, of",
    [
        ("d", "'infinity'::date", "DATE"), ("d", "'-infinity'::date", "DATE"), ("ts", "'infinity'::timestamp", "TIMESTAMP"), ("tz", "'-infinity'::timestamptz", "TIMESTAMP"),
        ("ts", "timestamp '294276-12-31 23:59:59'", "TIMESTAMP"), ("ti", "time '24:00:00'", "TIME"), ("n", "'NaN'::numeric(5,2)", "DECIMAL(5, 2)"), ("n", "'NaN'::numeric(30,2)", "DECIMAL(30, 2)"),
    ],
)  # fmt: skip
def test_what_parquet_can_not_hold_is_named(both, folder, column, value, of):
    _, many = both
    with many.connect() as connection:
        text = connection.execute(f"SELECT ({value})::text").fetchone()[0]
    query = f'SELECT id, {value} AS "{column}" FROM export.names'
    done = exports.run(many, query, "parquet", folder)
    assert done.returncode == 1 and f"column {column} has the value {text}, which Parquet's {of} can't hold" in done.stderr, done.stderr
    # Nor is there anything that looks like a file.
    assert not folder.exists()
    assert export(many, query, "parquet", folder, "--as-text", column) == ["query.parquet"]
    assert parquet(folder, f"DISTINCT {column}") == [(text,)]


def test_mistakes_are_named(both, folder, oracle):
    _, many = both

    def fails(what: str, said: str, *more, server=many, form="parquet") -> None:
        done = exports.run(server, what, form, folder, *more)
        assert done.returncode == 1 and said in done.stderr and done.stdout == "", done.stderr
        assert not folder.exists()

    fails("export.nothing", "there is no table or view export.nothing")
    fails("nothing at all", "an export is of a table, by its name, or of one query")
    fails("DELETE FROM export.names", "this is another statement")
    fails("SELECT 1; SELECT 2", "these are 2 statements")
    fails("SELECT no FROM export.names", 'column "no" does not exist')
    fails("SELECT nextval('s')", "does not exist")
    fails("SELECT 1 / (id - 50) FROM export.names", "division by zero", form="csv")
    fails("SELECT 1, 2", "two columns are called ?column?")
    fails("export.names", "there is no column nam for --as-text", "--as-text", "nam")
    fails("export.names", "not a router", server=oracle)
    folder.mkdir(parents=True)
    (folder / "x").write_text("mine")
    done = exports.run(many, "export.names", "csv", folder)
    assert done.returncode == 1 and "is not empty" in done.stderr
    assert [path.name for path in folder.iterdir()] == ["x"]


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_row_level_security(both, folder, form):
    """As pg_dump: who may not see all rows is told so, or asks for those that he may see."""
    _, many = both
    reader = f"export_reader_{form}"
    many.run(
        "DROP TABLE IF EXISTS export.policed", f"CREATE ROLE {reader} LOGIN", "CREATE TABLE export.policed (id int PRIMARY KEY, owner text)",
        "SELECT create_distributed_table('export.policed', 'id')", "ALTER TABLE export.policed ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY own ON export.policed USING (owner = current_user)", f"GRANT USAGE ON SCHEMA export TO {reader}", f"GRANT SELECT ON export.policed TO {reader}",
        f"INSERT INTO export.policed SELECT i, CASE WHEN i % 4 = 0 THEN '{reader}' ELSE 'postgres' END FROM generate_series(1, 400) i",
    )  # fmt: skip
    for what in ("export.policed", "SELECT * FROM export.policed"):
        done = exports.run(many, what, form, folder, user=reader)
        assert done.returncode == 1 and "row-level security policy" in done.stderr, done.stderr
    done = exports.run(many, "export.own", form, folder, user=reader)
    assert done.returncode == 1 and "permission denied" in done.stderr, done.stderr
    assert not folder.exists()
    export(many, "export.policed", form, folder, "--enable-row-security", user=reader)
    rows = parquet(folder) if form == "parquet" else csv(folder)[1]
    assert len(rows) == 100
    export(many, "export.policed", form, folder.parent / "all")
    rows = parquet(folder.parent / "all") if form == "parquet" else csv(folder.parent / "all")[1]
    assert len(rows) == 400


def test_a_local_herd_of_one_node(herd_one, folder):
    """Found by its directory, and without a snapshot over several nodes."""
    herd_one.server.run("DROP TABLE IF EXISTS export_one", "CREATE TABLE export_one (id int PRIMARY KEY)", "SELECT create_distributed_table('export_one', 'id')", "INSERT INTO export_one SELECT generate_series(1, 10)")
    for number, what in enumerate(("export_one", "SELECT * FROM export_one")):
        arguments = exports.command(what, "--herd", herd_one.dir, "--format", "csv", "--dir", folder / str(number))
        done = subprocess.run(arguments, env=exports.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert csv(folder / str(number)) == (b"id\n", sorted(b"%d\n" % i for i in range(1, 11)))

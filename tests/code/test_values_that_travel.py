"""Values of all types on their way from node to node, under settings that change what their text says: the same as on one server, or 0A000."""

import psycopg
import pytest

pytestmark = pytest.mark.real_herd

SETTINGS = {
    "few digits": "set extra_float_digits = 0", "fewest digits": "set extra_float_digits = -15", "German dates": "set datestyle = 'German, DMY'",
    "SQL dates": "set datestyle = 'SQL, DMY'", "NULL is a word": "set array_nulls = off",
    "all of them": "set extra_float_digits = 0; set datestyle = 'Postgres, MDY'; set array_nulls = off; set timezone = 'America/New_York'",
    "names in quotes": "set datestyle = 'German, DMY'; set quote_all_identifiers = on",
}
_MAKE = (
    "drop table if exists vt_a, vt_b, vt_r",
    "create table vt_a (k int primary key, r real, d double precision, t timestamptz, p timestamptz(3), s tstzrange, m tstzmultirange, n numeric, w text[], i int[])",
    "create table vt_b (k int primary key, x int, d double precision, r real, t timestamptz, w text[])",
    "create table vt_r (k int primary key, d double precision, t timestamptz, w text[])",
)
_FILL = (
    """insert into vt_a select g, g * 0.1::real, case g when 3 then 'NaN' when 4 then '-Infinity' when 5 then -0.0 when 6 then null else g * 0.1::float8 + 1e-16 end,
       case g when 3 then 'infinity' when 4 then '0044-03-15 BC' else timestamptz '2024-10-27 00:30+00' + g * interval '37 minutes 0.000001 s' end, timestamptz '2024-11-03 05:30+00' + g * interval '0.1234 s',
       tstzrange(timestamptz '2024-11-03 05:30+00', timestamptz '2024-11-03 06:30+00' + g * interval '1 hour'), '{}', g + 0.10, case when g % 4 = 0 then '{a,null}' else array['x', g::text] end, array[g, g + 1] from generate_series(1, 12) g""",
    "insert into vt_b select g, 13 - g, g / 3.0::float8, g / 3.0::real, timestamptz '2024-11-03 05:30+00' + g * interval '20 minutes', array[g::text] from generate_series(1, 12) g",
    "insert into vt_r select g, g / 7.0::float8, timestamptz '2024-11-03 05:30+00' + g * interval '31 minutes', array['r'] from generate_series(1, 4) g",
)
READS = [
    "select a.k, a.d, a.r, b.d, b.r from vt_a a join vt_b b on b.x = a.k order by 1",
    "select a.k, a.t, a.p, b.t from vt_a a left join vt_b b on b.x = a.k order by 1",
    "select a.k, a.s, a.m, a.s @> b.t from vt_a a join vt_b b on b.x = a.k order by 1",
    "select a.k, a.d = b.d * 3, a.d::text, a.t::text, b.r::text from vt_a a join vt_b b on b.x = a.k order by 1",
    "select d, count(*) from vt_a group by d order by d", "select max(t), min(t), max(d), min(r) from vt_a",
    "select t, d from vt_a union select t, d from vt_b order by 1, 2", "select percentile_cont(0.5) within group (order by d) from vt_b",
    "select x.d from (select d, row_number() over (order by d) n from vt_b) x where x.n < 5 order by 1",
    "select (select a.d from vt_a a where a.k = b.x), (select a.t from vt_a a where a.k = b.x) from vt_b b order by b.k",
    "select a.k, a.w, a.i from vt_a a join vt_b b on b.x = a.k where a.k < 4 order by 1",
    "select a.k, a.w from vt_a a join vt_b b on b.x = a.k order by 1",
    "select array_agg(d order by d) from vt_b", "select json_agg(t order by t) from vt_b", "select a.d, g from vt_a a join vt_b b on b.x = a.k, generate_series(1, 2) g order by 1, 2",
]
WRITES = [
    "update vt_a set d = b.d, r = b.r, t = b.t, p = b.t from vt_b b where b.x = vt_a.k",
    "update vt_a set d = b.d from vt_b b where b.x = vt_a.k returning vt_a.k, vt_a.d, b.d, b.t", "update vt_a set w = b.w from vt_b b where b.x = vt_a.k",
    "delete from vt_a using vt_b b where b.x = vt_a.k and b.d = (select max(d) from vt_b) returning vt_a.d, vt_a.t",
    "update vt_r set d = b.d, t = b.t from vt_b b where b.k = vt_r.k returning vt_r.d, vt_r.t", "update vt_r set d = (select max(b.d) from vt_b b), w = w || 'y'::text",
    "merge into vt_a a using vt_b b on a.k = b.k when matched then update set d = b.d, t = b.t when not matched then insert (k, d) values (b.k, b.d)",
    "insert into vt_a (k, d, t) select x + 100, d, t from vt_b", "insert into vt_r select x + 100, d, t, w from vt_b returning d, t",
    "with u as (update vt_a set d = d * 3 where k < 5 returning k, d, t) select * from u order by k",
    "insert into vt_a (k, d, t) values (201, 0.1::float8 + 0.2::float8, now()), (202, random() * 0, now())",
]


@pytest.fixture(scope="module", autouse=True)
def filled(plain, herd):
    for server in (plain.server, herd):
        server.run(*_MAKE)
    herd.run("select create_distributed_table('vt_a', 'k')", "select create_distributed_table('vt_b', 'k')", "select create_reference_table('vt_r')")
    for server in (plain.server, herd):
        server.run(*_FILL)
    yield
    for server in (plain.server, herd):
        server.run("drop table vt_a, vt_b, vt_r")


def _answer(connection, sql, binary=False):
    """Text as the server wrote it, or binary; or the error's state."""
    try:
        cursor = connection.pgconn.exec_params(sql.encode(), [], result_format=int(binary))
    except psycopg.Error as e:
        return e.sqlstate
    if cursor.error_message:
        return cursor.error_field(psycopg.pq.DiagnosticField.SQLSTATE).decode()
    if cursor.status not in (psycopg.pq.ExecStatus.TUPLES_OK, psycopg.pq.ExecStatus.COMMAND_OK):
        return repr(cursor.status)
    return [[cursor.get_value(row, column) for column in range(cursor.nfields)] for row in range(cursor.ntuples)]


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_reads(plain, herd, setting):
    refused = []
    with plain.server.connect() as one, herd.connect() as many:
        for connection in (one, many):
            connection.execute(setting)
        for sql in READS:
            for binary in (False, True):
                got = _answer(many, sql, binary)
                if got == "0A000":
                    refused.append(sql)
                    continue
                assert got == _answer(one, sql, binary), sql
    # Only NULL inside of an array can't be said.
    nulls = "array_nulls" in setting
    assert refused == ([READS[11]] * 2 if nulls else []), refused


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_writes(plain, herd, setting):
    refused = []
    with plain.server.connect(autocommit=False) as one, herd.connect(autocommit=False) as many:
        for sql in WRITES:
            for connection in (one, many):
                connection.rollback()
                connection.execute(setting)
            got = _answer(many, sql)
            if got == "0A000":
                refused.append(sql)
                continue
            if "now()" in sql:
                continue
            want = _answer(one, sql)
            assert (sorted(got), sql) == (sorted(want), sql) if isinstance(want, list) else got == want
            for connection in (one, many):
                connection.execute("set extra_float_digits = 1; set datestyle = 'ISO'; set array_nulls = on")
            for table in ("vt_a", "vt_r"):
                select = f"select * from {table} order by k"
                assert _answer(many, select) == _answer(one, select), sql
        one.rollback()
        many.rollback()
    # COPY, and rows that a statement's values are written from, are text.
    text = [sql for sql in WRITES if sql.startswith(("insert", "with"))]
    assert set(refused) <= set(text), refused


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_many_rows_by_way_of_a_table(plain, herd, setting):
    sql = "select sum(d), max(t)::text, count(distinct r), md5(string_agg(d::text || t::text || r::text, ',' order by k)) from (select a.d, a.t, a.r, a.k * 10000 + g as k from vt_a a join vt_b b on b.x = a.k, generate_series(1, 600) g) s"
    with plain.server.connect() as one, herd.connect() as many:
        for connection in (one, many):
            connection.execute(setting)
        assert _answer(many, sql) == _answer(one, sql)

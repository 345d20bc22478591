"""What columns answer is what a plain PostgreSQL answers, byte for byte, and some of it they do answer."""

from decimal import Decimal

import pytest

from . import tables

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("columns"), pytest.mark.timeout(300)]

_SEED = 20261125
_ROWS = 400
_QUERIES = 400


@pytest.fixture(scope="module")
def filled(columns, oracle):
    tables.fill(columns.server, _SEED, _ROWS, distribute=True)
    tables.fill(oracle, _SEED, _ROWS, distribute=False)
    columns.add(tables.NAME)
    return columns


def test_random_queries_over_all_types(filled, oracle):
    queries, different = tables.Queries(_SEED), []
    before = filled.reads()
    with filled.server.connect() as herd, oracle.connect() as plain:
        herd.execute("set herd.columns = on")
        for _ in range(_QUERIES):
            sql, ordered = queries.next()
            got, want = tables.answer(herd, sql), tables.answer(plain, sql)
            if not ordered and isinstance(got, tuple) and isinstance(want, tuple):
                got, want = (got[0], sorted(got[1], key=repr)), (want[0], sorted(want[1], key=repr))
            if got != want:
                different.append((sql, got, want))
    by_columns, by_rows = (now - was for now, was in zip(filled.reads(), before))
    print(f"{_QUERIES} queries: {by_columns} by columns, {by_rows} asked of columns and answered by rows, different {len(different)}")
    for sql, got, want in different[:5]:
        print(sql, *(f"\n  {name}: {_short(one, other)}" for name, one, other in (("herd", got, want), ("plain", want, got))))
    assert not different
    assert by_columns > _QUERIES / 3, (by_columns, by_rows)


def _short(answer, other):
    if isinstance(answer, str) or isinstance(other, str):
        return str(answer)[:200]
    return (answer[0] if answer[0] != other[0] else "", [row for row in answer[1] if row not in other[1]][:5])


def test_literals_are_those_of_each_statement(filled, oracle):
    """Statements that differ by their literals alone have one plan, but columns are asked with each one's own."""
    statements = [f"select count(*), sum(l.i), max(l.t) from {tables.NAME} l where l.id = {{}} and l.i > {{}}", f"select count(*), min(n) from {tables.NAME} where id in ({{0}}) and i < {{1}}"]
    before = filled.reads()[0]
    with filled.server.connect() as herd, oracle.connect() as plain:
        for way in ["on", "auto"]:
            herd.execute(f"set herd.columns = {way}")
            for sql in statements:
                for key in [*range(1, 30), *range(1, 30)]:
                    one = sql.format(key, key % 3 * 50 - 50)
                    assert tables.answer(herd, one) == tables.answer(plain, one), (way, one)
    assert filled.reads()[0] > before


def test_the_clock_is_the_statements(filled):
    """What reads it twice has read the same, and each execution of what is prepared its own."""
    sql = f"select min(now()) = max(now()), count(*) filter (where z < now() + interval '1 hour') = count(z), count(*) filter (where z > current_timestamp - interval '2 hours'), max(now()) from {tables.NAME}"
    before = filled.reads()[0]
    with filled.server.connect() as herd:
        herd.execute("set herd.columns = on")
        seen = [herd.cursor().execute(sql, prepare=True).fetchone() for _ in range(4)] + [herd.execute(sql).fetchone() for _ in range(2)]
        herd.execute("set herd.columns = off")
        by_rows = herd.execute(sql).fetchone()
    assert [row[:3] for row in seen] == [by_rows[:3]] * 6, (seen, by_rows)
    times = [row[3] for row in [*seen, by_rows]]
    assert times == sorted(set(times)), times
    assert filled.reads()[0] - before == 6


@pytest.mark.parametrize("protocol", ["text", "binary"])
def test_parameters(filled, oracle, protocol):
    statements = [
        (f"select count(*), sum(i), min(t) from {tables.NAME} where i > %s and t like 'a%%'", (0,)),
        (f"select count(*) from {tables.NAME} where t = %s or n = %s", ("it's", 1)),
        (f"select t, count(*) from {tables.NAME} where s >= %s group by t order by t", (1,)),
        # With the digits that their values have.
        (f"select sum(n * %s)::text, max(%s::numeric)::text, min(x.p)::text from (select n, %s::numeric as p from {tables.NAME}) x", (Decimal("1.5"), Decimal("2.50"), Decimal("3"))),
    ]
    with filled.server.connect() as herd, oracle.connect() as plain:
        herd.execute("set herd.columns = on")
        for sql, values in statements:
            answers = [c.cursor(binary=protocol == "binary").execute(sql, values, prepare=True).fetchall() for c in (herd, plain, herd)]
            assert answers[0] == answers[1] == answers[2], sql


def test_auto_takes_columns_for_scans_alone(filled):
    def columns_answer(sql: str) -> bool:
        before = filled.reads()
        with filled.server.connect() as connection:
            connection.execute(sql)
        return filled.reads()[0] > before[0]

    assert columns_answer(f"select count(*) from {tables.NAME}")
    assert columns_answer(f"select t, sum(i) from {tables.NAME} where c like '1%' group by t")
    assert columns_answer(f"select id from {tables.NAME} where c like '1%' order by c, id limit 3")
    assert not columns_answer(f"select * from {tables.NAME} where id = 7")
    assert not columns_answer(f"select count(*) from {tables.NAME} where id between 3 and 9")
    assert not columns_answer(f"select id from {tables.NAME} where c like '1%' order by id limit 3")
    assert not columns_answer(f"select id, t from {tables.NAME}")


def test_explain_says_which_way(filled):
    total = f"select sum(i) from {tables.NAME} where i > 1"
    with filled.server.connect() as connection:

        def lines(sql: str) -> str:
            return "\n".join(row[0] for row in connection.execute(f"explain {sql}").fetchall())

        assert "Columns: no: " in lines(f"select count(*) from {tables.NAME} where length(pg_catalog.btrim(t)) = 1")
        # DuckDB's plan stands in the place of the nodes' own.
        text = lines(total)
        assert "Columns: DuckDB: SELECT" in text and "  DuckDB Plan: of the store of " in text, text
        assert "UNGROUPED_AGGREGATE" in text and "Seq Scan" not in text and "Statement: " not in text, text
        document = connection.execute(f"explain (format json) {total}").fetchone()[0][0]["Plan"]
        assert "UNGROUPED_AGGREGATE" in document["DuckDB Plan"] and document["Plans"] == [], document
        for form in ("yaml", "xml"):
            assert "UNGROUPED_AGGREGATE" in connection.execute(f"explain (format {form}) {total}").fetchone()[0]
        # ANALYZE tells what stores did.
        before = filled.reads()
        text = lines(f"analyze {total}")
        assert filled.reads()[0] == before[0] + 1
        assert text.count("  Answer of the store of ") == 2 and text.count(": rows=1 bytes=") == 2, text
        assert "Seq Scan" not in text and "Rows: 1" in text, text
        document = connection.execute(f"explain (analyze, format json) {total}").fetchone()[0][0]["Plan"]
        assert [answer["By"] for answer in document["Answers"]] == ["Columns", "Columns"] and document["Actual Rows"] == 1, document
        # One shard's rows.
        connection.execute("set herd.columns = on")
        text = lines(f"analyze select count(*), sum(i) from {tables.NAME} where id = 7")
        assert text.startswith("Herd route") and "DuckDB Plan" in text and "Answer of the store of" in text and "Rows: 1" in text, text
        # Rows are read, and nodes say how.
        connection.execute("set herd.columns = off")
        text = lines(f"analyze {total}")
        assert "DuckDB" not in text and "Seq Scan" in text and "the store of" not in text, text
        assert "Columns: no: herd.columns is off" in text, text
        with connection.transaction():
            connection.execute("set herd.columns = on")
            text = lines(total)
            assert "DuckDB" not in text and "Columns: no: columns are read outside of transactions alone" in text, text
            connection.execute("create temp table said (line text) on commit drop")
            connection.execute(f"do $$ declare l text; begin for l in execute 'explain {total}' loop insert into said values (l); end loop; end $$")
            said = "\n".join(line for (line,) in connection.execute("select line from said").fetchall())
            assert "Columns: no: " in said and "DuckDB" not in said, said
        connection.execute("set herd.columns = auto")
        text = lines(f"select count(*), sum(i) from {tables.NAME} where id < 3")
        assert "Columns: no: an index may serve it better" in text and "DuckDB" not in text, text


def test_what_dashboards_ask(filled, oracle):
    name = tables.NAME
    statements = [
        f"select id % 5, sum(case when b then n else 0 end), sum(case when i is null then n else 0 end) from {name} group by 1 order by 1",
        f"select id, coalesce(sum(n), 0), coalesce(sum(l), 0), coalesce(min(i), 0) from {name} group by id having coalesce(sum(n), 0) < 5",
        f"select sum(case when id < 0 then n else 0 end), sum(coalesce(n, 0.5)), sum(case when b then n end) from {name}",
        f"select m::date, count(*) from {name} group by 1",
        f"select count(*) from {name} where m >= date '2000-01-01' or d > timestamp '2000-01-01 10:00:00'",
        f"select count(*) from {name} where d < m",
        f"select lower(t), upper(v), count(*) from {name} where t = any (array['A', 'ab', 'zz']) and v in ('a', 'A', 'b_') group by 1, 2",
        f"select count(*) from {name} where t in ('A', 'a', 'abc') and i <> all (array[1, 7])",
        f"select count(*) filter (where t ilike 'A%') from {name} where t in ('A', 'a', 'abc', 'zz')",
        # One shard has all of it.
        f"select count(*), sum(i), max(t) from {name} where id = 7",
        f"select t, v from {name} where id = 7 order by t limit 3",
    ]
    with filled.server.connect() as herd, oracle.connect() as plain:
        herd.execute("set herd.columns = on")
        for sql in statements:
            before = filled.reads()[0]
            (types, got), (wanted_types, want) = tables.answer(herd, sql), tables.answer(plain, sql)
            assert (types, sorted(got, key=repr)) == (wanted_types, sorted(want, key=repr)), sql
            assert filled.reads()[0] > before, f"rows answered: {sql}"
        text = "\n".join(row[0] for row in herd.execute(f"explain {statements[-2]}").fetchall())
        assert "Columns: DuckDB: " in text, text


def test_equals_null_is_what_the_setting_says(filled, oracle):
    name = tables.NAME
    with filled.server.connect() as herd, oracle.connect() as plain:
        herd.execute("set herd.columns = on")
        for on in ("off", "on"):
            for sql in (f"set transform_null_equals = {on}", *(f"select count(*) from {name} where {c}" for c in ("i = null", "null = t", "i <> null or i = null", "i = null::int", "i in (null, 7)"))):
                assert (tables.answer(herd, sql) == tables.answer(plain, sql)) or sql.startswith("set "), (on, sql)
        cursors = [c.cursor() for c in (herd, plain)]
        answers = [c.execute(f"select count(*) from {name} where i = %s::int", (None,), prepare=True).fetchall() for c in cursors]
        assert answers[0] == answers[1] == [(0,)]


def test_what_fails_beyond_a_limit_fails(columns, oracle):
    """The last row has the greatest integer, and no index has the orders."""
    rows = "insert into c_beyond select g, g, case g when 200000 then 2147483647 else 1 end from generate_series(1, 200000) g"
    for server, distribute in ((columns.server, ["select create_distributed_table('c_beyond', 'k')"]), (oracle, [])):
        server.run("drop table if exists c_beyond", "create table c_beyond (k bigint primary key, s int, i int)", *distribute, rows)
    columns.add("c_beyond")
    with columns.server.connect() as herd, oracle.connect() as plain:
        herd.execute("set herd.columns = on")
        for sql in (
            "select k, i + 1 from c_beyond order by s, k limit 3", "select k from c_beyond where i + 1 > 0 order by s, k limit 3", "select k from c_beyond order by s, i + 1, k limit 3",
            "select k, i + 1 from c_beyond order by s, k fetch first 3 rows only", "select k, i + 1 from c_beyond order by i + 1 desc, k limit 3",
        ):  # fmt: skip
            assert tables.answer(plain, sql) == tables.answer(herd, sql) == "22003", sql
    for server in (columns.server, oracle):
        server.run("drop table c_beyond")


def test_a_timestamp_before_all_others_fails_beside_other_conditions(columns, oracle):
    rows = "insert into c_early values (1, 1, '4714-11-24 00:00:00 BC'), (2, 2, '2000-02-02'), (3, -3, '1999-01-01')"
    for server, distribute in ((columns.server, ["select create_distributed_table('c_early', 'k')"]), (oracle, [])):
        server.run("drop table if exists c_early", "create table c_early (k bigint primary key, s int, m timestamp)", *distribute, rows)
    columns.add("c_early")
    with columns.server.connect() as herd, oracle.connect() as plain:
        herd.execute("set herd.columns = on")
        for condition in ("date_trunc('month', m) > '2000-01-01' or s >= 0", "date_trunc('month', m) > '2000-01-01' and k > 0", "date_trunc('month', m) > '2000-01-01'"):
            sql = f"select count(*) from c_early where {condition}"
            assert tables.answer(plain, sql) == tables.answer(herd, sql) == "22008", sql
    for server in (columns.server, oracle):
        server.run("drop table c_early")

"""Collations of columns go with their rows, wherever these are sorted and compared."""

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(120)]

COLLATIONS = [
    "CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
    "CREATE COLLATION en (provider = icu, locale = 'en')",
]
TABLES = [
    "CREATE TABLE a (k text, c text COLLATE ci, e text COLLATE en, es text[] COLLATE en)",
    "CREATE TABLE b (k text, c text COLLATE ci, e text COLLATE en)",
    "CREATE TABLE m (c text COLLATE ci)",
]
ROWS = [
    "INSERT INTO a SELECT chr(97 + i), (array['x', 'X'])[i % 2 + 1],"
    " CASE WHEN i % 3 = 0 THEN upper(chr(97 + i)) ELSE chr(97 + i) END, array[chr(106 - i), 'X'] FROM generate_series(0, 9) i",
    "INSERT INTO b SELECT chr(65 + i), (array['x', 'X'])[i % 2 + 1],"
    " CASE WHEN i % 4 = 0 THEN upper(chr(97 + i)) ELSE chr(97 + i) END FROM generate_series(0, 9) i",
    "INSERT INTO m VALUES ('A'), ('b'), ('C')",
]
STATEMENTS = [
    "SELECT k FROM a WHERE c = 'X' ORDER BY k COLLATE \"C\"",
    "SELECT count(*) FROM a GROUP BY c",
    "SELECT count(DISTINCT c) FROM a",
    "SELECT count(*) FROM (SELECT DISTINCT c FROM a) s",
    "SELECT e FROM a ORDER BY e",
    "SELECT e FROM a ORDER BY e DESC LIMIT 3",
    "SELECT e, count(*) FROM a GROUP BY e ORDER BY e",
    "SELECT max(e), min(e) FROM a",
    "SELECT k FROM a ORDER BY es",
    "SELECT array_agg(e ORDER BY e) FROM a",
    "SELECT array_agg(k) FROM (SELECT k FROM a ORDER BY e) s",
    "SELECT rank() OVER (ORDER BY e), e FROM a",
    "SELECT e FROM a UNION SELECT e FROM b ORDER BY 1",
    "SELECT x FROM (SELECT k COLLATE \"C\" AS x FROM b ORDER BY e LIMIT 5) s ORDER BY x",
    "SELECT a.k FROM a JOIN m ON a.k = m.c ORDER BY 1",
    "SELECT a.k FROM a JOIN m ON a.k = m.c WHERE m.c = 'A'",
]


@pytest.fixture
def both(db, one_server):
    try:
        db.run(*COLLATIONS)
    except psycopg.errors.FeatureNotSupported:
        pytest.skip("these servers are built without ICU")
    with one_server.connect() as plain:
        for sql in ["DROP SCHEMA IF EXISTS code CASCADE", "CREATE SCHEMA code", "SET search_path = code", *COLLATIONS]:
            plain.execute(sql)
        for sql in TABLES:
            plain.execute(sql)
            db.run(sql)
        db.run("SELECT create_distributed_table('a', 'k')", "SELECT create_distributed_table('b', 'k')")
        db.run("SELECT create_reference_table('m')")
        for sql in ROWS:
            plain.execute(sql)
            db.run(sql)
        yield db, plain


def test_rows_of_several_nodes_are_sorted_and_compared_as_their_columns_say(both):
    db, plain = both
    differ = {}
    for sql in STATEMENTS:
        herd, alone = db.rows(sql), plain.execute(sql).fetchall()
        if herd != alone:
            differ[sql] = (herd, alone)
    assert not differ, differ


def test_strings_that_equal_one_of_other_bytes_are_not_equal_to_each_other(both):
    db, plain = both
    sql = "SELECT a.k, b.k FROM a JOIN m ON a.k = m.c JOIN b ON b.k = m.c"
    alone = plain.execute(sql).fetchall()
    assert len(alone) == 3
    assert sorted(db.rows(sql)) == sorted(alone)


def test_a_column_whose_strings_are_equal_by_other_rules_is_no_key(db):
    try:
        db.run(COLLATIONS[0])
    except psycopg.errors.FeatureNotSupported:
        pytest.skip("these servers are built without ICU")
    db.run("CREATE TABLE n (c text COLLATE ci)", "CREATE TABLE o (k text)", "SELECT create_distributed_table('o', 'k')")
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="nondeterministic"):
        db.run("SELECT create_distributed_table('n', 'c')")
    with pytest.raises(psycopg.Error) as e:
        db.run("ALTER TABLE o ALTER k TYPE text COLLATE ci")
    assert e.value.sqlstate in ("0A000", "42P16"), e.value

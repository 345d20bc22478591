"""Functions and procedures that are distributed by an argument run whole on the node of its value, if all they use is proved to be there."""

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(120)]

TABLES = (
    "CREATE TABLE e (id int, n int, v int, PRIMARY KEY (id, n))",
    "SELECT create_distributed_table('e', 'id', colocate_with => 'd')",
    "INSERT INTO e SELECT g % 40 + 1, g, g FROM generate_series(1, 200) g",
)
FUNCTIONS = (
    "CREATE FUNCTION total(p_id int, p_more int DEFAULT 0) RETURNS bigint LANGUAGE sql STABLE AS "
    "'SELECT sum(e.v) + p_more + (SELECT max(v) FROM r) FROM d JOIN e USING (id) WHERE d.id = p_id'",
    "CREATE FUNCTION rows_of(p int) RETURNS TABLE (n int, v int) LANGUAGE sql STABLE AS 'SELECT e.n, e.v FROM e WHERE id = $1'",
    "CREATE FUNCTION add(p_id int, p_n int) RETURNS int LANGUAGE plpgsql AS $$"
    " DECLARE found_v int; r record;"
    " BEGIN"
    "  SELECT v INTO found_v FROM d WHERE id = p_id FOR UPDATE;"
    "  IF found_v IS NULL THEN RAISE EXCEPTION 'no %', p_id; END IF;"
    "  FOR r IN SELECT * FROM e WHERE id = p_id AND n < 10 LOOP found_v := found_v + r.v; END LOOP;"
    "  INSERT INTO e VALUES (p_id, p_n, found_v), (p_id, p_n + 1, r.v);"
    "  UPDATE d SET v = found_v WHERE id = p_id;"
    "  RETURN found_v;"
    " END $$",
    "CREATE PROCEDURE take(p_id int, INOUT gone bigint) LANGUAGE plpgsql AS $$"
    " BEGIN DELETE FROM e WHERE id = p_id; GET DIAGNOSTICS gone = ROW_COUNT; END $$",
)
CALLS = (
    "SELECT create_distributed_function('total(int, int)', 'p_id')",
    "SELECT create_distributed_function('rows_of(int)', '$1', colocate_with => 'd')",
    "SELECT create_distributed_function('add(int, int)', 'p_id')",
    "SELECT create_distributed_function('take(int, bigint)', '$1')",
)


@pytest.fixture
def made(db):
    db.run(*TABLES, *FUNCTIONS, *CALLS)
    return db


def total(i):
    return sum(g for g in range(1, 201) if g % 40 + 1 == i) + 30


def test_calls_give_what_one_server_does(made):
    for i in range(1, 41):
        assert made.one(f"SELECT total({i})") == total(i)
        assert made.one(f"SELECT * FROM code.total({i}, {i}) AS t") == total(i) + i
        assert made.rows("SELECT n FROM rows_of(%s) WHERE v > 10 ORDER BY n DESC LIMIT 2", (i,)) == \
            [(g,) for g in range(200, 10, -1) if g % 40 + 1 == i][:2]
    assert made.rows("SELECT total(NULL), now() - now() = '0'") == [(None, True)]
    assert made.one("SELECT count(*) FROM rows_of(7) JOIN LATERAL generate_series(1, 2) ON true") == 10
    assert made.rows("SELECT (rows_of('8')).n") == made.rows("SELECT n FROM e WHERE id = 8")


def test_writes_and_procedures(made):
    for i in range(2, 12):
        small = [g for g in range(1, 10) if g % 40 + 1 == i]
        assert made.one(f"SELECT add({i}, 1000)") == i + sum(small)
    made.rows("SELECT add(1, 1000)")
    assert made.one("SELECT count(*) FROM e WHERE n >= 1000") == 22
    assert made.rows("CALL take(5, NULL)") == [(7,)]
    assert made.rows("CALL take(%s, %s)", (6, None)) == [(7,)]
    assert made.rows("SELECT count(*) FROM e WHERE id IN (5, 6)") == [(0,)]
    with pytest.raises(psycopg.errors.RaiseException):
        made.run("SELECT add(99, 1)")


def test_in_transactions_over_nodes(made):
    c = made.connection
    with c.transaction():
        for i in range(20, 30):
            made.rows(f"SELECT add({i}, 2000)")
            made.rows(f"CALL take({i + 10}, 0)")
    assert made.one("SELECT count(*) FROM e WHERE n >= 2000") == 20
    assert made.one("SELECT count(*) FROM e WHERE id >= 30 AND id < 40") == 0
    with pytest.raises(ZeroDivisionError):
        with c.transaction():
            for i in range(1, 10):
                made.rows(f"SELECT add({i}, 3000)")
            raise ZeroDivisionError
    assert made.one("SELECT count(*) FROM e WHERE n >= 3000") == 0


@pytest.mark.parametrize("body, why", [
    ("SELECT count(*) FROM e", "without a condition"),
    ("SELECT count(*) FROM e WHERE id = 5", "without a condition"),
    ("SELECT count(*) FROM e WHERE id = $2", "without a condition"),
    ("SELECT count(*) FROM e WHERE id IN ($1, 5)", "without a condition"),
    ("SELECT count(*) FROM e WHERE id = $1 OR n = 1", "without a condition"),
    ("SELECT count(*) FROM e WHERE id = $1 + 1", "without a condition"),
    ("SELECT count(*) FROM e WHERE id = v", "without a condition"),
    ("SELECT count(*) FROM d LEFT JOIN e ON d.id = $1 WHERE e.n = 1", "without a condition"),
    ("SELECT count(*) FROM d WHERE id = $1 UNION ALL SELECT count(*) FROM e", "without a condition"),
    ("SELECT count(*) FROM d WHERE id = $1 AND EXISTS (SELECT FROM e WHERE n = $1)", "without a condition"),
    ("SELECT count(*) FROM d WHERE id = $1; SELECT count(*) FROM e", "without a condition"),
    ("SELECT count(*) FROM (SELECT 5 AS p) s, e WHERE e.id = p", "without a condition"),
    ("SELECT count(*) FROM e p WHERE id = p.v", "without a condition"),
    ("SELECT count(*) FROM ONLY e WHERE id = $1", "rewrite"),
    ("SELECT count(*) FROM d JOIN l USING (id) WHERE id = $1", "\"l\", which only home has"),
    ("SELECT count(*) FROM pg_class", "only home has"),
    ("SELECT count(*) FROM r", "no distributed table"),
    ("SELECT count(*) FROM g WHERE id = $1", "another type"),
    ("SELECT count(*) FROM d, far WHERE d.id = $1 AND far.id = $1", "not colocated"),
    ("SELECT spread() FROM d WHERE id = $1", "spread()"),
    ("SELECT at_home() FROM d WHERE id = $1", "only home has"),
    ("SELECT nextval('s') FROM d WHERE id = $1", "only home has"),
    ("INSERT INTO d VALUES ($2, $1); SELECT 1::bigint", "without a condition"),
    ("INSERT INTO e VALUES ($1, 1, 1), ($2, 1, 1); SELECT 1::bigint", "not known"),
    ("INSERT INTO e SELECT v, id, 1 FROM d WHERE id = $1; SELECT 1::bigint", "not known"),
    ("INSERT INTO r SELECT v, id FROM d WHERE id = $1; SELECT 1::bigint", "reference table"),
    ("UPDATE r SET v = 1 WHERE id = $1; SELECT 1::bigint", "reference table"),
    ("UPDATE d SET id = 5 WHERE id = $1; SELECT 1::bigint", "changes the key"),
    ("UPDATE d SET v = (SELECT max(v) FROM e) WHERE id = $1; SELECT 1::bigint", "without a condition"),
    ("DELETE FROM d; SELECT 1::bigint", "without a condition"),
    ("UPDATE l SET v = 1; SELECT 1::bigint", "only home has"),
    ("CREATE TABLE x (); SELECT count(*) FROM d WHERE id = $1", ""),
])
def test_what_is_not_proved_is_refused(db, body, why):
    db.run(*TABLES, "CREATE SEQUENCE s",
           "CREATE TABLE g (id bigint)", "SELECT create_distributed_table('g', 'id')",
           "CREATE TABLE far (id int)", "SELECT create_distributed_table('far', 'id', shard_count => 5)",
           "CREATE FUNCTION spread() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) FROM code.d'",
           "CREATE FUNCTION at_home() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) FROM code.l'",
           f"CREATE FUNCTION f(p int, q int) RETURNS bigint LANGUAGE sql AS $$ {body} $$")
    if "another type" in why:
        db.run("DROP FUNCTION f", "CREATE FUNCTION f(p text, q int) RETURNS bigint LANGUAGE sql AS "
               "'SELECT count(*) FROM g WHERE id = $1::int'")
        db.refused("SELECT create_distributed_function('f(text, int)', 'p')", "f()")
        return
    db.refused("SELECT create_distributed_function('f(int, int)', 'p')", "f()", why)
    # The word alone does not help.
    db.run("ALTER FUNCTION f SET herd.distribution_argument = '1'")
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        db.run("SELECT f(1, 2)")


@pytest.mark.parametrize("body, why", [
    ("BEGIN EXECUTE 'SELECT 1'; RETURN 1; END", "puts statements together"),
    ("BEGIN p := p + 1; RETURN (SELECT v FROM d WHERE id = p); END", "changes its distribution argument"),
    ("DECLARE p int := 5; BEGIN RETURN (SELECT v FROM d WHERE id = p); END", "another variable"),
    ("BEGIN RETURN (SELECT v FROM d WHERE id = q); END", "without a condition"),
    ("BEGIN PERFORM v FROM d WHERE id = p; RETURN (SELECT count(*) FROM e); END", "without a condition"),
    ("BEGIN IF EXISTS (SELECT FROM e WHERE v = p) THEN RETURN 1; END IF; RETURN (SELECT v FROM d WHERE id = p); END", "without"),
    ("BEGIN TRUNCATE d; RETURN 1; END", "neither queries nor changes"),
    ("BEGIN PERFORM set_config('search_path', 'x', false); RETURN (SELECT v FROM d WHERE id = p); END", "path"),
])
def test_plpgsql_that_is_not_proved_is_refused(db, body, why):
    db.run(*TABLES, f"CREATE FUNCTION f(p int, q int) RETURNS bigint LANGUAGE plpgsql AS $$ {body} $$")
    db.refused("SELECT create_distributed_function('f(int, int)', 'p')", "f()", why)


@pytest.mark.parametrize("sql, why", [
    ("SELECT total(id) FROM d", "\"d\""),
    ("SELECT total(1) FROM r", "\"r\""),
    ("SELECT total((SELECT 1))", "not known before"),
    ("SELECT total(1 + 1)", "not known before"),
    ("SELECT total(1), (SELECT count(*) FROM l)", "\"l\""),
    ("SELECT total(1), nextval('s')", "nextval()"),
    ("INSERT INTO l SELECT total(1)", "total()"),
    ("UPDATE d SET v = total(1) WHERE id = 1", "total()"),
    ("SELECT total(1) UNION ALL SELECT total(2) UNION ALL SELECT total(3) UNION ALL SELECT total(4) UNION ALL SELECT total(5)", ""),
    ("CREATE TABLE x AS SELECT total(1)", ""),
    ("COPY (SELECT total(1)) TO STDOUT", "total()"),
])
def test_calls_that_are_refused(made, sql, why):
    made.run("CREATE SEQUENCE s")
    if sql.startswith("COPY") or sql.startswith("CREATE"):
        try:
            if sql.startswith("COPY"):
                with made.connection.cursor().copy(sql) as copy:
                    assert b"".join(copy) == f"{total(1)}\n".encode()
            else:
                made.run(sql)
                assert made.rows("SELECT * FROM x") == [(total(1),)]
        except psycopg.errors.FeatureNotSupported:
            pass
        return
    made.refused(sql, why)


def test_cursors_and_prepared_statements(made):
    with made.connection.transaction():
        try:
            with made.connection.transaction():
                made.run("DECLARE c CURSOR FOR SELECT n FROM rows_of(7) ORDER BY n")
                assert made.rows("FETCH ALL FROM c") == [(g,) for g in range(1, 201) if g % 40 + 1 == 7]
        except psycopg.errors.FeatureNotSupported:
            pass
    made.run("PREPARE q (int) AS SELECT total($1)")
    for i in (1, 2, 3, 30):
        assert made.one(f"EXECUTE q ({i})") == total(i)
    made.rows("EXPLAIN SELECT total(1)")


def test_what_it_hangs_on(made):
    # Another name: the same function.
    made.run("ALTER FUNCTION total RENAME TO sum_of")
    assert made.one("SELECT sum_of(3)") == total(3)
    # Replaced, it is another one.
    made.run("CREATE OR REPLACE FUNCTION sum_of(p_id int, p_more int DEFAULT 0) RETURNS bigint LANGUAGE sql STABLE STRICT AS 'SELECT count(*) FROM d'")
    assert made.one("SELECT sum_of(3)") == made.one("SELECT count(*) FROM d")
    # Without an argument: the query stands in the call's place.
    made.run("SELECT create_distributed_function('rows_of(int)')")
    assert made.rows("SELECT n FROM rows_of(1) ORDER BY 1") == made.rows("SELECT n FROM e WHERE id = 1 ORDER BY 1")
    # What it uses is local again.
    made.run("CREATE TABLE h (id int)", "SELECT create_distributed_table('h', 'id')",
             "CREATE FUNCTION of_h(i int) RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) FROM h WHERE id = i'",
             "SELECT create_distributed_function('of_h(int)', 'i', 'h')", "INSERT INTO h VALUES (1), (1), (2)")
    assert made.one("SELECT of_h(1)") == 2
    made.run("SELECT undistribute_table('h')")
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        made.rows("SELECT of_h(1)")


def test_whose_names_they_are(made):
    """What a name means is the caller's path's to say, at each call."""
    made.run("DROP SCHEMA IF EXISTS other CASCADE", "CREATE SCHEMA other",
             "CREATE TABLE other.e (id int, n int, v int)", "SELECT create_distributed_table('other.e', 'n')",
             "INSERT INTO other.e VALUES (7, 70, 700)")
    assert made.one("SELECT count(*) FROM code.rows_of(7)") == 5
    made.run("SET search_path = other, code")
    made.refused("SELECT count(*) FROM code.rows_of(7)", "rows_of()")
    made.run("SET search_path = code")
    made.run("CREATE TEMP TABLE e (id int, n int, v int)")
    made.refused("SELECT count(*) FROM code.rows_of(7)", "rows_of()")
    made.run("DROP TABLE pg_temp.e", "DROP SCHEMA other CASCADE")
    assert made.one("SELECT count(*) FROM code.rows_of(7)") == 5


def test_made_and_called_in_one_transaction(db):
    db.run(*TABLES)
    with db.connection.transaction():
        db.run(*FUNCTIONS, *CALLS)
        assert db.one("SELECT total(3)") == total(3)
        assert db.one("SELECT add(3, 700)") == 3 + 2
        db.run("CREATE OR REPLACE FUNCTION rows_of(p int) RETURNS TABLE (n int, v int) LANGUAGE sql STABLE STRICT AS 'SELECT n, v FROM e'")
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            with db.connection.transaction():
                db.run("SELECT * FROM rows_of(1)")
    assert db.one("SELECT total(4)") == total(4)
    db.run("DROP FUNCTION total")
    with pytest.raises(psycopg.errors.UndefinedFunction):
        db.run("SELECT total(4)")


def test_a_refusal_undoes_the_word(db):
    db.run(*TABLES, "CREATE FUNCTION f(p int) RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) FROM e'")
    db.refused("SELECT create_distributed_function('f(int)', 'p')", "f()")
    assert db.rows("SELECT proconfig FROM pg_proc WHERE proname = 'f' AND pronamespace = 'code'::regnamespace") == [(None,)]
    for sql, error in (
        ("SELECT create_distributed_function('f(text)', 'p')", psycopg.errors.UndefinedFunction),
        ("SELECT create_distributed_function('f(int)', 'q')", psycopg.errors.UndefinedParameter),
        ("SELECT create_distributed_function('f(int)', '$2')", psycopg.errors.UndefinedParameter),
        ("SELECT create_distributed_function('count(int)', '$1')", psycopg.errors.UndefinedFunction),
        ("SELECT create_distributed_function('pg_catalog.sum(int)', '$1')", psycopg.errors.WrongObjectType),
        ("SELECT create_distributed_function('f(int)', 'p', nothing => 1)", psycopg.errors.UndefinedFunction),
    ):
        with pytest.raises(error):
            db.run(sql)
    db.run("CREATE OR REPLACE FUNCTION f(p int) RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) FROM e WHERE id = p'",
           "CREATE TABLE apart (id int)", "SELECT create_distributed_table('apart', 'id', shard_count => 3)")
    db.refused("SELECT create_distributed_function('f(int)', 'p', colocate_with => 'apart')", "not colocated")
    db.refused("SELECT create_distributed_function('f(int)', 'p', colocate_with => 'l')", "not colocated")
    db.run("SELECT create_distributed_function('f(int)', 'p', colocate_with => 'code.d', force_delegation => true)")
    assert db.one("SELECT f(1)") == 5

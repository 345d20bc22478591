"""Code that runs without being called by its name (views, casts, operator classes, `l.f`, event triggers, text that functions run, DDL
that rewrites rows) never sees home's part of a table for all of it, and never writes one copy of a reference table."""

import contextlib
import re

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(120)]

# A write of a reference table, a read of a distributed one, and one that puts its statement together.
CODE = (
    "CREATE FUNCTION wipes(k int) RETURNS int LANGUAGE sql AS $$ DELETE FROM code.r WHERE id = k; SELECT k $$",
    "CREATE FUNCTION counts(k int) RETURNS int LANGUAGE sql STABLE AS 'SELECT count(*)::int + k FROM code.d'",
    "CREATE FUNCTION runs(q text) RETURNS int LANGUAGE plpgsql AS 'BEGIN EXECUTE q; RETURN 1; END'",
    "CREATE FUNCTION fine(k int) RETURNS int LANGUAGE sql STABLE AS 'SELECT count(*)::int + k FROM code.r'",
)
# They are made while all code is harmless.
HARMLESS = tuple(re.sub(r"AS (\$\$.*\$\$|'.*')$", "AS 'BEGIN RETURN 1; END'" if "plpgsql" in c else "AS 'SELECT 1'", c) for c in CODE)
VIEWS = {
    "zw": "CREATE VIEW zw AS SELECT wipes(1) AS q",
    "zc": "CREATE VIEW zc AS SELECT counts(id) AS q FROM l",
    "zz": "CREATE VIEW zz AS SELECT q FROM zc WHERE q > 0",
    "zd": "CREATE VIEW zd AS SELECT id, counts(id) AS q FROM d",
    "zr": "CREATE VIEW zr AS SELECT runs('DELETE FROM code.r WHERE id = 2') AS q",
    "zx": "CREATE VIEW zx AS SELECT max(nentry) AS q FROM ts_stat('SELECT to_tsvector(w) FROM code.d')",
    "zl": "CREATE VIEW zl AS SELECT id, v AS q FROM l WHERE wipes(id) > 0",
    "zi": "CREATE VIEW zi AS SELECT inside() AS q",
    "zt": "CREATE VIEW zt AS SELECT total(v) OVER (ORDER BY id) AS q FROM l",
    "zs": "CREATE VIEW zs AS SELECT definer(1) AS q",
    "zo": "CREATE VIEW zo AS SELECT (1 @! 2) AS q, l.w FROM l",
    "zf": "CREATE VIEW zf AS SELECT x AS q FROM l, LATERAL rows(id) x",
}
MORE = (
    "CREATE FUNCTION inside() RETURNS int LANGUAGE sql AS 'SELECT wipes(1)'",
    "CREATE FUNCTION step(int, int) RETURNS int LANGUAGE sql AS 'SELECT coalesce($1, 0) + code.wipes($2)'",
    "CREATE AGGREGATE total (int) (sfunc = step, stype = int)",
    "CREATE FUNCTION definer(k int) RETURNS int LANGUAGE sql SECURITY DEFINER SET search_path = code AS 'SELECT wipes(k)'",
    "CREATE FUNCTION added(a int, b int) RETURNS int LANGUAGE sql AS 'SELECT code.counts(a) + b'",
    "CREATE OPERATOR @! (leftarg = int, rightarg = int, function = added)",
    "CREATE FUNCTION rows(k int) RETURNS SETOF int LANGUAGE sql AS 'SELECT code.counts(k)'",
)


def untouched(db):
    assert db.same_copies("r") == [(i, i, "r") for i in range(1, 31)]
    assert db.one("SELECT sum(v) FROM d") == sum(range(1, 41))
    assert db.rows("SELECT count(*), sum(v) FROM l") == [(20, 210)]


def refused(db, sql, block=False):
    """In a block, or by itself; nothing has changed afterwards."""
    with pytest.raises(psycopg.errors.FeatureNotSupported) as e:
        with db.connection.transaction() if block else contextlib.nullcontext():
            if sql.startswith("COPY"):
                with db.connection.cursor().copy(sql) as copy:
                    list(copy)
            else:
                db.connection.execute(sql)
    assert "unsupported XML feature" not in str(e.value)
    return e.value


def replaced(code):
    return [c.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION") for c in code]


# Their queries' calls are as those of a statement: made first, or replaced by the functions' queries.
OPENED = ("zc", "zd", "zi", "zw")


def test_views_whose_calls_can_be_made(db):
    """What is answered is right, what is changed is changed on all nodes, and the rest is refused."""
    db.run(*CODE, *MORE, *(VIEWS[view] for view in OPENED))
    rows = {"zc": [(i + 40,) for i in range(1, 21)], "zd": [(i, i + 40) for i in range(1, 41)]}
    answered = 0
    for view, expected in rows.items():
        for sql, right in (
            ("SELECT * FROM {}", expected), ("SELECT sum(q) FROM {}", [(sum(r[-1] for r in expected),)]),
            ("SELECT q FROM {} WHERE q > 50", [(r[-1],) for r in expected if r[-1] > 50]),
            ("WITH w AS (SELECT q FROM {}) SELECT count(*) FROM w, r", [(len(expected) * 30,)]),
        ):
            try:
                assert sorted(db.rows(sql.format(view))) == right
                answered += 1
            except psycopg.errors.FeatureNotSupported as e:
                assert e.diag.message_hint
    assert answered >= 4
    for view in ("zw", "zi"):
        db.run("INSERT INTO r VALUES (1, 1, 'r') ON CONFLICT DO NOTHING")
        assert db.rows(f"SELECT * FROM {view}") == [(1,)]
        assert db.same_copies("r") == [(i, i, "r") for i in range(2, 31)]
        for sql in (f"SELECT sum(q) FROM {view}", f"INSERT INTO l SELECT q FROM {view}", f"DELETE FROM r WHERE id IN (SELECT q FROM {view})"):
            refused(db, sql)
    assert db.same_copies("r") == [(i, i, "r") for i in range(2, 31)]


@pytest.mark.parametrize("view", sorted(VIEWS.keys() - set(OPENED)))
def test_views(db, view):
    db.run(*HARMLESS, *MORE)
    if view == "zz":
        db.run(VIEWS["zc"])
    db.run(VIEWS[view], *replaced(CODE), "CREATE TABLE x (q text)")
    statements = (
        f"SELECT * FROM {view}",
        f"SELECT sum(length(q::text)) FROM {view}",
        f"WITH w AS (SELECT q FROM {view}) SELECT count(*) FROM w, r",
        f"SELECT id FROM d WHERE EXISTS (SELECT q FROM {view} WHERE q IS NOT NULL)",
        f"INSERT INTO x SELECT q FROM {view}",
        f"INSERT INTO d SELECT 1000, length(q::text) FROM {view}",
        f"INSERT INTO l VALUES (500, (SELECT max(q) FROM {view}))",
        f"UPDATE l SET v = length(q::text) FROM {view}",
        f"UPDATE l SET v = 0 RETURNING (SELECT max(q) FROM {view})",
        f"DELETE FROM r WHERE id IN (SELECT length(q::text) FROM {view})",
        f"EXPLAIN ANALYZE SELECT q FROM {view}",
        f"CREATE TABLE made AS SELECT q FROM {view}",
        f"CREATE TEMP TABLE made AS SELECT q FROM {view}",
        f"CREATE MATERIALIZED VIEW made AS SELECT q FROM {view}",
        f"DO $$ BEGIN PERFORM q FROM code.{view}; END $$",
        f"COPY (SELECT q FROM {view}) TO STDOUT",
    )
    for sql in statements:
        refused(db, sql)
        refused(db, sql, True)
    with pytest.raises(psycopg.errors.FeatureNotSupported), db.connection.transaction():
        db.connection.execute(f"DECLARE c CURSOR FOR SELECT q FROM {view}")
        db.connection.execute("FETCH ALL FROM c")
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        db.connection.execute(f"SELECT q FROM {view} WHERE q::text <> %s", ("",), prepare=True)
    with pytest.raises(psycopg.errors.FeatureNotSupported), db.connection.transaction():
        db.connection.execute(f"PREPARE p AS SELECT q FROM {view}")
        db.connection.execute("EXECUTE p")
    if view == "zl":
        for sql in ("UPDATE zl SET q = 1", "DELETE FROM zl", "INSERT INTO l SELECT 100, 1 FROM zl"):
            refused(db, sql)
    untouched(db)
    assert db.one("SELECT count(*) FROM x") == 0
    # What only names it goes on.
    db.run(f"ALTER VIEW {view} RENAME TO renamed", "GRANT SELECT ON renamed TO PUBLIC", "COMMENT ON VIEW renamed IS 'x'", "DROP VIEW renamed")


def test_views_whose_code_changes(db):
    db.run(
        "CREATE FUNCTION f(k int) RETURNS int LANGUAGE sql AS 'SELECT k'",
        "CREATE VIEW v AS SELECT f(id) AS q FROM l",
        "CREATE VIEW vv AS SELECT sum(q) AS q FROM v",
    )
    assert db.one("SELECT q FROM vv") == 210
    db.run("CREATE OR REPLACE FUNCTION f(k int) RETURNS int LANGUAGE sql AS $$ DELETE FROM code.r WHERE id = k; SELECT k $$")
    refused(db, "SELECT q FROM vv")
    untouched(db)


def test_views_that_call_what_is_right(db):
    db.run(*CODE)
    db.run("CREATE VIEW v AS SELECT id, fine(id) AS q FROM l", "CREATE VIEW vt AS SELECT count(*) AS n FROM l", "CREATE VIEW vd AS SELECT id, fine(id) AS q FROM d")
    assert db.one("SELECT sum(q) FROM v") == 210 + 20 * 30
    assert db.one("SELECT sum(q) FROM vd") == 820 + 40 * 30
    assert db.one("SELECT n FROM vt") == 20
    # Reading l by text is right, and stays possible through a view.
    db.run("CREATE VIEW vx AS SELECT nentry AS q FROM ts_stat('SELECT to_tsvector(''simple'', w) FROM code.l')")
    assert db.one("SELECT q FROM vx") == 20


BODY = {
    "wipes": "DELETE FROM code.r WHERE id = 1; SELECT 1",
    "counts": "SELECT count(*)::int FROM code.d",
    "local": "SELECT count(*)::int FROM code.l",
    "random": "SELECT (random() * 1000)::int",
}


@pytest.mark.parametrize("body", sorted(BODY))
def test_casts(db, body):
    how = {"wipes": "AS IMPLICIT", "counts": "AS ASSIGNMENT"}.get(body, "")
    db.run("CREATE TYPE ct AS (a int)", f"CREATE FUNCTION cf(ct) RETURNS int LANGUAGE sql AS '{BODY[body]}'")
    refused(db, f"CREATE CAST (ct AS int) WITH FUNCTION cf(ct) {how}")
    refused(db, f"CREATE CAST (ct AS int) WITH FUNCTION cf(ct) {how}", True)
    db.run("CREATE FUNCTION ok(ct) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1.a + 1'", f"CREATE CAST (ct AS int) WITH FUNCTION ok(ct) {how}")
    assert db.one("SELECT row(2)::ct::int") == 3
    refused(db, f"CREATE OR REPLACE FUNCTION ok(ct) RETURNS int LANGUAGE sql AS '{BODY[body]}'")
    assert db.one("SELECT row(2)::ct::int") == 3
    untouched(db)


def test_a_cast_of_tables_that_change_kind(db):
    db.run("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TYPE ct AS (a int)")
    db.run("CREATE FUNCTION cf(ct) RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM code.r'", "CREATE CAST (ct AS bigint) WITH FUNCTION cf(ct)")
    assert db.one("SELECT row(2)::ct::bigint") == 30
    refused(db, "SELECT undistribute_table('r')")


@pytest.mark.parametrize("body", ["counts", "wipes"])
def test_operator_classes_and_ranges(db, body):
    db.run(
        "CREATE TYPE oc AS (a int)",
        f"CREATE FUNCTION lt(oc, oc) RETURNS boolean LANGUAGE sql IMMUTABLE AS '{BODY[body]}; SELECT $1.a < $2.a'",
        f"CREATE FUNCTION cmp(oc, oc) RETURNS int LANGUAGE sql IMMUTABLE AS '{BODY[body]}; SELECT $1.a - $2.a'",
        "CREATE FUNCTION fine_cmp(oc, oc) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1.a - $2.a'",
        f"CREATE FUNCTION diff(int, int) RETURNS float8 LANGUAGE sql IMMUTABLE AS '{BODY[body]}; SELECT 1::float8'",
        "CREATE OPERATOR <<! (leftarg = oc, rightarg = oc, function = lt)",
    )
    refused(db, "CREATE OPERATOR CLASS c1 DEFAULT FOR TYPE oc USING btree AS FUNCTION 1 cmp(oc, oc)")
    refused(db, "CREATE OPERATOR CLASS c2 FOR TYPE oc USING btree AS OPERATOR 1 <<!, FUNCTION 1 fine_cmp(oc, oc)")
    refused(db, "CREATE TYPE rt AS RANGE (subtype = int, subtype_diff = diff)")
    untouched(db)


@pytest.mark.parametrize("body", ["DELETE FROM code.r WHERE id = 1", "PERFORM count(*) FROM code.d", "EXECUTE 'DELETE FROM code.' || chr(114)"])
def test_event_triggers(db, body):
    db.run(f"CREATE FUNCTION et() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN {body}; END $$")
    refused(db, "CREATE EVENT TRIGGER code_et ON ddl_command_start EXECUTE FUNCTION et()")
    db.run("CREATE TABLE made (id int)")
    untouched(db)


def test_event_triggers_that_write_local_tables(db):
    db.run(
        "CREATE TABLE log (tag text)",
        "CREATE FUNCTION et() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO code.log VALUES (tg_tag); END $$",
        "CREATE EVENT TRIGGER code_et ON ddl_command_end EXECUTE FUNCTION et()",
    )
    try:
        db.run("CREATE TABLE made (id int)")
        assert ("CREATE TABLE",) in db.rows("SELECT tag FROM log")
        refused(db, "CREATE OR REPLACE FUNCTION et() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN DELETE FROM code.r; END $$")
        refused(db, "SELECT create_reference_table('log')")
    finally:
        db.run("DROP EVENT TRIGGER code_et")
    untouched(db)


BY_ATTRIBUTE = [
    "SELECT l.fw FROM l",
    "SELECT (l).fw FROM l",
    "SELECT l.fg FROM l",
    "SELECT (SELECT x.fw FROM l x WHERE x.id = 1)",
    "SELECT max(d.fd) FROM d",
    "SELECT (d).fd FROM d WHERE id = 1",
    "SELECT d.fd FROM d WHERE id = 1",
    "SELECT id FROM d ORDER BY d.fd",
    "SELECT r.fr FROM r",
    "INSERT INTO l SELECT 100 + l.id, l.fw FROM l",
    "UPDATE l SET v = l.fw",
    "DELETE FROM l WHERE l.fw > 0",
    "INSERT INTO l VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET v = l.fw",
    "UPDATE l SET v = 1 RETURNING l.fw",
    "EXPLAIN ANALYZE SELECT l.fw FROM l",
    "CREATE TABLE made AS SELECT l.fw FROM l",
    "DO $$ BEGIN PERFORM l.fw FROM code.l; END $$",
    "SELECT calling()",
]


def test_attribute_notation(db):
    db.run(
        "CREATE FUNCTION fw(l) RETURNS int LANGUAGE sql AS $$ DELETE FROM code.r WHERE id = $1.id; SELECT 1 $$",
        "CREATE FUNCTION fg(anyelement) RETURNS int LANGUAGE sql AS $$ DELETE FROM code.r; SELECT 1 $$",
        "CREATE FUNCTION fr(r, extra int DEFAULT 1) RETURNS int LANGUAGE sql AS $$ SELECT count(*)::int FROM code.d $$",
        "CREATE FUNCTION fd(d) RETURNS int LANGUAGE sql STABLE AS 'SELECT count(*)::int FROM code.d'",
        "CREATE FUNCTION calling() RETURNS int LANGUAGE sql AS 'SELECT max(l.fw) FROM code.l'",
    )
    for sql in BY_ATTRIBUTE:
        refused(db, sql)
        refused(db, sql, True)
    untouched(db)


def test_attribute_notation_that_is_right(db):
    db.run(
        "CREATE FUNCTION twice(d) RETURNS int LANGUAGE sql STABLE AS 'SELECT $1.v * 2'",
        "CREATE FUNCTION twice(l) RETURNS int LANGUAGE sql STABLE AS 'SELECT $1.v * 2'",
        # Of another type: `d.v` is a column.
        "CREATE FUNCTION v(int) RETURNS int LANGUAGE sql AS 'SELECT count(*)::int FROM code.d'",
    )
    assert db.one("SELECT sum(d.twice + d.v) FROM d") == 820 * 3
    assert db.one("SELECT sum(l.twice + (l).v) FROM l") == 210 * 3


def test_a_function_of_a_row_that_reads_a_local_table(db):
    """Written as a column it is what it is in parentheses: the row comes to home."""
    db.run("CREATE FUNCTION over_l(d) RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) + $1.v FROM code.l'")
    assert db.rows("SELECT d.over_l FROM d ORDER BY 1") == [(20 + i,) for i in range(1, 41)]
    assert db.rows("SELECT x.over_l, x.v FROM d x WHERE x.id > 38 ORDER BY x.over_l DESC") == [(60, 40), (59, 39)]
    assert db.one("SELECT max(x.over_l) FROM d x") == 60
    assert db.rows("SELECT x.over_l AS o, count(*) FROM d x JOIN r USING (id) GROUP BY x.over_l ORDER BY 1 LIMIT 1") == [(21, 1)]
    assert db.one("SELECT count(*) FROM d x WHERE x.over_l > 30") == 30
    for sql in (
        "SELECT code.d.over_l FROM code.d",
        "SELECT v.over_l FROM d v",
        "UPDATE d SET v = 1 RETURNING d.over_l",
    ):
        db.refused(sql, "over_l")


def test_the_name_of_a_temporary_table_is_nothing_that_is_read(db):
    db.run("CREATE TEMP TABLE d AS SELECT 5 AS five")
    assert db.rows("SELECT * FROM d") == [(5,)]
    db.run("DROP TABLE d", "SELECT 6 AS six INTO TEMP d")
    assert db.rows("SELECT * FROM d") == [(6,)]
    db.run("DROP TABLE d", "CREATE TEMP VIEW d AS SELECT 7 AS seven")
    assert db.rows("SELECT * FROM d") == [(7,)]
    db.run("DROP VIEW pg_temp.d")
    db.run("CREATE TEMP TABLE e AS WITH c AS (SELECT 1) SELECT * FROM c, code.d")
    assert db.one("SELECT count(*) FROM e") == 40
    db.run("DROP TABLE e")
    db.run("CREATE TEMP VIEW e AS WITH c AS (SELECT 1) SELECT * FROM c, code.d")
    assert db.one("SELECT count(*) FROM e") == 40
    db.run("DROP VIEW e")
    db.run("CREATE FUNCTION keeps() RETURNS int LANGUAGE plpgsql AS $$ BEGIN CREATE TEMP TABLE d ON COMMIT DROP AS SELECT 8; RETURN 8; END $$")
    assert db.one("SELECT keeps()") == 8
    assert db.one("SELECT count(*) FROM d") == 40


CHANGES = [
    "ALTER TABLE l ALTER v TYPE bigint USING wipes(v)",
    "ALTER TABLE l ALTER v TYPE bigint USING counts(v)",
    "ALTER TABLE l ALTER v TYPE bigint USING runs('DELETE FROM code.r')",
    "ALTER TABLE l ALTER w TYPE text USING ts_rewrite('a'::tsquery, 'SELECT w::tsquery, w::tsquery FROM code.d')::text",
    "ALTER TABLE r ALTER v TYPE bigint USING counts(v)",
    "ALTER TABLE d ALTER v TYPE bigint USING wipes(v)",
    "ALTER TABLE l ADD COLUMN x int DEFAULT wipes(1)",
    "ALTER TABLE l ADD CHECK (counts(v) > 0)",
    "CREATE TABLE p PARTITION OF parts FOR VALUES IN (wipes(1))",
    "CREATE TABLE p PARTITION OF parts FOR VALUES IN (counts(1))",
    "CREATE INDEX ON l (frozen(v))",
    "CREATE STATISTICS st ON (frozen(v)), id FROM l",
    "CREATE TABLE ex (v int, EXCLUDE USING btree ((frozen(v)) WITH =))",
    "CREATE TABLE pp (v int) PARTITION BY LIST ((frozen(v)))",
]


def test_changes_of_tables_that_run_code(db):
    db.run(*CODE, "CREATE TABLE parts (v int) PARTITION BY LIST (v)")
    db.run("CREATE FUNCTION frozen(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT code.counts($1)'")
    for sql in CHANGES:
        refused(db, sql)
        refused(db, sql, True)
    untouched(db)


def test_changes_of_tables_that_are_right(db):
    db.run(*CODE)
    db.run("ALTER TABLE l ALTER v TYPE bigint USING fine(v)")
    assert db.one("SELECT sum(v) FROM l") == 210 + 20 * 30
    db.run("ALTER TABLE r ALTER v TYPE bigint USING v * 2 + length(w)")
    assert db.same_copies("r") == [(i, 2 * i + 1, "r") for i in range(1, 31)]


DIFFERENT = [
    "pg_backend_pid()", "ctid::text", "tableoid::text", "xmin::text", "inet_server_port()", "current_setting('port')",
    "txid_current()", "random()", "now()", "'r'::regclass::oid", "clock_timestamp()", "drawn()",
]


def test_a_type_is_changed_alike_on_each_node(db):
    db.run("CREATE FUNCTION drawn() RETURNS float8 LANGUAGE sql AS 'SELECT random()'")
    for value in DIFFERENT:
        for sql in (
            f"ALTER TABLE r ALTER v TYPE text USING ({value})::text",
            f"ALTER TABLE r ALTER w TYPE text USING ({value})::text",
            f"ALTER TABLE r ADD COLUMN x text DEFAULT ({value})::text",
        ):
            try:
                db.run(sql)
            except psycopg.errors.FeatureNotSupported:
                pass
            except psycopg.errors.Error as e:
                # A default can't name columns.
                assert e.sqlstate in ("0A000", "42P10", "42703"), e
            else:
                assert value == "now()", value
            db.same_copies("r")
            db.run("ALTER TABLE r DROP COLUMN IF EXISTS x")


XML = [
    "query_to_xml('SELECT count(*) FROM code.d', true, true, '')",
    "table_to_xml('code.d', true, true, '')",
    "database_to_xml(true, true, '')",
    "pg_catalog.query_to_xml('SELECT count(*) FROM code.d', true, true, '')",
]
# They leave partitioned tables out, and take no lock of them: refused before they run, with libxml or without.
WHOLE_SCHEMAS = [
    "schema_to_xml('code', true, true, '')",
    "schema_to_xmlschema('code', true, true, '')",
    "schema_to_xml_and_xmlschema('code', true, true, '')",
    "database_to_xml(true, true, '')",
    "database_to_xmlschema(true, true, '')",
    "database_to_xml_and_xmlschema(true, true, '')",
    "(SELECT q FROM vs)",
    "called()",
    "planned()",
]
TEXT = [
    "runs('DELETE FROM code.r WHERE id = 1')",
    "runs('SELECT * FROM code.d')",
    "ts_rewrite('a & b'::tsquery, 'SELECT w::tsquery, w::tsquery FROM code.d')",
    "(SELECT max(nentry) FROM ts_stat('SELECT to_tsvector(w) FROM code.d'))",
]


def needs_xml(db):
    """PostgreSQL may be built without it."""
    try:
        db.run("SELECT query_to_xml('SELECT 1', true, true, '')")
    except psycopg.errors.FeatureNotSupported as e:
        if "unsupported XML feature" in str(e):
            pytest.skip(str(e))
        raise


@pytest.mark.parametrize("call", XML + WHOLE_SCHEMAS + TEXT)
def test_text_that_functions_run(db, call):
    db.run(
        *CODE,
        "CREATE TABLE x (q text)",
        "CREATE VIEW vs AS SELECT schema_to_xml('code', true, true, '') AS q",
        "CREATE FUNCTION called() RETURNS xml LANGUAGE plpgsql AS $$ BEGIN RETURN schema_to_xml('code', true, true, ''); END $$",
        "CREATE FUNCTION planned() RETURNS xml LANGUAGE sql BEGIN ATOMIC SELECT q FROM vs; END",
    )
    if call in XML:
        needs_xml(db)
    # On each node of d there is another part.
    one = [f"SELECT {call} FROM d WHERE id = {k}" for k in range(1, 5)]
    for sql in one + [
        f"SELECT {call}",
        f"SELECT {call} FROM r LIMIT 1",
        f"SELECT id FROM l WHERE ({call}) IS NOT NULL",
        f"SELECT {call} FROM d",
        f"SELECT id FROM d WHERE ({call}) IS NOT NULL",
        f"INSERT INTO x SELECT ({call})::text",
        f"INSERT INTO x VALUES (({call})::text)",
        f"INSERT INTO d VALUES (1001, 1, ({call})::text)",
        f"INSERT INTO r VALUES (1001, 1, ({call})::text)",
        f"UPDATE d SET w = ({call})::text WHERE id = 3",
        f"UPDATE r SET w = ({call})::text WHERE id = 3",
        f"EXPLAIN ANALYZE SELECT {call}",
        f"CREATE TABLE made AS SELECT ({call})::text AS q",
        f"CREATE TEMP TABLE made AS SELECT ({call})::text AS q",
        f"SELECT ({call})::text AS q INTO made",
        f"CREATE MATERIALIZED VIEW made AS SELECT ({call})::text AS q",
        f"VALUES (({call})::text)",
        f"COPY (SELECT {call}) TO STDOUT",
    ]:
        refused(db, sql)
        refused(db, sql, True)
    with pytest.raises(psycopg.errors.FeatureNotSupported), db.connection.transaction():
        db.connection.execute(f"DECLARE c CURSOR FOR SELECT {call}")
        db.connection.execute("FETCH ALL FROM c")
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        db.connection.execute(f"SELECT {call}, %s", (1,), prepare=True)
    with pytest.raises(psycopg.errors.FeatureNotSupported), db.connection.transaction():
        db.connection.execute(f"PREPARE p AS SELECT {call}")
        db.connection.execute("EXECUTE p")
    untouched(db)


def test_what_hangs_on_tables_asks_for_no_schema(db):
    call = "schema_to_xml('code', true, true, '')::text"
    refused(db, f"ALTER TABLE l ALTER w SET DEFAULT {call}")
    refused(db, f"CREATE MATERIALIZED VIEW m AS SELECT {call}")
    refused(db, f"ALTER TABLE l ALTER w TYPE text USING {call}")
    db.run(f"CREATE FUNCTION trg() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.w := {call}; RETURN NEW; END $$")
    refused(db, "CREATE TRIGGER t BEFORE INSERT ON l FOR EACH ROW EXECUTE FUNCTION trg()")
    refused(db, f"DO $$ BEGIN PERFORM {call}; END $$")
    refused(db, f"CALL no_such({call})")


def test_text_that_is_right(db):
    db.run(*CODE)
    assert db.one("SELECT nentry FROM ts_stat('SELECT to_tsvector(''simple'', w) FROM code.l')") == 20
    assert db.one("SELECT nentry FROM ts_stat('SELECT to_tsvector(''simple'', w) FROM code.r')") == 30
    db.run("CREATE TABLE made AS SELECT nentry FROM ts_stat('SELECT to_tsvector(''simple'', w) FROM code.r')")
    assert db.one("SELECT nentry FROM made") == 30
    db.run("ALTER TABLE l ALTER v TYPE int USING runs('SELECT * FROM code.r')")
    assert db.one("SELECT sum(v) FROM l") == 20
    needs_xml(db)
    assert "<n>20</n>" in str(db.one("SELECT query_to_xml('SELECT count(*) AS n FROM code.l', true, true, '')::text"))


@pytest.mark.parametrize("body, name", [("DELETE FROM code.", "r"), ("SELECT count(*) FROM code.", "d")])
def test_triggers_of_local_tables_that_run_text(db, body, name):
    db.run(
        f"CREATE FUNCTION trg() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN EXECUTE '{body}' || chr({ord(name)}); RETURN NEW; END $$",
        "CREATE TRIGGER t AFTER INSERT OR UPDATE ON l FOR EACH ROW EXECUTE FUNCTION trg()",
        "CREATE TABLE child (id int REFERENCES l ON UPDATE CASCADE)",
        "CREATE TABLE above (id int PRIMARY KEY)",
        "CREATE TABLE tied (id int REFERENCES above ON UPDATE CASCADE)",
        "CREATE TRIGGER t AFTER UPDATE ON tied FOR EACH ROW EXECUTE FUNCTION trg()",
        "INSERT INTO above VALUES (1)",
        "INSERT INTO tied VALUES (1)",
        "CREATE FUNCTION writes() RETURNS void LANGUAGE sql AS 'UPDATE code.l SET v = v'",
        "CREATE VIEW lv AS SELECT id, v FROM l",
    )
    for sql in (
        "INSERT INTO l VALUES (100, 1)",
        "UPDATE l SET v = v + 1 WHERE id = 3",
        "INSERT INTO l SELECT id + 100, v FROM r",
        "WITH w AS (UPDATE l SET v = v + 1 RETURNING id) SELECT count(*) FROM w",
        "EXPLAIN ANALYZE UPDATE l SET v = v",
        "MERGE INTO l USING (SELECT 1 AS i) s ON l.id = i WHEN MATCHED THEN UPDATE SET v = 0",
        "UPDATE above SET id = 2",
        "SELECT writes()",
        "UPDATE lv SET v = 1",
        "DO $$ BEGIN UPDATE code.l SET v = 0; END $$",
    ):
        refused(db, sql)
        refused(db, sql, True)
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        with db.connection.cursor().copy("COPY l FROM STDIN") as copy:
            copy.write("101\t1\tx\n")
    untouched(db)


def test_triggers_of_local_tables_whose_text_is_right(db):
    db.run(
        "CREATE TABLE log (id int)",
        "CREATE FUNCTION trg() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN EXECUTE format('INSERT INTO %I.log VALUES ($1)', 'code') USING NEW.id; RETURN NEW; END $$",
        "CREATE TRIGGER t AFTER INSERT ON l FOR EACH ROW EXECUTE FUNCTION trg()",
        "INSERT INTO l VALUES (100, 1)",
    )
    with db.connection.cursor().copy("COPY l FROM STDIN") as copy:
        copy.write("101\t1\tx\n")
    with db.connection.transaction():
        db.run("INSERT INTO l VALUES (102, 1)", "INSERT INTO l VALUES (103, 1)")
    assert db.rows("SELECT id FROM log ORDER BY 1") == [(100,), (101,), (102,), (103,)]


def test_a_domain_inside_another_type(db):
    db.run(
        "CREATE FUNCTION counted(int) RETURNS boolean LANGUAGE sql AS 'SELECT count(*) = 40 FROM code.d'",
        "CREATE DOMAIN few AS int CHECK (counted(value))",
        "CREATE TYPE pair AS (a few, b int)",
        "CREATE TYPE pairs AS (a pair[])",
        "CREATE FUNCTION made() RETURNS pair LANGUAGE sql AS 'SELECT 1, 2'",
    )
    for sql in ("SELECT 1::few", "SELECT row(1, 2)::pair", "SELECT '{}'::few[]", "SELECT row(ARRAY[row(1, 2)])::pairs", "SELECT jsonb_populate_record(null::pair, '{\"a\": 1}')", "SELECT made()"):
        refused(db, sql)


def test_aggregates_and_windows_of_users_own(db):
    db.run(*CODE, *MORE)
    for sql in ("SELECT total(v) FROM l", "SELECT total(v) OVER (ORDER BY id) FROM l", "SELECT definer(1)"):
        refused(db, sql)
        refused(db, sql, True)
    untouched(db)
    # Statement by statement it sees all of it.
    assert db.rows("SELECT * FROM rows(1)") == [(41,)]

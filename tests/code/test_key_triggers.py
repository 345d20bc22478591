"""Triggers that use rows of their row's key in colocated tables: what they were proved to do stays so, whatever changes."""

import threading
import time

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(400)]


def function(body, name="audits", more=""):
    return f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql {more} AS $$ {body} $$"


MADE = "CREATE TRIGGER t AFTER INSERT OR UPDATE OR DELETE ON d FOR EACH ROW EXECUTE FUNCTION audits()"
RIGHT = "BEGIN INSERT INTO audit VALUES (NEW.id, TG_OP); RETURN NULL; END"


@pytest.fixture
def audited(db):
    db.run(
        "CREATE TABLE audit (id int, op text)", "SELECT create_distributed_table('audit', 'id')",
        "CREATE TABLE numbered (id int, no bigserial, op text)", "SELECT create_distributed_table('numbered', 'id')",
        "CREATE TABLE other (k bigint, id int)", "SELECT create_distributed_table('other', 'k')",
    )
    return db


@pytest.mark.parametrize(
    "body, why",
    [
        ("BEGIN INSERT INTO audit VALUES (NEW.v, 'x'); RETURN NULL; END", "without a condition"),
        ("BEGIN INSERT INTO audit VALUES (NEW.id + 1, 'x'); RETURN NULL; END", "not known to be"),
        ("BEGIN INSERT INTO audit VALUES (NEW.id, 'x'), (5, 'y'); RETURN NULL; END", "not known to be"),
        ("BEGIN INSERT INTO audit (op) VALUES ('x'); RETURN NULL; END", "without a condition"),
        ("BEGIN NEW.id := 7; INSERT INTO audit VALUES (NEW.id, 'x'); RETURN NULL; END", "changes NEW.id"),
        ("BEGIN NEW := NULL; INSERT INTO audit VALUES (NEW.id, 'x'); RETURN NULL; END", "changes NEW.id"),
        ("BEGIN SELECT 1, 2, 'x' INTO new; INSERT INTO audit VALUES (NEW.id, 'x'); RETURN NULL; END", "changes NEW.id"),
        ("DECLARE x ALIAS FOR new; BEGIN x.id := 6; INSERT INTO audit VALUES (NEW.id, 'x'); RETURN NULL; END", "changes NEW.id"),
        ("BEGIN FOR new IN SELECT * FROM d WHERE id = 3 LOOP INSERT INTO audit VALUES (NEW.id); END LOOP; RETURN NULL; END", "changes NEW.id"),
        ("DECLARE new record; BEGIN INSERT INTO audit VALUES (NEW.id, 'x'); RETURN NULL; END", "without a condition"),
        ("DECLARE k int; BEGIN k := NEW.id; k := k + 1; INSERT INTO audit VALUES (k, 'x'); RETURN NULL; END", "without a condition"),
        ("DECLARE k int; BEGIN k := NEW.id; FOR k IN 1..3 LOOP INSERT INTO audit VALUES (k, 'x'); END LOOP; RETURN NULL; END", "without a condition"),
        ("DECLARE k real := NEW.id; BEGIN PERFORM 1 FROM audit WHERE id = k; RETURN NULL; END", "without a condition"),
        ("BEGIN PERFORM count(*) FROM audit new WHERE new.id = new.id; RETURN NULL; END", "column's and a variable's"),
        ("BEGIN PERFORM count(*) FROM audit WHERE id = NEW.id OR op = 'x'; RETURN NULL; END", "without a condition"),
        ("BEGIN PERFORM count(*) FROM audit WHERE id IN (NEW.id, 7); RETURN NULL; END", "without a condition"),
        ("BEGIN PERFORM count(*) FROM audit a LEFT JOIN d ON d.w = a.op WHERE a.id = NEW.id; RETURN NULL; END", '"d" without a condition'),
        ("#variable_conflict use_column\nBEGIN PERFORM count(*) FROM audit WHERE id = NEW.id; RETURN NULL; END", "columns go before variables"),
        ("BEGIN PERFORM 1 FROM audit a, r WHERE a.id = NEW.id FOR UPDATE; RETURN NULL; END", "is refused"),
        ("BEGIN UPDATE audit SET id = NEW.v WHERE id = NEW.id; RETURN NULL; END", "changes the key"),
        ("BEGIN EXECUTE 'INSERT INTO audit VALUES ($1)' USING NEW.id; RETURN NULL; END", "puts together"),
        ("BEGIN TRUNCATE audit; RETURN NULL; END", "neither queries nor changes"),
        ("BEGIN INSERT INTO other VALUES (NEW.id, 1); RETURN NULL; END", "not colocated"),
        ("BEGIN INSERT INTO numbered (id, op) VALUES (NEW.id, 'x'); RETURN NULL; END", "sequence"),
        ("BEGIN INSERT INTO numbered VALUES (NEW.id, DEFAULT, 'x'); RETURN NULL; END", "sequence"),
        ("BEGIN INSERT INTO numbered SELECT NEW.id; RETURN NULL; END", "sequence"),
        ("BEGIN INSERT INTO audit SELECT id, w FROM r WHERE id = NEW.id; RETURN NULL; END", "not known to be"),
        ("BEGIN INSERT INTO audit SELECT NEW.id, w FROM d; RETURN NULL; END", '"d" without a condition'),
        ("BEGIN WITH audit AS (SELECT * FROM d) DELETE FROM audit WHERE id = NEW.id; RETURN NULL; END", "WITH query of the name"),
    ],
)
def test_what_is_not_proved_is_refused(audited, body, why):
    audited.run(function(body))
    error = audited.refused(MADE, "distributed table")
    assert why in error.diag.message_hint, error


@pytest.mark.parametrize(
    "body",
    [
        "BEGIN INSERT INTO numbered VALUES (NEW.id, 1, 'x'); RETURN NULL; END",
        "DECLARE k constant int := coalesce(NEW.id, OLD.id); BEGIN INSERT INTO audit VALUES (k, 'x'); RETURN NULL; END",
        "BEGIN INSERT INTO code.audit SELECT NEW.id, w FROM r WHERE id = NEW.id; RETURN NULL; END",
        "BEGIN BEGIN INSERT INTO audit VALUES (NEW.id, 'x'); EXCEPTION WHEN others THEN DELETE FROM audit WHERE id = OLD.id; END; RETURN NULL; END",
    ],
)
def test_what_is_proved(audited, body):
    audited.run(function(body), MADE, "INSERT INTO d VALUES (1000, 1, 'x')", "UPDATE d SET v = 2 WHERE id = 1000")


def test_what_changes_later(audited):
    db = audited
    db.run(function(RIGHT), MADE)
    db.refused(function("BEGIN INSERT INTO audit VALUES (NEW.v, 'x'); RETURN NULL; END"), '"audit"')
    db.refused("SELECT undistribute_table('audit')", '"audit"')
    db.refused("ALTER TABLE d RENAME id TO ident", '"audit"')
    db.refused("CREATE TABLE public.audit (id int, op text)", "audit")
    db.run("CREATE TABLE by_op (id int, op text)", "SELECT create_distributed_table('by_op', 'op')", "CREATE SCHEMA IF NOT EXISTS code2")
    db.refused("BEGIN; ALTER TABLE by_op SET SCHEMA code2; ALTER TABLE code2.by_op RENAME TO audit; COMMIT", "audit")
    db.run("ROLLBACK", "DROP SCHEMA code2 CASCADE", "UPDATE d SET v = 0", "ALTER TABLE audit ADD COLUMN more int", "UPDATE d SET v = 1")
    assert db.rows("SELECT count(*), count(DISTINCT id) FROM audit") == [(80, 40)]
    # Which tables are meant depends on who runs it: all that may be are right.
    db.run("CREATE SCHEMA code2", "CREATE TABLE code2.second (id int, op text)", "SELECT create_distributed_table('code2.second', 'id')",
           "ALTER TABLE code2.second RENAME TO audit", "SET search_path = code2", "UPDATE code.d SET v = 2 WHERE id < 5")
    try:
        assert db.rows("SELECT id FROM audit ORDER BY id") == [(1,), (2,), (3,), (4,)]
    finally:
        db.run("SET search_path = code", "DROP SCHEMA code2 CASCADE")


def test_a_column_that_comes_later_is_looked_at(audited):
    db = audited
    db.run("ALTER TABLE other RENAME id TO x", function("BEGIN PERFORM 1 FROM audit WHERE id = NEW.id AND EXISTS (SELECT 1 FROM audit b WHERE b.id = audit.id); RETURN NULL; END"), MADE)
    db.run("CREATE TABLE thing (key int, op text)", "SELECT create_distributed_table('thing', 'key')",
           function("BEGIN PERFORM 1 FROM audit WHERE id = NEW.id AND EXISTS (SELECT 1 FROM thing WHERE key = id); RETURN NULL; END"))
    db.refused("ALTER TABLE thing ADD COLUMN id int", "distributed table")
    db.run("ALTER TABLE thing ADD COLUMN harmless int", "UPDATE d SET v = 3")


def test_temporary_tables_that_hide_what_is_named(audited):
    db = audited
    db.run(function(RIGHT), MADE, "CREATE TEMP TABLE audit (id int, op text)")
    for sql in ("UPDATE d SET v = 0", "DELETE FROM d WHERE id = 1", "INSERT INTO d VALUES (77, 1, 'x')", "WITH w AS (DELETE FROM d RETURNING id) SELECT count(*) FROM w"):
        db.refused(sql, '"audit"', "temporary")
    with pytest.raises(psycopg.errors.FeatureNotSupported), db.connection.cursor().copy("COPY d FROM STDIN") as copy:
        copy.write_row((500, 1, "x"))
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        db.connection.execute("UPDATE d SET v = %s WHERE id = %s", (1, 2), prepare=True)
    assert db.rows("SELECT count(*) FROM d") == [(40,)]
    db.run("DROP TABLE pg_temp.audit", "UPDATE d SET v = 0")
    assert db.rows("SELECT count(*) FROM audit") == [(40,)]
    # What reads a reference table, and by a key's action.
    db.run("DROP TRIGGER t ON d", function("BEGIN NEW.w := (SELECT w FROM r WHERE id = 1); RETURN NEW; END", "reads"),
           "CREATE TRIGGER t BEFORE UPDATE ON d FOR EACH ROW EXECUTE FUNCTION reads()", "CREATE TABLE top (id int PRIMARY KEY)",
           "SELECT create_distributed_table('top', 'id')", "INSERT INTO top SELECT id FROM d",
           "ALTER TABLE d ADD FOREIGN KEY (id) REFERENCES top ON DELETE CASCADE", "CREATE TEMP TABLE r (id int, w text)")
    db.refused("UPDATE d SET v = 1", '"r"')
    db.refused("DELETE FROM top WHERE id = 3", '"r"')
    db.run("CREATE VIEW few AS SELECT * FROM d WHERE id < 10")
    db.refused("UPDATE few SET v = 1", '"r"')
    db.run("DROP TABLE pg_temp.r", "UPDATE few SET v = 1")


@pytest.mark.parametrize("path", ["code", "code, pg_temp", "pg_temp, code"])
def test_code_finds_temporary_tables_by_a_path_of_its_own(audited, path):
    """Home's part of it would, and other nodes' would not, whatever the session's path finds first."""
    db = audited
    db.run(function(RIGHT), MADE, "ALTER FUNCTION audits() SET search_path = code",
           "CREATE FUNCTION w_of(a int) RETURNS text LANGUAGE sql STABLE SET search_path = code AS 'SELECT w FROM r WHERE id = a'",
           "CREATE FUNCTION same(a int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN a; END'", "CREATE VIEW calls AS SELECT id, w_of(id) AS of FROM d",
           "CREATE TABLE alone (id int)", "INSERT INTO alone VALUES (1)")
    known = db.rows("SELECT id, w_of(id) FROM d ORDER BY id")
    db.run(f"SET search_path = {path}", "CREATE TEMP TABLE audit (id int, op text)", "CREATE TEMP TABLE r (id int, w text)", "INSERT INTO pg_temp.r VALUES (1, 'own')")
    db.refused("UPDATE d SET v = 0", '"audit"', "temporary")
    for sql in ("SELECT id, w_of(id) FROM d", "SELECT w_of(id) FROM d WHERE id = 3", "SELECT count(*) FROM d WHERE w_of(v) = 'own'", "SELECT * FROM calls", "SELECT id FROM (SELECT * FROM calls) c ORDER BY 1",
                "WITH x AS (SELECT w_of(id) FROM d) SELECT count(*) FROM x"):
        db.refused(sql, '"r"', "temporary")
    # Home alone runs these. (PostgreSQL keeps a function's plan, and does not look again for a table that hides one it has found.)
    db.run("CREATE FUNCTION code.w_now(a int) RETURNS text LANGUAGE sql STABLE SET search_path = code AS 'SELECT w FROM r WHERE id = a'")
    assert db.rows("SELECT code.w_now(1)") == db.rows("SELECT code.w_now(id) FROM alone") == [("own",)]
    assert db.rows("SELECT sum(same(id)) FROM d") == [(820,)]
    db.run("DROP TABLE pg_temp.audit, pg_temp.r", "SET search_path = code", "UPDATE d SET v = 0")
    assert db.rows("SELECT count(*) FROM audit") == [(40,)]
    assert db.rows("SELECT id, w_of(id) FROM d ORDER BY id") == db.rows("SELECT id, of FROM calls ORDER BY id") == known


def test_a_trigger_beside_a_change_of_its_table(audited, code_herd):
    db = audited
    db.run(function(RIGHT))
    with code_herd.server.connect() as second:
        second.execute("SET search_path = code")
        db.run("BEGIN", MADE)
        failed = []

        def undistribute():
            try:
                second.execute("SELECT undistribute_table('audit')")
            except psycopg.Error as e:
                failed.append(e)

        thread = threading.Thread(target=undistribute)
        thread.start()
        time.sleep(1)
        try:
            db.run("COMMIT")
        except psycopg.errors.FeatureNotSupported as e:
            failed.append(e)
        thread.join(60)
    assert len(failed) == 1, failed
    db.run("INSERT INTO d VALUES (900, 1, 'x')")


def test_rights_and_policies(audited, code_herd):
    """A trigger's function runs with the rights of whoever writes, or its owner's."""
    db = audited
    db.run("DROP ROLE IF EXISTS kt_user", "CREATE ROLE kt_user LOGIN", "GRANT USAGE ON SCHEMA code TO kt_user", "GRANT SELECT, INSERT, UPDATE ON d TO kt_user", function(RIGHT), MADE)
    try:
        with code_herd.server.connect(user="kt_user") as user:
            user.execute("SET search_path = code")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                user.execute("UPDATE d SET v = 0")
            db.run("ALTER FUNCTION audits() SECURITY DEFINER", "ALTER FUNCTION audits() SET search_path = code")
            user.execute("UPDATE d SET v = 0")
            assert db.rows("SELECT count(*) FROM audit") == [(40,)]
            db.run("ALTER FUNCTION audits() SECURITY INVOKER", "GRANT INSERT ON audit TO kt_user", "ALTER TABLE audit ENABLE ROW LEVEL SECURITY",
                   "CREATE POLICY odd ON audit FOR INSERT WITH CHECK (id % 2 = 1)")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                user.execute("UPDATE d SET v = 0")
            assert user.execute("UPDATE d SET v = 0 WHERE id % 2 = 1").rowcount == 20
    finally:
        db.run("DROP OWNED BY kt_user", "DROP ROLE kt_user")

"""What code reads and writes must be where it runs, whatever changes: the code, what it calls, or the kind of a table."""

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(120)]

COUNTS = "CREATE FUNCTION bal(k int) RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) FROM code.d WHERE id = k'"


def trigger_function(body, name="trg"):
    return f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body}; RETURN NEW; END $$"


def trigger(table, name="trg"):
    return f"CREATE TRIGGER t AFTER INSERT OR UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION {name}()"


@pytest.mark.parametrize(
    "table, body, words",
    [
        ("l", "INSERT INTO r VALUES (NEW.id + 100, 0, 'x')", ["writes", '"r"']),
        ("l", "UPDATE d SET v = 0", ["writes", '"d"']),
        ("l", "PERFORM 1 FROM d", ["reads", '"d"']),
        ("d", "INSERT INTO l VALUES (NEW.id + 100, 0, 'x')", ["writes", '"l"']),
        ("d", "NEW.v := (SELECT max(v) FROM l)", ["reads", '"l"']),
        ("d", "PERFORM 1 FROM d WHERE id = NEW.id", []),
        ("d", "UPDATE r SET v = 0", ["writes", '"r"']),
        ("d", "NEW.v := nextval('s')", ["sequence"]),
        ("d", "EXECUTE 'INSERT INTO ' || TG_ARGV[0] || ' VALUES (1)'", ["puts together"]),
        ("r", "INSERT INTO l VALUES (NEW.id + 100, 0, 'x')", ["writes", '"l"']),
        ("r", "NEW.v := random() * 100", ["random()"]),
        ("r", "NEW.w := now()", ["now()"]),
    ],
)
def test_a_trigger_is_judged_when_it_is_made(db, table, body, words):
    db.run("CREATE SEQUENCE s", trigger_function(body))
    if words:
        db.refused(trigger(table), *words)
        assert db.one("SELECT count(*) FROM pg_trigger WHERE tgname = 't'") == 0
    else:
        db.run(trigger(table.replace("d", "l")) if table != "d" else "SELECT 1")


def test_triggers_that_are_right_stay_right(db):
    db.run(
        trigger_function("INSERT INTO l2 SELECT NEW.id, count(*) FROM r", "local_audit"),
        "CREATE TABLE l2 (id int, n bigint)",
        trigger("l", "local_audit"),
        "INSERT INTO l VALUES (100, 1, 'x')",
    )
    assert db.rows("SELECT * FROM l2") == [(100, 30)]
    before = "CREATE TRIGGER b BEFORE INSERT OR UPDATE ON {} FOR EACH ROW EXECUTE FUNCTION {}()"
    db.run(
        trigger_function("NEW.w := upper(NEW.w) || (SELECT count(*) FROM r)", "upper_w"),
        before.format("d", "upper_w"),
        "INSERT INTO d SELECT g, 0, 'new' FROM generate_series(101, 140) g",
    )
    assert db.rows("SELECT DISTINCT w FROM d WHERE id > 100") == [("NEW30",)]
    db.run(trigger_function("NEW.w := upper(NEW.w)", "plain_upper"), before.format("r", "plain_upper"), "UPDATE r SET w = 'same' WHERE id < 5")
    assert [w for i, _, w in db.same_copies("r") if i < 5] == ["SAME"] * 4


def test_a_replaced_function_is_judged_again(db):
    db.run(trigger_function("NEW.v := NEW.v"), trigger("l"), trigger("d", "trg").replace("TRIGGER t ", "TRIGGER u "))
    db.refused(trigger_function("DELETE FROM r"), "writes", '"r"')
    db.refused(trigger_function("PERFORM count(*) FROM l"), "reads", '"l"')
    db.run("INSERT INTO l VALUES (100, 1, 'x')", "INSERT INTO d VALUES (100, 1, 'x')")
    assert len(db.same_copies("r")) == 30
    # A function it calls counts as if it were the trigger's own.
    db.run("CREATE FUNCTION helper() RETURNS int LANGUAGE sql AS 'SELECT 1'", trigger_function("PERFORM helper()"))
    db.refused("CREATE OR REPLACE FUNCTION helper() RETURNS int LANGUAGE sql AS 'UPDATE r SET v = 0; SELECT 1'", "writes", '"r"')


def test_a_table_that_changes_kind_is_judged_again(db):
    db.run(
        "CREATE TABLE a (id int PRIMARY KEY)",
        "CREATE TABLE b (id int PRIMARY KEY)",
        trigger_function("INSERT INTO b VALUES (NEW.id)"),
        trigger("a"),
    )
    for change in (
        "SELECT create_reference_table('b')",
        "SELECT create_distributed_table('b', 'id')",
        "SELECT create_distributed_table('a', 'id')",
        "SELECT create_reference_table('a')",
    ):
        db.refused(change, "trigger", '"b"')
    db.run("INSERT INTO a VALUES (1)")
    assert db.rows("SELECT * FROM b") == [(1,)]
    # Nor can a reference table that code on the nodes reads become local.
    db.run(trigger_function("PERFORM 1 FROM r", "reader"), trigger("d", "reader"))
    db.refused("SELECT undistribute_table('r')", "reads", '"r"')


def test_in_a_transaction_all_of_it_is_undone(db):
    db.run(trigger_function("DELETE FROM r"))
    with pytest.raises(psycopg.errors.FeatureNotSupported), db.connection.transaction():
        db.run("INSERT INTO l VALUES (500, 0, '')", trigger("l"))
    assert db.one("SELECT count(*) FROM l WHERE id = 500") == 0


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE {} ALTER v SET DEFAULT bal(3)",
        "ALTER TABLE {} ADD CHECK (bal(id) >= 0)",
        "ALTER TABLE {} ADD COLUMN x int DEFAULT bal(3)",
        "ALTER TABLE {} ADD COLUMN x counted",
        "CREATE POLICY p ON {} USING (bal(id) > 0)",
        "CREATE INDEX ON {} (frozen(id))",
        "ALTER TABLE {} ADD COLUMN x bigint GENERATED ALWAYS AS (frozen(id)) STORED",
    ],
)
@pytest.mark.parametrize("table", ["l", "d", "r"])
def test_defaults_checks_domains_policies(db, table, change):
    db.run(
        COUNTS,
        "CREATE FUNCTION frozen(k int) RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT count(*) FROM code.d WHERE id = k'",
        "CREATE DOMAIN counted AS int CHECK (bal(value) >= 0)",
        f"DELETE FROM {table}",
    )
    db.refused(change.format(table))


AS_NAME = "tableoid::regclass::text"
ASKS = f"CREATE TRIGGER a AFTER INSERT ON {{}} FOR EACH ROW WHEN (NEW.{AS_NAME} = 'l') EXECUTE FUNCTION asked()"


@pytest.mark.parametrize(
    "change",
    [
        f"ALTER TABLE {{}} ADD CHECK (NOT (v < 0 AND {AS_NAME} = 'l'))",
        "ALTER TABLE {} ADD CHECK (tableoid <> 'r'::regclass) NOT VALID",
        f"ALTER TABLE {{}} ADD COLUMN x int CHECK ({AS_NAME} <> 'x')",
        f"CREATE POLICY p ON {{}} USING ({AS_NAME} <> 'l')",
        f"CREATE POLICY p ON {{}} FOR INSERT WITH CHECK ({AS_NAME} = 'l')",
        ASKS,
    ],
)
def test_tableoid_of_a_table_on_nodes_is_asked_for_by_nobody(db, change):
    db.run(trigger_function("PERFORM 1", "asked"))
    for table in ("d", "r"):
        db.refused(change.format(table), "names tableoid", f'"{table}"')
    # There it is the table's; and what has become another kind of table would tell its shards.
    db.run("DELETE FROM l", change.format("l"))
    db.refused("SELECT create_distributed_table('l', 'id')", "names tableoid")
    db.refused("SELECT create_reference_table('l')", "names tableoid")


def test_a_policy_is_altered_to_ask_for_tableoid(db):
    db.run("CREATE POLICY p ON d USING (id > 0)")
    db.refused(f"ALTER POLICY p ON d USING ({AS_NAME} <> 'd')", "names tableoid", '"p"')


@pytest.mark.parametrize("row", ["NEW", "copy"])
def test_a_rows_trigger_asks_for_tableoid(db, row):
    body = f"DECLARE copy record; BEGIN copy := NEW; RAISE NOTICE '%', {row}.tableoid::regclass; RETURN NEW; END"
    db.run(f"CREATE FUNCTION asked() RETURNS trigger LANGUAGE plpgsql AS $$ {body} $$")
    for table in ("d", "r"):
        db.refused(trigger(table, "asked"), "tableoid" if table == "r" else "TABLEOID")
    db.run(trigger("l", "asked"), "INSERT INTO l VALUES (100, 1, 'x')")


def test_a_rule_of_a_local_table(db):
    db.refused("CREATE RULE also AS ON INSERT TO l DO ALSO DELETE FROM r WHERE id = NEW.id", "writes", '"r"')
    db.refused("CREATE RULE also AS ON INSERT TO l DO ALSO UPDATE d SET v = 0 WHERE id = NEW.id", "writes", '"d"')
    db.run("CREATE TABLE log (id int)", "CREATE RULE also AS ON INSERT TO l DO ALSO INSERT INTO log VALUES (NEW.id)", "INSERT INTO l VALUES (100)")
    assert db.rows("SELECT * FROM log") == [(100,)]
    db.refused("SELECT create_reference_table('log')", "rule", '"log"')


def test_a_materialized_view_of_what_becomes_distributed(db):
    db.run("CREATE MATERIALIZED VIEW m AS SELECT count(*) FROM l")
    db.refused("SELECT create_distributed_table('l', 'id')", "materialized view", '"l"')
    db.run("SELECT create_reference_table('l')", "REFRESH MATERIALIZED VIEW m")
    assert db.rows("SELECT * FROM m") == [(20,)]


def test_calls_are_followed(db):
    db.run(
        "CREATE PROCEDURE p() LANGUAGE sql AS 'UPDATE d SET v = v + 1'",
        "CREATE PROCEDURE q() LANGUAGE plpgsql AS 'BEGIN CALL p(); END'",
        "CREATE PROCEDURE w() LANGUAGE plpgsql AS 'BEGIN DELETE FROM r; END'",
        "CREATE PROCEDURE fine() LANGUAGE plpgsql AS 'BEGIN INSERT INTO l SELECT 1000 + id FROM r; END'",
        COUNTS,
    )
    for call in ("CALL q()", "DO $$ BEGIN CALL q(); END $$"):
        db.refused(call)
    # Its query stands in its place.
    assert db.one("SELECT bal(3)") == 1
    db.run("CALL fine()")
    assert db.one("SELECT count(*) FROM l") == 50
    assert db.one("SELECT sum(v) FROM d") == sum(range(1, 41))
    assert len(db.same_copies("r")) == 30
    # Statement by statement, on all nodes.
    db.run("DO $$ BEGIN PERFORM bal(3); END $$", "CALL p()")
    assert db.one("SELECT sum(v) FROM d") == sum(range(2, 42))
    db.run("CALL w()")
    assert db.same_copies("r") == []


def test_text_put_together_is_watched(db):
    db.run("CREATE FUNCTION run(q text) RETURNS void LANGUAGE plpgsql AS 'BEGIN EXECUTE q; END'")
    for sql in ("SELECT run('UPDATE d SET v = 0')", "SELECT run('DELETE FROM r')", "SELECT run('SELECT * FROM d')", "DO $$ BEGIN PERFORM run('TRUNCATE ' || chr(100)); END $$"):
        db.refused(sql)
    db.run("SELECT run('UPDATE l SET v = 7')", "SELECT run('SELECT * FROM r')", "DO $$ BEGIN PERFORM run('CREATE TABLE made (id int)'); END $$")
    assert db.rows("SELECT DISTINCT v FROM l") == [(7,)]
    assert db.one("SELECT sum(v) FROM d") == sum(range(1, 41))
    assert len(db.same_copies("r")) == 30


def test_functions_of_local_tables_run_on_home(db):
    db.run(
        "CREATE FUNCTION of_local(k int) RETURNS int LANGUAGE sql STABLE AS 'SELECT v FROM l WHERE id = k'",
        "CREATE FUNCTION of_reference(k int) RETURNS int LANGUAGE sql STABLE AS 'SELECT v FROM r WHERE id = k'",
    )
    assert db.rows("SELECT of_local(3)") == [(3,)]
    assert db.rows("SELECT of_reference(3)") == [(3,)]
    # Reads its node's whole copy.
    assert db.one("SELECT sum(of_reference(id)) FROM d WHERE id <= 30") == sum(range(1, 31))

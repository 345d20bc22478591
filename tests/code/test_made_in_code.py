"""What DO, CALL and functions that put statements together make in home's catalog."""

import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(120)]


@pytest.mark.parametrize(
    "made",
    [
        "CREATE OR REPLACE FUNCTION made() RETURNS int LANGUAGE sql AS ''SELECT 1''",
        "CREATE TYPE made AS ENUM (''a'')",
        "CREATE TYPE made AS (a int)",
        "CREATE DOMAIN made AS int",
        "CREATE SCHEMA made_in_code",
    ],
)
def test_what_all_nodes_need_is_not_made_in_code(db, made):
    db.run("CREATE FUNCTION run(q text) RETURNS void LANGUAGE plpgsql AS 'BEGIN EXECUTE q; END'")
    for sql in (f"DO $$ BEGIN EXECUTE '{made}'; END $$", f"SELECT run('{made}')", f"DO $$ BEGIN BEGIN PERFORM run('{made}'); END; END $$"):
        db.refused(sql, "other nodes would not have it")
    db.run(made.replace("''", "'"), "DROP SCHEMA IF EXISTS made_in_code")


def test_home_alone_may_have_tables_made_in_code(db):
    db.run(
        "DO $$ BEGIN EXECUTE 'CREATE TABLE made (id serial PRIMARY KEY, v int)'; END $$",
        "DO $$ BEGIN EXECUTE 'CREATE TEMP TABLE mine (id serial PRIMARY KEY, v int)'; INSERT INTO mine (v) VALUES (3); END $$",
        "INSERT INTO made (v) VALUES (1)",
    )
    assert db.rows("SELECT id, v FROM made JOIN r USING (id, v)") == [(1, 1)]


def test_what_code_makes_is_judged_as_ddl_is(db):
    db.run("CREATE FUNCTION trg() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN UPDATE r SET v = 0; RETURN NEW; END $$")
    db.refused("DO $$ BEGIN EXECUTE 'CREATE TRIGGER t AFTER INSERT ON l FOR EACH ROW EXECUTE FUNCTION trg()'; END $$", '"t"', "writes", '"r"')
    db.run("CREATE TABLE more (id int)")
    assert db.one("SELECT count(*) FROM pg_trigger WHERE tgname = 't'") == 0

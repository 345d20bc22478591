"""What DO, CALL and functions that put statements together make in home's catalog."""

import psycopg
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


# On a distributed table `d`, a reference table `r`, a local one `l`, a view `rv` over r and a view `lv` over l.
ELSEWHERE = [
    "drop table d",
    "drop table r",
    "drop view rv",
    "create or replace view rv as select id, v, w from r where id < 5",
    "create view nv as select id from r",
    "alter view rv rename to rv2",
    "alter view rv rename column v to vv",
    "alter table r rename column w to t",
    "alter table d rename to dd",
    "alter table d add column z int",
    "alter index r_pkey rename to rx",
    "alter table d_pkey rename to dx",
    "drop index d_v",
    "create index on r (v)",
    "create rule ru as on insert to r do nothing",
    "create policy po on r using (true)",
    "create trigger tr before insert on r for each row execute function suppress_redundant_updates_trigger()",
    "comment on table d is 'x'",
    "drop schema code cascade",
    "alter schema code rename to code2",
]
HOWS = {
    "DO": "DO $$ BEGIN {}; END $$",
    "constant": "DO $$ BEGIN EXECUTE '{q}'; END $$",
    "put together": "DO $$ BEGIN EXECUTE replace('{q}', '~', chr(32)); END $$",
    "function": "CREATE OR REPLACE FUNCTION ddl_() RETURNS void LANGUAGE plpgsql AS $$ BEGIN {}; END $$;; SELECT ddl_()",
    "procedure": "CREATE OR REPLACE PROCEDURE ddl_p() LANGUAGE plpgsql AS $$ BEGIN {}; END $$;; CALL ddl_p()",
    "trigger": "CREATE OR REPLACE FUNCTION ddl_t() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {}; RETURN NEW; END $$;; "
    "CREATE TRIGGER ddl_ AFTER INSERT ON l FOR EACH ROW EXECUTE FUNCTION ddl_t();; INSERT INTO l VALUES (1000)",
}


# Of these, what the router makes as a client's statement where the code runs statement by statement.
MADE = {
    "drop table d", "drop view rv", "alter view rv rename to rv2", "alter view rv rename column v to vv", "alter table r rename column w to t", "alter table d rename to dd",
    "alter table d add column z int", "create index on r (v)", "comment on table d is 'x'",
}
# Only where it is put together: elsewhere its columns could be variables.
MADE_PUT_TOGETHER = {"create or replace view rv as select id, v, w from r where id < 5", "create view nv as select id from r"}
_ASK_NODE = """
    select c.relname, case c.relkind when 'v' then pg_get_viewdef(c.oid) end, a.attname, (select count(*) from pg_index i where i.indrelid = c.oid), coalesce(obj_description(c.oid, 'pg_class'), '')
      from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
     where c.relnamespace = 'code'::regnamespace and c.relkind in ('r', 'p', 'v') and c.relname not in ('l', 'lv') order by 1, a.attnum
"""


def _of_nodes(db):
    """Tables, views, columns, indexes and comments, which all nodes have alike."""
    found = []
    for node in db.herd.node_servers:
        with node.connect() as connection:
            found.append(connection.execute(_ASK_NODE).fetchall())
    assert all(one == found[0] for one in found), found
    return found[0]


def _is_made(ddl, how):
    return how != "trigger" and ddl in MADE or how == "put together" and ddl in MADE_PUT_TOGETHER


def _ready(db, ddl, how):
    db.run("CREATE INDEX d_v ON d (v)", "CREATE VIEW rv AS SELECT id, v, w FROM r", "CREATE VIEW lv AS SELECT id FROM l")
    return HOWS[how].format(ddl, q=ddl.replace("'", "''")).split(";;")


@pytest.mark.parametrize("ddl, how", [(ddl, how) for ddl in ELSEWHERE for how in HOWS if _is_made(ddl, how)])
def test_what_other_nodes_have_is_changed_by_code_that_runs_by_steps(db, ddl, how):
    *first, last = _ready(db, ddl, how)
    before = _of_nodes(db)
    db.run(*first, "BEGIN", last, "ROLLBACK")
    assert _of_nodes(db) == before
    db.run(last)
    after = _of_nodes(db)
    assert after != before
    db.run("INSERT INTO r VALUES (1000, 1, 'x')")
    db.same_copies("r")


def test_what_depends_on_it_stops_code_as_it_stops_a_client(db):
    db.run("CREATE VIEW rv AS SELECT id, v, w FROM r")
    for how in ("DO", "constant", "put together", "function", "procedure"):
        *first, last = HOWS[how].format("drop table r", q="drop table r").split(";;")
        db.run(*first)
        with pytest.raises(psycopg.errors.DependentObjectsStillExist):
            db.run(last)
    db.same_copies("r")


@pytest.mark.parametrize("ddl, how", [(d, h) for d in ELSEWHERE for h in HOWS if not _is_made(d, h) and (d != "drop table r" or h == "trigger")])
def test_what_other_nodes_have_is_not_changed_in_code(db, ddl, how):
    *first, last = _ready(db, ddl, how)
    # A trigger's own table can't go while it runs, PostgreSQL says so by itself.
    with pytest.raises((psycopg.errors.FeatureNotSupported, psycopg.errors.ObjectInUse)) as e:
        db.run(*first, last)
    assert e.value.diag.message_hint or e.value.sqlstate == "55006", e.value
    assert db.one("SELECT count(*) FROM d") == 40
    assert db.one("SELECT count(*) FROM rv") == 30
    assert all(db.one(f"SELECT count(*) FROM d JOIN rv USING (id) WHERE id = {k}") == 1 for k in range(1, 10))
    db.run("DROP TRIGGER IF EXISTS ddl_ ON l", "INSERT INTO d VALUES (1000, 1, 'x')", "INSERT INTO r VALUES (1000, 1, 'x')")
    db.same_copies("r")


HERE = [
    "create temp table mine (id int); insert into mine values (1); create index on mine (id); drop table mine",
    "create temp table mine on commit drop as select 1 as id; alter table mine add v int",
    "drop table if exists nobodys",
    "create table made (id serial primary key, v int); drop table made",
    "create table made (id int references r (id)); create index on made (id)",
    "alter table l add column z int default 3",
    "truncate l",
    "create index on l (v); comment on table l is 'x'; analyze l",
    "create or replace view lv as select id from l where id < 5",
    "drop view lv; alter table l rename to ll",
    "create view nv as select id from l; grant select on l to public",
    "create policy po on l using (true); drop policy po on l",
]


@pytest.mark.parametrize("before", ["", "SELECT count(*) FROM d"])
@pytest.mark.parametrize("how", ["DO", "constant", "function", "procedure"])
@pytest.mark.parametrize("ddl", HERE)
def test_what_home_alone_has_is_changed_in_code(db, ddl, how, before):
    db.run("CREATE VIEW lv AS SELECT id FROM l")
    if how == "constant":
        ddl = "; ".join("EXECUTE '" + s.strip().replace("'", "''") + "'" for s in ddl.split(";"))
        last, first = f"DO $$ BEGIN {ddl}; END $$", []
    else:
        *first, last = HOWS[how].format(ddl).split(";;")
    db.run(*first)
    with db.connection.transaction():
        # A function may put statements together that use what was used before: that is another matter.
        if before and how != "function":
            db.run(before)
        db.run(last)
    assert db.one("SELECT count(*) FROM d") == 40


def test_names_follow_what_code_has_made(db):
    """A local table that hides a distributed one, and is gone again."""
    db.run("DROP SCHEMA IF EXISTS code_first CASCADE", "CREATE SCHEMA code_first", "SET search_path = code_first, code")
    assert db.one("SELECT count(*) FROM d") == 40
    db.run("DO $$ BEGIN CREATE TABLE code_first.other (id int); END $$", "DO $$ BEGIN ALTER TABLE code_first.other RENAME TO d; END $$")
    assert db.one("SELECT count(*) FROM d") == 0
    db.run("DO $$ BEGIN EXECUTE 'DROP TABLE code_first.' || chr(100); END $$")
    assert db.one("SELECT count(*) FROM d") == 40
    db.run("DROP SCHEMA code_first")

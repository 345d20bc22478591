"""What each copy of a reference table makes by itself is compared: triggers may make of a row what they like, and a condition may
find other rows on a node that has somebody's commit already. The copies are the same, or the statement fails."""

import threading
import time

import psycopg
import pytest

from harness.other_order import in_other_order
from harness.until import until

pytestmark = pytest.mark.real_herd


@pytest.fixture
def source(db):
    """`src` has another order on one node."""
    db.run(
        "create table src (id int primary key, v int)",
        "select create_reference_table('src')",
        "insert into src select g, g from generate_series(3, 5) g",
    )
    in_other_order(db.herd.node_servers[1], "code.src")
    db.run("insert into src values (11, 11), (12, 12)")
    return db


def _trigger(db, body, when="before insert or update"):
    db.run(
        "drop trigger if exists t on r",
        f"create or replace function f() returns trigger language plpgsql as $$ declare x record; begin {body} return new; end $$",
        f"create trigger t {when} on r for each row execute function f()",
    )


DIFFER = [
    "new.v := (select v from src limit 1);",
    "new.w := array(select id from src)::text;",
    "for x in select * from src loop new.w := coalesce(new.w, '') || x.id; end loop;",
    "select distinct on (v / 100) v into new.v from src;",
    "new.v := (select v from (select v, row_number() over () n from src) q where n = 1);",
    "new.v := tg_relid::bigint % 1000000000;",
    "new.v := extract(microseconds from 'now'::text::timestamptz);",
]
STATEMENTS = [
    "update r set w = null where id = 4",
    "update r set w = null",
    "insert into r values (40, 1, null)",
    "insert into r values (4, 1, null) on conflict (id) do update set v = 3, w = null",
    "insert into r values (41, 1, null) on conflict do nothing",
]


@pytest.mark.parametrize("body", DIFFER)
def test_triggers_that_make_other_rows_are_seen(source, body):
    try:
        _trigger(source, body)
    except psycopg.errors.FeatureNotSupported:
        return
    for statement in STATEMENTS:
        source.refused(statement, "triggers of reference table")
        source.same_copies("r")
    with pytest.raises(psycopg.errors.FeatureNotSupported), source.connection.cursor() as cursor:
        with cursor.copy("copy r (id, v) from stdin") as copy:
            copy.write("50\t1\n51\t1\n")
    source.same_copies("r")


def test_triggers_that_make_the_same_go_on(source):
    _trigger(source, "select s.v into new.v from src s where s.id = new.id; new.w := coalesce(new.w, '') || '!';")
    assert source.rows("update r set w = null where id in (4, 5) returning *") == [(4, 4, "!"), (5, 5, "!")]
    assert source.rows("insert into r values (12, 0, 'x'), (40, 1, 'y') on conflict (id) do update set w = 'z' returning id, v") == [(12, 12), (40, None)]
    assert source.connection.execute("update r set w = 'a' where v is null").statusmessage == "UPDATE 1"
    assert source.connection.execute("delete from r where id > 20").statusmessage == "DELETE 11"
    assert source.rows("merge into r using src on r.id = src.id when matched then update set w = 'm' when not matched then do nothing returning r.id, w")
    with source.connection.cursor() as cursor, cursor.copy("copy r (id, v) from stdin") as copy:
        copy.write("50\t1\n51\t1\n")
    assert source.connection.execute("insert into r select id + 100, v from d where id < 5").statusmessage == "INSERT 0 4"
    rows = source.same_copies("r")
    assert len(rows) == 26 and [row[2] for row in rows if row[0] in (50, 51)] == ["!", "!"]
    for binary in (False, True):
        with source.connection.cursor(binary=binary) as cursor:
            cursor.execute("update r set v = %s, w = 'q' where id = %s returning v, w", (9, 4), prepare=True)
            assert cursor.fetchone() == (4, "q!")
    for statement in ("update r set w = 'all'", "delete from r"):
        assert source.connection.execute(statement).statusmessage.endswith(" 26")
    assert source.same_copies("r") == []


def test_foreign_keys_actions_come_to_triggers_too(source):
    source.run(
        "create table c (id int primary key, p int references r on delete set null on update cascade, v int)",
        "insert into c values (1, 6, 0), (2, 7, 0)",
        "select create_reference_table('c')",
        "create function f() returns trigger language plpgsql as 'begin new.v := (select v from src limit 1); return new; end'",
        "create trigger t before update on c for each row execute function f()",
    )
    for statement in ("delete from r where id = 6", "delete from r where v = 6", "update r set id = 60 where id = 7"):
        source.refused(statement, "triggers of reference table \"c\"")
        source.same_copies("c")
    source.run("create or replace function f() returns trigger language plpgsql as 'begin new.v := (select max(v) from src); return new; end'")
    source.run("delete from r where v = 6", "update r set id = 60 where id = 7", "update r set w = 'x'")
    assert source.same_copies("c") == [(1, None, 12), (2, 60, 12)]
    source.same_copies("r")


def test_who_may_not_read_the_table(source):
    source.run("drop role if exists adder", "create role adder login", "grant usage on schema code to adder", "grant insert on r to adder", "grant select on src to adder")
    _trigger(source, "new.w := 'x';")
    source.run("set role adder", "insert into r values (70, 1, 'a')", "reset role")
    _trigger(source, "select s.v into new.v from src s where s.id = 3;")
    source.run("set role adder")
    source.refused("insert into r values (71, 1, 'a')", "must be allowed to read")
    source.run("reset role")
    source.same_copies("r")
    source.run("revoke all on r, src from adder", "revoke all on schema code from adder", "drop role adder")


def _crossing(db, table, statement):
    """Two commits that have not come to all nodes: of one home knows, of the other the others do."""
    servers = db.herd.node_servers
    first, second = f"update code.{table} set v = 100 where id = 1", f"update code.{table} set v = 100 where id = 2"
    nodes = [server.connect() for server in servers]
    opened = [server.connect(autocommit=False) for server in servers]
    try:
        for i, (node, open_) in enumerate(zip(nodes, opened)):
            node.execute(first if i == 0 else second)
            open_.execute(second if i == 0 else first)
        failed = []

        def run():
            try:
                db.connection.execute(statement)
            except psycopg.Error as e:
                failed.append(e)

        thread = threading.Thread(target=run)
        thread.start()
        # It has come to a node: it has the table, or waits for it.
        begun = "select count(*) from pg_locks where relation = %s::regclass and mode ~ 'Exclusive' and pid <> %s"
        until(lambda: any(node.execute(begun, (f"code.{table}", open_.info.backend_pid)).fetchone()[0] for node, open_ in zip(nodes, opened)), every=0.01)
        time.sleep(1)
        for open_ in opened:
            open_.commit()
        thread.join(60)
        assert not thread.is_alive()
        return failed
    finally:
        for connection in nodes + opened:
            connection.close()


@pytest.mark.parametrize("statement", ["update {} set w = 'x' where v = 100", "delete from {} where v = 100", "update {} set v = v + 1 where v = 100"])
def test_a_condition_finds_its_rows_once(db, statement):
    assert not _crossing(db, "r", statement.format("r"))
    rows = {row[0]: row[1:] for row in db.same_copies("r")}
    assert rows[2] == (100, "r") and rows.get(1) in [(100, "x"), None, (101, "r")]


@pytest.mark.parametrize("statement", ["update {} set w = 'x' where v = 100", "delete from {} where v = 100"])
def test_where_nobody_sees_which_rows_are_found_others_wait(db, statement):
    db.run("create table p (id int primary key, v int, w text)", "alter table p enable row level security", "select create_reference_table('p')",
           "insert into p select * from r")
    assert not _crossing(db, "p", statement.format("p"))
    rows = {row[0]: row[1:] for row in db.same_copies("p")}
    assert {k: rows.get(k) for k in (1, 2)} == ({1: None, 2: None} if "delete" in statement else {1: (100, "x"), 2: (100, "x")})


@pytest.mark.parametrize("statement", ["update {} set w = 'x' where v = 100", "delete from {} where v = 100"])
def test_without_a_key_it_begins_again_until_all_see_the_same(db, statement):
    db.run("create table n (id int, v int, w text)", "select create_reference_table('n')", "insert into n select * from r")
    assert not _crossing(db, "n", statement.format("n"))
    rows = {row[0]: row[1:] for row in db.same_copies("n")}
    assert {k: rows.get(k) for k in (1, 2)} == ({1: None, 2: None} if "delete" in statement else {1: (100, "x"), 2: (100, "x")})

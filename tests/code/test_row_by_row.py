"""Copies of a reference table stay the same though its triggers see the rows that the same statement has written so far."""

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from harness.other_order import in_other_order

pytestmark = pytest.mark.real_herd

TABLES = ("rbr", "rbr_parent", "rbr_child", "rbr_stable", "rbr_policy")
_MAKE = (
    "drop table if exists rbr, rbr_parent, rbr_child, rbr_stable, rbr_policy cascade",
    "create table rbr (id int primary key, k int, n numeric default 0)",
    "create table rbr_parent (id int primary key, v int)",
    "create table rbr_child (id int primary key, p int references rbr_parent on delete set null, n int default 0)",
    "create table rbr_stable (id int primary key, k int, n numeric default 0)",
    "create table rbr_policy (id int primary key, k int)",
)
_CODE = (
    "create or replace function rbr_sums() returns trigger language plpgsql as $$ begin new.n := (select sum(n * 2 + id) from rbr); return new; end $$",
    "create or replace function rbr_counts() returns trigger language plpgsql as $$ begin new.n := (select sum(n) + count(*) from rbr_child); return new; end $$",
    "create or replace function rbr_before() returns trigger language plpgsql stable as $$ begin new.n := (select sum(n * 2 + id) from rbr_stable); return new; end $$",
    "create or replace function rbr_few() returns boolean language plpgsql volatile as $$ begin return (select count(*) from rbr_policy where k > 100) < 3; end $$",
)
_TRIGGERS = (
    "create trigger t before insert or update on rbr for each row execute function rbr_sums()",
    "create trigger t before insert or update on rbr_child for each row execute function rbr_counts()",
    "create trigger t before insert or update on rbr_stable for each row execute function rbr_before()",
    "create policy p on rbr_policy using (rbr_few())",
)
_FILL = tuple(f"insert into {t} select g, g from generate_series(1, 9) g" for t in ("rbr", "rbr_parent", "rbr_stable", "rbr_policy")) + (
    "insert into rbr_child select g, g from generate_series(1, 9) g",
)
_HOLES = tuple(f"delete from {t} where id < 8" for t in ("rbr", "rbr_child", "rbr_parent", "rbr_stable", "rbr_policy"))
_REFILL = (
    *(f"insert into {t} select g, g from generate_series(20, 25) g" for t in ("rbr", "rbr_parent", "rbr_stable", "rbr_policy")),
    "insert into rbr_child select g, 20 + g % 2 from generate_series(20, 25) g",
)
REFUSED = [
    "update rbr set k = 1",
    "update rbr set k = 1 where id > 20",
    "update rbr set k = 1 where id in (20, 21)",
    "update rbr set k = q.v from rbr_parent q where q.id = rbr.id",
    "delete from rbr",
    "merge into rbr using rbr_parent q on q.id = rbr.id when matched then update set k = 0",
    "insert into rbr select v + 100, v from rbr_parent",
    "insert into rbr select v + 100, v from rbr_parent order by v",
    "insert into rbr_child select v + 100, 20 from rbr_parent",
    "delete from rbr_parent where id = 20",
    "update rbr_child set n = 4",
    "update rbr_policy set k = k + 100",
]
ALLOWED = [
    "update rbr set k = 1 where id = 20",
    "update rbr set k = k + 1 where 21 = id and k > 3",
    "delete from rbr where id = 22",
    "insert into rbr values (101, 1), (100, 1), (102, 7)",
    "insert into rbr values (103, 1), (100, 1) on conflict (id) do update set k = 5",
    "insert into rbr select 104, 8",
    "update rbr_parent set v = v + 1",
    "update rbr_child set p = 23 where id = 8",
    "insert into rbr_child values (100, 8), (101, 8)",
    "update rbr_stable set k = 1",
    "insert into rbr_stable select v + 100, v from rbr_parent",
    "delete from rbr_stable where id < 22",
    "update rbr_policy set k = k + 100 where id = 20",
]


@pytest.fixture
def made(herd, herd_many, oracle):
    oracle.run(*_MAKE, *_CODE, *_FILL, *_HOLES, *_REFILL, *_TRIGGERS)
    herd.run(*_MAKE, *_CODE, *(f"select create_reference_table('{t}')" for t in TABLES), *_FILL, *_HOLES)
    for table in TABLES:
        in_other_order(herd_many.node_servers[1], table)
    herd.run(*_REFILL, *_TRIGGERS)
    for table in ("rbr", "rbr_child"):
        orders = [_rows(node, table, "") for node in herd_many.node_servers]
        assert orders[0] != orders[1] and sorted(orders[0]) == sorted(orders[1])
    yield herd_many.node_servers
    for server in (herd, oracle):
        server.run("drop table rbr, rbr_parent, rbr_child, rbr_stable, rbr_policy cascade")
        server.run("drop function rbr_sums(), rbr_counts(), rbr_before(), rbr_few()")


def _rows(server, table, order="order by 1"):
    with server.connect() as connection:
        return connection.execute(f"select * from {table} {order}").fetchall()


def _same_copies(nodes, tables=TABLES):
    for table in tables:
        first, second = (_rows(node, table) for node in nodes)
        assert first == second, table


def test_several_rows_are_refused(herd, made):
    done = []
    for text in REFUSED:
        with herd.connect() as connection:
            try:
                connection.execute(text)
                done.append(text)
            except psycopg.errors.FeatureNotSupported:
                pass
    assert not done, done
    _same_copies(made)


def test_what_has_one_order_is_done(herd, oracle, made):
    for text in ALLOWED:
        tags = []
        for server in (herd, oracle):
            with server.connect() as connection:
                tags.append(connection.execute(text).statusmessage)
        assert tags[0] == tags[1], text
        _same_copies(made)
        for table in TABLES:
            assert _rows(herd, table) == _rows(oracle, table), text


@pytest.fixture
def computed(herd, herd_many):
    """Values of this table are computed once, on home; its triggers run on every node."""
    herd.run(
        "create table twice (id serial primary key, v float8 default random(), w int, x text)",
        "select create_reference_table('twice')",
        "create function twice_up() returns trigger language plpgsql as $$ begin new.w := coalesce(new.w, 0) + 1; return new; end $$",
        "create function twice_name() returns trigger language plpgsql as $$ begin new.x := coalesce(new.x, 'row ' || new.id); return new; end $$",
        "create trigger t before insert on twice for each row execute function twice_name()",
    )
    yield herd_many.node_servers
    herd.run("drop table twice", "drop function twice_up(), twice_name()")


def test_a_trigger_that_changes_finished_rows_once_more(herd, computed):
    herd.run("insert into twice (w) values (5), (6)", "insert into twice (w) select generate_series(7, 9)")
    _same_copies(computed, ["twice"])
    assert [row[3] for row in _rows(herd, "twice")] == [f"row {i}" for i in range(1, 6)]
    herd.run("create trigger u before insert on twice for each row execute function twice_up()")
    with herd.connect() as connection:
        for text in ("insert into twice (w) values (1)", "insert into twice (id, v) select 90, random()"):
            with pytest.raises(psycopg.errors.FeatureNotSupported) as e:
                connection.execute(text)
            assert e.value.diag.message_hint
    with herd.connect(autocommit=False) as connection:
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            connection.execute("insert into twice (w) values (1)")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            connection.execute("select 1")
    herd.run("insert into twice (id, v, w) values (91, 0.5, 3)")
    _same_copies(computed, ["twice"])
    assert _rows(herd, "twice")[-1] == (91, 0.5, 4, "row 91")


def test_what_others_commit_meanwhile_is_read_once(herd, herd_many):
    """One node has a commit already that another has not yet."""
    herd.run("create table at_once (id int primary key, n bigint)", "select create_reference_table('at_once')")

    def insert(client):
        with herd.connect() as connection:
            for i in range(40):
                connection.execute(f"insert into at_once select {client * 1000 + i}, count(*) from at_once")

    with ThreadPoolExecutor(6) as clients:
        list(clients.map(insert, range(6)))
    _same_copies(herd_many.node_servers, ["at_once"])
    herd.run("drop table at_once")

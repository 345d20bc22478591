"""Views over a table that becomes distributed, a reference table or local again stay what they are on home, and are wherever the
table is."""

import threading
import time

import psycopg
import pytest

from harness.herd import Herd

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(400)]

# All that a catalog says of views, but for numbers of other objects.
LOOKS = """
select n.nspname, c.relname, c.oid, pg_get_userbyid(c.relowner), c.relacl::text, c.reloptions, obj_description(c.oid, 'pg_class'), pg_get_viewdef(c.oid),
       array(select (a.attname, a.atttypid, a.attacl, pg_get_expr(d.adbin, d.adrelid), col_description(c.oid, a.attnum))::text
               from pg_attribute a left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum where a.attrelid = c.oid and a.attnum > 0 order by a.attnum),
       array(select pg_get_triggerdef(t.oid) || coalesce(obj_description(t.oid, 'pg_trigger'), '') from pg_trigger t where t.tgrelid = c.oid order by t.tgname)
  from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.relkind = 'v' and n.nspname in ('public', 'Seen') order by 1, 2
"""
# Nothing of the test's own is left under another name.
LEFT = "select count(*) from pg_namespace where nspname ~ '^herd_(room|moving)_'"


@pytest.fixture(scope="module", params=[1, 3], ids=["1 node", "3 nodes"])
def viewed(request):
    herd = Herd(nodes=request.param, shards=6)
    try:
        herd.server.run("create role maker", "create role reader", 'create schema "Seen"', "grant usage on schema \"Seen\" to public", "grant maker to postgres")
        yield herd
    finally:
        herd.stop()


@pytest.fixture
def place(viewed):
    """A table with views of several owners over it, and over those."""
    viewed.server.run(
        "create table t (id int primary key, k int not null, v text, price numeric(8, 2))", "create table other (k int primary key, name text)",
        "insert into t select g, g % 5, 'v' || g, g * 1.5 from generate_series(1, 200) g", "insert into other select g, 'n' || g from generate_series(0, 4) g",
        "select create_reference_table('other')", "grant select, insert on t, other to maker with grant option",
        "create view plain as select id, k, v from t",
        "create view \"Seen\".\"Odd name\" with (security_barrier = true) as select id as \"Id\", price, t.v from t where k < 3",
        "create view joined as select t.id, o.name, count(*) over () as n from t join other o using (k)",
        "create view grouped as select id, v, max(price) as p from t group by id",
        "create view onto with (check_option = local) as select id, k, v from t where k = 1",
        "create view invoked with (security_invoker = true) as select sum(price) as s from t",
        "create view upper as select p.id, o.\"Id\" is not null as odd from plain p left join \"Seen\".\"Odd name\" o on o.\"Id\" = p.id",
        "create view top as select count(*) filter (where odd) as n, (select s from invoked) as s from upper",
        "create view \"union\" as select id from t where k = 0 union all select id from plain where k = 1 order by 1",
        "create view composed as select (row(id, v)).f1 as x, t.*::text as whole, case when id in (select id from t where k = 2) then 'two' end as y from t",
        "alter view plain owner to maker", "alter view \"Seen\".\"Odd name\" owner to maker", "alter view onto owner to maker",
        "grant select, insert on plain to reader", "grant select (\"Id\") on \"Seen\".\"Odd name\" to reader", "grant select on top to public", "grant select on t, other to reader",
        "set role maker", "grant update on plain to reader with grant option", "reset role",
        "comment on view plain is 'it''s plain'", "comment on column plain.k is 'the k'", "comment on view top is 'top'",
        "alter view onto alter column v set default 'by the view'",
        "create or replace function into_t() returns trigger language plpgsql as $$ begin raise exception 'no % here', new.name; end $$",
        "create trigger into_joined instead of insert on joined for each row execute function into_t()", "comment on trigger into_joined on joined is 'joins'",
    )
    yield viewed
    viewed.server.run(
        "drop view if exists top, upper, \"union\", composed, invoked, onto, grouped, joined, \"Seen\".\"Odd name\", plain cascade", "drop table if exists t, other, l cascade",
        "drop function if exists into_t() cascade")


QUERIES = [
    "select * from plain order by id", "select * from \"Seen\".\"Odd name\" order by 1", "select * from joined order by id", "select * from grouped order by id", "select * from onto order by id",
    "select * from invoked", "select * from upper order by id", "select * from top", "select * from \"union\"", "select * from composed order by x", "select * from plain where id = 7",
    "select p.v, o.name from plain p join other o using (k) where p.id = 9", "select count(*) from plain p join t using (id) join \"union\" u on u.id = t.id",
]


def _answers(c):
    return [c.execute(q).fetchall() for q in QUERIES]


def _looks(c, numbers=True):
    return [row if numbers else row[:2] + row[3:] for row in c.execute(LOOKS).fetchall()]


def _on_all_nodes(place, wanted):
    """Views on other nodes look as those on home, but for their numbers and their types'."""
    for node in place.node_servers[1:]:
        with node.connect() as direct:
            assert _looks(direct, False) == wanted
            assert direct.execute(LEFT).fetchone() == (0,)


@pytest.mark.parametrize("call", ["create_distributed_table('t', 'id')", "create_reference_table('t')"])
def test_views_stay(place, call):
    with place.server.connect() as c, place.node_servers[0].connect() as home:
        looks, answers = _looks(home), _answers(c)
        assert len(looks) == 10
        c.execute(f"select {call}")
        assert _looks(home) == looks and _answers(c) == answers
        assert home.execute(LEFT).fetchone() == (0,)
        _on_all_nodes(place, [row[:2] + row[3:] for row in looks])
        # They are views over what the table is now.
        c.execute("insert into plain values (1001, 1, 'new')")
        c.execute("insert into onto (id, k) values (1002, 1)")
        assert c.execute("select id, v from t where id > 1000 order by 1").fetchall() == [(1001, "new"), (1002, "by the view")]
        with pytest.raises(psycopg.errors.WithCheckOptionViolation):
            c.execute("insert into onto values (1003, 2, 'x')")
        with pytest.raises(psycopg.errors.RaiseException, match="no joined here"):
            c.execute("insert into joined (id, name) values (1004, 'joined')")
        c.execute("set role reader")
        assert c.execute("select count(*) from plain").fetchone() == (202,)
        assert c.execute("select \"Id\" from \"Seen\".\"Odd name\" where \"Id\" = 1").fetchone() == (1,)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            c.execute("select price from \"Seen\".\"Odd name\" where \"Id\" = 1")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            c.execute("select * from grouped")
        c.execute("reset role")
        c.execute("delete from t where id > 1000")
        # And back.
        c.execute("select undistribute_table('t')")
        assert _looks(home) == looks and _answers(c) == answers
        for node in place.node_servers[1:]:
            with node.connect() as direct:
                assert direct.execute("select count(*) from pg_class where relkind = 'v' and relnamespace in ('public'::regnamespace, '\"Seen\"'::regnamespace)").fetchone() == (0,)
                assert direct.execute("select to_regclass('t')").fetchone() == (None,)
        c.execute(f"select {call}")
        assert _looks(home) == looks and _answers(c) == answers
        c.execute("drop view top, upper, \"union\"")
        c.execute("drop view plain")
        _on_all_nodes(place, _looks(home, False))
        c.execute("alter table t rename to t2")
        c.execute("alter table t2 rename to t")
        c.execute("create or replace view grouped as select id, v, max(price) as p from t where k > 0 group by id")
        _on_all_nodes(place, _looks(home, False))


def test_all_or_nothing(place):
    with place.server.connect() as c, place.node_servers[0].connect() as home:
        looks, answers = _looks(home), _answers(c)
        c.execute("begin")
        c.execute("select create_distributed_table('t', 'id')")
        assert _answers(c) == answers
        c.execute("rollback")
        assert _looks(home) == looks and _answers(c) == answers and c.execute("select count(*) from herd.tables where name = 't'").fetchone() == (0,)
        # The second change fails: so does the first.
        c.execute("begin")
        c.execute("select create_distributed_table('t', 'id')")
        with pytest.raises(psycopg.Error):
            c.execute("select create_distributed_table('t', 'nothing')")
        c.execute("rollback")
        assert _looks(home) == looks and _answers(c) == answers
        c.execute("begin")
        c.execute("select create_distributed_table('t', 'id')")
        c.execute("create view later as select id from plain")
        c.execute("commit")
        assert _looks(home)[:1] == looks[:1] and _answers(c) == answers
        c.execute("drop view later")


def test_what_cannot_be_kept(place):
    """Each hint works when it is followed."""
    with place.server.connect() as c, place.node_servers[0].connect() as home:
        answers = _answers(c)

        def refused(error, match):
            looks = _looks(home)
            with pytest.raises(error, match=match) as e:
                c.execute("select create_distributed_table('t', 'id')")
            assert _looks(home) == looks and c.execute("select count(*) from herd.tables where name = 't'").fetchone() == (0,)
            return e.value.diag.message_hint

        c.execute("create materialized view m as select count(*) as n from upper")
        assert "create it again afterwards" in refused(psycopg.errors.FeatureNotSupported, 'materialized view "m" reads distributed table "t"')
        c.execute("drop materialized view m")
        c.execute("create function body() returns bigint language sql begin atomic select count(*) from plain; end")
        refused(psycopg.errors.DependentObjectsStillExist, "function public.body")
        c.execute("drop function body()")
        c.execute("create view rows_of as select t from t")
        refused(psycopg.errors.DependentObjectsStillExist, "view public.rows_of")
        c.execute("drop view rows_of")
        c.execute("create table l (k int)")
        c.execute("insert into l values (1)")
        c.execute("create view half as select p.id from plain p join l using (k)")
        c.execute("select create_reference_table('l')")
        c.execute("create rule nothing as on insert to invoked do instead select 1")
        refused(psycopg.errors.FeatureNotSupported, 'view "invoked" over "t" has a rule: "nothing"')
        c.execute("drop rule nothing on invoked")
        c.execute("select create_distributed_table('t', 'id')")
        assert _answers(c) == answers and c.execute("select count(*) from half").fetchone() == (40,)
        c.execute("create function body() returns int language sql begin atomic select id from plain where k = 2 order by id limit 1; end")
        c.execute("drop function body()")
        c.execute("create materialized view m as select count(*) as n from upper")
        with pytest.raises(psycopg.errors.DependentObjectsStillExist, match="materialized view public.m"):
            c.execute("select undistribute_table('t')")
        c.execute("drop materialized view m")
        c.execute("create table d (id int primary key)")
        c.execute("select create_distributed_table('d', 'id')")
        c.execute("create view mixed as select id from t join d using (id)")
        assert _answers(c) == answers
        c.execute("drop table d cascade")
        c.execute("drop view half")


def test_partitions_by_time(viewed):
    viewed.server.run(
        "create table m (id int not null, at date not null, v int, primary key (id, at)) partition by range (at)",
        "create table m_1 partition of m for values from ('2026-01-01') to ('2026-02-01')", "create table m_2 partition of m for values from ('2026-02-01') to ('2026-03-01')",
        "insert into m select g, date '2026-01-01' + g % 59, g from generate_series(1, 500) g",
        "create view all_of as select id, v from m", "create view first as select v from m_1", "create view two as select a.id, b.id as other from m_1 a join m_2 b using (v)",
        "create view over_all as select sum(a.v) as s, (select count(*) from first) as n from all_of a",
    )
    queries = ["select * from all_of order by 1", "select * from first order by 1", "select * from two", "select * from over_all"]
    with viewed.server.connect() as c, viewed.node_servers[0].connect() as home:
        looks, answers = _looks(home), [c.execute(q).fetchall() for q in queries]
        for call in ("create_distributed_table('m', 'id')", "undistribute_table('m')", "create_distributed_table('m', 'id')"):
            c.execute(f"select {call}")
            assert _looks(home) == looks and [c.execute(q).fetchall() for q in queries] == answers
        _on_all_nodes(viewed, [row[:2] + row[3:] for row in looks])
        c.execute("create table m_3 (id int not null, at date not null, v int, primary key (id, at))")
        c.execute("create view third as select id from m_3")
        with pytest.raises(psycopg.errors.DependentObjectsStillExist, match='view "third" is over a table that is to be a partition') as e:
            c.execute("alter table m attach partition m_3 for values from ('2026-03-01') to ('2026-04-01')")
        assert "colocate_with" in e.value.diag.message_hint
        c.execute("select create_distributed_table('m_3', 'id', colocate_with => 'm')")
        c.execute("alter table m attach partition m_3 for values from ('2026-03-01') to ('2026-04-01')")
        c.execute("insert into m values (9, '2026-03-09', 9)")
        assert c.execute("select * from third").fetchall() == [(9,)]
        c.execute("drop table m cascade")


def test_readers_go_on(place):
    """Who reads through a view while its table is distributed has the rows, and is in nobody's way."""
    seen, stop = [], threading.Event()

    def read():
        with place.server.connect() as r:
            while not stop.is_set():
                with r.transaction():
                    seen.append((r.execute("select count(*) from plain").fetchone(), r.execute("select count(*) from upper").fetchone()))

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    try:
        with place.server.connect() as c:
            for call in ("create_distributed_table('t', 'id')", "undistribute_table('t')", "create_reference_table('t')", "undistribute_table('t')"):
                c.execute(f"select {call}")
                time.sleep(0.3)
        deadline = time.monotonic() + 60
        while len(seen) <= 20 and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        stop.set()
        for reader in readers:
            reader.join()
    assert len(seen) > 20 and set(seen) == {((200,), (200,))}


def test_code_in_constants_runs_as_the_owner(viewed):
    """What reads a view's constants can run code of its owner's: never as who distributes the table."""
    viewed.server.run("create table said (who text)", "grant insert, select on said to public", "select create_reference_table('said')", "grant create on schema public to maker")
    try:
        with viewed.server.connect() as c:
            for sql in (
                "set role maker",
                "create function says() returns boolean language plpgsql as $$ begin insert into public.said values (current_user); return true; exception when others then return true; end $$",
                "create function plainly(int) returns boolean language sql immutable as 'select true'",
                "create domain checked as int check (plainly(value))", "create type pair as (a checked)", "reset role",
                "create table k (id int primary key, v int)", "grant select on k to maker", "insert into k values (1, 1)",
                "set role maker", "create view sly as select id, '(5)'::pair as p from k", "reset role",
                "revoke create on schema public from maker",
            ):
                c.execute(sql)
        # Behind the routers' back: what they would refuse.
        for node in viewed.node_servers:
            node.run("create or replace function plainly(int) returns boolean language plpgsql as $$ begin return public.says(); end $$")
        with viewed.server.connect() as c, viewed.node_servers[0].connect() as home:
            looks = _looks(home)
            c.execute("select create_reference_table('k')")
            c.execute("select undistribute_table('k')")
            assert _looks(home) == looks
            for node in viewed.node_servers:
                with node.connect() as direct:
                    assert "postgres" not in {row[0] for row in direct.execute("select who from said")}
    finally:
        viewed.server.run("drop table if exists k cascade", "drop type if exists pair cascade", "drop domain if exists checked", "drop function if exists plainly(int), says()", "drop table said")

"""Materialized views over distributed tables: whose query runs, with whose rights, and what others can put into them."""

import threading

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(180)]

_LEFT = "select count(*) from pg_class where relname like 'herd: rows of%'"


@pytest.fixture
def store(place):
    place.server.run(
        "create schema mats",
        "grant usage, create on schema mats to mallory, victim",
        "create table mats.sale (id int primary key, owner name, v int)",
        "select create_distributed_table('mats.sale', 'id')",
        "insert into mats.sale select g, case when g % 3 = 0 then 'mallory' else 'victim' end, g from generate_series(1, 60) g",
        "grant select on mats.sale to mallory, victim",
    )
    yield place
    place.server.run("drop schema mats cascade")


def test_rows_are_those_the_owner_may_see(store):
    store.server.run("alter table mats.sale enable row level security", "create policy own on mats.sale using (owner = current_user)")
    with store.as_role("mallory", autocommit=True) as c:
        c.execute("create materialized view mats.mine as select owner, count(*) from mats.sale group by 1")
        c.execute("grant select on mats.mine to victim")
        assert c.execute("select * from mats.mine").fetchall() == [("mallory", 20)]
    store.server.run("revoke select on mats.sale from mallory")
    with store.as_role("victim", autocommit=True) as c:
        assert c.execute("select * from mats.mine").fetchall() == [("mallory", 20)]
    with store.as_role("mallory", autocommit=True) as c:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            c.execute("refresh materialized view mats.mine")
        assert c.execute("select * from mats.mine").fetchall() == [("mallory", 20)]


def test_nobody_runs_the_query_of_another(store):
    """A superuser who refreshed it would run the owner's functions as himself: PostgreSQL runs them as the owner."""
    with store.as_role("mallory", autocommit=True) as c:
        c.execute("create function mats.who() returns name language plpgsql stable as $$ begin return session_user || '/' || current_user; end $$")
        c.execute("create materialized view mats.trap as select max(id) as id, min(mats.who()) as who from (select id from mats.sale order by id limit 5) s")
        mine = c.execute("select who from mats.trap").fetchone()
    with store.server.connect(autocommit=True) as c:
        with pytest.raises(psycopg.errors.FeatureNotSupported) as refused:
            c.execute("refresh materialized view mats.trap")
        hint = refused.value.diag.message_hint
        assert hint == "SET ROLE mallory first."
        assert c.execute("select who from mats.trap").fetchone() == mine
        c.execute(hint.removesuffix(" first."))
        c.execute("refresh materialized view mats.trap")
        assert c.execute("select who from mats.trap").fetchone() == ("postgres/mallory",)
    with store.as_role("victim", autocommit=True) as c, pytest.raises(psycopg.errors.InsufficientPrivilege):
        c.execute("set role mallory")


def test_nobody_has_the_name_of_its_rows_first(store):
    """What may be made in the view's schema keeps nobody from refreshing it, nor does a lock of who may read it."""
    with store.as_role("victim", autocommit=True) as c, store.as_role("mallory", autocommit=True) as hers:
        c.execute("create materialized view mats.squat as select count(*) from mats.sale")
        hers.execute('create table mats."herd: rows of squat" (count bigint)')
        c.execute("refresh materialized view mats.squat")
        hers.execute('drop table mats."herd: rows of squat"')
        hers.execute("begin")
        hers.execute('create table mats."herd: rows of squat" (count bigint)')
        c.execute("set lock_timeout = '5s'")
        c.execute("refresh materialized view mats.squat")
        c.execute("alter materialized view mats.squat set (fillfactor = 50)")
        c.execute("refresh materialized view mats.squat")
        assert c.execute("select reloptions from pg_class where oid = 'mats.squat'::regclass").fetchone() == (["fillfactor=50"],)


def test_code_of_the_query_leaves_no_role(store):
    """PostgreSQL lets a view's query change neither role nor settings, so a superuser may become the owner and refresh it."""
    store.server.run("create table mats.secret (word text)", "insert into mats.secret values ('secret')")
    with store.as_role("mallory", autocommit=True) as c:
        c.execute("create function mats.rise() returns text language plpgsql stable as $$ begin return 'nothing'; end $$")
        c.execute("create materialized view mats.rising as select max(id) as id, min(mats.rise()) as word from (select id from mats.sale order by id limit 5) s")
        c.execute(
            "create or replace function mats.rise() returns text language plpgsql stable as $$ begin "
            "perform set_config('role', 'none', true); return (select word from mats.secret); end $$"
        )
    for become in ("set role mallory", "set session authorization mallory"):
        with store.server.connect(autocommit=True) as c:
            c.execute(become)
            with pytest.raises(psycopg.errors.FeatureNotSupported):
                c.execute("refresh materialized view mats.rising")
            assert c.execute("select current_user").fetchone() == ("mallory",)
            assert c.execute("select word from mats.rising").fetchone() == ("nothing",)


def test_past_the_router_nothing_is_refreshed(store):
    with store.as_role("mallory", autocommit=True) as c:
        c.execute("create materialized view mats.kept as select count(*) from mats.sale")
    with store.on_node(0, autocommit=True) as home:
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
            home.execute("refresh materialized view mats.kept")
        # Rows of anybody but the owner's are not taken.
        home.execute("create table mats.false as select 1::bigint as count")
        home.execute("select set_config('herd.materialized_rows', 'mats.false'::regclass::oid::text, false)")
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
            home.execute("refresh materialized view mats.kept")
        # Nor another table of the owner's: whom he lets refresh the view (MAINTAIN) would choose what is shown by it.
        home.execute("alter table mats.false owner to mallory")
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
            home.execute("refresh materialized view mats.kept")
        assert home.execute("select * from mats.kept").fetchone() == (60,)
    with store.as_role("mallory", autocommit=True) as c, pytest.raises(psycopg.Error):
        c.execute("set herd.materialized_rows = '1'")


def test_beside_each_other_and_other_changes(store):
    """Who refreshes waits for others who do; others' changes of the schema, and readers of the view, do not fail beside it."""
    store.server.run("create materialized view mats.busy as select id % 5 as v, count(*) from mats.sale group by 1", "create unique index on mats.busy (v)")
    failed = []

    def work(statements, times):
        try:
            with store.server.connect(autocommit=True) as c:
                for _ in range(times):
                    for statement in statements:
                        c.execute(statement)
        except Exception as error:  # noqa: BLE001
            failed.append(error)

    jobs = [
        (["refresh materialized view mats.busy", "refresh materialized view concurrently mats.busy"], 5),
        (["refresh materialized view concurrently mats.busy", "select sum(count) from mats.busy"], 8),
        (["create table mats.x (a int)", "alter table mats.x add b int", "drop table mats.x"], 5),
        (["alter table mats.sale add more int default 1", "alter table mats.sale drop more"], 4),
        (["insert into mats.sale select 1000 + (random() * 1e6)::int on conflict do nothing"], 40),
    ]
    threads = [threading.Thread(target=work, args=job) for job in jobs]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert failed == []
    store.server.run("refresh materialized view mats.busy")
    with store.server.connect() as c:
        assert c.execute("select sum(count) from mats.busy").fetchone() == c.execute("select count(*) from mats.sale").fetchone()
    with store.on_node(0) as home:
        assert home.execute(_LEFT).fetchone() == (0,)

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
        c.execute("create materialized view mats.plain as select count(*) from mats.sale")
    with store.server.connect(autocommit=True) as c:
        with pytest.raises(psycopg.errors.FeatureNotSupported) as refused:
            c.execute("refresh materialized view mats.trap")
        assert refused.value.diag.message_hint == "Log in as the owner, mallory."
        with pytest.raises(psycopg.errors.FeatureNotSupported) as refused:
            c.execute("refresh materialized view mats.plain")
        hint = refused.value.diag.message_hint
        assert hint == "SET ROLE mallory first."
        c.execute(hint.removesuffix(" first."))
        c.execute("refresh materialized view mats.plain")
        with pytest.raises(psycopg.errors.FeatureNotSupported) as refused:
            c.execute("refresh materialized view mats.trap")
        assert refused.value.diag.message_hint == "Log in as the owner, mallory."
        assert c.execute("select who from mats.trap").fetchone() == ("mallory/mallory",)
    with store.as_role("mallory", autocommit=True) as c:
        c.execute("refresh materialized view mats.trap")
    with store.as_role("victim", autocommit=True) as c, pytest.raises(psycopg.errors.InsufficientPrivilege):
        c.execute("set role mallory")


_ROWS = "create table mats.mine (id int primary key, v int); select create_distributed_table('mats.mine', 'id'); insert into mats.mine values (1, 1), (2, 2)"
_FUNCTION = "create function mats.f(int) returns int language plpgsql immutable as $$ begin return $1; end $$"
_LENT = {
    "a function": [_FUNCTION, "create materialized view mats.m as select mats.f(v) from mats.mine"],
    "an aggregate": [
        "create aggregate mats.added(int) (sfunc = int4pl, stype = int)",
        "create materialized view mats.m as select mats.added(v) from mats.mine where id = 1",
    ],
    "a setting of the function's": [
        "create function mats.g() returns name language plpgsql stable set role = 'none' as $$ begin return current_user; end $$",
        "create materialized view mats.m as select mats.g(), count(*) from mats.mine",
    ],
    "text of the function's": [
        r"""create function mats.g() returns name language plpgsql as
            $f$ begin do E'begin s\x65t local role none; end'; return current_user; end $f$""",
        "create materialized view mats.m as select mats.g(), v from mats.mine where id = 1",
    ],
    "views": [
        _FUNCTION,
        "create view mats.inner as select mats.f(v) as v from mats.mine",
        "create view mats.outer as select v from mats.inner",
        "create materialized view mats.m as select v from mats.outer",
    ],
    "an operator": [
        _FUNCTION,
        "create function mats.add(int, int) returns int language sql immutable as 'select $1'",
        "create operator mats.+* (leftarg = int, rightarg = int, function = mats.add)",
        "create materialized view mats.m as select id operator(mats.+*) v as x from mats.mine",
    ],
    "a domain": [
        _FUNCTION,
        "create domain mats.d as int check (mats.f(value) > 0)",
        "create materialized view mats.m as select v::mats.d from mats.mine",
    ],
    "a domain in an array": [
        _FUNCTION,
        "create domain mats.d as int check (mats.f(value) > 0)",
        "create materialized view mats.m as select id, '{1}'::mats.d[] as a from mats.mine",
    ],
    # PostgreSQL writes down nowhere that it depends on the type.
    "a domain that JSON_VALUE is told": [
        _FUNCTION,
        "create domain mats.d as int check (mats.f(value) > 0)",
        """create materialized view mats.m as select json_value('{"a": 1}'::jsonb, '$.a' returning mats.d error on empty error on error)::int as x
           from mats.mine where id = 1""",
    ],
    "a domain in a row that JSON_QUERY is told": [
        _FUNCTION,
        "create domain mats.d as int check (mats.f(value) > 0)",
        "create table mats.rows (x mats.d)",
        """create materialized view mats.m as select json_query('{"x": 1}'::jsonb, '$' returning mats.rows error on empty error on error)::text as x
           from mats.mine where id = 1""",
    ],
    "an index": [_FUNCTION, "create index on mats.mine (mats.f(v))", "create materialized view mats.m as select v from mats.mine"],
    "a policy": [
        _FUNCTION,
        "alter table mats.mine enable row level security",
        "alter table mats.mine force row level security",
        "create policy p on mats.mine using (mats.f(v) > 0)",
        "create materialized view mats.m as select v from mats.mine",
    ],
    "a CHECK": [
        _FUNCTION,
        "alter table mats.mine add check (mats.f(v) > 0)",
        "create materialized view mats.m as select v from mats.mine",
    ],
}


@pytest.mark.parametrize("what", _LENT)
def test_no_login_is_lent_to_code(store, what):
    """Nothing keeps code in a view's query from RESET ROLE but PostgreSQL's REFRESH, which runs it on one server."""
    if "JSON" in what and store.server.connect().info.server_version < 170000:
        pytest.skip("JSON_VALUE needs PostgreSQL 17")
    with store.server.connect(autocommit=True) as c:
        for statement in _ROWS.split("; "):
            c.execute(statement)
        c.execute("alter table mats.mine owner to mallory")
    with store.as_role("mallory", autocommit=True) as c:
        for statement in _LENT[what]:
            c.execute(statement)
        rows = c.execute("select * from mats.m").fetchall()
    for become in ("set role mallory", "set session authorization mallory"):
        with store.server.connect(autocommit=True) as c:
            c.execute(become)
            with pytest.raises(psycopg.errors.FeatureNotSupported) as refused:
                c.execute("refresh materialized view mats.m")
            # Code that runs texts is refused to its owner's login, too.
            hint = None if what == "text of the function's" else "Log in as the owner, mallory."
            assert refused.value.diag.message_hint == hint
            query = _LENT[what][-1].partition(" as ")[2]
            with pytest.raises(psycopg.errors.FeatureNotSupported) as refused:
                c.execute(f"create materialized view mats.another as {query}")
            assert refused.value.diag.message_hint == "Log in as the owner, mallory."
            assert c.execute("select * from mats.m").fetchall() == rows


def test_deferred_triggers_of_the_query_meet_no_superuser(store):
    """What a function of the query writes would be looked at by its table's triggers at COMMIT, when the superuser is himself again."""
    with store.as_role("mallory", autocommit=True) as c:
        c.execute("create table mats.log (who name)")
        c.execute("create table mats.seen (who name)")
        c.execute(
            "create function mats.late() returns trigger language plpgsql as $$ begin insert into mats.seen values (current_user); return null; end $$"
        )
        c.execute(
            "create constraint trigger late after insert on mats.log deferrable initially deferred for each row execute function mats.late()"
        )
        c.execute("create function mats.w() returns int language plpgsql as $$ begin insert into mats.log values (current_user); return 1; end $$")
        c.execute("create function mats.st() returns int language plpgsql stable as $$ begin return mats.w(); end $$")
        c.execute("create materialized view mats.m as select mats.st() as x, v from mats.sale where id = 1")
    with store.server.connect() as c:
        c.execute("set role mallory")
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            c.execute("refresh materialized view mats.m")
        c.execute("rollback")
        assert c.execute("select * from mats.seen where who <> 'mallory'").fetchall() == []


def test_no_code_no_refusal(store):
    """PostgreSQL's own functions, enums, and views of other owners lend nobody anything."""
    store.server.run(
        "create type mats.mood as enum ('good', 'bad')",
        "create view mats.shown as select id, owner, v from mats.sale where v > 0",
        "grant select on mats.shown to mallory",
    )
    with store.as_role("mallory", autocommit=True) as c:
        c.execute(
            "create materialized view mats.fine as select upper(owner::text) as owner, count(*) as n, min('good'::mats.mood) as mood, "
            "array_agg(distinct v order by v) as v, row_number() over () as r from mats.shown group by 1"
        )
    store.server.run("delete from mats.sale where id > 30")
    for become in ("set role mallory", "set session authorization mallory"):
        with store.server.connect(autocommit=True) as c:
            c.execute(become)
            c.execute("refresh materialized view mats.fine")
            assert c.execute("select owner, n from mats.fine order by 1").fetchall() == [("MALLORY", 10), ("VICTIM", 20)]
            c.execute("create materialized view mats.fine2 as select owner, count(*) from mats.sale group by 1")
            c.execute("drop materialized view mats.fine2")


def test_nobody_has_the_name_of_its_rows_first(store):
    """What may be made in the view's schema keeps nobody from refreshing it, nor does a lock of who may read it."""
    with store.as_role("victim", autocommit=True) as c, store.as_role("mallory", autocommit=True) as hers:
        c.execute("create materialized view mats.squat as select count(*) from mats.sale")
        hers.execute('create table mats."herd: rows of squat" (count bigint)')
        c.execute("refresh materialized view mats.squat")
        hers.execute('drop table mats."herd: rows of squat"')
        hers.execute("begin")
        hers.execute('create table mats."herd: rows of squat" (count bigint)')
        c.execute("set lock_timeout = '30s'")
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

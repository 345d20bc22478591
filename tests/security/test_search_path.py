"""Unqualified names are looked up in those schemas of the search path that one may use, as in PostgreSQL, however a statement travels."""

import time

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(180)]

_SCHEMAS = ("vault", "shelf")
_PATH = "set search_path = vault, shelf"


@pytest.fixture(params=["distributed", "local"])
def two(place, request):
    """`vault.t` and `shelf.t`: everybody has rights to both tables, and to the schema `shelf`."""
    with place.server.connect() as admin:
        for schema in _SCHEMAS:
            admin.execute(f"create schema {schema}")
            admin.execute(f"create table {schema}.t (k int primary key, v text)")
            if request.param == "distributed":
                admin.execute(f"select create_distributed_table('{schema}.t', 'k')")
            admin.execute(f"insert into {schema}.t select i, '{schema}' from generate_series(1, 20) i")
            admin.execute(f"create view {schema}.w as select k, v from {schema}.t")
            admin.execute(f"create function {schema}.f() returns text language sql immutable as $$ select '{schema}' $$")
            admin.execute(f"grant all on {schema}.t, {schema}.w to mallory, victim")
        admin.execute("grant usage on schema shelf to mallory, victim")
        yield admin
        for schema in _SCHEMAS:
            admin.execute(f"drop schema {schema} cascade")


@pytest.fixture
def mallory(place, two):
    with place.as_role("mallory") as conn:
        conn.execute(_PATH)
        yield conn


_READS = (
    "select v from t where k = 3",
    "select distinct v from t",
    "select min(v) from t where k in (1, 2, 3, 4, 5)",
    "select v from w where k = 3",
    "select max(v) from w",
    "select max(a.v) from t a join t b using (k)",
    "with x as (select v from t where k < 9) select max(v) from x",
    "select max(f()) from t",
    "select v || '' from t where k = 4 and v = f()",
)


def _seen(conn: psycopg.Connection) -> set:
    """What each way of reading says: as a string, as a prepared statement, by a cursor, by COPY."""
    seen = set()
    for sql in _READS:
        seen |= set(conn.execute(sql).fetchall()) | set(conn.execute(sql, prepare=True).fetchall())
    seen |= set(conn.execute("select v from t where k = %s", (5,), prepare=True).fetchall())
    with conn.transaction(), conn.cursor("c") as cursor:
        seen |= set(cursor.execute("select v from t order by k").fetchall())
    with conn.cursor().copy("copy t (v) to stdout") as copy:
        seen |= {tuple(row) for row in copy.rows()}
    return {v for (v,) in seen}


def test_a_schema_one_may_not_use_is_left_out(two, mallory):
    assert _seen(mallory) == {"shelf"}
    assert mallory.execute("select current_schemas(false)").fetchone() == (["shelf"],)
    for sql in ("select v from vault.t where k = 1", "select max(v) from vault.t", "delete from vault.t"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            mallory.execute(sql)
    mallory.execute("set search_path = vault")
    for sql in (*_READS[:3], "insert into t values (99, '')", "delete from t", "update t set v = ''", "truncate t"):
        with pytest.raises(psycopg.errors.UndefinedTable):
            mallory.execute(sql)
    assert two.execute("select count(*), min(v), max(v) from vault.t").fetchone() == (20, "vault", "vault")


def test_writes_reach_what_one_may_use(two, mallory):
    mallory.execute("update t set v = 'x' where k = 1")
    mallory.execute("update t set v = 'x' where k in (2, 3, 4, 5, 6)")
    mallory.execute("delete from t where k = 7")
    mallory.execute("delete from t where v = f() and k between 8 and 12")
    mallory.execute("insert into t values (30, 'x')")
    mallory.execute("insert into t values (31, 'x'), (32, 'x'), (33, 'x')")
    mallory.execute("insert into t select k + 100, v from t where k < 30")
    with mallory.cursor().copy("copy t from stdin") as copy:
        for k in range(40, 50):
            copy.write_row((k, "y"))
    assert two.execute("select count(*), min(v), max(v) from vault.t").fetchone() == (20, "vault", "vault")
    # 20 and 4 rows more, less 6, twice those under 30 (14), and 10.
    assert two.execute("select count(*) from shelf.t").fetchone() == (14 + 4 + 14 + 10,)


def test_grants_are_followed(two, mallory):
    assert _seen(mallory) == {"shelf"}
    two.execute("grant usage on schema vault to mallory")
    assert _seen(mallory) == {"vault"}
    two.execute("revoke usage on schema vault from mallory")
    assert _seen(mallory) == {"shelf"}
    two.execute("create role keepers")
    try:
        two.execute("grant usage on schema vault to keepers")
        two.execute("grant keepers to mallory")
        assert _seen(mallory) == {"vault"}
        two.execute("revoke keepers from mallory")
        assert _seen(mallory) == {"shelf"}
    finally:
        two.execute("drop owned by keepers")
        two.execute("drop role keepers")
    two.execute("grant usage on schema vault to public")
    assert _seen(mallory) == {"vault"}
    two.execute("revoke usage on schema vault from public")
    assert _seen(mallory) == {"shelf"}


def test_grants_past_the_routers_are_followed_within_seconds(place, two, mallory):
    def follows(wanted: str) -> bool:
        for _ in range(600):
            if mallory.execute("select v from t where k = 3").fetchone() == (wanted,):
                return True
            time.sleep(0.1)
        return False

    for change, wanted in (("grant usage on schema vault to", "vault"), ("revoke usage on schema vault from", "shelf")):
        for number in (1, 2, 0):
            with place.on_node(number) as node:
                node.execute(f"{change} mallory")
        assert follows(wanted)


def test_a_transaction_sees_its_own_grants(two):
    two.execute(_PATH)
    with two.transaction(force_rollback=True):
        two.execute("set local role victim")
        assert _local(two) == {"shelf"}
        two.execute("reset role")
        two.execute("grant usage on schema vault to victim")
        two.execute("set local role victim")
        assert _local(two) == {"vault"}
        two.execute("reset role")
        two.execute("revoke usage on schema vault from victim")
        two.execute("set local role victim")
        assert _local(two) == {"shelf"}
    # A superuser again.
    assert _seen(two) == {"vault"}
    two.execute("set search_path = public")


def _local(conn: psycopg.Connection) -> set:
    return {v for sql in _READS for (v,) in conn.execute(sql).fetchall()}


def test_the_role_of_the_moment_counts(two):
    two.execute(_PATH)
    assert _seen(two) == {"vault"}
    two.execute("set role mallory")
    assert _seen(two) == {"shelf"}
    two.execute("reset role")
    assert _seen(two) == {"vault"}
    two.execute("set session authorization mallory")
    assert _seen(two) == {"shelf"}
    two.execute("reset session authorization")
    with two.transaction():
        two.execute("set local role mallory")
        assert _local(two) == {"shelf"}
    assert _seen(two) == {"vault"}
    two.execute("select set_config('role', 'mallory', false)")
    assert _seen(two) == {"shelf"}
    two.execute("reset role")
    two.execute("do $$ begin execute 'set role mallory'; end $$")
    assert _seen(two) == {"shelf"}
    two.execute("reset role")
    two.execute("set search_path = public")


def test_a_schema_of_ones_own_name(place, two, mallory):
    """`"$user"` is left out, too, where its owner may not use it any more."""
    two.execute("create schema mallory authorization mallory")
    try:
        two.execute("create table mallory.t (k int, v text)")
        two.execute("insert into mallory.t select i, 'own' from generate_series(1, 20) i")
        two.execute("alter table mallory.t owner to mallory")
        mallory.execute('set search_path = "$user", vault, pg_temp, not_there, shelf')
        assert mallory.execute("select v from t where k = 3").fetchone() == ("own",)
        two.execute("revoke all on schema mallory from mallory")
        assert mallory.execute("select v from t where k = 3").fetchone() == ("shelf",)
        mallory.execute("create temporary table t (k int, v text)")
        mallory.execute("insert into t values (3, 'temporary')")
        assert mallory.execute("select v from t where k = 3").fetchone() == ("temporary",)
    finally:
        two.execute("drop schema mallory cascade")


def test_new_things_go_where_postgresql_puts_them(two, mallory):
    two.execute("grant create on schema vault, shelf to mallory")
    mallory.execute("create table made (a int)")
    assert two.execute("select relnamespace::regnamespace::text from pg_class where relname = 'made'").fetchall() == [("shelf",)]
    mallory.execute("alter table made add column b int")
    mallory.execute("drop table made")

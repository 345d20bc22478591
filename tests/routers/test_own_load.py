"""What a transaction has loaded of the catalog for itself is its router's afterwards, unless somebody else came between."""

import time

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("routers")]

CALLS = "select coalesce(sum(calls), 0) from pg_stat_user_functions where schemaname = 'herd' and funcname = 'definitions'"


@pytest.fixture(scope="module")
def counted(pair):
    """Home counts calls of functions: each load asks for the herd's definitions once."""
    with pair.nodes[0].server.connect() as home:
        home.execute("alter system set track_functions = 'pl'")
        home.execute("select pg_reload_conf()")
        time.sleep(0.5)
        yield home
        home.execute("alter system reset track_functions")
        home.execute("select pg_reload_conf()")


def loads(home):
    """An idle backend reports what it has counted after 10 s (PGSTAT_IDLE_INTERVAL in PostgreSQL's pgstat.c)."""
    time.sleep(11)
    return home.execute(CALLS).fetchone()[0]


@pytest.fixture
def clean(pair):
    def drop():
        pair.a.run("drop table if exists own_a, own_b, own_c, own_seen cascade")

    drop()
    yield
    drop()


def test_one_load_a_statement_on_each_router(pair, counted, clean):
    with pair.a.connect() as a:
        a.execute("create table own_a (k int primary key)")
        a.execute("select create_distributed_table('own_a', 'k')")
        before = loads(counted)
        for n in range(10):
            a.execute(f"alter table own_a add column c{n} int")
        # The transaction's own, and the other router's.
        assert loads(counted) - before <= 2 * 10 + 2
        a.execute("insert into own_a (k, c9) values (1, 9), (2, 9), (3, 9)")
        assert a.execute("select sum(c9) from own_a").fetchone() == (27,)


def test_what_others_have_committed_meanwhile_is_seen(pair, clean):
    with pair.a.connect() as a, pair.a.connect() as other, pair.b.connect() as b:
        a.execute("create table own_c (k int primary key, v int)")
        a.execute("select create_distributed_table('own_c', 'k')")
        a.execute("insert into own_c select g, g from generate_series(1, 20) g")
        for n, who in enumerate((other, b)):
            table = f"own_{'ab'[n]}"
            a.execute("begin")
            a.execute(f"create table {table} (k int primary key)")
            who.execute(f"alter table own_c add column c{n} int default {n}")
            who.execute(f"alter table own_c rename v to v{n}")
            a.execute("commit")
            for session in (a, other, b):
                assert session.execute(f"select sum(v{n}), sum(c{n}) from own_c").fetchone() == (210, 20 * n)
                assert session.execute(f"select v{n} from own_c where k = 7").fetchone() == (7,)
                assert session.execute(f"select count(*) from {table}").fetchone() == (0,)
            a.execute(f"alter table own_c rename v{n} to v")


def test_in_a_block_the_last_change_counts(pair, clean):
    with pair.a.connect() as a, pair.a.connect() as other:
        a.execute("begin")
        a.execute("create table own_a (k int primary key)")
        a.execute("insert into own_a values (1)")
        a.execute("savepoint s")
        a.execute("create table own_b (k int)")
        a.execute("rollback to savepoint s")
        a.execute("commit")
        assert other.execute("select count(*) from own_a").fetchone() == (1,)
        with pytest.raises(psycopg.errors.UndefinedTable):
            other.execute("select * from own_b")
        # A function's own change is not the router's to load; what comes with the commit is seen all the same.
        a.execute("begin")
        a.execute("create table own_b (k int primary key, v int)")
        a.execute("do $$ begin execute 'alter table own_b add column w int default 7'; end $$")
        a.execute("insert into own_b values (1, 2)")
        a.execute("commit")
        assert other.execute("select * from own_b").fetchone() == (1, 2, 7)


def test_temporary_objects_of_who_has_loaded_are_not_everybodys(pair, clean):
    with pair.a.connect() as a, pair.a.connect() as other:
        a.execute("create temp sequence own_values start 100")
        a.execute("create table own_a (k int primary key, v int)")
        a.execute("create sequence public.own_values2")
        a.execute("create temp table own_seen (k int)")
        a.execute("create table own_b (k int primary key, v int default 5)")
        other.execute("create table own_seen (k int, here int)")
        other.execute("insert into own_seen values (1, 2)")
        assert other.execute("select * from own_seen").fetchone() == (1, 2)
        assert a.execute("select * from own_seen").fetchall() == []
        other.execute("insert into own_b (k) values (1)")
        assert a.execute("select * from own_b").fetchone() == (1, 5)
        a.execute("drop sequence public.own_values2")


def test_names_that_change_kinds(pair, clean):
    """A rename raises `kinds` at the commit: what was planned before is not run by the old name, nor refused for ever."""
    with pair.a.connect() as a, pair.a.connect() as other:
        a.execute("create table own_a (k int primary key, v int)")
        a.execute("select create_distributed_table('own_a', 'k')")
        a.execute("create table own_b (k int primary key, v int)")
        for n in range(6):
            a.execute("alter table own_a rename to own_c")
            other.execute("insert into own_c values (%s, 1), (%s, 1), (%s, 1)", (3 * n, 3 * n + 1, 3 * n + 2))
            a.execute("insert into own_b values (%s, 1)", (n,))
            assert other.execute("select count(*) from own_c").fetchone() == (3 * n + 3,)
            a.execute("alter table own_c rename to own_a")
            assert other.execute("select count(*) from own_a").fetchone() == (3 * n + 3,)
        assert other.execute("select count(*) from own_b").fetchone() == (6,)


def test_what_is_not_judged_is_there_for_the_next_statement(pair, clean):
    """In one string, in one pipeline, and behind a failed statement of the same."""
    with pair.a.connect() as a, pair.b.connect() as b:
        a.execute("create table own_a (k int primary key)")
        a.execute("select create_distributed_table('own_a', 'k')")
        a.execute("alter table own_a add column v int default 3; insert into own_a values (1), (2), (3), (4); "
                  "create table own_b (k int); insert into own_b values (7)")
        for session in (a, b):
            assert session.execute("select sum(v) from own_a").fetchone() == (12,)
            assert session.execute("select k from own_b").fetchone() == (7,)
        with a.pipeline():
            a.execute("alter table own_a add column w int")
            changed = a.execute("update own_a set w = k")
            seen = a.execute("select sum(w) from own_a")
        assert (changed.rowcount, seen.fetchone()) == (4, (10,))
        with pytest.raises(psycopg.errors.UndefinedColumn):
            a.execute("alter table own_a add column x int; select y from own_a")
        with pytest.raises(psycopg.errors.UndefinedColumn):
            a.execute("select x from own_a")
        a.execute("alter table own_a add column x int default 1")
        assert b.execute("select sum(x) from own_a").fetchone() == (4,)


def test_a_name_that_code_has_is_judged(pair, clean):
    with pair.a.connect() as a:
        a.execute("create table own_a (k int primary key)")
        a.execute("select create_distributed_table('own_a', 'k')")
        a.execute("create function own_reads() returns bigint language plpgsql as 'begin return (select count(*) from own_seen); end'")
        try:
            a.execute("alter table own_a add column v bigint default own_reads()")
            with pytest.raises(psycopg.errors.FeatureNotSupported):
                a.execute("create table own_seen (k int)")
            a.execute("create table own_b (k int)")
        finally:
            a.execute("drop function own_reads() cascade")

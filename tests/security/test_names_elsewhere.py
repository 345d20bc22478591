"""What somebody makes in a schema of his own is nothing to those whose search path does not have it: neither refused nor slowed."""

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(180)]

_MADE = (
    "create type hers.et as (a int)",
    "create function hers.eq(hers.et, hers.et) returns bool language plpgsql as $$ begin execute 'select 1'; return true; end $$",
    "create operator hers.= (leftarg = hers.et, rightarg = hers.et, function = hers.eq)",
    "create function hers.upper(hers.et) returns text language plpgsql as $$ begin execute 'select 1'; return ''; end $$",
    "create function hers.now(hers.et) returns text language plpgsql as $$ begin execute 'select 1'; return ''; end $$",
    "create table hers.tt (a int)",
    "create function hers.v(hers.tt) returns int language plpgsql as $$ begin execute 'select 1'; return 1; end $$",
    "create function hers.runs(int) returns bool language plpgsql as $$ begin execute 'select 1'; return true; end $$",
    "create domain hers.whole as int check (hers.runs(value))",
    "create view hers.near as select hers.runs(1)",
)
_STATEMENTS = (
    "select v from plain.d where k = 1",
    "update plain.d set v = v where k = 1",
    "select count(*) from plain.d where v = '3'",
    "select count(*) from plain.d a join plain.d b using (k)",
    "select case v when '3' then 1 end from plain.d where k = 3",
    "update plain.r set v = upper(v)",
    "select upper(v), now() is null from plain.d where k = 2",
    "select x.v from plain.d x where k = 2",
    "select 3::whole, count(*) from plain.d",
    "select count(*) from near, plain.d",
)


def test_code_in_anothers_schema_is_nobodys_business(place):
    place.server.run(
        "create schema plain", "create table plain.d (k int primary key, v text)", "select create_distributed_table('plain.d', 'k')",
        "create table plain.r (k int primary key, v text)", "select create_reference_table('plain.r')",
        "create domain plain.whole as int", "create table plain.near (a int)", "select create_reference_table('plain.near')",
        "insert into plain.d select g, g from generate_series(1, 20) g", "insert into plain.r select g, g from generate_series(1, 9) g",
    )  # fmt: skip
    try:
        with place.as_role("mallory") as mallory:
            for sql in _MADE:
                mallory.execute(sql)
        with place.server.connect() as boss:
            boss.execute("set search_path = plain, public")
            for sql in _STATEMENTS:
                for prepare in (False, True):
                    boss.execute(sql, prepare=prepare)
            # Whoever looks there, or names it, is told.
            boss.execute("set search_path = hers, plain")
            with pytest.raises(psycopg.errors.FeatureNotSupported):
                boss.execute("select v from plain.d where k = 1")
            # What it runs on home is watched there: it does not use the herd's tables.
            assert boss.execute("select count(*) from hers.near, plain.d").fetchall() == [(20,)]
    finally:
        place.server.run("drop schema plain cascade", "drop schema hers cascade", "create schema hers authorization mallory")

"""Code that runs text it puts together may not hang where no statement shows that it runs: on domains, indexes, deferred triggers.
What it does to roles, rights and tables would be done on home alone."""

import re

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(180)]

_MADE = (
    "drop schema if exists uw cascade",
    "drop role if exists uw_boss, uw_bob",
    "create schema uw",
    "create role uw_boss",
    "create role uw_bob",
    "grant uw_boss to uw_bob",
    "create table uw.d (k int primary key, v int)",
    "select create_distributed_table('uw.d', 'k')",
    "create function uw.dyn(bigint) returns bool language plpgsql as $$ begin execute replace('revoke uw_boss, from uw_bob', ',', ''); return true; end $$",
    "create function uw.calls(bigint) returns bigint language plpgsql immutable as $$ begin perform uw.dyn($1); return $1; end $$",
    "create function uw.plain(bigint) returns bool language plpgsql immutable as $$ begin return $1 > 0; end $$",
    "create function uw.late() returns trigger language plpgsql as $$ begin execute replace('revoke uw_boss, from uw_bob', ',', ''); return null; end $$",
    "create table uw.lo (a int)",
    "insert into uw.lo values (1)",
)


@pytest.fixture
def made(herd_many):
    herd = herd_many.server
    herd.run(*_MADE)
    yield herd
    herd.run("drop schema uw cascade", "drop role uw_boss, uw_bob")


def _is_member_everywhere(herd_many) -> bool:
    members = []
    for node in herd_many.node_servers:
        with node.connect() as direct:
            members.append(direct.execute("select pg_has_role('uw_bob', 'uw_boss', 'member')").fetchone()[0])
    assert len(set(members)) == 1, members
    return members[0]


_REFUSED = {
    "a domain": ("create domain uw.dom as int check (uw.dyn(value))",),
    "a condition of a domain": ("create domain uw.dom as int", "alter domain uw.dom add check (uw.dyn(value))"),
    "an index": ("create index on uw.lo (uw.calls(a))",),
    "part of an index": ("create index on uw.lo (a) where uw.calls(a) > 0",),
    "a deferred trigger": ("create constraint trigger late after insert on uw.lo deferrable initially deferred for each row execute function uw.late()",),
    "a trigger that may be deferred": ("create constraint trigger late after insert on uw.lo deferrable for each row execute function uw.late()",),
    "a deferred trigger that changes tables": (
        "create function uw.adds() returns trigger language plpgsql as $$ begin execute 'alter table uw.lo add column late int'; return null; end $$",
        "create constraint trigger late after insert on uw.lo deferrable initially deferred for each row execute function uw.adds()",
    ),
    "a temporary domain": ("create domain pg_temp.dom as int check (uw.dyn(value))",),
    "a temporary table": ("create temp table tt (a int check (uw.dyn(a)))",),
    "a function replaced": (
        "create domain uw.dom as int check (uw.plain(value))",
        "create or replace function uw.plain(bigint) returns bool language plpgsql immutable as $$ begin perform uw.dyn($1); return true; end $$",
    ),
}


@pytest.mark.parametrize("what", _REFUSED)
def test_refused_when_it_is_made(made, herd_many, what):
    *before, last = _REFUSED[what]
    with made.connect() as one:
        for sql in before:
            one.execute(sql)
        with pytest.raises(psycopg.errors.FeatureNotSupported) as refused:
            one.execute(last)
        assert re.search("puts? together|change the catalog", refused.value.diag.message_primary), refused.value
        assert refused.value.diag.message_hint
    assert _is_member_everywhere(herd_many)


_GOES_ON = (
    "create domain uw.dom as int check (uw.plain(value))",
    "select * from jsonb_to_record('{\"a\": 5}') as x(a uw.dom)",
    "create index on uw.lo (uw.plain(a))",
    "create temp table tt (a uw.dom, b int check (uw.plain(b)))",
    "insert into tt values (1, 2)",
    "create function uw.none() returns trigger language plpgsql as $$ begin return null; end $$",
    "create constraint trigger late after insert on uw.lo deferrable initially deferred for each row execute function uw.none()",
    "insert into uw.lo values (2)",
    "create trigger now after delete on uw.lo for each row execute function uw.late()",
    "alter table uw.lo add column b int",
    "alter table uw.lo alter a type bigint",
    "vacuum analyze uw.lo",
)


def test_other_code_goes_on(made, herd_many):
    with made.connect() as one:
        for sql in _GOES_ON:
            one.execute(sql)
    assert _is_member_everywhere(herd_many)


def test_conditions_that_are_validated_are_watched(made, herd_many):
    with made.connect() as one:
        one.execute("alter table uw.lo add check (uw.dyn(a)) not valid")
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            one.execute("alter table uw.lo validate constraint lo_a_check")
        one.execute("alter table uw.lo add column b int")
    assert _is_member_everywhere(herd_many)

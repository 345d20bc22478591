"""What code leaves in the session reaches nobody else, wherever the code that leaves it is called from and however its text is written:
in a string with escapes, in one that goes on in the next line, in a function that a function makes, under a search path that makes
tables temporary ones. And code that can leave nothing costs no connection a reset."""

import time

import pytest

from security.test_left_behind import _DROP, _client, _looked, _nothing_is_left, _prepare, _run

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("security")]

_ESCAPED = (
    r"E'begin perform \x73et_config(\x27app.left\x27, \x27x\x27, false), \x73et_config(\x27work_mem\x27, \x277MB\x27, false), pg_adv\x69sory_lock(77); end'"
)
_CONTINUED = """'begin perform s'
'et_config(''app.left'', ''x'', false), s'
'et_config(''work_mem'', ''7MB'', false), pg_adv'
'isory_lock(77); end'"""
_ZZ = "create table if not exists zz (a int)"


def _plpgsql(name: str, body: str, what: str = "returns int language plpgsql", more: str = "", args: str = "") -> str:
    return f"create function left_s.{name}({args}) {what} {more} as $body$ begin {body}; end $body$"


def _trigger(body: str, more: str = "") -> str:
    return _plpgsql("tr", f"{body}; return new", "returns trigger language plpgsql", more)


_T = "create table left_s.t (a int, b int)"
_ON_T = "create trigger tr before insert on left_s.t for each row execute function left_s.tr()"
_INSERT = "insert into left_s.t (a) values (1)"
_HID = _plpgsql("hid", f"do {_ESCAPED}; return 1")
_IMMUTABLE = _plpgsql("im", "return left_s.hid()", more="immutable", args="int")
# Name: what is there beforehand, and what the client runs.
SETS = {
    "by itself": ([], [f"do {_ESCAPED}"]),
    "by itself, continued": ([], [f"do {_CONTINUED}"]),
    "escaped": ([_HID], ["select left_s.hid()"]),
    "stable": ([_HID, _plpgsql("st", "return left_s.hid()", more="stable")], ["select left_s.st()"]),
    "stable, continued": (
        [_plpgsql("hid", f"do {_CONTINUED}; return 1"), _plpgsql("st", "return left_s.hid()", more="stable")], ["select left_s.st()"]),
    "stable, a language first": (
        [_plpgsql("hid", f"do language plpgsql {_ESCAPED}; return 1"), _plpgsql("st", "return left_s.hid()", more="stable")], ["select left_s.st()"]),
    "stable, of sql": ([_HID, "create function left_s.st() returns int stable language sql as 'select left_s.hid()'"], ["select left_s.st()"]),
    "stable, a function made": (
        [_plpgsql("hid", f"create or replace function left_s.made() returns int language plpgsql as {_ESCAPED.replace('; end', '; return 1; end')};"
                  " return left_s.made()"),
         _plpgsql("st", "return left_s.hid()", more="stable")],
        ["select left_s.st()"],
    ),
    "explained": ([_HID, _IMMUTABLE], ["explain select left_s.im(1)"]),
    "trigger": ([_T, _trigger(f"do {_ESCAPED}"), _ON_T], [_INSERT]),
    "trigger, at commit": (
        [_T, _trigger(f"do {_ESCAPED}"), "create constraint trigger tr after insert on left_s.t initially deferred for each row execute function left_s.tr()"],
        ["begin", _INSERT, "commit"],
    ),
    "default": ([_HID, "create table left_s.t (a int, b int default left_s.hid())"], [_INSERT]),
    "check": ([_HID, "create table left_s.t (a int check (left_s.hid() = 1))"], [_INSERT]),
    "generated": ([_HID, _IMMUTABLE, "create table left_s.t (a int, b int generated always as (left_s.im(a)) stored)"], [_INSERT]),
    "rule": ([_HID, _T, "create rule r as on insert to left_s.t do also select left_s.hid()"], [_INSERT]),
    "domain": ([_HID, "create domain left_s.dom as int check (left_s.hid() = 1)"], ["select 1::left_s.dom"]),
    "view": ([_HID, "create view left_s.v as select left_s.hid() as x"], ["select * from left_s.v"]),
    "policy": (
        [_HID, _T, "insert into left_s.t values (1)", "create policy p on left_s.t using (left_s.hid() = 1)", "alter table left_s.t enable row level security",
         "alter table left_s.t force row level security"],
        ["select * from left_s.t"],
    ),
    "operator": (
        [_plpgsql("hid", f"do {_ESCAPED}; return 1", args="int, int"), "create operator left_s.@@@ (function = left_s.hid, leftarg = int, rightarg = int)"],
        ["select 1 operator(left_s.@@@) 2"],
    ),
    "an extension's": (
        [_HID, _plpgsql("st", "return left_s.hid()", more="stable"), "create extension citext schema left_s",
         "alter extension citext add function left_s.st()", "alter extension citext add function left_s.hid()"],
        ["select left_s.st()"],
    ),
}  # fmt: skip
_PATH = "set search_path = pg_temp"
_MK = _plpgsql("mk", f"{_ZZ}; return 1", more=_PATH)
MAKES = {
    "own path": ([_MK], ["select left_s.mk()"]),
    "stable": ([_MK, _plpgsql("st", "return left_s.mk()", more="stable")], ["select left_s.st()"]),
    "stable, the session's path": (
        [_plpgsql("mk", f"{_ZZ}; return 1"), _plpgsql("st", "return left_s.mk()", more="stable")], ["set search_path = pg_temp, public", "select left_s.st()"]),
    "stable, select into": (
        [f"create function left_s.mk() returns int {_PATH} language sql as 'select 1 insert into zz; select 1'", _plpgsql("st", "return left_s.mk()", more="stable")],
        ["select left_s.st()"],
    ),
    "trigger": ([_T, _trigger(_ZZ, _PATH), _ON_T], [_INSERT]),
    "default": ([_MK, "create table left_s.t (a int, b int default left_s.mk())"], [_INSERT]),
    "view": ([_MK, "create view left_s.v as select left_s.mk() as x"], ["select * from left_s.v"]),
}  # fmt: skip


@pytest.mark.parametrize("name", SETS)
def test_what_is_set_stays_with_the_session(place, name):
    before, statements = SETS[name]
    _prepare(place.server, before, False)
    with _client(place.server) as session:
        if _run(session, statements):
            now = session.execute("select current_setting('app.left', true), current_setting('work_mem')").fetchone()
            locks = session.execute("select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()").fetchone()
            assert (now, locks) == (("x", "7MB"), (1,))
    _nothing_is_left(place)


@pytest.mark.parametrize("name", MAKES)
def test_what_is_made_stays_with_the_session(place, name):
    before, statements = MAKES[name]
    _prepare(place.server, before, False)
    with _client(place.server) as session:
        assert _run(session, statements)
        assert session.execute("select to_regclass('pg_temp.zz') is not null").fetchone() == (True,)
    others = [_client(place.server) for _ in range(4)]
    try:
        for other in others:
            other.execute("begin")
            assert other.execute("select to_regclass('pg_temp.zz')").fetchone() == (None,)
    finally:
        for other in others:
            other.close()


def test_on_nodes(place):
    """A trigger of a distributed table runs where its rows are."""
    body = r"E'begin perform \x73et_config(\x27app.left\x27, \x27x\x27, false); end'"
    _prepare(place.server, ["create table left_s.c (k int primary key, v text)", _trigger(f"do {body}"), _ON_T.replace("left_s.t ", "left_s.c ")], True)
    with _client(place.server) as session:
        assert _run(session, [*(f"insert into left_s.c values ({k})" for k in range(1, 7)), "insert into left_s.c select g from generate_series(10, 30) g"])
    _nothing_is_left(place)


_ORDINARY = [
    "create table left_s.t (k int primary key, v text, at timestamptz default now(), id uuid default gen_random_uuid(), n serial)", "create table left_s.log (k int primary key, v text)",
    """create function left_s.stamp() returns trigger language plpgsql as $$ declare was text; begin
       -- Do not touch what is new: do so later.
       if tg_op = 'INSERT' then select v into was from left_s.log where k = new.k; end if;
       insert into left_s.log values (new.k, was) on conflict (k) do nothing; new.at := now(); return new; end $$""",
    "create trigger stamp before insert or update on left_s.t for each row execute function left_s.stamp()",
    "create function left_s.twice(int) returns int language sql as 'insert into left_s.log values ($1) on conflict do nothing; select 2 * $1'",
    "create function left_s.seen(int) returns text stable language plpgsql as $$ declare w text; begin select v into strict w from left_s.t where k = $1; return w; end $$",
]  # fmt: skip
_STATEMENTS = ["insert into left_s.t (k, v) values (1, 'a')", "update left_s.t set v = 'b' where k = 1", "select left_s.seen(1)"]


def _quiet(place):
    """When nobody is looked after any more."""
    deadline = time.monotonic() + 60
    while True:
        with place.on_node(0) as boss:
            (before,) = boss.execute("select clock_timestamp() - interval '500 ms'").fetchone()
            if not _looked(place, before):
                return boss.execute("select clock_timestamp()").fetchone()[0]
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_ordinary_code_costs_no_reset(place):
    place.server.run(_DROP)
    with place.server.connect() as boss:
        for sql in ["create schema left_s authorization victim", "set role victim", *_ORDINARY, "reset role"]:
            boss.execute(sql)
    since = _quiet(place)
    with place.as_role("victim", autocommit=True) as victim:
        for sql in [*_STATEMENTS, *_STATEMENTS[1:]]:
            victim.execute(sql)
            assert not _looked(place, since), sql
        # This can be told: what sets something is looked after.
        victim.execute("create function left_s.sets() returns text stable language plpgsql as $$ begin return set_config('a.b', 'c', false); end $$")
        since = _quiet(place)
        deadline = time.monotonic() + 60
        while not _looked(place, since):
            assert time.monotonic() < deadline
            victim.execute("select left_s.sets()")
            time.sleep(0.1)

"""Nobody's code keeps others from making tables of a name, or from distributing theirs; what such code would do wrong is refused."""

import psycopg
import pytest

from harness import router

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(200)]

_CAST = (
    "set check_function_bodies = off",
    "create type hers.t as (a int)",
    "create function hers.f(x hers.t) returns text language sql immutable as 'select o.id::text from {0} o'",
    "create cast (hers.t as text) with function hers.f(hers.t)",
)
_TRIGGER = (
    "create table hers.own (a int)",
    "create function hers.note() returns trigger language plpgsql as $$ begin insert into secretly.big values (1); return new; end $$",
    "create trigger t before insert on hers.own for each row execute function hers.note()",
)


@pytest.fixture(scope="module")
def server():
    nodes = [router.node(f"names{i}") for i in (1, 2)]
    one = router.Router(router.conninfo(nodes[0]), [router.conninfo(nodes[1])])
    try:
        one.server.run("create role mallory login", "create role bob login", "create table public.shared (id int primary key)",
                       "select create_distributed_table('public.shared', 'id')")  # fmt: skip
        yield one.server
    finally:
        for each in (one, *nodes):
            each.stop()


@pytest.fixture
def mallory(server):
    server.run("create schema hers authorization mallory", "create schema secretly authorization bob", "grant create on schema public to bob")
    with server.connect(user="mallory") as mallory:
        yield mallory
    server.run("drop schema hers cascade", "drop schema secretly cascade", "drop table if exists public.users")


def _refused(connection, *statements: str) -> None:
    for sql in statements:
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            connection.execute(sql)


@pytest.mark.parametrize("name", ["secretly.orders", "public.users"])
@pytest.mark.parametrize("maker", ["bob", "postgres"])
def test_a_cast_forbids_no_name(server, mallory, name, maker):
    for sql in _CAST:
        mallory.execute(sql.format(name))
    mallory.execute("create table hers.kept (id int, v hers.t)")
    mallory.execute("create view hers.seen as select v from hers.kept")
    mallory.execute("create function hers.shown(hers.t) returns text language sql as 'select $1::text'")
    mallory.execute("create function hers.inside() returns int language sql as 'select count(*)::int from hers.kept'")
    with server.connect(user=maker) as bob:
        bob.execute(f"create table {name} (id int)")
        bob.execute(f"alter table {name} rename to other")
        bob.execute(f"alter table {name.split('.')[0]}.other rename to {name.split('.')[1]}")
        bob.execute(f"insert into {name} values (7)")
        assert bob.execute(f"select id from {name}").fetchone() == (7,)
    # By its owner, and whoever else has a value of the type.
    with server.connect() as boss:
        for one in (mallory, boss):
            _refused(
                one,
                "select row(1)::hers.t::text", "select id from shared where row(id)::hers.t::text = '7'", "select v::text from hers.kept",
                "insert into hers.kept values (1, row(1))", "select v from hers.seen", "select hers.shown(null)", "select hers.inside()",
                "do $$ begin perform row(1)::hers.t::text; end $$", "do $$ begin perform v from hers.kept; end $$", "copy hers.kept to stdout",
                "copy hers.kept from stdin",
            )  # fmt: skip
    # Others' own changes go on; hers is refused as ever where it is she who breaks the rule.
    server.run("create table secretly.more (id int)", "select create_distributed_table('secretly.more', 'id')", "drop table secretly.more")
    mallory.execute("drop cast (hers.t as text)")
    mallory.execute("insert into hers.kept values (1, row(1))")
    assert mallory.execute("select count(*) from hers.seen").fetchone() == (1,)
    _refused(mallory, "create cast (hers.t as text) with function hers.f(hers.t)")


@pytest.mark.parametrize("call", ["create_distributed_table('secretly.big', 'id')", "create_reference_table('secretly.big')"])
def test_a_trigger_keeps_nobody_from_distributing(server, mallory, call):
    with server.connect(user="bob") as bob:
        bob.execute("create table secretly.big (id int primary key)")
    for sql in _TRIGGER:
        mallory.execute(sql)
    mallory.execute("create function hers.adds() returns void language sql as 'insert into hers.own values (1)'")
    mallory.execute("create table hers.under (a int) inherits (hers.own)")
    server.run(f"select {call}", "insert into secretly.big select generate_series(2, 20)")
    with server.connect() as boss:
        for one in (mallory, boss):
            _refused(
                one, "insert into hers.own values (1)", "copy hers.own from stdin", "select hers.adds()", "with x as (insert into hers.own values (1) returning a) select a from x",
                "do $$ begin insert into hers.own values (1); end $$", "do $$ begin perform hers.adds(); end $$", "explain analyze insert into hers.own values (1)",
                "prepare p as insert into hers.own values (1); execute p", "truncate hers.own",
            )  # fmt: skip
        assert boss.execute("select count(*), min(id) from secretly.big").fetchone() == (19, 2)
    mallory.execute("drop trigger t on hers.own")
    mallory.execute("insert into hers.own values (1)")


def test_whose_code_may_use_the_table_is_not_broken_unasked(server, mallory):
    with server.connect(user="bob") as bob:
        bob.execute("create table secretly.big (id int primary key)")
        bob.execute("grant usage on schema secretly to mallory")
        bob.execute("grant insert on secretly.big to mallory")
    for sql in _TRIGGER:
        mallory.execute(sql)
    with server.connect() as boss:
        _refused(boss, "select create_distributed_table('secretly.big', 'id')")
    mallory.execute("insert into hers.own values (5)")

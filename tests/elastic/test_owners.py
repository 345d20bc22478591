"""What a table's owner does while somebody else moves its shards: his code does not come to run as anybody else."""

import psycopg
import pytest

from .places import Asked, reached

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("elastic"), pytest.mark.timeout(300)]

# It may be called where only what is immutable is, and calls what is not.
_CODE = """
create function hers.rises() returns int language plpgsql volatile as $$ begin
  begin update pg_catalog.pg_authid set rolsuper = true where rolname = 'mover_mallory'; exception when others then null; end; return 1; end $$;
create function hers.quiet(x int) returns int language plpgsql immutable as $$ begin perform hers.rises(); return x; end $$
"""


@pytest.fixture
def hers(elastic):
    elastic.a.run(
        "drop schema if exists hers cascade", "drop role if exists mover_mallory", "create role mover_mallory login",
        "create schema hers authorization mover_mallory",
    )
    with elastic.a.connect(user="mover_mallory") as mallory:
        for sql in _CODE.split(";\ncreate"):
            mallory.execute(sql if sql.lstrip().startswith("create") else f"create{sql}")
        mallory.execute("create table hers.bait (id int primary key, v int)")
    elastic.a.run("select create_distributed_table('hers.bait', 'id', colocate_with => 'none')", "insert into hers.bait select g, g from generate_series(1, 300) g")
    yield
    elastic.a.run("drop schema if exists hers cascade", "drop role if exists mover_mallory")


@pytest.mark.parametrize("place", ["move.prepared", "move.rows"])
@pytest.mark.parametrize("index", ["create index bait_x on hers.bait (hers.quiet(v))", "create index bait_x on hers.bait (v) where hers.quiet(v) > 0"])
def test_an_index_that_is_made_meanwhile(elastic, hers, tmp_path, place, index):
    tmp_path.chmod(0o777)
    flag = tmp_path / "flag"
    slow = elastic.router(f"{place}:wait:{flag}")
    asked = Asked(lambda: slow.server.run(f"select herd.move_shard('hers.bait', 1, {elastic.shards('bait')[1] % 3 + 1})"))
    try:
        reached(flag, asked)
        with elastic.b.connect(user="mover_mallory") as mallory:
            mallory.execute(index)
    finally:
        flag.unlink(missing_ok=True)
        asked.join(60)
        slow.stop()
    assert asked.sqlstates == ["55006"]
    risen = [n for n in (1, 2, 3) if elastic.on_node(n, "select rolsuper from pg_roles where rolname = 'mover_mallory'") != [(False,)]]
    assert risen == []
    elastic.is_tidy()


def test_a_default_that_is_read_anew(elastic, hers):
    """Its constant is of a domain whose CHECK is the owner's."""
    with elastic.a.connect(user="mover_mallory") as mallory:
        mallory.execute("create domain hers.evil as int")
        mallory.execute("alter table hers.bait add column note text default (('{1}'::hers.evil[])::text)")
        mallory.execute("alter domain hers.evil add check (hers.quiet(value) > 0) not valid")
    for shard in (1, 2):
        elastic.a.run(f"select herd.move_shard('hers.bait', {shard}, {elastic.shards('bait')[shard] % 3 + 1})")
    with elastic.a.connect(user="mover_mallory") as mallory:
        mallory.execute("insert into hers.bait (id) select g from generate_series(1001, 1060) g")
        assert mallory.execute("select count(*) from hers.bait where id > 1000 and note = '{1}'").fetchone() == (60,)
    risen = [n for n in (1, 2, 3) if elastic.on_node(n, "select rolsuper from pg_roles where rolname = 'mover_mallory'") != [(False,)]]
    assert risen == []


def test_a_key_that_is_deferrable_is_none(elastic):
    """While a shard of it moved, nobody could change its rows."""
    elastic.a.run(
        "drop table if exists e_deferred", "create table e_deferred (id int primary key deferrable, v int)",
        "select create_distributed_table('e_deferred', 'id', colocate_with => 'none')",
    )
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="no primary key"):
        elastic.moves("e_deferred", 1)
    elastic.a.run("drop table e_deferred")


@pytest.mark.parametrize("code", [
    "create index bait_x on hers.bait ((hers.quiet(1) + v))",
    "create index bait_x on hers.bait (v) where hers.quiet(1) > 0",
    "create statistics hers.bait_x on (hers.quiet(1) + v), v from hers.bait",
    "alter table hers.bait add constraint bait_x check (hers.quiet(1) > 0)",
])
@pytest.mark.parametrize("asked", ["hers.bait", "mine_beside"])
def test_rows_that_are_counted_to_isolate_a_key(elastic, hers, code, asked):
    """To plan what counts them would run the owner's code as who asks, of tables that are only colocated, too."""
    try:
        elastic.a.run("create table mine_beside (id int primary key)", "select create_distributed_table('mine_beside', 'id', colocate_with => 'hers.bait')",
                      "insert into mine_beside values (5)")
        with elastic.a.connect(user="mover_mallory") as mallory:
            mallory.execute(code)
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="mover_mallory"):
            elastic.a.run(f"select herd.isolate_tenant('{asked}', '5')")
        risen = [n for n in (1, 2, 3) if elastic.on_node(n, "select rolsuper from pg_roles where rolname = 'mover_mallory'") != [(False,)]]
        assert risen == []
    finally:
        elastic.a.run("drop table if exists mine_beside")


def test_a_key_of_a_type_of_the_owners(elastic, hers):
    with elastic.a.connect(user="mover_mallory") as mallory:
        mallory.execute("create domain hers.key as int check (hers.quiet(1) > 0)")
        mallory.execute("create table hers.typed (id hers.key primary key)")
    try:
        elastic.a.run("select create_distributed_table('hers.typed', 'id', colocate_with => 'none')")
    except psycopg.errors.FeatureNotSupported:
        return
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="mover_mallory"):
        elastic.a.run("select herd.isolate_tenant('hers.typed', '5')")

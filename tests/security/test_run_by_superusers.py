"""What a superuser runs for the herd meets an owner's traps: casts of his under foreign keys, tables of his under others' names."""

import threading
import time

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(500)]

# Raises its owner if whoever runs it can.
_RISE = """
create function hers.rise() returns int language plpgsql volatile as $$ begin
  if (select rolsuper from pg_catalog.pg_roles where rolname = current_user) then
    update pg_catalog.pg_authid set rolsuper = true where rolname = 'mallory';
  end if;
  return 1; end $$
"""


@pytest.fixture
def armed(place):
    place.server.run("drop schema if exists hers cascade", "create schema hers authorization mallory")
    with place.as_role("mallory") as mallory:
        mallory.execute(_RISE)
    yield place
    place.server.run("drop schema if exists hers cascade", "create schema hers authorization mallory")
    for node in range(3):
        with place.on_node(node) as root:
            root.execute("alter role mallory nosuperuser")


def _judge(place):
    for node in range(3):
        with place.on_node(node) as root:
            assert root.execute("select rolsuper from pg_roles where rolname = 'mallory'").fetchone() == (False,), f"node {node}: has risen"


def test_casts_under_foreign_keys(armed):
    with armed.as_role("mallory") as mallory:
        for sql in (
            "create table hers.ref3 (id int primary key)",
            "insert into hers.ref3 values (1)",
            "create type hers.mood as enum ('a', 'b')",
            "create function hers.ev(hers.mood) returns int language plpgsql immutable as $$ begin return hers.rise(); end $$",
            "create cast (hers.mood as int) with function hers.ev(hers.mood) as implicit",
            "create table hers.d3 (k int primary key, x hers.mood references hers.ref3 (id))",
            "insert into hers.d3 values (1, 'a'), (2, 'b'), (3, 'a')",
            "create table hers.r3 (k int primary key, x hers.mood references hers.ref3 (id))",
            "insert into hers.r3 values (1, 'a')",
        ):
            mallory.execute(sql)
    for sql in (
        "select create_reference_table('hers.ref3')",
        "select create_reference_table('hers.r3')",
        "select create_distributed_table('hers.d3', 'k')",
        "select herd.cluster('hers.d3', 'd3_pkey')",
        "select undistribute_table('hers.d3')",
    ):
        armed.server.run(sql)
        _judge(armed)
    with armed.server.connect() as root:
        assert root.execute("select count(*) from hers.d3").fetchone() == (3,)
        assert root.execute("select convalidated from pg_constraint where conname = 'd3_x_fkey'").fetchone() == (True,)


def test_a_shard_of_another_tables(armed):
    armed.server.run("create table hers.c (k int, v text)", "alter table hers.c owner to mallory", "select create_distributed_table('hers.c', 'k')")
    with armed.as_role("mallory") as mallory:
        mallory.execute("create index ix on hers.c (k)")
    for node in range(3):
        with armed.on_node(node) as root:
            shards = [row[0] for row in root.execute("select shard::text from herd.shard_tables where parent = 'hers.c'::regclass")]
        with armed.on_node(node, "mallory") as mallory:
            if mallory.execute("select to_regproc('hers.rise') is null").fetchone()[0]:
                mallory.execute(_RISE)
            mallory.execute("create function hers.pf(int) returns int language plpgsql immutable as $$ begin return hers.rise(); end $$")
            mallory.execute("create table hers.pt (k int, v text) partition by list (hers.pf(k))")
            mallory.execute(f"alter table {shards[0]} rename to was_a_shard")
            mallory.execute(f"create table {shards[0]} partition of hers.pt for values in (1)")
            mallory.execute("create index ix_of_pt on hers.pt (k)")
            mallory.execute("insert into hers.pt values (1, 'x')")
            # The name that is asked for is the index's.
            mallory.execute("alter index hers.ix rename to ix_old")
            mallory.execute("alter index hers.ix_of_pt rename to ix")
    with pytest.raises(psycopg.Error):
        armed.server.run("select herd.cluster('hers.c', 'ix')")
    _judge(armed)


def test_a_schema_that_takes_the_name(armed):
    """Between a plan's lock and its last statement a name means the same table."""
    armed.server.run(
        "drop schema if exists fx cascade", "drop schema if exists fl cascade", "drop schema if exists fz cascade",
        "create schema fl authorization mallory", "create schema fx authorization mallory", "create schema fs authorization mallory",
        "grant create on database postgres to mallory",
    )  # fmt: skip
    try:
        with armed.on_node(0, "mallory") as mallory:
            mallory.execute("create table fl.d (k int, v text, a int, b int)")
            mallory.execute("insert into fl.d select i, 'r', i, i from generate_series(1, 20) i")
            for i in range(300):
                mallory.execute(f"create statistics fs.st{i} on a, b from fl.d")
            mallory.execute("create view fx.d as select hers.rise() as k, 'x'::text as v, 1 as a, 2 as b")
        with armed.on_node(0) as root:
            oid = root.execute("select oid from pg_statistic_ext where stxname = 'st5'").fetchone()[0]
        seen = []

        def flip():
            with armed.on_node(0, "mallory") as mallory:
                mallory.execute("set lock_timeout = '90s'")
                until = time.monotonic() + 120
                held = f"select exists (select from pg_locks where classid = 'pg_statistic_ext'::regclass and objid = {oid} and mode = 'AccessExclusiveLock' and granted)"
                while time.monotonic() < until and not mallory.execute(held).fetchone()[0]:
                    time.sleep(0.001)
                seen.append(time.monotonic() < until)
                mallory.execute("do $$ begin alter schema fl rename to fz; alter schema fx rename to fl; end $$")

        flipper = threading.Thread(target=flip)
        flipper.start()
        try:
            armed.server.run("select create_distributed_table('fl.d', 'k')")
        finally:
            flipper.join()
        assert seen == [True]
        _judge(armed)
    finally:
        armed.server.run(*(f"drop schema if exists {schema} cascade" for schema in ("fx", "fl", "fz", "fs")))


@pytest.mark.parametrize("change", ("undistribute_table", "create_reference_table"))
def test_a_schema_that_takes_the_name_in_other_changes(armed, change):
    """The same for tables that come back, and for those that are read to be copied; on home and on another node."""
    node = 1 if change == "undistribute_table" else 0
    statements = [f"drop schema if exists {schema} cascade" for schema in ("fx", "fl", "fz")]
    armed.server.run(
        *statements, "create schema fl authorization mallory", "create schema fx authorization mallory",
        "create table fl.d (k int primary key, v text)", "alter table fl.d owner to mallory",
    )  # fmt: skip
    try:
        with armed.as_role("mallory") as mallory:
            mallory.execute("insert into fl.d select i, repeat('r', 200) from generate_series(1, 20000) i")
        if change == "undistribute_table":
            armed.server.run("select create_distributed_table('fl.d', 'k')")
        for number in range(3):
            with armed.on_node(number) as root:
                root.execute("do $$ begin execute format('grant create on database %I to mallory', current_database()); end $$")
        with armed.on_node(node, "mallory") as mallory:
            if mallory.execute("select to_regproc('hers.rise') is null").fetchone()[0]:
                mallory.execute(_RISE)
            mallory.execute("create view fx.d as select hers.rise() as k, 'x'::text as v")
            oid = mallory.execute("select 'fl.d'::regclass::oid").fetchone()[0]
        seen, done = [], threading.Event()

        def flip():
            with armed.on_node(node, "mallory") as mallory:
                mallory.execute("set lock_timeout = '90s'")
                held = f"select exists (select from pg_locks where relation = {oid} and mode in ('AccessExclusiveLock', 'ShareRowExclusiveLock') and granted)"
                until = time.monotonic() + 120
                while time.monotonic() < until and not mallory.execute(held).fetchone()[0]:
                    time.sleep(0.001)
                seen.append(time.monotonic() < until)
                mallory.execute("do $$ begin alter schema fl rename to fz; alter schema fx rename to fl; end $$")
                done.set()

        flipper = threading.Thread(target=flip)
        flipper.start()
        try:
            armed.server.run(f"select {change}('fl.d')")
        except psycopg.Error as refused:
            assert refused.sqlstate in ("40001", "55000", "42P01", "3F000"), refused
        finally:
            flipper.join()
        assert seen == [True] and done.is_set()
        _judge(armed)
    finally:
        for number in range(3):
            with armed.on_node(number) as root:
                for sql in statements:
                    root.execute(sql)
        armed.server.run("select herd.forget_dropped()", *statements)


def test_names_with_the_quotes_of_do_blocks(armed):
    with armed.server.connect(autocommit=True) as root:
        root.execute('create table hers."a$herd$b" (k int primary key, v int)')
        root.execute("""select create_distributed_table('hers."a$herd$b"', 'k')""")
        root.execute('create index "i$herd$x" on hers."a$herd$b" (v)')
        root.execute('alter index hers."i$herd$x" set (fillfactor = 70)')
    for node in range(3):
        with armed.on_node(node) as root:
            sql = "select count(*) from pg_class c join pg_inherits h on h.inhrelid = c.oid where h.inhparent = 'hers.\"i$herd$x\"'::regclass and c.reloptions = '{fillfactor=70}'"
            assert root.execute(sql).fetchone()[0] > 0


def test_code_that_renames_schemas_inside_the_plan(armed):
    """What a transaction has locked does not hold up the owner's code that runs in it."""
    databases = "%s create on database postgres %s mallory"
    armed.server.run(
        "create schema joint authorization mallory", "create schema his authorization mallory", "create table his.exchanged (k int, v int)",
        "insert into his.exchanged values (7, 7)", databases % ("grant", "to"),
    )  # fmt: skip
    try:
        for check, index in (("joint.chk(v)", "joint.f(k)"), ("v > 0", "joint.chk_of(v)")):
            with armed.as_role("mallory") as mallory:
                mallory.execute("create function joint.f(int) returns int language plpgsql immutable as $$ begin return hers.rise() + $1; end $$")
                mallory.execute(
                    """create function joint.chk(int) returns boolean language plpgsql volatile as $$ begin
                    if (select count(*) from pg_class where relname = 'exchanged' and relowner = 'mallory'::regrole) > 1 then
                      execute 'alter schema joint rename to was_joint'; execute 'alter schema his rename to joint'; end if; return true; end $$"""
                )
                mallory.execute("create function joint.chk_of(int) returns int language plpgsql immutable as $$ begin perform joint.chk($1); return $1; end $$")
                mallory.execute(f"create table joint.exchanged (k int, v int check ({check}))")
                mallory.execute("insert into joint.exchanged values (1, 1), (2, 2)")
                mallory.execute("grant all on joint.exchanged to mallory")
            # Routers refuse an index with such code.
            with armed.on_node(0, "mallory") as mallory:
                mallory.execute(f"create index dx on joint.exchanged ({index})")
            with pytest.raises(psycopg.Error):
                armed.server.run("select create_distributed_table('joint.exchanged', 'k')")
            _judge(armed)
            with armed.on_node(0) as root:
                assert root.execute("select relacl from pg_class where oid = 'his.exchanged'::regclass").fetchone() == (None,)
            armed.server.run("drop table joint.exchanged", "drop function joint.f", "drop function joint.chk_of", "drop function joint.chk")
    finally:
        armed.server.run(*(f"drop schema if exists {schema} cascade" for schema in ("joint", "was_joint", "his")), databases % ("revoke", "from"))


def test_an_index_that_is_another_when_its_lock_is_there(armed):
    """herd.mirror_partitions is the herd owner's; what it says of an index it says as the table's."""
    with armed.as_role("mallory") as mallory:
        mallory.execute("create function hers.one() returns int language plpgsql immutable as $$ begin raise log 'one runs as %', current_user; return 1; end $$")
        mallory.execute("create table hers.m (k int not null, v int)")
    armed.server.run("select create_distributed_table('hers.m', 'k')")
    with armed.as_role("mallory") as mallory:
        mallory.execute("create unique index good on hers.m (k)")
        mallory.execute("alter table hers.m replica identity using index good")
    with armed.on_node(0, "mallory") as mallory, armed.on_node(0, "mallory") as caller:
        shard = mallory.execute("select shard::text from herd.shard_tables where parent = 'hers.m'::regclass limit 1").fetchone()[0]
        index = mallory.execute("select relname from pg_class c join pg_index i on i.indexrelid = c.oid where i.indrelid = %s::regclass", (shard,)).fetchone()[0]
        mallory.execute(f"alter table {shard} replica identity default")
        mallory.execute(f"create unique index evil_of_m on {shard} ((hers.one()), k)")
        mallory.execute("begin")
        mallory.execute(f"lock table {shard} in access exclusive mode")

        def mirror():
            caller.execute("select herd.mirror_partitions('hers.m')")

        waits = threading.Thread(target=mirror)
        waits.start()
        time.sleep(1)
        mallory.execute(f'alter index herd_shards."{index}" rename to was_good')
        mallory.execute(f'alter index herd_shards.evil_of_m rename to "{index}"')
        mallory.execute("commit")
        waits.join()
    assert "one runs as postgres" not in armed.nodes[0].log()


def test_plain_ddl_on_shards(armed):
    """A name that the search path finds among the shards is the router's own as a written one is."""
    armed.server.run("create table hers.n (k int primary key, v int)", "alter table hers.n owner to mallory", "select create_distributed_table('hers.n', 'k')")
    with armed.on_node(0) as root:
        shard = root.execute("select relname from pg_class where oid = (select shard from herd.shard_tables where parent = 'hers.n'::regclass limit 1)").fetchone()[0]
    with armed.as_role("mallory") as mallory:
        for path in ("herd_shards, hers", "hers, herd_shards"):
            mallory.execute(f"set search_path = {path}")
            for sql in (
                f'alter table "{shard}" replica identity full', f'create index on "{shard}" (v)', f'alter table "{shard}" rename to x',
                f'drop table "{shard}"', f'alter index "{shard}_pkey" rename to x', f'grant select on "{shard}" to public',
            ):  # fmt: skip
                with pytest.raises(psycopg.errors.InsufficientPrivilege, match="belongs to pgherd"):
                    mallory.execute(sql)
        # What is not found there is what it was.
        mallory.execute("set search_path = hers, herd_shards")
        for sql in ("create table own (k int)", "alter table own add v int", "create index on own (v)", "create temp table own2 (k int)", "drop table own2", "drop table own"):
            mallory.execute(sql)
        mallory.execute("alter table n add w int")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            mallory.execute("set search_path = herd_shards, hers; create table own (k int)")


def test_schemas_of_names_that_plans_had(armed):
    """Nobody can take in advance the name of what a plan makes for a moment."""
    armed.server.run(*(f"create schema {name} authorization mallory" for name in ("herd_moving", "herd_bounds")), "create table hers.r (k int, v int)")
    try:
        armed.server.run(
            "select create_distributed_table('hers.r', 'k', strategy => 'range', bounds => array['FROM (MINVALUE) TO (5)', 'FROM (5) TO (MAXVALUE)'])",
            "select undistribute_table('hers.r')",
        )
    finally:
        armed.server.run("drop schema herd_moving, herd_bounds")

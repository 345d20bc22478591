"""Tables that are moved while they are written to, whatever they are made of: generated columns, keys of any type, constraints that old rows never met, sequences."""

import time

import psycopg
import pytest

from .places import Asked, reached

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("elastic"), pytest.mark.timeout(300)]


def _distributed(elastic, name: str, columns: str, *then: str, key: str = "id") -> None:
    elastic.a.run(
        f"drop table if exists {name} cascade", f"create table {name} ({columns})", f"select create_distributed_table('{name}', '{key}', colocate_with => 'none')", *then)


@pytest.fixture
def halted(elastic, tmp_path):
    """Begins a call that waits at a place of its router; what it ended by, once it has gone on."""
    tmp_path.chmod(0o777)
    begun = []

    def begin(place: str, call: str):
        flag = tmp_path / f"flag{len(begun)}"
        slow = elastic.router(f"{place}:wait:{flag}")
        asked = Asked(lambda: slow.server.run(call))

        def goes_on():
            flag.unlink(missing_ok=True)
            asked.join(120)
            return asked.said[0]

        begun.append((goes_on, slow))
        reached(flag, asked)
        return goes_on

    yield begin
    for goes_on, slow in begun:
        goes_on()
        slow.stop()


def _call(elastic, kind: str, table: str, shard: int = 1) -> str:
    nodes = elastic.shards(table)
    match kind:
        case "move":
            return f"select herd.move_shard('{table}', {shard}, {nodes[shard] % 3 + 1})"
        case "split":
            return f"select herd.split_shard('{table}', {shard})"
        case "merge":
            return f"select herd.merge_shards('{table}', {shard}, {shard + 3})"
    raise ValueError(kind)


def _version(elastic) -> int:
    return int(elastic.on_node(1, "show server_version_num")[0][0])


@pytest.mark.parametrize("kind", ["move", "split", "merge"])
@pytest.mark.parametrize(
    "columns, identity",
    [
        ("id int primary key, v int, twice int generated always as (v * 2) stored", "full"),
        ("id int, v int not null, twice int not null generated always as (id * 2) stored, primary key (id, twice)", "default"),
    ],
)
def test_generated_columns_in_the_replica_identity(elastic, halted, kind, columns, identity):
    _distributed(elastic, "k_made", columns, f"alter table k_made replica identity {identity}", "insert into k_made (id, v) select g, g from generate_series(1, 300) g")
    call = _call(elastic, kind, "k_made")
    if identity == "default" and _version(elastic) < 180000:
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="k_made.*generated") as refused:
            elastic.a.run(call)
        assert "REPLICA IDENTITY" in refused.value.diag.message_hint
        return
    goes_on = halted("move.rows", call)
    with elastic.b.connect() as connection:
        assert connection.execute("update k_made set v = v + 1").rowcount == 300
        assert connection.execute("delete from k_made where id > 290").rowcount == 10
        assert connection.execute("update k_made set id = id + 0, v = v + 1 where id <= 100").rowcount == 100
        connection.execute("insert into k_made (id, v) values (301, 1), (302, 2), (303, 3)")
        assert goes_on() is None
        made = "2 * v" if identity == "full" else "2 * id"
        assert connection.execute(f"select count(*), sum(v), bool_and(twice = {made}) from k_made").fetchone() == (293, sum(range(1, 291)) + 290 + 100 + 6, True)
        assert connection.execute("update k_made set v = 0").rowcount == 293
        assert connection.execute("select object, problem from herd.verify where object like '%k_made%'").fetchall() == []
    elastic.is_tidy()


def test_virtual_columns_in_the_replica_identity_are_refused_beforehand(elastic):
    if _version(elastic) < 180000:
        pytest.skip("there are no virtual columns")
    _distributed(elastic, "k_virtual", "id int primary key, v int, twice int generated always as (v * 2) virtual", "alter table k_virtual replica identity full",
                 "insert into k_virtual (id, v) select g, g from generate_series(1, 30) g")
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="k_virtual.*generated") as refused:
        elastic.a.run(_call(elastic, "move", "k_virtual"))
    assert "REPLICA IDENTITY DEFAULT" in refused.value.diag.message_hint
    elastic.a.run("update k_virtual set v = 1", "alter table k_virtual replica identity default", _call(elastic, "move", "k_virtual"))
    elastic.is_tidy()


@pytest.mark.parametrize("kind", ["move", "split", "merge", "cluster"])
def test_constraints_that_old_rows_never_met(elastic, kind):
    _distributed(elastic, "k_late", "id int primary key, v int, w int", "create index k_late_v on k_late (v)", "insert into k_late select g, -1 from generate_series(1, 60) g",
                 "alter table k_late add constraint k_late_v check (v > 0) not valid", "alter table k_late add check (id > 0)")
    late = 1
    if _version(elastic) >= 180000:
        elastic.a.run("alter table k_late add constraint k_late_w not null w not valid", "create table if not exists k_late_to (id int primary key)",
                      "create index on k_late (w)")
        late = 2
    elastic.a.run("select herd.cluster('k_late', 'k_late_v')" if kind == "cluster" else _call(elastic, kind, "k_late"))
    for node in (1, 2, 3):
        unlike = "select c.relname, o.conname from pg_constraint o join pg_class c on c.oid = o.conrelid where c.relname ~ '^k_late' and o.conname in ('k_late_v', 'k_late_w') and o.convalidated"
        assert elastic.on_node(node, unlike) == []
        assert elastic.on_node(node, "select count(*) from pg_constraint where conrelid = 'k_late'::regclass and conname in ('k_late_v', 'k_late_w')") == [(late,)]
    with elastic.b.connect() as connection:
        assert connection.execute("select count(*), sum(v) from k_late").fetchone() == (60, -60)
        for id in range(101, 131):
            with pytest.raises(psycopg.errors.CheckViolation):
                connection.execute("insert into k_late values (%s, -1, 1)", (id,))
        assert connection.execute("select object, problem from herd.verify where object like '%k_late%'").fetchall() == []
        connection.execute("update k_late set v = 1, w = 1")
        connection.execute("alter table k_late validate constraint k_late_v")
        connection.execute(_call(elastic, "move", "k_late", 2))
    elastic.is_tidy()


def test_a_constraint_that_is_validated_meanwhile(elastic, halted):
    _distributed(elastic, "k_validated", "id int primary key, v int", "insert into k_validated select g, 1 from generate_series(1, 60) g",
                 "alter table k_validated add constraint k_validated_v check (v > 0) not valid")
    goes_on = halted("move.copied", _call(elastic, "move", "k_validated"))
    elastic.b.run("alter table k_validated validate constraint k_validated_v")
    assert goes_on() is None
    for node in (1, 2, 3):
        assert elastic.on_node(node, "select bool_and(convalidated), count(*) > 0 from pg_constraint where conname = 'k_validated_v'") == [(True, True)]
    elastic.is_tidy()


def test_foreign_keys_that_old_rows_never_met(elastic):
    if _version(elastic) < 180000:
        pytest.skip("partitioned tables have no such foreign keys")
    _distributed(elastic, "k_to", "id int primary key")
    elastic.a.run(
        "drop table if exists k_from", "create table k_from (id int primary key)", "select create_distributed_table('k_from', 'id', colocate_with => 'k_to')",
        "insert into k_from select g from generate_series(1, 60) g", "alter table k_from add constraint k_from_to foreign key (id) references k_to not valid",
        _call(elastic, "move", "k_to"), _call(elastic, "split", "k_to", 2), "select herd.cluster('k_from', 'k_from_pkey')",
    )  # fmt: skip
    for node in (1, 2, 3):
        assert elastic.on_node(node, "select bool_or(convalidated) from pg_constraint where conname = 'k_from_to'") == [(False,)]
    with elastic.b.connect() as connection:
        assert connection.execute("select count(*) from k_from").fetchone() == (60,)
        for id in range(101, 131):
            with pytest.raises(psycopg.errors.ForeignKeyViolation):
                connection.execute("insert into k_from values (%s)", (id,))
    elastic.is_tidy()


def test_constraints_that_old_rows_never_met_when_a_table_changes_its_kind(elastic):
    elastic.a.run(
        "drop table if exists k_kind", "create table k_kind (id int primary key, v int)", "insert into k_kind select g, -1 from generate_series(1, 60) g",
        "alter table k_kind add constraint k_kind_v check (v > 0) no inherit not valid",
    )  # fmt: skip
    for change in ("create_distributed_table('k_kind', 'id', colocate_with => 'none')", "undistribute_table('k_kind')", "create_reference_table('k_kind')"):
        elastic.a.run(f"select {change}")
        with elastic.b.connect() as connection:
            assert connection.execute("select count(*), sum(v) from k_kind").fetchone() == (60, -60)
            with pytest.raises(psycopg.errors.CheckViolation):
                connection.execute("insert into k_kind values (61, -1)")
        for node in (1, 2, 3):
            assert elastic.on_node(node, "select bool_or(convalidated) from pg_constraint where conname = 'k_kind_v'") in ([(False,)], [(None,)])
    assert elastic.b.connect().execute("select object, problem from herd.verify where object like '%k_kind%'").fetchall() == []
    elastic.a.run("drop table k_kind")


@pytest.mark.parametrize("kind", ["move", "split", "merge"])
@pytest.mark.parametrize("change", ["drop table k_serial", "select undistribute_table('k_serial')"])
def test_a_table_with_a_sequence_is_dropped_meanwhile(elastic, halted, kind, change):
    _distributed(elastic, "k_serial", "id serial primary key, v int default 5", "insert into k_serial select from generate_series(1, 60) g")
    goes_on = halted("move.copied", _call(elastic, kind, "k_serial"))
    elastic.b.run(change)
    error = goes_on()
    assert error is not None and error.sqlstate == "55006", error
    elastic.is_tidy()
    elastic.b.run("drop table if exists k_serial")


@pytest.mark.parametrize("kind", ["move", "split", "merge"])
def test_defaults_come_along(elastic, kind):
    _distributed(elastic, "k_defaults", "id serial primary key, v int default 5, at timestamptz default now()", "insert into k_defaults (v) select 5 from generate_series(1, 60) g")
    elastic.a.run(_call(elastic, kind, "k_defaults"))
    unlike = """select c.relname, a.attname from pg_class c join pg_attribute a on a.attrelid = c.oid join pg_inherits i on i.inhrelid = c.oid left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
        where c.relname ~ '^k_defaults' and c.relkind = 'r' and a.attnum > 0
          and pg_get_expr(d.adbin, c.oid) is distinct from (select pg_get_expr(p.adbin, p.adrelid) from pg_attrdef p join pg_attribute b on b.attrelid = p.adrelid and b.attnum = p.adnum where p.adrelid = i.inhparent and b.attname = a.attname)"""
    for node in (1, 2, 3):
        assert elastic.on_node(node, unlike) == []
    with elastic.b.connect() as connection:
        assert connection.execute("insert into k_defaults (v) values (default) returning v, id > 60").fetchone() == (5, True)
        assert connection.execute("select object, problem from herd.verify where object like '%k_defaults%'").fetchall() == []
    elastic.a.run("drop table k_defaults")


@pytest.mark.parametrize(
    "made, columns, rows",
    [
        ("create extension if not exists ltree", "id int, k ltree, v int, primary key (id, k)", "select g, ('a.b' || g)::ltree, g from generate_series(1, 300) g"),
        ("create extension if not exists citext", "id int, k citext, v int, primary key (id, k)", "select g, ('A''b' || g)::citext, g from generate_series(1, 300) g"),
        ("create extension if not exists hstore", "id int, k hstore, v int, primary key (id, k)", "select g, hstore('a', g::text), g from generate_series(1, 300) g"),
        ("create type k_pair as (a int, b text)", "id int, k k_pair, v int, primary key (id, k)", "select g, row(g, 'b' || g)::k_pair, g from generate_series(1, 300) g"),
        ("create domain k_narrow as varchar(20) check (value <> '')", "id int, k k_narrow, v int, primary key (id, k)", "select g, 'n' || g, g from generate_series(1, 300) g"),
        ("create type k_mood as enum ('low', 'high')", "id int, k k_mood, c char(4), b bit(3), t text[], r int4range, v int, primary key (id, k, c, b, t, r)",
         "select g, 'high', 'ab', '101', array[g::text, null], int4range(1, g), g from generate_series(1, 300) g"),
    ],
)
def test_rows_are_found_by_keys_of_any_type(elastic, halted, made, columns, rows):
    elastic.a.run("drop table if exists k_found", "drop type if exists k_pair, k_mood", "drop domain if exists k_narrow", made)
    _distributed(elastic, "k_found", columns, f"insert into k_found {rows}")
    goes_on = halted("move.rows", _call(elastic, "move", "k_found"))
    with elastic.b.connect() as connection:
        connection.execute("update k_found set v = v + 1")
        connection.execute("delete from k_found where id > 290")
        assert goes_on() is None
        assert connection.execute("select count(*), sum(v) from k_found").fetchone() == (290, sum(range(1, 291)) + 290)
    elastic.is_tidy()
    elastic.a.run("drop table k_found")


def test_the_last_changes_can_be_cancelled(elastic, halted):
    """The copy has followed, and what has come since waits for somebody."""
    _distributed(elastic, "k_cancelled", "id int primary key, v int", "insert into k_cancelled select g, g from generate_series(1, 300) g")
    node = elastic.shards("k_cancelled")[1] % 3 + 1
    goes_on = halted("move.followed", _call(elastic, "move", "k_cancelled"))
    with elastic.b.connect() as connection, elastic.nodes[node - 1].server.connect() as holds:
        copy = holds.execute("select oid::regclass from pg_class where relname ~ '^herd_moving_[0-9a-f]+_0$' and relkind = 'r'").fetchone()[0]
        holds.execute("begin")
        holds.execute(f"lock table {copy} in access exclusive mode")
        connection.execute("update k_cancelled set v = v + 1")
        waiting = Asked(goes_on)
        time.sleep(3)
        job = connection.execute("select id from herd.jobs where about like '%k_cancelled%' and state = 'running'").fetchone()[0]
        assert connection.execute("select herd.cancel_job(%s)", (job,)).fetchone() == (True,)
        waiting.join(20)
        still = waiting.is_alive()
        holds.execute("rollback")
        assert not still
    assert goes_on().sqlstate == "57014"
    elastic.is_tidy()

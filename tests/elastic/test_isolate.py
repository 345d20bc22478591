"""A shard that shrinks until it holds one key alone, or nearly, in all colocated tables."""

import psycopg
import pytest

from .test_split import _bounds, _is_right

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("elastic"), pytest.mark.timeout(400)]


def _isolate(connection, call: str, values=None) -> tuple[int, str]:
    """The shard, and what was said of it."""
    said = []
    connection.add_notice_handler(lambda notice: said.append(notice.message_primary))
    (shard,) = connection.execute(f"select herd.isolate_tenant({call})", values).fetchone()
    return shard, said[-1]


def _keys_in(elastic, table: str, key: str, shard: int) -> dict:
    with elastic.a.connect() as connection:
        node, part = connection.execute("select n.id, s.partition from herd.shards s join herd.nodes n on n.name = s.node where s.name = %s and s.shard = %s", (table, shard)).fetchone()
    return dict(elastic.on_node(node, f"select {key}, count(*) from {part} group by 1"))


@pytest.fixture
def tenants(elastic):
    elastic.a.run(
        "drop table if exists i_item, i_tenant", "create table i_tenant (id bigint primary key, name text)",
        "create table i_item (tenant bigint, n int, primary key (tenant, n))",
        "select create_distributed_table('i_tenant', 'id', colocate_with => 'none')", "select create_distributed_table('i_item', 'tenant', colocate_with => 'i_tenant')",
        "insert into i_tenant select g, 'name ' || g from generate_series(1, 300) g",
        "insert into i_item select 77, g from generate_series(1, 3000) g", "insert into i_item select g, n from generate_series(1, 300) g, generate_series(1, 3) n where g <> 77",
    )
    yield
    elastic.a.run("drop table if exists i_item, i_tenant")
    elastic.is_tidy()


def test_hash(elastic, tenants):
    sums = "select count(*), sum(tenant), sum(n) from i_item"
    with elastic.a.connect() as connection, elastic.b.connect() as other:
        before = other.execute(sums).fetchone()
        shards = len(elastic.shards("i_tenant"))
        number, said = _isolate(connection, "'i_tenant', 77")
        items, rows = _keys_in(elastic, "i_item", "tenant", number), _keys_in(elastic, "i_tenant", "id", number)
        others = sum(n for key, n in items.items() if key != 77) + sum(n for key, n in rows.items() if key != 77)
        assert (items[77], rows[77]) == (3000, 1) and others * 100 <= 3001 and others < 30
        assert f"holds 3001 rows of key 77, and {others} of {len(rows) - 1} other keys: " in said or said == f'shard {number} of table "i_tenant" holds key 77 alone'
        assert len(elastic.shards("i_tenant")) > shards
        _is_right(elastic, "i_tenant")
        # Nothing is left to be done, but to move it.
        away = elastic.shards("i_tenant")[number] % 3 + 1
        now = elastic.shards("i_tenant")
        assert _isolate(connection, "'i_item', %b, node => %s", (77, str(away))) == (number, said.replace("i_tenant", "i_item"))
        assert elastic.shards("i_item") == now | {number: away}
        assert other.execute(sums).fetchone() == before
        assert other.execute("select count(*) from i_item join i_tenant on id = tenant where id = 77").fetchone() == (3000,)
        other.execute("insert into i_item values (77, 3001)")
        assert _keys_in(elastic, "i_item", "tenant", number)[77] == 3001


def test_range_and_list(elastic):
    with elastic.a.connect() as connection:
        connection.execute("drop table if exists i_range, i_list")
        connection.execute("create table i_range (who text collate \"C\" primary key, v int)")
        connection.execute("select create_distributed_table('i_range', 'who', 'range', 'none', bounds => array['from (minvalue) to (''m'')', 'from (''m'') to (maxvalue)'])")
        connection.execute("insert into i_range select chr(97 + g % 26) || g / 26, g from generate_series(0, 103) g")
        number, said = _isolate(connection, "'i_range', 'c1'")
        assert said == f'shard {number} of table "i_range" holds key c1 alone' and _keys_in(elastic, "i_range", "who", number) == {"c1": 1}
        assert "('c1') TO ('c2')" in _bounds(elastic, "i_range")[number]
        # The first and the last there are need one split each.
        for key in ("a0", "z3"):
            shards = len(elastic.shards("i_range"))
            number, said = _isolate(connection, "'i_range', %s", (key,))
            assert _keys_in(elastic, "i_range", "who", number) == {key: 1}
            assert len(elastic.shards("i_range")) == shards + 1
        assert connection.execute("select count(*), sum(v) from i_range").fetchone() == (104, 5356)
        _is_right(elastic, "i_range")
        connection.execute("create table i_list (land text primary key)")
        connection.execute("select create_distributed_table('i_list', 'land', 'list', 'none', bounds => array['in (''de'', ''at'', ''ch'')', 'in (''fr'')', 'default'])")
        connection.execute("insert into i_list values ('de'), ('at'), ('ch'), ('fr'), ('it')")
        number, said = _isolate(connection, "'i_list', 'at'")
        assert _keys_in(elastic, "i_list", "land", number) == {"at": 1} and _bounds(elastic, "i_list")[number] == "FOR VALUES IN ('at')"
        assert _isolate(connection, "'i_list', 'fr'") == (1, 'shard 1 of table "i_list" holds key fr alone')
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            _isolate(connection, "'i_list', 'it'")
        assert connection.execute("select count(*) from i_list").fetchone() == (5,)
        connection.execute("drop table i_range, i_list")
    elastic.is_tidy()


def test_what_cannot_be_isolated_is_refused_before_anything_is_done(elastic, tenants):
    elastic.a.run(
        "drop table if exists i_two, i_here, i_dates", "create table i_two (a int, b int, primary key (a, b))", "select create_distributed_table('i_two', 'a, b', colocate_with => 'none')",
        "create table i_here (id int)", "create table i_dates (d date primary key)",
        "select create_distributed_table('i_dates', 'd', 'range', 'none', bounds => array['from (''2026-01-01'') to (''2027-01-01'')'])",
    )
    with elastic.a.connect() as connection:
        jobs = connection.execute("select count(*) from herd.jobs").fetchone()
        for call, sqlstate in {
            "'i_tenant', 9999": "55000", "'i_tenant', 'x'": "22P02", "'i_tenant', null": "22004", "'i_tenant'": "22004", "'i_tenant', 77, 'nosuch'": "42704",
            "'i_two', 1": "0A000", "'i_here', 1": "42809", "'i_nosuch', 1": "42P01", "'i_dates', '2030-01-01'": "23514",
        }.items():
            with pytest.raises(psycopg.Error) as failed:
                connection.execute(f"select herd.isolate_tenant({call})")
            assert failed.value.sqlstate == sqlstate, (call, failed.value)
        connection.execute("begin")
        with pytest.raises(psycopg.errors.ActiveSqlTransaction):
            connection.execute("select herd.isolate_tenant('i_tenant', 77)")
        connection.execute("rollback")
        assert connection.execute("select count(*) from herd.jobs").fetchone() == jobs
        connection.execute("drop table i_two, i_here, i_dates")

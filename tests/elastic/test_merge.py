"""Two shards that become one: what a split has made goes again, rows are read and written meanwhile, and what are no halves is refused."""

import psycopg
import pytest

from .test_move import _MADE, _partition
from .test_split import _CONTENTS, _bounds, _hash, _is_right, orders  # noqa: F401
from .writers import ROWS, beside_writers

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("elastic"), pytest.mark.timeout(300)]

# What belongs to a table as a whole, on each node.
_WHOLE = """
select c.relacl::text, c.relrowsecurity, c.relreplident, c.reloptions,
       (select array_agg(pg_get_indexdef(i.indexrelid) || i.indisvalid order by i.indexrelid) from pg_index i where i.indrelid = c.oid),
       (select array_agg(o.conname || ' ' || pg_get_constraintdef(o.oid) || o.convalidated order by o.conname) from pg_constraint o where o.conrelid = c.oid and o.conparentid = 0),
       (select array_agg(t.tgname || t.tgenabled::text order by t.tgname) from pg_trigger t where t.tgrelid = c.oid and not t.tgisinternal)
  from pg_class c where c.oid = %s::regclass
"""


def _made(elastic, table: str, shard: int) -> list:
    return elastic.on_node(elastic.shards(table)[shard], _MADE, (_partition(elastic, table, shard),))


def _indexes(elastic, table: str, shard: int) -> list:
    sql = "select indexrelid::regclass::text from pg_index where indrelid = %s::regclass order by 1"
    return elastic.on_node(elastic.shards(table)[shard], sql, (_partition(elastic, table, shard),))


def test_what_a_split_made_goes_again(elastic, orders):  # noqa: F811
    elastic.a.run(
        "create or replace function p_says() returns trigger language plpgsql as 'begin return new; end'",
        "create trigger p_says before insert on p_item for each row execute function p_says()",
    )
    tables = ("p_order", "p_item")
    where, bounds = elastic.shards("p_order"), {t: _bounds(elastic, t) for t in tables}
    made = {t: (_made(elastic, t, 2), _indexes(elastic, t, 2)) for t in tables}
    whole = {(t, n): elastic.on_node(n, _WHOLE, (t,)) for t in tables for n in (1, 2, 3)}
    with elastic.b.connect() as other, elastic.a.connect() as connection:
        before = [other.execute(sql).fetchall() for sql in _CONTENTS]
        # Twice, from either side, and a half of a half.
        for one, second in ((2, 8), (8, 2)):
            assert connection.execute("select herd.split_shard('p_order', 2)").fetchone() == (8,)
            connection.execute("select herd.split_shard('p_item', 8)")
            with pytest.raises(psycopg.errors.InvalidParameterValue) as refused:
                connection.execute("select herd.merge_shards('p_order', 2, 8)")
            assert "split itself" in refused.value.diag.message_hint
            assert connection.execute("select herd.merge_shards('p_order', 8, 20)").fetchone() == (8,)
            assert other.execute("select herd.merge_shards('p_item', %s, %s)", (one, second)).fetchone() == (2,)
            assert [other.execute(sql).fetchall() for sql in _CONTENTS] == before
        for table in tables:
            assert elastic.shards(table) == where and _bounds(elastic, table) == bounds[table]
            _is_right(elastic, table)
            assert (_made(elastic, table, 2), _indexes(elastic, table, 2)) == made[table]
            for n in (1, 2, 3):
                assert elastic.on_node(n, _WHOLE, (table,)) == whole[table, n]
        assert other.execute("select shard_count from herd.tables where name = 'p_order'").fetchone() == (6,)
        # What tables promise holds, and errors speak of them.
        for id in range(1, 20):
            with pytest.raises(psycopg.errors.UniqueViolation) as failed:
                other.execute("insert into p_order (id) values (%s)", (id,))
            assert failed.value.diag.constraint_name == "p_order_pkey" and failed.value.diag.table_name == "p_order"
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            connection.execute("insert into p_item (order_id, what) select g, 'x' from generate_series(1000, 1040) g")
        with pytest.raises(psycopg.errors.CheckViolation):
            connection.execute("update p_order set amount = -1 where amount = 1")
        connection.execute("delete from p_order where id <= 60")
        assert connection.execute("select count(*) from p_item where order_id <= 60").fetchone() == (0,)
    elastic.is_tidy()
    elastic.a.run("drop trigger p_says on p_item", "drop function p_says")


def test_below_what_a_table_was_made_with(elastic, orders):  # noqa: F811
    """Shards that no split has made are halves, too; tables that are made later join the group."""
    with elastic.a.connect() as connection, elastic.b.connect(prepare_threshold=0) as other:
        before = [other.execute(sql).fetchall() for sql in _CONTENTS]
        for id in range(1, 31):
            other.execute("select amount from p_order where id = %s", (id,))
        for one, second in ((0, 3), (1, 4), (2, 5)):
            assert connection.execute("select herd.merge_shards('p_order', %s, %s)", (one, second)).fetchone() == (one,)
        assert {n: b.upper() for n, b in _bounds(elastic, "p_item").items()} == {n: _hash(3, n) for n in range(3)}
        assert [other.execute(sql).fetchall() for sql in _CONTENTS] == before
        for id in range(1, 31):
            assert other.execute("select amount from p_order where id = %s", (id,)).fetchone() == (id % 10,)
        connection.execute("insert into p_order (id) select g from generate_series(1001, 1100) g")
        assert [id for id in range(1001, 1101) if other.execute("select 1 from p_order where id = %s", (id,)).fetchone() is None] == []
        connection.execute("create table p_more (id int primary key, v int)")
        connection.execute("select create_distributed_table('p_more', 'id', colocate_with => 'p_order', shard_count => 3)")
        connection.execute("insert into p_more select id, id from p_order")
        assert connection.execute("select count(*) from p_order join p_more using (id)").fetchone() == (700,)
        # Another round, moves and splits of what has come of it.
        with pytest.raises(psycopg.errors.InvalidParameterValue) as refused:
            connection.execute("select herd.merge_shards('p_order', 0, 1)")
        assert "odd" in refused.value.diag.message_hint
        elastic.moves("p_more", 1, elastic.b)
        assert connection.execute("select herd.split_shard('p_more', 1)").fetchone() == (4,)
        for table in ("p_order", "p_item", "p_more"):
            _is_right(elastic, table)
        assert other.execute("select count(*), sum(v) from p_more").fetchone()[0] == 700
        other.execute("drop table p_more")
    elastic.is_tidy()


def test_the_other_one_comes_from_its_node(elastic, orders):  # noqa: F811
    with elastic.a.connect() as connection, elastic.b.connect() as other:
        before = [other.execute(sql).fetchall() for sql in _CONTENTS]
        home = elastic.shards("p_order")[4]
        away = home % 3 + 1
        connection.execute("select herd.split_shard('p_order', 4, node => %s)", (str(away),))
        assert elastic.shards("p_order")[10] == away
        jobs = connection.execute("select max(id) from herd.jobs").fetchone()[0]
        # It stays where the first is that is named, whichever number it has.
        assert other.execute("select herd.merge_shards('p_item', 10, 4)").fetchone() == (4,)
        assert elastic.shards("p_item")[4] == away and 10 not in elastic.shards("p_item")
        done = connection.execute("select kind, state from herd.jobs where id > %s order by id", (jobs,)).fetchall()
        assert done == [("move", "done"), ("merge", "done")]
        for table in ("p_order", "p_item"):
            _is_right(elastic, table)
        assert [other.execute(sql).fetchall() for sql in _CONTENTS] == before
    elastic.is_tidy()


def test_ranges_and_lists(elastic):
    elastic.a.run("drop table if exists p_range, p_two, p_list")
    elastic.a.run(
        "create table p_range (at timestamptz, v int, primary key (at))",
        """select create_distributed_table('p_range', 'at', 'range', 'none', bounds =>
           array['from (minvalue) to (''2026-01-01'')', 'from (''2026-01-01'') to (''2027-01-01'')', 'from (''2027-02-01'') to (maxvalue)', 'default'])""",
        "insert into p_range select timestamptz '2026-01-01 UTC' + g * interval '1 hour', g from generate_series(-50, 999) g",
        "create table p_two (a text collate \"C\", b int, primary key (a, b))",
        "select create_distributed_table('p_two', 'a, b', 'range', 'none', bounds => array['from (minvalue, minvalue) to (''m'', 5)', 'from (''m'', 5) to (maxvalue, maxvalue)'])",
        "insert into p_two select 'm', g from generate_series(1, 20) g",
        "create table p_list (land text primary key)",
        "select create_distributed_table('p_list', 'land', 'list', 'none', bounds => array['in (''de'', ''at'', ''ch'')', 'in (''fr'')', 'default'])",
        "insert into p_list values ('de'), ('at'), ('ch'), ('fr'), ('it')",
    )
    with elastic.a.connect() as connection, elastic.b.connect() as other:
        bounds = {t: _bounds(elastic, t) for t in ("p_range", "p_two", "p_list")}
        merge = lambda table, one, second: connection.execute(f"select herd.merge_shards('{table}', {one}, {second})").fetchone()[0]  # noqa: E731
        connection.execute("select herd.split_shard('p_range', 1)")
        connection.execute("select herd.split_shard('p_range', 4)")
        for call in ("'p_range', 1, 5", "'p_range', 1, 2", "'p_range', 5, 0", "'p_list', 0, 0"):
            with pytest.raises(psycopg.errors.InvalidParameterValue):
                connection.execute(f"select herd.merge_shards({call})")
        for call in ("'p_range', 1, 3", "'p_list', 2, 0"):
            with pytest.raises(psycopg.errors.FeatureNotSupported):
                connection.execute(f"select herd.merge_shards({call})")
        assert merge("p_range", 5, 4) == 4 and merge("p_range", 1, 4) == 1
        assert _bounds(elastic, "p_range") == bounds["p_range"]
        assert merge("p_range", 0, 1) == 0
        assert other.execute("select count(*), sum(v) from p_range").fetchone() == (1050, sum(range(-50, 1000)))
        for hour in (-50, -1, 0, 498, 499, 500, 999):
            assert other.execute(f"select v from p_range where at = timestamptz '2026-01-01 UTC' + {hour} * interval '1 hour'").fetchone() == (hour,)
        connection.execute("select herd.split_shard('p_two', 0, at => 'm')")
        assert merge("p_two", 2, 0) == 0 and _bounds(elastic, "p_two") == bounds["p_two"]
        assert merge("p_two", 0, 1) == 0
        assert other.execute("select count(*) from p_two where a = 'm' and b in (4, 5)").fetchone() == (2,)
        connection.execute("select herd.split_shard('p_list', 0, at => array['ch'])")
        assert merge("p_list", 3, 0) == 0 and _bounds(elastic, "p_list") == bounds["p_list"]
        assert merge("p_list", 1, 0) == 0
        assert [other.execute("select count(*) from p_list where land = %s", (land,)).fetchone()[0] for land in ("at", "ch", "de", "fr", "it")] == [1] * 5
        # Of moments PostgreSQL writes more than was asked for.
        for table in ("p_two", "p_list"):
            _is_right(elastic, table)
        connection.execute("drop table p_range, p_two, p_list")
    elastic.is_tidy()


def test_of_tables_that_are_partitioned_by_time(elastic):
    elastic.without_tables()
    elastic.a.run(
        "create table e_at (id int, at date, v int, primary key (id, at)) partition by range (at)",
        *(f"create table e_at_{month} partition of e_at for values from ('2026-0{month}-01') to ('2026-0{month + 1}-01')" for month in (1, 2)),
        "select create_distributed_table('e_at', 'id', colocate_with => 'none')",
        "create table e_of (id int, at date, n int, primary key (id, at, n), foreign key (id, at) references e_at on delete cascade)", "select create_distributed_table('e_of', 'id', colocate_with => 'e_at')",
        "insert into e_at select g, date '2026-01-01' + g % 55, g from generate_series(1, 300) g", "insert into e_of select id, at, v from e_at",
    )
    with elastic.a.connect() as connection, elastic.b.connect() as other:
        contents = ("select * from e_at order by 1", "select * from e_of order by 1", "select count(*) from e_at_2")
        before = [other.execute(sql).fetchall() for sql in contents]
        bounds = {t: _bounds(elastic, t) for t in ("e_at_1", "e_of")}
        connection.execute("select herd.split_shard('e_at', 3)")
        connection.execute("select herd.merge_shards('e_at_2', 3, 9)")
        assert {t: _bounds(elastic, t) for t in bounds} == bounds
        connection.execute("select herd.merge_shards('e_of', 0, 3)")
        assert [other.execute(sql).fetchall() for sql in contents] == before
        for table in ("e_at_1", "e_at_2", "e_of"):
            _is_right(elastic, table)
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            connection.execute("insert into e_of select g, '2026-01-01', 1 from generate_series(1000, 1040) g")
        connection.execute("drop table e_of, e_at")
    elastic.is_tidy()


def test_beside_writers_and_readers(elastic):
    elastic.a.run(
        "drop table if exists m_load", "create table m_load (id int primary key, v int not null, note text)",
        "select create_distributed_table('m_load', 'id', colocate_with => 'none')", "create index on m_load (v)",
        f"insert into m_load select g, 10, 'row ' || g from generate_series(1, {ROWS}) g",
    )
    calls = ("split_shard('m_load', 0)", "merge_shards('m_load', 0, 6)", "merge_shards('m_load', 1, 4)", "split_shard('m_load', 1, node => '3')", "merge_shards('m_load', 1, 4)", "merge_shards('m_load', 3, 0)")
    beside_writers(elastic, lambda n, router: router.run(f"select herd.{calls[n]}"), len(calls))
    with elastic.b.connect() as connection:
        assert connection.execute("select sum(changes) from herd.jobs where about like '%m_load%' and kind = 'merge'").fetchone()[0] > 0, "nothing was written meanwhile"
    assert {n: b.upper() for n, b in _bounds(elastic, "m_load").items()} == {0: _hash(3, 0), 1: _hash(3, 1), 2: _hash(6, 2), 5: _hash(6, 5)}
    _is_right(elastic, "m_load")
    elastic.is_tidy()


def test_what_cannot_be_merged_is_refused_before_anything_is_done(elastic):
    elastic.a.run(
        "drop table if exists p_no, p_good, p_here", "create table p_no (id int primary key, v int)", "create table p_good (id int primary key)", "create table p_here (id int)",
        *(f"select create_distributed_table('{t}', 'id', colocate_with => 'none')" for t in ("p_no", "p_good")),
    )
    assert elastic.moves("p_no", 3) != elastic.shards("p_no")[0]
    elastic.a.run("alter table p_no drop constraint p_no_pkey")
    with elastic.a.connect() as connection:
        jobs = connection.execute("select count(*) from herd.jobs").fetchone()
        for call, sqlstate in {
            "'p_no', 1, 4": "0A000", "'p_no', 0, 3": "0A000", "'p_good', 0, 1": "22023", "'p_good', 0, 0": "22023", "'p_good', 0, 99": "42704", "'p_good', 99, 0": "42704",
            "'p_good', 0, 'x'": "22023", "'p_here', 0, 3": "42809", "'p_nosuch', 0, 3": "42P01", "'p_good', 0": "22004", "'p_good', 0, 3, node => '2'": "42883",
            "'p_good', 0, 1, background => true": "22023", "'p_good', 0, 99, background => true": "42704",
        }.items():
            with pytest.raises(psycopg.Error) as failed:
                connection.execute(f"select herd.merge_shards({call})")
            assert failed.value.sqlstate == sqlstate, (call, failed.value)
        with pytest.raises(psycopg.errors.InvalidParameterValue) as refused:
            connection.execute("select herd.merge_shards('p_good', 2, 3)")
        assert refused.value.diag.message_hint == "The other half of shard 2 is shard 5."
        with pytest.raises(psycopg.errors.ActiveSqlTransaction), connection.transaction():
            connection.execute("select herd.merge_shards('p_good', 0, 3)")
        connection.execute("drop role if exists p_nobody")
        connection.execute("create role p_nobody")
        connection.execute("set role p_nobody")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("select herd.merge_shards('p_good', 0, 3)")
        connection.execute("reset role")
        assert connection.execute("select count(*) from herd.jobs").fetchone() == jobs
        connection.execute("drop role p_nobody")
        connection.execute("drop table p_no, p_good, p_here")
    elastic.is_tidy()


def test_a_transaction_that_keeps_its_snapshot_loses_no_rows(elastic):
    elastic.a.run(
        "drop table if exists p_old", "create table p_old (id int primary key, v int)", "select create_distributed_table('p_old', 'id', colocate_with => 'none')",
        "insert into p_old select g, g from generate_series(1, 500) g",
    )
    with elastic.b.connect(autocommit=False) as old:
        old.execute("set transaction isolation level repeatable read")
        old.execute("select 1 from herd.nodes").fetchall()
        elastic.a.run("select herd.merge_shards('p_old', 1, 4)")
        with pytest.raises(psycopg.errors.SerializationFailure):
            assert old.execute("select count(*) from p_old").fetchone() == (500,)
            raise psycopg.errors.SerializationFailure("all rows were seen")
    elastic.a.run("drop table p_old")

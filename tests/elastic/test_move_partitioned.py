"""A shard of tables that are partitioned by time: of each partition its part goes, and of whatever is colocated."""

import datetime

import psycopg
import pytest

from .places import Asked, reached

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("elastic"), pytest.mark.timeout(600)]

_CONTENTS = ("select * from e_at order by 1, 2", "select * from e_of order by 1, 2, 3", "select count(*) from e_at_2", "select * from e_keys order by 1", "select a.id, o.n from e_at a join e_of o using (id, at) join e_keys using (id) order by 1, 2")


@pytest.fixture
def made(elastic):
    """Rows of three months and of none, what refers to them, and what they refer to."""
    elastic.without_tables()
    elastic.a.run(
        "create table e_keys (id int primary key, name text)", "select create_distributed_table('e_keys', 'id', colocate_with => 'none')",
        "create table e_at (gone int, id int, at date, v int check (v >= 0), twice int generated always as (v * 2) stored, said text, primary key (id, at)) partition by range (at)",
        *(f"create table e_at_{month} partition of e_at for values from ('2026-0{month}-01') to ('2026-0{month + 1}-01')" for month in (1, 2, 3)),
        "create table e_at_rest partition of e_at default", "alter table e_at drop column gone", "create index e_at_v on e_at (v, lower(said)) where v > 3",
        "select create_distributed_table('e_at', 'id', colocate_with => 'e_keys')",
        "create table e_of (id int, at date, n int, primary key (id, at, n), foreign key (id, at) references e_at on delete cascade)", "select create_distributed_table('e_of', 'id', colocate_with => 'e_at')",
        "insert into e_keys select g, 'k' || g from generate_series(1, 300) g", "alter table e_at add constraint of_keys foreign key (id) references e_keys",
        "create or replace function e_says() returns trigger language plpgsql as $$ begin new.said := coalesce(new.said, '') || '!'; return new; end $$",
        "create trigger e_says before insert on e_at for each row execute function e_says()",
        "insert into e_at (id, at, v) select g, date '2026-01-01' + g % 100, g % 50 from generate_series(1, 300) g", "insert into e_of select id, at, v from e_at",
        "drop role if exists e_reader", "create role e_reader", "grant select on e_at to e_reader", "grant select, update (v) on e_at_2 to e_reader",
    )
    yield elastic
    elastic.a.run("drop table if exists e_of, e_at, e_at_2, e_keys cascade", "drop role e_reader")


def _contents(server):
    with server.connect() as connection:
        return [connection.execute(sql).fetchall() for sql in _CONTENTS]


def _is_whole(elastic):
    """What the tables promise holds for every shard, old and new."""
    with elastic.b.connect() as connection:
        assert connection.execute("select object, problem from herd.verify").fetchall() == []
        # Rows of January.
        for id in [i for i in range(1, 301) if 1 <= i % 100 < 30][::4]:
            with pytest.raises(psycopg.errors.ForeignKeyViolation):
                connection.execute("insert into e_at (id, at, v) values (%s + 1000, '2026-01-01', 1)", (id,))
            with pytest.raises((psycopg.errors.ForeignKeyViolation, psycopg.errors.UndefinedTable)):
                connection.execute("insert into e_of values (%s, '2026-07-01', 1)", (id,))
            with pytest.raises(psycopg.errors.CheckViolation):
                connection.execute("update e_at set v = -1 where id = %s", (id,))
            with pytest.raises(psycopg.errors.UniqueViolation):
                connection.execute("insert into e_at (id, at, v) select id, at, v from e_at where id = %s", (id,))
    elastic.is_tidy()


def test_moved_split_isolated_and_drained(made):
    before = _contents(made.a)
    for table, shard in (("e_at_2", 1), ("e_of", 2), ("e_keys", 1), ("e_at_rest", 1)):
        target = made.moves(table, shard)
        assert {made.shards(t)[shard] for t in ("e_at_1", "e_at_2", "e_at_3", "e_at_rest", "e_of", "e_keys")} == {target}
        assert _contents(made.b) == before
    for call in ("split_shard('e_at', 3)", "split_shard('e_at_1', 0, node => '2')", "split_shard('e_of', 3)", "isolate_tenant('e_at', '77')"):
        made.b.run(f"select herd.{call}")
        assert _contents(made.a) == before
    _is_whole(made)
    with made.a.connect() as connection:
        connection.execute("create table e_at_4 partition of e_at for values from ('2026-05-01') to ('2026-06-01')")
        connection.execute("insert into e_at (id, at, v) select g, '2026-05-05', 1 from generate_series(1, 300) g")
        connection.execute("select herd.drain_node('3')")
        assert 3 not in {*made.shards("e_at_4").values(), *made.shards("e_at_1").values(), *made.shards("e_of").values()}
        connection.execute("delete from e_at where at = '2026-05-05'")
        connection.execute("select herd.rebalance()")
        assert set(made.shards("e_at_4").values()) == {1, 2, 3}
        assert connection.execute("select distinct said from e_at").fetchall() == [("!",)], "copied rows fire no triggers"
        connection.execute("set role e_reader")
        assert connection.execute("select count(*) from e_at").fetchone() == (300,)
        assert connection.execute("update e_at_2 set v = v where id = 33").rowcount == 1
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("update e_at set v = v where id = 33")
    assert _contents(made.a) == before
    _is_whole(made)


def test_ranges_are_cut_in_the_middle_of_the_largest_partition(elastic):
    elastic.a.run(
        "drop table if exists e_range", "create table e_range (id int, at date, primary key (id, at)) partition by range (at)",
        *(f"create table e_range_{month} partition of e_range for values from ('2026-0{month}-01') to ('2026-0{month + 1}-01')" for month in (1, 2)),
        "select create_distributed_table('e_range', 'id', strategy => 'range', bounds => ARRAY['FROM (MINVALUE) TO (1000)', 'FROM (1000) TO (MAXVALUE)'])",
        "insert into e_range select g, '2026-01-05' from generate_series(1, 10) g", "insert into e_range select g, '2026-02-05' from generate_series(101, 900) g",
    )
    with elastic.a.connect() as connection:
        assert connection.execute("select herd.split_shard('e_range', 0)").fetchone() == (2,)
        connection.execute("select herd.split_shard('e_range_1', 0, at => '6')")
        bounds = dict(connection.execute("select shard, bound from herd.shards where name = 'e_range_2'").fetchall())
        assert bounds == {0: "FOR VALUES FROM (MINVALUE) TO ('6')", 1: "FOR VALUES FROM ('1000') TO (MAXVALUE)", 2: "FOR VALUES FROM ('500') TO ('1000')", 3: "FOR VALUES FROM ('6') TO ('500')"}
        assert connection.execute("select count(*), sum(id) from e_range").fetchone() == (810, 55 + 800 * 1001 // 2)
        connection.execute("drop table e_range")
    elastic.is_tidy()


def test_whatever_they_are_partitioned_by_and_called(elastic):
    """By hash, whose bounds name tables by numbers that are others on each node; what is referred to comes behind by its name."""
    elastic.a.run(
        "drop table if exists e_b, e_z, e_hash", "create table e_z (id int, at date, primary key (id, at)) partition by range (at)",
        "create table e_z_1 partition of e_z for values from ('2026-01-01') to ('2026-02-01')", "create table e_z_2 partition of e_z default", "select create_distributed_table('e_z', 'id', colocate_with => 'none')",
        "create table e_b (id int, at date, x int, primary key (id, at, x)) partition by range (at)", "create table e_b_1 partition of e_b for values from ('2026-01-01') to ('2026-01-15')",
        "create table e_b_2 partition of e_b default", "select create_distributed_table('e_b', 'id', colocate_with => 'e_z')",
        "alter table e_b add foreign key (id, at) references e_z on update cascade on delete cascade deferrable initially deferred",
        "insert into e_z select g, date '2026-01-01' + g % 60 from generate_series(1, 200) g", "insert into e_b select id, at, 1 from e_z",
        "create table e_hash (id int, k int, v text, primary key (id, k)) partition by hash (k)", *(f"create table e_hash_{n} partition of e_hash for values with (modulus 3, remainder {n})" for n in range(3)),
        "select create_distributed_table('e_hash', 'id', colocate_with => 'none')", "insert into e_hash select g, g % 20, 'v' || g from generate_series(1, 300) g",
    )
    for _ in range(3):
        elastic.moves("e_z_1", 0)
        elastic.moves("e_hash_1", 1)
    elastic.a.run("select herd.split_shard('e_b_2', 0)", "select herd.split_shard('e_hash', 1, node => '2')")
    with elastic.b.connect() as connection:
        assert connection.execute("select count(*) from e_b join e_z using (id, at)").fetchone() == (200,)
        assert connection.execute("select count(*), count(distinct (id, k)) from e_hash").fetchone() == (300, 300)
        assert connection.execute("select count(*) from e_hash_1").fetchone() == connection.execute("select count(*) from e_hash where v in (select v from e_hash_1)").fetchone()
        connection.execute("delete from e_z where id <= 50")
        assert connection.execute("select count(*) from e_b").fetchone() == (150,)
        assert connection.execute("select object, problem from herd.verify").fetchall() == []
        connection.execute("drop table e_b, e_z, e_hash")
    elastic.is_tidy()


def test_without_partitions(elastic):
    elastic.without_tables()
    elastic.a.run("drop table if exists e_none", "create table e_none (id int, at date, primary key (id, at)) partition by range (at)", "select create_distributed_table('e_none', 'id', colocate_with => 'none')")
    with elastic.a.connect() as connection:
        connection.execute("select herd.drain_node('2')")
        connection.execute("create table e_none_1 partition of e_none for values from ('2026-01-01') to ('2027-01-01')")
        assert 2 not in elastic.shards("e_none_1").values()
        connection.execute("insert into e_none select g, '2026-02-02' from generate_series(1, 50) g")
        assert connection.execute("select count(*) from e_none").fetchone() == (50,)
        connection.execute("drop table e_none")
        connection.execute("select herd.rebalance()")
    elastic.is_tidy()


@pytest.mark.parametrize(
    "change",
    ["create table e_at_5 partition of e_at for values from ('2026-06-01') to ('2026-07-01')", "drop table e_at_3", "alter table e_at detach partition e_at_2", "alter table e_at add column more int"],
)
def test_what_is_changed_meanwhile_wins(made, change, tmp_path):
    """The move waits before the exchange, the table becomes another one, and the move undoes itself."""
    # What refers to a partition's rows keeps that from being dropped and detached.
    made.a.run("drop table e_of")
    waits = tmp_path / "waits"
    waiting = made.router(f"move.followed:wait:{waits}")
    shards = made.shards("e_at_1")
    asked = Asked(lambda: made.moves("e_at_1", 1, waiting.server))
    try:
        reached(waits, asked)
        made.a.run(change)
    finally:
        waits.unlink(missing_ok=True)
        asked.join(120)
        waiting.stop()
    assert asked.sqlstates == ["55006"] and made.shards("e_at_1") == shards
    made.is_tidy()
    with made.b.connect() as connection:
        connection.execute("insert into e_at (id, at, v) values (1, %s, 1)", (datetime.date(2026, 1, 31),))
        assert connection.execute("select count(*) from e_at where id = 1").fetchone()[0] >= 1
    made.moves("e_at_1", 1)
    _is_whole(made)

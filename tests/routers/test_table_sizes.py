"""herd.table_sizes, herd.stat_tables and herd.table_size(): what tables take, and what was done with them, on all nodes together,
compared with what the nodes say themselves."""

import time

import psycopg
import pytest

from harness.herd import Herd

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(400)]


@pytest.fixture(scope="module", params=[1, 3], ids=["1 node", "3 nodes"])
def sized(request):
    herd = Herd(nodes=request.param, shards=6)
    try:
        herd.server.run(
            "create role snoop login", "create schema s", "create table s.t (id bigint primary key, k int, wide text)", "create index on s.t (k)",
            "alter table s.t alter wide set storage external", "select create_distributed_table('s.t', 'id')",
            "insert into s.t select g, g % 7, repeat('x', 20 + (g % 50 = 0)::int * 5000) from generate_series(1, 3000) g",
            "create table r (id int primary key, v text)", "insert into r select g, 'r' from generate_series(1, 500) g", "select create_reference_table('r')",
            "create table l (id int primary key, v text)", "insert into l select g, 'l' from generate_series(1, 400) g",
            "create table m (id int not null, at date not null, v int, primary key (id, at)) partition by range (at)",
            "create table m_1 partition of m for values from ('2026-01-01') to ('2026-02-01')",
            "create table m_2 partition of m for values from ('2026-02-01') to ('2026-03-01')", "select create_distributed_table('m', 'id')",
            "insert into m select g, date '2026-01-01' + g % 59, g from generate_series(1, 2000) g",
            "create table lp (id int, at int) partition by range (at)", "create table lp_1 partition of lp for values from (0) to (9)", "insert into lp select 1, 1 from generate_series(1, 300)",
            'create table "S.x" (id int primary key)', "select create_distributed_table('\"S.x\"', 'id')", "insert into \"S.x\" values (1)",
            "analyze s.t, r, l, m, lp",
        )
        yield herd
    finally:
        herd.stop()


def _one(connection, sql, parameters=None):
    return connection.execute(sql, parameters).fetchone()[0]


def _on_nodes(herd, sql) -> list:
    found = []
    for node in herd.node_servers:
        with node.connect() as direct:
            found.append(direct.execute(sql).fetchone())
    return found


def _sum(rows) -> tuple:
    return tuple(sum(column) for column in zip(*rows))


SIZES = "coalesce(sum(pg_relation_size(oid)), 0), coalesce(sum(pg_table_size(oid)), 0), coalesce(sum(pg_indexes_size(oid)), 0), coalesce(sum(pg_total_relation_size(oid)), 0)"
SHARDS = f"select {SIZES}, coalesce(sum(pg_total_relation_size(nullif(reltoastrelid, 0))), 0), count(*) from pg_class where relnamespace = 'herd_shards'::regnamespace and relkind = 'r' and relname ~ '^{{}}_[0-9]+$'"


def test_distributed_tables(sized):
    with sized.server.connect() as c:
        for schema, name, prefix in (("s", "t", "t"), ("public", "m_1", "m_1"), ("public", "S.x", "S[.]x")):
            main, table, index, total, toast, shards = _sum(_on_nodes(sized, SHARDS.format(prefix)))
            row = c.execute(
                "select kind, shards, main_bytes, table_bytes, toast_bytes, index_bytes, total_bytes, copies_bytes, relid = format('%%I.%%I', schema, name)::regclass "
                "from herd.table_sizes where schema = %s and name = %s", (schema, name)).fetchone()
            assert row == ("distributed", shards, main, table - toast, toast, index, total, None, True)
            assert shards == 6 and total > 0
        assert _one(c, "select toast_bytes from herd.table_sizes where name = 't'") > 60 * 4096
        assert c.execute("select name, rows, partition_of from herd.table_sizes where kind = 'distributed' order by 1").fetchall() == [
            ("S.x", None, None), ("m", 2000, None), ("m_1", _one(c, "select count(*) from m_1"), "m"), ("m_2", _one(c, "select count(*) from m_2"), "m"), ("t", 3000, None)]
        # What is partitioned takes what its partitions take.
        assert c.execute("select (select total_bytes from herd.table_sizes where name = 'm') = sum(total_bytes), sum(shards) from herd.table_sizes where partition_of = 'm'").fetchone() == (True, 12)


def test_reference_and_local_tables(sized):
    of_r = f"select {SIZES} from pg_class where oid = 'r'::regclass"
    of_l = of_r.replace("'r'", "'l'")
    with sized.server.connect() as c:
        columns = "select kind, shards, main_bytes, table_bytes + toast_bytes, index_bytes, total_bytes, rows, copies_bytes from herd.table_sizes where name = %s"
        nodes = _on_nodes(sized, of_r)
        assert c.execute(columns, ("r",)).fetchone() == ("reference", None, *nodes[0], 500, _sum(nodes)[3])
        with sized.node_servers[0].connect() as home:
            local = home.execute(of_l).fetchone()
        assert c.execute(columns, ("l",)).fetchone() == ("local", None, *local, 400, None)
        assert c.execute("select name, rows from herd.table_sizes where name ~ '^lp' order by 1").fetchall() == [("lp", 300), ("lp_1", 300)]
        assert {r[0] for r in c.execute("select schema || '.' || name from herd.table_sizes")} == {
            "s.t", "public.S.x", "public.r", "public.l", "public.m", "public.m_1", "public.m_2", "public.lp", "public.lp_1"}


def test_functions(sized):
    with sized.server.connect() as c:
        total = _one(c, "select total_bytes from herd.table_sizes where name = 't'")
        assert total == _sum(_on_nodes(sized, SHARDS.format("t")))[3]
        for sql in ("select herd.table_size('s.t')", "select herd.table_size('s.t'::regclass)", "select herd.table_size('s.t'::regclass::oid)", "select pg_total_relation_size('s.t')",
                    "select pg_catalog.pg_total_relation_size('s.t'::regclass)", "select pg_table_size('s.t') + pg_indexes_size('s.t')",
                    f"select pg_total_relation_size({_one(c, 'select $$s.t$$::regclass::oid')})", "select max(herd.table_size(schema || '.t')) from herd.tables where name = 't'",
                    "with w as (select herd.table_size('s.t') as x) select x from w", "values (herd.table_size('s.t'))"):
            assert _one(c, sql) == total, sql
        assert _one(c, "select herd.table_size(%s)", ("s.t",)) == total
        assert _one(c, "select pg_total_relation_size(%s)", ("s.t",)) == total
        assert _one(c, "select pg_total_relation_size(%s::regclass)", ("l",)) == _one(c, "select total_bytes from herd.table_sizes where name = 'l'")
        main = _sum(_on_nodes(sized, SHARDS.format("t")))[0]
        assert _one(c, "select pg_relation_size('s.t')") == main == _one(c, "select pg_relation_size('s.t'::regclass, 'main')")
        assert _one(c, "select pg_relation_size('s.t', 'main'::text)") == main
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            c.execute("select pg_relation_size('s.t', 'main'::varchar(2))")
        assert _one(c, "select pg_size_pretty(herd.table_size('s.t'))") == _one(c, "select pg_size_pretty(%s::bigint)", (total,))
        assert c.execute("select herd.table_size('l') = pg_total_relation_size('l'), herd.table_size('r') = pg_total_relation_size('r'), herd.table_size(null)").fetchone() == (True, True, None)
        assert c.execute("select herd.table_size('s.t'), pg_table_size('s.t') as y").description[0].name == "table_size"
        # Names that the view has, too, are the query's own.
        rows = c.execute("select name, herd.table_size(format('%I.%I', schema, name)), total_bytes from herd.table_sizes order by total_bytes desc").fetchall()
        assert len(rows) == 9 and all(a == b for _, a, b in rows)
        rows = c.execute("select t.name, t.kind, pg_size_pretty(s.total_bytes) from herd.tables t join herd.table_sizes s using (schema, name) order by s.total_bytes desc").fetchall()
        assert rows[0][:2] == ("t", "distributed") and len(rows) == 6
        assert c.execute("select count(*), herd.table_size('s.t') from s.t where k < 3").fetchone()[1] == total
        assert c.execute("select herd.table_size('s.t') from s.t where id = 5").fetchall() == [(total,)]
        c.execute("create temporary table kept as select herd.table_size('s.t') as x")
        assert _one(c, "select x from kept") == total
        c.execute("set search_path = s")
        assert _one(c, "select herd.table_size('t')") == total == _one(c, "select pg_total_relation_size('t')")
        with pytest.raises(psycopg.errors.UndefinedTable, match='relation "nothing" does not exist'):
            c.execute("select herd.table_size('nothing')")
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="a view that reads herd.table_sizes"):
            c.execute("create view v as select herd.table_size('t')")
        c.execute("create view s.v as select pg_total_relation_size('s.t') as x")
        c.execute("drop view s.v")


def test_queries_of_the_catalogs_stay_theirs(sized):
    """Who adds up a table and its partitions counts nothing twice."""
    with sized.server.connect() as c, sized.node_servers[0].connect() as home:
        sql = "select sum(pg_total_relation_size(relid)) from pg_partition_tree('s.t')"
        assert _one(c, sql) == _one(home, sql)


STATS = ("seq_scan", "seq_tup_read", "idx_scan", "idx_tup_fetch", "n_tup_ins", "n_tup_upd", "n_tup_del", "n_tup_hot_upd", "n_live_tup", "n_dead_tup", "n_mod_since_analyze",
         "n_ins_since_vacuum", "vacuum_count", "autovacuum_count", "analyze_count", "autoanalyze_count")
LAST = ("last_vacuum", "last_autovacuum", "last_analyze", "last_autoanalyze")


def test_statistics(sized):
    with sized.server.connect() as c:
        c.execute("update s.t set k = k + 1 where id <= 100")
        c.execute("delete from s.t where id between 2901 and 2950")
        c.execute("select count(*) from s.t where wide = 'x'")
        c.execute("vacuum s.t")
        c.execute("insert into r values (501, 'more')")
        columns = ", ".join([f"coalesce(sum({x}), 0)::bigint" for x in STATS] + [f"max({x})" for x in LAST])
        of = f"select {columns} from pg_stat_all_tables where schemaname = 'herd_shards' and relname ~ '^t_[0-9]+$'"
        shown = ", ".join([f"coalesce({x}, 0)" for x in STATS] + list(LAST))
        for _ in range(300):
            nodes = _on_nodes(sized, of)
            found = c.execute(f"select {shown} from herd.stat_tables where schemaname = 's' and relname = 't'").fetchone()
            latest = tuple(max((row[len(STATS) + i] for row in nodes if row[len(STATS) + i] is not None), default=None) for i in range(len(LAST)))
            wanted = tuple(sum(row[i] for row in nodes) for i in range(len(STATS))) + latest
            # Nodes tell what backends have done as these get to it.
            if found == wanted and found[STATS.index("n_tup_upd")] >= 100 and found[STATS.index("vacuum_count")] == 6:
                break
            time.sleep(0.2)
        assert found == wanted
        row = dict(zip(STATS + LAST, found))
        assert row["n_tup_ins"] == 3000 and row["n_tup_del"] == 50 and row["n_tup_upd"] == 100 and row["analyze_count"] >= 6 and row["last_vacuum"]
        assert c.execute("select relid = 's.t'::regclass, kind, shards from herd.stat_tables where relname = 't'").fetchone() == (True, "distributed", 6)
        for _ in range(300):
            ins = _one(c, "select n_tup_ins from herd.stat_tables where relname = 'r'")
            if ins == 501:
                break
            time.sleep(0.2)
        # Of a reference table one copy counts.
        assert ins == 501 and _one(c, "select kind from herd.stat_tables where relname = 'l'") == "local"


def test_whoever_asks(sized):
    """Sizes and counts are everybody's to see, as PostgreSQL's are; rows are not."""
    with sized.server.connect() as c, psycopg.connect(sized.server.conninfo.replace("user=postgres", "user=snoop"), autocommit=True) as snoop:
        sql = "select name, total_bytes from herd.table_sizes order by name"
        assert snoop.execute(sql).fetchall() == c.execute(sql).fetchall()
        assert _one(snoop, "select count(*) from herd.stat_tables") == 9
        number = _one(c, "select 's.t'::regclass::oid")
        assert _one(snoop, f"select herd.table_size({number})") == _one(c, "select herd.table_size('s.t')")
        # As PostgreSQL: what a name means is found in schemas that one may use.
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            snoop.execute("select herd.table_size('s.t')")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            snoop.execute("select * from herd.table_parts")


def test_locked_tables_keep_nobody_from_others(sized):
    with sized.server.connect() as c, sized.server.connect() as locker:
        locker.execute("begin")
        locker.execute("lock table l in access exclusive mode")
        c.execute("set statement_timeout = '60s'")
        assert _one(c, "select herd.table_size('s.t')") > 0
        locker.execute("rollback")


def test_nodes_and_functions_say_what_to_do(sized):
    with sized.node_servers[0].connect() as home:
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="computed by a router"):
            home.execute("select herd.table_size('s.t')")
        assert _one(home, "select total_bytes from herd.table_sizes where name = 'l'") == _one(home, "select pg_total_relation_size('l')")


def test_herds_from_before(sized):
    """A router that finds a catalog of an earlier version makes what is missing on all nodes."""
    for node in sized.node_servers:
        node.run("drop function herd.table_size", "drop view herd.table_sizes, herd.stat_tables, herd.table_parts", "comment on schema herd is 'of an earlier version'")
    sized.down()
    sized.up()
    with sized.server.connect() as c:
        total = _sum(_on_nodes(sized, SHARDS.format("t")))[3]
        assert c.execute("select herd.table_size('s.t'), (select n_tup_ins from herd.stat_tables where relname = 't') >= 0").fetchone() == (total, True)

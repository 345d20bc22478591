-- What a node has of each table, and has done with it: its own part of views over all nodes. A router adds the parts up, and fills in what
-- a node can't know. Sizes, estimates and counts are those of PostgreSQL, which shows them to everybody.

-- Every table of users' own with what holds its rows: itself, or its partitions however deep, shards among them. Finding them locks
-- nothing; what asks for their sizes waits for who holds one of them ACCESS EXCLUSIVE, as PostgreSQL's own functions do.
CREATE OR REPLACE VIEW herd.table_parts AS
    SELECT t.oid AS relid, n.nspname::text AS schema, t.relname::text AS name,
           (SELECT i.inhparent FROM pg_catalog.pg_inherits i WHERE i.inhrelid = t.oid AND t.relispartition) AS parent,
           p.oid AS part, p.relnamespace = 'herd_shards'::regnamespace AS is_shard, p.reltuples, nullif(p.reltoastrelid, 0) AS toast
      FROM pg_catalog.pg_class t JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace
      LEFT JOIN (SELECT c.*, coalesce(a.relid, c.oid) AS root FROM pg_catalog.pg_class c
                   LEFT JOIN LATERAL pg_catalog.pg_partition_ancestors(c.oid) a ON c.relispartition
                  WHERE c.relkind IN ('r', 'm')) p ON p.root = t.oid
     WHERE t.relkind IN ('r', 'p', 'm') AND n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'herd', 'herd_shards');

-- What a row's tableoid is to users: the distributed table, or the partition by time, that its shard is of.
CREATE OR REPLACE FUNCTION herd.table_of_shard(shard oid) RETURNS regclass
    LANGUAGE sql STABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(i.inhparent, c.oid)::regclass
      FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid AND c.relnamespace = 'herd_shards'::regnamespace
     WHERE c.oid = shard
$$;

CREATE OR REPLACE VIEW herd.table_sizes AS
    SELECT p.relid, p.schema, p.name, NULL::text AS kind, min(p.parent::regclass::text) AS partition_of,
           count(*) FILTER (WHERE p.is_shard) AS shards,
           sum(p.reltuples) FILTER (WHERE p.reltuples >= 0)::bigint AS rows,
           coalesce(sum(pg_relation_size(p.part)), 0)::bigint AS main_bytes,
           coalesce(sum(pg_table_size(p.part) - coalesce(pg_total_relation_size(p.toast), 0)), 0)::bigint AS table_bytes,
           coalesce(sum(pg_total_relation_size(p.toast)), 0)::bigint AS toast_bytes,
           coalesce(sum(pg_indexes_size(p.part)), 0)::bigint AS index_bytes,
           coalesce(sum(pg_total_relation_size(p.part)), 0)::bigint AS total_bytes, NULL::bigint AS copies_bytes
      FROM herd.table_parts p GROUP BY p.relid, p.schema, p.name;
COMMENT ON VIEW herd.table_sizes IS 'what each table takes on all nodes together; a reference table: one copy';

CREATE OR REPLACE VIEW herd.stat_tables AS
    SELECT p.relid, p.schema AS schemaname, p.name AS relname, NULL::text AS kind, count(*) FILTER (WHERE p.is_shard) AS shards,
           sum(s.seq_scan)::bigint AS seq_scan, sum(s.seq_tup_read)::bigint AS seq_tup_read,
           sum(s.idx_scan)::bigint AS idx_scan, sum(s.idx_tup_fetch)::bigint AS idx_tup_fetch,
           sum(s.n_tup_ins)::bigint AS n_tup_ins, sum(s.n_tup_upd)::bigint AS n_tup_upd, sum(s.n_tup_del)::bigint AS n_tup_del,
           sum(s.n_tup_hot_upd)::bigint AS n_tup_hot_upd, sum(s.n_live_tup)::bigint AS n_live_tup, sum(s.n_dead_tup)::bigint AS n_dead_tup,
           sum(s.n_mod_since_analyze)::bigint AS n_mod_since_analyze, sum(s.n_ins_since_vacuum)::bigint AS n_ins_since_vacuum,
           max(s.last_vacuum) AS last_vacuum, max(s.last_autovacuum) AS last_autovacuum,
           max(s.last_analyze) AS last_analyze, max(s.last_autoanalyze) AS last_autoanalyze,
           sum(s.vacuum_count)::bigint AS vacuum_count, sum(s.autovacuum_count)::bigint AS autovacuum_count,
           sum(s.analyze_count)::bigint AS analyze_count, sum(s.autoanalyze_count)::bigint AS autoanalyze_count
      FROM herd.table_parts p LEFT JOIN pg_catalog.pg_stat_all_tables s ON s.relid = p.part
     GROUP BY p.relid, p.schema, p.name;
COMMENT ON VIEW herd.stat_tables IS 'pg_stat_user_tables over all nodes: shards added up';

-- Routers write its value into statements.
CREATE OR REPLACE FUNCTION herd.table_size(relation regclass) RETURNS bigint
LANGUAGE plpgsql STABLE STRICT SET search_path = pg_catalog, pg_temp AS
$$ BEGIN
    RAISE EXCEPTION 'herd.table_size() is computed by a router, in statements of clients'' own'
        USING ERRCODE = 'feature_not_supported', HINT = 'Neither functions nor views can call it. SELECT total_bytes FROM herd.table_sizes through a router.';
END $$;
COMMENT ON FUNCTION herd.table_size(regclass) IS 'bytes of a table on all nodes together, with its indexes and TOAST (through a router)';

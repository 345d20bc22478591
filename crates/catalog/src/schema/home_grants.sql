-- As grants.sql, for what is on home alone.

GRANT SELECT ON herd.node, herd.colocation, herd.shard, herd.relation, herd.nodes, herd.tables, herd.shards, herd.progress, herd.column_copies, herd.column_stores, herd.replicas TO PUBLIC;
GRANT EXECUTE ON FUNCTION herd.forget_dropped(), herd.follow_rename(text, text, text, text),
    herd.follow_prefix(text, text, bytea), herd.met_since(bigint) TO PUBLIC;
-- What any caller may do.
GRANT EXECUTE ON FUNCTION herd.code_in(text), herd.names_rows(text), herd.code_read(), herd.behind_locks(), herd.definitions() TO PUBLIC;

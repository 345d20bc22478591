-- As grants.sql, for what is on home alone.

GRANT SELECT ON herd.node, herd.colocation, herd.shard, herd.relation, herd.nodes, herd.tables, herd.shards, herd.progress TO PUBLIC;
GRANT EXECUTE ON FUNCTION herd.forget_dropped(), herd.follow_rename(text, text, text, text),
    herd.follow_prefix(text, text, bytea), herd.met_since(bigint) TO PUBLIC;

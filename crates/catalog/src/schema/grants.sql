-- Who may do what with what is in schema herd. Everything is taken away first, so that what is not named here is nobody's
-- but the owner's; the owner is the router's own role.

REVOKE ALL ON ALL TABLES IN SCHEMA herd FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA herd FROM PUBLIC;

-- Routers read these in the name of any client.
GRANT SELECT ON herd.herd, herd.epoch, herd.column_copy, herd.decisions, herd.transactions, herd.locks, herd.sessions, herd.verify,
    herd.shard_tables, herd.table_sizes, herd.stat_tables TO PUBLIC;

-- Routers call these in the name of any client. Each checks for itself what it is asked for.
GRANT EXECUTE ON FUNCTION herd.raise_epoch(bigint, bytea), herd.decide(text, bytea), herd.mirror_partitions(regclass) TO PUBLIC;

-- These do what their caller may do, and nothing in anybody else's name.
GRANT EXECUTE ON FUNCTION herd.knows_maintain(), herd.rights(regclass), herd.rights_of_shards(regclass), herd.settings(regclass, regclass), herd.replaced(), herd.distributed(), herd.verify(), herd.run(text), herd.let_own(text),
    herd.lock_tables(text, text, integer), herd.lock_catalog(bigint, integer),
    herd.run_as(name, text), herd.run_as_owner(regclass, text), herd.run_on(regclass, text), herd.create_as_owner(name, text, text, text, text), herd.create_partition(regclass, name, text), herd.make_view(name, text, text, text), herd.lock_views(text[], integer), herd.drop_views(text[]), herd.name_of(oid),
    herd.strip(regclass), herd.note_made(text, regclass), herd.made(text), herd.hold_schema(text), herd.still_table(regclass, oid), herd.cluster_partition(regclass, regclass, text), herd.refuse_admin_call(text), herd.cluster(regclass, text), herd.create_time_partitions(regclass, interval, timestamptz, timestamptz), herd.drop_old_time_partitions(regclass, timestamptz), herd.move_shard(regclass, integer, text), herd.split_shard(regclass, integer, text, text), herd.merge_shards(regclass, integer, integer), herd.isolate_tenant(regclass, text, text), herd.drain_node(text), herd.rebalance(), herd.rebalance(text), herd.rebalance_plan(text), herd.wait_job(bigint), herd.move_shard(regclass, integer, text, boolean), herd.split_shard(regclass, integer, text, text[], boolean), herd.merge_shards(regclass, integer, integer, boolean), herd.isolate_tenant(regclass, text, text, boolean), herd.drain_node(text, boolean), herd.cluster(regclass, text, boolean), herd.add_column_copy(regclass, text[], text[], boolean), herd.create_distributed_table(regclass, text, text, text, integer, text, text[], boolean), herd.create_reference_table(regclass, boolean), herd.undistribute_table(regclass, boolean), herd.rebalance(text, boolean), herd.restore_point(text), herd.add_column_copy(regclass, text[], text[]), herd.drop_column_copy(regclass), herd.materialized(), herd.read_whole(boolean), herd.grant_as(regrole, text), herd.table_size(regclass), herd.table_of_shard(oid), herd.repair(regclass, text, boolean), herd.verify(regclass)
    TO PUBLIC;

-- Owners of functions say so by which argument they are distributed; PostgreSQL lets nobody set what it does not know. It is the server's, not the
-- database's, and a superuser's to give: without it only superusers distribute functions.
DO $herd$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_parameter_acl WHERE parname = 'herd.distribution_argument') THEN
        GRANT SET ON PARAMETER herd.distribution_argument TO PUBLIC;
    END IF;
EXCEPTION WHEN OTHERS THEN
    NULL;
END $herd$;

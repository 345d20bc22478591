-- Admin functions under the names Citus users know. A router answers calls by itself and never sends them here; these
-- are what \df shows, and an error with meaning for a client that is connected to a node.
CREATE OR REPLACE FUNCTION herd.refuse_admin_call(name text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$ BEGIN
    RAISE EXCEPTION '%() can only be called through a router', name
        USING ERRCODE = 'feature_not_supported',
              HINT = 'Connect to a pgherd router; this connection goes straight to one node of the herd.';
END $$;

CREATE OR REPLACE FUNCTION public.create_distributed_table(
    table_name regclass, distribution_column text, distribution_type text DEFAULT 'hash',
    colocate_with text DEFAULT 'default', shard_count integer DEFAULT NULL,
    strategy text DEFAULT NULL, bounds text[] DEFAULT NULL) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT herd.refuse_admin_call('create_distributed_table') $$;
COMMENT ON FUNCTION public.create_distributed_table(regclass, text, text, text, integer, text, text[])
    IS 'splits a table over the nodes of the herd by its key (through a router)';

CREATE OR REPLACE FUNCTION public.create_reference_table(table_name regclass) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT herd.refuse_admin_call('create_reference_table') $$;
COMMENT ON FUNCTION public.create_reference_table(regclass) IS 'keeps a full copy of a table on every node of the herd (through a router)';

CREATE OR REPLACE FUNCTION public.undistribute_table(table_name regclass) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT herd.refuse_admin_call('undistribute_table') $$;
COMMENT ON FUNCTION public.undistribute_table(regclass) IS 'makes a distributed or reference table local again (through a router)';

CREATE OR REPLACE FUNCTION public.create_distributed_function(function_name regprocedure, distribution_arg_name text DEFAULT NULL,
    colocate_with text DEFAULT 'default', force_delegation boolean DEFAULT NULL) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT herd.refuse_admin_call('create_distributed_function') $$;
COMMENT ON FUNCTION public.create_distributed_function(regprocedure, text, text, boolean)
    IS 'has calls of a function run on the node of the value of one of its arguments (through a router)';

CREATE OR REPLACE FUNCTION public.citus_add_node(nodename text, nodeport integer) RETURNS integer
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT herd.refuse_admin_call('citus_add_node'); SELECT NULL::integer $$;
COMMENT ON FUNCTION public.citus_add_node(text, integer) IS 'adds a server to the herd (through a router)';

CREATE OR REPLACE FUNCTION public.citus_remove_node(nodename text, nodeport integer) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT herd.refuse_admin_call('citus_remove_node') $$;
COMMENT ON FUNCTION public.citus_remove_node(text, integer) IS 'removes a server from the herd (through a router)';

CREATE OR REPLACE FUNCTION herd.cluster(table_name regclass, index_name text) RETURNS integer
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT herd.refuse_admin_call('herd.cluster'); SELECT NULL::integer $$;
COMMENT ON FUNCTION herd.cluster(regclass, text) IS 'rewrites the shards of a table in the order of an index, readers going on (through a router)';

CREATE OR REPLACE FUNCTION herd.create_time_partitions(
    table_name regclass, partition_interval interval, until timestamptz, start_from timestamptz DEFAULT now()) RETURNS integer
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT herd.refuse_admin_call('herd.create_time_partitions'); SELECT NULL::integer $$;
COMMENT ON FUNCTION herd.create_time_partitions(regclass, interval, timestamptz, timestamptz)
    IS 'makes the missing partitions of a distributed table that is partitioned by time (through a router)';

CREATE OR REPLACE FUNCTION herd.drop_old_time_partitions(table_name regclass, before timestamptz) RETURNS integer
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT herd.refuse_admin_call('herd.drop_old_time_partitions'); SELECT NULL::integer $$;
COMMENT ON FUNCTION herd.drop_old_time_partitions(regclass, timestamptz)
    IS 'drops the partitions of a distributed table that end before a time (through a router)';

CREATE OR REPLACE FUNCTION herd.move_shard(table_name regclass, shard integer, node text) RETURNS bigint
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT herd.refuse_admin_call('herd.move_shard'); SELECT NULL::bigint $$;
COMMENT ON FUNCTION herd.move_shard(regclass, integer, text)
    IS 'moves a shard of a table, and those of the tables colocated with it, to another node, reads and writes going on (through a router)';

CREATE OR REPLACE FUNCTION herd.split_shard(table_name regclass, shard integer, node text DEFAULT NULL, at text DEFAULT NULL) RETURNS integer
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT herd.refuse_admin_call('herd.split_shard'); SELECT NULL::integer $$;
COMMENT ON FUNCTION herd.split_shard(regclass, integer, text, text)
    IS 'makes two shards of one of a table, and of those of the tables colocated with it, reads and writes going on (through a router)';

CREATE OR REPLACE FUNCTION herd.merge_shards(table_name regclass, shard integer, other integer) RETURNS integer
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT herd.refuse_admin_call('herd.merge_shards'); SELECT NULL::integer $$;
COMMENT ON FUNCTION herd.merge_shards(regclass, integer, integer)
    IS 'makes one shard of two of a table that are halves of one, or neighbours, and of those of the tables colocated with it, reads and writes going on (through a router)';

CREATE OR REPLACE FUNCTION herd.isolate_tenant(table_name regclass, key text, node text DEFAULT NULL) RETURNS integer
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT herd.refuse_admin_call('herd.isolate_tenant'); SELECT NULL::integer $$;
COMMENT ON FUNCTION herd.isolate_tenant(regclass, text, text)
    IS 'splits the shard of a key until it holds that key alone or nearly, reads and writes going on (through a router)';

CREATE OR REPLACE FUNCTION herd.drain_node(node text) RETURNS integer
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT herd.refuse_admin_call('herd.drain_node'); SELECT NULL::integer $$;
COMMENT ON FUNCTION herd.drain_node(text) IS 'moves all shards of a node to other nodes, one after another (through a router)';

CREATE OR REPLACE FUNCTION herd.rebalance() RETURNS integer
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT herd.refuse_admin_call('herd.rebalance'); SELECT NULL::integer $$;
COMMENT ON FUNCTION herd.rebalance() IS 'moves shards until each node has as many of each colocation group, or one more (through a router)';

CREATE OR REPLACE FUNCTION herd.restore_point(name text) RETURNS text
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT herd.refuse_admin_call('herd.restore_point'); SELECT NULL::text $$;
COMMENT ON FUNCTION herd.restore_point(text) IS 'makes a named restore point on all nodes that cuts no transaction over several of them in half (through a router)';

CREATE OR REPLACE FUNCTION herd.add_column_copy(table_name regclass, columns text[] DEFAULT NULL, order_by text[] DEFAULT NULL) RETURNS bigint
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT herd.refuse_admin_call('herd.add_column_copy'); SELECT NULL::bigint $$;
COMMENT ON FUNCTION herd.add_column_copy(regclass, text[], text[])
    IS 'has the stores beside the nodes keep a columnar copy of a table (through a router)';

CREATE OR REPLACE FUNCTION herd.drop_column_copy(table_name regclass) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT herd.refuse_admin_call('herd.drop_column_copy') $$;
COMMENT ON FUNCTION herd.drop_column_copy(regclass) IS 'has the stores beside the nodes forget the columnar copy of a table (through a router)';

-- The same as jobs in the background: they answer with the job's number at once.
CREATE OR REPLACE FUNCTION herd.move_shard(table_name regclass, shard integer, node text, background boolean) RETURNS bigint
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT herd.refuse_admin_call('herd.move_shard'); SELECT NULL::bigint $$;
COMMENT ON FUNCTION herd.move_shard(regclass, integer, text, boolean) IS 'moves a shard, by a job in the background (through a router)';

CREATE OR REPLACE FUNCTION herd.split_shard(table_name regclass, shard integer, node text, at text[], background boolean) RETURNS bigint
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT herd.refuse_admin_call('herd.split_shard'); SELECT NULL::bigint $$;
COMMENT ON FUNCTION herd.split_shard(regclass, integer, text, text[], boolean) IS 'splits a shard, by a job in the background (through a router)';

CREATE OR REPLACE FUNCTION herd.merge_shards(table_name regclass, shard integer, other integer, background boolean) RETURNS bigint
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT herd.refuse_admin_call('herd.merge_shards'); SELECT NULL::bigint $$;
COMMENT ON FUNCTION herd.merge_shards(regclass, integer, integer, boolean) IS 'merges two shards, by a job in the background (through a router)';

CREATE OR REPLACE FUNCTION herd.isolate_tenant(table_name regclass, key text, node text, background boolean) RETURNS bigint
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT herd.refuse_admin_call('herd.isolate_tenant'); SELECT NULL::bigint $$;
COMMENT ON FUNCTION herd.isolate_tenant(regclass, text, text, boolean) IS 'splits the shard of a key until it holds that key alone, by a job in the background (through a router)';

CREATE OR REPLACE FUNCTION herd.cluster(table_name regclass, index_name text, background boolean) RETURNS bigint
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT herd.refuse_admin_call('herd.cluster'); SELECT NULL::bigint $$;
COMMENT ON FUNCTION herd.cluster(regclass, text, boolean) IS 'rewrites the shards of a table in the order of an index, by a job in the background (through a router)';

CREATE OR REPLACE FUNCTION herd.add_column_copy(table_name regclass, columns text[], order_by text[], background boolean) RETURNS bigint
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT herd.refuse_admin_call('herd.add_column_copy'); SELECT NULL::bigint $$;
COMMENT ON FUNCTION herd.add_column_copy(regclass, text[], text[], boolean)
    IS 'has the stores beside the nodes make a columnar copy of a table, by a job in the background that ends when they have it (through a router)';

-- Those below are called by the names of public's; they are here because they are the herd's alone.
CREATE OR REPLACE FUNCTION herd.create_distributed_table(
    table_name regclass, distribution_column text, distribution_type text, colocate_with text, shard_count integer,
    strategy text, bounds text[], background boolean) RETURNS bigint
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT herd.refuse_admin_call('create_distributed_table'); SELECT NULL::bigint $$;
COMMENT ON FUNCTION herd.create_distributed_table(regclass, text, text, text, integer, text, text[], boolean)
    IS 'splits a table over the nodes of the herd by its key, by a job in the background (through a router)';

CREATE OR REPLACE FUNCTION herd.create_reference_table(table_name regclass, background boolean) RETURNS bigint
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT herd.refuse_admin_call('create_reference_table'); SELECT NULL::bigint $$;
COMMENT ON FUNCTION herd.create_reference_table(regclass, boolean) IS 'keeps a full copy of a table on every node of the herd, made by a job in the background (through a router)';

CREATE OR REPLACE FUNCTION herd.undistribute_table(table_name regclass, background boolean) RETURNS bigint
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT herd.refuse_admin_call('undistribute_table'); SELECT NULL::bigint $$;
COMMENT ON FUNCTION herd.undistribute_table(regclass, boolean) IS 'makes a distributed or reference table local again, by a job in the background (through a router)';

CREATE OR REPLACE FUNCTION herd.drain_node(node text, background boolean) RETURNS bigint
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT herd.refuse_admin_call('herd.drain_node'); SELECT NULL::bigint $$;
COMMENT ON FUNCTION herd.drain_node(text, boolean) IS 'moves all shards of a node to other nodes, by a job in the background (through a router)';

CREATE OR REPLACE FUNCTION herd.rebalance(by text, background boolean) RETURNS bigint
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT herd.refuse_admin_call('herd.rebalance'); SELECT NULL::bigint $$;
COMMENT ON FUNCTION herd.rebalance(text, boolean) IS 'moves shards until nodes have as much of what is named, by a job in the background (through a router)';

CREATE OR REPLACE FUNCTION herd.rebalance(by text) RETURNS integer
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT herd.refuse_admin_call('herd.rebalance'); SELECT NULL::integer $$;
COMMENT ON FUNCTION herd.rebalance(text) IS 'moves shards until nodes have as many shards, bytes (size), rows, or as much to do (load) (through a router)';

CREATE OR REPLACE FUNCTION herd.rebalance_plan(by text DEFAULT 'shards')
RETURNS TABLE (table_name text, shard integer, from_node text, to_node text, bytes bigint, rows bigint)
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT herd.refuse_admin_call('herd.rebalance_plan'); SELECT NULL::text, NULL::integer, NULL::text, NULL::text, NULL::bigint, NULL::bigint $$;
COMMENT ON FUNCTION herd.rebalance_plan(text) IS 'what herd.rebalance would move, in its order (through a router)';

CREATE OR REPLACE FUNCTION herd.repair(table_name regclass DEFAULT NULL, trust_node text DEFAULT NULL, dry_run boolean DEFAULT false)
RETURNS TABLE (node text, object text, problem text, mended boolean, action text)
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT herd.refuse_admin_call('herd.repair'); SELECT NULL::text, NULL::text, NULL::text, NULL::boolean, NULL::text $$;
CREATE OR REPLACE FUNCTION herd.verify(table_name regclass) RETURNS TABLE (node text, object text, problem text)
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT herd.refuse_admin_call('herd.verify'); SELECT NULL::text, NULL::text, NULL::text $$;
COMMENT ON FUNCTION herd.verify(regclass) IS 'what is wrong with a table on any node: its schema, its rows and its rights (through a router)';

COMMENT ON FUNCTION herd.repair(regclass, text, boolean) IS 'puts right what was damaged past the routers where there is one right answer, and tells what a person has to decide (through a router)';

CREATE OR REPLACE FUNCTION herd.wait_job(job bigint) RETURNS text
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT herd.refuse_admin_call('herd.wait_job'); SELECT NULL::text $$;
COMMENT ON FUNCTION herd.wait_job(bigint) IS 'waits until a job has ended: what it has answered, or its error (through a router)';

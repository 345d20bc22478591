-- What a herd keeps on every one of its nodes. Runs inside one transaction; safe to run again.
-- PUBLIC may read all of it: any client's role runs through a router.

CREATE SCHEMA IF NOT EXISTS herd;
COMMENT ON SCHEMA herd IS 'pgherd: catalog of the herd';
GRANT USAGE ON SCHEMA herd TO PUBLIC;

-- Shards are partitions in this schema, out of the way of \dt. Privileges on each are mirrored from its parent.
CREATE SCHEMA IF NOT EXISTS herd_shards;
COMMENT ON SCHEMA herd_shards IS 'pgherd: the shards of distributed tables';
GRANT USAGE ON SCHEMA herd_shards TO PUBLIC;

-- Which herd this server belongs to: 64 random bits in hexadecimal.
CREATE TABLE IF NOT EXISTS herd.herd (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    id  text NOT NULL CHECK (id ~ '^[0-9a-f]{16}$')
);

-- Raised by every change of the catalog, in the transaction that makes the change: a router whose snapshot has
-- another epoch is stale.
CREATE TABLE IF NOT EXISTS herd.epoch (
    one   boolean PRIMARY KEY DEFAULT true CHECK (one),
    epoch bigint NOT NULL
);
INSERT INTO herd.epoch (epoch) VALUES (1) ON CONFLICT DO NOTHING;

-- Commit decisions of transactions across nodes. The client's own role inserts the row.
CREATE TABLE IF NOT EXISTS herd.decision (
    gid        text PRIMARY KEY,
    decided_at timestamptz NOT NULL DEFAULT now()
);

-- A node's own part of views over all nodes; a router joins them, and fills in what a node can't know.
CREATE OR REPLACE VIEW herd.transactions AS
    SELECT NULL::integer AS node, p.gid, p.owner::text AS owner, p.prepared AS prepared_at,
           split_part(p.gid, '_', 3)::integer AS decider, split_part(p.gid, '_', 4) AS router, NULL::text AS state
      FROM pg_catalog.pg_prepared_xacts p, herd.herd h
     WHERE p.database = current_database() AND p.gid ~ ('^herd_' || h.id || '_[0-9]{1,9}_[0-9a-f]{16}_[0-9]+_[0-9]+$');
COMMENT ON VIEW herd.transactions IS 'transactions of this herd that stand prepared, and whether their decider has decided';

CREATE OR REPLACE VIEW herd.locks AS
    SELECT NULL::integer AS node, w.pid AS waiter_pid, NULL::integer AS waiter_session, w.usename::text AS waiter,
           clock_timestamp() - w.query_start AS waiting, w.query AS waiter_query, h.pid AS holder_pid, NULL::integer AS holder_session,
           h.usename::text AS holder, h.state AS holder_state, h.query AS holder_query
      FROM pg_catalog.pg_stat_activity w
      CROSS JOIN LATERAL unnest(pg_catalog.pg_blocking_pids(w.pid)) AS b (pid)
      LEFT JOIN pg_catalog.pg_stat_activity h ON h.pid = b.pid
     WHERE w.wait_event_type = 'Lock';
COMMENT ON VIEW herd.locks IS 'who waits for whom; sessions are numbered as in herd.sessions';

-- Routers put their sessions here; a node knows none.
CREATE OR REPLACE VIEW herd.sessions AS
    SELECT NULL::integer AS pid, NULL::text AS router, NULL::text AS "user", NULL::text AS database, NULL::text AS application_name,
           NULL::text AS client_address, NULL::text AS state, NULL::timestamptz AS since, NULL::text[] AS pinned_by,
           NULL::boolean AS in_transaction, NULL::integer[] AS nodes, NULL::text AS statement
     WHERE false;
COMMENT ON VIEW herd.sessions IS 'the sessions of the router that is asked';

GRANT SELECT ON herd.transactions, herd.locks, herd.sessions TO PUBLIC;
GRANT SELECT ON herd.herd, herd.epoch TO PUBLIC;
GRANT SELECT, INSERT ON herd.decision TO PUBLIC;

-- Raises the epoch by one, or to `target` where home's new epoch is already known: nodes that took part in the same
-- changes have the same epoch. SECURITY DEFINER, because any role that may run DDL must be able to raise it.
CREATE OR REPLACE FUNCTION herd.bump_epoch(target bigint DEFAULT NULL) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog AS
$$ UPDATE herd.epoch SET epoch = CASE WHEN target IS NULL THEN epoch + 1 ELSE greatest(epoch, target) END RETURNING epoch $$;
COMMENT ON FUNCTION herd.bump_epoch(bigint) IS 'raises the epoch, so that routers load the catalog anew';

-- Takes away every privilege on a table that is not its owner's, those of ALTER DEFAULT PRIVILEGES included.
CREATE OR REPLACE FUNCTION herd.revoke_all(target regclass) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog AS
$body$
DECLARE
    item record;
BEGIN
    FOR item IN
        SELECT DISTINCT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS role
          FROM pg_class c, aclexplode(c.relacl) a
         WHERE c.oid = target AND a.grantee <> c.relowner
    LOOP
        EXECUTE format('REVOKE ALL ON TABLE %s FROM %s CASCADE', target, item.role);
    END LOOP;
    FOR item IN
        SELECT DISTINCT attname, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS role
          FROM pg_attribute, aclexplode(attacl) a
         WHERE attrelid = target AND attnum > 0 AND NOT attisdropped
    LOOP
        EXECUTE format('REVOKE ALL (%I) ON TABLE %s FROM %s CASCADE', item.attname, target, item.role);
    END LOOP;
END
$body$;

-- A partition is addressed directly, so it needs what PostgreSQL only looks for on the parent: owner, privileges,
-- replica identity, column statistics settings. With row-level security on the parent nothing is granted on the partitions,
-- because policies are not applied to a partition that is addressed directly.
CREATE OR REPLACE FUNCTION herd.mirror_partitions(parent regclass) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog AS
$body$
DECLARE
    part record;
    item record;
    has_rls boolean;
    owner_of_parent oid;
    identity_of_parent "char";
BEGIN
    SELECT relrowsecurity, relowner, relreplident INTO has_rls, owner_of_parent, identity_of_parent
      FROM pg_class WHERE oid = parent;
    FOR part IN
        SELECT c.oid, c.oid::regclass::text AS name, c.relowner, c.relacl, c.relreplident
          FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
         WHERE i.inhparent = parent ORDER BY c.oid
    LOOP
        IF part.relowner <> owner_of_parent THEN
            EXECUTE format('ALTER TABLE %s OWNER TO %s', part.name, owner_of_parent::regrole);
        END IF;

        PERFORM herd.revoke_all(part.oid);
        IF (SELECT relacl IS NOT NULL FROM pg_class WHERE oid = parent) THEN
            EXECUTE format('REVOKE ALL ON TABLE %s FROM %s', part.name, owner_of_parent::regrole);
            FOR item IN
                SELECT a.privilege_type AS privilege, a.is_grantable,
                       CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS role
                  FROM pg_class c, aclexplode(c.relacl) a
                 WHERE c.oid = parent AND (a.grantee = c.relowner OR NOT has_rls)
            LOOP
                EXECUTE format('GRANT %s ON TABLE %s TO %s%s', item.privilege, part.name, item.role,
                               CASE WHEN item.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END);
            END LOOP;
        END IF;
        FOR item IN
            SELECT t.attname, a.privilege_type AS privilege, a.is_grantable,
                   CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS role
              FROM pg_attribute t, aclexplode(t.attacl) a
             WHERE t.attrelid = parent AND t.attnum > 0 AND NOT t.attisdropped AND NOT has_rls
        LOOP
            EXECUTE format('GRANT %s (%I) ON TABLE %s TO %s%s', item.privilege, item.attname, part.name, item.role,
                           CASE WHEN item.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END);
        END LOOP;

        -- ALTER TABLE … REPLICA IDENTITY and SET (n_distinct …) stay on the table they name; SET STATISTICS does not
        -- reach partitions made later.
        IF identity_of_parent = 'i' THEN
            EXECUTE (
                SELECT format('ALTER TABLE %s REPLICA IDENTITY USING INDEX %I', part.name, ic.relname)
                  FROM pg_index pi
                  JOIN pg_inherits ii ON ii.inhparent = pi.indexrelid
                  JOIN pg_index ci ON ci.indexrelid = ii.inhrelid AND ci.indrelid = part.oid
                  JOIN pg_class ic ON ic.oid = ci.indexrelid
                 WHERE pi.indrelid = parent AND pi.indisreplident);
        ELSIF identity_of_parent <> part.relreplident THEN
            EXECUTE format('ALTER TABLE %s REPLICA IDENTITY %s', part.name,
                           CASE identity_of_parent WHEN 'f' THEN 'FULL' WHEN 'n' THEN 'NOTHING' ELSE 'DEFAULT' END);
        END IF;
        FOR item IN
            SELECT p.attname, coalesce(p.attstattarget, -1) AS target, array_to_string(p.attoptions, ', ') AS options,
                   coalesce(p.attstattarget, -1) <> coalesce(c.attstattarget, -1) AS target_differs,
                   p.attoptions IS DISTINCT FROM c.attoptions AS options_differ
              FROM pg_attribute p JOIN pg_attribute c ON c.attrelid = part.oid AND c.attname = p.attname
             WHERE p.attrelid = parent AND p.attnum > 0 AND NOT p.attisdropped
        LOOP
            IF item.target_differs THEN
                EXECUTE format('ALTER TABLE %s ALTER COLUMN %I SET STATISTICS %s', part.name, item.attname, item.target);
            END IF;
            IF item.options_differ THEN
                EXECUTE format('ALTER TABLE %s ALTER COLUMN %I RESET (n_distinct, n_distinct_inherited)', part.name, item.attname);
                IF item.options IS NOT NULL THEN
                    EXECUTE format('ALTER TABLE %s ALTER COLUMN %I SET (%s)', part.name, item.attname, item.options);
                END IF;
            END IF;
        END LOOP;
    END LOOP;
END
$body$;
COMMENT ON FUNCTION herd.mirror_partitions(regclass) IS 'gives the partitions of a distributed table the owner, privileges and settings of their parent';

-- Rewrites one partition in the order of an index of its parent, all in one transaction: a copy in that order takes its
-- place. Readers go on until the moment of the exchange. Writers of the partition, and those that go through the parent, wait: had
-- they only the parent's lock when the exchange needs it, each would wait for the other. The exchange takes its lock in
-- short tries, so that nobody queues behind it for long.
CREATE OR REPLACE FUNCTION herd.cluster_partition(part regclass, index_name text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog AS
$body$
DECLARE
    parent regclass := (SELECT inhparent FROM pg_inherits WHERE inhrelid = part);
    old pg_class := (SELECT c FROM pg_class c WHERE c.oid = part);
    parent_index oid := (SELECT i.indexrelid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
                          WHERE i.indrelid = parent AND c.relname = index_name);
    index_of_part oid := (SELECT h.inhrelid FROM pg_inherits h JOIN pg_index i ON i.indexrelid = h.inhrelid
                           WHERE h.inhparent = parent_index AND i.indrelid = part);
    bound text := (SELECT pg_get_expr(c.relpartbound, c.oid) FROM pg_class c WHERE c.oid = part);
    bound_check text := pg_get_partition_constraintdef(part);
    fresh text := format('herd_shards.%I', 'herd_clustering_' || part::oid);
    columns text := (SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
                      WHERE attrelid = part AND attnum > 0 AND NOT attisdropped AND attgenerated = '');
    sort text;
    options text;
    about text := obj_description(part, 'pg_class');
    names jsonb;
    item record;
BEGIN
    IF index_of_part IS NULL THEN
        RAISE EXCEPTION 'index "%" for table "%" does not exist', index_name, parent USING ERRCODE = 'undefined_object';
    END IF;
    IF NOT (SELECT a.amname = 'btree' AND i.indpred IS NULL FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
              JOIN pg_am a ON a.oid = c.relam WHERE i.indexrelid = index_of_part) THEN
        RAISE EXCEPTION 'cannot cluster on index "%", which is partial or not a btree', index_name
            USING ERRCODE = 'feature_not_supported', HINT = 'Make a plain btree index of the same columns.';
    END IF;
    -- PostgreSQL does not let go of a partition whose rows others refer to.
    IF EXISTS (SELECT FROM pg_constraint WHERE contype = 'f' AND confrelid IN (part, parent) AND conrelid <> part) THEN
        RAISE EXCEPTION 'clustering table "%", to which foreign keys refer, is not supported', parent
            USING ERRCODE = 'feature_not_supported', HINT = 'Drop the foreign keys and add them again afterwards.';
    END IF;
    IF old.relrowsecurity OR EXISTS (SELECT FROM pg_publication_rel WHERE prrelid = part) THEN
        RAISE EXCEPTION 'clustering partition "%", which has policies or is published by itself, is not supported', part
            USING ERRCODE = 'feature_not_supported', HINT = 'Publish the table, not its partitions.';
    END IF;

    -- With an older snapshot than the lock, rows could be passed over that were committed in between.
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'herd.cluster() needs isolation level read committed'
            USING ERRCODE = 'invalid_transaction_state', HINT = 'SET default_transaction_isolation = ''read committed''.';
    END IF;

    EXECUTE format('LOCK TABLE ONLY %s IN SHARE MODE', parent);
    EXECUTE format('LOCK TABLE ONLY %s IN SHARE MODE', part);
    -- What LIKE does not take along: storage parameters, the access method, the tablespace, the comment.
    options := (SELECT string_agg(o, ', ') FROM (SELECT unnest(old.reloptions) UNION ALL
                  SELECT 'toast.' || unnest(t.reloptions) FROM pg_class t WHERE t.oid = old.reltoastrelid) AS all_options (o));
    EXECUTE format('CREATE %s TABLE %s (LIKE %s INCLUDING ALL EXCLUDING IDENTITY) USING %I%s%s',
                   CASE old.relpersistence WHEN 'u' THEN 'UNLOGGED' ELSE '' END, fresh, part,
                   (SELECT amname FROM pg_am WHERE oid = old.relam), ' WITH (' || options || ')',
                   (SELECT format(' TABLESPACE %I', spcname) FROM pg_tablespace WHERE oid = old.reltablespace));
    IF about IS NOT NULL THEN
        EXECUTE format('COMMENT ON TABLE %s IS %L', fresh, about);
    END IF;
    sort := (SELECT string_agg(pg_get_indexdef(index_of_part, k + 1, true)
                               || CASE WHEN indoption[k] & 1 = 1 THEN ' DESC' ELSE ' ASC' END
                               || CASE WHEN indoption[k] & 2 = 2 THEN ' NULLS FIRST' ELSE ' NULLS LAST' END, ', ' ORDER BY k)
               FROM pg_index, generate_series(0, indnkeyatts - 1) AS k WHERE indexrelid = index_of_part);
    EXECUTE format('INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE SELECT %s FROM ONLY %s ORDER BY %s',
                   fresh, columns, columns, part, sort);
    -- What ATTACH finds there it need not look for in every row.
    EXECUTE format('ALTER TABLE %s ADD CONSTRAINT herd_bound CHECK (%s)', fresh, bound_check);
    FOR item IN
        SELECT c.conname, pg_get_constraintdef(c.oid) AS definition FROM pg_constraint c
         WHERE c.conrelid = part AND c.contype = 'f'
           AND (c.conparentid = 0 OR (SELECT p.conrelid FROM pg_constraint p WHERE p.oid = c.conparentid) = parent)
    LOOP
        EXECUTE format('ALTER TABLE %s ADD CONSTRAINT %I %s', fresh, item.conname, item.definition);
    END LOOP;
    EXECUTE format('ANALYZE %s', fresh);
    names := (SELECT jsonb_object_agg(h.inhparent::text, c.relname) FROM pg_index i
                JOIN pg_inherits h ON h.inhrelid = i.indexrelid JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = part);

    FOR try IN 1..20 LOOP
        BEGIN
            PERFORM set_config('lock_timeout', '100ms', true);
            EXECUTE format('LOCK TABLE ONLY %s IN ACCESS EXCLUSIVE MODE', parent);
            EXECUTE format('LOCK TABLE ONLY %s IN ACCESS EXCLUSIVE MODE', part);
            -- A transaction that keeps its snapshot between statements (repeatable read) would find the new table empty.
            PERFORM pg_stat_clear_snapshot();
            IF EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
                          AND backend_xmin IS NOT NULL AND state LIKE 'idle in transaction%') THEN
                RAISE EXCEPTION USING ERRCODE = 'lock_not_available';
            END IF;
            EXECUTE format('ALTER TABLE %s DETACH PARTITION %s', parent, part);
            EXECUTE format('DROP TABLE %s', part);
            EXECUTE format('ALTER TABLE %s ATTACH PARTITION %s %s', parent, fresh, bound);
            EXECUTE format('ALTER TABLE %s DROP CONSTRAINT herd_bound', fresh);
            FOR item IN
                SELECT i.indexrelid::regclass AS name, names ->> h.inhparent::text AS wanted FROM pg_index i
                  JOIN pg_inherits h ON h.inhrelid = i.indexrelid WHERE i.indrelid = fresh::regclass
            LOOP
                EXECUTE format('ALTER INDEX %s RENAME TO %I', item.name, item.wanted);
            END LOOP;
            EXECUTE format('ALTER TABLE %s RENAME TO %I', fresh, old.relname);
            PERFORM herd.mirror_partitions(parent);
            RETURN;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            PERFORM pg_sleep(0.5 + random());
        END;
    END LOOP;
    RAISE EXCEPTION 'partition "%" is in use', part
        USING ERRCODE = 'lock_not_available', HINT = 'Transactions that stay open on the table must end first.';
END
$body$;
COMMENT ON FUNCTION herd.cluster_partition(regclass, text) IS 'rewrites a shard in the order of an index; herd.cluster() calls it for each';

-- Admin functions under the names Citus users know. A router answers calls by itself and never sends them here; these
-- are what \df shows, and an error with meaning for a client that is connected to a node.
CREATE OR REPLACE FUNCTION herd.refuse_admin_call(name text) RETURNS void
LANGUAGE plpgsql AS
$$ BEGIN
    RAISE EXCEPTION '%() can only be called through a router', name
        USING ERRCODE = 'feature_not_supported',
              HINT = 'Connect to a pgherd router; this connection goes straight to one node of the herd.';
END $$;

CREATE OR REPLACE FUNCTION public.create_distributed_table(
    table_name regclass, distribution_column text, distribution_type text DEFAULT 'hash',
    colocate_with text DEFAULT 'default', shard_count integer DEFAULT NULL,
    strategy text DEFAULT NULL, bounds text[] DEFAULT NULL) RETURNS void
LANGUAGE sql AS $$ SELECT herd.refuse_admin_call('create_distributed_table') $$;
COMMENT ON FUNCTION public.create_distributed_table(regclass, text, text, text, integer, text, text[])
    IS 'splits a table over the nodes of the herd by its key (through a router)';

CREATE OR REPLACE FUNCTION public.create_reference_table(table_name regclass) RETURNS void
LANGUAGE sql AS $$ SELECT herd.refuse_admin_call('create_reference_table') $$;
COMMENT ON FUNCTION public.create_reference_table(regclass) IS 'keeps a full copy of a table on every node of the herd (through a router)';

CREATE OR REPLACE FUNCTION public.undistribute_table(table_name regclass) RETURNS void
LANGUAGE sql AS $$ SELECT herd.refuse_admin_call('undistribute_table') $$;
COMMENT ON FUNCTION public.undistribute_table(regclass) IS 'makes a distributed or reference table local again (through a router)';

CREATE OR REPLACE FUNCTION public.citus_add_node(nodename text, nodeport integer) RETURNS integer
LANGUAGE sql AS $$ SELECT herd.refuse_admin_call('citus_add_node'); SELECT NULL::integer $$;
COMMENT ON FUNCTION public.citus_add_node(text, integer) IS 'adds a server to the herd (through a router)';

CREATE OR REPLACE FUNCTION public.citus_remove_node(nodename text, nodeport integer) RETURNS void
LANGUAGE sql AS $$ SELECT herd.refuse_admin_call('citus_remove_node') $$;
COMMENT ON FUNCTION public.citus_remove_node(text, integer) IS 'removes a server from the herd (through a router)';

CREATE OR REPLACE FUNCTION herd.cluster(table_name regclass, index_name text) RETURNS integer
LANGUAGE sql AS $$ SELECT herd.refuse_admin_call('herd.cluster'); SELECT NULL::integer $$;
COMMENT ON FUNCTION herd.cluster(regclass, text) IS 'rewrites the shards of a table in the order of an index, readers going on (through a router)';

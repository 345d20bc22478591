-- Rewrites one partition in the order of an index of its parent, all in one transaction: a copy in that order takes its
-- place. Readers go on until the moment of the exchange. Writers of the partition, and those that go through the parent, wait: had
-- they only the parent's lock when the exchange needs it, each would wait for the other. The exchange takes its lock in
-- short tries, so that nobody queues behind it for long.
--
-- Only the shard that the caller means is touched: a partition of that parent, looked at under locks. What could run code of the owner's
-- (a foreign key's casts, the rows that ATTACH looks at) runs as the owner: names may come to mean another table at any moment.
DROP FUNCTION IF EXISTS herd.cluster_partition(regclass, text);
CREATE OR REPLACE FUNCTION herd.cluster_partition(parent regclass, part regclass, index_name text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$body$
DECLARE
    old pg_class;
    index_of_part oid;
    bound text;
    bound_check text;
    fresh text := format('herd_shards.%I', 'herd_clustering_' || gen_random_uuid());
    columns text;
    sort text;
    options text;
    about text;
    lent boolean;
    names jsonb;
    item record;
    locked timestamptz;
BEGIN
    -- With an older snapshot than the lock, rows could be passed over that were committed in between.
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'herd.cluster() needs isolation level read committed'
            USING ERRCODE = 'invalid_transaction_state', HINT = 'SET default_transaction_isolation = ''read committed''.';
    END IF;

    -- Whoever has used the table in a transaction that goes on ends first: he could want more of it, and would wait for this while the
    -- exchange waits for him. In a short try, before any row is copied; meanwhile the router has transactions wait that have not.
    BEGIN
        PERFORM set_config('lock_timeout', '450ms', true);
        EXECUTE format('LOCK TABLE ONLY %s IN ACCESS EXCLUSIVE MODE', parent);
        EXECUTE format('LOCK TABLE ONLY %s IN ACCESS EXCLUSIVE MODE', part);
        RAISE EXCEPTION USING ERRCODE = 'HERD0';
    EXCEPTION WHEN SQLSTATE 'HERD0' THEN
        -- Undone, so that readers go on.
        NULL;
    END;
    PERFORM set_config('lock_timeout', '250ms', true);
    EXECUTE format('LOCK TABLE ONLY %s IN SHARE MODE', parent);
    EXECUTE format('LOCK TABLE ONLY %s IN SHARE MODE', part);
    PERFORM set_config('lock_timeout', '1s', true);
    IF (SELECT count(DISTINCT relation) FROM pg_locks WHERE pid = pg_backend_pid() AND mode = 'ShareLock' AND granted
           AND locktype = 'relation' AND relation IN (parent, part)) <> 2
       OR NOT EXISTS (SELECT FROM pg_inherits h JOIN pg_class c ON c.oid = h.inhrelid JOIN pg_class p ON p.oid = h.inhparent
                       WHERE h.inhrelid = part AND h.inhparent = parent AND c.relispartition AND c.relkind = 'r' AND c.relowner = p.relowner
                         AND c.relnamespace = 'herd_shards'::regnamespace) THEN
        RAISE EXCEPTION '"%" is not a shard of table "%"', part, parent
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'herd.verify shows what was changed past the routers.';
    END IF;
    IF EXISTS (SELECT FROM pg_partitioned_table t
                WHERE t.partrelid = parent AND (t.partexprs IS NOT NULL OR EXISTS (SELECT FROM unnest(t.partclass::oid[]) o WHERE o >= 16384)
                   OR EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = parent AND a.attnum = ANY (t.partattrs::int2[]) AND a.atttypid >= 16384))) THEN
        RAISE EXCEPTION 'clustering table "%", whose partition key is an expression or of a type of users'' own, is not supported', parent
            USING ERRCODE = 'feature_not_supported', HINT = 'herd.verify shows what was changed past the routers.';
    END IF;
    old := (SELECT c FROM pg_class c WHERE c.oid = part);
    index_of_part := (SELECT h.inhrelid FROM pg_inherits h JOIN pg_index i ON i.indexrelid = h.inhrelid
                        JOIN pg_index pi ON pi.indexrelid = h.inhparent JOIN pg_class c ON c.oid = pi.indexrelid
                       WHERE pi.indrelid = parent AND c.relname = index_name AND i.indrelid = part);
    bound := pg_get_expr(old.relpartbound, part);
    bound_check := pg_get_partition_constraintdef(part);
    about := obj_description(part, 'pg_class');
    columns := (SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
                 WHERE attrelid = part AND attnum > 0 AND NOT attisdropped AND attgenerated = '');
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
    IF EXISTS (SELECT FROM pg_policy WHERE polrelid = part) OR EXISTS (SELECT FROM pg_publication_rel WHERE prrelid = part) THEN
        RAISE EXCEPTION 'clustering partition "%", which has policies or is published by itself, is not supported', part
            USING ERRCODE = 'feature_not_supported', HINT = 'Publish the table, not its partitions.';
    END IF;

    -- What LIKE does not take along: storage parameters, the access method, the tablespace, the comment.
    options := (SELECT string_agg(o, ', ') FROM (SELECT unnest(old.reloptions) UNION ALL
                  SELECT 'toast.' || unnest(t.reloptions) FROM pg_class t WHERE t.oid = old.reltoastrelid) AS all_options (o));
    -- Its owner makes it: expressions of indexes, which LIKE makes, and generated columns are code of his. For that he may create
    -- something among the shards, for so long.
    lent := NOT has_schema_privilege(old.relowner, 'herd_shards', 'CREATE') AND pg_has_role((SELECT nspowner FROM pg_namespace WHERE nspname = 'herd_shards'), 'USAGE');
    IF lent THEN
        EXECUTE format('GRANT CREATE ON SCHEMA herd_shards TO %s', old.relowner::regrole);
    END IF;
    PERFORM herd.run_as_owner(part, format('CREATE %s TABLE %s (LIKE %s INCLUDING ALL EXCLUDING IDENTITY) USING %I%s%s',
                   CASE old.relpersistence WHEN 'u' THEN 'UNLOGGED' ELSE '' END, fresh, part,
                   (SELECT amname FROM pg_am WHERE oid = old.relam), ' WITH (' || options || ')',
                   (SELECT format(' TABLESPACE %I', spcname) FROM pg_tablespace WHERE oid = old.reltablespace)));
    -- What its rows were never held against, old ones need not satisfy: it comes when they are there.
    FOR item IN SELECT c.conname FROM pg_constraint c WHERE c.conrelid = part AND c.contype IN ('c', 'n') AND pg_get_constraintdef(c.oid) LIKE '% NOT VALID' LOOP
        PERFORM herd.run_as_owner(fresh, format('ALTER TABLE %s DROP CONSTRAINT IF EXISTS %I', fresh, item.conname));
    END LOOP;
    IF lent THEN
        EXECUTE format('REVOKE CREATE ON SCHEMA herd_shards FROM %s', old.relowner::regrole);
    END IF;
    IF about IS NOT NULL THEN
        EXECUTE format('COMMENT ON TABLE %s IS %L', fresh, about);
    END IF;
    sort := (SELECT string_agg(pg_get_indexdef(index_of_part, k + 1, true)
                               || CASE WHEN indoption[k] & 1 = 1 THEN ' DESC' ELSE ' ASC' END
                               || CASE WHEN indoption[k] & 2 = 2 THEN ' NULLS FIRST' ELSE ' NULLS LAST' END, ', ' ORDER BY k)
               FROM pg_index, generate_series(0, indnkeyatts - 1) AS k WHERE indexrelid = index_of_part);
    -- CHECKs, generated columns and expressions of indexes are code of the owner's.
    EXECUTE format('ALTER TABLE %s OWNER TO %s', fresh, old.relowner::regrole);
    PERFORM herd.run_as_owner(fresh, format('INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE SELECT %s FROM ONLY %s ORDER BY %s',
                                            fresh, columns, columns, part, sort));
    -- What ATTACH finds there it need not look for in every row.
    PERFORM herd.run_as_owner(fresh, format('ALTER TABLE %s ADD CONSTRAINT herd_bound CHECK (%s)', fresh, bound_check));
    FOR item IN
        SELECT c.conname, pg_get_constraintdef(c.oid) AS definition FROM pg_constraint c
         WHERE c.conrelid = part AND (c.contype IN ('c', 'n') AND pg_get_constraintdef(c.oid) LIKE '% NOT VALID' OR c.contype = 'f')
           AND (c.contype <> 'f' OR c.conparentid = 0 OR (SELECT p.conrelid FROM pg_constraint p WHERE p.oid = c.conparentid) = parent)
    LOOP
        PERFORM herd.run_as_owner(fresh, format('ALTER TABLE %s ADD CONSTRAINT %I %s', fresh, item.conname, item.definition));
    END LOOP;
    EXECUTE format('ANALYZE %s', fresh);
    names := (SELECT jsonb_object_agg(h.inhparent::text, c.relname) FROM pg_index i
                JOIN pg_inherits h ON h.inhrelid = i.indexrelid JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = part);

    FOR try IN 1..8 LOOP
        BEGIN
            PERFORM set_config('lock_timeout', '100ms', true);
            -- He has used the table and wants more of it: he would wait for this while this waits for him.
            EXIT WHEN EXISTS (SELECT FROM pg_locks w JOIN pg_locks h ON h.pid = w.pid WHERE w.locktype = 'relation' AND h.locktype = 'relation'
                AND NOT w.granted AND h.granted AND w.database = h.database AND w.relation IN (parent, part) AND h.relation IN (parent, part)
                AND w.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()));
            EXECUTE format('LOCK TABLE ONLY %s IN ACCESS EXCLUSIVE MODE', parent);
            EXECUTE format('LOCK TABLE ONLY %s IN ACCESS EXCLUSIVE MODE', part);
            -- Whoever comes to the table with an older snapshot would find it empty: statements end and take theirs along, transactions that keep one between
            -- statements (repeatable read) may be long. Writers have been waiting since the copy began: who has used no other table yet takes another
            -- snapshot when he has this one, unless he says that he does not.
            locked := clock_timestamp();
            LOOP
                PERFORM pg_stat_clear_snapshot();
                EXIT WHEN NOT EXISTS (SELECT FROM pg_stat_activity a WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
                    AND a.backend_xmin IS NOT NULL AND a.backend_type = 'client backend'
                    AND (a.state LIKE 'idle in transaction%' OR a.query ~* '\m(repeatable\s+read|serializable)\M'
                         OR a.xact_start < locked AND (NOT pg_backend_pid() = ANY (pg_blocking_pids(a.pid))
                             OR EXISTS (SELECT FROM pg_locks l WHERE l.pid = a.pid AND l.locktype = 'relation' AND l.granted AND l.relation >= 16384))));
                IF clock_timestamp() > locked + interval '100 ms' THEN
                    RAISE EXCEPTION USING ERRCODE = 'lock_not_available';
                END IF;
                PERFORM pg_sleep(0.01);
            END LOOP;
            PERFORM herd.run_as_owner(fresh, format('ALTER TABLE %1$s DETACH PARTITION %2$s; DROP TABLE %2$s; '
                'ALTER TABLE %1$s ATTACH PARTITION %3$s %4$s; ALTER TABLE %3$s DROP CONSTRAINT herd_bound', parent, part, fresh, bound));
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
            -- Writers have been waiting since the copy began: not for long any more. The router tries again.
            PERFORM pg_sleep(0.05);
        END;
    END LOOP;
    RAISE EXCEPTION 'partition "%" is in use', part
        USING ERRCODE = 'lock_not_available', HINT = 'Transactions that stay open on the table must end first.';
END
$body$;
COMMENT ON FUNCTION herd.cluster_partition(regclass, regclass, text) IS 'rewrites a shard in the order of an index; herd.cluster() calls it for each';

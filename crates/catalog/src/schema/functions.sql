-- What the herd does on any of its nodes. Functions that clients' roles call run as the owner of schema herd and write what
-- can be seen to be true, and nothing else; none finds a name of a caller's making, for temporary objects come last.

-- Raises the epoch by one, or to `target` where home's new epoch is already known: nodes that took part in the same
-- changes have the same epoch. Any role that may run DDL must be able to raise it, but none to the end of bigint.
CREATE OR REPLACE FUNCTION herd.bump_epoch(target bigint DEFAULT NULL) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$$ UPDATE herd.epoch SET epoch = greatest(CASE WHEN target IS NULL THEN epoch + 1 ELSE epoch END, least(target, epoch + 1000000))
   RETURNING epoch $$;
COMMENT ON FUNCTION herd.bump_epoch(bigint) IS 'raises the epoch, so that routers load the catalog anew';

-- The decision of a transaction over nodes, written and committed by that transaction itself: `name` is completed with the
-- transaction's own number, which is returned, so that no other transaction can write this row. From here to its end it
-- holds the gate, shared. `token` is the name under the herd's seal: only routers can make one.
CREATE OR REPLACE FUNCTION herd.decide(name text, token bytea) RETURNS xid8
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$$
DECLARE
    number xid8 := pg_current_xact_id();
BEGIN
    IF token IS DISTINCT FROM (SELECT sha256(s.value || sha256(s.value || convert_to(name, 'UTF8'))) FROM herd.seal s) THEN
        RAISE EXCEPTION 'only a router can decide about a transaction over nodes'
            USING ERRCODE = 'insufficient_privilege', HINT = 'Commit through a router.';
    END IF;
    LOCK TABLE herd.gate IN ROW SHARE MODE;
    INSERT INTO herd.decision (gid) VALUES (name || '_' || number);
    RETURN number;
END
$$;
COMMENT ON FUNCTION herd.decide(text, bytea) IS 'the decision to commit a transaction over nodes; called by routers';

-- Takes away every privilege on a table that is not its owner's, those of ALTER DEFAULT PRIVILEGES included.
CREATE OR REPLACE FUNCTION herd.revoke_all(target regclass) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
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
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
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

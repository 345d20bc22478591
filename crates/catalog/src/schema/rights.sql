-- Who may do what with tables and their shards. A shard is addressed directly, so it needs what PostgreSQL looks for on the
-- parent only: owner, privileges, row-level security, replica identity, column statistics settings. What is granted on a shard
-- follows from its parent, and what is granted on a parent is the same on all nodes as on home: routers see to it
-- (herd.settle(), herd.follow_home()) where a change did not come through them, and herd.verify says where it is not so.

-- Whether MAINTAIN can be granted here.
CREATE OR REPLACE FUNCTION herd.knows_maintain() RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
$$ SELECT current_setting('server_version_num')::integer >= 170000 $$;
COMMENT ON FUNCTION herd.knows_maintain() IS 'whether this server has the privilege MAINTAIN (PostgreSQL 17)';

-- Owner, row-level security and privileges of a table. Roles are quoted as SQL needs them. Before PostgreSQL 17, which made a privilege of it, an
-- owner might always maintain (VACUUM, REINDEX) what is his: it is told as that privilege, so that nodes of all versions can be compared.
CREATE OR REPLACE FUNCTION herd.rights(target regclass) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
$body$
SELECT jsonb_build_object('owner', c.relowner::regrole::text, 'rls', c.relrowsecurity, 'forced', c.relforcerowsecurity, 'privileges',
    (SELECT coalesce(jsonb_agg(p ORDER BY p), '[]') FROM (
        SELECT DISTINCT jsonb_build_object('role', CASE g.grantee WHEN 0 THEN 'PUBLIC' ELSE g.grantee::regrole::text END,
                                           'privilege', g.privilege_type, 'grantable', g.is_grantable, 'column', g.attname) AS p
          FROM (SELECT a.grantee, a.privilege_type, a.is_grantable, NULL AS attname
                  FROM aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) a
                 UNION ALL
                SELECT a.grantee, a.privilege_type, a.is_grantable, t.attname
                  FROM pg_attribute t, aclexplode(t.attacl) a
                 WHERE t.attrelid = c.oid AND t.attnum > 0 AND NOT t.attisdropped
                 UNION ALL
                SELECT c.relowner, 'MAINTAIN', false, NULL WHERE NOT herd.knows_maintain()) g) q))
  FROM pg_class c WHERE c.oid = target
$body$;
COMMENT ON FUNCTION herd.rights(regclass) IS 'owner, row-level security and privileges of a table';

-- What a parent's shards are to have. Policies are not applied to a shard that is addressed directly: where there may be some,
-- nothing is granted to anybody but the owner, and row-level security without a policy lets nobody see a row whom the
-- parent's policies would concern (an owner only with FORCE).
CREATE OR REPLACE FUNCTION herd.rights_of_shards(parent regclass) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
$body$
SELECT CASE WHEN (r ->> 'rls')::boolean THEN jsonb_set(r, '{privileges}', (
           SELECT coalesce(jsonb_agg(p ORDER BY p), '[]') FROM jsonb_array_elements(r -> 'privileges') p
            WHERE p ->> 'role' = r ->> 'owner' AND p ->> 'column' IS NULL)) ELSE r END
  FROM herd.rights(parent) r
$body$;

-- The shards on this node, each with its parent.
CREATE OR REPLACE VIEW herd.shard_tables AS
    SELECT p.oid::regclass AS parent, c.oid::regclass AS shard
      FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid JOIN pg_catalog.pg_class p ON p.oid = i.inhparent
     WHERE c.relnamespace = 'herd_shards'::regnamespace AND p.relnamespace <> 'herd_shards'::regnamespace
       AND c.relkind = 'r' AND p.relkind = 'p';

-- Who is to own something among the shards may have it there. Superusers need not be asked; where the herd's owner is none, the
-- new owner needs the right to create in that schema (herd.settle() takes it back when he owns no table any more).
CREATE OR REPLACE FUNCTION herd.let_own(owner text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$body$ BEGIN
    IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) AND NOT has_schema_privilege(owner::regrole, 'herd_shards', 'CREATE') THEN
        EXECUTE format('GRANT CREATE ON SCHEMA herd_shards TO %s', owner);
    END IF;
END $body$;

-- Makes a table's rights what they are to be.
CREATE OR REPLACE FUNCTION herd.set_rights(target regclass, wanted jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$body$
DECLARE
    item record;
    present jsonb := herd.rights(target);
BEGIN
    IF present = wanted THEN
        RETURN;
    END IF;
    IF present ->> 'owner' <> wanted ->> 'owner' THEN
        PERFORM herd.let_own(wanted ->> 'owner');
        EXECUTE format('ALTER TABLE %s OWNER TO %s', target, wanted ->> 'owner');
    END IF;
    IF present -> 'rls' <> wanted -> 'rls' THEN
        PERFORM herd.run_as_owner(target, format('ALTER TABLE %s %s ROW LEVEL SECURITY', target, CASE WHEN (wanted ->> 'rls')::boolean THEN 'ENABLE' ELSE 'DISABLE' END));
    END IF;
    IF present -> 'forced' <> wanted -> 'forced' THEN
        PERFORM herd.run_as_owner(target, format('ALTER TABLE %s %s ROW LEVEL SECURITY', target, CASE WHEN (wanted ->> 'forced')::boolean THEN 'FORCE' ELSE 'NO FORCE' END));
    END IF;
    FOR item IN
        SELECT p ->> 'role' AS role, p ->> 'privilege' AS privilege, p ->> 'column' AS attname
          FROM jsonb_array_elements(herd.rights(target) -> 'privileges') p WHERE NOT wanted -> 'privileges' @> jsonb_build_array(p)
           AND (p ->> 'privilege' <> 'MAINTAIN' OR herd.knows_maintain())
    LOOP
        EXECUTE format('REVOKE %s%s ON TABLE %s FROM %s CASCADE', item.privilege,
                       CASE WHEN item.attname IS NULL THEN '' ELSE format(' (%I)', item.attname) END, target, item.role);
    END LOOP;
    -- CASCADE may have taken more, and a privilege that can be granted on is another one: what is there now counts.
    FOR item IN
        SELECT p ->> 'role' AS role, p ->> 'privilege' AS privilege, p ->> 'column' AS attname, (p ->> 'grantable')::boolean AS grantable
          FROM jsonb_array_elements(wanted -> 'privileges') p WHERE NOT herd.rights(target) -> 'privileges' @> jsonb_build_array(p)
           AND (p ->> 'privilege' <> 'MAINTAIN' OR herd.knows_maintain())
    LOOP
        EXECUTE format('GRANT %s%s ON TABLE %s TO %s%s', item.privilege,
                       CASE WHEN item.attname IS NULL THEN '' ELSE format(' (%I)', item.attname) END, target, item.role,
                       CASE WHEN item.grantable THEN ' WITH GRANT OPTION' ELSE '' END);
    END LOOP;
END
$body$;

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

-- Grants in the name of who has granted it before, so that it is his to take back. Where that can't be (nobody but a superuser can
-- be any role; he has no USAGE of the schema any more), it is the owner's grant.
CREATE OR REPLACE FUNCTION herd.grant_as(who regrole, command text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$body$
DECLARE
    before text := current_setting('role');
BEGIN
    IF NOT (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = session_user) THEN
        EXECUTE command;
        RETURN;
    END IF;
    BEGIN
        PERFORM set_config('role', (SELECT r.rolname FROM pg_roles r WHERE r.oid = who), true);
        EXECUTE command;
        PERFORM set_config('role', before, true);
    EXCEPTION WHEN insufficient_privilege THEN
        EXECUTE command;
    END;
END $body$;
COMMENT ON FUNCTION herd.grant_as(regrole, text) IS 'makes a grant again as who has made it';

-- Who calls a function that runs as the herd's owner, by the session's role: whether the table is his, or the herd is.
CREATE OR REPLACE FUNCTION herd.caller_may_alter(target regclass) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
$body$
SELECT pg_has_role(caller.name, c.relowner, 'MEMBER') OR pg_has_role(caller.name, n.nspowner, 'MEMBER')
  FROM (SELECT CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role')::name END) caller (name),
       pg_class c, pg_namespace n
 WHERE c.oid = target AND n.nspname = 'herd'
$body$;

-- What of a table does not reach its partitions by itself: ALTER TABLE … REPLICA IDENTITY and SET (n_distinct …) stay on the table
-- they name; SET STATISTICS does not reach partitions made later. By name; an index by that of its parent's.
CREATE OR REPLACE FUNCTION herd.settings(target regclass, parent regclass) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
$body$
SELECT jsonb_build_object(
    'identity', c.relreplident,
    'index', (SELECT CASE WHEN target = parent THEN i.indexrelid ELSE (SELECT h.inhparent FROM pg_inherits h WHERE h.inhrelid = i.indexrelid) END::text
                FROM pg_index i WHERE i.indrelid = target AND i.indisreplident AND c.relreplident = 'i'),
    'columns', (SELECT jsonb_object_agg(a.attname, jsonb_build_array(coalesce(a.attstattarget, -1), a.attoptions))
                  FROM pg_attribute a WHERE a.attrelid = target AND a.attnum > 0 AND NOT a.attisdropped))
  FROM pg_class c WHERE c.oid = target
$body$;

-- Gives a shard those settings, as its owner: what a name is found to be and what it is when the lock is there may differ, and ALTER TABLE
-- looks at expressions of indexes. What is as it should be already is not touched: it would take locks.
CREATE OR REPLACE FUNCTION herd.set_settings(target regclass, parent regclass) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$body$
DECLARE
    item record;
    present jsonb := herd.settings(target, parent);
    wanted jsonb := herd.settings(parent, parent);
BEGIN
    IF present = wanted THEN
        RETURN;
    END IF;
    IF wanted ->> 'identity' = 'i' THEN
        IF present ->> 'index' IS DISTINCT FROM wanted ->> 'index' THEN
            FOR item IN
                SELECT c.relname FROM pg_inherits h JOIN pg_index i ON i.indexrelid = h.inhrelid JOIN pg_class c ON c.oid = h.inhrelid
                 WHERE h.inhparent = (wanted ->> 'index')::oid AND i.indrelid = target
            LOOP
                PERFORM herd.run_as_owner(target, format('ALTER TABLE %s REPLICA IDENTITY USING INDEX %I', target, item.relname));
            END LOOP;
        END IF;
    ELSIF present -> 'identity' <> wanted -> 'identity' THEN
        PERFORM herd.run_as_owner(target, format('ALTER TABLE %s REPLICA IDENTITY %s', target,
                       CASE wanted ->> 'identity' WHEN 'f' THEN 'FULL' WHEN 'n' THEN 'NOTHING' ELSE 'DEFAULT' END));
    END IF;
    FOR item IN
        SELECT w.key AS attname, w.value -> 0 AS target, p.value -> 0 AS has_target, p.value -> 1 AS has_options, w.value -> 1 AS options,
               -- Values as they are stored: text, whatever it looks like.
               (SELECT string_agg(format('%I = %L', split_part(o.option, '=', 1), substr(o.option, strpos(o.option, '=') + 1)), ', ' ORDER BY o.place)
                  FROM jsonb_array_elements_text(CASE jsonb_typeof(w.value -> 1) WHEN 'array' THEN w.value -> 1 END)
                       WITH ORDINALITY AS o (option, place)) AS list
          FROM jsonb_each(wanted -> 'columns') w JOIN jsonb_each(present -> 'columns') p ON p.key = w.key
         WHERE w.value <> p.value
    LOOP
        IF item.has_target <> item.target THEN
            PERFORM herd.run_as_owner(target, format('ALTER TABLE %s ALTER COLUMN %I SET STATISTICS %s', target, item.attname, item.target));
        END IF;
        IF item.has_options <> item.options THEN
            PERFORM herd.run_as_owner(target, format('ALTER TABLE %s ALTER COLUMN %I RESET (n_distinct, n_distinct_inherited)', target, item.attname));
            IF item.list IS NOT NULL THEN
                PERFORM herd.run_as_owner(target, format('ALTER TABLE %s ALTER COLUMN %I SET (%s)', target, item.attname, item.list));
            END IF;
        END IF;
    END LOOP;
END
$body$;

-- Gives the shards of a table what their parent has. Anybody may call it, for who is granted the right to grant changes privileges;
-- whatever takes locks is done for the table's owner alone (and the herd's), and only where something differs. Settings
-- that can't be given keep no rights from being followed: herd.verify shows them.
CREATE OR REPLACE FUNCTION herd.mirror_partitions(parent regclass) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$body$
DECLARE
    part regclass;
    wanted jsonb := herd.rights_of_shards(parent);
    allowed boolean := herd.caller_may_alter(parent);
BEGIN
    FOR part IN SELECT s.shard FROM herd.shard_tables s WHERE s.parent = mirror_partitions.parent ORDER BY s.shard::oid LOOP
        IF allowed OR herd.rights(part) - 'privileges' = wanted - 'privileges' THEN
            PERFORM herd.set_rights(part, wanted);
        END IF;
        IF allowed THEN
            BEGIN
                PERFORM herd.set_settings(part, parent);
            EXCEPTION WHEN OTHERS THEN
                RAISE WARNING 'settings of "%" were not given to its partition "%": %', parent, part, SQLERRM;
            END;
        END IF;
    END LOOP;
END
$body$;
COMMENT ON FUNCTION herd.mirror_partitions(regclass) IS 'gives the partitions of a distributed table the owner, privileges and settings of their parent';

-- The same as a router does it for everybody's tables: one that can't be followed, whatever its owner did to it, keeps others
-- waiting for a moment only. What was wrong, if anything.
CREATE OR REPLACE FUNCTION herd.try_mirror(parent regclass, wanted jsonb) RETURNS text
LANGUAGE plpgsql SET lock_timeout = '50ms' SET search_path = pg_catalog, pg_temp AS
$body$ BEGIN
    IF wanted IS NOT NULL THEN
        PERFORM herd.set_rights(parent, wanted);
    END IF;
    PERFORM herd.mirror_partitions(parent);
    RETURN NULL;
EXCEPTION WHEN OTHERS THEN
    RAISE WARNING 'the shards of "%" do not have its rights: %', parent, SQLERRM;
    RETURN SQLERRM;
END $body$;

-- What changed without a router: shards follow their parents again, and roles that own no distributed table any more lose the
-- right to make indexes among the shards. Tells which tables do not follow, and why; each owner has his turn, and nobody
-- all of the time.
DROP FUNCTION IF EXISTS herd.settle();
CREATE FUNCTION herd.settle() RETURNS TABLE (object text, problem text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$body$
DECLARE
    item record;
    begun timestamptz := clock_timestamp();
BEGIN
    FOR item IN
        SELECT d.parent FROM (
            SELECT DISTINCT s.parent, p.relowner FROM herd.shard_tables s JOIN pg_class p ON p.oid = s.parent JOIN pg_class c ON c.oid = s.shard
             -- Most are the same to the letter: those need no closer look.
             WHERE (ROW (p.relowner, p.relrowsecurity, p.relforcerowsecurity) <> ROW (c.relowner, c.relrowsecurity, c.relforcerowsecurity)
                    OR p.relacl::text[] IS DISTINCT FROM c.relacl::text[]
                    OR EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid IN (s.parent, s.shard) AND a.attacl IS NOT NULL))
               AND herd.rights(s.shard) <> herd.rights_of_shards(s.parent)) d
         ORDER BY row_number() OVER (PARTITION BY d.relowner ORDER BY random())
    LOOP
        object := item.parent::text;
        problem := CASE WHEN clock_timestamp() < begun + interval '1500 ms' THEN herd.try_mirror(item.parent, NULL) ELSE 'no time left' END;
        IF problem IS NOT NULL THEN
            RETURN NEXT;
        END IF;
    END LOOP;
    FOR item IN
        SELECT a.grantee::regrole::text AS role FROM pg_namespace n, aclexplode(n.nspacl) a
         WHERE n.nspname = 'herd_shards' AND a.privilege_type = 'CREATE' AND a.grantee <> n.nspowner
           AND NOT EXISTS (SELECT FROM herd.shard_tables s JOIN pg_class c ON c.oid = s.parent WHERE c.relowner = a.grantee)
           -- Who is about to get a table has been given it before.
           AND NOT EXISTS (SELECT FROM pg_locks l JOIN herd.shard_tables s ON s.parent = l.relation
                            WHERE l.locktype = 'relation' AND l.mode = 'AccessExclusiveLock' AND l.pid <> pg_backend_pid()
                              AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()))
    LOOP
        EXECUTE format('REVOKE CREATE ON SCHEMA herd_shards FROM %s CASCADE', item.role);
    END LOOP;
END
$body$;
COMMENT ON FUNCTION herd.settle() IS 'makes shards follow their parents where something was changed without a router';

-- The same for parents, which follow home: `tables` has the rights of each there, by name. No problem: it follows now.
DROP FUNCTION IF EXISTS herd.follow_home(jsonb);
CREATE FUNCTION herd.follow_home(tables jsonb) RETURNS TABLE (object text, problem text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$body$
DECLARE
    item record;
    begun timestamptz := clock_timestamp();
BEGIN
    FOR item IN
        SELECT d.parent, d.wanted FROM (
            SELECT DISTINCT s.parent, t.wanted FROM herd.shard_tables s JOIN (
                SELECT e.key, jsonb_set(e.value, '{privileges}', (
                           SELECT coalesce(jsonb_agg(p ORDER BY p), '[]') FROM jsonb_array_elements(e.value -> 'privileges') p
                            WHERE p ->> 'privilege' <> 'MAINTAIN' OR p ->> 'role' = e.value ->> 'owner' OR herd.knows_maintain())) AS wanted
                  FROM jsonb_each(tables) e) t ON to_regclass(t.key) = s.parent
             WHERE herd.rights(s.parent) <> t.wanted) d JOIN pg_class p ON p.oid = d.parent
         ORDER BY row_number() OVER (PARTITION BY p.relowner ORDER BY random())
    LOOP
        object := item.parent::text;
        problem := CASE WHEN clock_timestamp() < begun + interval '1500 ms' THEN herd.try_mirror(item.parent, item.wanted) ELSE 'no time left' END;
        RETURN NEXT;
    END LOOP;
END
$body$;
COMMENT ON FUNCTION herd.follow_home(jsonb) IS 'makes the rights of distributed tables what they are on home';

-- Tables that were made past the routers under the name of a distributed one, split in another way. Home knows.
CREATE OR REPLACE FUNCTION herd.replaced() RETURNS SETOF regclass
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
$$ SELECT NULL::regclass WHERE false $$;
COMMENT ON FUNCTION herd.replaced() IS 'tables that are no longer the distributed ones whose names they have';

-- The distributed tables of which this node has shards; home, whose rights count everywhere, knows the others, too.
CREATE OR REPLACE FUNCTION herd.distributed() RETURNS SETOF regclass
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
$$ SELECT DISTINCT s.parent FROM herd.shard_tables s $$;
COMMENT ON FUNCTION herd.distributed() IS 'the distributed tables that have rights to compare on this node';

-- What is not as it should be on this node; and, with an empty problem, the rights of each distributed table, for a router to
-- compare over nodes.
CREATE OR REPLACE FUNCTION herd.verify() RETURNS TABLE (object text, problem text, rights jsonb)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
$body$
SELECT d::text, '', herd.rights(d) FROM herd.distributed() d
UNION ALL
-- Before PostgreSQL 16 a member may SET ROLE, and inherits if his role does.
SELECT 'memberships of role ' || r.rolname, '', (
    SELECT coalesce(jsonb_agg(o ORDER BY o), '[]') FROM (
        SELECT jsonb_build_object('role', g.rolname, 'admin', bool_or(m.admin_option),
                   'inherit', bool_or(coalesce((to_jsonb(m) ->> 'inherit_option')::boolean, r.rolinherit)),
                   'set', bool_or(coalesce((to_jsonb(m) ->> 'set_option')::boolean, true))) AS o
          FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid WHERE m.member = r.oid GROUP BY g.rolname) q)
  FROM pg_roles r WHERE r.oid >= 16384
UNION ALL
SELECT 'attributes of role ' || r.rolname, '', to_jsonb(array_remove(ARRAY[
       CASE WHEN r.rolsuper THEN 'SUPERUSER' END, CASE WHEN r.rolbypassrls THEN 'BYPASSRLS' END,
       CASE WHEN r.rolcreaterole THEN 'CREATEROLE' END, CASE WHEN r.rolcreatedb THEN 'CREATEDB' END,
       CASE WHEN r.rolreplication THEN 'REPLICATION' END, CASE WHEN r.rolinherit THEN 'INHERIT' END,
       CASE WHEN r.rolcanlogin THEN 'LOGIN' END, 'VALID UNTIL ' || extract(epoch FROM r.rolvaliduntil)], NULL))
  FROM pg_roles r WHERE r.oid >= 16384
UNION ALL
SELECT s.shard::text, difference.problem, NULL
  FROM herd.shard_tables s, herd.rights(s.shard) has, herd.rights_of_shards(s.parent) wants,
       herd.settings(s.shard, s.parent) is_set, herd.settings(s.parent, s.parent) as_set, LATERAL (VALUES
       ('owner is ' || (has ->> 'owner') || ', that of ' || s.parent || ' is ' || (wants ->> 'owner'), has -> 'owner' <> wants -> 'owner'),
       ('row-level security is not that of ' || s.parent, has -> 'rls' <> wants -> 'rls' OR has -> 'forced' <> wants -> 'forced'),
       ('privileges do not follow from those of ' || s.parent, has -> 'privileges' <> wants -> 'privileges'),
       ('replica identity is not that of ' || s.parent, is_set ->> 'identity' <> as_set ->> 'identity' OR is_set ->> 'index' IS DISTINCT FROM as_set ->> 'index'),
       ('settings of columns are not those of ' || s.parent, is_set -> 'columns' <> as_set -> 'columns')) difference (problem, differs)
 WHERE difference.differs
UNION ALL
SELECT r::text, 'was made anew past the routers, and is split in another way than the distributed table of its name', NULL FROM herd.replaced() r
UNION ALL
SELECT 'herd_shards', 'role ' || a.grantee::regrole::text || ' may create objects and owns no distributed table', NULL
  FROM pg_namespace n, aclexplode(n.nspacl) a
 WHERE n.nspname = 'herd_shards' AND a.privilege_type = 'CREATE' AND a.grantee <> n.nspowner
   AND NOT EXISTS (SELECT FROM herd.shard_tables s JOIN pg_class c ON c.oid = s.parent WHERE c.relowner = a.grantee)
UNION ALL
SELECT c.oid::regclass::text, 'is among the shards and belongs to no distributed table', NULL
  FROM pg_class c WHERE c.relnamespace = 'herd_shards'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
   AND NOT EXISTS (SELECT FROM herd.shard_tables s WHERE s.shard = c.oid)
   AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype IN ('a', 'i'))
$body$;
COMMENT ON FUNCTION herd.verify() IS 'what is wrong with owners, privileges and row-level security of shards on this node, and attributes and memberships of roles; herd.verify looks at all nodes';

CREATE OR REPLACE VIEW herd.verify AS
    SELECT NULL::integer AS node, v.object, v.problem, v.rights FROM herd.verify() v;
COMMENT ON VIEW herd.verify IS 'what is wrong with owners, privileges and row-level security of distributed tables, and with attributes and memberships of roles; nothing should be';

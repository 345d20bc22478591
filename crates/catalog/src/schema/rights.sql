-- Who may do what with tables and their shards. A shard is addressed directly, so it needs what PostgreSQL looks for on the
-- parent only: owner, privileges, row-level security, replica identity, column statistics settings. What is granted on a shard
-- follows from its parent, and what is granted on a parent is the same on all nodes as on home: routers see to it
-- (herd.settle(), herd.follow_home()) where a change did not come through them, and herd.verify says where it is not so.

-- Owner, row-level security and privileges of a table. Roles are quoted as SQL needs them.
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
                 WHERE t.attrelid = c.oid AND t.attnum > 0 AND NOT t.attisdropped) g) q))
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
        EXECUTE format('ALTER TABLE %s %s ROW LEVEL SECURITY', target, CASE WHEN (wanted ->> 'rls')::boolean THEN 'ENABLE' ELSE 'DISABLE' END);
    END IF;
    IF present -> 'forced' <> wanted -> 'forced' THEN
        EXECUTE format('ALTER TABLE %s %s ROW LEVEL SECURITY', target, CASE WHEN (wanted ->> 'forced')::boolean THEN 'FORCE' ELSE 'NO FORCE' END);
    END IF;
    FOR item IN
        SELECT p ->> 'role' AS role, p ->> 'privilege' AS privilege, p ->> 'column' AS attname
          FROM jsonb_array_elements(herd.rights(target) -> 'privileges') p WHERE NOT wanted -> 'privileges' @> jsonb_build_array(p)
    LOOP
        EXECUTE format('REVOKE %s%s ON TABLE %s FROM %s CASCADE', item.privilege,
                       CASE WHEN item.attname IS NULL THEN '' ELSE format(' (%I)', item.attname) END, target, item.role);
    END LOOP;
    -- CASCADE may have taken more, and a privilege that can be granted on is another one: what is there now counts.
    FOR item IN
        SELECT p ->> 'role' AS role, p ->> 'privilege' AS privilege, p ->> 'column' AS attname, (p ->> 'grantable')::boolean AS grantable
          FROM jsonb_array_elements(wanted -> 'privileges') p WHERE NOT herd.rights(target) -> 'privileges' @> jsonb_build_array(p)
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

-- Gives the shards of a table what their parent has. Anybody may call it: nothing but that can come of it.
CREATE OR REPLACE FUNCTION herd.mirror_partitions(parent regclass) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$body$
DECLARE
    part record;
    item record;
    wanted jsonb := herd.rights_of_shards(parent);
    identity_of_parent "char" := (SELECT relreplident FROM pg_class WHERE oid = parent);
BEGIN
    FOR part IN
        SELECT c.oid, c.oid::regclass::text AS name, c.relreplident
          FROM herd.shard_tables s JOIN pg_class c ON c.oid = s.shard
         WHERE s.parent = mirror_partitions.parent ORDER BY c.oid
    LOOP
        PERFORM herd.set_rights(part.oid, wanted);

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

-- What changed without a router: shards follow their parents again, and roles that own no distributed table any more lose the
-- right to make indexes among the shards.
CREATE OR REPLACE FUNCTION herd.settle() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$body$
DECLARE
    item record;
BEGIN
    FOR item IN
        SELECT DISTINCT s.parent FROM herd.shard_tables s JOIN pg_class p ON p.oid = s.parent JOIN pg_class c ON c.oid = s.shard
         -- Most are the same to the letter: those need no closer look.
         WHERE (ROW (p.relowner, p.relrowsecurity, p.relforcerowsecurity) <> ROW (c.relowner, c.relrowsecurity, c.relforcerowsecurity)
                OR p.relacl::text[] IS DISTINCT FROM c.relacl::text[]
                OR EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid IN (s.parent, s.shard) AND a.attacl IS NOT NULL))
           AND herd.rights(s.shard) <> herd.rights_of_shards(s.parent)
    LOOP
        PERFORM herd.mirror_partitions(item.parent);
    END LOOP;
    FOR item IN
        SELECT a.grantee::regrole::text AS role FROM pg_namespace n, aclexplode(n.nspacl) a
         WHERE n.nspname = 'herd_shards' AND a.privilege_type = 'CREATE' AND a.grantee <> n.nspowner
           AND NOT EXISTS (SELECT FROM herd.shard_tables s JOIN pg_class c ON c.oid = s.parent WHERE c.relowner = a.grantee)
    LOOP
        EXECUTE format('REVOKE CREATE ON SCHEMA herd_shards FROM %s CASCADE', item.role);
    END LOOP;
END
$body$;
COMMENT ON FUNCTION herd.settle() IS 'makes shards follow their parents where something was changed without a router';

-- The same for parents, which follow home: `tables` has the rights of each there, by name.
CREATE OR REPLACE FUNCTION herd.follow_home(tables jsonb) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$body$
DECLARE
    item record;
    followed integer := 0;
BEGIN
    FOR item IN
        SELECT DISTINCT s.parent, t.wanted FROM herd.shard_tables s JOIN (
            -- PostgreSQL 17 knows a privilege more.
            SELECT e.key, jsonb_set(e.value, '{privileges}', (
                       SELECT coalesce(jsonb_agg(p ORDER BY p), '[]') FROM jsonb_array_elements(e.value -> 'privileges') p
                        WHERE p ->> 'privilege' <> 'MAINTAIN' OR current_setting('server_version_num')::integer >= 170000)) AS wanted
              FROM jsonb_each(tables) e) t ON to_regclass(t.key) = s.parent
         WHERE herd.rights(s.parent) <> t.wanted
    LOOP
        PERFORM herd.set_rights(item.parent, item.wanted);
        PERFORM herd.mirror_partitions(item.parent);
        followed := followed + 1;
    END LOOP;
    RETURN followed;
END
$body$;
COMMENT ON FUNCTION herd.follow_home(jsonb) IS 'makes the rights of distributed tables what they are on home';

-- What is not as it should be on this node; and, with an empty problem, the rights of each distributed table, for a router to
-- compare over nodes.
CREATE OR REPLACE FUNCTION herd.verify() RETURNS TABLE (object text, problem text, rights jsonb)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
$body$
SELECT DISTINCT s.parent::text, '', herd.rights(s.parent) FROM herd.shard_tables s
UNION ALL
SELECT s.shard::text, difference.problem, NULL
  FROM herd.shard_tables s, herd.rights(s.shard) has, herd.rights_of_shards(s.parent) wants, LATERAL (VALUES
       ('owner is ' || (has ->> 'owner') || ', that of ' || s.parent || ' is ' || (wants ->> 'owner'), has -> 'owner' <> wants -> 'owner'),
       ('row-level security is not that of ' || s.parent, has -> 'rls' <> wants -> 'rls' OR has -> 'forced' <> wants -> 'forced'),
       ('privileges do not follow from those of ' || s.parent, has -> 'privileges' <> wants -> 'privileges')) difference (problem, differs)
 WHERE difference.differs
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
COMMENT ON FUNCTION herd.verify() IS 'what is wrong with owners, privileges and row-level security of shards on this node; herd.verify looks at all nodes';

CREATE OR REPLACE VIEW herd.verify AS
    SELECT NULL::integer AS node, v.object, v.problem, v.rights FROM herd.verify() v;
COMMENT ON VIEW herd.verify IS 'what is wrong with owners, privileges and row-level security of distributed tables; nothing should be';

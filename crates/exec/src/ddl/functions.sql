-- How the catalog follows DDL that clients run. Their roles may not write the herd's tables: these functions write what
-- can be seen to be true, and nothing else. Made on home by the router's own user, where they are missing.

-- Takes tables out of the catalog that are not there any more, and groups that have lost their last table.
CREATE OR REPLACE FUNCTION herd.forget_dropped() RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog AS
$$
DELETE FROM herd.relation r WHERE NOT EXISTS (
    SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = r.schema AND c.relname = r.name AND c.relkind = CASE r.kind WHEN 'd' THEN 'p' ELSE 'r' END);
DELETE FROM herd.colocation g WHERE NOT EXISTS (SELECT FROM herd.relation r WHERE r.colocation = g.id);
$$;
COMMENT ON FUNCTION herd.forget_dropped() IS 'takes dropped tables out of the catalog of the herd';

-- After a rename: only if the old name is gone and the new one is there. A distributed table is known by its partitions.
CREATE OR REPLACE FUNCTION herd.follow_rename(old_schema text, old_name text, new_schema text, new_name text) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog AS
$$
UPDATE herd.relation r SET schema = new_schema, name = new_name
 WHERE r.schema = old_schema AND r.name = old_name
   AND to_regclass(format('%I.%I', old_schema, old_name)) IS NULL
   AND EXISTS (
       SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = new_schema AND c.relname = new_name AND c.relkind = CASE r.kind WHEN 'd' THEN 'p' ELSE 'r' END
          AND NOT EXISTS (SELECT FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhrelid JOIN pg_namespace pn ON pn.oid = p.relnamespace
                           WHERE i.inhparent = c.oid AND NOT (pn.nspname = 'herd_shards' AND starts_with(p.relname, r.prefix || '_'))));
$$;
COMMENT ON FUNCTION herd.follow_rename(text, text, text, text) IS 'renames a table in the catalog of the herd';

-- What fills a materialized view over distributed tables: the rows that a router has read for it, in a table of the view's owner that
-- lasts as long as the transaction. Tables of other names are not taken: who may refresh a view of another's (MAINTAIN) and says that rows are in
-- another table of the owner's would read them through the view. PostgreSQL refreshes the view with the rights of its owner, so nobody else's rows come into it.

CREATE OR REPLACE FUNCTION herd.materialized() RETURNS SETOF record
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS
$$
DECLARE
    source oid := nullif(current_setting('herd.materialized_rows', true), '');
BEGIN
    IF NOT EXISTS (SELECT FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner
                    WHERE c.oid = source AND c.relkind = 'r' AND starts_with(c.relname::text, 'herd: rows of ') AND r.rolname = current_user) THEN
        RAISE EXCEPTION 'only a router can refresh a materialized view over distributed tables'
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'REFRESH MATERIALIZED VIEW through a router.';
    END IF;
    RETURN QUERY EXECUTE format('SELECT * FROM %s', source::regclass);
END
$$;
COMMENT ON FUNCTION herd.materialized() IS 'the rows that a router has read for the materialized view that is being refreshed';

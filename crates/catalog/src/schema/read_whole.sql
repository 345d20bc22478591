-- What keeps a view that only home has, over tables of which home has a part, from being read there by its name: routers put its query in
-- its place. Where home has a copy of all that it reads (`whole`) it may be read, and is no view that PostgreSQL writes through.

CREATE OR REPLACE FUNCTION herd.read_whole(whole boolean) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS
$$
BEGIN
    IF NOT whole THEN
        RAISE EXCEPTION 'a view that home alone has, over tables of several nodes, is read where home has a part of them only'
            USING ERRCODE = 'feature_not_supported',
                  HINT = 'Name it in a statement of a client of a router: code on a node can''t read it.';
    END IF;
    RETURN true;
END
$$;
COMMENT ON FUNCTION herd.read_whole(boolean) IS 'keeps a view that only home has from being read by other than routers';

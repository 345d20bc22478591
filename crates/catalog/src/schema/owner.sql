-- How the herd's maintenance runs what a table's owner has written (CHECKs, generated columns, expressions of indexes, domains):
-- as PostgreSQL's own does, as the owner and in a security-restricted operation, from which code finds no way back. SET ROLE
-- would not do: code can RESET it. Neither would a SECURITY DEFINER function of the owner's: code can leave deferred
-- triggers behind, which run as whoever commits. REFRESH MATERIALIZED VIEW runs its query in such an operation
-- (RefreshMatViewByOid in matview.c), with settings undone afterwards, and that query may be a function that runs a command.

CREATE OR REPLACE FUNCTION herd.run(command text) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$ BEGIN
    EXECUTE command;
    RETURN true;
END $$;
COMMENT ON FUNCTION herd.run(text) IS 'runs a command with the rights of whoever calls it';

-- Whoever is the owner, or has him for a superuser, runs it as it is.
CREATE OR REPLACE FUNCTION herd.run_as_owner(target regclass, command text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
DECLARE
    owner record;
    -- Owners of tables may make something in that schema, so the name is one that nobody can guess.
    room text := format('herd_shards.%I', 'herd_as_owner_' || gen_random_uuid());
BEGIN
    SELECT r.oid, r.rolname, r.rolsuper INTO owner FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner WHERE c.oid = target;
    IF owner.rolsuper OR owner.rolname = current_user THEN
        EXECUTE command;
        RETURN;
    END IF;
    EXECUTE format('CREATE MATERIALIZED VIEW %s AS SELECT herd.run(%L) AS done WITH NO DATA', room, command);
    PERFORM herd.let_own(quote_ident(owner.rolname));
    EXECUTE format('ALTER MATERIALIZED VIEW %s OWNER TO %I', room, owner.rolname);
    EXECUTE format('REFRESH MATERIALIZED VIEW %s', room);
    EXECUTE format('DROP MATERIALIZED VIEW %s', room);
END
$$;
COMMENT ON FUNCTION herd.run_as_owner(regclass, text) IS 'runs a command as the owner of a table, in a security-restricted operation';

-- What keeps a name meaning the same table until the end of the transaction, for plans, which go by names. ALTER SCHEMA RENAME
-- needs no lock on the schema's tables, but waits for its row (which nobody but a superuser may lock).
CREATE OR REPLACE FUNCTION herd.hold_schema(schema text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$ BEGIN
    IF has_table_privilege('pg_namespace', 'UPDATE') THEN
        PERFORM FROM pg_namespace n WHERE n.nspname = schema FOR KEY SHARE;
    END IF;
END $$;

-- `known`: NULL where it is not known which table it should be. A view would run code for whoever reads it.
CREATE OR REPLACE FUNCTION herd.still_table(target regclass, known oid) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = target AND c.oid = coalesce(known, c.oid) AND c.relkind IN ('r', 'p')) THEN
        RAISE EXCEPTION '"%" is not the table it was a moment ago', target USING ERRCODE = 'serialization_failure', HINT = 'Try again.';
    END IF;
END $$;

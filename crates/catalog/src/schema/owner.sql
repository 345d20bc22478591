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

-- Who is a superuser, or whoever asks, runs it as it is.
CREATE OR REPLACE FUNCTION herd.run_as(who name, command text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
DECLARE
    -- Owners of tables may make something in that schema, so the name is one that nobody can guess.
    room text := format('herd_shards.%I', 'herd_as_owner_' || gen_random_uuid());
BEGIN
    IF who = current_user OR (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = who) THEN
        EXECUTE command;
        RETURN;
    END IF;
    EXECUTE format('CREATE MATERIALIZED VIEW %s AS SELECT herd.run(%L) AS done WITH NO DATA', room, command);
    PERFORM herd.let_own(quote_ident(who));
    EXECUTE format('ALTER MATERIALIZED VIEW %s OWNER TO %I', room, who);
    EXECUTE format('REFRESH MATERIALIZED VIEW %s', room);
    EXECUTE format('DROP MATERIALIZED VIEW %s', room);
END
$$;
COMMENT ON FUNCTION herd.run_as(name, text) IS 'runs a command as a role, in a security-restricted operation';

-- Plans go by names, and locks hold up nobody's code inside the transaction that has them. So whatever may have run code of the owner's
-- has to leave the table's name as it was: what it means can't change between two of these then.
CREATE OR REPLACE FUNCTION herd.name_of(target oid) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
$$ SELECT format('%s %I.%I', n.oid, n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = target $$;

-- A command that PostgreSQL itself runs the owner's code as the owner for (CREATE INDEX), and that needs rights he may not have.
CREATE OR REPLACE FUNCTION herd.run_on(target regclass, command text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
DECLARE
    known oid := target;
    before text := herd.name_of(known);
BEGIN
    EXECUTE command;
    IF herd.name_of(known) IS DISTINCT FROM before THEN
        RAISE EXCEPTION 'code of the owner''s of % has changed what that name means', before USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
END
$$;
COMMENT ON FUNCTION herd.run_on(regclass, text) IS 'runs a command on a table, whose name must mean the same afterwards';

CREATE OR REPLACE FUNCTION herd.run_as_owner(target regclass, command text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$ BEGIN
    PERFORM herd.run_on(target, format('SELECT herd.run_as(%L, %L)',
        (SELECT pg_get_userbyid(c.relowner) FROM pg_class c WHERE c.oid = target), command));
END $$;
COMMENT ON FUNCTION herd.run_as_owner(regclass, text) IS 'runs a command as the owner of a table, in a security-restricted operation';

-- CREATE TABLE runs code: constants in expressions of generated columns are folded. So its owner makes the table, in a schema for
-- nothing else (he may be nobody who creates something where the table is to be), and then it takes its place. It has no index yet:
-- a partition that is made of it would have that, too, before it has its owner.
CREATE OR REPLACE FUNCTION herd.create_as_owner(who name, place text, called text, persistence text, definition text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
DECLARE
    room text := 'herd_room_' || gen_random_uuid();
    known oid := (SELECT n.oid FROM pg_namespace n WHERE n.nspname = place);
BEGIN
    IF who = current_user OR (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = who) THEN
        EXECUTE format('CREATE %sTABLE %I.%I %s', persistence, place, called, definition);
        RETURN;
    END IF;
    EXECUTE format('CREATE SCHEMA %I AUTHORIZATION %I', room, who);
    PERFORM herd.run_as(who, format('CREATE %sTABLE %I.%I %s', persistence, room, called, definition));
    IF known IS DISTINCT FROM (SELECT n.oid FROM pg_namespace n WHERE n.nspname = place)
       OR NOT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                       WHERE n.nspname = room AND c.relname = called AND c.relkind IN ('r', 'p') AND pg_get_userbyid(c.relowner) = who
                         AND NOT c.relhasindex) THEN
        RAISE EXCEPTION 'code of the owner''s of "%" has changed what that name means', called USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    EXECUTE format('ALTER TABLE %I.%I SET SCHEMA %I', room, called, place);
    EXECUTE format('DROP SCHEMA %I', room);
END
$$;
COMMENT ON FUNCTION herd.create_as_owner(name, text, text, text, text) IS 'makes a table as its owner, in a security-restricted operation';

-- The same of a view, or gives one that is there its query once more: constants in it are read as types of the owner's. A view that moves
-- stays what it is to all that reads it.
CREATE OR REPLACE FUNCTION herd.make_view(who name, place text, called text, definition text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
DECLARE
    room text := 'herd_room_' || gen_random_uuid();
    known oid := (SELECT n.oid FROM pg_namespace n WHERE n.nspname = place);
    old oid := (SELECT c.oid FROM pg_class c WHERE c.relnamespace = known AND c.relname = called);
BEGIN
    IF who = current_user OR (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = who) THEN
        EXECUTE format('CREATE OR REPLACE VIEW %I.%I %s', place, called, definition);
        EXECUTE format('ALTER VIEW %I.%I OWNER TO %I', place, called, who);
        RETURN;
    END IF;
    EXECUTE format('CREATE SCHEMA %I AUTHORIZATION %I', room, who);
    IF old IS NOT NULL THEN
        EXECUTE format('ALTER VIEW %I.%I SET SCHEMA %I', place, called, room);
    END IF;
    PERFORM herd.run_as(who, format('CREATE OR REPLACE VIEW %I.%I %s', room, called, definition));
    IF known IS DISTINCT FROM (SELECT n.oid FROM pg_namespace n WHERE n.nspname = place)
       OR NOT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                       WHERE n.nspname = room AND c.relname = called AND c.relkind = 'v' AND pg_get_userbyid(c.relowner) = who
                         AND (old IS NULL OR c.oid = old)) THEN
        RAISE EXCEPTION 'code of the owner''s of "%" has changed what that name means', called USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    EXECUTE format('ALTER VIEW %I.%I SET SCHEMA %I', room, called, place);
    EXECUTE format('DROP SCHEMA %I', room);
END
$$;
COMMENT ON FUNCTION herd.make_view(name, text, text, text) IS 'makes a view as its owner, in a security-restricted operation';

-- Locks views as what changes them would, but not their tables, as LOCK TABLE does: waits for no more than so many milliseconds.
CREATE OR REPLACE FUNCTION herd.lock_views(views text[], wait_ms integer) RETURNS void
LANGUAGE plpgsql SET lock_timeout = '1s' SET search_path = pg_catalog, pg_temp AS
$body$
DECLARE
    item record;
BEGIN
    PERFORM set_config('lock_timeout', wait_ms::text || 'ms', true);
    FOR item IN SELECT v.name, c.relowner::regrole AS owner FROM unnest(views) WITH ORDINALITY AS v (name, place)
                  JOIN pg_class c ON c.oid = to_regclass(v.name) WHERE c.relkind = 'v' ORDER BY v.place LOOP
        EXECUTE format('ALTER VIEW %s OWNER TO %s', item.name, item.owner);
    END LOOP;
END
$body$;
COMMENT ON FUNCTION herd.lock_views(text[], integer) IS 'locks views that are about to be made anew, or gives up after a time';

-- Those of the views that are there, and all at once: some may be over others.
CREATE OR REPLACE FUNCTION herd.drop_views(views text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
DECLARE
    present text := (SELECT string_agg(v, ', ') FROM unnest(views) v JOIN pg_class c ON c.oid = to_regclass(v) WHERE c.relkind = 'v');
BEGIN
    IF present IS NOT NULL THEN
        EXECUTE 'DROP VIEW ' || present;
    END IF;
END
$$;
COMMENT ON FUNCTION herd.drop_views(text[]) IS 'drops views, where they are';

-- Makes a partition of a table as its owner, and for him: PostgreSQL makes its indexes as whoever the new table belongs to, and folds their
-- expressions. In a schema for nothing else, as he may be nobody who creates something where the table is.
CREATE OR REPLACE FUNCTION herd.create_partition(parent regclass, called name, bound text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
DECLARE
    room text := 'herd_room_' || gen_random_uuid();
    place text;
    who name;
    known oid;
BEGIN
    SELECT n.nspname, n.oid, pg_get_userbyid(c.relowner) INTO place, known, who
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = parent;
    IF who = current_user OR (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = who) THEN
        EXECUTE format('CREATE TABLE %I.%I PARTITION OF %s %s', place, called, parent, bound);
        RETURN;
    END IF;
    EXECUTE format('CREATE SCHEMA %I AUTHORIZATION %I', room, who);
    PERFORM herd.run_as_owner(parent, format('CREATE TABLE %I.%I PARTITION OF %s %s', room, called, parent, bound));
    IF known IS DISTINCT FROM (SELECT n.oid FROM pg_namespace n WHERE n.nspname = place)
       OR NOT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_inherits i ON i.inhrelid = c.oid
                       WHERE n.nspname = room AND c.relname = called AND c.relkind = 'r' AND pg_get_userbyid(c.relowner) = who
                         AND i.inhparent = parent) THEN
        RAISE EXCEPTION 'code of the owner''s of "%" has changed what that name means', called USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    EXECUTE format('ALTER TABLE %I.%I SET SCHEMA %I', room, called, place);
    EXECUTE format('DROP SCHEMA %I', room);
END
$$;
COMMENT ON FUNCTION herd.create_partition(regclass, name, text) IS 'makes a partition of a table as its owner, in a security-restricted operation';

-- Takes from a table that will be gone whatever reading it would be planned with: expressions of indexes and statistics are folded by
-- whoever plans a query, whether it needs them or not. (CHECKs are looked at for conditions only.)
CREATE OR REPLACE FUNCTION herd.strip(target regclass) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
DECLARE
    tables oid[] := ARRAY(SELECT target::oid UNION ALL SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = target);
    command text;
BEGIN
    FOREACH command IN ARRAY ARRAY(
        SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', c.conrelid::regclass, c.conname) FROM pg_constraint c
         WHERE c.conrelid = ANY (tables) AND c.contype IN ('f', 'p', 'u', 'x') AND c.conparentid = 0 ORDER BY c.contype <> 'f')
    LOOP
        EXECUTE command;
    END LOOP;
    FOREACH command IN ARRAY ARRAY(
        SELECT format('DROP INDEX %s', i.indexrelid::regclass) FROM pg_index i
         WHERE i.indrelid = ANY (tables) AND NOT EXISTS (SELECT FROM pg_inherits h WHERE h.inhrelid = i.indexrelid)
        UNION ALL
        SELECT format('DROP STATISTICS %I.%I', n.nspname, s.stxname) FROM pg_statistic_ext s JOIN pg_namespace n ON n.oid = s.stxnamespace
         WHERE s.stxrelid = ANY (tables))
    LOOP
        EXECUTE command;
    END LOOP;
END
$$;
COMMENT ON FUNCTION herd.strip(regclass) IS 'drops the indexes and statistics of a table that is about to be dropped';

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

-- Which table a plan has made on this node, in this transaction (settings that code makes in a security-restricted operation end with it).
CREATE OR REPLACE FUNCTION herd.note_made(key text, target regclass) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$ BEGIN
    PERFORM set_config('herd.made', (coalesce(nullif(current_setting('herd.made', true), '')::jsonb, '{}')
                                     || jsonb_build_object(key, target::oid::text))::text, true);
END $$;

CREATE OR REPLACE FUNCTION herd.made(key text) RETURNS oid
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
$$ SELECT coalesce((current_setting('herd.made')::jsonb ->> key)::oid, 0) $$;

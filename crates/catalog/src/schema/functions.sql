-- What the herd does on any of its nodes. Functions that clients' roles call run as the owner of schema herd and write what
-- can be seen to be true, and nothing else; none finds a name of a caller's making, for temporary objects come last.

-- Raises the epoch by one, or to `target` where home's new epoch is already known: nodes that took part in the same
-- changes have the same epoch. For the herd's owner; no role may raise it to the end of bigint.
CREATE OR REPLACE FUNCTION herd.bump_epoch(target bigint DEFAULT NULL) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$$ UPDATE herd.epoch SET epoch = CASE WHEN target IS NULL THEN epoch + 1 ELSE greatest(epoch, least(target, epoch + 1000000)) END
   RETURNING epoch $$;
COMMENT ON FUNCTION herd.bump_epoch(bigint) IS 'raises the epoch, so that routers load the catalog anew';

-- Whether a router asks for this, on this very connection: `token` is what it asks for, and the connection's process, under
-- the herd's seal. Tokens of other purposes begin with other words.
CREATE OR REPLACE FUNCTION herd.is_sealed(asked text, token bytea) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
$$ SELECT token IS NOT DISTINCT FROM sha256(s.value || sha256(s.value || convert_to(asked || ' ' || pg_backend_pid()::text, 'UTF8'))) FROM herd.seal s $$;

-- The same for DDL of any role, asked for by its router as the last thing before the commit: who has raised the epoch and
-- not yet ended his transaction holds up everybody's DDL.
CREATE OR REPLACE FUNCTION herd.raise_epoch(target bigint, token bytea) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$$ BEGIN
    IF herd.is_sealed('epoch', token) IS NOT TRUE THEN
        RAISE EXCEPTION 'only a router can raise the epoch' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN herd.bump_epoch(target);
END $$;
COMMENT ON FUNCTION herd.raise_epoch(bigint, bytea) IS 'raises the epoch for DDL that commits; called by routers';

-- Locks tables, waiting for no more than so many milliseconds; the session's own lock_timeout is back afterwards.
CREATE OR REPLACE FUNCTION herd.lock_tables(tables text, mode text, wait_ms integer) RETURNS void
LANGUAGE plpgsql SET lock_timeout = '1s' SET search_path = pg_catalog, pg_temp AS
$body$ BEGIN
    PERFORM set_config('lock_timeout', wait_ms::text || 'ms', true);
    EXECUTE 'LOCK TABLE ' || tables || ' IN ' || mode || ' MODE';
END $body$;
COMMENT ON FUNCTION herd.lock_tables(text, text, integer) IS 'LOCK TABLE that gives up after a time';

-- The same for an advisory lock of the transaction; whether it has been got.
CREATE OR REPLACE FUNCTION herd.lock_catalog(key bigint, wait_ms integer) RETURNS boolean
LANGUAGE plpgsql SET lock_timeout = '1s' SET search_path = pg_catalog, pg_temp AS
$body$ BEGIN
    PERFORM set_config('lock_timeout', wait_ms::text || 'ms', true);
    PERFORM pg_advisory_xact_lock(key);
    RETURN true;
EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
    RETURN false;
END $body$;
COMMENT ON FUNCTION herd.lock_catalog(bigint, integer) IS 'pg_advisory_xact_lock that gives up after a time';

-- The decision of a transaction over nodes, written and committed by that transaction itself: `name` is completed with the
-- transaction's own number, which is returned, so that no other transaction can write this row. From here to its end it
-- holds the gate, shared. Only routers can make the token.
CREATE OR REPLACE FUNCTION herd.decide(name text, token bytea) RETURNS xid8
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$$
DECLARE
    number xid8 := pg_current_xact_id();
BEGIN
    IF herd.is_sealed('decide ' || name, token) IS NOT TRUE THEN
        RAISE EXCEPTION 'only a router can decide about a transaction over nodes'
            USING ERRCODE = 'insufficient_privilege', HINT = 'Commit through a router.';
    END IF;
    LOCK TABLE herd.gate IN ROW SHARE MODE;
    INSERT INTO herd.decision (gid) VALUES (name || '_' || number::text);
    RETURN number;
END
$$;
COMMENT ON FUNCTION herd.decide(text, bytea) IS 'the decision to commit a transaction over nodes; called by routers';

-- Jobs: what takes long, and is done in steps that each leave the herd right if nothing follows. A router that works on one keeps a
-- connection to home for it: when that has ended, the job is nobody's, and the next router to look cleans up behind it. One that has a
-- call is that router's to go on with instead: it does nothing itself but to begin others, one after the other, in the caller's name.
CREATE TABLE IF NOT EXISTS herd.job (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind        text NOT NULL,
    -- What cleaning up needs to know.
    arguments   jsonb NOT NULL,
    -- What it is about, for people.
    about       text NOT NULL,
    -- Of the tables it is about: one job at a time.
    colocation  integer,
    state       text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'done', 'failed', 'cancelled')),
    step        text NOT NULL DEFAULT 'prepare',
    cancel      boolean NOT NULL DEFAULT false,
    -- The connection of the router that works on it: the backend and when it began.
    owner_pid   integer,
    owner_start timestamptz,
    router      text NOT NULL,
    bytes_done  bigint NOT NULL DEFAULT 0,
    bytes_total bigint NOT NULL DEFAULT 0,
    rows_done   bigint NOT NULL DEFAULT 0,
    -- Changes that came meanwhile and have been applied; bytes of WAL not looked at yet.
    changes     bigint NOT NULL DEFAULT 0,
    lag_bytes   bigint,
    error       text,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at    timestamptz
);
DO $herd$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'herd.job'::regclass AND attname = 'call') THEN
        ALTER TABLE herd.job ALTER COLUMN colocation DROP NOT NULL,
            -- Of a job in the background: the call, who has made it, and what it has answered.
            ADD COLUMN call text, ADD COLUMN caller oid, ADD COLUMN result text,
            -- How often a router has begun with it, when the next may, and what it ended by.
            ADD COLUMN tries integer NOT NULL DEFAULT 0, ADD COLUMN not_before timestamptz, ADD COLUMN sqlstate text,
            -- The job in whose course this one was begun.
            ADD COLUMN parent bigint;
    END IF;
END $herd$;
CREATE UNIQUE INDEX IF NOT EXISTS job_of_group ON herd.job (colocation) WHERE state = 'running';

CREATE OR REPLACE FUNCTION herd.has_owner(job herd.job) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
$$ SELECT EXISTS (SELECT FROM pg_stat_activity a WHERE a.pid = job.owner_pid AND a.backend_start = job.owner_start) $$;
COMMENT ON FUNCTION herd.has_owner(herd.job) IS 'whether a router works on a job';

CREATE OR REPLACE VIEW herd.jobs AS
    SELECT j.id, j.kind, j.about, CASE WHEN j.state = 'running' AND j.call IS NOT NULL AND NOT herd.has_owner(j.*) THEN 'waiting' ELSE j.state END AS state,
           j.step, j.router, herd.has_owner(j.*) AS has_owner, j.cancel AS cancel_asked,
           j.bytes_done, j.bytes_total, j.rows_done, j.changes, j.lag_bytes, j.error, j.created_at, j.updated_at, j.ended_at,
           -- As long again for each byte as for those that were copied.
           CASE WHEN j.state = 'running' AND j.bytes_done BETWEEN 1 AND j.bytes_total
                THEN (j.updated_at - j.created_at) * ((j.bytes_total - j.bytes_done)::float8 / j.bytes_done) END AS time_left,
           j.parent, j.result, j.tries
      FROM herd.job j ORDER BY j.id;
COMMENT ON VIEW herd.jobs IS 'what takes long: moves, splits and merges of shards, tables that change their kind or are clustered, and calls in the background: how far they have come, and how they ended';

-- Whether there was anything to cancel. The router that works on it, or the next that looks, ends it and cleans up. A job whose change is
-- being committed is its transaction's, which may be a block that its client ends when he likes.
CREATE OR REPLACE FUNCTION herd.cancel_job(job bigint) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s' AS
$$ BEGIN
    -- What nobody works on, and has left nothing, ends here; what was begun in its course ends with it.
    UPDATE herd.job j SET cancel = true,
           state = CASE WHEN j.call IS NOT NULL AND j.owner_pid IS NULL AND NOT j.arguments ? 'copy' THEN 'cancelled' ELSE j.state END,
           error = CASE WHEN j.call IS NOT NULL AND j.owner_pid IS NULL AND NOT j.arguments ? 'copy' THEN 'it was cancelled by herd.cancel_job()' ELSE j.error END,
           ended_at = CASE WHEN j.call IS NOT NULL AND j.owner_pid IS NULL AND NOT j.arguments ? 'copy' THEN clock_timestamp() END
     WHERE j.state = 'running' AND (j.id = job OR j.parent = job);
    RETURN FOUND;
EXCEPTION WHEN lock_not_available THEN
    RAISE EXCEPTION 'job % has done its work, which is committed with its client''s transaction or not at all', job
        USING ERRCODE = 'lock_not_available', HINT = 'herd.sessions shows the transaction; pg_terminate_backend(pid) ends it.';
END $$;
COMMENT ON FUNCTION herd.cancel_job(bigint) IS 'asks for the end of a job in herd.jobs';

-- Part of the transaction that makes the change: whether the job was still that connection's, and nobody has cancelled it.
CREATE OR REPLACE FUNCTION herd.job_done(job bigint, pid integer) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$ BEGIN
    UPDATE herd.job j SET state = 'done', step = 'done', owner_pid = NULL, lag_bytes = NULL, ended_at = clock_timestamp()
     WHERE j.id = job AND j.state = 'running' AND NOT j.cancel AND j.owner_pid = pid;
    RETURN FOUND;
END $$;
COMMENT ON FUNCTION herd.job_done(bigint, integer) IS 'notes that a job has made its change; called by routers';

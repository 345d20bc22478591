-- What a herd keeps on every one of its nodes: schemas, tables, views. Runs inside one transaction; safe to run again.
-- Any client's role runs through a router, so PUBLIC may read what routers need to read in its name. It may write and lock
-- nothing (grants.sql).

CREATE SCHEMA IF NOT EXISTS herd;
GRANT USAGE ON SCHEMA herd TO PUBLIC;

-- Shards are partitions in this schema, out of the way of \dt. Privileges on each are mirrored from its parent.
CREATE SCHEMA IF NOT EXISTS herd_shards;
COMMENT ON SCHEMA herd_shards IS 'pgherd: the shards of distributed tables';
GRANT USAGE ON SCHEMA herd_shards TO PUBLIC;

-- Whoever owns the schemas owns the herd: nobody else may have made them, waiting for a router to fill them.
DO $herd$ BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_roles r ON r.oid OPERATOR(pg_catalog.=) n.nspowner
                WHERE n.nspname OPERATOR(pg_catalog.=) ANY ('{herd,herd_shards}'::pg_catalog.name[])
                  AND NOT r.rolsuper AND r.rolname OPERATOR(pg_catalog.<>) current_user) THEN
        RAISE EXCEPTION 'schema "herd" or "herd_shards" belongs to a role that is neither a superuser nor the router''s'
            USING ERRCODE = 'insufficient_privilege', HINT = 'DROP SCHEMA herd, herd_shards CASCADE, or start the router as their owner.';
    END IF;
END $herd$;

-- Which herd this server belongs to: 64 random bits in hexadecimal.
CREATE TABLE IF NOT EXISTS herd.herd (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    id  text NOT NULL CHECK (id ~ '^[0-9a-f]{16}$')
);

-- Raised by every change of the catalog, in the transaction that makes the change: a router whose snapshot has
-- another epoch is stale.
CREATE TABLE IF NOT EXISTS herd.epoch (
    one   boolean PRIMARY KEY DEFAULT true CHECK (one),
    epoch bigint NOT NULL
);
INSERT INTO herd.epoch (epoch) VALUES (1) ON CONFLICT DO NOTHING;

-- Commit decisions of transactions across nodes, written by herd.decide(). The name ends in the number of the very
-- transaction that wrote it.
CREATE TABLE IF NOT EXISTS herd.decision (
    gid        text PRIMARY KEY,
    decided_at timestamptz NOT NULL DEFAULT now()
);
CREATE OR REPLACE VIEW herd.decisions AS SELECT gid FROM herd.decision;
COMMENT ON VIEW herd.decisions IS 'transactions over nodes that this node has decided to commit, as long as anybody needs to know';

-- Never has rows: it is locked. Whoever decides on this node holds it shared until the decision is made.
CREATE TABLE IF NOT EXISTS herd.gate ();

-- What routers know and clients do not: with it they sign what herd.decide() is asked for. The same on all nodes.
CREATE TABLE IF NOT EXISTS herd.seal (
    one   boolean PRIMARY KEY DEFAULT true CHECK (one),
    value bytea NOT NULL CHECK (length(value) = 32)
);

-- Which tables have a column copy, of which columns, sorted by which. A store beside the node (herd-column) makes what it has be what
-- its node lists here.
CREATE TABLE IF NOT EXISTS herd.column_copy (
    id       bigint PRIMARY KEY, -- the same on all nodes
    relation oid NOT NULL UNIQUE, -- this node's
    columns  text[] NOT NULL,
    order_by text[] NOT NULL DEFAULT '{}'
);

-- A node's own part of views over all nodes; a router joins them, and fills in what a node can't know.
CREATE OR REPLACE VIEW herd.transactions AS
    SELECT NULL::integer AS node, p.gid, p.owner::text AS owner, p.prepared AS prepared_at,
           split_part(p.gid, '_', 3)::integer AS decider, split_part(p.gid, '_', 4) AS router, NULL::text AS state
      FROM pg_catalog.pg_prepared_xacts p, herd.herd h
     WHERE p.database = current_database() AND p.gid ~ ('^herd_' || h.id::text || '_[0-9]{1,9}_[0-9a-f]{16}_[0-9]+_[0-9]+_[0-9]+$');
COMMENT ON VIEW herd.transactions IS 'transactions of this herd that stand prepared, and whether their decider has decided';

CREATE OR REPLACE VIEW herd.locks AS
    SELECT NULL::integer AS node, w.pid AS waiter_pid, NULL::integer AS waiter_session, w.usename::text AS waiter,
           clock_timestamp() - w.query_start AS waiting, w.query AS waiter_query, h.pid AS holder_pid, NULL::integer AS holder_session,
           h.usename::text AS holder, h.state AS holder_state, h.query AS holder_query
      FROM pg_catalog.pg_stat_activity w
      CROSS JOIN LATERAL unnest(pg_catalog.pg_blocking_pids(w.pid)) AS b (pid)
      LEFT JOIN pg_catalog.pg_stat_activity h ON h.pid = b.pid
     WHERE w.wait_event_type = 'Lock';
COMMENT ON VIEW herd.locks IS 'who waits for whom; sessions are numbered as in herd.sessions';

-- Routers put their sessions here; a node knows none.
CREATE OR REPLACE VIEW herd.sessions AS
    SELECT NULL::integer AS pid, NULL::text AS router, NULL::text AS "user", NULL::text AS database, NULL::text AS application_name,
           NULL::text AS client_address, NULL::text AS state, NULL::timestamptz AS since, NULL::text[] AS pinned_by,
           NULL::boolean AS in_transaction, NULL::integer[] AS nodes, NULL::text AS statement
     WHERE false;
COMMENT ON VIEW herd.sessions IS 'the sessions of the router that is asked';

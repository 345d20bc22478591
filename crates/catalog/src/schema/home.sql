-- What a herd keeps on home, besides what it keeps on every node. Runs inside one transaction; safe to run again.

CREATE TABLE IF NOT EXISTS herd.node (
    id       integer PRIMARY KEY,
    name     text NOT NULL UNIQUE,
    host     text NOT NULL,
    port     integer NOT NULL CHECK (port BETWEEN 1 AND 65535),
    database text NOT NULL,
    is_home  boolean NOT NULL DEFAULT false,
    added_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (host, port, database)
);
CREATE UNIQUE INDEX IF NOT EXISTS node_home ON herd.node (is_home) WHERE is_home;

-- Groups of distributed tables that share key types, bounds and placement. key_types are built-in types only.
CREATE TABLE IF NOT EXISTS herd.colocation (
    id          integer PRIMARY KEY,
    strategy    text NOT NULL CHECK (strategy IN ('hash', 'range', 'list')),
    key_types   oid[] NOT NULL,
    shard_count integer NOT NULL,
    -- Made with colocate_with => 'none': tables join it only when they name one of its tables.
    private     boolean NOT NULL DEFAULT false
);

-- bound is what follows FOR VALUES in the partition's definition, or DEFAULT.
CREATE TABLE IF NOT EXISTS herd.shard (
    colocation integer NOT NULL REFERENCES herd.colocation ON DELETE CASCADE,
    number     integer NOT NULL CHECK (number >= 0),
    node       integer NOT NULL REFERENCES herd.node,
    bound      text NOT NULL,
    PRIMARY KEY (colocation, number)
);

-- Distributed ('d') and reference ('r') tables; all others are local. The key's columns are not repeated here: they are
-- the partition key of the table itself.
CREATE TABLE IF NOT EXISTS herd.relation (
    schema     text NOT NULL,
    name       text NOT NULL,
    kind       text NOT NULL CHECK (kind IN ('d', 'r')),
    colocation integer REFERENCES herd.colocation,
    prefix     text UNIQUE,
    PRIMARY KEY (schema, name),
    CHECK ((kind = 'd') = (colocation IS NOT NULL)),
    CHECK ((kind = 'd') = (prefix IS NOT NULL))
);

-- Which backends serve which sessions, told by routers to each other while somebody waits for a lock: how deadlocks over
-- several nodes and routers are found. Worth nothing after a second.
CREATE UNLOGGED TABLE IF NOT EXISTS herd.backend (
    router  text NOT NULL,
    session integer NOT NULL,
    node    integer NOT NULL,
    pid     integer NOT NULL,
    seen_at timestamptz NOT NULL DEFAULT now()
);

-- What all routers of the herd know and nobody else: salts of users that are not there are made of it.
CREATE TABLE IF NOT EXISTS herd.secret (
    only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    value    bytea NOT NULL CHECK (length(value) = 32)
);
REVOKE ALL ON herd.secret FROM PUBLIC;
-- 122 random bits each.
INSERT INTO herd.secret (value)
    SELECT sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8')) ON CONFLICT DO NOTHING;

-- The routers that run. Each reports here, every second and after every reload, which epoch of the catalog it uses.
-- number is part of the process ids it gives to clients; address is where other routers send cancel requests on to.
CREATE TABLE IF NOT EXISTS herd.router (
    id      bigint PRIMARY KEY,
    number  integer NOT NULL UNIQUE CHECK (number BETWEEN 0 AND 255),
    address text NOT NULL,
    epoch   bigint NOT NULL,
    seen    timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE OR REPLACE VIEW herd.nodes AS
    SELECT id, name, host, port, database, is_home FROM herd.node ORDER BY id;
COMMENT ON VIEW herd.nodes IS 'the servers of the herd';

CREATE OR REPLACE VIEW herd.tables AS
    SELECT r.schema, r.name,
           CASE r.kind WHEN 'd' THEN 'distributed' ELSE 'reference' END AS kind,
           g.strategy,
           (SELECT string_agg(a.attname, ', ' ORDER BY k.position)
              FROM pg_catalog.pg_partitioned_table p
              CROSS JOIN LATERAL unnest(p.partattrs::int2[]) WITH ORDINALITY AS k (attnum, position)
              JOIN pg_catalog.pg_attribute a ON a.attrelid = p.partrelid AND a.attnum = k.attnum
             WHERE p.partrelid = c.oid) AS key,
           g.shard_count, r.colocation
      FROM herd.relation r
      JOIN pg_catalog.pg_namespace n ON n.nspname = r.schema
      JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = r.name
      LEFT JOIN herd.colocation g ON g.id = r.colocation
     ORDER BY r.schema, r.name;
COMMENT ON VIEW herd.tables IS 'the distributed and reference tables of the herd; all others are local to home';

CREATE OR REPLACE VIEW herd.shards AS
    SELECT r.schema, r.name, s.number AS shard, n.name AS node, n.host, n.port, s.bound,
           'herd_shards.' || quote_ident(r.prefix || '_' || s.number) AS partition
      FROM herd.relation r
      JOIN herd.shard s ON s.colocation = r.colocation
      JOIN herd.node n ON n.id = s.node
     ORDER BY r.schema, r.name, s.number;
COMMENT ON VIEW herd.shards IS 'the shards of each distributed table, and the node each is on';

-- Only routers know: each puts in what its own sessions do.
CREATE OR REPLACE VIEW herd.progress AS
    SELECT NULL::integer AS pid, NULL::text AS datname, NULL::text AS usename, NULL::oid AS relid, NULL::text AS relation,
           NULL::text AS command, NULL::text AS type, NULL::bigint AS bytes_processed, NULL::bigint AS bytes_total,
           NULL::bigint AS tuples_processed, NULL::bigint AS tuples_excluded, NULL::bigint AS tuples_committed,
           NULL::jsonb AS nodes, NULL::timestamptz AS started_at
     WHERE false;
COMMENT ON VIEW herd.progress IS 'how far COPY and INSERT of many rows have come that run through this router';

GRANT SELECT ON herd.node, herd.colocation, herd.shard, herd.relation, herd.nodes, herd.tables, herd.shards, herd.progress TO PUBLIC;

-- kinds is raised by whatever makes a table distributed, reference or local, or changes where reference tables are. A
-- statement that relies on tables being local looks at it in its own transaction. Made once: its locks would stop others.
DO $herd$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_attribute WHERE attrelid = 'herd.epoch'::regclass AND attname = 'kinds') THEN
        ALTER TABLE herd.epoch ADD COLUMN kinds bigint NOT NULL DEFAULT 1;
        CREATE FUNCTION herd.kinds_changed() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS
            'BEGIN UPDATE herd.epoch SET kinds = kinds + 1; RETURN NULL; END';
        CREATE TRIGGER kinds_changed AFTER INSERT OR UPDATE OR DELETE ON herd.relation
            FOR EACH ROW EXECUTE FUNCTION herd.kinds_changed();
        CREATE TRIGGER kinds_changed AFTER INSERT OR UPDATE OR DELETE ON herd.node
            FOR EACH ROW EXECUTE FUNCTION herd.kinds_changed();
    END IF;
END $herd$;

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

-- Numbers of column copies; none is given twice.
CREATE SEQUENCE IF NOT EXISTS herd.column_copy_number;

-- Groups of distributed tables that share key types, bounds and placement. key_types are built-in types only.
CREATE TABLE IF NOT EXISTS herd.colocation (
    id          integer PRIMARY KEY,
    strategy    text NOT NULL CHECK (strategy IN ('hash', 'range', 'list')),
    key_types   oid[] NOT NULL,
    shard_count integer NOT NULL,
    -- Made with colocate_with => 'none': tables join it only when they name one of its tables.
    private     boolean NOT NULL DEFAULT false
);

-- How often shards of the group were moved, split or merged: their rows are not those that older snapshots see.
DO $herd$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_attribute WHERE attrelid = 'herd.colocation'::regclass AND attname = 'moves') THEN
        ALTER TABLE herd.colocation ADD COLUMN moves bigint NOT NULL DEFAULT 0;
    END IF;
END $herd$;

-- bound is what follows FOR VALUES in the partition's definition, or DEFAULT.
CREATE TABLE IF NOT EXISTS herd.shard (
    colocation integer NOT NULL REFERENCES herd.colocation ON DELETE CASCADE,
    number     integer NOT NULL CHECK (number >= 0),
    node       integer NOT NULL REFERENCES herd.node,
    bound      text NOT NULL,
    PRIMARY KEY (colocation, number)
);

-- A group's version is another one after each change of its shards: who has read them needs to read them again only then. It is chance:
-- a number could be given again, after a rollback or out of a backup.
DO $herd$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_attribute WHERE attrelid = 'herd.colocation'::regclass AND attname = 'version') THEN
        ALTER TABLE herd.colocation ADD COLUMN version uuid NOT NULL DEFAULT pg_catalog.gen_random_uuid();
    END IF;
END $herd$;

CREATE OR REPLACE FUNCTION herd.shards_changed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$$ BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        UPDATE herd.colocation SET version = gen_random_uuid();
    ELSIF TG_OP = 'UPDATE' THEN
        UPDATE herd.colocation SET version = gen_random_uuid()
         WHERE id IN (SELECT colocation FROM changed UNION SELECT colocation FROM before);
    ELSE
        UPDATE herd.colocation SET version = gen_random_uuid() WHERE id IN (SELECT colocation FROM changed);
    END IF;
    RETURN NULL;
END $$;

-- Made once: their locks would stop others.
DO $herd$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_trigger WHERE tgrelid = 'herd.shard'::regclass AND tgname = 'shards_deleted') THEN
        CREATE TRIGGER shards_inserted AFTER INSERT ON herd.shard REFERENCING NEW TABLE AS changed
            FOR EACH STATEMENT EXECUTE FUNCTION herd.shards_changed();
        CREATE TRIGGER shards_updated AFTER UPDATE ON herd.shard REFERENCING NEW TABLE AS changed OLD TABLE AS before
            FOR EACH STATEMENT EXECUTE FUNCTION herd.shards_changed();
        CREATE TRIGGER shards_truncated AFTER TRUNCATE ON herd.shard FOR EACH STATEMENT EXECUTE FUNCTION herd.shards_changed();
        CREATE TRIGGER shards_deleted AFTER DELETE ON herd.shard REFERENCING OLD TABLE AS changed
            FOR EACH STATEMENT EXECUTE FUNCTION herd.shards_changed();
        -- Whoever repairs by hand, as a replica, too.
        ALTER TABLE herd.shard ENABLE ALWAYS TRIGGER shards_inserted, ENABLE ALWAYS TRIGGER shards_updated,
            ENABLE ALWAYS TRIGGER shards_truncated, ENABLE ALWAYS TRIGGER shards_deleted;
    END IF;
END $herd$;

-- Distributed ('d') and reference ('r') tables; all others are local. The key's columns are not repeated here: they are
-- the partition key of the table itself.
CREATE TABLE IF NOT EXISTS herd.relation (
    schema     text NOT NULL,
    name       text NOT NULL,
    kind       text NOT NULL CHECK (kind IN ('d', 'r')),
    colocation integer REFERENCES herd.colocation,
    prefix     text UNIQUE,
    -- The table's own number: what goes by its name after a rename may be another's.
    oid        oid,
    PRIMARY KEY (schema, name),
    CHECK ((kind = 'd') = (colocation IS NOT NULL)),
    CHECK ((kind = 'd') = (prefix IS NOT NULL))
);

-- The key of a table that its owner has split by something else first, as numbers of its columns: its partitions are distributed
-- tables of their own, and only of those there are shards.
DO $herd$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_attribute WHERE attrelid = 'herd.relation'::regclass AND attname = 'key') THEN
        ALTER TABLE herd.relation ADD COLUMN key int2[];
    END IF;
END $herd$;

-- Of herds from before there was such a number, and of a home that was restored from a dump, in which columns have other numbers.
DO $herd$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_attribute WHERE attrelid = 'herd.relation'::regclass AND attname = 'oid') THEN
        ALTER TABLE herd.relation ADD COLUMN oid oid;
    END IF;
END $herd$;
UPDATE herd.relation r SET oid = to_regclass(format('%I.%I', r.schema, r.name)), key = CASE WHEN r.key IS NOT NULL THEN (
       SELECT array_agg(o.attnum ORDER BY k.position)
         FROM (SELECT i.inhrelid, i.inhparent, t.partattrs FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_partitioned_table t ON t.partrelid = i.inhrelid
                WHERE i.inhparent = to_regclass(format('%I.%I', r.schema, r.name)) ORDER BY i.inhrelid LIMIT 1) p
         CROSS JOIN LATERAL unnest(p.partattrs::int2[]) WITH ORDINALITY AS k (attnum, position)
         JOIN pg_catalog.pg_attribute a ON a.attrelid = p.inhrelid AND a.attnum = k.attnum
         JOIN pg_catalog.pg_attribute o ON o.attrelid = p.inhparent AND o.attname = a.attname) END
 WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = r.oid);

-- Names of partitions are never used again: a statement that was planned for what a table once was finds no partition. Plain
-- prefixes that have been given out are kept here, others have a number of their own.
CREATE TABLE IF NOT EXISTS herd.prefix (prefix text PRIMARY KEY);
CREATE SEQUENCE IF NOT EXISTS herd.prefix_number START 2;
INSERT INTO herd.prefix SELECT prefix FROM herd.relation WHERE kind = 'd' ON CONFLICT DO NOTHING;

-- A prefix that no table has ever had: the plain one, if it is to be had, or the other with a number. For routers, and for
-- whoever may distribute tables: others could take names away.
CREATE OR REPLACE FUNCTION herd.new_prefix(plain text, numbered text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$body$ BEGIN
    -- Owners of tables may make something among the shards, and so sit on a name.
    IF plain !~ '_[0-9]+x$' AND NOT EXISTS (
        SELECT FROM pg_class c WHERE c.relnamespace = 'herd_shards'::regnamespace
           AND starts_with(c.relname, plain || '_') AND substr(c.relname, length(plain) + 2) ~ '^[0-9]+$') THEN
        INSERT INTO herd.prefix VALUES (plain) ON CONFLICT DO NOTHING;
        IF FOUND THEN
            RETURN plain;
        END IF;
    END IF;
    -- Nobody else can know it before it is there, on any node: the last ten digits are chance.
    RETURN format('%s_%s%sx', numbered, nextval('herd.prefix_number'), lpad((('x' || left(gen_random_uuid()::text, 8))::bit(32)::bigint)::text, 10, '0'));
END $body$;
COMMENT ON FUNCTION herd.new_prefix(text, text) IS 'what the partitions of a table are named after: never the same twice';

-- After a table's partitions got names of another prefix, in the same transaction. Who could say so at will would send others'
-- statements to partitions of his choice: `token` is both names under the herd's seal, which only routers can make.
CREATE OR REPLACE FUNCTION herd.follow_prefix(old_prefix text, new_prefix text, token bytea) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$$ BEGIN
    IF token IS DISTINCT FROM (
        SELECT sha256(s.value || sha256(s.value || convert_to(format('prefix %s %s %s', octet_length(old_prefix), old_prefix, new_prefix), 'UTF8')))
          FROM herd.seal s) THEN
        RAISE EXCEPTION 'only a router can say what partitions are called' USING ERRCODE = 'insufficient_privilege';
    END IF;
    UPDATE herd.relation SET prefix = new_prefix WHERE prefix = old_prefix;
END $$;
COMMENT ON FUNCTION herd.follow_prefix(text, text, bytea) IS 'notes in the catalog of the herd what the partitions of a table are called now';

-- Which backends serve which sessions, told by routers to each other while somebody waits for a lock: how deadlocks over
-- several nodes and routers are found. Worth nothing after a second.
CREATE UNLOGGED TABLE IF NOT EXISTS herd.backend (
    router  text NOT NULL,
    session integer NOT NULL,
    node    integer NOT NULL,
    pid     integer NOT NULL,
    seen_at timestamptz NOT NULL DEFAULT now()
);

-- The routers that run. Each reports here, every second and after every reload, which epoch of the catalog it uses.
-- number is part of the process ids it gives to clients; address is where other routers send cancel requests on to.
CREATE TABLE IF NOT EXISTS herd.router (
    id      bigint PRIMARY KEY,
    number  integer NOT NULL UNIQUE CHECK (number BETWEEN 0 AND 255),
    address text NOT NULL,
    epoch   bigint NOT NULL,
    seen    timestamptz NOT NULL DEFAULT clock_timestamp()
);
-- Whether it says what its transactions read when another one asks.
DO $herd$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_attribute WHERE attrelid = 'herd.router'::regclass AND attname = 'answers') THEN
        ALTER TABLE herd.router ADD COLUMN answers boolean NOT NULL DEFAULT false;
    END IF;
END $herd$;

CREATE OR REPLACE VIEW herd.nodes AS
    SELECT id, name, host, port, database, is_home FROM herd.node ORDER BY id;
COMMENT ON VIEW herd.nodes IS 'the servers of the herd';

CREATE OR REPLACE VIEW herd.tables AS
    SELECT r.schema, r.name,
           CASE r.kind WHEN 'd' THEN 'distributed' ELSE 'reference' END AS kind,
           g.strategy,
           (SELECT string_agg(a.attname, ', ' ORDER BY k.position)
              FROM pg_catalog.pg_partitioned_table p
              CROSS JOIN LATERAL unnest(coalesce(r.key, p.partattrs::int2[])) WITH ORDINALITY AS k (attnum, position)
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
     WHERE r.key IS NULL
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

-- Only stores know: a router asks them.
CREATE OR REPLACE VIEW herd.column_copies AS
    SELECT NULL::bigint AS id, NULL::text AS relation, NULL::text AS node, NULL::text AS state, NULL::text AS why, NULL::bigint AS rows,
           NULL::pg_lsn AS applied, NULL::bigint AS lag_bytes, NULL::interval AS lag, NULL::bigint AS file_bytes, NULL::bigint AS unsorted,
           NULL::bigint AS bytes, NULL::text AS compression
     WHERE false;
COMMENT ON VIEW herd.column_copies IS 'of each column copy and node whether the store there has it, how far that is behind the node, how many rows came since it was sorted, and what it takes';

-- Likewise, of the stores that the router was told of.
CREATE OR REPLACE VIEW herd.column_stores AS
    SELECT NULL::text AS node, NULL::text AS host, NULL::integer AS port, NULL::text AS state, NULL::text AS why, NULL::bigint AS copies,
           NULL::bigint AS ready, NULL::pg_lsn AS applied, NULL::bigint AS lag_bytes, NULL::interval AS lag, NULL::bigint AS file_bytes
     WHERE false;
COMMENT ON VIEW herd.column_stores IS 'of each store of column copies that this router knows whether it answers, and how far it is behind its node';

-- Only routers know: each tells what it has seen.
CREATE OR REPLACE VIEW herd.replicas AS
    SELECT NULL::text AS node, NULL::text AS host, NULL::integer AS port, NULL::text AS state, NULL::text AS why,
           NULL::bigint AS lag_bytes, NULL::interval AS age, NULL::bigint AS reads
     WHERE false;
COMMENT ON VIEW herd.replicas IS 'of each host of a node that has several, as this router sees it: whether it can be read, and how old its state is at most';

-- What a transaction has changed that raises kinds: tables, or (NULL) nodes. Nobody else sees its rows before it commits, and
-- whoever raises the epoch takes them away.
CREATE TABLE IF NOT EXISTS herd.changed (schema text, name text);

-- Never has rows: it is locked by who changes kinds of tables, or their groups, so that there is one at a time. No client may.
CREATE TABLE IF NOT EXISTS herd.kinds ();

CREATE OR REPLACE FUNCTION herd.kinds_changed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$$ BEGIN
    IF TG_TABLE_NAME = 'node' THEN
        INSERT INTO herd.changed VALUES (NULL, NULL);
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO herd.changed VALUES (OLD.schema, OLD.name);
    ELSE
        INSERT INTO herd.changed VALUES (NEW.schema, NEW.name);
    END IF;
    RETURN NULL;
END $$;

-- kinds is raised by whatever makes a table distributed, reference or local, gives one another name, or changes where
-- reference tables are; members is what it was raised to when nodes came or went last, since when a table became what it
-- is. A statement that relies on tables being local looks at them in its own transaction. Raised with the epoch, as the last
-- thing before a commit and whatever SET CONSTRAINTS says, so that who stays open holds nobody up.
CREATE OR REPLACE FUNCTION herd.raise_kinds() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$$ BEGIN
    IF EXISTS (SELECT FROM herd.changed) THEN
        NEW.kinds := OLD.kinds + 1;
        IF EXISTS (SELECT FROM herd.changed WHERE name IS NULL) THEN
            NEW.members := NEW.kinds;
        END IF;
        UPDATE herd.relation r SET since = NEW.kinds FROM herd.changed c WHERE r.schema = c.schema AND r.name = c.name;
        DELETE FROM herd.changed;
    END IF;
    RETURN NEW;
END $$;

-- Made once: their locks would stop others.
DO $herd$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_attribute WHERE attrelid = 'herd.epoch'::regclass AND attname = 'members') THEN
        ALTER TABLE herd.epoch ADD COLUMN IF NOT EXISTS kinds bigint NOT NULL DEFAULT 1;
        ALTER TABLE herd.epoch ADD COLUMN members bigint NOT NULL DEFAULT 0;
        ALTER TABLE herd.relation ADD COLUMN since bigint NOT NULL DEFAULT 0;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_trigger WHERE tgrelid = 'herd.epoch'::regclass AND tgname = 'raise_kinds') THEN
        DROP TRIGGER IF EXISTS kinds_changed ON herd.relation;
        DROP TRIGGER IF EXISTS kinds_changed ON herd.node;
        CREATE TRIGGER kinds_changed AFTER INSERT OR DELETE OR UPDATE OF schema, name, kind ON herd.relation
            FOR EACH ROW EXECUTE FUNCTION herd.kinds_changed();
        CREATE TRIGGER kinds_changed AFTER INSERT OR DELETE OR UPDATE ON herd.node
            FOR EACH ROW EXECUTE FUNCTION herd.kinds_changed();
        CREATE TRIGGER raise_kinds BEFORE UPDATE OF epoch ON herd.epoch FOR EACH ROW EXECUTE FUNCTION herd.raise_kinds();
    END IF;
END $herd$;

-- Groups that DDL has taken the last table of go where nobody else can be about to put one in: under the lock on herd.kinds, or when
-- nodes change. At a DROP TABLE they would hold up who does.
CREATE OR REPLACE FUNCTION herd.forget_groups() RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS
$$ DELETE FROM herd.colocation g WHERE NOT EXISTS (SELECT FROM herd.relation r WHERE r.colocation = g.id) $$;
COMMENT ON FUNCTION herd.forget_groups() IS 'takes groups without tables out of the catalog of the herd';

-- What a change of a table's kind holds on home besides the table, to the end of its transaction: nodes neither come nor go (`key`,
-- shared, as all DDL holds it), no other kinds change, and the schema keeps its name. Waits for each no longer than so many
-- milliseconds.
CREATE OR REPLACE FUNCTION herd.lock_kinds(key bigint, schema text, wait_ms integer) RETURNS void
LANGUAGE plpgsql SET lock_timeout = '1s' SET search_path = pg_catalog, pg_temp AS
$body$ BEGIN
    PERFORM set_config('lock_timeout', wait_ms::text || 'ms', true);
    LOCK TABLE herd.kinds IN EXCLUSIVE MODE;
    PERFORM pg_advisory_xact_lock_shared(key);
    PERFORM herd.hold_schema(schema);
    PERFORM herd.forget_groups();
END $body$;
COMMENT ON FUNCTION herd.lock_kinds(bigint, text, integer) IS 'takes what a change of a table''s kind holds besides the table, or gives up after a time';

-- Whether this transaction has met a table that became the herd's, or got its name, after kinds was so much. Its locks tell
-- which tables it has met, whatever code did it.
CREATE OR REPLACE FUNCTION herd.met_since(planned bigint) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$$
SELECT EXISTS (
    SELECT FROM herd.relation r JOIN pg_namespace n ON n.nspname = r.schema
      JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = r.name
      JOIN pg_locks l ON l.relation = c.oid AND l.locktype = 'relation' AND l.pid = pg_backend_pid()
       AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
     WHERE r.since > planned)
$$;
COMMENT ON FUNCTION herd.met_since(bigint) IS 'whether this transaction uses a table of the herd that was none when it was planned';

-- How the catalog follows DDL that clients run. Their roles may not write the herd's tables: these functions write what
-- can be seen to be true, and nothing else.

CREATE OR REPLACE FUNCTION herd.replaced() RETURNS SETOF regclass
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
$$
SELECT c.oid::regclass
  FROM herd.relation r JOIN herd.colocation g ON g.id = r.colocation
  JOIN pg_namespace n ON n.nspname = r.schema JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = r.name
  JOIN pg_partitioned_table p ON p.partrelid = c.oid
 WHERE r.key IS NULL AND p.partstrat <> left(g.strategy, 1)::"char" OR g.key_types IS DISTINCT FROM ARRAY(
       SELECT a.atttypid FROM unnest(coalesce(r.key, p.partattrs::int2[])) WITH ORDINALITY k (attnum, place)
         LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum AND k.attnum > 0 ORDER BY k.place)
$$;

CREATE OR REPLACE FUNCTION herd.distributed() RETURNS SETOF regclass
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
$$
SELECT s.parent FROM herd.shard_tables s
 UNION
SELECT c.oid::regclass
  FROM herd.relation r JOIN pg_namespace n ON n.nspname = r.schema JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = r.name
 WHERE r.kind = 'd' AND r.key IS NULL AND c.relkind = 'p' AND NOT EXISTS (SELECT FROM herd.replaced() p WHERE p = c.oid::regclass)
$$;

-- Takes tables out of the catalog that are not there any more. Groups that have lost their last one go when kinds change next.
CREATE OR REPLACE FUNCTION herd.forget_dropped() RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$$
DELETE FROM herd.column_copy k WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = k.relation);
DELETE FROM herd.relation r WHERE NOT EXISTS (
    SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = r.schema AND c.relname = r.name AND c.relkind = CASE r.kind WHEN 'd' THEN 'p' ELSE 'r' END
       AND NOT EXISTS (SELECT FROM herd.replaced() p WHERE p = c.oid::regclass));
$$;
COMMENT ON FUNCTION herd.forget_dropped() IS 'takes dropped tables out of the catalog of the herd';

-- After a rename: the table that the herd knows has that name now, whoever says so. Another's of any name is never followed.
CREATE OR REPLACE FUNCTION herd.follow_rename(old_schema text, old_name text, new_schema text, new_name text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$$ BEGIN
    UPDATE herd.relation r SET schema = new_schema, name = new_name
     WHERE r.schema = old_schema AND r.name = old_name
       AND EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                    WHERE c.oid = r.oid AND n.nspname = new_schema AND c.relname = new_name);
    IF NOT FOUND THEN
        RAISE EXCEPTION '"%"."%" is not the table that the herd knows as "%"."%"', new_schema, new_name, old_schema, old_name
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Rename it through a router.';
    END IF;
END $$;
COMMENT ON FUNCTION herd.follow_rename(text, text, text, text) IS 'renames a table in the catalog of the herd';

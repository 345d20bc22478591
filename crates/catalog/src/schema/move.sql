-- Steps of moving a shard, of splitting one, or of merging two, that one node does by itself. The router's own role runs the first ones, on tables that belong to it as
-- long as nobody else may see them; the last two are part of the transaction that makes the change. herd.move_shard(),
-- herd.split_shard() and herd.merge_shards() call them.

-- What the copy of a shard has to be like. `mark` changes with whatever its copy would have to change with.
CREATE OR REPLACE FUNCTION herd.move_facts(parent regclass, part regclass) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET datestyle = 'ISO, MDY' SET intervalstyle = 'postgres' SET extra_float_digits = 1 SET bytea_output = 'hex' SET quote_all_identifiers = off AS
$body$
SELECT jsonb_build_object(
    -- The tables that it is a partition of, the nearest first.
    'line', (SELECT jsonb_agg(a.relid::oid::text ORDER BY a.n) FROM pg_partition_ancestors(part) WITH ORDINALITY a (relid, n) WHERE a.relid <> part),
    'part', part::oid::text,
    'owner', pg_get_userbyid(c.relowner),
    'trusted', r.rolsuper,
    'unlogged', c.relpersistence <> 'p',
    'method', (SELECT amname FROM pg_am a WHERE a.oid = c.relam),
    'tablespace', (SELECT spcname FROM pg_tablespace t WHERE t.oid = c.reltablespace),
    'options', (SELECT string_agg(o, ', ') FROM (SELECT unnest(c.reloptions) UNION ALL
                  SELECT 'toast.' || unnest(t.reloptions) FROM pg_class t WHERE t.oid = c.reltoastrelid) AS all_options (o)),
    'about', obj_description(part, 'pg_class'),
    'bound', pg_get_expr(c.relpartbound, part),
    'check', pg_get_partition_constraintdef(part),
    -- What another move has made and not yet taken away is no reason.
    'published', EXISTS (SELECT FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid
                          WHERE r.prrelid = part AND p.pubname !~ '^herd_move_[0-9a-f]{16}$'),
    'columns', (SELECT jsonb_agg(a.attname ORDER BY a.attnum) FROM pg_attribute a
                 WHERE a.attrelid = part AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''),
    'generated', (SELECT jsonb_agg(a.attname ORDER BY a.attnum) FROM pg_attribute a WHERE a.attrelid = part AND a.attgenerated <> '' AND NOT a.attisdropped),
    -- By what rows are found again: the replica identity, compared as its index does, whatever names mean where that is done.
    'key', k.names, 'key_operators', k.operators, 'key_types', k.types,
    -- PostgreSQL lets nobody change rows of a published table whose replica identity has generated columns that are not published
    -- (pub_contains_invalid_column in publicationcmds.c): all of them where it is FULL. Before 18 it tells of none, and looks at none.
    'identity', CASE WHEN current_setting('server_version_num')::int < 180000 THEN CASE WHEN k.generated THEN 'untold' ELSE 'plain' END
                     WHEN c.relreplident = 'f' AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = part AND a.attgenerated = 'v' AND NOT a.attisdropped) THEN 'untold'
                     WHEN k.generated OR c.relreplident = 'f' AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = part AND a.attgenerated = 's' AND NOT a.attisdropped) THEN 'stored'
                     ELSE 'plain' END,
    -- What its rows were never held against: old ones need not satisfy it.
    'not_valid', (SELECT jsonb_agg(jsonb_build_object('name', o.conname, 'definition', d.text)) FROM pg_constraint o, LATERAL pg_get_constraintdef(o.oid) d (text)
                   WHERE o.conrelid = parent AND o.contype IN ('c', 'n') AND d.text LIKE '% NOT VALID'),
    'indexes', (SELECT jsonb_object_agg(p.relname, ic.relname) FROM pg_index i JOIN pg_class ic ON ic.oid = i.indexrelid
                  JOIN pg_inherits h ON h.inhrelid = i.indexrelid JOIN pg_class p ON p.oid = h.inhparent WHERE i.indrelid = part),
    'bytes', pg_table_size(part),
    'deferrable', EXISTS (SELECT FROM pg_index i WHERE i.indrelid = part AND NOT i.indimmediate),
    -- A column has another version where its type is set, be it to what it was: its values may be others then, and nothing tells of them.
    'mark', md5(concat_ws(E'\n', part::oid::text, c.reloptions::text, c.relam::text, c.reltablespace::text, c.relpersistence::text, c.relreplident::text, c.relowner::text,
        (SELECT string_agg(concat_ws(' ', a.attnum, a.xmin, a.attname, a.atttypid, a.atttypmod, a.attnotnull, a.attgenerated, a.attidentity, a.attcollation, a.attisdropped,
                                     a.attstorage, a.attcompression, pg_get_expr(d.adbin, part)), E'\n' ORDER BY a.attnum)
           FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = part AND d.adnum = a.attnum WHERE a.attrelid = part AND a.attnum > 0),
        -- Whether all rows have been held against it yet is no difference.
        (SELECT string_agg(o.conname || ' ' || regexp_replace(pg_get_constraintdef(o.oid), ' NOT VALID$', ''), E'\n' ORDER BY o.conname) FROM pg_constraint o WHERE o.conrelid = part),
        (SELECT string_agg(concat_ws(' ', i.indexrelid, pg_get_indexdef(i.indexrelid), i.indisvalid, i.indisreplident), E'\n' ORDER BY i.indexrelid)
           FROM pg_index i WHERE i.indrelid = part))))
  FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner, LATERAL (
    WITH RECURSIVE key AS (
        SELECT a.attname, a.attgenerated, k.place, k.class, a.atttypid AS type FROM pg_index i, unnest(i.indkey::int2[], i.indclass::oid[]) WITH ORDINALITY k (attnum, class, place)
          JOIN pg_attribute a ON a.attrelid = part AND a.attnum = k.attnum
         WHERE i.indrelid = part AND k.place <= i.indnkeyatts AND i.indisvalid AND i.indimmediate
           AND CASE c.relreplident WHEN 'i' THEN i.indisreplident WHEN 'n' THEN false ELSE i.indisprimary END
    ), base AS (
        SELECT k.* FROM key k
        UNION ALL
        -- A domain's own type: what a CHECK of it says is not asked.
        SELECT b.attname, b.attgenerated, b.place, b.class, t.typbasetype FROM base b JOIN pg_type t ON t.oid = b.type WHERE t.typtype = 'd'
    )
    SELECT jsonb_agg(b.attname ORDER BY b.place) AS names, jsonb_agg(format_type(b.type, -1) ORDER BY b.place) AS types, coalesce(bool_or(b.attgenerated <> ''), false) AS generated,
           jsonb_agg(format('OPERATOR(%I.%s)', n.nspname, o.oprname) ORDER BY b.place) AS operators
      FROM base b JOIN pg_type t ON t.oid = b.type AND t.typtype <> 'd' JOIN pg_opclass l ON l.oid = b.class
      -- Unique indexes are btrees: what is equal has the third strategy.
      JOIN pg_amop m ON m.amopfamily = l.opcfamily AND m.amoplefttype = l.opcintype AND m.amoprighttype = l.opcintype AND m.amopstrategy = 3
      JOIN pg_operator o ON o.oid = m.amopopr JOIN pg_namespace n ON n.oid = o.oprnamespace) k
 WHERE c.oid = part AND EXISTS (SELECT FROM pg_inherits h WHERE h.inhrelid = part AND h.inhparent = parent)
$body$;
COMMENT ON FUNCTION herd.move_facts(regclass, regclass) IS 'what a copy of a shard has to be like';

-- Makes the table that a shard's rows are copied into. It belongs to who calls this until it becomes a shard, so that nobody else changes it;
-- what its owner wrote would run as who fills it, and is refused.
CREATE OR REPLACE FUNCTION herd.move_make(parent regclass, called text, facts jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$body$
DECLARE
    fresh text := format('herd_shards.%I', called);
    who name := (SELECT pg_get_userbyid(c.relowner) FROM pg_class c WHERE c.oid = parent);
    -- Defaults come when it is a shard: a sequence of the table's, needed here, would keep the table from being dropped.
    like_it text := format('(LIKE %s INCLUDING ALL EXCLUDING COMMENTS EXCLUDING DEFAULTS EXCLUDING IDENTITY EXCLUDING INDEXES EXCLUDING STATISTICS) USING %I%s%s', parent, facts ->> 'method',
                           ' WITH (' || (facts ->> 'options') || ')', ' TABLESPACE ' || quote_ident(facts ->> 'tablespace'));
    late text;
BEGIN
    PERFORM herd.create_as_owner(who, 'herd_shards', called, '', like_it);
    EXECUTE format('ALTER TABLE %s OWNER TO CURRENT_USER', fresh);
    IF NOT (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = who) AND (
           EXISTS (SELECT FROM pg_constraint o WHERE o.conrelid = fresh::regclass AND o.contype = 'c')
        OR EXISTS (SELECT FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid WHERE a.attrelid = fresh::regclass AND a.attnum > 0
                      AND NOT a.attisdropped AND (a.attgenerated <> '' OR t.oid >= 16384 AND t.typtype <> 'e'))
        OR EXISTS (SELECT FROM pg_class c WHERE c.oid = fresh::regclass AND (c.relhastriggers OR c.relhasrules))
        OR EXISTS (SELECT FROM pg_index i WHERE i.indrelid = parent AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL))) THEN
        RAISE EXCEPTION 'moving, splitting or merging shards of table "%" is not supported: its owner "%" is no superuser, and it has CHECKs, generated columns, types or index expressions of his', parent, who
            USING ERRCODE = 'feature_not_supported', HINT = 'Drop them for as long as it lasts, or give the table to a superuser.';
    END IF;
    -- A column that rows are not given would get its default, as who fills it.
    IF (SELECT jsonb_agg(a.attname ORDER BY a.attname) FROM pg_attribute a
         WHERE a.attrelid = fresh::regclass AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '')
       IS DISTINCT FROM (SELECT jsonb_agg(c.name ORDER BY c.name::name) FROM jsonb_array_elements_text(facts -> 'columns') AS c (name)) THEN
        RAISE EXCEPTION 'table "%" was changed while one of its shards was moved, split or merged', parent USING ERRCODE = 'object_in_use', HINT = 'Do it again.';
    END IF;
    FOR late IN SELECT l ->> 'name' FROM jsonb_array_elements(nullif(facts -> 'not_valid', 'null')) l LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT IF EXISTS %I', fresh, late);
    END LOOP;
    IF facts ->> 'about' IS NOT NULL THEN
        EXECUTE format('COMMENT ON TABLE %s IS %L', fresh, facts ->> 'about');
    END IF;
    EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = false)', fresh);
END
$body$;
COMMENT ON FUNCTION herd.move_make(regclass, text, jsonb) IS 'makes the table that the rows of a shard are copied into';

-- What rows of shards say, told to who may read them; NULL: nothing is asked. To plan a query folds expressions of indexes and statistics, CHECKs and
-- policies: what the tables' owners have written would run as who asks, and is refused. Until the transaction ends they can add no more of it.
CREATE OR REPLACE FUNCTION herd.ask_rows(tables text[], ask text) RETURNS text[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET row_security = off AS
$body$
DECLARE
    one text;
    owner name;
    said text[];
BEGIN
    FOREACH one IN ARRAY tables LOOP
        EXECUTE format('LOCK TABLE %s IN SHARE UPDATE EXCLUSIVE MODE', one);
        SELECT r.rolname INTO owner FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner
         WHERE c.oid = one::regclass AND NOT r.rolsuper AND EXISTS (
            SELECT FROM (SELECT c.oid UNION SELECT t.relid FROM pg_partition_tree(c.oid) t) AS of (oid) JOIN pg_class k ON k.oid = of.oid
             WHERE k.relhasrules OR k.relkind NOT IN ('r', 'p')
                OR EXISTS (SELECT FROM pg_constraint o WHERE o.conrelid = k.oid AND o.contype = 'c')
                OR EXISTS (SELECT FROM pg_policy l WHERE l.polrelid = k.oid)
                OR EXISTS (SELECT FROM pg_statistic_ext s WHERE s.stxrelid = k.oid AND s.stxexprs IS NOT NULL)
                OR EXISTS (SELECT FROM pg_index i WHERE i.indrelid = k.oid AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL))
                OR EXISTS (SELECT FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid WHERE a.attrelid = k.oid AND a.attnum > 0
                              AND NOT a.attisdropped AND (a.attgenerated <> '' OR t.oid >= 16384 AND t.typtype <> 'e')));
        IF FOUND THEN
            RAISE EXCEPTION 'rows of table "%" are not read for this: its owner "%" is no superuser, and it has CHECKs, policies, generated columns, types or expressions of his', one, owner
                USING ERRCODE = 'feature_not_supported', HINT = 'Drop them for as long as it lasts, or give the table to a superuser.';
        END IF;
    END LOOP;
    IF ask IS NOT NULL THEN
        EXECUTE ask INTO said;
    END IF;
    RETURN said;
END
$body$;
COMMENT ON FUNCTION herd.ask_rows(text[], text) IS 'what rows of shards say, where no code of their owners runs by it';

-- Where a range shard is cut, as PostgreSQL prints the value; NULL: nowhere. That is `at`, or the middle of the rows, which is looked for
-- where the table's owner may run code as the router; strictly between `above` and `below` (each NULL: no limit), or at the latter.
CREATE OR REPLACE FUNCTION herd.split_at(parent regclass, part regclass, at text, above text, below text, or_at boolean) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET datestyle = 'ISO, MDY' SET intervalstyle = 'postgres' SET extra_float_digits = 1 SET row_security = off AS
$body$
DECLARE
    key text;
    kind text;
    order_by text;
    found text := at;
    fits boolean;
BEGIN
    SELECT quote_ident(a.attname), format_type(a.atttypid, a.atttypmod), coalesce((SELECT format(' COLLATE %I.%I', n.nspname, l.collname)
             FROM pg_collation l JOIN pg_namespace n ON n.oid = l.collnamespace WHERE l.oid = p.partcollation[0]), '')
      INTO key, kind, order_by
      FROM pg_partitioned_table p JOIN pg_attribute a ON a.attrelid = p.partrelid AND a.attnum = p.partattrs[0] WHERE p.partrelid = parent;
    IF at IS NULL THEN
        EXECUTE format('SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY %s%s)::text FROM ONLY %s', key, order_by, part) INTO found;
        -- Rows of that value are more than half of all: behind them, if it is the least.
        EXECUTE format('SELECT coalesce((SELECT %4$L FROM ONLY %3$s WHERE %1$s%2$s < %4$L::%5$s LIMIT 1),
                                        (SELECT %1$s::text FROM ONLY %3$s WHERE %1$s%2$s > %4$L::%5$s ORDER BY %1$s%2$s LIMIT 1))', key, order_by, part, found, kind) INTO found;
        RETURN found;
    END IF;
    EXECUTE format('SELECT %L::%s::text', found, kind) INTO found;
    EXECUTE format('SELECT coalesce(v%2$s > %3$L::%1$s, true) AND coalesce(v%2$s < %4$L::%1$s OR %5$L AND v%2$s = %4$L::%1$s, true) FROM (SELECT %6$L::%1$s) AS s (v)',
                   kind, order_by, above, below, or_at, found) INTO fits;
    IF fits IS NOT TRUE THEN
        RAISE EXCEPTION 'a shard is split at a value within its bound, which % is not', quote_literal(found)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'herd.shards shows the bounds.';
    END IF;
    RETURN found;
END
$body$;
COMMENT ON FUNCTION herd.split_at(regclass, regclass, text, text, text, boolean) IS 'where a range shard is cut in two';

-- Of the tables that the rows of a shard's halves are to be in, which herd.move_make() has made, the partitions of one that is split as
-- theirs is: what is written to that comes to its half, whatever the halves are, and so does a row whose key changes. Of two that are merged
-- there is one, which takes no row of any other.
CREATE OR REPLACE FUNCTION herd.split_make(parent regclass, called text, halves text[], bounds text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$body$ BEGIN
    EXECUTE format('CREATE TABLE herd_shards.%I (LIKE herd_shards.%I INCLUDING GENERATED) PARTITION BY %s', called, halves[1], pg_get_partkeydef(parent));
    FOR i IN 1 .. cardinality(halves) LOOP
        EXECUTE format('ALTER TABLE herd_shards.%I ATTACH PARTITION herd_shards.%I %s', called, halves[i], bounds[i]);
    END LOOP;
END
$body$;
COMMENT ON FUNCTION herd.split_make(regclass, text, text[], text[]) IS 'makes the table that the rows of a shard are copied into which is split';

-- When the rows are there: indexes and constraints as the parent has them, under the names that the shard's have, and the bound as a CHECK, so
-- that ATTACH need not look at the rows. Those that the parent has got since are among them, so what is in them is looked at here.
CREATE OR REPLACE FUNCTION herd.move_index(parent regclass, called text, facts jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$body$
DECLARE
    fresh text := format('herd_shards.%I', called);
    item record;
    head text;
    name text;
    -- Of a half, or of one that two become.
    made_for regclass := (SELECT h.inhparent FROM pg_inherits h WHERE h.inhrelid = fresh::regclass);
    bound text := facts ->> 'check';
    hashed text := 'satisfies_hash_partition(%L::oid,';
BEGIN
    FOR item IN
        SELECT i.indexrelid, c.relname, i.indisunique, o.conname, pg_get_constraintdef(o.oid) AS definition, pg_get_indexdef(i.indexrelid) AS made,
               o.contype, array_to_string(c.reloptions, ', ') AS options,
               (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL) AND NOT r.rolsuper AS runs_code
          FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_roles r ON r.oid = c.relowner
          LEFT JOIN pg_constraint o ON o.conindid = i.indexrelid AND o.conrelid = parent AND o.contype IN ('p', 'u', 'x')
         WHERE i.indrelid = parent ORDER BY i.indisprimary DESC, i.indexrelid
    LOOP
        IF item.runs_code THEN
            RAISE EXCEPTION 'a table was changed while one of its shards was moved: its index "%" has expressions, and its owner is no superuser', item.relname
                USING ERRCODE = 'object_in_use', HINT = 'Drop the index for as long as the move lasts.';
        END IF;
        name := facts -> 'indexes' ->> item.relname;
        IF name IS NULL OR to_regclass(format('herd_shards.%I', name)) IS NOT NULL THEN
            name := left(coalesce(name, item.relname), 20) || '_' || gen_random_uuid();
        END IF;
        IF item.conname IS NOT NULL THEN
            -- A constraint is told without its index's storage parameters. Those of an exclusion would stand in its midst.
            IF item.options IS NOT NULL AND item.contype <> 'x' THEN
                item.definition := regexp_replace(item.definition, '( DEFERRABLE)?( INITIALLY DEFERRED)?$', format(' WITH (%s)\1\2', item.options));
            END IF;
            EXECUTE format('ALTER TABLE %s ADD CONSTRAINT %I %s', fresh, name, item.definition);
            IF item.options IS NOT NULL AND item.contype = 'x' THEN
                EXECUTE format('ALTER INDEX herd_shards.%I SET (%s)', name, item.options);
            END IF;
            CONTINUE;
        END IF;
        head := format('CREATE %sINDEX %I ON ONLY %s USING ', CASE WHEN item.indisunique THEN 'UNIQUE ' ELSE '' END, item.relname, parent);
        IF NOT starts_with(item.made, head) THEN
            RAISE EXCEPTION 'index "%" is not understood', item.relname USING ERRCODE = 'feature_not_supported';
        END IF;
        EXECUTE format('CREATE %sINDEX %I ON %s USING %s', CASE WHEN item.indisunique THEN 'UNIQUE ' ELSE '' END, name, fresh, substr(item.made, length(head) + 1));
    END LOOP;
    -- The expression names the tables that are split so, which are others here.
    IF made_for IS NOT NULL THEN
        bound := concat_ws(' AND ', replace(pg_get_partition_constraintdef(fresh::regclass), format(hashed, made_for::oid::text), format(hashed, parent::oid::text)),
                           pg_get_partition_constraintdef(parent));
    ELSE
        FOR item IN SELECT l.oid, l.n FROM jsonb_array_elements_text(facts -> 'line') WITH ORDINALITY l (oid, n) LOOP
            bound := replace(bound, format(hashed, item.oid), format(hashed, '@' || item.n::text));
        END LOOP;
        FOR item IN SELECT a.relid::oid::text AS oid, a.n FROM pg_partition_ancestors(parent) WITH ORDINALITY a (relid, n) LOOP
            bound := replace(bound, format(hashed, '@' || item.n::text), format(hashed, item.oid));
        END LOOP;
    END IF;
    EXECUTE format('ALTER TABLE %s ADD CONSTRAINT herd_bound CHECK (%s)', fresh, bound);
    -- The table had it when it was looked at, and had none when the copy was made: rows that come from now on would be held against it by who fills it.
    IF EXISTS (SELECT FROM jsonb_array_elements(nullif(facts -> 'not_valid', 'null')) l WHERE l ->> 'definition' LIKE 'CHECK%')
       AND NOT (SELECT r.rolsuper FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner WHERE c.oid = parent) THEN
        RAISE EXCEPTION 'table "%" was changed while one of its shards was moved, split or merged', parent USING ERRCODE = 'object_in_use', HINT = 'Do it again.';
    END IF;
    FOR item IN SELECT l ->> 'name' AS conname, l ->> 'definition' AS definition FROM jsonb_array_elements(nullif(facts -> 'not_valid', 'null')) l LOOP
        EXECUTE format('ALTER TABLE %s ADD CONSTRAINT %I %s', fresh, item.conname, item.definition);
    END LOOP;
    EXECUTE format('ALTER TABLE %s RESET (autovacuum_enabled)', fresh);
    IF facts ->> 'options' IS NOT NULL THEN
        EXECUTE format('ALTER TABLE %s SET (%s)', fresh, facts ->> 'options');
    END IF;
    EXECUTE format('ANALYZE %s', fresh);
END
$body$;
COMMENT ON FUNCTION herd.move_index(regclass, text, jsonb) IS 'makes the indexes and constraints of a copy of a shard';

-- The last changes of a copy, by who has its table locked, under the settings that values are told with. How many rows each has changed.
CREATE OR REPLACE FUNCTION herd.move_apply(statements text[]) RETURNS SETOF bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO' SET intervalstyle = 'postgres' SET array_nulls = on SET row_security = off SET lc_monetary = 'C' SET xmloption = 'content' AS
$body$
DECLARE
    command text;
    changed bigint;
BEGIN
    FOREACH command IN ARRAY statements LOOP
        EXECUTE command;
        GET DIAGNOSTICS changed = ROW_COUNT;
        RETURN NEXT changed;
    END LOOP;
END
$body$;
COMMENT ON FUNCTION herd.move_apply(text[]) IS 'applies changes to the copy of a shard';

-- The foreign keys of a table to itself. PostgreSQL detaches no partition with rows that any row refers to, be it one of its own (RI_PartitionRemove_Check
-- in ri_triggers.c). So while a shard leaves, the table has none, under locks that let nobody write; and then it has them again. The rows
-- that are there satisfy them as they did before, and are held against them later (NOT VALID), when nobody has to wait for it.
CREATE OR REPLACE FUNCTION herd.self_references(parent regclass) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
$body$
SELECT coalesce(jsonb_agg(jsonb_build_object(
           'name', o.conname, 'valid', o.convalidated, 'about', obj_description(o.oid, 'pg_constraint'),
           'definition', regexp_replace(d, '( NOT VALID)?$', CASE WHEN d LIKE '% NOT ENFORCED' THEN '' ELSE ' NOT VALID' END)) ORDER BY o.conname), '[]')
  FROM pg_constraint o, LATERAL pg_get_constraintdef(o.oid) d
 WHERE o.conrelid = parent AND o.confrelid = parent AND o.contype = 'f' AND o.conparentid = 0
$body$;
COMMENT ON FUNCTION herd.self_references(regclass) IS 'the foreign keys of a table to itself';

CREATE OR REPLACE FUNCTION herd.drop_self_references(parent regclass, known jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$body$
DECLARE item jsonb;
BEGIN
    FOR item IN SELECT jsonb_array_elements(known) LOOP
        PERFORM herd.run_as_owner(parent, format('ALTER TABLE %s DROP CONSTRAINT %I', parent, item ->> 'name'));
    END LOOP;
END
$body$;
COMMENT ON FUNCTION herd.drop_self_references(regclass, jsonb) IS 'takes a table''s foreign keys to itself away, while one of its shards leaves or comes';

CREATE OR REPLACE FUNCTION herd.add_self_references(parent regclass, known jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$body$
DECLARE item jsonb;
BEGIN
    FOR item IN SELECT jsonb_array_elements(known) LOOP
        PERFORM herd.run_as_owner(parent, format('ALTER TABLE %s ADD CONSTRAINT %I %s', parent, item ->> 'name', item ->> 'definition'));
        IF item ->> 'about' IS NOT NULL THEN
            EXECUTE format('COMMENT ON CONSTRAINT %I ON %s IS %L', item ->> 'name', parent, item ->> 'about');
        END IF;
    END LOOP;
END
$body$;
COMMENT ON FUNCTION herd.add_self_references(regclass, jsonb) IS 'gives a table its foreign keys to itself again';

-- The shard leaves its node, rows and all. Its table is locked by who calls this.
CREATE OR REPLACE FUNCTION herd.move_leave(parent regclass, part regclass) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$body$ BEGIN
    PERFORM herd.run_as_owner(parent, format('ALTER TABLE %1$s DETACH PARTITION %2$s; DROP TABLE %2$s', parent, part));
END
$body$;
COMMENT ON FUNCTION herd.move_leave(regclass, regclass) IS 'takes away a shard that another node has now';

-- The copy becomes the shard.
CREATE OR REPLACE FUNCTION herd.move_enter(parent regclass, called text, facts jsonb, wanted text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$body$
DECLARE
    fresh text := format('herd_shards.%I', called);
    who regrole := (SELECT c.relowner FROM pg_class c WHERE c.oid = parent);
    made_for regclass := (SELECT h.inhparent FROM pg_inherits h WHERE h.inhrelid = fresh::regclass);
    item record;
BEGIN
    IF made_for IS NOT NULL THEN
        EXECUTE format('ALTER TABLE %s DETACH PARTITION %s', made_for, fresh);
    END IF;
    PERFORM herd.let_own(who::text);
    EXECUTE format('ALTER TABLE %s OWNER TO %s', fresh, who);
    -- By the owner: constants in them are read anew, and with them the CHECKs of domains of his.
    FOR item IN SELECT a.attname, pg_get_expr(d.adbin, d.adrelid) AS made FROM pg_attribute a JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
                 WHERE a.attrelid = parent AND a.attgenerated = '' LOOP
        PERFORM herd.run_as_owner(fresh::regclass, format('ALTER TABLE %s ALTER COLUMN %I SET DEFAULT %s', fresh, item.attname, item.made));
    END LOOP;
    -- ATTACH would hold its rows against them.
    FOR item IN SELECT o.conname, d.text AS definition FROM pg_constraint o, LATERAL pg_get_constraintdef(o.oid) d (text)
                 WHERE o.conrelid = parent AND o.contype = 'f' AND o.conparentid = 0 AND d.text LIKE '% NOT VALID' LOOP
        PERFORM herd.run_as_owner(parent, format('ALTER TABLE %s ADD CONSTRAINT %I %s', fresh, item.conname, item.definition));
    END LOOP;
    -- Old rows have been held against it meanwhile.
    FOR item IN SELECT o.conname FROM pg_constraint o JOIN pg_constraint p ON p.conrelid = parent AND p.conname = o.conname AND p.convalidated
                 WHERE o.conrelid = fresh::regclass AND NOT o.convalidated LOOP
        PERFORM herd.run_as_owner(parent, format('ALTER TABLE %s VALIDATE CONSTRAINT %I', fresh, item.conname));
    END LOOP;
    PERFORM herd.run_as_owner(parent, format('ALTER TABLE %1$s ATTACH PARTITION %2$s %3$s; ALTER TABLE %2$s DROP CONSTRAINT herd_bound', parent, fresh, facts ->> 'bound'));
    -- The names that the shard's indexes had, which were its own as long as it was there: the first half's; the second's are made of them.
    FOR item IN
        SELECT c.oid::regclass AS index, n.name FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_inherits h ON h.inhrelid = c.oid
          JOIN pg_class p ON p.oid = h.inhparent, LATERAL (SELECT facts -> 'indexes' ->> p.relname) o (name),
               LATERAL (VALUES (o.name), (left(o.name, 52) || '_' || substring(wanted FROM '[0-9]+$'))) n (name)
         WHERE i.indrelid = fresh::regclass AND c.relname <> o.name AND octet_length(n.name) < 64 AND made_for IS NOT NULL
         ORDER BY c.oid, n.name <> o.name
    LOOP
        IF to_regclass(format('herd_shards.%I', item.name)) IS NULL AND item.index::text ~ '_[0-9a-f]{8}-[0-9a-f-]{27}"?$' THEN
            EXECUTE format('ALTER INDEX %s RENAME TO %I', item.index, item.name);
        END IF;
    END LOOP;
    EXECUTE format('ALTER TABLE %s RENAME TO %I', fresh, wanted);
    PERFORM herd.mirror_partitions(parent);
END
$body$;
COMMENT ON FUNCTION herd.move_enter(regclass, text, jsonb, text) IS 'makes a shard of the copy of one';

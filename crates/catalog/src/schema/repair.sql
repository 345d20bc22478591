-- What herd.repair() asks of one node, and has it do there. All but what jobs have left is done in the name of who asks, whose rights on the
-- tables count. Rows are told as lists of VALUES: nothing of them is read but by the types that they go into. Whatever tells values or reads them does
-- so under the same settings, which are none of the client's. What reads rows asks first whether code of the tables' owners would run by it, in the
-- same statement, and until this ends they can add none.

-- The shards that this node has of a table, and which rows each may hold. That is told as PostgreSQL does, but for the tables that it is split
-- by, which have other numbers on another node: '@1' is the table itself. NULL: what no other shard holds.
CREATE OR REPLACE FUNCTION herd.shard_bounds(parent regclass) RETURNS TABLE (shard text, bound text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET datestyle = 'ISO, MDY' SET intervalstyle = 'postgres' SET extra_float_digits = 1
SET bytea_output = 'hex' SET array_nulls = on SET xmloption = 'content' SET lc_monetary = 'C' SET standard_conforming_strings = on AS
$body$
DECLARE
    item record;
    line record;
    hashed text := 'satisfies_hash_partition(%L::oid,';
BEGIN
    FOR item IN
        SELECT c.relname, c.oid, pg_get_expr(c.relpartbound, c.oid) = 'DEFAULT' AS is_rest
          FROM herd.shard_tables s JOIN pg_class c ON c.oid = s.shard WHERE s.parent = shard_bounds.parent ORDER BY c.relname
    LOOP
        shard := item.relname;
        bound := CASE WHEN NOT item.is_rest THEN pg_get_partition_constraintdef(item.oid) END;
        FOR line IN SELECT a.relid::oid::text AS oid, a.n FROM pg_partition_ancestors(parent) WITH ORDINALITY a (relid, n) LOOP
            bound := replace(bound, format(hashed, line.oid), format(hashed, '@' || line.n::text));
        END LOOP;
        RETURN NEXT;
    END LOOP;
END
$body$;
COMMENT ON FUNCTION herd.shard_bounds(regclass) IS 'the shards of a table on this node, and which rows each may hold';

-- Of a shard's rows those that it may not hold, or that another one is to have, and where each belongs: the place among `bounds`, which are
-- told as herd.shard_bounds() does; 0: none of these; -1: not even the table is to have it, which is a partition by time then.
CREATE OR REPLACE FUNCTION herd.misplaced_sql(parent regclass, part regclass, bounds text[]) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET datestyle = 'ISO, MDY' SET intervalstyle = 'postgres' SET extra_float_digits = 1
SET bytea_output = 'hex' SET array_nulls = on SET xmloption = 'content' SET lc_monetary = 'C' SET standard_conforming_strings = on AS
$body$
DECLARE
    line record;
    own text := CASE WHEN (SELECT pg_get_expr(c.relpartbound, c.oid) <> 'DEFAULT' FROM pg_class c WHERE c.oid = part) THEN pg_get_partition_constraintdef(part) END;
    which text := (SELECT string_agg(format('WHEN %s THEN %s', b.bound, b.n), ' ' ORDER BY b.n) FROM unnest(bounds) WITH ORDINALITY b (bound, n));
    whole text := pg_get_partition_constraintdef(parent);
    hashed text := 'satisfies_hash_partition(%L::oid,';
BEGIN
    FOR line IN SELECT a.relid::oid::text AS oid, a.n FROM pg_partition_ancestors(parent) WITH ORDINALITY a (relid, n) LOOP
        which := replace(which, format(hashed, '@' || line.n::text), format(hashed, line.oid));
    END LOOP;
    which := coalesce('CASE ' || nullif(concat_ws(' ', 'WHEN (' || whole || ') IS NOT TRUE THEN -1', which), '') || ' ELSE 0 END', '0');
    RETURN format('SELECT ctid AS "herd: at", %s AS "herd: place", * FROM ONLY %s WHERE %s', which, part, coalesce('(' || own || ') IS NOT TRUE', which || ' <> 0'));
END
$body$;
COMMENT ON FUNCTION herd.misplaced_sql(regclass, regclass, text[]) IS 'a query for rows of a shard that belong elsewhere';

CREATE OR REPLACE FUNCTION herd.misplaced(parent regclass, part regclass, bounds text[]) RETURNS TABLE (place integer, count bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET row_security = off SET constraint_exclusion = off SET timezone = 'UTC' SET datestyle = 'ISO, MDY' SET intervalstyle = 'postgres' SET extra_float_digits = 1
SET bytea_output = 'hex' SET array_nulls = on SET xmloption = 'content' SET lc_monetary = 'C' SET standard_conforming_strings = on AS
$body$ BEGIN
    PERFORM herd.ask_rows(ARRAY[parent::text], NULL);
    RETURN QUERY EXECUTE format('SELECT w."herd: place", count(*) FROM (%s) w GROUP BY 1 ORDER BY 1', herd.misplaced_sql(parent, part, bounds));
END
$body$;
COMMENT ON FUNCTION herd.misplaced(regclass, regclass, text[]) IS 'how many rows of a shard belong elsewhere';

-- The columns that rows are told by, quoted; in the order of their names, which is the same on all nodes.
CREATE OR REPLACE FUNCTION herd.told_columns(target regclass) RETURNS text[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
$$ SELECT array_agg(quote_ident(a.attname) ORDER BY a.attname) FROM pg_attribute a WHERE a.attrelid = target AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' $$;
COMMENT ON FUNCTION herd.told_columns(regclass) IS 'the columns that rows of a table are told by';

-- A row as an expression that tells it, by its types' output functions alone: casts may be users'. A call takes a hundred arguments, an array any number.
CREATE OR REPLACE FUNCTION herd.told_row(target regclass) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
$$ SELECT format('''('' || array_to_string(ARRAY[%s], '', '') || '')''', string_agg(format('format(''%%L'', %s)', c.name), ', ')) FROM unnest(herd.told_columns(target)) c (name) $$;
COMMENT ON FUNCTION herd.told_row(regclass) IS 'an expression that tells a row of a table';

-- Such rows that belong to one place, behind one of them: so many, or one more than have so many bytes. Each is told when it is its turn, and not
-- all before they are put in order.
CREATE OR REPLACE FUNCTION herd.misplaced_rows(parent regclass, part regclass, bounds text[], place integer, behind text, most integer, most_bytes bigint) RETURNS TABLE (at text, told text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET row_security = off SET constraint_exclusion = off SET timezone = 'UTC' SET datestyle = 'ISO, MDY' SET intervalstyle = 'postgres' SET extra_float_digits = 1
SET bytea_output = 'hex' SET array_nulls = on SET xmloption = 'content' SET lc_monetary = 'C' SET standard_conforming_strings = on AS
$body$
DECLARE
    one text := format('SELECT %s FROM ONLY %s WHERE ctid = $1', herd.told_row(parent), part);
    row_at tid;
    row_told text;
    bytes bigint := 0;
BEGIN
    FOR row_at IN EXECUTE format('SELECT w."herd: at" FROM (%s) w WHERE w."herd: place" = %s AND w."herd: at" > %L::tid ORDER BY w."herd: at" LIMIT %s',
                                 herd.misplaced_sql(parent, part, bounds), place, behind, most) LOOP
        EXECUTE one INTO STRICT row_told USING row_at;
        at := row_at;
        told := row_told;
        RETURN NEXT;
        bytes := bytes + octet_length(told);
        EXIT WHEN bytes >= most_bytes;
    END LOOP;
END
$body$;
COMMENT ON FUNCTION herd.misplaced_rows(regclass, regclass, text[], integer, text, integer, bigint) IS 'rows of a shard that belong elsewhere';

-- No trigger fires for a row that is only put where it belongs, no foreign key's either: what refers to it comes along, and herd.dangling() tells
-- whether anything is left. PostgreSQL lets superusers do so, and who was given SET on the parameter.
CREATE OR REPLACE FUNCTION herd.without_triggers(begins boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$body$ BEGIN
    PERFORM set_config('session_replication_role', CASE WHEN begins THEN 'replica' ELSE 'origin' END, true);
END
$body$;
COMMENT ON FUNCTION herd.without_triggers(boolean) IS 'keeps triggers from firing for the rest of the transaction, or no longer';

-- Why rows are not put into a table, or a shard of one, or taken out of it; NULL: nothing keeps from it. Triggers and rules that fire whatever session_replication_role
-- is would run as who asks, and so would the default of a column that the catalog does not know. Under locks that keep others from adding any.
CREATE OR REPLACE FUNCTION herd.keeps_from_writing(parent regclass, part regclass, columns text[]) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS
$body$
DECLARE
    fires record;
    late name;
BEGIN
    SELECT f.* INTO fires FROM (
        SELECT t.tgrelid::regclass AS of_table, 'trigger' AS kind, t.tgname AS name FROM pg_trigger t WHERE t.tgrelid IN (parent, part) AND t.tgenabled IN ('A', 'R')
        UNION ALL SELECT w.ev_class::regclass, 'rule', w.rulename FROM pg_rewrite w WHERE w.ev_class IN (parent, part) AND w.ev_enabled IN ('A', 'R')
    ) f ORDER BY f.of_table = parent DESC, f.name LIMIT 1;
    IF FOUND THEN
        RETURN format('%s "%s" of table %s is ENABLE ALWAYS or REPLICA, and its code would run as you. ALTER TABLE %s ENABLE %s %I, or DISABLE it, and repair again',
                      fires.kind, fires.name, fires.of_table, fires.of_table, upper(fires.kind), fires.name);
    END IF;
    IF (SELECT array_agg(a.attname ORDER BY a.attname) FROM pg_attribute a WHERE a.attrelid = parent AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '')
       IS DISTINCT FROM (SELECT array_agg(c.name::name ORDER BY c.name::name) FROM unnest(columns) c (name)) THEN
        RETURN format('table %s has other columns on this node than on home. Make them alike there, and repair again', parent);
    END IF;
    SELECT o.conname INTO late FROM pg_index i JOIN pg_constraint o ON o.conindid = i.indexrelid AND o.conrelid = i.indrelid
     WHERE i.indrelid = part AND part <> parent AND NOT i.indimmediate LIMIT 1;
    IF FOUND THEN
        RETURN format('constraint "%s" of table %s is DEFERRABLE, and PostgreSQL does not say then whether a row is there already. Make it NOT DEFERRABLE for as long as it lasts (drop it, and add it anew), or INSERT the rows through a router and DELETE them on this node',
                      late, parent);
    END IF;
    RETURN NULL;
END
$body$;
COMMENT ON FUNCTION herd.keeps_from_writing(regclass, regclass, text[]) IS 'why rows are not put into a table';

-- For COPY from node to node in this transaction: what a node tells, another one reads as it was. Of those settings alone that clients are not told of.
CREATE OR REPLACE FUNCTION herd.tell_alike() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$body$ BEGIN
    PERFORM set_config('extra_float_digits', '1', true), set_config('array_nulls', 'on', true), set_config('xmloption', 'content', true), set_config('lc_monetary', 'C', true);
END
$body$;
COMMENT ON FUNCTION herd.tell_alike() IS 'has COPY tell values as every node reads them';

-- Puts rows into a shard; of each whether it was put: not where the shard has one of its key.
CREATE OR REPLACE FUNCTION herd.put_rows(part regclass, columns text[], told text[]) RETURNS SETOF boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET row_security = off SET timezone = 'UTC' SET datestyle = 'ISO, MDY' SET intervalstyle = 'postgres' SET extra_float_digits = 1
SET bytea_output = 'hex' SET array_nulls = on SET xmloption = 'content' SET lc_monetary = 'C' SET standard_conforming_strings = on AS
$body$
DECLARE
    one text;
    count bigint;
BEGIN
    PERFORM herd.without_triggers(true);
    FOREACH one IN ARRAY told LOOP
        EXECUTE format('INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE VALUES %s ON CONFLICT DO NOTHING', part, array_to_string(columns, ', '), one);
        GET DIAGNOSTICS count = ROW_COUNT;
        RETURN NEXT count = 1;
    END LOOP;
    PERFORM herd.without_triggers(false);
END
$body$;
COMMENT ON FUNCTION herd.put_rows(regclass, text[], text[]) IS 'puts rows into the shard that they belong to';

-- Takes rows away that are somewhere else now. The table is locked by who calls this, so that they are where they were.
CREATE OR REPLACE FUNCTION herd.drop_rows(part regclass, at text[]) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET row_security = off AS
$body$
DECLARE
    count bigint;
BEGIN
    PERFORM herd.without_triggers(true);
    EXECUTE format('DELETE FROM ONLY %s WHERE ctid = ANY ($1::tid[])', part) USING at;
    GET DIAGNOSTICS count = ROW_COUNT;
    PERFORM herd.without_triggers(false);
    RETURN count;
END
$body$;
COMMENT ON FUNCTION herd.drop_rows(regclass, text[]) IS 'takes rows away from a shard that they do not belong to';

-- The rows on this node that refer to none, by foreign keys of these tables and to them: each by the foreign key and a hash of what it says, and how often
-- it is there, so that those which were there before are known again. Others' tables may be among those that refer.
CREATE OR REPLACE FUNCTION herd.dangling_rows(tables text[], most integer) RETURNS TABLE (foreign_key oid, said bigint, times bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET row_security = off SET timezone = 'UTC' SET datestyle = 'ISO, MDY' SET intervalstyle = 'postgres' SET extra_float_digits = 1
SET bytea_output = 'hex' SET array_nulls = on SET xmloption = 'content' SET lc_monetary = 'C' SET standard_conforming_strings = on AS
$body$
DECLARE
    k record;
    count bigint := 0;
BEGIN
    FOR k IN
        SELECT o.oid, o.conrelid::regclass AS refers, o.confrelid::regclass AS referred,
               string_agg(format('r.%I IS NOT NULL', a.attname), ' AND ') AS is_there, string_agg(format('o.%I OPERATOR(%I.%s) r.%I', b.attname, n.nspname, p.oprname, a.attname), ' AND ') AS meets
          FROM pg_constraint o, LATERAL unnest(o.conkey, o.confkey, o.conpfeqop) u (own, other, operator)
          JOIN pg_attribute a ON a.attnum = u.own JOIN pg_attribute b ON b.attnum = u.other JOIN pg_operator p ON p.oid = u.operator JOIN pg_namespace n ON n.oid = p.oprnamespace
         WHERE o.contype = 'f' AND o.conparentid = 0 AND a.attrelid = o.conrelid AND b.attrelid = o.confrelid
           AND (o.conrelid = ANY (tables::regclass[]) OR o.confrelid = ANY (tables::regclass[]))
         GROUP BY o.oid, o.conrelid, o.confrelid
    LOOP
        PERFORM herd.ask_rows(ARRAY[k.refers::text, k.referred::text], NULL);
        foreign_key := k.oid;
        FOR said, times IN EXECUTE format('SELECT hashtextextended(%s, 0), count(*) FROM %s r WHERE %s AND NOT EXISTS (SELECT FROM %s o WHERE %s) GROUP BY 1',
                                          herd.told_row(k.refers), k.refers, k.is_there, k.referred, k.meets) LOOP
            count := count + 1;
            IF count > most THEN
                RAISE EXCEPTION 'more than % rows of table "%" refer to rows of table "%" that are not there', most, k.refers, k.referred
                    USING ERRCODE = 'foreign_key_violation', HINT = 'Delete those rows, or insert what they refer to, through a router, and repair again.';
            END IF;
            RETURN NEXT;
        END LOOP;
    END LOOP;
END
$body$;
COMMENT ON FUNCTION herd.dangling_rows(text[], integer) IS 'rows that refer to none, by foreign keys of some tables and to them';

-- Alike where two nodes have the same rows of a table.
CREATE OR REPLACE FUNCTION herd.digest(target regclass) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET row_security = off SET timezone = 'UTC' SET datestyle = 'ISO, MDY' SET intervalstyle = 'postgres' SET extra_float_digits = 1
SET bytea_output = 'hex' SET array_nulls = on SET xmloption = 'content' SET lc_monetary = 'C' SET standard_conforming_strings = on AS
$body$
DECLARE
    said text;
BEGIN
    PERFORM herd.ask_rows(ARRAY[target::text], NULL);
    EXECUTE format('SELECT concat_ws('' '', count(*), sum(hashtextextended(%s, 0)::numeric)) FROM ONLY %s', herd.told_row(target), target) INTO said;
    RETURN said;
END
$body$;
COMMENT ON FUNCTION herd.digest(regclass) IS 'a sum of the rows of a table';

-- The value that a column's sequence must not be behind: of a sequence that falls the least.
CREATE OR REPLACE FUNCTION herd.furthest(target regclass, called text, falls boolean) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET row_security = off AS
$body$
DECLARE
    said bigint;
BEGIN
    PERFORM herd.ask_rows(ARRAY[target::text], NULL);
    EXECUTE format('SELECT %s(%I) FROM %s', CASE WHEN falls THEN 'min' ELSE 'max' END, called, target) INTO said;
    RETURN said;
END
$body$;
COMMENT ON FUNCTION herd.furthest(regclass, text, boolean) IS 'the furthest value of a column';

-- The value that a sequence has come to, if that is behind the one given. It goes by its number alone: who owns it could put something else, which
-- runs code, in the place of its name.
CREATE OR REPLACE FUNCTION herd.behind(sequence regclass, reached bigint) RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
$body$
SELECT v.last FROM pg_sequence s, LATERAL (SELECT coalesce(pg_sequence_last_value(s.seqrelid), s.seqstart - s.seqincrement)) v (last)
 WHERE s.seqrelid = sequence AND CASE WHEN s.seqincrement < 0 THEN reached < v.last ELSE reached > v.last END
$body$;
COMMENT ON FUNCTION herd.behind(regclass, bigint) IS 'the value of a sequence that is behind another one';

-- Has it come to that; the value it had, if it was behind. ALTER SEQUENCE, which changes nothing, has the lock that keeps others from taking values;
-- one is taken to see, as one that was restarted has not told its value yet.
CREATE OR REPLACE FUNCTION herd.advance(sequence regclass, reached bigint) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$body$
DECLARE
    step bigint := (SELECT s.seqincrement FROM pg_sequence s WHERE s.seqrelid = sequence);
    taken bigint;
BEGIN
    EXECUTE format('ALTER SEQUENCE %s INCREMENT BY %s', sequence, step);
    taken := nextval(sequence);
    IF step < 0 AND taken < reached OR step > 0 AND taken > reached THEN
        RETURN NULL;
    END IF;
    PERFORM setval(sequence, reached);
    RETURN taken - step;
END
$body$;
COMMENT ON FUNCTION herd.advance(regclass, bigint) IS 'brings a sequence to a value that it is behind of';

-- What jobs have made on this node, by names that nothing else has, and the job each is of; which of them still runs home knows. The router's own role asks.
CREATE OR REPLACE FUNCTION herd.leftovers() RETURNS TABLE (kind text, name text, job text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
$$
SELECT 'table', c.relname, 'herd_move_' || substring(c.relname FROM '^herd_moving_([0-9a-f]{16})_')
  FROM pg_class c WHERE c.relnamespace = 'herd_shards'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relname ~ '^herd_moving_[0-9a-f]{16}_'
UNION ALL
SELECT 'publication', p.pubname, p.pubname FROM pg_publication p WHERE p.pubname ~ '^herd_move_[0-9a-f]{16}$'
UNION ALL
SELECT 'slot', s.slot_name, s.slot_name FROM pg_replication_slots s WHERE s.database = current_database() AND NOT s.active AND s.slot_name ~ '^herd_move_[0-9a-f]{16}$'
$$;
COMMENT ON FUNCTION herd.leftovers() IS 'what jobs have made on this node';

CREATE OR REPLACE FUNCTION herd.drop_leftover(kind text, name text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' AS
$body$ BEGIN
    CASE kind
        WHEN 'table' THEN EXECUTE format('DROP TABLE IF EXISTS herd_shards.%I', name);
        WHEN 'publication' THEN EXECUTE format('DROP PUBLICATION IF EXISTS %I', name);
        WHEN 'slot' THEN PERFORM pg_drop_replication_slot(s.slot_name) FROM pg_replication_slots s WHERE s.slot_name = name;
    END CASE;
END
$body$;
COMMENT ON FUNCTION herd.drop_leftover(text, text) IS 'takes away what a job has left on this node';

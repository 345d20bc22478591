-- Loading the catalog must wait for nobody. pg_get_viewdef() and its like lock the relations that a definition names, and anybody
-- may lock his own for as long as he likes. So what code uses is read out of PostgreSQL's own trees, which are rows like
-- others; and where the text itself is needed it is not asked for while somebody holds, or waits for, a lock that
-- would be in the way. All of this runs with its caller's rights; whatever it reads anybody may read.

-- What a stored tree (of a CHECK, a policy, a rule, the body of a function …) reads, writes and calls, as SQL that does the same:
-- names, and nothing between them. Custom parameters that it asks for are named, too. So are users' types, whatever node has a value
-- of one (outfuncs.c: fields end in "type", "typid", "typeid" or "typeId", lists in "types"), but for enums, which run nothing. The numbers
-- are those of lock modes (storage/lockdefs.h): the target of a write is locked with RowExclusiveLock. Constants are bytes: texts have a
-- length of four in front, names (64 bytes) zeros behind. What is longer than 999 bytes, or not in ASCII, is taken for no parameter's name.
CREATE OR REPLACE FUNCTION herd.code_in(tree text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
$body$
SELECT string_agg(DISTINCT used.sql, '; ') FROM (
    SELECT (SELECT format('SELECT %I.%I()', n.nspname, p.proname)
              FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE p.oid = m[1]::oid)
      FROM regexp_matches(tree, ':(?:funcid|opfuncid|aggfnoid|winfnoid) ([0-9]+)', 'g') m
    UNION ALL
    SELECT (SELECT format(CASE WHEN m[2] = '3' THEN 'DELETE FROM %I.%I' ELSE 'SELECT FROM %I.%I' END, n.nspname, c.relname)
              FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = m[1]::oid)
      FROM regexp_matches(tree, ':relid ([0-9]+)[^{}]{0,60}? :rellockmode ([0-9])', 'g') m
    UNION ALL
    SELECT 'SELECT NULL::' || format_type(t.oid, NULL) FROM pg_type t LEFT JOIN pg_type e ON e.oid = t.typelem AND e.typarray = t.oid
     WHERE t.oid >= 16384 AND 'e' NOT IN (t.typtype, coalesce(e.typtype, ' ')) AND t.oid IN (
           SELECT m[1]::oid FROM regexp_matches(tree, ':[A-Za-z_]*typ(?:e|id|eid|eId) ([0-9]{5,10}) ', 'g') m
           UNION SELECT l.oid::oid FROM regexp_matches(tree, ':[A-Za-z_]*types \(o ([0-9 ]+)\)', 'g') m, regexp_split_to_table(m[1], ' +') l (oid)
            WHERE l.oid <> '')
    UNION ALL
    SELECT 'SELECT CURRENT_TIMESTAMP, CURRENT_USER' WHERE tree LIKE '%{SQLVALUEFUNCTION %'
    UNION ALL
    SELECT 'SELECT pg_catalog.nextval()' WHERE tree LIKE '%{NEXTVALUEEXPR %'
    UNION ALL
    SELECT format('SELECT current_setting(%L)', said.name)
      FROM regexp_matches(CASE WHEN tree ~ ':funcid (2077|3294) ' THEN tree END,
               ':consttype (19|25|1043) [^{}]*:constvalue [0-9]{1,3} \[ ((?:-?[0-9]+ )+)\]', 'g') m,
           LATERAL (SELECT string_agg(CASE WHEN b.code BETWEEN 1 AND 127 THEN chr(b.code) END, '' ORDER BY b.place)
                      FROM (SELECT c.code::integer, c.place, CASE m[1] WHEN '19' THEN 0 ELSE 4 END,
                                   CASE m[1] WHEN '19' THEN min(c.place) FILTER (WHERE c.code = '0') OVER () END
                              FROM regexp_split_to_table(btrim(m[2]), ' ') WITH ORDINALITY AS c (code, place)) b (code, place, head, tail)
                     WHERE b.place > b.head AND b.place < coalesce(b.tail, 1000)
                    HAVING bool_and(b.code BETWEEN 1 AND 127)) said (name)
     WHERE said.name ~ '^[A-Za-z_][A-Za-z0-9_$]*[.]') used (sql)
$body$;
COMMENT ON FUNCTION herd.code_in(text) IS 'what a stored expression or query reads, writes and calls, found without a lock';

-- Printing the tree needs a composite type's columns, which are read under a lock of the type: row constructors, their fields, and
-- constants of types of users' own.
CREATE OR REPLACE FUNCTION herd.names_rows(tree text) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS
$body$ SELECT tree ~ '\{(ROW|FIELDSELECT|FIELDSTORE|CONVERTROWTYPE)|:consttype [0-9]{5}' $body$;

-- Which routines' code is read: each load reads all of it, and everybody waits for loads. What is longer than 256 KiB, or comes
-- behind 4 MiB of one owner's, is taken to do anything. A superuser's is read whatever its length. Trees are long for what they say, and a
-- text's length is known without reading it.
CREATE OR REPLACE FUNCTION herd.code_read() RETURNS TABLE (routine oid, is_read boolean)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
$body$
SELECT p.oid, r.rolsuper OR l.length <= 262144
           AND sum(l.length) FILTER (WHERE l.length <= 262144) OVER (PARTITION BY p.proowner ORDER BY p.oid) <= 4194304
  FROM pg_proc p JOIN pg_roles r ON r.oid = p.proowner,
       LATERAL (SELECT octet_length(p.prosrc) + (coalesce(octet_length(p.prosqlbody::text), 0)
                         + coalesce(octet_length(p.proargdefaults::text), 0)) / 8) l (length)
 WHERE p.oid >= 16384
$body$;
COMMENT ON FUNCTION herd.code_read() IS 'routines, and whether their code is read or taken to do anything, as it is too long';

-- Objects whose definition can't be printed now without a wait: they name, if only by a type, a relation on which another session
-- has or wants ACCESS EXCLUSIVE. A function is in the way of what names it where its row types are, not for what its body does.
CREATE OR REPLACE FUNCTION herd.behind_locks() RETURNS TABLE (class oid, object oid)
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS
$body$
WITH RECURSIVE behind (class, object, by_type) AS (
    SELECT DISTINCT 'pg_class'::regclass::oid, l.relation, false FROM pg_locks l
     WHERE l.locktype = 'relation' AND l.mode = 'AccessExclusiveLock' AND l.pid IS DISTINCT FROM pg_backend_pid()
       AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
    UNION
    SELECT user_of.class, user_of.object, user_of.by_type FROM behind b, LATERAL (
        SELECT d.classid, d.objid, b.by_type OR b.class = 'pg_type'::regclass FROM pg_depend d
         WHERE d.refclassid = b.class AND d.refobjid = b.object AND (d.deptype IN ('n', 'i') OR d.classid = 'pg_rewrite'::regclass)
           AND (b.class <> 'pg_proc'::regclass OR b.by_type)
        UNION ALL
        SELECT 'pg_class'::regclass, r.ev_class, false FROM pg_rewrite r
         WHERE b.class = 'pg_rewrite'::regclass AND r.oid = b.object AND r.rulename = '_RETURN') user_of (class, object, by_type))
SELECT DISTINCT b.class, b.object FROM behind b
$body$;
COMMENT ON FUNCTION herd.behind_locks() IS 'what uses a relation that another session has locked, or is about to';

-- The texts that have to be printed: of views ('v') and rules ('u'), and, where row types stand in them, of routines with
-- defaults ('f') and of columns' defaults ('d'); others can be had without a lock. What is behind a lock is left out. Who takes a lock in the
-- middle of this is given up on after a millisecond, and then it is looked who else has.
CREATE OR REPLACE FUNCTION herd.definitions() RETURNS TABLE (kind "char", object oid, definition text)
LANGUAGE plpgsql SET lock_timeout = '10s' SET search_path = pg_catalog, pg_temp AS
$body$
#variable_conflict use_column
DECLARE
    item record;
    last_class oid := 0;
    last_object oid := 0;
    met_lock boolean;
BEGIN
    LOOP
        met_lock := false;
        FOR item IN
            WITH behind AS MATERIALIZED (SELECT b.class, b.object FROM herd.behind_locks() b)
            SELECT p.class, p.object, p.tree FROM (
                SELECT 'pg_class'::regclass::oid AS class, c.oid AS object, NULL::pg_node_tree AS tree
                  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                 WHERE c.relkind IN ('v', 'm') AND c.relpersistence <> 't'
                   AND n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'herd', 'herd_shards')
                UNION ALL
                SELECT 'pg_rewrite'::regclass, r.oid, NULL FROM pg_rewrite r WHERE r.oid >= 16384 AND r.rulename <> '_RETURN'
                UNION ALL
                SELECT 'pg_proc'::regclass, f.oid, NULL FROM pg_proc f JOIN herd.code_read() d ON d.routine = f.oid
                 WHERE d.is_read AND f.proargdefaults IS NOT NULL AND herd.names_rows(f.proargdefaults::text)
                UNION ALL
                SELECT 'pg_attrdef'::regclass, d.oid, d.adbin FROM pg_attrdef d
                 -- Of objects of users' own all numbers have five digits: that is found sooner, and most defaults have none.
                 WHERE d.oid >= 16384 AND d.adbin::text ~ '[0-9]{5}' AND herd.names_rows(d.adbin::text)) p
             WHERE (p.class, p.object) > (last_class, last_object)
               AND NOT EXISTS (SELECT FROM behind b WHERE b.class = p.class AND b.object = p.object)
             ORDER BY p.class, p.object
        LOOP
            last_class := item.class;
            last_object := item.object;
            object := item.object;
            -- Only here: a catalog itself may be locked for a moment (VACUUM gives its last pages back), and that passes.
            BEGIN
                PERFORM set_config('lock_timeout', '1ms', true);
                CASE item.class
                    WHEN 'pg_class'::regclass THEN kind := 'v'; definition := pg_get_viewdef(item.object);
                    WHEN 'pg_rewrite'::regclass THEN kind := 'u'; definition := pg_get_ruledef(item.object);
                    WHEN 'pg_proc'::regclass THEN kind := 'f'; definition := pg_get_functiondef(item.object);
                    ELSE kind := 'd'; definition := pg_get_expr(item.tree, 0);
                END CASE;
                PERFORM set_config('lock_timeout', '10s', true);
            -- The other one: what was dropped in this moment.
            EXCEPTION WHEN lock_not_available THEN met_lock := true; definition := NULL;
                WHEN internal_error THEN definition := NULL;
            END;
            EXIT WHEN met_lock;
            IF definition IS NOT NULL THEN
                RETURN NEXT;
            END IF;
        END LOOP;
        EXIT WHEN NOT met_lock;
    END LOOP;
END
$body$;
COMMENT ON FUNCTION herd.definitions() IS 'texts of views, rules, and of defaults with row types, that can be had without waiting for a lock';

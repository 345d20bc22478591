//! What every node has besides tables: roles, schemas, extensions, types, functions, casts, operators and the like (`operators.rs`), who may use them, and default privileges. Queries for home that give the
//! statements which make the same on a new node, in an order that works. It does not run them, and does not know tables.
//!
//! Names come out qualified if the queries run with `search_path = pg_catalog`. Objects that belong to an extension come
//! with it.

/// Objects that tables may need.
pub const BEFORE_TABLES: &str = r#"
WITH RECURSIVE own AS (
    SELECT n.oid, n.nspname FROM pg_namespace n
     WHERE n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'herd', 'herd_shards')
       AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_namespace'::regclass AND d.objid = n.oid AND d.deptype = 'e')
), granted (roleid, member, grantor, depth) AS (
    SELECT roleid, member, grantor, 0::bigint FROM pg_auth_members m
     WHERE NOT EXISTS (SELECT FROM pg_auth_members b WHERE b.roleid = m.roleid AND b.member = m.grantor AND b.admin_option)
    UNION
    SELECT m.roleid, m.member, m.grantor, g.depth + 1
      FROM granted g JOIN pg_auth_members b USING (roleid, member, grantor) JOIN pg_auth_members m ON m.roleid = b.roleid AND m.grantor = b.member
     WHERE b.admin_option AND g.depth < 100
), made (stage, place, sql) AS (
    SELECT 1, r.oid::bigint, format('DO %L', format('BEGIN IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = %L) THEN CREATE ROLE %I WITH %s; END IF; END',
        r.rolname, r.rolname, concat_ws(' ',
            CASE WHEN rolsuper THEN 'SUPERUSER' END, CASE WHEN rolcreatedb THEN 'CREATEDB' END,
            CASE WHEN rolcreaterole THEN 'CREATEROLE' END, CASE WHEN rolinherit THEN 'INHERIT' ELSE 'NOINHERIT' END,
            CASE WHEN rolcanlogin THEN 'LOGIN' END, CASE WHEN rolreplication THEN 'REPLICATION' END,
            CASE WHEN rolbypassrls THEN 'BYPASSRLS' END, 'CONNECTION LIMIT ' || rolconnlimit,
            'PASSWORD ' || quote_literal(rolpassword), 'VALID UNTIL ' || quote_literal(rolvaliduntil::text))))
      FROM pg_authid r WHERE r.rolname !~ '^pg_' AND r.oid >= 16384
    UNION ALL
    -- A grant after the one that its grantor could make it by. Where memberships know no grantors, all of them are one.
    SELECT 2, m.depth * 4294967296 + m.place, format('DO %L', format('BEGIN IF current_setting(''server_version_num'')::int >= 160000 THEN EXECUTE %L; '
            'ELSIF NOT %L THEN NULL; ELSIF %L THEN EXECUTE %L; ELSE RAISE feature_not_supported USING MESSAGE = %L, HINT = %L; END IF; END',
            format('GRANT %I TO %I', g.rolname, r.rolname) || format(CASE WHEN m.options THEN ' WITH ADMIN %s, INHERIT %s, SET %s'
                WHEN m.own_admin THEN ' WITH ADMIN OPTION' ELSE '' END, m.own_admin::text, m.own_inherit::text, m.own_set::text)
                || CASE WHEN m.options AND m.grantor <> 10 THEN format(' GRANTED BY %I', pg_get_userbyid(m.grantor)) ELSE '' END, m.first,
            NOT m.options OR (m.set AND m.inherit = r.rolinherit),
            format('GRANT %I TO %I%s', g.rolname, r.rolname, CASE WHEN m.admin THEN ' WITH ADMIN OPTION' ELSE '' END),
            format('the new node''s PostgreSQL has no INHERIT and SET options of memberships, and "%s" is a member of "%s" with such', r.rolname, g.rolname),
            'Use PostgreSQL 16 or later on the new node.'))
      FROM (SELECT a.roleid, a.member, a.grantor, a.member::bigint AS place, d.depth, o.j ? 'inherit_option' AS options, a.admin_option AS own_admin,
                   (o.j ->> 'inherit_option')::boolean AS own_inherit, (o.j ->> 'set_option')::boolean AS own_set,
                   row_number() OVER (PARTITION BY a.roleid, a.member ORDER BY d.depth, a.grantor) = 1 AS first,
                   bool_or(a.admin_option) OVER same AS admin, bool_or((o.j ->> 'inherit_option')::boolean) OVER same AS inherit,
                   bool_or((o.j ->> 'set_option')::boolean) OVER same AS set
              FROM pg_auth_members a CROSS JOIN LATERAL (SELECT to_jsonb(a) AS j) o
              JOIN (SELECT roleid, member, grantor, min(depth) AS depth FROM granted GROUP BY 1, 2, 3) d USING (roleid, member, grantor)
             WHERE a.member >= 16384 WINDOW same AS (PARTITION BY a.roleid, a.member)) m
      JOIN pg_roles g ON g.oid = m.roleid JOIN pg_roles r ON r.oid = m.member
    UNION ALL
    SELECT 3, n.oid::bigint, format(CASE n.nspname WHEN 'public' THEN 'ALTER SCHEMA %I OWNER TO %I' ELSE 'CREATE SCHEMA IF NOT EXISTS %I AUTHORIZATION %I' END, n.nspname, r.rolname)
      FROM pg_namespace n JOIN own USING (oid) JOIN pg_roles r ON r.oid = n.nspowner
    UNION ALL
    SELECT 3, n.oid::bigint, format('REVOKE ALL ON SCHEMA %I FROM PUBLIC', n.nspname) FROM pg_namespace n JOIN own USING (oid) WHERE n.nspacl IS NOT NULL
    UNION ALL
    SELECT 4, n.oid::bigint, format('GRANT %s ON SCHEMA %I TO %s%s', a.privilege_type, n.nspname,
        CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(r.rolname) END, CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
      FROM pg_namespace n JOIN own USING (oid) CROSS JOIN aclexplode(n.nspacl) a LEFT JOIN pg_roles r ON r.oid = a.grantee
     WHERE a.grantee <> n.nspowner
    UNION ALL
    SELECT 5, e.oid::bigint, format('CREATE EXTENSION IF NOT EXISTS %I WITH SCHEMA %I', e.extname, n.nspname)
      FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname <> 'plpgsql'
    UNION ALL
    SELECT 6, t.oid::bigint, CASE t.typtype
        WHEN 'e' THEN format('CREATE TYPE %I.%I AS ENUM (%s)', own.nspname, t.typname,
            (SELECT string_agg(quote_literal(enumlabel), ', ' ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = t.oid))
        WHEN 'd' THEN concat_ws(' ', format('CREATE DOMAIN %I.%I AS %s', own.nspname, t.typname, format_type(t.typbasetype, t.typtypmod)),
            (SELECT format('COLLATE %I.%I', n.nspname, c.collname) FROM pg_collation c JOIN pg_namespace n ON n.oid = c.collnamespace
              WHERE c.oid = t.typcollation AND t.typcollation <> (SELECT b.typcollation FROM pg_type b WHERE b.oid = t.typbasetype)),
            'DEFAULT ' || pg_get_expr(t.typdefaultbin, 0), CASE WHEN t.typnotnull THEN 'NOT NULL' END,
            (SELECT string_agg(format('CONSTRAINT %I %s', conname, pg_get_constraintdef(oid)), ' ') FROM pg_constraint
              WHERE contypid = t.oid AND contype = 'c'))
        WHEN 'c' THEN format('CREATE TYPE %I.%I AS (%s)', own.nspname, t.typname,
            (SELECT string_agg(format('%I %s', a.attname, format_type(a.atttypid, a.atttypmod)) || coalesce(' COLLATE ' || quote_ident(n.nspname) || '.' || quote_ident(c.collname), ''), ', ' ORDER BY a.attnum)
               FROM pg_attribute a JOIN pg_type b ON b.oid = a.atttypid LEFT JOIN pg_collation c ON c.oid = a.attcollation AND a.attcollation <> b.typcollation
               LEFT JOIN pg_namespace n ON n.oid = c.collnamespace WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped))
        ELSE (SELECT CASE WHEN g.rngcanonical <> 0 THEN format('DO %L', format('BEGIN IF to_regtype(%L) IS NULL THEN RAISE feature_not_supported USING MESSAGE = %L, HINT = %L; END IF; END',
                    t.oid::regtype, format('range type %s, which has a canonical function, is not on the new node', t.oid::regtype), 'Create it there, then add the node.'))
                ELSE format('CREATE TYPE %I.%I AS RANGE (%s)', own.nspname, t.typname, concat_ws(', ', 'SUBTYPE = ' || format_type(g.rngsubtype, NULL),
                format('SUBTYPE_OPCLASS = %I.%I', ln.nspname, l.opcname), 'COLLATION = ' || quote_ident(cn.nspname) || '.' || quote_ident(c.collname),
                CASE WHEN g.rngsubdiff <> 0 THEN 'SUBTYPE_DIFF = ' || g.rngsubdiff::regproc END, format('MULTIRANGE_TYPE_NAME = %I.%I', mn.nspname, m.typname))) END
                FROM pg_range g JOIN pg_opclass l ON l.oid = g.rngsubopc JOIN pg_namespace ln ON ln.oid = l.opcnamespace
                JOIN pg_type m ON m.oid = g.rngmultitypid JOIN pg_namespace mn ON mn.oid = m.typnamespace
                LEFT JOIN pg_collation c ON c.oid = g.rngcollation LEFT JOIN pg_namespace cn ON cn.oid = c.collnamespace WHERE g.rngtypid = t.oid)
        END || format('; ALTER TYPE %I.%I OWNER TO %I', own.nspname, t.typname, r.rolname)
            || CASE WHEN t.typacl IS NULL THEN '' ELSE format('; REVOKE ALL ON TYPE %I.%I FROM PUBLIC', own.nspname, t.typname)
            || coalesce((SELECT string_agg(format('; GRANT USAGE ON TYPE %I.%I TO %s%s', own.nspname, t.typname,
                    CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(g.rolname) END, CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END), '')
                 FROM aclexplode(t.typacl) a LEFT JOIN pg_roles g ON g.oid = a.grantee), '') END
      FROM pg_type t JOIN own ON own.oid = t.typnamespace JOIN pg_roles r ON r.oid = t.typowner
     WHERE (t.typtype IN ('e', 'd', 'r') OR (t.typtype = 'c' AND (SELECT relkind = 'c' FROM pg_class WHERE oid = t.typrelid)))
       AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_type'::regclass AND d.objid = t.oid AND d.deptype = 'e')
    UNION ALL
    SELECT 6, f.place, f.sql FROM functions f WHERE NOT f.late
    UNION ALL
    SELECT 7, s.setrole::bigint, format('DO %L', format('BEGIN EXECUTE format(%L, current_database()); '
            'EXCEPTION WHEN undefined_object OR invalid_parameter_value OR cant_change_runtime_param THEN RAISE WARNING ''%%'', SQLERRM; END',
            format('ALTER ROLE %s%s SET %s TO %s', replace(CASE s.setrole WHEN 0 THEN 'ALL' ELSE quote_ident(r.rolname) END, '%', '%%'),
                CASE s.setdatabase WHEN 0 THEN '' ELSE ' IN DATABASE %I' END, replace(quote_ident(v.name), '%', '%%'),
                replace(CASE WHEN v.name IN ('local_preload_libraries', 'search_path', 'session_preload_libraries', 'temp_tablespaces')
                    -- Lists of names, as they are written: each is told apart, or they would be one (variable_is_guc_list_quote in dumputils.c).
                    THEN coalesce((SELECT string_agg(quote_literal(CASE WHEN starts_with(i[1], '"') THEN replace(substr(i[1], 2, length(i[1]) - 2), '""', '"') ELSE lower(i[1]) END), ', ' ORDER BY n)
                                     FROM regexp_matches(v.value, '("(?:[^"]|"")*"|[^,[:space:]"]+)', 'g') WITH ORDINALITY AS l (i, n)), '''''')
                    ELSE quote_literal(v.value) END, '%', '%%'))))
      FROM pg_db_role_setting s LEFT JOIN pg_roles r ON r.oid = s.setrole,
           LATERAL (SELECT split_part(c, '=', 1) AS name, substr(c, strpos(c, '=') + 1) AS value FROM unnest(s.setconfig) c) v
     WHERE (s.setrole >= 16384 OR (s.setrole = 0 AND s.setdatabase = 0))
       AND s.setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
    UNION ALL
    -- Functions of PostgreSQL's own that not everybody may call as they come.
    SELECT 8, p.oid::bigint, format('DO %L', format('BEGIN IF to_regprocedure(%L) IS NOT NULL THEN %s; END IF; END', p.oid::regprocedure::text,
            format('REVOKE ALL ON ROUTINE %s FROM PUBLIC', p.oid::regprocedure)
            || coalesce((SELECT string_agg(format('; GRANT EXECUTE ON ROUTINE %s TO %s%s', p.oid::regprocedure,
                    CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(g.rolname) END, CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END), '')
                 FROM aclexplode(p.proacl) a LEFT JOIN pg_roles g ON g.oid = a.grantee WHERE a.grantee <> p.proowner), '')))
      FROM pg_proc p LEFT JOIN pg_init_privs i ON i.classoid = 'pg_proc'::regclass AND i.objoid = p.oid AND i.objsubid = 0
     WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.proacl IS NOT NULL AND p.proacl::text[] IS DISTINCT FROM i.initprivs::text[]
    UNION ALL
    SELECT 9, 0, format('DO %L', format('BEGIN EXECUTE format(''REVOKE ALL ON DATABASE %%I FROM PUBLIC'', current_database()); %s END',
            (SELECT string_agg(format('EXECUTE format(%L, current_database()); ', format('GRANT %s ON DATABASE %%I TO %s%s', a.privilege_type,
                    replace(CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(g.rolname) END, '%', '%%'), CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)), '')
               FROM aclexplode(d.datacl) a LEFT JOIN pg_roles g ON g.oid = a.grantee WHERE a.grantee <> d.datdba)))
      FROM pg_database d WHERE d.datname = current_database() AND d.datacl IS NOT NULL
)
SELECT sql FROM made ORDER BY stage, place, sql
"#;

/// Functions that name tables in their signatures or parsed bodies, and casts by them. What is granted of objects to come, last:
/// what is there has its own.
pub const AFTER_TABLES: &str = r#"WITH RECURSIVE made AS (SELECT place, sql FROM functions WHERE late
    UNION ALL
    SELECT 9223372036854775807, concat_ws('; ',
        CASE WHEN d.defaclnamespace = 0 THEN format('ALTER DEFAULT PRIVILEGES FOR ROLE %1$I REVOKE ALL ON %2$s FROM PUBLIC, %1$I', r.rolname, k.kind) END,
        (SELECT string_agg(format('ALTER DEFAULT PRIVILEGES FOR ROLE %I%s GRANT %s ON %s TO %s%s', r.rolname, ' IN SCHEMA ' || quote_ident(n.nspname),
                    a.privilege_type, k.kind, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(g.rolname) END,
                    CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END), '; ')
           FROM aclexplode(d.defaclacl) a LEFT JOIN pg_roles g ON g.oid = a.grantee))
      FROM pg_default_acl d JOIN pg_roles r ON r.oid = d.defaclrole LEFT JOIN pg_namespace n ON n.oid = d.defaclnamespace
      JOIN (VALUES ('r', 'TABLES'), ('S', 'SEQUENCES'), ('f', 'ROUTINES'), ('T', 'TYPES'), ('n', 'SCHEMAS'), ('L', 'LARGE OBJECTS')) k (letter, kind)
        ON k.letter = d.defaclobjtype::text)
SELECT sql FROM made ORDER BY place, sql
"#;

/// The functions of both, casts, and what `operators.rs` has, as the first terms of their WITH.
const FUNCTIONS: &str = r#"spaces AS (
    SELECT n.oid, n.nspname FROM pg_namespace n WHERE n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'herd', 'herd_shards')
), routines AS (
    SELECT p.oid, p.oid::bigint AS place,
        EXISTS (SELECT FROM pg_depend d LEFT JOIN pg_type t ON d.refclassid = 'pg_type'::regclass AND t.oid = d.refobjid
                  LEFT JOIN pg_type e ON e.oid = t.typelem LEFT JOIN pg_class c ON c.oid = coalesce(nullif(t.typrelid, 0), nullif(e.typrelid, 0))
                 WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid
                   AND (d.refclassid = 'pg_class'::regclass OR c.relkind IN ('r', 'p', 'v', 'm', 'f'))) AS late,
        CASE p.prokind
            WHEN 'a' THEN format('DO %L', format('BEGIN IF to_regprocedure(%L) IS NULL THEN RAISE feature_not_supported USING MESSAGE = %L, HINT = %L; END IF; END',
                p.oid::regprocedure::text, format('aggregate %s is not on the new node', p.oid::regprocedure), 'Create it there, then add the node.'))
            ELSE pg_get_functiondef(p.oid) || format(E';\nALTER ROUTINE %s OWNER TO %I', p.oid::regprocedure, r.rolname)
                || CASE WHEN p.proacl IS NULL THEN '' ELSE format('; REVOKE ALL ON ROUTINE %s FROM PUBLIC', p.oid::regprocedure)
                || coalesce((SELECT string_agg(format('; GRANT EXECUTE ON ROUTINE %s TO %s', p.oid::regprocedure,
                        CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(g.rolname) END || CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END), '')
                     FROM aclexplode(p.proacl) a LEFT JOIN pg_roles g ON g.oid = a.grantee), '') END
        END AS sql
      FROM pg_proc p JOIN spaces n ON n.oid = p.pronamespace JOIN pg_roles r ON r.oid = p.proowner
     WHERE NOT (n.nspname = 'public' AND p.proname IN ('create_distributed_table', 'create_reference_table', 'create_distributed_function', 'undistribute_table',
                'citus_add_node', 'citus_remove_node'))
       AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype IN ('e', 'i'))
), $TERMSfunctions AS (
    SELECT place, late, sql FROM routines
    UNION ALL SELECT * FROM collations UNION ALL SELECT * FROM operators UNION ALL SELECT * FROM compared UNION ALL SELECT * FROM searched UNION ALL SELECT * FROM unmade
    UNION ALL
    SELECT c.oid::bigint, coalesce(f.late, false) OR EXISTS (SELECT FROM pg_type t JOIN pg_class r ON r.oid = t.typrelid
             WHERE t.oid IN (c.castsource, c.casttarget) AND r.relkind IN ('r', 'p', 'v', 'm', 'f')),
        format('DO %L', format('BEGIN IF NOT EXISTS (SELECT FROM pg_catalog.pg_cast c WHERE c.castsource = %L::regtype AND c.casttarget = %L::regtype) '
            'THEN CREATE CAST (%s AS %s) %s%s; END IF; END', n.source, n.target, n.source, n.target,
            CASE c.castmethod WHEN 'f' THEN 'WITH FUNCTION ' || c.castfunc::regprocedure WHEN 'i' THEN 'WITH INOUT' ELSE 'WITHOUT FUNCTION' END,
            CASE c.castcontext WHEN 'i' THEN ' AS IMPLICIT' WHEN 'a' THEN ' AS ASSIGNMENT' ELSE '' END))
      FROM pg_cast c LEFT JOIN routines f ON f.oid = c.castfunc, LATERAL (SELECT format_type(c.castsource, NULL), format_type(c.casttarget, NULL)) n (source, target)
     WHERE c.oid >= 16384 AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_cast'::regclass AND d.objid = c.oid AND d.deptype IN ('e', 'i'))
), "#;

/// The query, complete.
pub fn query(objects: &str) -> String {
    let functions = FUNCTIONS.replacen("$TERMS", super::operators::TERMS, 1);
    objects.replacen("WITH RECURSIVE ", &format!("WITH RECURSIVE {functions}"), 1)
}

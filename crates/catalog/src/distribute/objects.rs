//! What every node has besides tables: roles, schemas, extensions, types, functions. Queries for home that give the
//! statements which make the same on a new node, in an order that works. It does not run them, and does not know tables.
//!
//! Names come out qualified if the queries run with `search_path = pg_catalog`. Objects that belong to an extension come
//! with it.

/// Objects that tables may need.
pub const BEFORE_TABLES: &str = r#"
WITH own AS (
    SELECT n.oid, n.nspname FROM pg_namespace n
     WHERE n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'herd', 'herd_shards')
       AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_namespace'::regclass AND d.objid = n.oid AND d.deptype = 'e')
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
    SELECT 2, r.oid::bigint, format('DO %L', format('BEGIN IF current_setting(''server_version_num'')::int >= 160000 THEN EXECUTE %L; '
            'ELSIF %L THEN EXECUTE %L; ELSE RAISE feature_not_supported USING MESSAGE = %L, HINT = %L; END IF; END',
            format('GRANT %I TO %I', g.rolname, r.rolname) || format(CASE WHEN m.options THEN ' WITH ADMIN %s, INHERIT %s, SET %s'
                WHEN m.admin THEN ' WITH ADMIN OPTION' ELSE '' END, m.admin::text, m.inherit::text, m.set::text),
            NOT m.options OR (m.set AND m.inherit = r.rolinherit),
            format('GRANT %I TO %I%s', g.rolname, r.rolname, CASE WHEN m.admin THEN ' WITH ADMIN OPTION' ELSE '' END),
            format('the new node''s PostgreSQL has no INHERIT and SET options of memberships, and "%s" is a member of "%s" with such', r.rolname, g.rolname),
            'Use PostgreSQL 16 or later on the new node.'))
      FROM (SELECT a.roleid, a.member, bool_or(a.admin_option) AS admin, bool_or(o.j ? 'inherit_option') AS options,
                   bool_or((o.j ->> 'inherit_option')::boolean) AS inherit, bool_or((o.j ->> 'set_option')::boolean) AS set
              FROM pg_auth_members a, LATERAL (SELECT to_jsonb(a) AS j) o WHERE a.member >= 16384 GROUP BY 1, 2) m
      JOIN pg_roles g ON g.oid = m.roleid JOIN pg_roles r ON r.oid = m.member
    UNION ALL
    SELECT 3, n.oid::bigint, format('CREATE SCHEMA IF NOT EXISTS %I AUTHORIZATION %I', n.nspname, r.rolname)
      FROM pg_namespace n JOIN own USING (oid) JOIN pg_roles r ON r.oid = n.nspowner WHERE n.nspname <> 'public'
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
            'DEFAULT ' || t.typdefault, CASE WHEN t.typnotnull THEN 'NOT NULL' END,
            (SELECT string_agg(format('CONSTRAINT %I %s', conname, pg_get_constraintdef(oid)), ' ') FROM pg_constraint
              WHERE contypid = t.oid AND contype = 'c'))
        WHEN 'c' THEN format('CREATE TYPE %I.%I AS (%s)', own.nspname, t.typname,
            (SELECT string_agg(format('%I %s', attname, format_type(atttypid, atttypmod)), ', ' ORDER BY attnum) FROM pg_attribute
              WHERE attrelid = t.typrelid AND attnum > 0 AND NOT attisdropped))
        ELSE (SELECT format('CREATE TYPE %I.%I AS RANGE (SUBTYPE = %s%s)', own.nspname, t.typname, format_type(rngsubtype, NULL),
                CASE WHEN rngsubdiff <> 0 THEN ', SUBTYPE_DIFF = ' || rngsubdiff::regproc ELSE '' END) FROM pg_range WHERE rngtypid = t.oid)
        END || format('; ALTER TYPE %I.%I OWNER TO %I', own.nspname, t.typname, r.rolname)
      FROM pg_type t JOIN own ON own.oid = t.typnamespace JOIN pg_roles r ON r.oid = t.typowner
     WHERE (t.typtype IN ('e', 'd', 'r') OR (t.typtype = 'c' AND (SELECT relkind = 'c' FROM pg_class WHERE oid = t.typrelid)))
       AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_type'::regclass AND d.objid = t.oid AND d.deptype = 'e')
    UNION ALL
    SELECT 6, f.place, f.sql FROM functions f WHERE NOT f.late
)
SELECT sql FROM made ORDER BY stage, place, sql
"#;

/// Functions that name tables in their signatures or parsed bodies.
pub const AFTER_TABLES: &str = "WITH own AS (
    SELECT n.oid, n.nspname FROM pg_namespace n
     WHERE n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'herd', 'herd_shards')
)
SELECT sql FROM functions WHERE late ORDER BY place, sql
";

/// The functions of both, as the first term of their WITH.
const FUNCTIONS: &str = r#"functions AS (
    SELECT p.oid::bigint AS place,
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
                        CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(g.rolname) END), '')
                     FROM aclexplode(p.proacl) a LEFT JOIN pg_roles g ON g.oid = a.grantee), '') END
        END AS sql
      FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace JOIN pg_roles r ON r.oid = p.proowner
     WHERE n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'herd', 'herd_shards')
       AND NOT (n.nspname = 'public' AND p.proname IN ('create_distributed_table', 'create_reference_table', 'undistribute_table',
                'citus_add_node', 'citus_remove_node'))
       AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype IN ('e', 'i'))
), "#;

/// The query, complete.
pub fn query(objects: &str) -> String {
    objects.replacen("WITH ", &format!("WITH {FUNCTIONS}"), 1)
}

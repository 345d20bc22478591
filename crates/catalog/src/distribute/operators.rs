//! Collations, operators, their classes and families, and what text search has: as `objects.rs`, whose query these are terms of. It does not
//! know what else a node has.

/// Rows of place, late and statement. `spaces` and `routines` are terms before it. An operator that another one has named first is
/// older than its function.
pub(super) const TERMS: &str = r#"collations AS (
    SELECT c.oid::bigint AS place, false AS late, format('CREATE COLLATION IF NOT EXISTS %1$I.%2$I (%3$s); ALTER COLLATION %1$I.%2$I OWNER TO %4$I', n.nspname, c.collname,
        concat_ws(', ', 'PROVIDER = ' || CASE c.collprovider WHEN 'i' THEN 'icu' WHEN 'b' THEN 'builtin' ELSE 'libc' END,
            'LOCALE = ' || quote_literal(coalesce(j ->> 'colllocale', j ->> 'colliculocale')), 'LC_COLLATE = ' || quote_literal(c.collcollate), 'LC_CTYPE = ' || quote_literal(c.collctype),
            CASE WHEN NOT c.collisdeterministic THEN 'DETERMINISTIC = false' END, 'RULES = ' || quote_literal(j ->> 'collicurules')), pg_get_userbyid(c.collowner)) AS sql
      FROM pg_collation c JOIN spaces n ON n.oid = c.collnamespace, LATERAL to_jsonb(c) j
     WHERE NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_collation'::regclass AND d.objid = c.oid AND d.deptype = 'e')
), operators AS (
    SELECT greatest(o.oid, o.oprcode, o.oprrest, o.oprjoin)::bigint AS place, f.late,
        format('DO %L', format('BEGIN IF NOT EXISTS (SELECT FROM pg_catalog.pg_operator o WHERE o.oid = to_regoperator(%L) AND o.oprcode <> 0) THEN CREATE OPERATOR %I.%s (%s); '
            'ALTER OPERATOR %s OWNER TO %I; END IF; END', o.oid::regoperator, n.nspname, o.oprname, concat_ws(', ', 'FUNCTION = ' || o.oprcode,
            'LEFTARG = ' || format_type(nullif(o.oprleft, 0), NULL), 'RIGHTARG = ' || format_type(nullif(o.oprright, 0), NULL),
            (SELECT format('COMMUTATOR = OPERATOR(%I.%s)', s.nspname, c.oprname) FROM pg_operator c JOIN pg_namespace s ON s.oid = c.oprnamespace WHERE c.oid = o.oprcom),
            (SELECT format('NEGATOR = OPERATOR(%I.%s)', s.nspname, c.oprname) FROM pg_operator c JOIN pg_namespace s ON s.oid = c.oprnamespace WHERE c.oid = o.oprnegate),
            CASE WHEN o.oprrest <> 0 THEN 'RESTRICT = ' || o.oprrest END, CASE WHEN o.oprjoin <> 0 THEN 'JOIN = ' || o.oprjoin END,
            CASE WHEN o.oprcanhash THEN 'HASHES' END, CASE WHEN o.oprcanmerge THEN 'MERGES' END), o.oid::regoperator, pg_get_userbyid(o.oprowner))) AS sql
      FROM pg_operator o JOIN spaces n ON n.oid = o.oprnamespace, LATERAL (SELECT coalesce(bool_or(r.late), false) AS late FROM routines r WHERE r.oid = o.oprcode) f
     WHERE o.oprcode <> 0 AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_operator'::regclass AND d.objid = o.oid AND d.deptype = 'e')
), families AS (
    SELECT f.oid, format('%I.%I USING %I', n.nspname, f.opfname, a.amname) AS name,
        format('SELECT FROM pg_catalog.pg_opfamily f JOIN pg_namespace n ON n.oid = f.opfnamespace JOIN pg_am a ON a.oid = f.opfmethod WHERE (n.nspname, f.opfname, a.amname) = (%L, %L, %L)',
            n.nspname, f.opfname, a.amname) AS look, pg_get_userbyid(f.opfowner) AS owner, s.oid IS NOT NULL AS ours,
        EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_opfamily'::regclass AND d.objid = f.oid AND d.deptype = 'e') AS extends
      FROM pg_opfamily f JOIN pg_namespace n ON n.oid = f.opfnamespace LEFT JOIN spaces s ON s.oid = n.oid JOIN pg_am a ON a.oid = f.opfmethod
), members AS (
    -- Of a class, or of the family by itself.
    SELECT m.oid::bigint AS place, m.family, d.refobjid AS class, m.text, coalesce(o.late, f.late, false) AS late
      FROM (SELECT 'pg_amop'::regclass AS of, m.oid, m.amopfamily AS family, NULL::oid AS routine, m.amopopr AS operator, format('OPERATOR %s %s%s', m.amopstrategy, m.amopopr::regoperator,
                    (SELECT format(' FOR ORDER BY %I.%I', n.nspname, s.opfname) FROM pg_opfamily s JOIN pg_namespace n ON n.oid = s.opfnamespace WHERE s.oid = m.amopsortfamily)) AS text
              FROM pg_amop m WHERE m.oid >= 16384
            UNION ALL
            SELECT 'pg_amproc', m.oid, m.amprocfamily, m.amproc, NULL, format('FUNCTION %s (%s, %s) %s', m.amprocnum, format_type(m.amproclefttype, NULL), format_type(m.amprocrighttype, NULL), m.amproc::regprocedure)
              FROM pg_amproc m WHERE m.oid >= 16384) m
      LEFT JOIN pg_depend d ON d.classid = m.of AND d.objid = m.oid AND d.refclassid = 'pg_opclass'::regclass
      LEFT JOIN pg_operator p ON p.oid = m.operator LEFT JOIN routines o ON o.oid = p.oprcode LEFT JOIN routines f ON f.oid = m.routine
), compared AS (
    SELECT f.oid::bigint AS place, false AS late, format('DO %L', format('BEGIN IF NOT EXISTS (%s) THEN CREATE OPERATOR FAMILY %s; ALTER OPERATOR FAMILY %s OWNER TO %I; END IF; END', f.look, f.name, f.name, f.owner)) AS sql
      FROM families f WHERE f.ours AND NOT f.extends
    UNION ALL
    SELECT c.oid::bigint, coalesce(m.late, false), format('DO %L', format('BEGIN IF NOT EXISTS (SELECT FROM pg_catalog.pg_opclass c JOIN pg_namespace n ON n.oid = c.opcnamespace JOIN pg_am a ON a.oid = c.opcmethod '
            'WHERE (n.nspname, c.opcname, a.amname) = (%1$L, %2$L, %3$L)) THEN CREATE OPERATOR CLASS %1$I.%2$I%4$s FOR TYPE %5$s USING %3$I FAMILY %6$s AS %7$s; '
            'ALTER OPERATOR CLASS %1$I.%2$I USING %3$I OWNER TO %8$I; END IF; END', n.nspname, c.opcname, a.amname, CASE WHEN c.opcdefault THEN ' DEFAULT' ELSE '' END, format_type(c.opcintype, NULL),
            regexp_replace(f.name, ' USING [^ ]+$', ''), concat_ws(', ', m.list, CASE WHEN m.list IS NULL OR c.opckeytype <> 0 THEN 'STORAGE ' || format_type(coalesce(nullif(c.opckeytype, 0), c.opcintype), NULL) END),
            pg_get_userbyid(c.opcowner)))
      FROM pg_opclass c JOIN spaces n ON n.oid = c.opcnamespace JOIN pg_am a ON a.oid = c.opcmethod JOIN families f ON f.oid = c.opcfamily,
           LATERAL (SELECT string_agg(m.text, ', ' ORDER BY m.place) AS list, bool_or(m.late) AS late FROM members m WHERE m.class = c.oid) m
     WHERE NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_opclass'::regclass AND d.objid = c.oid AND d.deptype = 'e')
    UNION ALL
    -- Also to families of PostgreSQL's own. What an extension has added there came with it.
    SELECT m.place, m.late, format('DO %L', format('BEGIN ALTER OPERATOR FAMILY %s ADD %s; EXCEPTION WHEN duplicate_object THEN NULL; END', f.name, m.text))
      FROM members m JOIN families f ON f.oid = m.family AND NOT f.extends WHERE m.class IS NULL
), searched AS (
    SELECT t.oid::bigint AS place, false AS late, format('DO %L', format('BEGIN IF NOT EXISTS (SELECT FROM pg_catalog.pg_ts_dict t JOIN pg_namespace n ON n.oid = t.dictnamespace WHERE (n.nspname, t.dictname) = (%1$L, %2$L)) '
            'THEN CREATE TEXT SEARCH DICTIONARY %1$I.%2$I (%3$s); ALTER TEXT SEARCH DICTIONARY %1$I.%2$I OWNER TO %4$I; END IF; END', n.nspname, t.dictname,
            concat_ws(', ', format('TEMPLATE = %I.%I', tn.nspname, l.tmplname), t.dictinitoption), pg_get_userbyid(t.dictowner))) AS sql
      FROM pg_ts_dict t JOIN spaces n ON n.oid = t.dictnamespace JOIN pg_ts_template l ON l.oid = t.dicttemplate JOIN pg_namespace tn ON tn.oid = l.tmplnamespace
     WHERE NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_ts_dict'::regclass AND d.objid = t.oid AND d.deptype = 'e')
    UNION ALL
    -- Its mappings may have been made later than it was.
    SELECT greatest(t.oid, (SELECT max(m.mapdict) FROM pg_ts_config_map m WHERE m.mapcfg = t.oid))::bigint, false,
        format('DO %L', format('BEGIN IF NOT EXISTS (SELECT FROM pg_catalog.pg_ts_config t JOIN pg_namespace n ON n.oid = t.cfgnamespace WHERE (n.nspname, t.cfgname) = (%1$L, %2$L)) '
            'THEN CREATE TEXT SEARCH CONFIGURATION %1$I.%2$I (PARSER = %3$I.%4$I); %5$sALTER TEXT SEARCH CONFIGURATION %1$I.%2$I OWNER TO %6$I; END IF; END', n.nspname, t.cfgname, pn.nspname, p.prsname,
            (SELECT string_agg(format('ALTER TEXT SEARCH CONFIGURATION %I.%I ADD MAPPING FOR %I WITH %s; ', n.nspname, t.cfgname, k.alias, m.dicts), '' ORDER BY k.tokid)
               FROM ts_token_type(t.cfgparser) k JOIN (SELECT m.maptokentype, string_agg(format('%I.%I', dn.nspname, d.dictname), ', ' ORDER BY m.mapseqno) AS dicts FROM pg_ts_config_map m
                      JOIN pg_ts_dict d ON d.oid = m.mapdict JOIN pg_namespace dn ON dn.oid = d.dictnamespace WHERE m.mapcfg = t.oid GROUP BY 1) m ON m.maptokentype = k.tokid),
            pg_get_userbyid(t.cfgowner)))
      FROM pg_ts_config t JOIN spaces n ON n.oid = t.cfgnamespace JOIN pg_ts_parser p ON p.oid = t.cfgparser JOIN pg_namespace pn ON pn.oid = p.prsnamespace
     WHERE NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_ts_config'::regclass AND d.objid = t.oid AND d.deptype = 'e')
), unmade AS (
    -- They are written in C.
    SELECT o.oid::bigint AS place, false AS late, format('DO %L', format('BEGIN PERFORM pg_catalog.pg_get_object_address(%L, %L, %L); EXCEPTION WHEN undefined_object OR invalid_schema_name THEN '
            'RAISE feature_not_supported USING MESSAGE = %L, HINT = %L; END', a.type, a.object_names, a.object_args,
            format('%s %s is not on the new node', i.type, i.identity), 'Create it there, then add the node.')) AS sql
      FROM (SELECT 'pg_ts_parser'::regclass AS class, oid, prsnamespace AS space FROM pg_ts_parser UNION ALL SELECT 'pg_ts_template', oid, tmplnamespace FROM pg_ts_template
            UNION ALL SELECT 'pg_conversion', oid, connamespace FROM pg_conversion) o JOIN spaces n ON n.oid = o.space,
           LATERAL pg_identify_object_as_address(o.class, o.oid, 0) a, LATERAL pg_identify_object(o.class, o.oid, 0) i
     WHERE NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = o.class AND d.objid = o.oid AND d.deptype = 'e')
), "#;

//! Code of users' own, what hangs on which table, and what PostgreSQL knows of who uses what. One query; judged elsewhere.

use std::collections::HashMap;

use super::definitions::Definitions;
use super::facts::NOT_SYSTEM;
use crate::code::{
    Attached, BY_ARGUMENT, ByArgument, Code, Object, Operator, RUN_TEXT, Routine, Schema, TAKE_TYPES, Unnamed,
    WHOLE_SCHEMAS,
};
use crate::load::reading;
use crate::{CatalogError, Oid, Query, Volatility, quote_literal};

pub(super) async fn load<Q: Query>(q: &mut Q, definitions: &Definitions) -> Result<Code, CatalogError<Q::Error>> {
    let mut code = Code::default();
    let mut settings: HashMap<Oid, Settings> = HashMap::new();
    let mut rows = reading(q, &question()).await?;
    while let Some(mut row) = rows.next().await {
        let what = row.text();
        let oid = row.number()?;
        match what.as_str() {
            "routine" => code.routines.push(Routine {
                oid,
                schema: row.text(),
                name: row.text(),
                language: row.text(),
                definition: definitions.of_routine(oid).unwrap_or(row.text()).into(),
                volatility: volatility(row.char()),
                opaque: false,
                owner: 0,
                path: None,
                arity: (0, 0),
                by_argument: None,
                open: false,
                argument_types: vec![],
            }),
            "settings" => {
                let (owner, opaque, path) = (row.number()?, !row.boolean(), row.opt());
                let (arguments, open) = (row.texts(), row.boolean());
                settings.insert(oid, Settings { owner, opaque, path, arguments, open });
            }
            "schema" => code.schemas.push(Schema { name: row.text(), owner: row.number()?, trusted: row.boolean() }),
            "builtin type" => {
                code.builtin_types.insert(row.text());
            }
            "type" => code.types.push((row.text(), row.text(), oid)),
            "operator" => code.operators.push(Operator {
                oid,
                schema: row.text(),
                name: row.text(),
                volatility: volatility(row.char()),
                builtin: row.boolean(),
            }),
            "use" => {
                let used = Object { class: row.char(), oid: row.number()? };
                code.uses.entry(Object { class: row.char(), oid }).or_default().push(used);
            }
            "unnamed" => code.unnamed.push(Unnamed {
                routine: oid,
                what: row.text(),
                name: row.text(),
                types: row.text().split(',').filter_map(|oid| oid.parse().ok()).collect(),
            }),
            "tied" => code.tied.push((oid, row.number()?)),
            "runs text" => {
                let object = Object { class: row.char(), oid };
                for how in row.text().split(' ') {
                    let set = match how {
                        "whole" => &mut code.whole_schemas,
                        "types" => &mut code.takes_types,
                        _ => &mut code.runs_text,
                    };
                    set.insert(object);
                }
            }
            "asks tableoid" => {
                code.asks_tableoid.insert(Object { class: row.char(), oid });
            }
            _ => {
                let (table, name) = (row.number()?, row.text());
                let (definition, before) = (definitions.of_rule(oid).or(row.opt()), row.opt());
                let trigger = if what == "trigger" { row.opt() } else { None };
                code.attached.push(Attached {
                    oid,
                    table,
                    name,
                    definition,
                    rows: before.as_deref().is_some_and(|when| when != "statement"),
                    before_rows: before.as_deref() == Some("before"),
                    transition: trigger.as_deref() == Some("transition"),
                    deferrable: trigger.as_deref() == Some("deferrable"),
                    columns: if what == "foreign key" { row.texts() } else { vec![] },
                    what,
                })
            }
        }
    }
    for routine in &mut code.routines {
        let Settings { owner, opaque, path, arguments, open } = settings.remove(&routine.oid).unwrap_or_default();
        (routine.owner, routine.opaque, routine.path, routine.open) = (owner, opaque, path, open && !opaque);
        (routine.arity, routine.argument_types, routine.by_argument) = called_with(&arguments);
        if routine.open {
            code.open.insert(routine.name.clone());
        }
        if routine.by_argument.is_some() {
            code.by_argument.insert(routine.name.clone());
        }
    }
    Ok(code)
}

/// What is in no routine's text.
#[derive(Default)]
struct Settings {
    owner: Oid,
    opaque: bool,
    path: Option<String>,
    /// How many arguments there are, how many of them have defaults, whether they may be more, their types; the one by which it is
    /// distributed.
    arguments: Vec<String>,
    open: bool,
}

fn called_with(arguments: &[String]) -> ((usize, usize), Vec<Oid>, Option<ByArgument>) {
    let [all, defaults, variadic, types, by @ ..] = arguments else { return ((0, usize::MAX), vec![], None) };
    let [all, defaults] = [all, defaults].map(|n| n.parse::<usize>().unwrap_or(0));
    let arity = (all.saturating_sub(defaults), if variadic == "true" { usize::MAX } else { all });
    let types: Vec<Oid> = types.split_ascii_whitespace().filter_map(|oid| oid.parse().ok()).collect();
    let number = by.first().and_then(|n| n.parse::<usize>().ok());
    let by = number.and_then(|number| Some(ByArgument { number, type_oid: *types.get(number.checked_sub(1)?)? }));
    (arity, types, by)
}

fn volatility(letter: u8) -> Volatility {
    match letter {
        b'i' => Volatility::Immutable,
        b's' => Volatility::Stable,
        _ => Volatility::Volatile,
    }
}

/// Nothing here takes a lock: of a routine with a parsed body, and of a rule that somebody has locked, there are the names.
/// Columns: what it is, its object id, and what that needs.
fn question() -> String {
    let user = wire::type_oid::FIRST_NORMAL_OBJECT_ID;
    let class = |column: &str| {
        format!(
            "CASE {column} WHEN 'pg_class'::regclass THEN 'r' WHEN 'pg_proc'::regclass THEN 'f' WHEN 'pg_type'::regclass THEN 't' \
             WHEN 'pg_operator'::regclass THEN 'o' WHEN 'pg_attrdef'::regclass THEN 'd' WHEN 'pg_constraint'::regclass THEN 'c' \
             WHEN 'pg_trigger'::regclass THEN 'g' WHEN 'pg_rewrite'::regclass THEN 'u' WHEN 'pg_policy'::regclass THEN 'p' \
             WHEN 'pg_statistic_ext'::regclass THEN 's' END"
        )
    };
    let (user_class, used_class) = (class("d.classid"), class("d.refclassid"));
    // Of a default that uses nothing of users' own and calls no function, as most do, nothing could be said.
    let default_uses = format!(
        "SELECT d.objid FROM pg_depend d WHERE d.classid = 'pg_attrdef'::regclass AND d.refobjid >= {user} AND d.deptype = 'n'"
    );
    let open = "p.prokind = 'f' AND p.prosqlbody IS NULL AND NOT p.prosecdef AND NOT p.proisstrict AND p.proconfig IS NULL \
                AND p.provariadic = 0 AND p.prolang IN (SELECT l.oid FROM pg_language l WHERE l.lanname IN ('sql', 'plpgsql')) \
                AND (p.proacl IS NULL OR EXISTS (SELECT FROM aclexplode(p.proacl) a WHERE a.grantee = 0 AND a.privilege_type = 'EXECUTE'))";
    // Where there are statistics of few types, a join of the new ones would look at all of them for each: `relkind` is looked up.
    let unnamed = unnamed(user);
    let (runs_text, asks_tableoid) = (runs_text(user), asks_tableoid(user));
    format!(
        "SELECT 'routine', p.oid, n.nspname::text, p.proname::text, l.lanname::text, \
                CASE WHEN NOT d.is_read THEN NULL WHEN p.prosqlbody IS NOT NULL THEN format('CREATE FUNCTION f() RETURNS void LANGUAGE sql AS %L', \
                               concat_ws('; ', herd.code_in(p.prosqlbody::text), \
                                         CASE WHEN p.proargdefaults IS NOT NULL THEN herd.code_in(p.proargdefaults::text) END)) \
                     WHEN l.lanname IN ('sql', 'plpgsql') AND p.prokind IN ('f', 'p') \
                          AND (p.proargdefaults IS NULL OR NOT herd.names_rows(p.proargdefaults::text)) THEN pg_get_functiondef(p.oid) \
                     WHEN l.lanname NOT IN ('c', 'internal') THEN p.prosrc END, p.provolatile::text \
         FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace JOIN pg_language l ON l.oid = p.prolang \
         JOIN herd.code_read() d ON d.routine = p.oid WHERE {NOT_SYSTEM} \
         UNION ALL SELECT 'type', t.oid, n.nspname::text, t.typname::text, NULL, NULL, NULL \
         FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace LEFT JOIN pg_type e ON e.oid = t.typelem AND e.typarray = t.oid \
         WHERE {NOT_SYSTEM} AND (coalesce(e.typtype, t.typtype) IN ('d', 'r', 'm') OR t.typtype = 'e' OR t.typtype = 'b' AND t.typcategory <> 'A' \
               OR EXISTS (SELECT FROM pg_class c WHERE c.oid = coalesce(e.typrelid, t.typrelid) AND c.relkind = 'c')) \
         UNION ALL SELECT 'operator', o.oid, n.nspname::text, o.oprname::text, p.provolatile::text, \
                (EXISTS (SELECT FROM pg_operator b WHERE b.oprname = o.oprname AND b.oid < {user}))::text, NULL \
         FROM pg_operator o JOIN pg_namespace n ON n.oid = o.oprnamespace LEFT JOIN pg_proc p ON p.oid = o.oprcode WHERE o.oid >= {user} \
         UNION ALL SELECT 'settings', p.oid, p.proowner::text, CASE WHEN d.is_read THEN 't' END, \
                (SELECT substr(c, length('search_path=') + 1) FROM unnest(p.proconfig) c WHERE c LIKE 'search\\_path=%'), \
                (ARRAY[p.pronargs::text, p.pronargdefaults::text, (p.provariadic <> 0)::text, p.proargtypes::text] || ARRAY( \
                 SELECT substr(c, length('{BY_ARGUMENT}=') + 1) FROM unnest(p.proconfig) c WHERE starts_with(c, '{BY_ARGUMENT}=')))::text, CASE WHEN {open} THEN 't' END \
         FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace JOIN herd.code_read() d ON d.routine = p.oid WHERE {NOT_SYSTEM} \
         UNION ALL SELECT 'schema', n.oid, n.nspname::text, n.nspowner::text, (r.rolsuper AND NOT EXISTS (SELECT FROM \
                aclexplode(n.nspacl) a WHERE a.privilege_type = 'CREATE' AND a.grantee <> n.nspowner))::text, NULL, NULL \
         FROM pg_namespace n JOIN pg_roles r ON r.oid = n.nspowner WHERE {NOT_SYSTEM} \
         UNION ALL SELECT DISTINCT 'builtin type', 0::oid, t.typname::text, NULL, NULL, NULL, NULL \
         FROM pg_type t JOIN pg_type b ON b.typname = t.typname AND b.oid < {user} WHERE t.oid >= {user} AND t.typtype IN ('c', 'd') \
         UNION ALL SELECT 'use', d.objid, {used_class}, d.refobjid::text, {user_class}, NULL, NULL FROM pg_depend d \
         WHERE d.objid >= {user} AND d.refobjid >= {user} AND d.deptype = 'n' \
           AND {user_class} IS NOT NULL AND {used_class} IS NOT NULL \
         UNION ALL SELECT 'use', t.oid, 't', t.typelem::text, 't', NULL, NULL FROM pg_type t WHERE t.oid >= {user} AND t.typelem >= {user} \
         UNION ALL SELECT 'use', t.oid, 'r', t.typrelid::text, 't', NULL, NULL FROM pg_type t \
         WHERE t.oid >= {user} AND (SELECT c.relkind FROM pg_class c WHERE c.oid = t.typrelid) = 'c' \
         UNION ALL SELECT 'use', c.contypid, 'c', c.oid::text, 't', NULL, NULL FROM pg_constraint c WHERE c.contypid >= {user} \
         UNION ALL SELECT 'view', r.oid, r.ev_class::text, c.relname::text, NULL, NULL, NULL \
         FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class WHERE r.oid >= {user} AND r.rulename = '_RETURN' \
         UNION ALL SELECT 'rule', r.oid, r.ev_class::text, r.rulename::text, herd.code_in(r.ev_action::text), NULL, NULL \
         FROM pg_rewrite r WHERE r.oid >= {user} AND r.rulename <> '_RETURN' \
         UNION ALL SELECT 'trigger', t.oid, t.tgrelid::text, t.tgname::text, NULL, \
                CASE WHEN t.tgtype & 1 = 0 THEN 'statement' WHEN t.tgtype & 2 = 2 THEN 'before' ELSE 'after' END, \
                CASE WHEN t.tgdeferrable THEN 'deferrable' WHEN t.tgoldtable IS NOT NULL OR t.tgnewtable IS NOT NULL THEN 'transition' END \
         FROM pg_trigger t WHERE NOT t.tgisinternal AND t.tgenabled <> 'D' \
         UNION ALL SELECT 'default', d.oid, d.adrelid::text, a.attname::text, NULL, NULL, NULL \
         FROM pg_attrdef d JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum \
         WHERE d.oid >= {user} AND (d.oid IN ({default_uses}) OR d.adbin::text LIKE '%:funcid %') \
         UNION ALL SELECT 'constraint', c.oid, c.conrelid::text, c.conname::text, NULL, NULL, NULL \
         FROM pg_constraint c WHERE c.contype = 'c' AND c.conrelid <> 0 AND c.oid >= {user} \
         UNION ALL SELECT 'foreign key', c.oid, c.conrelid::text, c.conname::text, NULL, NULL, \
                ARRAY(SELECT a.attname FROM pg_attribute a WHERE a.attrelid = c.conrelid AND a.attnum = ANY ( \
                      CASE WHEN c.confupdtype = 'd' THEN c.conkey ELSE coalesce(c.confdelsetcols, c.conkey) END))::text \
         FROM pg_constraint c WHERE c.contype = 'f' AND 'd' IN (c.confdeltype, c.confupdtype) AND c.oid >= {user} \
         UNION ALL SELECT 'policy', p.oid, p.polrelid::text, p.polname::text, NULL, NULL, NULL FROM pg_policy p \
         UNION ALL SELECT 'index', i.indexrelid, i.indrelid::text, c.relname::text, NULL, NULL, NULL \
         FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
         WHERE i.indexrelid >= {user} AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL) \
         UNION ALL SELECT 'statistics', s.oid, s.stxrelid::text, s.stxname::text, NULL, NULL, NULL \
         FROM pg_statistic_ext s WHERE s.stxexprs IS NOT NULL \
         UNION ALL SELECT 'tied', k.confrelid, k.conrelid::text, NULL, NULL, NULL, NULL FROM pg_constraint k \
         JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace WHERE k.contype = 'f' AND {NOT_SYSTEM} \
         UNION ALL SELECT 'tied', i.inhparent, i.inhrelid::text, NULL, NULL, NULL, NULL FROM pg_inherits i \
         JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_namespace n ON n.oid = c.relnamespace WHERE {NOT_SYSTEM} \
         UNION ALL {unnamed} UNION ALL {runs_text} UNION ALL {asks_tableoid}"
    )
}

/// Casts, support functions and operators of operator classes, what ranges ask, event triggers.
fn unnamed(user: Oid) -> String {
    format!(
        "SELECT 'unnamed', x.routine, x.what, x.name, x.types, NULL, NULL FROM ( \
         SELECT castfunc::oid AS routine, 'cast' AS what, format('%s AS %s', castsource::regtype, casttarget::regtype) AS name, \
               CASE WHEN s.typowner = t.typowner OR s.oid < {user} OR t.oid < {user} THEN concat(s.oid, ',', t.oid) END AS types \
               FROM pg_cast JOIN pg_type s ON s.oid = castsource JOIN pg_type t ON t.oid = casttarget \
         UNION SELECT p.amproc::oid, 'operator class', f.opfname::text, concat(p.amproclefttype, ',', p.amprocrighttype) FROM pg_amproc p JOIN pg_opfamily f ON f.oid = p.amprocfamily \
         UNION SELECT o.oprcode::oid, 'operator class', f.opfname::text, concat(a.amoplefttype, ',', a.amoprighttype) FROM pg_amop a JOIN pg_operator o ON o.oid = a.amopopr \
               JOIN pg_opfamily f ON f.oid = a.amopfamily \
         UNION SELECT rngsubdiff::oid, 'range type', rngtypid::regtype::text, rngtypid::text FROM pg_range \
         UNION SELECT rngcanonical::oid, 'range type', rngtypid::regtype::text, rngtypid::text FROM pg_range \
         UNION SELECT evtfoid, 'event trigger', evtname::text, NULL FROM pg_event_trigger WHERE evtenabled <> 'D') x \
         WHERE x.routine >= {user}"
    )
}

/// Columns that every table has are not in pg_depend, either (`sysattr.h`: -6 is tableoid). What partitions have of their tables counts there.
fn asks_tableoid(user: Oid) -> String {
    let of = |class: char, catalog: &str, tree: &str, own: &str| {
        format!(
            "SELECT 'asks tableoid', oid, '{class}', NULL, NULL, NULL, NULL FROM pg_catalog.{catalog} \
             WHERE oid >= {user} AND {own} AND {tree} LIKE '%:varattno -6 %'"
        )
    };
    [
        of('c', "pg_constraint", "conbin::text", "contype = 'c' AND conislocal"),
        of('p', "pg_policy", "concat(polqual, polwithcheck)", "true"),
        of('g', "pg_trigger", "tgqual::text", "tgparentid = 0"),
    ]
    .join(" UNION ALL ")
}

/// Functions of PostgreSQL's own are not in pg_depend: they are looked for in trees as they are stored (`outfuncs.c`).
fn runs_text(user: Oid) -> String {
    let names = |names: &[&str]| names.iter().map(|name| quote_literal(name)).collect::<Vec<_>>().join(", ");
    let of = |class: char, catalog: &str, oid: &str, trees: &str| {
        format!(
            "SELECT '{class}' AS class, {oid} AS oid, concat_ws(' ', CASE WHEN concat({trees}) ~ calls.text THEN 'text' END, \
                    CASE WHEN concat({trees}) ~ calls.whole THEN 'whole' END, CASE WHEN concat({trees}) ~ calls.types THEN 'types' END) AS how \
             FROM pg_catalog.{catalog}, calls WHERE {oid} >= {user} AND concat({trees}) LIKE '%:funcid %' AND concat({trees}) ~ calls.what"
        )
    };
    format!(
        "SELECT 'runs text', y.oid, y.class, y.how, NULL, NULL, NULL FROM ( \
         WITH calls AS (SELECT concat(':funcid (?:', string_agg(oid::text, '|'), ') ') AS what, \
                               concat(':funcid (?:', string_agg(oid::text, '|') FILTER (WHERE proname IN ({texts})), ') ') AS text, \
                               concat(':funcid (?:', string_agg(oid::text, '|') FILTER (WHERE proname IN ({whole})), ') ') AS whole, \
                               concat(':funcid (?:', string_agg(oid::text, '|') FILTER (WHERE proname IN ({types})), ') ') AS types \
                        FROM pg_proc WHERE proname IN ({texts}, {types})) \
         {trees}) y \
         UNION ALL SELECT 'runs text', p.oid, 'f', 'text', NULL, NULL, NULL FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang \
         WHERE p.oid >= {user} AND l.lanname = 'c' AND p.proretset AND p.provolatile <> 'i' \
           AND p.proargtypes::oid[] && ARRAY['text', 'regclass', 'name', 'varchar', 'cstring']::regtype[]::oid[]",
        whole = names(WHOLE_SCHEMAS),
        texts = names(&RUN_TEXT),
        types = names(TAKE_TYPES),
        trees = [
            of('d', "pg_attrdef", "oid", "adbin"),
            of('c', "pg_constraint", "oid", "conbin"),
            of('p', "pg_policy", "oid", "polqual, polwithcheck"),
            of('u', "pg_rewrite", "oid", "ev_qual, ev_action"),
            of('g', "pg_trigger", "oid", "tgqual"),
        ]
        .join(" UNION ALL ")
    )
}

//! Code of users' own, what hangs on which table, and what PostgreSQL knows of who uses what. One query; judged elsewhere.

use super::definitions::Definitions;
use super::facts::NOT_SYSTEM;
use crate::code::{Attached, Code, Object, Routine};
use crate::load::cells;
use crate::{CatalogError, Query, Volatility};

pub(super) async fn load<Q: Query>(q: &mut Q, definitions: &Definitions) -> Result<Code, CatalogError<Q::Error>> {
    let mut code = Code::default();
    for mut row in cells(q, &question()).await? {
        let what = row.text();
        let oid = row.number()?;
        match what.as_str() {
            "routine" => code.routines.push(Routine {
                oid,
                schema: row.text(),
                name: row.text(),
                language: row.text(),
                definition: definitions.of_routine(oid).unwrap_or(row.text()),
                volatility: match row.char() {
                    b'i' => Volatility::Immutable,
                    b's' => Volatility::Stable,
                    _ => Volatility::Volatile,
                },
            }),
            "type" => code.types.push((row.text(), row.text(), oid)),
            "operator" => code.operators.push((row.text(), oid)),
            "use" => {
                let used = Object { class: row.char(), oid: row.number()? };
                code.uses.entry(Object { class: row.char(), oid }).or_default().push(used);
            }
            _ => code.attached.push(Attached {
                oid,
                table: row.number()?,
                name: row.text(),
                definition: definitions.of_rule(oid).or(row.opt()),
                what,
            }),
        }
    }
    Ok(code)
}

/// Nothing here takes a lock: of a routine with a parsed body, and of a rule that somebody has locked, there are the names.
/// Columns: what it is, its object id, and what that needs. Object ids below 16384 are PostgreSQL's own (access/transam.h).
fn question() -> String {
    let user = "16384";
    let class = |column: &str| {
        format!(
            "CASE {column} WHEN 'pg_class'::regclass THEN 'r' WHEN 'pg_proc'::regclass THEN 'f' WHEN 'pg_type'::regclass THEN 't' \
             WHEN 'pg_operator'::regclass THEN 'o' WHEN 'pg_attrdef'::regclass THEN 'd' WHEN 'pg_constraint'::regclass THEN 'c' \
             WHEN 'pg_trigger'::regclass THEN 'g' WHEN 'pg_rewrite'::regclass THEN 'u' WHEN 'pg_policy'::regclass THEN 'p' END"
        )
    };
    let (user_class, used_class) = (class("d.classid"), class("d.refclassid"));
    format!(
        "SELECT 'routine', p.oid, n.nspname::text, p.proname::text, l.lanname::text, \
                CASE WHEN p.prosqlbody IS NOT NULL THEN format('CREATE FUNCTION f() RETURNS void LANGUAGE sql AS %L', \
                               concat_ws('; ', herd.code_in(p.prosqlbody::text), herd.code_in(p.proargdefaults::text))) \
                     WHEN l.lanname IN ('sql', 'plpgsql') AND p.prokind IN ('f', 'p') \
                          AND (p.proargdefaults IS NULL OR NOT herd.names_rows(p.proargdefaults::text)) THEN pg_get_functiondef(p.oid) \
                     WHEN l.lanname NOT IN ('c', 'internal') THEN p.prosrc END, p.provolatile::text \
         FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace JOIN pg_language l ON l.oid = p.prolang WHERE {NOT_SYSTEM} \
         UNION ALL SELECT 'type', t.oid, n.nspname::text, t.typname::text, NULL, NULL, NULL \
         FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace WHERE t.typtype = 'd' AND {NOT_SYSTEM} \
         UNION ALL SELECT 'operator', o.oid, o.oprname::text, NULL, NULL, NULL, NULL FROM pg_operator o WHERE o.oid >= {user} \
         UNION ALL SELECT 'use', d.objid, {used_class}, d.refobjid::text, {user_class}, NULL, NULL FROM pg_depend d \
         WHERE d.objid >= {user} AND d.refobjid >= {user} AND d.deptype = 'n' \
           AND {user_class} IS NOT NULL AND {used_class} IS NOT NULL \
         UNION ALL SELECT 'use', t.oid, 't', t.typelem::text, 't', NULL, NULL FROM pg_type t WHERE t.oid >= {user} AND t.typelem >= {user} \
         UNION ALL SELECT 'use', t.oid, 'r', t.typrelid::text, 't', NULL, NULL FROM pg_type t JOIN pg_class c ON c.oid = t.typrelid \
         WHERE t.oid >= {user} AND c.relkind = 'c' \
         UNION ALL SELECT 'use', c.contypid, 'c', c.oid::text, 't', NULL, NULL FROM pg_constraint c WHERE c.contypid >= {user} \
         UNION ALL SELECT 'view', r.oid, r.ev_class::text, c.relname::text, NULL, NULL, NULL \
         FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class WHERE r.oid >= {user} AND r.rulename = '_RETURN' \
         UNION ALL SELECT 'rule', r.oid, r.ev_class::text, r.rulename::text, herd.code_in(r.ev_action::text), NULL, NULL \
         FROM pg_rewrite r WHERE r.oid >= {user} AND r.rulename <> '_RETURN' \
         UNION ALL SELECT 'trigger', t.oid, t.tgrelid::text, t.tgname::text, NULL, NULL, NULL \
         FROM pg_trigger t WHERE NOT t.tgisinternal AND t.tgenabled <> 'D' \
         UNION ALL SELECT 'default', d.oid, d.adrelid::text, a.attname::text, NULL, NULL, NULL \
         FROM pg_attrdef d JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum WHERE d.oid >= {user} \
         UNION ALL SELECT 'constraint', c.oid, c.conrelid::text, c.conname::text, NULL, NULL, NULL \
         FROM pg_constraint c WHERE c.contype = 'c' AND c.conrelid <> 0 AND c.oid >= {user} \
         UNION ALL SELECT 'policy', p.oid, p.polrelid::text, p.polname::text, NULL, NULL, NULL FROM pg_policy p \
         UNION ALL SELECT 'index', i.indexrelid, i.indrelid::text, c.relname::text, NULL, NULL, NULL \
         FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
         WHERE i.indexrelid >= {user} AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL)"
    )
}

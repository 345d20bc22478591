//! Where functions are used: in expressions of tables, and behind what a statement need not name. It does not know which
//! functions are asked about, nor why.

use crate::load::rows;
use crate::{CatalogError, Query, quote_literal};
use wire::type_oid::FIRST_NORMAL_OBJECT_ID;

/// How a stored tree names the functions it calls, as a regular expression (`outfuncs.c`).
const CALLS: &str = "':(?:funcid|opfuncid|aggfnoid|winfnoid) '";
/// What stands in each default's tree that calls one: no aggregates are there. It is found sooner than a number among many.
const SOME: &str = "funcid ";

/// Whether one of the functions is used in an expression of a table, or behind something a statement need not name: an operator, a
/// cast, a type, a domain.
pub(super) async fn used<Q: Query>(q: &mut Q, names: &[impl AsRef<str>]) -> Result<bool, CatalogError<Q::Error>> {
    let mut names: Vec<String> = names.iter().map(|n| quote_literal(n.as_ref())).collect();
    // The next load is to ask the same.
    names.sort_unstable();
    // Trees as they are stored: nothing is locked, and functions of PostgreSQL's own, which pg_depend does not have, are there.
    let sql = format!(
        "WITH f AS MATERIALIZED (SELECT p.oid FROM pg_proc p WHERE p.proname IN ({})), \
         x AS MATERIALIZED (SELECT {CALLS} || '(' || string_agg(oid::text, '|') || ') ' AS calls FROM f) \
         SELECT EXISTS (SELECT FROM pg_attrdef, x WHERE adbin::text LIKE '%{SOME}%' AND adbin::text ~ calls) \
             OR EXISTS (SELECT FROM pg_constraint, x WHERE oid >= {FIRST_NORMAL_OBJECT_ID} AND conrelid <> 0 AND conbin::text ~ calls) \
             OR EXISTS (SELECT FROM pg_policy, x WHERE concat(polqual::text, polwithcheck::text) ~ calls) \
             OR EXISTS (SELECT FROM pg_rewrite, x WHERE oid >= {FIRST_NORMAL_OBJECT_ID} AND rulename <> '_RETURN' AND concat(ev_qual::text, ev_action::text) ~ calls) \
             OR EXISTS (SELECT FROM pg_trigger LEFT JOIN f ON tgfoid = f.oid, x WHERE NOT tgisinternal AND (f.oid IS NOT NULL OR tgqual::text ~ calls)) \
             OR EXISTS (SELECT FROM pg_index, x WHERE indexrelid >= {FIRST_NORMAL_OBJECT_ID} AND concat(indexprs::text, indpred::text) ~ calls) \
             OR EXISTS (SELECT FROM pg_partitioned_table, x WHERE partexprs::text ~ calls) \
             OR EXISTS (SELECT FROM pg_operator JOIN f ON oprcode = f.oid WHERE pg_operator.oid >= {FIRST_NORMAL_OBJECT_ID}) \
             OR EXISTS (SELECT FROM pg_cast JOIN f ON castfunc = f.oid WHERE pg_cast.oid >= {FIRST_NORMAL_OBJECT_ID}) \
             OR EXISTS (SELECT FROM pg_range JOIN f ON f.oid IN (rngsubdiff, rngcanonical) WHERE rngtypid >= {FIRST_NORMAL_OBJECT_ID}) \
             OR EXISTS (SELECT FROM pg_constraint, x WHERE oid >= {FIRST_NORMAL_OBJECT_ID} AND contypid <> 0 AND conbin::text ~ calls) \
             OR EXISTS (SELECT FROM pg_type, x WHERE oid >= {FIRST_NORMAL_OBJECT_ID} AND typdefaultbin::text ~ calls) \
             OR EXISTS (SELECT FROM pg_depend JOIN f ON refobjid = f.oid AND refclassid = 'pg_proc'::regclass \
                  WHERE classid IN ('pg_operator'::regclass, 'pg_cast'::regclass, 'pg_type'::regclass))",
        names.join(", ")
    );
    let answer = rows(q, &sql).await?;
    Ok(answer.first().and_then(|r| r.first()?.as_deref()) == Some("t"))
}

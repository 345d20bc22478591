//! Functions by name. What their bodies use is not known here: see `code.rs`.

use std::collections::HashMap;

use super::facts::NOT_SYSTEM;
use crate::code::RUN_TEXT;
use crate::load::reading;
use crate::{CatalogError, Function, FunctionKind, Query, Snapshot, Volatility};

pub(super) async fn load_builtin<Q: Query>(
    q: &mut Q,
) -> Result<HashMap<String, Vec<Function>>, CatalogError<Q::Error>> {
    // Arguments tell which of a name is called; that matters to the type of its result, and for those alone.
    let sql = "SELECT DISTINCT p.proname, 'pg_catalog', p.prokind, p.provolatile, p.proretset, false, p.prorettype::oid::text, false, \
                      CASE WHEN o.differ AND p.prokind = 'f' AND p.provariadic = 0 THEN p.proargtypes::text END \
               FROM pg_proc p JOIN (SELECT proname, min(prorettype) <> max(prorettype) AS differ FROM pg_proc \
                                     WHERE pronamespace = 'pg_catalog'::regnamespace GROUP BY proname) o USING (proname) \
               WHERE p.pronamespace = 'pg_catalog'::regnamespace ORDER BY p.proname";
    let mut functions: HashMap<String, Vec<Function>> = HashMap::new();
    let mut rows = reading(q, sql).await?;
    while let Some(mut row) = rows.next().await {
        let name = row.text();
        let dynamic = RUN_TEXT.contains(&name.as_str());
        let function = function(&mut row)?;
        let arguments =
            row.opt().map(|oids| oids.split_ascii_whitespace().filter_map(|oid| oid.parse().ok()).collect());
        functions.entry(name).or_default().push(Function { dynamic, arguments, ..function });
    }
    Ok(functions)
}

fn function<E: std::error::Error>(row: &mut crate::cells::Cells) -> Result<Function, CatalogError<E>> {
    Ok(Function {
        schema: row.text(),
        kind: match row.char() {
            b'a' => FunctionKind::Aggregate,
            b'w' => FunctionKind::Window,
            b'p' => FunctionKind::Procedure,
            _ => FunctionKind::Function,
        },
        volatility: match row.char() {
            b'i' => Volatility::Immutable,
            b's' => Volatility::Stable,
            _ => Volatility::Volatile,
        },
        returns_set: row.boolean(),
        user_defined: row.boolean(),
        returns: row.number()?,
        arguments: None,
        reads_herd_tables: false,
        needs_home: false,
        dynamic: false,
        varies: false,
        of_row: row.boolean(),
    })
}

pub(super) async fn load_user<Q: Query>(q: &mut Q, snapshot: &mut Snapshot) -> Result<(), CatalogError<Q::Error>> {
    let sql = format!(
        "SELECT p.proname, n.nspname, p.prokind, p.provolatile, p.proretset, \
                NOT EXISTS (SELECT FROM pg_depend e WHERE e.classid = 'pg_proc'::regclass AND e.objid = p.oid AND e.deptype = 'e'), \
                p.prorettype::oid::text, \
                p.pronargs > 0 AND p.pronargs - p.pronargdefaults <= 1 \
                  AND EXISTS (SELECT FROM pg_type t WHERE t.oid = p.proargtypes[0] AND t.typtype IN ('c', 'd', 'p')) \
         FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE {NOT_SYSTEM}"
    );
    let mut rows = reading(q, &sql).await?;
    while let Some(mut row) = rows.next().await {
        let name = row.text();
        let function = function(&mut row)?;
        let overloads = snapshot.functions.entry(name).or_default();
        if !overloads.contains(&function) {
            overloads.push(function);
        }
    }
    Ok(())
}

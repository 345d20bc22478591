//! What has the same value on every node, so that a statement may be run on each in place of once.
//!
//! Proven by the catalog (immutable functions) or by a list of stable ones that read nothing but their arguments and
//! settings the router gives to each connection. Everything else may differ: it is evaluated once, or refused.

use catalog::code::can_mean;
use catalog::{Column, FunctionKind, Snapshot, Volatility};
use sql::body::{Body, Name};

use crate::clock_text;

/// Stable built-in functions that depend on nothing but arguments and session settings (DateStyle, TimeZone, role, search
/// path…), which are the same on all connections of a session.
const SAME: [&str; 42] = [
    "array_to_json",
    "array_to_string",
    "concat",
    "concat_ws",
    "current_schema",
    "current_user",
    "date",
    "date_part",
    "date_trunc",
    "extract",
    "format",
    "generate_series",
    "isfinite",
    "json_build_array",
    "json_build_object",
    "json_populate_record",
    "json_populate_recordset",
    "json_to_record",
    "json_to_recordset",
    "jsonb_build_array",
    "jsonb_build_object",
    "jsonb_populate_record",
    "jsonb_populate_recordset",
    "jsonb_to_record",
    "jsonb_to_recordset",
    "length",
    "make_timestamptz",
    "overlaps",
    "quote_literal",
    "quote_nullable",
    "row_to_json",
    "session_user",
    "time",
    "timestamp",
    "timestamptz",
    "timezone",
    "to_char",
    "to_date",
    "to_json",
    "to_jsonb",
    "to_number",
    "to_timestamp",
];

/// Aggregates whose result does not depend on the order of rows, which may differ from copy to copy (of sums of floats see `order.rs`).
const UNORDERED: [&str; 15] = [
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "count",
    "cume_dist",
    "dense_rank",
    "every",
    "max",
    "min",
    "percent_rank",
    "rank",
    "sum",
];

/// An aggregate of that name, where it is PostgreSQL's, gives one value for a group.
pub fn is_unordered_aggregate(name: &str) -> bool {
    UNORDERED.contains(&name)
}

/// A built-in function of this name gives the same on each node.
pub fn is_same_everywhere(snapshot: &Snapshot, name: &str) -> bool {
    SAME.contains(&name)
        || snapshot.builtin_functions.get(name).is_some_and(|all| {
            all.iter().all(|f| {
                f.volatility == Volatility::Immutable
                    && (f.kind != FunctionKind::Aggregate || UNORDERED.contains(&name))
            })
        })
}

/// As [`differs`], of a column's default: what its text leaves unqualified is PostgreSQL's own.
pub fn default_differs(snapshot: &Snapshot, column: &Column) -> bool {
    column.sequence.is_some() || column.default.as_deref().is_some_and(|default| text_differs(snapshot, default))
}

/// The same of a default's text.
pub fn text_differs(snapshot: &Snapshot, default: &str) -> bool {
    differs(snapshot, &[], &Body::of_sql(&format!("SELECT {default}"))).is_some()
        || clock_text::read_by_default(snapshot, default)
}

/// A column's default means the same beside a transaction as in it: what it calls of users' own reads nothing, and no sequence is asked, which the
/// transaction may have made or locked.
pub fn default_reads_nothing(snapshot: &Snapshot, default: &str) -> bool {
    let body = Body::of_sql(&format!("SELECT {default}"));
    let reads = |(schema, name): &Name| {
        let own = snapshot.functions.get(name).into_iter().flatten();
        let mut own = own.filter(|f| can_mean(schema.as_deref(), &[], &f.schema));
        matches!(name.as_str(), "nextval" | "setval") || own.any(|f| f.volatility != Volatility::Immutable)
    };
    let is_own = |(schema, name): &Name| {
        snapshot.operators.get(name).into_iter().flatten().any(|o| can_mean(schema.as_deref(), &[], &o.schema))
    };
    !body.calls.iter().any(reads) && !body.operators.iter().any(is_own)
}

/// What in a statement may have another value on another node, in the user's words. The statement's time is not among it:
/// the router has put in one; nor are moments that text stands for (`clock_text.rs`). Names are looked up along `path`.
pub fn differs(snapshot: &Snapshot, path: &[String], body: &Body) -> Option<String> {
    if let Some(varies) = &body.varies {
        return Some(varies.clone());
    }
    let harmful = |(schema, name): &&Name| {
        let all = snapshot.operators.get(name).into_iter().flatten();
        all.into_iter().any(|o| can_mean(schema.as_deref(), path, &o.schema))
    };
    if let Some((_, name)) = body.operators.iter().find(harmful) {
        return Some(format!("operator {name}"));
    }
    body.calls.iter().find_map(|(schema, name)| {
        // Of functions of users' own, their word counts, where their bodies bear it out.
        let own = snapshot.functions.get(name).into_iter().flatten();
        let mut own = own.filter(|f| can_mean(schema.as_deref(), path, &f.schema)).peekable();
        let builtin = builtin_differs(snapshot, schema.as_deref(), name, own.peek().is_some());
        // Aggregates and windows are immutable in pg_proc whatever they make of the order of rows.
        let same = own.all(|f| {
            let of_rows = matches!(f.kind, FunctionKind::Aggregate | FunctionKind::Window);
            f.volatility == Volatility::Immutable && !f.needs_home && !f.dynamic && !f.varies && !of_rows
        });
        (builtin || !same).then(|| format!("{name}()"))
    })
}

/// What a name can mean besides functions of users' own may differ: PostgreSQL's function of that name, which every path
/// finds, or something that nobody here knows. `own`: there is one of users' own.
pub fn builtin_differs(snapshot: &Snapshot, schema: Option<&str>, name: &str, own: bool) -> bool {
    match schema.is_none_or(|s| s == "pg_catalog") {
        true if own && !snapshot.builtin_functions.contains_key(name) => false,
        true => !is_same_everywhere(snapshot, name),
        false => !own,
    }
}

//! Which statements a standby of their nodes answers as the nodes themselves would, had they the standby's state: those that read rows of
//! tables and do nothing else.
//!
//! What writes fails on a standby, and is found out there. What is looked for here is everything else that belongs to one server: locks,
//! sequences, what sessions or transactions are and do, statistics, settings of the server; and code whose doings are not known, which is
//! users' own. Judged by the tree, views in it replaced by their queries; in doubt the primary is asked. How far a standby lags, and what the
//! session has done before, is not known here.

use catalog::{Placement, RelationKind, Volatility};
use sql::{NodeEnum, names, relations, search};
use wire::type_oid;

use crate::Context;
use crate::types::{Planned, Sequences};

/// Whether `statement`, with queries in place of its views, is such a read, as it was planned.
pub fn of(statement: &NodeEnum, plan: &Planned, cx: &Context) -> bool {
    let whole = match plan {
        Planned::Forward(whole) | Planned::Query { whole, tree: Ok(_) } => whole,
        _ => return false,
    };
    let NodeEnum::SelectStmt(select) = statement else { return false };
    let untouched = !whole.writes && whole.sequences == Sequences::None && whole.current_of.is_none();
    let named = relations::of(statement);
    untouched
        && select.into_clause.is_none()
        && !named.is_empty()
        && named.into_iter().all(|rv| is_of_rows(rv, cx))
        && !search::any(statement, |n| is_of_server(n, cx))
}

/// A table whose rows are all there is to it, or a materialized view. Policies run code; a catalog speaks of its server; where there are
/// foreign tables, one may be a partition, or a child, of a table of home's; and what types of users' own do is not known.
fn is_of_rows(rv: &sql::ast::RangeVar, cx: &Context) -> bool {
    cx.relation(rv).is_some_and(|r| {
        let foreign = || cx.snapshot.relations.values().any(|r| r.kind == RelationKind::ForeignTable);
        if matches!(r.placement, Placement::Local) && foreign()
            || r.columns.iter().any(|c| c.type_oid >= type_oid::FIRST_NORMAL_OBJECT_ID)
        {
            return false;
        }
        let of_herd = r.schema == "herd" || r.schema.starts_with("pg_") || r.schema == "information_schema";
        matches!(r.kind, RelationKind::Table | RelationKind::MaterializedView) && !r.row_security && !of_herd
    })
}

fn is_of_server(n: &NodeEnum, cx: &Context) -> bool {
    let made = |name: &str| cx.snapshot.own_operators.contains_key(name) || cx.snapshot.operators.contains_key(name);
    match n {
        NodeEnum::LockingClause(_) | NodeEnum::CurrentOfExpr(_) => true,
        NodeEnum::TypeCast(c) => c.type_name.as_ref().is_none_or(|t| names_own(t, cx)),
        NodeEnum::ColumnDef(d) => d.type_name.as_ref().is_none_or(|t| names_own(t, cx)),
        NodeEnum::SortBy(s) => !s.use_op.is_empty(),
        NodeEnum::AExpr(e) => made(names::last(&e.name)),
        NodeEnum::SubLink(s) => !s.oper_name.is_empty() && made(names::last(&s.oper_name)),
        NodeEnum::FuncCall(f) => {
            let mut meant = cx.functions(&f.funcname).peekable();
            let known = meant.peek().is_some();
            !known
                || speaks_of_server(names::last(&f.funcname))
                || meant.any(|f| f.user_defined || may_act(f.volatility))
        }
        _ => false,
    }
}

/// A type that may be of users' own: their domains' conditions run code.
fn names_own(t: &sql::ast::TypeName, cx: &Context) -> bool {
    let name = names::last(&t.names);
    type_oid::named(name).is_none() || cx.snapshot.types.values().any(|own| own.name == name)
}

fn may_act(volatility: Volatility) -> bool {
    volatility == Volatility::Volatile
}

/// PostgreSQL's own stable functions that answer for the server, the session or the transaction they are called in, or read whatever
/// their arguments name (pg_proc.dat, looked through for 15 to 18). All others read their arguments, the catalog's names, the clock and
/// the session's settings, which are the same everywhere.
pub(crate) fn speaks_of_server(name: &str) -> bool {
    ["pg_", "inet_", "txid_"].iter().any(|of| name.starts_with(of))
        || matches!(name, "current_setting" | "version")
        || name.contains("_to_xml")
}

//! Which INSERTs of rows may be put together with those of other clients: their rows then go to the nodes by COPY, many
//! statements' rows in one transaction over the nodes.
//!
//! Only `VALUES` of constants and parameters pass, into tables whose rows are all there is to it (see `share.rs`): what
//! is not given must come out the same wherever and by whomever it is computed. It does not know how rows travel.

use catalog::{Placement, Relation};
use sql::ast::{self, Node, a_const::Val};
use sql::{NodeEnum, names};

use crate::Context;
use crate::keys;
use crate::share;
use crate::types::{Cell, KeyExpr, Planned, ShareRows};
use wire::type_oid;

/// Rows of a statement; longer ones are batches already.
const ROWS_MAX: usize = 500;

/// `None`: its rows go by themselves.
pub fn of(statement: &NodeEnum, plan: &Planned, cx: &Context) -> Option<ShareRows> {
    let NodeEnum::InsertStmt(insert) = statement else { return None };
    let plain = insert.with_clause.is_none()
        && insert.on_conflict_clause.is_none()
        && insert.returning_clause.is_none()
        && insert.r#override == ast::OverridingKind::OverridingNotSet as i32
        && plan.whole().rewritten.is_none();
    // One row of one shard has a way of its own, without a transaction over nodes.
    let routed = plan.whole().share.is_some() && plan.is_whole();
    if !plain || routed {
        return None;
    }
    // A local table is on one node: nothing is to be gained, and its kind might change meanwhile.
    let relation = share::table(insert.relation.as_ref()?, true, cx)?;
    if matches!(relation.placement, Placement::Local) {
        return None;
    }
    // Rows of two statements that need each other would both pass.
    if relation.refers_to_itself {
        return None;
    }
    let lists = match insert.select_stmt.as_deref()?.node.as_ref()? {
        NodeEnum::SelectStmt(s) if (1..=ROWS_MAX).contains(&s.values_lists.len()) && s.with_clause.is_none() => {
            &s.values_lists
        }
        _ => return None,
    };
    let mut columns: Vec<usize> = match insert.cols.is_empty() {
        true => (0..relation.columns.len()).collect(),
        false => insert.cols.iter().map(|c| share::target(c, &relation)).collect::<Option<_>>()?,
    };
    let items = |list: &Node| match &list.node {
        Some(NodeEnum::List(l)) => Some(l.items.len()),
        _ => None,
    };
    let width = items(lists.first()?)?;
    if width > columns.len() {
        return None;
    }
    columns.truncate(width);
    let clocks = filled_by_clock(&relation, &columns, cx)?;
    let mut rows = Vec::with_capacity(lists.len());
    for list in lists {
        let Some(NodeEnum::List(list)) = &list.node else { return None };
        if list.items.len() != width {
            return None;
        }
        let given = list.items.iter().zip(&columns).map(|(value, column)| cell(value, &relation, *column));
        let clocks = clocks.iter().map(|_| Some(Cell::Now));
        rows.push(given.chain(clocks).collect::<Option<Vec<Cell>>>()?);
    }
    columns.extend(clocks);
    // Columns that are not named are meant by their places, which a name may leave before the rows arrive.
    let positional = insert.cols.is_empty();
    if positional && columns.iter().copied().ne(0..relation.columns.len()) {
        return None;
    }
    Some(ShareRows { relation, columns, positional, rows })
}

/// Columns left out whose default is the time: it is the statement's, not the transaction's it travels in. `None`: a
/// default, or a given column, is of another kind that must not be shared.
fn filled_by_clock(relation: &Relation, given: &[usize], cx: &Context) -> Option<Vec<usize>> {
    let key: &[usize] = relation.distribution().map_or(&[], |d| &d.key);
    let mut clocks = Vec::new();
    for (i, column) in relation.columns.iter().enumerate() {
        if given.contains(&i) {
            if column.generated || column.identity == b'a' {
                return None;
            }
            continue;
        }
        let Some(default) = column.default.as_deref().filter(|_| column.sequence.is_none()) else { continue };
        if column.type_oid == type_oid::TIMESTAMPTZ && matches!(default, "now()" | "CURRENT_TIMESTAMP") {
            clocks.push(i);
        } else if key.contains(&i)
            || matches!(relation.placement, Placement::Reference)
            || crate::reads::reads_clock(column)
            || share::speaks_of_session(default, cx)
        {
            return None;
        }
    }
    Some(clocks)
}

fn cell(value: &Node, relation: &Relation, column: usize) -> Option<Cell> {
    let ty = relation.columns[column].type_oid;
    if !share::is_read_from_text(ty) {
        return None;
    }
    match value.node.as_ref()? {
        NodeEnum::TypeCast(t) => {
            let name = names::plain_type(t.type_name.as_ref()?)?;
            let same = t.type_name.as_ref()?.typmods.is_empty() && type_oid::named(name) == Some(ty);
            same.then(|| cell(t.arg.as_deref()?, relation, column))?
        }
        NodeEnum::ParamRef(_) => match keys::constant(value)? {
            KeyExpr::Param(n) => Some(Cell::Param(n)),
            _ => None,
        },
        NodeEnum::AConst(c) => match (&c.val, keys::constant(value)) {
            (Some(Val::Boolval(b)), _) if ty == type_oid::BOOL => Some(Cell::Fixed(if b.boolval { "t" } else { "f" })),
            (_, Some(KeyExpr::Null)) => Some(Cell::Null),
            (_, Some(KeyExpr::Literal { location: Some(location), text, kind, .. })) => {
                share::reads(ty, kind).then_some(Cell::Literal { location, text, kind })
            }
            _ => None,
        },
        _ => None,
    }
}

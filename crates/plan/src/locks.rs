//! FOR UPDATE and FOR SHARE of reference tables: rows of every copy are one row, so whoever locks it locks home's copy.
//!
//! It does not know where the statement goes otherwise.

use catalog::RelationKind;
use sql::NodeEnum;
use sql::ast;
use sql::walk::{self, Visit};

use crate::{Change, Context, Insert, Planned, Refusal, Result};

/// Sends a statement that locks rows of reference tables to home, or refuses it where other nodes have other parts of it.
pub fn at_home(plan: &mut Planned, statement: &NodeEnum, cx: &Context) -> Result<()> {
    if !plan.whole().reads_reference {
        return Ok(());
    }
    let mut find = Find { cx, found: None };
    if let NodeEnum::SelectStmt(s) = statement {
        find.select(s);
    }
    walk::below(statement, &mut find);
    let Some(table) = find.found else { return Ok(()) };
    match plan {
        Planned::Forward(whole) => {
            whole.needs_home = true;
            Ok(())
        }
        // Home runs it, for all copies or as one of them.
        Planned::Modify { change: Change::Copies(_), .. } | Planned::Insert { rows: Insert::Copies(_), .. } => Ok(()),
        _ => Err(Refusal::new(
            format!("rows of the reference table \"{table}\" can't be locked beside those of distributed tables"),
            "Say FOR UPDATE OF the distributed table, and lock the reference table's rows by a statement of their own.",
        )),
    }
}

struct Find<'s, 'c> {
    cx: &'c Context<'c>,
    found: Option<&'s str>,
}

impl<'s> Visit<'s> for Find<'s, '_> {
    fn select(&mut self, s: &'s ast::SelectStmt) -> bool {
        self.found = self.found.or_else(|| locked_copy(s, self.cx));
        self.found.is_none()
    }
}

/// A reference table, or a view that may read one, whose rows this SELECT locks.
fn locked_copy<'s>(s: &'s ast::SelectStmt, cx: &Context) -> Option<&'s str> {
    let clauses = s.locking_clause.iter().filter_map(|n| match &n.node {
        Some(NodeEnum::LockingClause(c)) => Some(c),
        _ => None,
    });
    clauses.into_iter().find_map(|c| {
        let name = |n: &'s ast::Node| match &n.node {
            Some(NodeEnum::RangeVar(rv)) => Some(rv.relname.as_str()),
            _ => None,
        };
        let named: Vec<&str> = c.locked_rels.iter().filter_map(name).collect();
        s.from_clause.iter().find_map(|item| copy_in(item, &named, cx))
    })
}

/// `named`: what the clause names; none: all.
fn copy_in<'s>(item: &'s ast::Node, named: &[&str], cx: &Context) -> Option<&'s str> {
    let is_named = |alias: &Option<ast::Alias>, name: &str| {
        let name = alias.as_ref().map_or(name, |a| a.aliasname.as_str());
        named.is_empty() || named.contains(&name)
    };
    match item.node.as_ref()? {
        NodeEnum::RangeVar(rv) if is_named(&rv.alias, &rv.relname) => {
            let relation = cx.relation(rv)?;
            (relation.is_reference() || relation.kind == RelationKind::View).then_some(rv.relname.as_str())
        }
        NodeEnum::JoinExpr(j) => {
            let sides = [j.larg.as_deref(), j.rarg.as_deref()];
            sides.into_iter().flatten().find_map(|side| copy_in(side, named, cx))
        }
        // It locks what is inside.
        NodeEnum::RangeSubselect(sub) if is_named(&sub.alias, "") => match sub.subquery.as_deref()?.node.as_ref()? {
            NodeEnum::SelectStmt(s) => s.from_clause.iter().find_map(|item| copy_in(item, &[], cx)),
            _ => None,
        },
        _ => None,
    }
}

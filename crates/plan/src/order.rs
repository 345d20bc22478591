//! What in a change of a reference table depends on the order in which rows are met: each copy has an order of its own, so it
//! could come out differently on each.
//!
//! What is not shown to be the same counts as different: windows without a unique order, DISTINCT ON without one, sums of
//! floats, one of several values that are equal and look different (`order/ties.rs`), and a row that several rows of FROM could change
//! (`matches.rs`). It does not know which tables have copies.

pub(crate) mod possible;
mod ties;

use catalog::{Relation, UniqueIndex};
use sql::ast::{self, Node, SelectStmt};
use sql::walk::Visit;
use sql::{NodeEnum, names, search};

use crate::Context;
use crate::matches;
use possible::Possible;
use ties::TieSearch;
pub(crate) use ties::is_identical;

/// Window functions that give rows of equal order the same.
const PEERS: [&str; 4] = ["rank", "dense_rank", "percent_rank", "cume_dist"];
/// Aggregates that can be window functions, of which the order of peers is all that their frame adds.
const SETS: [&str; 8] = ["count", "min", "max", "sum", "avg", "bool_and", "bool_or", "every"];
/// parsenodes.h: the frame counts rows.
const FRAMEOPTION_ROWS: i32 = 0x4;

/// The first of it in a statement, in the user's words.
pub fn depends(statement: &NodeEnum, cx: &Context) -> Option<String> {
    let possible = Possible::new(cx, statement);
    let ties = TieSearch::new(cx, statement, &possible);
    let mut find = Find { cx, statement, possible: &possible, ties, found: None };
    if let NodeEnum::UpdateStmt(update) = statement
        && let Some(item) = matches::several(update, cx, &possible)
    {
        return Some(format!("UPDATE … FROM {item}, of which several rows could match one,"));
    }
    search::visit(statement, &mut find);
    find.found
}

struct Find<'f> {
    cx: &'f Context<'f>,
    statement: &'f NodeEnum,
    possible: &'f Possible<'f>,
    ties: TieSearch<'f>,
    found: Option<String>,
}

impl<'a> Visit<'a> for Find<'_> {
    fn node(&mut self, n: &'a NodeEnum) -> bool {
        if let NodeEnum::FuncCall(call) = n {
            let name = names::last(&call.funcname);
            if matches!(name, "sum" | "avg") && call.args.iter().any(|arg| self.may_be_float(arg)) {
                self.found.get_or_insert_with(|| format!("{name}() of what may be floats"));
            }
            self.found = self.found.take().or_else(|| self.ties.of_call(call));
        }
        if let NodeEnum::SubLink(link) = n
            && link.sub_link_type == ast::SubLinkType::ArraySublink as i32
            && let Some(NodeEnum::SelectStmt(s)) = link.subselect.as_deref().and_then(|s| s.node.as_ref())
            && !self.is_ordered(s)
        {
            self.found.get_or_insert_with(|| "ARRAY(SELECT …) without a unique order".into());
        }
        self.found.is_none()
    }

    fn select(&mut self, s: &'a SelectStmt) -> bool {
        self.found = self.found.take().or_else(|| self.of_select(s)).or_else(|| self.ties.of_select(s));
        self.found.is_none()
    }
}

impl Find<'_> {
    fn of_select(&self, s: &SelectStmt) -> Option<String> {
        // Which rows are locked is another thing on each node, and at each moment.
        let skips = |n: &Node| matches!(&n.node, Some(NodeEnum::LockingClause(l)) if l.wait_policy == ast::LockWaitPolicy::LockWaitSkip as i32);
        if s.locking_clause.iter().any(skips) {
            return Some("SKIP LOCKED".into());
        }
        if s.limit_count.is_some() || s.limit_offset.is_some() {
            return Some("LIMIT".into());
        }
        let table = self.only_table(s);
        let on = !s.distinct_clause.is_empty() && s.distinct_clause[0].node.is_some();
        if on && !is_unique(table, s, s.distinct_clause.iter().chain(&s.sort_clause)) {
            return Some("DISTINCT ON without a unique order".into());
        }
        let mut unsure = None;
        for n in s.target_list.iter().chain(&s.sort_clause) {
            search::each(n, |n| {
                if let NodeEnum::FuncCall(call) = n
                    && let Some(over) = &call.over
                    && !self.is_settled(call, over, s, table)
                {
                    unsure.get_or_insert_with(|| {
                        format!("window function {}() without a unique order", names::last(&call.funcname))
                    });
                }
            });
        }
        unsure
    }

    fn is_settled(
        &self,
        call: &ast::FuncCall,
        over: &ast::WindowDef,
        s: &SelectStmt,
        table: Option<&Relation>,
    ) -> bool {
        let named = |name: &str| {
            s.window_clause.iter().find_map(|w| match &w.node {
                Some(NodeEnum::WindowDef(w)) if w.name == name => Some(w.as_ref()),
                _ => None,
            })
        };
        // OVER w, OVER (w …), and windows made of windows.
        let mut windows = vec![over];
        while let Some(last) = windows.last() {
            let of = if last.refname.is_empty() && windows.len() == 1 { &last.name } else { &last.refname };
            match named(of).filter(|_| !of.is_empty() && windows.len() <= s.window_clause.len()) {
                Some(w) => windows.push(w),
                None => break,
            }
        }
        let name = names::last(&call.funcname);
        let rows = windows.iter().any(|w| w.frame_options & FRAMEOPTION_ROWS != 0);
        let own = self.cx.functions(&call.funcname).any(|f| f.user_defined);
        if !own && (PEERS.contains(&name) || (SETS.contains(&name) && !rows)) {
            return true;
        }
        is_unique(table, s, windows.iter().flat_map(|w| w.partition_clause.iter().chain(&w.order_clause)))
    }

    /// Its rows come in one order: that of a unique key, or of what is made without tables.
    fn is_ordered(&self, s: &SelectStmt) -> bool {
        let made = match &s.from_clause[..] {
            [] => true,
            [one] => matches!(one.node, Some(NodeEnum::RangeFunction(_))),
            _ => false,
        };
        let plain = s.larg.is_none() && s.distinct_clause.is_empty() && s.group_clause.is_empty();
        (made && plain) || is_unique(self.only_table(s), s, s.sort_clause.iter())
    }

    /// The table that is all of FROM, by its own columns' names.
    fn only_table(&self, s: &SelectStmt) -> Option<&Relation> {
        let [Node { node: Some(NodeEnum::RangeVar(rv)) }] = &s.from_clause[..] else { return None };
        let renamed = rv.alias.as_ref().is_some_and(|a| !a.colnames.is_empty());
        let plain = s.group_clause.is_empty() && s.larg.is_none() && !renamed;
        let found = self.cx.relation(rv).filter(|_| plain && !named_by_with(self.statement, &rv.relname));
        found.map(|r| &**r)
    }

    /// The type is not known to be another one.
    fn may_be_float(&self, n: &Node) -> bool {
        self.possible.of(n).is_none_or(|kinds| kinds.iter().any(|(oid, _)| possible::may_be_float(*oid)))
    }
}

/// A WITH query has that name somewhere.
fn named_by_with(statement: &NodeEnum, name: &str) -> bool {
    search::any(statement, |n| matches!(n, NodeEnum::CommonTableExpr(c) if c.ctename == name))
}

/// No two rows of the table, which is all that `s` reads, are equal in all of these columns.
fn is_unique<'n>(table: Option<&Relation>, s: &SelectStmt, by: impl Iterator<Item = &'n Node>) -> bool {
    let (Some(table), [Node { node: Some(NodeEnum::RangeVar(rv)) }]) = (table, &s.from_clause[..]) else {
        return false;
    };
    let shown = rv.alias.as_ref().map_or(rv.relname.as_str(), |a| a.aliasname.as_str());
    let columns: Vec<&str> = by
        .filter_map(|n| match n.node.as_ref()? {
            NodeEnum::SortBy(s) if s.use_op.is_empty() => names::column(s.node.as_deref()?),
            NodeEnum::SortBy(_) => None,
            _ => names::column(n),
        })
        .filter_map(|c| match c[..] {
            [column] if !is_output(s, column) => Some(column),
            [.., table, column] if table == shown => Some(column),
            _ => None,
        })
        .collect();
    let has = |u: &UniqueIndex| {
        u.columns.iter().all(|c| table.columns[*c].not_null && columns.contains(&table.columns[*c].name.as_str()))
    };
    table.unique.iter().filter(|u| u.plain).any(has)
}

/// Something else than the column of that name is put out by it: ORDER BY and DISTINCT ON mean that.
fn is_output(s: &SelectStmt, name: &str) -> bool {
    s.target_list.iter().any(|t| {
        let Some(NodeEnum::ResTarget(t)) = &t.node else { return true };
        let Some(value) = t.val.as_deref() else { return true };
        let itself = names::column(value).is_some_and(|c| c.last() == Some(&name));
        let given = if t.name.is_empty() { names::figure_column(value) } else { t.name.clone() };
        given == name && !itself
    })
}

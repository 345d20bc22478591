//! Changes to a tree that several planners need: output positions and aliases, `now()`, constant counts.

use sql::ast::{self, Node, a_const::Val};
use sql::{NodeEnum, search};
use sql::{build, names};

use crate::reads::parse_expression;
use crate::scope::Scope;
use crate::text;
use crate::tree::Count;
use crate::{Refusal, Result};

/// What an item of ORDER BY or DISTINCT ON stands for when it is a position or an output name: one that was given, or that PostgreSQL
/// makes of the expression (`CASE … ELSE s END` and `s::text` are named `s`).
pub fn output_item<'a>(item: &'a Node, s: &'a ast::SelectStmt) -> Option<&'a Node> {
    given_item(item, s).or_else(|| {
        let name = names::column(item).filter(|c| c.len() == 1)?;
        let values = s.target_list.iter().filter(|t| !is_star(t)).filter_map(|t| match &t.node {
            Some(NodeEnum::ResTarget(t)) if t.name.is_empty() => t.val.as_deref(),
            _ => None,
        });
        // A column's own name is the column.
        let mut others = values.filter(|v| names::column(v).is_none());
        others.find(|v| names::figure_column(v) == name[0])
    })
}

/// A position, or a name that was given.
fn given_item<'a>(item: &'a Node, s: &'a ast::SelectStmt) -> Option<&'a Node> {
    match item.node.as_ref()? {
        NodeEnum::AConst(ast::AConst { val: Some(Val::Ival(i)), .. }) => {
            let before = s.target_list.iter().take(i.ival.max(0) as usize);
            if before.clone().any(is_star) {
                return None;
            }
            target_value(s.target_list.get(usize::try_from(i.ival).ok()?.checked_sub(1)?)?)
        }
        NodeEnum::ColumnRef(c) if c.fields.len() == 1 => {
            let name = *names::strings(&c.fields).first()?;
            let mut matching = s.target_list.iter().filter_map(|t| match &t.node {
                Some(NodeEnum::ResTarget(t)) if t.name == name => t.val.as_deref(),
                _ => None,
            });
            matching.next()
        }
        _ => None,
    }
}

/// What an item of GROUP BY stands for.
pub enum GroupItem<'a> {
    Itself,
    /// An output column, by its position or its name.
    Output(&'a Node),
    /// A name that an output column has, and that a column of FROM may have.
    Unsure(&'a Node),
}

/// A name means a column of FROM before it means an output column. `scope`: what FROM has, if that is known.
pub fn group_item<'a>(item: &'a Node, s: &'a ast::SelectStmt, scope: Option<&Scope>) -> GroupItem<'a> {
    let Some(found) = given_item(item, s) else { return GroupItem::Itself };
    let named = names::column(item);
    let Some(&[name]) = named.as_deref() else { return GroupItem::Output(found) };
    if names::column(found).is_some_and(|c| c.last() == Some(&name)) {
        // The same column, or there would be two of that name; but one that is merged is neither side's.
        return match scope.is_some_and(|scope| scope.merged.contains_key(name)) {
            true => GroupItem::Itself,
            false => GroupItem::Output(found),
        };
    }
    match scope.and_then(|scope| scope.has_column(name)) {
        Some(true) => GroupItem::Itself,
        Some(false) => GroupItem::Output(found),
        None => GroupItem::Unsure(found),
    }
}

/// As [`output_item`], but which output column it is, from 1, in a list without stars. A position stays one: an
/// expression put in its place would itself be read as a position where it is a constant.
pub fn output_position(item: &Node, s: &ast::SelectStmt) -> Option<i32> {
    match item.node.as_ref()? {
        NodeEnum::AConst(ast::AConst { val: Some(Val::Ival(i)), .. }) => Some(i.ival),
        NodeEnum::ColumnRef(c) if c.fields.len() == 1 => {
            let name = *names::strings(&c.fields).first()?;
            let named = |t: &Node| matches!(&t.node, Some(NodeEnum::ResTarget(t)) if t.name == name);
            i32::try_from(s.target_list.iter().position(named)? + 1).ok()
        }
        _ => None,
    }
}

/// The name of a part's n-th hidden sort column: one that none of its ORDER BY items finds.
pub fn hidden_name(s: &ast::SelectStmt, n: usize) -> String {
    let mut name = format!("%s{n}");
    let taken = |name: &str| {
        s.sort_clause.iter().any(|item| match &item.node {
            Some(NodeEnum::SortBy(s)) => s.node.as_deref().and_then(names::column).is_some_and(|c| c == [name]),
            _ => false,
        })
    };
    while taken(&name) {
        name.push('_');
    }
    name
}

/// `*`, `t.*` or `(composite).*`: more than one column, or none.
pub fn is_star(target: &Node) -> bool {
    match target_value(target).and_then(|v| v.node.as_ref()) {
        Some(NodeEnum::ColumnRef(c)) => names::has_star(c),
        Some(NodeEnum::AIndirection(i)) => {
            matches!(i.indirection.last(), Some(Node { node: Some(NodeEnum::AStar(_)) }))
        }
        _ => false,
    }
}

/// The expression of an output column.
pub fn target_value(target: &Node) -> Option<&Node> {
    match target.node.as_ref()? {
        NodeEnum::ResTarget(t) => t.val.as_deref(),
        _ => None,
    }
}

/// LIMIT or OFFSET is an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotConstant;

/// LIMIT or OFFSET as a constant or parameter. `Ok(None)`: none or NULL (`ALL`); `Err`: an expression.
pub fn count(node: Option<&Node>) -> std::result::Result<Option<Count>, NotConstant> {
    match node.and_then(|n| n.node.as_ref()) {
        None => Ok(None),
        Some(NodeEnum::AConst(c)) if c.isnull => Ok(None),
        Some(NodeEnum::AConst(ast::AConst { val: Some(Val::Ival(i)), .. })) => {
            u64::try_from(i.ival).map(|n| Some(Count::Constant(n))).map_err(|_| NotConstant)
        }
        Some(NodeEnum::AConst(ast::AConst { val: Some(Val::Fval(f)), .. })) => {
            f.fval.parse().map(|n| Some(Count::Constant(n))).map_err(|_| NotConstant)
        }
        Some(NodeEnum::ParamRef(p)) => Ok(Some(Count::Param(p.number.max(0) as usize))),
        // As a driver writes what it has no type for.
        Some(NodeEnum::TypeCast(t))
            if matches!(t.type_name.as_ref().and_then(names::plain_type), Some("int8" | "int4" | "int2")) =>
        {
            match count(t.arg.as_deref()) {
                Ok(known @ (None | Some(Count::Param(_)))) => Ok(known),
                _ => Err(NotConstant),
            }
        }
        _ => Err(NotConstant),
    }
}

/// Takes ONLY off distributed tables: to their users they have no partitions, unless they have made some. True if there was one.
pub fn drop_only(node: &mut NodeEnum, cx: &crate::Context) -> bool {
    let mut dropped = false;
    search::each_relation_mut(node, |rv| {
        if !rv.inh && cx.relation(rv).and_then(|r| r.distribution()).is_some_and(|d| !d.is_partitioned()) {
            rv.inh = true;
            dropped = true;
        }
    });
    dropped
}

/// `value::type_name`, the type as `format_type` writes it.
pub fn cast(value: &Node, type_name: &str) -> Result<Node> {
    let mut cast = parse_expression(&format!("NULL::{type_name}"));
    if let Some(Node { node: Some(NodeEnum::TypeCast(c)) }) = &mut cast {
        c.arg = Some(Box::new(value.clone()));
    }
    cast.ok_or_else(|| Refusal::bare(format!("internal: type {type_name} could not be read")))
}

/// Replaces `now()` and its kin by the mark of the statement's one timestamp. True if there were any.
pub fn replace_now(node: &mut NodeEnum) -> bool {
    replace_clock(node, &|_| Some(text::now()))
}

/// Replaces what reads the clock by moments, where there is one for it. True if there were any.
pub fn replace_clock(tree: &mut NodeEnum, moment: &dyn Fn(&ClockType) -> Option<Node>) -> bool {
    let mut found = false;
    search::each_mut(tree, |n| {
        if let Some((ty, value)) = clock_type(n).and_then(|ty| moment(&ty).map(|value| (ty, value))) {
            ty.put(n, value);
            found = true;
            return false;
        }
        match n {
            // A column keeps the name it would have had.
            NodeEnum::ResTarget(t) if t.name.is_empty() => {
                if let Some(value) = t.val.as_deref().filter(|v| is_named_by_clock(v)) {
                    t.name = names::figure_column(value);
                }
            }
            NodeEnum::RangeFunction(f) => {
                if let Some(query) = query_of_clock(f) {
                    *n = query;
                }
            }
            _ => {}
        }
        true
    });
    found
}

/// A column's name comes from what it reads the clock by.
fn is_named_by_clock(value: &Node) -> bool {
    match &value.node {
        Some(NodeEnum::TypeCast(c)) => c.arg.as_deref().is_some_and(is_named_by_clock),
        Some(NodeEnum::CollateClause(c)) => c.arg.as_deref().is_some_and(is_named_by_clock),
        Some(n) => clock_type(n).is_some(),
        None => false,
    }
}

/// `FROM now() AS t`, where there can only be a call, as a query of one column.
fn query_of_clock(f: &ast::RangeFunction) -> Option<NodeEnum> {
    let [Node { node: Some(NodeEnum::List(call)) }] = &f.functions[..] else { return None };
    let value = call.items.first().filter(|n| n.node.as_ref().is_some_and(|n| clock_type(n).is_some()))?;
    if f.ordinality || f.is_rowsfrom || !f.coldeflist.is_empty() {
        return None;
    }
    let alias = f.alias.clone().unwrap_or_else(|| build::alias(&names::figure_column(value)));
    let mut select = build::select();
    select.target_list = vec![build::target(value.clone(), Some(&alias.aliasname))];
    build::subselect(select, Some(alias), f.lateral).node
}

/// What a call that reads the clock gives.
pub struct ClockType {
    pub name: &'static str,
    /// Digits behind the seconds, where they are given; else −1.
    pub digits: i32,
    /// It is the statement's beginning, not the transaction's.
    pub of_statement: bool,
}

impl ClockType {
    /// A moment, a timestamptz or the text of one, as this type in the place of a node.
    pub fn put(&self, n: &mut NodeEnum, moment: Node) {
        let moment = build::cast(moment, "timestamptz");
        let mut cast = match (self.name, self.digits) {
            ("timestamptz", -1) => moment,
            (name, _) => build::cast(moment, name),
        };
        if let (Some(NodeEnum::TypeCast(c)), 0..) = (&mut cast.node, self.digits)
            && let Some(t) = &mut c.type_name
        {
            t.typmods = vec![build::integer(self.digits)];
        }
        if let Some(cast) = cast.node {
            *n = cast;
        }
    }
}

/// `None`: it does not read the clock.
pub fn clock_type(n: &NodeEnum) -> Option<ClockType> {
    use ast::SqlValueFunctionOp::*;
    let (name, digits, of_statement) = match n {
        NodeEnum::FuncCall(f) if f.args.is_empty() => match names::qualified(&f.funcname) {
            (None | Some("pg_catalog"), "now" | "transaction_timestamp") => ("timestamptz", -1, false),
            (None | Some("pg_catalog"), "statement_timestamp") => ("timestamptz", -1, true),
            _ => return None,
        },
        NodeEnum::SqlvalueFunction(f) => match ast::SqlValueFunctionOp::try_from(f.op) {
            Ok(SvfopCurrentTimestamp) => ("timestamptz", -1, false),
            Ok(SvfopCurrentTimestampN) => ("timestamptz", f.typmod, false),
            Ok(SvfopCurrentDate) => ("date", -1, false),
            Ok(SvfopLocaltimestamp) => ("timestamp", -1, false),
            Ok(SvfopLocaltimestampN) => ("timestamp", f.typmod, false),
            Ok(SvfopLocaltime) => ("time", -1, false),
            Ok(SvfopLocaltimeN) => ("time", f.typmod, false),
            Ok(SvfopCurrentTime) => ("timetz", -1, false),
            Ok(SvfopCurrentTimeN) => ("timetz", f.typmod, false),
            _ => return None,
        },
        _ => return None,
    };
    Some(ClockType { name, digits, of_statement })
}

/// Whether any of it reads the clock.
pub fn reads_now(node: &Node) -> bool {
    search::any(node, |n| clock_type(n).is_some())
}

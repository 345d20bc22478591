//! UPDATE of a distributed table that takes a value of a sequence for each row: which rows these are is read first, home takes a value for
//! each of them, and then rows are changed by their primary key, over what was read (`broadcast.rs`). Whatever the statement
//! compares is compared once more when the row is changed, so a row that has become another meanwhile is left alone, as by PostgreSQL.
//! How what is read travels is not known here.

use catalog::{Relation, RelationKind};
use sql::ast::{self, Node};
use sql::{NodeEnum, build, names, search};

use crate::Context;
use crate::reads::{calls_sequence, parse_expression};

/// What the rows are called that are read first, and their columns.
const TAKEN: &str = "herd_taken";

/// The UPDATE over rows that have their values; `None`: it takes none, or not one for each row that it changes.
pub fn by_key(statement: &NodeEnum, cx: &Context) -> Option<NodeEnum> {
    let NodeEnum::UpdateStmt(u) = statement else { return None };
    let rv = u.relation.as_ref()?;
    let relation = cx.relation(rv).filter(|r| r.distribution().is_some() && r.kind == RelationKind::Table)?;
    if !may_take(u, relation, cx) {
        return None;
    }
    let condition = u.where_clause.as_deref();
    let again = |n: &NodeEnum| matches!(n, NodeEnum::SubLink(_) | NodeEnum::CurrentOfExpr(_));
    if relation.row_security
        || !u.from_clause.is_empty()
        || u.with_clause.is_some()
        || condition.is_some_and(|c| search::any(c, again) || calls_sequence(c))
    {
        return None;
    }
    let key = relation.unique.iter().find(|index| index.primary && index.plain)?;
    let known = rv.alias.as_ref().map_or(rv.relname.as_str(), |a| a.aliasname.as_str());
    let mut set = one_by_one(&u.target_list)?;
    let mut taken = vec![];
    for target in &mut set {
        let Some(NodeEnum::ResTarget(t)) = &mut target.node else { return None };
        let column = relation.columns.iter().find(|c| c.name == t.name)?;
        let value = t.val.as_deref_mut()?;
        if matches!(value.node, Some(NodeEnum::SetToDefault(_))) {
            match default_of(column) {
                // What is ALWAYS generated takes nothing but DEFAULT.
                Some(_) if column.identity == b'a' => return None,
                Some(default) => *value = default,
                None => continue,
            }
        }
        take(value, &mut taken)?;
    }
    let mut read = build::select();
    let (mut found, mut list) = (vec![], vec![]);
    for (i, c) in key.columns.iter().enumerate() {
        let (column, name) = (&relation.columns[*c].name, format!("{TAKEN}_key_{i}"));
        list.push(build::target(build::column(&[known, column]), Some(&name)));
        found.push(build::own_operator("=", build::column(&[known, column]), build::column(&[TAKEN, &name])));
    }
    let values = taken.into_iter().enumerate();
    list.extend(values.map(|(i, value)| build::target(value, Some(&value_name(i)))));
    read.target_list = list;
    read.from_clause = vec![build::node(NodeEnum::RangeVar(rv.clone()))];
    read.where_clause = u.where_clause.clone();
    found.extend(condition.cloned());
    let mut changed = u.clone();
    changed.target_list = set;
    changed.from_clause = vec![build::subselect(read, Some(build::alias(TAKEN)), false)];
    changed.where_clause = Some(Box::new(build::and(found)));
    for target in changed.returning_clause.iter_mut().flat_map(|r| &mut r.exprs) {
        own_columns(target, known);
    }
    Some(NodeEnum::UpdateStmt(changed))
}

fn may_take(u: &ast::UpdateStmt, relation: &Relation, cx: &Context) -> bool {
    let statement = NodeEnum::UpdateStmt(Box::new(u.clone()));
    let defaults = crate::modify::defaults_set(&statement);
    let default = |name: &&str| relation.columns.iter().any(|c| c.name == *name && default_of(c).is_some());
    // Where home has all rows it takes the values that are written out by itself.
    let asks = cx.snapshot.nodes.len() > 1;
    defaults.iter().any(default) || asks && u.target_list.iter().any(|t| search::any(t, is_next))
}

/// The column's default, if that comes from a sequence.
fn default_of(column: &catalog::Column) -> Option<Node> {
    if let Some(sequence) = &column.sequence {
        let name = build::cast(build::text(sequence), "regclass");
        return Some(build::own_call("nextval", vec![name]));
    }
    column.default.as_deref().and_then(parse_expression).filter(calls_sequence)
}

fn is_next(n: &NodeEnum) -> bool {
    matches!(n, NodeEnum::FuncCall(f) if names::last(&f.funcname) == "nextval")
}

/// `(a, b) = (x, y)` as `a = x, b = y`.
fn one_by_one(targets: &[Node]) -> Option<Vec<Node>> {
    let mut out = targets.to_vec();
    for target in &mut out {
        let Some(NodeEnum::ResTarget(t)) = &mut target.node else { return None };
        if !t.indirection.is_empty() {
            return None;
        }
        let Some(NodeEnum::MultiAssignRef(m)) = t.val.as_deref().and_then(|v| v.node.as_ref()) else { continue };
        let Some(NodeEnum::RowExpr(row)) = m.source.as_deref().and_then(|s| s.node.as_ref()) else { return None };
        let at = usize::try_from(m.colno - 1).ok()?;
        t.val = Some(Box::new(row.args.get(at)?.clone()));
    }
    Some(out)
}

/// The value with columns of what is read in place of the sequence's values, which are taken whatever else it holds; `None`: not
/// whatever else.
fn take(value: &mut Node, taken: &mut Vec<Node>) -> Option<()> {
    if !calls_sequence(value) {
        return Some(());
    }
    let node = value.node.as_mut()?;
    match node {
        NodeEnum::FuncCall(f) if names::last(&f.funcname) == "nextval" => {
            let [argument] = &f.args[..] else { return None };
            if !is_text(argument) {
                return None;
            }
            let name = value_name(taken.len());
            taken.push(std::mem::replace(value, build::column(&[TAKEN, &name])));
            Some(())
        }
        NodeEnum::TypeCast(c) => take(c.arg.as_deref_mut()?, taken),
        NodeEnum::AExpr(e) if e.kind == ast::AExprKind::AexprOp as i32 => {
            e.lexpr.as_deref_mut().map_or(Some(()), |side| take(side, taken))?;
            e.rexpr.as_deref_mut().map_or(Some(()), |side| take(side, taken))
        }
        _ => None,
    }
}

fn is_text(argument: &Node) -> bool {
    match &argument.node {
        Some(NodeEnum::TypeCast(c)) => c.arg.as_deref().is_some_and(is_text),
        Some(NodeEnum::AConst(c)) => matches!(c.val, Some(ast::a_const::Val::Sval(_))),
        _ => false,
    }
}

fn value_name(i: usize) -> String {
    format!("{TAKEN}_{i}")
}

/// `*` is the table's columns alone.
fn own_columns(target: &mut Node, known: &str) {
    if let Some(NodeEnum::ResTarget(t)) = &mut target.node
        && let Some(NodeEnum::ColumnRef(c)) = t.val.as_deref_mut().and_then(|v| v.node.as_mut())
        && matches!(&c.fields[..], [Node { node: Some(NodeEnum::AStar(_)) }])
    {
        c.fields.insert(0, build::string(known));
    }
}

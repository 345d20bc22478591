//! Statements that read the clock in a transaction over several nodes: the transaction's time in place of each node's own.
//!
//! `now()` is the beginning of a node's own transaction, so nodes that join one after the other have different ones. Where a
//! statement runs elsewhere than on the node whose time is the transaction's, its words for it are replaced by that time, and
//! so are defaults that read it. What code, views and triggers read stays the node's. Which node's time it is, is not known here.

use catalog::Relation;
use sql::ast::{self, Node};
use sql::{NodeEnum, build, search};

use crate::Context;
use crate::insert::column_target;
use crate::reads::{parse_expression, reads_clock};
use crate::rewrite::{clock_type, is_star, replace_clock};
use crate::types::Clock;

/// What has to be known to replace it later; `None`: the statement does not read the clock. `expanded`: with views' queries.
pub fn of(statement: &NodeEnum, expanded: &NodeEnum, cx: &Context) -> Option<Box<Clock>> {
    let target = match statement {
        NodeEnum::InsertStmt(s) => s.relation.as_ref(),
        NodeEnum::UpdateStmt(s) => s.relation.as_ref(),
        NodeEnum::MergeStmt(s) => s.relation.as_ref(),
        NodeEnum::SelectStmt(_) | NodeEnum::DeleteStmt(_) => None,
        _ => return None,
    };
    // A temporary table is in no catalog.
    let relation = target.and_then(|rv| cx.relation(rv).or(cx.target)).filter(|r| r.columns.iter().any(reads_clock));
    if relation.is_none() && !search::any(expanded, |n| clock_type(n).is_some()) {
        return None;
    }
    Some(Box::new(Clock {
        relation: relation.cloned(),
        search_path: cx.search_path.to_vec(),
        temporary: cx.temporary.to_vec(),
    }))
}

/// The statement at a moment, a timestamptz's text; without one, its defaults are written out alone. `None`: there is nothing
/// to be changed in it.
pub fn at(mut statement: NodeEnum, clock: &Clock, moment: Option<&str>) -> Option<NodeEnum> {
    let filled = clock.relation.as_ref().is_some_and(|r| fill(&mut statement, r, &defaults(r)));
    let replaced = moment
        .is_some_and(|moment| replace_clock(&mut statement, &|ty| (!ty.of_statement).then(|| build::text(moment))));
    (replaced || filled).then_some(statement)
}

/// INSERT … SELECT, whose rows would get each node's time where they are stored: its defaults are written out.
pub fn fill_source(statement: &mut NodeEnum, cx: &Context) -> bool {
    timed_by_nodes(statement, cx).is_some_and(|r| fill(statement, r, &defaults(r)))
}

/// Whether [`fill_source`] may have something to do.
pub fn fills(statement: &NodeEnum, cx: &Context) -> bool {
    timed_by_nodes(statement, cx).is_some()
}

fn timed_by_nodes<'c>(statement: &NodeEnum, cx: &'c Context) -> Option<&'c Relation> {
    let NodeEnum::InsertStmt(i) = statement else { return None };
    let Some(NodeEnum::SelectStmt(source)) = i.select_stmt.as_deref()?.node.as_ref() else { return None };
    let relation = cx.relation(i.relation.as_ref().filter(|_| source.values_lists.is_empty())?)?;
    (!crate::modify::is_local(relation) && relation.columns.iter().any(reads_clock)).then_some(relation)
}

/// Defaults that read the clock, by the column.
fn defaults(relation: &Relation) -> Vec<(String, Node)> {
    let columns = relation.columns.iter().filter(|c| reads_clock(c));
    columns.filter_map(|c| Some((c.name.clone(), parse_expression(c.default.as_deref()?)?))).collect()
}

/// Defaults are written out where the statement leaves them to the node. Whether there were any.
fn fill(statement: &mut NodeEnum, relation: &Relation, defaults: &[(String, Node)]) -> bool {
    match statement {
        NodeEnum::UpdateStmt(u) => set_defaults(&mut u.target_list, defaults),
        NodeEnum::InsertStmt(i) => {
            let set = i.on_conflict_clause.as_mut().is_some_and(|c| set_defaults(&mut c.target_list, defaults));
            let mut source = match i.select_stmt.take().and_then(|n| n.node) {
                Some(NodeEnum::SelectStmt(s)) => s,
                Some(other) => {
                    i.select_stmt = Some(Box::new(build::node(other)));
                    return set;
                }
                None => {
                    let mut values = build::select();
                    values.values_lists = vec![build::node(NodeEnum::List(ast::List { items: vec![] }))];
                    Box::new(values)
                }
            };
            let filled = fill_rows(&mut i.cols, &mut source, relation, defaults);
            let is_empty = source
                .values_lists
                .first()
                .is_some_and(|l| matches!(&l.node, Some(NodeEnum::List(l)) if l.items.is_empty()));
            i.select_stmt = (!is_empty).then(|| Box::new(build::node(NodeEnum::SelectStmt(source))));
            filled || set
        }
        NodeEnum::MergeStmt(m) => {
            let mut found = false;
            for arm in &mut m.merge_when_clauses {
                let Some(NodeEnum::MergeWhenClause(arm)) = &mut arm.node else { continue };
                found |= set_defaults(&mut arm.target_list, defaults);
                if arm.command_type == ast::CmdType::CmdInsert as i32 {
                    let mut values = std::mem::take(&mut arm.values);
                    found |= fill_list(&mut arm.target_list, &mut [Row::Values(&mut values)], relation, defaults);
                    arm.values = values;
                }
            }
            found
        }
        _ => false,
    }
}

/// `SET column = DEFAULT`
fn set_defaults(list: &mut [Node], defaults: &[(String, Node)]) -> bool {
    let mut found = false;
    for target in list {
        let Some(NodeEnum::ResTarget(t)) = &mut target.node else { continue };
        let is_default = t.val.as_deref().is_some_and(is_default);
        if let Some((_, value)) = defaults.iter().find(|(name, _)| is_default && *name == t.name) {
            t.val = Some(Box::new(value.clone()));
            found = true;
        }
    }
    found
}

/// The rows of an INSERT, as far as it can be seen how many columns they have.
fn fill_rows(
    columns: &mut Vec<Node>,
    source: &mut ast::SelectStmt,
    relation: &Relation,
    defaults: &[(String, Node)],
) -> bool {
    let mut leaves = vec![];
    let is_plain = leaves_of(source, &mut leaves);
    let alone = leaves.len() == 1 && !leaves[0].values_lists.is_empty();
    // Rows that are told apart or counted stay as many, if what is added is the same in all of them.
    let same = defaults
        .iter()
        .all(|(_, d)| !search::any(d, |n| matches!(n, NodeEnum::FuncCall(_)) && clock_type(n).is_none()));
    if !is_plain || !(alone || same) {
        return false;
    }
    let mut lists = vec![];
    for leaf in leaves {
        if leaf.values_lists.is_empty() {
            if leaf.target_list.iter().any(is_star) && columns.is_empty() {
                return false;
            }
            lists.push(Row::Select(&mut leaf.target_list));
        } else {
            for row in &mut leaf.values_lists {
                let Some(NodeEnum::List(row)) = &mut row.node else { return false };
                lists.push(Row::Values(&mut row.items));
            }
        }
    }
    fill_list(columns, &mut lists, relation, defaults)
}

/// The SELECTs that UNION and the like put together; false: of several, one has more to say than its list.
fn leaves_of<'s>(s: &'s mut ast::SelectStmt, leaves: &mut Vec<&'s mut ast::SelectStmt>) -> bool {
    match (s.larg.is_some(), s.rarg.is_some()) {
        (true, true) => {
            let (Some(left), Some(right)) = (s.larg.as_deref_mut(), s.rarg.as_deref_mut()) else { return false };
            leaves_of(left, leaves) && leaves_of(right, leaves)
        }
        _ => {
            leaves.push(s);
            true
        }
    }
}

/// What an INSERT gives its columns. It may be nothing: `INSERT INTO t SELECT FROM s` has only defaults.
enum Row<'r> {
    /// A SELECT's list: each is a ResTarget.
    Select(&'r mut Vec<Node>),
    Values(&'r mut Vec<Node>),
}

impl Row<'_> {
    fn cells(&self) -> &[Node] {
        match self {
            Row::Select(cells) | Row::Values(cells) => cells,
        }
    }

    fn cell_mut(&mut self, at: usize) -> Option<&mut Node> {
        match self {
            Row::Select(cells) | Row::Values(cells) => cells.get_mut(at),
        }
    }

    fn push(&mut self, value: Node) {
        match self {
            Row::Select(cells) => cells.push(build::target(value, None)),
            Row::Values(cells) => cells.push(value),
        }
    }
}

/// Columns that are left out are added to the list of columns and to each row; DEFAULT is written out.
fn fill_list(columns: &mut Vec<Node>, rows: &mut [Row], relation: &Relation, defaults: &[(String, Node)]) -> bool {
    let name_of = |n: &Node| match &n.node {
        Some(NodeEnum::ResTarget(t)) => t.name.clone(),
        _ => String::new(),
    };
    let starred = rows.iter().any(|row| row.cells().iter().any(is_star));
    let width = rows.first().map_or(0, |r| r.cells().len());
    // Rows of other lengths are PostgreSQL's to complain of.
    if width > relation.columns.len() || !starred && rows.iter().any(|r| r.cells().len() != width) {
        return false;
    }
    let mut named: Vec<String> = columns.iter().map(name_of).collect();
    match named.is_empty() {
        true => named = relation.columns.iter().take(width).map(|c| c.name.clone()).collect(),
        false if !starred && named.len() != width => return false,
        false => {}
    }
    let mut found = false;
    for (name, value) in defaults {
        match named.iter().position(|n| n == name) {
            Some(_) if starred => {}
            Some(at) => {
                for row in rows.iter_mut() {
                    if let Some(cell) = row.cell_mut(at).filter(|v| is_default(v)) {
                        *cell = value.clone();
                        found = true;
                    }
                }
            }
            None => {
                if columns.is_empty() {
                    *columns = named.iter().map(|n| column_target(n)).collect();
                }
                columns.push(column_target(name));
                rows.iter_mut().for_each(|row| row.push(value.clone()));
                found = true;
            }
        }
    }
    found
}

fn is_default(n: &Node) -> bool {
    matches!(n.node, Some(NodeEnum::SetToDefault(_)))
}

//! Statements over lists of tables: TRUNCATE, LOCK, VACUUM, ANALYZE, CLUSTER. Each node gets the tables it has.

use sql::NodeEnum;
use sql::ast::{self, Node};

use super::place::{Cx, deparse, is_partitioned, is_view, range_vars, whole};
use super::steps::{Spread, Step};
use super::{Ddl, Decided, create};
use crate::Refusal;

/// TRUNCATE: the other nodes get the distributed and reference tables of the list.
pub fn truncate(cx: &Cx, s: &ast::TruncateStmt) -> Decided {
    for rv in range_vars(&s.relations) {
        cx.not_ours(sql::names::table(rv))?;
    }
    let Some((home, tables)) = split(cx, &s.relations) else { return Ok(Ddl::Home) };
    let whole_list = ast::TruncateStmt { relations: home, ..s.clone() };
    // Elsewhere sequences stay exhausted.
    let others = ast::TruncateStmt { relations: tables, restart_seqs: false, behavior: s.behavior };
    spread(cx, NodeEnum::TruncateStmt(whole_list), NodeEnum::TruncateStmt(others)).map(|s| Ddl::Nodes(Box::new(s)))
}

/// LOCK TABLE: the other nodes lock the distributed and reference tables of the list, and what views that they have read.
pub fn lock(cx: &Cx, s: &ast::LockStmt) -> Decided {
    for rv in range_vars(&s.relations) {
        refuse_mixed(cx, rv)?;
    }
    let Some((home, tables)) = split(cx, &s.relations) else { return Ok(Ddl::Home) };
    let whole_list = ast::LockStmt { relations: home, ..s.clone() };
    let others = ast::LockStmt { relations: tables, ..s.clone() };
    let mut spread = spread(cx, NodeEnum::LockStmt(whole_list), NodeEnum::LockStmt(others))?;
    spread.read_only = true;
    Ok(Ddl::Nodes(Box::new(spread)))
}

/// PostgreSQL locks what a view reads, in its owner's name; of one that only home has, other nodes could do so in nobody's.
fn refuse_mixed(cx: &Cx, rv: &ast::RangeVar) -> Result<(), Refusal> {
    let (schema, name) = sql::names::table(rv);
    let temporary = cx.facts.temporary.iter().find(|t| match schema {
        Some(schema) => schema == "pg_temp" && t.name == name,
        None => **t == *name,
    });
    let mixed = match (temporary, cx.find((schema, name))) {
        (Some(t), _) => t.view.is_some(),
        (None, Some(r)) if is_view(r) => {
            let reads = create::reads_of_text(cx, r.view.as_ref().map_or("", |v| &v.query));
            reads.local && (reads.distributed || reads.reference)
        }
        (None, _) => false,
    };
    match mixed {
        false => Ok(()),
        true => Err(Refusal::new(
            format!(
                "LOCK TABLE of view \"{name}\", which only home has, over tables of several nodes is not supported"
            ),
            "Name the tables that it reads.",
        )),
    }
}

/// VACUUM and ANALYZE: without a list on every node; ANALYZE alone may run in a transaction.
pub fn vacuum(cx: &Cx, s: &ast::VacuumStmt) -> Decided {
    let herd = |n: &Node| match &n.node {
        Some(NodeEnum::VacuumRelation(v)) => v.relation.as_ref().is_some_and(|rv| cx.herd_var(rv).is_some()),
        _ => false,
    };
    let tables: Vec<Node> = s.rels.iter().filter(|r| herd(r)).cloned().collect();
    let mut spread = match (s.rels.is_empty(), tables.is_empty()) {
        (true, _) => cx.everywhere(cx.sql),
        (false, true) => return Ok(Ddl::Home),
        (false, false) if tables.len() == s.rels.len() => cx.everywhere(cx.sql),
        (false, false) => {
            let others = deparse(NodeEnum::VacuumStmt(ast::VacuumStmt { rels: tables, ..s.clone() }))?;
            cx.home_and(vec![Step::new(cx.sql)], vec![Step::new(others)])
        }
    };
    spread.read_only = true;
    Ok(if s.is_vacuumcmd { Ddl::Autocommit(Box::new(spread)) } else { Ddl::Nodes(Box::new(spread)) })
}

/// CLUSTER: on every node, unless it names a table that only home has.
pub fn cluster(cx: &Cx, s: &ast::ClusterStmt) -> Decided {
    Ok(match &s.relation {
        Some(rv) if cx.herd_var(rv).is_none() => Ddl::Home,
        _ => Ddl::Autocommit(Box::new(cx.everywhere(cx.sql))),
    })
}

/// A view that every node has: for TRUNCATE home has PostgreSQL's error.
fn on_views(cx: &Cx, rv: &ast::RangeVar) -> bool {
    cx.find(sql::names::table(rv)).is_some_and(|r| is_view(r) && !cx.view_is_local(r))
}

/// Home's list, and that of the other nodes; None if that is empty.
fn split(cx: &Cx, relations: &[Node]) -> Option<(Vec<Node>, Vec<Node>)> {
    let (mut home, mut others) = (Vec::new(), Vec::new());
    for node in relations {
        match &node.node {
            Some(NodeEnum::RangeVar(rv)) if cx.herd_var(rv).is_some() => {
                // PostgreSQL says what ONLY means to a table whose partitions its owner has made.
                let named = if cx.herd_var(rv).is_some_and(|r| is_partitioned(r)) { rv.clone() } else { whole(rv) };
                let node = Node { node: Some(NodeEnum::RangeVar(named)) };
                home.push(node.clone());
                others.push(node);
            }
            Some(NodeEnum::RangeVar(rv)) if on_views(cx, rv) => {
                home.push(node.clone());
                others.push(node.clone());
            }
            _ => home.push(node.clone()),
        }
    }
    (!others.is_empty()).then_some((home, others))
}

/// The client's own text where the tree is unchanged.
fn spread(cx: &Cx, home: NodeEnum, others: NodeEnum) -> Result<Spread, Refusal> {
    let text = |tree: NodeEnum| if tree == *cx.statement { Ok(cx.sql.to_string()) } else { deparse(tree) };
    Ok(cx.home_and(vec![Step::new(text(home)?)], vec![Step::new(text(others)?)]))
}

//! What EXPLAIN says of a plan. It does not run anything and does not know nodes' own plans.

use std::sync::Arc;

use catalog::Relation;

use crate::broadcast::Made;
use crate::columns::ColumnRead;
use crate::gather::{Semijoin, Shuffle};
use crate::in_turn::{InTurn, Turn};
use crate::tree::*;
use crate::types::*;

/// What there is to say of a plan over several nodes, without the nodes' statements: labels and values.
pub fn describe(plan: &Planned) -> Vec<(&'static str, String)> {
    match plan {
        Planned::Forward(_) | Planned::Query { tree: Err(_), .. } | Planned::InTurn { turns: Err(_), .. } => vec![],
        Planned::InTurn { turns: Ok(turns), .. } => {
            let turns = turns.turns.iter();
            turns.map(|t| (if t.query.is_some() { "Before" } else { "Statement" }, t.text.to_string())).collect()
        }
        Planned::Query { whole, tree: Ok(finish) } => {
            let mut said = vec![("How", in_words(whole, finish))];
            said.extend(why(plan));
            said.push(("Finish", how(finish)));
            said.extend(of_columns(finish));
            said
        }
        Planned::Insert { rows, .. } => match rows {
            Insert::Row => vec![],
            Insert::Rows(i) => vec![("Rows", format!("{} split by key", i.keys.len()))],
            Insert::Each { .. } => vec![("Rows", "stay on their nodes".into())],
            Insert::Select(i) => vec![("Rows pass through the router", i.source_sql.to_string())],
            Insert::Copies(_) => vec![("Rows", "on every node".into())],
        },
        Planned::Modify { change, .. } => match change {
            Change::Refused(_) => vec![],
            Change::Each(_) => vec![("Finish", "add up".into())],
            Change::Stay(_) => vec![("Rows", "stay where they are, or the statement is refused".into())],
            Change::Move(_) => vec![("Rows", "move to the nodes of their new keys".into())],
            Change::From(from) => {
                let label = match from.to {
                    To::Gather => "Rows read for home",
                    To::Broadcast | To::Shuffle { .. } => "Rows read for every node",
                };
                let label = |n| match &from.split {
                    Some(split) if split.read == n && split.some => {
                        "Rows read for every node, or the nodes of their keys"
                    }
                    Some(split) if split.read == n => "Rows read for the nodes of their keys",
                    _ => label,
                };
                let reads = from.reads.iter().enumerate().map(|(n, r)| (label(n), r.sql.clone()));
                let finish = match &from.made {
                    Made::Each(_) => ("Finish", "add up".into()),
                    Made::Move(_) => ("Rows", "move to the nodes of their new keys".into()),
                    Made::Stay(_) => ("Rows", "stay where they are, or the statement is refused".into()),
                    Made::Copies(_) => ("Rows", "on every node, by home's".into()),
                    Made::InTwo(m) => ("Change of rows that match nothing", format!("sql: {}", m.inserts.text)),
                };
                reads.chain([("Change", format!("sql: {}", from.each().text)), finish]).collect()
            }
            Change::Copies(_) => vec![("Rows", "on every node".into())],
        },
    }
}

/// The same of a query that goes another way than home.
pub fn describe_way(plan: &Planned, way: &InTurn) -> Vec<(&'static str, String)> {
    let tables = |plan: &Planned| plan.whole().tables.iter().map(|t| t.relation.clone()).collect::<Vec<_>>();
    let reads = way.turns.iter().filter(|turn| turn.query.is_some());
    let sent: Vec<_> = reads.flat_map(|turn| tables(&turn.plan)).collect();
    let stays = |relation: &Arc<Relation>| !sent.iter().any(|r| r.oid == relation.oid);
    let stay = once(tables(plan).into_iter().filter(stays).map(|r| r.name.clone()));
    let sent = once(sent.iter().map(|r| r.name.clone()));
    let how = format!("rows of {} go to the nodes of {}, which answer", sent.join(", "), stay.join(", "));
    let mut said = vec![("How", how)];
    said.extend(why(plan));
    let label = |turn: &Turn| if turn.query.is_some() { "Before" } else { "Statement" };
    said.extend(way.turns.iter().map(|turn| (label(turn), turn.text.to_string())));
    said
}

/// The same of a query for which some tables' rows come home only if they meet others'.
pub fn describe_semijoins(plan: &Planned, statement: &Statement, chosen: &[usize]) -> Vec<(&'static str, String)> {
    let parts = parts(plan);
    let name = |child: usize| {
        let Recipients::Shards(uses) = &parts.get(child)?.target;
        Some(plan.whole().tables.get(*uses.first()?)?.relation.name.clone())
    };
    let said = |semijoin: &Semijoin| {
        let (own, partner) = (name(semijoin.child)?, name(semijoin.partner)?);
        Some((
            "Semijoin",
            format!("of {own} those whose {} meet rows of {partner}, read before", semijoin.names.join(", ")),
        ))
    };
    let semijoins = chosen.iter().filter_map(|n| said(statement.semijoins.get(*n)?));
    let mut all = describe(plan);
    let behind = all.iter().position(|(label, _)| *label == "Finish").unwrap_or(all.len());
    all.splice(behind..behind, semijoins);
    all
}

/// What stores are asked in the place of one node.
pub fn describe_columns(plan: &Planned) -> Vec<(&'static str, String)> {
    plan.finish().map(|finish| of_columns(finish).collect()).unwrap_or_default()
}

fn of_columns(finish: &Finish) -> impl Iterator<Item = (&'static str, String)> + '_ {
    finish.parts().into_iter().filter_map(|part| Some(("Columns", columns(part.columns.as_ref()?))))
}

/// The same of a query whose rows are shuffled.
pub fn describe_shuffle(plan: &Planned, shuffle: &Shuffle) -> Vec<(&'static str, String)> {
    let tables = &plan.whole().tables;
    let named = parts(plan).into_iter().zip(&shuffle.by).filter_map(|(part, by)| {
        let Recipients::Shards(uses) = &part.target;
        Some((&tables.get(*uses.first()?)?.relation.name, by))
    });
    let (keyed, whole): (Vec<_>, Vec<_>) = named.partition(|(_, by)| by.is_some());
    let keyed: Vec<_> =
        keyed.iter().filter_map(|(name, by)| Some(format!("{name} by {}", by.as_ref()?.name))).collect();
    let mut how = format!("rows of {} go to nodes where equal values meet, ", keyed.join(", of "));
    if !whole.is_empty() {
        how.push_str(&format!("those of {} to all, ", once(whole.iter().map(|(name, _)| (*name).clone())).join(", ")));
    }
    let mut said = vec![("How", how + "and nodes answer")];
    said.extend(why(plan));
    said.extend(shuffle.parts.iter().map(|part| ("Each node", part.to_string())));
    said.push(("Finish", format!("sql: {}", shuffle.text)));
    said
}

/// Why rows have to move.
fn why(plan: &Planned) -> Option<(&'static str, String)> {
    match plan {
        Planned::Query { tree: Ok(Finish::Statement(Statement { why: Some(why), .. })), .. } => {
            Some(("Why", why.clone()))
        }
        _ => None,
    }
}

fn once(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut all: Vec<String> = vec![];
    names.for_each(|name| {
        if !all.contains(&name) {
            all.push(name);
        }
    });
    all
}

/// What nodes and home do, for who does not know how plans are made.
fn in_words(whole: &Whole, finish: &Finish) -> String {
    match finish {
        Finish::PassOn { .. } => "each node answers for its own rows".into(),
        Finish::Merge(_) => "each node sorts its own rows, the router merges them".into(),
        Finish::AddUp(_) => "combine on router: each node gives one row of totals".into(),
        Finish::Statement(s) if s.as_described => {
            let uses = finish.parts().into_iter().flat_map(|part| {
                let Recipients::Shards(uses) = &part.target;
                uses
            });
            let tables = once(uses.filter_map(|u| Some(whole.tables.get(*u)?.relation.name.clone())));
            format!("one node: rows of {} move to home, which answers", tables.join(", "))
        }
        Finish::Statement(_) => {
            "combine on home: each node answers for its own rows, home puts the answers together".into()
        }
    }
}

fn how(finish: &Finish) -> String {
    match finish {
        Finish::PassOn { .. } => "append".into(),
        Finish::Merge(m) => {
            let columns = if m.sort.len() == 1 { "column" } else { "columns" };
            format!("merge by {} sort {columns}", m.sort.len())
        }
        Finish::AddUp(_) => "combine one row a node".into(),
        Finish::Statement(s) => format!("sql: {}", s.text),
    }
}

/// What the nodes' column copies are asked in the place of a Part, or why they are not.
fn columns(read: &ColumnRead) -> String {
    match read {
        ColumnRead::Can(part) if !part.bounded => {
            "no: the answer may have many rows, and only totals, groups and the first rows are read from columns".into()
        }
        ColumnRead::Can(part) => match &part.by_first_bytes {
            Some(by) => format!("DuckDB: {by}; of a copy made by a store that kept no first bytes: {}", part.text),
            None => format!("DuckDB: {}", part.text),
        },
        ColumnRead::No(why) => format!("no: {why}"),
    }
}

/// The Parts of a plan over several nodes: texts, and the uses of tables whose nodes get them.
pub fn parts(plan: &Planned) -> Vec<&Part> {
    match plan {
        Planned::Query { tree: Ok(finish), .. } => finish.parts(),
        Planned::Insert { rows: Insert::Each { part, .. }, .. }
        | Planned::Modify { change: Change::Each(part), .. } => {
            vec![part]
        }
        Planned::Modify { change: Change::Move(m), .. } => vec![&m.delete],
        Planned::Modify { change: Change::Stay(s), .. } => vec![&s.part],
        Planned::Forward(_)
        | Planned::Query { .. }
        | Planned::Insert { .. }
        | Planned::Modify { .. }
        | Planned::InTurn { .. } => vec![],
    }
}

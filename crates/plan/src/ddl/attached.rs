//! What hangs on a table: triggers, rules, policies, extended statistics.

use crate::{Refusal, rules};
use sql::ast::{self, Node, RangeVar};
use sql::{NodeEnum, names};

use super::create::reads_of_tree;
use super::place::{Cx, deparse, is_herd, is_view, range_vars, regclass_exists, whole};
use super::{Ddl, Decided};

/// CREATE TRIGGER: wherever its table or view is.
pub fn trigger(cx: &Cx, s: &ast::CreateTrigStmt) -> Decided {
    let Some(rv) = &s.relation else { return Ok(Ddl::Home) };
    let name = names::table(rv);
    cx.not_ours(name)?;
    match cx.find(name) {
        Some(r) if is_herd(r) => {
            let tree =
                NodeEnum::CreateTrigStmt(Box::new(ast::CreateTrigStmt { relation: Some(whole(rv)), ..s.clone() }));
            let sql = if tree == *cx.statement { cx.sql.to_string() } else { deparse(tree)? };
            Ok(Ddl::Nodes(Box::new(cx.everywhere(&sql))))
        }
        Some(r) if is_view(r) && !cx.view_is_local(r) => {
            Ok(Ddl::Nodes(Box::new(cx.everywhere_if(regclass_exists(name)))))
        }
        _ => Ok(Ddl::Home),
    }
}

/// CREATE RULE: on home alone. Of a view that other nodes have, too, the router makes of a statement what the rule says
/// (`rules.rs`), which has to be something that it understands.
pub fn rule(cx: &Cx, s: &ast::RuleStmt) -> Decided {
    let Some(rv) = &s.relation else { return Ok(Ddl::Home) };
    let name = names::table(rv);
    cx.not_ours(name)?;
    let on_select = s.event == ast::CmdType::CmdSelect as i32;
    match cx.find(name) {
        // A partitioned table, as it is on home, has none: home says so.
        Some(r) if on_select && r.distribution().is_some() => Ok(Ddl::Home),
        Some(r) if is_herd(r) => Err(Refusal::new(
            format!(
                "rules on \"{}\", which several nodes hold, are not supported: code on a node would write by them, and find that node's rows alone",
                r.name
            ),
            "A trigger can often take its place.",
        )),
        Some(r) if is_view(r) && !cx.view_is_local(r) => match rules::why_not(s, r.oid, cx.snapshot) {
            None => Ok(Ddl::Home),
            Some(why) => Err(Refusal::new(
                format!("rules on view \"{}\", which reads tables of the herd, {why} are not supported", r.name),
                "Each of INSERT, UPDATE and DELETE may have one rule that does something: DO INSTEAD one INSERT … VALUES, UPDATE or DELETE for \
                 the same. Or write to the tables themselves.",
            )),
        },
        _ => Ok(Ddl::Home),
    }
}

/// A policy is judged on each node, by what that node has.
pub fn policy(cx: &Cx, table: Option<&RangeVar>, expressions: [Option<&Node>; 2]) -> Decided {
    let Some(rv) = table else { return Ok(Ddl::Home) };
    cx.not_ours(names::table(rv))?;
    let Some(r) = cx.herd_var(rv) else { return Ok(Ddl::Home) };
    let reads = expressions.into_iter().flatten().map(|e| reads_of_tree(cx, e));
    for reads in reads {
        if reads.local || reads.distributed {
            return Err(Refusal::new(
                format!(
                    "a policy on \"{}\" that reads other tables is not supported: a node has only some of their rows",
                    r.name
                ),
                "A policy may read reference tables: see create_reference_table().",
            ));
        }
    }
    Ok(Ddl::Nodes(Box::new(cx.everywhere(cx.sql))))
}

/// CREATE STATISTICS: on every node if it is of a distributed or reference table.
pub fn statistics(cx: &Cx, s: &ast::CreateStatsStmt) -> Decided {
    let herd = range_vars(&s.relations).any(|rv| cx.herd_var(rv).is_some());
    Ok(if herd { Ddl::Nodes(Box::new(cx.everywhere(cx.sql))) } else { Ddl::Home })
}

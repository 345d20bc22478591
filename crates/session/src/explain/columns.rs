//! EXPLAIN of what column copies answer: what stores are asked, DuckDB's plan for it, and with ANALYZE what has come of them. The
//! nodes' own plans, for the same from rows, are shown where stores do not answer. It does not know what can be asked of columns.

use std::time::Instant;

use exec::{ColumnPlans, Compiled, Placed, Request};
use sql::ast;
use wire::backend;

use super::shown::Explained;
use super::{for_nodes, is_on};
use crate::held::Held;
use crate::session::{Result, Session};

/// Stands behind the `Columns` of its part.
const PLAN: &str = "DuckDB Plan";

impl Session {
    /// `None`: rows are read, or may have to be.
    pub(super) async fn explain_columns(
        &mut self,
        compiled: &Compiled,
        e: &ast::ExplainStmt,
        request: &Request<'_>,
        placed: &Placed,
    ) -> Result<Option<Explained>> {
        if let Placed::One(_, shard) = placed
            && !self.work().one_asks_columns(compiled, *shard)
        {
            return Ok(None);
        }
        let ColumnPlans::Told(plans) = self.work().column_plans(compiled, request).await? else { return Ok(None) };
        // Home says who may, and what of the options is wrong.
        let home = self.epoch.snapshot.home;
        self.explain_node(&for_nodes(e), home, request.sql.to_string()).await?;
        let (strategy, mut details) = match placed {
            Placed::One(_, shard) => {
                let mut details = vec![("How".to_string(), "one node has all of it".to_string()), shown_shard(*shard)];
                details.extend(labelled(plan::explain::describe_columns(&compiled.plan)));
                ("route", details)
            }
            Placed::Several(_) => {
                let mut details: Vec<_> = labelled(plan::explain::describe(&compiled.plan)).collect();
                details.extend(self.pruned(compiled, request).await?);
                (compiled.plan.strategy().as_str(), details)
            }
        };
        let mut plans = plans.into_iter();
        details = details
            .into_iter()
            .flat_map(|(label, value)| {
                let plan = if label == "Columns" { plans.next() } else { None };
                let plan = plan.map(|(node, plan)| {
                    (PLAN.to_string(), format!("of the store of {}\n{plan}", self.node_name(node)))
                });
                [Some((label, value)), plan].into_iter().flatten()
            })
            .collect();
        let mut explained = Explained { strategy, details, nodes: vec![], answered: vec![], rows: None, time: None };
        if !is_on(e, "analyze") {
            return Ok(Some(explained));
        }
        let started = Instant::now();
        let mut held = Held::new(&self.memory);
        let began = !self.transaction.is_active();
        let (done, nodes) = exec::looking(self.hold(compiled, request, &mut held)).await;
        let done = done?;
        if began {
            self.finish_implicit(false).await?;
        }
        explained.rows = Some(backend::rows_of_tag(&done.tag));
        explained.time = Some(started.elapsed());
        // It has told its plan, and could not answer a moment later.
        if !nodes.values().any(|answered| answered.by_columns) {
            explained.details.retain(|(label, _)| label != PLAN);
            explained.details.push(("Columns".into(), "did not answer: rows were read".into()));
        }
        explained.answered = nodes.into_iter().map(|(node, answered)| (self.node_name(node), answered)).collect();
        Ok(Some(explained))
    }
}

/// Which shard, of what one node answers.
pub(super) fn shown_shard(shard: Option<i32>) -> (String, String) {
    match shard {
        Some(s) => ("Shard".to_string(), s.to_string()),
        None => ("Shards".to_string(), "those on one node".to_string()),
    }
}

fn labelled(said: Vec<(&'static str, String)>) -> impl Iterator<Item = (String, String)> {
    said.into_iter().map(|(label, value)| (label.to_string(), value))
}

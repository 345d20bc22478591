//! EXPLAIN of what column copies answer: what stores are asked, DuckDB's plan for it, and with ANALYZE what has come of them. The
//! nodes' own plans, for the same from rows, are shown where stores do not answer. It does not know what can be asked of columns.

use std::time::Instant;

use exec::{ColumnPlans, Compiled, Placed, Request};
use sql::ast;

use super::shown::Explained;
use super::{for_nodes, is_on, labelled, of_one_node};
use crate::session::{Result, Session};

/// Stands behind the `Columns` of its part.
const PLAN: &str = "DuckDB Plan";

impl Session {
    /// What is read from rows is explained by nodes, and why rows are read, if columns could be asked.
    pub(super) async fn explain_columns(
        &mut self,
        compiled: &Compiled,
        e: &ast::ExplainStmt,
        request: &Request<'_>,
        placed: &Placed,
    ) -> Result<std::result::Result<Explained, Option<String>>> {
        if let Placed::One(_, shard) = placed
            && !self.work().one_asks_columns(compiled, *shard)
        {
            return Ok(Err(None));
        }
        let plans = match self.work().column_plans(compiled, request).await? {
            ColumnPlans::Told(plans) => plans,
            ColumnPlans::Rows(why) => return Ok(Err(Some(why))),
            ColumnPlans::Untold | ColumnPlans::NoCopies => return Ok(Err(None)),
        };
        // Home says who may, and what of the options is wrong.
        let home = self.epoch.snapshot.home;
        self.explain_node(&for_nodes(e), home, request.sql.to_string()).await?;
        let (strategy, mut details) = match placed {
            Placed::One(_, shard) => {
                let columns = labelled(plan::explain::describe_columns(&compiled.plan));
                ("route", of_one_node(*shard).into_iter().chain(columns).collect())
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
            return Ok(Ok(explained));
        }
        self.analyze(compiled, request, &mut explained, Instant::now()).await?;
        // It has told its plan, and could not answer a moment later.
        if !explained.is_by_columns() {
            explained.details.retain(|(label, _)| label != PLAN);
            explained.details.push(("Columns".into(), "did not answer: rows were read".into()));
        }
        Ok(Ok(explained))
    }
}

/// What is said of columns, where rows are read in their place.
pub(super) fn from_rows(details: &mut [(String, String)], why: Option<&str>) {
    let Some(why) = why else { return };
    for (_, said) in details.iter_mut().filter(|(label, said)| label == "Columns" && !said.starts_with("no: ")) {
        *said = format!("no: {why}");
    }
}

//! What jobs have left on nodes: tables, publications and slots that have a job's chance in their names. It is the router's own role's, which takes it
//! away as it does behind a job that failed. A job is entered before it makes anything, so that home is asked last which of them run.

use std::collections::HashSet;

use catalog::quote_literal;

use super::{Finding, Repair};
use crate::client::Client;
use crate::error::Result;
use crate::work::Work;

const RUNNING: &str =
    "SELECT arguments OPERATOR(pg_catalog.->>) 'name' FROM herd.job WHERE state OPERATOR(pg_catalog.=) 'running'";

impl<C: Client> Work<'_, C> {
    pub(super) async fn repair_leftovers(&mut self, repair: &Repair) -> Result<Vec<Finding>> {
        let (herd, snapshot) = (self.herd.clone(), self.epoch.snapshot.clone());
        // What ends meanwhile takes away its own.
        let mut running = self.running_jobs().await?;
        let mut found = Vec::new();
        for node in &snapshot.nodes {
            let rows =
                herd.admin(&snapshot, node.id).await?.simple("SELECT kind, name, job FROM herd.leftovers()").await?;
            for row in rows {
                let [Some(kind), Some(name), Some(job)] = <[Option<String>; 3]>::try_from(row).unwrap_or_default()
                else {
                    continue;
                };
                found.push((node, kind, name, job));
            }
        }
        running.extend(self.running_jobs().await?);
        let mut findings = Vec::new();
        for (node, kind, name, _) in found.into_iter().filter(|(.., job)| !running.contains(job)) {
            let (quoted_kind, quoted_name) = (quote_literal(&kind), quote_literal(&name));
            let drop = format!("SELECT herd.drop_leftover({quoted_kind}, {quoted_name})");
            let dropped = match repair.dry_run {
                true => None,
                false => Some(herd.admin(&snapshot, node.id).await?.simple(&drop).await),
            };
            findings.push(Finding {
                node: node.name.clone(),
                object: if kind == "table" { catalog::qualified("herd_shards", &name) } else { name },
                problem: format!("a {kind} that a move, split or merge has left, which no job owns"),
                mended: matches!(dropped, Some(Ok(_))),
                action: match dropped {
                    None => "it would be dropped".into(),
                    Some(Ok(_)) => "it was dropped".into(),
                    Some(Err(e)) => format!("it could not be dropped now: {e}. Try again."),
                },
            });
        }
        Ok(findings)
    }

    /// What the tables, publications and slots of jobs that run have in their names.
    pub(super) async fn running_jobs(&self) -> Result<HashSet<String>> {
        let running = self.herd.own.rows(&self.herd.config.home, RUNNING).await?;
        Ok(running.into_iter().flatten().flatten().collect())
    }
}

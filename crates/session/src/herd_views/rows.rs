//! The rows of the views that the router makes, each as a JSON object. What a client may not see is left out here and not by a
//! statement, whose text can be seen by others. How the rows get into a statement is not known here.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use exec::ExecError;
use exec::timestamp_at as timestamp;
use serde_json::json;

use crate::activity::Shown;
use crate::prepared::Prepared;
use crate::session::{Result, Session};

impl Session {
    /// This router's sessions, each as a JSON object, with what the client may see of it. Left out here and not by the
    /// statement: its text can be seen by others.
    pub(super) async fn sessions(&mut self) -> Result<Vec<String>> {
        let viewer = self.viewer().await?;
        let mut found = Vec::new();
        for (pid, shown) in self.router.cancels.shown() {
            let now = shown.now();
            let mut row = json!({
                "pid": pid, "router": self.router.address, "user": shown.user, "database": shown.database,
                "application_name": now.application_name,
            });
            if viewer.may_see(&shown) {
                row["client_address"] = json!(shown.client.map(|a| a.to_string()));
                row["state"] = json!(now.state.name());
                row["since"] = json!(timestamp(now.since));
                row["pinned_by"] = json!(now.pins.names().collect::<Vec<_>>());
                row["in_transaction"] = json!(now.in_transaction);
                row["nodes"] = json!(now.nodes);
                row["statement"] = json!(now.statement);
            } else {
                // As pg_stat_activity.
                row["statement"] = json!("<insufficient privilege>");
            }
            found.push(row.to_string());
        }
        Ok(found)
    }

    /// This router's sessions as rows of `pg_stat_activity`: what the client may not see is NULL, as there.
    pub(super) async fn activity_rows(&mut self, sql: &str) -> Result<Vec<String>> {
        let viewer = self.viewer().await?;
        let mut found = Vec::new();
        for (pid, shown) in self.router.cancels.shown() {
            let now = shown.now();
            let mut row = json!({
                "datid": viewer.database, "datname": shown.database, "pid": pid, "usesysid": shown.role,
                "application_name": now.application_name, "query": "<insufficient privilege>",
            });
            if viewer.may_see(&shown) {
                let own = pid == self.id as i32;
                row["client_addr"] = json!(shown.client.map(|a| a.ip().to_string()));
                row["client_port"] = json!(shown.client.map(|a| a.port()));
                row["state"] = json!(if own { "active" } else { now.state.name() });
                row["state_change"] = json!(timestamp(now.since));
                row["query_start"] = json!(timestamp(now.since));
                row["query"] = json!(if own { sql } else { &now.statement });
                row["backend_type"] = json!("client backend");
                if now.state.name() != "active" && !own {
                    row["wait_event_type"] = json!("Client");
                    row["wait_event"] = json!("ClientRead");
                }
            }
            found.push(row.to_string());
        }
        Ok(found)
    }

    /// One column of a query from every node (`%node` is its number), as the client's own role. A node that can't be reached has no rows.
    pub(super) async fn ask_every_node(&mut self, sql: &str) -> Result<Vec<String>> {
        let snapshot = self.epoch.snapshot.clone();
        let set: Vec<String> = self.transaction.settings().map(str::to_string).collect();
        let mut found = Vec::new();
        for node in &snapshot.nodes {
            let asked = async {
                let mut lane = self.work().outside(node.id).await?;
                let rows = lane.rows_with(&set, &sql.replace("%node", &node.id.to_string())).await;
                if rows.is_err() && lane.conn.outstanding() > 0 {
                    lane.conn.mark_broken();
                }
                Ok::<_, ExecError>(rows?)
            };
            match asked.await {
                Ok(rows) => {
                    found.extend(rows.into_iter().filter_map(|r| r.into_iter().next().flatten()));
                }
                Err(ExecError::Pool(e)) if e.is_node_trouble() || e.is_before_statement() => {
                    let said = format!("node \"{}\" is missing from this view: {e}", node.name);
                    self.notice("WARNING", e.sqlstate(), &said);
                }
                Err(e) => return Err(e),
            }
        }
        Ok(found)
    }

    /// What runs through this router, as rows of `herd.progress`.
    pub(super) async fn progress_rows(&mut self) -> Result<Vec<String>> {
        let viewer = self.viewer().await?;
        let shown: HashMap<i32, Shown> = self.router.cancels.shown().into_iter().collect();
        let may_see = |r: &exec::Running| shown.get(&r.session).is_some_and(|s| viewer.may_see(s));
        let (herd, snapshot) = (&self.router.herd, &self.epoch.snapshot);
        let get = |n: &AtomicU64| n.load(Ordering::Relaxed);
        let row = |r: &exec::Running| {
            let name = |node: i32| snapshot.node(node).map_or_else(|| node.to_string(), |n| n.name.clone());
            let nodes: Vec<String> =
                r.nodes.lock().iter().map(|(node, rows)| format!("{}: {}", json(&name(*node)), get(rows))).collect();
            let relation = r.relation.as_ref().map(|r| catalog::qualified(&r.schema, &r.name));
            format!(
                "{{\"pid\": {}, \"datname\": {}, \"usename\": {}, \"relid\": {}, \"relation\": {}, \"command\": {}, \
                 \"type\": {}, \"bytes_processed\": {}, \"bytes_total\": 0, \"tuples_processed\": {}, \"tuples_excluded\": {}, \
                 \"tuples_committed\": {}, \"nodes\": {{{}}}, \"started_at\": {}}}",
                r.session,
                json(&herd.config.home.database),
                json(&r.user),
                r.relation.as_ref().map_or(0, |r| r.oid),
                relation.map_or_else(|| "null".into(), |name| json(&name)),
                json(r.command),
                json(r.kind),
                get(&r.bytes),
                get(&r.rows),
                if r.excludes { "null" } else { "0" },
                get(&r.committed),
                nodes.join(", "),
                json(&r.started),
            )
        };
        Ok(herd.progress.list().iter().filter(|r| may_see(r)).map(|r| row(r)).collect())
    }

    /// The session's prepared statements, as rows of `pg_prepared_statements`. How often each was planned is the nodes' to know.
    pub(super) fn prepared_rows(&self) -> Vec<String> {
        // A type reads its object id as its name.
        let types = |oids: &mut dyn Iterator<Item = u32>| oids.map(|oid| oid.to_string()).collect::<Vec<_>>();
        let row = |(name, kept): (&String, &Arc<Prepared>)| {
            let by_sql = self.prepared.get(name);
            let results = kept.fields.as_ref().map(|fields| types(&mut fields.iter().map(|f| f.type_oid)));
            let row = json!({
                "name": name,
                "statement": by_sql.map_or(&kept.sql, |p| &p.said),
                "prepare_time": timestamp(kept.at),
                "parameter_types": types(&mut kept.params.iter().copied()),
                "result_types": results,
                "from_sql": by_sql.is_some(),
                "generic_plans": 0,
                "custom_plans": 0,
            });
            row.to_string()
        };
        self.statements.iter().filter(|(name, _)| !name.is_empty()).map(row).collect()
    }

    /// The session's cursors that home does not know, as rows of `pg_cursors`.
    pub(super) async fn cursor_rows(&mut self) -> Result<Vec<String>> {
        let mut rows = vec![];
        for (name, mut cursor) in std::mem::take(&mut *self.cursors) {
            let shown = cursor.shown(&mut self.work()).await;
            if let Ok(Some(is_scrollable)) = shown {
                let row = json!({
                    "name": name,
                    "statement": cursor.statement,
                    "is_holdable": cursor.hold,
                    "is_binary": cursor.binary,
                    "is_scrollable": is_scrollable,
                    "creation_time": timestamp(cursor.since),
                });
                rows.push(row.to_string());
            }
            self.cursors.insert(name, cursor);
        }
        Ok(rows)
    }

    /// Which of this router's sessions each backend serves.
    pub(super) fn owners(&self) -> std::collections::HashMap<(i32, i32), i32> {
        let (herd, snapshot) = (&self.router.herd, &self.epoch.snapshot);
        let node_of = |key: &pool::CancelKey| {
            snapshot.nodes.iter().map(|n| n.id).find(|n| herd.target(snapshot, *n).is_ok_and(|t| t == *key.target))
        };
        self.router.cancels.owners(&node_of)
    }
}

/// A string in JSON.
fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if (c as u32) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

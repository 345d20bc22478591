//! `herd.transactions` and `herd.locks`: views that every node has of itself, which the router joins over all nodes;
//! and `herd.progress`, `herd.sessions` and `pg_prepared_statements`, of which the router alone knows.
//!
//! What a client may see of a node, its own role decides there. The statement then runs on home with the rows in place of
//! the view's name. This file does not know what the rows mean, apart from whose backends serve which session.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use exec::timestamp_at as timestamp;
use exec::{Bound, Compiled, ExecError, Forwarded};
use serde_json::json;
use sql::{NodeEnum, search};

use crate::prepared::Prepared;
use crate::session::{Result, Session};

/// The views by schema and name, each with how it is made of the nodes' `rows`, their `decisions` and this router's `sessions`.
const VIEWS: [(&str, &str, &str); 6] = [
    ("pg_catalog", PREPARED, "SELECT r.* FROM rows r"),
    // As pg_stat_progress_copy: who may not see the session sees nothing of it here.
    (
        "herd",
        "progress",
        "SELECT r.* FROM rows r \
         WHERE pg_catalog.pg_has_role(r.usename::pg_catalog.name, 'USAGE') OR pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE')",
    ),
    ("herd", "sessions", "SELECT r.* FROM rows r"),
    (
        "herd",
        "verify",
        "SELECT r.node, r.object, r.problem, r.rights FROM rows r WHERE r.problem OPERATOR(pg_catalog.<>) '' \
         UNION ALL SELECT r.node, r.object, CASE WHEN pg_catalog.jsonb_typeof(r.rights) OPERATOR(pg_catalog.=) 'array' THEN 'they are not those on home' \
         ELSE 'owner, privileges or row-level security are not those on home' END, r.rights \
         FROM rows r JOIN herd.node n ON n.is_home \
         LEFT JOIN rows h ON h.node OPERATOR(pg_catalog.=) n.id AND h.object OPERATOR(pg_catalog.=) r.object AND h.problem OPERATOR(pg_catalog.=) '' \
         WHERE r.problem OPERATOR(pg_catalog.=) '' AND (h.rights OPERATOR(pg_catalog.=) r.rights) IS NOT TRUE \
         AND NOT (h.rights IS NULL AND (r.rights OPERATOR(pg_catalog.=) '[]'::pg_catalog.jsonb \
             OR r.object OPERATOR(pg_catalog.~~) 'attributes of role %'))",
    ),
    (
        "herd",
        "transactions",
        "SELECT r.node, r.gid, r.owner, r.prepared_at, r.decider, r.router, \
         CASE WHEN EXISTS (SELECT FROM pg_catalog.jsonb_array_elements_text(d.decisions) AS g \
         WHERE r.gid OPERATOR(pg_catalog.~~) (g OPERATOR(pg_catalog.||) '\\_%')) \
         THEN 'committed' ELSE 'undecided' END AS state FROM rows r, decisions d",
    ),
    (
        "herd",
        "locks",
        "SELECT r.node, r.waiter_pid, (s.sessions OPERATOR(pg_catalog.->>) (r.node OPERATOR(pg_catalog.||) ':' OPERATOR(pg_catalog.||) r.waiter_pid))::pg_catalog.int4 AS waiter_session, r.waiter, r.waiting, \
         r.waiter_query, r.holder_pid, \
         (s.sessions OPERATOR(pg_catalog.->>) (r.node OPERATOR(pg_catalog.||) ':' OPERATOR(pg_catalog.||) r.holder_pid))::pg_catalog.int4 AS holder_session, r.holder, \
         r.holder_state, r.holder_query FROM rows r, sessions s",
    ),
];

/// PostgreSQL's view of a session's prepared statements: a node knows those of one of its connections.
const PREPARED: &str = "pg_prepared_statements";

/// Whether a SELECT reads one of the views.
pub fn names_herd_view(statement: &NodeEnum) -> bool {
    matches!(statement, NodeEnum::SelectStmt(_)) && !uses(statement).is_empty()
}

/// Each use: where its name begins in the text, which view, whether it has an alias.
fn uses(statement: &NodeEnum) -> Vec<(usize, &'static str, bool)> {
    let mut uses = vec![];
    search::each_relation(statement, |rv| {
        // pg_catalog's come before any schema of the path.
        let is_in = |schema: &str| rv.schemaname == schema || rv.schemaname.is_empty() && schema == "pg_catalog";
        let view = VIEWS.iter().find(|(schema, name, _)| rv.relname == *name && is_in(schema));
        if let (Some((_, name, _)), Ok(at)) = (view, usize::try_from(rv.location)) {
            uses.push((at, *name, rv.alias.is_some()));
        }
    });
    uses
}

impl Session {
    pub async fn herd_view(&mut self, statement: &NodeEnum, sql: &str, bound: Option<&Bound>) -> Result<Forwarded> {
        let mut uses = uses(statement);
        uses.sort_unstable();
        uses.dedup();
        let mut text = sql.to_string();
        for (at, view, has_alias) in uses.iter().rev() {
            let end = plan::splice::name_end(sql, *at).ok_or_else(|| ExecError::internal("a view without a name"))?;
            let alias = if *has_alias { String::new() } else { format!(" AS {view}") };
            text.replace_range(*at..end, &format!("\"herd.{view}\"{alias}"));
        }
        let mut with = Vec::new();
        for (schema, view, body) in VIEWS.iter().filter(|(_, name, _)| uses.iter().any(|u| u.1 == *name)) {
            let rows = match *view {
                "progress" => self.progress_rows(),
                PREPARED => self.prepared_rows(),
                "sessions" => self.sessions().await?,
                _ => {
                    self.ask_every_node(&format!(
                        "SELECT pg_catalog.to_jsonb(v) OPERATOR(pg_catalog.||) pg_catalog.jsonb_build_object('node', %node) FROM herd.{view} v"
                    ))
                    .await?
                }
            };
            let decisions = match *view {
                "transactions" => self.ask_every_node("SELECT pg_catalog.to_jsonb(gid) FROM herd.decisions").await?,
                _ => vec![],
            };

            let mut sessions = String::new();
            for ((node, pid), session) in self.owners() {
                let comma = if sessions.is_empty() { "" } else { ", " };
                let _ = write!(sessions, "{comma}\"{node}:{pid}\": {session}");
            }
            let value = |text: String| format!("{}::pg_catalog.jsonb", catalog::quote_literal(&text));
            with.push(format!(
                "\"herd.{view}\" AS (WITH rows AS (SELECT * FROM pg_catalog.jsonb_populate_recordset(NULL::{schema}.{view}, {})), \
                 decisions AS (SELECT {} AS decisions), sessions AS (SELECT {} AS sessions) {body})",
                value(format!("[{}]", rows.join(", "))),
                value(format!("[{}]", decisions.join(", "))),
                value(format!("{{{sessions}}}")),
            ));
        }
        // Beside the WITH the statement may have of its own.
        let at = text.len() - text.trim_start().len();
        let words: Vec<&str> = text[at..].split_whitespace().take(2).collect();
        let own = words.first().is_some_and(|w| w.eq_ignore_ascii_case("with"));
        let recursive = own && words.get(1).is_some_and(|w| w.eq_ignore_ascii_case("recursive"));
        let list = with.join(", ");
        let text = match (own, recursive) {
            (true, true) => {
                let after =
                    text[at..].to_ascii_lowercase().find("recursive").map_or(at, |i| at + i + "recursive".len());
                format!("WITH RECURSIVE {list}, {}", &text[after..])
            }
            (true, false) => format!("WITH {list}, {}", &text[at + "with".len()..]),
            _ => format!("WITH {list} {}", &text[at..]),
        };
        match bound {
            Some(_) => {
                let compiled = Arc::new(Compiled::new(plan::Plan::home(true), &text, self.context, None));
                self.run(&compiled, &text, bound).await
            }
            None => self.on_home(&text).await,
        }
    }

    /// This router's sessions, each as a JSON object, with what the client may see of it. Left out here and not by the
    /// statement: its text can be seen by others.
    async fn sessions(&mut self) -> Result<Vec<String>> {
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

    /// One column of a query from every node (`%node` is its number), as the client's own role. A node that can't be reached has no rows.
    async fn ask_every_node(&mut self, sql: &str) -> Result<Vec<String>> {
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
    fn progress_rows(&self) -> Vec<String> {
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
        herd.progress.list().iter().map(|r| row(r)).collect()
    }

    /// The session's prepared statements, as rows of `pg_prepared_statements`. How often each was planned is the nodes' to know.
    fn prepared_rows(&self) -> Vec<String> {
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

    /// Which of this router's sessions each backend serves.
    fn owners(&self) -> std::collections::HashMap<(i32, i32), i32> {
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

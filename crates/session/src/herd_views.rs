//! `herd.transactions` and `herd.locks`: views that every node has of itself, which the router joins over all nodes;
//! and `herd.progress`, `herd.sessions`, `pg_prepared_statements` and `pg_stat_activity`, of which the router alone knows.
//!
//! What a client may see of a node, its own role decides there. The rows are written into the statement in place of the
//! view's name before it is planned. This file does not know what they mean, apart from whose backends serve which session.

mod rows;

use exec::ExecError;
use plan::Context;
use plan::kind::Kind;
use sql::ast::{Node, ObjectType, RangeVar};
use sql::{NodeEnum, relations, search};
use wire::sqlstate;

use crate::backends;
use crate::budget;
use crate::session::{Result, Session};

/// A view by schema and name, with how it is made of `rows` (the nodes' or the router's), the nodes' `decisions` and the
/// `sessions` that backends serve.
struct View {
    schema: &'static str,
    name: &'static str,
    body: &'static str,
}

impl View {
    const fn new(schema: &'static str, name: &'static str, body: &'static str) -> Self {
        View { schema, name, body }
    }

    fn qualified(&self) -> String {
        format!("{}.{}", self.schema, self.name)
    }
}

const VIEWS: [View; 7] = [
    View::new("pg_catalog", PREPARED, "SELECT r.* FROM rows r"),
    View::new(
        "pg_catalog",
        ACTIVITY,
        "SELECT (pg_catalog.jsonb_populate_record(NULL::pg_catalog.pg_stat_activity, pg_catalog.to_jsonb(r) \
         OPERATOR(pg_catalog.||) pg_catalog.jsonb_build_object('usename', \
         (SELECT o.rolname FROM pg_catalog.pg_roles o WHERE o.oid OPERATOR(pg_catalog.=) r.usesysid)))).* FROM rows r",
    ),
    View::new("herd", "progress", "SELECT r.* FROM rows r"),
    View::new("herd", "sessions", "SELECT r.* FROM rows r"),
    View::new(
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
    View::new(
        "herd",
        "transactions",
        "SELECT r.node, r.gid, r.owner, r.prepared_at, r.decider, r.router, \
         CASE WHEN EXISTS (SELECT FROM pg_catalog.jsonb_array_elements_text(d.decisions) AS g \
         WHERE r.gid OPERATOR(pg_catalog.~~) (g OPERATOR(pg_catalog.||) '\\_%')) \
         THEN 'committed' ELSE 'undecided' END AS state FROM rows r, decisions d",
    ),
    View::new(
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
/// PostgreSQL's view of sessions: a node knows its connections with routers.
const ACTIVITY: &str = "pg_stat_activity";

/// Which of the views a relation's name means.
fn meant(rv: &RangeVar, cx: &Context) -> Option<&'static View> {
    let view =
        VIEWS.iter().find(|v| v.name == rv.relname && (rv.schemaname == v.schema || rv.schemaname.is_empty()))?;
    if !rv.schemaname.is_empty() {
        return Some(view);
    }
    let at = cx.search_path.iter().position(|schema| *schema == view.schema)?;
    let before = cx.snapshot.resolve(None, &rv.relname, &cx.search_path[..at]);
    (before.is_none() && !cx.is_temporary(rv)).then_some(view)
}

/// The views a statement reads. What a node knows of its own backends goes with the node's own view of them.
fn uses(statement: &NodeEnum, cx: &Context) -> Vec<&'static View> {
    let sampled = |n: &NodeEnum| match n {
        NodeEnum::RangeTableSample(t) => match t.relation.as_deref().and_then(|r| r.node.as_ref()) {
            Some(NodeEnum::RangeVar(rv)) => meant(rv, cx).is_some(),
            _ => false,
        },
        _ => false,
    };
    if search::any(statement, sampled) {
        // Of a view there is no sample, says PostgreSQL.
        return vec![];
    }
    let mut uses: Vec<&View> = relations::of(statement).into_iter().filter_map(|rv| meant(rv, cx)).collect();
    uses.sort_unstable_by_key(|v| v.name);
    uses.dedup_by_key(|v| v.name);
    if uses.iter().any(|v| v.name == ACTIVITY) && backends::reads_of_node(statement) {
        uses.retain(|v| v.name != ACTIVITY);
    }
    uses
}

/// Whether a statement reads one of the views.
pub fn names_herd_view(statement: &NodeEnum, cx: &Context) -> bool {
    !uses(statement, cx).is_empty()
}

/// Statements that run a query now, which may read the views.
fn runs_query(statement: &NodeEnum) -> bool {
    use NodeEnum::*;
    match statement {
        CreateTableAsStmt(s) => s.objtype != ObjectType::ObjectMatview as i32,
        SelectStmt(_) | InsertStmt(_) | UpdateStmt(_) | DeleteStmt(_) | MergeStmt(_) | ExplainStmt(_) | CopyStmt(_)
        | DeclareCursorStmt(_) => true,
        _ => false,
    }
}

impl Session {
    /// The statement with rows in place of the views it names; `None`: it names none.
    pub async fn with_rows_of_views(&mut self, statement: &NodeEnum, sql: &str) -> Result<Option<(NodeEnum, String)>> {
        let keeps_query = matches!(statement, NodeEnum::CreateTableAsStmt(_) | NodeEnum::ViewStmt(_));
        if !keeps_query && !runs_query(statement) {
            return Ok(None);
        }
        let uses = uses(statement, &self.names());
        // Of planned statements the pids are put in with what they signal.
        let speaks = !Kind::of(statement).planned && runs_query(statement) && backends::names_backends(statement);
        if uses.is_empty() && !speaks {
            return Ok(None);
        }
        if !runs_query(statement) {
            // One of pg_stat_activity is made on PostgreSQL's own, for those who look at a node.
            let Some(view) = uses.iter().find(|v| v.name != ACTIVITY) else { return Ok(None) };
            let name = view.qualified();
            return Err(ExecError::sql(
                sqlstate::FEATURE_NOT_SUPPORTED,
                format!("a view that reads {name} is not supported through the router"),
            )
            .hint("It would show what one node knows. SELECT from the view itself where its rows are needed."));
        }
        let mut rows = Vec::with_capacity(uses.len());
        for view in uses {
            rows.push((view, self.rows_of(view, sql).await?));
        }
        let mut own = statement.clone();
        let cx = self.names();
        let named = relations::of(statement).into_iter().filter_map(|rv| meant(rv, &cx));
        let length = |view: &View| rows.iter().find(|(v, _)| v.name == view.name).map_or(0, |(_, (_, bytes))| *bytes);
        budget::put_together(named.map(length).sum(), rows.iter().map(|(_, (_, bytes))| bytes).sum())?;
        relations::replace(&mut own, &mut |node| {
            let Some(NodeEnum::RangeVar(rv)) = &node.node else { return };
            let Some(view) = meant(rv, &cx) else { return };
            let Some((_, (rows, _))) = rows.iter().find(|(v, _)| v.name == view.name) else { return };
            let mut put = rows.clone();
            if let (Some(NodeEnum::RangeSubselect(s)), Some(alias)) = (&mut put.node, &rv.alias) {
                s.alias = Some(alias.clone());
            }
            *node = put;
        });
        if speaks {
            backends::put_pid(&mut own, self.id as i32)?;
        }
        // The rest is as if it had been written so.
        let text = sql::deparse(&own)?;
        let tree = sql::parse(&text, true)?.pop().ok_or_else(|| ExecError::internal("empty statement"))?;
        Ok(Some((tree, text)))
    }

    /// A view's rows as an item of FROM, and the length of its text.
    async fn rows_of(&mut self, view: &View, sql: &str) -> Result<(Node, usize)> {
        let name = view.qualified();
        let rows = match view.name {
            "progress" => self.progress_rows().await?,
            PREPARED => self.prepared_rows(),
            ACTIVITY => self.activity_rows(sql).await?,
            "sessions" => self.sessions().await?,
            _ => {
                self.ask_every_node(&format!(
                    "SELECT pg_catalog.to_jsonb(v) OPERATOR(pg_catalog.||) pg_catalog.jsonb_build_object('node', %node) FROM {name} v"
                ))
                .await?
            }
        };
        let decisions = match view.name {
            "transactions" => self.ask_every_node("SELECT pg_catalog.to_jsonb(gid) FROM herd.decisions").await?,
            _ => vec![],
        };
        let owners = match view.name {
            "locks" => {
                self.owners().iter().map(|((node, pid), session)| format!("\"{node}:{pid}\": {session}")).collect()
            }
            _ => vec![],
        };
        let value = |text: String| format!("{}::pg_catalog.jsonb", catalog::quote_literal(&text));
        let text = format!(
            "SELECT FROM (WITH rows AS (SELECT * FROM pg_catalog.jsonb_populate_recordset(NULL::{name}, {})), \
             decisions AS (SELECT {} AS decisions), sessions AS (SELECT {} AS sessions) {}) AS {}",
            value(format!("[{}]", rows.join(", "))),
            value(format!("[{}]", decisions.join(", "))),
            value(format!("{{{}}}", owners.join(", "))),
            view.body,
            view.name,
        );
        match sql::parse(&text, true)?.pop() {
            Some(NodeEnum::SelectStmt(s)) if !s.from_clause.is_empty() => Ok((s.from_clause[0].clone(), text.len())),
            _ => Err(ExecError::internal(format!("unreadable rows of {name}"))),
        }
    }
}

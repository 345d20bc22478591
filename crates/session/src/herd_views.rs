//! `herd.transactions` and `herd.locks`: views that every node has of itself, which the router joins over all nodes;
//! `herd.table_sizes` and `herd.stat_tables`, which it adds up (`herd_views/added_up.rs`); PostgreSQL's lists of constraints, of which it leaves some out (`herd_views/constraints.rs`);
//! `herd.column_copies` and `herd.column_stores`, which stores know; and `herd.progress`, `herd.replicas`, `herd.sessions`, `pg_cursors`, `pg_prepared_statements` and `pg_stat_activity`, of which the router alone knows.
//!
//! What a client may see of a node, its own role decides there. The rows are written into the statement in place of the
//! view's name before it is planned. This file does not know which statements read them (`plan/src/router_views.rs`), nor what they mean, apart from whose backends serve which session.

mod added_up;
mod constraints;
mod rows;

use std::borrow::Cow;

use catalog::NodeId;
use exec::ExecError;
use plan::{Decided, RouterView, sizes};
use sql::ast::{self, Node};
use sql::{NodeEnum, relations, search};
use wire::sqlstate;

use crate::backends;
use crate::budget;
use crate::session::{Result, Session};

/// How a view is made of `rows` (the nodes' or the router's), the nodes' `decisions` and the `sessions` that backends serve.
fn body(view: RouterView, home: NodeId) -> Cow<'static, str> {
    let text = match view {
        RouterView::StatTables | RouterView::TableSizes => return added_up::body(view, home).into(),
        RouterView::ColumnCopies
        | RouterView::ColumnStores
        | RouterView::Constraints(_)
        | RouterView::Prepared
        | RouterView::Progress
        | RouterView::Replicas
        | RouterView::Sessions => "SELECT r.* FROM rows r",
        RouterView::Cursors => {
            "SELECT r.* FROM rows r UNION ALL SELECT c.* FROM pg_catalog.pg_cursors c \
         WHERE pg_catalog.left(c.name, 12) OPERATOR(pg_catalog.<>) 'herd cursor ' AND pg_catalog.left(c.name, 5) OPERATOR(pg_catalog.<>) 'herd_'"
        }
        RouterView::Activity => {
            "SELECT (pg_catalog.jsonb_populate_record(NULL::pg_catalog.pg_stat_activity, pg_catalog.to_jsonb(r) \
         OPERATOR(pg_catalog.||) pg_catalog.jsonb_build_object('usename', \
         (SELECT o.rolname FROM pg_catalog.pg_roles o WHERE o.oid OPERATOR(pg_catalog.=) r.usesysid)))).* FROM rows r"
        }
        RouterView::Verify => {
            "SELECT r.node, r.object, r.problem, r.rights FROM rows r WHERE r.problem OPERATOR(pg_catalog.<>) '' \
         UNION ALL SELECT r.node, r.object, CASE WHEN pg_catalog.jsonb_typeof(r.rights) OPERATOR(pg_catalog.=) 'array' THEN 'they are not those on home' \
         ELSE 'owner, privileges or row-level security are not those on home' END, r.rights \
         FROM rows r JOIN herd.node n ON n.is_home \
         LEFT JOIN rows h ON h.node OPERATOR(pg_catalog.=) n.id AND h.object OPERATOR(pg_catalog.=) r.object AND h.problem OPERATOR(pg_catalog.=) '' \
         WHERE r.problem OPERATOR(pg_catalog.=) '' AND (h.rights OPERATOR(pg_catalog.=) r.rights) IS NOT TRUE \
         AND NOT (h.rights IS NULL AND (r.rights OPERATOR(pg_catalog.=) '[]'::pg_catalog.jsonb \
             OR r.object OPERATOR(pg_catalog.~~) 'attributes of role %'))"
        }
        RouterView::Transactions => {
            "SELECT r.node, r.gid, r.owner, r.prepared_at, r.decider, r.router, \
         CASE WHEN EXISTS (SELECT FROM pg_catalog.jsonb_array_elements_text(d.decisions) AS g \
         WHERE r.gid OPERATOR(pg_catalog.~~) (g OPERATOR(pg_catalog.||) '\\_%')) \
         THEN 'committed' ELSE 'undecided' END AS state FROM rows r, decisions d"
        }
        RouterView::Locks => {
            "SELECT r.node, r.waiter_pid, (s.sessions OPERATOR(pg_catalog.->>) (r.node OPERATOR(pg_catalog.||) ':' OPERATOR(pg_catalog.||) r.waiter_pid))::pg_catalog.int4 AS waiter_session, r.waiter, r.waiting, \
         r.waiter_query, r.holder_pid, \
         (s.sessions OPERATOR(pg_catalog.->>) (r.node OPERATOR(pg_catalog.||) ':' OPERATOR(pg_catalog.||) r.holder_pid))::pg_catalog.int4 AS holder_session, r.holder, \
         r.holder_state, r.holder_query FROM rows r, sessions s"
        }
    };
    text.into()
}

/// As a statement names it from anywhere.
fn qualified(view: RouterView) -> String {
    format!("{}.{}", view.schema(), view.name())
}

impl Session {
    /// The statement with rows in place of the views it names; `None`: it names none.
    pub async fn with_rows_of_views(
        &mut self,
        statement: &NodeEnum,
        decided: &Decided<'_>,
        sql: &str,
    ) -> Result<Option<(NodeEnum, String)>> {
        let uses = &decided.reads.views;
        // Of statements about rows the pids are put in with what they signal.
        let speaks = decided.plan.rows().is_none() && decided.reads.backends;
        if plan::decide::keeps_query(statement) {
            // One of PostgreSQL's own is for those who look at a node.
            let Some(view) = uses.iter().find(|v| !v.may_be_kept()) else { return Ok(None) };
            let name = qualified(*view);
            return Err(ExecError::sql(
                sqlstate::FEATURE_NOT_SUPPORTED,
                format!("a view that reads {name} is not supported through the router"),
            )
            .hint("It would show what one node knows. SELECT from the view itself where its rows are needed."));
        }
        if uses.is_empty() && !speaks {
            return Ok(None);
        }
        let mut rows = Vec::with_capacity(uses.len());
        let tables = sizes::only(statement, &self.names()).map(|tables| added_up::of_tables(&tables));
        for view in uses {
            let which = tables.as_deref().filter(|_| *view == RouterView::TableSizes).unwrap_or_default();
            rows.push((*view, self.rows_of(*view, which, sql).await?));
        }
        let mut own = statement.clone();
        let cx = self.names();
        sizes::put(&mut own, &cx);
        let named = relations::of(&own).into_iter().filter_map(|rv| RouterView::meant(rv, &cx));
        let length = |view: RouterView| rows.iter().find(|(v, _)| *v == view).map_or(0, |(_, (_, bytes))| *bytes);
        budget::put_together(named.map(length).sum(), rows.iter().map(|(_, (_, bytes))| bytes).sum())?;
        relations::replace(&mut own, &mut |node| {
            let Some(NodeEnum::RangeVar(rv)) = &node.node else { return };
            let Some(view) = RouterView::meant(rv, &cx) else { return };
            let Some((_, (rows, _))) = rows.iter().find(|(v, _)| *v == view) else { return };
            let mut put = rows.clone();
            if let (Some(NodeEnum::RangeSubselect(s)), Some(alias)) = (&mut put.node, &rv.alias) {
                s.alias = Some(alias.clone());
            }
            *node = put;
        });
        search::each_mut(&mut own, |n| {
            if let NodeEnum::ColumnRef(c) = n {
                without_schema(c, uses);
            }
            true
        });
        if speaks {
            backends::put_pid(&mut own, self.id as i32, self.own.get(crate::encoding::NAME))?;
        }
        // The rest is as if it had been written so.
        let text = sql::deparse(&own)?;
        let tree = sql::parse(&text, true)?.pop().ok_or_else(|| ExecError::internal("empty statement"))?;
        Ok(Some((tree, text)))
    }

    /// A view's rows as an item of FROM, and the length of its text. `which`: a condition of what nodes are asked for.
    async fn rows_of(&mut self, view: RouterView, which: &str, sql: &str) -> Result<(Node, usize)> {
        if let RouterView::Constraints(which) = view {
            return from_item(&constraints::query(view, which));
        }
        let name = qualified(view);
        let rows = match view {
            RouterView::ColumnCopies => self.router.herd.column_copies(&self.epoch.snapshot).await,
            RouterView::ColumnStores => self.router.herd.column_stores(&self.epoch.snapshot).await,
            RouterView::Progress => self.progress_rows().await?,
            RouterView::Replicas => self.router.herd.standbys.rows(&self.epoch.snapshot),
            RouterView::Cursors => self.cursor_rows().await?,
            RouterView::Prepared => self.prepared_rows(),
            RouterView::Activity => self.activity_rows(sql).await?,
            RouterView::Sessions => self.sessions().await?,
            RouterView::Constraints(_) => vec![],
            RouterView::Locks
            | RouterView::StatTables
            | RouterView::TableSizes
            | RouterView::Transactions
            | RouterView::Verify => {
                self.ask_every_node(&format!(
                    "SELECT pg_catalog.to_jsonb(v) OPERATOR(pg_catalog.||) pg_catalog.jsonb_build_object('node', %node) FROM {name} v{which}"
                ))
                .await?
            }
        };
        let decisions = match view {
            RouterView::Transactions => {
                self.ask_every_node("SELECT pg_catalog.to_jsonb(gid) FROM herd.decisions").await?
            }
            _ => vec![],
        };
        let owners = match view {
            RouterView::Locks => {
                self.owners().iter().map(|((node, pid), session)| format!("\"{node}:{pid}\": {session}")).collect()
            }
            _ => vec![],
        };
        let value = |text: String| format!("{}::pg_catalog.jsonb", catalog::quote_literal(&text));
        let said = value(format!("[{}]", rows.join(", ")));
        let rows = match view {
            RouterView::StatTables | RouterView::TableSizes => added_up::rows(&name, &said),
            _ => format!("SELECT * FROM pg_catalog.jsonb_populate_recordset(NULL::{name}, {said})"),
        };
        let text = format!(
            "SELECT FROM (WITH rows AS ({rows}), decisions AS (SELECT {} AS decisions), sessions AS (SELECT {} AS sessions) {}) AS {}",
            value(format!("[{}]", decisions.join(", "))),
            value(format!("{{{}}}", owners.join(", "))),
            body(view, self.epoch.snapshot.home),
            view.name(),
        );
        from_item(&text)
    }
}

/// `schema.view.column` of a view that has become a query, which is in no schema.
fn without_schema(column: &mut ast::ColumnRef, put: &[RouterView]) {
    if let [schema, name, _] = &column.fields[..]
        && let (Some(NodeEnum::String(schema)), Some(NodeEnum::String(name))) = (&schema.node, &name.node)
        && put.iter().any(|v| (v.schema(), v.name()) == (&schema.sval, &name.sval))
    {
        column.fields.remove(0);
    }
}

/// What stands in FROM of a query, and the length of the query's text.
fn from_item(text: &str) -> Result<(Node, usize)> {
    match sql::parse(text, true)?.pop() {
        Some(NodeEnum::SelectStmt(s)) if !s.from_clause.is_empty() => Ok((s.from_clause[0].clone(), text.len())),
        _ => Err(ExecError::internal("unreadable rows of a view")),
    }
}

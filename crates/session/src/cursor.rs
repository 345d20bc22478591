//! SQL cursors. One on a single node is that node's own; over several nodes the rows are gathered and go to home, as parameters of the
//! cursor, or where there are many into a temporary table of the transaction: so every direction PostgreSQL knows works.

use std::sync::Arc;
use wire::sqlstate;

use exec::{Bound, Compiled, ExecError, Forwarded, Request};
use sql::NodeEnum;
use sql::ast;
use wire::backend::{self, Field};

use crate::anew::shown;
use crate::held::Held;
use crate::prepared::PortalState;
use crate::session::{Result, Session};

/// A cursor of SQL's own DECLARE, and the node that has it.
pub struct Cursor {
    pub node: i32,
    pub hold: bool,
    /// On a node other than home, whose object ids are its own.
    read: Option<Arc<Read>>,
}

/// What a cursor reads, and the types of its parameters.
struct Read {
    compiled: Compiled,
    types: Vec<u32>,
}

/// More than this goes into a table, if the transaction may make one: a cursor's parameters are copied for it.
const ARRAYS_MAX: usize = 8 << 20;
const OPT_HOLD: i32 = 0x0020;
/// What to do in place of a binary cursor.
const NOT_BINARY: &str = "Use a plain DECLARE, and ask for binary results when fetching.";
/// `CURSOR_OPT_BINARY` in parsenodes.h.
const OPT_BINARY: i32 = 0x0001;

impl Session {
    pub async fn declare_cursor(
        &mut self,
        d: &ast::DeclareCursorStmt,
        sql: &str,
        bound: Option<&Bound>,
    ) -> Result<Forwarded> {
        let home = self.epoch.snapshot.home;
        let hold = d.options & OPT_HOLD != 0;
        let Some(query) = d.query.as_deref().and_then(|q| q.node.as_ref()) else { return self.on_home(sql).await };
        let text = sql::deparse(query)?;
        let tree = sql::parse(&text, true)?.pop().ok_or_else(|| ExecError::internal("empty cursor query"))?;
        let compiled = self.compile_with(&tree, &text, bound.map_or(&[], |b| &b.types)).await?;
        // The rows' formats are chosen by each FETCH, not here.
        let bound = bound.map(|b| Bound {
            result_formats: Default::default(),
            tail: exec::bind_tail(&Bound { result_formats: Default::default(), ..b.clone() }),
            ..b.clone()
        });
        let bound = bound.as_ref();
        let request = Request::bound(&text, bound);
        let placed = self.work().place(&compiled, &request).await?;
        let node = match placed {
            exec::Placed::One(node, _) => Some(node),
            exec::Placed::Several(_) => None,
        };
        if !hold && !self.transaction.is_active() {
            return Err(ExecError::sql(
                sqlstate::NO_ACTIVE_SQL_TRANSACTION,
                "DECLARE CURSOR can only be used in transaction blocks",
            ));
        }
        if hold && node != Some(home) {
            return Err(ExecError::sql(
                sqlstate::FEATURE_NOT_SUPPORTED,
                "WITH HOLD cursors over distributed tables are not supported",
            )
            .hint("Use the cursor inside the transaction."));
        }
        if hold {
            self.pin_home(crate::activity::Pins::CURSOR);
        }
        let foreign = node.is_some_and(|node| node != home);
        if foreign && d.options & OPT_BINARY != 0 {
            self.refuse_binary_ids(&compiled, &request).await?;
        }
        let rewritten = match (compiled.plan.whole().own_text(), node) {
            (Some(query), Some(_)) => Some(declare_for(d, query)?),
            _ => None,
        };
        let sql = rewritten.as_deref().unwrap_or(sql);
        let done = match node {
            Some(node) => self.declare_on(node, &compiled, sql, bound).await?,
            None if d.options & OPT_BINARY != 0 => {
                return Err(ExecError::sql(
                    sqlstate::FEATURE_NOT_SUPPORTED,
                    "binary cursors over several nodes are not supported",
                )
                .hint(NOT_BINARY));
            }
            None => self.gather_cursor(d, &compiled, &request).await?,
        };
        let types = request.types().to_vec();
        let read = foreign.then(|| Arc::new(Read { compiled, types }));
        self.cursors.insert(d.portalname.clone(), Cursor { node: node.unwrap_or(home), hold, read });
        Ok(Forwarded { tag: "DECLARE CURSOR".into(), ..done })
    }

    /// A binary cursor on a node other than home would tell that node's object ids of users' own types.
    async fn refuse_binary_ids(&mut self, compiled: &Compiled, request: &Request<'_>) -> Result<()> {
        let described = self.work().described(compiled, request.types()).await?;
        if !exec::may_tell_ids(described.fields.as_deref().unwrap_or_default()) {
            return Ok(());
        }
        let message =
            "binary cursors over types of users' own are not supported here: they are read on a node other than home";
        Err(ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, message).hint(NOT_BINARY))
    }

    /// As that node's own cursor.
    async fn declare_on(
        &mut self,
        node: i32,
        compiled: &Compiled,
        sql: &str,
        bound: Option<&Bound>,
    ) -> Result<Forwarded> {
        if let Some(look) = compiled.looks().alone(node) {
            self.on_node(node, &look, false).await.map_err(|e| shown(e, sql))?;
        }
        let whole = Compiled::new(plan::Planned::home(true), sql, self.context, None);
        match bound {
            Some(b) if !b.values.is_empty() => {
                let request = Request::bound(sql, Some(b));
                self.work().route(&whole, &request, node, None).await?
            }
            _ => self.on_node(node, sql, false).await?,
        };
        if compiled.plan.whole().local && self.transaction.is_active() {
            self.work().same_kinds().await?;
        }
        Ok(Forwarded::default())
    }

    /// Over several nodes: its rows are gathered, and home has a cursor over them.
    async fn gather_cursor(
        &mut self,
        d: &ast::DeclareCursorStmt,
        compiled: &Compiled,
        request: &Request<'_>,
    ) -> Result<Forwarded> {
        let home = self.epoch.snapshot.home;
        let mut held = Held::new(&self.memory);
        let described = self.work().described(compiled, request.types()).await?;
        let fields = described.fields.clone().unwrap_or_default();
        let types = self.work().type_names(&fields).await?;
        self.work().travel_whole(types.iter().map(String::as_str))?;
        self.hold(compiled, request, &mut held).await?;
        let few = held.rows.bytes() <= ARRAYS_MAX && !types.is_empty();
        if few || !self.work().may_make_temporary().await? {
            let query = exec::query_over_held(&types, fields.iter().map(|f| f.name.as_str()));
            let declare = declare_for(d, &query)?;
            self.work().declare_over_held(declare, types.len(), &held.rows).await?;
            return Ok(Forwarded::default());
        }
        let table = format!("pg_temp.herd_cursor_{}", self.next_number());
        let columns: Vec<String> = types.iter().enumerate().map(|(i, t)| format!("c{i} {t}")).collect();
        let mut work = self.work();
        let mut p = work.lane(home).await?;
        let filled = async {
            p.lane
                .run(&format!("CREATE TEMPORARY TABLE {table} (n bigint, {}) ON COMMIT DROP", columns.join(", ")))
                .await?;
            p.lane.put_query(&format!("COPY {table} FROM STDIN"));
            p.lane.conn.flush().await?;
            loop {
                match p.lane.next().await?.tag() {
                    b'G' => break,
                    b'E' | b'Z' => return Err(ExecError::internal("the cursor's rows could not be kept")),
                    _ => {}
                }
            }
            let mut line = Vec::new();
            for (n, row) in held.rows.iter().enumerate() {
                let number = n.to_string();
                let values = backend::parse_data_row(&row[wire::frame::HEADER_LEN..])?;
                let all: Vec<Option<&[u8]>> = std::iter::once(Some(number.as_bytes())).chain(values).collect();
                line.clear();
                exec::copy_line(&all, &mut line);
                wire::put::copy_data(p.lane.conn.out(), &line);
                if p.lane.conn.out().len() > 65_536 {
                    p.lane.conn.flush().await?;
                }
            }
            wire::put::copy_done(p.lane.conn.out());
            p.lane.conn.flush().await?;
            p.lane.finish().await?;
            let names: Vec<String> =
                fields.iter().enumerate().map(|(i, f)| format!("c{i} AS {}", catalog::quote_ident(&f.name))).collect();
            let query = format!("SELECT {} FROM {table} held ORDER BY held.n", names.join(", "));
            p.lane.run(&declare_for(d, &query)?).await?;
            Ok(Forwarded::default())
        }
        .await;
        work.put_back(p).await;
        filled
    }

    fn cursor_node(&self, name: &str) -> i32 {
        self.cursors.get(name).map_or(self.epoch.snapshot.home, |c| c.node)
    }

    /// FETCH and MOVE, of cursors and of the extended protocol's portals.
    pub async fn fetch(&mut self, f: &ast::FetchStmt, sql: &str, bound: Option<&Bound>) -> Result<Forwarded> {
        if !self.cursors.contains_key(&f.portalname)
            && let Some(done) = self.fetch_portal(f, bound).await?
        {
            return Ok(done);
        }
        let node = self.cursor_node(&f.portalname);
        let read = self.cursors.get(&f.portalname).and_then(|c| c.read.clone());
        let Some(bound) = bound else {
            return match read {
                Some(read) => self.fetch_described(node, sql, &read).await,
                None => self.on_node(node, sql, true).await,
            };
        };
        let whole = Compiled::new(plan::Planned::home(false), sql, self.context, None);
        if let (Some(read), true) = (read, bound.result_formats.contains(&1)) {
            // Binary values may hold object ids.
            let _ = whole.described.set(self.work().described(&read.compiled, &read.types).await?);
        }
        let request = Request::bound(sql, Some(bound));
        self.work().route_once(&whole, &request, node).await
    }

    /// FETCH and MOVE by the simple protocol on a node other than home.
    async fn fetch_described(&mut self, node: i32, sql: &str, read: &Read) -> Result<Forwarded> {
        let mut work = self.work();
        let mut p = work.lane(node).await?;
        p.lane.put_query(sql);
        let result = match p.lane.conn.flush().await {
            Ok(()) => work.forward_as_home(&mut p.lane, &read.compiled, &read.types).await,
            Err(e) => Err(e.into()),
        };
        work.put_back(p).await;
        result
    }

    /// The columns of a FETCH from a cursor.
    pub async fn describe_fetch(&mut self, name: &str, sql: &str, declared: &[u32]) -> Result<Option<Vec<Field>>> {
        let node = self.cursor_node(name);
        let read = self.cursors.get(name).and_then(|c| c.read.clone());
        let mut work = self.work();
        let fields = work.describe_on(node, sql, declared).await?.fields;
        match (fields, read) {
            (Some(fields), Some(read)) => Ok(Some(work.as_home_describes(fields, &read.compiled, &read.types).await)),
            (fields, _) => Ok(fields),
        }
    }

    /// FETCH and MOVE on a portal of the extended protocol.
    async fn fetch_portal(&mut self, f: &ast::FetchStmt, bound: Option<&Bound>) -> Result<Option<Forwarded>> {
        let Some(portal) = self.portals.get_mut(&f.portalname) else { return Ok(None) };
        match &mut portal.state {
            Some(PortalState::OnNode { node, name }) => {
                let (node, renamed) = (*node, ast::FetchStmt { portalname: name.clone(), ..f.clone() });
                let sql = sql::deparse(&NodeEnum::FetchStmt(renamed))?;
                let Some(bound) = bound else { return self.on_node(node, &sql, true).await.map(Some) };
                let whole = Compiled::new(plan::Planned::home(false), &sql, self.context, None);
                let request = Request::bound(&sql, Some(bound));
                self.work().route_once(&whole, &request, node).await.map(Some)
            }
            Some(PortalState::Held { rows, .. })
                if f.ismove && f.direction == ast::FetchDirection::FetchForward as i32 =>
            {
                let moved = usize::try_from(f.how_many).unwrap_or(0).min(rows.len());
                (0..moved).for_each(|_| drop(rows.pop()));
                Ok(Some(Forwarded { tag: format!("MOVE {moved}"), ..Default::default() }))
            }
            _ => Err(ExecError::sql(
                sqlstate::FEATURE_NOT_SUPPORTED,
                "FETCH from a portal over several nodes is not supported",
            )
            .hint("Execute the portal, or DECLARE a cursor.")),
        }
    }

    pub async fn close_cursor(&mut self, c: &ast::ClosePortalStmt, sql: &str) -> Result<Forwarded> {
        if c.portalname.is_empty() {
            for node in self.cursors.values().map(|c| c.node).collect::<std::collections::BTreeSet<_>>() {
                self.on_node(node, sql, false).await?;
            }
            self.cursors.clear();
            return Ok(Forwarded { tag: "CLOSE CURSOR ALL".into(), ..Default::default() });
        }
        let node = self.cursor_node(&c.portalname);
        let done = self.on_node(node, sql, false).await?;
        self.cursors.remove(&c.portalname);
        Ok(done)
    }
}

/// The same cursor for another query.
fn declare_for(d: &ast::DeclareCursorStmt, query: &str) -> Result<String> {
    let tree = sql::parse(query, true)?.pop();
    let query = tree.map(|t| Box::new(sql::build::node(t)));
    Ok(sql::deparse(&NodeEnum::DeclareCursorStmt(Box::new(ast::DeclareCursorStmt { query, ..d.clone() })))?)
}

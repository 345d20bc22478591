//! SQL cursors. One on a single node is that node's own; one over several nodes, or one that outlives a transaction,
//! is the router's (exec's `query/cursor.rs`).

mod current;
mod in_use;
mod spread;

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use wire::sqlstate;

use exec::{Bound, Client, Compiled, ExecError, Forwarded, Request, Taken, Work};
use sql::NodeEnum;
use sql::ast;
use wire::backend::Field;

use crate::anew::{Written, shown};
use crate::prepared::{Portal, PortalState};
use crate::session::{Result, Session};

/// A cursor of SQL's own DECLARE.
pub struct Cursor {
    at: At,
    pub hold: bool,
    /// Its transaction is committed: it stays until it is closed.
    pub outlives: bool,
    /// FETCH by the simple protocol gives binary values.
    pub binary: bool,
    /// As the client wrote it, and when, since the Unix epoch.
    pub statement: String,
    pub since: Duration,
    scroll: bool,
    /// Savepoints that were open when it was declared.
    pub depth: usize,
    reads: in_use::Reads,
    /// The row that is being changed.
    changed: Option<Box<current::Row>>,
    /// What it takes of the router's memory besides rows.
    _taken: Taken,
}

/// Who has a cursor.
enum At {
    Node {
        node: i32,
        /// All of it is in this one shard of its tables.
        shard: Option<Shard>,
        /// On a node other than home, whose object ids are its own.
        read: Option<Arc<Read>>,
    },
    Spread(Box<exec::Cursor>, current::Rows),
}

impl Cursor {
    /// Whether it can go back, for who looks at it; `None`: home has it.
    pub async fn shown<C: Client>(&mut self, work: &mut Work<'_, C>) -> Result<Option<bool>> {
        match &mut self.at {
            At::Node { read: None, .. } => Ok(None),
            At::Node { .. } => Ok(Some(self.scroll)),
            At::Spread(cursor, _) => cursor.scrolls(work).await.map(Some),
        }
    }
}

/// A shard of its number in each of these groups of colocated tables.
struct Shard {
    number: i32,
    groups: Vec<i32>,
}

/// A session's cursors, by name.
#[derive(Default)]
pub struct Cursors(HashMap<String, Cursor>);

impl Deref for Cursors {
    type Target = HashMap<String, Cursor>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Cursors {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl exec::Stands for Cursors {
    fn stands(&self, cursor: &str, group: i32) -> Option<(i32, i32)> {
        let changed = self.values().filter_map(|c| c.changed.as_deref()).find(|row| row.of == cursor);
        if let Some(row) = changed {
            return (row.group == group).then_some((row.node, row.shard));
        }
        match &self.get(cursor)?.at {
            At::Node { node, shard: Some(shard), .. } if shard.groups.contains(&group) => Some((*node, shard.number)),
            At::Node { .. } | At::Spread(..) => None,
        }
    }
}

/// What a cursor reads, and the types of its parameters.
struct Read {
    compiled: Compiled,
    types: Vec<u32>,
}

/// What a cursor takes besides its text.
const LEAST: usize = 1 << 10;
/// Its query takes so many times its text, with its plan (as `budget.rs`).
const TIMES: usize = 4;

/// Of parsenodes.h.
const OPT_BINARY: i32 = 0x0001;
const OPT_SCROLL: i32 = 0x0002;
const OPT_NO_SCROLL: i32 = 0x0004;
const OPT_INSENSITIVE: i32 = 0x0008;
const OPT_HOLD: i32 = 0x0020;

impl Session {
    /// Opens it on the node that has its rows, or over several. 25P01 outside of a transaction, unless it is WITH HOLD.
    pub async fn declare_cursor(
        &mut self,
        d: &ast::DeclareCursorStmt,
        sql: &str,
        bound: Option<&Bound>,
    ) -> Result<Forwarded> {
        let (home, said) = (self.epoch.snapshot.home, sql.trim().to_string());
        let hold = d.options & OPT_HOLD != 0;
        let Some(query) = d.query.as_deref().and_then(|q| q.node.as_ref()) else { return self.on_home(sql).await };
        if matches!(query, NodeEnum::SelectStmt(s) if is_into(s)) {
            return Err(ExecError::sql(sqlstate::SYNTAX_ERROR, "SELECT ... INTO is not allowed here"));
        }
        if sql::clauses::with(query).is_some_and(modifies) {
            let message = "DECLARE CURSOR must not contain data-modifying statements in WITH";
            return Err(ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, message));
        }
        let text = sql::deparse(query)?;
        let bytes = LEAST + said.len() + TIMES * text.len();
        let mut taken = self.memory.take(bytes)?;
        let tree = sql::parse(&text, true)?.pop().ok_or_else(|| ExecError::internal("empty cursor query"))?;
        let types = bound.map_or(&[][..], |b| &b.types);
        let mut compiled = self.compile_with(&tree, &text, types).await?;
        if self.begins_anew(&compiled).await? {
            compiled = self.compile_with(&tree, &text, types).await?;
        }
        // The rows' formats are chosen by each FETCH, not here.
        let bound = bound.map(|b| Bound {
            result_formats: Default::default(),
            tail: exec::bind_tail(&Bound { result_formats: Default::default(), ..b.clone() }),
            ..b.clone()
        });
        let bound = bound.as_ref();
        let request = Request::bound(&text, bound);
        let placed = self.work().place(&compiled, &request).await?;
        let (node, shard) = match placed {
            exec::Placed::One(node, shard) => (Some(node), shard),
            exec::Placed::Several(_) => (None, None),
        };
        self.described_declare(d, sql, bound).await?;
        if !self.transaction.is_active() {
            if !hold {
                self.work().described(&compiled, request.types()).await?;
                return Err(ExecError::sql(
                    sqlstate::NO_ACTIVE_SQL_TRANSACTION,
                    "DECLARE CURSOR can only be used in transaction blocks",
                ));
            }
            if node != Some(home) {
                self.transaction.begin("BEGIN", false);
            }
        }
        let foreign = node.is_some_and(|node| node != home);
        let binary = d.options & OPT_BINARY != 0;
        // Its query would run at COMMIT, while others wait for that.
        let kept = hold && self.transaction.is_active();
        let hidden = match hold || shard.is_some() {
            true => None,
            false => self.hides_key(&tree, &compiled, node.is_some()).await?,
        };
        let spread = node.is_none()
            || hidden.is_some()
            || kept
            || foreign && binary && self.may_tell_ids(&compiled, &request).await?;
        if spread || self.cursors.contains_key(&d.portalname) {
            self.free_name(&d.portalname)?;
        }
        let local = node == Some(home) && compiled.plan.whole().tables.is_empty();
        let reads = match local {
            // Home knows.
            true => in_use::Reads::default(),
            false => in_use::Reads::of(&compiled, &self.temporary),
        };
        let at = match node {
            Some(node) if !spread => {
                if hold {
                    self.pin_home(crate::activity::Pins::CURSOR);
                }
                let rewritten = match compiled.plan.whole().own_text() {
                    Some(query) => Some(declare_for(d, query)?),
                    None => None,
                };
                self.declare_on(node, &compiled, rewritten.as_deref().unwrap_or(sql), bound).await?;
                let types = request.types().to_vec();
                let groups =
                    compiled.plan.whole().tables.iter().filter_map(|t| Some(t.relation.distribution()?.group.id));
                let shard = shard.map(|number| Shard { number, groups: groups.collect() });
                At::Node { node, shard, read: foreign.then(|| Arc::new(Read { compiled, types })) }
            }
            _ => {
                let opened = self.spread_cursor(d.options, (node, hidden), &tree, &compiled, &request).await;
                let (cursor, rows) = opened.map_err(|e| shown(e, Written { sql, bound }))?;
                if compiled.plan.whole().local {
                    self.work().same_kinds().await?;
                }
                taken.grow_to(bytes + cursor.bytes())?;
                At::Spread(Box::new(cursor), rows)
            }
        };
        // Home has committed it by itself.
        let outlives = !self.transaction.is_active();
        let depth = self.transaction.depth();
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let scroll = d.options & OPT_SCROLL != 0;
        let cursor = Cursor {
            at,
            hold,
            outlives,
            binary,
            statement: said,
            since,
            scroll,
            depth,
            reads,
            changed: None,
            _taken: taken,
        };
        self.cursors.insert(d.portalname.clone(), cursor);
        Ok(Forwarded { tag: "DECLARE CURSOR".into(), ..Default::default() })
    }

    /// A binary cursor on a node other than home would tell that node's object ids of users' own types.
    async fn may_tell_ids(&mut self, compiled: &Compiled, request: &Request<'_>) -> Result<bool> {
        let described = self.work().described(compiled, request.types()).await?;
        Ok(exec::may_tell_ids(described.fields.as_deref().unwrap_or_default()))
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
            self.on_node(node, &look, false).await.map_err(|e| shown(e, Written { sql, bound }))?;
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

    /// The node that has a cursor, if it is not the router's own.
    fn cursor_node(&self, name: &str) -> i32 {
        match self.cursors.get(name).map(|c| &c.at) {
            Some(At::Node { node, .. }) => *node,
            _ => self.epoch.snapshot.home,
        }
    }

    fn cursor_read(&self, name: &str) -> Option<Arc<Read>> {
        match self.cursors.get(name).map(|c| &c.at) {
            Some(At::Node { read, .. }) => read.clone(),
            _ => None,
        }
    }

    /// FETCH and MOVE, of cursors and of the extended protocol's portals.
    pub async fn fetch(&mut self, f: &ast::FetchStmt, sql: &str, bound: Option<&Bound>) -> Result<Forwarded> {
        match self.cursors.get(&f.portalname).map(|c| &c.at) {
            Some(At::Spread(..)) => return self.fetch_spread(f, bound).await,
            Some(At::Node { .. }) => {}
            None => {
                if let Some(done) = self.fetch_portal(f, bound).await? {
                    return Ok(done);
                }
            }
        }
        let node = self.cursor_node(&f.portalname);
        let read = self.cursor_read(&f.portalname);
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
        if let Some(At::Spread(cursor, _)) = self.cursors.get(name).map(|c| &c.at) {
            return Ok(Some(cursor.fields().to_vec()));
        }
        if let Some(Portal { prepared, state: Some(PortalState::Spread { .. }), .. }) = self.portals.get(name) {
            return Ok(prepared.fields.clone());
        }
        let (node, read) = (self.cursor_node(name), self.cursor_read(name));
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
            Some(PortalState::Spread { .. }) => self.fetch_spread_portal(f, bound).await.map(Some),
            // One that has not run, or has come to its end: run again it has no rows.
            _ => Ok(None),
        }
    }

    /// A portal that is no more is closed on its node when something is asked there again. Whether there was one.
    pub fn forget_portal(&mut self, portal: Option<Portal>) -> bool {
        if let Some(Portal { state: Some(PortalState::OnNode { node, name }), .. }) = &portal {
            self.leftover.lock().push((*node, name.clone()));
        }
        portal.is_some()
    }

    /// It is closed where nothing can be asked now: its node is told when something is asked there again.
    pub fn forget_cursor(&mut self, name: &str) {
        if let Some(Cursor { at: At::Node { node, .. }, .. }) = self.cursors.remove(name) {
            self.leftover.lock().push((node, name.to_string()));
        }
    }

    /// One, or ALL where there is no name. Of a name that is not known home says the error.
    pub async fn close_cursor(&mut self, c: &ast::ClosePortalStmt, sql: &str) -> Result<Forwarded> {
        if c.portalname.is_empty() {
            let mut nodes = std::collections::BTreeSet::new();
            for (_, cursor) in std::mem::take(&mut *self.cursors) {
                match cursor.at {
                    At::Node { node, .. } => drop(nodes.insert(node)),
                    At::Spread(cursor, _) => cursor.close(&mut self.work()).await?,
                }
            }
            for node in nodes {
                self.on_node(node, sql, false).await?;
            }
            return Ok(Forwarded { tag: "CLOSE CURSOR ALL".into(), ..Default::default() });
        }
        match self.cursors.remove(&c.portalname) {
            Some(Cursor { at: At::Spread(cursor, _), .. }) => {
                cursor.close(&mut self.work()).await?;
                Ok(Forwarded { tag: "CLOSE CURSOR".into(), ..Default::default() })
            }
            Some(Cursor { at: At::Node { node, .. }, .. }) => self.on_node(node, sql, false).await,
            None => self.on_home(sql).await,
        }
    }
}

/// The same cursor for another query.
fn declare_for(d: &ast::DeclareCursorStmt, query: &str) -> Result<String> {
    let tree = sql::parse(query, true)?.pop();
    let query = tree.map(|t| Box::new(sql::build::node(t)));
    Ok(sql::deparse(&NodeEnum::DeclareCursorStmt(Box::new(ast::DeclareCursorStmt { query, ..d.clone() })))?)
}

/// Its rows would go into a table: the first SELECT says so.
fn is_into(s: &ast::SelectStmt) -> bool {
    s.larg.as_deref().map_or(s.into_clause.is_some(), is_into)
}

/// Its queries do not only read.
fn modifies(with: &ast::WithClause) -> bool {
    with.ctes.iter().any(|cte| match &cte.node {
        Some(NodeEnum::CommonTableExpr(c)) => {
            !matches!(c.ctequery.as_deref().and_then(|q| q.node.as_ref()), Some(NodeEnum::SelectStmt(_)))
        }
        _ => false,
    })
}

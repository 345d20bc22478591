//! Cursors and row limits over several nodes: opened, fetched from, kept beyond COMMIT, gone with a savepoint. How their rows are read exec
//! knows.

use exec::{Bound, Client, Compiled, ExecError, Forwarded, Opening, Request, Scroll, To};
use sql::NodeEnum;
use sql::ast;
use wire::backend;
use wire::sqlstate;

use crate::cursor::current::{self, Hidden, Rows};
use crate::cursor::{At, OPT_HOLD, OPT_INSENSITIVE, OPT_NO_SCROLL, OPT_SCROLL};
use crate::held::Held;
use crate::prepared::PortalState;
use crate::session::{Result, Session};

impl Session {
    /// # Errors
    /// 42P03 if there is a cursor of this name.
    pub(super) fn free_name(&self, name: &str) -> Result<()> {
        if !self.cursors.contains_key(name) && !self.portals.contains(name) {
            return Ok(());
        }
        Err(ExecError::sql(sqlstate::DUPLICATE_CURSOR, format!("cursor \"{name}\" already exists")))
    }

    /// What PostgreSQL has against a cursor for a query that locks rows, it says where it is declared as the client did.
    pub(super) async fn described_declare(
        &mut self,
        d: &ast::DeclareCursorStmt,
        sql: &str,
        bound: Option<&Bound>,
    ) -> Result<()> {
        let query = d.query.as_deref().and_then(|q| q.node.as_ref());
        let locks = matches!(query, Some(NodeEnum::SelectStmt(s)) if !s.locking_clause.is_empty());
        let both = d.options & (OPT_SCROLL | OPT_NO_SCROLL) == OPT_SCROLL | OPT_NO_SCROLL;
        if locks && d.options & (OPT_SCROLL | OPT_HOLD) != 0 || both || d.options & OPT_INSENSITIVE != 0 {
            self.work().describe_text(sql, bound.map_or(&[], |b| &b.types)).await?;
        }
        Ok(())
    }

    /// Opens one: a node has all of it, or several nodes have parts.
    pub(super) async fn spread_cursor(
        &mut self,
        options: i32,
        on: (Option<i32>, Option<Hidden>),
        query: &NodeEnum,
        compiled: &Compiled,
        request: &Request<'_>,
    ) -> Result<(exec::Cursor, Rows)> {
        let (node, hidden) = on;
        let scroll = match options {
            o if o & OPT_SCROLL != 0 => Scroll::Yes,
            o if o & OPT_NO_SCROLL != 0 => Scroll::No,
            _ => Scroll::Unasked,
        };
        if let Some(hidden) = hidden
            && let Some(opened) = self.with_hidden_key((scroll, node), &hidden, request).await?
        {
            return Ok(opened);
        }
        let cursor = self.open_spread(scroll, node, Some(query), compiled, request).await?;
        Ok((cursor, current::rows_of(query, compiled)))
    }

    async fn open_spread(
        &mut self,
        scroll: Scroll,
        node: Option<i32>,
        query: Option<&NodeEnum>,
        compiled: &Compiled,
        request: &Request<'_>,
    ) -> Result<exec::Cursor> {
        let (name, leftover) = (format!("herd cursor {}", self.next_number()), self.leftover.clone());
        let how = Opening { name: &name, scroll, leftover: &leftover };
        let opened = match node {
            Some(node) => self.work().open_cursor_on(node, compiled, request, &how).await,
            None => self.work().open_cursor(compiled, request, &how).await,
        };
        let mut held = Held::new(&self.memory);
        let late = match opened {
            Ok(Some(cursor)) => return Ok(cursor),
            Err(e) => return Err(e),
            Ok(None) if query.is_some() => self.hold_or_late(&name, compiled, request, &mut held).await?,
            Ok(None) => {
                self.hold(compiled, request, &mut held).await?;
                None
            }
        };
        let described = self.work().described(compiled, request.types()).await?;
        // PostgreSQL would go back over what it has sorted, and over little else that it finishes.
        let sorted = matches!(query, Some(NodeEnum::SelectStmt(s)) if !s.sort_clause.is_empty());
        let scroll = match scroll {
            Scroll::Unasked if sorted => Scroll::Yes,
            Scroll::Unasked => Scroll::No,
            said => said,
        };
        let fields = described.fields.clone().unwrap_or_default();
        if let Some(e) = late {
            return Ok(exec::Cursor::of_error(e.to_fields(), held.rows, fields, scroll));
        }
        Ok(exec::Cursor::over(held.rows, fields, request.result_formats(), scroll))
    }

    /// Runs what PostgreSQL would run when the first row is asked for. What fails then, by its values, is returned, and undone here.
    async fn hold_or_late(
        &mut self,
        savepoint: &str,
        compiled: &Compiled,
        request: &Request<'_>,
        held: &mut Held,
    ) -> Result<Option<ExecError>> {
        self.transaction.savepoint(savepoint).await?;
        let Err(e) = self.hold(compiled, request, held).await else {
            self.transaction.release(savepoint).await?;
            return Ok(None);
        };
        if self.transaction.rollback_to(savepoint).await.is_err() {
            return Err(e);
        }
        // Data exceptions, subqueries of several rows, what code raises; but for what PostgreSQL finds when it plans.
        let late = ["22", "21", "P0"].iter().any(|class| e.code().starts_with(class))
            && self.is_planned_well(compiled, request).await;
        if self.transaction.release(savepoint).await.is_err() || !late {
            return Err(e);
        }
        Ok(Some(e))
    }

    async fn is_planned_well(&mut self, compiled: &Compiled, request: &Request<'_>) -> bool {
        let sql = format!("EXPLAIN {}", compiled.text);
        let explain = Compiled::new(plan::Planned::home(false), &sql, self.context, None);
        let mut nowhere = Held::new(&self.memory);
        self.hold(&explain, &Request::bound(&sql, request.bound), &mut nowhere).await.is_ok()
    }

    /// The rows of a portal with a row limit, over several nodes.
    pub(crate) async fn open_portal(&mut self, compiled: &Compiled, request: &Request<'_>) -> Result<exec::Cursor> {
        self.open_spread(Scroll::No, None, None, compiled, request).await
    }

    /// FETCH and MOVE.
    pub(super) async fn fetch_spread(&mut self, f: &ast::FetchStmt, bound: Option<&Bound>) -> Result<Forwarded> {
        let Some(mut cursor) = self.cursors.remove(&f.portalname) else {
            return Err(ExecError::internal("a cursor is gone"));
        };
        let formats = match bound {
            Some(bound) => bound.result_formats.to_vec(),
            None if cursor.binary => vec![1],
            None => vec![],
        };
        let done = match &mut cursor.at {
            At::Spread(spread, _) => self.fetch_from(spread, f, &formats, bound.is_none()).await,
            At::Node { .. } => Err(ExecError::internal("a cursor of a node")),
        };
        self.cursors.insert(f.portalname.clone(), cursor);
        done
    }

    /// The same of a portal of the extended protocol.
    pub(super) async fn fetch_spread_portal(&mut self, f: &ast::FetchStmt, bound: Option<&Bound>) -> Result<Forwarded> {
        let portal = self.portals.get_mut(&f.portalname);
        let Some(PortalState::Spread { mut cursor, verb }) = portal.and_then(|p| p.state.take()) else {
            return Err(ExecError::internal("a portal is gone"));
        };
        let formats = bound.map_or(vec![], |b| b.result_formats.to_vec());
        let done = self.fetch_from(&mut cursor, f, &formats, bound.is_none()).await;
        if let Some(portal) = self.portals.get_mut(&f.portalname) {
            portal.state = Some(PortalState::Spread { cursor, verb });
        }
        done
    }

    async fn fetch_from(
        &mut self,
        cursor: &mut exec::Cursor,
        f: &ast::FetchStmt,
        formats: &[i16],
        described: bool,
    ) -> Result<Forwarded> {
        cursor.as_formats(formats);
        if described && !f.ismove {
            let format = formats.first().copied().unwrap_or(0);
            let fields: Vec<_> = cursor.fields().iter().map(|c| backend::Field { format, ..c.clone() }).collect();
            backend::row_description(self.out(), &fields);
        }
        let to = &mut if f.ismove { To::Nowhere } else { To::Client };
        let mut work = self.work();
        work.uses = plan::Sequences::Any;
        let done = cursor.fetch(&mut work, f, to).await;
        let count = match done {
            Ok(count) => count,
            Err(e) => return Err(exec::restore_error(&self.router.herd, &self.epoch.snapshot, e).await),
        };
        self.io.relieve().await?;
        let verb = if f.ismove { "MOVE" } else { "FETCH" };
        Ok(Forwarded { tag: format!("{verb} {count}"), ..Default::default() })
    }

    /// Before COMMIT: what may still be asked of cursors that outlive it is read.
    pub(crate) async fn keep_held_cursors(&mut self) -> Result<()> {
        let names: Vec<String> =
            self.cursors.iter().filter(|(_, c)| c.hold && !c.outlives).map(|(name, _)| name.clone()).collect();
        for name in names {
            let Some(mut cursor) = self.cursors.remove(&name) else { continue };
            if let At::Spread(spread, _) = &mut cursor.at
                && let Err(e) = spread.keep(&mut self.work()).await
            {
                return Err(exec::restore_error(&self.router.herd, &self.epoch.snapshot, e).await);
            }
            self.cursors.insert(name, cursor);
        }
        Ok(())
    }

    /// A transaction is over: cursors go with it, but for those that were to outlive it.
    pub(crate) fn cursors_ended(&mut self, committed: bool) {
        self.cursors.retain(|_, c| c.outlives || c.hold && committed);
        for cursor in self.cursors.values_mut() {
            (cursor.outlives, cursor.depth) = (true, 0);
        }
    }

    /// What was declared behind a savepoint is gone with it.
    pub(crate) fn cursors_undone(&mut self, depth: usize) {
        self.cursors.retain(|_, c| c.depth < depth);
        let cursors = self.cursors.values_mut().filter_map(|c| match &mut c.at {
            At::Spread(cursor, _) => Some(cursor),
            At::Node { .. } => None,
        });
        cursors.chain(self.portals.spread_mut()).for_each(|cursor| cursor.undone());
    }

    /// What was declared behind a savepoint that is released belongs to the one around it.
    pub(crate) fn cursors_released(&mut self, depth: usize) {
        self.cursors.values_mut().for_each(|c| c.depth = c.depth.min(depth));
    }
}

//! Execute: the first rows of a portal, and more of them. How a statement was parsed and bound is not known here.

use std::sync::Arc;

use exec::{ExecError, Forwarded, Scroll, To};
use plan::kind::Joins;
use sql::{NodeEnum, ast};
use wire::backend;
use wire::sqlstate;

use crate::extended::bind::columns_go;
use crate::held::Held;
use crate::prepared::{Parsed, Portal, PortalState};
use crate::session::{Result, Session};
use crate::simple::in_failed_transaction;
use crate::statement::Tried;

impl Session {
    pub(super) async fn execute(&mut self, name: &str, rows_max: i32) -> Result<()> {
        if self.transaction.has_failed() && self.portals.get(name).is_some_and(|portal| portal.state.is_some()) {
            // It stays where it is: a savepoint may be a way back to it.
            return Err(in_failed_transaction());
        }
        let Some(mut portal) = self.portals.remove(name) else {
            if self.cursors.contains_key(name) {
                self.io.rows_as(vec![]);
                let done = self.execute_cursor(name, rows_max).await?;
                self.io.all_is_told()?;
                self.batch = self.transaction.is_active();
                self.tell_end(&done);
                return Ok(());
            }
            return Err(ExecError::sql(sqlstate::INVALID_CURSOR_NAME, format!("portal \"{name}\" does not exist")));
        };
        self.shown.begin(&portal.prepared.sql);
        self.newest_epoch().await?;
        self.take_hint(&portal.prepared.sql)?;
        let rows_max = rows_max.max(0);
        if self.io.encoding().is_some() {
            let fields = portal.prepared.fields.as_deref().unwrap_or_default();
            self.io.rows_as(columns_go(fields, &portal.bound.result_formats).unwrap_or_default());
        }
        let result = match portal.state.take() {
            None => {
                let done = self.first_execute(&mut portal, rows_max).await;
                if let Ok(done) = &done
                    && portal.state.is_none()
                {
                    portal.state = Some(PortalState::Done { query: is_query(&done.tag) });
                }
                done
            }
            Some(state) => Box::pin(self.execute_more(&mut portal, state, rows_max)).await,
        };
        // A transaction statement has closed all portals, this one too, unless rows are still to come.
        if result.is_ok()
            && (self.transaction.is_active()
                || matches!(portal.state, Some(PortalState::Done { .. } | PortalState::Spread { .. })))
        {
            let _ = self.portals.insert(name, portal);
        }
        self.io.all_is_told()?;
        let done = result?;
        // What follows up to Sync shares a block with it, as in PostgreSQL (start_xact_command in postgres.c).
        self.batch = self.transaction.is_active();
        self.tell_end(&done);
        Ok(())
    }

    fn tell_end(&mut self, done: &Forwarded) {
        match done.suspended {
            true => backend::portal_suspended(self.out()),
            false => self.complete(done),
        }
    }

    /// A cursor of SQL is a portal, too.
    async fn execute_cursor(&mut self, name: &str, rows_max: i32) -> Result<Forwarded> {
        if self.transaction.has_failed() {
            return Err(in_failed_transaction());
        }
        self.newest_epoch().await?;
        let rows_max = i64::from(rows_max.max(0));
        let fetch = ast::FetchStmt {
            direction: ast::FetchDirection::FetchForward as i32,
            how_many: if rows_max == 0 { i64::MAX } else { rows_max },
            portalname: name.to_string(),
            ismove: false,
        };
        // As text, also where it is binary: Bind would have said so.
        let bound = exec::Bound::default().without_values();
        let sql = sql::deparse(&NodeEnum::FetchStmt(fetch.clone()))?;
        self.take_hint(&sql)?;
        let done = self.fetch(&fetch, &sql, Some(&bound)).await?;
        let rows = backend::rows_of_tag(&done.tag);
        let suspended = rows_max > 0 && rows == rows_max as u64;
        Ok(Forwarded { tag: format!("SELECT {rows}"), suspended, ..done })
    }

    /// The same, closed by a message. In a failed transaction its node forgets it when that ends.
    pub(super) async fn close_as_portal(&mut self, name: &str) -> Result<()> {
        if self.transaction.has_failed() {
            self.forget_cursor(name);
            return Ok(());
        }
        let close = ast::ClosePortalStmt { portalname: name.to_string() };
        let sql = sql::deparse(&NodeEnum::ClosePortalStmt(close.clone()))?;
        self.close_cursor(&close, &sql).await.map(drop)
    }

    async fn execute_more(&mut self, portal: &mut Portal, state: PortalState, rows_max: i32) -> Result<Forwarded> {
        match state {
            PortalState::OnNode { node, name } => {
                let (prepared, bound) = (portal.prepared.clone(), &portal.bound);
                let done = self.work().portal_more(node, &name, prepared.fields.as_deref(), bound, rows_max).await?;
                portal.state = Some(match done.suspended {
                    true => PortalState::OnNode { node, name },
                    false => PortalState::Done { query: is_query(&done.tag) },
                });
                Ok(done)
            }
            PortalState::Spread { cursor, verb } => self.hand_out(portal, cursor, verb, rows_max).await,
            PortalState::Done { query } => {
                portal.state = Some(PortalState::Done { query });
                if query {
                    return Ok(Forwarded { tag: "SELECT 0".into(), ..Default::default() });
                }
                Err(ExecError::sql(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, "portal cannot be run"))
            }
        }
    }

    async fn first_execute(&mut self, portal: &mut Portal, rows_max: i32) -> Result<Forwarded> {
        let prepared = self.current(&portal.prepared).await?;
        self.parsed_when_failed(&prepared.parsed)?;
        let alone = !self.transaction.is_active() && self.io.ends_pipeline().await;
        // Rows that can't be told in the client's character set take back what their statement has done.
        let taken_back = self.io.encoding().is_some();
        match &prepared.parsed {
            Parsed::Empty => Ok(Forwarded { empty: true, ..Default::default() }),
            Parsed::Tree(tree) => {
                let tree = tree.clone();
                // Names may mean something else than when it was parsed.
                let decided = self.decide(&tree, &portal.bound.types)?;
                let begins = !alone && decided.kind.joins == Joins::Always || taken_back && decided.plan.gives_rows();
                if begins && !self.transaction.is_active() {
                    self.transaction.begin("BEGIN", false);
                }
                Box::pin(self.run_tree(&tree, decided, &prepared.sql, Some(&portal.bound))).await
            }
            Parsed::Planned(compiled) => {
                if (!alone || rows_max > 0 || taken_back) && !self.transaction.is_active() {
                    self.transaction.begin("BEGIN", false);
                }
                let compiled = compiled.clone();
                if rows_max > 0 && prepared.fields.is_some() {
                    return Box::pin(self.limited(portal, &compiled, &prepared.sql, rows_max)).await;
                }
                self.run(&compiled, &prepared.sql, Some(&portal.bound)).await
            }
        }
    }

    /// Execute with a row limit: a portal on the one node, or rows held here.
    async fn limited(
        &mut self,
        portal: &mut Portal,
        compiled: &Arc<exec::Compiled>,
        sql: &str,
        rows_max: i32,
    ) -> Result<Forwarded> {
        self.transaction.may_have_written = true;
        let request = exec::Request::bound(sql, Some(&portal.bound));
        if let exec::Placed::One(..) = self.work().place(compiled, &request).await? {
            // A name that no client gives a cursor of its own.
            let name = format!("herd portal {}", self.next_number());
            let limit = Some(exec::Limit { portal: &name, rows: rows_max });
            let done = self.run_request(compiled, exec::Request { limit, ..request }, Tried::default()).await?;
            if let (true, Some(node)) = (done.suspended, done.node) {
                portal.state = Some(PortalState::OnNode { node, name });
            }
            if compiled.plan.whole().local {
                self.work().same_kinds().await?;
            }
            return Ok(done);
        }
        let (cursor, verb) = match compiled.plan {
            plan::Planned::Query { .. } => (self.open_portal(compiled, &request).await?, "SELECT".to_string()),
            // What changes rows is run to its end.
            _ => {
                let mut held = Held::new(&self.memory);
                let done = self.hold(compiled, &request, &mut held).await?;
                let verb = done.tag.rsplit_once(' ').map_or("SELECT", |(v, _)| v).to_string();
                let described = self.work().described(compiled, request.types()).await?;
                let fields = described.fields.clone().unwrap_or_default();
                (exec::Cursor::over(held.rows, fields, request.result_formats(), Scroll::No), verb)
            }
        };
        self.hand_out(portal, Box::new(cursor), verb, rows_max).await
    }

    async fn hand_out(
        &mut self,
        portal: &mut Portal,
        mut cursor: Box<exec::Cursor>,
        verb: String,
        rows_max: i32,
    ) -> Result<Forwarded> {
        cursor.as_formats(&portal.bound.result_formats);
        let count = if rows_max == 0 { exec::ALL_ROWS } else { rows_max as u64 };
        let sent = match cursor.forward(&mut self.work(), count, &mut To::Client).await {
            Ok(sent) => sent,
            Err(e) => return Err(exec::restore_error(&self.router.herd, &self.epoch.snapshot, e).await),
        };
        // As PostgreSQL: suspended when the limit was reached, even if nothing remains.
        if rows_max > 0 && sent == count {
            portal.state = Some(PortalState::Spread { cursor, verb });
            return Ok(Forwarded { suspended: true, ..Default::default() });
        }
        let tag = format!("{verb} {sent}");
        portal.state = Some(PortalState::Done { query: is_query(&tag) });
        Ok(Forwarded { tag, ..Default::default() })
    }
}

fn is_query(tag: &str) -> bool {
    tag.starts_with("SELECT") || tag.starts_with("FETCH")
}

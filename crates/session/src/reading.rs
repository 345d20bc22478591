//! Reads at the beginning of a READ COMMITTED transaction: each may be a transaction of its own on its nodes, alone or with those
//! of other clients, as long as the client's has begun on none.
//!
//! In READ COMMITTED a statement sees what was committed before it, whatever its transaction has read before; and plan `plain.rs`
//! says which reads leave nothing behind and ask nothing of their transaction. What else a transaction of reads is to others is that
//! its tables stay what they are until it ends: the router keeps count of it (exec `router/readers.rs`), and where it goes on with
//! anything else, the first node that takes part locks these tables for it before it does anything. So BEGIN and COMMIT cost no round trip.

use exec::{Compiled, ExecError, Request};
use txn::{Cuts, Transaction};
use wire::sqlstate;

use crate::session::{Result, Session};

impl Session {
    /// What stands in place of the client's transaction for this execution, if it is such a read.
    pub(crate) fn aside(&mut self, compiled: &Compiled, request: &Request<'_>) -> Option<Box<Transaction>> {
        if !self.transaction.is_active() || !compiled.plan.whole().plain || !self.reads_apart(request) {
            return None;
        }
        let herd = &self.router.herd;
        self.reading.get_or_insert_with(|| Box::new(herd.readers.begin(herd.lease.gaps()))).add(compiled.relations());
        Some(Box::default())
    }

    fn reads_apart(&self, request: &Request<'_>) -> bool {
        let t = &self.transaction;
        !t.has_failed()
            && t.is_fresh()
            && !t.has_set()
            && !t.may_repeat(self.settings.repeats())
            && t.wants != Cuts::All
            && request.limit.is_none()
            && self.sharing.reads
            && self.pending.is_empty()
            && self.cursors.is_empty()
            && self.pin.is_free()
            && !self.taint
            && self.code.is_none()
            && !self.own_catalog.is_own()
            && self.router.herd.readers.all_answer()
            && !self.router.herd.lease.is_overdue()
    }

    /// Other routers have not waited for one that nobody had heard of: what the transaction has read may be another table by now.
    pub(crate) fn reads_still(&self) -> Result<()> {
        let lease = &self.router.herd.lease;
        match &self.reading {
            Some(reading)
                if self.transaction.is_fresh()
                    && (reading.gaps != lease.gaps() || lease.is_overdue() && !self.router.herd.readers.are_all()) =>
            {
                Err(ExecError::sql(
                    sqlstate::T_R_SERIALIZATION_FAILURE,
                    "tables that the transaction has read may have been changed while the router could not reach home",
                )
                .hint("Try the transaction again."))
            }
            _ => Ok(()),
        }
    }

    /// Where the transaction has read so, home begins it and takes its snapshot: what PostgreSQL refuses behind a query is refused.
    pub(crate) async fn begin_where_it_read(&mut self) -> Result<()> {
        if self.reading.is_some() && self.transaction.is_fresh() {
            self.work().ask_home("SELECT 1").await?;
        }
        Ok(())
    }
}

//! Reads that go to standbys (`herd.read_from`, `herd.max_staleness`): which of the session's statements, and what they must see. A statement
//! that fails there goes to the primaries, as long as the client has seen nothing of it. It does not know which standbys there are, nor how
//! far they are (exec `router/standbys.rs`).

use std::time::{Duration, Instant};
use wire::sqlstate;

use exec::{Compiled, ExecError, Forwarded, FromStandbys, Need, ReadWay, Request};

use crate::anew::Retry;
use crate::column_use;
use crate::idle;
use crate::router_settings::RouterSettings;
use crate::session::{Result, Session};

pub const WAY: &str = "herd.read_from";
pub const STALENESS: &str = "herd.max_staleness";
/// What `herd.read_from` is unless it is set.
pub const PRIMARY: &str = "primary";

/// What a session has set for its reads; few have set anything.
pub struct Reads {
    pub columns: Option<exec::ColumnUse>,
    /// They are as a hint of the statement says.
    pub hinted: bool,
    /// `None`: it reads primaries.
    standbys: Option<ReadsStandbys>,
}

/// What a session that may read standbys knows.
struct ReadsStandbys {
    way: ReadWay,
    stale: Duration,
    /// What else the session has run was over by then.
    over: Option<Instant>,
}

impl ReadsStandbys {
    fn of(own: &RouterSettings, over: Option<Instant>) -> Option<Self> {
        let way = match own.get(WAY) {
            "replica" => ReadWay::Replica,
            "any" => ReadWay::Any,
            _ => return None,
        };
        let stale = Duration::from_millis(idle::milliseconds(own.get(STALENESS)).unwrap_or(0).into());
        Some(ReadsStandbys { way, stale, over })
    }
}

/// A value of `herd.read_from` as SHOW tells it, if it is one.
pub fn spelled(value: &str) -> Result<String> {
    let value = value.to_ascii_lowercase();
    match &*value {
        PRIMARY | "replica" | "any" => Ok(value),
        _ => {
            let message = format!("invalid value for parameter \"{WAY}\": \"{value}\"");
            Err(ExecError::sql(sqlstate::INVALID_PARAMETER_VALUE, message)
                .hint("Available values: primary, replica, any."))
        }
    }
}

impl Session {
    /// Statements that standbys may answer go there.
    pub(crate) fn reads_standbys(&self) -> bool {
        self.reads.as_ref().is_some_and(|reads| reads.standbys.is_some())
    }

    /// As the session has set them.
    pub(crate) fn refresh_reads(&mut self) {
        let own = std::mem::take(&mut self.own);
        self.read_by(&own);
        self.own = own;
    }

    /// As these are.
    pub(crate) fn read_by(&mut self, own: &RouterSettings) {
        let over = self.reads.as_ref().and_then(|reads| reads.standbys.as_ref()?.over);
        let (columns, standbys) = (column_use::of(own), ReadsStandbys::of(own, over));
        // What is not remembered any more is as if it were at work.
        self.transaction.may_have_written |= over.is_some() && standbys.is_none();
        let any = columns.is_some() || standbys.is_some();
        self.reads = any.then(|| Box::new(Reads { columns, standbys, hinted: false }));
    }

    /// A statement begins. What it needs of standbys, if it may read them. `aside`: beside its transaction, which has begun on no node.
    pub(crate) fn may_read_standbys(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        aside: bool,
    ) -> Option<Box<FromStandbys>> {
        if !compiled.plan.whole().by_standby {
            self.transaction.may_have_written = true;
            return None;
        }
        if !self.reads_standbys() || !self.reads_by_itself(request, aside) {
            return None;
        }
        let known = self.epoch.since.max(self.login.since());
        let known = self.router.herd.standbys.fenced().map_or(known, |fence| fence.max(known));
        let reads = self.reads.as_mut()?.standbys.as_mut()?;
        if std::mem::take(&mut self.transaction.may_have_written) {
            reads.over = Some(Instant::now());
        }
        let since = reads.over.map_or(known, |over| over.max(known));
        Some(Box::new(FromStandbys::new(Need { way: reads.way, since, stale: reads.stale })))
    }

    /// The statement is a transaction of its own, or as good as one in a block that only reads, and the session has nothing that
    /// only its primaries know.
    fn reads_by_itself(&self, request: &Request<'_>, aside: bool) -> bool {
        let t = &self.transaction;
        (!t.is_active() || aside && t.is_block() && t.begins_read_only() && self.router.herd.readers.are_all())
            && request.limit.is_none()
            && self.nesting == 0
            && !self.settings.repeats()
            && self.pending.is_empty()
            && self.pin.is_free()
            && self.pg_temp.is_empty()
            && !self.taint
            && self.code.is_none()
            && !self.own_catalog.is_own()
            && self.login.oid().is_some()
    }

    /// What came of a statement that was to read standbys. True: it goes to the primaries, and nothing of it is left.
    pub(crate) async fn left_standbys(
        &mut self,
        from: &FromStandbys,
        result: &Result<Forwarded>,
        retry: &Retry,
    ) -> Result<bool> {
        let stale = ExecError::Stale;
        let error = match result {
            Ok(done) if !done.stale => return Ok(false),
            Ok(_) => &stale,
            Err(ExecError::Client(_) | ExecError::Ended(_) | ExecError::Partial(_)) => return Ok(false),
            // Its time is over, or its client's patience.
            Err(e) if e.code() == sqlstate::QUERY_CANCELED => return Ok(false),
            Err(e) => e,
        };
        if !from.used() {
            return Ok(false);
        }
        from.failed(&self.router.herd, error);
        if !self.io.take_back(retry.before) || self.io.has_left() {
            return Ok(false);
        }
        self.finish_implicit(true).await?;
        self.io.begin_again();
        Ok(true)
    }
}

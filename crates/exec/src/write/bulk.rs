//! Bulk writes: rows that travel in batches, and what is said when only some of them are committed.
//!
//! ```text
//! stream.rs  rows go on as they came, one COPY a batch (herd.bulk_load)
//! held.rs    a batch is kept until its node has taken it (herd.upsert, ON CONFLICT and RETURNING in bulk)
//! rows.rs    the rows of such a batch
//! options.rs options of COPY that PostgreSQL does not know
//! ```
//! It does not know where rows come from, nor which node a row belongs to.

mod held;
mod options;
mod rows;
mod stream;

use std::pin::pin;
use std::task::{Context, Waker};
use wire::sqlstate;

use catalog::Relation;
use txn::Participant;
use wire::ErrorFields;

use crate::client::{Answer, Client};
use crate::error::{ExecError, Result};
use crate::work::Work;

pub use held::{Held, HeldSql};
pub use options::BulkCopy;
pub use stream::Stream;

/// How a batch is inserted from arrays. `key`: columns by which the last of equal rows is taken; empty: all rows are.
pub fn rows_sql(relation: &Relation, columns: &[usize], key: &[usize]) -> String {
    let n = columns.len();
    let list = |one: &dyn Fn(usize) -> String| (0..n).map(one).collect::<Vec<_>>().join(", ");
    // Without `(20)`: a cast would cut what is too long, where the assignment says so.
    let cast =
        |i: usize| format!("x.v{i}::{} AS c{i}", catalog::without_modifier(&relation.columns[columns[i]].type_name));
    let rows = format!(
        "SELECT {}, x.o FROM ROWS FROM ({}) WITH ORDINALITY AS x({}, o)",
        list(&cast),
        list(&|i| format!("pg_catalog.unnest(${}::pg_catalog.text[])", i + 1)),
        list(&|i| format!("v{i}")),
    );
    let at: Option<Vec<usize>> = key.iter().map(|k| columns.iter().position(|c| c == k)).collect();
    let last = match at {
        Some(at) if !at.is_empty() => {
            let key = at.iter().map(|i| format!("c{i}")).collect::<Vec<_>>().join(", ");
            format!("SELECT DISTINCT ON ({key}) * FROM ({rows}) AS r ORDER BY {key}, o DESC")
        }
        _ => rows,
    };
    format!("{} FROM ({last}) AS p ORDER BY o", list(&|i| format!("c{i}")))
}

/// How far a statement has come whose batches commit one by one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub committed: u64,
    /// A row, counted from 1: all before it are committed.
    pub first_lost: Option<u64>,
    /// A node was lost with a batch whose fate is not known.
    pub doubtful: bool,
}

/// What a node has committed and not yet said to be on its disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unflushed {
    rows: u64,
    first: Option<u64>,
}

impl Unflushed {
    /// A batch of so many rows; `first`: the number of its first one.
    pub fn add(&mut self, rows: u64, first: u64) {
        self.rows += rows;
        self.first.get_or_insert(first);
    }
}

/// What a batch's COPY begins with: its commit does not wait for the disk, [`make_durable`] does for all of them.
pub const WITHOUT_FLUSH: &str = "SET LOCAL synchronous_commit = off; ";

/// A commit that waits for the disk because it has something in the log (`RecordTransactionCommit` in xact.c waits for
/// none that has only a number). Who decodes the log does not get such messages unless he asks for them.
const FLUSH: &str = "SELECT pg_catalog.pg_logical_emit_message(true, 'herd', '')";

/// Waits until all that is committed is as durable as the session's own synchronous_commit makes a commit: one more
/// commit on each node, which comes after them in its log.
pub async fn make_durable(lanes: &mut [Participant], unflushed: &mut [Unflushed], tally: &mut Tally) -> Result<()> {
    for (p, u) in lanes.iter_mut().zip(unflushed.iter()) {
        if u.rows > 0 && !p.lane.conn.is_broken() {
            p.lane.put_query(FLUSH);
            // What goes wrong here is seen again when the answer is read.
            let _ = p.lane.conn.flush().await;
        }
    }
    let mut failure = None;
    for (p, u) in lanes.iter_mut().zip(unflushed.iter_mut()) {
        let u = std::mem::take(u);
        if u.rows == 0 {
            continue;
        }
        let flushed = match p.lane.conn.is_broken() {
            true => Err(ExecError::sql(sqlstate::CONNECTION_FAILURE, "a node was lost")),
            false => flushed(p).await.map_err(ExecError::from),
        };
        if let Err(e) = flushed {
            tally.committed -= u.rows;
            tally.doubtful = true;
            u.first.into_iter().for_each(|first| tally.lost(first));
            failure.get_or_insert(e);
        }
    }
    failure.map_or(Ok(()), Err)
}

/// The answer to [`FLUSH`]. A cancel meant for a batch before it may have found it instead: then it is sent again.
async fn flushed(p: &mut Participant) -> std::result::Result<(), pool::PoolError> {
    const TRIES: usize = 4;
    for _ in 1..TRIES {
        match p.lane.finish().await {
            Err(e) if e.sqlstate() == sqlstate::QUERY_CANCELED && !p.lane.conn.is_broken() => {
                p.lane.put_query(FLUSH);
                p.lane.conn.flush().await?;
            }
            other => return other.map(drop),
        }
    }
    p.lane.finish().await.map(drop)
}

impl Tally {
    /// The batch that begins with this row is not committed.
    pub fn lost(&mut self, first: u64) {
        self.first_lost = Some(self.first_lost.map_or(first, |f| f.min(first)));
    }

    /// An error with what is committed in its DETAIL. `lines`: rows are told apart by their numbers.
    pub fn tell(&self, error: ExecError, lines: bool) -> ExecError {
        if matches!(error, ExecError::Client(_)) || (self.committed == 0 && !self.doubtful) {
            return error;
        }
        let mut detail = format!(
            "{}{} rows of this statement are committed",
            if self.doubtful { "At least " } else { "" },
            self.committed
        );
        if let (true, Some(first @ 2..)) = (lines, self.first_lost) {
            detail.push_str(&format!(", among them all up to row {} of the data", first - 1));
        }
        detail.push('.');
        let fields = error.to_fields();
        let detail = match fields.get(b'D') {
            Some(own) => format!("{own}\n{detail}"),
            None => detail,
        };
        ExecError::Partial(Box::new(fields.detail(detail)))
    }
}

impl<C: Client> Work<'_, C> {
    /// Whether this statement's batches are to commit one by one; where they can't, the client is told. `asked`: by an
    /// option of the statement itself. `why_not`: what of the statement forbids it.
    pub fn commits_batches(&mut self, relation: &Relation, asked: Option<&str>, why_not: Option<&str>) -> bool {
        if asked.is_none() && !self.bulk.load {
            return false;
        }
        let why = if self.transaction.is_active() {
            "in a transaction"
        } else if relation.is_reference() {
            "into a reference table, whose copies must stay the same,"
        } else if let Some(why) = why_not {
            why
        } else {
            // A local table is one server's: without being asked, nothing is gained there.
            return relation.distribution().is_some() || asked.is_some();
        };
        let what = asked.unwrap_or("herd.bulk_load");
        self.notice(&format!("{what}: a statement {why} is all or nothing"));
        false
    }

    /// Whether the client has cancelled the statement, without waiting. A cancel for a node may find it between two batches.
    pub fn is_cancelled(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        pin!(self.client.cancelled()).poll(&mut cx).is_ready()
    }

    /// Tells the client, as a NOTICE.
    pub fn notice(&mut self, message: &str) {
        let notice = ErrorFields::with_severity("NOTICE", sqlstate::SUCCESSFUL_COMPLETION, message);
        self.client.tell(Answer::Notice(&notice));
    }
}

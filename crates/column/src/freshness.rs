//! What the node has at this moment: where its log ends, and what its tables are. One question serves everybody who waits
//! when it is asked, and nobody who comes later.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pool::Conn;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

use crate::error::{Error, Result};
use crate::fingerprint::{self, Facts};
use crate::lsn::Lsn;
use crate::node::{self, cell};
use crate::shared::{Identity, Shared};
use crate::unseen::NodeSnapshot;

/// Who may wait for an answer at once.
const WAITING: usize = 256;
/// A node that does not answer in this time is asked on a new connection.
const ANSWER: Duration = Duration::from_secs(5);
/// How often the node's end of log is asked for although nobody waits for it.
const LOOK: Duration = Duration::from_millis(500);
/// Between two looks at what the node does not show yet.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

const END: &str = "SELECT pg_current_wal_insert_lsn(), pg_current_wal_flush_lsn(), current_setting('server_version_num')::int4 >= 170000, pg_current_snapshot()";
/// Non-transactional: it is flushed with all before it.
const FLUSH_17: &str = "SELECT pg_logical_emit_message(false, 'herd_column', ''::text, true)";
/// A commit waits for its flush.
const FLUSH_OLD: &str = "SET synchronous_commit = local; SELECT pg_logical_emit_message(true, 'herd_column', ''::text)";

/// How far the node is.
#[derive(Clone, Debug)]
pub struct End {
    /// Where its log ends.
    pub lsn: Lsn,
    /// When it was asked, as its transactions tell.
    pub moment: Option<Moment>,
}

/// A moment of the node: which transactions had ended (`pg_current_snapshot()`). What is read at moments that are equal is the same, as snapshots see just
/// what these have done. On other connections it is another one: a server that was restarted may give numbers of lost transactions again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    pub connection: u64,
    pub snapshot: Arc<str>,
}

struct WaitsForEnd {
    answer: oneshot::Sender<Result<End>>,
}

/// What a table is, and the snapshot in which it is so.
pub type Told = Option<(Facts, Arc<str>)>;

struct Table {
    relation: u32,
    answer: oneshot::Sender<Result<Told>>,
}

/// Asks the node.
#[derive(Clone)]
pub struct Freshness {
    shared: Arc<Shared>,
    ends: mpsc::Sender<WaitsForEnd>,
    tables: mpsc::Sender<Table>,
}

impl Freshness {
    /// Begins the tasks that ask.
    pub fn spawn(shared: Arc<Shared>) -> Self {
        let (ends, waiting) = mpsc::channel(WAITING);
        tokio::spawn(ask_ends(shared.clone(), waiting));
        let (tables, waiting) = mpsc::channel(WAITING);
        tokio::spawn(ask_tables(shared.clone(), waiting));
        let this = Freshness { shared, ends, tables };
        tokio::spawn(look(this.clone()));
        this
    }

    /// Where the node's log ends. Everything that was acknowledged before this was called is before it, and it will be sent.
    pub async fn end(&self) -> Result<End> {
        let (answer, answered) = oneshot::channel();
        self.ends.send(WaitsForEnd { answer }).await.map_err(|_| Error::Gone)?;
        answered.await.map_err(|_| Error::Gone)?
    }

    /// What a table is on the node now; `None`: there is none.
    pub async fn table(&self, relation: u32) -> Result<Told> {
        let (answer, answered) = oneshot::channel();
        self.tables.send(Table { relation, answer }).await.map_err(|_| Error::Gone)?;
        answered.await.map_err(|_| Error::Gone)?
    }

    /// Waits until all before this can be read. Whoever does has said that he wants it.
    ///
    /// # Errors
    /// HC001 if the store can't write.
    pub async fn reach(&self, lsn: Lsn) -> Result<()> {
        let mut position = self.shared.position.subscribe();
        tokio::select! {
            biased;
            // The sender lives as long as the store.
            _ = position.wait_for(|position| position.applied >= lsn) => Ok(()),
            why = self.shared.until_stuck() => Err(Error::NotFresh(format!("the store can't write: {why}"))),
        }
    }

    /// Waits until the node shows these transactions, of which it has told. `moment`: what it showed when it was asked last.
    pub async fn shows(&self, mut unseen: Vec<u32>, moment: Option<Moment>) -> Result<()> {
        let mut snapshot = moment.and_then(|moment| NodeSnapshot::parse(&moment.snapshot));
        for asked in 0.. {
            if let Some(snapshot) = &snapshot {
                unseen.retain(|transaction| !snapshot.shows(*transaction));
            }
            if unseen.is_empty() {
                break;
            }
            if asked > 0 {
                sleep(LOOK_AGAIN).await;
            }
            snapshot = self.end().await?.moment.and_then(|moment| NodeSnapshot::parse(&moment.snapshot));
            if snapshot.is_none() {
                return Err(Error::surprise("the node does not say what it shows"));
            }
        }
        Ok(())
    }
}

/// A connection to the server that the stream comes from, and to no other.
async fn connect(shared: &Shared) -> Result<Conn> {
    let mut conn = node::connect(&shared.config).await?;
    let is = node::identity(&mut conn).await?;
    match shared.identity.lock().as_ref() {
        Some(known) if *known == is => Ok(conn),
        Some(_) => Err(Error::surprise("the node is another server than the copies are of")),
        None => Err(Error::NotFresh("the store has not yet found its node".into())),
    }
}

/// A connection that is kept while it works.
struct Kept {
    conn: Conn,
    of: Identity,
    /// No other connection has the same.
    number: u64,
}

/// Asks these, on a connection that is kept while it works.
async fn ask(shared: &Shared, kept: &mut Option<Kept>, sqls: &[String]) -> Result<Vec<Result<Vec<catalog::Row>>>> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let known = shared.identity.lock().clone();
    let mut with = match kept.take().filter(|kept| !kept.conn.is_broken() && Some(&kept.of) == known.as_ref()) {
        Some(kept) => kept,
        None => {
            let conn = connect(shared).await?;
            let of = known.ok_or_else(|| Error::NotFresh("the store has not yet found its node".into()))?;
            Kept { conn, of, number: NUMBER.fetch_add(1, Ordering::Relaxed) }
        }
    };
    let answers =
        timeout(ANSWER, with.conn.kept_all(sqls)).await.map_err(|_| Error::surprise("the node does not answer"))?;
    if answers.len() == sqls.len() {
        *kept = Some(with);
    }
    Ok(answers.into_iter().map(|answer| answer.map_err(Error::from)).collect())
}

async fn ask_ends(shared: Arc<Shared>, mut waiting: mpsc::Receiver<WaitsForEnd>) {
    let mut kept = None;
    let mut batch = Vec::new();
    while waiting.recv_many(&mut batch, WAITING).await > 0 {
        let asked = Instant::now();
        let answered = ask(&shared, &mut kept, &[END.to_string()]).await;
        let rows = answered.and_then(|mut answers| answers.pop().unwrap_or(Err(Error::Gone)));
        let end = rows.as_ref().ok().and_then(|rows| cell(rows, 0)?.parse::<Lsn>().ok());
        let flushed = rows.as_ref().ok().and_then(|rows| cell(rows, 1)?.parse::<Lsn>().ok());
        let snapshot: Option<Arc<str>> = rows.as_ref().ok().and_then(|rows| cell(rows, 3)).map(Arc::from);
        if let Some(snapshot) = snapshot.as_deref().and_then(NodeSnapshot::parse) {
            shared.unseen.shown(&snapshot);
        }
        let moment = kept.as_ref().zip(snapshot).map(|(kept, snapshot)| Moment { connection: kept.number, snapshot });
        let why = rows.as_ref().err().map_or_else(|| "the node has no log".to_string(), ToString::to_string);
        for WaitsForEnd { answer } in batch.drain(..) {
            let end = end.map(|lsn| End { lsn, moment: moment.clone() });
            let _ = answer.send(end.ok_or_else(|| Error::NotFresh(why.clone())));
        }
        let (Some(end), Some(flushed)) = (end, flushed) else { continue };
        shared.node_end.store(end.0, Ordering::Relaxed);
        if shared.applied() >= end {
            shared.is_fresh_as_of(asked);
        } else if flushed < end
            && let Some(Kept { conn, .. }) = kept.as_mut()
        {
            // What is not flushed is not sent; a commit need not be. It takes as long as the disk does, and serves who comes meanwhile as well.
            let flush = if rows.is_ok_and(|rows| cell(&rows, 2) == Some("t")) { FLUSH_17 } else { FLUSH_OLD };
            if !matches!(timeout(ANSWER, conn.simple(flush)).await, Ok(Ok(_))) {
                kept = None;
            }
        }
    }
}

async fn ask_tables(shared: Arc<Shared>, mut waiting: mpsc::Receiver<Table>) {
    let mut kept = None;
    let mut batch: Vec<Table> = Vec::new();
    while waiting.recv_many(&mut batch, WAITING).await > 0 {
        let mut relations: Vec<u32> = batch.iter().map(|table| table.relation).collect();
        relations.sort_unstable();
        relations.dedup();
        let questions: Vec<String> =
            relations.iter().map(|relation| fingerprint::question(*relation, &shared.config.slot)).collect();
        let answers = ask(&shared, &mut kept, &questions).await;
        for Table { relation, answer } in batch.drain(..) {
            let place = relations.binary_search(&relation).unwrap_or(usize::MAX);
            let told_now = match &answers {
                Ok(answers) => match answers.get(place) {
                    Some(Ok(rows)) => told(rows),
                    Some(Err(e)) => Err(Error::NotFresh(e.to_string())),
                    None => Err(Error::NotFresh("the connection to the node was lost".into())),
                },
                Err(e) => Err(Error::NotFresh(e.to_string())),
            };
            let _ = answer.send(told_now);
        }
    }
}

fn told(rows: &[catalog::Row]) -> Result<Told> {
    let snapshot = cell(rows, fingerprint::COLUMNS).unwrap_or_default().into();
    Ok(fingerprint::answer(rows)?.map(|facts| (facts, snapshot)))
}

/// Keeps asking where the log ends, so that it is known how old what can be read is at most.
async fn look(freshness: Freshness) {
    let mut asked: VecDeque<(Instant, Lsn)> = VecDeque::new();
    let mut position = freshness.shared.position.subscribe();
    loop {
        tokio::select! {
            () = sleep(LOOK) => {
                let now = Instant::now();
                if let Ok(end) = freshness.end().await
                    && asked.len() < WAITING
                {
                    asked.push_back((now, end.lsn));
                }
            }
            changed = position.changed(), if !asked.is_empty() => {
                if changed.is_err() {
                    return;
                }
            }
        }
        let applied = position.borrow_and_update().applied;
        while let Some((when, _)) = asked.front().filter(|(_, end)| *end <= applied) {
            freshness.shared.is_fresh_as_of(*when);
            asked.pop_front();
        }
    }
}

//! The reader's half of the gate: all nodes' gates, held for all readers of this router that wait. Why, and why that is
//! enough: `txn/src/gate.rs`. It does not know what is read, nor in which transaction.
//!
//! The first reader who comes starts a *leader*, a task of its own, which takes the gates, lets everybody who waits by
//! then take snapshots, gives the gates back, and goes on as long as somebody waits. So readers don't queue behind each
//! other, and writers are held up once for all of them. Gates are held by transactions on connections of the router's
//! own; one that is not through with its transaction is closed, so no gate outlives its round.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::sqlstate;

use catalog::{NodeId, Snapshot};
use parking_lot::Mutex;
use pool::{Conn, PoolError};
use tokio::sync::{mpsc, oneshot, watch};
use txn::{Gid, gate};
use wire::{ErrorFields, put};

use crate::error::Result;
use crate::router::herd::Herd;

/// How long a reader with gates waits for another before it lets go: so long it may keep writers waiting in vain.
const ATTEMPT: Duration = Duration::from_secs(1);
/// Pauses between attempts, so that the writers waited for, and others, get on.
const PAUSE_MIN_MS: u64 = 20;
const PAUSE_MAX_MS: u64 = 120;
/// How long a node may take to answer beyond that, and to act on a cancel.
const ANSWER: Duration = Duration::from_secs(2);
/// How often it is looked whether anybody still waits.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long routers may take to finish what is decided, while all writers over several nodes wait; how often to look.
const FINISH: Duration = Duration::from_millis(500);
const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// How long nodes may take for snapshots, while all writers over several nodes wait.
pub const SNAPSHOTS: Duration = Duration::from_secs(2);
/// How long recovery may take before readers go on without it.
const RECOVERY: Duration = Duration::from_secs(4);

/// Readers that wait for a cut, and the leader's connections.
#[derive(Default)]
pub struct Gates {
    waiting: Mutex<Waiting>,
    /// A connection to each node, for the leader.
    conns: tokio::sync::Mutex<HashMap<NodeId, Conn>>,
    /// Recovery for readers is at work.
    recovering: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Waiting {
    readers: Vec<oneshot::Sender<Granted>>,
    /// There is a leader.
    led: bool,
}

pub type Granted = std::result::Result<Grant, ErrorFields>;

/// All gates are held until the reader says that it is done, or drops this.
pub struct Grant {
    at_work: mpsc::Sender<()>,
    outcome: watch::Receiver<Option<bool>>,
}

impl Grant {
    /// The snapshots are taken. Whether all gates were held until now.
    pub async fn done(self) -> bool {
        let Grant { at_work, mut outcome } = self;
        drop(at_work);
        outcome.wait_for(Option::is_some).await.is_ok_and(|o| *o == Some(true))
    }
}

/// A place among those who wait. Dropping it is leaving.
pub fn enter(herd: &Arc<Herd>) -> oneshot::Receiver<Granted> {
    let (sender, place) = oneshot::channel();
    let mut waiting = herd.gates.waiting.lock();
    waiting.readers.push(sender);
    if !waiting.led {
        waiting.led = true;
        tokio::spawn(lead(herd.clone()));
    }
    place
}

async fn lead(herd: Arc<Herd>) {
    loop {
        {
            let mut waiting = herd.gates.waiting.lock();
            waiting.readers.retain(|r| !r.is_closed());
            if waiting.readers.is_empty() {
                waiting.led = false;
                return;
            }
        }
        // Of its own, so that a fault in it costs one round, not every reader to come.
        let round = tokio::spawn(round(herd.clone()));
        if let Err(e) = round.await {
            tracing::error!(error = %e, "a round of readers failed");
            herd.gates.waiting.lock().readers.clear();
        }
    }
}

/// Takes the gates, has everybody who waits then take snapshots, and lets go.
async fn round(herd: Arc<Herd>) {
    let mut conns = herd.gates.conns.lock().await;
    let held = {
        let mut held = std::pin::pin!(hold(&herd, &mut conns));
        loop {
            tokio::select! {
                held = &mut held => break Some(held),
                () = tokio::time::sleep(LOOK_EVERY) => {
                    if herd.gates.waiting.lock().readers.iter().all(oneshot::Sender::is_closed) {
                        break None;
                    }
                }
            }
        }
    };
    let readers = std::mem::take(&mut herd.gates.waiting.lock().readers);
    match held {
        Some(Ok(())) => {}
        Some(Err(e)) => {
            for reader in readers {
                let _ = reader.send(Err(e.to_fields()));
            }
            return sweep(&mut conns);
        }
        None => return sweep(&mut conns),
    }
    let (at_work, mut all_done) = mpsc::channel(1);
    let (tell, outcome) = watch::channel(None);
    for reader in readers {
        let _ = reader.send(Ok(Grant { at_work: at_work.clone(), outcome: outcome.clone() }));
    }
    drop(at_work);
    let in_time = tokio::time::timeout(SNAPSHOTS + ANSWER, all_done.recv()).await.is_ok();
    let released = match tokio::time::timeout(ANSWER, release(&mut conns)).await {
        Ok(Ok(())) => true,
        Ok(Err(e)) => {
            tracing::debug!(error = %e, "a gate was lost");
            false
        }
        Err(_) => false,
    };
    let _ = tell.send(Some(in_time && released));
    sweep(&mut conns);
}

/// Takes all gates, however long it takes.
async fn hold(herd: &Herd, conns: &mut HashMap<NodeId, Conn>) -> Result<()> {
    let mut failed = false;
    loop {
        let snapshot = herd.epoch.load().snapshot.clone();
        match tokio::time::timeout(ATTEMPT * 2 + ANSWER, attempt(herd, &snapshot, conns)).await {
            Ok(Ok(Attempt::Held)) => return Ok(()),
            Ok(Ok(Attempt::Moved)) => herd.refresh(None).await?,
            Ok(Ok(Attempt::Left)) => {
                sweep(conns);
                recover(herd).await;
            }
            Ok(Ok(Attempt::Busy)) | Err(_) => {}
            // An idle connection may have been closed since it was used last; a new one fails for a reason.
            Ok(Err(e)) if failed => return Err(e),
            Ok(Err(_)) => {
                failed = true;
                close(std::mem::take(conns).into_values());
                continue;
            }
        }
        sweep(conns);
        tokio::time::sleep(Duration::from_millis(rand::random_range(PAUSE_MIN_MS..PAUSE_MAX_MS))).await;
    }
}

enum Attempt {
    /// All gates, and nothing stands prepared.
    Held,
    /// Something stands prepared that its router does not finish.
    Left,
    /// A writer is at work for longer than a reader may wait.
    Busy,
    /// There are other nodes than this router knew of.
    Moved,
}

async fn attempt(herd: &Herd, snapshot: &Snapshot, conns: &mut HashMap<NodeId, Conn>) -> Result<Attempt> {
    conns.retain(|node, _| snapshot.node(*node).is_some());
    for node in &snapshot.nodes {
        if let Entry::Vacant(place) = conns.entry(node.id) {
            place.insert(herd.admin(snapshot, node.id).await?);
        }
    }
    let take = gate::take(ATTEMPT.as_millis() as u64);
    let known: BTreeSet<NodeId> = conns.keys().copied().collect();
    if let Some(conn) = conns.get_mut(&snapshot.home) {
        // The list is of a statement of its own: its snapshot is taken when the gate is held.
        let nodes: BTreeSet<NodeId> = match conn.simple(&format!("{take}; SELECT id FROM herd.node")).await {
            Ok(rows) => rows.iter().filter_map(|r| r.first()?.as_deref()?.parse().ok()).collect(),
            Err(e) if is_busy(&e) => return Ok(Attempt::Busy),
            Err(e) => return Err(e.into()),
        };
        if nodes != known {
            return Ok(Attempt::Moved);
        }
    }
    let others = || |(node, _): &(&NodeId, &mut Conn)| **node != snapshot.home;
    for (_, conn) in conns.iter_mut().filter(others()) {
        send(conn, &take).await?;
    }
    for (_, conn) in conns.iter_mut().filter(others()) {
        match answer(conn).await {
            Ok(()) => {}
            Err(e) if is_busy(&e) => return Ok(Attempt::Busy),
            Err(e) => return Err(e.into()),
        }
    }
    Ok(if is_finished(&snapshot.herd_id, conns).await? { Attempt::Held } else { Attempt::Left })
}

/// With all gates held: waits until nothing stands prepared on any node. What stands there is decided, and no more comes.
async fn is_finished(herd_id: &str, conns: &mut HashMap<NodeId, Conn>) -> Result<bool> {
    let (started, list) = (Instant::now(), gate::list(herd_id));
    loop {
        for conn in conns.values_mut() {
            send(conn, &list).await?;
        }
        let mut left = false;
        for (node, conn) in conns.iter_mut() {
            left |= values(conn).await?.iter().any(|gid| Gid::parse(gid, herd_id).is_some_and(|(_, on)| on == *node));
        }
        if !left || started.elapsed() > FINISH {
            return Ok(!left);
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

fn is_busy(e: &PoolError) -> bool {
    matches!(e, PoolError::Server(f) if f.code() == sqlstate::LOCK_NOT_AVAILABLE)
}

/// Gives the gates back. An error: one of them may have been lost before.
async fn release(conns: &mut HashMap<NodeId, Conn>) -> std::result::Result<(), PoolError> {
    for conn in conns.values_mut() {
        send(conn, "COMMIT").await?;
    }
    for conn in conns.values_mut() {
        answer(conn).await?;
    }
    Ok(())
}

/// Closes connections that may hold a gate or wait for one.
fn sweep(conns: &mut HashMap<NodeId, Conn>) {
    let unfit = |conn: &Conn| conn.is_broken() || conn.outstanding() > 0 || conn.status() != b'I';
    close(conns.extract_if(|_, conn| unfit(conn)).map(|(_, conn)| conn));
}

fn close(conns: impl Iterator<Item = Conn>) {
    for conn in conns {
        // A backend that waits for a lock does not notice that its client has left.
        if conn.outstanding() > 0 && !conn.is_broken() {
            tokio::spawn(async move {
                let _ = pool::cancel(&conn.cancel_key(), ANSWER).await;
                drop(conn);
            });
        }
    }
}

/// Asks without waiting for the answer.
pub async fn send(conn: &mut Conn, sql: &str) -> std::result::Result<(), PoolError> {
    put::query(conn.out(), sql);
    conn.sent_sync();
    conn.flush().await
}

async fn answer(conn: &mut Conn) -> std::result::Result<(), PoolError> {
    values(conn).await.map(drop)
}

/// Reads the answer: the first column of its rows.
pub async fn values(conn: &mut Conn) -> std::result::Result<Vec<String>, PoolError> {
    let (mut found, mut error) = (Vec::new(), None);
    loop {
        let frame = conn.frame().await?;
        match frame.tag() {
            b'D' => {
                let row = wire::backend::parse_data_row(frame.body())?;
                found.extend(row.first().copied().flatten().map(|v| String::from_utf8_lossy(v).into_owned()));
            }
            b'E' => {
                error = Some(PoolError::Server(Box::new(ErrorFields::parse(frame.body())?)));
                if conn.is_broken() {
                    break;
                }
            }
            b'Z' => break,
            _ => {}
        }
    }
    error.map_or(Ok(found), Err)
}

/// Finishes what readers found prepared, as the router does every few seconds; once for all who find it at the same time.
pub async fn recover(herd: &Herd) {
    let Ok(_alone) = herd.gates.recovering.try_lock() else {
        // Somebody is at it.
        drop(herd.gates.recovering.lock().await);
        return;
    };
    let snapshot = herd.epoch.load().snapshot.clone();
    let mut conns: HashMap<NodeId, Conn> = HashMap::new();
    let work = async {
        for node in &snapshot.nodes {
            if let Ok(conn) = herd.admin(&snapshot, node.id).await {
                conns.insert(node.id, conn);
            }
        }
        txn::recover::recover(&snapshot.herd_id, snapshot.home, &mut conns).await
    };
    match tokio::time::timeout(RECOVERY, work).await {
        Ok(done) => tracing::debug!(?done, "recovery for readers"),
        Err(_) => tracing::debug!("recovery for readers takes too long"),
    }
}

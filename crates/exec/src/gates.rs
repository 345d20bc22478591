//! The reader's half of the gate: all nodes' gates, held by one reader at a time. Why, and why that is enough:
//! `txn/src/gate.rs`. It does not know what is read, nor in which transaction.
//!
//! Gates are held by transactions on connections of the router's own. Such a connection is never given back to its pool
//! with its transaction open, so no gate outlives its reader, however that ends.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use catalog::{NodeId, Snapshot};
use pool::{Conn, PoolError};
use tokio::sync::{Mutex, MutexGuard};
use txn::{Lane, gate};

use crate::error::{ExecError, Result};
use crate::herd::Herd;

/// How long a reader with gates waits for another before it lets go: so long it may keep writers waiting in vain.
const ATTEMPT: Duration = Duration::from_secs(1);
/// Pauses between attempts, so that the writers waited for, and others, get on.
const PAUSE_MIN_MS: u64 = 20;
const PAUSE_MAX_MS: u64 = 120;
/// How long a node may take to answer beyond that.
const ANSWER: Duration = Duration::from_secs(2);
/// How long recovery may take before an attempt goes on without it.
const RECOVERY: Duration = Duration::from_secs(4);

/// Readers of this router wait here for their turn, and not on home with a connection each.
#[derive(Default)]
pub struct Gates {
    turn: Mutex<()>,
}

impl Gates {
    pub async fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().await
    }
}

/// All gates.
pub struct Held {
    lanes: Vec<Lane>,
}

enum Attempt {
    Held(Held),
    /// A writer is at work for longer than a reader may wait.
    Busy,
    /// There are other nodes than this router knew of.
    Moved,
}

/// Takes all gates. `None`: it could not be done in time.
pub async fn hold(herd: &Herd, until: Instant) -> Result<Option<Held>> {
    loop {
        let wait = until.saturating_duration_since(Instant::now()).min(ATTEMPT);
        if wait.is_zero() {
            return Ok(None);
        }
        let snapshot = herd.epoch.load().snapshot.clone();
        match tokio::time::timeout(wait * 2 + ANSWER, attempt(herd, &snapshot, wait)).await {
            Ok(Ok(Attempt::Held(held))) => return Ok(Some(held)),
            Ok(Ok(Attempt::Moved)) => herd.refresh(None).await?,
            Ok(Ok(Attempt::Busy)) | Err(_) => {}
            Ok(Err(e)) => return Err(e),
        }
        tokio::time::sleep(Duration::from_millis(rand::random_range(PAUSE_MIN_MS..PAUSE_MAX_MS))).await;
    }
}

async fn attempt(herd: &Herd, snapshot: &Snapshot, wait: Duration) -> Result<Attempt> {
    // Connections first: with a gate in hand nothing else is waited for.
    let mut lanes = Vec::with_capacity(snapshot.nodes.len());
    let others = snapshot.nodes.iter().map(|n| n.id).filter(|n| *n != snapshot.home);
    for node in std::iter::once(snapshot.home).chain(others) {
        let conn = herd.pools.get(&herd.target(snapshot, node)?, &herd.config.admin).await?;
        lanes.push(Lane::new(node, conn));
    }
    let take = gate::take(&snapshot.herd_id, wait.as_millis().max(1) as u64);
    let (home, others) = match lanes.split_first_mut() {
        Some(split) => split,
        None => return Err(ExecError::internal("a herd without nodes")),
    };
    // The list is of a statement of its own: its snapshot is taken when the gate is held.
    let nodes: BTreeSet<NodeId> = match home.rows(&format!("{take}; SELECT id FROM herd.node")).await {
        Ok(rows) => rows.iter().filter_map(|r| r.first()?.as_deref()?.parse().ok()).collect(),
        Err(e) if is_busy(&e) => return Ok(Attempt::Busy),
        Err(e) => return Err(e.into()),
    };
    if !nodes.iter().eq(snapshot.nodes.iter().map(|n| n.id).collect::<BTreeSet<_>>().iter()) {
        return Ok(Attempt::Moved);
    }
    for lane in others.iter_mut() {
        lane.put_query(&take);
        lane.conn.flush().await?;
    }
    for lane in others {
        match lane.finish().await {
            Ok(_) => {}
            Err(e) if is_busy(&e) => return Ok(Attempt::Busy),
            Err(e) => return Err(e.into()),
        }
    }
    Ok(Attempt::Held(Held { lanes }))
}

fn is_busy(e: &PoolError) -> bool {
    matches!(e, PoolError::Server(f) if f.code() == "55P03")
}

impl Held {
    /// Gives the gates back. An error: one of them may have been lost before.
    pub async fn release(mut self) -> std::result::Result<(), PoolError> {
        for lane in &mut self.lanes {
            lane.put_query("COMMIT");
            // What goes wrong here is seen when the answer is read.
            let _ = lane.conn.flush().await;
        }
        let mut lost = None;
        for lane in &mut self.lanes {
            if let Err(e) = lane.finish().await {
                lost.get_or_insert(e);
            }
        }
        lost.map_or(Ok(()), Err)
    }
}

/// Finishes what a reader found prepared, as the router does every few seconds.
pub async fn recover(herd: &Herd) {
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
        Ok(done) => tracing::debug!(?done, "recovery for a reader"),
        Err(_) => tracing::debug!("recovery for a reader takes too long"),
    }
}

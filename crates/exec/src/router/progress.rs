//! How far the COPYs and bulk INSERTs that run now have come: counters that whoever moves rows raises, and the list of
//! them, for `herd.progress`. It does not know what a client may see of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use catalog::{NodeId, Relation};
use parking_lot::Mutex;

use crate::router::herd::Herd;

/// One statement. Counters are only ever read to be shown.
pub struct Running {
    pub session: i32,
    pub user: String,
    /// `None`: rows of a query.
    pub relation: Option<Arc<Relation>>,
    /// `COPY FROM`, `COPY TO` or `INSERT`.
    pub command: &'static str,
    /// As PostgreSQL has it in pg_stat_progress_copy; `QUERY` for INSERT … SELECT.
    pub kind: &'static str,
    /// Rows may be passed over by a WHERE of nodes' own: how many, only they know.
    pub excludes: bool,
    pub started: String,
    pub bytes: AtomicU64,
    pub rows: AtomicU64,
    pub committed: AtomicU64,
    /// Rows given to, or got from, each node.
    pub nodes: Mutex<Vec<(NodeId, Arc<AtomicU64>)>>,
}

/// Adds to a counter nobody decides anything by.
pub fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

impl Running {
    /// The counter of a node's rows.
    pub fn node(&self, node: NodeId) -> Arc<AtomicU64> {
        let mut nodes = self.nodes.lock();
        if let Some((_, counter)) = nodes.iter().find(|(n, _)| *n == node) {
            return counter.clone();
        }
        let counter = Arc::new(AtomicU64::new(0));
        nodes.push((node, counter.clone()));
        counter
    }
}

/// All statements that are followed now.
#[derive(Default)]
pub struct Progress {
    running: Mutex<Vec<Arc<Running>>>,
}

impl Progress {
    /// The one that began first comes first.
    pub fn list(&self) -> Vec<Arc<Running>> {
        self.running.lock().clone()
    }
}

/// Takes its statement off the list when it ends, however it ends.
pub struct Followed {
    herd: Arc<Herd>,
    pub running: Arc<Running>,
}

impl Followed {
    /// Puts the statement on the herd's list.
    pub fn new(herd: &Arc<Herd>, running: Arc<Running>) -> Self {
        herd.progress.running.lock().push(running.clone());
        Followed { herd: herd.clone(), running }
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.herd.progress.running.lock().retain(|r| !Arc::ptr_eq(r, &self.running));
    }
}

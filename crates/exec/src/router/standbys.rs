//! The standbys of this router's nodes: which there are, what each is known to have, and which of them a read goes to.
//!
//! A standby's state is told by one moment: it has everything that was committed on its primary before that (`standbys/marks.rs`). That a
//! read sees what its session has written, what its catalog rests on, and nothing that is too old, is one comparison with it. How standbys
//! are found and asked: `standbys/follow.rs`; what each server has to do: `standbys/load.rs`. It does not know statements.

mod follow;
mod load;
pub mod marks;
mod shown;

pub use follow::follow;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use catalog::NodeId;
use parking_lot::{Mutex, RwLock};
use pool::NodeTarget;
use tokio::sync::watch;

use crate::read_from::{Need, ReadWay};
use crate::router::standbys::load::Load;
use crate::router::standbys::marks::{Line, Marks, slept};

/// How long a read waits for a standby that follows its primary closely: one that has just written, above all.
const WAIT: Duration = Duration::from_millis(50);
/// A standby follows closely that had everything so long ago; some of that is the time between two looks.
const CLOSE: Duration = Duration::from_millis(250);

/// Those of all nodes.
#[derive(Default)]
pub struct Standbys {
    nodes: ArcSwap<HashMap<NodeId, Arc<OfNode>>>,
    /// Somebody has asked for one since this was looked at last.
    wanted: AtomicBool,
    /// What must be there for whoever reads: rights that were changed by then.
    fence: Mutex<Option<Instant>>,
    /// Reads that had to go to the primary, and those that a standby failed.
    to_primary: AtomicU64,
    failed: AtomicU64,
}

/// Those of one node.
struct OfNode {
    /// All hosts.
    target: NodeTarget,
    marks: RwLock<Marks>,
    /// What the primary's code reads without a word of it.
    manners: Mutex<Option<String>>,
    hosts: Vec<Arc<Standby>>,
    primary: Arc<Load>,
    /// Somebody reads.
    often: AtomicBool,
    /// Grows when somebody can't wait for the next look.
    look: watch::Sender<u64>,
    /// Grows with each answer.
    seen: watch::Sender<u64>,
    turn: AtomicUsize,
}

/// One of a node's hosts.
struct Standby {
    host: NodeTarget,
    /// How far it has applied the log; 0: it is not read.
    applied: AtomicU64,
    load: Arc<Load>,
    known: Mutex<Known>,
}

/// What was seen of a host.
#[derive(Default)]
struct Known {
    /// By which it is connected to, once it is known to be the node's own.
    target: Option<Arc<NodeTarget>>,
    /// The line that it was seen to follow.
    line: Option<Line>,
    state: &'static str,
    why: Option<String>,
}

/// A read is at work there until this is dropped.
pub struct Using {
    standby: Option<(Arc<Standby>, Arc<NodeTarget>)>,
    load: Arc<Load>,
}

impl Using {
    fn of(load: &Arc<Load>, standby: Option<(Arc<Standby>, Arc<NodeTarget>)>) -> Self {
        load.begins();
        Using { standby, load: load.clone() }
    }

    /// The standby; `None`: the primary.
    pub fn target(&self) -> Option<&Arc<NodeTarget>> {
        self.standby.as_ref().map(|(_, target)| target)
    }
}

impl Drop for Using {
    fn drop(&mut self) {
        self.load.ends();
    }
}

impl Standbys {
    /// Rights may have been changed: nobody reads a standby that has not all that was committed by now.
    pub fn fence(&self) {
        *self.fence.lock() = Some(Instant::now());
    }

    /// Whether any node has some.
    pub fn are_there(&self) -> bool {
        !self.nodes.load().is_empty()
    }

    /// When rights were changed last, as far as is known here.
    pub fn fenced(&self) -> Option<Instant> {
        *self.fence.lock()
    }

    /// Where a read of the node goes. `None`: it has no standbys.
    pub async fn choose(&self, node: NodeId, need: &Need) -> Option<Using> {
        let of_node = self.nodes.load().get(&node)?.clone();
        self.wanted.store(true, Ordering::Relaxed);
        let chosen = match of_node.choose(need) {
            Some(using) => Some(using),
            None => of_node.wait(need).await,
        };
        chosen.or_else(|| {
            self.to_primary.fetch_add(1, Ordering::Relaxed);
            Some(Using::of(&of_node.primary, None))
        })
    }

    /// A read has failed there, and goes to the primary. `lost`: because of the server, which is not read before it has answered again.
    pub fn failed(&self, using: &Using, lost: bool) {
        let Some((standby, _)) = &using.standby else { return };
        self.failed.fetch_add(1, Ordering::Relaxed);
        if lost {
            standby.applied.store(0, Ordering::Relaxed);
            self.nodes
                .load()
                .values()
                .filter(|n| n.hosts.iter().any(|h| Arc::ptr_eq(h, standby)))
                .for_each(|n| n.look());
        }
    }
}

impl OfNode {
    fn new(target: NodeTarget) -> Self {
        let host = |host| {
            let (applied, load, known) = Default::default();
            Arc::new(Standby { host, applied, load, known })
        };
        let hosts = target.candidates().into_iter().map(host).collect();
        let (marks, manners, primary, often, turn) = Default::default();
        OfNode {
            target,
            marks,
            manners,
            hosts,
            primary,
            often,
            look: watch::Sender::new(0),
            seen: watch::Sender::new(0),
            turn,
        }
    }

    /// Of those that have all that is needed, the one that will answer first: by how long its answers take and how many it is asked for.
    fn choose(&self, need: &Need) -> Option<Using> {
        let least = need.least(Instant::now());
        let marks = self.marks.read();
        if !marks.are_of(slept()) {
            return None;
        }
        let fresh = |s: &Arc<Standby>| {
            let target = s.has_all_since(least, &marks)?;
            Some((s.load.waits(), s.load.clone(), Some((s.clone(), target))))
        };
        let mut from: Vec<_> = self.hosts.iter().filter_map(fresh).collect();
        if need.way == ReadWay::Any && !from.is_empty() {
            from.push((self.primary.waits(), self.primary.clone(), None));
        }
        let least = from.iter().map(|(waits, ..)| *waits).min()?;
        from.retain(|(waits, ..)| *waits == least);
        // Of equals each has its turn.
        let at = self.turn.fetch_add(1, Ordering::Relaxed) % from.len();
        let (_, load, standby) = from.swap_remove(at);
        Some(Using::of(&load, standby))
    }

    /// Waits a moment for a standby, if one may have it by then.
    async fn wait(&self, need: &Need) -> Option<Using> {
        let mut seen = self.seen.subscribe();
        self.look();
        let begun = Instant::now();
        if need.way != ReadWay::Replica || need.stale < WAIT || !self.follows_closely(begun.checked_sub(CLOSE)?) {
            return None;
        }
        let chosen = async {
            loop {
                seen.changed().await.ok()?;
                if let Some(using) = self.choose(need) {
                    return Some(using);
                }
                self.look();
            }
        };
        tokio::time::timeout(WAIT, chosen).await.ok().flatten()
    }

    fn follows_closely(&self, least: Instant) -> bool {
        let marks = self.marks.read();
        self.hosts.iter().any(|s| s.has_all_since(least, &marks).is_some())
    }

    fn look(&self) {
        self.look.send_modify(|n| *n += 1);
    }
}

impl Standby {
    /// Its target, if it has everything that was committed before this moment.
    fn has_all_since(&self, least: Instant, marks: &Marks) -> Option<Arc<NodeTarget>> {
        let applied = self.applied.load(Ordering::Relaxed);
        if applied == 0 || marks.has_all_of(applied)? < least {
            return None;
        }
        let known = self.known.lock();
        known.target.clone().filter(|_| known.line.is_some() && known.line == marks.line())
    }
}

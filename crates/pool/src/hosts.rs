//! Which host of a node with standbys is its primary, as far as this process has seen, and the connections to each.
//!
//! A host that hangs, or whose machine is gone, says nothing, and who waits for it waits long. So all hosts are tried
//! almost at once, the one seen as primary last a little before the others; and when another has become the primary, the
//! connections to the former one end: what waits there gets the error of a lost connection. So do those to a standby that is given up.
//! Nodes of one host are not in here and pay nothing. It does not know what runs on the connections, and promotes nobody.

use std::collections::HashMap;
use std::net::Shutdown;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use socket2::Socket;

use crate::patroni::Leader;
use crate::target::NodeTarget;

static NODES: LazyLock<Mutex<HashMap<NodeTarget, Node>>> = LazyLock::new(Mutex::default);

/// How long what Patroni has said counts. Asked at each login, it would be asked a thousand times a second.
const TOLD_FOR: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Node {
    primary: Option<Arc<NodeTarget>>,
    /// How often the primary has changed.
    changes: u64,
    /// A second handle of the socket of each connection, by its number.
    links: HashMap<u64, (Arc<NodeTarget>, Socket)>,
    numbers: u64,
    /// Whom Patroni has called the leader, and when.
    told: Option<(Instant, NodeTarget)>,
    /// The greatest timeline of a leader.
    timeline: u64,
    /// Held by who asks Patroni; the others wait for what it says.
    asking: Arc<tokio::sync::Mutex<()>>,
}

/// What was known of a node when somebody began to connect.
pub(crate) struct View {
    /// In the order in which to try them.
    pub candidates: Vec<NodeTarget>,
    changes: u64,
}

/// A connection that ends when another host of its node has become the primary, or its standby is given up.
pub(crate) struct Link {
    target: Arc<NodeTarget>,
    number: u64,
}

pub(crate) fn view(target: &NodeTarget) -> View {
    let mut candidates = target.candidates();
    let nodes = NODES.lock();
    let node = nodes.get(target);
    // A stable order: the primary first, the others as they are listed.
    candidates.sort_by_key(|c| node.and_then(|n| n.primary.as_deref()) != Some(c));
    View { candidates, changes: node.map_or(0, |n| n.changes) }
}

/// A host has answered as the primary to who began to connect with this view. `None`: another has become it since; a host
/// that was held up may still take itself for the primary.
pub(crate) fn answered(target: &Arc<NodeTarget>, view: &View, host: &Arc<NodeTarget>, socket: Socket) -> Option<Link> {
    let mut nodes = NODES.lock();
    let node = nodes.entry((**target).clone()).or_default();
    if node.primary.as_ref() != Some(host) {
        if node.changes != view.changes {
            return None;
        }
        let former = node.primary.replace(host.clone());
        node.changes += 1;
        let ended: Vec<_> = node.links.extract_if(|_, (at, _)| at != host).collect();
        for (_, (_, socket)) in &ended {
            // What has ended by itself can't be ended once more.
            let _ = socket.shutdown(Shutdown::Both);
        }
        if let Some(former) = former {
            tracing::warn!(node = %target, %former, primary = %host, connections = ended.len(), "another host has become the primary: connections to the former one end");
        }
    }
    Some(node.link(target, host, socket))
}

/// A connection to a standby.
pub(crate) fn link(standby: &Arc<NodeTarget>, socket: Socket) -> Link {
    NODES.lock().entry((**standby).clone()).or_default().link(standby, standby, socket)
}

/// A standby says nothing any more: connections to it end, and what waits there gets the error of a lost connection. How many there were.
pub fn give_up(standby: &NodeTarget) -> usize {
    let mut nodes = NODES.lock();
    let links = nodes.get_mut(standby).map(|node| std::mem::take(&mut node.links)).unwrap_or_default();
    for (_, socket) in links.values() {
        let _ = socket.shutdown(Shutdown::Both);
    }
    links.len()
}

impl Node {
    fn link(&mut self, target: &Arc<NodeTarget>, host: &Arc<NodeTarget>, socket: Socket) -> Link {
        self.numbers += 1;
        self.links.insert(self.numbers, (host.clone(), socket));
        Link { target: target.clone(), number: self.numbers }
    }
}

/// Whom Patroni has called the leader just now.
pub(crate) fn told(target: &NodeTarget) -> Option<NodeTarget> {
    let nodes = NODES.lock();
    let (when, leader) = nodes.get(target)?.told.as_ref()?;
    (when.elapsed() < TOLD_FOR).then(|| leader.clone())
}

/// Who holds this may ask Patroni.
pub(crate) fn asking(target: &NodeTarget) -> Arc<tokio::sync::Mutex<()>> {
    NODES.lock().entry(target.clone()).or_default().asking.clone()
}

/// Patroni has said who leads. `None`: that is a leader of former times, told by who has not heard of the next one; each
/// promotion begins a greater timeline.
pub(crate) fn tell(target: &NodeTarget, leader: Leader) -> Option<NodeTarget> {
    let mut nodes = NODES.lock();
    let node = nodes.entry(target.clone()).or_default();
    if leader.timeline < node.timeline {
        return None;
    }
    node.timeline = leader.timeline;
    let leader = NodeTarget { host: leader.host, port: leader.port, ..target.clone() };
    node.told = Some((Instant::now(), leader.clone()));
    Some(leader)
}

/// Who was called the leader can't be reached, or is a standby: the next one asks again.
pub(crate) fn doubt(target: &NodeTarget) {
    if let Some(node) = NODES.lock().get_mut(target) {
        node.told = None;
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(node) = NODES.lock().get_mut(&*self.target) {
            node.links.remove(&self.number);
        }
    }
}

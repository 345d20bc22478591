//! Asks primaries how far their logs are, and standbys how far they have applied them, all the time: often while reads want standbys. Each
//! server is asked by itself, so that one that hangs keeps nobody from hearing of the others. Nodes of one host are asked nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use catalog::NodeId;
use pool::{Conn, NodeTarget, OwnConns, PoolError};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::router::herd::Herd;
use crate::router::standbys::marks::{Line, end_of, slept};
use crate::router::standbys::{OfNode, Standby};

/// How often servers are asked while reads want standbys, and how often otherwise.
const WANTED_EVERY: Duration = Duration::from_millis(100);
const EVERY: Duration = Duration::from_secs(1);
/// However many want to know at once: not more often.
const LEAST: Duration = Duration::from_millis(2);
/// Who has not answered by then is not read: while reads want standbys, one that hangs is left out within a second. A new connection has longer.
const ANSWER_MAX: Duration = Duration::from_millis(700);
const CONNECT_MAX: Duration = Duration::from_secs(1);
/// What waits for a standby that has said nothing for so long goes elsewhere.
const SILENCE_MAX: Duration = Duration::from_secs(5);

/// What code reads without a word of it, and is not in the log: settings, and the libraries that order text.
macro_rules! manners {
    () => {
        "pg_catalog.concat_ws(', ', pg_catalog.current_setting('default_text_search_config'), pg_catalog.current_setting('lc_monetary'), \
          pg_catalog.current_setting('lc_numeric'), pg_catalog.current_setting('lc_time'), \
          (SELECT pg_catalog.pg_database_collation_actual_version(d.oid) FROM pg_catalog.pg_database d WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()), \
          (SELECT pg_catalog.pg_collation_actual_version(c.oid) FROM pg_catalog.pg_collation c WHERE c.collprovider OPERATOR(pg_catalog.=) 'i' ORDER BY c.oid LIMIT 1))"
    };
}
const POSITION: &str = concat!(
    "SELECT pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_insert_lsn(), '0/0'), \
     pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn()), 8), pg_catalog.current_setting('wal_block_size'), s.system_identifier, ",
    manners!(),
    " FROM pg_catalog.pg_control_system() s"
);
const STATE: &str = concat!(
    "SELECT pg_catalog.pg_is_in_recovery(), pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_last_wal_replay_lsn(), '0/0'), r.status, r.received_tli, r.pid, \
     s.system_identifier, ",
    manners!(),
    " FROM pg_catalog.pg_control_system() s LEFT JOIN pg_catalog.pg_stat_wal_receiver r ON true"
);

/// Follows the standbys of the nodes that the catalog has; never ends.
pub async fn follow(herd: Arc<Herd>) {
    let mut followed: HashMap<NodeId, (Arc<OfNode>, JoinSet<()>)> = HashMap::new();
    let mut active = 0u8;
    loop {
        let snapshot = herd.epoch.load().snapshot.clone();
        let targets: HashMap<NodeId, NodeTarget> = snapshot
            .nodes
            .iter()
            .filter_map(|n| Some((n.id, herd.target(&snapshot, n.id).ok()?)))
            .filter(|(_, target)| target.has_standbys())
            .collect();
        let before = followed.len();
        followed.retain(|node, (of_node, _)| targets.get(node) == Some(&of_node.target));
        let mut changed = followed.len() != before;
        // For some seconds after the last one that wanted any.
        active = if herd.standbys.wanted.swap(false, Ordering::Relaxed) { 10 } else { active.saturating_sub(1) };
        for (node, target) in targets {
            followed.entry(node).or_insert_with(|| {
                changed = true;
                let of_node = Arc::new(OfNode::new(target));
                (of_node.clone(), tasks(&herd.own, &of_node))
            });
        }
        for (of_node, _) in followed.values() {
            of_node.often.store(active > 0, Ordering::Relaxed);
        }
        if changed {
            let nodes = followed.iter().map(|(node, (of_node, _))| (*node, of_node.clone())).collect();
            herd.standbys.nodes.store(Arc::new(nodes));
        }
        tokio::time::sleep(EVERY / 2).await;
    }
}

/// They end when the set is dropped.
fn tasks(own: &OwnConns, of_node: &Arc<OfNode>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(follow_primary(own.clone(), of_node.clone()));
    for standby in &of_node.hosts {
        tasks.spawn(follow_host(own.clone(), of_node.clone(), standby.clone()));
    }
    tasks
}

async fn follow_primary(own: OwnConns, of_node: Arc<OfNode>) {
    let (mut conn, mut look) = (None, of_node.look.subscribe());
    loop {
        look.mark_unchanged();
        let (asked, slept, connected) = (Instant::now(), slept(), conn.is_some());
        match asked_in_time(&own, &of_node.target, &mut conn, POSITION).await {
            Ok(row) => {
                if connected {
                    of_node.primary.answered(asked.elapsed());
                }
                of_node.manners.lock().clone_from(&row.get(4).cloned().flatten());
                if let Some((line, position)) = position(&row) {
                    of_node.marks.write().put(line, asked, position, slept);
                }
            }
            Err(error) => tracing::debug!(node = %of_node.target, %error, "how far the log is could not be asked"),
        }
        of_node.seen.send_modify(|n| *n += 1);
        of_node.rest(&mut look).await;
    }
}

async fn follow_host(own: OwnConns, of_node: Arc<OfNode>, standby: Arc<Standby>) {
    let (mut conn, mut look) = (None, of_node.look.subscribe());
    let mut heard = Instant::now();
    loop {
        look.mark_unchanged();
        let (asked, connected) = (Instant::now(), conn.is_some());
        match asked_in_time(&own, &standby.host, &mut conn, STATE).await {
            Ok(row) => {
                heard = Instant::now();
                let took = connected.then(|| heard - asked);
                standby.seen(&of_node, &row, took);
            }
            Err(error) => {
                standby.is_away(&error);
                if heard.elapsed() > SILENCE_MAX {
                    standby.give_up();
                    heard = Instant::now();
                }
            }
        }
        of_node.seen.send_modify(|n| *n += 1);
        if let Some(error) = of_node.rest_by(&mut conn, &mut look).await {
            // It may be back in a moment, and have less than it had.
            standby.is_away(&error);
        }
    }
}

/// The one row of an answer; the connection is opened where there is none, and closed where something has gone wrong.
async fn asked_in_time(
    own: &OwnConns,
    target: &NodeTarget,
    conn: &mut Option<Conn>,
    sql: &str,
) -> Result<catalog::Row, PoolError> {
    let limit = if conn.is_some() { ANSWER_MAX } else { CONNECT_MAX };
    let ask = async {
        let mut open = match conn.take() {
            Some(open) => open,
            None => own.connect(target).await?,
        };
        let rows = open.simple(sql).await?;
        *conn = Some(open);
        Ok(rows.into_iter().next().unwrap_or_default())
    };
    let late = |_| Err(PoolError::Timeout { node: target.to_string(), doing: "telling how far its log is" });
    tokio::time::timeout(limit, ask).await.unwrap_or_else(late)
}

fn position(row: &catalog::Row) -> Option<(Line, u64)> {
    let [Some(position), Some(timeline), Some(page), Some(system), _] = &row[..] else { return None };
    let line = Line { system: system.parse().ok()?, timeline: u32::from_str_radix(timeline, 16).ok()? };
    Some((line, end_of(position.parse().ok()?, page.parse().ok()?)))
}

impl OfNode {
    /// Until the next time; sooner if somebody wants to know.
    async fn rest(&self, look: &mut watch::Receiver<u64>) {
        tokio::time::sleep(LEAST).await;
        let every = if self.often.load(Ordering::Relaxed) { WANTED_EVERY } else { EVERY };
        // It ends with the node's own, whose tasks end with that.
        let _ = tokio::time::timeout(every, look.changed()).await;
    }

    /// The same; the error, if the connection ends meanwhile.
    async fn rest_by(&self, conn: &mut Option<Conn>, look: &mut watch::Receiver<u64>) -> Option<PoolError> {
        let Some(open) = conn else {
            self.rest(look).await;
            return None;
        };
        let ended = async {
            loop {
                // What it says unasked is read with its next answer.
                if let Err(error) = open.fill().await {
                    return error;
                }
            }
        };
        let error = tokio::select! {
            error = ended => error,
            () = self.rest(look) => return None,
        };
        *conn = None;
        Some(error)
    }
}

impl Standby {
    /// It has answered. `took`: how long that took.
    fn seen(&self, of_node: &OfNode, row: &catalog::Row, took: Option<Duration>) {
        let text = |n: usize| row.get(n).and_then(Option::as_deref);
        let number = |n| text(n).and_then(|t| t.parse::<u64>().ok());
        let line = of_node.marks.read().line();
        let mut known = self.known.lock();
        if let Some(took) = took {
            self.load.answered(took);
        } else {
            // Another server may have the address by now.
            known.line = None;
        }
        let streams = text(2) == Some("streaming");
        if let (true, Some(timeline), Some(system)) = (streams, number(3), number(5)) {
            known.line = Some(Line { system, timeline: timeline as u32 });
        }
        let (state, why) = match (text(0), line) {
            (Some("f"), _) => ("primary", None),
            (_, None) => ("unknown", Some("the primary has not answered yet")),
            (_, Some(line)) if number(5) != Some(line.system) => {
                ("stranger", Some("its system identifier is not the primary's"))
            }
            _ if of_node.manners.lock().as_deref() != text(6) => (
                "unlike",
                Some("its text search configuration, lc_* settings or collations' versions are not the primary's"),
            ),
            (_, Some(line)) if known.line == Some(line) => ("ready", None),
            _ if text(4).is_some() && text(2).is_none() => {
                ("unknown", Some("the router's role may not see what it receives: GRANT pg_monitor to it"))
            }
            _ if !streams && known.line.is_none() => ("not streaming", Some("it receives no log from a primary")),
            _ => ("not streaming", Some("it follows another timeline than the primary's")),
        };
        known.is(state, why);
        let applied = number(1).filter(|_| state == "ready").unwrap_or(0);
        if let Some(line) = line.filter(|_| known.target.is_none() && state == "ready") {
            known.target = Some(Arc::new(NodeTarget { standby_of: Some(line.system), ..self.host.clone() }));
        }
        self.applied.store(applied, Ordering::Relaxed);
    }

    fn is_away(&self, error: &PoolError) {
        self.applied.store(0, Ordering::Relaxed);
        let mut known = self.known.lock();
        known.is("unreachable", None);
        known.why = Some(error.to_string());
        known.line = None;
    }

    /// It has said nothing for long: who waits for it is freed.
    fn give_up(&self) {
        let Some(target) = self.known.lock().target.clone() else { return };
        let ended = pool::give_up(&target);
        if ended > 0 {
            tracing::warn!(standby = %target, connections = ended, "a standby does not answer: connections to it end");
        }
    }
}

//! Deadlocks across nodes: each node sees only its own half of the circle.
//!
//! Twice a second the wait graphs of all nodes are joined by the sessions they serve: a session waits where any of its
//! connections waits. A circle over sessions that is there twice in a row is broken by cancelling the session whose
//! transaction began last; one with a job in it that will try its locks again by cancelling that, at first sight.
//! Sessions of other routers are known by what these write into `herd.backend` on home, which they do while they see
//! somebody wait whom they can't place. It does not know what sessions do.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use exec::GIVES_WAY;
use futures_util::future::join_all;
use pool::Conn;
use session::Router;
use tokio::task::JoinSet;

use super::circles::{Backend, Edge, Owner, Victim, Waits, circles};

const EVERY: Duration = Duration::from_millis(500);
/// A node that does not answer keeps the others' circles waiting for no longer; what is known without it is judged.
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// What other routers have written is believed for so long: two of their rounds.
const BELIEVED: &str = "1500 milliseconds";

/// Looks for deadlocks and breaks them; never ends.
pub async fn watch(router: Arc<Router>) {
    let mut conns = Conns::default();
    let mut last: HashSet<Vec<Edge>> = HashSet::new();
    loop {
        tokio::time::sleep(EVERY).await;
        let found = round(&router, &mut conns).await;
        for (circle, victim) in &found {
            let Some((session, tries_again)) = *victim else { continue };
            if tries_again || last.contains(circle) {
                match tries_again {
                    true => tracing::debug!(session, "a job's locks are part of a deadlock: it will try again"),
                    false => tracing::info!(session, "deadlock across nodes: the youngest transaction is cancelled"),
                }
                let router = router.clone();
                tokio::spawn(async move { router.cancels.cancel_for_deadlock(session).await });
            }
        }
        last = found.into_keys().collect();
    }
}

/// A connection to each node that could be reached. Who is slow to let one in is waited for beside the rounds.
#[derive(Default)]
struct Conns {
    there: HashMap<i32, Conn>,
    coming: HashSet<i32>,
    connecting: JoinSet<(i32, Option<Conn>)>,
}

impl Conns {
    /// Those of the herd's nodes, which are asked and put back.
    fn take(&mut self, router: &Router, snapshot: &Arc<catalog::Snapshot>) -> HashMap<i32, Conn> {
        while let Some(done) = self.connecting.try_join_next() {
            let Ok((node, conn)) = done else { continue };
            self.coming.remove(&node);
            self.there.extend(conn.map(|conn| (node, conn)));
        }
        self.there.retain(|node, conn| !conn.is_broken() && snapshot.node(*node).is_some());
        for node in snapshot.nodes.iter().map(|n| n.id) {
            if !self.there.contains_key(&node) && self.coming.insert(node) {
                let (herd, snapshot) = (router.herd.clone(), snapshot.clone());
                self.connecting.spawn(async move { (node, herd.admin(&snapshot, node).await.ok()) });
            }
        }
        std::mem::take(&mut self.there)
    }
}

/// The circles there are now, and of each the session to cancel if it is one of ours, and whether that tries again.
async fn round(router: &Router, conns: &mut Conns) -> HashMap<Vec<Edge>, Option<(i32, bool)>> {
    let snapshot = router.herd.epoch.load().snapshot.clone();
    let own = router.cancels.owners(&|key| node_of(router, &snapshot, key));
    if snapshot.nodes.len() < 2 || own.is_empty() {
        return HashMap::new();
    }
    let sql = format!(
        "SELECT a.pid, extract(epoch FROM a.xact_start), extract(epoch FROM a.query_start), b, \
                pg_catalog.starts_with(a.query, {}) \
         FROM pg_catalog.pg_stat_activity a \
         LEFT JOIN LATERAL unnest(CASE a.wait_event_type WHEN 'Lock' THEN pg_catalog.pg_blocking_pids(a.pid) END) b ON true \
         WHERE a.xact_start IS NOT NULL AND a.backend_type = 'client backend'",
        catalog::quote_literal(GIVES_WAY)
    );
    let asked = conns.take(router, &snapshot).into_iter().map(async |(node, mut conn)| {
        let rows = tokio::time::timeout(ANSWER_MAX, conn.simple(&sql)).await;
        (node, rows.ok().and_then(Result::ok).map(|rows| (conn, rows)))
    });
    let mut waits = Waits::default();
    for (node, answer) in join_all(asked).await {
        let Some((conn, rows)) = answer else { continue };
        conns.there.insert(node, conn);
        for row in rows {
            let text = |i: usize| row.get(i).and_then(|v| v.clone()).unwrap_or_default();
            let Ok(pid) = text(0).parse() else { continue };
            waits.began.insert((node, pid), text(1).parse().unwrap_or(0.0));
            if text(4) == "t" {
                waits.give_way.insert((node, pid));
            }
            if let Ok(holder) = text(3).parse() {
                waits.edges.push(Edge { waiter: (node, pid), holder: (node, holder), since: text(2) });
            }
        }
    }
    if waits.edges.is_empty() {
        return HashMap::new();
    }
    let me = format!("{:016x}", router.herd.router);
    let mut owners: HashMap<Backend, Owner> =
        own.iter().map(|(backend, session)| (*backend, (me.clone(), *session))).collect();
    let stranger = |e: &Edge| own.contains_key(&e.waiter) != own.contains_key(&e.holder);
    if waits.edges.iter().any(stranger)
        && let Some(home) = conns.there.get_mut(&snapshot.home)
    {
        match tokio::time::timeout(ANSWER_MAX, exchange(home, &me, &own)).await {
            Ok(Ok(theirs)) => owners.extend(theirs),
            Ok(Err(e)) => tracing::debug!(error = %e, "no word of other routers' sessions"),
            Err(_) => drop(conns.there.remove(&snapshot.home)),
        }
    }
    let ours = |victim: Victim| (victim.owner.0 == me).then_some((victim.owner.1, victim.tries_again));
    circles(&owners, &waits).into_iter().map(|(circle, victim)| (circle, ours(victim))).collect()
}

/// Tells other routers which backends serve which of our sessions, and reads the same of theirs.
async fn exchange(
    home: &mut Conn,
    me: &str,
    own: &HashMap<Backend, i32>,
) -> Result<HashMap<Backend, Owner>, pool::PoolError> {
    let rows: Vec<String> =
        own.iter().map(|((node, pid), session)| format!("('{me}', {session}, {node}, {pid})")).collect();
    home.simple(&format!(
        "DELETE FROM herd.backend WHERE router = '{me}' OR seen_at < pg_catalog.now() - interval '1 minute'; \
         INSERT INTO herd.backend (router, session, node, pid) VALUES {}",
        rows.join(", ")
    ))
    .await?;
    let sql = format!(
        "SELECT router, session, node, pid FROM herd.backend \
         WHERE router <> '{me}' AND seen_at > pg_catalog.now() - interval '{BELIEVED}'"
    );
    let mut found = HashMap::new();
    for row in home.simple(&sql).await? {
        let number = |i: usize| row.get(i).and_then(|v| v.as_deref()?.parse::<i32>().ok()).unwrap_or(0);
        let router = row.first().and_then(|v| v.clone()).unwrap_or_default();
        found.insert((number(2), number(3)), (router, number(1)));
    }
    Ok(found)
}

fn node_of(router: &Router, snapshot: &catalog::Snapshot, key: &pool::CancelKey) -> Option<i32> {
    snapshot.nodes.iter().map(|n| n.id).find(|n| router.herd.target(snapshot, *n).is_ok_and(|t| t == *key.target))
}

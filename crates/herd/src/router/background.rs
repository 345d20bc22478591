//! What goes on beside the sessions: word of catalog changes from other routers, and the recovery of prepared
//! transactions whose router died. The nodes are looked at by a few routers, however many there are, so that a node need not keep a
//! connection for each.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use catalog::Snapshot;
use pool::{Conn, PoolError};
use session::Router;
use tokio::task::{JoinHandle, JoinSet};

use super::health::Health;
use super::registry;
use super::rights::Follower;

/// So many routers look at the nodes: those of the lowest numbers. One is enough; the others are there when it dies.
const WATCHERS: usize = 3;
const RECOVERY_EVERY: Duration = Duration::from_secs(2);
/// How long nodes may keep recovery waiting: those that answer are not to wait for one that hangs (two questions of
/// three seconds, at most).
const RECOVERY_LIMIT: Duration = Duration::from_secs(8);
/// Routers that need not look do so now and then: those of the lowest numbers may reach home and not the nodes.
const OTHERS_LOOK_EVERY: Duration = Duration::from_secs(60);
/// How often to look whether home is back; with the time a probe takes less than a lease.
const RECONNECT_EVERY: Duration = Duration::from_millis(200);
/// Home may take so long to answer a report.
const REPORT_MAX: Duration = Duration::from_secs(3);
/// How often it is looked whether clients whose statements run are still there.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// What must end before the router leaves `herd.router`.
pub fn start(router: &Arc<Router>, address: SocketAddr, health: Arc<Health>) -> JoinHandle<()> {
    // Until home has said more, nobody is before it.
    let before = Arc::new(AtomicUsize::new(0));
    tokio::spawn(recover(router.clone(), health, before.clone()));
    tokio::spawn(notice_who_left(router.clone()));
    tokio::spawn(exec::follow_standbys(router.herd.clone()));
    tokio::spawn(session::work_on_jobs(router.clone()));
    tokio::spawn(listen(router.clone(), address, before))
}

async fn notice_who_left(router: Arc<Router>) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        router.cancels.cancel_for_those_who_left();
    }
}

/// Reloads the catalog whenever another router has changed it. While home is down the snapshot stays as it is.
async fn listen(router: Arc<Router>, address: SocketAddr, before: Arc<AtomicUsize>) {
    loop {
        if let Err(e) = listen_once(&router, address, &before).await {
            tracing::warn!(error = %e, "no word of catalog changes: home can't be reached");
        }
        // Statements need not wait to find out that it is still so.
        while let Ok(false) = router.herd.lease.probe(&router.herd).await {
            tokio::time::sleep(RECONNECT_EVERY).await;
        }
        tokio::time::sleep(RECONNECT_EVERY).await;
    }
}

async fn listen_once(router: &Router, address: SocketAddr, before: &AtomicUsize) -> Result<(), exec::ExecError> {
    let herd = &router.herd;
    let connect = || herd.own.connect(&herd.config.home);
    // Nothing else runs on the connection that listens: what it is told wakes the report.
    let (mut ear, mut desk) = (connect().await?, connect().await?);
    ear.simple(&format!("LISTEN {}", catalog::schema::EPOCH_CHANNEL)).await?;
    registry::register(&mut desk, router, address).await?;
    loop {
        let late = PoolError::Timeout { node: herd.config.home.to_string(), doing: "telling which catalog is in use" };
        match tokio::time::timeout(REPORT_MAX, registry::report(&mut desk, router, address)).await {
            Ok(reported) => before.store(reported?, Ordering::Relaxed),
            Err(_) => return Err(late.into()),
        }
        let reported = Instant::now();
        tokio::select! {
            heard = ear.fill() => {
                heard?;
                while ear.buffered_frame()?.is_some() {}
                while let Some(mut heard) = ear.take_notifications() {
                    while let Ok(Some(frame)) = wire::frame::take(&mut heard, NOTIFICATION_MAX) {
                        if let Some(said) = said(frame.body()) {
                            herd.pauses.heed(said);
                            herd.heed_readers(said);
                        }
                    }
                }
                tokio::time::sleep_until((reported + REPORT_LEAST).into()).await;
            }
            () = tokio::time::sleep(registry::REPORT_EVERY) => {}
        }
    }
}

/// Between two reports: anybody may notify whom he likes, as often as he can.
const REPORT_LEAST: Duration = Duration::from_millis(5);

/// PostgreSQL's payloads are shorter than 8000 bytes.
const NOTIFICATION_MAX: usize = 1 << 14;

/// What a NotificationResponse says: after the sender's process id and the channel's name.
fn said(body: &[u8]) -> Option<&str> {
    let mut texts = body.get(4..)?.split(|b| *b == 0);
    std::str::from_utf8(texts.nth(1)?).ok()
}

/// Finishes what dead routers left behind, at the start and every few seconds; looks whether a router died between
/// changing the catalog and telling of it, and whether rights were changed without a router. All but `WATCHERS` routers look at home
/// alone, and at the nodes once a minute; not those that read standbys, whose reads must know of such changes.
async fn recover(router: Arc<Router>, health: Arc<Health>, before: Arc<AtomicUsize>) {
    let mut conns: HashMap<i32, Conn> = HashMap::new();
    let mut follower = Follower::default();
    let mut looked = Instant::now();
    loop {
        let snapshot = router.herd.epoch.load().snapshot.clone();
        let watches = before.load(Ordering::Relaxed) < WATCHERS
            || router.herd.standbys.are_there()
            || looked.elapsed() > OTHERS_LOOK_EVERY;
        if watches {
            looked = Instant::now();
        }
        let looked_at = |node: i32| node == snapshot.home || watches && snapshot.node(node).is_some();
        conns.retain(|node, conn| !conn.is_broken() && looked_at(*node));
        let mut connecting = JoinSet::new();
        for node in snapshot.nodes.iter().map(|n| n.id).filter(|n| looked_at(*n) && !conns.contains_key(n)) {
            let (router, snapshot) = (router.clone(), snapshot.clone());
            let limit = RECOVERY_LIMIT;
            connecting.spawn(async move {
                let conn = tokio::time::timeout(limit, router.herd.admin(&snapshot, node)).await;
                (node, conn.map_err(|_| "it does not answer".to_string()).and_then(|c| c.map_err(|e| e.to_string())))
            });
        }
        health.keep(looked_at);
        for (id, connected) in connecting.join_all().await {
            if let Some(node) = snapshot.node(id) {
                health.seen(node, connected.as_ref().err().map(String::as_str));
            }
            if let Ok(conn) = connected {
                conns.insert(id, conn);
            }
        }
        if watches {
            finish_prepared(&snapshot, &mut conns).await;
        }
        if let Some(home) = conns.get_mut(&snapshot.home) {
            let newest = async {
                if let Ok(rows) = home.simple("SELECT epoch FROM herd.epoch").await
                    && let Some(epoch) = rows.first().and_then(|r| r[0].as_deref()?.parse().ok())
                    && let Err(e) = router.herd.refresh(Some(epoch)).await
                {
                    tracing::debug!(error = %e, "the catalog could not be loaded");
                }
            };
            // What was decided on other nodes is ended there, whatever becomes of home.
            if tokio::time::timeout(RECOVERY_LIMIT, newest).await.is_err() {
                conns.remove(&snapshot.home);
            }
        }
        if let Some(home) = conns.get_mut(&snapshot.home) {
            match tokio::time::timeout(RECOVERY_LIMIT, exec::undo_orphans(home, &router.herd)).await {
                Ok(Ok(())) => {}
                Ok(Err(e)) => tracing::debug!(error = %e, "jobs without a router will be looked at again"),
                Err(_) => conns.clear(),
            }
        }
        if watches {
            let followed = follower.follow(snapshot.home, &mut conns, || router.herd.standbys.fence());
            match tokio::time::timeout(RECOVERY_LIMIT, followed).await {
                Ok(Ok(())) => {}
                Ok(Err(e)) => tracing::debug!(error = %e, "rights will be looked at again"),
                Err(_) => conns.clear(),
            }
        }
        tokio::time::sleep(RECOVERY_EVERY).await;
    }
}

async fn finish_prepared(snapshot: &Snapshot, conns: &mut HashMap<i32, Conn>) {
    let run = txn::recover::recover(&snapshot.herd_id, snapshot.home, conns);
    match tokio::time::timeout(RECOVERY_LIMIT, run).await {
        Ok(done) if done.committed + done.rolled_back > 0 => {
            tracing::info!(
                committed = done.committed,
                rolled_back = done.rolled_back,
                "recovered prepared transactions"
            );
        }
        Ok(_) => {}
        Err(_) => {
            tracing::warn!("recovery takes too long: a node does not answer");
            conns.clear();
        }
    }
}

//! What goes on beside the sessions: word of catalog changes from other routers, and the recovery of prepared
//! transactions whose router died.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pool::Conn;
use session::Router;
use tokio::task::JoinHandle;

use super::registry;

const RECOVERY_EVERY: Duration = Duration::from_secs(3);
const RECONNECT_EVERY: Duration = Duration::from_secs(1);

/// What must end before the router leaves `herd.router`.
pub fn start(router: &Arc<Router>, address: SocketAddr) -> JoinHandle<()> {
    tokio::spawn(recover(router.clone()));
    tokio::spawn(listen(router.clone(), address))
}

/// Reloads the catalog whenever another router has changed it. While home is down the snapshot stays as it is.
async fn listen(router: Arc<Router>, address: SocketAddr) {
    loop {
        if let Err(e) = listen_once(&router, address).await {
            tracing::warn!(error = %e, "no word of catalog changes: home can't be reached");
        }
        tokio::time::sleep(RECONNECT_EVERY).await;
    }
}

async fn listen_once(router: &Router, address: SocketAddr) -> Result<(), exec::ExecError> {
    let herd = &router.herd;
    let connect =
        || Conn::connect(&herd.config.home, &herd.config.admin, &exec::ADMIN_STARTUP, herd.config.connect_timeout);
    // Nothing else runs on the connection that listens: an answer's reader would pass over a notification.
    let (mut ear, mut desk) = (connect().await?, connect().await?);
    ear.simple(&format!("LISTEN {}", catalog::schema::EPOCH_CHANNEL)).await?;
    registry::register(&mut desk, router, address).await?;
    loop {
        registry::report(&mut desk, router, address).await?;
        tokio::select! {
            heard = ear.fill() => {
                heard?;
                while ear.buffered_frame()?.is_some() {}
            }
            () = tokio::time::sleep(registry::REPORT_EVERY) => {}
        }
    }
}

/// Finishes what dead routers left behind, at the start and every few seconds.
async fn recover(router: Arc<Router>) {
    let mut conns: HashMap<i32, Conn> = HashMap::new();
    loop {
        let snapshot = router.herd.epoch.load().snapshot.clone();
        conns.retain(|node, conn| !conn.is_broken() && snapshot.node(*node).is_some());
        for node in &snapshot.nodes {
            if let Entry::Vacant(place) = conns.entry(node.id)
                && let Ok(conn) = router.herd.admin(&snapshot, node.id).await
            {
                place.insert(conn);
            }
        }
        match txn::recover::recover(&snapshot.herd_id, &mut conns).await {
            Ok(done) if done.committed + done.rolled_back > 0 => {
                tracing::info!(
                    committed = done.committed,
                    rolled_back = done.rolled_back,
                    "recovered prepared transactions"
                );
            }
            Ok(_) => {}
            Err(e) => {
                tracing::debug!(error = %e, "recovery will be tried again");
                conns.clear();
            }
        }
        tokio::time::sleep(RECOVERY_EVERY).await;
    }
}

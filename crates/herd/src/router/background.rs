//! What goes on beside the sessions: word of catalog changes from other routers, and the recovery of prepared
//! transactions whose router died.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use pool::Conn;
use session::Router;

const RECOVERY_EVERY: Duration = Duration::from_secs(3);
const RECONNECT_EVERY: Duration = Duration::from_secs(1);

pub fn start(router: &Arc<Router>) {
    tokio::spawn(listen(router.clone()));
    tokio::spawn(recover(router.clone()));
}

/// Reloads the catalog whenever another router has changed it. While home is down the snapshot stays as it is.
async fn listen(router: Arc<Router>) {
    loop {
        if let Err(e) = listen_once(&router).await {
            tracing::warn!(error = %e, "no word of catalog changes: home can't be reached");
        }
        tokio::time::sleep(RECONNECT_EVERY).await;
    }
}

async fn listen_once(router: &Router) -> Result<(), exec::ExecError> {
    let herd = &router.herd;
    let mut conn =
        Conn::connect(&herd.config.home, &herd.config.admin, &exec::ADMIN_STARTUP, herd.config.connect_timeout).await?;
    conn.simple(&format!("LISTEN {}", catalog::schema::EPOCH_CHANNEL)).await?;
    // What changed before we listened.
    let rows = conn.simple("SELECT epoch FROM herd.epoch").await?;
    let epoch = rows.first().and_then(|r| r[0].as_deref()?.parse().ok());
    herd.refresh(epoch).await?;
    loop {
        let frame = conn.frame().await?;
        if frame.tag() != b'A' {
            continue;
        }
        let rows = conn.simple("SELECT epoch FROM herd.epoch").await?;
        let epoch: Option<i64> = rows.first().and_then(|r| r[0].as_deref()?.parse().ok());
        herd.refresh(epoch).await?;
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

//! Cancel requests for sessions of other routers: a client's second connection may end at any of them.
//!
//! The pid names the router, `herd.router` on home says where it is. A request is sent on once at most: it is marked by
//! a byte behind the secret, and a marked one goes no further. Does not know what a session runs, nor whether the key is
//! right: that is for the router that gave it.

use std::net::SocketAddr;
use std::sync::Arc;

use pool::{CancelKey, NodeTarget, TlsMode};

use crate::cancel::{CancelOutcome, router_of};
use crate::router::Router;

/// Behind a secret, which has 4 or 32 bytes: sent on by a router.
const MARK: u8 = 0xfe;

/// Does what a cancel request asks for, here or where its session is.
pub async fn cancel(router: &Router, pid: i32, secret: &[u8]) {
    let (secret, marked) = match secret {
        [own @ .., MARK] if matches!(own.len(), 4 | 32) => (own, true),
        _ => (secret, false),
    };
    if router.cancels.cancel(pid, secret).await == CancelOutcome::Done {
        return;
    }
    let other = router_of(pid).filter(|n| !marked && *n != router.cancels.router_number());
    let Some(number) = other.filter(|_| matches!(secret.len(), 4 | 32)) else {
        tracing::debug!(pid, "a cancel request for no session");
        return;
    };
    match address(router, number).await {
        Ok(Some(address)) => {
            let (host, port) = (address.ip().to_string(), address.port());
            // Encrypted where that router can: on loopback or between routers nobody checks certificates for a key.
            let target = Arc::new(NodeTarget { tls: TlsMode::Prefer, ..NodeTarget::new(&host, port, "") });
            let key = CancelKey { address: target.clone(), target, pid, secret: [secret, &[MARK]].concat().into() };
            if let Err(e) = pool::cancel(&key, router.cancels.timeout()).await {
                tracing::warn!(%address, error = %e, "a cancel request could not be sent on to its router");
            }
        }
        Ok(None) => tracing::debug!(pid, "a cancel request for a router that is gone"),
        Err(e) => tracing::warn!(error = %e, "a cancel request could not be sent on: home can't be reached"),
    }
}

/// Where the router of this number listens; `None`: there is none but this one, or its address can't be read.
pub async fn address(router: &Router, number: i32) -> Result<Option<SocketAddr>, pool::PoolError> {
    let herd = &router.herd;
    let sql = format!("SELECT address FROM herd.router WHERE number = {number} AND id <> {}", herd.router as i64);
    let rows = herd.own.rows(&herd.config.home, &sql).await?;
    Ok(rows.into_iter().next().and_then(|r| r.into_iter().next()).flatten().and_then(|a| a.parse().ok()))
}

//! The metrics page: a minimal HTTP/1.0 answer for Prometheus. It does not know what is counted.

use std::sync::Arc;
use std::time::Duration;

use session::Router;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::health::Health;
use super::stores::Stores;

/// A request longer than this is not one for metrics.
const REQUEST_MAX: usize = 8192;
/// So many are answered at a time: descriptors are for clients.
const AT_ONCE_MAX: usize = 64;

/// Answers requests on a listener, each within five seconds; never ends.
pub async fn serve(listener: TcpListener, router: Arc<Router>, health: Arc<Health>, stores: Arc<Stores>) {
    let places = Arc::new(Semaphore::new(AT_ONCE_MAX));
    loop {
        match (listener.accept().await, places.clone().try_acquire_owned()) {
            (Ok((stream, _)), Ok(place)) => {
                let (router, health, stores) = (router.clone(), health.clone(), stores.clone());
                tokio::spawn(async move {
                    let answered =
                        tokio::time::timeout(Duration::from_secs(5), answer(stream, &router, &health, &stores));
                    let _ = answered.await;
                    drop(place);
                });
            }
            // One too many: it is closed.
            (Ok(_), Err(_)) => {}
            // Out of descriptors, most likely: others will give theirs back.
            (Err(_), _) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn answer(mut stream: TcpStream, router: &Router, health: &Health, stores: &Stores) -> std::io::Result<()> {
    let mut request = Vec::new();
    let mut buf = [0; 1024];
    while !request.windows(4).any(|w| w == b"\r\n\r\n") && request.len() < REQUEST_MAX {
        match stream.read(&mut buf).await? {
            0 => break,
            n => request.extend_from_slice(&buf[..n]),
        }
    }
    let (status, body) = match request.starts_with(b"GET /metrics ") || request.starts_with(b"GET / ") {
        true => ("200 OK", page(router, health, stores)),
        false => ("404 Not Found", "the metrics are at /metrics\n".to_string()),
    };
    let head = format!(
        "HTTP/1.0 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

fn page(router: &Router, health: &Health, stores: &Stores) -> String {
    let mut out = router.metrics.render();
    out.push_str("# HELP herd_node_up Whether the router could reach a node when it last looked, every few seconds.\n# TYPE herd_node_up gauge\n");
    for (name, up) in health.up() {
        out.push_str(&format!("herd_node_up{{node=\"{}\"}} {}\n", escape(&name), u8::from(up)));
    }
    out.push_str(
        "# HELP herd_pool_connections Connections to nodes, by node and user.\n# TYPE herd_pool_connections gauge\n",
    );
    let herd = &router.herd;
    // What logins ask home has connections of its own.
    let all = [
        ("false", herd.pools.stats()),
        ("beside", herd.pools.stats_beside()),
        ("true", herd.own.stats()),
        ("logins", herd.own.stats_for_logins()),
    ];
    for (own, s) in all.into_iter().flat_map(|(own, stats)| stats.into_iter().map(move |s| (own, s))) {
        for (state, n) in [("open", s.open), ("idle", s.idle), ("waiting", s.waiting), ("max", s.max)] {
            out.push_str(&format!(
                "herd_pool_connections{{node=\"{}\",user=\"{}\",own=\"{own}\",state=\"{state}\"}} {n}\n",
                s.target,
                escape(&s.user),
            ));
        }
    }
    out.push_str(&router.herd.columns.page());
    out.push_str(&stores.page());
    out.push_str(&router.herd.standbys.page(&router.herd.epoch.load().snapshot));
    for (name, help, bytes) in [
        ("herd_plan_bytes", "What kept plans take, in bytes.", router.herd.epoch.load().plan_bytes()),
        ("herd_prepared_bytes", "What clients' prepared statements take, in bytes.", router.budget.used()),
        ("herd_row_bytes", "What rows that wait in the router take, in bytes.", router.herd.memory.budget().used()),
        (
            "herd_spool_bytes",
            "What such rows take in temporary files of the router, in bytes.",
            router.herd.memory.budget().on_disk() as usize,
        ),
    ] {
        out.push_str(&format!("# HELP {name} {help}\n# TYPE {name} gauge\n{name} {bytes}\n"));
    }
    let (shared, rows) = (router.herd.shared.stats(), router.herd.rows.stats());
    for (name, help, n) in [
        ("batches", "Batches of different clients' statements sent to nodes.", shared.batches + rows.batches),
        ("statements", "Statements sent in such batches.", shared.statements + rows.statements),
        ("merged", "Of these, INSERTs of one row sent as rows of one statement.", shared.merged),
        ("sent_away", "Statements of failed batches, run again by themselves.", shared.sent_away + rows.sent_away),
    ] {
        out.push_str(&format!("# HELP herd_shared_{name}_total {help}\n# TYPE herd_shared_{name}_total counter\nherd_shared_{name}_total {n}\n"));
    }
    out.push_str(&format!("# HELP herd_catalog_epoch Epoch of the catalog in use.\n# TYPE herd_catalog_epoch gauge\nherd_catalog_epoch {}\n", router.herd.epoch.load().snapshot.epoch));
    out
}

/// A label's value.
pub fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

//! This router's row in `herd.router` on home: which epoch of the catalog it uses, that it lives, and where it is.
//!
//! Does not know who reads it: `exec` waits for epochs, `session` sends cancel requests on.

use std::net::SocketAddr;
use std::time::Duration;

use catalog::quote_literal;
use exec::lease::Moment;
use pool::{Conn, PoolError};
use session::Router;

/// How often to report without a reason: often enough that a lease never runs out by itself.
pub const REPORT_EVERY: Duration = Duration::from_millis(400);
/// Rows of routers that died are swept when another starts.
const SWEEP_AFTER: &str = "1 min";

/// A router that has not reported for so long serves nobody without asking first.
const SERVES_MAX: &str = "10 s";

/// Takes a number no other router has. Registered already, it keeps its own.
pub async fn register(conn: &mut Conn, router: &Router, address: SocketAddr) -> Result<(), PoolError> {
    let herd = &router.herd;
    // What a report says is of no worth after a crash of home.
    let sql = format!(
        "SET synchronous_commit = off; BEGIN; LOCK TABLE herd.router IN SHARE ROW EXCLUSIVE MODE; \
         DELETE FROM herd.router WHERE seen < clock_timestamp() - interval '{SWEEP_AFTER}' AND id <> {id}; \
         INSERT INTO herd.router (id, number, address, epoch, answers) \
         SELECT {id}, min(n), {address}, {epoch}, true FROM generate_series(0, 255) n \
         WHERE NOT EXISTS (SELECT FROM herd.router r WHERE r.number = n) \
         ON CONFLICT (id) DO UPDATE SET seen = clock_timestamp(), answers = true; COMMIT",
        id = herd.router as i64,
        address = address_sql(address),
        epoch = herd.epoch.load().snapshot.epoch,
    );
    conn.simple(&sql).await?;
    let rows = conn.simple(&format!("SELECT number FROM herd.router WHERE id = {}", herd.router as i64)).await?;
    if let Some(number) = rows.first().and_then(|r| r.first()?.as_deref()?.parse().ok()) {
        router.cancels.set_router_number(number);
    }
    Ok(())
}

/// Says which epoch is in use, having loaded the newest, and renews the lease on it. How many of the routers that live have lower
/// numbers.
pub async fn report(conn: &mut Conn, router: &Router, address: SocketAddr) -> Result<usize, exec::ExecError> {
    let herd = &router.herd;
    loop {
        let used = herd.epoch.load().snapshot.epoch;
        let sent = Moment::now();
        let sql = format!(
            "WITH me AS (UPDATE herd.router SET epoch = {used}, seen = clock_timestamp() WHERE id = {0} RETURNING number) \
             SELECT e.epoch, (SELECT count(*) FROM me), o.others, o.silent, o.before FROM herd.epoch e, \
             (SELECT count(*) AS others, count(*) FILTER (WHERE NOT r.answers) AS silent, \
                     count(*) FILTER (WHERE r.number < (SELECT number FROM me)) AS before FROM herd.router r \
               WHERE r.id <> {0} AND r.seen > clock_timestamp() - interval '{SERVES_MAX}') o",
            herd.router as i64
        );
        let rows = conn.simple(&sql).await?;
        let cell = |n: usize| rows.first().and_then(|r| r.get(n)?.as_deref()?.parse::<i64>().ok());
        let was_alone = herd.readers.are_all();
        if let (Some(others), Some(silent)) = (cell(2), cell(3))
            && herd.readers.set_others(others, silent)
        {
            herd.lease.passed_over();
        }
        if let Some(others) = cell(2) {
            herd.pools.share_with(others as usize + 1);
        }
        if cell(1) == Some(1) {
            herd.lease.reported(sent, was_alone && cell(2) == Some(0));
        }
        if cell(1) == Some(0) {
            herd.lease.passed_over();
            // Forgotten: it was too slow for somebody.
            register(conn, router, address).await?;
        }
        match cell(0) {
            Some(newest) if newest > used => herd.refresh(Some(newest)).await?,
            Some(_) => {
                herd.lease.renew(sent);
                return Ok(cell(4).unwrap_or(0) as usize);
            }
            None => return Err(exec::ExecError::internal("home has no epoch")),
        }
    }
}

/// Leaves: nobody waits for this router any more.
pub async fn leave(router: &Router) -> Result<(), PoolError> {
    let herd = &router.herd;
    let sql = format!("DELETE FROM herd.router WHERE id = {}", herd.router as i64);
    herd.own.rows(&herd.config.home, &sql).await.map(drop)
}

/// Where other routers reach this one. One that listens everywhere is where home sees it come from.
fn address_sql(address: SocketAddr) -> String {
    if !address.ip().is_unspecified() {
        return quote_literal(&address.to_string());
    }
    format!("coalesce(host(inet_client_addr()), '127.0.0.1') || ':{}'", address.port())
}

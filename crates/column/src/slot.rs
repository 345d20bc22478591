//! Publication and slot on the node: they are there, they are ours, and nothing was lost since we last looked; otherwise all begins
//! anew. It does not know copies.

use std::time::Duration;

use catalog::quote_literal;
use pool::Conn;

use crate::error::{Error, Result};
use crate::jobs::Handle;
use crate::load::Stored;
use crate::lsn::Lsn;
use crate::node::{self, cell};
use crate::shared::{Position, Shared};

/// A slot that was just left may be active a while longer.
const ACTIVE_TRIES: usize = 50;
const ACTIVE_EVERY: Duration = Duration::from_millis(200);

/// What a slot is at.
pub struct Slot {
    pub ours: bool,
    /// What it has been told never to tell again.
    pub confirmed: Lsn,
    /// Bytes of log that it holds back.
    pub held_bytes: u64,
}

/// Commits must not wait for a store instead of a standby: the transactions would be gone with the node. PostgreSQL counts every walsender, whatever it
/// sends (`SyncRepGetStandbyPriority` in syncrep.c).
pub async fn is_no_standby(conn: &mut Conn) -> Result<()> {
    let names = conn.simple("SELECT current_setting('synchronous_standby_names')").await?;
    let names = cell(&names, 0).unwrap_or_default().to_lowercase();
    match names.contains('*') || names.contains(node::NAME) {
        true => Err(Error::Standby(names)),
        false => Ok(()),
    }
}

/// Commits that are in the log and wait for a standby may be in the copies already, and the node does not show them.
async fn note_unseen(conn: &mut Conn, shared: &Shared) -> Result<()> {
    // Who commits a prepared one waits under no number of his own: it may be any of the herd's, none of which stays for long.
    let waiting = "SELECT backend_xid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND backend_xid IS NOT NULL \
        UNION ALL SELECT transaction FROM pg_prepared_xacts \
        WHERE starts_with(gid, 'herd_') AND EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND backend_xid IS NULL)";
    let rows = conn.simple(waiting).await?;
    shared.unseen.applied(rows.iter().filter_map(|row| row.first()?.as_deref()?.parse::<u32>().ok()));
    Ok(())
}

/// Sees to it that the stream can be begun.
pub async fn prepare(conn: &mut Conn, shared: &Shared, writer: &Handle) -> Result<()> {
    let name = &shared.config.slot;
    is_no_standby(conn).await?;
    let identity = node::identity(conn).await?;
    let system = identity.to_string();
    let published = publication(conn, name).await?;
    let stored = writer.call(|w| w.stored()).await??;
    let slot = look(conn, name).await?;
    let end = conn.simple("SELECT pg_current_wal_insert_lsn()").await?;
    let end: Lsn =
        cell(&end, 0).and_then(|end| end.parse().ok()).ok_or_else(|| Error::surprise("the node has no log"))?;
    let goes_on = match (&stored, &slot) {
        (Some(stored), Some(slot)) => {
            let same = stored.system == system && stored.slot == *name;
            published && slot.ours && same && slot.confirmed <= stored.lsn && stored.lsn <= end
        }
        _ => false,
    };
    match stored.filter(|_| goes_on) {
        Some(stored) => {
            let same = shared.identity.lock().as_ref() == Some(&identity);
            // What was applied since, and not stored, is nothing that had anything in it.
            if !same || shared.applied() < stored.lsn {
                shared.begin_anew(Position { applied: stored.lsn, stored: stored.lsn });
            }
        }
        None => {
            tracing::info!("slot and copies are made anew");
            if slot.is_some() {
                drop(conn, name).await?;
            }
            // It waits for every open transaction.
            let made =
                format!("SELECT lsn FROM pg_create_logical_replication_slot({}, 'pgoutput')", quote_literal(name));
            let made = conn.simple(&made).await?;
            let lsn = cell(&made, 0)
                .and_then(|lsn| lsn.parse().ok())
                .ok_or_else(|| Error::surprise("the new slot has no position"))?;
            let stored = Stored { system, slot: name.clone(), lsn };
            writer.call(move |w| w.begin_anew(&stored)).await??;
        }
    }
    note_unseen(conn, shared).await?;
    *shared.identity.lock() = Some(identity);
    Ok(())
}

/// Whether it was there, as it should be; it is now.
async fn publication(conn: &mut Conn, name: &str) -> Result<bool> {
    let there = published(conn, name).await?;
    match cell(&there, 0) {
        Some("t") => return Ok(true),
        Some(_) => drop_publication(conn, name).await?,
        None => {}
    }
    let make = format!("CREATE PUBLICATION {} WITH (publish_via_partition_root = true)", catalog::quote_ident(name));
    conn.simple(&make).await?;
    Ok(false)
}

async fn drop_publication(conn: &mut Conn, name: &str) -> Result<()> {
    conn.simple(&format!("DROP PUBLICATION {}", catalog::quote_ident(name))).await?;
    Ok(())
}

/// Whether all changes of its tables are published.
pub async fn is_published(conn: &mut Conn, name: &str) -> Result<bool> {
    Ok(cell(&published(conn, name).await?, 0) == Some("t"))
}

async fn published(conn: &mut Conn, name: &str) -> Result<Vec<catalog::Row>> {
    let sql = format!(
        "SELECT pubviaroot AND NOT puballtables AND pubinsert AND pubupdate AND pubdelete AND pubtruncate FROM pg_publication WHERE pubname = {}",
        quote_literal(name)
    );
    Ok(conn.simple(&sql).await?)
}

/// What the slot is at; `None`: there is none.
pub async fn look(conn: &mut Conn, name: &str) -> Result<Option<Slot>> {
    let sql = format!(
        "SELECT coalesce(plugin = 'pgoutput' AND database = current_database() AND NOT temporary AND wal_status <> 'lost', false),
            confirmed_flush_lsn, greatest(coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0), 0)::int8
         FROM pg_replication_slots WHERE slot_name = {}",
        quote_literal(name)
    );
    let rows = conn.simple(&sql);
    let rows = rows.await?;
    Ok(cell(&rows, 0).map(|ours| {
        let confirmed = cell(&rows, 1).and_then(|lsn| lsn.parse().ok());
        let held_bytes = cell(&rows, 2).and_then(|bytes| bytes.parse().ok()).unwrap_or(0);
        Slot { ours: ours == "t" && confirmed.is_some(), confirmed: confirmed.unwrap_or_default(), held_bytes }
    }))
}

/// The slot is no more; waits for who has left it a moment ago.
pub async fn drop(conn: &mut Conn, name: &str) -> Result<()> {
    let sql = format!(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = {}",
        quote_literal(name)
    );
    for attempt in 0.. {
        match conn.simple(&sql).await {
            Err(pool::PoolError::Server(e)) if e.code() == wire::sqlstate::OBJECT_IN_USE && attempt < ACTIVE_TRIES => {
                tokio::time::sleep(ACTIVE_EVERY).await;
            }
            done => return Ok(done.map(|_| ())?),
        }
    }
    Ok(())
}

//! Loading a snapshot from home.
//!
//! A fixed number of queries, whatever the size of the catalog (of shards and columns only what is new is asked for), in one read-only transaction, so that they all see
//! the same state. None waits for a lock that a user can hold. Does not know how to reach home, nor when a snapshot is stale.
//!
//! 1. the server and the herd itself ([`facts`])
//! 2. nodes; colocation groups with their shards and bounds ([`bounds`])
//! 3. texts that are printed under locks ([`definitions`]); relations and unique indexes ([`relations`]); of their columns those that
//!    are new ([`columns`])
//! 4. functions ([`functions`]); code and what hangs on tables ([`code`]); types

mod ahead;
mod bounds;
mod code;
mod columns;
mod definitions;
mod facts;
mod functions;
mod relations;
mod session_code;

pub(crate) use bounds::binary_bounds;
pub use columns::KeptColumns;

use std::sync::Arc;

use crate::cells::Cells;
use crate::{CatalogError, Query, Row, Snapshot, quote_literal};

/// Loads a snapshot from home. The session must not be inside a transaction.
pub async fn load<Q: Query>(q: &mut Q) -> Result<Snapshot, CatalogError<Q::Error>> {
    load_with(q, None).await
}

/// As [`load()`], but takes what a server never changes (its built-in functions), and shards and columns of which nothing is new, from a
/// snapshot that is at hand.
pub async fn load_with<Q: Query>(q: &mut Q, previous: Option<&Snapshot>) -> Result<Snapshot, CatalogError<Q::Error>> {
    let loaded = load_after(q, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", previous).await;
    // After an error the transaction is of no use; after success there is nothing to commit.
    let ended = rows(q, "ROLLBACK").await;
    let snapshot = loaded?;
    ended?;
    Ok(snapshot)
}

/// As [`load_with`], inside a transaction whose own changes are to be seen. The transaction's settings stay as they are.
pub async fn load_in_transaction<Q: Query>(
    q: &mut Q,
    previous: Option<&Snapshot>,
) -> Result<Snapshot, CatalogError<Q::Error>> {
    let mut tries = 0;
    loop {
        let loaded = load_after(q, "SAVEPOINT herd_load", previous).await;
        let ended = rows(q, "ROLLBACK TO SAVEPOINT herd_load; RELEASE SAVEPOINT herd_load").await;
        tries += 1;
        match loaded {
            // Each question sees what others have committed by then: what does not fit may have changed between two of them.
            Err(CatalogError::Corrupt(_)) if tries < TRIES_MAX => ended.map(drop)?,
            loaded => {
                let snapshot = loaded?;
                ended?;
                return Ok(snapshot);
            }
        }
    }
}

/// How often a catalog that does not fit together is read in a transaction which sees others' commits.
const TRIES_MAX: usize = 4;

/// In two or three round trips, if the last load asked the same.
async fn load_after<Q: Query>(
    q: &mut Q,
    begin: &str,
    previous: Option<&Snapshot>,
) -> Result<Snapshot, CatalogError<Q::Error>> {
    let expected = previous.map_or(&[][..], |p| &p.asked);
    let mut ahead = ahead::Ahead::new(q, begin, expected).await.map_err(CatalogError::Query)?;
    let mut snapshot = load_all(&mut ahead, previous).await?;
    snapshot.asked = ahead.into_asked().into();
    Ok(snapshot)
}

async fn load_all<Q: Query>(
    q: &mut ahead::Ahead<'_, Q>,
    previous: Option<&Snapshot>,
) -> Result<Snapshot, CatalogError<Q::Error>> {
    settle(q).await?;
    let mut snapshot = facts::load(q).await?;
    snapshot.builtin_functions = match previous {
        Some(p) if p.server_version == snapshot.server_version && !p.builtin_functions.is_empty() => {
            p.builtin_functions.clone()
        }
        _ => Arc::new(functions::load_builtin(q).await?),
    };
    bounds::load(q, &mut snapshot, previous).await?;
    let row_types = facts::load_types(q, &mut snapshot).await?;
    let definitions = definitions::Definitions::load(q).await?;
    relations::load(q, &mut snapshot, &definitions, previous.map(|p| &p.columns)).await?;
    facts::take_fields(&mut snapshot, row_types);
    functions::load_user(q, &mut snapshot).await?;
    session_code::load(q, &mut snapshot).await?;
    snapshot.code = code::load(q, &definitions).await?;
    Ok(snapshot)
}

/// Settings under which the server prints definitions that mean the same in any session: names qualified, as pg_dump
/// does it, and dates and bounds without regard to the session's own settings.
pub(crate) const SETTINGS: &[(&str, &str)] = &[
    // Temporary objects last: whoever made some must not stand in for the catalog.
    ("search_path", "pg_catalog, pg_temp"),
    ("timezone", "UTC"),
    ("datestyle", "ISO, MDY"),
    ("intervalstyle", "postgres"),
    ("extra_float_digits", "1"),
    ("quote_all_identifiers", "off"),
    // What is asked here has backslashes in its texts.
    ("standard_conforming_strings", "on"),
];

/// A session may have told the planner to leave out what these questions, over many catalogs, need: without sequential scans they
/// take seconds.
const PLANNER: &[(&str, &str)] = &[
    ("enable_seqscan", "on"),
    ("enable_indexscan", "on"),
    ("enable_indexonlyscan", "on"),
    ("enable_bitmapscan", "on"),
    ("enable_hashjoin", "on"),
    ("enable_mergejoin", "on"),
    ("enable_nestloop", "on"),
    ("enable_hashagg", "on"),
    ("enable_material", "on"),
    ("enable_memoize", "on"),
    ("enable_sort", "on"),
    ("join_collapse_limit", "8"),
    ("from_collapse_limit", "8"),
    // To compile their expressions takes longer than to answer them.
    ("jit", "off"),
];

/// Applies [`SETTINGS`] to the current transaction, and what the planner needs.
pub(crate) async fn settle<Q: Query>(q: &mut Q) -> Result<(), CatalogError<Q::Error>> {
    let all = SETTINGS.iter().chain(PLANNER);
    let calls = all.map(|(name, value)| format!("pg_catalog.set_config('{name}', '{value}', true)"));
    rows(q, &format!("SELECT {}", calls.collect::<Vec<_>>().join(", "))).await?;
    Ok(())
}

/// Applies [`SETTINGS`] to the session, which may or may not be inside a transaction, and returns what they were.
pub(crate) async fn pin_settings<Q: Query>(q: &mut Q) -> Result<Vec<String>, CatalogError<Q::Error>> {
    // SET LOCAL has no effect outside of a transaction, so settings are put back by hand.
    let current = SETTINGS.iter().map(|(name, _)| format!("pg_catalog.current_setting('{name}')")).collect::<Vec<_>>();
    let before = rows(q, &format!("SELECT {}", current.join(", "))).await?.into_iter().next().unwrap_or_default();
    set(q, SETTINGS.iter().map(|(_, value)| *value)).await?;
    Ok(before.into_iter().flatten().collect())
}

/// Undoes [`pin_settings`].
pub(crate) async fn restore_settings<Q: Query>(q: &mut Q, before: Vec<String>) -> Result<(), CatalogError<Q::Error>> {
    set(q, before.iter().map(String::as_str)).await
}

async fn set<'a, Q: Query>(q: &mut Q, values: impl Iterator<Item = &'a str>) -> Result<(), CatalogError<Q::Error>> {
    let calls = SETTINGS.iter().zip(values);
    let calls =
        calls.map(|((name, _), value)| format!("pg_catalog.set_config('{name}', {}, false)", quote_literal(value)));
    let sql = format!("SELECT {}", calls.collect::<Vec<_>>().join(", "));
    rows(q, &sql).await.map(drop)
}

/// Lets others be served before what takes a while.
pub(crate) async fn others_turn() {
    let mut waited = false;
    std::future::poll_fn(|cx| match std::mem::replace(&mut waited, true) {
        true => std::task::Poll::Ready(()),
        false => {
            cx.waker().wake_by_ref();
            std::task::Poll::Pending
        }
    })
    .await
}

pub(crate) async fn rows<Q: Query>(q: &mut Q, sql: &str) -> Result<Vec<Row>, CatalogError<Q::Error>> {
    q.query(sql).await.map_err(CatalogError::Query)
}

/// Rows of which there may be many: others are served while they are read.
pub(crate) struct Reading {
    rows: std::vec::IntoIter<Row>,
    read: usize,
}

impl Reading {
    /// How many rows are read at once, in about a millisecond.
    const AT_ONCE: usize = 512;

    pub(crate) async fn next(&mut self) -> Option<Cells> {
        self.read += 1;
        if self.read.is_multiple_of(Self::AT_ONCE) {
            others_turn().await;
        }
        self.rows.next().map(Cells::of)
    }
}

pub(crate) async fn reading<Q: Query>(q: &mut Q, sql: &str) -> Result<Reading, CatalogError<Q::Error>> {
    Ok(slowly(rows(q, sql).await?))
}

pub(crate) fn slowly(rows: Vec<Row>) -> Reading {
    Reading { rows: rows.into_iter(), read: 0 }
}

pub(crate) async fn cells<Q: Query>(
    q: &mut Q,
    sql: &str,
) -> Result<impl Iterator<Item = Cells> + use<Q>, CatalogError<Q::Error>> {
    Ok(rows(q, sql).await?.into_iter().map(Cells::of))
}

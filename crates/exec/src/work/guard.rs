//! The fences for statements whose tables may have become others until they ran.
//!
//! Of those that run whole on home because their tables are local: were those still local? Such a statement may wait for
//! a table's lock while the table is being distributed, and would then meet home's shards alone. So a look at
//! `herd.epoch.kinds` travels behind it, in the same round trip and the same transaction: what changes kinds changes that
//! number, and the look has a snapshot younger than the statement's locks. Where the number is another one, the transaction's
//! own locks tell whether any table it has met has changed (`herd.met_since`); other tables are nobody's business. Who
//! writes fails and is rolled back; who reads is told. INSERTs put together have one of their own
//! ([`Guard::of_rows`]). It does not know how a statement is sent.
//!
//! Under REPEATABLE READ and SERIALIZABLE snapshots stay as old as the transaction. What is planned in one by a catalog that is newer
//! than its snapshot, `cut.rs` looks at; a table that was replaced while the statement waited for its lock is gone by its object
//! id, which is no question of snapshots: PostgreSQL looks into its catalogs by newer ones.

use std::time::Duration;

use catalog::schema::CATALOG_LOCK;
use pool::PoolError;
use wire::sqlstate;

use crate::error::{ExecError, Result};
use crate::router::compiled::Compiled;
use crate::work::Work;

/// What a look behind a write fails with.
pub const RAISED: &str = sqlstate::DIVISION_BY_ZERO;

/// Between two looks at a lock that somebody else holds.
const PAUSE: Duration = Duration::from_millis(50);

/// The look behind a statement.
pub struct Guard {
    pub sql: String,
}

impl Guard {
    /// Fails with [`RAISED`] where it is evaluated, in a look at `herd.epoch`.
    pub const FAILS: &str = "(1 OPERATOR(pg_catalog./) (kinds OPERATOR(pg_catalog.-) kinds))";

    /// For a statement planned when home's number was `kinds`. It has no rows unless the statement has met a table that
    /// has changed since. Which ones it has met is looked at only where any has changed at all.
    pub fn of(kinds: i64, writes: bool) -> Self {
        Self::unless(kinds, "", &[], writes)
    }

    /// For writes of what every node has: the nodes must be those of `kinds`, too.
    fn of_copies(kinds: i64) -> Self {
        Self::unless(kinds, &format!("members OPERATOR(pg_catalog.>) {kinds}::pg_catalog.int8 OR "), &[], true)
    }

    /// `stay`: tables that must be there.
    fn unless(kinds: i64, or: &str, stay: &[u32], writes: bool) -> Self {
        // Qualified: the client's search_path may hold operators of its own.
        let gone: String =
            stay.iter().map(|oid| format!("pg_catalog.pg_table_is_visible({oid}) IS NULL OR ")).collect();
        let changed = format!("{gone}kinds OPERATOR(pg_catalog.<>) {kinds}::pg_catalog.int8");
        let met = format!("{gone}{or}herd.met_since({kinds}::pg_catalog.int8)");
        // Evaluated in the order of the CASE, the division only where it is true.
        let then = match writes {
            true => format!("CASE WHEN {met} THEN {} IS NULL ELSE false END", Self::FAILS),
            false => met,
        };
        Guard { sql: format!("SELECT FROM herd.epoch WHERE CASE WHEN {changed} THEN {then} ELSE false END") }
    }

    /// For INSERTs put together, which name the `table` where one alone names a partition: it is still the table of this
    /// `partition`. In the transaction of the INSERT, whose lock keeps it so. Functions only: a look into a catalog by a
    /// query costs a node three times as much.
    /// `is_part`: another table is above it.
    pub fn of_rows(table: &str, partition: &str, is_part: bool) -> Self {
        let regclass = |name: &str| format!("pg_catalog.to_regclass({})", catalog::quote_literal(name));
        let (partition, table) = (regclass(partition), regclass(table));
        let same = match is_part {
            false => format!("pg_catalog.pg_partition_root({partition}) OPERATOR(pg_catalog.=) {table}"),
            true => format!(
                "EXISTS (SELECT FROM pg_catalog.pg_partition_ancestors({partition}) a (id) WHERE a.id OPERATOR(pg_catalog.=) {table})"
            ),
        };
        Guard { sql: format!("SELECT 1 OPERATOR(pg_catalog./) (COALESCE({same}, false))::pg_catalog.int4") }
    }

    /// Behind the statement's own text.
    pub fn behind(&self, sql: &str) -> String {
        // The text may end in a comment.
        format!("{sql}\n;{}", self.sql)
    }
}

impl<C: crate::client::Client> Work<'_, C> {
    /// The guard a statement on `node` needs.
    pub fn guard(&self, compiled: &Compiled, node: i32) -> Option<Guard> {
        let plan = compiled.plan.whole();
        let stay = if self.may_repeat() { plan.others.as_slice() } else { &[] };
        (plan.local && plan.tables.is_empty() && node == self.home())
            .then(|| Guard::unless(self.epoch.snapshot.kinds, "", stay, plan.writes))
    }

    /// Whether tables have been distributed, or made local or reference tables, since the snapshot.
    pub async fn kinds_have_changed(&mut self) -> Result<bool> {
        let kinds = self.epoch.snapshot.kinds;
        let changed = format!("SELECT 1 FROM herd.epoch WHERE kinds OPERATOR(pg_catalog.<>) {kinds}::pg_catalog.int8");
        Ok(!self.herd.own.rows(&self.herd.config.home, &changed).await?.is_empty())
    }

    /// Whether nodes have been added or removed since the snapshot. Those that are about to be are waited for.
    pub async fn nodes_have_changed(&mut self) -> Result<bool> {
        let kinds = self.epoch.snapshot.kinds;
        let (own, home) = (&self.herd.own, &self.herd.config.home);
        // Anybody may hold it for long: a connection that others need waits for a moment only.
        let wait = format!(
            "SELECT pg_catalog.set_config('lock_timeout', '200ms', true), pg_catalog.pg_advisory_xact_lock_shared({CATALOG_LOCK})"
        );
        self.client.waits();
        loop {
            let waited = async {
                let waited = own.rows(home, &wait).await;
                if matches!(&waited, Err(PoolError::Server(e)) if e.code() == sqlstate::LOCK_NOT_AVAILABLE) {
                    tokio::time::sleep(PAUSE).await;
                    return Ok(false);
                }
                waited.map(|_| true)
            };
            tokio::select! {
                biased;
                () = self.client.cancelled() => return Err(ExecError::cancelled()),
                waited = waited => if waited? { break },
            }
        }
        let changed = format!("SELECT 1 FROM herd.epoch WHERE members OPERATOR(pg_catalog.>) {kinds}::pg_catalog.int8");
        Ok(!own.rows(home, &changed).await?.is_empty())
    }

    /// Inside a transaction: an error if tables it has met, or the nodes, have changed since the snapshot.
    pub async fn same_kinds(&mut self) -> Result<()> {
        if self.before_snapshot() {
            // What it has met is asked in it: any change will do.
            return if self.kinds_have_changed().await? { Err(ExecError::Stale) } else { Ok(()) };
        }
        match self.ask_home(&Guard::of_copies(self.epoch.snapshot.kinds).sql).await {
            Err(e) if e.code() == RAISED => Err(ExecError::Stale),
            other => other.map(drop),
        }
    }
}

//! LOCK TABLE … IN ACCESS EXCLUSIVE MODE: whoever reads the table in a transaction that has begun on no node (`router/readers.rs`) is
//! waited for first. Other changes see to it where they take their locks (`lock.rs`).

use std::time::{Duration, Instant};

use catalog::{Oid, Relation};
use sql::NodeEnum;
use sql::ast::{LockStmt, Node};
use wire::sqlstate;

use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::router::pause::Who;
use crate::work::Work;

/// AccessExclusiveLock in PostgreSQL's lockdefs.h.
const ACCESS_EXCLUSIVE: i32 = 8;
/// How long those who would begin to read wait in one go.
const TRY: Duration = Duration::from_millis(250);
const REST: Duration = Duration::from_millis(20);

impl<C: Client> Work<'_, C> {
    /// `path`: where its names are looked up.
    pub(super) async fn readers_first(&mut self, lock: &LockStmt, path: &[String]) -> Result<()> {
        if lock.mode != ACCESS_EXCLUSIVE {
            return Ok(());
        }
        let named = |n: &Node| match &n.node {
            Some(NodeEnum::RangeVar(rv)) => {
                let (schema, name) = sql::names::table(rv);
                self.epoch.snapshot.resolve(schema, name, path).map(|r: &std::sync::Arc<Relation>| r.oid)
            }
            _ => None,
        };
        let tables: Vec<Oid> = lock.relations.iter().filter_map(named).collect();
        let (begun, mut limits) = (Instant::now(), None);
        while !self.without_readers(&tables, Duration::ZERO, true).await? {
            if lock.nowait {
                return Err(ExecError::sql(sqlstate::LOCK_NOT_AVAILABLE, "could not obtain lock on relation"));
            }
            let pause = self.herd.pauses.begin(&tables, Who::All, TRY);
            self.herd.announce_pause(pause).await;
            let gone = self.without_readers(&tables, TRY, true).await;
            self.herd.end_pauses(&[pause]).await;
            if !gone? {
                if limits.is_none() {
                    limits = Some(self.limits(begun).await?);
                }
                self.rest(limits.as_ref(), REST).await?;
            }
        }
        Ok(())
    }
}

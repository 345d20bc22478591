//! `herd.snapshot` in READ COMMITTED blocks: one cut through all nodes for one statement, on connections that are in the
//! midst of a transaction and see what it has written.
//!
//! PostgreSQL takes a query's snapshot when its portal is bound (PortalStart in pquery.c), not when it is executed. So all
//! parts are bound on all nodes while the gates are held, and executed afterwards. Binding may wait for locks on tables,
//! which a change of the schema may hold that waits at the gate itself: so everything is bound once before, and thrown
//! away; the locks stay with the transaction.

use std::collections::BTreeSet;
use wire::sqlstate;

use catalog::NodeId;
use txn::{Cuts, Gid, Participant, gate};
use wire::put;

use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::render::NodeStatement;
use crate::router::gates;
use crate::work::Work;
use crate::work::cut::{Limit, in_time, lost, values};
use crate::work::rows;

/// A part to be read: where, what, and its result formats.
pub struct Wanted<'p> {
    pub nodes: &'p BTreeSet<NodeId>,
    pub statement: &'p NodeStatement,
    pub formats: &'p [i16],
}

/// A portal that waits to be executed.
pub struct Opened {
    pub node: NodeId,
    pub sql: String,
    pub name: String,
}

impl<C: Client> Work<'_, C> {
    /// Whether this statement's parts must be opened together before any is executed.
    pub fn opens_together(&self) -> bool {
        let t = &self.transaction;
        t.is_active() && t.wants == Cuts::All && t.cut.is_empty() && self.epoch.snapshot.nodes.len() > 1
    }

    /// Opens all parts as one cut; [`take_opened`](Self::take_opened) finds them.
    pub async fn open_together(&mut self, wanted: &[Wanted<'_>]) -> Result<Vec<Opened>> {
        let manner = self.manner().await?;
        if manner.repeatable {
            return Err(ExecError::sql(
                sqlstate::FEATURE_NOT_SUPPORTED,
                "herd.snapshot was turned on inside a REPEATABLE READ transaction",
            )
            .hint("Turn it on before the transaction begins."));
        }
        let limit = Limit::of(&manner);
        let nodes: BTreeSet<NodeId> = wanted.iter().flat_map(|w| w.nodes).copied().collect();
        let mut lanes = self.lanes_to(nodes).await?;
        let done = self.open_on(&mut lanes, wanted, &limit).await;
        if done.is_err() {
            // What is owed by a node that did not answer in time is not waited for.
            lanes.iter_mut().filter(|p| p.lane.conn.outstanding() > 0).for_each(|p| p.lane.conn.mark_broken());
        }
        self.abandon(lanes).await;
        done
    }

    async fn open_on(
        &mut self,
        lanes: &mut [Participant],
        wanted: &[Wanted<'_>],
        limit: &Limit,
    ) -> Result<Vec<Opened>> {
        self.bind(lanes, wanted, None, false).await?;
        // Names are not used again inside a transaction: an attempt that failed has left its portals.
        loop {
            let grant = self.enter_gates(limit).await?;
            let name = format!("herd_{:016x}", rand::random::<u64>());
            let left = in_time(self.bind(lanes, wanted, Some(&name), true)).await?;
            if !grant.done().await {
                return Err(lost());
            }
            if !left {
                let each = wanted.iter().enumerate().flat_map(|(i, w)| w.nodes.iter().map(move |n| (i, w, n)));
                return Ok(each
                    .map(|(i, w, node)| Opened {
                        node: *node,
                        sql: w.statement.sql.clone(),
                        name: format!("{name}_{i}"),
                    })
                    .collect());
            }
            gates::recover(self.herd).await;
        }
    }

    /// Binds every part on its nodes. `list`: whether something stands prepared there is asked before.
    async fn bind(
        &mut self,
        lanes: &mut [Participant],
        wanted: &[Wanted<'_>],
        name: Option<&str>,
        list: bool,
    ) -> Result<bool> {
        let herd = &self.epoch.snapshot.herd_id;
        let home = self.epoch.snapshot.home;
        for p in lanes.iter_mut() {
            let node = p.lane.node;
            if list {
                p.lane.put_query(&gate::list(herd));
            }
            for (i, w) in wanted.iter().enumerate().filter(|(_, w)| w.nodes.contains(&node)) {
                let portal = name.map(|n| format!("{n}_{i}")).unwrap_or_default();
                let out = p.lane.conn.out();
                put::parse(out, "", &w.statement.sql, &w.statement.types_on(node != home));
                let values = w.statement.values.iter().map(|v| v.as_deref());
                put::bind(out, &portal, "", &w.statement.formats, values, w.formats);
                put::sync(out);
                p.lane.conn.sent_sync();
            }
            p.lane.conn.flush().await?;
        }
        let mut left = false;
        let mut failure = None;
        for p in lanes.iter_mut() {
            if list {
                for gid in values(&mut p.lane).await? {
                    left |= Gid::parse(&gid, herd).is_some_and(|(_, node)| node == p.lane.node);
                }
            }
            let node = p.lane.node;
            for _ in wanted.iter().filter(|w| w.nodes.contains(&node)) {
                if let Err(e) = rows::drain(&mut p.lane).await {
                    failure.get_or_insert(e);
                }
            }
        }
        failure.map_or(Ok(left), Err)
    }
}

/// The portal opened for a part on a node.
pub fn take_opened(opened: &mut Vec<Opened>, node: NodeId, sql: &str) -> Option<String> {
    let at = opened.iter().position(|o| o.node == node && o.sql == sql)?;
    Some(opened.swap_remove(at).name)
}

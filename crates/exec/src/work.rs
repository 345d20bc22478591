//! One statement at work: which session's login, settings and transaction it runs under, and lanes to nodes.
//!
//! Lanes are taken out of the transaction while they are used and put back afterwards, so that a statement given up
//! half-way (the client went away) leaves no lane of unknown state behind.

use std::sync::Arc;

use catalog::NodeId;
use pool::{Login, Settings};
use txn::{Lane, Participant, Transaction};

use crate::client::Client;
use crate::compiled::Epoch;
use crate::error::Result;
use crate::herd::Herd;

pub struct Work<'w, C: Client> {
    pub herd: &'w Arc<Herd>,
    pub epoch: &'w Arc<Epoch>,
    pub login: &'w Login,
    pub settings: &'w Settings,
    pub transaction: &'w mut Transaction,
    pub client: &'w mut C,
    /// The session's own connection to home, while it is pinned (temporary tables, LISTEN, advisory locks).
    pub pinned: &'w mut Option<Lane>,
    /// `now()` of the statement or its transaction.
    pub now: String,
}

impl<C: Client> Work<'_, C> {
    /// A lane to a node: the transaction's, or one for this statement alone.
    pub async fn lane(&mut self, node: NodeId) -> Result<Participant> {
        let at = self.transaction.participants.iter().position(|p| p.lane.node == node);
        if let Some(at) = at {
            return Ok(self.transaction.participants.swap_remove(at));
        }
        let mut lane = self.fresh(node).await?;
        if self.transaction.active {
            lane.want(self.settings);
            self.transaction.join(lane);
            let last = self.transaction.participants.len() - 1;
            return Ok(self.transaction.participants.swap_remove(last));
        }
        lane.want(self.settings);
        Ok(Participant { lane, wrote: false })
    }

    async fn fresh(&mut self, node: NodeId) -> Result<Lane> {
        if node == self.epoch.snapshot.home
            && let Some(lane) = self.pinned.take()
        {
            return Ok(lane);
        }
        let target = self.herd.target(&self.epoch.snapshot, node)?;
        let conn = match self.herd.pools.try_get(&target, self.login) {
            Some(conn) => conn,
            None => self.herd.pools.get(&target, self.login).await?,
        };
        Ok(Lane::new(node, conn))
    }

    /// Gives a lane back: to the transaction, or to its pool.
    pub fn put_back(&mut self, participant: Participant) {
        if self.transaction.active {
            self.transaction.participants.push(participant);
        } else if participant.lane.conn.tainted && participant.lane.node == self.epoch.snapshot.home && !participant.lane.conn.is_broken() {
            *self.pinned = Some(participant.lane);
        }
    }

    /// Several nodes in one statement that writes: they commit together.
    pub fn need_transaction(&mut self) {
        if !self.transaction.active {
            self.transaction.begin("BEGIN", false);
        }
    }

    pub fn home(&self) -> NodeId {
        self.epoch.snapshot.home
    }

    /// Text rows of SQL on home, inside the transaction if there is one.
    pub async fn ask_home(&mut self, sql: &str) -> Result<Vec<catalog::Row>> {
        let home = self.home();
        let mut p = self.lane(home).await?;
        let rows = p.lane.rows(sql).await;
        self.put_back(p);
        Ok(rows?)
    }
}

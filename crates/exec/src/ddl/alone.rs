//! Utility statements that can't run in a transaction: each step commits by itself, and what is undone when one fails.

use std::time::{Duration, Instant};

use catalog::NodeId;
use plan::ddl::{Spread, Step};
use txn::Participant;
use wire::sqlstate;

use super::elsewhere::{holds, is_true, sql_of};
use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::route::{Forwarded, Ids, forward};
use crate::work::Work;

/// A wait that is less than PostgreSQL's deadlock_timeout.
const TRY: &str = "BEGIN; SET LOCAL lock_timeout = '300ms'";
const TRY_PAUSE: Duration = Duration::from_millis(300);

impl<C: Client> Work<'_, C> {
    /// On each node outside of a transaction. What was done before a failure is undone.
    pub(super) async fn each_by_itself(&mut self, spread: Spread) -> Result<Forwarded> {
        self.prepare(&spread).await?;
        let mut forwarded = Forwarded::default();
        let mut begun = Vec::new();
        for n in &spread.nodes {
            let home = n.node == self.home();
            let mut p = self.lane(n.node).await?;
            let mut done = Ok(());
            for (i, step) in n.steps.iter().enumerate() {
                done = self.one_step(&mut p, step, home && i == 0, &mut forwarded).await;
                if done.is_err() {
                    break;
                }
                if i == 0 {
                    begun.push(n.node);
                }
            }
            self.put_back(p).await;
            if let Err(e) = done {
                // A concurrent build that failed leaves an invalid index behind; one that was there before is not ours to drop.
                if !begun.contains(&n.node) && e.code() != sqlstate::DUPLICATE_TABLE {
                    begun.push(n.node);
                }
                self.undo(&begun, &spread.undo).await;
                return Err(if home { e } else { self.on_node(n.node, e) });
            }
        }
        if let Some(question) = &spread.whole {
            self.see_whole(question, &spread.undo).await?;
        }
        Ok(forwarded)
    }

    /// Nodes or shards that have come meanwhile may lack a part: then it is undone, on all nodes. Whoever comes from now on finds it on home, or at its
    /// new node's table.
    async fn see_whole(&mut self, question: &str, undo: &[String]) -> Result<()> {
        let newer = match self.nodes_have_changed().await? {
            true => {
                self.herd.refresh(None).await?;
                Some(self.herd.epoch.load_full())
            }
            false => None,
        };
        let own_catalog = self.own_catalog;
        let mut work = self.with_epoch(newer.as_ref().unwrap_or(self.epoch), own_catalog);
        let nodes: Vec<NodeId> = work.epoch.snapshot.nodes.iter().map(|n| n.id).collect();
        for node in &nodes {
            if is_true(&work.ask_node(*node, question).await?) {
                continue;
            }
            work.undo(&nodes, undo).await;
            return Err(ExecError::sql(
                sqlstate::OBJECT_IN_USE,
                "nodes or shards have come while this ran, and nothing was done",
            )
            .hint("Try again when no node is being added and no shard is moved (herd.jobs)."));
        }
        Ok(())
    }

    async fn one_step(&mut self, p: &mut Participant, step: &Step, own: bool, forwarded: &mut Forwarded) -> Result<()> {
        if !holds(p, step).await? {
            return Ok(());
        }
        if step.in_tries {
            return self.in_tries(p, step, own, forwarded).await;
        }
        self.once(p, step, own, forwarded).await
    }

    /// In a transaction of the step's own, which gives up its place in the queue for a lock after a moment, and begins again a moment later, for as
    /// long as the client would wait.
    async fn in_tries(&mut self, p: &mut Participant, step: &Step, own: bool, forwarded: &mut Forwarded) -> Result<()> {
        let begun = Instant::now();
        loop {
            let (mut ended, mut done) = ("COMMIT", p.lane.run(TRY).await.map(drop).map_err(ExecError::from));
            if done.is_ok() {
                done = self.once(p, step, own, forwarded).await;
            }
            if done.is_err() {
                ended = "ROLLBACK";
            }
            let over = p.lane.run(ended).await;
            match done {
                Err(e) if e.code() == sqlstate::LOCK_NOT_AVAILABLE => {
                    over?;
                    let limits = self.limits_beside(begun).await?;
                    self.rest(Some(&limits), TRY_PAUSE.mul_f64(0.5 + rand::random::<f64>())).await?;
                }
                Err(e) => return Err(e),
                Ok(()) => return over.map(drop).map_err(ExecError::from),
            }
        }
    }

    async fn once(&mut self, p: &mut Participant, step: &Step, own: bool, forwarded: &mut Forwarded) -> Result<()> {
        if own {
            p.lane.put_query(&sql_of(step, &self.now));
            p.lane.conn.flush().await?;
            *forwarded = forward(&mut p.lane, self.client, true, Ids::Home).await?;
        } else {
            p.lane.run(&sql_of(step, &self.now)).await?;
        }
        Ok(())
    }

    async fn undo(&mut self, nodes: &[NodeId], texts: &[String]) {
        for &node in nodes {
            let Ok(mut p) = self.lane(node).await else { continue };
            for sql in texts {
                if let Err(e) = p.lane.run(sql).await {
                    tracing::warn!(node, error = %e, "could not undo a part of a statement");
                }
            }
            self.put_back(p).await;
        }
    }
}

//! Asks nodes: each gets a statement of its own, or all get the same, at once; the answers are still to be read. What they are read
//! for is not known here.

use std::time::Duration;

use std::collections::BTreeSet;

use catalog::NodeId;
use tokio::time::Instant;
use txn::{Lane, Participant};

use crate::client::Client;
use crate::error::Result;
use crate::render::NodeStatement;
use crate::request::Keep;
use crate::work::Work;
use crate::work::cut_statement::{Opened, Wanted, take_opened};
use crate::work::rows;

/// Whether PostgreSQL plans a prepared statement for its values or once for all.
const PLAN_CACHE_MODE: &str = "plan_cache_mode";
const ONE_PLAN: &str = "force_generic_plan";

impl<C: Client> Work<'_, C> {
    /// Sends a part to its nodes, all at once; the lanes are returned with their answers still to be read.
    pub async fn ask_part(
        &mut self,
        nodes: &BTreeSet<NodeId>,
        statement: &NodeStatement,
        result_formats: &[i16],
        keep: Keep,
    ) -> Result<Vec<Participant>> {
        let mut opened = match nodes.len() > 1 && self.opens_together() {
            true => self.open_together(&[Wanted { nodes, statement, formats: result_formats }]).await?,
            false => vec![],
        };
        self.ask_opened(nodes, statement, result_formats, keep, &mut opened).await
    }

    /// As [`ask_part`](Self::ask_part), where portals may have been opened for it already.
    pub async fn ask_opened(
        &mut self,
        nodes: &BTreeSet<NodeId>,
        part: &NodeStatement,
        result_formats: &[i16],
        keep: Keep,
        opened: &mut Vec<Opened>,
    ) -> Result<Vec<Participant>> {
        let mark = self.mark(keep, part);
        let home = self.home();
        // What comes next on these connections, and is not planned so, sets that back; nothing is told where it is the same again.
        let one_plan = keep == Keep::OnePlan
            && mark.is_some()
            && !self.transaction.is_active()
            && self.settings.get(PLAN_CACHE_MODE).is_none();
        self.planned_once = one_plan.then(|| self.settings.with(PLAN_CACHE_MODE, ONE_PLAN));
        let lanes = self
            .ask_lanes(one_plan, nodes.iter().map(|node| (*node, ())), |_, p, ()| {
                match take_opened(opened, p.lane.node, &part.sql) {
                    Some(portal) => {
                        p.lane.columns = part.columns.clone();
                        rows::send_opened(&mut p.lane, &portal);
                    }
                    None => {
                        let foreign = p.lane.node != home;
                        rows::send_statement(&mut p.lane, mark.as_deref(), part, foreign, result_formats);
                    }
                }
            })
            .await;
        self.planned_once = None;
        lanes
    }

    /// Takes a lane to each node and has `ask` send something there. If one can't be asked, the others' answers are not wanted.
    pub async fn ask_each<T>(
        &mut self,
        asked: impl Iterator<Item = (NodeId, T)>,
        ask: impl FnMut(&Self, &mut Participant, T),
    ) -> Result<Vec<Participant>> {
        self.ask_lanes(false, asked, ask).await
    }

    /// The same; `reads`: it changes nothing, whatever it runs under.
    async fn ask_lanes<T>(
        &mut self,
        reads: bool,
        asked: impl Iterator<Item = (NodeId, T)>,
        mut ask: impl FnMut(&Self, &mut Participant, T),
    ) -> Result<Vec<Participant>> {
        let (nodes, whats): (Vec<_>, Vec<_>) = asked.unzip();
        let mut lanes = Vec::with_capacity(nodes.len());
        let mut waiting = self.settled_lanes(&nodes, reads).await?.into_iter();
        for what in whats {
            let Some(mut p) = waiting.next() else { break };
            p.lane.look = self.looks.of(p.lane.node);
            ask(self, &mut p, what);
            let flushed = p.lane.conn.flush().await;
            lanes.push(p);
            if let Err(e) = flushed {
                lanes.extend(waiting);
                self.abandon(lanes).await;
                return Err(e.into());
            }
        }
        Ok(lanes)
    }

    /// A lane to each node, or to none.
    pub async fn lanes_to(&mut self, nodes: impl IntoIterator<Item = NodeId>) -> Result<Vec<Participant>> {
        let nodes: Vec<_> = nodes.into_iter().collect();
        self.settled_lanes(&nodes, false).await
    }

    /// The same. The settings that they are to have are on their way to all of them before any is waited for.
    async fn settled_lanes(&mut self, nodes: &[NodeId], reads: bool) -> Result<Vec<Participant>> {
        let mut lanes = Vec::with_capacity(nodes.len());
        for node in nodes {
            match self.lane_to_read(*node).await {
                Ok(p) => lanes.push(p),
                Err(e) => {
                    self.abandon(lanes).await;
                    return Err(e);
                }
            }
        }
        if reads || self.transaction.is_active() {
            return Ok(lanes);
        }
        let settled = async {
            for p in &mut lanes {
                p.lane.send_settings().await?;
            }
            for p in &mut lanes {
                p.lane.settle().await?;
            }
            Ok::<_, pool::PoolError>(())
        };
        if let Err(e) = settled.await {
            self.abandon(lanes).await;
            return Err(e.into());
        }
        Ok(lanes)
    }

    /// Under which mark nodes keep a statement.
    pub fn mark(&self, keep: Keep, statement: &NodeStatement) -> Option<String> {
        let keeps = keep != Keep::No && !self.own_catalog && !statement.once;
        let settings = self.settings_fingerprint();
        keeps.then(|| format!("{settings:x} {}", self.epoch.snapshot.epoch))
    }

    /// Lanes whose answers are no longer wanted: read to their end and put back. Outside of a transaction a node that works on for long is told to
    /// stop, and its connection closed, unless it has something of the session's.
    pub async fn abandon(&mut self, lanes: Vec<Participant>) {
        let mut at_rest = Vec::with_capacity(lanes.len());
        let until = Instant::now() + ABANDONED_MAX;
        for mut p in lanes {
            let pinned = p.lane.node == self.home() && !self.pin.is_free();
            let kept = self.transaction.is_active() || pinned || p.lane.conn.sequences.are_wanted();
            if p.lane.conn.outstanding() > 0 && !p.lane.conn.is_broken() {
                let owed = finish_owed(&mut p.lane);
                // An error here is the same error, or the lane is broken and goes away by itself.
                let ended = match kept {
                    true => owed.await.is_ok(),
                    false => tokio::time::timeout_at(until, owed).await.is_ok(),
                };
                if !ended && !kept {
                    continue;
                }
            }
            at_rest.push(p);
        }
        // A cancel comes to all of them until then.
        for p in at_rest {
            self.put_back(p).await;
        }
    }
}

/// Answers that nobody wants are worth their connections for so long.
const ABANDONED_MAX: Duration = Duration::from_millis(300);

/// Reads what is owed. A lane that has only just joined has not even sent its BEGIN, and nothing behind it.
async fn finish_owed(lane: &mut Lane) -> Result<()> {
    lane.conn.flush().await?;
    lane.settle_before().await?;
    match lane.conn.outstanding() {
        0 => Ok(()),
        _ => rows::drain(lane).await,
    }
}

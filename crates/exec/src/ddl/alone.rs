//! Utility statements that can't run in a transaction: each step commits by itself, and what is undone when one fails.

use catalog::NodeId;
use plan::ddl::{Spread, Step};
use txn::Participant;
use wire::sqlstate;

use super::elsewhere::{holds, sql_of};
use crate::client::Client;
use crate::error::Result;
use crate::route::{Forwarded, Ids, forward};
use crate::work::Work;

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
        Ok(forwarded)
    }

    async fn one_step(&mut self, p: &mut Participant, step: &Step, own: bool, forwarded: &mut Forwarded) -> Result<()> {
        if !holds(p, step).await? {
            return Ok(());
        }
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

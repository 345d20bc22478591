//! Where a statement's reads go that standbys may answer: one server for each node, chosen when the statement first comes there, and the
//! same to its end. What the primary alone can do (a cut through all nodes, tables for rows that are sent) ends that for the rest of the
//! statement: no rows have been read by then.

use std::sync::Arc;

use catalog::NodeId;
use pool::{NodeTarget, PoolError};

use crate::client::Client;
use crate::error::ExecError;
use crate::read_from::Need;
use crate::router::herd::Herd;
use crate::router::standbys::Using;
use crate::work::Work;

/// Of one statement: what it needs, and which servers it reads.
pub struct FromStandbys {
    need: Need,
    chosen: Vec<(NodeId, Option<Using>)>,
}

impl FromStandbys {
    /// Nothing is chosen yet.
    pub fn new(need: Need) -> Self {
        FromStandbys { need, chosen: vec![] }
    }

    /// It has come to a standby.
    pub fn used(&self) -> bool {
        self.standbys().next().is_some()
    }

    /// It has failed so, and goes to the primaries.
    pub fn failed(&self, herd: &Herd, error: &ExecError) {
        // Not what is between the server and one role.
        let node = match error {
            ExecError::Pool(e @ (PoolError::Connect { .. } | PoolError::Closed { .. } | PoolError::Timeout { .. })) => {
                e.node()
            }
            _ => None,
        };
        for (using, target) in self.standbys() {
            herd.standbys.failed(using, node.is_some_and(|node| node == target.to_string()));
        }
    }

    fn standbys(&self) -> impl Iterator<Item = (&Using, &Arc<NodeTarget>)> {
        self.chosen.iter().filter_map(|(_, using)| Some((using.as_ref()?, using.as_ref()?.target()?)))
    }
}

impl<C: Client> Work<'_, C> {
    /// The standby that the statement reads in the node's place; `None`: the node itself.
    pub async fn standby(&mut self, node: NodeId) -> Option<Arc<NodeTarget>> {
        // Few have any: for the others the future stays small.
        match self.standbys {
            None => None,
            Some(_) => Box::pin(self.standby_chosen(node)).await,
        }
    }

    async fn standby_chosen(&mut self, node: NodeId) -> Option<Arc<NodeTarget>> {
        let from = self.standbys.as_deref_mut()?;
        let at = match from.chosen.iter().position(|(of, _)| *of == node) {
            Some(at) => at,
            None => {
                let using = self.herd.standbys.choose(node, &from.need).await;
                from.chosen.push((node, using));
                from.chosen.len() - 1
            }
        };
        from.chosen[at].1.as_ref()?.target().cloned()
    }

    /// From here on primaries are asked.
    pub fn leave_standbys(&mut self) {
        self.standbys = None;
    }
}

//! Which nodes have a part of a read, and what they answered: small answers are kept for the finish.

use std::collections::BTreeSet;

use catalog::NodeId;
use plan::{Part, Recipients};
use txn::Participant;
use wire::backend;

use crate::arrays::Arrays;
use crate::carried::Carriers;
use crate::client::Client;
use crate::error::Result;
use crate::query::spill::Spill;
use crate::request::Request;
use crate::router::compiled::Compiled;
use crate::work::Work;
use crate::work::rows::Reply;

impl<C: Client> Work<'_, C> {
    /// The nodes a part concerns.
    pub async fn part_nodes(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        part: &Part,
    ) -> Result<BTreeSet<NodeId>> {
        let mut nodes = BTreeSet::new();
        let Recipients::Shards(uses) = &part.target;
        for t in uses {
            let table = &compiled.plan.whole().tables[*t];
            let Some(d) = table.relation.distribution() else { continue };
            match self.shards_of(compiled, request, table).await? {
                Some(shards) => nodes.extend(shards.iter().map(|s| d.group.shards[*s].node)),
                None => nodes.extend(d.group.shards.iter().map(|s| s.node)),
            }
        }
        if nodes.is_empty() {
            nodes.insert(self.home());
        }
        Ok(nodes)
    }

    /// The rows of part `n`, which was asked of its nodes.
    pub async fn collect(
        &mut self,
        mut lanes: Vec<Participant>,
        n: usize,
        (types, carriers): (&[String], &Carriers),
        spill: &mut Spill,
    ) -> Result<PartRows> {
        let read = async {
            let (mut held, mut stored) = (Arrays::new(carriers), false);
            for p in &mut lanes {
                loop {
                    match self.next_reply(&mut p.lane).await? {
                        Reply::Row(frame) => {
                            held.push(&backend::parse_data_row(frame.body())?)?;
                            stored = spill.watch(self, n, types, &mut held, stored).await?;
                        }
                        Reply::Done => break,
                        _ => {}
                    }
                }
            }
            if stored {
                spill.store(n, types, &mut held).await?;
                return Ok(PartRows::Stored);
            }
            spill.keep(&held);
            Ok(PartRows::Held(held))
        }
        .await;
        self.abandon(lanes).await;
        read
    }
}

/// The answer of a part.
pub enum PartRows {
    Held(Arrays),
    /// In the part's temporary table.
    Stored,
}

impl PartRows {
    /// How many rows the router holds.
    pub fn held(&self) -> u64 {
        match self {
            PartRows::Held(rows) => rows.rows,
            PartRows::Stored => 0,
        }
    }
}

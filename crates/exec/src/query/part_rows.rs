//! Which nodes have a part of a read, and what they answered: small answers are kept for the finish.

use std::collections::BTreeSet;

use catalog::NodeId;
use plan::{Part, Recipients};
use txn::Participant;
use wire::backend;

use crate::arrays::Arrays;
use crate::carried::Carriers;
use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::query::spill::Spill;
use crate::query::together::Asked;
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

    /// The rows of parts that were asked of their nodes.
    pub async fn collect(
        &mut self,
        mut lanes: Vec<Participant>,
        asked: &Asked,
        reading: &mut PartsRead<'_>,
        spill: &mut Spill,
    ) -> Result<()> {
        let read = async {
            for p in &mut lanes {
                loop {
                    match self.next_reply(&mut p.lane).await? {
                        Reply::Row(frame) => {
                            let row = backend::parse_data_row(frame.body())?;
                            let (n, values) = asked
                                .part(&row, &reading.widths)
                                .ok_or_else(|| ExecError::internal("a row of no part"))?;
                            let (rows, stored) = &mut reading.parts[n];
                            rows.push(values)?;
                            *stored = spill.watch(self, n, reading.types[n], rows, *stored).await?;
                        }
                        Reply::Done => break,
                        _ => {}
                    }
                }
            }
            Ok(())
        }
        .await;
        self.abandon(lanes).await;
        read
    }
}

/// Parts whose rows are coming.
pub struct PartsRead<'t> {
    /// Those of each part's columns.
    types: &'t [&'t [String]],
    widths: Vec<usize>,
    /// What is held, and whether there is more in the part's table.
    parts: Vec<(Arrays, bool)>,
}

impl<'t> PartsRead<'t> {
    /// Nothing has come.
    pub fn new(types: &'t [&'t [String]], carriers: &[Carriers]) -> Self {
        let widths = types.iter().map(|t| t.len()).collect();
        PartsRead { types, widths, parts: carriers.iter().map(|c| (Arrays::new(c), false)).collect() }
    }

    /// All have come.
    pub async fn end(self, spill: &mut Spill) -> Result<Vec<PartRows>> {
        let mut all = Vec::with_capacity(self.parts.len());
        for (n, (mut rows, stored)) in self.parts.into_iter().enumerate() {
            all.push(match stored {
                true => {
                    spill.store(n, self.types[n], &mut rows).await?;
                    PartRows::Stored
                }
                false => PartRows::Held(rows),
            });
        }
        Ok(all)
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

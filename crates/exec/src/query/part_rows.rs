//! Which nodes have a part of a read, and what they answered: small answers are kept for the finish, at home or in several places.

use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::ops::Range;

use catalog::NodeId;
use foldhash::fast::RandomState;
use plan::{Part, Recipients};
use txn::{Lane, Participant};
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

    /// The rows of parts that were asked of their nodes; to where each goes.
    pub async fn collect(
        &mut self,
        mut lanes: Vec<Participant>,
        asked: &Asked,
        places: &mut [Place<'_>],
        goes: &Goes<'_>,
    ) -> Result<()> {
        let read = async {
            for p in &mut lanes {
                self.read_rows(&mut p.lane, asked, places, goes).await?;
            }
            Ok(())
        }
        .await;
        self.abandon(lanes).await;
        read
    }

    /// The same of one node, to the end of its answer.
    pub async fn read_rows(
        &mut self,
        lane: &mut Lane,
        asked: &Asked,
        places: &mut [Place<'_>],
        goes: &Goes<'_>,
    ) -> Result<()> {
        let types = places.first().map_or(&[][..], |place| place.types);
        let widths: Vec<usize> = types.iter().map(|t| t.len()).collect();
        loop {
            match self.next_reply(lane).await? {
                Reply::Row(frame) => {
                    let row = backend::parse_data_row(frame.body())?;
                    let (n, values) =
                        asked.part(&row, &widths).ok_or_else(|| ExecError::internal("a row of no part"))?;
                    for place in &mut places[goes.to(n, values)] {
                        place.push(self, n, values).await?;
                    }
                }
                Reply::Done => return Ok(()),
                _ => {}
            }
        }
    }
}

/// To which of several places the rows of parts go.
pub struct Goes<'g> {
    /// Of each part by which of its columns; all other rows go to all places.
    by: &'g [Option<usize>],
    places: usize,
    /// Nobody knows beforehand which values meet.
    hasher: RandomState,
}

impl<'g> Goes<'g> {
    /// There is one place.
    pub fn home() -> Self {
        Self::by(&[], 1)
    }

    /// To one of so many, by what it has in the column.
    pub fn by(by: &'g [Option<usize>], places: usize) -> Self {
        Goes { by, places, hasher: RandomState::default() }
    }

    fn to(&self, part: usize, values: &[Option<&[u8]>]) -> Range<usize> {
        let Some(Some(column)) = self.by.get(part) else { return 0..self.places };
        let value = values.get(*column).copied().flatten();
        // NULLs are all in one place, as in a table.
        let at = value.map_or(0, |value| (self.hasher.hash_one(value) % self.places.max(1) as u64) as usize);
        at..at + 1
    }
}

/// A place where parts' rows come together.
pub struct Place<'t> {
    pub spill: Spill,
    /// Those of each part's columns.
    types: &'t [&'t [String]],
    /// What is held, and whether there is more in the part's table.
    parts: Vec<(Arrays, bool)>,
}

impl<'t> Place<'t> {
    /// Nothing has come. `stored`: all parts have their tables.
    pub fn new(spill: Spill, types: &'t [&'t [String]], carriers: &[Carriers], stored: bool) -> Self {
        Place { spill, types, parts: carriers.iter().map(|c| (Arrays::new(c), stored)).collect() }
    }

    async fn push<C: Client>(&mut self, work: &mut Work<'_, C>, n: usize, values: &[Option<&[u8]>]) -> Result<()> {
        let (rows, stored) = &mut self.parts[n];
        rows.push(values)?;
        *stored = self.spill.watch(work, n, self.types[n], rows, *stored).await?;
        Ok(())
    }

    /// All have come.
    pub async fn end(&mut self) -> Result<Vec<PartRows>> {
        let mut all = Vec::with_capacity(self.parts.len());
        for (n, (mut rows, stored)) in std::mem::take(&mut self.parts).into_iter().enumerate() {
            all.push(match stored {
                true => {
                    self.spill.store(n, self.types[n], &mut rows).await?;
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

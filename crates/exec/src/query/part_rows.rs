//! Which nodes have a part of a read, and where the rows that they answer come together: at home, or each at one of several nodes. Few are
//! held, more go into tables (`spill.rs`).

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

/// Bytes of values that go along when nodes are asked for other rows.
const TOLD_MAX: usize = 4 << 20;
/// Rows beyond which it is not worth telling others' nodes which they are.
pub const TOLD_ROWS_MAX: u64 = 200_000;

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

    /// The rows of parts that were asked of their nodes, each to its destination.
    pub async fn collect(
        &mut self,
        mut lanes: Vec<Participant>,
        asked: &Asked,
        destinations: &mut [Destination<'_>],
        partitioning: &Partitioning,
    ) -> Result<()> {
        let read = async {
            for p in &mut lanes {
                self.read_rows(&mut p.lane, asked, destinations, partitioning).await?;
            }
            Ok(())
        }
        .await;
        self.abandon(lanes).await;
        destinations.iter().for_each(|one| one.spill.heed_cancels(self));
        read
    }

    /// The same of one node, to the end of its answer.
    pub async fn read_rows(
        &mut self,
        lane: &mut Lane,
        asked: &Asked,
        destinations: &mut [Destination<'_>],
        partitioning: &Partitioning,
    ) -> Result<()> {
        let types = destinations.first().map_or(&[][..], |one| one.types);
        let widths: Vec<usize> = types.iter().map(|t| t.len()).collect();
        loop {
            match self.next_reply(lane).await? {
                Reply::Row(frame) => {
                    let row = backend::parse_data_row(frame.body())?;
                    let (n, values) =
                        asked.part(&row, &widths).ok_or_else(|| ExecError::internal("a row of no part"))?;
                    for destination in &mut destinations[partitioning.to(n, values)] {
                        destination.push(self, n, values).await?;
                    }
                }
                Reply::Done => return Ok(()),
                _ => {}
            }
        }
    }
}

/// To which of several destinations a row goes.
pub struct Partitioning {
    /// Of each part by which of its columns; all other rows go to all destinations.
    by: Vec<Option<By>>,
    destinations: usize,
    /// Nobody outside knows which values it puts together.
    hasher: RandomState,
}

/// A column, and how its values are read.
#[derive(Clone, Copy)]
pub struct By {
    pub column: usize,
    /// Integers in binary: those of other columns that are equal may be longer.
    pub integers: bool,
}

impl Partitioning {
    /// There is one.
    pub fn one() -> Self {
        Self::by(vec![], 1)
    }

    /// To one of so many, by what it has in the column.
    pub fn by(by: Vec<Option<By>>, destinations: usize) -> Self {
        Partitioning { by, destinations, hasher: RandomState::default() }
    }

    fn to(&self, part: usize, values: &[Option<&[u8]>]) -> Range<usize> {
        let Some(Some(by)) = self.by.get(part) else { return 0..self.destinations };
        let hash = |value: &[u8]| match widened(value).filter(|_| by.integers) {
            Some(integer) => self.hasher.hash_one(integer),
            None => self.hasher.hash_one(value),
        };
        // NULLs are together, as in a table: whoever groups by them has one group.
        let value = values.get(by.column).copied().flatten();
        let at = value.map_or(0, |value| (hash(value) % self.destinations.max(1) as u64) as usize);
        at..at + 1
    }
}

/// An integer in binary.
fn widened(value: &[u8]) -> Option<i64> {
    match *value {
        [a, b] => Some(i16::from_be_bytes([a, b]).into()),
        [a, b, c, d] => Some(i32::from_be_bytes([a, b, c, d]).into()),
        [a, b, c, d, e, f, g, h] => Some(i64::from_be_bytes([a, b, c, d, e, f, g, h])),
        _ => None,
    }
}

/// Where parts' rows come together.
pub struct Destination<'t> {
    pub spill: Spill,
    /// Those of each part's columns.
    types: &'t [&'t [String]],
    /// What is held, and whether there is more in the part's table.
    parts: Vec<(Arrays, bool)>,
}

impl<'t> Destination<'t> {
    /// Nothing has come. `stored`: all parts have their tables.
    pub fn new(spill: Spill, types: &'t [&'t [String]], carriers: &[Carriers], stored: bool) -> Self {
        Destination { spill, types, parts: carriers.iter().map(|c| (Arrays::new(c), stored)).collect() }
    }

    async fn push<C: Client>(&mut self, work: &mut Work<'_, C>, n: usize, values: &[Option<&[u8]>]) -> Result<()> {
        let (rows, stored) = &mut self.parts[n];
        rows.push(values)?;
        *stored = self.spill.watch(work, n, self.types[n], rows, *stored).await?;
        Ok(())
    }

    /// The different rows of part `n` by these columns, all of whose rows have come; `None`: they are not held, or more than may be told.
    pub fn told(&self, n: usize, columns: &[usize]) -> Option<Arrays> {
        let (rows, _) = self.parts.get(n).filter(|(_, stored)| !stored)?;
        rows.distinct(columns, TOLD_ROWS_MAX, TOLD_MAX)
    }

    /// All have come, and are about to be read where they are. All parts have their tables.
    pub async fn prepare(&mut self, lookups: &[Vec<usize>]) -> Result<()> {
        let stored: Vec<usize> = (0..self.answers().await?.len()).collect();
        self.spill.prepare(&stored, lookups).await
    }

    /// All have come.
    pub async fn answers(&mut self) -> Result<Vec<PartRows>> {
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
        self.spill.settle().await?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_go_to_one_destination() {
        let by = |integers| vec![Some(By { column: 1, integers }), None];
        let partitioning = Partitioning::by(by(false), 7);
        let to = |part: usize, value: Option<&[u8]>| partitioning.to(part, &[Some(b"x"), value]);
        let mut used = std::collections::HashSet::new();
        for n in 0..500 {
            let value = n.to_string();
            let at = to(0, Some(value.as_bytes()));
            assert_eq!((at.len(), to(0, Some(value.as_bytes()))), (1, at.clone()));
            used.insert(at.start);
        }
        assert_eq!(used, (0..7).collect());
        assert_eq!(to(0, None), 0..1);
        assert_eq!([to(1, Some(b"5")), to(2, None)], [0..7, 0..7]);
        assert_eq!(Partitioning::one().to(0, &[None]), 0..1);
        let integers = Partitioning::by(by(true), 7);
        let to = |value: &[u8]| integers.to(0, &[None, Some(value)]);
        for n in [-3_i16, 0, 77, i16::MAX] {
            let narrow = to(&n.to_be_bytes());
            assert_eq!([to(&i32::from(n).to_be_bytes()), to(&i64::from(n).to_be_bytes())], [narrow.clone(), narrow]);
        }
    }
}

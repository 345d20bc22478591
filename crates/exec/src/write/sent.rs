//! Rows of some tables that are read and sent to the nodes of others with the query over them. When that is done is not known here
//! (`query/ways.rs`), nor what is read (`plan/src/gather/stays.rs`).

use std::sync::Arc;

use plan::InTurn;

use crate::arrays::Arrays;
use crate::budget::Taken;
use crate::carried::Carriers;
use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::query::by_shards::BY_SHARDS;
use crate::request::{Bound, Request};
use crate::router::compiled::{Compiled, ReadyTurn, ReadyTurns};
use crate::router::described::Described;
use crate::work::Work;
use crate::write::capture::{Consumer, Rows};
use crate::write::in_turn::{KeptRows, KeptTurn, own_bound};

/// What rows take that go to several nodes at once.
const TIMES: usize = 4;

/// How rows that were sent fit a table's planners do not know, even where they have seen them: once they expect one row, they loop over many for
/// each. They join shard by shard whatever planning takes: rows are sent only where there are many.
const FOR_SENT: [&str; 2] = ["SET LOCAL enable_nestloop = off", BY_SHARDS];

impl<C: Client> Work<'_, C> {
    /// Statements that only read, one after the other, of which all but the last have at most so many bytes of rows, and there is room for them;
    /// `None`: there is not, or they can't be run so, and nothing has been told.
    pub async fn read_in_turn(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        (all, ready): (&InTurn, &ReadyTurns),
        limit: usize,
    ) -> Result<Option<String>> {
        let (described, mut bound) = self.described_bound(compiled, request).await?;
        bound.values.truncate(all.parameters);
        let (ready, carriers) = match self.ready_to_read(ready, all, &described).await {
            Ok(ready) => ready,
            Err(ExecError::Sql(_) | ExecError::Refused(_)) => return Ok(None),
            Err(e) => return Err(e),
        };
        let (uses, alone, within) = (self.uses.clone(), self.reads_alone(), self.one_state);
        // Its transaction is its own, and nobody else is in it.
        let outermost = alone && !within;
        if all.one_state && outermost {
            self.begin_repeatable().await?;
        }
        self.one_state |= all.one_state;
        self.within_ways += 1;
        let kept = self.read_before(all, &ready, &carriers, &bound, limit).await;
        self.within_ways -= 1;
        (self.uses, self.one_state) = (uses, within);
        let kept = match kept {
            // PostgreSQL may not have looked at it at all.
            Err(e) if outermost && depends_on_values(&e) => None,
            kept => kept?,
        };
        let (Some(kept), Some(last)) = (kept, ready.last()) else {
            // Rows come home without what was begun and set for this.
            if outermost && self.transaction.is_active() {
                self.roll_back_and_go_on().await;
            }
            return Ok(None);
        };
        let mut own = own_bound(last, all, &bound, &kept);
        if alone {
            self.need_transaction();
            self.into_tables(&ready, all, &kept, &mut own).await?;
            for set in FOR_SENT {
                self.transaction.everywhere(set).await?;
                self.transaction.note_setting(set);
            }
        }
        self.itself(last, request, &described, &bound, Some(&own)).await.map(Some)
    }

    async fn ready_to_read(
        &mut self,
        known: &ReadyTurns,
        all: &InTurn,
        described: &Described,
    ) -> Result<(Arc<Vec<ReadyTurn>>, Vec<Carriers>)> {
        let ready = self.ready(known, all, described).await?;
        let carriers = self.carriers(&ready).await?;
        Ok((ready, carriers))
    }

    /// The rows of all but the last.
    async fn read_before(
        &mut self,
        all: &InTurn,
        ready: &[ReadyTurn],
        carriers: &[Carriers],
        bound: &Bound,
        limit: usize,
    ) -> Result<Option<KeptRows>> {
        let (mut kept, mut left) = (KeptRows::new(), limit);
        for (n, (turn, ready)) in all.turns.iter().zip(ready).enumerate() {
            let Some(query) = &turn.query else { continue };
            let own = own_bound(ready, all, bound, &kept).for_columns(carriers[n].formats());
            let (taken, stops) = (self.memory.nothing(), !self.transaction.is_active());
            let mut rows = Spare { arrays: Arrays::new(&carriers[n]), left, taken, stops, over: false };
            self.uses = ready.compiled.plan.whole().sequences.clone();
            let inner = Request::bound(&ready.compiled.text, Some(&own));
            let read = self.read_into(&ready.compiled, &inner, Rows::Kept(&mut rows)).await;
            if rows.over {
                return Ok(None);
            }
            read?;
            left = left.saturating_sub(rows.arrays.bytes());
            kept.insert(query.number, KeptTurn::of(rows.arrays, rows.taken));
        }
        Ok(Some(kept))
    }
}

/// An error of what a query computes: cardinality violations, data exceptions, what functions raise.
fn depends_on_values(e: &ExecError) -> bool {
    let code = e.code();
    ["21", "22", "38", "39", "P0"].iter().any(|class| code.starts_with(class))
}

/// Rows that wait for the last statement, which goes another way without them.
struct Spare {
    arrays: Arrays,
    /// How many bytes there may be.
    left: usize,
    taken: Taken,
    /// Nobody is hurt by a read that ends before all rows are there.
    stops: bool,
    /// There are more than that, or there is no room for them.
    over: bool,
}

impl Consumer for Spare {
    fn row(&mut self, values: &[Option<&[u8]>]) -> Result<()> {
        if !self.over {
            let more: usize = values.iter().flatten().map(|v| v.len()).sum();
            let bytes = self.arrays.bytes() + more;
            self.over = bytes > self.left || self.taken.grow_to(TIMES * bytes).is_err();
            match self.over {
                true => drop(self.arrays.take()),
                false => self.arrays.push(values)?,
            }
        }
        match self.over && self.stops {
            true => Err(ExecError::internal("more rows than were expected")),
            false => Ok(()),
        }
    }
}

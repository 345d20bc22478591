//! Rows that are sent to nodes, in temporary tables there: of arrays PostgreSQL knows nothing but their length, and joins in any order; of a
//! table that it has analysed it knows what it would of one of its own. Which rows are sent is not known here (`sent.rs`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use catalog::NodeId;
use plan::{InTurn, Planned};
use txn::{Lane, Participant};

use crate::arrays::Array;
use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::moves::Choice;
use crate::query::spill::{STATISTICS_TARGET, analyze, create};
use crate::request::{Bound, RowsTable, RowsTables};
use crate::router::compiled::ReadyTurn;
use crate::work::Work;
use crate::work::copy_rows::Fill;
use crate::work::rows;
use crate::write::in_turn::KeptRows;

/// Rows of all together from which on it pays to tell PostgreSQL what is in them.
const ROWS_MIN: u64 = 2000;
/// The same where the user has asked for rows to be sent.
const ASKED_ROWS_MIN: u64 = 40;
/// Other statements' rows may be in tables of the same connections.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// A table that is made, and what is put into it.
struct Made<'k> {
    name: String,
    types: &'k [String],
    arrays: &'k [Array],
}

impl<C: Client> Work<'_, C> {
    /// Puts rows that the last of the statements names into tables on the nodes that answer it, and has it read them there, where there can be
    /// tables. In a transaction that is the statement's own.
    pub async fn into_tables(
        &mut self,
        ready: &[ReadyTurn],
        all: &InTurn,
        kept: &KeptRows,
        own: &mut Bound,
    ) -> Result<()> {
        let Some(last) = ready.last() else { return Ok(()) };
        let Planned::Query { tree: Ok(finish), .. } = &last.compiled.plan else { return Ok(()) };
        let is_kept = |at: usize| last.params.get(at.wrapping_sub(1)).is_some_and(|n| *n > all.parameters);
        // Home has none of these tables.
        if finish.texts().iter().any(|text| text.params().any(is_kept)) {
            return Ok(());
        }
        let rows: u64 = kept.values().map(|rows| rows.rows).sum();
        let (made, tables) = tables(ready, all, last, kept);
        let least = match self.moves.broadcast() {
            Choice::On => ASKED_ROWS_MIN,
            _ => ROWS_MIN,
        };
        if rows < least || made.is_empty() {
            return Ok(());
        }
        let request = crate::request::Request::bound(&last.compiled.text, Some(own));
        let mut nodes = BTreeSet::new();
        for part in finish.parts() {
            nodes.extend(self.part_nodes(&last.compiled, &request, part).await?);
        }
        if self.fill_tables(&nodes, &made).await? {
            own.tables = Some(Arc::new(tables));
        }
        Ok(())
    }

    /// The tables on each of these nodes; `false`: one of them can't have them, and none has.
    async fn fill_tables(&mut self, nodes: &BTreeSet<NodeId>, made: &[Made<'_>]) -> Result<bool> {
        let fills: Vec<Fill> = made.iter().map(Made::fill).collect();
        let create: Vec<String> = made.iter().map(|one| create(&one.name, 'v', one.types)).collect();
        let create = format!("SAVEPOINT herd_tables; {}", create.join("; "));
        let names: Vec<String> = made.iter().map(|one| one.name.clone()).collect();
        let end = analyze(&names, self.has_set(STATISTICS_TARGET)) + "; RELEASE herd_tables";
        let home = self.home();
        let asked = nodes.iter().map(|node| (*node, ()));
        let mut lanes = self
            .ask_each(asked, |_, p, ()| {
                // That is for what the client asks.
                p.lane.look = None;
                p.lane.conn.temporary = true;
                p.lane.put_query(&create);
                let foreign = p.lane.node != home;
                fills.iter().for_each(|fill| fill.send(&mut p.lane, foreign));
                p.lane.put_query(&end);
            })
            .await?;
        let failed = first_error(&mut lanes).await;
        let undone = match failed {
            None => Ok(true),
            // No right to make one, a type no table can have, a transaction that only reads: then they are not made.
            Some(e) if may_go_on(&e) => undo(&mut lanes).await.map(|()| false),
            Some(e) => Err(e),
        };
        self.abandon(lanes).await;
        undone
    }
}

/// The first of the nodes' errors, when all have ended.
async fn first_error(lanes: &mut [Participant]) -> Option<ExecError> {
    let mut first = None;
    for p in lanes {
        while p.lane.conn.outstanding() > 0 && !p.lane.conn.is_broken() {
            if let Err(e) = rows::drain(&mut p.lane).await {
                first.get_or_insert(e);
            }
        }
    }
    first
}

/// The statement can be answered without tables.
fn may_go_on(e: &ExecError) -> bool {
    !matches!(e.code().get(..2), Some("08" | "40" | "57" | "58" | "XX"))
}

async fn undo(lanes: &mut [Participant]) -> Result<()> {
    for lane in lanes.iter_mut().map(|p| &mut p.lane).filter(|lane| !lane.conn.is_broken()) {
        back(lane).await?;
    }
    Ok(())
}

async fn back(lane: &mut Lane) -> Result<()> {
    lane.run("ROLLBACK TO herd_tables; RELEASE herd_tables").await?;
    Ok(())
}

/// The tables for all rows that are named by parameters one after the other, and which parameters these are.
fn tables<'k>(
    ready: &'k [ReadyTurn],
    all: &InTurn,
    last: &ReadyTurn,
    kept: &'k KeptRows,
) -> (Vec<Made<'k>>, RowsTables) {
    let column = |at: usize| all.rows.get(last.params.get(at)?.checked_sub(all.parameters + 1)?);
    let (mut made, mut tables) = (vec![], vec![]);
    for turn in ready {
        let Some((number, rows)) = turn.number.and_then(|n| Some((n, kept.get(&n)?))) else { continue };
        let Some(first) = (0..last.params.len()).find(|at| column(*at) == Some(&(number, 0))) else { continue };
        let width = rows.arrays.len();
        if width != turn.types.len() || (0..width).any(|c| column(first + c) != Some(&(number, c))) {
            continue;
        }
        let name = format!("pg_temp.herd_sent_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        made.push(Made { name: name.clone(), types: &turn.types, arrays: &rows.arrays });
        tables.push(RowsTable { first: first + 1, width, name });
    }
    (made, RowsTables(tables))
}

impl Made<'_> {
    fn fill(&self) -> Fill {
        Fill::of(&self.name, self.types, self.arrays.to_vec())
    }
}

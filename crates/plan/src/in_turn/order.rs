//! In which order statements are run that PostgreSQL would show one snapshot: who reads a table comes before who writes it, and
//! rows that others refer to before those. Where there is none, it is refused.

use std::collections::BTreeSet;

use super::touches::{Touches, Which};
use crate::Result;
use crate::refuse::Refusal;

const HINT: &str = "Run them as statements of their own in one transaction, or filter every table to one key value.";

/// The numbers of the statements, in the order they run. Of those that may come next it is the first one.
pub fn of(all: &[Touches], tied: &[(u32, u32)]) -> Result<Vec<usize>> {
    // Whom each has to wait for, and why.
    let mut before: Vec<BTreeSet<usize>> = all.iter().map(|t| t.needs.clone()).collect();
    let mut why = None;
    for (i, x) in all.iter().enumerate() {
        for (j, y) in all.iter().enumerate().filter(|(j, _)| *j != i) {
            alone((i, x), (j, y))?;
            let read = |(which, _): &(&Which, &String)| y.writes.contains_key(*which) && !both_change(x, y, which);
            if let Some((_, table)) = x.reads.iter().find(read) {
                before[j].insert(i);
                why.get_or_insert_with(|| table.clone());
            }
            if let Some(first) = by_keys(x, y, tied)? {
                match first {
                    true => before[j].insert(i),
                    false => before[i].insert(j),
                };
            }
        }
    }
    let mut order: Vec<usize> = Vec::with_capacity(all.len());
    let mut left: BTreeSet<usize> = (0..all.len()).collect();
    while !left.is_empty() {
        let Some(next) = left.iter().copied().find(|i| before[*i].is_empty()) else {
            return Err(match why {
                Some(table) => Refusal::new(
                    format!(
                        "data-modifying WITH over several nodes is not supported where what is written to \"{table}\" is needed \
                         before all of the statement has read it"
                    ),
                    HINT,
                ),
                None => Refusal::new(
                    "data-modifying WITH over several nodes is not supported where rows that refer to each other would change in \
                     another order",
                    HINT,
                ),
            });
        };
        left.remove(&next);
        for waits in &mut before {
            waits.remove(&next);
        }
        order.push(next);
    }
    Ok(order)
}

/// The one leaves alone what the other has changed of the table.
fn both_change(x: &Touches, y: &Touches, table: &Which) -> bool {
    matches!(table, Which::Known(oid) if x.again == Some(*oid) && y.again == Some(*oid))
}

/// What can't be in one statement with the other, in whatever order.
fn alone((i, x): (usize, &Touches), (j, y): (usize, &Touches)) -> Result<()> {
    // Rows that are added are seen by nobody else, and their keys are free in whatever order if none changes; rows that were taken
    // away are gone before others come of them.
    let adds_beside = |x: &Touches, y: &Touches, j: usize| {
        x.only_adds && (y.only_adds || y.keeps_keys || y.only_takes && x.needs.contains(&j))
    };
    if let Some((_, table)) =
        x.writes.iter().find(|(which, _)| y.writes.contains_key(*which) && !both_change(x, y, which))
        && !adds_beside(x, y, j)
        && !adds_beside(y, x, i)
    {
        return Err(Refusal::new(
            format!("changing \"{table}\" twice in one statement over several nodes is not supported"),
            HINT,
        ));
    }
    if x.family.iter().any(|oid| y.local.contains(oid)) {
        return Err(Refusal::new(
            "data-modifying WITH over several nodes is not supported beside local tables of which one may have rows of another",
            HINT,
        ));
    }
    if x.code_reads.meets(y.written) || x.code_writes.meets(y.named) {
        return Err(Refusal::new(
            "data-modifying WITH over several nodes is not supported where functions, triggers or policies may see what another \
             part of the statement writes",
            HINT,
        ));
    }
    Ok(())
}

/// What foreign keys say: whether `x`, which may have to do with rows that refer to those of `y`, comes before it; `None`: nothing.
fn by_keys(x: &Touches, y: &Touches, tied: &[(u32, u32)]) -> Result<Option<bool>> {
    let reached = |child: &Which| matches!(child, Which::Known(oid) if y.reached.contains(oid));
    let refers = |child: &Which| {
        let Which::Known(child) = child else { return false };
        y.writes.keys().any(|parent| matches!(parent, Which::Known(parent) if tied.contains(&(*parent, *child))))
    };
    if let Some((_, name)) = x.writes.iter().find(|(child, _)| reached(child)) {
        if x.adds {
            return Err(Refusal::new(
                format!(
                    "adding rows to \"{name}\" and changing those that they refer to in one statement over several nodes is not supported"
                ),
                HINT,
            ));
        }
        return Ok(Some(true));
    }
    if y.only_adds && x.adds && x.writes.keys().any(refers) {
        return Ok(Some(false));
    }
    // Actions may change what is read.
    Ok(x.reads.keys().any(reached).then_some(true))
}

//! A query whose tables' rows could all come home, or those of them that meet others', or all but some to the nodes of those, or each to a node
//! by what it is joined by: which is less work. Nodes' planners say how many rows they expect. How the ways run is not known here
//! (`query/finish.rs`, `write/sent.rs`, `query/shuffle.rs`).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::pin::Pin;
use std::sync::Arc;

use catalog::NodeId;
use plan::{Finish, InTurn, Part, Planned, Semijoin, Shuffle, Statement, Text, Turn};
use txn::Cuts;
use wire::{backend, frame};

use crate::arrays::Arrays;
use crate::client::Client;
use crate::error::Result;
use crate::moves::Choice;
use crate::query::finish::{self, agreed};
use crate::query::part_rows::TOLD_ROWS_MAX;
use crate::render::{Child, Fill, NodeStatement};
use crate::request::{Bound, Keep, Request};
use crate::router::compiled::Compiled;
use crate::router::described::PartColumns;
use crate::router::ways::{May, Way};
use crate::work::Work;

/// Bytes of rows below which it does not matter.
const LEAST: f64 = 128_000.0;
/// The same of tables, which have a page for each shard at least. Of those that were never analysed planners expect ten pages a shard.
const TABLES_LEAST: f64 = 1_000_000.0;
/// Bytes of rows that are sent to each node at most. They wait in the router.
const MOST: f64 = 64_000_000.0;
/// How deep ways go within ways, as they are planned (`Steps::aside`).
const WITHIN_MAX: u8 = 2;
/// How many times of what they were expected to be.
const SLACK: usize = 2;
/// How much less must move for another way than home.
const TIMES: f64 = 2.0;
/// Bytes of rows below which home is done with them before nodes have tables for them.
const SHUFFLE_LEAST: f64 = 32_000_000.0;
/// What a value takes besides its width.
const VALUE: f64 = 4.0;

impl<C: Client> Work<'_, C> {
    /// Runs it another way than home, where that is less work. Where it is not, or more came than was expected, nothing was told.
    pub fn other_way<'w>(
        &'w mut self,
        compiled: &'w Compiled,
        request: &'w Request<'w>,
    ) -> Pin<Box<dyn Future<Output = Result<Went>> + Send + 'w>> {
        // It runs queries inside of a query, whose future has this one in it.
        Box::pin(async move {
            let way = self.way(compiled, request).await?;
            if let Some(OtherWay::Sent(..) | OtherWay::Shuffled(..)) = &way {
                // What is sent is kept in tables, and the rest is read where these are.
                self.leave_standbys();
            }
            let done = match way {
                None => return Ok(Went::home()),
                Some(OtherWay::Semijoined(_, semijoins)) => return Ok(Went::Home(semijoins)),
                Some(OtherWay::Sent(number, way)) => {
                    let ready = compiled.ways.ready(number);
                    self.read_in_turn(compiled, request, (way, &ready), SLACK * MOST as usize).await?
                }
                Some(OtherWay::Shuffled(statement, shuffle)) => {
                    self.shuffle(compiled, request, statement, shuffle).await?
                }
            };
            if let (None, Planned::Query { tree: Ok(Finish::Statement(statement)), .. }) = (&done, &compiled.plan) {
                compiled.ways.choose(self.may(compiled, statement), Way::Home);
            }
            Ok(done.map_or_else(Went::home, Went::Done))
        })
    }

    /// The way that a query goes, if it is not that home gets all rows.
    pub async fn way<'p>(&mut self, compiled: &'p Compiled, request: &Request<'_>) -> Result<Option<OtherWay<'p>>> {
        let Planned::Query { tree: Ok(Finish::Statement(statement)), .. } = &compiled.plan else { return Ok(None) };
        Ok(match self.chosen(compiled, request, statement).await? {
            Way::Home => None,
            Way::Semijoined(semijoins) => Some(OtherWay::Semijoined(statement, semijoins)),
            Way::Sent(number) => statement.ways.get(number).map(|way| OtherWay::Sent(number, way)),
            Way::Shuffled => statement.shuffle.as_ref().map(|shuffle| OtherWay::Shuffled(statement, shuffle)),
        })
    }

    async fn chosen(&mut self, compiled: &Compiled, request: &Request<'_>, statement: &Statement) -> Result<Way> {
        let may = self.may(compiled, statement);
        if !may.send && !may.shuffle && !may.semijoin {
            return Ok(Way::Home);
        }
        let usable = |way: &Way| match way {
            Way::Sent(number) => may.alone || statement.ways.get(*number).is_some_and(|way| !way.one_state),
            Way::Home | Way::Semijoined(_) | Way::Shuffled => true,
        };
        if let Some(way) = compiled.ways.chosen(may).filter(usable) {
            return Ok(way);
        }
        let way = self.choose(compiled, request, statement, may).await?;
        compiled.ways.choose(may, way.clone());
        Ok(way)
    }

    /// What is read for a way is planned by itself, and has ways, too: that must end.
    fn may(&self, compiled: &Compiled, statement: &Statement) -> May {
        let one_cut = self.transaction.wants == Cuts::All;
        let none = compiled.plan.whole().clock.is_some() || one_cut || self.within_ways >= WITHIN_MAX;
        // What a planner is told for this one statement (`write/sent.rs`) is told in a transaction of its own.
        let alone = self.reads_alone();
        let may = |choice, can| {
            !none
                && can
                && match choice {
                    Choice::Auto => alone,
                    Choice::On => true,
                    Choice::Off => false,
                }
        };
        // A shuffle's connections are not the transaction's, and what code there reads is not known.
        let can = statement.shuffle.is_some() && !self.transaction.is_active();
        let send = may(self.moves.broadcast(), !statement.ways.is_empty());
        let shuffle = may(self.moves.shuffle(), can);
        // All parts' nodes are asked at once for one cut.
        let semijoin = !one_cut && !statement.semijoins.is_empty() && self.moves.semijoin() != Choice::Off;
        May { moves: self.moves, alone, send, shuffle, semijoin }
    }

    /// The statement is a transaction of its own, in which it may do as it likes.
    pub fn reads_alone(&self) -> bool {
        self.one_state || !self.transaction.is_active() && !self.is_source
    }

    async fn choose(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        statement: &Statement,
        may: May,
    ) -> Result<Way> {
        let described = self.described(compiled, request.types()).await?;
        let (bound, parts) = (described.parameters(request), plan::explain::parts(&compiled.plan));
        let agrees = !statement.as_described
            || agreed(self.agrees(compiled, request, &parts, &statement.text, &described).await)?;
        if may.shuffle && agrees && self.moves.shuffle() == Choice::On {
            return Ok(Way::Shuffled);
        }
        let forced = may.send && self.moves.broadcast() == Choice::On;
        if may.semijoin && agrees && !forced && self.moves.semijoin() == Choice::On {
            return Ok(Way::Semijoined(all(statement)));
        }
        if !forced && agrees {
            let mut bytes = 0.0;
            for table in &compiled.plan.whole().tables {
                bytes += self.size_of(&table.relation).await? as f64;
            }
            if bytes < TABLES_LEAST {
                return Ok(Way::Home);
            }
        }
        let mut known: HashMap<&Text, Expected> = HashMap::new();
        let mut each = Vec::with_capacity(parts.len());
        for part in &parts {
            let nodes = self.part_nodes(compiled, request, part).await?;
            each.push(self.expected(&part.text, &nodes, &bound, &mut known).await?);
        }
        let home = bytes(&each);
        let most = match forced {
            true => f64::INFINITY,
            // What home can't make of rows, nodes may make of a table.
            _ if !agrees => f64::INFINITY,
            _ if home < LEAST => return Ok(Way::Home),
            _ => home / TIMES,
        };
        let nodes = self.epoch.snapshot.nodes.len();
        let mut best = (most, None);
        if may.semijoin && agrees && !forced {
            let columns = self.part_columns(compiled, &parts, &bound).await?;
            let (fewer, semijoins) =
                self.fewest(statement, &parts, &columns, &each, (compiled, request, &bound)).await?;
            if !semijoins.is_empty() && fewer <= best.0 {
                best = (fewer, Some(Way::Semijoined(semijoins.into())));
            }
        }
        for (i, way) in statement.ways.iter().enumerate().filter(|(_, way)| may.send && (may.alone || !way.one_state)) {
            let mut sent = 0.0;
            for turn in reads(way) {
                sent += self.expected(&turn.text, &nodes_of(turn), &bound, &mut known).await?.bytes;
            }
            if sent <= MOST && sent * nodes as f64 <= best.0 {
                best = (sent * nodes as f64, Some(Way::Sent(i)));
            }
        }
        if let Some(way) = best.1 {
            return Ok(way);
        }
        // As much moves as to home, but for what goes to all; what is done with it there is done by all.
        let to_all = |shuffle: &Shuffle| -> f64 {
            each.iter().zip(&shuffle.by).filter(|(_, by)| by.is_none()).map(|(rows, _)| rows.bytes).sum()
        };
        let pays =
            |shuffle: &&Shuffle| shuffle.adds_up && home >= SHUFFLE_LEAST && nodes as f64 * to_all(shuffle) <= home;
        Ok(match statement.shuffle.as_ref().filter(pays) {
            Some(_) if may.shuffle && agrees => Way::Shuffled,
            _ => Way::Home,
        })
    }

    /// Which semijoins leave the fewest bytes to come, and how many. The smallest child is read as it is; each of the others by that one of
    /// those before it which leaves least, if that is much less than all.
    async fn fewest(
        &mut self,
        statement: &Statement,
        parts: &[&Part],
        columns: &[PartColumns],
        all: &[Expected],
        (compiled, request, bound): (&Compiled, &Request<'_>, &Bound),
    ) -> Result<(f64, Vec<usize>)> {
        let (mut each, mut by) = (all.to_vec(), vec![None; all.len()]);
        let mut left: BTreeSet<usize> = (0..all.len()).collect();
        while let Some(n) = left.iter().copied().min_by(|a, b| each[*a].bytes.total_cmp(&each[*b].bytes)) {
            left.remove(&n);
            if each[n].rows > TOLD_ROWS_MAX as f64 {
                continue;
            }
            let meet =
                statement.semijoins.iter().enumerate().filter(|(_, s)| s.partner == n && left.contains(&s.child));
            for (number, semijoin) in meet {
                let child = semijoin.child;
                let nodes = self.part_nodes(compiled, request, parts[child]).await?;
                let one = one_told(semijoin, number, columns);
                let met = self.expected_of(&semijoin.text, &nodes, bound, one).await?.times(each[n].rows);
                if met.bytes < each[child].bytes && met.bytes * TIMES <= all[child].bytes {
                    (each[child], by[child]) = (met, Some(number));
                }
            }
        }
        Ok((bytes(&each), by.into_iter().flatten().collect()))
    }

    /// A part's rows from all of these nodes, as one of them expects them.
    async fn expected<'t>(
        &mut self,
        text: &'t Text,
        nodes: &BTreeSet<NodeId>,
        bound: &Bound,
        known: &mut HashMap<&'t Text, Expected>,
    ) -> Result<Expected> {
        if let Some(known) = known.get(text) {
            return Ok(*known);
        }
        let expected = self.expected_of(text, nodes, bound, vec![]).await?;
        known.insert(text, expected);
        Ok(expected)
    }

    async fn expected_of(
        &mut self,
        text: &Text,
        nodes: &BTreeSet<NodeId>,
        bound: &Bound,
        children: Vec<Child>,
    ) -> Result<Expected> {
        let statement = Fill { children, ..Fill::new(bound, &self.now) }.statement([text]);
        let statement = NodeStatement { sql: format!("EXPLAIN {}", statement.sql), once: true, ..statement };
        let one: BTreeSet<NodeId> = nodes.first().copied().into_iter().collect();
        let lanes = self.ask_part(&one, &statement, &[], Keep::No).await?;
        let answers = self.read_answers(lanes, false).await?;
        if let Some(row) = answers.iter().flat_map(|a| a.rows.iter()).next()
            && let Some(Some(line)) = backend::parse_data_row(&row?[frame::HEADER_LEN..])?.first()
            && let Some((rows, width)) = estimate(&String::from_utf8_lossy(line))
        {
            let rows = nodes.len() as f64 * rows;
            return Ok(Expected { rows, bytes: rows * (width + VALUE) });
        }
        Ok(Expected { rows: f64::INFINITY, bytes: f64::INFINITY })
    }
}

/// What is to come.
#[derive(Clone, Copy)]
struct Expected {
    rows: f64,
    bytes: f64,
}

impl Expected {
    fn times(self, times: f64) -> Self {
        Expected { rows: self.rows * times, bytes: self.bytes * times }
    }
}

fn bytes(each: &[Expected]) -> f64 {
    each.iter().map(|one| one.bytes).sum()
}

/// The rows of the statement's semijoins, of which this one has one.
fn one_told(semijoin: &Semijoin, number: usize, columns: &[PartColumns]) -> Vec<Child> {
    let (mut children, mut one) = (vec![], Arrays::of_text(semijoin.columns.len()));
    // Planners look at how many there are.
    if one.push(&vec![None; semijoin.columns.len()]).is_ok() {
        finish::put_told(&mut children, number, semijoin, one, columns);
    }
    children
}

/// All semijoins that can be made together: of each child one, and none by what is read by its own values.
fn all(statement: &Statement) -> Arc<[usize]> {
    let mut by: BTreeMap<usize, usize> = BTreeMap::new();
    for (number, semijoin) in statement.semijoins.iter().enumerate() {
        let partner = |child: usize| by.get(&child).map(|number| statement.semijoins[*number].partner);
        let is_before =
            std::iter::successors(Some(semijoin.partner), |child| partner(*child)).any(|n| n == semijoin.child);
        if !is_before && !by.contains_key(&semijoin.child) {
            by.insert(semijoin.child, number);
        }
    }
    by.into_values().collect()
}

/// What became of it.
pub enum Went {
    /// It was answered; its tag.
    Done(String),
    /// Home is to answer, of these semijoins' children only what meets their partners.
    Home(Arc<[usize]>),
}

impl Went {
    fn home() -> Self {
        Went::Home([].into())
    }
}

/// How a query goes that could have all of its rows come home.
pub enum OtherWay<'p> {
    /// Home gets only what meets other rows, which are read before: by which of the statement's semijoins.
    Semijoined(&'p Statement, Arc<[usize]>),
    /// Some tables' rows go to the nodes of others: which of its ways it is.
    Sent(usize, &'p InTurn),
    Shuffled(&'p Statement, &'p Shuffle),
}

/// What is read before it.
fn reads(way: &InTurn) -> impl Iterator<Item = &Turn> {
    way.turns.iter().filter(|turn| turn.query.is_some())
}

/// Where the tables' shards are that it reads.
pub fn nodes_of(turn: &Turn) -> BTreeSet<NodeId> {
    let tables = turn.plan.whole().tables.iter().filter_map(|t| t.relation.distribution());
    tables.flat_map(|d| d.group.shards.iter().map(|s| s.node)).collect()
}

/// Rows and their width by the first line of a plan: `… (cost=0.00..1.01 rows=1 width=4)`.
fn estimate(line: &str) -> Option<(f64, f64)> {
    let number = |name: &str| {
        let behind = line.rsplit_once(name)?.1;
        behind.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    Some((number("rows=")?, number("width=")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_a_plan_says_how_many_rows_there_are() {
        let line = "Hash Join  (cost=1.04..28.00 rows=12034 width=72)";
        assert_eq!(estimate(line), Some((12034.0, 72.0)));
        assert_eq!(estimate("Result"), None);
    }
}

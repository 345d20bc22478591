//! PostgreSQL finishes: the parts' rows go to one node as typed arrays, and the outer query runs there. Parts are read at once, but for those that
//! are asked for what meets another's rows (`plan/src/gather/semijoins.rs`): these wait for it, and its values go along.

use std::collections::{BTreeMap, BTreeSet};

use plan::{Part, Semijoin, Text};
use txn::Lane;
use wire::sqlstate;

use crate::arrays::{Array, Arrays};
use crate::carried::{Carried, Carriers};
use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::query::part_rows::{Destination, PartRows, Partitioning};
use crate::query::spill::{self, Spill};
use crate::query::together::{self, Asked};
use crate::render::{Child, Fill, NodeStatement, Source};
use crate::request::{Keep, Request};
use crate::route::{Ids, forward};
use crate::router::compiled::Compiled;
use crate::router::described::{Described, PartColumns};
use crate::work::Work;
use crate::work::describe::not_in_place;
use crate::work::rows;

/// What runs over parts' rows.
pub struct Over<'s> {
    pub text: &'s Text,
    pub reads_home: bool,
    /// Rows meet others, or are read several times: how, PostgreSQL has to plan.
    pub joined: bool,
    /// Of each part by which columns its rows are looked up.
    pub lookups: &'s [Vec<usize>],
    pub semijoins: &'s [Semijoin],
    /// Which of these are made.
    pub chosen: &'s [usize],
}

impl<'s> Over<'s> {
    /// Over the rows of one part, that need nothing else.
    pub fn alone(text: &'s Text) -> Self {
        Over { text, reads_home: false, joined: false, lookups: &[], semijoins: &[], chosen: &[] }
    }
}

/// What parts have answered.
pub struct Answers<'c> {
    /// The statement that they are parts of.
    pub whole: &'c plan::Whole,
    /// Whether nodes keep the statement over them.
    pub keep: Keep,
    pub columns: &'c [PartColumns],
    pub rows: Vec<PartRows>,
}

impl<C: Client> Work<'_, C> {
    /// Collects all parts and runs a statement over them.
    pub async fn finish(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        parts: &[&Part],
        over: Over<'_>,
        described: &Described,
    ) -> Result<String> {
        let Over { text, reads_home, joined, lookups, .. } = over;
        let bound = described.parameters(request);
        let keep = compiled.keep(request);
        let columns = self.part_columns(compiled, parts, &bound).await?;
        let carriers = self.part_carriers(&columns).await?;
        let formats: Vec<_> = carriers.iter().map(Carriers::formats).collect();
        let types: Vec<_> = columns.iter().map(|c| &c.types[..]).collect();
        let mut home = Destination::new(Spill::new(self, reads_home), &types, &carriers, false);
        let result = async {
            let mut read = BTreeSet::new();
            while read.len() < parts.len() {
                let now = next(parts.len(), &over, &read)?;
                let (told, mut memory) = (told(&home, &over, &now, &columns), self.memory.nothing());
                // Where there is no room for them, all rows come.
                let told = if memory.grow_to(told.bytes).is_ok() { told } else { Told::default() };
                let fewer = |(n, number): (&usize, &usize)| {
                    (*n, Part { text: over.semijoins[*number].text.clone(), ..parts[*n].clone() })
                };
                let fewer: BTreeMap<usize, Part> = told.number_of.iter().map(fewer).collect();
                let texts: Vec<&Part> = (0..parts.len()).map(|n| fewer.get(&n).unwrap_or(parts[n])).collect();
                let mut nodes = vec![BTreeSet::new(); parts.len()];
                for n in &now {
                    nodes[*n] = self.part_nodes(compiled, request, parts[*n]).await?;
                }
                let keep = if fewer.is_empty() { keep } else { Keep::No };
                let fill = Fill { children: told.children, ..Fill::new(&bound, &self.now) };
                let asked = together::asked(&texts, nodes, &columns, &formats, &fill);
                let mut opened = vec![];
                if self.opens_together() {
                    let wanted: Vec<_> = asked.iter().map(Asked::wanted).collect();
                    opened = self.open_together(&wanted).await?;
                }
                for asked in &asked {
                    let lanes =
                        self.ask_opened(&asked.nodes, &asked.statement, &asked.formats, keep, &mut opened).await?;
                    self.collect(lanes, asked, std::slice::from_mut(&mut home), &Partitioning::one()).await?;
                }
                read.extend(now);
            }
            let mut rows = home.answers().await?;
            if joined {
                rows = home.spill.before_join(self, rows, &types, lookups).await?;
            }
            let answers = Answers { whole: compiled.plan.whole(), keep, columns: &columns, rows };
            self.finish_over(request, text, described, answers, home.spill.lane.as_mut()).await
        }
        .await;
        home.spill.end(self).await;
        result
    }

    /// How the values of parts travel; of all that is made of them here whether values are the same bytes.
    pub async fn part_carriers(&mut self, columns: &[PartColumns]) -> Result<Vec<Carriers>> {
        let mut carriers = Vec::with_capacity(columns.len());
        for c in columns {
            carriers.push(self.carry_unread(c.types.iter().map(String::as_str)).await?);
        }
        Ok(carriers)
    }

    /// Home says of the finish what it said of the statement: rows in tables' places are seen to mean something else by errors and
    /// types. Asked once.
    pub async fn agrees(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        parts: &[&Part],
        text: &Text,
        described: &Described,
    ) -> Result<()> {
        if compiled.agrees.initialized() {
            return Ok(());
        }
        let bound = described.parameters(request);
        let columns = self.part_columns(compiled, parts, &bound).await?;
        let fill = Fill { children: no_rows(&columns), ..Fill::new(&bound, &self.now) };
        let statement = fill.statement([text]);
        self.is_described_so(&statement, described).await?;
        let _ = compiled.agrees.set(());
        Ok(())
    }

    /// Home says of a finish that its columns are of the same types.
    pub async fn is_described_so(&mut self, finish: &NodeStatement, described: &Described) -> Result<()> {
        let types = |d: &Described| d.fields.iter().flatten().map(|f| f.type_oid).collect::<Vec<_>>();
        let own = self.describe_text(&finish.sql, &finish.types).await.map_err(not_in_place)?;
        match types(&own) == types(described) {
            true => Ok(()),
            false => Err(plan::Refusal::not_in_place("its columns would be of other types").into()),
        }
    }

    /// Behind a finish that has read local or reference tables: they may have become others while it waited for their locks.
    pub async fn still_planned(&mut self) -> Result<()> {
        if self.own_catalog || !self.kinds_have_changed().await? {
            return Ok(());
        }
        let message = "tables were distributed, or made local or reference tables, while the statement ran";
        Err(ExecError::sql(sqlstate::T_R_SERIALIZATION_FAILURE, message).hint("Try it again."))
    }

    /// Runs a statement over answers that are already here; on `lane`, if that has some of them.
    pub async fn finish_over(
        &mut self,
        request: &Request<'_>,
        text: &Text,
        described: &Described,
        Answers { whole, keep, columns, rows }: Answers<'_>,
        lane: Option<&mut Lane>,
    ) -> Result<String> {
        self.keep_time().await?;
        let bound = described.parameters(request);
        let children = rows.into_iter().zip(columns).enumerate().map(|(n, (rows, c))| {
            let source = match rows {
                PartRows::Held(arrays) => Source::Arrays(arrays.finish()),
                PartRows::Stored => Source::Table(spill::table(n)),
            };
            Child { source, types: c.types.clone(), fenced: c.has_domains(), names: None }
        });
        let fill = Fill { children: children.collect(), ..Fill::new(&bound, &self.now) };
        let statement = fill.statement([text]);
        if let Some(lane) = lane {
            rows::send_statement(lane, None, &statement, false, request.result_formats());
            lane.conn.flush().await?;
            self.describe_to_client(request, described);
            return Ok(forward(lane, self.client, false, Ids::Home).await?.tag);
        }
        let mark = self.mark(keep, &statement);
        let home = self.home();
        let mut p = self.lane(home).await?;
        self.takes_part(&mut p, whole);
        rows::send_statement(&mut p.lane, mark.as_deref(), &statement, false, request.result_formats());
        let result = async {
            p.lane.conn.flush().await?;
            self.describe_to_client(request, described);
            forward(&mut p.lane, self.client, false, Ids::Home).await
        }
        .await;
        self.put_back(p).await;
        Ok(result?.tag)
    }
}

/// Which parts are asked now: those that wait for no other's rows, at first.
fn next(parts: usize, over: &Over, read: &BTreeSet<usize>) -> Result<BTreeSet<usize>> {
    let waits = |n: &usize| {
        over.chosen.iter().map(|s| &over.semijoins[*s]).any(|s| s.child == *n && !read.contains(&s.partner))
    };
    let now: BTreeSet<usize> = (0..parts).filter(|n| !read.contains(n) && !waits(n)).collect();
    if now.is_empty() { Err(ExecError::internal("parts wait for each other's rows")) } else { Ok(now) }
}

/// Values of rows that have come, for the nodes that are asked for others.
#[derive(Default)]
struct Told {
    /// Parts that are asked for by them, and by which semijoin.
    number_of: BTreeMap<usize, usize>,
    /// By semijoin.
    children: Vec<Child>,
    bytes: usize,
}

fn told(home: &Destination<'_>, over: &Over, now: &BTreeSet<usize>, columns: &[PartColumns]) -> Told {
    let mut all = Told::default();
    for number in over.chosen {
        let semijoin = &over.semijoins[*number];
        if now.contains(&semijoin.child)
            && let Some(values) = home.told(semijoin.partner, &semijoin.columns)
        {
            all.bytes += values.bytes();
            put_told(&mut all.children, *number, semijoin, values, columns);
            all.number_of.insert(semijoin.child, *number);
        }
    }
    all
}

/// Values as the rows of a statement's semijoin; those that are not made have none.
pub fn put_told(
    children: &mut Vec<Child>,
    number: usize,
    semijoin: &Semijoin,
    values: Arrays,
    columns: &[PartColumns],
) {
    let rows = |values: Vec<Array>, types| Child { source: Source::Arrays(values), types, fenced: false, names: None };
    children.resize_with(children.len().max(number + 1), || rows(vec![], vec![]));
    let types = semijoin.columns.iter().map(|c| columns[semijoin.partner].bare[*c].clone()).collect();
    children[number] = rows(values.finish(), types);
}

/// Whether [`Work::agrees`] found that home says the same.
pub fn agreed(found: Result<()>) -> Result<bool> {
    match found {
        Ok(()) => Ok(true),
        Err(ExecError::Refused(_)) => Ok(false),
        Err(e) => Err(e),
    }
}

/// The children of a statement that is not run: none of them has a row.
pub fn no_rows(columns: &[PartColumns]) -> Vec<Child> {
    let child = |c: &PartColumns| {
        let none = |t: &String| Array { carried: Carried::unread(t), value: None };
        let source = Source::Arrays(c.types.iter().map(none).collect());
        Child { source, types: c.types.clone(), fenced: false, names: None }
    };
    columns.iter().map(child).collect()
}

//! A query whose tables' rows go to nodes by what they are joined by: each row comes to the router once, and goes on to a node, into a
//! temporary table on a connection of the statement's own. There the nodes answer, and home makes one answer of theirs.
//!
//! What nodes answer is not known here (`plan/src/gather/shuffle.rs`), nor when this is done (`query/ways.rs`).

use std::collections::BTreeSet;
use std::sync::Arc;

use catalog::NodeId;
use plan::{Shuffle, Statement};
use wire::sqlstate;

use crate::carried::{Carried, Carriers};
use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::query::finish::{Answers, agreed, no_rows};
use crate::query::gathered;
use crate::query::part_rows::{By, Destination, Partitioning};
use crate::query::spill::{self, Spill};
use crate::query::together::{self, Asked};
use crate::render::{Child, Fill, Source};
use crate::request::{Bound, Keep, Request};
use crate::router::compiled::Compiled;
use crate::router::described::{Described, PartColumns};
use crate::work::Work;
use crate::work::describe::not_in_place;
use crate::work::rows;

/// Over what nodes answer.
struct Shuffled<'s> {
    whole: &'s plan::Whole,
    shuffle: &'s Shuffle,
    bound: &'s Bound,
    described: &'s Described,
    /// The types of the columns of each table's rows.
    types: &'s [&'s [String]],
    /// The columns of what nodes answer, and how their values travel.
    answers: &'s [PartColumns],
    carriers: &'s [Carriers],
}

impl<C: Client> Work<'_, C> {
    /// Answers a query so; `None`: nodes can't take its rows, or home would not understand it, and nothing was told.
    pub async fn shuffle(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        statement: &Statement,
        shuffle: &Shuffle,
    ) -> Result<Option<String>> {
        let described = self.described(compiled, request.types()).await?;
        let bound = described.parameters(request);
        let parts = statement.children.iter().map(gathered).collect::<Result<Vec<_>>>()?;
        if !agreed(self.agrees(compiled, request, &parts, &statement.text, &described).await)? {
            return Ok(None);
        }
        let columns = self.part_columns(compiled, &parts, &bound).await?;
        let Some(answers) = self.shuffled_columns(compiled, shuffle, &columns, &bound, &described).await? else {
            return Ok(None);
        };
        // Before any row moves: some values can't travel under the session's settings.
        let answer_carriers = match self.part_carriers(&answers).await {
            Err(e) if e.code() == sqlstate::FEATURE_NOT_SUPPORTED => return Ok(None),
            carriers => carriers?,
        };
        let mut nodes = Vec::with_capacity(parts.len());
        for part in &parts {
            nodes.push(self.part_nodes(compiled, request, part).await?);
        }
        let types: Vec<_> = columns.iter().map(|c| &c.types[..]).collect();
        let carriers = self.part_carriers(&columns).await?;
        let Some(by) = by(shuffle, &carriers) else { return Ok(None) };
        let all: BTreeSet<NodeId> = nodes.iter().flatten().copied().collect();
        let Some(mut destinations) = self.destinations(&all, &types, &carriers).await? else { return Ok(None) };
        let formats: Vec<_> = carriers.iter().map(Carriers::formats).collect();
        // One cut over all nodes is not asked for: `ways.rs` sees to that.
        let asked = together::asked(&parts, nodes, &columns, &formats, &Fill::new(&bound, &self.now));
        let partitioning = Partitioning::by(by, destinations.len());
        let done = async {
            for asked in &asked {
                let keep = compiled.keep(request);
                let lanes = self.ask_part(&asked.nodes, &asked.statement, &asked.formats, keep).await?;
                self.collect(lanes, asked, &mut destinations, &partitioning).await?;
            }
            let each = destinations.iter_mut().map(|one| one.prepare(&statement.lookups));
            futures_util::future::try_join_all(each).await?;
            let over = Shuffled {
                whole: compiled.plan.whole(),
                shuffle,
                bound: &bound,
                described: &described,
                types: &types,
                answers: &answers,
                carriers: &answer_carriers,
            };
            self.finish_shuffled(request, over, &mut destinations).await
        }
        .await;
        self.end(destinations).await;
        let tag = done?;
        if shuffle.reads_more {
            self.still_planned().await?;
        }
        Ok(Some(tag))
    }

    /// Tables on all of these nodes; `None`: one of them has no room for them.
    async fn destinations<'t>(
        &mut self,
        nodes: &BTreeSet<NodeId>,
        types: &'t [&'t [String]],
        carriers: &[Carriers],
    ) -> Result<Option<Vec<Destination<'t>>>> {
        // Whoever has tables waits for connections to read by: so there is one more than tables may have.
        let readers = self.lanes_to(nodes.iter().copied()).await?;
        let (mut all, mut made) = (Vec::with_capacity(nodes.len()), Ok(true));
        for node in nodes {
            made = match Spill::at(self, *node, types).await {
                Ok(Some(spill)) => {
                    all.push(Destination::new(spill, types, carriers, true));
                    continue;
                }
                other => other.map(|_| false),
            };
            break;
        }
        self.abandon(readers).await;
        all.iter().for_each(|one| one.spill.heed_cancels(self));
        match made {
            Ok(true) => Ok(Some(all)),
            other => {
                self.end(all).await;
                other.map(|_| None)
            }
        }
    }

    /// Their tables go with their transactions.
    async fn end(&mut self, destinations: Vec<Destination<'_>>) {
        for one in destinations {
            one.spill.end(self).await;
        }
    }

    /// The nodes' answers over the rows that they have, and home's over these.
    async fn finish_shuffled(
        &mut self,
        request: &Request<'_>,
        over: Shuffled<'_>,
        destinations: &mut [Destination<'_>],
    ) -> Result<String> {
        let Shuffled { whole, shuffle, bound, described, types, answers, carriers } = over;
        let stored = |(n, types): (usize, &&[String])| {
            let source = Source::Table(spill::table(n));
            Child { source, types: types.to_vec(), fenced: false, names: None }
        };
        let children = types.iter().enumerate().map(stored).collect();
        let answer_types: Vec<_> = answers.iter().map(|c| &c.types[..]).collect();
        let mut home = Destination::new(Spill::new(self, false), &answer_types, carriers, false);
        let fill = Fill { children, ..Fill::new(bound, &self.now) };
        let asked = |(n, (text, carriers)): (usize, (&plan::Text, &Carriers))| Asked {
            // Those that have the tables.
            nodes: BTreeSet::new(),
            parts: vec![n],
            statement: fill.statement([text]),
            formats: carriers.formats(),
        };
        let asked: Vec<Asked> = shuffle.parts.iter().zip(carriers).enumerate().map(asked).collect();
        let done = async {
            for asked in &asked {
                for lane in destinations.iter_mut().filter_map(|one| one.spill.lane.as_mut()) {
                    let foreign = lane.node != self.home();
                    rows::send_statement(lane, None, &asked.statement, foreign, &asked.formats);
                    lane.conn.flush().await?;
                }
                for lane in destinations.iter_mut().filter_map(|one| one.spill.lane.as_mut()) {
                    self.read_rows(lane, asked, std::slice::from_mut(&mut home), &Partitioning::one()).await?;
                }
            }
            let mut rows = home.answers().await?;
            if shuffle.text.rows_named() > 1 {
                rows = home.spill.before_join(self, rows, &answer_types, &[]).await?;
            }
            let answers = Answers { whole, keep: Keep::No, columns: answers, rows };
            self.finish_over(request, &shuffle.text, described, answers, home.spill.lane.as_mut()).await
        }
        .await;
        home.spill.end(self).await;
        done
    }

    /// The columns of what nodes answer, asked once; `None`: home would finish it otherwise than it does the statement.
    async fn shuffled_columns(
        &mut self,
        compiled: &Compiled,
        shuffle: &Shuffle,
        columns: &[PartColumns],
        bound: &Bound,
        described: &Described,
    ) -> Result<Option<Arc<Vec<PartColumns>>>> {
        if let Some(known) = compiled.ways.shuffled.get() {
            return Ok(known.clone());
        }
        let asked = match self.ask_shuffled_columns(shuffle, columns, bound, described).await {
            Ok(all) => Some(Arc::new(all)),
            Err(ExecError::Refused(_)) => None,
            // What has no name can't travel.
            Err(e) if e.code() == sqlstate::FEATURE_NOT_SUPPORTED => None,
            Err(e) => return Err(e),
        };
        Ok(compiled.ways.shuffled.get_or_init(|| async { asked }).await.clone())
    }

    async fn ask_shuffled_columns(
        &mut self,
        shuffle: &Shuffle,
        columns: &[PartColumns],
        bound: &Bound,
        described: &Described,
    ) -> Result<Vec<PartColumns>> {
        let mut all = Vec::with_capacity(shuffle.parts.len());
        for text in &shuffle.parts {
            let fill = Fill { children: no_rows(columns), ..Fill::new(bound, &self.now) };
            let statement = fill.statement([text]);
            let answer = self.describe_text(&statement.sql, &statement.types).await.map_err(not_in_place)?;
            // A domain may forbid the NULLs that a join makes of its columns.
            all.push(self.columns_of(&statement, answer.fields.unwrap_or_default(), false).await?);
        }
        let finish = Fill { children: no_rows(&all), ..Fill::new(bound, &self.now) }.statement([&shuffle.text]);
        self.is_described_so(&finish, described).await.map(|()| all)
    }
}

/// By what rows go; `None`: equal values of those columns travel as different bytes.
fn by(shuffle: &Shuffle, carriers: &[Carriers]) -> Option<Vec<Option<By>>> {
    let carried = |(key, carriers): (&Option<plan::Key>, &Carriers)| {
        key.as_ref().map(|key| carriers.iter().nth(key.column).map(|c| (key.column, *c)))
    };
    let all: Vec<_> = shuffle.by.iter().zip(carriers).map(carried).collect();
    let kinds: BTreeSet<_> = all.iter().flatten().map(|c| c.map(|(_, c)| c.kind())).collect();
    let by = |one: Option<Option<(usize, Carried)>>| {
        one.flatten().map(|(column, c)| By { column, integers: c.is_integer() })
    };
    (kinds.len() == 1 && !kinds.contains(&None)).then(|| all.into_iter().map(by).collect())
}

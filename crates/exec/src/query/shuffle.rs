//! A query whose tables' rows go to nodes by what they are joined by: each row comes to the router once, and goes on to the place of its
//! value, a temporary table on a connection of the statement's own. There the nodes answer, and home makes one answer of theirs.
//!
//! What nodes answer is not known here (`plan/src/gather/shuffle.rs`), nor when this is done (`query/ways.rs`).

use std::collections::BTreeSet;
use std::sync::Arc;

use catalog::NodeId;
use plan::{Shuffle, Statement};

use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::query::finish::no_rows;
use crate::query::gathered;
use crate::query::part_rows::{Goes, Place};
use crate::query::spill::{self, Spill};
use crate::query::together::{self, Asked};
use crate::render::{Child, Fill, Source};
use crate::request::{Bound, Keep, Request};
use crate::router::compiled::Compiled;
use crate::router::described::{Described, PartColumns};
use crate::work::Work;
use crate::work::rows;

impl<C: Client> Work<'_, C> {
    /// Answers a query so; `None`: there is no place for its rows, or home would not understand it, and nothing was told.
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
        if self.agrees(compiled, request, &parts, &statement.text, &described).await.is_err() {
            return Ok(None);
        }
        let columns = self.part_columns(compiled, &parts, &bound).await?;
        let answers = self.shuffle_columns(compiled, shuffle, &columns, &bound, &described).await?;
        let mut nodes = Vec::with_capacity(parts.len());
        for part in &parts {
            nodes.push(self.part_nodes(compiled, request, part).await?);
        }
        let types: Vec<_> = columns.iter().map(|c| &c.types[..]).collect();
        let carriers = self.part_carriers(&columns).await?;
        if answers.is_empty() {
            return Ok(None);
        }
        let all: BTreeSet<NodeId> = nodes.iter().flatten().copied().collect();
        let mut places = Vec::with_capacity(all.len());
        for node in &all {
            match Spill::at(self, *node, &types).await {
                Ok(Some(spill)) => places.push(Place::new(spill, &types, &carriers, true)),
                // A node without room for it leaves all to home.
                Ok(None) => {
                    end(places).await;
                    return Ok(None);
                }
                Err(e) => {
                    end(places).await;
                    return Err(e);
                }
            }
        }
        let formats: Vec<_> = carriers.iter().map(|c| c.formats()).collect();
        let asked = together::asked(&parts, nodes, &columns, &formats, &Fill::new(&bound, &self.now));
        let done = async {
            self.send_rows(&asked, &mut places, &Goes::by(&shuffle.by, all.len()), compiled.keep(request)).await?;
            for place in &mut places {
                let stored = place.end().await?;
                place.spill.before_join(self, stored, &types, &statement.lookups).await?;
            }
            let over = (&types[..], &answers[..]);
            self.finish_shuffle(request, shuffle, (&bound, &described), over, &mut places).await
        }
        .await;
        end(places).await;
        done.map(Some)
    }

    /// Each row of the parts to its place.
    async fn send_rows(
        &mut self,
        asked: &[Asked],
        places: &mut [Place<'_>],
        goes: &Goes<'_>,
        keep: Keep,
    ) -> Result<()> {
        for asked in asked {
            let lanes = self.ask_part(&asked.nodes, &asked.statement, &asked.formats, keep).await?;
            self.collect(lanes, asked, places, goes).await?;
        }
        Ok(())
    }

    /// The nodes' answers over the rows that they have, and home's over these.
    async fn finish_shuffle(
        &mut self,
        request: &Request<'_>,
        shuffle: &Shuffle,
        (bound, described): (&Bound, &Described),
        (types, answers): (&[&[String]], &[PartColumns]),
        places: &mut [Place<'_>],
    ) -> Result<String> {
        let stored = |(n, types): (usize, &&[String])| {
            let source = Source::Table(spill::table(n));
            Child { source, types: types.to_vec(), names: None }
        };
        let children = types.iter().enumerate().map(stored).collect();
        let carriers = self.part_carriers(answers).await?;
        let answer_types: Vec<_> = answers.iter().map(|c| &c.types[..]).collect();
        let mut home = Place::new(Spill::new(self, false), &answer_types, &carriers, false);
        let fill = Fill { children, ..Fill::new(bound, &self.now) };
        let asked: Vec<Asked> = (shuffle.parts.iter().zip(&carriers).enumerate())
            .map(|(n, (text, carriers))| Asked {
                nodes: BTreeSet::new(),
                parts: vec![n],
                statement: fill.statement([text]),
                formats: carriers.formats(),
            })
            .collect();
        let done = async {
            for asked in &asked {
                for lane in places.iter_mut().filter_map(|place| place.spill.lane.as_mut()) {
                    let foreign = lane.node != self.home();
                    rows::send_statement(lane, None, &asked.statement, foreign, &asked.formats);
                    lane.conn.flush().await?;
                }
                for lane in places.iter_mut().filter_map(|place| place.spill.lane.as_mut()) {
                    self.read_rows(lane, asked, std::slice::from_mut(&mut home), &Goes::home()).await?;
                }
            }
            let mut held = home.end().await?;
            if shuffle.text.rows_named() > 1 {
                held = home.spill.before_join(self, held, &answer_types, &[]).await?;
            }
            let over = (Keep::No, answers, held);
            self.finish_over(request, &shuffle.text, described, over, home.spill.lane.as_mut()).await
        }
        .await;
        home.spill.end().await;
        done
    }

    /// The columns of what nodes answer, asked once; none, where home would finish it otherwise than it does the statement.
    async fn shuffle_columns(
        &mut self,
        compiled: &Compiled,
        shuffle: &Shuffle,
        columns: &[PartColumns],
        bound: &Bound,
        described: &Described,
    ) -> Result<Arc<Vec<PartColumns>>> {
        if let Some(known) = compiled.ways.shuffle.get() {
            return Ok(known.clone());
        }
        let mut all = Vec::with_capacity(shuffle.parts.len());
        for text in &shuffle.parts {
            let fill = Fill { children: no_rows(columns), ..Fill::new(bound, &self.now) };
            let statement = fill.statement([text]);
            let fields = match self.describe_text(&statement.sql, &statement.types).await {
                Ok(described) => described.fields.unwrap_or_default(),
                Err(ExecError::Sql(_)) => return Ok(Arc::default()),
                Err(e) => return Err(e),
            };
            all.push(self.columns_of(&statement, fields, true).await?);
        }
        let finish = Fill { children: no_rows(&all), ..Fill::new(bound, &self.now) }.statement([&shuffle.text]);
        match self.is_described_so(&finish, described).await {
            Ok(()) => {}
            Err(ExecError::Sql(_) | ExecError::Refused(_)) => all.clear(),
            Err(e) => return Err(e),
        }
        let all = Arc::new(all);
        let _ = compiled.ways.shuffle.set(all.clone());
        Ok(all)
    }
}

/// Their tables go with their transactions.
async fn end(places: Vec<Place<'_>>) {
    for place in places {
        place.spill.end().await;
    }
}

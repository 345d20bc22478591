//! PostgreSQL finishes: the parts' rows go to one node as typed arrays, and the outer query runs there.

use plan::{Part, Text};
use txn::Lane;
use wire::sqlstate;

use crate::arrays::Array;
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
}

/// What parts have answered.
pub struct Answers<'c> {
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
        let Over { text, reads_home, joined, lookups } = over;
        let bound = described.parameters(request);
        let keep = compiled.keep(request);
        let columns = self.part_columns(compiled, parts, &bound).await?;
        let carriers = self.part_carriers(&columns).await?;
        let formats: Vec<_> = carriers.iter().map(Carriers::formats).collect();
        let mut nodes = Vec::with_capacity(parts.len());
        for part in parts {
            nodes.push(self.part_nodes(compiled, request, part).await?);
        }
        let fill = Fill::new(&bound, &self.now);
        let asked = together::asked(parts, nodes, &columns, &formats, &fill);
        let mut opened = vec![];
        if self.opens_together() {
            let wanted: Vec<_> = asked.iter().map(Asked::wanted).collect();
            opened = self.open_together(&wanted).await?;
        }
        let types: Vec<_> = columns.iter().map(|c| &c.types[..]).collect();
        let mut home = Destination::new(Spill::new(self, reads_home), &types, &carriers, false);
        let result = async {
            for asked in &asked {
                let lanes = self.ask_opened(&asked.nodes, &asked.statement, &asked.formats, keep, &mut opened).await?;
                self.collect(lanes, asked, std::slice::from_mut(&mut home), &Partitioning::one()).await?;
            }
            let mut rows = home.answers().await?;
            if joined {
                rows = home.spill.before_join(self, rows, &types, lookups).await?;
            }
            let answers = Answers { keep, columns: &columns, rows };
            self.finish_over(request, text, described, answers, home.spill.lane.as_mut()).await
        }
        .await;
        home.spill.end(self).await;
        result
    }

    /// How the values of parts travel.
    pub async fn part_carriers(&mut self, columns: &[PartColumns]) -> Result<Vec<Carriers>> {
        let mut carriers = Vec::with_capacity(columns.len());
        for c in columns {
            carriers.push(self.carry(c.types.iter().map(String::as_str)).await?);
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
        Answers { keep, columns, rows }: Answers<'_>,
        lane: Option<&mut Lane>,
    ) -> Result<String> {
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
        let none = |t: &String| Array { carried: Carried::of(t), value: None };
        let source = Source::Arrays(c.types.iter().map(none).collect());
        Child { source, types: c.types.clone(), fenced: false, names: None }
    };
    columns.iter().map(child).collect()
}

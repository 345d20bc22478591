//! An UPDATE, DELETE or MERGE over rows that are read beforehand: all of them in the transaction, before anything is written, as
//! the client reads. They wait in the router; then each node of the target gets them with its statement, as arrays. Those of a MERGE
//! that inserts go to the nodes of their shards alone (`change_split.rs`).
//!
//! What is read is not known here, nor why.

use plan::{ChangeFrom, CopiesFrom, InTwo, Made, Planned, Verb};
use txn::Cuts;

use crate::arrays::Arrays;
use crate::budget::Taken;
use crate::carried::{Carried, Carriers};
use crate::client::Client;
use crate::error::Result;
use crate::render::{Child, Fill, NodeStatement, Source};
use crate::request::{Bound, Request};
use crate::router::compiled::Compiled;
use crate::router::described::{Described, PartColumns};
use crate::work::Work;
use crate::work::cut::refuse_block;
use crate::work::describe::not_in_place;
use crate::write::capture::{Consumer, Rows};
use crate::write::change_split::{SplitRows, seen};

impl<C: Client> Work<'_, C> {
    /// Reads what the change needs, and makes it on every node of its target; the command's tag.
    pub async fn change_from(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        verb: Verb,
        from: &ChangeFrom,
    ) -> Result<String> {
        if let Some(clock) = compiled.plan.whole().clock.as_deref().filter(|_| !self.transaction.is_active()) {
            // What is read and what is changed see one time: the transaction's.
            self.need_transaction();
            if let Some(anew) = self.at_moment(compiled, request, clock).await?
                && let Planned::Modify { change: plan::Change::From(from), .. } = &anew.plan
            {
                let request = Request { sql: &anew.text, literals: crate::request::Literals::Own, ..*request };
                return Box::pin(self.change_over(&anew, &request, verb, from)).await;
            }
        }
        self.change_over(compiled, request, verb, from).await
    }

    async fn change_over(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        verb: Verb,
        from: &ChangeFrom,
    ) -> Result<String> {
        let (described, bound) = self.described_bound(compiled, request).await?;
        if let Made::Copies(copies) = &from.made
            && !self.may_return(&copies.relation).await?
        {
            return Err(copies.unreturned.clone().into());
        }
        let reads = compiled.reads(from);
        let mut columns = self.columns_read(compiled, &reads, &bound).await?;
        if let Some(split) = &from.split {
            seen(split, &mut std::sync::Arc::make_mut(&mut columns)[split.read])?;
        }
        let mut carriers = Vec::with_capacity(columns.len());
        for c in columns.iter() {
            carriers.push(self.carry_unread(c.types.iter().map(String::as_str)).await?);
        }
        self.change_agrees(compiled, from, &columns, &bound, &described).await?;
        self.need_transaction();
        if reads.len() > 1 && self.transaction.wants == Cuts::All {
            self.cut_for_read().await?;
            if self.opens_together() {
                return Err(refuse_block());
            }
        }
        if let Made::InTwo(m) = &from.made
            && m.matched.is_some()
        {
            self.stop_other_writers(m).await?;
        }
        let nodes = self.part_nodes(compiled, request, from.each()).await?;
        let uses = self.uses.clone();
        let mut memory = self.memory.nothing();
        let (mut children, mut before) = (Vec::with_capacity(reads.len()), 0);
        let mut split_rows = None;
        for (n, (read, columns)) in reads.iter().zip(columns.iter()).enumerate() {
            self.uses = read.plan.whole().sequences.clone();
            // As they travel, whatever the client wants of RETURNING.
            let mut formats = carriers[n].formats();
            if let Some(split) = from.split.as_ref().filter(|s| s.read == n && !formats.is_empty()) {
                // The router reads keys as text.
                formats.resize(formats.len() + split.hidden(), 0);
            }
            let inner = bound.for_columns(formats);
            let less = inner.without_strangers(&read.text);
            let said = request.bound.is_some() || !inner.result_formats.is_empty();
            let request = Request::bound(&read.text, said.then_some(less.as_ref().unwrap_or(&inner)));
            if let Some(split) = from.split.as_ref().filter(|s| s.read == n) {
                let bounds = split.relation.distribution().map(|d| self.epoch.bounds(d.group.id)).unwrap_or_default();
                let held = (1 + nodes.len()) * before;
                let mut rows = SplitRows::new(split, bounds, &carriers[n], held, &mut memory)?;
                self.read_into(read, &request, Rows::Kept(&mut rows)).await?;
                before += rows.bytes;
                let (split, rest) = rows.finish();
                split_rows = Some((n, split));
                children.push(child(columns, rest));
                continue;
            }
            let held = Arrays::new(&carriers[n]);
            // They are here, and on their way to each node.
            let mut rows = RowsHeld { held, before, copies: 1 + nodes.len(), memory: &mut memory };
            self.read_into(read, &request, Rows::Kept(&mut rows)).await?;
            before += rows.held.bytes();
            children.push(child(columns, rows.held));
        }
        self.uses = uses;
        if reads.iter().any(|r| r.plan.whole().needs_home) {
            self.still_planned().await?;
        }
        // What all nodes get, and what goes with the rows of one.
        let (common, own) = match &from.made {
            Made::Each(part) if split_rows.is_some() => (None, Some(part)),
            Made::Each(part) => (Some(part), None),
            Made::Stay(s) => (Some(&s.part), None),
            Made::InTwo(m) => (m.matched.as_ref(), Some(&m.inserts)),
            Made::Move(m) => return self.move_rows(compiled, request, m, &nodes, children).await,
            Made::Copies(copies) => {
                let count = self.copies_from(request, copies, children, &bound, &described).await?;
                return Ok(format!("{} {count}", verb.as_str()));
            }
        };
        let mut fill = Fill { children, ..Fill::new(&bound, &self.now) };
        let mut texts = vec![];
        if let Some(part) = common {
            let statement = fill.statement([&part.text]);
            texts.push(nodes.iter().map(|node| (*node, statement.clone())).collect::<Vec<_>>());
        }
        if let Some((part, (n, split))) = own.zip(split_rows) {
            let mut text = |(node, rows)| {
                fill.children[n] = child(&columns[n], rows);
                (node, fill.statement([&part.text]))
            };
            texts.push(split.into_iter().map(&mut text).collect());
        }
        self.describe_to_client(request, &described);
        let mut count = 0;
        for texts in &texts {
            count += self.each_its_own(texts, request).await.map_err(|e| match &from.made {
                Made::Stay(s) => e.unless_stays(|| s.otherwise.clone().into()),
                _ => e,
            })?;
        }
        Ok(format!("{} {count}", verb.as_str()))
    }

    /// Of two statements the second sees what the first one saw.
    async fn stop_other_writers(&mut self, m: &InTwo) -> Result<()> {
        if !self.may_stop_writers(&m.relation).await? {
            let why = "MERGE over several nodes that inserts rows where ON does not say which key they get is not supported without \
                       the right to UPDATE, DELETE or TRUNCATE";
            return Err(plan::Refusal::new(why, format!("GRANT one of them ON {}.", m.relation.name)).into());
        }
        let shards = m.relation.distribution().map(|d| d.group.shards.as_slice()).unwrap_or_default();
        self.stop_writers(&m.relation, shards.iter().map(|s| s.node).collect()).await
    }

    /// On home, and then on the other nodes.
    async fn copies_from(
        &mut self,
        request: &Request<'_>,
        copies: &CopiesFrom,
        children: Vec<Child>,
        bound: &Bound,
        described: &Described,
    ) -> Result<u64> {
        let home = self.home();
        let others = self.epoch.snapshot.nodes.iter().map(|n| n.id).filter(|n| *n != home).collect();
        let count = self.by_key(request, &copies.relation, &copies.by_key, children, bound, described, &others).await?;
        for relation in &copies.tied {
            self.compare_copies(relation).await?;
        }
        self.same_kinds().await?;
        Ok(count)
    }

    /// The columns of each query that is read, asked once.
    async fn columns_read(
        &mut self,
        compiled: &Compiled,
        reads: &[Compiled],
        bound: &Bound,
    ) -> Result<std::sync::Arc<Vec<PartColumns>>> {
        if let Some(known) = compiled.parts.get() {
            return Ok(known.clone());
        }
        let mut all = Vec::with_capacity(reads.len());
        for read in reads {
            let described = self.described(read, &bound.types).await.map_err(not_in_place)?;
            let values = bound.values.iter().map(|_| None).collect();
            let types = bound.types.to_vec();
            let statement = NodeStatement { sql: read.text.clone(), types, values, ..NodeStatement::default() };
            let fields = described.fields.clone().unwrap_or_default();
            if fields.is_empty() {
                return Err(plan::Refusal::not_in_place("there would be rows without columns").into());
            }
            all.push(self.columns_of(&statement, fields, true).await?);
        }
        Ok(compiled.parts.get_or_init(|| async { std::sync::Arc::new(all) }).await.clone())
    }

    /// Home says of the change over rows what it says of the client's statement: names that have come to mean something else are
    /// seen by errors and types. Asked once.
    async fn change_agrees(
        &mut self,
        compiled: &Compiled,
        from: &ChangeFrom,
        columns: &[PartColumns],
        bound: &Bound,
        described: &Described,
    ) -> Result<()> {
        if compiled.agrees.initialized() {
            return Ok(());
        }
        let children = columns
            .iter()
            .map(|c| child(c, Arrays::new(&Carriers::of(c.types.iter().map(|t| Carried::unread(t))))))
            .collect();
        let statement = Fill { children, ..Fill::new(bound, &self.now) }.statement([&from.each().text]);
        let own = self.describe_text(&statement.sql, &statement.types).await.map_err(not_in_place)?;
        let seen = |d: &Described| d.fields.iter().flatten().map(|f| (f.type_oid, f.name.clone())).collect::<Vec<_>>();
        let (own, client) = (seen(&own), seen(described));
        let same = match &from.made {
            Made::Each(_) | Made::Stay(_) | Made::InTwo(_) => own == client,
            Made::Move(_) => true,
            // What the copies need comes behind.
            Made::Copies(_) => own.starts_with(&client),
        };
        if !same {
            return Err(plan::Refusal::not_in_place("its columns would be others").into());
        }
        let _ = compiled.agrees.set(());
        Ok(())
    }
}

fn child(columns: &PartColumns, rows: Arrays) -> Child {
    let names = columns.fields.iter().map(|f| f.name.to_string()).collect();
    Child { source: Source::Arrays(rows.finish()), types: columns.types.clone(), fenced: false, names: Some(names) }
}

/// Rows of one query, counted with those of the queries before it.
struct RowsHeld<'m> {
    held: Arrays,
    before: usize,
    copies: usize,
    memory: &'m mut Taken,
}

impl Consumer for RowsHeld<'_> {
    fn row(&mut self, values: &[Option<&[u8]>]) -> Result<()> {
        self.held.push(values)?;
        self.memory.grow_to(self.copies * (self.before + self.held.bytes()))
    }
}

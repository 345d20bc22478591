//! Runs a query's tree over several nodes. Rows pass on to the client node after node, or merged in order, with one row a
//! node held; what PostgreSQL finishes is in `query/finish.rs`, what nodes answer over rows that were moved is chosen in `query/ways.rs`.

pub mod add_up;
pub mod by_shards;
mod column_plans;
mod columns;
pub mod cursor;
pub mod finish;
pub mod merge;
pub mod part_rows;
mod shuffle;
pub mod sizes;
pub mod spill;
mod together;
pub mod ways;

pub use self::column_plans::ColumnPlans;
use bytes::BytesMut;
use plan::{ChildRows, Count, Effect, Exchange, Finish, Merge, Part, Slice, To};
use txn::Participant;
use wire::sqlstate;

use crate::client::{Answer, Client};
use crate::error::{ExecError, Result};
use crate::query::cursor::{ALL, Leftover, Opening, Scroll};
use crate::query::finish::Over;
use crate::query::merge::{Merge as Merging, comparable};
use crate::query::ways::Went;
use crate::render::Fill;
use crate::request::{Bound, Request};
use crate::router::compiled::Compiled;
use crate::router::described::Described;
use crate::work::Work;
use crate::work::describe::refuse_rows;
use crate::work::rows::{self, Reply};

impl<C: Client> Work<'_, C> {
    /// A read over several nodes, as its tree says.
    pub async fn query(&mut self, compiled: &Compiled, request: &Request<'_>, finish: &Finish) -> Result<String> {
        if compiled.plan.whole().clock.is_some() {
            Box::pin(self.settle_now()).await?;
        }
        if finish.parts().iter().any(|part| matches!(part.columns, Some(plan::columns::ColumnRead::Can(_)))) {
            let described = self.described(compiled, request.types()).await?;
            if let Some(tag) = Box::pin(self.by_columns(compiled, request, finish, &described)).await? {
                compiled.has_run();
                return Ok(tag);
            }
        }
        if let Finish::PassOn { slice, .. } | Finish::Merge(Merge { slice, .. }) = finish
            && slice.locks
            && (slice.limit.is_some() || slice.offset.is_some())
        {
            let tag = Box::pin(self.one_by_one(compiled, request)).await?;
            compiled.has_run();
            return Ok(tag);
        }
        if compiled.plan.whole().effect == Effect::MayWrite {
            // What its functions do is undone if anything behind it fails.
            self.need_transaction();
        }
        self.cut_for_read().await?;
        let described = self.described(compiled, request.types()).await?;
        if !matches!(finish, Finish::Statement(_)) {
            self.join_by_shards(compiled).await?;
        }
        match finish {
            Finish::PassOn { rows, slice } => self.pass_on(compiled, request, rows, *slice, &described).await,
            Finish::Merge(merge) => self.merge(compiled, request, merge, &described).await,
            Finish::AddUp(add) => self.add_up(compiled, request, add, &described).await,
            Finish::Statement(s) => {
                let parts = s.children.iter().map(gathered).collect::<Result<Vec<_>>>()?;
                let chosen = match self.other_way(compiled, request).await? {
                    Went::Home(semijoins) => semijoins,
                    Went::Done(tag) => {
                        compiled.has_run();
                        return Ok(tag);
                    }
                };
                // Not before: another way has a transaction of its own.
                self.join_by_shards(compiled).await?;
                if s.as_described {
                    self.agrees(compiled, request, &parts, &s.text, &described).await?;
                }
                let t = &self.transaction;
                let alone = s.reads_what_all_see && !t.is_block() && t.cut.is_empty() && self.pin.is_free();
                let looked_up = s.lookups.iter().any(|by| !by.is_empty());
                let joined = s.reads_home || looked_up || s.text.rows_named() > 1;
                let over = Over {
                    text: &s.text,
                    reads_home: s.reads_home && !alone,
                    joined,
                    lookups: &s.lookups,
                    semijoins: &s.semijoins,
                    chosen: &chosen,
                };
                let tag = self.finish(compiled, request, &parts, over, &described).await?;
                if s.as_described && s.reads_home {
                    self.still_planned().await?;
                }
                Ok(tag)
            }
        }
        .inspect(|_| compiled.has_run())
    }

    /// Rows that are locked as they are taken, by cursors on the nodes. Merged, each node has locked one more than is taken at most.
    async fn one_by_one(&mut self, compiled: &Compiled, request: &Request<'_>) -> Result<String> {
        self.need_transaction();
        let described = self.described(compiled, request.types()).await?;
        let (name, leftover) = (format!("herd cursor {:016x}", rand::random::<u64>()), Leftover::default());
        let how = Opening { name: &name, scroll: Scroll::No, leftover: &leftover };
        let Some(mut cursor) = self.open_cursor(compiled, request, &how).await? else {
            let message = "FOR UPDATE and FOR SHARE with LIMIT are not supported with this ORDER BY over several nodes";
            return Err(ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, message)
                .hint("Order by columns whose types the router compares, or lock the rows by a query of their own."));
        };
        cursor.as_formats(request.result_formats());
        self.describe_to_client(request, &described);
        let sent = cursor.forward(self, ALL, &mut cursor::To::Client).await?;
        cursor.close(self).await?;
        Ok(format!("SELECT {sent}"))
    }

    /// Rows as they come, node after node.
    async fn pass_on(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        part: &Part,
        slice: Slice,
        described: &Described,
    ) -> Result<String> {
        let bound = described.parameters(request);
        let visible = described.fields.as_ref().map_or(0, Vec::len);
        let nodes = self.part_nodes(compiled, request, part).await?;
        let formats: Vec<i16> = (0..visible).map(|i| request.bound.map_or(0, |b| b.result_format(i))).collect();
        let (limit, offset) = counts(slice, &bound)?;
        let ids = crate::object_ids::columns(&self.epoch.snapshot, described.fields.as_deref(), request.bound);
        let statement = Fill::new(&bound, &self.now).statement([&part.text]);
        let statement = statement.answered_by(described.fields.iter().flatten());
        let mut lanes = self.ask_part(&nodes, &statement, &formats, compiled.keep(request)).await?;
        self.describe_to_client(request, described);
        let sent = self.append(&mut lanes, limit, offset, &ids).await;
        self.abandon(lanes).await;
        Ok(format!("SELECT {}", sent?))
    }

    /// Sorted rows of all nodes, merged by their hidden columns; by PostgreSQL where the router can't compare them.
    async fn merge(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        m: &Merge,
        described: &Described,
    ) -> Result<String> {
        let bound = described.parameters(request);
        let visible = described.fields.as_ref().map_or(0, Vec::len);
        let parts = [&m.rows];
        let nodes = self.part_nodes(compiled, request, &m.rows).await?;
        let columns = self.part_columns(compiled, &parts, &bound).await?;
        if !comparable(&columns[0].fields[visible..], m.bytewise) {
            refuse_rows(described.fields.as_deref().unwrap_or_default())?;
            let text = m.otherwise.as_ref().ok_or_else(|| {
                ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, "this ORDER BY is not supported over several nodes")
                    .hint("Name the columns instead of using *.")
            })?;
            // The finish wants exactly its own columns: hidden sort columns follow the visible ones in both.
            let over = Over::alone(text);
            return self.finish(compiled, request, &parts, over, described).await;
        }
        let ids = crate::object_ids::columns(&self.epoch.snapshot, described.fields.as_deref(), request.bound);
        let mut formats: Vec<i16> = (0..visible).map(|i| request.bound.map_or(0, |b| b.result_format(i))).collect();
        formats.extend(m.sort.iter().map(|_| 1));
        let slice = counts(m.slice, &bound)?;
        let fields = described.fields.iter().flatten().chain(&columns[0].fields[visible..]);
        let statement = Fill::new(&bound, &self.now).statement([&m.rows.text]).answered_by(fields);
        let mut lanes = self.ask_part(&nodes, &statement, &formats, compiled.keep(request)).await?;
        self.describe_to_client(request, described);
        let types = columns[0].fields[visible..].iter().map(|f| f.type_oid).collect();
        let merging = Merging::new(m.sort.clone(), types, visible, lanes.len());
        let sent = self.merge_lanes(&mut lanes, merging, slice, &ids).await;
        self.abandon(lanes).await;
        Ok(format!("SELECT {}", sent?))
    }

    /// A node's row, with home's object ids.
    fn tell_row(&mut self, row: &[u8], node: i32, ids: &crate::object_ids::OidColumns) -> Result<()> {
        if ids.is_empty() || node == self.home() {
            self.client.tell(Answer::Sent(row));
            return Ok(());
        }
        let mut row = BytesMut::from(row);
        crate::object_ids::rewrite(&mut row, ids)?;
        self.client.tell(Answer::Sent(&row));
        Ok(())
    }

    async fn append(
        &mut self,
        lanes: &mut [Participant],
        limit: Option<u64>,
        mut offset: u64,
        ids: &crate::object_ids::OidColumns,
    ) -> Result<u64> {
        let mut sent = 0;
        for p in lanes {
            while let Some(frame) = self.next_row(p).await? {
                if limit.is_some_and(|l| sent >= l) {
                    continue;
                }
                if offset > 0 {
                    offset -= 1;
                    continue;
                }
                self.tell_row(&frame.raw, p.lane.node, ids)?;
                sent += 1;
                self.client.relieve().await?;
            }
        }
        Ok(sent)
    }

    async fn merge_lanes(
        &mut self,
        lanes: &mut [Participant],
        mut merge: Merging,
        (limit, mut offset): (Option<u64>, u64),
        ids: &crate::object_ids::OidColumns,
    ) -> Result<u64> {
        for (i, p) in lanes.iter_mut().enumerate() {
            merge.put(i, self.next_row(p).await?)?;
        }
        let mut sent = 0;
        while limit.is_none_or(|l| sent < l) {
            let Some(i) = merge.smallest()? else { break };
            if offset > 0 {
                offset -= 1;
                merge.skip(i);
            } else {
                self.tell_row(merge.take(i)?, lanes[i].lane.node, ids)?;
                sent += 1;
                self.client.relieve().await?;
            }
            let row = self.next_row(&mut lanes[i]).await?;
            merge.put(i, row)?;
        }
        Ok(sent)
    }

    async fn next_row(&mut self, p: &mut Participant) -> Result<Option<wire::Frame>> {
        if let Some(row) = rows::row_here(&mut p.lane)? {
            return Ok(Some(row));
        }
        loop {
            match self.next_reply(&mut p.lane).await? {
                Reply::Row(frame) => return Ok(Some(frame)),
                Reply::Done => return Ok(None),
                _ => {}
            }
        }
    }
}

/// The Part whose rows come home, if nothing else becomes of them.
fn gathered(exchange: &Exchange) -> Result<&Part> {
    match exchange {
        Exchange { rows: ChildRows::Part(part), to: To::Gather } => Ok(part),
        Exchange { rows: ChildRows::Part(_) | ChildRows::Finish(_), .. } => Err(plan::Refusal::not_moved().into()),
    }
}

/// LIMIT and OFFSET of this execution.
fn counts(slice: Slice, bound: &Bound) -> Result<(Option<u64>, u64)> {
    let limit = count(slice.limit, bound, (sqlstate::INVALID_ROW_COUNT_IN_LIMIT_CLAUSE, "LIMIT"))?;
    let offset = count(slice.offset, bound, (sqlstate::INVALID_ROW_COUNT_IN_RESULT_OFFSET_CLAUSE, "OFFSET"))?;
    Ok((limit, offset.unwrap_or(0)))
}

/// LIMIT or OFFSET of this execution.
fn count(c: Option<Count>, bound: &Bound, (code, clause): (&'static str, &str)) -> Result<Option<u64>> {
    let Some(c) = c else { return Ok(None) };
    let n = match c {
        Count::Constant(n) => return Ok(Some(n)),
        Count::Param(n) => n,
    };
    let Some(Some(_)) = bound.values.get(n - 1) else { return Ok(None) };
    let failed = || ExecError::sql(sqlstate::INVALID_TEXT_REPRESENTATION, "LIMIT and OFFSET must be whole numbers");
    let number = bound.assigned(n - 1).ok_or_else(failed)?;
    match u64::try_from(number) {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(ExecError::sql(code, format!("{clause} must not be negative"))),
    }
}

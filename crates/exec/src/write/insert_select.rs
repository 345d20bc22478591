//! `INSERT … SELECT`: on the nodes where rows stay where they are, otherwise through the router.
//!
//! Through the router, the source's rows are caught instead of being sent to the client, and go on as COPY (or, with ON
//! CONFLICT or RETURNING, as INSERTs of whole batches) to the nodes they belong to: at once, if they can be read beside the
//! transaction; otherwise when all of them have been read in it.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::BytesMut;
use catalog::{Column, Relation};
use plan::{Insert, InsertSelect, Part, Planned};
use wire::{backend, frame, sqlstate};

use crate::carried::Carriers;
use crate::client::{Answer, Client};
use crate::error::{ExecError, Result};
use crate::kept_rows::KeptRows;
use crate::render::Fill;
use crate::request::{Literals, Request};
use crate::router::compiled::Compiled;
use crate::work::Work;
use crate::work::place::Placed;
use crate::work::planned::planned;
use crate::write::capture::{Capture, Consumer, Rows};
use crate::write::sink::{Sink, SinkKind};

/// The same work for another client: a macro, since each field is borrowed by itself.
macro_rules! caught {
    ($work:expr, $client:expr) => {
        Work {
            own_catalog: $work.own_catalog,
            taint: $work.taint,
            sequences: $work.sequences.as_deref_mut(),
            uses: $work.uses.clone(),
            now: $work.now.clone(),
            columns: $work.columns,
            moves: $work.moves,
            is_source: true,
            one_state: $work.one_state,
            within_ways: $work.within_ways,
            ..Work::plain(
                $work.herd,
                $work.epoch,
                ($work.login, $work.settings),
                $work.transaction,
                $client,
                $work.pin,
                $work.memory,
            )
        }
    };
}

impl<C: Client> Work<'_, C> {
    /// Rows stay where they are: the statement on every node concerned.
    pub async fn insert_in_place(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        relation: &Relation,
        part: &Part,
        nodes: &BTreeSet<i32>,
    ) -> Result<String> {
        let (described, bound) = self.described_bound(compiled, request).await?;
        let commits = self.commits_batches(relation, None, triggers(relation));
        if nodes.len() > 1 {
            self.cut_for_read_at_once().await?;
        }
        self.describe_to_client(request, &described);
        let statement = Fill::new(&bound, &self.now).statement([&part.text]);
        let count = match commits {
            true => self.everywhere_apart(nodes, &statement, request).await?,
            false => self.everywhere(nodes, &statement, request).await?,
        };
        Ok(format!("INSERT 0 {count}"))
    }

    /// The source's rows to their shards, or to all copies; the command's tag.
    pub async fn insert_select(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        i: &InsertSelect,
    ) -> Result<String> {
        // What the source reads and what is returned, or set where a row was there, is one time.
        if i.insert.tail.names_now()
            && let Some(anew) = self.at_own_moment(compiled, request).await?
            && let Planned::Insert { rows: Insert::Select(i), .. } = &anew.plan
        {
            let request = Request { sql: &anew.text, literals: Literals::Own, ..*request };
            return Box::pin(self.insert_rows_of(&anew, &request, i)).await;
        }
        self.insert_rows_of(compiled, request, i).await
    }

    async fn insert_rows_of(&mut self, compiled: &Compiled, request: &Request<'_>, i: &InsertSelect) -> Result<String> {
        let (described, bound) = self.described_bound(compiled, request).await?;
        let (relation, columns) = self.with_parts(i).await?;
        let reads_target = i.source.whole().tables.iter().any(|t| t.relation.oid == i.relation.oid);
        let why_not = match reads_target {
            // Rows that are already committed could be read, and inserted, again.
            true => Some("that reads the table it writes to"),
            false => triggers(&i.relation),
        };
        let commits = self.commits_batches(&i.relation, None, why_not);
        // It takes two connections to a node, to read and to write.
        let can = self.herd.pools.size() > 1 && !i.source_locks && !i.reads_temporary;
        let beside = can && self.may_read_beside().await?;
        let batching = self.bulk.batching(commits, i.upsert);
        let carriers = self.carriers_into(&relation, &columns, &[], batching.is_some()).await?;
        let source = self.source(i, (&relation, &columns), &bound.types).await?;
        // COPY looks at no policies, goes into no view, and has no parts of values.
        let copies = !i.relation.row_security && i.relation.through.is_none() && i.parts.is_empty();
        let kind = if i.insert.tail.is_empty() && copies && carriers.is_none() {
            SinkKind::Copy
        } else {
            SinkKind::insert(&i.insert, i.returning, &bound, &self.now)
        };
        if !commits {
            self.need_transaction();
        }
        // The source's rows come as they travel, whatever the client wants of RETURNING.
        let own = bound.for_columns(carriers.as_ref().map_or(vec![], Carriers::formats));
        let said = request.bound.is_some() || !own.result_formats.is_empty();
        let inner = Request::bound(&source.text, said.then_some(&own));
        let kept = match beside {
            true => None,
            false => Some(self.keep_source(&source, &inner).await?),
        };
        // What its source takes from sequences has been taken, or is taken elsewhere.
        self.uses = i.target_uses.clone();
        let mut sink = Sink::open(self, relation, columns, kind, request.result_formats(), batching).await?;
        if let Some(carriers) = &carriers {
            sink.carry(carriers);
        }
        let followed = self.follow("INSERT", "QUERY", Some(i.relation.clone()), false);
        sink.follow(&followed.running);
        let fed = match kept {
            Some(kept) => kept.feed(&mut sink, self.client).await,
            None => self.catch(&source, i.source_takes.as_deref(), &inner, &mut sink).await,
        };
        if let Err(e) = fed {
            return Err(sink.abort(self, e).await);
        }
        let (count, returned) = sink.finish(self).await?;
        if i.returning {
            self.describe_to_client(request, &described);
            for row in returned.iter() {
                self.client.tell(Answer::Sent(&row?));
                self.client.relieve().await?;
            }
        }
        Ok(format!("INSERT 0 {count}"))
    }

    /// The table and the columns that rows are for: a part of a value is a column of its own, which has the part's type.
    async fn with_parts(&mut self, i: &InsertSelect) -> Result<(Arc<Relation>, Vec<usize>)> {
        let (mut relation, mut columns) = (i.relation.clone(), i.columns.clone());
        if i.parts.is_empty() {
            return Ok((relation, columns));
        }
        // Never evaluated: a domain may not be NULL.
        let each = i.parts.iter().map(|(_, part)| format!("pg_catalog.pg_typeof(CASE WHEN false THEN {part} END)"));
        let each: Vec<_> =
            each.map(|t| format!("{t}::pg_catalog.oid, pg_catalog.format_type({t}::pg_catalog.oid, NULL)")).collect();
        let row = self.ask_home(&format!("SELECT {}", each.join(", "))).await?.into_iter().next().unwrap_or_default();
        let mut types = row.into_iter().flatten();
        let mut all = relation.columns.to_vec();
        for (at, part) in &i.parts {
            let (Some(oid), Some(type_name)) = (types.next().and_then(|oid| oid.parse().ok()), types.next()) else {
                return Err(ExecError::internal("the type of a part of a value"));
            };
            let (whole, name) = (all[columns[*at]].clone(), part.clone());
            columns[*at] = all.len();
            all.push(Column { name, type_oid: oid, type_name, typmod: -1, default: None, sequence: None, ..whole });
        }
        Arc::make_mut(&mut relation).columns = all.into();
        Ok((relation, columns))
    }

    /// How rows for these columns travel, where they can't as text.
    pub(super) async fn carriers_into(
        &mut self,
        relation: &Relation,
        columns: &[usize],
        beside: &[String],
        in_batches: bool,
    ) -> Result<Option<Carriers>> {
        let of_table = columns.iter().map(|c| relation.columns[*c].type_name.as_str());
        let types: Vec<&str> = of_table.chain(beside.iter().map(String::as_str)).collect();
        let Err(refused) = self.travel_made_of(types.clone()).await else { return Ok(None) };
        let carriers = self.carry(types).await?;
        // The router reads keys as text, and keeps batches as text.
        let key = relation.distribution().map_or(&[][..], |d| &d.key);
        let is_read = columns.iter().zip(carriers.iter()).any(|(c, carried)| key.contains(c) && !carried.is_text());
        match is_read || in_batches {
            true => Err(refused),
            false => Ok(Some(carriers)),
        }
    }

    /// The source compiled, with casts to the target's types where PostgreSQL would coerce on assignment.
    async fn source(
        &mut self,
        i: &InsertSelect,
        (relation, columns): (&Relation, &[usize]),
        types: &[u32],
    ) -> Result<Compiled> {
        let compiled = Compiled::new(i.source.clone(), &i.source_sql, 0, None);
        let fields = self.described(&compiled, types).await?.fields.clone().unwrap_or_default();
        if fields.len() > columns.len() {
            return Err(ExecError::sql(sqlstate::SYNTAX_ERROR, "INSERT has more expressions than target columns"));
        }
        if fields.len() < columns.len() {
            return Err(ExecError::sql(sqlstate::SYNTAX_ERROR, "INSERT has more target columns than expressions"));
        }
        let targets: Vec<_> = columns.iter().map(|c| &relation.columns[*c]).collect();
        if fields.iter().zip(&targets).all(|(f, c)| f.type_oid == c.type_oid) {
            return Ok(compiled);
        }
        let casts: Vec<String> = targets
            .iter()
            .enumerate()
            .map(|(n, c)| format!("s.c{n}::{}", catalog::without_modifier(&c.type_name)))
            .collect();
        let names: Vec<String> = (0..targets.len()).map(|n| format!("c{n}")).collect();
        let text = format!("SELECT {} FROM ({}) AS s ({})", casts.join(", "), i.source_sql, names.join(", "));
        let statement = sql::parse(&text, true)?.pop().ok_or_else(|| ExecError::internal("no source"))?;
        planned(self.epoch, statement, &text, &i.search_path, &i.temporary, &[], None).await
    }

    /// Whether the source may be read on connections of its own, while the transaction's write: nothing has happened in the
    /// transaction that the source would have to see or to wait for, and it reads no snapshot that is to last.
    async fn may_read_beside(&mut self) -> Result<bool> {
        let t = &self.transaction;
        if !t.is_active() {
            return Ok(true);
        }
        let fresh = t.participants.is_empty() && t.cut.is_empty() && t.settings_fingerprint() == 0;
        Ok(fresh && !(t.is_block() && self.manner().await?.repeatable))
    }

    /// The source's rows, read in the transaction itself before it writes: they wait in the router.
    async fn keep_source(&mut self, source: &Compiled, request: &Request<'_>) -> Result<WaitingRows> {
        self.uses = source.plan.whole().sequences.clone();
        let mut waiting = WaitingRows(KeptRows::new(self.memory));
        self.read_into(source, request, Rows::Kept(&mut waiting)).await?;
        self.keep_time().await?;
        Ok(waiting)
    }

    /// Runs a read in the transaction there is; its rows go to the consumer.
    pub async fn read_into<'a>(&'a mut self, source: &Compiled, request: &Request<'_>, rows: Rows<'a>) -> Result<()> {
        self.keep_time().await?;
        let is_pinned = self.pin.is_held();
        let mut capture = Capture::within(self.transaction.is_active(), rows, self.client).of_session(is_pinned);
        let mut reader = caught!(self, &mut capture);
        let read = reader.read(source, request).await.map(|_| ());
        capture.end(read).await
    }

    /// As [`read_into`](Self::read_into), of a write that returns rows: all of it in one transaction.
    pub async fn write_into<'a>(&'a mut self, write: &Compiled, request: &Request<'_>, rows: Rows<'a>) -> Result<()> {
        self.keep_time().await?;
        let is_pinned = self.pin.is_held();
        // Its connections are the transaction's, and stay so: a cancel reaches them.
        let mut capture = Capture::within(true, rows, self.client).of_session(is_pinned);
        let mut writer = caught!(self, &mut capture);
        let written = Box::pin(writer.run_alone(write, request, None)).await;
        let written = written.and_then(|done| if done.stale { Err(ExecError::Stale) } else { Ok(()) });
        capture.end(written).await
    }

    /// As [`run`](Self::run), for reads only (so that reading never needs another insert's future inside itself).
    pub async fn read(&mut self, compiled: &Compiled, request: &Request<'_>) -> Result<String> {
        match self.place(compiled, request).await? {
            Placed::One(node, shard) => match self.route(compiled, request, node, shard).await? {
                done if done.stale => Err(ExecError::Stale),
                done => Ok(done.tag),
            },
            Placed::Several(_) => {
                self.looks = compiled.looks().clone();
                match &compiled.plan {
                    Planned::Query { tree: Ok(finish), .. } => self.query(compiled, request, finish).await,
                    Planned::Query { tree: Err(refusal), .. } | Planned::InTurn { turns: Err(refusal), .. } => {
                        Err(refusal.clone().into())
                    }
                    Planned::Forward(_)
                    | Planned::Insert { .. }
                    | Planned::Modify { .. }
                    | Planned::InTurn { turns: Ok(_), .. } => Err(ExecError::internal("not a read")),
                }
            }
        }
    }
}

/// Rows of a source, as DataRow messages.
struct WaitingRows(KeptRows);

impl Consumer for WaitingRows {
    fn row(&mut self, values: &[Option<&[u8]>]) -> Result<()> {
        let mut row = BytesMut::new();
        backend::data_row(&mut row, values.iter().copied());
        self.0.push(row.freeze())
    }
}

impl WaitingRows {
    async fn feed(mut self, sink: &mut Sink, client: &mut impl Client) -> Result<()> {
        sink.start().await?;
        while let Some(row) = self.0.pop()? {
            sink.row(&backend::parse_data_row(&row[frame::HEADER_LEN..])?).await?;
            sink.tell_said(&mut |said| client.tell(said));
            client.relieve().await?;
        }
        Ok(())
    }
}

/// Why rows of a table can't be committed in batches.
fn triggers(relation: &Relation) -> Option<&'static str> {
    (relation.triggers || relation.statement_triggers).then_some("into a table with triggers")
}

//! COPY FROM STDIN into a table of several nodes: records are cut, their keys read, and each goes to where it belongs.
//!
//! It does not know the formats (crate `copy`), nor how rows find their lanes (`sink`).

use std::ops::Range;
use std::sync::Arc;

use catalog::Relation;
use copy::{CopyOptions, Format, Splitter};
use smallvec::SmallVec;
use sql::ast;
use wire::{sqlstate, type_oid};

use crate::bulk_settings::Batching;
use crate::client::{Answer, Client, CopyInput};
use crate::copy::{for_node, format_error, named_columns, need_utf8, unquoted, upsert};
use crate::error::{ExecError, Result};
use crate::render::Fill;
use crate::request::Bound;
use crate::route::Forwarded;
use crate::router::progress::{self, Running};
use crate::work::Work;
use crate::write::bulk::BulkCopy;
use crate::write::sink::{Sink, SinkKind};

impl<C: Client> Work<'_, C> {
    pub(super) async fn copy_from(
        &mut self,
        copy: &ast::CopyStmt,
        relation: Arc<Relation>,
        bulk: BulkCopy,
    ) -> Result<Forwarded> {
        let mut options = CopyOptions::from_ast(&copy.options).map_err(format_error)?;
        // The router speaks nothing else with its clients, see `set client_encoding`.
        options.check_encoding("UTF8").map_err(format_error)?;
        let columns = given_columns(copy, &relation)?;
        let mut keys = relation.distribution().into_iter().flat_map(|d| &d.key);
        if keys.any(|k| type_oid::is_string(relation.columns[*k].type_oid)) {
            need_utf8(&options, "COPY into a table that is distributed by text")?;
        }
        if relation.distribution().is_some() && self.epoch.snapshot.nodes.len() > 1 {
            plan::copy_from::refuse_counts(copy, &relation)?;
        }
        if relation.is_reference() && self.epoch.snapshot.nodes.len() > 1 {
            plan::copy_from::refuse(copy, &relation, &columns, options.default.is_some(), &self.epoch.snapshot)?;
        }
        let clause = match bulk.replace || self.bulk.upsert {
            true => plan::upsert::on_conflict(&relation)?,
            false => None,
        };
        if clause.is_some() {
            upsert::can_upsert(copy, &options)?;
        }
        let upsert = clause.is_some();
        let batching = self.copy_batching(&relation, &bulk, upsert);
        let kind = match clause {
            Some(tail) => {
                let rows =
                    plan::InsertRows { head: plan::Text::default(), tail: tail.into(), columns: plan::Text::default() };
                SinkKind::insert(&rows, false, &Bound::default(), &self.now)
            }
            None => SinkKind::Copy,
        };
        let one_time = !upsert && options.format != Format::Binary && relation.columns.iter().any(plan::reads_clock);
        if one_time || copy.where_clause.as_deref().is_some_and(plan::copy_from::reads_clock) {
            // Before the nodes' connections are the rows'.
            self.settle_now().await?;
        }
        let mut sink = Sink::open(self, relation.clone(), columns.clone(), kind, &[], batching).await?;
        sink.numbered = true;
        if one_time && let Err(e) = sink.fill_clocks(self) {
            return Err(sink.abort(self, e).await);
        }
        let followed = self.follow("COPY FROM", "PIPE", Some(relation.clone()), copy.where_clause.is_some());
        sink.follow(&followed.running);
        options.csv_end_marker = sink.has_server_before(18);
        if options.format == Format::Binary
            && let Err(e) = refuse_unknown_binary(&sink)
        {
            return Err(sink.abort(self, e).await);
        }
        let tree = for_node(copy, &relation, &sink.column_names());
        let text = Fill::new(&Bound::default(), &self.now).statement([&plan::copy_from::text(tree)?]).sql;
        if upsert {
            sink.start_held();
        } else if let Err(e) = sink.start_copy(&text).await {
            return Err(sink.abort(self, e).await);
        }
        let header = options.format != Format::Binary && options.header != copy::Header::No;
        sink.number_lines(&relation.name, options.format == Format::Csv, header);
        if relation.distribution().is_some() && plan::copy_from::has_option(copy, "on_error") {
            sink.may_skip();
        }
        if let Some(limit) = plan::copy_from::reject_limit(copy).filter(|_| relation.distribution().is_some())
            && !sink.limit_rejected(limit)
        {
            return Err(sink.abort(self, plan::copy_from::not_counted().into()).await);
        }
        let format = i8::from(options.format == Format::Binary);
        self.client.tell(Answer::CopyIn { format, columns: columns.len() });
        self.client.flush().await?;
        let names = sink.column_names();
        let pumped = match upsert {
            true => self.pump_values(&options, &mut sink, &columns, &followed.running).await,
            false => self.pump(&options, &mut sink, &columns, &followed.running).await,
        };
        let result = match pumped {
            Ok(()) => sink.finish(self).await.map(|(count, _)| count),
            Err(e) => Err(sink.abort(self, e).await),
        };
        match result {
            Ok(count) => Ok(Forwarded { tag: format!("COPY {count}"), ..Default::default() }),
            Err(e) => Err(about_given_columns(e, &names, columns.len())),
        }
    }

    /// How its rows are cut into batches. Where these do not commit by themselves, it has a transaction from now on.
    fn copy_batching(&mut self, relation: &Arc<Relation>, bulk: &BulkCopy, upsert: bool) -> Option<Batching> {
        let commits = match bulk.rows_per_transaction {
            Some(0) => false,
            asked => {
                let triggers = relation.statement_triggers.then_some("into a table with statement triggers");
                self.commits_batches(relation, asked.map(|_| "ROWS_PER_TRANSACTION"), triggers)
            }
        };
        if !commits {
            self.need_transaction();
        }
        let mut batching = self.bulk.batching(commits, upsert);
        if let (Some(b), Some(rows @ 1..)) = (&mut batching, bulk.rows_per_transaction) {
            b.batch_rows = rows;
            b.in_flight_rows = b.in_flight_rows.max(rows.saturating_mul(2 * self.epoch.snapshot.nodes.len() as u64));
        }
        batching
    }

    /// Reads the client's data to its end, or to the first error: what comes then the session passes over.
    async fn pump(
        &mut self,
        options: &CopyOptions,
        sink: &mut Sink,
        columns: &[usize],
        running: &Running,
    ) -> Result<()> {
        let width = columns.len();
        let names: Vec<String> = columns.iter().map(|c| sink.relation.columns[*c].name.clone()).collect();
        let filled: Vec<String> = sink.filled_names().iter().map(|n| n.to_string()).collect();
        // A table that has a key is on no two nodes.
        let keys = sink.key_positions().iter().copied().flatten().filter(|k| *k < width);
        let wanted: Vec<usize> = match options.format {
            Format::Binary => keys.collect(),
            _ => keys.chain(sink.moment_positions().iter().copied()).collect(),
        };
        let mut splitter = Splitter::new(options, wanted, &names);
        let mut memory = self.memory.nothing();
        let mut preamble_sent = false;
        let mut records = Records::default();
        loop {
            // While the client is slow, what it has sent goes on, and what the nodes say is heard.
            let said = tokio::select! {
                biased;
                input = self.client.copy_input() => Err(input?),
                at = sink.said() => Ok(at?),
            };
            let input = match said {
                Err(input) => Some(input),
                Ok(at) => match sink.error_of(at).await? {
                    Some(e) => return Err(e),
                    None => None,
                },
            };
            sink.tell_said(&mut |said| self.client.tell(said));
            self.client.relieve().await?;
            let Some(input) = input else { continue };
            match input {
                CopyInput::Data(_) if sink.commits() && self.is_cancelled() => return Err(ExecError::cancelled()),
                CopyInput::Data(data) => {
                    progress::add(&running.bytes, data.len() as u64);
                    records.clear();
                    let pushed = splitter.push(&data, &mut |r, k| records.add(r, k));
                    // Rows before a bad one go on: one of them may be worse.
                    let sent = deliver(options, sink, &splitter, &mut preamble_sent, &records, &filled).await;
                    if let Err(e) = sent.and(pushed).and(memory.grow_to(splitter.pending_bytes())) {
                        return Err(match sink.node_error().await {
                            Some(from_node) => from_node,
                            None => e,
                        });
                    }
                }
                CopyInput::Done => break,
                CopyInput::Fail(reason) => return Err(ExecError::copy_failed(&reason)),
            }
        }
        records.clear();
        splitter.finish(&mut |r, k| records.add(r, k))?;
        deliver(options, sink, &splitter, &mut preamble_sent, &records, &filled).await?;
        if options.format == Format::Binary {
            sink.trailer(&copy::BINARY_TRAILER).await?;
        }
        Ok(())
    }
}

/// The columns that the client's data has, in its order.
fn given_columns(copy: &ast::CopyStmt, relation: &Relation) -> Result<Vec<usize>> {
    match copy.attlist.is_empty() {
        true => Ok(relation.columns.iter().enumerate().filter(|(_, c)| !c.generated).map(|(i, _)| i).collect()),
        false => named_columns(copy, relation),
    }
}

/// Columns are filled of which the router does not know the binary format.
fn refuse_unknown_binary(sink: &Sink) -> Result<()> {
    let Some(column) = sink.filled_columns().find(|c| binary_integer(c.type_oid, "0").is_none()) else { return Ok(()) };
    let message = format!(
        "binary COPY without values for column \"{}\", whose default is computed once for all nodes, is not supported",
        column.name
    );
    Err(ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, message).hint("Use text or CSV, or give the values."))
}

/// A buffer that grew beyond this for one message is given back after it.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Records of one CopyData message, with their key values: as many for each.
#[derive(Default)]
struct Records {
    data: Vec<u8>,
    ends: Vec<usize>,
    key_bytes: Vec<u8>,
    keys: Vec<Option<Range<usize>>>,
}

impl Records {
    fn add(&mut self, record: &[u8], keys: &[Option<&[u8]>]) -> Result<()> {
        self.data.extend_from_slice(record);
        self.ends.push(self.data.len());
        for key in keys {
            let start = self.key_bytes.len();
            self.key_bytes.extend_from_slice(key.unwrap_or_default());
            self.keys.push(key.map(|_| start..self.key_bytes.len()));
        }
        Ok(())
    }

    fn clear(&mut self) {
        if self.data.capacity() > KEPT_BYTES_MAX {
            *self = Records::default();
        }
        self.data.clear();
        self.ends.clear();
        self.key_bytes.clear();
        self.keys.clear();
    }

    /// A record's key values, in the order of the key's columns that are given.
    fn keys(&self, at: usize) -> impl Iterator<Item = Option<&[u8]>> {
        let count = self.keys.len() / self.ends.len().max(1);
        self.keys[at * count..(at + 1) * count].iter().map(|k| k.clone().map(|range| &self.key_bytes[range]))
    }
}

async fn deliver(
    options: &CopyOptions,
    sink: &mut Sink,
    splitter: &Splitter,
    preamble_sent: &mut bool,
    records: &Records,
    filled: &[String],
) -> Result<()> {
    if !*preamble_sent && let Some(preamble) = splitter.preamble() {
        let mut header = preamble.to_vec();
        if !filled.is_empty() && options.format != Format::Binary {
            header.clear();
            let names: Vec<&str> = filled.iter().map(String::as_str).collect();
            copy::append_header_fields(options, preamble, &names, &mut header);
        }
        let trailer = if options.format == Format::Binary { &copy::BINARY_TRAILER[..] } else { &[] };
        sink.preamble(&header, trailer).await?;
        *preamble_sent = true;
    }
    let binary = options.format == Format::Binary;
    let given = sink.given();
    let mut start = 0;
    let mut line = Vec::new();
    for (at, end) in records.ends.iter().enumerate() {
        let record = &records.data[start..*end];
        start = *end;
        let texts = if sink.fills() { sink.next_values().await? } else { vec![] };
        let values: Vec<Option<Vec<u8>>> = match binary {
            false => texts.into_iter().map(|text| text.map(String::into_bytes)).collect(),
            true => {
                let value = |(column, text): (&catalog::Column, &Option<String>)| match text {
                    Some(text) => {
                        binary_integer(column.type_oid, text).ok_or_else(|| out_of_range(column, text)).map(Some)
                    }
                    None => Ok(None),
                };
                sink.filled_columns().zip(&texts).map(value).collect::<Result<_>>()?
            }
        };
        let mut given_keys = records.keys(at);
        let all: SmallVec<[Option<&[u8]>; 4]> = sink
            .key_positions()
            .iter()
            .map(|k| match *k {
                None => None,
                Some(k) if k < given => given_keys.next().flatten(),
                Some(k) => values[k - given].as_deref(),
            })
            .collect();
        if !binary {
            for (at, value) in sink.moment_positions().iter().zip(given_keys) {
                sink.refuse_moment(*at, value)?;
            }
        }
        let lanes = sink.lanes_for(&all, binary)?;
        if values.is_empty() {
            if !sink.record_at_once(lanes.clone(), record, record) {
                sink.record(lanes, record, record).await?;
            }
        } else {
            line.clear();
            if binary {
                let filled: Vec<Option<&[u8]>> = values.iter().map(Option::as_deref).collect();
                copy::append_binary_fields(record, &filled, &mut line);
            } else {
                let filled: Vec<Option<&str>> =
                    values.iter().map(|v| std::str::from_utf8(v.as_deref()?).ok()).collect();
                copy::append_fields(options, record, &filled, &mut line);
            }
            sink.record(lanes, record, &line).await?;
        }
    }
    Ok(())
}

/// What the send function of an integer type makes of a sequence's value; `None` for other types and what does not fit.
fn binary_integer(type_oid: u32, text: &str) -> Option<Vec<u8>> {
    match type_oid {
        type_oid::INT8 => text.parse().ok().map(|n: i64| n.to_be_bytes().to_vec()),
        type_oid::INT2 => text.parse().ok().map(|n: i16| n.to_be_bytes().to_vec()),
        type_oid::INT4 => text.parse().ok().map(|n: i32| n.to_be_bytes().to_vec()),
        _ => None,
    }
}

/// A row that is too short misses the columns at its end as the client sees it, not those the router has added there.
fn about_given_columns(error: ExecError, names: &[String], given: usize) -> ExecError {
    let missing = |name: &String| format!("missing data for column \"{}\"", unquoted(name));
    let mut fields = match &error {
        ExecError::Sql(_) | ExecError::Partial(_) => error.to_fields(),
        _ => return error,
    };
    let added = names.len() - given;
    let at = fields.copy_column_missing().and_then(|column| names.iter().position(|name| unquoted(name) == column));
    if let Some(name) = at.and_then(|at| names.get(at.checked_sub(added)?)) {
        fields.set(b'M', missing(name));
    }
    match error {
        ExecError::Partial(_) => ExecError::Partial(Box::new(fields)),
        _ => ExecError::Sql(Box::new(fields)),
    }
}

fn out_of_range(column: &catalog::Column, text: &str) -> ExecError {
    ExecError::sql(
        sqlstate::NUMERIC_VALUE_OUT_OF_RANGE,
        format!("value \"{text}\" is out of range for type {}", column.type_name),
    )
}

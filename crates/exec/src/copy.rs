//! COPY: from the client to the nodes, split by key; from the nodes to the client, one after the other.
//!
//! It does not know the formats (crate `copy`), how rows find their lanes (`sink`), nor what one node does alone (`copy_home`).

pub mod home;
pub mod upsert;

use std::sync::Arc;
use wire::sqlstate;

use bytes::{Bytes, BytesMut};
use catalog::{Placement, Relation};
use sql::NodeEnum;
use sql::ast::{self, Node};
use wire::backend;

use crate::client::{Answer, Client, CopyInput};
use crate::error::{ExecError, Result};
use crate::request::{Bound, Request};
use crate::route::Forwarded;
use crate::router::compiled::Compiled;
use crate::router::looks::Looks;
use crate::router::progress::{self, Running};
use crate::work::Work;
use crate::work::place::Placed;
use crate::write::bulk::BulkCopy;
use crate::write::capture::Consumer;
use crate::write::sink::{Sink, SinkKind};
use copy::{BinaryJoin, CopyOptions, Format, Joined, RowEncoder, Splitter};

impl<C: Client> Work<'_, C> {
    /// Runs a COPY statement. `relation`: the table it names, if it is distributed or a reference table.
    pub async fn copy(
        &mut self,
        copy: &ast::CopyStmt,
        sql: &str,
        relation: Option<Arc<Relation>>,
        query: Option<Compiled>,
        bulk: BulkCopy,
    ) -> Result<Forwarded> {
        if bulk.is_any() && (copy.is_program || !copy.filename.is_empty() || relation.is_none()) {
            return Err(ExecError::sql(
                sqlstate::FEATURE_NOT_SUPPORTED,
                "COPY with ROWS_PER_TRANSACTION or REPLACE is only supported FROM STDIN, into a table that is not temporary",
            ));
        }
        if copy.is_program || !copy.filename.is_empty() {
            if relation.is_some() || query.as_ref().is_some_and(|q| !q.plan.whole().tables.is_empty()) {
                return Err(ExecError::sql(
                    sqlstate::FEATURE_NOT_SUPPORTED,
                    "COPY to or from a server's file or program is not supported for distributed and reference tables",
                )
                .hint("Use STDIN and STDOUT, or psql's \\copy."));
            }
            return self.copy_local(copy, sql).await;
        }
        match (relation, query) {
            (Some(r), _) if copy.is_from => self.copy_from(copy, r, bulk).await,
            (Some(r), _) => match &r.placement {
                Placement::Distributed(_) => self.copy_table_to(copy, &r).await,
                _ => self.copy_on(self.home(), sql, false, false).await,
            },
            (None, Some(query)) => self.copy_query_to(copy, sql, query).await,
            (None, None) => self.copy_local(copy, sql).await,
        }
    }

    async fn copy_from(&mut self, copy: &ast::CopyStmt, relation: Arc<Relation>, bulk: BulkCopy) -> Result<Forwarded> {
        let mut options = CopyOptions::from_ast(&copy.options).map_err(format_error)?;
        // The router speaks nothing else with its clients, see `set client_encoding`.
        options.check_encoding("UTF8").map_err(format_error)?;
        let columns = match sql::names::strings(&copy.attlist)[..] {
            [] => relation.columns.iter().enumerate().filter(|(_, c)| !c.generated).map(|(i, _)| i).collect(),
            ref names => names
                .iter()
                .map(|n| {
                    relation.column(n).ok_or_else(|| {
                        ExecError::sql(
                            sqlstate::UNDEFINED_COLUMN,
                            format!("column \"{n}\" of relation \"{}\" does not exist", relation.name),
                        )
                    })
                })
                .collect::<Result<Vec<_>>>()?,
        };
        let clause = match bulk.replace || self.bulk.upsert {
            true => plan::upsert::on_conflict(&relation)?,
            false => None,
        };
        if clause.is_some() {
            crate::copy::upsert::can_upsert(copy, &options)?;
        }
        let commits = match bulk.rows_per_transaction {
            Some(0) => false,
            asked => {
                let triggers = relation.statement_triggers.then_some("into a table with statement triggers");
                self.commits_batches(&relation, asked.map(|_| "ROWS_PER_TRANSACTION"), triggers)
            }
        };
        if !commits {
            self.need_transaction();
        }
        let mut batching = self.bulk.batching(commits, clause.is_some());
        if let (Some(b), Some(rows @ 1..)) = (&mut batching, bulk.rows_per_transaction) {
            b.batch_rows = rows;
            b.in_flight_rows = b.in_flight_rows.max(rows.saturating_mul(2 * self.epoch.snapshot.nodes.len() as u64));
        }
        let upsert = clause.is_some();
        let kind = match clause {
            Some(tail) => {
                let rows = plan::InsertRows { head: plan::Text::default(), tail: tail.into() };
                SinkKind::insert(&rows, false, &Bound::default(), &self.now)
            }
            None => SinkKind::Copy,
        };
        let mut sink = Sink::open(self, relation.clone(), columns.clone(), kind, &[], batching).await?;
        sink.numbered = true;
        let followed = self.follow("COPY FROM", "PIPE", Some(relation.clone()), copy.where_clause.is_some());
        sink.follow(&followed.running);
        options.csv_end_marker = sink.has_server_before(18);
        let unknown = sink.filled_columns().find(|c| binary_integer(c.type_oid, "0").is_none()).map(|c| c.name.clone());
        if let (Format::Binary, Some(name)) = (options.format, unknown) {
            let e = ExecError::sql(
                sqlstate::FEATURE_NOT_SUPPORTED,
                format!("binary COPY without values for column \"{name}\", which takes them from a sequence, is not supported"),
            )
            .hint("Use text or CSV, or give the values.");
            return Err(sink.abort(self, e).await);
        }
        let text = copy_text(copy, Some((&relation.schema, &relation.name, &sink.column_names())), true)?;
        if upsert {
            sink.start_held();
        } else if let Err(e) = sink.start_copy(&text).await {
            return Err(sink.abort(self, e).await);
        }
        let header = options.format != Format::Binary && options.header != copy::Header::No;
        sink.number_lines(&relation.name, options.format == Format::Csv, header);
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
        let wanted: Vec<usize> = sink.key_positions().iter().copied().filter(|k| *k < width).collect();
        let mut splitter = Splitter::new(options, wanted, &names);
        let mut preamble_sent = false;
        loop {
            // While the client is slow, what it has sent goes on, and what the nodes say is heard.
            let said = tokio::select! {
                biased;
                input = self.client.copy_input() => Err(input?),
                at = sink.said() => Ok(at?),
            };
            let input = match said {
                Err(input) => input,
                Ok(at) => match sink.error_of(at).await? {
                    Some(e) => return Err(e),
                    None => continue,
                },
            };
            match input {
                CopyInput::Data(_) if sink.commits() && self.is_cancelled() => return Err(ExecError::cancelled()),
                CopyInput::Data(data) => {
                    progress::add(&running.bytes, data.len() as u64);
                    let mut records = Records::default();
                    let pushed = splitter.push(&data, &mut |r, k| records.add(r, k));
                    // Rows before a bad one go on: one of them may be worse.
                    let sent = deliver(options, sink, &splitter, &mut preamble_sent, &records, &filled).await;
                    if let Err(e) = sent.and(pushed) {
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
        let mut records = Records::default();
        splitter.finish(&mut |r, k| records.add(r, k))?;
        deliver(options, sink, &splitter, &mut preamble_sent, &records, &filled).await?;
        if options.format == Format::Binary {
            sink.trailer(&copy::BINARY_TRAILER).await?;
        }
        Ok(())
    }

    /// COPY table TO STDOUT: every node's rows, one node after the other.
    async fn copy_table_to(&mut self, copy: &ast::CopyStmt, relation: &Arc<Relation>) -> Result<Forwarded> {
        let names: Vec<String> = match sql::names::strings(&copy.attlist)[..] {
            [] => relation.columns.iter().filter(|c| !c.generated).map(|c| catalog::quote_ident(&c.name)).collect(),
            ref names => names
                .iter()
                .map(|n| match relation.column(n) {
                    Some(_) => Ok(catalog::quote_ident(n)),
                    None => Err(ExecError::sql(
                        sqlstate::UNDEFINED_COLUMN,
                        format!("column \"{n}\" of relation \"{}\" does not exist", relation.name),
                    )),
                })
                .collect::<Result<_>>()?,
        };
        let query =
            format!("SELECT {} FROM {}", names.join(", "), catalog::qualified(&relation.schema, &relation.name));
        let nodes = relation
            .distribution()
            .map(|d| d.group.shards.iter().map(|s| s.node).collect::<std::collections::BTreeSet<_>>())
            .unwrap_or_default();
        let followed = self.follow("COPY TO", "PIPE", Some(relation.clone()), false);
        let looks = Looks::of_tables(std::iter::once(relation));
        self.copy_nodes_to(copy, &query, &nodes, &looks, &followed.running).await
    }

    /// The same query on each node, its COPY data joined into one stream.
    async fn copy_nodes_to(
        &mut self,
        copy: &ast::CopyStmt,
        query: &str,
        nodes: &std::collections::BTreeSet<i32>,
        looks: &Looks,
        running: &Running,
    ) -> Result<Forwarded> {
        let options = CopyOptions::from_ast(&copy.options).map_err(format_error)?;
        if nodes.len() > 1 {
            self.whole_read_at_once().await?;
        }
        let mut lanes = Vec::new();
        for (i, node) in nodes.iter().enumerate() {
            let mut p = self.lane(*node).await?;
            let options_text = option_list(&copy.options, i == 0)?;
            p.lane.put_query(&looks.in_front(*node, &format!("COPY ({query}) TO STDOUT{options_text}")));
            let flushed = p.lane.conn.flush().await;
            lanes.push(p);
            flushed?;
        }
        let mut count = 0;
        let mut started = false;
        let mut join = BinaryJoin::new(lanes.len());
        let mut failure = None;
        'lanes: for (n, p) in lanes.iter_mut().enumerate() {
            let rows = running.node(p.lane.node);
            loop {
                let frame = match p.lane.next().await {
                    Ok(f) => f,
                    Err(e) => {
                        failure = Some(e.into());
                        break 'lanes;
                    }
                };
                if frame.tag() == b'd' {
                    // A row a message, as PostgreSQL sends them.
                    progress::add(&running.bytes, frame.body().len() as u64);
                    progress::add(&running.rows, 1);
                    progress::add(&rows, 1);
                }
                match frame.tag() {
                    b'H' if !started => {
                        started = true;
                        self.client.tell(Answer::Sent(&frame.raw));
                    }
                    b'd' if options.format == Format::Binary => {
                        let Joined { header, rows } = join.push(n, frame.body()).map_err(format_error)?;
                        if !rows.is_empty() {
                            self.client.tell(Answer::CopyData(&[header, rows].concat()));
                        }
                        self.client.relieve().await?;
                    }
                    b'd' => {
                        self.client.tell(Answer::Sent(&frame.raw));
                        self.client.relieve().await?;
                    }
                    b'C' => count += backend::rows_of_tag(backend::parse_command_complete(frame.body())?),
                    b'E' => {
                        failure = Some(crate::work::rows::after_error(&mut p.lane, &frame).await);
                        break 'lanes;
                    }
                    b'N' => self.client.tell(Answer::Sent(&frame.raw)),
                    b'Z' => break,
                    _ => {}
                }
            }
        }
        self.abandon(lanes).await;
        if let Some(e) = failure {
            return Err(e);
        }
        if options.format == Format::Binary {
            let trailer = join.finish().map_err(format_error)?;
            self.client.tell(Answer::CopyData(&trailer));
        }
        self.client.tell(Answer::CopyDone);
        Ok(Forwarded { tag: format!("COPY {count}"), ..Default::default() })
    }

    /// COPY (query) TO STDOUT.
    async fn copy_query_to(&mut self, copy: &ast::CopyStmt, sql: &str, query: Compiled) -> Result<Forwarded> {
        let request = Request::simple(&query.text);
        match self.place(&query, &request).await? {
            Placed::One(node, _) => {
                let local = self.guard(&query, node).is_some();
                let sql = query.looks().in_front(node, sql);
                self.copy_on(node, &sql, query.plan.whole().writes, local).await
            }
            Placed::Several(_) => {
                let reads = matches!(query.plan, plan::Plan::Query { .. } | plan::Plan::Forward(_));
                let options = CopyOptions::from_ast(&copy.options).map_err(format_error)?;
                if reads {
                    self.whole_read().await?;
                }
                let described = self.described(&query, &[]).await?;
                if described.fields.is_none() {
                    // DoCopy in copy.c
                    let message = "COPY query must have a RETURNING clause";
                    return Err(ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, message));
                }
                let names: Vec<String> = described.fields.iter().flatten().map(|f| f.name.clone()).collect();
                if options.format == Format::Binary {
                    return Err(ExecError::sql(
                        sqlstate::FEATURE_NOT_SUPPORTED,
                        "binary COPY of this query over several nodes is not supported",
                    )
                    .hint("Use text or CSV."));
                }
                self.client.tell(Answer::CopyOut { format: 0, columns: names.len() });
                let encoder = RowEncoder::new(&options, &names).map_err(format_error)?;
                let followed = self.follow("COPY TO", "PIPE", None, false);
                let running = followed.running.clone();
                let mut rows = Encoder { encoder, out: BytesMut::new(), ready: Vec::new(), held: 0, count: 0, running };
                rows.encoder.header(&mut rows.out);
                rows.cut();
                // Rows are formatted as they are caught; they wait in the encoder, which is bounded by its caller.
                match reads {
                    true => self.read_into(&query, &request, &mut rows).await?,
                    false => self.write_into(&query, &request, &mut rows).await?,
                }
                rows.cut();
                for data in std::mem::take(&mut rows.ready) {
                    self.client.tell(Answer::CopyData(&data));
                    self.client.relieve().await?;
                }
                self.client.tell(Answer::CopyDone);
                Ok(Forwarded { tag: format!("COPY {}", rows.count), ..Default::default() })
            }
        }
    }
}

/// Records of one CopyData message, with their key values.
#[derive(Default)]
struct Records {
    data: Vec<u8>,
    ends: Vec<usize>,
    keys: Vec<Vec<Option<Vec<u8>>>>,
}

impl Records {
    fn add(&mut self, record: &[u8], keys: &[Option<&[u8]>]) -> Result<()> {
        self.data.extend_from_slice(record);
        self.ends.push(self.data.len());
        self.keys.push(keys.iter().map(|k| k.map(<[u8]>::to_vec)).collect());
        Ok(())
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
    for (end, keys) in records.ends.iter().zip(&records.keys) {
        let record = &records.data[start..*end];
        start = *end;
        let values: Vec<Vec<u8>> = match binary {
            false => sink.next_values().await?.into_iter().map(String::into_bytes).collect(),
            true => {
                let texts = sink.next_values().await?;
                let both = sink.filled_columns().zip(&texts);
                let values = both.map(|(column, text)| {
                    binary_integer(column.type_oid, text).ok_or_else(|| out_of_range(column, text))
                });
                values.collect::<Result<_>>()?
            }
        };
        let mut given_keys = keys.iter();
        let all: Vec<Option<&[u8]>> = sink
            .key_positions()
            .iter()
            .map(|k| match *k {
                usize::MAX => None,
                k if k < given => given_keys.next().and_then(|v| v.as_deref()),
                k => Some(&values[k - given][..]),
            })
            .collect();
        let lanes = sink.lanes_for(&all, binary)?;
        if values.is_empty() {
            sink.record(lanes, record, record).await?;
        } else {
            line.clear();
            if binary {
                let filled: Vec<Option<&[u8]>> = values.iter().map(|v| Some(&v[..])).collect();
                copy::append_binary_fields(record, &filled, &mut line);
            } else {
                let filled: Vec<Option<&str>> = values.iter().map(|v| std::str::from_utf8(v).ok()).collect();
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
        20 => text.parse().ok().map(|n: i64| n.to_be_bytes().to_vec()),
        21 => text.parse().ok().map(|n: i16| n.to_be_bytes().to_vec()),
        23 => text.parse().ok().map(|n: i32| n.to_be_bytes().to_vec()),
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
    let at = names.iter().position(|name| fields.message() == missing(name));
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

/// Formats caught rows as COPY data, one message a row as PostgreSQL does.
struct Encoder {
    encoder: RowEncoder,
    out: BytesMut,
    ready: Vec<Bytes>,
    held: usize,
    count: u64,
    running: Arc<Running>,
}

impl Encoder {
    fn cut(&mut self) {
        if !self.out.is_empty() {
            self.held += self.out.len();
            self.ready.push(self.out.split().freeze());
        }
    }
}

impl Consumer for Encoder {
    async fn row(&mut self, values: &[Option<&[u8]>]) -> Result<()> {
        self.encoder.row(values, &mut self.out);
        self.count += 1;
        progress::add(&self.running.rows, 1);
        progress::add(&self.running.bytes, self.out.len() as u64);
        self.cut();
        if self.held > crate::query::spill::HELD_ANYWAY_MAX {
            return Err(ExecError::sql(
                sqlstate::PROGRAM_LIMIT_EXCEEDED,
                "the result of this COPY is too large to be sorted or aggregated in one place",
            )
            .hint("Copy the table itself, or narrow the query."));
        }
        Ok(())
    }
}

pub(crate) fn format_error(e: copy::CopyError) -> ExecError {
    let error = ExecError::sql(e.sqlstate(), e.to_string());
    match e.hint() {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

impl From<copy::CopyError> for ExecError {
    fn from(e: copy::CopyError) -> Self {
        format_error(e)
    }
}

/// A name as it is, from its spelling in SQL.
fn unquoted(name: &str) -> String {
    let inner = name.strip_prefix('"').and_then(|n| n.strip_suffix('"'));
    inner.map_or_else(|| name.to_owned(), |n| n.replace("\"\"", "\""))
}

/// The text of the same COPY for a node, perhaps with other columns.
fn copy_text(copy: &ast::CopyStmt, table: Option<(&str, &str, &[String])>, from: bool) -> Result<String> {
    let mut c = copy.clone();
    if let Some((schema, name, columns)) = table {
        if let Some(r) = &mut c.relation {
            r.schemaname = schema.to_string();
            r.relname = name.to_string();
        }
        c.attlist = columns.iter().map(|n| sql::build::string(&unquoted(n))).collect();
    }
    c.is_from = from;
    Ok(sql::deparse(&NodeEnum::CopyStmt(Box::new(c)))?)
}

/// The option list of a COPY as text; only the first node writes the header.
fn option_list(options: &[Node], first: bool) -> Result<String> {
    let mut c = ast::CopyStmt {
        relation: Some(ast::RangeVar {
            relname: "t".into(),
            inh: true,
            relpersistence: "p".into(),
            ..Default::default()
        }),
        options: options.to_vec(),
        ..Default::default()
    };
    if !first {
        c.options.retain(|o| !matches!(&o.node, Some(NodeEnum::DefElem(d)) if d.defname == "header"));
    }
    let text = sql::deparse(&NodeEnum::CopyStmt(Box::new(c)))?;
    let at = text
        .find("TO STDOUT")
        .map(|i| i + "TO STDOUT".len())
        .ok_or_else(|| ExecError::internal("COPY options could not be written"))?;
    Ok(text[at..].to_string())
}

//! COPY TO STDOUT of what several nodes have: one after the other, or rows that were put together here.
//!
//! It does not know the formats (crate `copy`).

use std::sync::Arc;

use bytes::BytesMut;
use catalog::Relation;
use copy::{BinaryJoin, CopyOptions, Format, Joined, RowEncoder};
use sql::NodeEnum;
use sql::ast::{self, Node};
use wire::{backend, sqlstate};

use crate::client::{Answer, Client};
use crate::copy::{format_error, named_columns, need_utf8};
use crate::error::{ExecError, Result};
use crate::kept_rows::KeptRows;
use crate::object_ids;
use crate::request::Request;
use crate::route::Forwarded;
use crate::router::compiled::Compiled;
use crate::router::looks::Looks;
use crate::router::progress::{self, Running};
use crate::work::Work;
use crate::work::place::Placed;
use crate::write::capture::{Consumer, Format as Formatting, Rows};

impl<C: Client> Work<'_, C> {
    /// COPY table TO STDOUT: every node's rows, one node after the other.
    pub(super) async fn copy_table_to(&mut self, copy: &ast::CopyStmt, relation: &Arc<Relation>) -> Result<Forwarded> {
        let quoted = |c: &catalog::Column| catalog::quote_ident(&c.name);
        let names: Vec<String> = match copy.attlist.is_empty() {
            true => relation.columns.iter().filter(|c| !c.generated).map(quoted).collect(),
            false => named_columns(copy, relation)?.into_iter().map(|at| quoted(&relation.columns[at])).collect(),
        };
        if relation.distribution().is_some_and(|d| d.is_partitioned()) && !self.is_query(relation, &names).await? {
            let message = format!("cannot copy from partitioned table \"{}\"", relation.name);
            return Err(
                ExecError::sql(sqlstate::WRONG_OBJECT_TYPE, message).hint("Try the COPY (SELECT ...) TO variant.")
            );
        }
        let query =
            format!("SELECT {} FROM {}", names.join(", "), catalog::qualified(&relation.schema, &relation.name));
        let nodes = relation
            .distribution()
            .map(|d| d.group.shards.iter().map(|s| s.node).collect::<std::collections::BTreeSet<_>>())
            .unwrap_or_default();
        let named = |n: &str| catalog::quote_ident(n);
        let sent = relation.columns.iter().filter(|c| names.contains(&named(&c.name))).map(|c| c.type_oid);
        if nodes.iter().any(|n| *n != self.home()) {
            self.refuse_foreign_ids(copy, sent)?;
        }
        let followed = self.follow("COPY TO", "PIPE", Some(relation.clone()), false);
        let looks = Looks::of_tables(std::iter::once(relation));
        self.copy_nodes_to(copy, &query, &nodes, &looks, &followed.running).await
    }

    /// Whether PostgreSQL makes a query of a table that its owner has partitioned, which it refuses otherwise: where policies hold
    /// for who asks. Who may not read the columns hears of that first, which the query says as well.
    async fn is_query(&mut self, relation: &Relation, columns: &[String]) -> Result<bool> {
        let table = catalog::quote_literal(&catalog::qualified(&relation.schema, &relation.name));
        let read = relation.columns.iter().filter(|c| columns.contains(&catalog::quote_ident(&c.name))).map(|c| {
            format!(" AND pg_catalog.has_column_privilege({table}, {}, 'SELECT')", catalog::quote_literal(&c.name))
        });
        let read: String = read.collect();
        let sql = format!("SELECT pg_catalog.row_security_active({table}) OR NOT (true{read})");
        let answer = self.ask_home(&sql).await?;
        Ok(answer.into_iter().flatten().flatten().next().as_deref() == Some("t"))
    }

    /// Binary values of users' own types tell object ids, which are a node's own.
    fn refuse_foreign_ids(&self, copy: &ast::CopyStmt, types: impl IntoIterator<Item = catalog::Oid>) -> Result<()> {
        let options = CopyOptions::from_ast(&copy.options).map_err(format_error)?;
        match options.format == Format::Binary && object_ids::hold_any(&self.epoch.snapshot, types) {
            true => Err(ExecError::sql(
                sqlstate::FEATURE_NOT_SUPPORTED,
                "binary COPY of arrays, composite values and records of users' own types from other nodes than home is not supported: they would tell object ids that are the node's own",
            )
            .hint("Use text or CSV.")),
            false => Ok(()),
        }
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
            self.cut_for_read_at_once().await?;
        }
        let mut lanes = Vec::new();
        for (i, node) in nodes.iter().enumerate() {
            let options_text = option_list(&copy.options, i == 0)?;
            let flushed = match self.lane(*node).await {
                Ok(mut p) => {
                    p.lane.put_query(&looks.in_front(*node, &format!("COPY ({query}) TO STDOUT{options_text}")));
                    let flushed = p.lane.conn.flush().await;
                    lanes.push(p);
                    flushed.map_err(ExecError::from)
                }
                Err(e) => Err(e),
            };
            if let Err(e) = flushed {
                self.abandon(lanes).await;
                return Err(e);
            }
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
    pub(super) async fn copy_query_to(
        &mut self,
        copy: &ast::CopyStmt,
        sql: &str,
        query: Compiled,
    ) -> Result<Forwarded> {
        let request = Request::simple(&query.text);
        match self.place(&query, &request).await? {
            Placed::One(node, _) => {
                if node != self.home() && is_binary(copy) {
                    let described = self.described(&query, &[]).await?;
                    self.refuse_foreign_ids(copy, described.fields.iter().flatten().map(|f| f.type_oid))?;
                }
                let local = self.guard(&query, node).is_some();
                let own = query.plan.whole().own_text().map(|text| copy_of(copy, text)).transpose()?;
                let sql = query.looks().in_front(node, own.as_deref().unwrap_or(sql));
                self.copy_on(node, &sql, query.plan.whole().writes, local).await
            }
            Placed::Several(_) => {
                let reads = matches!(query.plan, plan::Planned::Query { .. } | plan::Planned::Forward(_));
                let options = CopyOptions::from_ast(&copy.options).map_err(format_error)?;
                need_utf8(&options, "COPY of this query over several nodes")?;
                if reads {
                    self.cut_for_read().await?;
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
                let mut rows = Encoder { encoder, count: 0, running };
                let header = rows.header();
                if !header.is_empty() {
                    self.client.tell(Answer::CopyData(&header));
                }
                match reads {
                    true => self.read_out(&query, &request, &mut rows).await?,
                    false => {
                        // All of it is done before the first row is told.
                        let mut kept = Kept { rows: &mut rows, ready: KeptRows::new(self.memory) };
                        self.write_into(&query, &request, Rows::Kept(&mut kept)).await?;
                        for data in kept.ready.iter() {
                            self.client.tell(Answer::CopyData(&data?));
                            self.client.relieve().await?;
                        }
                    }
                }
                self.client.tell(Answer::CopyDone);
                Ok(Forwarded { tag: format!("COPY {}", rows.count), ..Default::default() })
            }
        }
    }

    /// Rows of a read go to the client as they come. Outside of a transaction a cancel finds the router, not the nodes, whose connections
    /// are given up.
    async fn read_out(&mut self, query: &Compiled, request: &Request<'_>, rows: &mut Encoder) -> Result<()> {
        if self.transaction.is_active() {
            return self.read_into(query, request, Rows::Copied(rows)).await;
        }
        self.client.waits();
        let cancelled = self.client.cancelled();
        tokio::select! {
            biased;
            () = cancelled => Err(ExecError::cancelled()),
            read = self.read_into(query, request, Rows::Copied(rows)) => read,
        }
    }
}

fn is_binary(copy: &ast::CopyStmt) -> bool {
    CopyOptions::from_ast(&copy.options).is_ok_and(|options| options.format == Format::Binary)
}

/// Formats caught rows as COPY data, one message a row as PostgreSQL does.
struct Encoder {
    encoder: RowEncoder,
    count: u64,
    running: Arc<Running>,
}

impl Encoder {
    /// Empty where the options ask for none.
    fn header(&mut self) -> BytesMut {
        let mut out = BytesMut::new();
        self.encoder.header(&mut out);
        out
    }
}

impl Formatting for Encoder {
    fn row(&mut self, values: &[Option<&[u8]>]) -> BytesMut {
        let mut out = BytesMut::new();
        self.encoder.row(values, &mut out);
        self.count += 1;
        progress::add(&self.running.rows, 1);
        progress::add(&self.running.bytes, out.len() as u64);
        out
    }
}

/// Formatted rows that wait.
struct Kept<'r> {
    rows: &'r mut Encoder,
    ready: KeptRows,
}

impl Consumer for Kept<'_> {
    fn row(&mut self, values: &[Option<&[u8]>]) -> Result<()> {
        let data = self.rows.row(values);
        self.ready.push(data.freeze())
    }
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

/// The same COPY of another query.
fn copy_of(copy: &ast::CopyStmt, query: &str) -> Result<String> {
    let query = sql::parse(query, true)?.pop().map(|tree| Box::new(sql::build::node(tree)));
    Ok(sql::deparse(&NodeEnum::CopyStmt(Box::new(ast::CopyStmt { query, ..copy.clone() })))?)
}

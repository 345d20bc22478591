//! What PostgreSQL says of a statement: the types of its parameters and the columns of its result.

use std::collections::HashSet;
use std::sync::Arc;
use wire::{sqlstate, type_oid};

use plan::{Finish, Planned};
use txn::Lane;
use wire::backend::{self, Field};
use wire::{ErrorFields, put};

use crate::client::{Answer, Client};
use crate::error::{ExecError, Result};
use crate::render::{Fill, NodeStatement};
use crate::request::{Bound, Request};
use crate::router::compiled::Compiled;
use crate::router::described::{Described, PartColumns};
use crate::work::Work;
use crate::work::rows::{self, Reply};

/// Anonymous rows have no type by whose name they could be read again.
pub fn refuse_rows(fields: &[Field]) -> Result<()> {
    match fields.iter().any(|f| f.type_oid == type_oid::RECORD) {
        true => Err(ExecError::sql(
            sqlstate::FEATURE_NOT_SUPPORTED,
            "anonymous row values are not supported over several nodes",
        )
        .hint("Select the columns by themselves.")),
        false => Ok(()),
    }
}

impl<C: Client> Work<'_, C> {
    /// The columns of every part of a read, asked once.
    pub async fn part_columns(
        &mut self,
        compiled: &Compiled,
        parts: &[&plan::Part],
        bound: &Bound,
    ) -> Result<Arc<Vec<PartColumns>>> {
        if let Some(p) = compiled.parts.get() {
            return Ok(p.clone());
        }
        let mut all = Vec::with_capacity(parts.len());
        for part in parts {
            let statement = Fill::new(bound, &self.now).statement([&part.text]);
            let described = self.describe_text(&statement.sql, &statement.types).await.map_err(not_in_place)?;
            let mut fields = described.fields.unwrap_or_default();
            if let Planned::Query { tree: Ok(Finish::Merge(m)), .. } = &compiled.plan {
                // What the client sees passes as it is.
                let visible = fields.len().saturating_sub(m.sort.len());
                let rows = fields.iter_mut().take(visible).filter(|f| f.type_oid == type_oid::RECORD);
                rows.for_each(|f| f.type_oid = type_oid::TEXT);
            }
            let domains =
                matches!(&compiled.plan, Planned::Query { tree: Ok(Finish::Statement(s)), .. } if s.as_described);
            all.push(self.columns_of(&statement, fields, domains).await?);
        }
        Ok(compiled.parts.get_or_init(|| async { Arc::new(all) }).await.clone())
    }

    /// How the columns of a query travel. `domains`: they are to be what they were in a table.
    pub async fn columns_of(
        &mut self,
        statement: &NodeStatement,
        fields: Vec<Field>,
        domains: bool,
    ) -> Result<PartColumns> {
        let bare = self.type_names(&fields).await?;
        let mut types = bare.clone();
        if domains {
            self.add_domains(statement, &fields, &mut types).await?;
        }
        if self.epoch.snapshot.own_collations || statement.sql.contains("COLLATE") {
            self.add_collations(statement, &fields, &mut types).await?;
        }
        Ok(PartColumns { types, bare, fields })
    }

    /// `format_type` of each column; anonymous rows have none and can't travel as text.
    pub async fn type_names(&mut self, fields: &[Field]) -> Result<Vec<String>> {
        refuse_rows(fields)?;
        if fields.is_empty() {
            return Ok(vec![]);
        }
        let columns: Vec<String> =
            fields.iter().map(|f| format!("pg_catalog.format_type({}, {})", f.type_oid, f.typmod)).collect();
        let rows = self.ask_home(&format!("SELECT {}", columns.join(", "))).await?;
        let row = rows.into_iter().next().unwrap_or_default();
        Ok(row.into_iter().map(|t| t.unwrap_or_else(|| "text".into())).collect())
    }

    /// Descriptions tell the type under a domain. Where a table's rows stand in its place, its columns keep theirs.
    pub async fn add_domains(&mut self, part: &NodeStatement, fields: &[Field], types: &mut [String]) -> Result<()> {
        let domain = |(i, f): (usize, &Field)| {
            format!(
                "CASE WHEN pg_catalog.pg_typeof(x.c{i})::pg_catalog.oid OPERATOR(pg_catalog.<>) '{}' \
                 THEN pg_catalog.format_type(pg_catalog.pg_typeof(x.c{i}), -1) END",
                f.type_oid
            )
        };
        let asked: Vec<_> = fields.iter().enumerate().map(domain).collect();
        for (name, domain) in types.iter_mut().zip(self.ask_of_columns(part, fields.len(), &asked).await?) {
            if let Some(domain) = domain {
                *name = domain;
            }
        }
        Ok(())
    }

    /// A column that is sorted and compared by other rules than the database's keeps them behind its type's name.
    pub async fn add_collations(&mut self, part: &NodeStatement, fields: &[Field], types: &mut [String]) -> Result<()> {
        let oids: Vec<String> = fields.iter().map(|f| f.type_oid.to_string()).collect();
        let collatable = format!(
            "SELECT oid FROM pg_catalog.pg_type WHERE typcollation OPERATOR(pg_catalog.<>) '0' AND oid OPERATOR(pg_catalog.=) ANY ('{{{}}}'::pg_catalog.oid[])",
            oids.join(",")
        );
        let collatable: HashSet<_> = self.ask_home(&collatable).await?.into_iter().flatten().flatten().collect();
        let has = |i: &usize| collatable.contains(&oids[*i]);
        let columns: Vec<usize> = (0..fields.len()).filter(has).collect();
        if columns.is_empty() {
            return Ok(());
        }
        // Anonymous rows, which the client is sent as text, have none, and may not be asked.
        let of_column = |i: &usize| {
            format!(
                "CASE WHEN pg_catalog.pg_typeof(x.c{i})::pg_catalog.oid OPERATOR(pg_catalog.<>) '{}' THEN pg_catalog.pg_collation_for(x.c{i}) END",
                type_oid::RECORD
            )
        };
        let asked: Vec<_> = columns.iter().map(of_column).collect();
        let row = self.ask_of_columns(part, fields.len(), &asked).await?;
        for (i, collation) in columns.into_iter().zip(row) {
            if let Some(collation) = collation.filter(|c| c != "\"default\"") {
                types[i].push_str(&format!(" COLLATE {collation}"));
            }
        }
        Ok(())
    }

    /// What follows from a part's text for its columns `x.c0`, `x.c1`, …: it is the same for a row of NULLs, and nothing of it runs.
    async fn ask_of_columns(
        &mut self,
        part: &NodeStatement,
        width: usize,
        asked: &[String],
    ) -> Result<Vec<Option<String>>> {
        let names: Vec<_> = (0..width).map(|i| format!("c{i}")).collect();
        let sql = format!(
            "SELECT {} FROM (VALUES (1)) AS v LEFT JOIN LATERAL ({}) AS x({}) ON false",
            asked.join(", "),
            part.sql,
            names.join(", ")
        );
        let values = part.values.iter().map(|_| None).collect();
        let statement =
            NodeStatement { sql, types: part.types.clone(), formats: vec![], values, once: true, columns: None };
        let home = self.home();
        let mut p = self.lane(home).await?;
        let row = first_row(&mut p.lane, &statement).await;
        self.put_back(p).await;
        row
    }

    /// What PostgreSQL says of a statement, and the client's parameters with all their types known.
    pub async fn described_bound(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
    ) -> Result<(Arc<Described>, Bound)> {
        let described = self.described(compiled, request.types()).await?;
        let bound = described.parameters(request);
        Ok((described, bound))
    }

    /// RowDescription, where the protocol wants it: of the statement as PostgreSQL itself described it.
    pub fn describe_to_client(&mut self, request: &Request<'_>, described: &Described) {
        if request.is_simple()
            && let Some(fields) = &described.fields
        {
            self.client.tell(Answer::Columns(fields));
        }
    }

    /// Asks once for each compiled statement; the answer is kept with it. Of those who ask at once while the schema changes each may hear another
    /// one: the first that is kept is everybody's, so that a client is bound by what others compare with later.
    pub async fn described(&mut self, compiled: &Compiled, types: &[u32]) -> Result<Arc<Described>> {
        if let Some(d) = compiled.described.get() {
            return Ok(d.clone());
        }
        let described = Arc::new(Box::pin(self.describe_text(&compiled.text, types)).await?);
        // In a transaction that changed the schema the answer may not hold for others.
        Ok(compiled.described.get_or_init(|| async { described }).await.clone())
    }

    /// Describes any statement on home: it has every table, and its object ids are the herd's.
    pub async fn describe_text(&mut self, sql: &str, types: &[u32]) -> Result<Described> {
        let home = self.home();
        // Nothing of the transaction is needed to describe: home is not drawn into it. What the session has of its own
        // (temporary tables) is on the pinned connection.
        let outside =
            self.transaction.is_active() && !self.own_catalog && self.pin.is_free() && !self.transaction.has(home);
        let p = match outside {
            true => self.outside(home).await.map(txn::Participant::new),
            false => self.lane(home).await,
        };
        match p {
            Ok(p) => self.describe_with(p, outside, sql, types).await,
            Err(ExecError::Pool(e)) if e.is_node_trouble() => self.describe_elsewhere(e, sql, types).await,
            Err(e) => Err(e),
        }
    }

    /// An error of a statement's meaning, found in the text of one node, as home finds it in the statement itself: with
    /// the place where it is.
    pub async fn as_home_says(&mut self, compiled: &Compiled, error: ExecError) -> ExecError {
        if !error.code().starts_with("42") || self.own_catalog || !self.pin.is_free() {
            return error;
        }
        let Ok(lane) = self.outside(self.home()).await else { return error };
        match self.describe_with(txn::Participant::new(lane), true, &compiled.text, &[]).await {
            Err(own) if own.code() == error.code() => own,
            _ => error,
        }
    }

    /// While home is down another node describes, as long as nothing has an object id of its own there. What it does not know, home may: that is
    /// no error of the statement's.
    async fn describe_elsewhere(&mut self, trouble: pool::PoolError, sql: &str, types: &[u32]) -> Result<Described> {
        let home = self.home();
        let others: Vec<_> = self.epoch.snapshot.nodes.iter().map(|n| n.id).filter(|n| *n != home).collect();
        for node in others {
            let Ok(lane) = self.outside(node).await else { continue };
            let Ok(mut d) = self.describe_with(txn::Participant::new(lane), true, sql, types).await else { continue };
            let own = d
                .params
                .iter()
                .chain(d.fields.iter().flatten().map(|f| &f.type_oid))
                .any(|t| *t >= type_oid::FIRST_NORMAL_OBJECT_ID);
            if !own {
                for f in d.fields.iter_mut().flatten() {
                    (f.table_oid, f.column) = (0, 0);
                }
                return Ok(d);
            }
        }
        Err(trouble.into())
    }

    /// Describes a statement on the node that has what it names (a cursor).
    pub async fn describe_on(&mut self, node: catalog::NodeId, sql: &str, types: &[u32]) -> Result<Described> {
        let p = self.lane(node).await?;
        self.describe_with(p, false, sql, types).await
    }

    async fn describe_with(
        &mut self,
        mut p: txn::Participant,
        outside: bool,
        sql: &str,
        types: &[u32],
    ) -> Result<Described> {
        put::parse(p.lane.conn.out(), "", sql, types);
        put::describe(p.lane.conn.out(), b'S', "");
        put::sync(p.lane.conn.out());
        p.lane.conn.sent_sync();
        let described = async {
            p.lane.conn.flush().await?;
            let mut described = Described::default();
            let mut error = None;
            loop {
                let frame = p.lane.next().await?;
                match frame.tag() {
                    b't' => described.params = backend::parse_parameter_description(frame.body())?,
                    b'T' => described.fields = Some(backend::parse_row_description(frame.body())?),
                    b'E' => error = Some(ErrorFields::parse(frame.body())?),
                    b'Z' => break,
                    _ => {}
                }
            }
            match error {
                Some(e) => Err(ExecError::Sql(Box::new(e))),
                None => Ok(described),
            }
        }
        .await;
        if !outside {
            self.put_back(p).await;
        }
        described
    }
}

/// The first row of a statement's answer, as text.
pub async fn first_row(lane: &mut Lane, statement: &NodeStatement) -> Result<Vec<Option<String>>> {
    rows::send_statement(lane, None, statement, false, &[]);
    lane.conn.flush().await?;
    let mut row = vec![];
    loop {
        match rows::next(lane).await? {
            Reply::Row(frame) => {
                let text = |v: Option<&[u8]>| v.map(|v| String::from_utf8_lossy(v).into_owned());
                row = backend::parse_data_row(frame.body())?.into_iter().map(text).collect();
            }
            Reply::Done => return Ok(row),
            _ => {}
        }
    }
}

/// Home has understood the whole: what it does not understand of a part of it is why this can't be done in parts.
pub fn not_in_place(e: ExecError) -> ExecError {
    match e {
        ExecError::Sql(e) if e.code().starts_with("42") && e.code() != sqlstate::INSUFFICIENT_PRIVILEGE => {
            plan::Refusal::not_in_place(e.message()).into()
        }
        e => e,
    }
}

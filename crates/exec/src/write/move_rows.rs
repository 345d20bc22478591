//! Runs an UPDATE that changes keys: DELETE … RETURNING the new rows on every node concerned, then each row goes to the
//! node of its new key. One transaction over all of them.

use std::collections::BTreeSet;
use wire::sqlstate;

use catalog::NodeId;
use plan::MoveRows;
use wire::backend;

use crate::client::{Answer, Client};
use crate::error::{ExecError, Result};
use crate::query::finish::parameters;
use crate::render::Fill;
use crate::request::Request;
use crate::router::compiled::Compiled;
use crate::work::Work;
use crate::write::sink::{Sink, SinkKind};

/// Bytes of rows on the move that the router holds, at most.
const HELD_BYTES_MAX: usize = 256 << 20;

impl<C: Client> Work<'_, C> {
    pub async fn move_rows(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        m: &MoveRows,
        nodes: &BTreeSet<NodeId>,
    ) -> Result<String> {
        let types = request.bound.map(|b| b.types.clone()).unwrap_or_default();
        let described = self.described(compiled, &types).await?;
        self.travel_whole(m.columns.iter().map(|c| m.relation.columns[*c].type_name.as_str()))?;
        self.not_referenced(m).await?;
        let mut bound = parameters(request, &described);
        // Rows between nodes are text, whatever the client wants of RETURNING.
        bound.result_formats.clear();
        self.need_transaction();
        let delete = Fill::new(&bound, &self.now).statement([&m.delete.text]);
        let texts: Vec<_> = nodes.iter().map(|n| (*n, delete.clone())).collect();
        let mut lanes = self.write(&texts, &Request::simple(&delete.sql)).await?;
        let mut rows = Vec::new();
        let mut bytes = 0;
        let mut failure = None;
        for p in &mut lanes {
            match self.read_answer(p, false).await {
                Ok(answer) => {
                    bytes += answer.rows.iter().map(|r| r.len()).sum::<usize>();
                    rows.extend(answer.rows);
                }
                Err(e) => {
                    failure.get_or_insert(e);
                }
            }
            if bytes > HELD_BYTES_MAX {
                let e = ExecError::sql(
                    sqlstate::PROGRAM_LIMIT_EXCEEDED,
                    "too many rows change their distribution key at once",
                );
                failure.get_or_insert(e.hint("Update them in several statements."));
            }
        }
        self.abandon(lanes).await;
        if let Some(e) = failure {
            return Err(e);
        }
        let returning = !m.insert.tail.is_empty();
        let kind = SinkKind::insert(&m.insert, returning, &bound, &self.now);
        let mut sink =
            Sink::open(self, m.relation.clone(), m.columns.clone(), kind, request.result_formats(), None).await?;
        for row in &rows {
            let sent = match backend::parse_data_row(&row[wire::frame::HEADER_LEN..]) {
                Ok(values) => sink.row(&values).await,
                Err(e) => Err(e.into()),
            };
            if let Err(e) = sent {
                return Err(sink.abort(self, e).await);
            }
        }
        let (count, returned) = sink.finish(self).await?;
        if returning {
            self.describe_to_client(request, &described);
            for row in returned {
                self.client.tell(Answer::Sent(&row));
                self.client.relieve().await?;
            }
        }
        Ok(format!("UPDATE {count}"))
    }

    /// Deleting a row that others refer to is not what an UPDATE does to them.
    async fn not_referenced(&mut self, m: &MoveRows) -> Result<()> {
        let table = catalog::qualified(&m.relation.schema, &m.relation.name);
        let sql = format!(
            "SELECT conname FROM pg_catalog.pg_constraint WHERE contype OPERATOR(pg_catalog.=) 'f' AND conparentid OPERATOR(pg_catalog.=) '0' \
             AND confrelid OPERATOR(pg_catalog.=) {}::pg_catalog.regclass LIMIT 1",
            catalog::quote_literal(&table)
        );
        match self.ask_home(&sql).await?.into_iter().next().and_then(|r| r.into_iter().next().flatten()) {
            None => Ok(()),
            Some(constraint) => Err(ExecError::sql(
                sqlstate::FEATURE_NOT_SUPPORTED,
                format!("changing the distribution key of a table that the foreign key \"{constraint}\" refers to is not supported"),
            )
            .hint("DELETE the rows and INSERT them with their new keys, in one transaction.")),
        }
    }
}

//! Runs an UPDATE that changes keys: DELETE … RETURNING the new rows on every node concerned, then each row goes to the
//! node of its new key. One transaction over all of them, beside which nobody else writes the table.

use std::collections::BTreeSet;
use wire::sqlstate;

use catalog::NodeId;
use plan::{MoveRows, Part};
use wire::backend;

use crate::carried::Carriers;
use crate::client::{Answer, Client};
use crate::error::{ExecError, Result};
use crate::render::{Child, Fill, NodeStatement};
use crate::request::{Bound, Request};
use crate::router::compiled::Compiled;
use crate::work::Work;
use crate::write::sink::{Sink, SinkKind};

impl<C: Client> Work<'_, C> {
    /// Deletes rows on `nodes` and inserts them where their new keys are; the command's tag. `children`: what was read for it.
    pub async fn move_rows(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        m: &MoveRows,
        nodes: &BTreeSet<NodeId>,
        children: Vec<Child>,
    ) -> Result<String> {
        let (described, bound) = self.described_bound(compiled, request).await?;
        let fill = Fill { children, ..Fill::new(&bound, &self.now) };
        let (probe, children) = (m.beside.as_ref().map(|query| fill.statement([query])), fill.children);
        let beside = match probe {
            Some(probe) => self.types_of_query(&probe).await?,
            None => vec![],
        };
        let carriers = self.carriers_into(&m.relation, &m.columns, &beside, false).await?;
        if let Err(refused) = self.may_move(m).await {
            return match &m.in_place {
                Some(part) if refused.code() == sqlstate::FEATURE_NOT_SUPPORTED => {
                    self.in_place(compiled, request, part, nodes, refused).await
                }
                _ => Err(refused),
            };
        }
        // Rows go as they travel, whatever the client wants of RETURNING.
        let read = Bound::default().for_columns(carriers.as_ref().map_or(vec![], Carriers::formats));
        self.need_transaction();
        // Who waits for a row that is deleted passes over it, and does not find it where it is inserted: nobody may wait for one.
        let shards = m.relation.distribution().map(|d| d.group.shards.as_slice()).unwrap_or_default();
        self.stop_writers(&m.relation, shards.iter().map(|s| s.node).collect()).await?;
        let delete = Fill { children, ..Fill::new(&bound, &self.now) }.statement([&m.delete.text]);
        let texts: Vec<_> = nodes.iter().map(|n| (*n, delete.clone())).collect();
        let said = (!read.result_formats.is_empty()).then_some(&read);
        let lanes = self.write(&texts, &Request::bound(&delete.sql, said)).await?;
        let answers = self.read_answers(lanes, false).await?;
        let kind = SinkKind::insert(&m.insert, m.returning, &bound, &self.now);
        let mut sink =
            Sink::open(self, m.relation.clone(), m.columns.clone(), kind, request.result_formats(), None).await?;
        sink.beside(beside)?;
        if let Some(carriers) = &carriers {
            sink.carry(carriers);
        }
        for row in answers.iter().flat_map(|a| a.rows.iter()) {
            let sent = async { sink.row(&backend::parse_data_row(&row?[wire::frame::HEADER_LEN..])?).await };
            if let Err(e) = sent.await {
                return Err(sink.abort(self, e).await);
            }
        }
        let (count, returned) = sink.finish(self).await?;
        if m.returning {
            self.describe_to_client(request, &described);
            for row in returned.iter() {
                self.client.tell(Answer::Sent(&row?));
                self.client.relieve().await?;
            }
        }
        Ok(format!("UPDATE {count}"))
    }

    /// The UPDATE where its rows are, which fails if one would have to move: `otherwise`.
    pub async fn in_place(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        part: &Part,
        nodes: &BTreeSet<NodeId>,
        otherwise: ExecError,
    ) -> Result<String> {
        let count = self.modify_each(compiled, request, part, nodes).await;
        Ok(format!("UPDATE {}", count.map_err(|e| e.unless_stays(|| otherwise))?))
    }

    /// What the columns of a query are to be where rows stand in its place.
    async fn types_of_query(&mut self, query: &NodeStatement) -> Result<Vec<String>> {
        let fields = self.describe_text(&query.sql, &query.types).await?.fields.unwrap_or_default();
        Ok(self.columns_of(query, fields, true).await?.types)
    }

    /// Deleting a row that others refer to is not what an UPDATE does to them. And who updates needs the right to that alone
    /// in PostgreSQL, which asks nobody about rows that it moves by itself; here they are deleted and inserted with his rights.
    /// Policies that say of a DELETE and of an INSERT what those for UPDATE say of its old and new rows say what they say of an UPDATE.
    async fn may_move(&mut self, m: &MoveRows) -> Result<()> {
        let table = catalog::quote_literal(&catalog::qualified(&m.relation.schema, &m.relation.name));
        // Behind a view it is the table that has policies and foreign keys, and the view's owner whom they mean.
        let (oid, through) = (m.relation.oid, m.relation.through.is_some());
        let rights = |columns: &[usize], right: &str| {
            let each = columns.iter().map(|c| {
                let column = catalog::quote_literal(&m.relation.columns[*c].name);
                format!("pg_catalog.has_column_privilege({table}, {column}, '{right}')")
            });
            each.collect::<Vec<_>>().join(" AND ")
        };
        let sql = format!(
            "SELECT {}, pg_catalog.has_table_privilege({table}, 'DELETE') AND {}, \
                 (SELECT conname FROM pg_catalog.pg_constraint WHERE contype OPERATOR(pg_catalog.=) 'f' \
                  AND (confrelid OPERATOR(pg_catalog.=) '{oid}' OR confrelid OPERATOR(pg_catalog.=) ANY \
                       (ARRAY(SELECT i.inhrelid FROM pg_catalog.pg_inherits i WHERE i.inhparent OPERATOR(pg_catalog.=) '{oid}'))) \
                  ORDER BY conparentid LIMIT 1), \
                 ({through} OR pg_catalog.row_security_active({table})) AND {}",
            rights(&m.set, "UPDATE"),
            rights(&m.columns, "INSERT"),
            policies_differ(oid, m.is_visible),
        );
        let row = self.ask_home(&sql).await?.into_iter().next().unwrap_or_default();
        let is_true = |i: usize| row.get(i).is_some_and(|v| v.as_deref() == Some("t"));
        if !is_true(0) {
            let message = format!("permission denied for table {}", m.relation.name);
            return Err(ExecError::sql(sqlstate::INSUFFICIENT_PRIVILEGE, message));
        }
        let refused = |message: String| ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, message);
        if !is_true(1) {
            let message =
                "changing the distribution key of rows without the rights to delete and insert them is not supported";
            let hint = format!("GRANT INSERT, DELETE ON {} to who changes keys.", m.relation.name);
            return Err(refused(message.into()).hint(&hint));
        }
        if m.relation.row_security && is_true(3) {
            let message = "changing the distribution key of a table whose policies for DELETE and INSERT are others than those for UPDATE is not supported";
            let hint = "Have policies FOR ALL, or the same for UPDATE, DELETE and INSERT; or DELETE the rows and INSERT them with their new keys.";
            return Err(refused(message.into()).hint(hint));
        }
        match row.get(2).cloned().flatten() {
            None => Ok(()),
            Some(constraint) => Err(refused(format!(
                "changing the distribution key of a table that the foreign key \"{constraint}\" refers to is not supported"
            ))
            .hint("DELETE the rows and INSERT them with their new keys, in one transaction.")),
        }
    }
}

/// A condition: the policies of a table say of rows that are deleted, or of those that are inserted, something else than of rows that an
/// UPDATE finds and makes. `visible`: as an UPDATE that reads columns, both ask the policies of SELECT besides; otherwise, only policies
/// FOR ALL that say the same of old and of new rows are known to.
fn policies_differ(table: catalog::Oid, visible: bool) -> String {
    // Of a restrictive one errors tell the name.
    let all = |command: char, says: &str| {
        format!(
            "COALESCE((SELECT pg_catalog.string_agg(p.said, ',' ORDER BY p.said) FROM \
             (SELECT pg_catalog.concat_ws(',', polpermissive, polroles, CASE WHEN polpermissive THEN '' ELSE pg_catalog.quote_ident(polname) END, \
             pg_catalog.quote_nullable({says})) AS said FROM pg_catalog.pg_policy \
             WHERE polrelid OPERATOR(pg_catalog.=) '{table}' AND polcmd OPERATOR(pg_catalog.=) '{command}') AS p), '')"
        )
    };
    let shows = "pg_catalog.pg_get_expr(polqual, polrelid)";
    let checks = "COALESCE(pg_catalog.pg_get_expr(polwithcheck, polrelid), pg_catalog.pg_get_expr(polqual, polrelid))";
    match visible {
        true => format!(
            "({} OPERATOR(pg_catalog.<>) {} OR {} OPERATOR(pg_catalog.<>) {})",
            all('w', shows),
            all('d', shows),
            all('w', checks),
            all('a', checks)
        ),
        false => format!(
            "EXISTS (SELECT FROM pg_catalog.pg_policy WHERE polrelid OPERATOR(pg_catalog.=) '{table}' \
             AND (polcmd OPERATOR(pg_catalog.<>) '*' OR polwithcheck IS NOT NULL AND (polqual IS NULL \
             OR pg_catalog.pg_get_expr(polwithcheck, polrelid) OPERATOR(pg_catalog.<>) {shows})))"
        ),
    }
}

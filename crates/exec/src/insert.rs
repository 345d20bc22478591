//! `INSERT … VALUES` over several shards: each row goes to its node, in one transaction.

use std::collections::BTreeMap;

use catalog::NodeId;
use plan::{Evaluation, SplitInsert};
use wire::backend;

use crate::bulk::Tally;
use crate::client::Client;
use crate::compiled::Compiled;
use crate::describe::Described;
use crate::error::{ExecError, Result};
use crate::finish::parameters;
use crate::render;
use crate::request::{Bound, Request};
use crate::work::Work;

/// The statement for a node, with these of its rows.
type NodeText<'t> = dyn Fn(NodeId, &[usize]) -> (NodeId, String) + Sync + 't;

impl<C: Client> Work<'_, C> {
    pub async fn split_insert(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        insert: &SplitInsert,
    ) -> Result<String> {
        let types = request.bound.map(|b| b.types.clone()).unwrap_or_default();
        // Without parameters and rows to return there is nothing PostgreSQL would have to say of it.
        let described = match request.bound.is_none() && !insert.returning {
            true => Default::default(),
            false => self.described(compiled, &types).await?,
        };
        let evaluated = self.evaluate(&compiled.plan.evaluate).await?;
        let d =
            insert.relation.distribution().cloned().ok_or_else(|| ExecError::internal("not a distributed table"))?;
        let mut nodes: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
        for (i, keys) in insert.keys.iter().enumerate() {
            let shard = self.shard_of_row(compiled, request, &insert.relation, keys, &evaluated).await?;
            nodes.entry(d.group.shards[shard].node).or_default().push(i);
        }
        let (Some(first), Some(last)) = (insert.rows.first(), insert.rows.last()) else {
            return Err(ExecError::internal("INSERT without rows"));
        };
        let head = render::with_evaluated(&insert.sql[..first.0], &evaluated);
        let tail = render::with_evaluated(&insert.sql[last.1..], &evaluated);
        let text = |node: NodeId, rows: &[usize]| {
            let rows: Vec<String> = rows
                .iter()
                .map(|r| render::with_evaluated(&insert.sql[insert.rows[*r].0..insert.rows[*r].1], &evaluated))
                .collect();
            (node, format!("{head}{}{tail}", rows.join(", ")))
        };
        let bound = parameters(request, &described);
        let why_not = insert.relation.statement_triggers.then_some("into a table with statement triggers");
        if nodes.len() > 1 && self.commits_batches(&insert.relation, None, why_not) {
            return self.split_apart(request, &described, &bound, &nodes, &text).await;
        }
        let texts: Vec<(NodeId, String)> = nodes.iter().map(|(node, rows)| text(*node, rows)).collect();
        let mut lanes = self.write(&texts, &bound, request).await?;
        self.describe_to_client(request, &described);
        let mut count = 0;
        let mut answers = Vec::with_capacity(lanes.len());
        let mut failure = None;
        for p in &mut lanes {
            match self.read_answer(p, !insert.returning).await {
                Ok(answer) => {
                    count += backend::rows_of_tag(&answer.tag);
                    answers.push(answer);
                }
                Err(e) => {
                    failure.get_or_insert(e);
                }
            }
        }
        self.abandon(lanes).await;
        if let Some(e) = failure {
            return Err(self.as_home_says(compiled, e).await);
        }
        // RETURNING in the order of VALUES, as plain PostgreSQL has it; ON CONFLICT may have skipped rows, then node by node.
        let whole = answers.iter().zip(nodes.values()).all(|(a, rows)| a.rows.len() == rows.len());
        if whole {
            let mut ordered: Vec<_> =
                nodes.values().zip(&answers).flat_map(|(rows, a)| rows.iter().zip(&a.rows)).collect();
            ordered.sort_by_key(|(row, _)| **row);
            for (_, row) in ordered {
                self.client.out().extend_from_slice(row);
                self.client.relieve().await?;
            }
        } else {
            for row in answers.iter().flat_map(|a| &a.rows) {
                self.client.out().extend_from_slice(row);
                self.client.relieve().await?;
            }
        }
        Ok(format!("INSERT 0 {count}"))
    }

    /// In batches that commit one by one, all nodes at once.
    async fn split_apart(
        &mut self,
        request: &Request<'_>,
        described: &Described,
        bound: &Bound,
        nodes: &BTreeMap<NodeId, Vec<usize>>,
        text: &NodeText<'_>,
    ) -> Result<String> {
        let size = self.bulk.rows();
        let mut tally = Tally::default();
        let mut returned = Vec::new();
        for round in 0.. {
            let chunks = nodes.iter().filter_map(|(node, rows)| Some((*node, rows.chunks(size).nth(round)?)));
            let texts: Vec<(NodeId, String)> = chunks.map(|(node, rows)| text(node, rows)).collect();
            if texts.is_empty() {
                break;
            }
            let answers = self.apart(&texts, bound, request, &mut tally).await?;
            returned.extend(answers.into_iter().flat_map(|a| a.rows));
        }
        self.describe_to_client(request, described);
        for row in &returned {
            self.client.out().extend_from_slice(row);
            self.client.relieve().await?;
        }
        Ok(format!("INSERT 0 {}", tally.committed))
    }

    /// Evaluates expressions once, on home, from first to last.
    pub async fn evaluate(&mut self, expressions: &[Evaluation]) -> Result<Vec<Option<String>>> {
        let mut values = Vec::with_capacity(expressions.len());
        // A target list has at most 1664 entries.
        for chunk in expressions.chunks(1600) {
            let list: Vec<String> = chunk.iter().map(|e| format!("({})::pg_catalog.text", e.sql)).collect();
            let rows = self.ask_home_writing(&format!("SELECT {}", list.join(", "))).await?;
            values.extend(rows.into_iter().next().unwrap_or_default());
        }
        Ok(values)
    }

    async fn ask_home_writing(&mut self, sql: &str) -> Result<Vec<catalog::Row>> {
        let sql = render::with_now(sql, &self.now);
        self.ask_home(&sql).await
    }
}

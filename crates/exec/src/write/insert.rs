//! `INSERT … VALUES` over several shards: each row goes to its node, in one transaction.

use std::collections::BTreeMap;

use catalog::NodeId;
use plan::{Evaluation, SplitInsert, Text};
use wire::backend;

use crate::client::{Answer, Client};
use crate::error::{ExecError, Result};
use crate::query::finish::parameters;
use crate::render::{Fill, NodeStatement};
use crate::request::{Bound, Keep, Request};
use crate::router::compiled::Compiled;
use crate::router::described::Described;
use crate::work::Work;
use crate::write::bulk::Tally;

/// The statement for a node, with these of its rows.
type NodeText<'t> = dyn Fn(NodeId, &[usize]) -> (NodeId, NodeStatement) + Sync + 't;

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
        let bound = parameters(request, &described);
        if !insert.evaluate.is_empty() {
            self.travel_whole(insert.relation.columns.iter().map(|c| c.type_name.as_str()))?;
        }
        let evaluated = self.evaluate(&insert.evaluate, &bound).await?;
        let d =
            insert.relation.distribution().cloned().ok_or_else(|| ExecError::internal("not a distributed table"))?;
        let mut nodes: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
        for (i, keys) in insert.keys.iter().enumerate() {
            let shard = self.shard_of_row(compiled, request, &insert.relation, keys, &evaluated).await?;
            nodes.entry(d.group.shards[shard].node).or_default().push(i);
        }
        let (now, comma) = (self.now.clone(), Text::from(", "));
        let fill = Fill { evaluated: &evaluated, ..Fill::new(&bound, &now) };
        let text = |node: NodeId, rows: &[usize]| {
            let mut texts = Vec::with_capacity(2 * rows.len() + 1);
            for r in rows {
                texts.extend([if texts.is_empty() { &insert.head } else { &comma }, &insert.rows[*r]]);
            }
            (node, fill.statement(texts.into_iter().chain([&insert.tail])))
        };
        let why_not = insert.relation.statement_triggers.then_some("into a table with statement triggers");
        if nodes.len() > 1 && self.commits_batches(&insert.relation, None, why_not) {
            return self.split_apart(request, &described, &nodes, &text).await;
        }
        let texts: Vec<_> = nodes.iter().map(|(node, rows)| text(*node, rows)).collect();
        let mut lanes = self.write(&texts, request).await?;
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
                nodes.values().zip(&answers).flat_map(|(rows, a)| rows.iter().zip(a.rows.iter())).collect();
            ordered.sort_by_key(|(row, _)| **row);
            for (_, row) in ordered {
                self.client.tell(Answer::Sent(row));
                self.client.relieve().await?;
            }
        } else {
            for row in answers.iter().flat_map(|a| a.rows.iter()) {
                self.client.tell(Answer::Sent(row));
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
        nodes: &BTreeMap<NodeId, Vec<usize>>,
        text: &NodeText<'_>,
    ) -> Result<String> {
        let size = self.bulk.rows();
        let mut tally = Tally::default();
        let mut returned = Vec::new();
        for round in 0.. {
            let chunks = nodes.iter().filter_map(|(node, rows)| Some((*node, rows.chunks(size).nth(round)?)));
            let texts: Vec<_> = chunks.map(|(node, rows)| text(node, rows)).collect();
            if texts.is_empty() {
                break;
            }
            let answers = self.apart(&texts, request, &mut tally).await?;
            returned.extend(answers);
        }
        self.describe_to_client(request, described);
        for row in returned.iter().flat_map(|a| a.rows.iter()) {
            self.client.tell(Answer::Sent(row));
            self.client.relieve().await?;
        }
        Ok(format!("INSERT 0 {}", tally.committed))
    }

    /// Evaluates expressions once, on home, from first to last.
    pub async fn evaluate(&mut self, expressions: &[Evaluation], bound: &Bound) -> Result<Vec<Option<String>>> {
        let mut values = Vec::with_capacity(expressions.len());
        let (head, behind, comma) = (Text::from("SELECT ("), Text::from(")::pg_catalog.text"), Text::from(", ("));
        // A target list has at most 1664 entries.
        for chunk in expressions.chunks(1600) {
            let items = chunk.iter().enumerate().flat_map(|(i, e)| {
                let before = if i == 0 { &head } else { &comma };
                [before, &e.expression, &behind]
            });
            let statement = Fill::new(bound, &self.now).statement(items);
            let home = std::collections::BTreeSet::from([self.home()]);
            let mut lanes = self.ask_part(&home, &statement, &[], Keep::No).await?;
            let mut failure = None;
            for p in &mut lanes {
                match self.read_answer(p, false).await {
                    Ok(answer) => {
                        for row in answer.rows.iter() {
                            let row = backend::parse_data_row(&row[wire::frame::HEADER_LEN..])?;
                            let text = |v: &[u8]| String::from_utf8_lossy(v).into_owned();
                            values.extend(row.into_iter().map(|v| v.map(text)));
                        }
                    }
                    Err(e) => failure = Some(e),
                }
            }
            self.abandon(lanes).await;
            if let Some(e) = failure {
                return Err(e);
            }
        }
        Ok(values)
    }
}

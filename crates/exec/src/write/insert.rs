//! `INSERT … VALUES` over several shards: each row goes to its node, in one transaction.

use std::collections::BTreeMap;

use catalog::NodeId;
use plan::{Evaluation, Piece, SplitInsert, Text};
use wire::backend;

use crate::client::{Answer, Client};
use crate::error::{ExecError, Result};
use crate::render::{Fill, NodeStatement};
use crate::request::{Bound, Keep, Request};
use crate::router::compiled::Compiled;
use crate::router::described::Described;
use crate::work::Work;
use crate::write::bulk::Tally;

/// The statement for a node, with these of its rows.
type NodeText<'t> = dyn Fn(NodeId, &[usize]) -> (NodeId, NodeStatement) + Sync + 't;

impl<C: Client> Work<'_, C> {
    /// Rows to their shards; the command's tag.
    pub async fn split_insert(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        insert: &SplitInsert,
    ) -> Result<String> {
        let is_first = self.transaction.is_active() && self.transaction.has_no_time();
        // Without parameters and rows to return there is nothing PostgreSQL would have to say of it.
        let described = match request.bound.is_none() && !insert.returning {
            true => Default::default(),
            false => self.described(compiled, request.types()).await?,
        };
        let bound = described.parameters(request);
        if !insert.evaluate.is_empty() {
            let types = insert.evaluate.iter().map(|e| insert.relation.columns[e.column].type_name.as_str());
            self.travel_made_of(types.collect()).await?;
        }
        let evaluated = self.evaluate(&insert.evaluate, &bound).await?;
        let d =
            insert.relation.distribution().cloned().ok_or_else(|| ExecError::internal("not a distributed table"))?;
        let mut nodes: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
        for (i, keys) in insert.keys.iter().enumerate() {
            let shard = self.shard_of_row(compiled, request, &insert.relation, keys, &evaluated).await?;
            nodes.entry(d.group.shards[shard].node).or_default().push(i);
        }
        if is_first && compiled.plan.whole().clock.is_some() {
            let texts = insert.rows.iter().chain([&insert.head, &insert.tail]);
            let reads = texts.flat_map(Text::pieces).any(|piece| *piece == Piece::Now);
            Box::pin(self.settle_first(nodes.keys().copied(), reads)).await?;
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
        let lanes = self.write(&texts, request).await?;
        self.describe_to_client(request, &described);
        let answers = match self.read_answers(lanes, !insert.returning).await {
            Ok(answers) => answers,
            Err(e) => return Err(self.as_home_says(compiled, e).await),
        };
        let count: u64 = answers.iter().map(|answer| backend::rows_of_tag(&answer.tag)).sum();
        // RETURNING in the order of VALUES, as plain PostgreSQL has it; ON CONFLICT may have skipped rows, then node by node.
        let whole = answers.iter().zip(nodes.values()).all(|(a, rows)| a.rows.len() == rows.len());
        if whole {
            let places =
                nodes.values().zip(&answers).flat_map(|(rows, a)| rows.iter().zip((0..).map(move |at| (a, at))));
            let mut ordered: Vec<_> = places.collect();
            ordered.sort_by_key(|(row, _)| **row);
            for (_, (answer, at)) in ordered {
                if let Some(row) = answer.rows.get(at)? {
                    self.client.tell(Answer::Sent(&row));
                    self.client.relieve().await?;
                }
            }
        } else {
            for row in answers.iter().flat_map(|a| a.rows.iter()) {
                self.client.tell(Answer::Sent(&row?));
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
            self.client.tell(Answer::Sent(&row?));
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
            let lanes = self.ask_part(&home, &statement, &[], Keep::No).await?;
            for row in self.read_answers(lanes, false).await?.iter().flat_map(|answer| answer.rows.iter()) {
                let row = row?;
                let row = backend::parse_data_row(&row[wire::frame::HEADER_LEN..])?;
                let text = |v: &[u8]| String::from_utf8_lossy(v).into_owned();
                values.extend(row.into_iter().map(|v| v.map(text)));
            }
        }
        Ok(values)
    }
}

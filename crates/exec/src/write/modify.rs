//! The same UPDATE or DELETE on every node: counts are added up, RETURNING rows follow each other.

use std::collections::BTreeSet;

use catalog::NodeId;
use plan::Part;
use txn::Participant;
use wire::backend;

use crate::client::{Answer, Client};
use crate::error::Result;
use crate::kept_rows::KeptRows;
use crate::render::{Fill, NodeStatement};
use crate::request::{Keep, Request};
use crate::router::compiled::Compiled;
use crate::work::Work;
use crate::work::rows::{self, Reply};
use crate::write::bulk::Tally;

/// One node's answer to a write.
pub struct Returned {
    pub rows: KeptRows,
    pub tag: String,
}

impl<C: Client> Work<'_, C> {
    /// The same UPDATE or DELETE on every node; the rows counted.
    pub async fn modify_each(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        part: &Part,
        nodes: &BTreeSet<NodeId>,
    ) -> Result<u64> {
        let (described, bound) = self.described_bound(compiled, request).await?;
        self.describe_to_client(request, &described);
        let statement = Fill::new(&bound, &self.now).statement([&part.text]);
        self.everywhere(nodes, &statement, request).await
    }

    /// Sends a text to nodes in one transaction; rows go to the client as they come. The rows counted are returned.
    pub async fn everywhere(
        &mut self,
        nodes: &BTreeSet<NodeId>,
        statement: &NodeStatement,
        request: &Request<'_>,
    ) -> Result<u64> {
        let texts: Vec<_> = nodes.iter().map(|n| (*n, statement.clone())).collect();
        self.each_its_own(&texts, request).await
    }

    /// The same with a text for each node.
    pub async fn each_its_own(&mut self, texts: &[(NodeId, NodeStatement)], request: &Request<'_>) -> Result<u64> {
        let lanes = self.write(texts, request).await?;
        let answers = self.read_answers(lanes, true).await?;
        Ok(answers.iter().map(|answer| backend::rows_of_tag(&answer.tag)).sum())
    }

    /// As [`everywhere`](Self::everywhere), but each node commits by itself.
    pub async fn everywhere_apart(
        &mut self,
        nodes: &BTreeSet<NodeId>,
        statement: &NodeStatement,
        request: &Request<'_>,
    ) -> Result<u64> {
        let texts: Vec<_> = nodes.iter().map(|n| (*n, statement.clone())).collect();
        let mut tally = Tally::default();
        let answers = self.apart(&texts, request, &mut tally).await?;
        for row in answers.iter().flat_map(|a| a.rows.iter()) {
            self.client.tell(Answer::Sent(&row?));
            self.client.relieve().await?;
        }
        Ok(tally.committed)
    }

    /// Sends each node its own text, which it commits by itself; all are waited for. Errors tell what is committed.
    pub async fn apart(
        &mut self,
        texts: &[(NodeId, NodeStatement)],
        request: &Request<'_>,
        tally: &mut Tally,
    ) -> Result<Vec<Returned>> {
        let mut lanes = match self.write_each(texts, request).await {
            Ok(lanes) => lanes,
            Err(e) => {
                // Those that had been told may have done it.
                tally.doubtful |= texts.len() > 1;
                return Err(tally.tell(e, false));
            }
        };
        let mut answers = Vec::with_capacity(lanes.len());
        let mut failure = None;
        for p in &mut lanes {
            match self.read_answer(p, false).await {
                Ok(answer) => {
                    tally.committed += backend::rows_of_tag(&answer.tag);
                    answers.push(answer);
                }
                Err(e) => {
                    tally.doubtful |= p.lane.conn.is_broken();
                    failure.get_or_insert(e);
                }
            }
        }
        self.abandon(lanes).await;
        match failure {
            Some(e) => Err(tally.tell(e, false)),
            None => Ok(answers),
        }
    }

    /// Sends each node its own text. More than one node, and a transaction is needed.
    pub async fn write(
        &mut self,
        texts: &[(NodeId, NodeStatement)],
        request: &Request<'_>,
    ) -> Result<Vec<Participant>> {
        if texts.len() > 1 {
            self.need_transaction();
        }
        self.write_each(texts, request).await
    }

    async fn write_each(
        &mut self,
        texts: &[(NodeId, NodeStatement)],
        request: &Request<'_>,
    ) -> Result<Vec<Participant>> {
        let keep = if request.bound.is_some() { Keep::Yes } else { Keep::No };
        let formats = request.result_formats();
        let asked = texts.iter().map(|(node, statement)| (*node, statement));
        self.ask_each(asked, |work, p, statement| {
            p.wrote = true;
            let (mark, foreign) = (work.mark(keep, statement), p.lane.node != work.home());
            rows::send_statement(&mut p.lane, mark.as_deref(), statement, foreign, formats);
        })
        .await
    }

    /// Reads the answer of each lane, whatever the others say, and puts them back. The first error is told.
    pub async fn read_answers(&mut self, mut lanes: Vec<Participant>, forward: bool) -> Result<Vec<Returned>> {
        let mut answers = Vec::with_capacity(lanes.len());
        let mut failure = None;
        for p in &mut lanes {
            match self.read_answer(p, forward).await {
                Ok(answer) => answers.push(answer),
                Err(e) => {
                    failure.get_or_insert(e);
                }
            }
        }
        self.abandon(lanes).await;
        failure.map_or(Ok(answers), Err)
    }

    /// Reads one node's answer. `forward`: its rows go to the client at once, otherwise they are kept.
    pub async fn read_answer(&mut self, p: &mut Participant, forward: bool) -> Result<Returned> {
        let mut answer = Returned { rows: KeptRows::new(self.memory), tag: String::new() };
        loop {
            match self.next_reply(&mut p.lane).await? {
                Reply::Row(frame) if forward => {
                    self.client.tell(Answer::Sent(&frame.raw));
                    self.client.relieve().await?;
                }
                Reply::Row(frame) => answer.rows.push(frame.raw)?,
                Reply::Complete(tag) => answer.tag = tag,
                Reply::Done => return Ok(answer),
                Reply::Notice => {}
            }
        }
    }
}

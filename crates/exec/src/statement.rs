//! Runs one planned statement: evaluates where it goes and takes the way its plan has for that many nodes.

use std::collections::BTreeSet;

use plan::{Change, Insert, Part, Plan};

use crate::client::Client;
use crate::error::Result;
use crate::render::Fill;
use crate::request::{Bound, Literals, Request};
use crate::route::Forwarded;
use crate::router::compiled::Compiled;
use crate::work::Work;
use crate::work::place::Placed;

impl<C: Client> Work<'_, C> {
    /// Runs a statement to its end; the command tag is returned for the session to send after the commit.
    pub async fn run(&mut self, compiled: &Compiled, request: &Request<'_>) -> Result<Forwarded> {
        let rewritten = compiled.plan.whole().rewritten.as_ref();
        let less = rewritten.and_then(|sql| request.bound?.without_strangers(sql));
        let bound = less.as_ref().or(request.bound);
        let rewritten = rewritten.map(|sql| Request { sql, bound, literals: Literals::Own });
        let request = rewritten.as_ref().unwrap_or(request);
        self.uses = compiled.plan.whole().sequences.clone();
        let tag = match self.place(compiled, request).await? {
            Placed::One(node, shard) => {
                let named = shard.is_some() && compiled.plan.whole().splices.is_some();
                let by_parent = compiled.plan.whole().by_parent.as_ref().filter(|_| !named);
                let by_parent = by_parent.map(|sql| Request { sql, bound: request.bound, literals: Literals::Own });
                let request = by_parent.as_ref().unwrap_or(request);
                let routed = self.share_or_route(compiled, request, node, shard).await;
                return routed.map_err(|e| e.of_strays(&compiled.plan));
            }
            Placed::Several(nodes) => {
                self.looks = compiled.looks().clone();
                let done = Box::pin(self.several(compiled, request, &nodes)).await;
                done.map_err(|e| e.of_views(&compiled.plan.whole().apart_views))?
            }
        };
        Ok(Forwarded { tag, several: true, ..Default::default() })
    }

    /// A plan's text as nodes get it in this execution.
    pub fn statement_text(&self, text: &plan::Text, request: &Request<'_>) -> String {
        let none = Bound::default();
        Fill::new(request.bound.unwrap_or(&none), &self.now).statement([text]).sql
    }

    /// What a plan says for more than one node.
    async fn several(&mut self, compiled: &Compiled, request: &Request<'_>, nodes: &BTreeSet<i32>) -> Result<String> {
        match &compiled.plan {
            Plan::Query { tree: Ok(finish), .. } => self.query(compiled, request, finish).await,
            Plan::Insert { rows: Insert::Rows(i), .. } => self.split_insert(compiled, request, i).await,
            Plan::Insert { rows: Insert::Select(i), .. } => self.insert_select(compiled, request, i).await,
            Plan::Insert { rows: Insert::Each { relation, part }, .. } => {
                self.insert_in_place(compiled, request, relation, part, nodes).await
            }
            Plan::Insert { rows: Insert::Copies(w), .. } => {
                let count = self.reference_write(compiled, request, w).await?;
                Ok(format!("INSERT 0 {count}"))
            }
            Plan::Modify { verb, change: Change::Each(part), .. } => {
                let count = self.modify_each(compiled, request, part, nodes).await?;
                Ok(format!("{} {count}", verb.as_str()))
            }
            Plan::Modify { change: Change::Move(m), .. } => self.move_rows(compiled, request, m, nodes).await,
            Plan::Modify { verb, change: Change::Copies(w), .. } => {
                let count = self.reference_write(compiled, request, w).await?;
                Ok(format!("{} {count}", verb.as_str()))
            }
            Plan::Query { tree: Err(refusal), .. } | Plan::Modify { change: Change::Refused(refusal), .. } => {
                // What is wrong anyway gets PostgreSQL's own error.
                let types = request.bound.map(|b| b.types.clone()).unwrap_or_default();
                self.described(compiled, &types).await?;
                Err(refusal.clone().into())
            }
            Plan::Forward(_) | Plan::Insert { rows: Insert::Row, .. } => {
                Err(plan::Refusal::not_colocated("a statement").into())
            }
        }
    }

    /// The same UPDATE or DELETE on every node; the rows counted.
    async fn modify_each(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        part: &Part,
        nodes: &BTreeSet<i32>,
    ) -> Result<u64> {
        let types = request.bound.map(|b| b.types.clone()).unwrap_or_default();
        let described = self.described(compiled, &types).await?;
        let bound = crate::query::finish::parameters(request, &described);
        self.describe_to_client(request, &described);
        let statement = Fill::new(&bound, &self.now).statement([&part.text]);
        self.everywhere(nodes, &statement, request).await
    }
}

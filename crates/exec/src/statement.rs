//! Runs one planned statement: evaluates where it goes and takes the way its plan has for that many nodes.

use std::collections::BTreeSet;

use catalog::{NodeId, Placement, Relation};
use plan::{Change, Insert, Part, Plan};

use crate::client::Client;
use crate::compiled::Compiled;
use crate::error::Result;
use crate::render::Fill;
use crate::request::{Bound, Literals, Request};
use crate::route::Forwarded;
use crate::shards::Targets;
use crate::work::Work;

impl<C: Client> Work<'_, C> {
    /// Runs a statement to its end; the command tag is returned for the session to send after the commit.
    pub async fn run(&mut self, compiled: &Compiled, request: &Request<'_>) -> Result<Forwarded> {
        let rewritten = compiled.plan.whole().rewritten.as_ref().map(|sql| Request {
            sql,
            bound: request.bound,
            literals: Literals::Own,
        });
        let request = rewritten.as_ref().unwrap_or(request);
        self.uses = compiled.plan.whole().sequences.clone();
        let tag = match self.place(compiled, request).await? {
            Placed::One(node, shard) => {
                let routed = self.route(compiled, request, node, shard).await;
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

    /// Where this execution goes.
    pub async fn place(&mut self, compiled: &Compiled, request: &Request<'_>) -> Result<Placed> {
        let whole = compiled.plan.whole();
        match &compiled.plan {
            Plan::Forward(_) => return Ok(Placed::One(self.any_node(whole.needs_home), None)),
            Plan::Insert { rows: Insert::Rows(i), .. } => return Ok(Placed::Several(self.nodes_of(&i.relation))),
            Plan::Insert { rows: Insert::Select(i), .. } => return Ok(Placed::Several(self.nodes_of(&i.relation))),
            Plan::Insert { rows: Insert::Copies(w), .. } | Plan::Modify { change: Change::Copies(w), .. } => {
                return Ok(Placed::Several(self.nodes_of(&w.relation)));
            }
            Plan::Modify { change: Change::Move(_), .. } => {
                return Ok(Placed::Several(Box::pin(self.targets(compiled, request)).await?.nodes));
            }
            Plan::Query { .. } | Plan::Insert { .. } | Plan::Modify { .. } => {}
        }
        if let Some((node, shard)) = self.one_shard(compiled, request)? {
            return Ok(Placed::One(node, Some(shard)));
        }
        let Targets { nodes, shard } = Box::pin(self.targets(compiled, request)).await?;
        let mut each = nodes.iter();
        match (each.next(), each.next()) {
            (Some(node), None) => Ok(Placed::One(*node, shard)),
            _ => Ok(Placed::Several(nodes)),
        }
    }

    /// Nodes that have a part or a copy of a table.
    fn nodes_of(&self, relation: &Relation) -> BTreeSet<NodeId> {
        match &relation.placement {
            Placement::Local => BTreeSet::from([self.home()]),
            Placement::Reference => self.epoch.snapshot.nodes.iter().map(|n| n.id).collect(),
            Placement::Distributed(d) => d.group.shards.iter().map(|s| s.node).collect(),
        }
    }

    /// A statement over reference tables alone runs where the transaction already is, or on home.
    fn any_node(&self, needs_home: bool) -> i32 {
        let home = self.home();
        if needs_home || self.transaction.has(home) {
            return home;
        }
        self.transaction.participants.first().map_or(home, |p| p.lane.node)
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
        let bound = crate::finish::parameters(request, &described);
        self.describe_to_client(request, &described);
        let statement = Fill::new(&bound, &self.now).statement([&part.text]);
        self.everywhere(nodes, &statement, request).await
    }
}

pub enum Placed {
    /// One node; with the one shard all of it is in, if it is just one.
    One(i32, Option<i32>),
    Several(BTreeSet<i32>),
}

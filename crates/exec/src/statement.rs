//! Runs one planned statement: evaluates where it goes and takes the way its plan has for that many nodes.

use plan::{Multi, StatementKind};
use std::collections::BTreeSet;

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
        let rewritten =
            compiled.plan.rewritten.as_ref().map(|sql| Request { sql, bound: request.bound, literals: Literals::Own });
        let request = rewritten.as_ref().unwrap_or(request);
        let tag = match self.place(compiled, request).await? {
            Placed::One(node, shard) => return self.route(compiled, request, node, shard).await,
            Placed::Several(nodes) => Box::pin(self.several(compiled, request, &nodes)).await?,
        };
        Ok(Forwarded { tag, ..Default::default() })
    }

    /// A plan's text as nodes get it in this execution.
    pub fn statement_text(&self, text: &plan::Text, request: &Request<'_>) -> String {
        let none = Bound::default();
        Fill::new(request.bound.unwrap_or(&none), &self.now).statement([text]).sql
    }

    /// Where this execution goes.
    pub async fn place(&mut self, compiled: &Compiled, request: &Request<'_>) -> Result<Placed> {
        let plan = &compiled.plan;
        match &plan.multi {
            Multi::Move(_) => return Ok(Placed::Several(Box::pin(self.targets(compiled, request)).await?.nodes)),
            Multi::Insert(_) | Multi::Reference(_) => return Ok(Placed::Several(BTreeSet::new())),
            Multi::InsertSelect(i) if i.colocated.is_none() => return Ok(Placed::Several(BTreeSet::new())),
            _ => {}
        }
        if plan.tables.is_empty() {
            return Ok(Placed::One(self.any_node(plan.needs_home), None));
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

    /// A statement over reference tables alone runs where the transaction already is, or on home.
    fn any_node(&self, needs_home: bool) -> i32 {
        let home = self.home();
        if needs_home || self.transaction.has(home) {
            return home;
        }
        self.transaction.participants.first().map_or(home, |p| p.lane.node)
    }

    async fn several(&mut self, compiled: &Compiled, request: &Request<'_>, nodes: &BTreeSet<i32>) -> Result<String> {
        let plan = &compiled.plan;
        match &plan.multi {
            Multi::Refuse(refusal) => {
                // What is wrong anyway gets PostgreSQL's own error.
                let types = request.bound.map(|b| b.types.clone()).unwrap_or_default();
                self.described(compiled, &types).await?;
                Err(refusal.clone().into())
            }
            Multi::None => Err(plan::Refusal::not_colocated("a statement").into()),
            Multi::Select(m) => self.multi_select(compiled, request, m).await,
            Multi::Move(m) => self.move_rows(compiled, request, m, nodes).await,
            Multi::Insert(i) => self.split_insert(compiled, request, i).await,
            Multi::Reference(w) => self.reference_write(compiled, request, w, verb(plan.kind)).await,
            Multi::InsertSelect(i) => self.insert_select(compiled, request, i, nodes).await,
            Multi::Modify { text, .. } => {
                let types = request.bound.map(|b| b.types.clone()).unwrap_or_default();
                let described = self.described(compiled, &types).await?;
                let bound = crate::finish::parameters(request, &described);
                self.describe_to_client(request, &described);
                let statement = Fill::new(&bound, &self.now).statement([text]);
                let count = self.everywhere(nodes, &statement, request).await?;
                Ok(format!("{} {count}", verb(plan.kind)))
            }
        }
    }
}

pub enum Placed {
    /// One node; with the one shard all of it is in, if it is just one.
    One(i32, Option<i32>),
    Several(BTreeSet<i32>),
}

pub fn verb(kind: StatementKind) -> &'static str {
    match kind {
        StatementKind::Select => "SELECT",
        StatementKind::Insert => "INSERT",
        StatementKind::Update => "UPDATE",
        StatementKind::Delete => "DELETE",
        StatementKind::Merge => "MERGE",
    }
}

//! Runs one planned statement: evaluates where it goes and takes the way its plan has for that many nodes.

use std::collections::BTreeSet;

use plan::{Change, Insert, Planned};

use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::render::Fill;
use crate::request::{Bound, Literals, Request};
use crate::route::Forwarded;
use crate::router::compiled::Compiled;
use crate::work::Work;
use crate::work::place::Placed;

impl<C: Client> Work<'_, C> {
    /// Runs a statement to its end; the command tag is returned for the session to send after the commit.
    pub fn run<'a>(
        &'a mut self,
        compiled: &'a Compiled,
        request: &'a Request<'_>,
    ) -> impl Future<Output = Result<Forwarded>> + 'a {
        self.run_at(compiled, request, None)
    }

    /// The same; `placed`: where it goes, if that is known.
    pub async fn run_at(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        mut placed: Option<Placed>,
    ) -> Result<Forwarded> {
        if let Planned::InTurn { turns, .. } = &compiled.plan {
            let at = match placed.take() {
                Some(placed) => placed,
                None => Box::pin(self.place(compiled, request)).await?,
            };
            if let (Placed::Several(_), None) = (&at, request.limit) {
                self.on_one = false;
                let tag = match turns {
                    Ok(turns) => Box::pin(self.in_turn(compiled, request, turns)).await?,
                    Err(refusal) => {
                        self.described(compiled, request.types()).await?;
                        return Err(refusal.clone().into());
                    }
                };
                return Ok(Forwarded { tag, ..Default::default() });
            }
            placed = Some(at);
        }
        self.run_alone(compiled, request, placed).await
    }

    /// The same of a statement that is not several, one after the other.
    pub async fn run_alone(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        placed: Option<Placed>,
    ) -> Result<Forwarded> {
        let Some(by_rule) = &compiled.plan.whole().by_rule else {
            return self.run_planned(compiled, request, placed).await;
        };
        Box::pin(self.may_by_rule(compiled, request)).await?;
        Box::pin(self.run_planned(compiled, request, placed)).await.map_err(|e| e.of_rule(&by_rule.view))
    }

    async fn run_planned(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        placed: Option<Placed>,
    ) -> Result<Forwarded> {
        if request.bound.is_none() && compiled.plan.whole().names_parameters {
            // Whoever gives no parameters names none: home says so, or what is wrong before that.
            self.ask_home(request.sql).await?;
            return Err(ExecError::internal("a statement ran without its parameters"));
        }
        let clock = compiled.plan.whole().clock.as_deref();
        let anew = match clock.filter(|_| self.transaction.is_active() && request.limit.is_none()) {
            Some(clock) => Box::pin(self.at_moment(compiled, request, clock)).await?,
            None => None,
        };
        let text = anew.as_ref().map(|c| Request { sql: &c.text, literals: Literals::Own, ..*request });
        let placed = placed.filter(|_| anew.is_none());
        let (compiled, request) = (anew.as_ref().unwrap_or(compiled), text.as_ref().unwrap_or(request));
        let rewritten = compiled.plan.whole().rewritten.as_ref();
        let less = rewritten.and_then(|sql| request.bound?.without_strangers(sql));
        let bound = less.as_ref().or(request.bound);
        let rewritten = rewritten.map(|sql| Request { sql, bound, literals: Literals::Own, ..*request });
        let request = rewritten.as_ref().unwrap_or(request);
        self.uses = compiled.plan.whole().sequences.clone();
        let placed = match placed {
            Some(placed) => placed,
            None => self.place(compiled, request).await?,
        };
        self.on_one = matches!(placed, Placed::One(..));
        let tag = match placed {
            Placed::One(node, shard) => {
                if let Some(tag) = self.one_by_columns(compiled, request, shard).await? {
                    return Ok(Forwarded { tag, ..Default::default() });
                }
                let named = shard.is_some() && compiled.plan.whole().splices.is_some();
                let by_parent = compiled.plan.whole().by_parent.as_ref().filter(|_| !named);
                let by_parent = by_parent.map(|sql| Request { sql, literals: Literals::Own, ..*request });
                let request = by_parent.as_ref().unwrap_or(request);
                let routed = match request.limit {
                    Some(limit) => self.portal_open(compiled, request, node, limit).await,
                    None => self.share_or_route(compiled, request, node, shard).await,
                };
                return routed.map_err(|e| e.of_strays(&compiled.plan));
            }
            // It was on one node when its rows were counted out.
            Placed::Several(_) if request.limit.is_some() => return Err(ExecError::Stale),
            Placed::Several(nodes) => {
                self.looks = compiled.looks().clone();
                let done = Box::pin(self.several(compiled, request, &nodes)).await;
                done.map_err(|e| e.of_views(&compiled.plan.whole().apart_views))?
            }
        };
        Ok(Forwarded { tag, ..Default::default() })
    }

    /// A plan's text as nodes get it in this execution.
    pub fn statement_text(&self, text: &plan::Text, request: &Request<'_>) -> String {
        let none = Bound::default();
        Fill::new(request.bound.unwrap_or(&none), &self.now).statement([text]).sql
    }

    /// What a plan says for more than one node.
    async fn several(&mut self, compiled: &Compiled, request: &Request<'_>, nodes: &BTreeSet<i32>) -> Result<String> {
        match &compiled.plan {
            Planned::Query { tree: Ok(finish), .. } => self.query(compiled, request, finish).await,
            Planned::Insert { rows: Insert::Rows(i), .. } => self.split_insert(compiled, request, i).await,
            Planned::Insert { rows: Insert::Select(i), .. } => self.insert_select(compiled, request, i).await,
            Planned::Insert { rows: Insert::Each { relation, part }, .. } => {
                self.insert_in_place(compiled, request, relation, part, nodes).await
            }
            Planned::Insert { rows: Insert::Copies(w), .. } => {
                if let Some(unread) = self.unread(w).await? {
                    return Box::pin(self.insert_select(compiled, request, unread)).await;
                }
                let count = self.reference_write(compiled, request, w).await?;
                Ok(format!("INSERT 0 {count}"))
            }
            Planned::Modify { verb, change: Change::Each(part), .. } => {
                let count = self.modify_each(compiled, request, part, nodes).await?;
                Ok(format!("{} {count}", verb.as_str()))
            }
            Planned::Modify { verb, change: Change::From(from), .. } => {
                Box::pin(self.change_from(compiled, request, *verb, from)).await
            }
            Planned::Modify { change: Change::Stay(s), .. } => {
                self.in_place(compiled, request, &s.part, nodes, s.otherwise.clone().into()).await
            }
            Planned::Modify { change: Change::Move(m), .. } => {
                self.move_rows(compiled, request, m, nodes, vec![]).await
            }
            Planned::Modify { verb, change: Change::Copies(w), .. } => {
                let count = self.reference_write(compiled, request, w).await?;
                Ok(format!("{} {count}", verb.as_str()))
            }
            Planned::Query { tree: Err(refusal), .. } | Planned::Modify { change: Change::Refused(refusal), .. } => {
                // What is wrong anyway gets PostgreSQL's own error.
                self.described(compiled, request.types()).await?;
                Err(refusal.clone().into())
            }
            Planned::InTurn { .. } => {
                let message = "data-modifying WITH over several nodes is not supported inside another statement";
                Err(plan::Refusal::new(message, "Write its rows into a temporary table first.").into())
            }
            Planned::Forward(_) | Planned::Insert { rows: Insert::Row, .. } => {
                Err(plan::Refusal::not_colocated("a statement").into())
            }
        }
    }
}

//! One time for a transaction over several nodes: that of the node which joined it first.
//!
//! Statements on that node go as they are. Before one that reads the clock elsewhere, the node is asked for its time, once, and
//! the statement is planned again with the time in place of its words (`plan/src/moment.rs`).

use catalog::NodeId;
use plan::{Change, Clock, Insert, Planned};

use crate::client::Client;
use crate::error::Result;
use crate::now::{Now, timestamp};
use crate::request::Request;
use crate::router::compiled::Compiled;
use crate::work::Work;
use crate::work::place::Placed;
use crate::work::planned::planned;

/// As a literal that means the same under all settings.
const ASK: &str = "SELECT pg_catalog.concat(pg_catalog.to_char(pg_catalog.timezone('UTC', pg_catalog.transaction_timestamp()), \
     'YYYY-MM-DD HH24:MI:SS.US'), '+00')";

impl<C: Client> Work<'_, C> {
    /// The statement's time is its transaction's, if it is not alone in it.
    pub async fn settle_now(&mut self) -> Result<()> {
        if !self.transaction.is_active() {
            return Ok(());
        }
        if self.transaction.now.is_none() {
            let asked = match self.transaction.clock {
                Some(node) => {
                    let mut p = self.lane(node).await?;
                    let rows = p.lane.rows(ASK).await;
                    self.put_back(p).await;
                    rows?.into_iter().flatten().flatten().next()
                }
                // Nobody has been asked anything yet.
                None => None,
            };
            self.transaction.now = Some(asked.unwrap_or_else(timestamp).into());
        }
        self.now = Now::of(self.transaction.now.as_deref());
        Ok(())
    }

    /// Rows of a transaction's first statement go to these nodes: if it is one, its time is the transaction's. `reads`: the
    /// statement's texts read the clock.
    pub async fn settle_first(&mut self, mut nodes: impl Iterator<Item = NodeId>, reads: bool) -> Result<()> {
        if let (Some(node), None) = (nodes.next(), nodes.next()) {
            let p = self.lane(node).await?;
            self.put_back(p).await;
            self.transaction.clock = Some(node);
        }
        if reads { self.settle_now().await } else { Ok(()) }
    }

    /// The statement with the transaction's time in it. `None`: it may go as it is.
    pub async fn at_moment(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        clock: &Clock,
    ) -> Result<Option<Compiled>> {
        let is_first = self.transaction.has_no_time();
        let own = match (self.place(compiled, request).await?, &compiled.plan) {
            (Placed::One(node, _), _) if is_first || self.transaction.clock == Some(node) => return Ok(None),
            (Placed::One(..), _) => true,
            // Which of the nodes take part is known when the keys are.
            (Placed::Several(_), Planned::Insert { rows: Insert::Rows(_), .. }) if is_first => return Ok(None),
            (Placed::Several(nodes), plan) => {
                let home = self.home();
                if is_first && let Some(first) = nodes.get(&home).or(nodes.first()) {
                    let p = self.lane(*first).await?;
                    self.put_back(p).await;
                }
                matches!(
                    plan,
                    Planned::Insert { rows: Insert::Select(_), .. } | Planned::Modify { change: Change::From(_), .. }
                )
            }
        };
        self.settle_now().await?;
        // Over several nodes the plan itself puts the time in the place of words.
        let moment = own.then(|| self.now.to_string());
        self.planned_at(compiled, request, clock, moment.as_deref()).await
    }

    /// A statement by itself whose words for the clock are read in several places, with one time for all. `None`: it may go as it is.
    pub async fn at_own_moment(&mut self, compiled: &Compiled, request: &Request<'_>) -> Result<Option<Compiled>> {
        let Some(clock) = compiled.plan.whole().clock.as_deref().filter(|_| !self.transaction.is_active()) else {
            return Ok(None);
        };
        let moment = self.now.to_string();
        self.planned_at(compiled, request, clock, Some(&moment)).await
    }

    async fn planned_at(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        clock: &Clock,
        moment: Option<&str>,
    ) -> Result<Option<Compiled>> {
        let sql = compiled.plan.whole().rewritten.as_deref().unwrap_or(request.sql);
        let escapes = self.settings.escapes();
        if self.transaction.sets("standard_conforming_strings") && sql.contains('\\') {
            return Ok(None);
        }
        let Some(statement) = sql::parse(sql, !escapes)?.pop() else { return Ok(None) };
        let Some(statement) = plan::moment::at(statement, clock, moment) else { return Ok(None) };
        let text = sql::deparse(&statement)?;
        let Some(statement) = sql::parse(&text, true)?.pop() else { return Ok(None) };
        let target = compiled.plan.written();
        let mut anew = planned(self.epoch, statement, &text, &clock.search_path, &clock.temporary, &[], target).await?;
        // What the client is told of it stays what it was.
        if let Some(described) = compiled.described.get() {
            let _ = anew.described.set(described.clone());
        }
        anew.own = compiled.own;
        Ok(Some(anew.is_once()))
    }
}

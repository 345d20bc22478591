//! The steps of a utility statement on all nodes, in one transaction: home first, then the others side by side. Which steps is not
//! decided here.

use catalog::NodeId;
use plan::ddl::facts::Answers;
use plan::ddl::{NodeSteps, Spread};
use tokio::task::JoinSet;
use wire::ErrorFields;
use wire::sqlstate;

use super::elsewhere::{Elsewhere, holds, is_true, restore_setting, sql_of};
use crate::client::{Answer, Client};
use crate::error::{ExecError, Result};
use crate::route::{Forwarded, Ids, forward};
use crate::work::Work;

impl<C: Client> Work<'_, C> {
    /// Runs the steps: in the transaction, if there is one.
    pub(super) async fn spread(&mut self, spread: Spread, answers: &Answers, raises_epoch: bool) -> Result<Forwarded> {
        self.hold_connections(spread.nodes.iter().map(|n| n.node)).await?;
        self.prepare(&spread).await?;
        let Spread { nodes, tag, settings, unqualified, read_only, .. } = spread;
        let reads_clock = |n: &NodeSteps| n.steps.iter().any(|s| s.text.pieces().contains(&plan::Piece::Now));
        if nodes.iter().any(reads_clock) {
            Box::pin(self.settle_now()).await?;
        }
        let mut nodes = nodes.into_iter();
        let Some(first) = nodes.next() else { return Err(ExecError::internal("a utility statement for no node")) };
        if raises_epoch {
            self.raises_epoch();
        }
        let mut forwarded = self.at_home(first, tag.is_none(), !read_only).await?;
        if let Some(tag) = tag {
            forwarded.tag = tag.to_string();
        }

        let mut tasks = JoinSet::new();
        let mut failure = None;
        for n in nodes {
            let mut p = match self.lane(n.node).await {
                Ok(p) => p,
                Err(e) => {
                    failure = Some((n.node, e));
                    break;
                }
            };
            p.wrote |= !read_only;
            p.locked |= read_only;
            let texts = Elsewhere {
                steps: n.steps,
                now: self.now.clone(),
                before: settings.iter().map(|(name, value)| format!("SET LOCAL {name} = {value}")).collect(),
                after: settings.iter().map(|(name, _)| restore_setting(name, p.lane.conn.setting(name))).collect(),
                schema: unqualified.then(|| answers.current_schema.clone()),
            };
            tasks.spawn(async move {
                let done = texts.run(&mut p).await;
                (p, done)
            });
        }
        while let Some(joined) = tasks.join_next().await {
            let Ok((p, done)) = joined else {
                return Err(ExecError::internal("a node's part of a utility statement was given up"));
            };
            let node = p.lane.node;
            self.put_back(p).await;
            if let Err(e) = done
                && failure.as_ref().is_none_or(|(n, _)| node < *n)
            {
                failure = Some((node, e));
            }
        }
        match failure {
            Some((node, e)) => Err(self.on_node(node, e)),
            None => Ok(forwarded),
        }
    }

    /// Home's steps; the client sees the first.
    pub(crate) async fn at_home(&mut self, n: NodeSteps, forward_first: bool, wrote: bool) -> Result<Forwarded> {
        let mut p = self.lane(n.node).await?;
        p.wrote |= wrote;
        p.locked |= !wrote;
        let done = async {
            let mut forwarded = Forwarded::default();
            for (i, step) in n.steps.iter().enumerate() {
                let sql = sql_of(step, &self.now);
                if i == 0 && forward_first {
                    p.lane.put_query(&sql);
                    p.lane.conn.flush().await?;
                    forwarded = forward(&mut p.lane, self.client, true, Ids::Schema(&self.epoch.snapshot)).await?;
                } else if holds(&mut p, step).await? {
                    p.lane.run(&sql).await?;
                }
            }
            Ok(forwarded)
        }
        .await;
        self.put_back(p).await;
        done
    }

    /// What comes before anything is changed: the warning, the checks, the privileges.
    pub(super) async fn prepare(&mut self, spread: &Spread) -> Result<()> {
        if let Some(warning) = &spread.warning {
            let warning = ErrorFields::with_severity("WARNING", sqlstate::WARNING, warning.clone());
            self.client.tell(Answer::Notice(&warning));
        }
        for check in &spread.checks {
            for n in &spread.nodes {
                let mut p = self.lane(n.node).await?;
                let answer = p.lane.rows(&check.sql).await;
                self.put_back(p).await;
                if is_true(&answer?) {
                    return Err(check.refusal.clone().into());
                }
            }
        }
        if !spread.leaving.is_empty() {
            self.take_rights(&spread.leaving).await?;
        }
        match &spread.rights {
            Some(rights) => self.grant_rights(rights, spread.nodes.iter().map(|n| n.node)).await,
            None => Ok(()),
        }
    }

    /// Says which node an error came from: the client knows only one server.
    pub(super) fn on_node(&self, node: NodeId, e: ExecError) -> ExecError {
        let mut fields = e.to_fields();
        let name = self.epoch.snapshot.node(node).map_or_else(|| node.to_string(), |n| n.name.clone());
        let context = match fields.get(b'W') {
            Some(context) => format!("{context}\non node \"{name}\""),
            None => format!("on node \"{name}\""),
        };
        fields.set(b'W', context);
        ExecError::Sql(Box::new(fields))
    }
}

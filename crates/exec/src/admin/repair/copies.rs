//! Copies of a reference table that have other rows than most. Every node is written in one transaction, so that the copy of a few which
//! differs was written past the routers: it is made what most nodes have, or what a node has that the caller trusts. Where no
//! rows are most nodes', somebody has to say whose are right.

use std::collections::BTreeMap;
use std::sync::Arc;

use catalog::{CopyRows, CopyTarget, NodeId, Relation};
use wire::sqlstate;

use super::{Finding, Repair, changed, is_between, name, regclass};
use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::work::Work;

impl<C: Client> Work<'_, C> {
    pub(super) async fn repair_copies(&mut self, repair: &Repair, table: &Arc<Relation>) -> Result<Vec<Finding>> {
        let right = match self.digests(table).await.map(|digests| whose(&digests, repair.trusted)) {
            Ok((_, wrong)) if wrong.is_empty() => return Ok(vec![]),
            Ok((right, _)) => right,
            Err(e) if is_between(&e) => None,
            Err(e) => return Err(e),
        };
        // Nothing comes any more, and what was being committed is there.
        let only_looks = repair.dry_run || right.is_none();
        let now = self.hold_still(std::slice::from_ref(table), only_looks).await?;
        let table = now.relations.get(&(table.schema.clone(), table.name.clone())).ok_or_else(changed)?;
        let (right, wrong) = whose(&self.digests(table).await?, repair.trusted);
        let mut kept = None;
        for node in &wrong {
            kept = kept.or(self.keeps_from_writing(*node, table, &name(table)).await?);
        }
        let right_one = right.filter(|_| !wrong.is_empty() && !only_looks && kept.is_none());
        if let Some(right) = right_one {
            let tables = [table.clone()];
            let before = self.dangling(&tables).await?;
            self.copy_whole(table, right, &wrong).await?;
            if !whose(&self.digests(table).await?, Some(right)).1.is_empty() {
                let message = "a copy would differ from what it was made of: nothing was changed";
                return Err(ExecError::sql(sqlstate::INTERNAL_ERROR, message)
                    .hint("SET datestyle = 'ISO, MDY'; SET intervalstyle = 'postgres'; and repair again."));
            }
            self.none_dangles(&tables, &before).await?;
        }
        let differs = |node| self.copy_differs(table, node, right, right_one.is_some(), kept.as_deref());
        Ok(wrong.into_iter().map(differs).collect())
    }

    /// A sum of each node's rows.
    async fn digests(&mut self, table: &Relation) -> Result<Vec<(NodeId, String)>> {
        let nodes: Vec<NodeId> = self.epoch.snapshot.nodes.iter().map(|n| n.id).collect();
        let mut digests = Vec::new();
        for node in nodes {
            let parent = name(table);
            let said = self.ask_node(node, &format!("SELECT herd.digest({})", regclass(&parent))).await?;
            digests.push((node, said.into_iter().flatten().flatten().next().unwrap_or_default()));
        }
        Ok(digests)
    }

    /// All rows of some copies are taken away, and those of another one come.
    async fn copy_whole(&mut self, table: &Relation, right: NodeId, wrong: &[NodeId]) -> Result<()> {
        self.ask_node(right, "SELECT herd.tell_alike()").await?;
        for node in wrong {
            self.write_on(*node, "SELECT herd.tell_alike(), herd.without_triggers(true)").await?;
            self.write_on(*node, &format!("DELETE FROM ONLY {}", name(table))).await?;
        }
        let columns: Vec<String> = table.columns.iter().filter(|c| !c.generated).map(|c| c.name.clone()).collect();
        let list = columns.iter().map(|c| catalog::quote_ident(c)).collect::<Vec<_>>().join(", ");
        let rows = CopyRows {
            sources: vec![(right, format!("COPY {} ({list}) TO STDOUT", name(table)))],
            table: name(table),
            columns,
            into: format!("COPY {} ({list}) FROM STDIN", name(table)),
            to: CopyTarget::Nodes(wrong.to_vec()),
        };
        self.copy_rows(&rows).await?;
        for node in wrong {
            self.write_on(*node, "SELECT herd.without_triggers(false)").await?;
        }
        Ok(())
    }

    fn copy_differs(
        &self,
        table: &Relation,
        node: NodeId,
        right: Option<NodeId>,
        mended: bool,
        kept: Option<&str>,
    ) -> Finding {
        let action = match right.map(|right| self.node_name(right)) {
            Some(right) if mended => format!("its rows are those of node \"{right}\" now"),
            Some(_) if kept.is_some() => format!("left as it is: {}", kept.unwrap_or_default()),
            Some(right) => format!("its rows would be made those of node \"{right}\""),
            None => {
                let call = format!("herd.repair('{}', trust_node => '…')", name(table).replace('\'', "''"));
                format!("no rows are those of most nodes: compare them, and say whose are right: SELECT * FROM {call}")
            }
        };
        Finding {
            node: self.node_name(node),
            object: name(table),
            problem: match right {
                Some(_) => "the copy has other rows than those of most nodes, or of the one that is trusted".into(),
                None => "the copies have different rows".into(),
            },
            mended,
            action,
        }
    }
}

/// The node whose rows are right, if that is known, and those that have others; where it is not, all.
fn whose(digests: &[(NodeId, String)], trusted: Option<NodeId>) -> (Option<NodeId>, Vec<NodeId>) {
    let mut of: BTreeMap<&str, Vec<NodeId>> = BTreeMap::new();
    digests.iter().for_each(|(node, said)| of.entry(said).or_default().push(*node));
    if of.len() < 2 {
        return (trusted, vec![]);
    }
    let most = of.values().find(|nodes| nodes.len() * 2 > digests.len());
    let right = trusted.or(most.and_then(|nodes| nodes.first().copied()));
    let right_said = digests.iter().find(|(node, _)| Some(*node) == right).map(|(_, said)| said);
    let wrong = digests.iter().filter(|(_, said)| Some(said) != right_said).map(|(node, _)| *node).collect();
    (right, wrong)
}

#[cfg(test)]
mod tests {
    use super::whose;

    #[test]
    fn most_nodes_are_right_unless_one_is_trusted() {
        let of = |said: &[&str]| said.iter().zip(1..).map(|(said, node)| (node, said.to_string())).collect::<Vec<_>>();
        assert_eq!(whose(&of(&["a", "a"]), None), (None, vec![]));
        assert_eq!(whose(&of(&["a", "a", "b"]), None), (Some(1), vec![3]));
        assert_eq!(whose(&of(&["b", "a", "a"]), None), (Some(2), vec![1]));
        assert_eq!(whose(&of(&["b", "a", "a"]), Some(1)), (Some(1), vec![2, 3]));
        assert_eq!(whose(&of(&["a", "b"]), None), (None, vec![1, 2]));
        assert_eq!(whose(&of(&["a", "b", "c", "a"]), None), (None, vec![1, 2, 3, 4]));
    }
}

//! No row loses what it refers to when rows of tables go elsewhere, or others come instead: no trigger of a foreign key looks at them. Those that refer to
//! none are asked for before and after, one by one, as another one may have got what one has lost. It does not know what is done in between.

use std::collections::HashMap;
use std::sync::Arc;

use catalog::{NodeId, Relation};
use wire::sqlstate;

use super::{name, texts};
use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::work::Work;

/// So many are told apart on a node. Where more refer to none already, somebody puts that right first.
const AT_MOST: usize = 10_000;

/// How often a row is there, by its node, its foreign key and a hash of what it says.
pub(super) type Dangling = HashMap<(NodeId, String, String), i64>;

impl<C: Client> Work<'_, C> {
    /// Rows that refer to none, by foreign keys of these tables and to them.
    pub(super) async fn dangling(&mut self, tables: &[Arc<Relation>]) -> Result<Dangling> {
        let tables = texts(tables.iter().map(|r| name(r)));
        let ask = format!("SELECT d.foreign_key, d.said, d.times FROM herd.dangling_rows({tables}, {AT_MOST}) d");
        let nodes: Vec<NodeId> = self.epoch.snapshot.nodes.iter().map(|n| n.id).collect();
        let mut dangling = Dangling::new();
        for node in nodes {
            for row in self.ask_node(node, &ask).await? {
                let [Some(key), Some(said), Some(times)] = <[Option<String>; 3]>::try_from(row).unwrap_or_default()
                else {
                    return Err(ExecError::internal("a node does not say which rows refer to none"));
                };
                dangling.insert((node, key, said), times.parse().unwrap_or(i64::MAX));
            }
        }
        Ok(dangling)
    }

    /// No row refers to none that did not before.
    pub(super) async fn none_dangles(&mut self, tables: &[Arc<Relation>], before: &Dangling) -> Result<()> {
        let after = self.dangling(tables).await?;
        let Some((node, count)) = lost(before, &after) else { return Ok(()) };
        let node = self.node_name(node);
        let message = format!(
            "{count} rows on node \"{node}\" would refer to rows that are no longer there: nothing was changed"
        );
        Err(ExecError::sql(sqlstate::FOREIGN_KEY_VIOLATION, message).hint(
            "Decide which rows are right: delete those that refer, or insert what they refer to, through a router.",
        ))
    }
}

/// On which node, and how many there.
fn lost(before: &Dangling, after: &Dangling) -> Option<(NodeId, i64)> {
    let more = |of: (&(NodeId, String, String), &i64)| of.1 - before.get(of.0).copied().unwrap_or(0).min(*of.1);
    let node = after.iter().filter(|of| more(*of) > 0).map(|of| of.0.0).min()?;
    Some((node, after.iter().filter(|of| of.0.0 == node).map(more).sum()))
}

#[cfg(test)]
mod tests {
    use super::{Dangling, lost};

    #[test]
    fn others_that_dangle_do_not_make_up_for_one_another() {
        let of = |rows: &[(i32, &str, &str, i64)]| -> Dangling {
            rows.iter().map(|(node, key, said, times)| ((*node, key.to_string(), said.to_string()), *times)).collect()
        };
        let before = of(&[(1, "k", "a", 2), (2, "k", "b", 1)]);
        assert_eq!(lost(&before, &before), None);
        assert_eq!(lost(&before, &of(&[(1, "k", "a", 1)])), None);
        assert_eq!(lost(&before, &of(&[(1, "k", "c", 1)])), Some((1, 1)));
        assert_eq!(lost(&before, &of(&[(1, "l", "a", 1)])), Some((1, 1)));
        assert_eq!(lost(&before, &of(&[(1, "k", "a", 5), (2, "k", "a", 1)])), Some((1, 3)));
    }
}

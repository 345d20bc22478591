//! How tables are made on each node: columns, constraints, indexes, triggers, rules and policies that are not those on home, and shards that are made
//! otherwise than their tables. DDL through a router reaches all nodes, so that a difference was made past the routers; which of the two was meant
//! nobody knows here, and nothing is changed. Does not look at rows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use catalog::{NodeId, Relation};

use super::{Finding, name, texts};
use crate::client::Client;
use crate::error::Result;
use crate::work::Work;

/// DDL that runs on one node after the other, and shards that are exchanged, have ended by then, but for what takes long.
const MOMENT: Duration = Duration::from_millis(300);
const ACTION: &str = "it is not known what was meant: make it on that node what home has, or change all nodes through a router \
                      (an index that is being built CONCURRENTLY ends by itself)";

/// Of one node, how each part of its tables is made.
type Made = BTreeMap<(String, String), String>;

impl<C: Client> Work<'_, C> {
    pub(super) async fn compare_made(&mut self, tables: &[Arc<Relation>]) -> Result<Vec<Finding>> {
        let mut wrong = self.made_otherwise(tables).await?;
        if !wrong.is_empty() {
            // Nothing is locked.
            tokio::time::sleep(MOMENT).await;
            let again = self.made_otherwise(tables).await?;
            wrong.retain(|of| again.contains(of));
        }
        let finding = |(node, object, problem): (NodeId, String, String)| Finding {
            node: self.node_name(node),
            object,
            problem,
            mended: false,
            action: ACTION.into(),
        };
        Ok(wrong.into_iter().map(finding).collect())
    }

    /// On which node, what, and how.
    async fn made_otherwise(&self, tables: &[Arc<Relation>]) -> Result<BTreeSet<(NodeId, String, String)>> {
        let (herd, snapshot) = (self.herd.clone(), self.epoch.snapshot.clone());
        let names = texts(tables.iter().map(|table| name(table)));
        let ask = format!("SELECT object, part, made FROM herd.tables_made({names})");
        let ask_shards = format!("SELECT object, problem FROM herd.shards_made_otherwise({names})");
        let home = made(herd.own.rows(&herd.config.home, &ask).await?);
        let mut wrong = BTreeSet::new();
        for node in &snapshot.nodes {
            let target = herd.target(&snapshot, node.id)?;
            for row in herd.own.rows(&target, &ask_shards).await? {
                let mut cells = row.into_iter().flatten();
                let (Some(object), Some(problem)) = (cells.next(), cells.next()) else { continue };
                wrong.insert((node.id, object, problem));
            }
            if node.id != snapshot.home {
                let here = made(herd.own.rows(&target, &ask).await?);
                let differs = differences(&home, &here);
                wrong.extend(differs.into_iter().map(|(object, problem)| (node.id, object, problem)));
            }
        }
        Ok(wrong)
    }
}

fn made(rows: Vec<catalog::Row>) -> Made {
    let part = |row: catalog::Row| {
        let mut cells = row.into_iter().flatten();
        Some(((cells.next()?, cells.next()?), cells.next()?))
    };
    rows.into_iter().filter_map(part).collect()
}

/// Of which table, and what is otherwise than on home. Of a table that is not there nothing more is told.
fn differences(home: &Made, here: &Made) -> Vec<(String, String)> {
    const TABLE: &str = "the table";
    let has = |of: &Made, table: &str| of.contains_key(&(table.to_string(), TABLE.to_string()));
    let mut differ = Vec::new();
    for ((table, part), of_home) in home {
        let problem = match here.get(&(table.clone(), part.clone())) {
            Some(of_node) if of_node == of_home => continue,
            Some(of_node) => format!("{part} is {of_node}, on home it is {of_home}"),
            None if part == TABLE => "the table is not there".to_string(),
            None if !has(here, table) => continue,
            None => format!("{part} is not there, on home it is {of_home}"),
        };
        differ.push((table.clone(), problem));
    }
    for ((table, part), of_node) in here {
        if has(home, table) && !home.contains_key(&(table.clone(), part.clone())) {
            differ.push((table.clone(), format!("{part} is not there on home, here it is {of_node}")));
        }
    }
    differ
}

#[cfg(test)]
mod tests {
    use super::{Made, differences};

    #[test]
    fn parts_that_differ_are_told_once() {
        let of = |parts: &[(&str, &str, &str)]| {
            parts.iter().map(|(t, p, m)| ((t.to_string(), p.to_string()), m.to_string())).collect::<Made>()
        };
        let home = of(&[
            ("t", "the table", "a table"),
            ("t", "column \"a\"", "integer"),
            ("u", "the table", "a table"),
            ("u", "column \"a\"", "text"),
        ]);
        assert_eq!(differences(&home, &home), vec![]);
        let here = of(&[("t", "the table", "a table"), ("t", "column \"a\"", "bigint"), ("t", "column \"b\"", "text")]);
        let told: Vec<String> = differences(&home, &here).into_iter().map(|(t, p)| format!("{t}: {p}")).collect();
        assert_eq!(
            told,
            [
                "t: column \"a\" is bigint, on home it is integer",
                "u: the table is not there",
                "t: column \"b\" is not there on home, here it is text"
            ]
        );
    }
}

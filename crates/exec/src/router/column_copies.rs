//! What stores say of the column copies that there should be: the rows of `herd.column_copies`, each as a JSON object. How a store is asked
//! for rows of tables is not known here.

use std::collections::{BTreeSet, HashMap};

use catalog::{NodeId, Relation, Row, Snapshot, qualified};
use serde_json::{Value, json};

use crate::router::column_stores::Store;
use crate::router::herd::Herd;

/// The copies of a store by their number, each with its size, if that was told; or why it tells of none.
type Said = Result<HashMap<String, (Row, Row)>, String>;

impl Herd {
    /// A row for each copy and each node that has some of its table.
    pub async fn column_copies(&self, snapshot: &Snapshot) -> Vec<String> {
        let mut copies: Vec<_> = snapshot.relations.values().filter(|r| r.column_copy.is_some()).collect();
        copies.sort_unstable_by_key(|r| r.column_copy.as_ref().map(|c| c.id));
        let nodes: BTreeSet<NodeId> = copies.iter().flat_map(|r| nodes_of(snapshot, r)).collect();
        let mut asking = tokio::task::JoinSet::new();
        for node in nodes {
            if let Some(store) = self.store(snapshot, node).cloned() {
                asking.spawn(async move { (node, ask(&store).await) });
            }
        }
        let mut said: HashMap<NodeId, Said> = HashMap::new();
        while let Some(done) = asking.join_next().await {
            said.extend(done.ok());
        }
        let mut rows = vec![];
        for relation in copies {
            let nodes = nodes_of(snapshot, relation).into_iter();
            rows.extend(nodes.filter_map(|node| row(snapshot, relation, node, said.get(&node))));
        }
        rows
    }
}

/// The nodes that have some of a table that has a copy: those of its shards, or all.
pub fn nodes_of(snapshot: &Snapshot, relation: &Relation) -> BTreeSet<NodeId> {
    match relation.distribution() {
        Some(d) => d.group.shards.iter().map(|s| s.node).collect(),
        None => snapshot.nodes.iter().map(|n| n.id).collect(),
    }
}

async fn ask(store: &Store) -> Said {
    let by_number = |row: Row| Some((row.first()?.clone()?, row));
    let rows = store.copies().await.map_err(|e| e.to_string())?;
    let mut sizes: HashMap<_, _> = store.sizes().await.unwrap_or_default().into_iter().filter_map(by_number).collect();
    let with_size = |(id, row)| {
        let size = sizes.remove(&id).unwrap_or_default();
        (id, (row, size))
    };
    Ok(rows.into_iter().filter_map(by_number).map(with_size).collect())
}

fn row(snapshot: &Snapshot, relation: &Relation, node: NodeId, said: Option<&Said>) -> Option<String> {
    let id = relation.column_copy.as_ref()?.id;
    let mut row = json!({
        "id": id, "relation": qualified(&relation.schema, &relation.name),
        "node": snapshot.node(node).map_or_else(|| node.to_string(), |n| n.name.clone()),
    });
    match said {
        None => row["state"] = json!("no store"),
        Some(Err(why)) => (row["state"], row["why"]) = (json!("unreachable"), json!(why)),
        Some(Ok(copies)) => match copies.get(&id.to_string()).map(|(row, size)| (&row[..], &size[..])) {
            None => row["state"] = json!("unknown to the store"),
            Some(([_, _, state, why, rows, applied, lag_bytes, lag_ms, file_bytes, more @ ..], size)) => {
                let text =
                    |cell: &Option<String>| cell.as_ref().filter(|t| !t.is_empty()).map_or(Value::Null, |t| json!(t));
                row["state"] = text(state);
                row["why"] = text(why);
                row["rows"] = text(rows);
                row["applied"] = text(applied);
                row["lag_bytes"] = text(lag_bytes);
                row["lag"] = lag_ms.as_ref().map_or(Value::Null, |ms| json!(format!("{ms} milliseconds")));
                row["file_bytes"] = text(file_bytes);
                // Stores of before don't tell it.
                row["unsorted"] = more.first().map_or(Value::Null, text);
                row["bytes"] = size.get(1).map_or(Value::Null, text);
                row["compression"] = size.get(2).map_or(Value::Null, text);
            }
            Some(_) => (row["state"], row["why"]) = (json!("unreachable"), json!("its answer is not understood")),
        },
    }
    Some(row.to_string())
}

//! What the stores that this router was told of say of themselves: the rows of `herd.column_stores`, and what the metrics page has of them. What
//! they say of one copy is told elsewhere (`column_copies.rs`).

use catalog::{Row, Snapshot};
use serde_json::{Value, json};

use crate::router::column_stores::Store;
use crate::router::herd::Herd;

/// A store, as it was when it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreState {
    /// Its node, as the catalog calls it; as herd.toml does where the catalog has none of that name.
    pub node: String,
    pub host: String,
    pub port: u16,
    pub answer: StoreAnswer,
    /// Where the catalog has no such node.
    pub is_of_no_node: bool,
}

/// What it has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreAnswer {
    Up(StoreSays),
    /// It is there, and did not tell of its copies in time.
    Busy,
    /// Why not.
    Unreachable(String),
}

/// What it says of its copies. Of a store without copies nothing is behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreSays {
    pub copies: u64,
    pub ready: u64,
    pub applied: Option<String>,
    /// Bytes of the node's log that it has not applied.
    pub lag_bytes: Option<u64>,
    /// All that was committed on its node so long ago can be read, in milliseconds.
    pub lag_ms: Option<u64>,
    pub file_bytes: Option<u64>,
}

impl Herd {
    /// Asks all stores at once; in the order of herd.toml.
    pub async fn store_states(&self, snapshot: &Snapshot) -> Vec<StoreState> {
        let asking = self.config.stores.iter().map(|(called, store)| {
            let node = snapshot.nodes.iter().find(|n| n.name == *called || called.parse() == Ok(n.id));
            let (is_of_no_node, node) = (node.is_none(), node.map_or_else(|| called.clone(), |n| n.name.clone()));
            let (host, port) = (store.target.host.clone(), store.target.port);
            async move { StoreState { node, host, port, answer: ask(store).await, is_of_no_node } }
        });
        futures_util::future::join_all(asking).await
    }

    /// The same as rows of `herd.column_stores`, each as a JSON object.
    pub async fn column_stores(&self, snapshot: &Snapshot) -> Vec<String> {
        self.store_states(snapshot).await.iter().map(|state| row(state).to_string()).collect()
    }
}

async fn ask(store: &Store) -> StoreAnswer {
    match store.copies().await {
        Ok(rows) => StoreAnswer::Up(says(&rows)),
        Err(_) if store.is_there().await => StoreAnswer::Busy,
        Err(e) => StoreAnswer::Unreachable(e.to_string()),
    }
}

/// Of the rows of SHOW copies, all of which tell how far the store is.
fn says(rows: &[Row]) -> StoreSays {
    let cell = |row: &Row, at: usize| row.get(at).cloned().flatten();
    let Some(first) = rows.first() else { return StoreSays::default() };
    let number = |at| cell(first, at)?.parse().ok();
    StoreSays {
        copies: rows.len() as u64,
        ready: rows.iter().filter(|row| cell(row, 2).as_deref() == Some("ready")).count() as u64,
        applied: cell(first, 5),
        lag_bytes: number(6),
        lag_ms: number(7),
        file_bytes: number(8),
    }
}

fn row(of: &StoreState) -> Value {
    let mut row = json!({"node": of.node, "host": of.host, "port": of.port});
    match &of.answer {
        StoreAnswer::Up(says) => {
            row["state"] = json!("up");
            (row["copies"], row["ready"], row["applied"]) =
                (json!(says.copies), json!(says.ready), json!(says.applied));
            (row["lag_bytes"], row["file_bytes"]) = (json!(says.lag_bytes), json!(says.file_bytes));
            row["lag"] = says.lag_ms.map_or(Value::Null, |ms| json!(format!("{ms} milliseconds")));
        }
        StoreAnswer::Busy => row["state"] = json!("busy"),
        StoreAnswer::Unreachable(why) => (row["state"], row["why"]) = (json!("unreachable"), json!(why)),
    }
    if of.is_of_no_node {
        row["why"] = json!("the herd has no node of this name: herd.toml names it wrongly, or the node has left");
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_as_far_behind_as_its_copies_say() {
        let copy = |state: &str| -> Row {
            ["1", "public.t", state, "", "7", "0/16B3748", "12", "345", "4096"].map(|t| Some(t.to_owned())).to_vec()
        };
        let says = says(&[copy("ready"), copy("copying")]);
        assert_eq!((says.copies, says.ready, says.lag_bytes, says.lag_ms), (2, 1, Some(12), Some(345)));
        let state = StoreState {
            node: "home".into(),
            host: "h".into(),
            port: 1,
            answer: StoreAnswer::Up(says),
            is_of_no_node: false,
        };
        assert_eq!(row(&state)["lag"], "345 milliseconds");
        let away = StoreState { answer: StoreAnswer::Unreachable("gone".into()), ..state };
        assert_eq!((&row(&away)["state"], &row(&away)["why"]), (&json!("unreachable"), &json!("gone")));
        assert_eq!(super::says(&[]), StoreSays::default());
    }
}

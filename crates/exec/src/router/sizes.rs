//! How large tables were when a node was asked last, not long ago. Who asks is not known here (`query/sizes.rs`).

use std::collections::HashMap;
use std::time::{Duration, Instant};

use catalog::Oid;
use parking_lot::Mutex;

/// How long a size counts.
const KNOWN: Duration = Duration::from_secs(60);

/// What is known of tables' sizes: bytes on all nodes, by the table's object id.
#[derive(Default)]
pub struct Sizes(Mutex<HashMap<Oid, (u64, Instant)>>);

impl Sizes {
    /// Its size, if it was asked for not long ago.
    pub fn known(&self, table: Oid) -> Option<u64> {
        self.0.lock().get(&table).filter(|(_, at)| at.elapsed() < KNOWN).map(|(bytes, _)| *bytes)
    }

    /// As a node has just said.
    pub fn keep(&self, table: Oid, bytes: u64) {
        let mut known = self.0.lock();
        known.retain(|_, (_, at)| at.elapsed() < KNOWN);
        known.insert(table, (bytes, Instant::now()));
    }
}

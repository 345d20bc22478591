//! What tables were found to be, for as long as nothing can have changed them: a question about the node's catalog costs more than counting a
//! million rows here. It does not know what is asked of tables, nor who asks.
//!
//! Why it is right. A read that asked the node had a snapshot of the copies with some *content*, and found behind that what the table is, in some
//! snapshot of the node. A later read has the same content, and has seen, after it began, the same snapshot of the node: its catalog is what it was
//! then, so the table is, too, and content that was of this table then is so now. Between both, the connection by which snapshots are seen was the same,
//! and so the server.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::fingerprint::Facts;
use crate::freshness::{Moment, Told};

/// Counts what is committed in DuckDB.
#[derive(Default)]
pub struct Content(AtomicU64);

impl Content {
    /// It is another one, at some moment before what this gives is dropped.
    pub fn changes(&self) -> Changes<'_> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Changes(&self.0)
    }

    /// Which content there is; `None`: it is changing.
    pub fn number(&self) -> Option<u64> {
        Some(self.0.load(Ordering::SeqCst)).filter(|number| number % 2 == 0)
    }
}

/// Counts of each copy when rows of it go, or become others.
#[derive(Default)]
pub struct Removals(Mutex<HashMap<i64, Arc<Content>>>);

impl Removals {
    /// Those of one copy.
    pub fn of(&self, copy: i64) -> Arc<Content> {
        self.0.lock().entry(copy).or_default().clone()
    }
}

/// See [`Content::changes`].
pub struct Changes<'c>(&'c AtomicU64);

impl Drop for Changes<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// When a read began, and what it reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub moment: Moment,
    pub content: u64,
}

/// What was found of tables, by their oids.
#[derive(Default)]
pub struct Unchanged(Mutex<HashMap<u32, (Seen, Facts)>>);

impl Unchanged {
    /// What a table is, if it is known to be what it was.
    pub fn facts(&self, relation: u32, seen: &Seen) -> Option<Facts> {
        self.0.lock().get(&relation).filter(|(then, _)| then == seen).map(|(_, facts)| facts.clone())
    }

    /// The node was asked by a read that had seen this.
    pub fn found(&self, relation: u32, seen: &Seen, told: &Told) {
        let mut known = self.0.lock();
        // What was known of other moments is of no use any more.
        known.retain(|_, (then, _)| then == seen);
        if let Some((facts, snapshot)) = told
            && *snapshot == seen.moment.snapshot
        {
            known.insert(relation, (seen.clone(), facts.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_known_of_one_moment_and_content() {
        let facts = Facts { schema: "s".into(), name: "n".into(), shards: "x".into(), fingerprint: "f".into() };
        let moment = |connection, snapshot: &str| Moment { connection, snapshot: snapshot.into() };
        let seen = |connection, snapshot, content| Seen { moment: moment(connection, snapshot), content };
        let (known, now) = (Unchanged::default(), seen(1, "9:9:", 2));
        known.found(7, &now, &Some((facts.clone(), "9:10:".into())));
        assert_eq!(known.facts(7, &now), None);
        known.found(7, &now, &Some((facts.clone(), "9:9:".into())));
        assert_eq!(known.facts(7, &now), Some(facts.clone()));
        for other in [seen(2, "9:9:", 2), seen(1, "9:10:", 2), seen(1, "9:9:", 4)] {
            assert_eq!(known.facts(7, &other), None);
        }
        assert_eq!(known.facts(8, &now), None);
        known.found(8, &seen(1, "9:10:", 2), &None);
        assert_eq!(known.facts(7, &now), None);
    }

    #[test]
    fn content_that_changes_has_no_number() {
        let content = Content::default();
        let before = content.number();
        let changes = content.changes();
        assert_eq!(content.number(), None);
        drop(changes);
        assert!(content.number().is_some() && content.number() != before);
    }
}

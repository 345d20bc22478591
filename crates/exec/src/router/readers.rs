//! Which tables are read by transactions that have begun on no node yet (session `reading.rs`): nodes keep no lock for them, so
//! whoever wants such a table for himself waits for them here, as he waits for locks on nodes (`ddl/lock.rs`).
//! A router counts its own sessions' only, and asks the others (`readers/elsewhere.rs`).

pub mod elsewhere;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use catalog::{Oid, Relation, Snapshot};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// The tables that this router's transactions read so.
pub struct Readers {
    /// How many transactions read it, by home's object ids.
    tables: Mutex<HashMap<Oid, usize>>,
    /// What home has said last of the herd's other routers.
    others: AtomicU8,
    ended: Notify,
}

impl Default for Readers {
    fn default() -> Self {
        Readers { tables: Mutex::default(), others: AtomicU8::new(SILENT), ended: Notify::new() }
    }
}

/// What one transaction reads so, until this is dropped.
pub struct Reading {
    readers: Arc<Readers>,
    tables: Vec<Arc<Relation>>,
    /// A node keeps locks for it, which others meet: it is not counted any more.
    stands: AtomicBool,
    /// How often the router's lease on the catalog had run out by then.
    pub gaps: u32,
}

/// Some other router does not answer, or nothing is known.
const SILENT: u8 = 2;

impl Readers {
    /// Home has said of the herd's other routers how many there are, and how many of them do not answer what they read.
    /// True: one has come that does not answer, nor ask.
    pub fn set_others(&self, others: i64, silent: i64) -> bool {
        let others = if silent != 0 { SILENT } else { u8::from(others != 0) };
        self.others.swap(others, Ordering::Relaxed) != SILENT && others == SILENT
    }

    /// All other routers say what they read when they are asked. Those of versions that do not know the question don't, and don't ask.
    pub fn all_answer(&self) -> bool {
        self.others.load(Ordering::Relaxed) != SILENT
    }

    /// The herd has no other router.
    pub fn are_all(&self) -> bool {
        self.others.load(Ordering::Relaxed) == 0
    }

    /// A transaction begins to read.
    pub fn begin(self: &Arc<Self>, gaps: u32) -> Reading {
        Reading { readers: self.clone(), tables: Vec::new(), stands: AtomicBool::new(false), gaps }
    }

    /// Whether others than `own` read one of the tables.
    pub fn any(&self, tables: &[Oid], own: Option<&Reading>) -> bool {
        let all = self.tables.lock();
        if all.is_empty() {
            return false;
        }
        let own = |table: Oid| usize::from(own.is_some_and(|r| r.is_counted() && r.has(table)));
        tables.iter().any(|table| all.get(table).is_some_and(|count| *count > own(*table)))
    }

    /// Waits until no others than `own` read any of the tables.
    pub async fn gone(&self, tables: &[Oid], own: Option<&Reading>) {
        loop {
            let mut ended = std::pin::pin!(self.ended.notified());
            ended.as_mut().enable();
            if !self.any(tables, own) {
                return;
            }
            ended.await;
        }
    }
}

impl Reading {
    /// The transaction reads these, too.
    pub fn add<'r>(&mut self, tables: impl Iterator<Item = &'r Arc<Relation>>) {
        // Only while the transaction has begun nowhere.
        debug_assert!(self.is_counted(), "it stands on a node");
        for table in tables {
            if !self.has(table.oid) {
                *self.readers.tables.lock().entry(table.oid).or_default() += 1;
                self.tables.push(table.clone());
            }
        }
    }

    /// Those that are still called what they were, in the order they were read first; by their names, quoted.
    pub fn tables(&self, now: &Snapshot) -> Vec<String> {
        let still = |t: &&Arc<Relation>| {
            let named = now.relations.get(&(t.schema.clone(), t.name.clone()));
            named.is_some_and(|r| r.oid == t.oid)
        };
        self.tables.iter().filter(still).map(|t| catalog::qualified(&t.schema, &t.name)).collect()
    }

    /// Others are told of it by the router alone.
    pub fn is_counted(&self) -> bool {
        !self.stands.load(Ordering::Relaxed)
    }

    /// A node has its locks, until the transaction ends.
    pub fn stands_on_node(&self) {
        if self.stands.swap(true, Ordering::Relaxed) {
            return;
        }
        self.forget();
    }

    /// The node is about to give these locks back, and the transaction goes on.
    pub fn counts_again(&self) {
        if self.stands.swap(false, Ordering::Relaxed) {
            let mut all = self.readers.tables.lock();
            for table in &self.tables {
                *all.entry(table.oid).or_default() += 1;
            }
        }
    }

    fn forget(&self) {
        let mut all = self.readers.tables.lock();
        for table in &self.tables {
            if let Some(count) = all.get_mut(&table.oid) {
                *count -= 1;
                if *count == 0 {
                    all.remove(&table.oid);
                }
            }
        }
        drop(all);
        self.readers.ended.notify_waiters();
    }

    fn has(&self, table: Oid) -> bool {
        self.tables.iter().any(|t| t.oid == table)
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        if self.is_counted() {
            self.forget();
        }
    }
}

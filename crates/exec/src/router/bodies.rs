//! Code of users' own, read once: bodies are parsed when they are first seen, and kept by their text for later snapshots.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use catalog::Snapshot;
use parking_lot::Mutex;
use plan::code::Bodies;
use sql::body::Body;

/// Bodies kept; beyond that all are forgotten and read again.
const BODIES_MAX: usize = 10_000;

static READ: LazyLock<Mutex<HashMap<String, Arc<Body>>>> = LazyLock::new(Mutex::default);

/// The bodies of a snapshot's routines.
pub fn bodies(snapshot: &Snapshot) -> Bodies {
    let mut read = READ.lock();
    if read.len() > BODIES_MAX {
        read.clear();
    }
    let routines = snapshot.code.routines.iter().filter(|r| !r.definition.is_empty());
    routines
        .map(|r| {
            if let Some(body) = read.get(&r.definition) {
                return (r.oid, body.clone());
            }
            let body = Arc::new(match r.language.as_str() {
                "sql" | "plpgsql" => Body::of_definition(&r.definition),
                _ => Body::of_text(&r.definition),
            });
            read.insert(r.definition.clone(), body.clone());
            (r.oid, body)
        })
        .collect()
}

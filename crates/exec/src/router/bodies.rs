//! Code of users' own, read once: bodies are parsed when they are first seen, and kept by their text for later snapshots. And where
//! it is judged: a catalog with much code in it is not judged by a thread that serves others.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use catalog::Snapshot;
use catalog::code::Routine;
use parking_lot::Mutex;
use plan::code::Bodies;
use sql::body::Body;

/// Bodies kept, and bytes of their texts; beyond that all are forgotten and read again.
const BODIES_MAX: usize = 10_000;
const BYTES_MAX: usize = 64 << 20;
/// From so many bytes on, bodies are read by a thread that serves nobody.
const LARGE: usize = 16 << 10;
/// The same where so many bytes have been read before.
const MUCH: usize = 1 << 20;
/// From so many objects on, and uses of one by another, code is judged by such a thread: a few microseconds go into each.
const MANY: usize = 1_000;

#[derive(Default)]
struct Read {
    bodies: HashMap<Arc<str>, Arc<Body>, foldhash::fast::RandomState>,
    bytes: usize,
}

static READ: LazyLock<Mutex<Read>> = LazyLock::new(Mutex::default);

/// The bodies of a snapshot's routines.
pub fn bodies(snapshot: &Snapshot) -> Bodies {
    let opaque = snapshot.code.routines.iter().filter(|r| r.opaque).map(|r| (r.oid, OPAQUE.clone()));
    let read = routines(snapshot).map(|r| (r.oid, of(r)));
    opaque.chain(read).collect()
}

/// Does what looks at code; where that takes `long`, on a thread that serves nobody meanwhile.
pub async fn apart<T: Send + 'static>(long: bool, work: impl FnOnce() -> T + Send + 'static) -> T {
    if !long {
        return work();
    }
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(e) => std::panic::resume_unwind(e.into_panic()),
    }
}

/// There is much code to be judged, or bodies that are new are long.
pub fn takes_long(snapshot: &Snapshot) -> bool {
    let code = &snapshot.code;
    let objects =
        [snapshot.relations.len(), code.routines.len(), code.attached.len(), code.types.len(), code.operators.len()];
    let uses = code.uses.values().map(Vec::len);
    if objects.into_iter().chain(uses).sum::<usize>() >= MANY {
        return true;
    }
    // To look each up is to read it.
    if routines(snapshot).map(|r| r.definition.len()).sum::<usize>() >= MUCH {
        return true;
    }
    let read = READ.lock();
    routines(snapshot).filter(|r| !read.bodies.contains_key(&r.definition)).map(|r| r.definition.len()).sum::<usize>()
        >= LARGE
}

static OPAQUE: LazyLock<Arc<Body>> = LazyLock::new(|| Arc::new(Body::opaque()));

fn routines(snapshot: &Snapshot) -> impl Iterator<Item = &Routine> {
    snapshot.code.routines.iter().filter(|r| !r.opaque && !r.definition.is_empty())
}

fn of(routine: &Routine) -> Arc<Body> {
    if let Some(body) = READ.lock().bodies.get(&routine.definition) {
        return body.clone();
    }
    let body = Arc::new(match routine.language.as_str() {
        "sql" | "plpgsql" => Body::of_definition(&routine.definition),
        _ => Body::of_text(&routine.definition),
    });
    let mut read = READ.lock();
    if read.bodies.len() > BODIES_MAX || read.bytes > BYTES_MAX {
        *read = Read::default();
    }
    read.bytes += routine.definition.len();
    read.bodies.insert(routine.definition.clone(), body.clone());
    body
}

//! Puts the statement at work on the list of those that are followed (`herd.progress`).

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use catalog::Relation;
use parking_lot::Mutex;

use crate::client::Client;
use crate::now::timestamp;
use crate::router::progress::{Followed, Running};
use crate::work::Work;

impl<C: Client> Work<'_, C> {
    /// Puts a statement on the list.
    pub fn follow(
        &self,
        command: &'static str,
        kind: &'static str,
        relation: Option<Arc<Relation>>,
        excludes: bool,
    ) -> Followed {
        let running = Arc::new(Running {
            session: self.bulk.session,
            user: self.login.user().to_string(),
            relation,
            command,
            kind,
            excludes,
            started: timestamp(),
            bytes: AtomicU64::new(0),
            rows: AtomicU64::new(0),
            committed: AtomicU64::new(0),
            nodes: Mutex::default(),
        });
        Followed::new(self.herd, running)
    }
}

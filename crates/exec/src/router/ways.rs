//! What a compiled statement keeps of the ways it may go: which was chosen, and each as statements with types. Who chooses is not
//! known here (`query/ways.rs`).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use plan::{Finish, Piece, Planned};

use crate::broadcast_settings::Broadcast;
use crate::router::compiled::ReadyTurns;

/// How long what planners have said counts.
const KNOWN: Duration = Duration::from_secs(60);

/// What is known of the ways of a statement that was compiled.
#[derive(Default)]
pub struct Ways {
    /// By what the session has set.
    chosen: Mutex<HashMap<Broadcast, (Option<usize>, Instant)>>,
    /// Each, planned with the types of what is read.
    ready: Mutex<HashMap<usize, Arc<ReadyTurns>>>,
}

impl Ways {
    /// What was chosen, if that is not long ago.
    pub fn chosen(&self, set: Broadcast) -> Option<Option<usize>> {
        let chosen = self.chosen.lock().get(&set).copied();
        chosen.filter(|(_, at)| at.elapsed() < KNOWN).map(|(way, _)| way)
    }

    /// From now on, for a minute.
    pub fn choose(&self, set: Broadcast, way: Option<usize>) {
        self.chosen.lock().insert(set, (way, Instant::now()));
    }

    /// The statements of one of them.
    pub fn ready(&self, way: usize) -> Arc<ReadyTurns> {
        self.ready.lock().entry(way).or_default().clone()
    }
}

/// How long the texts of a plan's ways are.
pub fn len(plan: &Planned) -> usize {
    let Planned::Query { tree: Ok(Finish::Statement(statement)), .. } = plan else { return 0 };
    let texts = statement.ways.iter().flat_map(|way| &way.turns).flat_map(|turn| turn.text.pieces());
    texts.map(|piece| if let Piece::Sql(sql) = piece { sql.len() } else { 0 }).sum()
}

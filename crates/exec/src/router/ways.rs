//! What a compiled statement keeps of the ways it may go: which was chosen, and each as statements with types. Who chooses is not
//! known here (`query/ways.rs`).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use plan::{Finish, Piece, Planned};
use tokio::sync::OnceCell;

use crate::moves::Moves;
use crate::router::compiled::ReadyTurns;
use crate::router::described::PartColumns;

/// How long what planners have said counts.
const KNOWN: Duration = Duration::from_secs(60);

/// How a query is answered that nodes can't answer for the rows that they have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// Home gets all rows.
    Home,
    /// Home gets the rows that meet others', which are read before: by which of the plan's semijoins.
    Semijoined(Arc<[usize]>),
    /// The nodes of some tables get the others' rows: by which of the plan's ways.
    Sent(usize),
    /// Nodes get rows by what they are joined by.
    Shuffled,
}

/// Which ways a query may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct May {
    pub moves: Moves,
    /// In a transaction of its own.
    pub alone: bool,
    pub send: bool,
    pub shuffle: bool,
    pub semijoin: bool,
}

/// What is known of the ways of a statement that was compiled.
#[derive(Default)]
pub struct Ways {
    /// By what the session has set, and what it may do where it is.
    chosen: Mutex<HashMap<May, (Way, Instant)>>,
    /// Each, planned with the types of what is read.
    ready: Mutex<HashMap<usize, Arc<ReadyTurns>>>,
    /// The columns of what nodes answer over rows that were shuffled; `None`: home would finish it otherwise than it does the statement.
    pub shuffled: OnceCell<Option<Arc<Vec<PartColumns>>>>,
}

impl Ways {
    /// What was chosen, if that is not long ago.
    pub fn chosen(&self, may: May) -> Option<Way> {
        let chosen = self.chosen.lock().get(&may).cloned();
        chosen.filter(|(_, at)| at.elapsed() < KNOWN).map(|(way, _)| way)
    }

    /// From now on, for a minute.
    pub fn choose(&self, may: May, way: Way) {
        self.chosen.lock().insert(may, (way, Instant::now()));
    }

    /// The statements of one of them.
    pub fn ready(&self, way: usize) -> Arc<ReadyTurns> {
        self.ready.lock().entry(way).or_default().clone()
    }
}

/// How long the texts of a plan's ways are.
pub fn len(plan: &Planned) -> usize {
    let Planned::Query { tree: Ok(Finish::Statement(statement)), .. } = plan else { return 0 };
    let sent = statement.ways.iter().flat_map(|way| &way.turns).map(|turn| &turn.text);
    let shuffle = statement.shuffle.iter().flat_map(|shuffle| shuffle.parts.iter().chain([&shuffle.text]));
    let semijoins = statement.semijoins.iter().map(|semijoin| &semijoin.text);
    let texts = sent.chain(shuffle).chain(semijoins).flat_map(plan::Text::pieces);
    texts.map(|piece| if let Piece::Sql(sql) = piece { sql.len() } else { 0 }).sum()
}

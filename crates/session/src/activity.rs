//! What a session is doing, for those who ask by `herd.sessions`. Written by the session as it goes from state to state, at
//! the cost of a short lock; read by others. It does not know statements or nodes, and not who may see what.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};

/// As PostgreSQL's track_activity_query_size.
const STATEMENT_BYTES_MAX: usize = 1024;

/// A session's place among those that are shown; it leaves when the last clone is gone.
pub type Shown = Arc<Activity>;

/// One session, as others may see it.
pub struct Activity {
    pub user: String,
    /// The role's object id on home: a name may be another's by tomorrow.
    pub role: Option<u32>,
    pub database: String,
    pub client: Option<SocketAddr>,
    now: Mutex<Now>,
}

/// One moment of a session.
#[derive(Clone, Debug, Default)]
pub struct Now {
    pub state: State,
    /// Since the Unix epoch, to some milliseconds.
    pub since: Duration,
    pub application_name: String,
    /// The settings `application_name` was read from.
    pub settings: u64,
    pub pins: Pins,
    pub in_transaction: bool,
    /// Nodes that take part in the transaction.
    pub nodes: Vec<i32>,
    /// The statement that runs, or ran last; its beginning.
    pub statement: String,
}

/// As pg_stat_activity's `state`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    #[default]
    Idle,
    Active,
    InTransaction,
    Failed,
}

/// Why a session keeps its connection to home.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pins(pub u8);

impl Pins {
    pub const TEMPORARY: u8 = 1;
    pub const LISTEN: u8 = 2;
    pub const LOCK: u8 = 4;
    pub const CURSOR: u8 = 8;
    pub const SETTING: u8 = 16;
    pub const CATALOG: u8 = 32;
    pub const SEQUENCE: u8 = 64;
    const NAMES: [(u8, &str); 7] = [
        (Self::TEMPORARY, "temporary tables"),
        (Self::LISTEN, "LISTEN"),
        (Self::LOCK, "advisory locks"),
        (Self::CURSOR, "WITH HOLD cursors"),
        (Self::SETTING, "settings"),
        (Self::CATALOG, "own catalog"),
        (Self::SEQUENCE, "sequences"),
    ];

    /// The reasons that hold, as `herd.sessions` shows them.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.iter().filter(move |(bit, _)| self.0 & bit != 0).map(|(_, name)| *name)
    }
}

impl State {
    /// In pg_stat_activity's words.
    pub fn name(self) -> &'static str {
        match self {
            State::Idle => "idle",
            State::Active => "active",
            State::InTransaction => "idle in transaction",
            State::Failed => "idle in transaction (aborted)",
        }
    }
}

impl Activity {
    /// A session that is idle from now on. `role`: its object id on home.
    pub fn new(user: &str, role: Option<u32>, database: &str, client: Option<SocketAddr>) -> Shown {
        let now = Mutex::new(Now { since: clock(), ..Now::default() });
        Arc::new(Activity { user: user.into(), role, database: database.into(), client, now })
    }

    /// A statement begins.
    pub fn begin(&self, sql: &str) {
        let mut end = sql.len().min(STATEMENT_BYTES_MAX);
        while !sql.is_char_boundary(end) {
            end -= 1;
        }
        let mut now = self.now.lock();
        now.state = State::Active;
        now.since = clock();
        now.statement.clear();
        now.statement.push_str(&sql[..end]);
    }

    /// The session waits for its client.
    pub fn rest(&self, state: State, pins: Pins, nodes: impl Iterator<Item = i32>) {
        let mut now = self.now.lock();
        (now.state, now.since, now.pins) = (state, clock(), pins);
        now.in_transaction = state != State::Idle;
        now.nodes.clear();
        now.nodes.extend(nodes);
    }

    /// Which settings `application_name` was read from last.
    pub fn settings(&self) -> u64 {
        self.now.lock().settings
    }

    /// `settings`: the fingerprint of those the name was read from.
    pub fn rename(&self, application_name: &str, settings: u64) {
        let mut now = self.now.lock();
        now.application_name = application_name.to_string();
        now.settings = settings;
    }

    /// It waits for its client, outside of a transaction.
    pub fn is_idle(&self) -> bool {
        self.now.lock().state == State::Idle
    }

    /// A copy of how it is at this moment.
    pub fn now(&self) -> Now {
        self.now.lock().clone()
    }
}

/// Some milliseconds behind, and for a fifth of the cost.
fn clock() -> Duration {
    #[cfg(target_os = "linux")]
    {
        let now = clock_gettime(ClockId::RealtimeCoarse);
        Duration::new(now.tv_sec.max(0) as u64, now.tv_nsec as u32)
    }
    #[cfg(not(target_os = "linux"))]
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_cut_at_a_character() {
        let shown = Activity::new("u", None, "d", None);
        shown.begin(&format!("{}é and more", "x".repeat(STATEMENT_BYTES_MAX - 1)));
        assert_eq!(shown.now().statement.len(), STATEMENT_BYTES_MAX - 1);
        shown.rest(State::InTransaction, Pins(Pins::LISTEN | Pins::CURSOR), [1, 2].into_iter());
        let now = shown.now();
        assert_eq!((now.state.name(), now.nodes), ("idle in transaction", vec![1, 2]));
        assert_eq!(now.pins.names().collect::<Vec<_>>(), ["LISTEN", "WITH HOLD cursors"]);
        assert!(
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().abs_diff(now.since).as_secs()
                < 2
        );
    }
}

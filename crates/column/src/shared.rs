//! What the parts of a store know of one another: how far it is, what copies there are, who waits for what. It does nothing
//! by itself.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::{Condvar, Mutex, RwLock};
use tokio::sync::{Notify, watch};

use crate::config::Config;
use crate::lsn::Lsn;
use crate::shape::Column;
use crate::unchanged::{Content, Removals};
use crate::unseen::Unseen;

/// How far the node's log is in DuckDB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// All that was committed before this can be read.
    pub applied: Lsn,
    /// As [`applied`](Self::applied), and it would still be so after a crash: the slot need not keep it.
    pub stored: Lsn,
}

/// Which server the stream comes from. Positions of another one, or of another timeline, mean nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub system: String,
    pub timeline: String,
}

/// As it is stored, and asked for.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.system, self.timeline)
    }
}

/// For so long it is tried again before anybody is told.
const STUCK: Duration = Duration::from_secs(2);

/// What a copy is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Copying,
    Ready,
    /// It was one, and will be made anew.
    Rebuilding,
    /// The table can't be copied as it is.
    Refused,
}

impl State {
    /// As SHOW copies has it.
    pub fn word(self) -> &'static str {
        match self {
            State::Copying => "copying",
            State::Ready => "ready",
            State::Rebuilding => "rebuilding",
            State::Refused => "refused",
        }
    }
}

/// One of the copies that are listed.
#[derive(Clone, Debug)]
pub struct Copy {
    pub relation: u32,
    /// Schema and name, as far as they are known.
    pub table: String,
    pub state: State,
    pub why: String,
    /// Rows copied so far, while it is copied.
    pub rows: u64,
}

/// What a copy in DuckDB is made of.
#[derive(Clone, Debug)]
pub struct Made {
    pub relation: u32,
    pub since: Lsn,
    pub fingerprint: String,
    /// Some zero of its floats may have lost its sign, or got one.
    pub signed_zeros: bool,
    /// See [`Shape::first_bytes`](crate::shape::Shape::first_bytes).
    pub first_bytes: bool,
    pub columns: Arc<[Column]>,
}

impl Made {
    /// It has these columns, as they are in a question.
    pub fn has(&self, asked: &[(String, u32, i32)]) -> bool {
        let same = |(name, ty, modifier): &(String, u32, i32), column: &Column| {
            column.name == *name && (*ty == 0 || (column.type_oid, column.modifier) == (*ty, *modifier))
        };
        asked.iter().all(|asked| self.columns.iter().any(|column| same(asked, column)))
    }
}

/// A thread's pause, which others may end.
#[derive(Default)]
pub struct Pause {
    lock: Mutex<()>,
    ended: Condvar,
}

impl Pause {
    /// For so long, unless there is a reason not to, or somebody ends it.
    pub fn wait(&self, most: Duration, unless: impl Fn() -> bool) {
        let mut held = self.lock.lock();
        if !unless() {
            self.ended.wait_for(&mut held, most);
        }
    }

    /// Ends it, for a reason that `unless` sees from now on.
    pub fn end(&self) {
        drop(self.lock.lock());
        self.ended.notify_all();
    }
}

/// Nothing can be written.
#[derive(Clone, Debug)]
struct Stuck {
    since: Instant,
    why: String,
}

/// All clones are one, behind an [`Arc`].
pub struct Shared {
    pub config: Config,
    pub position: watch::Sender<Position>,
    pub copies: Mutex<BTreeMap<i64, Copy>>,
    /// As table herd_copy has it, so that a read need not ask DuckDB. Who commits a change of that table holds it from before the COMMIT until this
    /// is the same; a read holds it while its transaction begins.
    pub made: RwLock<BTreeMap<i64, Made>>,
    /// Who commits in DuckDB what a read may find says so from before the COMMIT until behind it.
    pub content: Content,
    /// The same for who commits that rows of a copy are gone, or that the copy is another one.
    pub removals: Removals,
    pub unseen: Unseen,
    pub identity: Mutex<Option<Identity>>,
    /// What readers wait for, at most.
    wanted: AtomicU64,
    /// Somebody has begun to wait.
    pub waits: Notify,
    /// The same for a thread that does nothing else meanwhile.
    pub pause: Pause,
    /// The stream has to be read anew: what was read of it can't be used.
    pub failures: watch::Sender<u64>,
    /// Since when, and why, what is read of it can't be written; `None`: it can, as far as is known.
    stuck: watch::Sender<Option<Stuck>>,
    /// There is something to do for who looks after the copies.
    pub attention: Notify,
    /// All that had been committed at this moment can be read.
    fresh: Mutex<Option<Instant>>,
    /// The node's end of log, when it was last asked.
    pub node_end: AtomicU64,
    pub started: SystemTime,
}

impl Shared {
    /// Of a store that begins.
    pub fn new(config: Config) -> Arc<Self> {
        Arc::new(Shared {
            config,
            position: watch::Sender::new(Position::default()),
            copies: Mutex::default(),
            made: RwLock::default(),
            content: Content::default(),
            removals: Removals::default(),
            unseen: Unseen::default(),
            identity: Mutex::default(),
            wanted: AtomicU64::new(0),
            waits: Notify::new(),
            pause: Pause::default(),
            failures: watch::Sender::new(0),
            stuck: watch::Sender::new(None),
            attention: Notify::new(),
            fresh: Mutex::default(),
            node_end: AtomicU64::new(0),
            started: SystemTime::now(),
        })
    }

    /// How far it is.
    pub fn applied(&self) -> Lsn {
        self.position.borrow().applied
    }

    /// All that is known of the node's log is applied.
    pub fn is_level(&self) -> bool {
        self.applied() >= Lsn(self.node_end.load(Ordering::Relaxed))
    }

    /// Somebody waits for this.
    pub fn want(&self, lsn: Lsn) {
        self.wanted.fetch_max(lsn.0, Ordering::Relaxed);
        self.waits.notify_one();
        self.pause.end();
    }

    /// What somebody waits for, if anybody does.
    pub fn wanted(&self) -> Option<Lsn> {
        let wanted = Lsn(self.wanted.load(Ordering::Relaxed));
        (wanted > self.applied()).then_some(wanted)
    }

    /// Positions begin anew, of another slot: nobody waits for old ones.
    pub fn begin_anew(&self, position: Position) {
        self.wanted.store(0, Ordering::Relaxed);
        *self.fresh.lock() = None;
        self.unseen.clear();
        self.position.send_replace(position);
    }

    /// At `asked`, the node's log ended here or earlier, and all of it is applied.
    pub fn is_fresh_as_of(&self, asked: Instant) {
        let mut fresh = self.fresh.lock();
        *fresh = (*fresh).max(Some(asked));
    }

    /// See [`is_fresh_as_of`](Self::is_fresh_as_of).
    pub fn fresh_as_of(&self) -> Option<Instant> {
        *self.fresh.lock()
    }

    /// What was read of the stream could not be written, and is read again.
    pub fn is_stuck(&self, why: &str) {
        let (since, why) = (Instant::now(), why.to_string());
        self.stuck.send_modify(|stuck| *stuck = Some(Stuck { since: stuck.as_ref().map_or(since, |s| s.since), why }));
    }

    /// It could.
    pub fn goes_on(&self) {
        self.stuck.send_if_modified(|stuck| stuck.take().is_some());
    }

    /// Why nothing can be written, once it could not be when it was tried again.
    pub fn stuck(&self) -> Option<String> {
        let stuck = self.stuck.borrow();
        stuck.as_ref().filter(|stuck| stuck.since.elapsed() >= STUCK).map(|stuck| stuck.why.clone())
    }

    /// Waits until that is so, or ever.
    pub async fn until_stuck(&self) -> String {
        let mut changes = self.stuck.subscribe();
        loop {
            if let Some(why) = self.stuck() {
                return why;
            }
            // Each time it is tried again is a change; the sender lives as long as this.
            let _ = changes.changed().await;
        }
    }

    /// Says what a copy is at; nothing if it is none that is listed.
    pub fn set_state(&self, id: i64, state: State, why: &str) {
        if let Some(copy) = self.copies.lock().get_mut(&id) {
            (copy.state, copy.why) = (state, why.into());
        }
    }

    /// The copy is not what its table is: it is to be made anew.
    pub fn is_changed(&self, id: i64, why: &str) {
        let mut copies = self.copies.lock();
        if let Some(copy) = copies.get_mut(&id).filter(|copy| copy.state == State::Ready) {
            (copy.state, copy.why) = (State::Rebuilding, why.into());
            self.attention.notify_one();
        }
    }
}

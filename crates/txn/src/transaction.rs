//! A transaction over the nodes it has touched so far. Nodes join when a statement first needs them.
//!
//! It does not know which statements run in it, nor how many phases a commit takes (`commit.rs`).

use std::sync::Arc;

use catalog::{NodeId, Snapshot};
use pool::PoolError;

use crate::lane::Lane;
use crate::manner::Manner;

/// What a setting takes besides its text.
const SETTING_LEAST: usize = 64;

/// A node that takes part, and what the transaction has done there.
pub struct Participant {
    pub lane: Lane,
    /// It may have changed data: it takes part in the commit.
    pub wrote: bool,
    /// It may have locked what others wait for.
    pub locked: bool,
    /// Its part stands as a prepared transaction.
    pub(crate) prepared: bool,
    /// By which of the transaction's statements it has joined, and by which it was used last.
    since: u64,
    used: u64,
    /// A statement has it.
    taken: bool,
}

impl Participant {
    /// A node that has neither written nor locked anything.
    pub fn new(lane: Lane) -> Self {
        Participant { lane, wrote: false, locked: false, prepared: false, since: 0, used: 0, taken: false }
    }
}

/// The client's transaction over all nodes it has touched.
#[derive(Default)]
pub struct Transaction {
    pub participants: Vec<Participant>,
    /// How many were taken out for the statement at work. Who does not come back is lost, with what it did: its connection is closed.
    out: u16,
    /// `BEGIN` with its options, as each participant gets it.
    begin: Box<str>,
    /// Savepoints open now, oldest first, and settings made in the transaction, in order: what a node that joins
    /// later must be told.
    history: Vec<Event>,
    state: State,
    /// The session keeps its lane to this node beyond the transaction; it is found in `kept` then.
    pub keep: Option<NodeId>,
    /// So it does, for a last look at what code has left there, with all of them.
    pub keep_all: bool,
    /// The node that decides where it has a say.
    pub home: Option<NodeId>,
    pub kept: Vec<Lane>,
    /// A cancel may still be on its way to the connections: nobody else gets them when the transaction ends.
    pub doubtful: bool,
    /// `herd.snapshot`: what sees a cut.
    pub wants: Cuts,
    /// Something was said of it by which it may read repeatably, whatever its session's default is.
    repeats: bool,
    /// The catalog as it was when one that may read repeatably first looked at anything: what it sees on its nodes is as old.
    pub began_with: Option<Arc<Snapshot>>,
    /// Its snapshot is one that another transaction has exported.
    pub imports: bool,
    /// The statement at work takes no snapshot (analyze_requires_snapshot in PostgreSQL's analyze.c): LOCK TABLE, SHOW.
    pub takes_no_snapshot: bool,
    /// The nodes whose snapshots are one cut; none: there is no cut.
    pub cut: Vec<NodeId>,
    /// How transactions with the settings of this mark run, as asked last.
    pub manner: Option<(u64, Manner)>,
    /// Whether those with the settings of this mark are SERIALIZABLE, as asked last.
    pub serializable: Option<(u64, bool)>,
    /// Numbers of the pauses that others make for it, until whoever ends it has ended them.
    pub pauses: Vec<u64>,
    /// Tables it has asked for since the client began it.
    touched: Vec<Touched>,
    /// Home, if it changes the catalog: the epoch is raised on every node that it writes to, as the last thing before it
    /// commits, so that one that stays open keeps nobody from changing something else.
    pub raises_epoch: Option<NodeId>,
    /// The last transaction has raised it, if it was committed.
    pub raised: bool,
    /// What it has raised it to.
    pub raised_to: Option<Raised>,
    /// Grows with all that runs on its nodes: who compares it finds out whether anything has since.
    pub uses: u64,
    /// Triggers of users' own may wait for the commit: they run before anything else waits for it.
    pub defers: bool,
    /// The client has deferred constraints in it.
    pub sets_constraints: bool,
    /// Tells apart what statements mean before and after each of its changes of the schema; `None`: it has made none.
    pub schema_fingerprint: Option<u64>,
    /// It has set what outlives it: whoever has a connection of its next must not have that.
    pub leaves_settings: bool,
    /// The transaction's time as a timestamptz's text, where it is known, and the node whose own time it is.
    pub now: Option<Box<str>>,
    pub clock: Option<NodeId>,
    /// It may have changed who may do what.
    pub may_change_rights: bool,
    /// Something has run that may write, in this or an earlier one, since whoever must see it looked last.
    pub may_have_written: bool,
    /// Counts statements of clients, over all transactions.
    pub statement: u64,
    /// It had nodes that take part when the statement began, so it may have locks.
    pub held: bool,
    /// It has gone back to a savepoint, so that who seemed to write may have been stopped, or be undone; or code of a user's own ran,
    /// which may have written or not.
    pub asks_who_wrote: bool,
    /// Notices and changed parameters that home reported when the transaction ended, for the client.
    pub reports: bytes::BytesMut,
}

/// A table that a transaction has asked for.
#[derive(Clone, Copy, Debug)]
struct Touched {
    /// Home's object id.
    table: u32,
    /// It has the table for itself, on all nodes, since so many savepoints were open.
    alone: Option<usize>,
}

/// What sees a cut through all nodes (see `gate.rs`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cuts {
    /// `off`: nothing.
    None,
    /// What PostgreSQL gives one snapshot for several statements: REPEATABLE READ and SERIALIZABLE.
    #[default]
    Repeatable,
    /// `on`: whatever reads several nodes.
    All,
}

/// What `herd.epoch` on home holds since the transaction's last statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raised {
    pub epoch: i64,
    pub kinds: i64,
}

/// Where a transaction stands (TBLOCK_… in PostgreSQL's xact.c).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// There is none.
    #[default]
    Idle,
    /// Of one statement that needs several nodes, or of the statements of a string or up to a Sync: it ends by itself.
    Implicit,
    /// The client said BEGIN.
    Block,
    /// A statement in the client's block failed: it can only be rolled back.
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Event {
    Savepoint(String),
    Setting(String),
}

impl Transaction {
    /// It has asked for the table (by home's object id) since the client began it.
    pub fn has_touched(&self, table: u32) -> bool {
        self.touched.iter().any(|t| t.table == table)
    }

    /// It asks for these.
    pub fn touches(&mut self, tables: impl IntoIterator<Item = u32>) {
        self.touched.extend(tables.into_iter().map(|table| Touched { table, alone: None }));
    }

    /// It has the table for itself on all nodes.
    pub fn is_alone_with(&self, table: u32) -> bool {
        self.touched.iter().any(|t| t.table == table && t.alone.is_some())
    }

    /// It has locked these so.
    pub fn has_alone(&mut self, tables: impl IntoIterator<Item = u32>) {
        let alone = Some(self.depth());
        self.touched.extend(tables.into_iter().map(|table| Touched { table, alone }));
    }

    /// A transaction has begun: the client's own, or an implicit one.
    pub fn is_active(&self) -> bool {
        self.state != State::Idle
    }

    /// The client's own, failed or not.
    pub fn is_block(&self) -> bool {
        matches!(self.state, State::Block | State::Failed)
    }

    /// The client's block has failed: nothing but its end is taken.
    pub fn has_failed(&self) -> bool {
        self.state == State::Failed
    }

    /// The client says BEGIN inside the implicit transaction of a string.
    pub fn become_block(&mut self) {
        if self.state == State::Implicit {
            self.state = State::Block;
        }
    }

    /// A statement of the client's block has failed.
    pub fn fail(&mut self) {
        if self.state == State::Block {
            self.state = State::Failed;
        }
    }

    /// `sql`: the BEGIN that nodes get when they join. `block`: it is the client's own.
    pub fn begin(&mut self, sql: &str, block: bool) {
        debug_assert!(self.participants.is_empty());
        self.begin = sql.into();
        self.repeats = may_repeat(sql);
        (self.began_with, self.imports) = (None, false);
        self.history.clear();
        self.state = if block { State::Block } else { State::Implicit };
        self.raised_to = None;
        self.leaves_settings = false;
        self.cut.clear();
        (self.now, self.clock) = (None, None);
    }

    /// In another way, before any node has taken part; what was set already stays set.
    pub fn begin_as(&mut self, sql: &str) {
        debug_assert!(self.participants.is_empty());
        self.begin = sql.into();
        self.repeats = may_repeat(sql);
    }

    /// How it runs itself, as SET TRANSACTION has said in it.
    pub fn manners(&self) -> impl Iterator<Item = &str> {
        self.set().filter(|sql| is_manner(sql) && !sql.to_ascii_uppercase().contains("SNAPSHOT"))
    }

    fn set(&self) -> impl Iterator<Item = &str> {
        self.history.iter().filter_map(|event| match event {
            Event::Setting(sql) => Some(sql.as_str()),
            Event::Savepoint(_) => None,
        })
    }

    /// Whether it may read repeatably, where `by_default` is what its session's do: home knows (`Manner`).
    pub fn may_repeat(&self, by_default: bool) -> bool {
        self.is_active() && self.repeats || by_default
    }

    /// No node has taken part.
    pub fn is_fresh(&self) -> bool {
        self.participants.is_empty() && self.cut.is_empty()
    }

    /// The node's part, if it has one.
    pub fn get(&mut self, node: NodeId) -> Option<&mut Participant> {
        self.participants.iter_mut().find(|p| p.lane.node == node)
    }

    /// The node takes part.
    pub fn has(&self, node: NodeId) -> bool {
        self.participants.iter().any(|p| p.lane.node == node)
    }

    /// A node joins: BEGIN and what has happened so far travel in front of its first statement.
    pub fn join(&mut self, mut lane: Lane) -> &mut Participant {
        lane.conn.tainted |= self.leaves_settings;
        for sql in self.opening() {
            lane.put_before(&sql);
        }
        self.uses += 1;
        let (since, used) = (self.statement, self.statement);
        self.admit(Participant { since, used, ..Participant::new(lane) });
        let last = self.participants.len() - 1;
        &mut self.participants[last]
    }

    /// Nothing can have been told what time it is.
    pub fn has_no_time(&self) -> bool {
        self.now.is_none() && self.clock.is_none()
    }

    /// A node takes part. The time of the first is the transaction's, unless that has one already.
    pub fn admit(&mut self, participant: Participant) {
        if self.now.is_none() {
            self.clock.get_or_insert(participant.lane.node);
        }
        self.participants.push(participant);
    }

    /// Takes a participant out for the statement at work. Whoever does puts it back.
    pub fn take(&mut self, at: usize) -> Participant {
        let mut p = self.participants.swap_remove(at);
        p.used = self.statement;
        self.uses += 1;
        self.out += u16::from(!std::mem::replace(&mut p.taken, true));
        p
    }

    /// It takes part again.
    pub fn put_back(&mut self, mut participant: Participant) {
        self.out -= u16::from(std::mem::take(&mut participant.taken)).min(self.out);
        self.participants.push(participant);
    }

    /// A node that took part and does not any more has undone what it did.
    pub(crate) fn nobody_is_lost(&self) -> Result<(), PoolError> {
        match self.out {
            0 => Ok(()),
            _ => Err(PoolError::Closed {
                node: "of this transaction".into(),
                reason: "a statement has failed on it".into(),
            }),
        }
    }

    /// BEGIN and what has happened so far: what a node that joins is told first.
    pub fn opening(&self) -> Vec<String> {
        let history = self.history.iter().map(|event| match event {
            Event::Savepoint(name) => format!("SAVEPOINT {}", catalog::quote_ident(name)),
            Event::Setting(sql) => sql.clone(),
        });
        std::iter::once(self.begin.to_string()).chain(history).collect()
    }

    /// Tells apart what was set, and which changes of the schema were made, inside this transaction; 0: nothing.
    pub fn settings_fingerprint(&self) -> u64 {
        let schema = self.schema_fingerprint.map_or(0, |number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        self.set().fold(schema, |mark, sql| {
            sql.bytes()
                .fold(mark ^ 0xcbf2_9ce4_8422_2325, |h: u64, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
        })
    }

    /// A SET inside the transaction, for nodes that join later.
    pub fn note_setting(&mut self, sql: &str) {
        self.repeats |= may_repeat(sql);
        self.history.push(Event::Setting(sql.to_string()));
    }

    /// What its settings take to be remembered.
    pub fn settings_bytes(&self) -> usize {
        self.set().map(|sql| sql.len() + SETTING_LEAST).sum()
    }

    /// What was set in it, oldest first, for a connection beside it: not how the transaction itself runs.
    pub fn settings(&self) -> impl Iterator<Item = &str> {
        self.set().filter(|sql| !is_manner(sql))
    }

    /// Something was set inside this transaction.
    pub fn has_set(&self) -> bool {
        self.set().next().is_some()
    }

    /// Something was set inside this transaction, perhaps this setting.
    pub fn sets(&self, name: &str) -> bool {
        self.set().any(|sql| sql.to_ascii_lowercase().contains(name))
    }

    /// A SET that proved wrong.
    pub fn forget_last_setting(&mut self) {
        if let Some(at) = self.history.iter().rposition(|e| matches!(e, Event::Setting(_))) {
            self.history.remove(at);
        }
    }

    /// Savepoints open now.
    pub fn depth(&self) -> usize {
        self.history.iter().filter(|e| matches!(e, Event::Savepoint(_))).count()
    }

    /// Its BEGIN says READ ONLY, and nothing else of it.
    pub fn begins_read_only(&self) -> bool {
        names(&self.begin, "read only") && !names(&self.begin, "read write")
    }

    /// How the current or last transaction was begun.
    pub fn last_begin(&self) -> &str {
        &self.begin
    }

    /// A savepoint of this name is open.
    pub fn has_savepoint(&self, name: &str) -> bool {
        self.history.iter().any(|e| matches!(e, Event::Savepoint(n) if n == name))
    }

    /// Whether what nodes keep for it now could be given back before it ends.
    pub fn has_savepoints(&self) -> bool {
        self.history.iter().any(|e| matches!(e, Event::Savepoint(_)))
    }

    /// Runs SQL on every participant; all are waited for, the first error is returned.
    pub async fn everywhere(&mut self, sql: &str) -> Result<(), PoolError> {
        self.everywhere_but(None, sql).await
    }

    /// As [`everywhere`](Self::everywhere), without one of the nodes.
    pub async fn everywhere_but(&mut self, without: Option<NodeId>, sql: &str) -> Result<(), PoolError> {
        self.nobody_is_lost()?;
        self.uses += 1;
        let mut first = None;
        let told = |p: &&mut Participant| Some(p.lane.node) != without;
        for p in self.participants.iter_mut().filter(told) {
            p.lane.put_query(sql);
            if let Err(e) = p.lane.conn.flush().await {
                first.get_or_insert(e);
            }
        }
        for p in self.participants.iter_mut().filter(told) {
            if p.lane.conn.is_broken() {
                continue;
            }
            if let Err(e) = p.lane.finish().await {
                first.get_or_insert(e);
            }
            p.lane.break_unless_at_rest();
        }
        first.map_or(Ok(()), Err)
    }

    /// SAVEPOINT on all nodes that take part, and on those that join later.
    pub async fn savepoint(&mut self, name: &str) -> Result<(), PoolError> {
        self.everywhere(&format!("SAVEPOINT {}", catalog::quote_ident(name))).await?;
        self.history.push(Event::Savepoint(name.to_string()));
        Ok(())
    }

    /// RELEASE SAVEPOINT on all nodes that take part: it and those behind it are open no more. The first error is returned.
    pub async fn release(&mut self, name: &str) -> Result<(), PoolError> {
        self.everywhere(&format!("RELEASE SAVEPOINT {}", catalog::quote_ident(name))).await?;
        self.forget_from(name, false);
        Ok(())
    }

    /// Undoes what came behind the savepoint, which stays.
    pub async fn rollback_to(&mut self, name: &str) -> Result<(), PoolError> {
        self.everywhere(&format!("ROLLBACK TO SAVEPOINT {}", catalog::quote_ident(name))).await?;
        self.forget_from(name, true);
        self.asks_who_wrote = true;
        if self.state == State::Failed {
            self.state = State::Block;
        }
        Ok(())
    }

    /// Forgets what happened since the newest savepoint of that name. Settings made inside a released one remain.
    fn forget_from(&mut self, name: &str, rolled_back: bool) {
        let at = self.history.iter().rposition(|e| matches!(e, Event::Savepoint(n) if n == name));
        if let Some(at) = at {
            let outside = self.history[..at].iter().filter(|e| matches!(e, Event::Savepoint(_))).count();
            for alone in
                self.touched.iter_mut().map(|t| &mut t.alone).filter(|alone| alone.is_some_and(|d| d > outside))
            {
                *alone = if rolled_back { None } else { Some(outside) };
            }
            let later = self.history.split_off(at + 1);
            if !rolled_back {
                self.history.pop();
                self.history.extend(later.into_iter().filter(|e| matches!(e, Event::Setting(_))));
            }
        }
    }

    /// Undoes all of it. A node that can't say so loses its connection, and rolls back then.
    pub async fn rollback(&mut self) {
        for p in &mut self.participants {
            p.lane.put_query("ROLLBACK");
            let _ = p.lane.conn.flush().await;
        }
        for p in &mut self.participants {
            // What can't be rolled back is closed with its connection: the node rolls back then.
            if p.lane.finish().await.is_err() {
                p.lane.conn.mark_broken();
            }
        }
        self.end();
    }

    /// All that was done in it is undone, and it stands as it did before its first statement: nobody has seen any of it.
    pub async fn begin_again(&mut self) {
        let state = if self.is_block() { State::Block } else { State::Implicit };
        let (history, keep_all) = (std::mem::take(&mut self.history), self.keep_all);
        self.rollback().await;
        (self.history, self.keep_all, self.state) = (history, keep_all, state);
    }

    /// Undoes the statement at work, which began when so many took part, if only nodes that have joined for it know of it: they leave.
    /// Whether that was so.
    pub async fn undo_statement(&mut self, took_part: usize) -> bool {
        let now = self.statement;
        let joined = |p: &Participant| p.since == now;
        let alone = self.participants.iter().all(|p| if joined(p) { !self.keeps(p.lane.node) } else { p.used != now });
        let others = self.participants.iter().filter(|p| !joined(p)).count();
        if self.out > 0 || !alone || others != took_part || others == self.participants.len() || !self.cut.is_empty() {
            return false;
        }
        for mut p in self.participants.extract_if(.., |p| p.since == now) {
            self.clock = self.clock.filter(|node| *node != p.lane.node);
            if p.lane.run("ROLLBACK").await.is_err() || self.doubtful {
                p.lane.conn.mark_broken();
            }
        }
        true
    }

    /// The transaction has failed and can only be rolled back: it gives up its locks on all nodes now, as PostgreSQL does,
    /// and not when the client says ROLLBACK.
    pub async fn give_up(&mut self) {
        self.rollback().await;
        self.state = State::Failed;
    }

    pub(crate) fn keeps(&self, node: NodeId) -> bool {
        self.keep_all || self.keep == Some(node)
    }

    pub(crate) fn end(&mut self) {
        for mut p in std::mem::take(&mut self.participants) {
            if self.home == Some(p.lane.node) {
                self.reports.extend_from_slice(&std::mem::take(&mut p.lane.notices));
            }
            if self.keeps(p.lane.node) && p.lane.break_unless_at_rest() && p.lane.conn.status() == b'I' {
                // A late cancel can only meet what the session itself does there next.
                p.lane.conn.tainted |= self.keep_all;
                self.kept.push(p.lane);
            } else if self.doubtful {
                p.lane.conn.mark_broken();
            }
        }
        self.out = 0;
        self.doubtful = false;
        self.keep_all = false;
        self.asks_who_wrote = false;
        self.sets_constraints = false;
        self.raised = self.raises_epoch.take().is_some();
        self.schema_fingerprint = None;
        self.touched.clear();
        self.history.clear();
        self.state = State::Idle;
        self.cut.clear();
        self.began_with = None;
        (self.now, self.clock) = (None, None);
    }
}

/// The text names one of the levels that read repeatably. More may do.
fn may_repeat(sql: &str) -> bool {
    names(sql, "repeatable") || names(sql, "serializable")
}

fn names(sql: &str, word: &str) -> bool {
    sql.as_bytes().windows(word.len()).any(|w| w.eq_ignore_ascii_case(word.as_bytes()))
}

/// SET TRANSACTION, as opposed to a setting.
fn is_manner(sql: &str) -> bool {
    sql.trim_start().get(.."SET TRANSACTION".len()).is_some_and(|s| s.eq_ignore_ascii_case("SET TRANSACTION"))
}

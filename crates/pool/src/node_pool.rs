//! The connections of one role, or of the router itself, to one node: who has one, who waits for one. It does not know
//! what they are used for.
//!
//! Invariants, under one lock: `open` counts idle connections, lent ones and those being opened, and is at most the
//! size (where that has become less, those that are lent leave as they come back); nobody waits while a connection is idle or may be opened.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};

use crate::cancel::cancel;
use crate::conn::{Asker, Conn, Remembers, Wish};
use crate::error::PoolError;
use crate::own::{CHECK, OWN_STARTUP};
use crate::pooled::PooledConn;
use crate::pools::PoolConfig;
use crate::role::{Judge, Role};
use crate::statements::StatementCache;
use crate::target::{Login, NodeTarget};

/// What every connection for clients starts with; sessions' own settings are applied later.
const STARTUP: &[(&str, &str)] = &[("client_encoding", "UTF8"), ("application_name", "pgherd"), CHECK];

/// Whose connections a pool holds. A pool never has another's.
pub(crate) enum Owner {
    Router(Arc<Login>),
    Role(Arc<Role>, Option<Arc<dyn Judge>>),
}

impl Owner {
    fn name(&self) -> String {
        match self {
            Owner::Router(login) => login.user.clone(),
            Owner::Role(role, _) => role.name(),
        }
    }
}

pub(crate) struct NodePool {
    pub target: Arc<NodeTarget>,
    pub owner: Owner,
    pub config: Arc<PoolConfig>,
    state: Mutex<State>,
}

struct State {
    /// Most recently used last.
    #[expect(
        clippy::vec_box,
        reason = "a connection stays in its box from opening to closing; moving it would copy it"
    )]
    idle: Vec<Box<Conn>>,
    open: usize,
    waiters: VecDeque<oneshot::Sender<Grant>>,
    /// Waiters that gave up are swept out when the queue is this long.
    sweep_at: usize,
    /// Connections that are being reset, and come back with the values of sequences of somebody who may ask for them.
    resetting: Vec<(Remembers, watch::Receiver<()>)>,
}

/// What a waiter gets. If he is gone by then, dropping it passes it on.
pub(crate) enum Grant {
    Conn(PooledConn),
    Slot(Slot),
}

/// The right to have one connection open.
pub(crate) struct Slot {
    pool: Option<Arc<NodePool>>,
}

/// A pool's figures at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolStats {
    pub target: NodeTarget,
    pub user: String,
    /// Idle, lent and being opened.
    pub open: usize,
    pub idle: usize,
    pub waiting: usize,
    pub max: usize,
}

enum Turn {
    Conn(PooledConn),
    Slot(Slot),
    Wait(oneshot::Receiver<Grant>),
}

impl NodePool {
    /// Without any connection yet: each is opened when it is asked for.
    pub fn new(target: NodeTarget, owner: Owner, config: Arc<PoolConfig>) -> Self {
        let state = State { idle: Vec::new(), open: 0, waiters: VecDeque::new(), sweep_at: 64, resetting: Vec::new() };
        NodePool { target: Arc::new(target), owner, config, state: Mutex::new(state) }
    }

    /// A connection: an idle one, else a new one, else the first that comes back. Which idle one: see [`State::idle_for`].
    pub async fn get(self: &Arc<Self>, wish: Wish<'_>) -> Result<PooledConn, PoolError> {
        let reset = self.state.lock().reset_for(wish.asker);
        if let Some(mut reset) = reset {
            // It ends by being dropped.
            let _ = reset.changed().await;
        }
        let turn = self.state.lock().turn(self, wish);
        let grant = match turn {
            Turn::Conn(conn) => Grant::Conn(conn),
            Turn::Slot(slot) => Grant::Slot(slot),
            Turn::Wait(turn) => match tokio::time::timeout(self.config.wait_timeout, turn).await {
                Ok(Ok(grant)) => grant,
                _ => return Err(self.exhausted()),
            },
        };
        let slot = match grant {
            Grant::Conn(mut conn) => match self.is_of_todays_role(&conn) && conn.is_alive() {
                true => return Ok(conn),
                false => conn.into_slot(),
            },
            Grant::Slot(slot) => slot,
        };
        // What rarely happens is kept out of the futures that live in every session.
        let mut conn = Box::pin(self.open()).await?;
        conn.statements = StatementCache::new(self.config.max_prepared);
        Ok(slot.fill(Box::new(conn)))
    }

    async fn open(&self) -> Result<Conn, PoolError> {
        let limit = self.config.connect_timeout;
        match &self.owner {
            Owner::Router(login) => Conn::connect_to(self.target.clone(), login, &OWN_STARTUP, limit).await,
            Owner::Role(role, judge) => {
                let mut conn = role.open(&self.target, judge.as_deref(), STARTUP, limit).await?;
                conn.count_long(self.config.long.clone());
                Ok(conn)
            }
        }
    }

    /// Whether home says of the role what it said when the connection was opened.
    fn is_of_todays_role(&self, conn: &Conn) -> bool {
        match &self.owner {
            Owner::Router(_) => true,
            Owner::Role(role, _) => conn.role_version == Some(role.version()),
        }
    }

    /// An idle connection, if there is one.
    pub fn try_get(self: &Arc<Self>, wish: Wish<'_>) -> Option<PooledConn> {
        loop {
            let conn = {
                let mut state = self.state.lock();
                if state.reset_for(wish.asker).is_some() {
                    return None;
                }
                state.idle_for(self, wish)?
            };
            let mut conn = PooledConn::new(conn, self.clone());
            if self.is_of_todays_role(&conn) && conn.is_alive() {
                return Some(conn);
            }
            drop(conn.into_slot());
        }
    }

    /// Takes back a connection that is fit for anybody.
    pub fn give_back(self: &Arc<Self>, mut conn: Box<Conn>) {
        if !self.is_of_todays_role(&conn) {
            return self.discard(conn);
        }
        conn.served = true;
        let mut state = self.state.lock();
        if state.open > self.config.size.now() {
            drop(state);
            return self.discard(conn);
        }
        if !state.waiters.is_empty() {
            let mut grant = Grant::Conn(PooledConn::new(conn, self.clone()));
            loop {
                let Some(waiter) = state.waiters.pop_front() else { break };
                match waiter.send(grant) {
                    Ok(()) => return,
                    Err(back) => grant = back,
                }
            }
            let Grant::Conn(back) = grant else { return };
            conn = back.into_inner();
        }
        conn.idle_since = Instant::now();
        state.idle.push(conn);
    }

    /// Closes a connection that is fit for nobody. If something still runs on it, that is cancelled first: nobody is
    /// left who could want its result, and a node does not notice a closed connection before it writes.
    pub fn discard(self: &Arc<Self>, conn: Box<Conn>) {
        let slot = Slot::of(self.clone());
        if conn.is_undeclared() {
            tracing::warn!(node = %self.target, "a connection came back with a Sync its user did not declare");
        }
        let runs = conn.outstanding() > 0 && !conn.is_broken();
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) if runs => {
                let limit = self.config.connect_timeout;
                runtime.spawn(async move {
                    if let Err(error) = cancel(&conn.cancel_key(), limit).await {
                        tracing::debug!(%error, "could not cancel what ran on a connection to be closed");
                    }
                    drop(conn);
                    drop(slot);
                });
            }
            _ => {
                // In this order: whoever gets the slot must find room on the node.
                drop(conn);
                drop(slot);
            }
        }
    }

    /// Resets a connection in the background, then takes it back.
    pub fn reset(self: &Arc<Self>, conn: Box<Conn>) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return self.discard(conn);
        };
        let (done, waits) = watch::channel(());
        if conn.sequences.are_wanted() {
            self.state.lock().resetting.push((conn.sequences.clone(), waits));
        }
        let mut conn = PooledConn::new(conn, self.clone());
        let (limit, pool) = (self.config.connect_timeout, self.clone());
        runtime.spawn(async move {
            if !matches!(tokio::time::timeout(limit, conn.reset()).await, Ok(Ok(()))) {
                conn.mark_broken();
            }
            drop(conn);
            // Whoever waits is told by it.
            drop(done);
            pool.state.lock().resetting.retain(|(_, waits)| waits.has_changed().is_ok());
        });
    }

    /// Closes connections that were idle for too long, and those that turn out to be dead.
    pub fn reap(self: &Arc<Self>) {
        let (limit, now) = (self.config.idle_timeout, Instant::now());
        let young = |conn: &Conn| now.saturating_duration_since(conn.idle_since) < limit;
        self.keep_idle(|conn| young(conn) && self.is_of_todays_role(conn) && conn.is_alive());
    }

    /// Closes idle connections of which home has another word by now than when they were opened.
    pub fn end_unfit(self: &Arc<Self>) {
        self.keep_idle(|conn| self.is_of_todays_role(conn));
    }

    /// Closes idle connections, those used longest ago first; how many.
    pub fn end_idle(self: &Arc<Self>, most: usize) -> usize {
        let mut ended = 0;
        self.keep_idle(|_| {
            ended += 1;
            ended > most
        });
        ended.min(most)
    }

    /// The size is another: idle connections beyond it are closed, and those who wait get what may be opened.
    pub fn resized(self: &Arc<Self>) {
        let surplus = {
            let mut state = self.state.lock();
            while state.open < self.config.size.now()
                && let Some(waiter) = state.waiters.pop_front()
            {
                state.open += 1;
                if let Err(Grant::Slot(mut slot)) = waiter.send(Grant::Slot(Slot::of(self.clone()))) {
                    // He has given up.
                    slot.pool = None;
                    state.open -= 1;
                }
            }
            state.open.saturating_sub(self.config.size.now())
        };
        self.end_idle(surplus);
    }

    fn keep_idle(self: &Arc<Self>, mut keeps: impl FnMut(&mut Conn) -> bool) {
        let mut gone = Vec::new();
        {
            let mut state = self.state.lock();
            for mut conn in std::mem::take(&mut state.idle) {
                match keeps(&mut conn) {
                    true => state.idle.push(conn),
                    false => gone.push((conn, Slot::of(self.clone()))),
                }
            }
        }
        // Each connection is closed, then its slot given up, outside the lock.
        drop(gone);
    }

    /// Whether its connections log in as this role; those of the router's own do for none.
    pub fn is_of(&self, role: &Arc<Role>) -> bool {
        matches!(&self.owner, Owner::Role(own, _) if Arc::ptr_eq(own, role))
    }

    /// The role whose idle connections these are, if there are any.
    pub fn idle_role(&self) -> Option<Arc<Role>> {
        match &self.owner {
            Owner::Role(role, _) if !self.state.lock().idle.is_empty() => Some(role.clone()),
            _ => None,
        }
    }

    /// Waiters that have given up are not counted.
    pub fn stats(&self) -> PoolStats {
        let state = self.state.lock();
        PoolStats {
            target: (*self.target).clone(),
            user: self.owner.name(),
            open: state.open,
            idle: state.idle.len(),
            waiting: state.waiters.iter().filter(|w| !w.is_closed()).count(),
            max: self.config.size.now(),
        }
    }

    fn exhausted(&self) -> PoolError {
        let stats = self.stats();
        PoolError::Exhausted {
            node: self.target.to_string(),
            user: self.owner.name(),
            max: stats.max,
            waiting: stats.waiting,
            waited: self.config.wait_timeout,
        }
    }

    /// Gives a slot to who waits first.
    fn release(self: &Arc<Self>) {
        let mut state = self.state.lock();
        if state.open > self.config.size.now() {
            state.open -= 1;
            return;
        }
        let mut grant = Grant::Slot(Slot::of(self.clone()));
        while let Some(waiter) = state.waiters.pop_front() {
            match waiter.send(grant) {
                Ok(()) => return,
                Err(back) => grant = back,
            }
        }
        if let Grant::Slot(mut slot) = grant {
            slot.pool = None;
        }
        state.open -= 1;
    }
}

impl State {
    /// The end of the reset of the connection that remembers somebody's values.
    fn reset_for(&self, asker: Option<&Asker>) -> Option<watch::Receiver<()>> {
        let asker = asker?;
        self.resetting.iter().find(|(of, _)| of.are_of(asker)).map(|(_, end)| end.clone())
    }

    /// The idle connection that was used last, of those with the settings that are wished for if there are any. Those that
    /// remember others' values of sequences come last, and only when no other may be opened: they may be asked for them again.
    fn idle_for(&mut self, pool: &NodePool, wish: Wish<'_>) -> Option<Box<Conn>> {
        if let Some(asker) = wish.asker
            && let Some(own) = self.idle.iter().rposition(|c| c.sequences.are_of(asker))
        {
            return Some(self.idle.remove(own));
        }
        let free = |c: &Conn| !c.sequences.are_wanted();
        let has = |c: &Conn| wish.settings.is_none_or(|wanted| c.settings.fingerprint() == wanted);
        let best = self.idle.iter().rposition(|c| free(c) && has(c));
        match best.or_else(|| self.idle.iter().rposition(|c| free(c))) {
            Some(at) => Some(self.idle.remove(at)),
            None if self.open >= pool.config.size.now() && !self.idle.is_empty() => Some(self.idle.remove(0)),
            None => None,
        }
    }

    fn turn(&mut self, pool: &Arc<NodePool>, wish: Wish<'_>) -> Turn {
        if let Some(conn) = self.idle_for(pool, wish) {
            return Turn::Conn(PooledConn::new(conn, pool.clone()));
        }
        if self.open < pool.config.size.now() {
            self.open += 1;
            return Turn::Slot(Slot::of(pool.clone()));
        }
        if self.waiters.len() >= self.sweep_at {
            self.waiters.retain(|w| !w.is_closed());
            self.sweep_at = 64.max(self.waiters.len() * 2);
        }
        let (sender, receiver) = oneshot::channel();
        self.waiters.push_back(sender);
        Turn::Wait(receiver)
    }
}

impl Slot {
    /// For a connection that `open` counts already.
    pub fn of(pool: Arc<NodePool>) -> Self {
        Slot { pool: Some(pool) }
    }

    fn fill(mut self, conn: Box<Conn>) -> PooledConn {
        let pool = self.pool.take().expect("a slot has its pool until it is filled");
        PooledConn::new(conn, pool)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.take() {
            pool.release();
        }
    }
}

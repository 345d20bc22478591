//! The router's own connections, logged in with its own secret. They have pools of their own, and nothing here is lent by
//! [`Pools`](crate::Pools).
//!
//! Nobody is given one: it is asked one thing and is free again. Who had one while he waited for something else could be what that
//! waits for, and all of them gone. What strangers have asked by logging in waits for connections of its own, and nothing else does.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::conn::{Conn, Wish};
use crate::error::PoolError;
use crate::node_pool::{NodePool, Owner, PoolStats};
use crate::pools::PoolConfig;
use crate::size::Size;
use crate::target::{Login, NodeTarget};

/// A node looks this often, while it works, whether the router still lives: the statements of one that died end, and their
/// locks with them. It costs a node a system call each time.
pub(crate) const CHECK: (&str, &str) = ("client_connection_check_interval", "2s");

/// What every connection of the router's own starts with: a node notices within seconds that the router's machine is gone, which what it has taken for
/// itself (a job) lasts for; and nothing that is set for its role or its database decides what
/// its statements mean.
pub const OWN_STARTUP: [(&str, &str); 4] = [
    ("client_encoding", "UTF8"),
    ("application_name", "herd router"),
    CHECK,
    (
        "options",
        "-c search_path=pg_catalog,pg_temp -c DateStyle=ISO -c IntervalStyle=postgres -c extra_float_digits=1 -c array_nulls=on -c jit=off \
         -c tcp_keepalives_idle=5 -c tcp_keepalives_interval=2 -c tcp_keepalives_count=4 -c tcp_user_timeout=15000",
    ),
];

/// Connections to one node: each does one statement at a time.
const SIZE: usize = 16;
/// The same of those for logins, to home: a question takes one some tenths of a millisecond.
const SIZE_FOR_LOGINS: usize = 8;

/// Pools of the router's own connections. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct OwnConns {
    inner: Arc<Inner>,
}

struct Inner {
    login: Arc<Login>,
    work: Pooled,
    logins: Pooled,
}

/// Those for one purpose.
struct Pooled {
    config: Arc<PoolConfig>,
    pools: RwLock<HashMap<NodeTarget, Arc<NodePool>>>,
}

impl OwnConns {
    /// Pools come as nodes are asked for; their size is fixed, whatever `config` says.
    pub fn new(config: &PoolConfig, login: Login) -> Self {
        let of = |size| {
            let config = Arc::new(PoolConfig { size: Size::of_one(size), ..config.clone() });
            Pooled { config, pools: RwLock::default() }
        };
        let (work, logins) = (of(SIZE), of(SIZE_FOR_LOGINS));
        OwnConns { inner: Arc::new(Inner { login: Arc::new(login), work, logins }) }
    }

    /// Who the router is.
    pub fn login(&self) -> &Login {
        &self.inner.login
    }

    /// What a node answers, as text. Waits for a free connection; `Err` after `wait_timeout`, or when the node can't be reached.
    pub async fn rows(&self, target: &NodeTarget, sql: &str) -> Result<Vec<catalog::Row>, PoolError> {
        self.pool(&self.inner.work, target).get(Wish::default()).await?.simple(sql).await
    }

    /// The same for a client who has proved nothing yet.
    pub async fn rows_for_logins(&self, target: &NodeTarget, sql: &str) -> Result<Vec<catalog::Row>, PoolError> {
        self.pool(&self.inner.logins, target).get(Wish::default()).await?.simple(sql).await
    }

    /// A connection that belongs to no pool.
    pub async fn connect(&self, target: &NodeTarget) -> Result<Conn, PoolError> {
        let Inner { login, work, .. } = &*self.inner;
        Box::pin(Conn::connect(target, login, &OWN_STARTUP, work.config.connect_timeout)).await
    }

    /// As [`connect`](Self::connect), to a walsender: it makes logical replication slots beside what any connection does, by the simple
    /// protocol alone.
    pub async fn connect_to_replicate(&self, target: &NodeTarget) -> Result<Conn, PoolError> {
        let Inner { login, work, .. } = &*self.inner;
        let startup = [&OWN_STARTUP[..], &[("replication", "database")]].concat();
        Box::pin(Conn::connect(target, login, &startup, work.config.connect_timeout)).await
    }

    /// One for each node that was asked for, in no order.
    pub fn stats(&self) -> Vec<PoolStats> {
        stats(&self.inner.work)
    }

    /// The same of those for logins.
    pub fn stats_for_logins(&self) -> Vec<PoolStats> {
        stats(&self.inner.logins)
    }

    pub(crate) fn reap(&self) {
        for pooled in [&self.inner.work, &self.inner.logins] {
            let pools: Vec<_> = pooled.pools.read().values().cloned().collect();
            pools.iter().for_each(NodePool::reap);
        }
    }

    fn pool(&self, pooled: &Pooled, target: &NodeTarget) -> Arc<NodePool> {
        if let Some(pool) = pooled.pools.read().get(target) {
            return pool.clone();
        }
        let owner = Owner::Router(self.inner.login.clone());
        let new = || Arc::new(NodePool::new(target.clone(), owner, pooled.config.clone()));
        pooled.pools.write().entry(target.clone()).or_insert_with(new).clone()
    }
}

fn stats(pooled: &Pooled) -> Vec<PoolStats> {
    pooled.pools.read().values().map(|pool| pool.stats()).collect()
}

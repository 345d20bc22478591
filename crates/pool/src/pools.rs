//! All pools of a router: one for each node and user. It does not know which nodes there are; asking for one is enough.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use tokio::task::JoinHandle;

use crate::error::PoolError;
use crate::node_pool::{NodePool, PoolStats};
use crate::pooled::PooledConn;
use crate::target::{Login, NodeTarget};

#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// Connections to one node for one user, at most.
    pub size: usize,
    /// How long a statement waits for a connection.
    pub wait_timeout: Duration,
    /// Connections idle for longer are closed.
    pub idle_timeout: Duration,
    /// For connecting and logging in; also for a reset and for a cancel request.
    pub connect_timeout: Duration,
    /// Prepared statements kept on one connection, at most.
    pub max_prepared: usize,
}

impl Default for PoolConfig {
    fn default() -> Self {
        PoolConfig {
            size: 20,
            wait_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(600),
            connect_timeout: Duration::from_secs(5),
            max_prepared: 256,
        }
    }
}

/// Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Pools {
    inner: Arc<Inner>,
}

struct Inner {
    config: Arc<PoolConfig>,
    /// Two steps, so that a look-up needs no owned key.
    pools: RwLock<HashMap<NodeTarget, HashMap<String, Arc<NodePool>>>>,
}

impl Pools {
    pub fn new(config: PoolConfig) -> Self {
        assert!(config.size > 0, "a pool without connections can serve nobody");
        Pools { inner: Arc::new(Inner { config: Arc::new(config), pools: RwLock::default() }) }
    }

    /// A connection to `target` as `login.user`: an idle one (most recently used first), a new one while there are fewer
    /// than the size, or the first that comes back within the wait timeout, first come first served.
    ///
    /// Pools go by the user: a connection may have been opened with an older secret of the same user. Whether a
    /// client is that user is for the caller to know.
    pub async fn get(&self, target: &NodeTarget, login: &Login) -> Result<PooledConn, PoolError> {
        self.pool(target, &login.user).get(login).await
    }

    /// Connections to one node for one user, at most.
    pub fn size(&self) -> usize {
        self.inner.config.size
    }

    /// An idle connection, if there is one right now.
    pub fn try_get(&self, target: &NodeTarget, login: &Login) -> Option<PooledConn> {
        let pool = self.inner.pools.read().get(target)?.get(&login.user)?.clone();
        pool.try_get()
    }

    /// Every pool's figures, in no order.
    pub fn stats(&self) -> Vec<PoolStats> {
        self.all().iter().map(|pool| pool.stats()).collect()
    }

    /// Closes what was idle for too long, and forgets pools nobody uses.
    pub async fn reap(&self) {
        for pool in self.all() {
            pool.reap();
            // Many pools: let others run in between.
            tokio::task::yield_now().await;
        }
        let mut pools = self.inner.pools.write();
        for users in pools.values_mut() {
            // Whoever could still open a connection holds the pool.
            users.retain(|_, pool| Arc::strong_count(pool) > 1 || pool.stats().open > 0);
        }
        pools.retain(|_, users| !users.is_empty());
    }

    /// Reaps from time to time, until the last clone of these pools is gone.
    pub fn spawn_reaper(&self) -> JoinHandle<()> {
        let inner = Arc::downgrade(&self.inner);
        let every = (self.inner.config.idle_timeout / 4).clamp(Duration::from_millis(100), Duration::from_secs(30));
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(every).await;
                let Some(inner) = inner.upgrade() else { return };
                Pools { inner }.reap().await;
            }
        })
    }

    fn all(&self) -> Vec<Arc<NodePool>> {
        self.inner.pools.read().values().flat_map(|users| users.values().cloned()).collect()
    }

    fn pool(&self, target: &NodeTarget, user: &str) -> Arc<NodePool> {
        if let Some(pool) = self.inner.pools.read().get(target).and_then(|users| users.get(user)) {
            return pool.clone();
        }
        let mut pools = self.inner.pools.write();
        let users = pools.entry(target.clone()).or_default();
        let new = || Arc::new(NodePool::new(target.clone(), user, self.inner.config.clone()));
        users.entry(user.into()).or_insert_with(new).clone()
    }
}

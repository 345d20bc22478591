//! All pools for clients: one for each node and role. It does not know which nodes there are; asking for one is enough.
//! The router's own connections are not here (`own.rs`).

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::task::JoinHandle;
use wire::sqlstate;

use crate::conn::{LongMessages, Wish};
use crate::error::PoolError;
use crate::node_pool::{NodePool, Owner, PoolStats};
use crate::own::OwnConns;
use crate::pooled::PooledConn;
use crate::role::{ClientLogin, Judge, Role, RoleKey, RoleWord};
use crate::settings::roles_may_be_others;
use crate::size::Size;
use crate::target::{NodeTarget, Secret};

/// How often a login to a node without room is tried again once others' idle connections were ended, and after which time:
/// their servers take a moment to end.
const FULL_TRIES: usize = 5;
const FULL_WAIT: Duration = Duration::from_millis(30);
/// How often home is asked about the roles of idle connections: for so long those of a role that was dropped stay.
const ROLES_EVERY: Duration = Duration::from_secs(1);

/// How many connections, and how long they wait and idle.
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// Connections to one node for one role, at most.
    pub size: Size,
    /// How long a statement waits for a connection.
    pub wait_timeout: Duration,
    /// Connections idle for longer are closed.
    pub idle_timeout: Duration,
    /// For connecting and logging in; also for a reset and for a cancel request.
    pub connect_timeout: Duration,
    /// Prepared statements kept on one connection, at most.
    pub max_prepared: usize,
    /// What long messages on clients' connections may take.
    pub long: Arc<LongMessages>,
}

impl Default for PoolConfig {
    fn default() -> Self {
        PoolConfig {
            size: Size::of_one(20),
            wait_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(600),
            connect_timeout: Duration::from_secs(5),
            max_prepared: 256,
            long: Arc::default(),
        }
    }
}

/// Looked into for every statement.
type FastMap<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// What a pool's connections are lent for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum For {
    Statements,
    /// What a statement asks while it has connections of the pool above, and waits for nobody: as many statements as that pool has connections
    /// would wait for one another.
    Beside,
}

/// The pools of one node.
type OfNode = FastMap<(RoleKey, For), Arc<NodePool>>;

/// Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Pools {
    inner: Arc<Inner>,
}

struct Inner {
    config: Arc<PoolConfig>,
    /// Of [`For::Beside`].
    beside: Arc<PoolConfig>,
    judge: Option<Arc<dyn Judge>>,
    /// Two steps, so that a look-up needs no owned key.
    pools: RwLock<FastMap<NodeTarget, OfNode>>,
    /// Those some client or some pool still has.
    roles: Mutex<HashMap<RoleKey, Weak<Role>>>,
    /// Home's word about what roles' names mean.
    names: Mutex<String>,
}

impl Pools {
    /// `judge` is asked behind each login to a node; `None`: roles are taken to stay as they were.
    pub fn new(config: PoolConfig, judge: Option<Arc<dyn Judge>>) -> Self {
        let (pools, roles, names) = Default::default();
        let beside = Arc::new(PoolConfig { size: Size::of_one(1), ..config.clone() });
        Pools { inner: Arc::new(Inner { config: Arc::new(config), beside, judge, pools, roles, names }) }
    }

    /// A client that has proved to be the role of which home has just given its word. All clients of the role use the
    /// newest secret.
    pub fn admit(&self, word: &RoleWord, secret: Secret) -> ClientLogin {
        let key = RoleKey::of(word.oid);
        let mut roles = self.inner.roles.lock();
        let role = match roles.get(&key).and_then(Weak::upgrade) {
            Some(role) => {
                role.learn(word, Some(secret));
                role
            }
            None => {
                let role = Arc::new(Role::new(key, word, secret));
                roles.insert(key, Arc::downgrade(&role));
                role
            }
        };
        ClientLogin::new(&word.name, role)
    }

    /// A client that home could not be asked about: nodes judge his name, and his connections serve nobody else and end
    /// with him.
    pub fn admit_unseen(&self, name: &str, secret: Secret) -> ClientLogin {
        let word = RoleWord { oid: 0, name: name.into(), version: 0, as_of: 0, has_settings: true };
        let role = Arc::new(Role::new(RoleKey::unseen(), &word, secret));
        let (inner, of) = (Arc::downgrade(&self.inner), role.clone());
        let leaves = move || {
            of.is_gone();
            if let Some(inner) = inner.upgrade() {
                Pools { inner }.forget_role(&of);
            }
        };
        ClientLogin::of_one_client(name, role, Box::new(leaves))
    }

    /// Ends the idle connections of a role that is gone; those that are lent end when they come back.
    fn forget_role(&self, role: &Role) {
        let mut of = vec![];
        for roles in self.inner.pools.write().values_mut() {
            of.extend([For::Statements, For::Beside].into_iter().filter_map(|why| roles.remove(&(role.key, why))));
        }
        of.iter().for_each(NodePool::end_unfit);
    }

    /// A connection to `target` as the client's role: an idle one (most recently used first), a new one while there are
    /// fewer than the size, or the first that comes back within the wait timeout, first come first served.
    pub async fn get(&self, target: &NodeTarget, login: &ClientLogin) -> Result<PooledConn, PoolError> {
        self.get_for(target, login, Wish::default()).await
    }

    /// The same for who wishes for one of the idle connections more than for the others.
    pub async fn get_for(
        &self,
        target: &NodeTarget,
        login: &ClientLogin,
        wish: Wish<'_>,
    ) -> Result<PooledConn, PoolError> {
        self.lent(&self.pool(target, login, For::Statements), target, wish).await
    }

    /// One for who has others of this pool, asks one question on it and waits for nothing meanwhile: there is one such connection more than the
    /// size.
    pub async fn get_beside(&self, target: &NodeTarget, login: &ClientLogin) -> Result<PooledConn, PoolError> {
        if let Some(conn) = self.try_get(target, login) {
            return Ok(conn);
        }
        self.lent(&self.pool(target, login, For::Beside), target, Wish::default()).await
    }

    async fn lent(&self, pool: &Arc<NodePool>, target: &NodeTarget, wish: Wish<'_>) -> Result<PooledConn, PoolError> {
        let mut got = pool.get(wish).await;
        for _ in 0..FULL_TRIES {
            // The node has no room, or not for this role: what others do not use makes some.
            let full =
                matches!(&got, Err(PoolError::Auth { error, .. }) if error.code() == sqlstate::TOO_MANY_CONNECTIONS);
            if !full || self.make_room(target, pool) == 0 {
                break;
            }
            tokio::time::sleep(FULL_WAIT).await;
            got = pool.get(wish).await;
        }
        got
    }

    /// Closes some idle connections of other roles to a node; how many.
    fn make_room(&self, target: &NodeTarget, wants: &Arc<NodePool>) -> usize {
        let others: Vec<_> = match self.inner.pools.read().get(target) {
            Some(roles) => roles.values().filter(|p| !Arc::ptr_eq(p, wants)).cloned().collect(),
            None => vec![],
        };
        others.iter().map(|pool| pool.end_idle(1)).sum()
    }

    /// Asks home whether names of roles mean others than before. If so, no connection is taken to have a role by its name.
    pub async fn follow_names(&self) -> Result<(), PoolError> {
        let Some(judge) = &self.inner.judge else { return Ok(()) };
        let names = judge.names().await?;
        let mut known = self.inner.names.lock();
        if *known != names {
            *known = names;
            roles_may_be_others();
        }
        Ok(())
    }

    /// Asks home about the roles that idle connections are of, and closes those of roles that are gone, or changed and without a
    /// client: who has logged in goes on as whom he is, whatever home would say to him now. While home is away nobody changes
    /// roles.
    pub async fn follow_roles(&self) -> Result<(), PoolError> {
        let Some(judge) = &self.inner.judge else { return Ok(()) };
        self.follow_names().await?;
        let pools = self.all();
        let roles: HashMap<u32, Arc<Role>> =
            pools.iter().filter_map(|p| p.idle_role()).filter_map(|r| Some((r.key.oid()?, r))).collect();
        if roles.is_empty() {
            return Ok(());
        }
        let words = judge.words(roles.keys().copied().collect()).await?;
        for (oid, role) in &roles {
            let pools_of = pools.iter().filter(|p| p.is_of(role)).count();
            // This one, and the pools'.
            let has_clients = Arc::strong_count(role) > pools_of + 1;
            match words.iter().find(|w| w.oid == *oid) {
                Some(word) if !has_clients => role.learn(word, None),
                Some(_) => {}
                None => role.is_gone(),
            }
        }
        pools.iter().for_each(|pool| pool.end_unfit());
        Ok(())
    }

    /// Connections to one node for one role, at most.
    pub fn size(&self) -> usize {
        self.inner.config.size.now()
    }

    /// So many routers share what nodes have for all: what is idle beyond the share of this one is closed.
    pub fn share_with(&self, routers: usize) {
        if self.inner.config.size.share_with(routers) {
            self.all().iter().for_each(NodePool::resized);
        }
    }

    /// An idle connection, if there is one right now.
    pub fn try_get(&self, target: &NodeTarget, login: &ClientLogin) -> Option<PooledConn> {
        self.try_get_for(target, login, Wish::default())
    }

    /// The same with a wish, as [`get_for`](Self::get_for).
    pub fn try_get_for(&self, target: &NodeTarget, login: &ClientLogin, wish: Wish<'_>) -> Option<PooledConn> {
        let pool = self.inner.pools.read().get(target)?.get(&(login.role.key, For::Statements))?.clone();
        pool.try_get(wish)
    }

    /// Every pool's figures, in no order, but of those that [`get_beside`](Self::get_beside) has.
    pub fn stats(&self) -> Vec<PoolStats> {
        self.stats_of(For::Statements)
    }

    /// Of those that [`get_beside`](Self::get_beside) has.
    pub fn stats_beside(&self) -> Vec<PoolStats> {
        self.stats_of(For::Beside)
    }

    fn stats_of(&self, why: For) -> Vec<PoolStats> {
        let pools = self.inner.pools.read();
        let of = pools.values().flatten().filter(|((_, is), _)| *is == why);
        of.map(|(_, pool)| pool.stats()).collect()
    }

    /// Closes what was idle for too long, and forgets pools nobody uses.
    pub async fn reap(&self) {
        for pool in self.all() {
            pool.reap();
            // Many pools: let others run in between.
            tokio::task::yield_now().await;
        }
        let mut pools = self.inner.pools.write();
        for roles in pools.values_mut() {
            // Whoever could still open a connection holds the pool.
            roles.retain(|_, pool| Arc::strong_count(pool) > 1 || pool.stats().open > 0);
        }
        pools.retain(|_, roles| !roles.is_empty());
        self.inner.roles.lock().retain(|_, role| role.strong_count() > 0);
    }

    /// Reaps these and the router's own from time to time, until the last clone of these pools is gone.
    pub fn spawn_reaper(&self, own: OwnConns) -> JoinHandle<()> {
        let inner = Arc::downgrade(&self.inner);
        let every = (self.inner.config.idle_timeout / 4).clamp(Duration::from_millis(100), Duration::from_secs(30));
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(every).await;
                let Some(inner) = inner.upgrade() else { return };
                Pools { inner }.reap().await;
                own.reap();
            }
        })
    }

    /// Follows roles all the time, until the last clone of these pools is gone.
    pub fn spawn_role_follower(&self) -> JoinHandle<()> {
        let inner = Arc::downgrade(&self.inner);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(ROLES_EVERY).await;
                let Some(inner) = inner.upgrade() else { return };
                if let Err(error) = (Pools { inner }).follow_roles().await {
                    tracing::debug!(%error, "could not ask home about roles");
                }
            }
        })
    }

    fn all(&self) -> Vec<Arc<NodePool>> {
        self.inner.pools.read().values().flat_map(|roles| roles.values().cloned()).collect()
    }

    fn pool(&self, target: &NodeTarget, login: &ClientLogin, why: For) -> Arc<NodePool> {
        let role = &login.role;
        let key = (role.key, why);
        if let Some(pool) = self.inner.pools.read().get(target).and_then(|roles| roles.get(&key)) {
            return pool.clone();
        }
        let config = match why {
            For::Statements => &self.inner.config,
            For::Beside => &self.inner.beside,
        };
        let mut pools = self.inner.pools.write();
        let roles = pools.entry(target.clone()).or_default();
        let owner = || Owner::Role(role.clone(), self.inner.judge.clone());
        let new = || Arc::new(NodePool::new(target.clone(), owner(), config.clone()));
        roles.entry(key).or_insert_with(new).clone()
    }
}

//! Who a client is: a role of home, known by its object id there and not by its name, which another role may have
//! tomorrow. A connection opened for a role serves that role alone, and only while home says of it what it said when the
//! connection was opened.
//!
//! Nodes know roles by name; that the name was the role's own is checked behind each login to a node, because it may
//! have changed since the client's. It does not know how home is asked ([`Judge`]), nor whether a client is who he says.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::hash::{Hash, Hasher};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use wire::sqlstate;

use parking_lot::Mutex;
use wire::ErrorFields;

use crate::at_login::AtLogin;
use crate::conn::Conn;
use crate::error::PoolError;
use crate::settings::roles_now;
use crate::target::{Login, NodeTarget, Secret};

/// A role that is changed again and again while one connection is opened is given up after so many tries.
const TRIES: usize = 3;
/// How long the server's own settings are taken to be what they were: changes of its configuration are for the sessions there are.
const PLAIN_LASTS: Duration = Duration::from_secs(60);

/// What home says of a role at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleWord {
    /// On home: other nodes have numbers of their own.
    pub oid: u32,
    pub name: String,
    /// Differs whenever anything about the role does: name, password, attributes, settings.
    pub version: u64,
    /// Grows with time: of two words the later counts.
    pub as_of: u64,
    /// Settings were made for it, its database, or everybody; a login is asked what it has made of them.
    pub has_settings: bool,
}

/// Asks home about a role.
pub trait Judge: Send + Sync {
    /// `None`: there is no such role any more.
    fn word(&self, oid: u32) -> Pin<Box<dyn Future<Output = Result<Option<RoleWord>, PoolError>> + Send + '_>>;

    /// A number that differs whenever names of roles mean others than before.
    fn names(&self) -> Pin<Box<dyn Future<Output = Result<String, PoolError>> + Send + '_>>;

    /// The same of many: those there are.
    fn words(&self, oids: Vec<u32>) -> Pin<Box<dyn Future<Output = Result<Vec<RoleWord>, PoolError>> + Send + '_>>;
}

/// What tells roles apart: an object id of home, or a number of a client that home could not be asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RoleKey(u64);

impl RoleKey {
    /// Of a role's object id on home.
    pub fn of(oid: u32) -> Self {
        RoleKey(u64::from(oid))
    }

    /// Like no other: its connections serve one client.
    pub fn unseen() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1 << 32);
        RoleKey(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// The role's object id on home; `None`: home could not be asked about it.
    pub fn oid(self) -> Option<u32> {
        u32::try_from(self.0).ok()
    }
}

/// A role with what is needed to log in as it.
pub(crate) struct Role {
    pub key: RoleKey,
    version: AtomicU64,
    now: Mutex<Now>,
    /// What a login for which nothing was set has found on a node, and when.
    plain: Mutex<HashMap<Arc<NodeTarget>, Found>>,
}

type Found = (Instant, Arc<AtLogin>);

struct Now {
    as_of: u64,
    /// When it was first heard, whatever of it was the same before.
    since: Instant,
    has_settings: bool,
    login: Arc<Login>,
}

impl Now {
    fn of(word: &RoleWord, secret: Secret) -> Now {
        let login = Arc::new(Login::new(&word.name, secret));
        Now { as_of: word.as_of, since: Instant::now(), has_settings: word.has_settings, login }
    }
}

/// Which of home's words about a role counts, or that it is gone: in one number, which is read without a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RoleVersion(u64);

impl RoleVersion {
    const GONE: RoleVersion = RoleVersion(u64::MAX);

    fn of(word: &RoleWord) -> Self {
        RoleVersion(word.version)
    }
}

impl Role {
    /// As home's word has it, with what its client has logged in with.
    pub fn new(key: RoleKey, word: &RoleWord, secret: Secret) -> Self {
        let (now, plain) = (Mutex::new(Now::of(word, secret)), Default::default());
        Role { key, version: AtomicU64::new(RoleVersion::of(word).0), now, plain }
    }

    pub(crate) fn version(&self) -> RoleVersion {
        RoleVersion(self.version.load(Ordering::Relaxed))
    }

    /// What the role is called at present.
    pub fn name(&self) -> String {
        self.now.lock().login.user.clone()
    }

    /// Takes home's word; with a secret if a client has just proved to have it.
    pub fn learn(&self, word: &RoleWord, secret: Option<Secret>) {
        let mut now = self.now.lock();
        if word.as_of < now.as_of {
            return;
        }
        let secret = secret.unwrap_or_else(|| now.login.secret.clone());
        let known = (self.version() == RoleVersion::of(word)).then_some(now.since);
        *now = Now::of(word, secret);
        now.since = known.unwrap_or(now.since);
        self.version.store(RoleVersion::of(word).0, Ordering::Relaxed);
    }

    /// Home knows it no more. Object ids are not given again while anybody could have this one in mind.
    pub fn is_gone(&self) {
        self.version.store(RoleVersion::GONE.0, Ordering::Relaxed);
    }

    /// A connection to a node that is this role's own there, as home has it now.
    pub async fn open(
        &self,
        target: &Arc<NodeTarget>,
        judge: Option<&dyn Judge>,
        startup: &[(&str, &str)],
        timeout: Duration,
    ) -> Result<Conn, PoolError> {
        for _ in 0..TRIES {
            let (version, login, has_settings) = {
                let now = self.now.lock();
                (self.version(), now.login.clone(), now.has_settings)
            };
            let names = roles_now();
            let mut opened = Conn::connect_to(target.clone(), &login, startup, timeout).await;
            match &mut opened {
                Ok(conn) => {
                    conn.roles_as_of = names;
                    let begun = tokio::time::timeout(timeout, self.begin(conn, has_settings)).await;
                    begun.unwrap_or_else(|_| Err(no_answer(target)))?;
                }
                Err(PoolError::Auth { .. }) => {}
                Err(_) => return opened,
            }
            // Behind the login: the name was the role's own from the last word to this one, the login in between.
            if self.still(version, target, judge).await? {
                let mut conn = opened?;
                conn.role_version = Some(version);
                return Ok(conn);
            }
        }
        let why = format!("role \"{}\" is being changed", self.name());
        Err(refused(target, &ErrorFields::error(sqlstate::OBJECT_IN_USE, why).hint("Try again.")))
    }

    /// What comes before all clients' statements.
    async fn begin(&self, conn: &mut Conn, has_settings: bool) -> Result<(), PoolError> {
        self.ask_at_login(conn, has_settings).await?;
        conn.keep_heap().await
    }

    /// What the login has made of settings: asked where there are some, and from time to time where there are none.
    async fn ask_at_login(&self, conn: &mut Conn, has_settings: bool) -> Result<(), PoolError> {
        if !has_settings {
            let known = self.plain.lock().get(&conn.target).cloned();
            if let Some((_, found)) = known.filter(|(when, _)| when.elapsed() < PLAIN_LASTS) {
                conn.at_login = found;
                return Ok(());
            }
        }
        conn.read_at_login().await?;
        if !has_settings && conn.at_login.own.is_empty() {
            self.plain.lock().insert(conn.target.clone(), (Instant::now(), conn.at_login.clone()));
        }
        Ok(())
    }

    /// Whether home still says what it said; what it says now is kept. While home is away nobody changes roles.
    async fn still(
        &self,
        version: RoleVersion,
        target: &NodeTarget,
        judge: Option<&dyn Judge>,
    ) -> Result<bool, PoolError> {
        let (Some(judge), Some(oid)) = (judge, self.key.oid()) else { return Ok(true) };
        match judge.word(oid).await {
            Ok(Some(word)) => {
                self.learn(&word, None);
                Ok(self.version() == version)
            }
            Ok(None) => {
                self.is_gone();
                Err(refused(
                    target,
                    &ErrorFields::error(sqlstate::UNDEFINED_OBJECT, format!("role \"{}\" was dropped", self.name())),
                ))
            }
            Err(error) if error.is_node_trouble() => Ok(true),
            Err(error) => Err(error),
        }
    }
}

fn no_answer(target: &NodeTarget) -> PoolError {
    PoolError::Timeout { node: target.to_string(), doing: "telling what a login has set" }
}

fn refused(target: &NodeTarget, error: &ErrorFields) -> PoolError {
    PoolError::Auth { node: target.to_string(), error: Box::new(error.clone()) }
}

/// A client that has logged in: what pools lend connections to. Two are equal if they are the same role.
#[derive(Clone)]
pub struct ClientLogin {
    user: Arc<str>,
    pub(crate) role: Arc<Role>,
    /// Of a role that no other client has.
    _leaves: Option<Arc<Leaves>>,
}

/// What becomes of a role when its only client has left.
struct Leaves(Box<dyn Fn() + Send + Sync>);

impl Drop for Leaves {
    fn drop(&mut self) {
        self.0();
    }
}

impl ClientLogin {
    pub(crate) fn new(user: &str, role: Arc<Role>) -> Self {
        ClientLogin { user: user.into(), role, _leaves: None }
    }

    /// `leaves` is called when the last clone is gone.
    pub(crate) fn of_one_client(user: &str, role: Arc<Role>, leaves: Box<dyn Fn() + Send + Sync>) -> Self {
        ClientLogin { _leaves: Some(Arc::new(Leaves(leaves))), ..ClientLogin::new(user, role) }
    }

    /// The role's name when the client logged in.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Since when home says of the role what it says now, as far as is known here: it may have said so before.
    pub fn since(&self) -> Instant {
        self.role.now.lock().since
    }

    /// The role's object id on home, if home could be asked.
    pub fn oid(&self) -> Option<u32> {
        self.role.key.oid()
    }
}

impl PartialEq for ClientLogin {
    fn eq(&self, other: &Self) -> bool {
        self.role.key == other.role.key
    }
}

impl Eq for ClientLogin {}

impl Hash for ClientLogin {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.role.key.hash(state);
    }
}

impl fmt::Debug for ClientLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientLogin").field("user", &self.user).field("role", &self.role.key).finish()
    }
}

//! One connection to a node: its buffers, its stream, and what is known of the session on it. It does not know pools,
//! and what the messages it carries mean only as far as it must (ReadyForQuery, ParameterStatus, FATAL).

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tokio::io::AsyncWriteExt;
use wire::{ErrorFields, put};

use crate::at_login::AtLogin;
use crate::cancel::CancelKey;
use crate::error::PoolError;
use crate::hosts;
use crate::ledger::Ledger;
use crate::settings::Settings;
use crate::statements::{StatementCache, StatementKey, StatementName};
use crate::stream::{NodeStream, dial};
use crate::target::{Login, NodeTarget, TlsMode};

mod idle;
mod io;
mod long;
mod notifications;
mod primary;
mod standby;

pub use long::LongMessages;
use notifications::Notifications;

pub use io::Progress;

/// What one read asks for.
const CHUNK: usize = 16 << 10;
/// First capacity of the write buffer.
const OUT: usize = 4 << 10;
/// Prepared statements kept on a connection that belongs to no pool.
const STATEMENTS_MAX: usize = 256;

/// Held by a session for as long as it may ask for the values of sequences it has taken; when those must not be told any
/// more, it takes another.
#[derive(Clone, Debug, Default)]
pub struct Asker(Arc<()>);

/// Which of the idle connections is best for who wants one; by default any.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wish<'w> {
    /// Who may ask for values of sequences: the connection that remembers them.
    pub asker: Option<&'w Asker>,
    /// The fingerprint of the settings that it is to have: one that has them need not be told.
    pub settings: Option<u64>,
}

/// Whose values of sequences PostgreSQL remembers on a connection (currval, lastval).
#[derive(Clone, Debug, Default)]
pub enum Remembers {
    #[default]
    Nobodys,
    /// Those of whoever holds this, if anybody does.
    Of(Weak<()>),
    /// Those of somebody who can't ask for them.
    Somebodys,
}

impl Remembers {
    /// Those of this one.
    pub fn of(asker: &Asker) -> Self {
        Remembers::Of(Arc::downgrade(&asker.0))
    }

    /// Whether they are this one's.
    pub fn are_of(&self, asker: &Asker) -> bool {
        matches!(self, Remembers::Of(held) if std::ptr::eq(held.as_ptr(), Arc::as_ptr(&asker.0)))
    }

    /// Whether somebody may still ask for them.
    pub fn are_wanted(&self) -> bool {
        matches!(self, Remembers::Of(held) if held.strong_count() > 0)
    }

    /// Whether there are none.
    pub fn are_none(&self) -> bool {
        matches!(self, Remembers::Nobodys)
    }
}

/// A connection to a node, logged in.
///
/// Write messages into [`out`](Self::out), say [`sent_sync`](Self::sent_sync) for each Sync or Query among them,
/// [`flush`](Self::flush), and read with [`frame`](Self::frame). All waiting is cancel-safe.
pub struct Conn {
    pub(crate) target: Arc<NodeTarget>,
    /// Which of the target's hosts it is: the target itself where there is just one.
    address: Arc<NodeTarget>,
    /// It ends when another of the target's hosts has become the primary, or the standby that it goes to is given up.
    link: Option<hosts::Link>,
    pub(crate) stream: NodeStream,
    rbuf: BytesMut,
    wbuf: BytesMut,
    /// The largest capacity a buffer had since the connection was last idle.
    buffer_peak: usize,
    ledger: Ledger,
    pub(crate) pid: i32,
    pub(crate) cancel_secret: Arc<[u8]>,
    parameters: HashMap<String, String>,
    /// The node has shown by SCRAM that it knows the role's verifier.
    pub(crate) proved: bool,
    /// Nothing more can come or go.
    broken: bool,
    /// The FATAL error the node ended the connection with.
    farewell: Option<Box<ErrorFields>>,
    /// They come at any moment and belong to no statement, so that nobody who reads a statement's answer ever sees one.
    notifications: Notifications,
    pub(crate) idle_since: Instant,
    /// What home said of the client's role when this was opened ([`crate::RoleWord::version`]).
    pub(crate) role_version: Option<crate::role::RoleVersion>,
    /// Prepared statements on the node; the owner keeps it true.
    pub statements: StatementCache,
    /// Session settings applied on the node; the owner keeps it true.
    pub settings: Settings,
    /// What they were when it had logged in.
    pub at_login: Arc<AtLogin>,
    /// When the roles among the settings were given ([`roles_now`](crate::settings::roles_now)).
    pub(crate) roles_as_of: u64,
    /// It has served somebody since its login.
    pub(crate) served: bool,
    /// There may be session state that is not in `settings` or `statements` (temporary tables, advisory locks,
    /// LISTEN, …): the connection is reset before anybody else gets it.
    pub tainted: bool,
    /// It has had temporary tables: its `temp_buffers` can't be changed any more.
    pub temporary: bool,
    /// Whose values of sequences PostgreSQL remembers here.
    pub sequences: Remembers,
    /// What its long messages count among; the router's own do not count.
    room: Option<Arc<LongMessages>>,
    /// One that is coming, or was taken last.
    long: Option<long::Held>,
    long_taken: bool,
    /// Bytes of an error or notice that is being cut.
    thrown_away: usize,
}

impl Conn {
    /// Connects and logs in. `startup` are further startup parameters, such as `client_encoding`.
    pub async fn connect(
        target: &NodeTarget,
        login: &Login,
        startup: &[(&str, &str)],
        timeout: Duration,
    ) -> Result<Conn, PoolError> {
        Self::connect_to(Arc::new(target.clone()), login, startup, timeout).await
    }

    pub(crate) async fn connect_to(
        target: Arc<NodeTarget>,
        login: &Login,
        startup: &[(&str, &str)],
        timeout: Duration,
    ) -> Result<Conn, PoolError> {
        match target.has_standbys() {
            true => Self::connect_primary(target, login, startup, timeout).await,
            false => Self::connect_one(target, login, startup, timeout).await,
        }
    }

    async fn connect_one(
        target: Arc<NodeTarget>,
        login: &Login,
        startup: &[(&str, &str)],
        timeout: Duration,
    ) -> Result<Conn, PoolError> {
        let node = target.to_string();
        let logged_in = async {
            let failed = |source| PoolError::Connect { node: target.to_string(), source };
            let hello = crate::login::startup_packet(&target, login, startup)?;
            let mut stream = dial(&target).await?;
            stream.write_all(&hello).await.map_err(failed)?;
            stream.flush().await.map_err(failed)?;
            let mut conn = Conn::over(stream, target.clone());
            conn.log_in(login).await?;
            if let Some(system) = target.standby_of {
                conn.be_standby_of(system).await?;
            }
            Ok(conn)
        };
        match tokio::time::timeout(timeout, logged_in).await {
            Ok(result) => result,
            Err(_) => {
                let source = std::io::Error::new(std::io::ErrorKind::TimedOut, format!("no login within {timeout:?}"));
                Err(PoolError::Connect { node, source })
            }
        }
    }

    fn over(stream: NodeStream, target: Arc<NodeTarget>) -> Conn {
        let mut ledger = Ledger::new();
        ledger.expect_login();
        Conn {
            address: target.clone(),
            link: None,
            target,
            stream,
            rbuf: BytesMut::with_capacity(CHUNK),
            wbuf: BytesMut::with_capacity(OUT),
            buffer_peak: 0,
            ledger,
            pid: 0,
            cancel_secret: Arc::default(),
            parameters: HashMap::new(),
            proved: false,
            broken: false,
            farewell: None,
            notifications: Notifications::default(),
            idle_since: Instant::now(),
            role_version: None,
            statements: StatementCache::new(STATEMENTS_MAX),
            settings: Settings::default(),
            at_login: Default::default(),
            roles_as_of: 0,
            served: false,
            tainted: false,
            temporary: false,
            sequences: Remembers::Nobodys,
            room: None,
            long: None,
            long_taken: false,
            thrown_away: 0,
        }
    }

    /// The write buffer; fill it with `wire::put`.
    pub fn out(&mut self) -> &mut BytesMut {
        &mut self.wbuf
    }

    /// The read buffer, to forward runs of messages as they are. Whoever takes messages out of it by himself must call
    /// `note_ready`, `note_parameter` and `note_error` for those there are.
    pub fn rbuf(&mut self) -> &mut BytesMut {
        &mut self.rbuf
    }

    /// A Sync, Query or FunctionCall was put into `out`: one more ReadyForQuery will come.
    pub fn sent_sync(&mut self) {
        self.ledger.expect(1);
    }

    /// The name of a statement here; where it has none yet, its Parse is put in front, and `true` is returned, too.
    pub fn prepare(&mut self, key: StatementKey, sql: &str, types: &[u32]) -> (StatementName, bool) {
        if let Some(name) = self.statements.get(&key) {
            return (name, false);
        }
        let (name, evicted) = self.statements.insert(key);
        let mut closed = self.statements.take_forgotten();
        closed.extend(evicted);
        for old in &closed {
            put::close(&mut self.wbuf, b'S', old);
        }
        self.ledger.scan(&self.wbuf);
        self.statements.sent(key, name, self.ledger.parses() + 1, closed);
        put::parse(&mut self.wbuf, &name, sql, types);
        (name, true)
    }

    /// How many ReadyForQuery are still to come.
    pub fn outstanding(&self) -> u32 {
        self.ledger.owed()
    }

    /// The transaction status of the last ReadyForQuery: `I`, `T` or `E`.
    pub fn status(&self) -> u8 {
        self.ledger.status()
    }

    /// A ReadyForQuery was taken out of `rbuf`.
    pub fn note_ready(&mut self, status: u8) {
        self.ledger.ready(status);
        self.statements.settled(self.ledger.settled(false));
    }

    /// A ParameterStatus was taken out of `rbuf`.
    pub fn note_parameter(&mut self, name: &str, value: &str) {
        match self.parameters.get_mut(name) {
            Some(old) if old == value => {}
            Some(old) => *old = value.into(),
            None => {
                self.parameters.insert(name.into(), value.into());
            }
        }
    }

    /// An ErrorResponse was taken out of `rbuf`.
    pub fn note_error(&mut self, error: &ErrorFields) {
        if error.is_fatal() {
            self.broken = true;
            self.farewell = Some(Box::new(error.clone()));
        }
    }

    /// The error of a connection that is broken.
    pub fn gone(&self) -> PoolError {
        let reason = self.farewell.as_ref().map_or("it is not used again", |f| f.message()).into();
        PoolError::Closed { node: self.target.to_string(), reason }
    }

    /// What the node said when it ended the connection, if it said anything.
    pub fn farewell(&self) -> Option<&ErrorFields> {
        self.farewell.as_deref()
    }

    /// Whether all that was asked is answered, but for `ahead` requests whose answers somebody will still skip, and all
    /// answers have been read. If not, the next reader would take another's answer for his own: the connection is never
    /// used again.
    pub fn at_rest(&mut self, ahead: u32) -> bool {
        let unread = ahead == 0 && !self.swallow_unasked();
        if !self.ledger.is_even(ahead) || unread {
            self.broken = true;
        }
        !self.broken
    }

    /// Never lend this connection again.
    pub fn mark_broken(&mut self) {
        self.broken = true;
    }

    /// It is closed when it comes back, and nobody gets it again.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Whether the server is who it should be: by SCRAM, by a certificate that was checked, or on a Unix socket.
    pub fn is_proved(&self) -> bool {
        let certificate = matches!(self.target.tls, TlsMode::VerifyCa { .. } | TlsMode::VerifyFull { .. });
        self.proved || certificate || matches!(self.stream, NodeStream::Unix(_))
    }

    /// The node it goes to.
    pub fn target(&self) -> &NodeTarget {
        &self.target
    }

    /// Process id of the node's backend.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// What [`crate::cancel`] needs to cancel what runs on this connection.
    pub fn cancel_key(&self) -> CancelKey {
        CancelKey {
            target: self.target.clone(),
            address: self.address.clone(),
            pid: self.pid,
            secret: self.cancel_secret.clone(),
        }
    }

    /// Server parameters, as the node reported them last.
    pub fn parameters(&self) -> &HashMap<String, String> {
        &self.parameters
    }

    /// What goes over it is encrypted.
    pub fn is_tls(&self) -> bool {
        self.stream.is_tls()
    }
}

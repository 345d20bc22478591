//! The state of one client's session, and how the executor borrows it. It does not read from the client.

use catalog::TemporaryRelation;
use std::collections::HashMap;
use std::sync::Arc;
use wire::sqlstate;

use bytes::BytesMut;
use exec::{Allowance, Bulk, Epoch, ExecError, Now, Pin, Sharing, Work};
use pool::{ClientLogin, Settings};
use txn::Transaction;
use wire::ErrorFields;

use crate::activity::{Pins, Shown, State};
use crate::client_io::ClientIo;
use crate::cursor::Cursors;
use crate::idle::Idle;
use crate::left_behind::Code;
use crate::named_roles::NamedRoles;
use crate::path::PathWord;
use crate::pg_temp::PgTemp;
use crate::portals::Portals;
use crate::prepared::{Prepared, SqlPrepared};
use crate::read_from::Reads;
use crate::router::Router;
use crate::router_settings::RouterSettings;
use crate::set::Pending;
use crate::transaction::OwnCatalog;

/// Looked into for every statement.
pub type FastMap<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

pub type Result<T> = std::result::Result<T, ExecError>;

/// Where the session is between the client's messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Turn {
    /// ReadyForQuery was the last word: the client's turn.
    #[default]
    Ready,
    /// Messages of the extended protocol have come since.
    Open,
    /// One of them has failed: everything up to Sync is skipped.
    Skipping,
}

/// One client: its connection, settings, transaction, and what it has prepared.
pub struct Session {
    pub router: Arc<Router>,
    pub io: ClientIo,
    pub login: ClientLogin,
    /// What the client asked for when it connected: where RESET leads back to.
    pub startup: Settings,
    pub settings: Settings,
    pub named_roles: NamedRoles,
    /// Settings made in the current transaction.
    pub pending: Vec<Pending>,
    pub own: RouterSettings,
    /// How long it may wait for its client, and what that was when it began.
    pub idle: Idle,
    pub idle_at_start: [Option<Box<str>>; 2],
    pub transaction: Transaction,
    /// What the transaction has read before it began on any node.
    pub reading: Option<Box<exec::Reading>>,
    pub epoch: Arc<Epoch>,
    pub own_catalog: OwnCatalog,
    pub after_commit: Vec<String>,
    pub pin: Pin,
    /// Why it is pinned, see [`Pins`].
    pub pins: u8,
    /// Programs that run statement by statement, in each other.
    pub nesting: u8,
    /// What others see of it.
    pub shown: Shown,
    pub pg_temp: PgTemp,
    /// Its temporary relations, see [`PgTemp::relations`].
    pub temporary: Arc<[TemporaryRelation]>,
    pub statements: FastMap<String, Arc<Prepared>>,
    /// What its prepared statements may take.
    pub allowance: Allowance,
    /// What rows that the router holds for it may take.
    pub memory: Allowance,
    /// It has prepared a large one, or one that took long to plan.
    pub large_statements: bool,
    /// A portal may have large values, which the router reads where they are keys.
    pub large_values: bool,
    pub portals: Portals,
    pub prepared: HashMap<String, SqlPrepared>,
    pub cursors: Cursors,
    /// What cursors that are gone have left open on nodes.
    pub leftover: exec::Leftover,
    /// Where unqualified names are looked up.
    pub search_path: Arc<Vec<String>>,
    pub path_word: PathWord,
    /// Stands for everything besides the text that a plan depends on.
    pub context: u64,
    pub taint: bool,
    /// Code that has run in the transaction and may have left something behind.
    pub code: Option<Code>,
    /// Tells this session from others of the router.
    pub id: u64,
    pub sharing: Sharing,
    pub sequences: exec::Sequences,
    pub bulk: Bulk,
    /// `None`: as they are unless they are set.
    pub reads: Option<Box<Reads>>,
    pub moves: exec::Moves,
    /// More than one statement shares the implicit transaction.
    pub batch: bool,
    /// What the client has asked for when it connected, if that is not UTF8.
    pub encoding_at_start: Option<Box<str>>,
    pub numbering: u64,
    pub turn: Turn,
}

impl Session {
    /// What the executor needs of the session, for one piece of work.
    pub fn work(&mut self) -> Work<'_, ClientIo> {
        let now = Now::of(self.transaction.now.as_deref());
        let who = (&self.login, &self.settings);
        let (transaction, client, pin) = (&mut self.transaction, &mut self.io, &mut self.pin);
        Work {
            own_catalog: self.own_catalog.is_own(),
            taint: self.taint,
            // A client home could not be asked about is nobody's equal, and leaves nothing behind.
            sharing: self.login.oid().is_some().then_some(&mut self.sharing),
            sequences: Some(&mut self.sequences),
            cursors: Some(&self.cursors),
            reading: self.reading.as_deref(),
            now,
            bulk: self.bulk,
            columns: self.reads.as_ref().and_then(|reads| reads.columns).unwrap_or_default(),
            moves: self.moves,
            ..Work::plain(&self.router.herd, &self.epoch, who, transaction, client, pin, &self.memory)
        }
    }

    /// What is to be sent to the client is written here.
    pub fn out(&mut self) -> &mut BytesMut {
        self.io.out()
    }

    /// A statement begins: with the newest catalog there is.
    pub async fn newest_epoch(&mut self) -> Result<()> {
        if !self.router.herd.lease.holds() {
            let herd = self.router.herd.clone();
            Box::pin(herd.lease.check(&herd)).await?;
        }
        self.follow_named_roles().await?;
        self.take_epoch();
        if self.own_catalog == OwnCatalog::Due && !self.transaction.has_failed() {
            Box::pin(self.load_own_catalog()).await?;
        }
        // If home can't be asked, whoever looks names up fails.
        let _ = self.settle_path().await;
        Ok(())
    }

    /// The newest catalog this router has, unless the transaction has one of its own.
    pub fn take_epoch(&mut self) {
        if !self.own_catalog.is_own() {
            let newest = self.router.herd.epoch.load();
            if !Arc::ptr_eq(&newest, &self.epoch) {
                self.epoch = newest.clone();
                self.refresh_context();
            }
        }
    }

    /// A setting as it is now, those of the transaction included.
    pub fn setting(&self, name: &str) -> Option<&str> {
        match self.pending.iter().rev().find(|p| p.name == name) {
            Some(p) => p.value.as_deref(),
            None => self.settings.get(name),
        }
    }

    /// Whether a backslash in a plain string is nothing but that, with what the transaction has set so far.
    pub fn standard_conforming_strings(&self) -> bool {
        match self.pending.is_empty() {
            true => !self.settings.escapes(),
            false => self.setting("standard_conforming_strings") != Some("off"),
        }
    }

    /// The byte of ReadyForQuery.
    pub fn status(&self) -> u8 {
        match &self.transaction {
            t if t.has_failed() => wire::backend::FAILED,
            t if t.is_block() => wire::backend::IN_TRANSACTION,
            _ => wire::backend::IDLE,
        }
    }

    /// ReadyForQuery; and whoever looks sees that the session waits. Of many notifications, some go in front.
    pub fn ready(&mut self) {
        let status = self.status();
        self.turn = Turn::Ready;
        if status == wire::backend::IDLE {
            self.pass_notifications();
        }
        self.io.ready(status);
        let state = match status {
            wire::backend::FAILED => State::Failed,
            wire::backend::IN_TRANSACTION => State::InTransaction,
            _ => State::Idle,
        };
        let temporary = if self.pg_temp.is_empty() { 0 } else { Pins::TEMPORARY };
        let catalog = if self.own_catalog.is_own() { Pins::CATALOG } else { 0 };
        let nodes = self.transaction.participants.iter().map(|p| p.lane.node);
        self.shown.rest(state, Pins(self.pins & !Pins::TEMPORARY | temporary | catalog), nodes);
        if self.shown.settings() != self.settings.fingerprint() {
            self.settings.share();
            self.shown.rename(self.settings.get("application_name").unwrap_or(""), self.settings.fingerprint());
        }
    }

    /// Some of the notifications that have come for the session, in order. As PostgreSQL: between statements, outside transactions.
    /// Whether there are more, for when these are sent.
    pub fn pass_notifications(&mut self) -> bool {
        let Some(lane) = self.pin.here() else { return false };
        let Some(mut came) = lane.conn.take_notifications() else { return false };
        let (own, more) = (lane.conn.pid().to_be_bytes(), lane.conn.has_notifications());
        let mut at = 0;
        while let Ok(Some((_, len))) = wire::frame::peek(&came[at..], wire::frame::NODE_MAX) {
            // Clients tell their own notifications by the pid they know of themselves.
            let pid = at + wire::frame::HEADER_LEN..at + wire::frame::HEADER_LEN + own.len();
            if came.get(pid.clone()) == Some(&own) {
                came[pid].copy_from_slice(&(self.id as i32).to_be_bytes());
            }
            at += len;
        }
        self.io.out().extend_from_slice(&came);
        more
    }

    /// All of them.
    pub async fn pass_all_notifications(&mut self) -> Result<()> {
        while self.pass_notifications() {
            self.io.send().await?;
        }
        self.io.send().await
    }

    /// What lived on the session's own connection is lost with it: the session ends, as one whose backend is lost.
    pub fn still_stands(&mut self) -> Result<()> {
        match &self.pin {
            Pin::Lost(said) => Err(ExecError::Ended(said.clone())),
            Pin::Away(_) if !self.transaction.is_active() => {
                let said = ErrorFields::fatal(
                    sqlstate::CONNECTION_FAILURE,
                    "terminating connection because the connection to home was lost",
                );
                Err(ExecError::Ended(Box::new(said)))
            }
            _ => Ok(()),
        }
    }

    /// The one place where an error becomes a message to the client.
    pub fn report(&mut self, error: &ExecError) {
        let fields = error.to_fields();
        self.router.metrics.error(fields.code());
        tracing::debug!(sqlstate = fields.code(), message = fields.message(), "statement failed");
        fields.put(self.io.out(), b'E');
    }

    /// A notice for the client, sent with what comes next.
    pub fn notice(&mut self, severity: &str, code: &str, message: &str) {
        ErrorFields::with_severity(severity, code, message).put(self.io.out(), b'N');
    }

    /// A number that nothing else in this session has had.
    pub fn next_number(&mut self) -> u64 {
        self.numbering += 1;
        self.numbering
    }
}

/// Thousands of sessions wait for their clients: what is rare has its place elsewhere. The allocator has a size for this.
const _: () = assert!(size_of::<Session>() <= 1536);

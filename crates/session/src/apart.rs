//! Large statements beside others: reading and planning one takes long without waiting for anything, and meanwhile the thread
//! that serves others would serve nobody. All of a session's message is worked on by other threads, so nothing of it is forgotten; it has one
//! only while it works, and none while it waits. How many texts are read at a time, and what memory that takes, is limited, and
//! nobody's role has more than half.
//!
//! It does not know what in a message takes long: its length tells, and how many tokens a text has.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Wake, Waker};

use exec::ExecError;
use sql::weight;
use tokio::sync::Notify;
use wire::{ErrorFields, Frame, sqlstate};

use crate::session::{Result, Session};
use crate::shares::{Share, Shares};

/// Texts from this length on, in bytes: 16 KB take a few milliseconds to parse and to plan.
pub const LARGE: usize = 16 << 10;

/// Plans that take more than a moment, at a time: each may be some hundred megabytes while it is made.
const PLANS: usize = 2;

/// Room is given in pieces of so many bytes.
const PIECE: usize = 1 << 20;

/// Places for large statements, and for large plans.
pub struct Apart {
    reading: Shares,
    plans: Shares,
    room: Shares,
    /// Long messages of clients.
    pub messages: Arc<Shares>,
}

/// What a large text has while it is read and planned; others have nothing.
#[derive(Default)]
pub struct Reading {
    place: Option<Share>,
    _room: Option<Share>,
}

impl Reading {
    /// It is read and planned, and its tree stays: whoever waits for nodes has no place.
    pub fn is_read(&mut self) {
        self.place = None;
    }
}

impl Apart {
    /// `room`: bytes that reading and planning may take; `messages`: those of clients' long messages that are here or coming.
    pub fn new(room: usize, messages: usize) -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Apart {
            reading: Shares::new(2 * cores.max(2)),
            plans: Shares::new(PLANS),
            room: Shares::new(room / PIECE),
            messages: Arc::new(Shares::new(messages / PIECE)),
        }
    }

    /// A place for a large plan, when there is one.
    pub async fn plan(&self, role: u32) -> Share {
        self.plans.take(role, 1).await
    }

    async fn read(&self, role: u32, bytes: usize) -> Reading {
        let _room = Some(self.room.take(role, bytes.div_ceil(PIECE)).await);
        Reading { place: Some(self.reading.take(role, 1).await), _room }
    }
}

/// Hears that what waits can go on.
struct Woken(Notify);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

type Worked = (Box<Session>, Result<()>);

/// Works on a message apart from other sessions. `None`: it ended in a panic, and the session with it.
pub async fn message(mut session: Box<Session>, frame: Frame) -> Option<Worked> {
    let router = session.router.clone();
    let mut work: Pin<Box<dyn Future<Output = Worked> + Send>> = Box::pin(async move {
        let done = session.message(&frame).await;
        (session, done)
    });
    let woken = Arc::new(Woken(Notify::new()));
    loop {
        let waker = Waker::from(woken.clone());
        let polled = tokio::task::spawn_blocking(move || {
            let polled = work.as_mut().poll(&mut Context::from_waker(&waker));
            (work, polled)
        });
        match polled.await {
            Ok((_, Poll::Ready(done))) => return Some(done),
            Ok((back, Poll::Pending)) => work = back,
            Err(error) => {
                router.metrics.panics.fetch_add(1, Ordering::Relaxed);
                tracing::error!(%error, "a session ended in a panic");
                return None;
            }
        }
        woken.0.notified().await;
    }
}

impl Session {
    /// Whether a message is to be worked on apart: what is in it, or the values of the portal that it runs, may take long to read.
    pub fn is_large(&self, frame: &Frame) -> bool {
        match frame.tag() {
            b'Q' | b'P' => frame.body().len() >= LARGE || self.large_statements,
            // They may lead to a statement that is planned again.
            b'B' => frame.body().len() >= LARGE || self.large_statements,
            b'E' => self.large_values || self.large_statements,
            b'D' => self.large_statements,
            _ => false,
        }
    }

    /// What a text needs before it is read: a place among those that are, and room. Waits for them, unless the client cancels.
    ///
    /// # Errors
    /// 54001: it is too much for any statement.
    pub async fn before_reading(&mut self, sql: &str) -> Result<Reading> {
        if sql.len() < LARGE {
            return Ok(Reading::default());
        }
        let bytes = self.can_be_read(sql)?;
        let router = self.router.clone();
        let role = self.share_of();
        exec::Client::waits(&mut self.io);
        let cancelled = exec::Client::cancelled(&mut self.io);
        tokio::select! {
            biased;
            () = cancelled => Err(ExecError::cancelled()),
            reading = router.apart.read(role, bytes) => Ok(reading),
        }
    }

    /// How many bytes a text takes while it is read and planned.
    ///
    /// # Errors
    /// 54001: it is too much for any statement.
    pub fn can_be_read(&self, sql: &str) -> Result<usize> {
        let bytes = weight::of(sql, self.standard_conforming_strings()).made;
        let max = self.router.apart.room.each() * PIECE;
        if bytes <= max {
            return Ok(bytes);
        }
        let fields = ErrorFields::error(sqlstate::STATEMENT_TOO_COMPLEX, "statement is too complex to be read")
            .detail(format!("Some {bytes} bytes would be in use while it is planned, {max} are the limit."))
            .hint("Send rows by COPY, or long lists as an array: = ANY ('{…}'). Or raise limits.statement_bytes in herd.toml.");
        Err(ExecError::Sql(Box::new(fields)))
    }

    /// What the tree of a text takes that is kept, text and all.
    pub fn kept_bytes(&self, sql: &str) -> usize {
        weight::of(sql, self.standard_conforming_strings()).kept
    }

    /// Whose share it is: the role's, by its object id on home.
    pub fn share_of(&self) -> u32 {
        self.login.oid().unwrap_or_default()
    }

    /// Between steps that may take long, as PostgreSQL looks between its own: whether it is cancelled, or its time is over.
    pub async fn keep_time(&mut self) -> Result<()> {
        self.unless_cancelled()?;
        self.work().keep_time().await
    }

    /// The first of these alone.
    pub fn unless_cancelled(&self) -> Result<()> {
        if self.io.handle().is_cancelled() { Err(ExecError::cancelled()) } else { Ok(()) }
    }
}

//! Reads the slot's stream, hands it over to be applied, and tells the node how far that is. It asks the node to tell where it is when
//! somebody waits. It does not know what the messages mean, but for keepalives.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use catalog::quote_literal;
use pool::{Conn, PoolError};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, MissedTickBehavior, sleep_until};
use wire::walsender::{Streamed, put_status, streamed};
use wire::{ErrorFields, Frame, sqlstate};

use crate::error::{Error, Result};
use crate::jobs::Handle;
use crate::lsn::Lsn;
use crate::node;
use crate::shared::Shared;

/// Bytes that are handed over at once.
const RUN_BYTES: usize = 1 << 20;
/// While changes come and nobody waits, they gather for so long: a walsender sends each message by itself, and whoever is woken for each does little
/// else. Not where so many are there at once; and not for long, which made walsenders work more.
const GATHER: Duration = Duration::from_micros(200);
const GATHERED_BYTES: usize = 32 << 10;
/// The node hears of us, and we of it, this often at least.
const TICK: Duration = Duration::from_secs(1);
/// While somebody waits, the node is asked again after the first of these, then later and later up to the second.
const ASK_FIRST: Duration = Duration::from_micros(300);
const ASK_LAST: Duration = Duration::from_millis(5);
/// A slot that was just left may be active a while longer.
const ACTIVE_TRIES: usize = 100;
const ACTIVE_EVERY: Duration = Duration::from_millis(100);

/// Until something fails. May be dropped at any moment; what was read is then to be undone by [`crate::apply::Writer::end_stream`].
///
/// It has a thread and a runtime of its own: while it lets changes gather, nothing there must wait for the socket, or the kernel would wake it for each
/// of them.
pub async fn stream(shared: &Arc<Shared>, writer: &Handle) -> Result<()> {
    let mut failures = shared.failures.subscribe();
    failures.mark_unchanged();
    // Here, and not there: in its order with what the caller has the writer do.
    let begun = writer.call(|w| w.begin_stream()).await?;
    let (shared, writer) = (shared.clone(), writer.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| Error::surprise(e.to_string()))?;
    // Whoever drops this future drops the one end, and the thread sees it at the other.
    let (wanted, unwanted) = oneshot::channel::<()>();
    let (ended, end) = oneshot::channel();
    let work = move || {
        let found = runtime.block_on(async {
            tokio::select! {
                done = read(&shared, &writer, failures, begun) => Some(done),
                _ = unwanted => None,
            }
        });
        if let Some(found) = found {
            let _ = ended.send(found);
        }
    };
    let thread = std::thread::Builder::new().name("stream".into()).spawn(work);
    thread.map_err(|e| Error::surprise(e.to_string()))?;
    let found = end.await.map_err(|_| Error::Gone)?;
    drop(wanted);
    found
}

async fn read(
    shared: &Shared,
    writer: &Handle,
    mut failures: watch::Receiver<u64>,
    (from, number): (Lsn, u64),
) -> Result<()> {
    let conn = start(shared, from).await?;
    let mut stream = Stream { shared, writer, conn, number, received: from, ask: None };
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let again = stream.ask.map_or_else(|| Instant::now() + TICK, |(at, _)| at);
        tokio::select! {
            biased;
            _ = failures.changed() => return Err(Error::surprise("what was read could not be applied")),
            () = shared.waits.notified() => stream.ask(true).await?,
            frame = stream.conn.frame() => {
                if stream.hand_over(frame?).await? {
                    shared.pause.wait(GATHER, || shared.wanted().is_some());
                }
            }
            () = sleep_until(again) => stream.ask(false).await?,
            _ = tick.tick() => stream.tell(true).await?,
        }
    }
}

async fn start(shared: &Shared, from: Lsn) -> Result<Conn> {
    let name = &shared.config.slot;
    let sql = format!(
        "START_REPLICATION SLOT \"{name}\" LOGICAL {from} (proto_version '1', publication_names {})",
        quote_literal(&catalog::quote_ident(name))
    );
    let mut conn = node::connect_to_replicate(&shared.config).await?;
    for attempt in 0.. {
        match conn.start_replication(&sql).await {
            Ok(()) => return Ok(conn),
            Err(PoolError::Server(e)) if e.code() == sqlstate::OBJECT_IN_USE && attempt < ACTIVE_TRIES => {}
            Err(e) => return Err(e.into()),
        }
        tokio::time::sleep(ACTIVE_EVERY).await;
    }
    Err(Error::surprise("the slot is in use"))
}

struct Stream<'s> {
    shared: &'s Shared,
    writer: &'s Handle,
    conn: Conn,
    /// Which of the streams it is.
    number: u64,
    received: Lsn,
    /// When the node is asked again where it is, and how long was waited.
    ask: Option<(Instant, Duration)>,
}

impl Stream<'_> {
    /// Tells the node how far we are.
    async fn tell(&mut self, reply: bool) -> Result<()> {
        let stored = self.shared.position.borrow().stored;
        put_status(self.conn.out(), self.received.max(stored).0, stored.0, reply);
        Ok(self.conn.flush().await?)
    }

    /// Asks where it is, if somebody still waits.
    async fn ask(&mut self, first: bool) -> Result<()> {
        if self.shared.wanted().is_none() {
            self.ask = None;
            return Ok(());
        }
        let waited = match self.ask {
            Some((_, waited)) if !first => (waited * 2).min(ASK_LAST),
            _ => ASK_FIRST,
        };
        self.ask = Some((Instant::now() + waited, waited));
        self.tell(true).await
    }

    /// The next message, if nothing has to be waited for.
    async fn at_once(&mut self) -> Result<Option<Frame>> {
        match self.conn.buffered_frame()? {
            Some(frame) => Ok(Some(frame)),
            None => {
                let mut frame = pin!(self.conn.frame());
                let polled = poll_fn(|cx| Poll::Ready(frame.as_mut().poll(cx))).await;
                if let Poll::Ready(frame) = polled { Ok(Some(frame?)) } else { Ok(None) }
            }
        }
    }

    /// Whether they were changes, and few.
    async fn hand_over(&mut self, first: Frame) -> Result<bool> {
        let (mut bytes, mut frames, mut reply) = (0, Vec::new(), false);
        let mut next = Some(first);
        while let Some(frame) = next {
            match frame.tag() {
                b'd' => match streamed(frame.body())? {
                    Streamed::Keepalive { end, reply: asked } => {
                        self.received = self.received.max(Lsn(end));
                        reply |= asked;
                    }
                    Streamed::Data { .. } => {}
                },
                b'E' => return Err(PoolError::Server(Box::new(ErrorFields::parse(frame.body())?)).into()),
                b'c' => return Err(Error::surprise("the node has ended the stream")),
                _ => {}
            }
            bytes += frame.raw.len();
            frames.push(frame);
            next = if bytes < RUN_BYTES { self.at_once().await? } else { None };
        }
        let few = bytes < GATHERED_BYTES && frames.iter().any(is_change);
        if reply {
            self.tell(false).await?;
        }
        let writer = self.writer;
        loop {
            tokio::select! {
                room = writer.room() => {
                    room?.frames(self.number, frames);
                    return Ok(few);
                }
                // However long it takes to apply, the node hears that we live.
                () = tokio::time::sleep(TICK) => self.tell(false).await?,
            }
        }
    }
}

/// It is none of the keepalives.
fn is_change(frame: &Frame) -> bool {
    frame.body().first() == Some(&b'w')
}

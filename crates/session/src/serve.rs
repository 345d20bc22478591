//! From an accepted socket to the end of its session. The loop over the client's messages is here.

mod greet;
mod message;
mod worker;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use wire::sqlstate;

use exec::{ExecError, Found};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use wire::{ErrorFields, Frame};

use crate::activity::Activity;
use crate::apart;
use crate::cancel::Registration;
use crate::cancel_forward;
use crate::client_stream::ClientStream;
use crate::fair;
use crate::idle;
use crate::login::{self, LoggedIn, Opening, Roles};
use crate::router::Router;
use crate::session::{Result, Session, Turn};

/// Serves a client that the router is itself.
pub(crate) fn serve_inside(client: Box<LoggedIn>, router: Arc<Router>) {
    tokio::spawn(session(client, router, ()));
}

/// Serves one connection to its end. Who only cancels needs none of the `places`, which sessions have while they last.
pub async fn serve(stream: TcpStream, router: Arc<Router>, places: Arc<Semaphore>) {
    let Some(place) = router.doors.log_in() else {
        return turn_away(
            stream,
            &router,
            &ErrorFields::fatal(sqlstate::TOO_MANY_CONNECTIONS, "too many logins at once"),
        )
        .await;
    };
    let opening = Box::pin(login::open(stream, &router.login, &HomeRoles(router.clone()))).await;
    match opening {
        Ok(Opening::Session(mut client)) => {
            drop(place);
            let role = client.role.as_ref().map(|role| (role.word.oid, role.connection_limit));
            let entered = match router.doors.enter(&client.user, role) {
                Ok(place) => place,
                Err(fields) => return login::refuse(&mut client.stream, &fields).await,
            };
            let Ok(place) = places.try_acquire_owned() else {
                let full = ErrorFields::fatal(sqlstate::TOO_MANY_CONNECTIONS, "sorry, too many clients already");
                return login::refuse(&mut client.stream, &full).await;
            };
            // A task of its own: the way from a message to the session is short.
            tokio::spawn(session(client, router, (entered, place)));
        }
        Ok(Opening::Cancel { pid, secret, stream }) => {
            cancel_forward::cancel(&router, pid, &secret).await;
            // Its end tells the client that the cancel was delivered.
            stream.close().await;
            // Anybody may ask for it, and it can cost a question to home and connections: it keeps its place among logins.
            drop(place);
        }
        // Refused logins are logged where they are refused.
        Ok(Opening::Closed) | Err(_) => {}
    }
}

/// A session while it lasts. One that panics ends alone: its task is unwound, what it held is closed, and it is counted here
/// (in `apart.rs`, if its message was worked on there).
struct Counted(Arc<Router>);

impl Counted {
    fn new(router: Arc<Router>) -> Self {
        router.metrics.connections.fetch_add(1, Ordering::Relaxed);
        router.metrics.connections_total.fetch_add(1, Ordering::Relaxed);
        Counted(router)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.metrics.connections.fetch_sub(1, Ordering::Relaxed);
        if std::thread::panicking() {
            self.0.metrics.panics.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Says why to a client that is not let in, if it listens.
async fn turn_away(stream: TcpStream, router: &Router, fields: &ErrorFields) {
    if let Ok(mut stream) = ClientStream::new(stream, &router.login.liveness) {
        login::refuse(&mut stream, fields).await;
    }
}

/// Roles as home has them.
struct HomeRoles(Arc<Router>);

impl Roles for HomeRoles {
    async fn find(&self, user: &str) -> std::result::Result<Option<Found>, pool::PoolError> {
        self.0.herd.roles.find(user).await
    }

    fn iterations(&self) -> u32 {
        self.0.herd.roles.iterations()
    }
}

/// A session from its greeting to its end; `held` is let go then.
async fn session(client: Box<LoggedIn>, router: Arc<Router>, held: impl Send) {
    let counted = Counted::new(router.clone());
    let (mut session, registration, mut result) = Box::pin(begin(client, router)).await;
    let mut next = None;
    while result.is_ok() {
        let frame = match next.take() {
            Some(frame) => frame,
            None => match session.next().await {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(e) => {
                    result = Err(e);
                    break;
                }
            },
        };
        if frame.tag() == b'X' {
            break;
        }
        let (back, done) = match session.is_large(&frame) {
            true => match Box::pin(apart::message(session, frame)).await {
                Some((back, done)) => (back, done.map(|()| None)),
                None => return,
            },
            false => worker::work(session, frame).await,
        };
        session = back;
        result = done.and_then(|frame| {
            next = frame;
            session.still_stands()
        });
    }
    Box::pin(session.end(&result)).await;
    drop((registration, counted, held));
    if let Err(e) = result {
        tracing::debug!(error = %e, "session ended");
    }
}

/// The client is greeted, or told why not.
async fn begin(client: Box<LoggedIn>, router: Arc<Router>) -> (Box<Session>, Registration, Result<()>) {
    let registration = router.cancels.register(client.protocol, client.job);
    registration.handle.watch(client.stream.watched());
    let shown = Activity::new(
        &client.user,
        client.role.as_ref().map(|r| r.word.oid),
        &client.database,
        client.stream.peer_addr().ok(),
    );
    registration.handle.show(shown.clone());
    let role = client.role.clone();
    let mut session = Box::new(Session::new(*client, router, &registration, shown));
    let greeted = session.greet(role.as_ref(), registration.pid, &registration.secret).await;
    (session, registration, greeted)
}

/// Says whether it had to wait.
async fn noticing<T>(work: impl Future<Output = T>, waited: &mut bool) -> T {
    let mut work = pin!(work);
    poll_fn(|cx| {
        let polled = work.as_mut().poll(cx);
        *waited |= polled.is_pending();
        polled
    })
    .await
}

impl Session {
    /// The next message to work on. `None`: the client is gone. Thousands of sessions wait here at once: what this keeps, each of
    /// them has.
    async fn next(&mut self) -> Result<Option<Frame>> {
        self.send_much().await?;
        loop {
            if let Some(frame) = self.here()? {
                return Ok(Some(frame));
            }
            // Nothing more is here: what is answered so far can go.
            self.io.send().await?;
            let limit = if self.turn == Turn::Ready { self.idle.limit(self.status()) } else { None };
            let mut waited = false;
            let came = match limit.is_none() && self.pin.is_free() {
                true => noticing(self.io.frame(), &mut waited).await?,
                false => noticing(Box::pin(self.wait(limit)), &mut waited).await?,
            };
            if waited {
                self.io.fair().waited();
            }
            let Some(frame) = came else {
                return self.io.ended().map_or(Ok(None), |said| Err(ExecError::Ended(said)));
            };
            if !self.passes_over(&frame) {
                return Ok(Some(frame));
            }
        }
    }

    /// A message to work on that is already here.
    fn here(&mut self) -> Result<Option<Frame>> {
        while let Some(frame) = self.io.buffered()? {
            if !self.passes_over(&frame) {
                return Ok(Some(frame));
            }
        }
        Ok(None)
    }

    /// After an error, up to Sync; the end of the session is none of these.
    fn passes_over(&self, frame: &Frame) -> bool {
        self.turn == Turn::Skipping && !matches!(frame.tag(), b'S' | b'X')
    }

    /// Short messages may have long answers, and many be here.
    async fn send_much(&mut self) -> Result<()> {
        match exec::Client::waiting(&self.io) > exec::PENDING_MAX {
            true => Ok(self.io.send().await?),
            false => Ok(()),
        }
    }

    /// Works on a message and those behind it that are here, up to one that ends the session or is to be worked on apart.
    async fn work_on(&mut self, mut frame: Frame) -> Result<Option<Frame>> {
        loop {
            self.message(&frame).await?;
            self.still_stands()?;
            self.send_much().await?;
            self.io.fair().did(fair::MESSAGE + frame.raw.len());
            self.io.fair().turn().await;
            frame = match self.here()? {
                Some(frame) if frame.tag() == b'X' || self.is_large(&frame) => return Ok(Some(frame)),
                Some(frame) => frame,
                None => return Ok(None),
            };
        }
    }

    /// The next message. Meanwhile a session that keeps a connection hears what comes there: notifications, and its end.
    async fn wait(&mut self, limit: Option<idle::Limit>) -> Result<Option<Frame>> {
        let Some(limit) = limit else { return self.wait_on().await };
        match tokio::time::timeout(limit.time, self.wait_on()).await {
            Ok(frame) => frame,
            Err(_) => Err(limit.over()),
        }
    }

    async fn wait_on(&mut self) -> Result<Option<Frame>> {
        loop {
            if self.turn == Turn::Ready && self.status() == wire::backend::IDLE {
                self.pass_all_notifications().await?;
            }
            let lane = match (self.turn, self.pin.here()) {
                (Turn::Ready, Some(lane)) => lane,
                _ => return self.io.frame().await,
            };
            tokio::select! {
                frame = self.io.frame() => return frame,
                filled = lane.conn.fill() => {
                    let read = filled.and_then(|()| lane.read_unasked());
                    match read {
                        Ok(said) => self.io.pass_on(said),
                        Err(_) => {
                            self.pin = exec::Pin::lost(&lane.conn);
                            return self.still_stands().map(|()| None);
                        }
                    }
                    self.io.send().await?;
                }
            }
        }
    }
}

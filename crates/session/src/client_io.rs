//! A client's socket with its buffers, as the executor needs it. It does not know what messages mean.

mod pipeline;
mod spoken;

use std::convert::Infallible;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;
use wire::{ErrorFields, sqlstate};

use bytes::{Buf, BytesMut};
use exec::{Answer, Client, ClientError, CopyInput, ExecError, tell_parameter};
use pool::{CancelKey, awake};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wire::{Frame, frame};

use crate::cancel::{CANCEL_EVERY, CancelHandle, Settled};
use crate::client_stream::ClientStream;
use crate::encoding::{Encoding, NAME};
use crate::fair::{self, Fair};
use crate::reports::Reports;
use crate::shares::{Share, Shares};
use spoken::Spoken;
pub use spoken::{How, binary, how};

/// As PostgreSQL's PQ_SMALL_MESSAGE_LIMIT.
const SMALL_MESSAGE_MAX: usize = 10_000;
/// A buffer of answers that grew beyond this is given back.
const BUFFER_KEPT_MAX: usize = 256 << 10;
/// Room for one read, at least.
const READ_BYTES: usize = 4096;
/// The same while COPY data comes: clients send it in messages of a few kilobytes, many of which are here at once.
const COPY_READ_BYTES: usize = 64 << 10;

/// The client's connection as the executor knows it: answers go out, COPY data and cancels come in.
pub struct ClientIo {
    /// There until closed.
    stream: Option<ClientStream>,
    pub rbuf: BytesMut,
    out: BytesMut,
    /// Bytes of answers that are with the client.
    sent: u64,
    message_bytes_max: usize,
    room: Box<Room>,
    /// COPY data comes.
    copying: bool,
    handle: CancelHandle,
    running: bool,
    pub reports: Reports,
    /// The client's character set, if it is not UTF8.
    spoken: Option<Box<Tongue>>,
}

/// The client's character set, and how far answers are in it.
struct Tongue {
    spoken: Spoken,
    /// So many bytes of `out` are.
    told: usize,
    /// Why an answer can't be: it and all behind it are gone.
    refused: Option<ExecError>,
    /// CopyDone has come, behind data that was cut off.
    copy_ended: bool,
}

/// What a client's long messages take of what there is for all, from their header on.
pub struct Room {
    shares: Arc<Shares>,
    role: u32,
    /// Of the one that is here, or coming.
    taken: Option<Share>,
    coming: bool,
    fair: Fair,
    /// What was written before, while answers go to who runs a program's statement, the outermost first; and what those take.
    kept_back: Vec<(BytesMut, exec::Taken)>,
}

impl Room {
    /// `shares`: pieces of [`LONG`](frame::LONG) bytes.
    pub fn new(shares: Arc<Shares>, role: u32) -> Self {
        Room { shares, role, taken: None, coming: false, fair: Fair::default(), kept_back: vec![] }
    }

    fn begins(&mut self, bytes: usize) -> exec_result::Result<()> {
        if !self.coming {
            // The one before has been worked on.
            self.taken = None;
            self.taken = Some(self.shares.try_take(self.role, bytes.div_ceil(frame::LONG)).ok_or_else(|| {
                let error = ErrorFields::fatal(sqlstate::OUT_OF_MEMORY, "out of memory for long messages of clients")
                    .detail(format!(
                        "A message of {bytes} bytes began; one role's may be {} at a time.",
                        self.shares.each() * frame::LONG
                    ))
                    .hint("Send less at a time, or raise limits.client_message_bytes in herd.toml.");
                ExecError::Ended(Box::new(error))
            })?);
            self.coming = true;
        }
        Ok(())
    }
}

impl ClientIo {
    /// `rbuf`: what was read behind the login. A message of more than `message_bytes_max` bytes ends the session.
    pub fn new(
        stream: ClientStream,
        rbuf: BytesMut,
        message_bytes_max: usize,
        room: Room,
        handle: CancelHandle,
    ) -> Self {
        ClientIo {
            stream: Some(stream),
            rbuf,
            out: BytesMut::new(),
            sent: 0,
            message_bytes_max,
            room: Box::new(room),
            copying: false,
            handle,
            running: false,
            reports: Reports::default(),
            spoken: None,
        }
    }

    /// The next message; `None` when the client closed the connection between messages. Cancel-safe.
    pub async fn frame(&mut self) -> exec_result::Result<Option<Frame>> {
        loop {
            if let Some(frame) = self.buffered()? {
                return Ok(Some(frame));
            }
            let Some(stream) = &mut self.stream else { return Ok(None) };
            if self.rbuf.is_empty() && !self.copying {
                // Thousands of clients wait at once: none of them holds a buffer meanwhile.
                self.rbuf = BytesMut::new();
                self.room.taken = None;
                if self.out.is_empty() {
                    self.out = BytesMut::new();
                }
                match stream.readable().await {
                    Ok(()) => {}
                    Err(e) => return gone(e),
                }
            }
            self.rbuf.reserve(if self.copying { COPY_READ_BYTES } else { READ_BYTES });
            match stream.read_buf(&mut self.rbuf).await {
                Ok(0) => return Ok(None),
                Ok(_) => awake::came(awake::From::Client),
                Err(e) => return gone(e),
            }
        }
    }

    /// A message that is already here.
    pub fn buffered(&mut self) -> exec_result::Result<Option<Frame>> {
        // PQ_SMALL_MESSAGE_LIMIT: messages that carry no data are short.
        if let Ok(Some((b'S' | b'H' | b'X' | b'C' | b'D' | b'E' | b'c', len))) = frame::peek(&self.rbuf, usize::MAX)
            && len > SMALL_MESSAGE_MAX
        {
            return Err(ExecError::Client(ClientError::Malformed(format!("invalid message length {len}"))));
        }
        let malformed = |e: wire::WireError| ExecError::Client(ClientError::Malformed(e.to_string()));
        if let Some((_, total)) = frame::peek(&self.rbuf, self.message_bytes_max).map_err(malformed)?
            && total > frame::LONG
        {
            self.room.begins(total)?;
        }
        let frame = frame::take(&mut self.rbuf, self.message_bytes_max).map_err(malformed)?;
        let frame = match frame {
            Some(frame) if self.spoken.is_some() => {
                // An error may be about the message before.
                self.in_clients_words();
                self.spoken.as_mut().map(|tongue| tongue.spoken.heard(frame))
            }
            frame => frame,
        };
        if let Some(frame) = &frame {
            self.room.coming = false;
            if frame.raw.len() <= frame::LONG {
                self.room.taken = None;
            }
        }
        Ok(frame)
    }

    /// From here on the client speaks another character set; `None`: UTF8. The setting is told as `name`.
    pub fn speak(&mut self, encoding: Option<Arc<Encoding>>, name: &str) {
        if self.reports.is_other(NAME, name) {
            self.reports.note(NAME, name);
        }
        if self.encoding() == encoding.as_ref().map(|e| e.name()) {
            return;
        }
        self.in_clients_words();
        // What a program catches is not the client's.
        let told = self.room.kept_back.first().map_or(self.out.len(), |(out, _)| out.len());
        self.spoken =
            encoding.map(|e| Box::new(Tongue { spoken: Spoken::new(e), told, refused: None, copy_ended: false }));
    }

    /// The client's character set, if it is not UTF8.
    pub fn encoding(&self) -> Option<&str> {
        self.spoken.as_ref().map(|tongue| tongue.spoken.encoding.name())
    }

    /// A COPY begins. `as_it_is`: its data comes, or goes, in a character set that its statement names.
    pub fn copy_begins(&mut self, as_it_is: bool) {
        self.in_clients_words();
        if let Some(tongue) = &mut self.spoken {
            // Nothing of one that has failed.
            tongue.copy_ended = false;
            tongue.spoken.copy_begins(as_it_is);
        }
    }

    /// How the columns of rows to come go; those not named are text.
    pub fn rows_as(&mut self, columns: Vec<How>) {
        self.in_clients_words();
        if let Some(tongue) = &mut self.spoken {
            tongue.spoken.columns = columns;
        }
    }

    /// Puts answers into the client's character set, those that are its own.
    fn in_clients_words(&mut self) {
        let Some(tongue) = self.spoken.as_mut().filter(|_| self.room.kept_back.is_empty()) else { return };
        if tongue.refused.is_some() {
            self.out.truncate(tongue.told);
            return;
        }
        let from = tongue.told.min(self.out.len());
        tongue.refused = tongue.spoken.tell(&mut self.out, from).err();
        tongue.told = self.out.len();
    }

    /// Asked when a statement has run, whatever became of it.
    ///
    /// # Errors
    /// An answer since the last time can't be told in the client's character set: it and all behind it have not been, nor will be.
    pub fn all_is_told(&mut self) -> exec_result::Result<()> {
        self.in_clients_words();
        self.spoken.as_mut().and_then(|tongue| tongue.refused.take()).map_or(Ok(()), Err)
    }

    /// Messages of the front's own for the client.
    pub fn out(&mut self) -> &mut BytesMut {
        &mut self.out
    }

    /// The session's turn.
    pub fn fair(&mut self) -> &mut Fair {
        &mut self.room.fair
    }

    /// ReadyForQuery, with the parameters that have changed before it, as PostgreSQL reports them.
    pub fn ready(&mut self, status: u8) {
        if status == wire::backend::IDLE {
            // Whoever has the connections next waits on his own account.
            self.handle.clear();
        }
        self.handle.idle();
        self.copying = false;
        if let Err(e) = self.all_is_told() {
            // Nobody has asked.
            e.to_fields().put(&mut self.out, b'E');
        }
        self.reports.put(&mut self.out);
        wire::backend::ready(&mut self.out, status);
    }

    /// Notices go on; reports of parameters wait.
    pub fn pass_on(&mut self, mut messages: BytesMut) {
        while let Ok(Some(f)) = frame::take(&mut messages, frame::NODE_MAX) {
            match f.tag() {
                b'S' => tell_parameter(self, &f),
                _ => self.out.extend_from_slice(&f.raw),
            }
        }
    }

    /// The client left while a statement ran.
    pub fn has_left(&self) -> bool {
        self.handle.has_left()
    }

    /// Somebody has ended the session (`pg_terminate_backend`).
    pub fn ended(&self) -> Option<Box<wire::ErrorFields>> {
        self.handle.is_ended().then(|| {
            Box::new(wire::ErrorFields::fatal(
                sqlstate::ADMIN_SHUTDOWN,
                "terminating connection due to administrator command",
            ))
        })
    }

    /// By which the client cancels.
    pub fn handle(&self) -> CancelHandle {
        self.handle.clone()
    }

    /// The same for who runs something of the statement's that the client is not told: [`settled`](exec::Client::settled) counts it.
    pub fn handle_to_run(&mut self) -> CancelHandle {
        self.running = true;
        self.handle.clone()
    }

    /// A statement begins: from here on a cancel is not lost, wherever the statement waits.
    pub fn begin(&self) {
        self.handle.begin();
    }

    /// The same statement anew: its time goes on.
    pub fn begin_again(&self) {
        self.handle.begin_again();
    }

    /// The next statement of a string: its time counts from now.
    pub fn begin_time(&self) {
        self.handle.begin_time();
    }

    /// Whether its statement was cancelled because its time was over; from now on no more.
    pub fn take_late(&self) -> bool {
        self.handle.take_late()
    }

    /// Whether its statement was cancelled to break a deadlock; from now on no more.
    pub fn take_deadlocked(&self) -> bool {
        self.handle.take_deadlocked()
    }

    /// Whether it was.
    pub fn is_deadlocked(&self) -> bool {
        self.handle.is_deadlocked()
    }

    /// The statement was cancelled, and its code caught that. False: a cancel may still arrive on nodes.
    pub async fn goes_on(&self) -> bool {
        self.handle.survive().await == Settled::Clean
    }

    /// Ends the connection; nothing that runs for it on a node is cancelled any more.
    pub async fn close(&mut self) {
        let _ = self.handle.finish().await;
        if let Some(stream) = self.stream.take() {
            stream.close().await;
        }
    }

    /// Bytes of answers so far, sent or not: as long as they stay the same, the client has seen nothing of a statement.
    pub fn answered(&mut self) -> u64 {
        self.in_clients_words();
        self.sent + self.out.len() as u64
    }

    /// Takes back what was answered since, if none of it has been sent.
    pub fn take_back(&mut self, answered: u64) -> bool {
        let unsent = answered.checked_sub(self.sent).map(|n| n as usize).filter(|n| *n <= self.out.len());
        if let (Some(n), Some(tongue), true) = (unsent, &mut self.spoken, self.room.kept_back.is_empty()) {
            tongue.told = tongue.told.min(n);
            tongue.refused = None;
        }
        unsent.inspect(|n| self.out.truncate(*n)).is_some()
    }

    /// Answers from here on are not the client's: they are counted as `taken`.
    pub fn catch(&mut self, taken: exec::Taken) {
        self.in_clients_words();
        let out = std::mem::take(&mut self.out);
        self.room.kept_back.push((out, taken));
    }

    /// What came since [`catch`](Self::catch); answers go where they went before.
    pub fn caught(&mut self) -> (BytesMut, Option<exec::Taken>) {
        let (out, taken) = self.room.kept_back.pop().map_or_else(Default::default, |(out, taken)| (out, Some(taken)));
        (std::mem::replace(&mut self.out, out), taken)
    }

    /// Sends what was written for the client.
    ///
    /// # Errors
    /// [`ExecError::Client`] if nobody is there.
    pub async fn send(&mut self) -> exec_result::Result<()> {
        if let Some((_, taken)) = self.room.kept_back.last_mut() {
            return taken.grow_to(self.out.len());
        }
        self.in_clients_words();
        if self.out.is_empty() {
            return Ok(());
        }
        let Some(stream) = &mut self.stream else { return Err(ExecError::lost("closed before")) };
        // Whoever sends may be dropped in the middle of it, by a cancel: what has gone is not sent again.
        while !self.out.is_empty() {
            let gone = stream.write(&self.out).await.map_err(ExecError::lost)?;
            if gone == 0 {
                return Err(ExecError::lost("nothing more can be written"));
            }
            match gone == self.out.len() {
                true => self.out.clear(),
                false => self.out.advance(gone),
            }
            self.sent += gone as u64;
            if let Some(tongue) = &mut self.spoken {
                tongue.told = tongue.told.saturating_sub(gone);
            }
        }
        stream.flush().await.map_err(ExecError::lost)?;
        if self.out.capacity() > BUFFER_KEPT_MAX {
            self.out = BytesMut::new();
        }
        Ok(())
    }

    /// The next message of a COPY from the client. Dropped before it is there it has taken nothing.
    async fn copied(&mut self) -> exec_result::Result<CopyInput> {
        if self.spoken.as_mut().is_some_and(|tongue| std::mem::take(&mut tongue.copy_ended)) {
            return Ok(CopyInput::Done);
        }
        loop {
            // Small messages are many of them in one read. Nothing is waited for behind the frame: who is dropped there would lose it.
            self.fair().turn().await;
            let Some(frame) = self.frame().await? else {
                return Err(ExecError::lost("during COPY"));
            };
            self.fair().did(frame.raw.len() + fair::COPIED);
            match frame.tag() {
                b'd' => {
                    let data = frame.raw.slice(frame::HEADER_LEN..);
                    return Ok(CopyInput::Data(match &mut self.spoken {
                        Some(tongue) => tongue.spoken.heard_copy(data),
                        None => data,
                    }));
                }
                b'c' => {
                    return Ok(match self.spoken.as_mut().and_then(|t| Some((t.spoken.copy_ends()?, t))) {
                        Some((data, tongue)) => {
                            tongue.copy_ended = true;
                            CopyInput::Data(data)
                        }
                        None => CopyInput::Done,
                    });
                }
                b'f' => return Ok(CopyInput::Fail(wire::frontend::query(frame.body()).unwrap_or("").to_string())),
                b'H' | b'S' => {}
                b'X' => return Err(ExecError::lost("the client left during COPY")),
                other => {
                    return Err(ExecError::Client(ClientError::OutOfStep(format!(
                        "unexpected message type 0x{other:02X} during COPY from stdin"
                    ))));
                }
            }
        }
    }
}

/// TLS may end without its goodbye.
fn gone(error: std::io::Error) -> exec_result::Result<Option<Frame>> {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => Ok(None),
        _ => Err(ExecError::lost(error)),
    }
}

mod exec_result {
    pub type Result<T> = std::result::Result<T, exec::ExecError>;
}

impl Client for ClientIo {
    fn takes_pieces(&self) -> bool {
        self.spoken.is_none()
    }

    #[inline]
    fn tell(&mut self, answer: Answer<'_>) {
        match answer {
            // What is spoken with nodes is not what is spoken with the client.
            Answer::Parameter { name: NAME, .. } => {}
            // What the client hears of it is decided when it may send the next statement.
            Answer::Parameter { name, value } => self.reports.note(name, value),
            _ => answer.put(&mut self.out),
        }
    }

    fn waiting(&self) -> usize {
        self.out.len()
    }

    async fn flush(&mut self) -> exec_result::Result<()> {
        self.send().await
    }

    async fn copy_input(&mut self) -> exec_result::Result<CopyInput> {
        self.copying = true;
        self.copied().await
    }

    fn job(&self) -> Option<i64> {
        self.handle.job()
    }

    fn waits(&mut self) {
        self.handle.goes_on();
    }

    fn cancelled(&mut self) -> impl Future<Output = ()> + Send + use<> {
        let handle = self.handle.clone();
        async move { handle.cancelled().await }
    }

    fn cancels(&mut self) -> impl Future<Output = Infallible> + Send + use<> {
        let handle = self.handle.clone();
        async move {
            loop {
                // Whoever polls this ends with the work, and a cancel that has begun goes on to its end. It begins here: the next
                // statement is not meant.
                let handle = handle.clone();
                let mut cancel = Box::pin(async move { handle.cancel().await });
                if std::future::poll_fn(|cx| Poll::Ready(cancel.as_mut().poll(cx))).await.is_pending() {
                    tokio::spawn(cancel);
                }
                tokio::time::sleep(CANCEL_EVERY).await;
            }
        }
    }

    fn unlimited_since(&self) -> Option<Instant> {
        self.handle.unlimited_since()
    }

    fn end_at(&mut self, end: Option<Instant>) {
        self.handle.end_at(end);
    }

    fn started(&mut self, key: CancelKey) {
        self.running = true;
        self.handle.add_running(key);
    }

    async fn given_back(&mut self, key: &CancelKey) -> bool {
        self.handle.give_back(key).await == Settled::Clean
    }

    async fn survives_deadlock(&mut self) -> bool {
        let so = self.is_deadlocked();
        if so {
            // Its connections are given back, each when no cancel was on its way.
            self.goes_on().await;
        }
        so
    }

    async fn settled(&mut self) -> bool {
        if !self.running {
            return true;
        }
        self.running = false;
        self.handle.finish().await == Settled::Clean
    }
}

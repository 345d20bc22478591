//! A client that is none: it catches the rows of a statement and hands them on to a consumer. It is one type whoever asks and
//! whatever consumes: the executor's code is made once for each type of client.

use std::pin::Pin;
use std::time::Instant;

use bytes::BytesMut;
use pool::CancelKey;
use wire::{backend, frame};

use crate::client::{Answer, Client, CopyInput, PENDING_MAX};
use crate::error::{ExecError, Result};
use crate::write::sink::Sink;

type Boxed<'f, T> = Pin<Box<dyn Future<Output = T> + Send + 'f>>;

/// Who keeps caught rows.
pub trait Consumer: Send {
    fn row(&mut self, values: &[Option<&[u8]>]) -> Result<()>;
}

/// Who writes caught rows for the client.
pub trait Format: Send {
    /// The row, as it is told at once.
    fn row(&mut self, values: &[Option<&[u8]>]) -> BytesMut;
}

/// Where caught rows go.
pub enum Rows<'c> {
    Kept(&'c mut dyn Consumer),
    /// On to who asked, as COPY data; what has left is not taken back.
    Copied(&'c mut dyn Format),
    /// On to nodes; who asked hears what these say to them.
    Sink(&'c mut Sink),
}

/// Who asked, of whatever type.
trait Asker<'c>: Send {
    fn tell(&mut self, answer: Answer<'_>);
    fn waiting(&self) -> usize;
    fn flush(&mut self) -> Boxed<'_, Result<()>>;
    fn waits(&mut self);
    fn unlimited_since(&self) -> Option<Instant>;
    fn end_at(&mut self, end: Option<Instant>);
    fn started(&mut self, key: CancelKey);
    fn cancelled(&mut self) -> Boxed<'c, ()>;
}

impl<'c, C: Client + 'c> Asker<'c> for C {
    fn tell(&mut self, answer: Answer<'_>) {
        Client::tell(self, answer);
    }

    fn waiting(&self) -> usize {
        Client::waiting(self)
    }

    fn flush(&mut self) -> Boxed<'_, Result<()>> {
        Box::pin(Client::flush(self))
    }

    fn waits(&mut self) {
        Client::waits(self);
    }

    fn unlimited_since(&self) -> Option<Instant> {
        Client::unlimited_since(self)
    }

    fn end_at(&mut self, end: Option<Instant>) {
        Client::end_at(self, end);
    }

    fn started(&mut self, key: CancelKey) {
        Client::started(self, key);
    }

    fn cancelled(&mut self) -> Boxed<'c, ()> {
        Box::pin(Client::cancelled(self))
    }
}

/// A client to the statement that is caught, a source to its consumer.
pub struct Capture<'c> {
    out: BytesMut,
    rows: Rows<'c>,
    /// Who may cancel.
    client: &'c mut dyn Asker<'c>,
    /// Its connections are the client's transaction's, and stay so when the rows are read: a cancel may reach them.
    in_transaction: bool,
    /// One of its connections has what the session keeps there: it is read to its end, whatever the consumer says.
    to_the_end: bool,
    /// An error of the consumer, kept because the producer only sees that its client is gone.
    failure: Option<ExecError>,
}

impl<'c> Capture<'c> {
    /// Outside of a transaction; `client` hears notices and may cancel.
    pub fn new<C: Client + 'c>(rows: Rows<'c>, client: &'c mut C) -> Self {
        Capture { out: BytesMut::new(), rows, client, in_transaction: false, to_the_end: false, failure: None }
    }

    /// The same inside a transaction, if it is `active`.
    pub fn within<C: Client + 'c>(active: bool, rows: Rows<'c>, client: &'c mut C) -> Self {
        Capture { in_transaction: active, ..Capture::new(rows, client) }
    }

    /// The same on a connection that the session is bound to, if it `is_pinned`.
    pub fn of_session(self, is_pinned: bool) -> Self {
        Capture { to_the_end: is_pinned, ..self }
    }

    async fn relieve_client(&mut self) -> Result<()> {
        if self.client.waiting() > PENDING_MAX { self.client.flush().await } else { Ok(()) }
    }

    /// What is left goes to the consumer; its own error is the one that counts.
    pub async fn end(&mut self, produced: Result<()>) -> Result<()> {
        let end = match produced {
            Ok(()) => Client::flush(self).await,
            Err(e) => Err(e),
        };
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => end,
        }
    }
}

impl<'c> Client for Capture<'c> {
    fn tell(&mut self, answer: Answer<'_>) {
        match answer {
            Answer::Sent(_) | Answer::Row(_) => answer.put(&mut self.out),
            Answer::Notice(_) | Answer::Parameter { .. } => self.client.tell(answer),
            // Who catches rows knows their columns, and COPY is not run this way.
            Answer::Columns(_)
            | Answer::CopyIn { .. }
            | Answer::CopyOut { .. }
            | Answer::CopyData(_)
            | Answer::CopyDone => {}
        }
    }

    fn waiting(&self) -> usize {
        self.out.len()
    }

    async fn flush(&mut self) -> Result<()> {
        while let Some(f) = frame::take(&mut self.out, frame::NODE_MAX)? {
            match f.tag() {
                b'D' if self.failure.is_some() => {}
                b'D' => {
                    let values = backend::parse_data_row(f.body())?;
                    let taken = match &mut self.rows {
                        Rows::Kept(consumer) => consumer.row(&values),
                        Rows::Copied(format) => {
                            let data = format.row(&values);
                            self.client.tell(Answer::CopyData(&data));
                            self.relieve_client().await
                        }
                        Rows::Sink(sink) => sink.row(&values).await,
                    };
                    if let Err(e) = taken {
                        self.failure = Some(e);
                        if self.to_the_end {
                            continue;
                        }
                        return Err(ExecError::lost("the rows' consumer failed"));
                    }
                    if let Rows::Sink(sink) = &mut self.rows {
                        sink.tell_said(&mut |said| self.client.tell(said));
                        self.relieve_client().await?;
                    }
                }
                b'N' => {
                    self.client.tell(Answer::Sent(&f.raw));
                    self.relieve_client().await?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    async fn copy_input(&mut self) -> Result<CopyInput> {
        Err(ExecError::internal("COPY FROM STDIN inside another statement"))
    }

    fn waits(&mut self) {
        self.client.waits();
    }

    fn unlimited_since(&self) -> Option<Instant> {
        self.client.unlimited_since()
    }

    fn end_at(&mut self, end: Option<Instant>) {
        self.client.end_at(end);
    }

    fn started(&mut self, key: CancelKey) {
        if self.in_transaction {
            self.client.started(key);
        }
    }

    fn cancelled(&mut self) -> impl Future<Output = ()> + Send + use<'c> {
        self.client.cancelled()
    }
}

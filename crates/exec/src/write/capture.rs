//! A client that is none: it catches the rows of a statement and hands them on to a consumer.

use bytes::BytesMut;
use pool::CancelKey;
use wire::{backend, frame};

use crate::client::{Answer, Client, CopyInput};
use crate::error::{ExecError, Result};
use crate::write::sink::Sink;

/// Where caught rows go.
pub trait Consumer: Send {
    fn row(&mut self, values: &[Option<&[u8]>]) -> impl Future<Output = Result<()>> + Send;

    /// Tells what nodes have said to a row.
    fn tell_said(&mut self, _client: &mut impl Client) {}
}

impl Consumer for Sink {
    async fn row(&mut self, values: &[Option<&[u8]>]) -> Result<()> {
        Sink::row(self, values).await
    }

    fn tell_said(&mut self, client: &mut impl Client) {
        Sink::tell_said(self, client);
    }
}

/// A client to the statement that is caught, a source to its consumer.
pub struct Capture<'c, R: Consumer, C: Client> {
    out: BytesMut,
    consumer: &'c mut R,
    /// Who may cancel.
    client: &'c mut C,
    /// Its connections are the client's transaction's, and stay so when the rows are read: a cancel may reach them.
    in_transaction: bool,
    /// An error of the consumer, kept because the producer only sees that its client is gone.
    failure: Option<ExecError>,
}

impl<'c, R: Consumer, C: Client> Capture<'c, R, C> {
    /// Outside of a transaction; `client` hears notices and may cancel.
    pub fn new(consumer: &'c mut R, client: &'c mut C) -> Self {
        Capture { out: BytesMut::new(), consumer, client, in_transaction: false, failure: None }
    }

    /// The same inside a transaction, if it is `active`.
    pub fn within(active: bool, consumer: &'c mut R, client: &'c mut C) -> Self {
        Capture { in_transaction: active, ..Capture::new(consumer, client) }
    }

    /// What is left goes to the consumer; its own error is the one that counts.
    pub async fn end(&mut self, produced: Result<()>) -> Result<()> {
        let end = match produced {
            Ok(()) => self.flush().await,
            Err(e) => Err(e),
        };
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => end,
        }
    }
}

impl<'c, R: Consumer, C: Client> Client for Capture<'c, R, C> {
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
                b'D' => {
                    if let Err(e) = self.consumer.row(&backend::parse_data_row(f.body())?).await {
                        self.failure = Some(e);
                        return Err(ExecError::lost("the rows' consumer failed"));
                    }
                    self.consumer.tell_said(self.client);
                    self.client.relieve().await?;
                }
                b'N' => {
                    self.client.tell(Answer::Sent(&f.raw));
                    self.client.relieve().await?;
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

    fn started(&mut self, key: CancelKey) {
        if self.in_transaction {
            self.client.started(key);
        }
    }

    fn cancelled(&mut self) -> impl Future<Output = ()> + Send + use<'c, R, C> {
        self.client.cancelled()
    }
}

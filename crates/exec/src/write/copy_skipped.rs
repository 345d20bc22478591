//! How many rows the nodes of a COPY have passed over (ON_ERROR): each says it at its end, and the client hears it once, of all of them.
//! What else nodes say is passed on. Which rows they were is not known here.

use bytes::{Bytes, BytesMut};
use wire::{ErrorFields, sqlstate};

use crate::client::{Answer, Client, CopyInput};
use crate::error::{ExecError, Result};

/// Stands between the nodes and the client.
pub struct Skipped<'c, C> {
    pub client: &'c mut C,
    rows: u64,
    /// The first word of it, as its node has said it, and how many there were.
    first: Option<Bytes>,
    said: usize,
}

impl<'c, C: Client> Skipped<'c, C> {
    /// Nothing has been said.
    pub fn new(client: &'c mut C) -> Self {
        Skipped { client, rows: 0, first: None, said: 0 }
    }

    /// Tells the client.
    pub fn tell(self) {
        match self.first {
            Some(said) if self.said == 1 => self.client.tell(Answer::Sent(&said)),
            Some(_) => {
                let message = format!("{} rows were skipped due to data type incompatibility", self.rows);
                let notice = ErrorFields::with_severity("NOTICE", sqlstate::SUCCESSFUL_COMPLETION, message);
                self.client.tell(Answer::Notice(&notice));
            }
            None => {}
        }
    }
}

impl<C: Client> Client for Skipped<'_, C> {
    fn tell(&mut self, answer: Answer<'_>) {
        let Answer::Sent(messages) = answer else { return self.client.tell(answer) };
        let mut messages = BytesMut::from(messages);
        while let Ok(Some(frame)) = wire::frame::take(&mut messages, usize::MAX) {
            let notice = (frame.tag() == b'N').then(|| ErrorFields::parse(frame.body()).ok()).flatten();
            match notice.as_ref().and_then(ErrorFields::rows_skipped) {
                Some(rows) => {
                    self.rows += rows;
                    self.said += 1;
                    self.first.get_or_insert(frame.raw);
                }
                None => self.client.tell(Answer::Sent(&frame.raw)),
            }
        }
    }

    fn waiting(&self) -> usize {
        self.client.waiting()
    }

    async fn flush(&mut self) -> Result<()> {
        self.client.flush().await
    }

    async fn copy_input(&mut self) -> Result<CopyInput> {
        Err(ExecError::internal("COPY FROM STDIN at its end"))
    }
}

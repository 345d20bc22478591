//! One client's connection, once he is let in: questions by the simple protocol, one after the other. It does not know how they
//! are answered.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use wire::frame::{self, HEADER_LEN};
use wire::{ErrorFields, Frame, backend, frontend, sqlstate};

use crate::duck_error;
use crate::error::{Error, Result};
use crate::query::{Query, TEXT_MAX};
use crate::read::{Answer, Reads};
use crate::status;

/// A message of a client: a question and its header.
const MESSAGE_MAX: usize = TEXT_MAX + 1024;
/// What is read of a client while he waits.
const AHEAD_MAX: usize = 2 * MESSAGE_MAX;

/// How long one who is sent away may take to hear why.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// A client who was let in.
pub struct Session {
    pub stream: TcpStream,
    pub rbuf: BytesMut,
    pub out: BytesMut,
    pub reads: Reads,
    /// Told when his question is to be given up.
    pub cancel: Arc<Notify>,
}

impl Session {
    /// Until he goes, or breaks the protocol.
    pub async fn run(mut self, pid: i32, secret: &[u8]) -> std::io::Result<()> {
        for (name, value) in [
            ("server_version", concat!("15.0 (herd-column ", env!("CARGO_PKG_VERSION"), ")")),
            ("server_encoding", "UTF8"),
            ("client_encoding", "UTF8"),
            ("DateStyle", "ISO, MDY"),
            ("IntervalStyle", "postgres"),
            ("TimeZone", "UTC"),
            ("integer_datetimes", "on"),
            ("standard_conforming_strings", "on"),
            ("is_superuser", "off"),
            ("in_hot_standby", "off"),
            ("default_transaction_read_only", "off"),
        ] {
            backend::parameter_status(&mut self.out, name, value);
        }
        backend::backend_key_data(&mut self.out, pid, secret);
        backend::ready(&mut self.out, backend::IDLE);
        let mut skipping = false;
        loop {
            self.stream.write_all_buf(&mut self.out).await?;
            let frame = match self.message().await {
                Ok(Some(frame)) => frame,
                Ok(None) => return Ok(()),
                Err(error) => {
                    ErrorFields::fatal(sqlstate::PROTOCOL_VIOLATION, error.to_string()).put(&mut self.out, b'E');
                    return self.last_words().await;
                }
            };
            match frame.tag() {
                b'Q' => {
                    if !self.question(&frame).await? {
                        return Ok(());
                    }
                    backend::ready(&mut self.out, backend::IDLE);
                }
                b'X' => return Ok(()),
                b'S' => {
                    skipping = false;
                    backend::ready(&mut self.out, backend::IDLE);
                }
                _ if skipping => {}
                _ => {
                    skipping = true;
                    Error::Unsupported("anything but the simple protocol").to_fields().put(&mut self.out, b'E');
                }
            }
        }
    }

    /// Says why he is sent away, and waits a moment for him to go: a connection that is closed with something unread is reset,
    /// and what was said may be lost with it.
    async fn last_words(&mut self) -> std::io::Result<()> {
        let said = async {
            self.stream.write_all_buf(&mut self.out).await?;
            self.stream.shutdown().await?;
            loop {
                self.rbuf.clear();
                if self.stream.read_buf(&mut self.rbuf).await? == 0 {
                    return Ok(());
                }
            }
        };
        tokio::time::timeout(LAST_WORDS, said).await.unwrap_or(Ok(()))
    }

    /// The next message; `None`: he has gone.
    async fn message(&mut self) -> Result<Option<Frame>> {
        loop {
            if let Some(frame) = frame::take(&mut self.rbuf, HEADER_LEN + MESSAGE_MAX)? {
                return Ok(Some(frame));
            }
            match self.stream.read_buf(&mut self.rbuf).await {
                Ok(0) | Err(_) => return Ok(None),
                Ok(_) => {}
            }
        }
    }

    /// Answers one; `false`: he has gone meanwhile.
    async fn question(&mut self, frame: &Frame) -> std::io::Result<bool> {
        let reads = self.reads.clone();
        let text = frontend::query(frame.body()).map(str::to_owned);
        let answering = async { answer(&reads, &text?).await };
        tokio::pin!(answering);
        let answered = loop {
            tokio::select! {
                biased;
                answered = &mut answering => break answered,
                () = self.cancel.notified() => break Err(Error::Cancelled),
                // Who has gone waits for nothing: what is dropped is interrupted.
                read = self.stream.read_buf(&mut self.rbuf), if self.rbuf.len() < AHEAD_MAX => {
                    if read? == 0 {
                        return Ok(false);
                    }
                }
            }
        };
        match answered {
            Ok(Some(answer)) => {
                self.out.extend_from_slice(&answer.messages);
                backend::command_complete(&mut self.out, &format!("SELECT {}", answer.rows));
            }
            Ok(None) => backend::empty_query(&mut self.out),
            Err(error) => {
                match duck_error::is_internal(&error.to_string()) {
                    true => tracing::error!("a question failed: {error}"),
                    false => tracing::debug!("a question failed: {error}"),
                }
                error.to_fields().put(&mut self.out, b'E');
            }
        }
        Ok(true)
    }
}

async fn answer(reads: &Reads, text: &str) -> Result<Option<Answer>> {
    let plain = text.trim().trim_end_matches(';').trim_end().to_ascii_lowercase();
    match plain.split_ascii_whitespace().collect::<Vec<_>>()[..] {
        [] => Ok(None),
        ["show", "copies"] => status::copies(reads).await.map(Some),
        ["show", "sizes"] => status::sizes(reads).await.map(Some),
        ["show", "kept"] => Ok(Some(status::kept(reads))),
        ["show", "version"] => Ok(Some(status::version())),
        _ if text.starts_with('{') => reads.read(Query::parse(text)?).await.map(Some),
        _ => Err(Error::Unsupported(
            "anything but a question with its first line, SHOW copies, SHOW sizes, SHOW kept and SHOW version",
        )),
    }
}

//! The client's side as the executor sees it: who is told the answer, and a source of COPY data. In which messages a client
//! gets what it is told is its front's affair; PostgreSQL's are written down here once, for the front and for whoever keeps an answer.

use std::convert::Infallible;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use pool::CancelKey;
use txn::Lane;
use wire::backend::{self, Field};
use wire::{ErrorFields, Frame, put, sqlstate};

use crate::error::{ExecError, Result};

/// How much may wait for a client before the executor stops reading from nodes.
pub const PENDING_MAX: usize = 64 << 10;

/// A piece of a statement's answer. Its end (the tag, or an error) is what the executor returns.
pub enum Answer<'a> {
    /// The columns of the rows to come.
    Columns(&'a [Field]),
    /// One row, each value in the format that was asked for.
    Row(&'a [Option<&'a [u8]>]),
    /// Whole messages of a node, as they are: columns, rows, notices, COPY's. Who speaks PostgreSQL's protocol need not look.
    Sent(&'a [u8]),
    Notice(&'a ErrorFields),
    /// A node reports the value of a parameter.
    Parameter {
        name: &'a str,
        value: &'a str,
    },
    /// COPY FROM STDIN begins. Formats: 0 text, 1 binary.
    CopyIn {
        format: i8,
        columns: usize,
    },
    /// COPY TO STDOUT begins.
    CopyOut {
        format: i8,
        columns: usize,
    },
    CopyData(&'a [u8]),
    CopyDone,
}

impl Answer<'_> {
    /// In PostgreSQL's messages.
    pub fn put(&self, out: &mut BytesMut) {
        match *self {
            Answer::Sent(messages) => out.extend_from_slice(messages),
            Answer::Columns(fields) => backend::row_description(out, fields),
            Answer::Row(values) => backend::data_row(out, values.iter().copied()),
            Answer::Notice(notice) => notice.put(out, b'N'),
            Answer::Parameter { name, value } => backend::parameter_status(out, name, value),
            Answer::CopyIn { format, columns } => backend::copy_response(out, b'G', format, columns),
            Answer::CopyOut { format, columns } => backend::copy_response(out, b'H', format, columns),
            Answer::CopyData(data) => put::copy_data(out, data),
            Answer::CopyDone => put::copy_done(out),
        }
    }
}

/// What a client sends during COPY FROM STDIN.
pub enum CopyInput {
    Data(Bytes),
    Done,
    /// It gives up, and says why.
    Fail(String),
}

/// Who gets an answer, and sends COPY data: the session's client, or one that catches.
pub trait Client: Send {
    /// Takes a piece of the answer; sent by `relieve` and `flush`.
    fn tell(&mut self, answer: Answer<'_>);

    /// Bytes that wait to be sent.
    fn waiting(&self) -> usize;

    /// What is [`Sent`](Answer::Sent) may be pieces of a message.
    fn takes_pieces(&self) -> bool {
        false
    }

    /// Sends everything and waits until the client has taken it.
    fn flush(&mut self) -> impl Future<Output = Result<()>> + Send;

    /// What comes next of a COPY from the client.
    fn copy_input(&mut self) -> impl Future<Output = Result<CopyInput>> + Send;

    /// The job in whose course the statement runs.
    fn job(&self) -> Option<i64> {
        None
    }

    /// The statement waits in the router from now on: [`cancelled`](Self::cancelled) will be looked at.
    fn waits(&mut self) {}

    /// Waits until the client cancels the statement.
    fn cancelled(&mut self) -> impl Future<Output = ()> + Send + use<Self> {
        std::future::pending()
    }

    /// Cancels the statement as its client would, again and again: one cancel may find it between two steps.
    fn cancels(&mut self) -> impl Future<Output = Infallible> + Send + use<Self> {
        std::future::pending()
    }

    /// Since when the statement runs, where nobody knows yet when its time is over.
    fn unlimited_since(&self) -> Option<Instant> {
        None
    }

    /// When the statement's time is over (`None`: it has no limit): what runs then is cancelled.
    fn end_at(&mut self, _end: Option<Instant>) {}

    /// The statement runs on this connection from now on: a cancel must reach it.
    fn started(&mut self, _key: CancelKey) {}

    /// Connections are about to be given back: waits for cancels on their way to them. False: one may still arrive.
    fn settled(&mut self) -> impl Future<Output = bool> + Send {
        async { true }
    }

    /// One connection is about to be given back, and the statement goes on with others: waits for cancels on their way to it. False: one may
    /// still arrive.
    fn given_back(&mut self, _key: &CancelKey) -> impl Future<Output = bool> + Send {
        async { true }
    }

    /// Whether the statement was cancelled to break a deadlock: what it did in it is undone, and it goes on.
    fn survives_deadlock(&mut self) -> impl Future<Output = bool> + Send {
        async { false }
    }

    /// Backpressure: sends once enough has gathered.
    fn relieve(&mut self) -> impl Future<Output = Result<()>> + Send {
        async { if self.waiting() > PENDING_MAX { self.flush().await } else { Ok(()) } }
    }
}

/// Passes a node's ParameterStatus on.
pub fn tell_parameter(client: &mut impl Client, report: &Frame) {
    if let Ok((name, value)) = backend::parse_parameter_status(report.body()) {
        client.tell(Answer::Parameter { name, value });
    }
}

/// What the client's statement has said on a node besides its rows.
pub fn tell_said(tell: &mut dyn FnMut(Answer<'_>), lane: &mut Lane) {
    if lane.said.is_empty() {
        return;
    }
    let (messages, left_out) = lane.said.take();
    tell(Answer::Sent(&messages));
    if left_out > 0 {
        let warning = format!("{left_out} more messages of this statement were left out");
        let hint = "They came faster than they could be told: see client_min_messages.";
        tell(Answer::Notice(&ErrorFields::with_severity("WARNING", sqlstate::WARNING, warning).hint(hint)));
    }
}

/// No client: what is told it is for nobody.
pub struct Nobody;

impl Client for Nobody {
    fn tell(&mut self, _: Answer<'_>) {}

    fn waiting(&self) -> usize {
        0
    }

    async fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    async fn copy_input(&mut self) -> Result<CopyInput> {
        Err(ExecError::internal("COPY FROM STDIN of nobody"))
    }
}

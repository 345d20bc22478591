//! One lane that takes COPY data, and the text format's lines. It does not know where rows belong.

use std::pin::pin;
use std::task::Poll;

use bytes::BufMut;
use pool::Progress;
use txn::Participant;
use wire::{ErrorFields, backend};

use crate::client::{Client, tell_said};
use crate::error::{ExecError, Result};
use crate::work::rows;

/// Writes what waits for a node, while watching for an error it raises meanwhile.
pub async fn push(p: &mut Participant) -> Result<()> {
    loop {
        match p.lane.conn.flush_or_fill().await? {
            Progress::Flushed => return Ok(()),
            Progress::Filled => {
                if let Some(error) = error_said(p).await? {
                    return Err(error);
                }
            }
        }
    }
}

/// Sends what waits for a node and waits until it says something, which is in the read buffer then. Cancel-safe.
pub async fn said(conn: &mut pool::Conn) -> Result<()> {
    if conn.flush_or_fill().await? == Progress::Flushed {
        conn.fill().await?;
    }
    Ok(())
}

/// The same of any of several nodes; which one.
pub async fn any_said(lanes: &mut [Participant]) -> Result<usize> {
    std::future::poll_fn(|cx| {
        for (at, p) in lanes.iter_mut().enumerate() {
            // Nothing is kept between polls: a new future each time will do.
            if let Poll::Ready(done) = pin!(said(&mut p.lane.conn)).poll(cx) {
                return Poll::Ready(done.map(|()| at));
            }
        }
        Poll::Pending
    })
    .await
}

/// The error among what a node in COPY has said, if there is one; its connection is ready for the next statement.
pub async fn error_said(p: &mut Participant) -> Result<Option<ExecError>> {
    while let Some(frame) = p.lane.conn.buffered_frame()? {
        if frame.tag() == b'N' {
            p.lane.said.hear(&frame);
        }
        if frame.tag() == b'E' {
            // The node has stopped reading COPY data: what waits is thrown away by it.
            p.lane.conn.flush().await?;
            return Ok(Some(rows::after_error(&mut p.lane, &frame).await));
        }
    }
    Ok(None)
}

/// Reads the end of a COPY; the rows it counted. What the node says besides is told at once: it may be much.
pub async fn end_copy(p: &mut Participant, forgive: bool, client: &mut impl Client) -> Result<u64> {
    p.lane.conn.flush().await?;
    let mut count = 0;
    let mut error: Option<ErrorFields> = None;
    loop {
        let frame = p.lane.next().await?;
        match frame.tag() {
            b'C' => count = backend::rows_of_tag(backend::parse_command_complete(frame.body())?),
            b'E' => error = Some(ErrorFields::parse(frame.body())?),
            b'N' => {
                p.lane.said.hear(&frame);
                tell_said(&mut |said| client.tell(said), &mut p.lane);
                client.relieve().await?;
            }
            b'Z' => break,
            _ => {}
        }
    }
    match error {
        Some(e) if !forgive => Err(ExecError::Sql(Box::new(e))),
        _ => Ok(count),
    }
}

/// One line of COPY's text format.
pub fn copy_line(values: &[Option<&[u8]>], line: &mut Vec<u8>) {
    for (i, value) in values.iter().enumerate() {
        if i > 0 {
            line.push(b'\t');
        }
        copy_value(*value, line);
    }
    line.push(b'\n');
}

/// One value of COPY's text format.
pub fn copy_value(value: Option<&[u8]>, out: &mut impl BufMut) {
    let Some(mut rest) = value else { return out.put_slice(b"\\N") };
    while let Some(at) = rest.iter().position(|b| matches!(b, b'\\' | b'\n' | b'\r' | b'\t')) {
        out.put_slice(&rest[..at]);
        out.put_slice(match rest[at] {
            b'\\' => b"\\\\",
            b'\n' => b"\\n",
            b'\r' => b"\\r",
            _ => b"\\t",
        });
        rest = &rest[at + 1..];
    }
    out.put_slice(rest);
}

//! One lane that takes COPY data, and the text format's lines. It does not know where rows belong.

use bytes::BufMut;
use pool::Progress;
use txn::Participant;
use wire::{ErrorFields, backend};

use crate::error::{ExecError, Result};
use crate::rows;

/// Writes what waits for a node, while watching for an error it raises meanwhile.
pub async fn push(p: &mut Participant) -> Result<()> {
    loop {
        match p.lane.conn.flush_or_fill().await? {
            Progress::Flushed => return Ok(()),
            Progress::Filled => {
                if let Some(frame) = p.lane.conn.buffered_frame()?
                    && frame.tag() == b'E'
                {
                    // The node has stopped reading COPY data: what waits is thrown away by it.
                    p.lane.conn.flush().await?;
                    return Err(rows::after_error(&mut p.lane, &frame).await);
                }
            }
        }
    }
}

/// Reads the end of a COPY; the rows it counted.
pub async fn end_copy(p: &mut Participant, forgive: bool) -> Result<u64> {
    p.lane.conn.flush().await?;
    let mut count = 0;
    let mut error: Option<ErrorFields> = None;
    loop {
        let frame = p.lane.next().await?;
        match frame.tag() {
            b'C' => count = backend::rows_of_tag(backend::parse_command_complete(frame.body())?),
            b'E' => error = Some(ErrorFields::parse(frame.body())?),
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

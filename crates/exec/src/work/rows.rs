//! Rows of a query on one lane, pulled one by one: nothing is read ahead beyond the connection's buffer.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use pool::{PoolError, StatementKey};
use txn::{Lane, Look};
use wire::backend;
use wire::{ErrorFields, Frame, put};

use crate::error::{ExecError, Result};
use crate::render::NodeStatement;
use crate::work::answered;

/// Sends a query by the extended protocol, without waiting. `keep`: the node keeps the statement, and perhaps its plan,
/// for the next time the same text comes under the same mark (settings, epoch of the catalog).
pub fn send(
    lane: &mut Lane,
    keep: Option<&str>,
    sql: &str,
    types: &[u32],
    formats: &[i16],
    values: &[Option<Bytes>],
    result_formats: &[i16],
) {
    lane.columns = None;
    let name = keep.map(|mark| lane.conn.prepare(StatementKey::of(&format!("{mark} {sql}"), types), sql, types).0);
    let look = lane.look.take();
    let out = lane.conn.out();
    let name = match &name {
        Some(name) => name,
        None => {
            put::parse(out, "", sql, types);
            ""
        }
    };
    put::bind(out, "", name, formats, values.iter().map(|v| v.as_deref()), result_formats);
    put::describe(out, b'P', "");
    put::execute(out, "", 0);
    match look {
        Some(look) if keep.is_some() => put_kept_look(lane, &look),
        look => put_look(out, look),
    }
    put::sync(lane.conn.out());
    lane.conn.sent_sync();
}

/// As [`send`], of a plan's statement. `foreign`: the lane's node is not home.
pub fn send_statement(
    lane: &mut Lane,
    keep: Option<&str>,
    statement: &NodeStatement,
    foreign: bool,
    result_formats: &[i16],
) {
    let types = statement.types_on(foreign);
    send(lane, keep, &statement.sql, &types, &statement.formats, &statement.values, result_formats);
    lane.columns = statement.columns.clone();
}

/// What is only read, not run, is read in the same transaction, and answered by nothing a reader of replies heeds but an error.
pub fn put_look(out: &mut BytesMut, look: Option<Arc<Look>>) {
    if let Some(look) = look {
        put::parse(out, "", &look.sql, &[]);
    }
}

/// The same of a look that comes again, behind a statement whose reader heeds no descriptions: before a node describes what it
/// keeps prepared it locks the tables, and parses it anew if they have changed. That costs it a fraction of a Parse.
fn put_kept_look(lane: &mut Lane, look: &Look) {
    let (name, parsed) = lane.conn.prepare(look.key, &look.sql, &[]);
    if !parsed {
        put::describe(lane.conn.out(), b'S', &name);
    }
}

/// Executes a portal that was bound before, without waiting, and closes it.
pub fn send_opened(lane: &mut Lane, portal: &str) {
    let look = lane.look.take();
    let out = lane.conn.out();
    put::describe(out, b'P', portal);
    put::execute(out, portal, 0);
    put::close(out, b'P', portal);
    put_look(out, look);
    put::sync(out);
    lane.conn.sent_sync();
}

/// What a lane says next of its query.
pub enum Reply {
    Row(Frame),
    /// It is among what the lane has said.
    Notice,
    Complete(String),
    Done,
}

/// The next thing of interest. An error is returned after its ReadyForQuery was read, so the lane can be used again.
pub async fn next(lane: &mut Lane) -> Result<Reply> {
    loop {
        let frame = lane.next().await?;
        match frame.tag() {
            b'D' => {
                answered::row(lane.node, frame.raw.len());
                return Ok(Reply::Row(frame));
            }
            b'C' => return Ok(Reply::Complete(backend::parse_command_complete(frame.body())?.to_string())),
            b'Z' => {
                answered::ended(lane.node);
                return Ok(Reply::Done);
            }
            b'E' => {
                lane.columns = None;
                return Err(after_error(lane, &frame).await);
            }
            b'T' if let Some(columns) = lane.columns.take() => {
                let fields = backend::parse_row_description(frame.body())?;
                let alike = |(own, told): (&u32, &backend::Field)| *own == 0 || *own == told.type_oid;
                if columns.len() != fields.len() || !columns.iter().zip(&fields).all(alike) {
                    Box::pin(drain(lane)).await?;
                    return Err(ExecError::Stale);
                }
            }
            b'N' => {
                lane.said.hear(&frame);
                return Ok(Reply::Notice);
            }
            _ => {}
        }
    }
}

/// The next row, if that is what comes next and it is here already: nothing is waited for.
pub fn row_here(lane: &mut Lane) -> Result<Option<Frame>> {
    if !lane.is_settled() || lane.conn.rbuf().first() != Some(&b'D') {
        return Ok(None);
    }
    let frame = lane.conn.buffered_frame()?;
    frame.iter().for_each(|row| answered::row(lane.node, row.raw.len()));
    Ok(frame)
}

/// Reads on to ReadyForQuery after an error; the error is returned.
pub async fn after_error(lane: &mut Lane, frame: &Frame) -> crate::error::ExecError {
    let fields = match ErrorFields::parse(frame.body()) {
        Ok(f) => f,
        Err(e) => return e.into(),
    };
    if !fields.is_fatal() {
        loop {
            match lane.conn.frame().await {
                Ok(f) if f.tag() == b'Z' => break,
                Ok(_) => {}
                Err(e) => return e.into(),
            }
        }
    }
    PoolError::Server(Box::new(fields)).into()
}

/// Reads what is left of a query that is no longer wanted.
pub async fn drain(lane: &mut Lane) -> Result<()> {
    loop {
        if let Reply::Done = next(lane).await? {
            return Ok(());
        }
    }
}

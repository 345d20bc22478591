//! An execution of an INSERT of rows, as rows for a queue (`router/row_queue.rs`): its values as PostgreSQL's COPY reads them.
//!
//! Values it is not sure of stay away: such a statement runs by itself. Which statements come here at all is decided
//! in `plan::share_rows`.

use std::borrow::Cow;
use wire::{sqlstate, type_oid};

use bytes::BytesMut;
use plan::{Cell, LiteralKind, ShareRows};
use share::Outcome;

use crate::binary_text::text_of;
use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::request::{Literals, Request};
use crate::route::Forwarded;
use crate::router::compiled::Compiled;
use crate::router::row_queue::{Entered, QueuedRows, Row, Turn};
use crate::share::{Way, batch, is_plain_number, is_zero};
use crate::work::Work;
use crate::work::copy_lane::copy_value;

pub type RowWay = Way<Turn>;

impl<C: Client> Work<'_, C> {
    /// Tries to send the statement's rows together with those of others.
    pub async fn share_rows(&mut self, compiled: &Compiled, request: &Request<'_>, two_phase: bool) -> Result<RowWay> {
        let Some(share) = compiled.plan.share_rows() else { return Ok(Way::Apart) };
        let free = !self.transaction.is_active() && self.pin.is_free() && !self.own_catalog && !self.taint;
        // An upsert replaces rows: COPY can't.
        if !free || !two_phase || self.bulk.upsert || !self.sharing.as_ref().is_some_and(|s| s.writes) {
            return Ok(Way::Apart);
        }
        let types = match request.bound {
            Some(bound) => match self.described(compiled, &bound.types).await {
                Ok(described) => described.params.clone(),
                Err(_) => return Ok(Way::Apart),
            },
            None => vec![],
        };
        let queue = self.herd.rows.queue(self.herd, self.epoch, share, self.login, self.settings, batch::start);
        let now = &self.now;
        let make = || compiled.rows_of(share, request, &types, now);
        match queue.enter(make) {
            None => Ok(Way::Apart),
            Some(Entered::Alone(turn)) => Ok(Way::Ahead(turn)),
            Some(Entered::Waits(number, mut outcome)) => {
                let outcome = tokio::select! {
                    biased;
                    outcome = &mut outcome => outcome,
                    () = self.client.cancelled() => {
                        if queue.withdraw(number) {
                            return Err(ExecError::cancelled());
                        }
                        outcome.await
                    }
                };
                match outcome {
                    Ok(Outcome::Done(reply)) => {
                        if let Some(own) = &mut self.sequences {
                            let value = |v: &'_ bytes::Bytes| String::from_utf8_lossy(v).into_owned();
                            queue.sequences().zip(&reply.messages).for_each(|((oid, _), v)| own.took(oid, &value(v)));
                        }
                        Ok(Way::Done(Forwarded { tag: reply.tag, ..Default::default() }))
                    }
                    Ok(Outcome::Rerun) => self.sent_away().await,
                    Ok(Outcome::Withdrawn) => Err(ExecError::cancelled()),
                    Ok(Outcome::Lost(e)) => Err(unknown(e)),
                    Err(_) => Err(ExecError::sql(
                        sqlstate::TRANSACTION_RESOLUTION_UNKNOWN,
                        "the outcome of the statement is not known: the router gave it up",
                    )),
                }
            }
        }
    }
}

fn unknown(e: pool::PoolError) -> ExecError {
    ExecError::sql(sqlstate::TRANSACTION_RESOLUTION_UNKNOWN, format!("the outcome of the statement is not known: {e}"))
}

impl Compiled {
    /// The rows of this execution; `None`: it must run by itself.
    fn rows_of(&self, share: &ShareRows, request: &Request<'_>, types: &[u32], now: &str) -> Option<QueuedRows> {
        let relation = &share.relation;
        let key_columns: &[usize] = relation.distribution().map_or(&[], |d| &d.key);
        let mut literals = match request.literals {
            Literals::Template(_) => self.row_literals.as_deref()?.iter(),
            Literals::Own => [].iter(),
        };
        let (mut data, mut keys) = (BytesMut::with_capacity(request.sql.len()), BytesMut::new());
        let mut rows = Vec::with_capacity(share.rows.len());
        for cells in &share.rows {
            let begin = data.len();
            let mut row_keys = vec![None; key_columns.len()];
            for (i, (cell, column)) in cells.iter().zip(&share.columns).enumerate() {
                if i > 0 {
                    data.extend_from_slice(b"\t");
                }
                let ty = relation.columns[*column].type_oid;
                let value: Option<Cow<'_, [u8]>> = match cell {
                    Cell::Null => None,
                    Cell::Now => Some(Cow::Borrowed(now.as_bytes())),
                    Cell::Fixed(text) => Some(Cow::Borrowed(text.as_bytes())),
                    Cell::Param(n) => param(request, types, *n, ty)?,
                    Cell::Literal { text, kind, .. } => {
                        let text = match request.literals {
                            Literals::Own => Cow::Borrowed(text.as_str()),
                            Literals::Template(t) => {
                                let (index, negative) = *literals.next()?;
                                let value = t.literal_value(request.sql, index).ok()?;
                                match (kind, negative) {
                                    (_, false) => value,
                                    (LiteralKind::Number, true) => Cow::Owned(format!("-{value}")),
                                    (LiteralKind::String, true) => return None,
                                }
                            }
                        };
                        if *kind == LiteralKind::Number {
                            let digits = text.strip_prefix('-').unwrap_or(&text);
                            let zero = digits.len() < text.len() && is_zero(digits);
                            if zero || !is_plain_number(digits, ty) {
                                return None;
                            }
                        }
                        Some(match text {
                            Cow::Borrowed(t) => Cow::Borrowed(t.as_bytes()),
                            Cow::Owned(t) => Cow::Owned(t.into_bytes()),
                        })
                    }
                };
                if value.as_deref().is_some_and(|v| reads_clock(ty, v)) {
                    return None;
                }
                if let Some(value) = &value
                    && let Some(at) = key_columns.iter().position(|k| k == column)
                {
                    let begin = keys.len();
                    keys.extend_from_slice(value);
                    row_keys[at] = Some(begin..keys.len());
                }
                copy_value(value.as_deref(), &mut data);
            }
            rows.push(Row { data: begin..data.len(), keys: row_keys });
        }
        Some(QueuedRows { data: data.freeze(), keys: keys.freeze(), rows })
    }
}

/// Such as 'now' or 'tomorrow': each node would read it at a moment of its own.
fn reads_clock(ty: u32, value: &[u8]) -> bool {
    use type_oid::{DATE, TIME, TIMESTAMP, TIMESTAMPTZ};
    let names = |word: &[u8]| value.windows(word.len()).any(|w| w.eq_ignore_ascii_case(word));
    matches!(ty, DATE | TIME | TIMESTAMP | TIMESTAMPTZ)
        && [&b"now"[..], b"today", b"tomorrow", b"yesterday"].into_iter().any(names)
}

/// A parameter's value as text, if assigning it is the same as reading its text as the column's type.
fn param<'r>(request: &'r Request<'_>, types: &[u32], n: usize, column: u32) -> Option<Option<Cow<'r, [u8]>>> {
    let bound = request.bound?;
    let ty = *types.get(n - 1)?;
    let same = ty == column
        || (type_oid::is_integer(ty) && type_oid::is_integer(column))
        || (type_oid::is_text(ty) && type_oid::is_text(column));
    let value = bound.values.get(n - 1)?;
    match value {
        _ if !same => None,
        None => Some(None),
        Some(v) if bound.format(n - 1) == 0 => Some(Some(Cow::Borrowed(v))),
        Some(v) => text_of(ty, v).map(Some),
    }
}

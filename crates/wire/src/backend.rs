//! Messages of a server: written to clients by the router, read from nodes by it.

use bytes::{BufMut, BytesMut};

use crate::error::Result;
use crate::frame::Reader;
use crate::put::{cstr, message, value};
use crate::type_oid;

/// One column of a RowDescription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    pub name: String,
    pub table_oid: u32,
    pub column: i16,
    pub type_oid: u32,
    pub type_len: i16,
    pub typmod: i32,
    pub format: i16,
}

impl Field {
    /// Its type is one of users' own, which has another object id on each server.
    pub fn is_of_users(&self) -> bool {
        self.type_oid >= crate::type_oid::FIRST_NORMAL_OBJECT_ID
    }

    /// A column that comes from no table.
    pub fn new(name: &str, type_oid: u32, type_len: i16) -> Self {
        Field { name: name.into(), table_oid: 0, column: 0, type_oid, type_len, typmod: -1, format: 0 }
    }

    /// A column of type `text` that comes from no table.
    pub fn text(name: &str) -> Self {
        Field::new(name, 25, -1)
    }
}

/// Stands for the types of columns as [`are_alike`] compares them; never 0.
pub fn mark_of(columns: &[Field]) -> u64 {
    let own = type_oid::FIRST_NORMAL_OBJECT_ID;
    let types = columns.iter().map(|f| u64::from(f.type_oid.min(own)));
    types.fold(columns.len() as u64 + 1, |mark, oid| (mark.rotate_left(9) ^ oid).wrapping_mul(0x9e37_79b9_7f4a_7c15))
        | 1
}

/// Whether the node whose columns are `now` has those that a client was `told` of by another. Types of nodes' own have other numbers there.
pub fn are_alike(told: &[Field], now: &[Field]) -> bool {
    let is_own = |f: &Field| f.type_oid >= type_oid::FIRST_NORMAL_OBJECT_ID;
    let alike = |(a, b): (&Field, &Field)| a.type_oid == b.type_oid || is_own(a) || is_own(b);
    told.len() == now.len() && told.iter().zip(now).all(alike)
}

pub const IDLE: u8 = b'I';
pub const IN_TRANSACTION: u8 = b'T';
pub const FAILED: u8 = b'E';

/// AuthenticationOk: nothing more is asked of the client.
pub fn auth_ok(buf: &mut BytesMut) {
    message(buf, b'R', |b| b.put_i32(0));
}

/// AuthenticationSASL, SASLContinue (11) and SASLFinal (12).
pub fn auth_sasl(buf: &mut BytesMut, mechanisms: &[&str]) {
    message(buf, b'R', |b| {
        b.put_i32(10);
        mechanisms.iter().for_each(|m| cstr(b, m));
        b.put_u8(0);
    });
}

/// `kind`: 11 while the exchange goes on, 12 with its last message.
pub fn auth_sasl_data(buf: &mut BytesMut, kind: i32, data: &[u8]) {
    message(buf, b'R', |b| {
        b.put_i32(kind);
        b.put_slice(data);
    });
}

/// The newest minor version that is spoken, and the parameters that are not known.
pub fn negotiate_protocol(buf: &mut BytesMut, newest_minor: u32, unknown: &[&str]) {
    message(buf, b'v', |b| {
        b.put_u32(newest_minor);
        b.put_u32(unknown.len() as u32);
        unknown.iter().for_each(|o| cstr(b, o));
    });
}

/// ParameterStatus: what a setting is from now on; neither text may have a zero byte.
pub fn parameter_status(buf: &mut BytesMut, name: &str, text: &str) {
    message(buf, b'S', |b| {
        cstr(b, name);
        cstr(b, text);
    });
}

/// BackendKeyData: what the client has to send to cancel its statements.
pub fn backend_key_data(buf: &mut BytesMut, pid: i32, secret: &[u8]) {
    message(buf, b'K', |b| {
        b.put_i32(pid);
        b.put_slice(secret);
    });
}

/// ReadyForQuery; `status` is `I` (idle), `T` (in a transaction) or `E` (in a failed one).
pub fn ready(buf: &mut BytesMut, status: u8) {
    message(buf, b'Z', |b| b.put_u8(status));
}

/// Answers a Parse.
pub fn parse_complete(buf: &mut BytesMut) {
    message(buf, b'1', |_| {});
}

/// Answers a Bind.
pub fn bind_complete(buf: &mut BytesMut) {
    message(buf, b'2', |_| {});
}

/// Answers a Close, also of what was not there.
pub fn close_complete(buf: &mut BytesMut) {
    message(buf, b'3', |_| {});
}

/// Answers a Describe, in place of a RowDescription, where there are no rows.
pub fn no_data(buf: &mut BytesMut) {
    message(buf, b'n', |_| {});
}

/// In place of a CommandComplete where there is no statement.
pub fn empty_query(buf: &mut BytesMut) {
    message(buf, b'I', |_| {});
}

/// Ends the rows of an Execute that has reached its limit; the portal may have more.
pub fn portal_suspended(buf: &mut BytesMut) {
    message(buf, b's', |_| {});
}

/// `tag` as PostgreSQL writes it: `INSERT 0 1`.
pub fn command_complete(buf: &mut BytesMut, tag: &str) {
    message(buf, b'C', |b| cstr(b, tag));
}

/// The type oids of a prepared statement's parameters, in order.
pub fn parameter_description(buf: &mut BytesMut, types: &[u32]) {
    message(buf, b't', |b| {
        b.put_u16(types.len() as u16);
        types.iter().for_each(|t| b.put_u32(*t));
    });
}

/// What the columns of the rows to come are.
pub fn row_description(buf: &mut BytesMut, fields: &[Field]) {
    message(buf, b'T', |b| {
        b.put_u16(fields.len() as u16);
        for f in fields {
            cstr(b, &f.name);
            b.put_u32(f.table_oid);
            b.put_i16(f.column);
            b.put_u32(f.type_oid);
            b.put_i16(f.type_len);
            b.put_i32(f.typmod);
            b.put_i16(f.format);
        }
    });
}

/// `None` is NULL.
pub fn data_row<'a>(buf: &mut BytesMut, values: impl ExactSizeIterator<Item = Option<&'a [u8]>>) {
    message(buf, b'D', |b| {
        b.put_u16(values.len() as u16);
        values.for_each(|v| value(b, v));
    });
}

/// CopyInResponse (`b'G'`) or CopyOutResponse (`b'H'`).
pub fn copy_response(buf: &mut BytesMut, tag: u8, format: i8, columns: usize) {
    message(buf, tag, |b| {
        b.put_i8(format);
        b.put_u16(columns as u16);
        (0..columns).for_each(|_| b.put_i16(format as i16));
    });
}

/// The columns, in order; `Err`: the message is malformed.
pub fn parse_row_description(body: &[u8]) -> Result<Vec<Field>> {
    let mut r = Reader::new(body);
    let n = r.count(19)?;
    let fields = (0..n)
        .map(|_| {
            Ok(Field {
                name: r.cstr()?.to_string(),
                table_oid: r.u32()?,
                column: r.i16()?,
                type_oid: r.u32()?,
                type_len: r.i16()?,
                typmod: r.i32()?,
                format: r.i16()?,
            })
        })
        .collect::<Result<_>>()?;
    r.end()?;
    Ok(fields)
}

/// The type oids of the parameters, in order; `Err`: the message is malformed.
pub fn parse_parameter_description(body: &[u8]) -> Result<Vec<u32>> {
    let mut r = Reader::new(body);
    let n = r.count(4)?;
    let types = (0..n).map(|_| r.u32()).collect::<Result<_>>()?;
    r.end()?;
    Ok(types)
}

/// The values of a DataRow, in order.
pub fn parse_data_row(body: &[u8]) -> Result<Vec<Option<&[u8]>>> {
    let mut r = Reader::new(body);
    let n = r.count(4)?;
    let values = (0..n).map(|_| r.value()).collect::<Result<_>>()?;
    r.end()?;
    Ok(values)
}

/// The command tag; `Err`: the message is malformed.
pub fn parse_command_complete(body: &[u8]) -> Result<&str> {
    let mut r = Reader::new(body);
    let tag = r.cstr()?;
    r.end()?;
    Ok(tag)
}

/// A setting's name and what it is now; `Err`: the message is malformed.
pub fn parse_parameter_status(body: &[u8]) -> Result<(&str, &str)> {
    let mut r = Reader::new(body);
    let pair = (r.cstr()?, r.cstr()?);
    r.end()?;
    Ok(pair)
}

/// Process id and secret; the secret is whatever is behind the id, of any length.
pub fn parse_backend_key_data(body: &[u8]) -> Result<(i32, Vec<u8>)> {
    let mut r = Reader::new(body);
    Ok((r.i32()?, r.bytes(r.remaining())?.to_vec()))
}

/// The rows a command tag counts (`INSERT 0 5`, `SELECT 3`), 0 where it counts none.
pub fn rows_of_tag(tag: &str) -> u64 {
    let digits = tag.bytes().rev().take_while(u8::is_ascii_digit).count();
    tag[tag.len() - digits..].parse().unwrap_or(0)
}

//! Messages to a node, written into a buffer. Also the few that both sides write (COPY data).

use bytes::{BufMut, BytesMut};

/// Writes one message: type, length, then what `body` writes.
pub fn message(buf: &mut BytesMut, tag: u8, body: impl FnOnce(&mut BytesMut)) {
    buf.put_u8(tag);
    let at = buf.len();
    buf.put_u32(0);
    body(buf);
    let len = (buf.len() - at) as u32;
    buf[at..at + 4].copy_from_slice(&len.to_be_bytes());
}

/// A text and the zero byte behind it; the text must have none.
pub fn cstr(buf: &mut BytesMut, text: &str) {
    buf.put_slice(text.as_bytes());
    buf.put_u8(0);
}

/// A length of 4 bytes and the value; −1 stands for NULL.
pub fn value(buf: &mut BytesMut, value: Option<&[u8]>) {
    match value {
        Some(v) => {
            buf.put_i32(v.len() as i32);
            buf.put_slice(v);
        }
        None => buf.put_i32(-1),
    }
}

/// Query: the node answers it with ReadyForQuery, without a Sync.
pub fn query(buf: &mut BytesMut, sql: &str) {
    message(buf, b'Q', |b| cstr(b, sql));
}

/// `types`: oids of the first parameters; those that are left out or 0 are inferred.
pub fn parse(buf: &mut BytesMut, name: &str, sql: &str, types: &[u32]) {
    message(buf, b'P', |b| {
        cstr(b, name);
        cstr(b, sql);
        b.put_u16(types.len() as u16);
        types.iter().for_each(|t| b.put_u32(*t));
    });
}

/// A Bind whose formats, values and result formats are forwarded as a client sent them.
pub fn bind_tail(buf: &mut BytesMut, portal: &str, statement: &str, tail: &[u8]) {
    message(buf, b'B', |b| {
        cstr(b, portal);
        cstr(b, statement);
        b.put_slice(tail);
    });
}

/// Formats are none (all text), one (for all) or one each, for values and for results.
pub fn bind<'a>(
    buf: &mut BytesMut,
    portal: &str,
    statement: &str,
    formats: &[i16],
    values: impl ExactSizeIterator<Item = Option<&'a [u8]>>,
    result_formats: &[i16],
) {
    message(buf, b'B', |b| {
        cstr(b, portal);
        cstr(b, statement);
        b.put_u16(formats.len() as u16);
        formats.iter().for_each(|f| b.put_i16(*f));
        b.put_u16(values.len() as u16);
        values.for_each(|v| value(b, v));
        b.put_u16(result_formats.len() as u16);
        result_formats.iter().for_each(|f| b.put_i16(*f));
    });
}

/// `kind` is `b'S'` for a statement, `b'P'` for a portal.
pub fn describe(buf: &mut BytesMut, kind: u8, name: &str) {
    named(buf, b'D', kind, name);
}

/// `kind` is `b'S'` for a statement, `b'P'` for a portal.
pub fn close(buf: &mut BytesMut, kind: u8, name: &str) {
    named(buf, b'C', kind, name);
}

fn named(buf: &mut BytesMut, tag: u8, kind: u8, name: &str) {
    message(buf, tag, |b| {
        b.put_u8(kind);
        cstr(b, name);
    });
}

/// `rows_max`: 0 is all of them.
pub fn execute(buf: &mut BytesMut, portal: &str, rows_max: i32) {
    message(buf, b'E', |b| {
        cstr(b, portal);
        b.put_i32(rows_max);
    });
}

/// Ends a pipeline: the node answers with ReadyForQuery, and commits what is in no block.
pub fn sync(buf: &mut BytesMut) {
    message(buf, b'S', |_| {});
}

/// Asks for the answers so far, without ending the pipeline.
pub fn flush(buf: &mut BytesMut) {
    message(buf, b'H', |_| {});
}

/// Ends the session; there is no answer.
pub fn terminate(buf: &mut BytesMut) {
    message(buf, b'X', |_| {});
}

/// A piece of COPY data; it need not end where a row does.
pub fn copy_data(buf: &mut BytesMut, data: &[u8]) {
    message(buf, b'd', |b| b.put_slice(data));
}

/// Ends COPY data from a client or a node; all of it has been sent.
pub fn copy_done(buf: &mut BytesMut) {
    message(buf, b'c', |_| {});
}

/// Ends COPY data and makes the COPY fail; `reason` becomes part of the error.
pub fn copy_fail(buf: &mut BytesMut, reason: &str) {
    message(buf, b'f', |b| cstr(b, reason));
}

/// PasswordMessage, SASLInitialResponse and SASLResponse share the type 'p'.
pub fn password(buf: &mut BytesMut, body: &[u8]) {
    message(buf, b'p', |b| b.put_slice(body));
}

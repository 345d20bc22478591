//! Messages of a client that speaks another character set than UTF8: its texts become UTF-8 on their way in, and are what the client reads on
//! their way out. Values in binary format are texts, or have none in them, or are refused ([`how`]): parameters and portals where they are bound
//! (`extended/bind.rs`), COPY where it begins (`statement/copy.rs`). It does not know when messages are sent.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use exec::ExecError;
use wire::frame::{HEADER_LEN, NODE_MAX, Reader};
use wire::{ErrorFields, Frame, WireError, frame, sqlstate};

use crate::encoding::{Encoding, Untranslatable, Wrong};

/// The character set, and what stands between messages.
pub struct Spoken {
    pub encoding: Arc<Encoding>,
    /// COPY data is in the character set that its statement has named.
    copy_as_it_is: bool,
    /// Of the rows to come; text where nothing is said.
    pub columns: Vec<How>,
    /// The first bytes of a character whose others come with the next COPY data.
    cut: Vec<u8>,
    /// What is first wrong in what the client has sent.
    wrong: Option<Wrong>,
}

/// How a value goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Text,
    AsItIs,
}

/// How values of a type go in a format; `None`: there may be text in them, and where is not known here.
pub fn how(type_oid: u32, format: i16) -> Option<How> {
    use wire::type_oid::*;
    match (format, type_oid) {
        (0, _) | (_, TEXT | VARCHAR | BPCHAR | NAME | UNKNOWN | JSON | XML) => Some(How::Text),
        (
            _,
            BOOL | BYTEA | INT8 | INT2 | INT4 | OID | FLOAT4 | FLOAT8 | NUMERIC | DATE | TIME | TIMETZ | TIMESTAMP
            | TIMESTAMPTZ | INTERVAL | UUID,
        ) => Some(How::AsItIs),
        _ => None,
    }
}

/// Why a message can't be told.
enum Refused {
    Character(Untranslatable),
    Binary,
    Malformed,
}

type Put = Result<(), Refused>;

impl From<Untranslatable> for Refused {
    fn from(c: Untranslatable) -> Self {
        Refused::Character(c)
    }
}

impl From<WireError> for Refused {
    fn from(_: WireError) -> Self {
        Refused::Malformed
    }
}

impl Spoken {
    /// Between messages.
    pub fn new(encoding: Arc<Encoding>) -> Self {
        Spoken { encoding, copy_as_it_is: false, columns: vec![], cut: vec![], wrong: None }
    }

    /// A message of the client's, its texts as UTF-8. What is no character becomes a byte that no UTF-8 has, and is refused where it is read.
    pub fn heard(&mut self, frame: Frame) -> Frame {
        // What is wrong in the data of a COPY is told when it has ended.
        if !matches!(frame.tag(), b'Q' | b'P' | b'B' | b'D' | b'C' | b'E' | b'f') {
            return frame;
        }
        self.wrong = None;
        if frame.body().is_ascii() {
            return frame;
        }
        let mut body = Vec::with_capacity(frame.raw.len() * 3 / 2);
        // One that is cut short stays as it is: whoever reads it says so.
        match self.hear(frame.tag(), frame.body(), &mut body) {
            Ok(()) => of(frame.tag(), &body),
            Err(_) => frame,
        }
    }

    fn hear(&mut self, tag: u8, body: &[u8], out: &mut Vec<u8>) -> Result<(), WireError> {
        let mut reader = Reader::new(body);
        if matches!(tag, b'D' | b'C') {
            out.push(reader.u8()?);
        }
        let texts = if matches!(tag, b'P' | b'B') { 2 } else { 1 };
        for _ in 0..texts {
            self.encoding.decode_whole(reader.cstr_bytes()?, out, &mut self.wrong);
            out.push(0);
        }
        if tag == b'B' {
            let formats = (0..reader.count(2)?).map(|_| reader.i16()).collect::<Result<Vec<_>, _>>()?;
            put_count(out, formats.len());
            formats.iter().for_each(|f| put_i16(out, *f));
            let values = reader.count(4)?;
            put_count(out, values);
            for n in 0..values {
                let length = reader.i32()?;
                let Ok(length) = usize::try_from(length) else {
                    put_i32(out, length);
                    continue;
                };
                let value = reader.bytes(length)?;
                let text = formats.get(if formats.len() == 1 { 0 } else { n }).is_none_or(|f| *f == 0);
                let at = out.len();
                put_i32(out, length as i32);
                match text {
                    true => self.encoding.decode_whole(value, out, &mut self.wrong),
                    false => out.extend_from_slice(value),
                }
                let taken = (out.len() - at - 4) as i32;
                out[at..at + 4].copy_from_slice(&taken.to_be_bytes());
            }
        }
        out.extend_from_slice(reader.bytes(reader.remaining())?);
        Ok(())
    }

    /// The data of another COPY is to come, or to go.
    pub fn copy_begins(&mut self, as_it_is: bool) {
        self.copy_as_it_is = as_it_is;
        self.cut.clear();
        self.wrong = None;
    }

    /// COPY data of the client's; the last bytes may wait for the next.
    pub fn heard_copy(&mut self, data: Bytes) -> Bytes {
        if self.copy_as_it_is || self.cut.is_empty() && data.is_ascii() {
            return data;
        }
        let mut text = std::mem::take(&mut self.cut);
        text.extend_from_slice(&data);
        let mut out = Vec::with_capacity(text.len() * 3 / 2);
        let left = self.encoding.decode(&text, &mut out, &mut self.wrong);
        self.cut.extend_from_slice(&text[text.len() - left..]);
        out.into()
    }

    /// The end of COPY data: what is left of a character that was cut off.
    pub fn copy_ends(&mut self) -> Option<Bytes> {
        let cut = std::mem::take(&mut self.cut);
        let mut out = vec![];
        self.encoding.decode_whole(&cut, &mut out, &mut self.wrong);
        (!out.is_empty()).then(|| out.into())
    }

    /// Messages for the client from `from` on, in its character set. `Err`: one can't be told, and it and all behind it are gone.
    pub fn tell(&mut self, out: &mut BytesMut, from: usize) -> Result<(), ExecError> {
        let mut told = out.split_off(from);
        while let Ok(Some(frame)) = frame::take(&mut told, NODE_MAX) {
            // What columns are is looked at, whatever they are called; an error may be about what the client sent.
            let passes = match frame.tag() {
                b'T' => false,
                b'E' => frame.body().is_ascii() && self.wrong.is_none(),
                _ => frame.body().is_ascii(),
            };
            if passes {
                out.extend_from_slice(&frame.raw);
                continue;
            }
            let mut body = Vec::with_capacity(frame.raw.len());
            match self.put(frame.tag(), frame.body(), &mut body) {
                Ok(()) => out.extend_from_slice(&of(frame.tag(), &body).raw),
                Err(Refused::Character(c)) => return Err(self.encoding.no_equivalent(&c)),
                Err(Refused::Binary) => return Err(binary("rows", self.encoding.name())),
                Err(Refused::Malformed) => out.extend_from_slice(&frame.raw),
            }
        }
        out.extend_from_slice(&told);
        Ok(())
    }

    fn put(&mut self, tag: u8, body: &[u8], out: &mut Vec<u8>) -> Put {
        let mut reader = Reader::new(body);
        match tag {
            b'D' => {
                let values = reader.count(4)?;
                put_count(out, values);
                for n in 0..values {
                    let length = reader.i32()?;
                    let at = out.len();
                    put_i32(out, length);
                    if let Ok(length) = usize::try_from(length) {
                        let value = reader.bytes(length)?;
                        match self.columns.get(n) {
                            Some(How::AsItIs) => out.extend_from_slice(value),
                            _ => self.encoding.encode(value, out)?,
                        }
                        let taken = (out.len() - at - 4) as i32;
                        out[at..at + 4].copy_from_slice(&taken.to_be_bytes());
                    }
                }
            }
            b'T' => {
                let columns = reader.count(19)?;
                put_count(out, columns);
                self.columns.clear();
                for _ in 0..columns {
                    self.encoding.encode(reader.cstr_bytes()?, out)?;
                    out.push(0);
                    let rest = reader.bytes(18)?;
                    let mut about = Reader::new(&rest[6..]);
                    let type_oid = about.u32()?;
                    about.bytes(6)?;
                    self.columns.push(how(type_oid, about.i16()?).ok_or(Refused::Binary)?);
                    out.extend_from_slice(rest);
                }
            }
            b'd' if !self.copy_as_it_is => self.encoding.encode(body, out)?,
            b'E' | b'N' => {
                let mut fields = ErrorFields::parse(body)?;
                if fields.code() == sqlstate::CHARACTER_NOT_IN_REPERTOIRE
                    && let Some(wrong) = self.wrong.take()
                {
                    let (code, message) = self.encoding.wrong(&wrong);
                    fields.set(b'C', code);
                    fields.set(b'M', message);
                }
                // What is wrong is worth more than how it is spelled.
                for (code, text) in &fields.fields {
                    out.push(*code);
                    self.encoding.encode_lossily(text.as_bytes(), out);
                    out.push(0);
                }
                out.push(0);
            }
            b'S' => self.put_texts(&mut reader, out)?,
            b'A' => {
                put_i32(out, reader.i32()?);
                self.put_texts(&mut reader, out)?;
            }
            _ => out.extend_from_slice(body),
        }
        Ok(())
    }

    fn put_texts(&self, reader: &mut Reader<'_>, out: &mut Vec<u8>) -> Put {
        while reader.remaining() > 0 {
            self.encoding.encode_lossily(reader.cstr_bytes()?, out);
            out.push(0);
        }
        Ok(())
    }
}

/// 0A000: whether there is text in values of binary formats is not looked into.
pub fn binary(what: &str, encoding: &str) -> ExecError {
    let message = format!("{what} in binary format are not supported with client_encoding \"{encoding}\"");
    ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, message).hint("Use the text format, or client_encoding UTF8.")
}

/// Of values or columns, up to 65535.
fn put_count(out: &mut Vec<u8>, n: usize) {
    out.extend_from_slice(&(n as u16).to_be_bytes());
}

fn put_i16(out: &mut Vec<u8>, n: i16) {
    out.extend_from_slice(&n.to_be_bytes());
}

fn put_i32(out: &mut Vec<u8>, n: i32) {
    out.extend_from_slice(&n.to_be_bytes());
}

fn of(tag: u8, body: &[u8]) -> Frame {
    let mut raw = Vec::with_capacity(HEADER_LEN + body.len());
    raw.push(tag);
    put_i32(&mut raw, body.len() as i32 + 4);
    raw.extend_from_slice(body);
    Frame { raw: raw.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::tests::example;

    fn spoken() -> Spoken {
        Spoken::new(Arc::new(example()))
    }

    #[test]
    fn texts_of_a_bind_become_utf8_and_values_in_binary_stay() {
        let mut bind = b"\0s\xe9\0".to_vec();
        for n in [2, 0, 1, 2] {
            put_i16(&mut bind, n);
        }
        for value in [&b"\x81\x40"[..], b"\xff\xfe"] {
            put_i32(&mut bind, value.len() as i32);
            bind.extend_from_slice(value);
        }
        put_i16(&mut bind, 0);
        let heard = spoken().heard(of(b'B', &bind));
        let b = wire::frontend::bind(heard.body()).unwrap();
        assert_eq!((b.statement, &b.values[..]), ("sé", &[Some("日".as_bytes()), Some(&b"\xff\xfe"[..])][..]));
    }

    #[test]
    fn rows_are_told_up_to_one_that_cant_be() {
        let mut out = BytesMut::new();
        let row = |out: &mut BytesMut, text: &str| wire::backend::data_row(out, std::iter::once(Some(text.as_bytes())));
        row(&mut out, "é");
        let good = out.len() - 1;
        row(&mut out, "€");
        row(&mut out, "a");
        let said = spoken().tell(&mut out, 0).unwrap_err();
        assert_eq!((out.len(), out.last(), said.code().as_str()), (good, Some(&0xe9), "22P05"));
    }

    #[test]
    fn errors_name_the_bytes_that_the_client_sent() {
        let mut spoken = spoken();
        let heard = spoken.heard(of(b'Q', b"select '\xc3\xa9'\0"));
        assert!(wire::frontend::query(heard.body()).is_err());
        let mut out = BytesMut::new();
        ErrorFields::error(sqlstate::CHARACTER_NOT_IN_REPERTOIRE, "invalid byte sequence for encoding \"UTF8\": 0xff")
            .put(&mut out, b'E');
        spoken.tell(&mut out, 0).unwrap();
        assert!(String::from_utf8_lossy(&out).contains("encoding \"X\": 0xc3"));
    }

    #[test]
    fn copy_data_may_be_cut_anywhere() {
        let mut spoken = spoken();
        let pieces = [&b"a\x81"[..], b"\x40b\x8f\xa1", b"\xa1\n"].map(|p| spoken.heard_copy(Bytes::copy_from_slice(p)));
        assert_eq!(pieces.concat(), "a日b本\n".as_bytes());
        assert_eq!(spoken.copy_ends(), None);
        spoken.heard_copy(Bytes::from_static(b"\x81"));
        assert_eq!(spoken.copy_ends().as_deref(), Some(&b"\xff"[..]));
    }
}

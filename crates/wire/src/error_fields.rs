//! The fields of ErrorResponse and NoticeResponse. It does not decide which SQLSTATE an error gets.

use crate::sqlstate;
use bytes::{BufMut, BytesMut};

use crate::error::Result;
use crate::frame::Reader;
use crate::put;

/// An error or notice as PostgreSQL sends it. Fields keep their order and codes (`S`, `V`, `C`, `M`, `D`, `H`, `P`, …).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ErrorFields {
    pub fields: Vec<(u8, String)>,
}

impl ErrorFields {
    /// An error after which the session goes on; `code` is its SQLSTATE.
    pub fn error(code: &str, message: impl Into<String>) -> Self {
        Self::with_severity("ERROR", code, message)
    }

    /// An error that ends the session; `code` is its SQLSTATE.
    pub fn fatal(code: &str, message: impl Into<String>) -> Self {
        Self::with_severity("FATAL", code, message)
    }

    /// `severity` in English, as PostgreSQL has it: `ERROR`, `WARNING`, `NOTICE`.
    pub fn with_severity(severity: &str, code: &str, message: impl Into<String>) -> Self {
        ErrorFields {
            fields: vec![(b'S', severity.into()), (b'V', severity.into()), (b'C', code.into()), (b'M', message.into())],
        }
    }

    /// With this DETAIL, in place of any it had.
    pub fn detail(self, text: impl Into<String>) -> Self {
        self.with(b'D', text)
    }

    /// With this HINT, in place of any it had.
    pub fn hint(self, text: impl Into<String>) -> Self {
        self.with(b'H', text)
    }

    /// Position in the statement, in characters from 1.
    pub fn position(self, at: usize) -> Self {
        self.with(b'P', at.to_string())
    }

    /// As `set` does, for use while it is put together.
    pub fn with(mut self, field: u8, text: impl Into<String>) -> Self {
        self.set(field, text);
        self
    }

    /// Replaces the field where it is, or adds it behind the others.
    pub fn set(&mut self, field: u8, text: impl Into<String>) {
        let text = text.into();
        match self.fields.iter_mut().find(|(f, _)| *f == field) {
            Some((_, old)) => *old = text,
            None => self.fields.push((field, text)),
        }
    }

    /// `None`: there is no such field.
    pub fn get(&self, field: u8) -> Option<&str> {
        self.fields.iter().find(|(f, _)| *f == field).map(|(_, t)| t.as_str())
    }

    /// The SQLSTATE; that of an internal error if there is none.
    pub fn code(&self) -> &str {
        self.get(b'C').unwrap_or(sqlstate::INTERNAL_ERROR)
    }

    /// What is wrong, for people; empty if nothing is said.
    pub fn message(&self) -> &str {
        self.get(b'M').unwrap_or("")
    }

    /// FATAL and PANIC end the connection they came on.
    pub fn is_fatal(&self) -> bool {
        matches!(self.get(b'V').or(self.get(b'S')), Some("FATAL" | "PANIC"))
    }

    /// The body of ErrorResponse or NoticeResponse.
    ///
    /// # Errors
    /// If it ends early, or something stands behind its end.
    pub fn parse(body: &[u8]) -> Result<Self> {
        let mut r = Reader::new(body);
        let mut fields = Vec::with_capacity(8);
        loop {
            match r.u8()? {
                0 => break,
                code => {
                    // Errors before client_encoding takes effect (a refused login, say) come in the server's own
                    // encoding; showing them imperfectly beats losing them.
                    fields.push((code, String::from_utf8_lossy(r.cstr_bytes()?).into_owned()));
                }
            }
        }
        r.end()?;
        Ok(ErrorFields { fields })
    }

    /// Of a message of which only the beginning is there: what is told last is cut, between characters, and says so.
    pub fn parse_beginning(body: &[u8]) -> Self {
        let mut fields = Vec::with_capacity(8);
        let mut rest = body;
        while let Some((code, text)) = rest.split_first().filter(|(code, _)| **code != 0) {
            let Some(end) = memchr::memchr(0, text) else {
                let whole =
                    std::str::from_utf8(text).err().filter(|e| e.error_len().is_none()).map(|e| e.valid_up_to());
                let text = String::from_utf8_lossy(&text[..whole.unwrap_or(text.len())]);
                fields.push((*code, format!("{text}… (cut here)")));
                break;
            };
            fields.push((*code, String::from_utf8_lossy(&text[..end]).into_owned()));
            rest = &text[end + 1..];
        }
        ErrorFields { fields }
    }

    /// Writes an ErrorResponse (`b'E'`) or NoticeResponse (`b'N'`).
    pub fn put(&self, buf: &mut BytesMut, tag: u8) {
        put::message(buf, tag, |b| {
            for (code, text) in &self.fields {
                b.put_u8(*code);
                // A zero byte would end the field early.
                put::cstr(b, &text.replace('\0', " "));
            }
            b.put_u8(0);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_message_is_cut_between_characters() {
        let body = "SERROR\0VERROR\0C22000\0Mäöü".as_bytes();
        for len in 0..body.len() {
            let found = ErrorFields::parse_beginning(&body[..len]);
            let mut out = BytesMut::new();
            found.put(&mut out, b'E');
            let again = ErrorFields::parse(&out[crate::frame::HEADER_LEN..]).unwrap();
            assert_eq!(again, found);
            assert!(!found.message().contains('\u{fffd}'), "{}", found.message());
        }
        assert_eq!(ErrorFields::parse_beginning(&body[..body.len() - 1]).message(), "äö… (cut here)");
    }
}

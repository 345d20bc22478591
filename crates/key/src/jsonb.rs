//! `jsonb`: JSON text brought into PostgreSQL's form (keys sorted and unique, numbers as `numeric`), its hash and its output
//! (jsonfuncs.c, jsonb.c, jsonb_util.c). The binary format is a version byte and the text.
//!
//! What this parser does not take is left to the server, which alone words JSON's errors.

use crate::KeyError;
use crate::cursor::Cursor;
use crate::jenkins::{hash_bytes, hash_u32, rotate_halves};
use crate::numeric::Numeric;
use crate::types::JSONB;

const VERSION: u8 = 1;
/// A number of few characters may have 131 072 digits: what is so many times its text, and longer than this, is the server's to read.
const WRITTEN_TIMES: usize = 16;
const WRITTEN_LEAST: usize = 256 << 10;
/// PostgreSQL's own stack ends before that (`max_stack_depth`). A level takes some hundred bytes of ours, in a build for debugging some
/// thousand: far less than the threads have that read values.
const DEPTH_MAX: usize = 10_000;

// Container flags, hashed into both halves (src/include/utils/jsonb.h).
const OBJECT: u64 = 0x2000_0000_2000_0000;
const ARRAY: u64 = 0x4000_0000_4000_0000;

/// A JSON value as PostgreSQL stores it.
enum Json {
    Null,
    Bool(bool),
    Number(Numeric),
    String(String),
    Array(Vec<Json>),
    /// Sorted by key length, then key bytes; of equal keys the last one written.
    Object(Vec<(String, Json)>),
}

/// `jsonb_hash_extended` over the binary format.
pub(crate) fn hash(value: &[u8], seed: u64) -> Result<u64, KeyError> {
    let mut cursor = Cursor::new(JSONB, value);
    if cursor.u8()? != VERSION {
        return Err(cursor.error());
    }
    let text = std::str::from_utf8(cursor.rest()).map_err(|_| cursor.error())?;
    let json = parse(text).ok_or(KeyError::NeedsServer)?;
    Ok(match &json {
        // An empty root container has no children to iterate over.
        Json::Array(elements) if elements.is_empty() => seed,
        Json::Object(members) if members.is_empty() => seed,
        Json::Array(_) | Json::Object(_) => json.hash_into(0, seed),
        // A lone scalar is stored as an array of one element.
        _ => json.hash_into(ARRAY, seed),
    })
}

/// The binary format of a JSON text, in PostgreSQL's output form.
pub(crate) fn parse_text(text: &str) -> Result<Vec<u8>, KeyError> {
    let mut value = String::from(VERSION as char);
    let max = text.len().saturating_mul(WRITTEN_TIMES).max(WRITTEN_LEAST);
    parse(text).ok_or(KeyError::NeedsServer)?.write(&mut value, max);
    if value.len() > max {
        return Err(KeyError::NeedsServer);
    }
    Ok(value.into_bytes())
}

impl Json {
    /// Folds this value's tokens into `hash` in the order of PostgreSQL's iterator.
    fn hash_into(&self, hash: u64, seed: u64) -> u64 {
        let scalar = |part: u64| rotate_halves(hash) ^ part;
        match self {
            Json::Null => scalar(seed.wrapping_add(1)),
            Json::Bool(value) => scalar(hash_u32((*value).into(), seed)),
            Json::Number(number) => scalar(number.hash(seed)),
            Json::String(string) => scalar(hash_bytes(string.as_bytes(), seed)),
            Json::Array(elements) => elements.iter().fold(hash ^ ARRAY, |hash, element| element.hash_into(hash, seed)),
            Json::Object(members) => members.iter().fold(hash ^ OBJECT, |hash, (key, value)| {
                let hash = rotate_halves(hash) ^ hash_bytes(key.as_bytes(), seed);
                value.hash_into(hash, seed)
            }),
        }
    }

    /// `JsonbToCString`; more than `max` bytes nobody wants, and they are not all written.
    fn write(&self, out: &mut String, max: usize) {
        if out.len() > max {
            return;
        }
        match self {
            Json::Null => out.push_str("null"),
            Json::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Json::Number(number) => out.push_str(&number.to_text()),
            Json::String(string) => write_string(string, out),
            Json::Array(elements) => {
                out.push('[');
                for (index, element) in elements.iter().enumerate() {
                    out.push_str(if index > 0 { ", " } else { "" });
                    element.write(out, max);
                }
                out.push(']');
            }
            Json::Object(members) => {
                out.push('{');
                for (index, (key, value)) in members.iter().enumerate() {
                    out.push_str(if index > 0 { ", " } else { "" });
                    write_string(key, out);
                    out.push_str(": ");
                    value.write(out, max);
                }
                out.push('}');
            }
        }
    }
}

/// `escape_json`.
fn write_string(string: &str, out: &mut String) {
    out.push('"');
    for c in string.chars() {
        match c {
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

fn parse(text: &str) -> Option<Json> {
    let mut parser = Parser { rest: text };
    let json = parser.value(0)?;
    parser.skip_space();
    parser.rest.is_empty().then_some(json)
}

/// A recursive-descent parser of RFC 8259; `None` for anything else.
struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
    }

    fn eat(&mut self, token: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(token)?;
        Some(())
    }

    fn value(&mut self, depth: usize) -> Option<Json> {
        if depth > DEPTH_MAX {
            return None;
        }
        self.skip_space();
        match self.rest.as_bytes().first()? {
            b'n' => self.eat("null").map(|()| Json::Null),
            b't' => self.eat("true").map(|()| Json::Bool(true)),
            b'f' => self.eat("false").map(|()| Json::Bool(false)),
            b'"' => self.string().map(Json::String),
            b'[' => self.array(depth),
            b'{' => self.object(depth),
            _ => self.number(),
        }
    }

    fn array(&mut self, depth: usize) -> Option<Json> {
        let mut elements = Vec::new();
        self.list("[", "]", |parser| {
            elements.push(parser.value(depth + 1)?);
            Some(())
        })?;
        Some(Json::Array(elements))
    }

    fn object(&mut self, depth: usize) -> Option<Json> {
        let mut members: Vec<(String, Json)> = Vec::new();
        self.list("{", "}", |parser| {
            parser.skip_space();
            let key = parser.string()?;
            parser.skip_space();
            parser.eat(":")?;
            members.push((key, parser.value(depth + 1)?));
            Some(())
        })?;
        // Stable, so the last of equal keys is the last written; reversed, `dedup` keeps it.
        members.sort_by(|(a, _), (b, _)| a.len().cmp(&b.len()).then_with(|| a.cmp(b)));
        members.reverse();
        members.dedup_by(|(a, _), (b, _)| a == b);
        members.reverse();
        Some(Json::Object(members))
    }

    /// Items between two brackets, separated by commas.
    fn list(&mut self, open: &str, close: &str, mut item: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.eat(open)?;
        self.skip_space();
        if self.eat(close).is_some() {
            return Some(());
        }
        loop {
            item(self)?;
            self.skip_space();
            if self.eat(close).is_some() {
                return Some(());
            }
            self.eat(",")?;
        }
    }

    fn number(&mut self) -> Option<Json> {
        let end =
            self.rest.find(|c: char| !matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E')).unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(end);
        // Stricter than numeric's own grammar: no leading zeros, digits on both sides of the point.
        let unsigned = text.strip_prefix('-').unwrap_or(text);
        let mantissa = unsigned.split(['e', 'E']).next()?;
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
        let decimal = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if !decimal(whole) || !decimal(fraction) || (whole.len() > 1 && whole.starts_with('0')) {
            return None;
        }
        self.rest = rest;
        Numeric::parse(text).ok().map(Json::Number)
    }

    fn string(&mut self) -> Option<String> {
        self.eat("\"")?;
        let mut string = String::new();
        loop {
            let end = self.rest.find(|c: char| c == '"' || c == '\\' || c < ' ')?;
            string.push_str(&self.rest[..end]);
            self.rest = &self.rest[end..];
            if self.eat("\"").is_some() {
                return Some(string);
            }
            self.eat("\\")?;
            string.push(self.escape()?);
        }
    }

    fn escape(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(match c {
            '"' | '\\' | '/' => c,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => self.unicode_escape()?,
            _ => return None,
        })
    }

    /// Four hexadecimal digits, or two such escapes that make a surrogate pair. PostgreSQL refuses `\u0000`.
    fn unicode_escape(&mut self) -> Option<char> {
        let unit = self.hex4()?;
        let code = if (0xd800..0xdc00).contains(&unit) {
            self.eat("\\u")?;
            let low = self.hex4().filter(|low| (0xdc00..0xe000).contains(low))?;
            0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00)
        } else {
            unit
        };
        char::from_u32(code).filter(|c| *c != '\0')
    }

    fn hex4(&mut self) -> Option<u32> {
        let (digits, rest) = self.rest.split_at_checked(4)?;
        let plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        self.rest = rest;
        plain.then(|| u32::from_str_radix(digits, 16).ok()).flatten()
    }
}

//! Character sets that clients speak other than UTF8 (`client_encoding`). What is which character home says once, character by character, by its
//! own conversions: a router has no tables of its own, so what it converts is converted as PostgreSQL does it. It does not know messages.

use std::collections::HashMap;
use std::sync::Arc;

use catalog::quote_literal;
use exec::{ExecError, Herd};
use parking_lot::Mutex;
use wire::sqlstate;

use crate::session::Result;

/// The setting.
pub const NAME: &str = "client_encoding";
/// What the router speaks with nodes, and with clients unless they ask for another.
pub const UTF8: &str = "UTF8";
/// PostgreSQL converts nothing for who asks for it, and so it is with a router.
const SQL_ASCII: &str = "SQL_ASCII";

/// In place of what is no character: no UTF-8 has it anywhere, so that it is refused wherever it is read.
const NEVER: u8 = 0xFF;

/// A character set beside UTF8. All have ASCII's characters as ASCII has them.
pub struct Encoding {
    name: String,
    /// By the first byte, from 128 on: bytes of what begins with it.
    lengths: [u8; 128],
    /// By its bytes as a number, up to two: its code point, or [`NONE`], or [`NOWHERE`].
    characters: Vec<u32>,
    /// The same of three bytes.
    long: HashMap<u32, u32>,
    /// By code points up to U+FFFF; 0: the set does not have it.
    bytes: Vec<u32>,
}

/// In place of a code point: these bytes are no character.
const NONE: u32 = 0;
/// Unicode does not have it.
const NOWHERE: u32 = u32::MAX;

/// A character that the set does not have.
pub struct Untranslatable(pub char);

/// What the client has sent is no text.
#[derive(Debug, PartialEq, Eq)]
pub enum Wrong {
    /// No character.
    Invalid(Vec<u8>),
    /// One that Unicode does not have.
    Nowhere(Vec<u8>),
}

impl Encoding {
    /// As PostgreSQL spells it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Appends `text` as UTF-8, up to where a character's bytes are not all here: how many bytes are left. `wrong` gets the first bytes
    /// that are no character, or none of Unicode's.
    pub fn decode(&self, text: &[u8], out: &mut Vec<u8>, wrong: &mut Option<Wrong>) -> usize {
        let mut rest = text;
        while let Some(first) = rest.first() {
            if first.is_ascii() {
                let plain = rest.iter().position(|b| !b.is_ascii()).unwrap_or(rest.len());
                out.extend_from_slice(&rest[..plain]);
                rest = &rest[plain..];
                continue;
            }
            let length = usize::from(self.lengths[usize::from(first & 0x7F)]);
            if length > rest.len() {
                break;
            }
            let (bytes, behind) = rest.split_at(length.max(1));
            match self.character(number(bytes)) {
                Ok(c) => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
                Err(why) => {
                    wrong.get_or_insert_with(|| why(bytes.to_vec()));
                    out.push(NEVER);
                }
            }
            rest = behind;
        }
        rest.len()
    }

    fn character(&self, bytes: u32) -> std::result::Result<char, fn(Vec<u8>) -> Wrong> {
        let point = self.characters.get(bytes as usize).or_else(|| self.long.get(&bytes)).copied().unwrap_or(NONE);
        match point {
            NONE => Err(Wrong::Invalid),
            point => char::from_u32(point).ok_or(Wrong::Nowhere),
        }
    }

    fn bytes_of(&self, c: char) -> Option<u32> {
        self.bytes.get(c as usize).copied().filter(|bytes| *bytes != 0)
    }

    /// The same of a whole text: a character that is cut off is none.
    pub fn decode_whole(&self, text: &[u8], out: &mut Vec<u8>, wrong: &mut Option<Wrong>) {
        let left = self.decode(text, out, wrong);
        if left > 0 {
            wrong.get_or_insert_with(|| Wrong::Invalid(text[text.len() - left..].to_vec()));
            out.push(NEVER);
        }
    }

    /// Appends `text`, which is UTF-8, in this character set. What is not UTF-8 goes as it is.
    pub fn encode(&self, text: &[u8], out: &mut Vec<u8>) -> std::result::Result<(), Untranslatable> {
        self.encode_each(text, out, Err)
    }

    /// The same with a question mark for each character that the set does not have, and three points for an ellipsis.
    pub fn encode_lossily(&self, text: &[u8], out: &mut Vec<u8>) {
        let _ = self.encode_each(text, out, |Untranslatable(c)| Ok(if c == '…' { &b"..."[..] } else { b"?" }));
    }

    fn encode_each(
        &self,
        text: &[u8],
        out: &mut Vec<u8>,
        missing: impl Fn(Untranslatable) -> std::result::Result<&'static [u8], Untranslatable>,
    ) -> std::result::Result<(), Untranslatable> {
        for chunk in text.utf8_chunks() {
            for c in chunk.valid().chars() {
                match self.bytes_of(c) {
                    _ if c.is_ascii() => out.push(c as u8),
                    Some(number) => {
                        let bytes = number.to_be_bytes();
                        out.extend_from_slice(&bytes[number.leading_zeros() as usize / 8..]);
                    }
                    None => out.extend_from_slice(missing(Untranslatable(c))?),
                }
            }
            out.extend_from_slice(chunk.invalid());
        }
        Ok(())
    }

    /// PostgreSQL's error for it.
    pub fn no_equivalent(&self, Untranslatable(c): &Untranslatable) -> ExecError {
        let message = format!(
            "character with byte sequence {} in encoding \"UTF8\" has no equivalent in encoding \"{}\"",
            listed(c.encode_utf8(&mut [0; 4]).as_bytes()),
            self.name
        );
        ExecError::sql(sqlstate::UNTRANSLATABLE_CHARACTER, message)
    }

    /// PostgreSQL's error for it: SQLSTATE and message.
    pub fn wrong(&self, wrong: &Wrong) -> (&'static str, String) {
        match wrong {
            Wrong::Invalid(bytes) => (
                sqlstate::CHARACTER_NOT_IN_REPERTOIRE,
                format!("invalid byte sequence for encoding \"{}\": {}", self.name, listed(bytes)),
            ),
            Wrong::Nowhere(bytes) => (
                sqlstate::UNTRANSLATABLE_CHARACTER,
                format!(
                    "character with byte sequence {} in encoding \"{}\" has no equivalent in encoding \"UTF8\"",
                    listed(bytes),
                    self.name
                ),
            ),
        }
    }

    /// Of what home has answered (`catalog/src/schema/encoding.sql`).
    fn of(name: String, rows: Vec<catalog::Row>) -> Option<Self> {
        let mut encoding =
            Encoding { name, lengths: [1; 128], characters: vec![], long: HashMap::new(), bytes: vec![] };
        let mut bytes_of = HashMap::new();
        let mut others = HashMap::new();
        for row in rows {
            let [Some(_), Some(way), Some(hex), Some(means)] = &row[..] else { continue };
            let bytes = wire::hex::decode(hex)?;
            match (&**way, means.chars().next()) {
                ("l", _) => {
                    *encoding.lengths.get_mut(usize::from(bytes.first()?.checked_sub(128)?))? = means.parse().ok()?;
                }
                ("d", Some(c)) => {
                    encoding.keep(number(&bytes), c.into());
                    bytes_of.insert(c, number(&bytes));
                }
                ("e", Some(c)) => drop(others.insert(c, number(&bytes))),
                _ => encoding.keep(number(&bytes), NOWHERE),
            }
        }
        // Where home tells of what characters become, it has told of all.
        let bytes_of = if others.is_empty() { bytes_of } else { others };
        let most = bytes_of.keys().map(|c| *c as usize).max()?;
        encoding.bytes = vec![0; most + 1];
        bytes_of.iter().for_each(|(c, number)| encoding.bytes[*c as usize] = *number);
        Some(encoding)
    }

    fn keep(&mut self, bytes: u32, point: u32) {
        if bytes > 0xFFFF {
            self.long.insert(bytes, point);
            return;
        }
        let at = bytes as usize;
        self.characters.resize(self.characters.len().max(at + 1), NONE);
        self.characters[at] = point;
    }
}

fn number(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |n, b| n << 8 | u32::from(*b))
}

fn listed(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("0x{b:02x}")).collect::<Vec<_>>().join(" ")
}

/// Those that clients have asked for, by PostgreSQL's names for them.
#[derive(Default)]
pub struct Encodings {
    known: Mutex<HashMap<String, Arc<Encoding>>>,
    /// One asks home at a time.
    asking: tokio::sync::Mutex<()>,
}

impl Encodings {
    /// What a client asks for by this name, as PostgreSQL spells it. A name that home does not know is 22023, one of which the router can't
    /// make a table 0A000.
    pub async fn spelled(&self, herd: &Herd, asked: &str) -> Result<String> {
        let plain = plain(asked);
        match &*plain {
            "utf8" | "unicode" => return Ok(UTF8.into()),
            "sqlascii" => return Ok(SQL_ASCII.into()),
            _ => {}
        }
        let known = |name: &str| self.known.lock().get(name).map(|e| e.name.clone());
        if let Some(name) = known(&plain) {
            return Ok(name);
        }
        // A name is not longer, and home cuts it so.
        let asked_for: String = asked.chars().take(63).collect();
        let spelled = format!(
            "SELECT pg_catalog.pg_encoding_to_char(pg_catalog.pg_char_to_encoding({}))",
            quote_literal(&asked_for)
        );
        let rows = herd.own.rows(&herd.config.home, &spelled).await?;
        let name = rows.into_iter().next().and_then(|row| row.into_iter().next()).flatten().unwrap_or_default();
        if name.is_empty() {
            let message = format!("invalid value for parameter \"{NAME}\": \"{asked}\"");
            return Err(ExecError::sql(sqlstate::INVALID_PARAMETER_VALUE, message)
                .hint("PostgreSQL's documentation lists them (\"Supported Character Sets\"); UTF8 is one."));
        }
        let _turn = self.asking.lock().await;
        if known(&self::plain(&name)).is_some() {
            return Ok(name);
        }
        if name == UTF8 {
            return Ok(name);
        }
        let sql = format!("SELECT name, way, bytes, means FROM herd.encoding({})", quote_literal(&name));
        let rows = herd.own.rows(&herd.config.home, &sql).await?;
        let encoding = Arc::new(Encoding::of(name.clone(), rows).ok_or_else(|| unsupported(&name))?);
        self.known.lock().insert(self::plain(&name), encoding);
        Ok(name)
    }

    /// One that was asked for before; `None`: nothing is converted.
    pub fn known(&self, name: &str) -> Option<Arc<Encoding>> {
        match name {
            UTF8 | SQL_ASCII => None,
            _ => self.known.lock().get(&plain(name)).cloned(),
        }
    }
}

/// 0A000, with the hint to use UTF8.
pub fn unsupported(encoding: &str) -> ExecError {
    let message = format!("{NAME} \"{encoding}\" is not supported");
    ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, message).hint("Use UTF8.")
}

/// A name without case and punctuation, as PostgreSQL compares them (`clean_encoding_name` in encnames.c).
fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Some characters of one byte, of two, and of three.
    pub fn example() -> Encoding {
        let row =
            |way: &str, hex: &str, c: &str| vec![Some("X".into()), Some(way.into()), Some(hex.into()), Some(c.into())];
        let rows = [
            ("l", "81", "2"),
            ("l", "8f", "3"),
            ("l", "c3", "1"),
            ("u", "8150", ""),
            ("d", "e9", "é"),
            ("d", "8140", "日"),
            ("d", "8fa1a1", "本"),
            ("d", "8141", "é"),
        ];
        let twice = [("e", "e9", "é"), ("e", "8140", "日"), ("e", "8fa1a1", "本"), ("e", "8142", "–")];
        Encoding::of("X".into(), rows.into_iter().chain(twice).map(|(w, b, c)| row(w, b, c)).collect()).unwrap()
    }

    #[test]
    fn texts_go_both_ways() {
        let x = example();
        let text = b"a\xe9\x81\x40z\x8f\xa1\xa1";
        let (mut out, mut wrong, mut back) = (vec![], None, vec![]);
        x.decode_whole(text, &mut out, &mut wrong);
        assert_eq!((std::str::from_utf8(&out).unwrap(), &wrong), ("aé日z本", &None));
        assert!(x.encode(&out, &mut back).is_ok());
        assert_eq!(back, text);
        // What home says of the way there counts.
        back.clear();
        assert!(x.encode("–é".as_bytes(), &mut back).is_ok());
        assert_eq!(back, b"\x81\x42\xe9");
    }

    #[test]
    fn what_is_no_character_can_be_none_in_utf8() {
        let x = example();
        let invalid = |bytes: &[u8]| Wrong::Invalid(bytes.to_vec());
        for (text, why) in [
            (&b"a\xc3\xa9"[..], invalid(b"\xc3")),
            (b"\x81\x7a", invalid(b"\x81\x7a")),
            (b"a\x81", invalid(b"\x81")),
            (b"a\x81\x50", Wrong::Nowhere(b"\x81\x50".to_vec())),
        ] {
            let (mut out, mut wrong) = (vec![], None);
            x.decode_whole(text, &mut out, &mut wrong);
            assert!(std::str::from_utf8(&out).is_err());
            assert_eq!(wrong, Some(why));
        }
        assert_eq!(x.wrong(&invalid(b"\x81\x7a")).1, "invalid byte sequence for encoding \"X\": 0x81 0x7a");
    }

    #[test]
    fn a_character_in_pieces_waits_for_its_end() {
        let x = example();
        let (mut out, mut wrong) = (vec![], None);
        assert_eq!(x.decode(b"a\x8f\xa1", &mut out, &mut wrong), 2);
        assert_eq!((&*out, wrong), (&b"a"[..], None));
    }

    #[test]
    fn what_the_set_does_not_have_is_an_error_or_a_question_mark() {
        let x = example();
        let mut out = vec![];
        assert_eq!(x.encode("a€".as_bytes(), &mut out).err().map(|u| u.0), Some('€'));
        let said = x.no_equivalent(&Untranslatable('€')).to_fields();
        assert_eq!(said.code(), "22P05");
        assert_eq!(
            said.message(),
            "character with byte sequence 0xe2 0x82 0xac in encoding \"UTF8\" has no equivalent in encoding \"X\""
        );
        out.clear();
        x.encode_lossily("a€é…".as_bytes(), &mut out);
        assert_eq!(out, b"a?\xe9...");
    }
}

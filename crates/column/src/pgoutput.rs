//! The messages of a logical replication stream by pgoutput, protocol version 1 (`logicalrep_write_…` in PostgreSQL's proto.c).
//! Pure: it does not know what is done with them.

use wire::WireError;
use wire::frame::Reader;

use crate::lsn::Lsn;

type Result<T> = std::result::Result<T, WireError>;

/// One of pgoutput's messages.
#[derive(Debug, PartialEq)]
pub enum Message<'a> {
    /// `last`: where the transaction's commit record begins. `transaction`: the lower half of its number.
    Begin {
        last: Lsn,
        transaction: u32,
    },
    /// `end`: where the commit record ends.
    Commit {
        end: Lsn,
    },
    Relation(Relation),
    Insert {
        relation: u32,
        new: Tuple<'a>,
    },
    /// `old`: the key, or the whole row, as it was, if it has changed or is always told.
    Update {
        relation: u32,
        old: Option<Tuple<'a>>,
        new: Tuple<'a>,
    },
    Delete {
        relation: u32,
        old: Tuple<'a>,
    },
    Truncate {
        relations: Vec<u32>,
    },
    /// Origin, Type, Message.
    Other,
}

/// A table's columns, as they are in the messages that follow.
#[derive(Debug, PartialEq, Clone)]
pub struct Relation {
    pub id: u32,
    pub columns: Vec<RelationColumn>,
}

/// One column of a [`Relation`].
#[derive(Debug, PartialEq, Clone)]
pub struct RelationColumn {
    pub name: String,
    pub type_oid: u32,
    pub modifier: i32,
}

/// A row's values, in the order of its relation's columns.
pub type Tuple<'a> = Vec<Cell<'a>>;

/// One value of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell<'a> {
    Null,
    /// As it was: too long to be told again.
    Unchanged,
    Text(&'a str),
}

/// Of one XLogData; `Err`: it is malformed, or none that is known.
pub fn message(data: &[u8]) -> Result<Message<'_>> {
    let mut r = Reader::new(data);
    Ok(match r.u8()? {
        b'B' => {
            let last = lsn(&mut r)?;
            r.bytes(8)?;
            Message::Begin { last, transaction: r.u32()? }
        }
        b'C' => {
            r.bytes(1 + 8)?;
            Message::Commit { end: lsn(&mut r)? }
        }
        b'R' => Message::Relation(relation(&mut r)?),
        b'I' => {
            let relation = r.u32()?;
            tagged(&mut r, b"N")?;
            Message::Insert { relation, new: tuple(&mut r)? }
        }
        b'U' => {
            let relation = r.u32()?;
            let mut old = None;
            if tagged(&mut r, b"KON")? != b'N' {
                old = Some(tuple(&mut r)?);
                tagged(&mut r, b"N")?;
            }
            Message::Update { relation, old, new: tuple(&mut r)? }
        }
        b'D' => {
            let relation = r.u32()?;
            tagged(&mut r, b"KO")?;
            Message::Delete { relation, old: tuple(&mut r)? }
        }
        b'T' => {
            let (count, _) = (r.u32()?, r.u8()?);
            Message::Truncate { relations: (0..count).map(|_| r.u32()).collect::<Result<_>>()? }
        }
        b'O' | b'Y' | b'M' => Message::Other,
        _ => return Err(WireError::Other("an unknown message of pgoutput")),
    })
}

fn lsn(r: &mut Reader<'_>) -> Result<Lsn> {
    Ok(Lsn(r.u64()?))
}

fn relation(r: &mut Reader<'_>) -> Result<Relation> {
    let id = r.u32()?;
    let (_schema, _name, _identity) = (r.cstr()?, r.cstr()?, r.u8()?);
    let count = r.count(10)?;
    let mut columns = Vec::with_capacity(count);
    for _ in 0..count {
        r.u8()?;
        columns.push(RelationColumn { name: r.cstr()?.to_string(), type_oid: r.u32()?, modifier: r.i32()? });
    }
    Ok(Relation { id, columns })
}

fn tagged(r: &mut Reader<'_>, of: &[u8]) -> Result<u8> {
    let tag = r.u8()?;
    if of.contains(&tag) { Ok(tag) } else { Err(WireError::Other("an unknown part of a message of pgoutput")) }
}

fn tuple<'a>(r: &mut Reader<'a>) -> Result<Tuple<'a>> {
    let count = r.count(1)?;
    let mut cells = Vec::with_capacity(count);
    for _ in 0..count {
        cells.push(match r.u8()? {
            b'n' => Cell::Null,
            b'u' => Cell::Unchanged,
            b't' => {
                let len = r.u32()? as usize;
                Cell::Text(std::str::from_utf8(r.bytes(len)?).map_err(|_| WireError::String)?)
            }
            _ => return Err(WireError::Other("an unknown value of pgoutput")),
        });
    }
    Ok(cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: &str) -> Vec<u8> {
        [b"t", &(value.len() as u32).to_be_bytes()[..], value.as_bytes()].concat()
    }

    #[test]
    fn messages_are_read() {
        let (id, two) = (&7u32.to_be_bytes()[..], &2i16.to_be_bytes()[..]);
        let row = |a: &[u8], b: &[u8]| [two, a, b].concat();
        let begin = [b"B", &5u64.to_be_bytes()[..], &[0; 8], &7u32.to_be_bytes()].concat();
        assert_eq!(message(&begin).unwrap(), Message::Begin { last: Lsn(5), transaction: 7 });
        let commit = [b"C\0", &5u64.to_be_bytes()[..], &9u64.to_be_bytes(), &[0; 8]].concat();
        assert_eq!(message(&commit).unwrap(), Message::Commit { end: Lsn(9) });
        let told = [b"R", id, b"s\0t\0d", &1i16.to_be_bytes(), b"\x01a\0", &20u32.to_be_bytes(), &[255; 4]].concat();
        let columns = vec![RelationColumn { name: "a".into(), type_oid: 20, modifier: -1 }];
        assert_eq!(message(&told).unwrap(), Message::Relation(Relation { id: 7, columns }));
        let insert = [b"I", id, b"N", &row(&text("1"), b"n")].concat();
        let one = Cell::Text("1");
        assert_eq!(message(&insert).unwrap(), Message::Insert { relation: 7, new: vec![one, Cell::Null] });
        let update = [b"U", id, b"K", &row(&text("1"), b"n"), b"N", &row(&text("2"), b"u")].concat();
        let (old, new) = (Some(vec![one, Cell::Null]), vec![Cell::Text("2"), Cell::Unchanged]);
        assert_eq!(message(&update).unwrap(), Message::Update { relation: 7, old, new });
        let delete = [b"D", id, b"K", &row(&text("1"), b"n")].concat();
        assert_eq!(message(&delete).unwrap(), Message::Delete { relation: 7, old: vec![one, Cell::Null] });
        let truncate = [b"T", &1u32.to_be_bytes()[..], b"\0", id].concat();
        assert_eq!(message(&truncate).unwrap(), Message::Truncate { relations: vec![7] });
        for whole in [begin, commit, told, insert, update, delete, truncate] {
            // Begin and Commit end with what is not read.
            let needed = if matches!(whole[0], b'B') {
                9
            } else if whole[0] == b'C' {
                18
            } else {
                whole.len()
            };
            for len in 0..needed {
                assert!(message(&whole[..len]).is_err(), "{:?}", &whole[..len]);
            }
        }
    }
}

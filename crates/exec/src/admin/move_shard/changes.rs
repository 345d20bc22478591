//! What pgoutput tells of a shard's changes (protocol version 1; `logicalrep_write_…` in PostgreSQL's proto.c), as statements for
//! its copy. It does not know where the messages come from, nor who runs the statements.

use std::collections::HashMap;

use catalog::{quote_ident, quote_literal};
use wire::frame::Reader;
use wire::{WireError, sqlstate};

use crate::error::{ExecError, Result};

/// Statements of one message to a node.
const STATEMENTS_MAX: usize = 500;
const BYTES_MAX: usize = 1 << 20;
/// Rows of one INSERT.
const ROWS_MAX: u64 = 100;

/// Rows come one after the other, whatever statement they were changed by.
pub const DEFER: &str = "SET CONSTRAINTS ALL DEFERRED";
/// Who has deferred constraints can't attach a table before they were looked at.
pub const LOOK: &str = "SET CONSTRAINTS ALL IMMEDIATE";

/// A shard that is copied.
pub struct Copied {
    /// Its table's object id on its node.
    pub part: u32,
    /// The copy, or the table whose partitions become shards, quoted and qualified; that of two which are merged.
    pub fresh: String,
    /// The columns its rows are found by.
    pub key: Vec<KeyColumn>,
    /// The columns that it makes by itself, quoted.
    pub generated: Vec<String>,
    /// It has constraints that may be held against a transaction's end only.
    pub deferrable: bool,
}

/// What rows are found by, as the index compares it: no search path decides by what, nor does the literal's type, which some operators are not found for.
#[derive(Clone, Debug)]
pub struct KeyColumn {
    /// Quoted.
    pub name: String,
    /// `OPERATOR(schema.=)`.
    pub operator: String,
    /// The type that it has, or its domain is of, as SQL.
    pub of_type: String,
}

/// Statements for the copies, in order for each of them: nothing of one refers to another before they are shards.
#[derive(Default)]
pub struct Batch {
    /// It begins in the midst of a transaction, which has begun in the one before.
    pub goes_on: bool,
    /// It ends in the midst of one.
    pub is_part: bool,
    copies: Vec<OfCopy>,
    count: usize,
    bytes: usize,
}

/// Those for one copy.
struct OfCopy {
    fresh: String,
    statements: Vec<String>,
    /// How many rows each of them is to change.
    rows: Vec<u64>,
    /// The last one is an INSERT of a shard's, which has columns in an order of its own.
    inserts: Option<u32>,
}

impl Batch {
    /// One that begins, or goes on with, a transaction.
    pub fn new(goes_on: bool) -> Self {
        Batch { goes_on, ..Batch::default() }
    }

    /// There is nothing to run.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// It is time to run it.
    pub fn is_full(&self) -> bool {
        self.count >= STATEMENTS_MAX || self.bytes >= BYTES_MAX
    }

    /// Of all statements.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// In the order in which they are run.
    pub fn statements(&self) -> impl Iterator<Item = &str> {
        self.copies.iter().flat_map(|of| of.statements.iter().map(String::as_str))
    }

    /// See [`statements`](Self::statements).
    pub fn rows(&self) -> Vec<u64> {
        self.copies.iter().flat_map(|of| of.rows.iter().copied()).collect()
    }

    fn of(&mut self, fresh: &str) -> &mut OfCopy {
        let at = self.copies.iter().position(|of| of.fresh == fresh).unwrap_or(self.copies.len());
        if at == self.copies.len() {
            self.copies.push(OfCopy { fresh: fresh.into(), statements: vec![], rows: vec![], inserts: None });
        }
        &mut self.copies[at]
    }

    fn push(&mut self, fresh: &str, statement: String, rows: u64) {
        self.bytes += statement.len();
        self.count += 1;
        let of = self.of(fresh);
        of.statements.push(statement);
        of.rows.push(rows);
        of.inserts = None;
    }

    fn insert(&mut self, relation: u32, fresh: &str, head: &str, row: &str) {
        let of = self.of(fresh);
        let same = of.inserts == Some(relation);
        match of.statements.last_mut().zip(of.rows.last_mut()).filter(|(_, rows)| same && **rows < ROWS_MAX) {
            Some((statement, rows)) => {
                statement.push_str(", ");
                statement.push_str(row);
                *rows += 1;
                self.bytes += row.len();
            }
            None => {
                self.push(fresh, format!("{head}{row}"), 1);
                self.of(fresh).inserts = Some(relation);
            }
        }
    }
}

/// Reads messages of one slot, in order.
pub struct Decoder {
    copies: Vec<Copied>,
    relations: HashMap<u32, Columns>,
}

struct Columns {
    /// Which of the copies.
    at: usize,
    /// Quoted.
    names: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Value<'m> {
    Null,
    /// As it was: too long to be told again.
    Unchanged,
    Text(&'m str),
}

impl Value<'_> {
    fn sql(&self) -> Result<String> {
        match self {
            Value::Null => Ok("NULL".into()),
            Value::Text(text) => Ok(quote_literal(text)),
            Value::Unchanged => Err(strange("a value is missing")),
        }
    }
}

impl Copied {
    /// What of a row is written, each value with its column.
    fn given<'c, 'm>(
        &'c self,
        columns: &'c Columns,
        row: &'c [Value<'m>],
    ) -> impl Iterator<Item = (&'c str, &'c Value<'m>)> {
        let all = columns.names.iter().map(String::as_str).zip(row);
        all.filter(|(name, _)| !self.generated.iter().any(|made| made == name))
    }
}

impl Decoder {
    /// Of a slot that begins now.
    pub fn new(copies: Vec<Copied>) -> Self {
        Decoder { copies, relations: HashMap::new() }
    }

    /// Whether there are constraints that hold at the end of a transaction, and not before.
    pub fn defers(&self) -> bool {
        self.copies.iter().any(|copy| copy.deferrable)
    }

    /// Puts what a message says into the batch.
    pub fn read(&mut self, message: &[u8], batch: &mut Batch) -> Result<()> {
        let mut r = Reader::new(message);
        match r.u8()? {
            b'R' => self.relation(&mut r),
            b'I' => {
                let id = r.u32()?;
                let (copy, columns) = self.known(id)?;
                tagged(&mut r, b"N")?;
                let values = tuple(&mut r)?;
                let given: Vec<_> = copy.given(columns, &values).collect();
                let names: Vec<&str> = given.iter().map(|(name, _)| *name).collect();
                let values: Vec<String> = given.iter().map(|(_, v)| v.sql()).collect::<Result<_>>()?;
                let head = format!("INSERT INTO {} ({}) VALUES ", copy.fresh, names.join(", "));
                batch.insert(id, &copy.fresh, &head, &format!("({})", values.join(", ")));
                Ok(())
            }
            b'U' => {
                let (copy, columns) = self.known(r.u32()?)?;
                let mut tag = tagged(&mut r, b"KON")?;
                let mut old = None;
                if tag != b'N' {
                    old = Some(tuple(&mut r)?);
                    tag = tagged(&mut r, b"N")?;
                }
                debug_assert_eq!(tag, b'N');
                let new = tuple(&mut r)?;
                let found = condition(copy, columns, old.as_deref().unwrap_or(&new))?;
                let pairs = copy.given(columns, &new).filter(|(_, v)| **v != Value::Unchanged);
                let set = pairs.map(|(name, v)| Ok(format!("{name} = {}", v.sql()?))).collect::<Result<Vec<_>>>()?;
                if set.is_empty() {
                    return Ok(());
                }
                batch.push(&copy.fresh, format!("UPDATE {} SET {} WHERE {found}", copy.fresh, set.join(", ")), 1);
                Ok(())
            }
            b'D' => {
                let (copy, columns) = self.known(r.u32()?)?;
                tagged(&mut r, b"KO")?;
                let found = condition(copy, columns, &tuple(&mut r)?)?;
                batch.push(&copy.fresh, format!("DELETE FROM {} WHERE {found}", copy.fresh), 1);
                Ok(())
            }
            b'T' => {
                let (count, _) = (r.u32()?, r.u8()?);
                let ids = (0..count).map(|_| r.u32()).collect::<std::result::Result<Vec<_>, _>>()?;
                for id in &ids {
                    let (copy, _) = self.known(*id)?;
                    // A statement empties both of two that are merged: one alone is not what a client sees.
                    let mut same = self.copies.iter().filter(|c| c.fresh == copy.fresh);
                    if !same.clone().all(|c| ids.contains(&c.part)) {
                        return Err(changed());
                    }
                    if same.next().is_some_and(|first| first.part == *id) {
                        batch.push(&copy.fresh, format!("TRUNCATE {}", copy.fresh), 0);
                    }
                }
                Ok(())
            }
            // Begin, Commit, Origin, Type, Message.
            b'B' | b'C' | b'O' | b'Y' | b'M' => Ok(()),
            _ => Err(strange("an unknown message")),
        }
    }

    fn relation(&mut self, r: &mut Reader<'_>) -> Result<()> {
        let id = r.u32()?;
        let at = self.copies.iter().position(|c| c.part == id).ok_or_else(|| strange("another table"))?;
        let (_schema, _name, _identity) = (r.cstr()?, r.cstr()?, r.u8()?);
        let count = r.count(9)?;
        let mut names = Vec::with_capacity(count);
        for _ in 0..count {
            r.u8()?;
            names.push(quote_ident(r.cstr()?));
            r.bytes(8)?;
        }
        match self.relations.get(&id) {
            // Said again after each change of the table that is none of these.
            Some(known) if known.names != names => Err(changed()),
            _ => {
                self.relations.insert(id, Columns { at, names });
                Ok(())
            }
        }
    }

    fn known(&self, id: u32) -> Result<(&Copied, &Columns)> {
        let columns = self.relations.get(&id).ok_or_else(|| strange("a table that was not described"))?;
        Ok((&self.copies[columns.at], columns))
    }
}

/// The table is not what it was when the move began.
pub fn changed() -> ExecError {
    ExecError::sql(sqlstate::OBJECT_IN_USE, "a table was changed while one of its shards was moved, split or merged")
        .hint("Do it again. ALTER TABLE, CREATE INDEX, herd.cluster and the like end it.")
}

fn strange(what: &str) -> ExecError {
    ExecError::internal(format!("logical replication told of {what}"))
}

fn tagged(r: &mut Reader<'_>, of: &[u8]) -> Result<u8> {
    let tag = r.u8()?;
    if of.contains(&tag) { Ok(tag) } else { Err(strange("an unknown part of a message")) }
}

fn tuple<'m>(r: &mut Reader<'m>) -> Result<Vec<Value<'m>>> {
    let count = r.count(1)?;
    let mut values = Vec::with_capacity(count);
    for _ in 0..count {
        values.push(match r.u8()? {
            b'n' => Value::Null,
            b'u' => Value::Unchanged,
            b't' => {
                let len = r.u32()? as usize;
                Value::Text(std::str::from_utf8(r.bytes(len)?).map_err(|_| WireError::String)?)
            }
            _ => return Err(strange("an unknown value")),
        });
    }
    Ok(values)
}

fn condition(copy: &Copied, columns: &Columns, old: &[Value<'_>]) -> Result<String> {
    let mut terms = Vec::with_capacity(copy.key.len());
    for key in &copy.key {
        let KeyColumn { name, operator, of_type } = key;
        let at = columns.names.iter().position(|known| known == name);
        match at.and_then(|at| old.get(at)) {
            Some(value @ Value::Text(_)) => terms.push(format!("{name} {operator} {}::{of_type}", value.sql()?)),
            _ => return Err(strange("a row without its key")),
        }
    }
    Ok(terms.join(" AND "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(parts: &[&[u8]]) -> Vec<u8> {
        parts.concat()
    }

    fn text(value: &str) -> Vec<u8> {
        [b"t", &(value.len() as u32).to_be_bytes()[..], value.as_bytes()].concat()
    }

    fn relation(names: &[&str]) -> Vec<u8> {
        let mut m = message(&[b"R", &7u32.to_be_bytes(), b"herd_shards\0t_1\0d", &(names.len() as i16).to_be_bytes()]);
        names.iter().for_each(|name| m.extend(message(&[&[0], name.as_bytes(), &[0], &[0; 8]])));
        m
    }

    fn copied(part: u32) -> Copied {
        let key = KeyColumn { name: "id".into(), operator: "OPERATOR(pg_catalog.=)".into(), of_type: "integer".into() };
        let (fresh, generated) = ("herd_shards.fresh".into(), vec!["made".into()]);
        Copied { part, fresh, key: vec![key], generated, deferrable: false }
    }

    fn decoder() -> Decoder {
        Decoder::new(vec![copied(7)])
    }

    #[test]
    fn changes_become_statements() {
        let (mut decoder, mut batch) = (decoder(), Batch::default());
        let id = &7u32.to_be_bytes()[..];
        let two = &2i16.to_be_bytes()[..];
        decoder.read(b"B", &mut batch).unwrap();
        decoder.read(&relation(&["id", "Long"]), &mut batch).unwrap();
        for v in ["it's", "b\\"] {
            decoder.read(&message(&[b"I", id, b"N", two, &text("1"), &text(v)]), &mut batch).unwrap();
        }
        decoder.read(&message(&[b"U", id, b"N", two, &text("1"), b"u"]), &mut batch).unwrap();
        decoder
            .read(&message(&[b"U", id, b"K", two, &text("1"), b"n", b"N", two, &text("2"), b"n"]), &mut batch)
            .unwrap();
        decoder.read(&message(&[b"D", id, b"K", two, &text("2"), b"n"]), &mut batch).unwrap();
        decoder.read(&message(&[b"T", &1u32.to_be_bytes(), b"\0", id]), &mut batch).unwrap();
        let expected = [
            "INSERT INTO herd_shards.fresh (id, \"Long\") VALUES ('1', 'it''s'), ('1', E'b\\\\')",
            "UPDATE herd_shards.fresh SET id = '1' WHERE id OPERATOR(pg_catalog.=) '1'::integer",
            "UPDATE herd_shards.fresh SET id = '2', \"Long\" = NULL WHERE id OPERATOR(pg_catalog.=) '1'::integer",
            "DELETE FROM herd_shards.fresh WHERE id OPERATOR(pg_catalog.=) '2'::integer",
            "TRUNCATE herd_shards.fresh",
        ];
        assert_eq!((batch.statements().collect::<Vec<_>>(), batch.rows()), (expected.to_vec(), vec![2, 1, 1, 1, 0]));
    }

    #[test]
    fn what_a_copy_makes_by_itself_is_not_written() {
        let (mut decoder, mut batch) = (decoder(), Batch::default());
        let (id, two) = (&7u32.to_be_bytes()[..], &2i16.to_be_bytes()[..]);
        decoder.read(&relation(&["id", "made"]), &mut batch).unwrap();
        decoder.read(&message(&[b"I", id, b"N", two, &text("1"), &text("2")]), &mut batch).unwrap();
        let changed = message(&[b"U", id, b"O", two, &text("1"), &text("2"), b"N", two, &text("3"), &text("6")]);
        decoder.read(&changed, &mut batch).unwrap();
        let expected = [
            "INSERT INTO herd_shards.fresh (id) VALUES ('1')",
            "UPDATE herd_shards.fresh SET id = '3' WHERE id OPERATOR(pg_catalog.=) '1'::integer",
        ];
        assert_eq!(batch.statements().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn two_shards_of_one_copy_are_emptied_together() {
        let mut decoder = Decoder::new(vec![copied(7), copied(8)]);
        let mut batch = Batch::default();
        for id in [7u32, 8] {
            let mut m = relation(&["id"]);
            m[1..5].copy_from_slice(&id.to_be_bytes());
            decoder.read(&m, &mut batch).unwrap();
        }
        let truncate = |ids: &[u32]| {
            let ids: Vec<u8> = ids.iter().flat_map(|id| id.to_be_bytes()).collect();
            message(&[b"T", &(ids.len() as u32 / 4).to_be_bytes(), b"\0", &ids])
        };
        decoder.read(&truncate(&[8, 7]), &mut batch).unwrap();
        assert_eq!(batch.statements().collect::<Vec<_>>(), ["TRUNCATE herd_shards.fresh"]);
        assert!(decoder.read(&truncate(&[8]), &mut batch).is_err());
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        let (mut decoder, mut batch) = (decoder(), Batch::default());
        decoder.read(&relation(&["id"]), &mut batch).unwrap();
        decoder.read(&relation(&["id"]), &mut batch).unwrap();
        let id = &7u32.to_be_bytes()[..];
        let one = &1i16.to_be_bytes()[..];
        for wrong in [
            relation(&["id", "new"]),
            message(&[b"X"]),
            message(&[b"I", &8u32.to_be_bytes(), b"N", one, b"n"]),
            message(&[b"I", id, b"N", one, b"u"]),
            message(&[b"D", id, b"K", one, b"n"]),
            message(&[b"D", id, b"K", one]),
            vec![],
        ] {
            assert!(decoder.read(&wrong, &mut batch).is_err(), "{wrong:?}");
        }
    }
}

//! Rows that are held column by column, as what COPY reads: a node takes half the time for them that it takes for an INSERT of arrays. Into which
//! table they go is not known here.

use bytes::{BufMut, Bytes, BytesMut};
use txn::Lane;
use wire::put;

use crate::arrays::{Array, Values};
use crate::carried::base;
use crate::render::{self, NodeStatement};
use crate::work::rows;

/// "COPY Binary Formats" in PostgreSQL's documentation of COPY: the signature, no flags, and nothing more in the header.
const HEAD: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
const END: i16 = -1;
/// Bytes of a message.
const MESSAGE: usize = 256 << 10;

/// What puts rows into a table.
pub enum Fill {
    Copy(CopyRows),
    Insert(NodeStatement),
}

impl Fill {
    /// `types`: those of the table's columns.
    pub fn of(table: &str, types: &[String], arrays: Vec<Array>) -> Fill {
        if let Some(copy) = CopyRows::into(table, types, &arrays) {
            return Fill::Copy(copy);
        }
        let rows = render::unnest(1, types, arrays.iter().map(|a| &a.carried));
        Fill::Insert(NodeStatement::over_arrays(format!("INSERT INTO {table} SELECT {rows}"), arrays))
    }

    /// Without waiting. `foreign`: the node is not home.
    pub fn send(&self, lane: &mut Lane, foreign: bool) {
        match self {
            Fill::Copy(copy) => copy.send(lane),
            Fill::Insert(statement) => rows::send_statement(lane, None, statement, foreign, &[]),
        }
    }
}

/// A COPY, and the messages that follow it.
pub struct CopyRows {
    sql: String,
    messages: Bytes,
}

impl CopyRows {
    /// `None`: one of the columns is read from other bytes than it travels in.
    fn into(table: &str, types: &[String], arrays: &[Array]) -> Option<CopyRows> {
        let width = i16::try_from(arrays.len()).ok().filter(|width| *width > 0)?;
        let as_it_is = |(array, name): (&Array, &String)| !array.carried.is_text() || is_text(name);
        if !arrays.iter().zip(types).all(as_it_is) {
            return None;
        }
        let mut columns: Vec<Values> = arrays.iter().map(Values::of_array).collect::<Option<_>>()?;
        let (mut messages, mut data) = (BytesMut::new(), BytesMut::from(HEAD));
        let mut row = Vec::with_capacity(columns.len());
        loop {
            row.clear();
            row.extend(columns.iter_mut().map_while(Iterator::next));
            if row.len() < columns.len() {
                break;
            }
            data.put_i16(width);
            row.iter().for_each(|value| put::value(&mut data, *value));
            if data.len() > MESSAGE {
                put::copy_data(&mut messages, &data);
                data.clear();
            }
        }
        data.put_i16(END);
        put::copy_data(&mut messages, &data);
        put::copy_done(&mut messages);
        Some(CopyRows { sql: format!("COPY {table} FROM STDIN (FORMAT binary)"), messages: messages.freeze() })
    }

    /// Where there is no COPY after all, nobody reads what follows.
    fn send(&self, lane: &mut Lane) {
        lane.put_query(&self.sql);
        lane.conn.out().extend_from_slice(&self.messages);
    }
}

/// Types that read a string's own bytes.
fn is_text(name: &str) -> bool {
    !name.ends_with("[]") && matches!(base(name).as_ref(), "text" | "character varying" | "character")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrays::Arrays;
    use crate::carried::{Carried, Carriers};

    fn sent(types: &[&str], rows: &[[Option<&[u8]>; 2]]) -> Option<Bytes> {
        let mut held = Arrays::new(&Carriers::of(types.iter().map(|t| Carried::unread(t))));
        rows.iter().for_each(|row| held.push(row).unwrap());
        let types: Vec<String> = types.iter().map(|t| t.to_string()).collect();
        CopyRows::into("t", &types, &held.finish()).map(|copy| copy.messages)
    }

    #[test]
    fn rows_follow_each_other() {
        let one = 7_i32.to_be_bytes();
        let messages = sent(&["integer", "character(2)"], &[[Some(&one), Some(b"ab")], [None, Some(b"")]]).unwrap();
        let rows =
            [&[0, 2, 0, 0, 0, 4, 0, 0, 0, 7, 0, 0, 0, 2, b'a', b'b'][..], &[0, 2, 255, 255, 255, 255, 0, 0, 0, 0]];
        let data = [HEAD, &rows.concat(), &[255, 255]].concat();
        let mut wanted = BytesMut::new();
        put::copy_data(&mut wanted, &data);
        put::copy_done(&mut wanted);
        assert_eq!(messages, wanted.freeze());
        assert!(sent(&["integer", "text"], &[]).is_some());
    }

    #[test]
    fn what_is_read_otherwise_goes_as_arrays() {
        assert!(sent(&["integer", "jsonb"], &[]).is_none() && sent(&["text", "text[]"], &[]).is_none());
    }
}

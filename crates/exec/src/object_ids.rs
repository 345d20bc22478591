//! Object ids inside binary values: arrays carry their element type's (array_send), composite values those of their fields'
//! types (record_send). Those of users' own types differ from node to node; other nodes' are rewritten to home's. Nobody has
//! declared the fields of values of type `record`: with such types in them they are refused.

use catalog::{Oid, Snapshot};
use wire::backend::Field;
use wire::sqlstate;
use wire::type_oid::{FIRST_NORMAL_OBJECT_ID, RECORD, RECORD_ARRAY};

use crate::error::{ExecError, Result};
use crate::request::Bound;

/// Columns to rewrite.
pub type OidColumns = Vec<(usize, Layout)>;

/// Where object ids stand in a value, and what they are on home.
#[derive(Debug)]
pub enum Layout {
    Array {
        element: Oid,
        each: Option<Box<Layout>>,
    },
    Composite(Vec<(Oid, Option<Layout>)>),
    /// The types of its fields stand in it alone.
    Record,
}

impl Layout {
    /// What holds the types of its fields itself, and arrays of it.
    fn of_record(oid: Oid) -> Option<Layout> {
        match oid {
            RECORD => Some(Layout::Record),
            RECORD_ARRAY => Some(Layout::Array { element: RECORD, each: Some(Box::new(Layout::Record)) }),
            _ => None,
        }
    }

    /// `None`: all ids in it are PostgreSQL's own.
    fn of(snapshot: &Snapshot, oid: Oid) -> Option<Layout> {
        if oid < FIRST_NORMAL_OBJECT_ID {
            return Layout::of_record(oid);
        }
        let found = snapshot.types.get(&oid)?;
        match found.kind {
            b'a' => Some(Layout::Array { element: found.base, each: Layout::of(snapshot, found.base).map(Box::new) }),
            b'd' => Layout::of(snapshot, found.base),
            b'c' => {
                let fields: Vec<_> = found.fields.iter().map(|f| (*f, Layout::of(snapshot, *f))).collect();
                fields.iter().any(|(f, _)| *f >= FIRST_NORMAL_OBJECT_ID).then_some(Layout::Composite(fields))
            }
            _ => None,
        }
    }

    /// A value that is not laid out so is left as it is.
    ///
    /// # Errors
    /// 0A000: it holds ids of which nobody here knows what they are on home.
    fn rewrite(&self, value: &mut [u8]) -> Result<()> {
        match self {
            Layout::Array { element, each } => {
                // Dimensions, flags, the element's id; length and lower bound of each dimension.
                let Some(dimensions) = int(value, 0).filter(|_| value.len() >= 12) else { return Ok(()) };
                value[8..12].copy_from_slice(&element.to_be_bytes());
                let Some(each) = each else { return Ok(()) };
                let mut at = 12 + 8 * dimensions.max(0) as usize;
                while let Some(end) = end_of_value(value, at) {
                    each.rewrite(&mut value[at + 4..end])?;
                    at = end;
                }
            }
            Layout::Composite(fields) => {
                if int(value, 0) != Some(fields.len() as i32) {
                    return Ok(());
                }
                let mut at = 4;
                for (oid, layout) in fields {
                    let Some(end) = end_of_value(value, at + 4) else { return Ok(()) };
                    value[at..at + 4].copy_from_slice(&oid.to_be_bytes());
                    if let Some(layout) = layout {
                        layout.rewrite(&mut value[at + 8..end])?;
                    }
                    at = end;
                }
            }
            Layout::Record => {
                let mut at = 4;
                while let (Some(oid), Some(end)) = (int(value, at), end_of_value(value, at + 4)) {
                    if oid as Oid >= FIRST_NORMAL_OBJECT_ID {
                        return Err(unknown());
                    }
                    if let Some(layout) = Layout::of_record(oid as Oid) {
                        layout.rewrite(&mut value[at + 8..end])?;
                    }
                    at = end;
                }
            }
        }
        Ok(())
    }
}

fn unknown() -> ExecError {
    ExecError::sql(
        sqlstate::FEATURE_NOT_SUPPORTED,
        "a binary value of type record with fields of users' own types can't be sent from this node: it would tell object ids that are its own",
    )
    .hint("Ask for it in text format, for its fields by themselves, or cast it to a composite type.")
}

/// Before a statement that writes, which may be committed by the time its rows are looked at.
pub fn refuse_records(columns: &OidColumns) -> Result<()> {
    let is_record = |(_, layout): &(usize, Layout)| match layout {
        Layout::Record => true,
        Layout::Array { element, .. } => *element == RECORD,
        Layout::Composite(_) => false,
    };
    if columns.iter().any(is_record) { Err(unknown()) } else { Ok(()) }
}

/// Whether values of such types hold object ids that differ from node to node.
pub fn hold_any(snapshot: &Snapshot, types: impl IntoIterator<Item = Oid>) -> bool {
    types.into_iter().any(|oid| Layout::of(snapshot, oid).is_some())
}

fn int(bytes: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Behind a value whose length (−1: NULL) stands at a place.
fn end_of_value(bytes: &[u8], at: usize) -> Option<usize> {
    let end = at + 4 + int(bytes, at)?.max(0) as usize;
    (end <= bytes.len()).then_some(end)
}

/// `fields`: as home describes them. `bound`: the formats the client wants.
pub fn columns(snapshot: &Snapshot, fields: Option<&[Field]>, bound: Option<&Bound>) -> OidColumns {
    let Some(bound) = bound else { return vec![] };
    let binary = |i: &usize| bound.result_format(*i) == 1;
    let fields = fields.unwrap_or_default();
    (0..fields.len())
        .filter(binary)
        .filter_map(|i| Layout::of(snapshot, fields[i].type_oid).map(|layout| (i, layout)))
        .collect()
}

/// Replaces those columns' object ids in whole DataRow messages.
pub fn rewrite(rows: &mut [u8], columns: &OidColumns) -> Result<()> {
    let mut rest = rows;
    while let Some(length) =
        rest.get(1..wire::frame::HEADER_LEN).and_then(|b| b.try_into().ok()).map(u32::from_be_bytes)
    {
        let (row, behind) = rest.split_at_mut((length as usize + 1).min(rest.len()));
        rewrite_row(row, columns)?;
        rest = behind;
    }
    Ok(())
}

fn rewrite_row(row: &mut [u8], columns: &OidColumns) -> Result<()> {
    let mut at = wire::frame::HEADER_LEN + 2;
    let mut column = 0;
    while let Some(end) = end_of_value(row, at) {
        if let Some((_, layout)) = columns.iter().find(|(i, _)| *i == column) {
            layout.rewrite(&mut row[at + 4..end])?;
        }
        at = end;
        column += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(bytes: &[u8]) -> Vec<u8> {
        [&(bytes.len() as i32).to_be_bytes()[..], bytes].concat()
    }

    fn ints(of: &[i32]) -> Vec<u8> {
        of.iter().flat_map(|i| i.to_be_bytes()).collect()
    }

    /// (enum, NULL, enum[]) in an array: as a node has sent it, and as home would.
    #[test]
    fn ids_are_rewritten_at_any_depth_and_nothing_else() {
        let sent = |mood: i32, moods: i32, of_row: i32| {
            let array = [ints(&[1, 0, mood, 2, 1]), value(b"sad"), ints(&[-1])].concat();
            let row = [ints(&[3, mood]), value(b"sad"), ints(&[23, -1, moods]), value(&array)].concat();
            [ints(&[1, 0, of_row, 1, 1]), value(&row)].concat()
        };
        let moods = Layout::Array { element: 20_001, each: None };
        let row = Layout::Composite(vec![(20_001, None), (23, None), (20_002, Some(moods))]);
        let layout = Layout::Array { element: 20_003, each: Some(Box::new(row)) };
        let mut bytes = sent(30_001, 30_002, 30_003);
        layout.rewrite(&mut bytes).unwrap();
        assert_eq!(bytes, sent(20_001, 20_002, 20_003));
        // What is cut off is left alone, and ends nothing.
        for cut in 0..bytes.len() {
            layout.rewrite(&mut bytes[..cut].to_vec()).unwrap();
        }
    }

    #[test]
    fn records_of_nobodys_types_are_left_and_others_refused() {
        let record = |of: i32| [ints(&[2, 23]), value(b"abcd"), ints(&[of]), value(b"sad")].concat();
        let within = |of: i32| [ints(&[1, RECORD as i32]), value(&record(of))].concat();
        let all = |of: i32| [ints(&[1, 0, RECORD as i32, 1, 1]), value(&within(of))].concat();
        let array = Layout::of(&Snapshot::default(), RECORD_ARRAY).unwrap();
        let mut bytes = all(25);
        array.rewrite(&mut bytes).unwrap();
        assert_eq!(bytes, all(25));
        assert!(Layout::Record.rewrite(&mut record(30_001)).is_err());
        assert!(array.rewrite(&mut all(30_001)).is_err());
    }
}

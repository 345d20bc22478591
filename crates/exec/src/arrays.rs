//! Arrays of users' own types in binary format carry their element type's oid, which differs from node to node: those
//! of other nodes are rewritten to home's.

use catalog::Snapshot;
use wire::backend::Field;

use crate::request::Bound;

/// Columns to rewrite, with the element's oid on home.
pub type ArrayColumns = Vec<(usize, u32)>;

/// `fields`: as home describes them. `bound`: the formats the client wants.
pub fn columns(snapshot: &Snapshot, fields: Option<&[Field]>, bound: Option<&Bound>) -> ArrayColumns {
    let Some(bound) = bound else { return vec![] };
    let binary = |i: &usize| bound.result_format(*i) == 1;
    let fields = fields.unwrap_or_default();
    (0..fields.len())
        .filter(binary)
        .filter_map(|i| snapshot.types.get(&fields[i].type_oid).filter(|t| t.kind == b'a').map(|t| (i, t.base)))
        .collect()
}

/// Replaces those columns' element oids in whole DataRow messages.
pub fn rewrite(rows: &mut [u8], arrays: &ArrayColumns) {
    let mut rest = rows;
    while let Some(length) =
        rest.get(1..wire::frame::HEADER_LEN).and_then(|b| b.try_into().ok()).map(u32::from_be_bytes)
    {
        let (row, behind) = rest.split_at_mut((length as usize + 1).min(rest.len()));
        rewrite_row(row, arrays);
        rest = behind;
    }
}

fn rewrite_row(row: &mut [u8], arrays: &ArrayColumns) {
    let mut at = wire::frame::HEADER_LEN + 2;
    let mut column = 0;
    while let Some(length) = row.get(at..at + 4).map(|b| i32::from_be_bytes([b[0], b[1], b[2], b[3]])) {
        at += 4;
        // dimensions, flags, element oid
        if length >= 12
            && let Some((_, oid)) = arrays.iter().find(|(i, _)| *i == column)
        {
            row[at + 8..at + 12].copy_from_slice(&oid.to_be_bytes());
        }
        at += length.max(0) as usize;
        column += 1;
    }
}

//! Arrays of users' own types in binary format carry their element type's oid, which differs from node to node: those
//! of other nodes are rewritten to home's.

use bytes::{Bytes, BytesMut};
use catalog::Snapshot;
use wire::backend::Field;

use crate::request::Request;

/// Columns to rewrite, with the element's oid on home.
pub type ArrayColumns = Vec<(usize, u32)>;

pub fn columns(snapshot: &Snapshot, fields: Option<&[Field]>, request: &Request) -> ArrayColumns {
    let Some(bound) = request.bound else { return vec![] };
    let binary = |i: &usize| bound.result_format(*i) == 1;
    let fields = fields.unwrap_or_default();
    (0..fields.len())
        .filter(binary)
        .filter_map(|i| snapshot.types.get(&fields[i].type_oid).filter(|t| t.kind == b'a').map(|t| (i, t.base)))
        .collect()
}

/// A DataRow with those columns' element oids replaced.
pub fn rewrite(row: &Bytes, arrays: &ArrayColumns) -> BytesMut {
    let mut row = BytesMut::from(&row[..]);
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
    row
}

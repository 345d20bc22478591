//! Hashes of values that hold other values: arrays, ranges, multiranges (arrayfuncs.c, rangetypes.c, multirangetypes.c).
//!
//! A client's binary range need not be in the form the server would store (`[1,3]` of integers is stored `[1,4)`), so it is brought
//! there first. It does not know how the held values are hashed or compared.

use std::cmp::Ordering;

use crate::compare::compare;
use crate::cursor::{Cursor, fixed};
use crate::hash::hash_seeded;
use crate::jenkins::{hash_bytes, hash_u32, rotate_halves};
use crate::types::{DATE, INT4, INT8, OID, OIDVECTOR};
use crate::{KeyError, Oid};

/// `MAXDIM` (src/include/utils/array.h).
const DIMENSIONS_MAX: i32 = 6;

// Range flags (src/include/utils/rangetypes.h).
const EMPTY: u8 = 0x01;
const LOWER_INCLUSIVE: u8 = 0x02;
const UPPER_INCLUSIVE: u8 = 0x04;
const LOWER_INFINITE: u8 = 0x08;
const UPPER_INFINITE: u8 = 0x10;

/// The elements of an array in their storage order, whatever its dimensions.
fn elements(type_oid: Oid, element: Oid, value: &[u8]) -> Result<Vec<Option<&[u8]>>, KeyError> {
    let mut cursor = Cursor::new(type_oid, value);
    let dimensions = cursor.i32()?;
    let _has_null = cursor.i32()?;
    if !(0..=DIMENSIONS_MAX).contains(&dimensions) || cursor.u32()? != element {
        return Err(cursor.error());
    }
    let mut count = usize::from(dimensions > 0);
    for _ in 0..dimensions {
        let len = usize::try_from(cursor.i32()?).map_err(|_| cursor.error())?;
        let _lower_bound = cursor.i32()?;
        count = count.checked_mul(len).ok_or_else(|| cursor.error())?;
    }
    // Each element takes at least its length field, so a forged count cannot make us allocate.
    if count > cursor.rest().len() / 4 {
        return Err(cursor.error());
    }
    let elements = (0..count).map(|_| cursor.nullable()).collect::<Result<_, _>>()?;
    cursor.end()?;
    Ok(elements)
}

/// How arrays and multiranges fold their parts' hashes: times 31, plus.
fn fold(result: u64, part: u64) -> u64 {
    (result << 5).wrapping_sub(result).wrapping_add(part)
}

/// `hash_array_extended`: the dimensions do not count, NULL elements count as 0.
pub(crate) fn hash_array(type_oid: Oid, element: Oid, value: &[u8], seed: u64) -> Result<u64, KeyError> {
    elements(type_oid, element, value)?.into_iter().try_fold(1, |result, value| {
        let part = value.map_or(Ok(0), |value| hash_seeded(element, value, seed))?;
        Ok(fold(result, part))
    })
}

/// `hashoidvectorextended`: the in-memory array of native 32-bit words.
pub(crate) fn hash_oidvector(value: &[u8], seed: u64) -> Result<u64, KeyError> {
    let mut bytes = Vec::with_capacity(value.len());
    for element in elements(OIDVECTOR, OID, value)? {
        let element = element.ok_or(KeyError::InvalidBinary { type_name: "oidvector" })?;
        bytes.extend(u32::from_be_bytes(fixed(OID, element)?).to_le_bytes());
    }
    Ok(hash_bytes(&bytes, seed))
}

/// A range in the form PostgreSQL stores.
struct Range {
    flags: u8,
    lower: Option<Vec<u8>>,
    upper: Option<Vec<u8>>,
}

impl Range {
    const fn empty() -> Range {
        Range { flags: EMPTY, lower: None, upper: None }
    }

    /// Reads what `range_recv` reads and does what `make_range` does: canonicalizes discrete subtypes, finds empty ranges.
    fn decode(type_oid: Oid, subtype: Oid, value: &[u8]) -> Result<Range, KeyError> {
        let mut cursor = Cursor::new(type_oid, value);
        let flags = cursor.u8()?;
        let mut bound = |present: bool| -> Result<Option<Vec<u8>>, KeyError> {
            if !present {
                return Ok(None);
            }
            let bound = cursor.nullable()?.ok_or_else(|| cursor.error())?;
            Ok(Some(bound.to_vec()))
        };
        let lower = bound(flags & (EMPTY | LOWER_INFINITE) == 0)?;
        let upper = bound(flags & (EMPTY | UPPER_INFINITE) == 0)?;
        cursor.end()?;
        if flags & EMPTY != 0 {
            return Ok(Range::empty());
        }
        Range { flags, lower, upper }.serialized(type_oid, subtype)?.canonical(subtype)?.serialized(type_oid, subtype)
    }

    /// `range_serialize`: infinite bounds are never inclusive; equal bounds that are not both inclusive hold nothing.
    fn serialized(mut self, type_oid: Oid, subtype: Oid) -> Result<Range, KeyError> {
        if self.flags & LOWER_INFINITE != 0 {
            self.flags &= !LOWER_INCLUSIVE;
        }
        if self.flags & UPPER_INFINITE != 0 {
            self.flags &= !UPPER_INCLUSIVE;
        }
        self.flags &= EMPTY | LOWER_INCLUSIVE | UPPER_INCLUSIVE | LOWER_INFINITE | UPPER_INFINITE;
        let (Some(lower), Some(upper)) = (&self.lower, &self.upper) else {
            return Ok(self);
        };
        let both_inclusive = self.flags & (LOWER_INCLUSIVE | UPPER_INCLUSIVE) == LOWER_INCLUSIVE | UPPER_INCLUSIVE;
        match compare(subtype, lower, upper)? {
            Ordering::Greater => Err(Cursor::new(type_oid, &[]).error()),
            Ordering::Equal if !both_inclusive => Ok(Range::empty()),
            _ => Ok(self),
        }
    }

    /// Integer and date ranges are stored with an inclusive lower and an exclusive upper bound.
    fn canonical(mut self, subtype: Oid) -> Result<Range, KeyError> {
        if ![INT4, INT8, DATE].contains(&subtype) || self.flags & EMPTY != 0 {
            return Ok(self);
        }
        if let (Some(lower), 0) = (&mut self.lower, self.flags & LOWER_INCLUSIVE)
            && successor(subtype, lower)?
        {
            self.flags |= LOWER_INCLUSIVE;
        }
        if let (Some(upper), true) = (&mut self.upper, self.flags & UPPER_INCLUSIVE != 0)
            && successor(subtype, upper)?
        {
            self.flags &= !UPPER_INCLUSIVE;
        }
        Ok(self)
    }

    /// `hash_range_extended`.
    fn hash(&self, subtype: Oid, seed: u64) -> Result<u64, KeyError> {
        let bound = |bound: &Option<Vec<u8>>| bound.as_ref().map_or(Ok(0), |bound| hash_seeded(subtype, bound, seed));
        Ok(rotate_halves(hash_u32(self.flags.into(), seed) ^ bound(&self.lower)?) ^ bound(&self.upper)?)
    }

    /// Is there something between this range and the next, so that a multirange keeps both apart?
    fn is_apart_from(&self, next: &Range, subtype: Oid) -> Result<bool, KeyError> {
        let (Some(upper), Some(lower)) = (&self.upper, &next.lower) else {
            return Ok(false);
        };
        Ok(match compare(subtype, upper, lower)? {
            Ordering::Less => true,
            Ordering::Equal => self.flags & UPPER_INCLUSIVE == 0 && next.flags & LOWER_INCLUSIVE == 0,
            Ordering::Greater => false,
        })
    }
}

/// Moves a discrete bound to the next value; `false` for infinite dates, which stay as they are.
fn successor(subtype: Oid, bound: &mut Vec<u8>) -> Result<bool, KeyError> {
    let overflow = |name| KeyError::numeric_out_of_range(format!("{name} out of range"));
    *bound = match subtype {
        INT8 => {
            let value = i64::from_be_bytes(fixed(subtype, bound)?);
            value.checked_add(1).ok_or_else(|| overflow("bigint"))?.to_be_bytes().to_vec()
        }
        _ => {
            let value = i32::from_be_bytes(fixed(subtype, bound)?);
            if subtype == DATE && (value == i32::MIN || value == i32::MAX) {
                return Ok(false);
            }
            value.checked_add(1).ok_or_else(|| overflow("integer"))?.to_be_bytes().to_vec()
        }
    };
    Ok(true)
}

pub(crate) fn hash_range(type_oid: Oid, subtype: Oid, value: &[u8], seed: u64) -> Result<u64, KeyError> {
    Range::decode(type_oid, subtype, value)?.hash(subtype, seed)
}

/// `hash_multirange_extended`. A multirange whose ranges touch, overlap or are out of order would be merged by the server: not here.
pub(crate) fn hash_multirange(type_oid: Oid, subtype: Oid, value: &[u8], seed: u64) -> Result<u64, KeyError> {
    let mut cursor = Cursor::new(type_oid, value);
    let count = cursor.u32()?;
    let mut previous: Option<Range> = None;
    let mut result = 1;
    for _ in 0..count {
        let range = cursor.nullable()?.ok_or_else(|| cursor.error())?;
        let range = Range::decode(type_oid, subtype, range)?;
        let apart = previous.as_ref().map_or(Ok(true), |previous| previous.is_apart_from(&range, subtype))?;
        if range.flags & EMPTY != 0 || !apart {
            return Err(KeyError::NeedsServer);
        }
        result = fold(result, range.hash(subtype, seed)?);
        previous = Some(range);
    }
    cursor.end()?;
    Ok(result)
}

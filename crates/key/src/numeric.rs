//! `numeric`, exactly: its binary format, hash, order and rounding (src/backend/utils/adt/numeric.c); its text is in text.rs beside.
//!
//! Base 10000 digits as PostgreSQL keeps them. It does no arithmetic beyond rounding.

mod text;

use std::cmp::Ordering;

use crate::KeyError;
use crate::cursor::Cursor;
use crate::jenkins::hash_bytes;
use crate::types::NUMERIC;

/// `NUMERIC_DSCALE_MAX`.
const SCALE_MAX: i64 = 0x3fff;
/// `NUMERIC_WEIGHT_MAX`.
const WEIGHT_MAX: i64 = i16::MAX as i64;
/// Decimal digits in one base-10000 digit.
const DEC_DIGITS: i64 = 4;

const SIGN_POSITIVE: u16 = 0x0000;
const SIGN_NEGATIVE: u16 = 0x4000;
const SIGN_NAN: u16 = 0xc000;
const SIGN_POSITIVE_INFINITY: u16 = 0xd000;
const SIGN_NEGATIVE_INFINITY: u16 = 0xf000;

/// A numeric value; finite ones without leading or trailing zero digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Numeric {
    NaN,
    Infinity { negative: bool },
    Finite(Finite),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finite {
    negative: bool,
    /// The first digit counts this power of 10000; 0 for zero.
    weight: i32,
    /// Decimal digits shown after the point.
    scale: u16,
    digits: Vec<u16>,
}

impl Finite {
    /// Strips zero digits at both ends, as `strip_var` does. `scale` only matters for display.
    fn new(negative: bool, weight: i32, scale: u16, mut digits: Vec<u16>) -> Finite {
        let leading = digits.iter().take_while(|digit| **digit == 0).count();
        digits.drain(..leading);
        while digits.last() == Some(&0) {
            digits.pop();
        }
        let zero = digits.is_empty();
        Finite { negative: negative && !zero, weight: if zero { 0 } else { weight - leading as i32 }, scale, digits }
    }

    /// From decimal digits (values 0 to 9), `point` of which stand before the decimal point (it may lie outside of them).
    fn from_decimals(negative: bool, decimals: &[u8], point: i64, scale: u16) -> Result<Finite, KeyError> {
        let significant = decimals.iter().position(|digit| *digit != 0).unwrap_or(decimals.len());
        let decimals = &decimals[significant..];
        if decimals.is_empty() {
            return Ok(Finite::new(false, 0, scale, Vec::new()));
        }
        let point = point - significant as i64;
        // The first group of four holds what is left when the others end at the decimal point.
        let weight = (point + DEC_DIGITS - 1).div_euclid(DEC_DIGITS) - 1;
        if weight > WEIGHT_MAX {
            return Err(overflow());
        }
        let offset = ((weight + 1) * DEC_DIGITS - point) as usize;
        let mut digits = vec![0; (offset + decimals.len()).div_ceil(DEC_DIGITS as usize)];
        for (index, decimal) in decimals.iter().enumerate() {
            let at = offset + index;
            digits[at / 4] += u16::from(*decimal) * [1000, 100, 10, 1][at % 4];
        }
        Ok(Finite::new(negative, weight as i32, scale, digits))
    }

    /// All decimal digits, and how many of them stand before the point.
    fn decimals(&self) -> (Vec<u8>, i64) {
        let four = |digit: &u16| [1000, 100, 10, 1].map(|unit| (digit / unit % 10) as u8);
        let decimals = self.digits.iter().flat_map(four).collect();
        (decimals, (i64::from(self.weight) + 1) * DEC_DIGITS)
    }

    /// Rounds half away from zero at `scale` decimals after (or, negative, before) the point, as `round_var` does.
    fn round(&self, scale: i32) -> Result<Finite, KeyError> {
        let (mut decimals, mut point) = self.decimals();
        let keep = point + i64::from(scale);
        let shown = u16::try_from(scale).unwrap_or(0);
        if keep < 0 {
            return Ok(Finite::new(false, 0, shown, Vec::new()));
        }
        let keep = keep as usize;
        if keep < decimals.len() {
            let up = decimals[keep] >= 5;
            decimals.truncate(keep);
            if up {
                let nines = decimals.iter().rev().take_while(|digit| **digit == 9).count();
                decimals[keep - nines..].fill(0);
                if nines == keep {
                    decimals.insert(0, 1);
                    point += 1;
                } else {
                    decimals[keep - nines - 1] += 1;
                }
            }
        }
        Finite::from_decimals(self.negative, &decimals, point, shown)
    }

    fn cmp_absolute(&self, other: &Finite) -> Ordering {
        match (self.digits.is_empty(), other.digits.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            // Stripped digits compare like strings: a longer one with the same start is larger.
            (false, false) => self.weight.cmp(&other.weight).then_with(|| self.digits.cmp(&other.digits)),
        }
    }
}

fn overflow() -> KeyError {
    KeyError::numeric_out_of_range("value overflows numeric format")
}

impl Numeric {
    /// From the binary format; digits behind the display scale are cut off, as `numeric_recv` does.
    pub(crate) fn decode(value: &[u8]) -> Result<Numeric, KeyError> {
        let mut cursor = Cursor::new(NUMERIC, value);
        let (count, weight, sign, scale) = (cursor.u16()?, cursor.i16()?, cursor.u16()?, cursor.u16()?);
        let mut digits = (0..count).map(|_| cursor.u16()).collect::<Result<Vec<_>, _>>()?;
        cursor.end()?;
        if digits.iter().any(|digit| *digit > 9999) {
            return Err(cursor.error());
        }
        let negative = match sign {
            SIGN_POSITIVE => false,
            SIGN_NEGATIVE => true,
            SIGN_NAN => return Ok(Numeric::NaN),
            SIGN_POSITIVE_INFINITY => return Ok(Numeric::Infinity { negative: false }),
            SIGN_NEGATIVE_INFINITY => return Ok(Numeric::Infinity { negative: true }),
            _ => return Err(cursor.error()),
        };
        if i64::from(scale) > SCALE_MAX {
            return Err(cursor.error());
        }
        let kept = ((i64::from(weight) + 1) * DEC_DIGITS + i64::from(scale)).max(0) as usize;
        if kept < digits.len() * 4 {
            digits.truncate(kept.div_ceil(4));
            if let (Some(last), cut @ 1..) = (digits.last_mut(), kept % 4) {
                *last -= *last % [1, 1000, 100, 10][cut];
            }
        }
        Ok(Numeric::Finite(Finite::new(negative, weight.into(), scale, digits)))
    }

    /// The binary send format.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let header = |count: u16, weight: i16, sign: u16, scale: u16| {
            [count.to_be_bytes(), weight.to_be_bytes(), sign.to_be_bytes(), scale.to_be_bytes()].concat()
        };
        match self {
            Numeric::NaN => header(0, 0, SIGN_NAN, 0),
            // numeric_send shows a bit of the infinities' short header as their scale.
            Numeric::Infinity { negative: false } => header(0, 0, SIGN_POSITIVE_INFINITY, 0x20),
            Numeric::Infinity { negative: true } => header(0, 0, SIGN_NEGATIVE_INFINITY, 0x20),
            Numeric::Finite(finite) => {
                let sign = if finite.negative { SIGN_NEGATIVE } else { SIGN_POSITIVE };
                let mut bytes = header(finite.digits.len() as u16, finite.weight as i16, sign, finite.scale);
                bytes.extend(finite.digits.iter().flat_map(|digit| digit.to_be_bytes()));
                bytes
            }
        }
    }

    pub(crate) fn from_integer(value: i128) -> Numeric {
        let decimals: Vec<u8> = value.unsigned_abs().to_string().bytes().map(|byte| byte - b'0').collect();
        // An i128 has 39 digits at most: far below the weight limit.
        Finite::from_decimals(value < 0, &decimals, decimals.len() as i64, 0).map_or(Numeric::NaN, Numeric::Finite)
    }

    /// The value as an integer, where it is one and fits.
    pub(crate) fn to_integer(&self) -> Option<i64> {
        let Numeric::Finite(finite) = self else {
            return None;
        };
        let (decimals, point) = finite.decimals();
        let point = usize::try_from(point).ok().filter(|point| *point <= 24)?;
        let (whole, fraction) = decimals.split_at(point.min(decimals.len()));
        if fraction.iter().any(|digit| *digit != 0) {
            return None;
        }
        let digits = whole.iter().copied().chain(std::iter::repeat_n(0, point - whole.len()));
        let absolute = digits.fold(0_i128, |value, digit| value * 10 + i128::from(digit));
        i64::try_from(if finite.negative { -absolute } else { absolute }).ok()
    }

    /// `hash_numeric_extended`: digits without zeros at the ends, and the weight. The sign does not count.
    pub(crate) fn hash(&self, seed: u64) -> u64 {
        match self {
            Numeric::NaN | Numeric::Infinity { .. } => seed,
            Numeric::Finite(finite) if finite.digits.is_empty() => seed.wrapping_sub(1),
            Numeric::Finite(finite) => {
                let bytes: Vec<u8> = finite.digits.iter().flat_map(|digit| digit.to_le_bytes()).collect();
                hash_bytes(&bytes, seed) ^ i64::from(finite.weight) as u64
            }
        }
    }

    /// `apply_typmod`: fits the value into `numeric(precision, scale)`.
    pub(crate) fn fit(&self, precision: i32, scale: i32) -> Result<Numeric, KeyError> {
        let field_overflow = || KeyError::numeric_out_of_range("numeric field overflow");
        match self {
            Numeric::NaN => Ok(Numeric::NaN),
            Numeric::Infinity { .. } => Err(field_overflow()),
            Numeric::Finite(finite) => {
                let rounded = finite.round(scale)?;
                let (decimals, point) = rounded.decimals();
                let leading = decimals.iter().take_while(|digit| **digit == 0).count() as i64;
                if !decimals.is_empty() && point - leading > i64::from(precision - scale) {
                    return Err(field_overflow());
                }
                Ok(Numeric::Finite(rounded))
            }
        }
    }
}

impl Numeric {
    /// Where the specials stand: below, among or above the finite values. NaN is above all, and equal to itself.
    fn rank(&self) -> i8 {
        match self {
            Numeric::Infinity { negative: true } => -1,
            Numeric::Finite(_) => 0,
            Numeric::Infinity { negative: false } => 1,
            Numeric::NaN => 2,
        }
    }

    /// `numeric_cmp`: exact, whatever the display scales.
    pub(crate) fn compare(&self, other: &Numeric) -> Ordering {
        match (self, other) {
            (Numeric::Finite(a), Numeric::Finite(b)) => match (a.negative, b.negative) {
                (false, false) => a.cmp_absolute(b),
                (true, true) => b.cmp_absolute(a),
                (a_negative, _) => {
                    if a_negative {
                        Ordering::Less
                    } else {
                        Ordering::Greater
                    }
                }
            },
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

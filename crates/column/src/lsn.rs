//! Positions in a node's write-ahead log, as PostgreSQL writes them. It does not know what is at them.

use std::fmt;
use std::str::FromStr;

/// A position in the write-ahead log, in bytes from its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

/// A text that is no position.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no position in a write-ahead log")]
pub struct NoLsn(String);

impl FromStr for Lsn {
    type Err = NoLsn;

    fn from_str(text: &str) -> Result<Self, NoLsn> {
        let parts = text.split_once('/').and_then(|(high, low)| {
            let part = |part| u32::from_str_radix(part, 16).ok();
            Some((u64::from(part(high)?) << 32) | u64::from(part(low)?))
        });
        parts.map(Lsn).ok_or_else(|| NoLsn(text.into()))
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for text in ["0/0", "16/B374D848", "FFFFFFFF/FFFFFFFF"] {
            assert_eq!(text.parse::<Lsn>().unwrap().to_string(), text);
        }
        for wrong in ["", "1", "1/", "1/G", "1/100000000"] {
            assert!(wrong.parse::<Lsn>().is_err(), "{wrong}");
        }
    }
}

//! The first bytes of a long text, as a number: a column of eight bytes that a column copy has beside the text's own, so that what they
//! decide is read without reading the texts. Who keeps it (crate `column`) and who asks for it (crate `plan`) have these rules from here.
//! It does not know tables, nor who compares what.
//!
//! Numbers are ordered as the bytes are: PostgreSQL's texts have no byte 0, which fills up shorter ones.

use wire::type_oid;

/// So many bytes of a text are in its number.
pub const BYTES: usize = 8;
/// The number of a NULL: greater than that of any text, as no UTF-8 begins with a byte 255.
pub const OF_NULL: u64 = u64::MAX;
/// Texts of no more characters than this are short enough by themselves.
const SHORT_MAX: i32 = 16;
/// What is put before the length of a type's modifier (`VARHDRSZ`).
const HEADER: i32 = 4;

/// Whether a column of this type and modifier (`pg_attribute.atttypid`, `atttypmod`) has such a column beside it.
pub fn are_kept(type_oid: u32, modifier: i32) -> bool {
    match type_oid {
        type_oid::TEXT => true,
        type_oid::VARCHAR => modifier < HEADER || modifier - HEADER > SHORT_MAX,
        type_oid::BPCHAR => modifier - HEADER > SHORT_MAX,
        _ => false,
    }
}

/// The name of the column that has them. No table has one of this name: PostgreSQL's have 63 bytes at most.
pub fn column(of: &str) -> String {
    format!("the first eight bytes, as one number, of the column with the name {of}")
}

/// Their number.
pub fn number(text: &[u8]) -> u64 {
    filled_up(text, 0)
}

/// The least and the greatest number of texts that begin with this; there may be others between if it has more than [`BYTES`].
pub fn beginning(with: &[u8]) -> (u64, u64) {
    (filled_up(with, 0), filled_up(with, 255))
}

fn filled_up(text: &[u8], by: u8) -> u64 {
    let mut bytes = [by; BYTES];
    let len = text.len().min(BYTES);
    bytes[..len].copy_from_slice(&text[..len]);
    u64::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_ordered_as_bytes_are() {
        let texts =
            ["", "\u{1}", " ", "1", "1 ", "10", "12345678", "12345678x", "1234567é", "2", "a", "é", "\u{10ffff}"];
        for pair in texts.windows(2) {
            assert!(number(pair[0].as_bytes()) <= number(pair[1].as_bytes()), "{pair:?}");
        }
        assert!(number("\u{10ffff}\u{10ffff}".as_bytes()) < OF_NULL);
    }

    #[test]
    fn what_begins_with_a_text_is_between() {
        for with in ["1", "12", "é", "1234567", "12345678", "123456789"] {
            let (least, greatest) = beginning(with.as_bytes());
            for behind in ["", "\u{1}", "x", "\u{10ffff}\u{10ffff}"] {
                let number = number(format!("{with}{behind}").as_bytes());
                assert!((least..=greatest).contains(&number), "{with}{behind}");
            }
            for other in ["", "0", "13", "È", "1234568", "~"] {
                if with.len() <= BYTES {
                    assert!(!(least..=greatest).contains(&number(other.as_bytes())) || other.starts_with(with));
                }
            }
            assert!(greatest < OF_NULL);
        }
    }

    #[test]
    fn no_table_has_a_column_of_that_name() {
        assert!(column("").len() > 63);
        assert!(are_kept(type_oid::BPCHAR, 124) && are_kept(type_oid::TEXT, -1) && are_kept(type_oid::VARCHAR, -1));
        assert!(!are_kept(type_oid::VARCHAR, 20) && !are_kept(type_oid::BPCHAR, -1) && !are_kept(type_oid::UUID, -1));
    }
}

//! Words that stand for a moment where text becomes a date or a time. Which text becomes one is not known here.

/// The words, as PostgreSQL has them (datetime.c, `datetktbl`).
pub const WORDS: [&str; 4] = ["now", "today", "tomorrow", "yesterday"];

/// A moment's word is somewhere in the text, or in a literal in it.
pub fn mentions(text: &str) -> bool {
    WORDS.iter().any(|w| text.as_bytes().windows(w.len()).any(|t| t.eq_ignore_ascii_case(w.as_bytes())))
}

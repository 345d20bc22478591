//! What DuckDB's errors mean. It tells them by words alone, so this is where they are looked at.

use crate::error::Error;

/// Another process has the file.
pub fn is_in_use(error: &Error) -> bool {
    matches!(error, Error::Duck(error) if error.to_string().contains("lock on file"))
}

/// DuckDB does nothing any more, after an error in itself: whoever opens the file anew, in another process, has what was committed.
pub fn is_over(error: &Error) -> bool {
    matches!(error, Error::Duck(error) if error.to_string().contains("database has been invalidated"))
}

/// DuckDB says that it is wrong itself. It does nothing any more then ([`is_over`]).
pub fn is_internal(text: &str) -> bool {
    text.contains("INTERNAL Error")
}

/// Of the disk, of memory, of DuckDB itself: it is no row's fault, would come again, and again for every other copy.
pub fn is_of_the_system(error: &duckdb::Error) -> bool {
    let text = error.to_string();
    ["IO Error", "Out of Memory", "FATAL", "INTERNAL", "INTERRUPT"].iter().any(|kind| text.contains(kind))
}

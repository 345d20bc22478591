//! What DuckDB's errors mean. It tells them by words alone, so this is where they are looked at.

use crate::error::Error;

/// Another process has the file.
pub fn is_in_use(error: &Error) -> bool {
    matches!(error, Error::Duck(error) if error.to_string().contains("lock on file"))
}

/// Of the disk, of memory, of DuckDB itself: it is no row's fault, would come again, and again for every other copy.
pub fn is_of_the_system(error: &duckdb::Error) -> bool {
    let text = error.to_string();
    ["IO Error", "Out of Memory", "FATAL", "INTERNAL", "INTERRUPT"].iter().any(|kind| text.contains(kind))
}

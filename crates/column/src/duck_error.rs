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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_that_has_ended_says_so() -> duckdb::Result<()> {
        let directory = tempfile::tempdir().unwrap();
        let conn = duckdb::Connection::open(directory.path().join("it.duckdb"))?;
        conn.execute_batch("CREATE TABLE t AS SELECT range AS i FROM range(1000)")?;
        let over = |error: duckdb::Error| is_over(&Error::Duck(error));
        assert!(conn.execute_batch("SELECT nothing").is_err_and(|e| !over(e)));
        assert!(conn.execute_batch("SELECT 1").is_ok());
        conn.execute_batch("SET debug_checkpoint_abort = 'before_header'")?;
        assert!(conn.execute_batch("CHECKPOINT").is_err());
        assert!(conn.execute_batch("SELECT 1").is_err_and(over));
        Ok(())
    }
}

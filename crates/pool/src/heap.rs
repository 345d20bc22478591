//! A node's process keeps the memory that its statements free. Where it runs on glibc, it gives the top of its heap back as soon as 128 KiB of it
//! are free, and has it anew, page by page, with the next statement: of a range over 16 partitions that is a third of its time. Once a block
//! that was mapped by itself has been freed, glibc keeps twice as much as that block was (mallopt(3): M_MMAP_THRESHOLD, M_TRIM_THRESHOLD). Servers
//! with another allocator lose nothing by it. It does not know what the connection is for.

use crate::conn::Conn;
use crate::error::PoolError;

/// Allocates 1 MB, and frees it: up to 2 MB stay from then on.
const ALLOCATES: &str = "SELECT pg_catalog.length(pg_catalog.repeat('x', 1000000))";

impl Conn {
    /// To be called once, before clients' statements. That a server refuses it (a role's `statement_timeout` may be a millisecond) costs time alone.
    pub(crate) async fn keep_heap(&mut self) -> Result<(), PoolError> {
        match self.simple(ALLOCATES).await {
            Err(error) if self.is_broken() => Err(error),
            _ => Ok(()),
        }
    }
}

//! Opens DuckDB's file anew when much has been written to it: the process that has packed texts unpacks all of a run of them to read one, and one that
//! has opened the file does not. It does not know what was written.

use std::mem;
use std::time::Duration;

use duckdb::Connection;

use crate::apply::Writer;
use crate::duck;
use crate::error::Result;
use crate::jobs::Handle;
use crate::readers::Readers;
use crate::resort::Idle;

/// For so long it is waited for those who read; others wait meanwhile.
const READS_MAX: Duration = Duration::from_secs(1);
/// Between two tries to open the file.
const AGAIN: Duration = Duration::from_secs(1);

/// All connections to the database but the writing thread's.
#[derive(Clone)]
pub struct Others {
    pub readers: Readers,
    pub sorts: Idle,
}

/// Where nobody reads or sorts for long, and nothing is being written. False: it was not done.
pub async fn reopen(writer: &Handle, others: &Others) -> Result<bool> {
    let Ok(paused) = tokio::time::timeout(READS_MAX, others.readers.pause()).await else { return Ok(false) };
    let (paused, sorts, readers) = (paused?, others.sorts.clone(), others.readers.clone());
    writer
        .call(move |w| {
            let mut sorts = sorts.lock();
            if w.is_open() || sorts.take().is_none() {
                return Ok(false);
            }
            paused.disconnect();
            // Who comes while there is no file is told so.
            let mut paused = Some(paused);
            w.open_anew(|| drop(paused.take()))?;
            *sorts = Some(w.conn.try_clone()?);
            readers.connect(&w.conn)?;
            Ok(true)
        })
        .await?
}

impl Writer {
    /// The database is closed, and opened again. There is no other connection to it.
    fn open_anew(&mut self, mut failed: impl FnMut()) -> Result<()> {
        drop(mem::replace(&mut self.conn, Connection::open_in_memory()?));
        let shared = self.shared.clone();
        let config = &shared.config;
        self.conn = loop {
            match duck::open(&config.directory, &config.memory, config.threads) {
                Ok(conn) => break conn,
                // What is on disk is there as it was: somebody may make room.
                Err(error) => tracing::error!("the file of copies can't be opened, and is tried again: {error}"),
            }
            failed();
            std::thread::sleep(AGAIN);
        };
        Ok(())
    }
}

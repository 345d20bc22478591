//! Connections to DuckDB for reading: few, each for one read at a time. A read that nobody waits for any more is interrupted. It does not
//! know what is read.

use std::sync::Arc;
use std::time::Duration;

use duckdb::{Connection, InterruptHandle};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::{Error, Result};

/// A read that nobody waits for any more may end by itself for so long: most are short. Interrupts that
/// meet a statement as it begins or ends are suspected of an error that DuckDB 1.5.6 does not survive ("Attempted to access index … within vector"); that they are the
/// reason was not found out.
const INTERRUPT_AFTER: Duration = Duration::from_millis(100);
/// An interrupt that comes before the statement has begun is lost: it is said again this often.
const INTERRUPT_EVERY: Duration = Duration::from_millis(20);

/// The connections that are free.
#[derive(Clone)]
pub struct Readers {
    free: Arc<Mutex<Vec<Connection>>>,
    room: Arc<Semaphore>,
    count: usize,
}

impl Readers {
    /// So many connections to the database of this one.
    pub fn new(conn: &Connection, count: usize) -> Result<Self> {
        let readers = Readers { free: Arc::default(), room: Arc::new(Semaphore::new(count)), count };
        readers.connect(conn)?;
        Ok(readers)
    }

    /// There are some again, to the database of this one.
    pub fn connect(&self, conn: &Connection) -> Result<()> {
        let all = (0..self.count).map(|_| conn.try_clone()).collect::<duckdb::Result<Vec<_>>>()?;
        *self.free.lock() = all;
        Ok(())
    }

    /// When nobody reads: nobody does until what this gives is dropped.
    pub async fn pause(&self) -> Result<Paused> {
        let all = u32::try_from(self.count).unwrap_or(u32::MAX);
        let room = self.room.clone().acquire_many_owned(all).await.map_err(|_| Error::Gone)?;
        Ok(Paused { readers: self.clone(), _room: room })
    }

    /// Waits for one that is free; it has a transaction that reads, which has seen nothing yet.
    pub async fn get(&self) -> Result<Reader> {
        let permit = self.room.clone().acquire_owned().await.map_err(|_| Error::Gone)?;
        let conn = self.free.lock().pop().ok_or(Error::Gone)?;
        let interrupt = conn.interrupt_handle();
        let lent = Lent { conn: Some(conn), free: self.free.clone(), _permit: permit };
        Ok(Reader { lent: Some(lent), interrupt, running: Arc::new(Mutex::new(false)) })
    }
}

/// Nobody reads.
pub struct Paused {
    readers: Readers,
    _room: OwnedSemaphorePermit,
}

impl Paused {
    /// There are no connections any more.
    pub fn disconnect(&self) {
        self.readers.free.lock().clear();
    }
}

/// A connection that is lent; it goes back by itself, and its transaction ends.
struct Lent {
    conn: Option<Connection>,
    free: Arc<Mutex<Vec<Connection>>>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(conn) = self.conn.take() {
            // There is none after an error, perhaps.
            let _ = conn.execute_batch("ROLLBACK");
            self.free.lock().push(conn);
        }
    }
}

/// One read's connection.
pub struct Reader {
    lent: Option<Lent>,
    interrupt: Arc<InterruptHandle>,
    running: Arc<Mutex<bool>>,
}

impl Reader {
    /// Runs this on a thread that may block. If it is given up, it is interrupted.
    pub async fn run<R: Send + 'static>(
        &mut self,
        f: impl FnOnce(&Connection) -> Result<R> + Send + 'static,
    ) -> Result<R> {
        let lent = self.lent.take().ok_or(Error::Gone)?;
        let running = self.running.clone();
        *running.lock() = true;
        let guard = Interrupts { interrupt: self.interrupt.clone(), running: running.clone() };
        let ran = tokio::task::spawn_blocking(move || {
            let result = lent.conn.as_ref().ok_or(Error::Gone).and_then(f);
            *running.lock() = false;
            (lent, result)
        });
        let (lent, result) = ran.await.map_err(|e| Error::Answer(format!("the read broke off: {e}")))?;
        drop(guard);
        self.lent = Some(lent);
        result
    }
}

impl Drop for Reader {
    /// Ending a transaction may take a moment, too.
    fn drop(&mut self) {
        if let Some(lent) = self.lent.take() {
            match tokio::runtime::Handle::try_current() {
                Ok(runtime) => drop(runtime.spawn_blocking(move || drop(lent))),
                Err(_) => drop(lent),
            }
        }
    }
}

/// Dropped while it runs, it is interrupted.
struct Interrupts {
    interrupt: Arc<InterruptHandle>,
    running: Arc<Mutex<bool>>,
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        if !*self.running.lock() {
            return;
        }
        let (interrupt, running) = (self.interrupt.clone(), self.running.clone());
        tokio::spawn(async move {
            tokio::time::sleep(INTERRUPT_AFTER).await;
            loop {
                {
                    // Under the lock: whoever gets the connection next is not meant.
                    let running = running.lock();
                    if !*running {
                        return;
                    }
                    interrupt.interrupt();
                }
                tokio::time::sleep(INTERRUPT_EVERY).await;
            }
        });
    }
}

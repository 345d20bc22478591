//! Sorts copies anew: what is changed in a sorted copy comes to its end, and once that is much, whoever looks for a narrow range has to read all
//! of it. A thread and a connection of its own sort the copy's rows, as they are at one moment, into another table, and have that catch up
//! with what has changed meanwhile, by the keys that the writing thread notes (`resorted.rs`), which then exchanges both, between two
//! commits. Reads and the stream go on. Whatever fails, the copy stays as it is; a store that begins drops what was half done.
//!
//! It does not know PostgreSQL, nor what changes are.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use duckdb::Connection;
use parking_lot::Mutex;
use tokio::runtime::Handle as Runtime;

use crate::apply::Writer;
use crate::duck::{self, resorted, table};
use crate::error::{Error, Result};
use crate::jobs::Handle;
use crate::resorted::{Exchanged, catch_up, changed, count};
use crate::shape::Shape;
use crate::shared::{Shared, State};

/// Copies are looked at this often at most.
const LOOK: Duration = Duration::from_secs(1);
/// After a sort, so many times as long nothing is sorted: what is left of the processor is for others.
const REST: u32 = 9;
/// A copy is sorted once so many of its rows came since it was, and one in so many.
const UNSORTED_MIN: u64 = 100_000;
const UNSORTED_ONE_IN: u64 = 5;
/// Where a row of the copy is found among the rows of fewer groups than that, on average, it is still in order.
const GROUPS: f64 = 2.0;
/// Rows of DuckDB's row groups, of which it knows the least and the greatest values.
const GROUP_ROWS: u32 = 122_880;
/// More changed keys than that are caught up with here, before the exchange.
const FEW: i64 = 5_000;
/// So often; then the exchange is tried with more.
const ROUNDS: usize = 4;
/// A copy that changes faster than it can be caught up with is given up for now.
const CATCH_UP_MAX: Duration = Duration::from_secs(300);
const AGAIN: Duration = Duration::from_millis(50);
const AGAIN_AFTER_ERROR: Duration = Duration::from_secs(60);

struct Resort {
    shared: Arc<Shared>,
    writer: Handle,
    conn: Connection,
    runtime: Runtime,
    /// When copies could not be sorted.
    failed: HashMap<i64, Instant>,
}

/// A copy that is to be sorted.
struct Due {
    id: i64,
    shape: Shape,
    unsorted: u64,
    rows: i64,
}

/// The thread's connection to the store's database, while it does not use it. Who takes it keeps the thread from looking.
pub type Idle = Arc<Mutex<Option<Connection>>>;

/// Begins the thread.
pub fn spawn(shared: Arc<Shared>, writer: Handle, conn: Connection) -> std::io::Result<Idle> {
    let idle = Arc::new(Mutex::new(Some(conn)));
    let (taken, runtime) = (idle.clone(), Runtime::current());
    std::thread::Builder::new().name("sort".into()).spawn(move || run(&shared, &writer, &taken, &runtime))?;
    Ok(idle)
}

/// Until the writing thread is gone.
fn run(shared: &Arc<Shared>, writer: &Handle, idle: &Idle, runtime: &Runtime) {
    let (mut pause, mut failed) = (LOOK, HashMap::new());
    loop {
        std::thread::sleep(pause);
        let began = Instant::now();
        let Some(conn) = idle.lock().take() else { continue };
        let (shared, writer, runtime) = (shared.clone(), writer.clone(), runtime.clone());
        let mut resort = Resort { shared, writer, conn, runtime, failed };
        let looked = resort.look();
        failed = resort.failed;
        *idle.lock() = Some(resort.conn);
        pause = match looked {
            Ok(()) => (began.elapsed() * REST).max(LOOK),
            Err(Error::Gone) => return,
            Err(error) => {
                tracing::warn!("copies could not be sorted: {error}");
                AGAIN_AFTER_ERROR
            }
        };
    }
}

impl Resort {
    fn look(&mut self) -> Result<()> {
        self.failed.retain(|_, at| at.elapsed() < AGAIN_AFTER_ERROR);
        let due = self.within("BEGIN TRANSACTION READ ONLY", || self.due())?;
        for due in due {
            match self.look_at(&due) {
                // The others are sorted all the same.
                Err(Error::Gone) => return Err(Error::Gone),
                Err(error) => {
                    tracing::warn!(id = due.id, "a copy could not be sorted: {error}");
                    self.failed.insert(due.id, Instant::now());
                }
                Ok(()) => {}
            }
        }
        Ok(())
    }

    fn look_at(&self, due: &Due) -> Result<()> {
        let began = Instant::now();
        let Due { id, unsorted, rows, .. } = *due;
        let groups = self.within("BEGIN TRANSACTION READ ONLY", || self.groups(due))?;
        if groups < GROUPS {
            tracing::debug!(id, unsorted, groups, "a copy is still in order");
            return self.call(move |w| w.is_in_order(id, unsorted))?;
        }
        tracing::info!(id, rows, unsorted, "a copy is sorted anew");
        if let Some(paused) = self.sort(due)? {
            let (took, paused) = (began.elapsed().as_millis(), paused.as_millis());
            tracing::info!(id, rows, took_ms = took, paused_ms = paused, "a copy is in order again");
        }
        Ok(())
    }

    fn call<R: Send + 'static>(&self, f: impl FnOnce(&mut Writer) -> R + Send + 'static) -> Result<R> {
        self.runtime.block_on(self.writer.call(f))
    }

    /// In a transaction of its own.
    fn within<R>(&self, begin: &str, f: impl FnOnce() -> Result<R>) -> Result<R> {
        self.conn.execute_batch(begin)?;
        let done = f().and_then(|done| {
            self.conn.execute_batch("COMMIT")?;
            Ok(done)
        });
        done.inspect_err(|_| {
            // There may be none.
            let _ = self.conn.execute_batch("ROLLBACK");
        })
    }

    /// Those of which enough is not in order.
    fn due(&self) -> Result<Vec<Due>> {
        let mut statement = self.conn.prepare("SELECT id, shape, unsorted FROM herd_copy WHERE unsorted >= ?")?;
        let rows = statement.query_map([UNSORTED_MIN], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let found = rows.collect::<duckdb::Result<Vec<(i64, String, u64)>>>()?;
        let is_ready = |id: &i64| self.shared.copies.lock().get(id).is_some_and(|copy| copy.state == State::Ready);
        let mut due = Vec::new();
        let may = |id: &i64| is_ready(id) && !self.failed.contains_key(id);
        for (id, shape, unsorted) in found.into_iter().filter(|(id, ..)| may(id)) {
            let shape: Shape = serde_json::from_str(&shape).map_err(|e| Error::surprise(e.to_string()))?;
            let rows = count(&self.conn, &table(id))?;
            if unsorted.saturating_mul(UNSORTED_ONE_IN) >= rows as u64 {
                due.push(Due { id, shape, unsorted, rows });
            }
        }
        Ok(due)
    }

    /// Among the rows of how many row groups one is found, on average. Rows that come in the copy's order, as those of a log do, leave it in order.
    fn groups(&self, due: &Due) -> Result<f64> {
        // A column of its own may be called as that which DuckDB counts rows by.
        let names = (0..due.shape.columns.len()).map(|at| format!("v{at}")).collect::<Vec<_>>().join(", ");
        let key = due.shape.order_by.iter().map(|at| format!("v{at}, 'ASC NULLS LAST'")).collect::<Vec<_>>().join(", ");
        let sql = format!(
            "WITH r AS (SELECT rowid // {GROUP_ROWS} AS g, rowid % {GROUP_ROWS} AS place, create_sort_key({key}) AS k FROM {} AS t({names})),
               g AS (SELECT g, min(k) AS least, max(k) AS greatest, arg_min(k, abs(place - {GROUP_ROWS} // 2)) AS middle FROM r GROUP BY g)
             SELECT coalesce(avg(n), 0) FROM (SELECT count(*) AS n FROM g AS one JOIN g ON one.middle BETWEEN g.least AND g.greatest GROUP BY one.g)",
            table(due.id)
        );
        Ok(self.conn.query_row(&sql, [], |row| row.get(0))?)
    }

    /// How long the writing thread was held up; `None`: it was not done.
    fn sort(&self, due: &Due) -> Result<Option<Duration>> {
        let id = due.id;
        let Some(number) = self.call(move |w| w.begin_sort(id))?? else { return Ok(None) };
        let done = self.rewrite(due, number);
        if let Ok(Some(_)) = done {
            // The rows of before go with it; where others are at something, a later one takes them.
            let _ = self.conn.execute_batch("CHECKPOINT");
        } else {
            self.call(move |w| w.give_up_sort(id, number))??;
        }
        done
    }

    fn rewrite(&self, due: &Due, number: u64) -> Result<Option<Duration>> {
        let Due { id, ref shape, .. } = *due;
        let (to, from, order) = (resorted(id), table(id), duck::order(shape));
        let mut upto = self.within("BEGIN TRANSACTION", || {
            self.conn.execute_batch(&duck::create(&to, shape))?;
            self.conn.execute_batch(&format!("INSERT INTO {to} SELECT * FROM {from} AS t ORDER BY {order}"))?;
            Ok(changed(&self.conn, id, 0)?.last)
        })?;
        let (began, mut came) = (Instant::now(), 0);
        for round in 0.. {
            if !self.call(move |w| w.is_sorting(id, number))? {
                return Ok(None);
            }
            if began.elapsed() > CATCH_UP_MAX {
                return Err(Error::Copy { id, why: "it changes faster than it could be sorted".into() });
            }
            let (caught_up, keys) = self.within("BEGIN TRANSACTION", || {
                let changed = changed(&self.conn, id, upto)?;
                if changed.keys > FEW {
                    came += catch_up(&self.conn, id, shape, upto)?;
                    upto = changed.last;
                }
                Ok((changed.keys > FEW, changed.keys))
            })?;
            if caught_up && round < ROUNDS {
                continue;
            }
            let asked = Instant::now();
            let (exchanged, held_up) = self.call(move |w| {
                let began = Instant::now();
                (w.exchange(id, number, upto, came), began.elapsed())
            })?;
            tracing::debug!(id, round, keys, waited = ?asked.elapsed(), "{exchanged:?}");
            match exchanged? {
                Exchanged::Done => return Ok(Some(held_up)),
                Exchanged::Gone => return Ok(None),
                Exchanged::Later => std::thread::sleep(AGAIN),
            }
        }
        Ok(None)
    }
}

//! Parts too large to be held: their rows go into temporary tables on a connection of the statement's own, and the
//! finish runs there.
//!
//! The connection is outside the transaction, so that nothing of the client's has to wait or to be prepared with
//! temporary tables; it knows the session's settings, but not what the transaction alone has made or set.

use catalog::NodeId;
use txn::Lane;
use wire::sqlstate;

use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::query::gather::Arrays;
use crate::render::{self, NodeStatement};
use crate::work::Work;
use crate::work::rows::{self, Reply};

/// Bytes of a part that are held before they are put into a table, and again and again from then on.
const HELD_MAX: usize = 8 << 20;
/// The most that is held where there can be no table.
pub const HELD_ANYWAY_MAX: usize = 256 << 20;

/// Where parts that are too large are kept; made with the first of them.
pub struct Spill {
    allowed: bool,
    tables: usize,
    pub lane: Option<Lane>,
    home: NodeId,
}

impl Spill {
    /// `reads_home`: the finish needs what only the transaction's own connection sees.
    pub fn new<C: Client>(work: &Work<'_, C>, reads_home: bool) -> Self {
        let allowed = !reads_home && !work.own_schema && work.transaction.settings_mark() == 0;
        Spill { allowed, tables: 0, lane: None, home: work.home() }
    }

    /// Looks after what is held of part `n`: beyond the limit it goes into the part's table. True: it has gone there.
    pub async fn watch<C: Client>(
        &mut self,
        work: &mut Work<'_, C>,
        n: usize,
        types: &[String],
        held: &mut Arrays,
        stored: bool,
    ) -> Result<bool> {
        if held.bytes() <= HELD_MAX {
            return Ok(stored);
        }
        if stored || self.create(work, n, types).await? {
            self.store(n, types, held).await?;
            return Ok(true);
        }
        if held.bytes() > HELD_ANYWAY_MAX {
            return Err(ExecError::sql(
                sqlstate::PROGRAM_LIMIT_EXCEEDED,
                "the partial results of this statement are too large to be finished in one place",
            )
            .hint("Run it outside a transaction that has changed settings or the schema, and see that the pool has a free connection."));
        }
        Ok(false)
    }

    async fn create<C: Client>(&mut self, work: &mut Work<'_, C>, n: usize, types: &[String]) -> Result<bool> {
        if !self.allowed {
            return Ok(false);
        }
        if self.lane.is_none() {
            let target = work.herd.target(&work.epoch.snapshot, self.home)?;
            // Waiting for one while connections are held could be waiting for oneself.
            let Some(conn) = work.herd.pools.try_get(&target, work.login) else { return Ok(false) };
            let mut lane = Lane::new(self.home, conn);
            lane.want(work.settings);
            work.client.started(lane.conn.cancel_key());
            lane.put_before("BEGIN READ WRITE");
            self.lane = Some(lane);
        }
        let Some(lane) = &mut self.lane else { return Ok(false) };
        let columns: Vec<String> = types.iter().enumerate().map(|(i, t)| format!("c{i} {t}")).collect();
        let made =
            lane.run(&format!("CREATE TEMPORARY TABLE {} ({}) ON COMMIT DROP", table(n), columns.join(", "))).await;
        if self.tables == 0 && matches!(&made, Err(pool::PoolError::Server(e)) if !e.is_fatal()) {
            // No right to make one, or a type no table can have: then it is held.
            self.allowed = false;
            lane.run("ROLLBACK").await?;
            self.lane = None;
            return Ok(false);
        }
        made?;
        self.tables += 1;
        Ok(true)
    }

    /// Puts what is held into the table of part `n`.
    pub async fn store(&mut self, n: usize, types: &[String], held: &mut Arrays) -> Result<()> {
        let lane = self.lane.as_mut().ok_or_else(|| ExecError::internal("rows without a table"))?;
        let mut full = std::mem::replace(held, Arrays::new(types.len()));
        if full.rows == 0 {
            return Ok(());
        }
        let values = full.finish();
        let sql = format!("INSERT INTO {} SELECT {}", table(n), render::unnest(1, types));
        rows::send_statement(lane, None, &NodeStatement::over_arrays(sql, values), false, &[]);
        lane.conn.flush().await?;
        while !matches!(rows::next(lane).await?, Reply::Done) {}
        Ok(())
    }

    /// The connection is done with; its tables go with its transaction.
    pub async fn end(self) {
        if let Some(mut lane) = self.lane
            && (lane.conn.is_broken() || lane.run("COMMIT").await.is_err())
        {
            lane.conn.mark_broken();
        }
    }
}

/// The table of part `n`.
pub fn table(n: usize) -> String {
    format!("pg_temp.herd_part_{n}")
}

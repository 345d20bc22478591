//! Parts too large to be held: their rows go into temporary tables on a connection of the statement's own, and the
//! finish runs there. Of a query that is shuffled all rows do, on every node that takes part (`shuffle.rs`).
//!
//! Rows that are to be joined go there long before that, if they are more than a few: of arrays PostgreSQL knows nothing but their
//! length, and takes a join of them for one of few rows. Of a table that it has analysed it knows what it would of one of its own.
//!
//! The connection is outside the transaction, so that nothing of the client's has to wait or to be prepared with
//! temporary tables; it knows the session's settings and the transaction's, but not what the transaction alone has made.

use std::time::Duration;

use catalog::NodeId;
use txn::Lane;

use crate::arrays::Arrays;
use crate::budget::Taken;
use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::query::part_rows::PartRows;
use crate::work::Work;
use crate::work::copy_rows::Fill;
use crate::work::rows::{self, Reply};

/// Bytes of all parts that are held before the next rows are put into a table; of a part that has one, before more are.
const HELD_MAX: usize = 8 << 20;
/// Bytes of rows that go into a table at a time, even where others have taken the memory there is.
const STORED_MIN: usize = 64 << 10;
/// Rows of all parts together from which on PostgreSQL is told what is in them before it joins them.
const JOINED_MIN: u64 = 2000;
/// How long a connection is worth waiting for where rows could be joined without.
const JOINED_WAIT: Duration = Duration::from_millis(50);
/// Who holds connections and waits for one more could be waiting for others who do the same.
const CONNECTION_WAIT: Duration = Duration::from_secs(1);
/// How many rows ANALYZE looks at, in 300s, and how many it does for temporary tables.
pub const STATISTICS_TARGET: &str = "default_statistics_target";
const TARGET: usize = 30;
/// What is held is in memory twice: buffers have room to grow, and are copied into a message.
const TIMES: usize = 2;

/// Where parts that are too large are kept; made with the first of them.
pub struct Spill {
    allowed: bool,
    tables: usize,
    /// How PostgreSQL looks at them is the client's to say.
    looks_as_told: bool,
    pub lane: Option<Lane>,
    node: NodeId,
    /// Rows are on their way into a table.
    storing: bool,
    /// Bytes that are held of all parts, and of each.
    held: usize,
    of: Vec<usize>,
    memory: Taken,
}

impl Spill {
    /// `reads_home`: the finish needs what only the transaction's own connection sees.
    pub fn new<C: Client>(work: &Work<'_, C>, reads_home: bool) -> Self {
        let allowed = !reads_home && !work.own_catalog && work.transaction.schema_fingerprint.is_none();
        let (node, memory) = (work.home(), work.memory.nothing());
        let looks_as_told = work.has_set(STATISTICS_TARGET);
        Spill { allowed, tables: 0, looks_as_told, lane: None, node, storing: false, held: 0, of: vec![], memory }
    }

    /// At a node, with tables for all parts from the start; `None`: there can be none.
    pub async fn at<C: Client>(work: &mut Work<'_, C>, node: NodeId, types: &[&[String]]) -> Result<Option<Self>> {
        let mut spill = Spill { node, ..Self::new(work, false) };
        let none: Vec<_> = types.iter().map(|t| PartRows::Held(Arrays::of_text(t.len()))).collect();
        let made = match spill.open(work, CONNECTION_WAIT).await {
            Ok(true) => spill.create_others(work, &none, types).await,
            other => other,
        };
        match made {
            Ok(true) => Ok(Some(spill)),
            other => {
                spill.end(work).await;
                other.map(|_| None)
            }
        }
    }

    /// Looks after what is held of part `n`: beyond the limit it goes into the part's table. True: it has gone there.
    ///
    /// # Errors
    /// 53200 if there is neither memory nor a table for it.
    pub async fn watch<C: Client>(
        &mut self,
        work: &mut Work<'_, C>,
        n: usize,
        types: &[String],
        held: &mut Arrays,
        stored: bool,
    ) -> Result<bool> {
        self.note(n, held.bytes());
        let place = self.memory.grow_to(TIMES * self.held);
        let enough = match stored {
            true => held.bytes() > HELD_MAX || (place.is_err() && held.bytes() > STORED_MIN),
            false => self.held > HELD_MAX || place.is_err(),
        };
        if !enough {
            return Ok(stored);
        }
        if stored || self.create(work, n, types).await? {
            self.store(n, types, held).await?;
            return Ok(true);
        }
        place.map(|()| false)
    }

    /// So many bytes are held of part `n`.
    fn note(&mut self, n: usize, bytes: usize) {
        if self.of.len() <= n {
            self.of.resize(n + 1, 0);
        }
        self.held = self.held - self.of[n] + bytes;
        self.of[n] = bytes;
    }

    /// All parts have been read, and are about to be joined. `types`: those of each part's columns.
    pub async fn before_join<C: Client>(
        &mut self,
        work: &mut Work<'_, C>,
        mut parts: Vec<PartRows>,
        types: &[&[String]],
        lookups: &[Vec<usize>],
    ) -> Result<Vec<PartRows>> {
        let many = self.tables > 0 || parts.iter().map(PartRows::held).sum::<u64>() >= JOINED_MIN;
        if !many || !self.open(work, JOINED_WAIT).await? {
            return Ok(parts);
        }
        if self.create_others(work, &parts, types).await? {
            for (n, (part, types)) in parts.iter_mut().zip(types).enumerate() {
                if let PartRows::Held(rows) = std::mem::replace(part, PartRows::Stored) {
                    let mut rows = rows;
                    self.store(n, types, &mut rows).await?;
                }
            }
        }
        let stored = parts.iter().enumerate().filter(|(_, part)| matches!(part, PartRows::Stored));
        let stored: Vec<usize> = stored.map(|(n, _)| n).collect();
        self.prepare(&stored, lookups).await?;
        Ok(parts)
    }

    /// PostgreSQL is told what is in these parts' tables, and has indexes where rows are looked up.
    pub async fn prepare(&mut self, stored: &[usize], lookups: &[Vec<usize>]) -> Result<()> {
        self.settle().await?;
        for (n, by) in lookups.iter().enumerate().filter(|(n, by)| !by.is_empty() && stored.contains(n)) {
            self.index(n, by).await?;
        }
        let tables: Vec<_> = stored.iter().map(|n| table(*n)).collect();
        if let Some(lane) = &mut self.lane
            && !tables.is_empty()
        {
            lane.run(&analyze(&tables, self.looks_as_told)).await?;
        }
        Ok(())
    }

    /// Tables for the parts that have none yet; `false`: one of them can't be made, and nothing is changed.
    async fn create_others<C: Client>(
        &mut self,
        work: &mut Work<'_, C>,
        parts: &[PartRows],
        types: &[&[String]],
    ) -> Result<bool> {
        self.settle().await?;
        let Some(lane) = &mut self.lane else { return Ok(false) };
        let held = parts.iter().zip(types).enumerate().filter(|(_, (part, _))| matches!(part, PartRows::Held(_)));
        let tables: Vec<_> = held.map(|(n, (_, types))| create(&table(n), 'c', types)).collect();
        if tables.is_empty() {
            return Ok(false);
        }
        match lane.run(&format!("SAVEPOINT herd_tables; {}; RELEASE herd_tables", tables.join("; "))).await {
            Ok(_) => {
                self.tables += tables.len();
                return Ok(true);
            }
            Err(pool::PoolError::Server(e)) if !e.is_fatal() => {}
            Err(e) => return Err(e.into()),
        }
        if lane.conn.is_broken() {
            // What its transaction begins with can't be set there: nothing that it has is to be trusted.
            self.give_back(work).await;
            return Ok(false);
        }
        if self.tables > 0 {
            lane.run("ROLLBACK TO herd_tables").await?;
            return Ok(false);
        }
        lane.run("ROLLBACK").await?;
        self.give_back(work).await;
        Ok(false)
    }

    /// An index for part `n`, if there can be one: not all types have an order, and a value can be too long.
    async fn index(&mut self, n: usize, by: &[usize]) -> Result<()> {
        let Some(lane) = &mut self.lane else { return Ok(()) };
        let columns: Vec<_> = by.iter().map(|c| format!("c{c}")).collect();
        let create = format!("CREATE INDEX ON {} ({})", table(n), columns.join(", "));
        match lane.run(&format!("SAVEPOINT herd_index; {create}; RELEASE herd_index")).await {
            Ok(_) => Ok(()),
            Err(pool::PoolError::Server(e)) if !e.is_fatal() => {
                lane.run("ROLLBACK TO herd_index").await?;
                Ok(())
            }
            Err(e) => Err(e.into()),
        }
    }

    /// Whether there is a connection for tables.
    async fn open<C: Client>(&mut self, work: &mut Work<'_, C>, wait: Duration) -> Result<bool> {
        if !self.allowed {
            return Ok(false);
        }
        if self.lane.is_none() {
            let Ok(Ok(mut lane)) = tokio::time::timeout(wait, work.outside_to_work(self.node)).await else {
                self.allowed = false;
                return Ok(false);
            };
            lane.conn.temporary = true;
            work.client.started(lane.conn.cancel_key());
            lane.put_begin("BEGIN READ WRITE", work.transaction.settings());
            self.lane = Some(lane);
        }
        Ok(true)
    }

    async fn create<C: Client>(&mut self, work: &mut Work<'_, C>, n: usize, types: &[String]) -> Result<bool> {
        if !self.open(work, CONNECTION_WAIT).await? {
            return Ok(false);
        }
        self.settle().await?;
        let Some(lane) = &mut self.lane else { return Ok(false) };
        let made = lane.run(&create(&table(n), 'c', types)).await;
        if self.tables == 0 && matches!(&made, Err(pool::PoolError::Server(e)) if !e.is_fatal()) {
            // No right to make one, a type no table can have, or a setting that can't be made here: then it is held.
            self.allowed = false;
            if !lane.conn.is_broken() {
                lane.run("ROLLBACK").await?;
            }
            self.give_back(work).await;
            return Ok(false);
        }
        made?;
        self.tables += 1;
        Ok(true)
    }

    /// Puts what is held into the table of part `n`. The node does so while more rows come: [`settle`](Self::settle) waits for it.
    pub async fn store(&mut self, n: usize, types: &[String], held: &mut Arrays) -> Result<()> {
        self.settle().await?;
        let lane = self.lane.as_mut().ok_or_else(|| ExecError::internal("rows without a table"))?;
        let full = held.take();
        if full.rows == 0 {
            return Ok(());
        }
        Fill::of(&table(n), types, full.finish()).send(lane, false);
        self.storing = true;
        lane.conn.flush().await?;
        self.note(n, 0);
        Ok(())
    }

    /// What was sent is in its table.
    pub async fn settle(&mut self) -> Result<()> {
        if let Some(lane) = self.lane.as_mut().filter(|_| self.storing) {
            while !matches!(rows::next(lane).await?, Reply::Done) {}
        }
        self.storing = false;
        Ok(())
    }

    /// A cancel of the statement reaches it, also after others of its connections were given back.
    pub fn heed_cancels<C: Client>(&self, work: &mut Work<'_, C>) {
        if let Some(lane) = &self.lane {
            work.client.started(lane.conn.cancel_key());
        }
    }

    /// The connection is done with; its tables go with its transaction.
    pub async fn end<C: Client>(mut self, work: &mut Work<'_, C>) {
        let Some(lane) = &mut self.lane else { return };
        lane.conn.tainted |= work.taint;
        // Whoever has failed before all was read leaves the rest: what still runs there is cancelled, and the connection closed.
        if lane.conn.outstanding() == 0 && !lane.conn.is_broken() && lane.run("COMMIT").await.is_err() {
            lane.conn.mark_broken();
        }
        self.give_back(work).await;
    }

    /// Its pool gets the connection.
    async fn give_back<C: Client>(&mut self, work: &mut Work<'_, C>) {
        let Some(mut lane) = self.lane.take() else { return };
        let rests = lane.conn.outstanding() == 0;
        // A cancel may still arrive there, and would hit the next client's statement.
        if !work.client.given_back(&lane.conn.cancel_key()).await && rests {
            lane.conn.mark_broken();
        }
    }
}

/// Has PostgreSQL look at what is in tables; `as_told`: in as many rows as the client wants, or in fewer than it would by itself, which would take
/// longer than the join itself.
pub fn analyze(tables: &[String], as_told: bool) -> String {
    let analyze = format!("ANALYZE {}", tables.join(", "));
    match as_told {
        true => analyze,
        false => {
            format!("SET LOCAL {STATISTICS_TARGET} = {TARGET}; {analyze}; SET LOCAL {STATISTICS_TARGET} TO DEFAULT")
        }
    }
}

/// The statement that makes a table for rows; its columns are called `column` and a number, from 0.
pub fn create(table: &str, column: char, types: &[String]) -> String {
    let columns: Vec<String> = types.iter().enumerate().map(|(i, t)| format!("{column}{i} {t}")).collect();
    format!("CREATE TEMPORARY TABLE {table} ({}) ON COMMIT DROP", columns.join(", "))
}

/// The table of part `n`.
pub fn table(n: usize) -> String {
    format!("pg_temp.herd_part_{n}")
}

//! What a session has set for bulk writes, and how the rows of a statement are cut into batches by it. It does not know
//! how batches travel (`write/bulk.rs`).

/// What a session has set for bulk writes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bulk {
    /// `herd.bulk_load`: batches commit one by one.
    pub load: bool,
    /// `herd.upsert`: rows replace those with their primary key.
    pub upsert: bool,
    /// `herd.batch_rows`: rows of a batch, for each node; 0: the default.
    pub batch_rows: u64,
    /// `herd.in_flight_rows`: rows on their way to nodes at once, for each statement; 0: the default.
    pub in_flight_rows: u64,
    /// The process id the client knows its session by.
    pub session: i32,
}

/// Rows of a batch where the session has set none, as YugabyteDB's ysql_session_max_batch_size.
const BATCH_ROWS: u64 = 3072;
const IN_FLIGHT_ROWS: u64 = 10_000;

/// How the rows of one statement are cut into batches.
#[derive(Clone, Copy, Debug)]
pub struct Batching {
    /// Each batch commits by itself; otherwise all of them are one transaction.
    pub commits: bool,
    pub upsert: bool,
    pub batch_rows: u64,
    pub in_flight_rows: u64,
}

impl Bulk {
    /// `None`: rows need no batches, as they neither commit one by one nor may meet keys that are there. A setting of 0 is the default.
    pub fn batching(&self, commits: bool, upsert: bool) -> Option<Batching> {
        let or = |n: u64, default| if n == 0 { default } else { n };
        (commits || upsert).then(|| Batching {
            commits,
            upsert,
            batch_rows: or(self.batch_rows, BATCH_ROWS),
            in_flight_rows: or(self.in_flight_rows, IN_FLIGHT_ROWS),
        })
    }

    /// Rows of a batch.
    pub fn rows(&self) -> usize {
        self.batching(true, false).map_or(usize::MAX, |b| b.batch_rows as usize)
    }
}

impl Batching {
    /// Rows of a batch when a node may hold `batches` of them.
    pub fn rows_for(&self, nodes: usize, batches: u64) -> u64 {
        self.batch_rows.min(self.in_flight_rows / (nodes as u64 * batches).max(1)).max(1)
    }
}

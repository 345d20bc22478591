//! Where the lines of each node's COPY are in the client's data: an error's CONTEXT counts the node's lines, its reader the
//! client's. Lines are counted as PostgreSQL does (`CopyReadLineText` in copyfromparse.c); it does not know what is in them.

use std::collections::VecDeque;
use std::ops::Range;

use memchr::memchr_iter;

use wire::sqlstate;

use crate::error::{ExecError, Result};

/// Rows of one lane that are remembered: nodes read on as rows come, so that an error is about one of the last.
const ROWS_MAX: usize = 1 << 20;

/// Which line of the client's data each node's lines were.
pub struct CopyLines {
    table: String,
    csv: bool,
    /// The client's last line so far.
    line: u64,
    first: bool,
    lanes: Vec<LaneLines>,
    records: u64,
    skips: bool,
    /// REJECT_LIMIT, which each node keeps for its own rows, and all of them together do.
    reject_limit: Option<u64>,
}

struct LaneLines {
    line: u64,
    first: bool,
    /// The node's line and the client's, of each row.
    rows: VecDeque<(u64, u64)>,
}

impl CopyLines {
    /// `table`: as nodes' errors name it. `header`: the client's data, and each node's, begin with a line that is no row.
    pub fn new(table: &str, lanes: usize, csv: bool, header: bool) -> Self {
        let line = u64::from(header);
        let lane = || LaneLines { line, first: !header, rows: VecDeque::new() };
        CopyLines {
            table: table.to_string(),
            csv,
            line,
            first: !header,
            lanes: (0..lanes).map(|_| lane()).collect(),
            records: 0,
            skips: false,
            reject_limit: None,
        }
    }

    /// Rows may be passed over by ON_ERROR: what nodes say of their number is said once.
    pub fn may_skip(&mut self) {
        self.skips = true;
    }

    /// Whether they may be.
    pub fn skips(&self) -> bool {
        self.skips
    }

    /// So many rows may be passed over, where nothing but ON_ERROR passes over any.
    pub fn limit_rejected(&mut self, rows: u64) {
        self.reject_limit = Some(rows);
    }

    /// Refuses what nodes have passed over together. `written`: the rows that they have counted.
    ///
    /// # Errors
    /// 22P02, as CopyFrom (copyfrom.c) says it.
    pub fn refuse_rejected(&self, written: u64) -> Result<()> {
        match self.reject_limit {
            Some(limit) if self.records.saturating_sub(written) > limit => Err(ExecError::sql(
                sqlstate::INVALID_TEXT_REPRESENTATION,
                format!("skipped more than REJECT_LIMIT ({limit}) rows due to data type incompatibility"),
            )),
            _ => Ok(()),
        }
    }

    /// A record, with its line's end, goes to these lanes.
    pub fn add(&mut self, lanes: Range<usize>, record: &[u8]) {
        self.line += self.lines_of(record, self.first);
        self.records += 1;
        self.first = false;
        for at in lanes {
            let lines = self.lines_of(record, self.lanes[at].first);
            let lane = &mut self.lanes[at];
            lane.line += lines;
            lane.first = false;
            if lane.rows.len() >= ROWS_MAX {
                lane.rows.pop_front();
            }
            lane.rows.push_back((lane.line, self.line));
        }
    }

    fn lines_of(&self, record: &[u8], first: bool) -> u64 {
        if !self.csv {
            return 1;
        }
        let content = match record {
            [content @ .., b'\r', b'\n'] | [content @ .., b'\n' | b'\r'] => content,
            content => content,
        };
        // Until a line has ended PostgreSQL does not know how lines end, and looks for carriage returns.
        let newlines = !first && record.ends_with(b"\n") && !record.ends_with(b"\r\n");
        1 + memchr_iter(if newlines { b'\n' } else { b'\r' }, content).count() as u64
    }

    /// The error of a lane's node, with the client's line in its context.
    pub fn restore(&self, lane: usize, error: ExecError) -> ExecError {
        let mut fields = error.to_fields();
        let Some(context) = fields.get(b'W').map(str::to_string) else { return error };
        let Some((before, line, behind)) = self.numbered(&context) else { return error };
        let rows = &self.lanes[lane].rows;
        let client = rows.binary_search_by_key(&line, |(node, _)| *node).ok().map(|at| rows[at].1);
        let Some(client) = client else { return error };
        fields.set(b'W', format!("{before}{client}{behind}"));
        match error {
            ExecError::Partial(_) => ExecError::Partial(Box::new(fields)),
            ExecError::Pool(_) => pool::PoolError::Server(Box::new(fields)).into(),
            _ => ExecError::Sql(Box::new(fields)),
        }
    }

    /// A context around the number of a line.
    fn numbered<'c>(&self, context: &'c str) -> Option<(&'c str, u64, &'c str)> {
        let words = format!("COPY {}, line ", self.table);
        // The last of it: what code says of itself is before.
        let start = context.rfind(&words)? + words.len();
        let digits = context[start..].bytes().take_while(u8::is_ascii_digit).count();
        let number = context[start..start + digits].parse().ok()?;
        Some((&context[..start], number, &context[start + digits..]))
    }
}

/// Of two errors the one that is about the earlier line.
pub fn first(one: Option<ExecError>, other: ExecError) -> ExecError {
    let Some(one) = one else { return other };
    match (line_of(&one), line_of(&other)) {
        (Some(a), Some(b)) if b < a => other,
        // At the end of a COPY come the errors that belong to no line.
        (None, Some(_)) if matches!(one, ExecError::Sql(_) | ExecError::Pool(_)) => other,
        _ => one,
    }
}

fn line_of(error: &ExecError) -> Option<u64> {
    let fields = error.to_fields();
    let behind = fields.get(b'W')?.rsplit_once(", line ")?.1.to_string();
    let digits = behind.bytes().take_while(u8::is_ascii_digit).count();
    behind[..digits].parse().ok()
}

//! What a session has set for reads of column copies. It does not know what can be read there (crate `plan`), nor how
//! (`query/columns.rs`).

/// When statements go to column copies, and how fresh these have to be.
#[derive(Clone, Copy, Debug)]
pub struct ColumnUse {
    /// `herd.columns`.
    pub way: ColumnWay,
    /// `herd.freshness`: what was committed so many milliseconds ago may be missing; `None` (`strict`): nothing.
    pub stale_ms: Option<u32>,
    /// `herd.freshness_wait`: how many milliseconds a copy is waited for before rows are read.
    pub wait_ms: u32,
    /// `herd.column_float_sums`: sums of floats may differ by the order of rows.
    pub float_sums: bool,
}

/// Where reads go that both ways can answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnWay {
    /// To columns if they look at much of a table.
    Auto,
    On,
    Off,
}

impl Default for ColumnUse {
    fn default() -> Self {
        ColumnUse { way: ColumnWay::Auto, stale_ms: None, wait_ms: 1000, float_sums: false }
    }
}

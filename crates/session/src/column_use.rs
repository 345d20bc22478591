//! The settings of reads of column copies: `herd.columns`, `herd.freshness`, `herd.freshness_wait`, `herd.column_float_sums`. What is done with them is not known here.

use exec::{ColumnUse, ColumnWay};

use crate::idle;
use crate::router_settings::RouterSettings;

pub const WAY: &str = "herd.columns";
pub const FRESHNESS: &str = "herd.freshness";
pub const WAIT: &str = "herd.freshness_wait";
pub const FLOAT_SUMS: &str = "herd.column_float_sums";

/// All of them.
pub const ALL: [&str; 4] = [WAY, FRESHNESS, WAIT, FLOAT_SUMS];

/// What `herd.freshness` is unless it is set: nothing that was committed when the read began is missing.
pub const STRICT: &str = "strict";

/// As the session has set them; `None`: it has set none.
pub fn of(own: &RouterSettings) -> Option<ColumnUse> {
    if ALL.iter().all(|name| own.set_to(name).is_none()) {
        return None;
    }
    let way = match own.get(WAY) {
        "on" => ColumnWay::On,
        "off" => ColumnWay::Off,
        _ => ColumnWay::Auto,
    };
    let stale_ms = idle::milliseconds(own.get(FRESHNESS));
    let wait_ms = idle::milliseconds(own.get(WAIT)).unwrap_or(0);
    Some(ColumnUse { way, stale_ms, wait_ms, float_sums: own.is_on(FLOAT_SUMS) })
}

//! A session's part in sharing. What it is for: `share.rs`.

use std::sync::Arc;

use catalog::NodeId;
use share::SharedLane;

/// What a session allows, and the lanes it used last.
#[derive(Default)]
pub struct Sharing {
    pub reads: bool,
    pub writes: bool,
    pub lanes: Vec<(i64, NodeId, Arc<SharedLane>)>,
}

//! A session's part in sharing. What it is for: `share.rs`.

use std::sync::Arc;

use catalog::NodeId;
use share::SharedQueue;

/// What a session allows, and the queues it used last.
#[derive(Default)]
pub struct Sharing {
    pub reads: bool,
    pub writes: bool,
    pub queues: Vec<(i64, NodeId, Arc<SharedQueue>)>,
}

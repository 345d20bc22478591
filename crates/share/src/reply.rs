//! What one shared execution answered, still as the node wrote it.

use bytes::Bytes;

/// What one execution is told.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// DataRow and NoticeResponse messages, in order.
    pub messages: Vec<Bytes>,
    /// The command tag.
    pub tag: String,
}

//! Cancelling what runs on a connection, over a connection of its own. It does not wait for the statement to end.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::error::PoolError;
use crate::stream::dial;
use crate::target::NodeTarget;

/// Which backend of which node to cancel, and the right to do so.
#[derive(Clone, PartialEq, Eq)]
pub struct CancelKey {
    pub target: Arc<NodeTarget>,
    /// Which of the target's hosts.
    pub address: Arc<NodeTarget>,
    pub pid: i32,
    pub secret: Arc<[u8]>,
}

impl fmt::Debug for CancelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelKey")
            .field("node", &self.target.to_string())
            .field("pid", &self.pid)
            .finish_non_exhaustive()
    }
}

/// Asks the node to cancel what the backend of `key` runs. Returns when the node has acted on it (it closes the
/// connection then), which it does whether or not there was something to cancel.
pub async fn cancel(key: &CancelKey, timeout: Duration) -> Result<(), PoolError> {
    let request = async {
        let failed = |source| PoolError::Connect { node: key.target.to_string(), source };
        let mut stream = dial(&key.address).await?;
        let mut packet = BytesMut::new();
        wire::startup::put_cancel(&mut packet, key.pid, &key.secret);
        stream.write_all(&packet).await.map_err(failed)?;
        stream.flush().await.map_err(failed)?;
        // How the connection ends tells nothing.
        let _ = stream.read(&mut [0; 8]).await;
        Ok(())
    };
    let late = |_| PoolError::Timeout { node: key.target.to_string(), doing: "cancelling a statement" };
    tokio::time::timeout(timeout, request).await.map_err(late)?
}

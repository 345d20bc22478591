//! A connection to a standby: it is one of the node's own, and is given up with the others when it says nothing any more. How far it lags is not
//! known here.

use super::Conn;
use crate::error::PoolError;
use crate::hosts;
use crate::target::NodeTarget;

/// What a cluster and all its standbys have alike.
const SYSTEM: &str = "SELECT system_identifier::pg_catalog.text FROM pg_catalog.pg_control_system()";

impl Conn {
    /// Behind the login: whoever has the address by now may be somebody else than when it was looked at.
    pub(super) async fn be_standby_of(&mut self, system: u64) -> Result<(), PoolError> {
        let no = |target: &NodeTarget, source| PoolError::Connect { node: target.to_string(), source };
        let socket = self.stream.handle().map_err(|e| no(&self.target, e))?;
        if self.parameters.get("in_hot_standby").is_some_and(|v| v == "off") {
            return Err(self.is_promoted());
        }
        let rows = self.simple(SYSTEM).await?;
        let own: Option<u64> = rows.first().and_then(|row| row.first()?.as_deref()?.parse().ok());
        if own != Some(system) {
            let why = "the server is no standby of the node: it has another system identifier";
            return Err(no(&self.target, std::io::Error::other(why)));
        }
        self.link = Some(hosts::link(&self.target, socket));
        Ok(())
    }

    /// It has been promoted, and may have rows that nobody has committed on the node. Servers say so before their next answer ends.
    pub(super) fn is_promoted(&self) -> PoolError {
        PoolError::Closed { node: self.target.to_string(), reason: "it is no standby any more".into() }
    }
}

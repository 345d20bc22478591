//! Room for clients beside a copy: while any of them are at work on the nodes that it reads and fills, it rests for longer than it has worked; where nobody is,
//! it does not rest. It does not know what is copied.

use std::time::{Duration, Instant};

use pool::Conn;

use super::plan::Move;
use crate::error::Result;
use crate::router::herd::Herd;

/// So long a piece of work is: nodes have more to do in shorter rests, as what was sent waits in sockets.
const PIECE: Duration = Duration::from_millis(250);
/// What has waited for something rests no longer: a node takes a connection that does not read for lost.
const REST_MAX: Duration = Duration::from_secs(1);
/// Routers' own work, other copies among it, is nobody's who waits.
const AT_WORK: &str = "SELECT true FROM pg_catalog.pg_stat_activity \
    WHERE state OPERATOR(pg_catalog.=) 'active' AND backend_type OPERATOR(pg_catalog.=) 'client backend' \
      AND pid OPERATOR(pg_catalog.<>) pg_catalog.pg_backend_pid() \
      AND application_name OPERATOR(pg_catalog.<>) ALL ('{herd router,herd job}') LIMIT 1";

/// The rests of one copy.
pub struct Pace {
    source: Conn,
    /// To the copy's node, if that is another.
    target: Option<Conn>,
    begun: Instant,
}

impl Pace {
    /// Work begins.
    pub async fn start(herd: &Herd, of: &Move) -> Result<Pace> {
        let source = herd.admin(&of.snapshot, of.from).await?;
        let target = if of.from == of.to { None } else { Some(herd.admin(&of.snapshot, of.to).await?) };
        Ok(Pace { source, target, begun: Instant::now() })
    }

    /// A connection to the shard's node.
    pub fn source(&mut self) -> &mut Conn {
        &mut self.source
    }

    /// A part of the work is done.
    pub async fn rest(&mut self) -> Result<()> {
        let worked = self.begun.elapsed();
        if worked >= PIECE {
            if self.is_beside_others().await? {
                tokio::time::sleep((worked + worked / 4).min(REST_MAX)).await;
            }
            self.begun = Instant::now();
        }
        Ok(())
    }

    /// Whether somebody else is at work at this moment.
    pub async fn is_beside_others(&mut self) -> Result<bool> {
        for node in [&mut self.source].into_iter().chain(&mut self.target) {
            if !node.simple(AT_WORK).await?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

//! The gate: how readers see all of a transaction over several nodes or none of it (`herd.snapshot`).
//!
//! Every node has one, an advisory lock. A *writer* over several nodes holds the gate of its decider, shared, from before
//! it prepares anything until all have answered COMMIT PREPARED (`commit.rs`). A *reader* takes the gates of all nodes
//! exclusively, then a snapshot on each node it may read, then gives the gates back (`exec/src/gates.rs`, `cut.rs`,
//! `cut_statement.rs`).
//! Those snapshots together are a *cut*.
//!
//! Why a cut is whole. Be T a transaction over several nodes with decider D, and t0 a moment at which the reader has all
//! gates. T's first PREPARE follows its taking of D's gate, so at t0 one of these holds:
//! 1. T has not taken the gate. It can't before the reader lets go: nothing of it is prepared, decided or seen.
//! 2. T took the gate and gave it back as it should: all of it is committed, or none, and every later snapshot says so.
//! 3. T took the gate and lost it with its connection: its router died, the node failed over to a standby (which has no
//!    advisory locks), a participant could not be reached. Then T is over on D, and where it is not yet finished it still
//!    stands prepared. The reader lists prepared transactions on every node after t0 and before the node's snapshot
//!    (finishing one makes it visible first and takes it off the list second, see FinishPreparedTransaction in
//!    twophase.c). If none is listed, all of T was finished before the snapshots. If one is, the cut may not be whole:
//!    the reader lets go, has recovery finish it, and begins anew. Rows of `herd.decision` play no part in this, so it
//!    does not matter when they are deleted.
//!
//! D's own commit can't come later than t0 in case 3: the lock goes when the backend ends, which is after its commit.
//! A gate can be lost by the reader, too: its COMMIT that gives the gates back must succeed on every node after the last
//! snapshot was taken, or the cut is not used. A node that joins the herd is made known by a transaction with home as
//! its decider: while a reader has home's gate the list of nodes stands still, and it reads the list then.
//!
//! Who waits for whom. Readers take home's gate first, so one router at a time takes the others', for all its readers. A
//! writer holds one gate only. A reader with gates waits for writers, never for rows. A writer with its gate waits for the
//! disk, and for rows where deferred constraints are checked by PREPARE: that could go round through a writer that waits
//! for the reader, so the reader does not wait long, lets go of everything and tries again.
//!
//! Rejected: a table that the prepared transactions themselves hold locks on (LOCK TABLE survives PREPARE, and a failover).
//! A writer would hold gates on every node it writes to, and take them in no order: readers and writers could wait for
//! each other in circles that no node sees, and every one of them would have to wait in the order of nodes before its
//! first PREPARE. Rejected too: waiting until `pg_prepared_xacts` is empty. Under writers it never is.
//!
//! Routers of older versions take no gates: a cut says nothing of their transactions. This file does not know how a cut
//! is made, only the lock's name and the writer's half.

use crate::lane::Lane;

/// The lock every node has for this purpose; the herd's id keeps it apart from locks of users' own.
pub fn key(herd: &str) -> i64 {
    crate::gid::hash(&format!("herd_{herd}_gate"))
}

/// The writer's lock. Of the session: it outlives the decider's transaction.
pub(crate) fn enter(herd: &str) -> String {
    format!("SELECT pg_catalog.pg_advisory_lock_shared({})", key(herd))
}

fn leave(herd: &str) -> String {
    format!("SELECT pg_catalog.pg_advisory_unlock_shared({})", key(herd))
}

/// A decider's connection that may hold the gate. It goes back to its pool only after a reset, whatever happens, until
/// [`close`](Self::close) has let go.
pub(crate) struct Entered {
    tainted: bool,
    leave: String,
}

impl Entered {
    pub fn before(lane: &mut Lane, herd: &str) -> Self {
        let tainted = std::mem::replace(&mut lane.conn.tainted, true);
        Entered { tainted, leave: leave(herd) }
    }

    /// Sends the unlock, without waiting.
    pub async fn send_leave(&self, lane: &mut Lane) {
        lane.put_query(&self.leave);
        // What goes wrong here is seen when the answer is read.
        let _ = lane.conn.flush().await;
    }

    /// Reads the answer. A connection that did not answer as it should is closed, and the lock gone with it.
    pub async fn close(self, lane: &mut Lane) {
        match lane.finish().await {
            Ok(_) => lane.conn.tainted = self.tainted,
            Err(_) => lane.conn.mark_broken(),
        }
    }
}

/// The reader's lock, of a transaction; then the herd's nodes as they are while it is held.
pub fn take(herd: &str, wait_ms: u64) -> String {
    format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY; SET LOCAL lock_timeout = {wait_ms}; SET LOCAL statement_timeout = 0; \
         SELECT pg_catalog.pg_advisory_xact_lock({}) /* herd.snapshot waits for commits over several nodes */",
        key(herd)
    )
}

/// What stands prepared on a node, of this herd's.
pub fn list(herd: &str) -> String {
    format!(
        "SELECT gid FROM pg_catalog.pg_prepared_xacts \
         WHERE database = pg_catalog.current_database() AND pg_catalog.starts_with(gid, 'herd_{herd}_')"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn herds_have_gates_of_their_own() {
        assert_ne!(key("00000000000000aa"), key("00000000000000ab"));
        assert!(enter("aa").contains(&key("aa").to_string()) && take("aa", 1).contains(&key("aa").to_string()));
    }
}

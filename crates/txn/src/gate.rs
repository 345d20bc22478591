//! The gate: how readers see all of a transaction over several nodes or none of it (`herd.snapshot`).
//!
//! Every node has one, the table `herd.gate`, which is locked and never holds a row. A *writer* over several nodes holds
//! the gate of its decider, shared, from before it prepares anything to the end of the decider's transaction, which is the
//! decision (`commit.rs`; `herd.decide()` takes it). A *reader* takes the gates of all nodes exclusively, waits until
//! nothing stands prepared any more, then takes a snapshot on each node it may read, then gives the gates back
//! (`exec/src/router/gates.rs`, `exec/src/work/cut.rs`, `exec/src/work/cut_statement.rs`). Those snapshots together are a *cut*.
//!
//! Why a cut is whole. Be T a transaction over several nodes with decider D, and t0 a moment at which the reader has all
//! gates. T's first PREPARE follows its taking of D's gate, so at t0 one of these holds:
//! 1. T has not taken the gate. It can't before the reader lets go: nothing of it is prepared, decided or seen.
//! 2. T took the gate, and its transaction on D is over: committed, aborted, lost with a connection or in a failover (then
//!    it has not committed). What is not yet finished elsewhere stands prepared: if D committed, all PREPAREs had been
//!    answered before. The reader lists prepared transactions on every node after t0 and before the node's snapshot
//!    (finishing one makes it visible first and takes it off the list second, see FinishPreparedTransaction in
//!    twophase.c). If none is listed, all of T was finished before the snapshots. If some are, their router is about to
//!    finish them, and no new ones come: the reader looks again. Where their router died, the reader lets go, has recovery
//!    finish them, and begins anew. A PREPARE still on its way to a node when D's connection died is part of a transaction
//!    that will be rolled back, and never seen.
//!
//! Rows of `herd.decision` play no part in this, so it does not matter when they are deleted. A gate can be lost by the
//! reader, too: its COMMIT that gives the gates back must succeed on every node after the last snapshot was taken, or the
//! cut is not used. A node that joins the herd is made known by a transaction with home as its decider: while a reader has
//! home's gate the list of nodes stands still, and it reads the list then.
//!
//! Who waits for whom. Readers take home's gate first, so one router at a time takes the others', for all its readers. A
//! writer holds one gate only. A reader with gates waits for writers, never for rows. A writer with its gate waits for the
//! disk, and for rows where deferred constraints are checked by PREPARE: that could go round through a writer that waits
//! for the reader, so the reader does not wait long, lets go of everything and tries again.
//!
//! Rejected: advisory locks. Anybody may take any of them, and `pg_locks` shows which to take; this table can be locked by
//! its owner alone. Rejected: a table that the prepared transactions themselves hold locks on (LOCK TABLE survives PREPARE, and a failover).
//! A writer would hold gates on every node it writes to, and take them in no order: readers and writers could wait for
//! each other in circles that no node sees, and every one of them would have to wait in the order of nodes before its
//! first PREPARE. Rejected too: waiting until `pg_prepared_xacts` is empty without the gates. Under writers it never is.
//!
//! Routers of older versions take no gates: a cut says nothing of their transactions. This file does not know how a cut
//! is made, only what is said to a node.

/// The reader's lock, of a transaction.
pub fn take(wait_ms: u64) -> String {
    format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY; SET LOCAL lock_timeout = {wait_ms}; SET LOCAL statement_timeout = 0; \
         LOCK TABLE herd.gate IN EXCLUSIVE MODE /* herd.snapshot waits for commits over several nodes */"
    )
}

/// What stands prepared on a node, of this herd's.
pub fn list(herd: &str) -> String {
    format!(
        "SELECT gid FROM pg_catalog.pg_prepared_xacts \
         WHERE database OPERATOR(pg_catalog.=) pg_catalog.current_database() AND pg_catalog.starts_with(gid, 'herd_{herd}_')"
    )
}

//! A lent connection, and what becomes of it when it is dropped. It does not know how pools share.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::conn::Conn;
use crate::node_pool::{NodePool, Slot};

/// A [`Conn`] on loan. Dropping it gives it back: at once if nothing is left on it, after a reset in the background if
/// it is tainted, and never if a reply is owed, a transaction is open or it is broken: then it is closed, and what still
/// runs on it is cancelled.
pub struct PooledConn {
    /// There until dropped.
    conn: Option<Box<Conn>>,
    pool: Arc<NodePool>,
}

impl PooledConn {
    pub(crate) fn new(conn: Box<Conn>, pool: Arc<NodePool>) -> Self {
        PooledConn { conn: Some(conn), pool }
    }

    /// Closes the connection instead of giving it back.
    pub fn close(mut self) {
        self.mark_broken();
    }

    pub(crate) fn into_inner(mut self) -> Box<Conn> {
        self.conn.take().expect(THERE)
    }

    /// Closes the connection, keeping the right to open another.
    pub(crate) fn into_slot(mut self) -> Slot {
        drop(self.conn.take());
        Slot::of(self.pool.clone())
    }
}

const THERE: &str = "the connection is there until dropped";

impl Deref for PooledConn {
    type Target = Conn;
    fn deref(&self) -> &Conn {
        self.conn.as_ref().expect(THERE)
    }
}

impl DerefMut for PooledConn {
    fn deref_mut(&mut self) -> &mut Conn {
        self.conn.as_mut().expect(THERE)
    }
}

impl Drop for PooledConn {
    fn drop(&mut self) {
        let Some(mut conn) = self.conn.take() else { return };
        match (conn.settle(), conn.tainted) {
            (true, false) => self.pool.give_back(conn),
            (true, true) => self.pool.reset(conn),
            (false, _) => self.pool.discard(conn),
        }
    }
}

//! The session's own connection to home: kept from the moment something lives there that can't be had elsewhere (temporary
//! tables, LISTEN, session locks), until the session ends or gives it up. It does not know why it is kept.

use pool::Conn;
use txn::Lane;
use wire::ErrorFields;
use wire::sqlstate;

/// The session's own connection to home: wanted, in use, or lost.
#[derive(Default)]
pub enum Pin {
    /// Any connection will do.
    #[default]
    Free,
    /// The next connection to home is kept.
    Wanted,
    Here(Lane),
    /// A statement or the transaction has it; by its backend's pid.
    Away(i32),
    /// It broke, and with it all that lived there: the session is over, as one whose backend is lost.
    Lost(Box<ErrorFields>),
}

impl Pin {
    /// From now on the session keeps its connection.
    pub fn want(&mut self) {
        if let Pin::Free = self {
            *self = Pin::Wanted;
        }
    }

    /// The session keeps no connection and has lost none: any will do.
    pub fn is_free(&self) -> bool {
        matches!(self, Pin::Free)
    }

    /// There is one, wherever it is now.
    pub fn is_held(&self) -> bool {
        matches!(self, Pin::Here(_) | Pin::Away(_))
    }

    /// The pinned connection, unless a transaction has it or there is none.
    pub fn here(&mut self) -> Option<&mut Lane> {
        match self {
            Pin::Here(lane) => Some(lane),
            _ => None,
        }
    }

    /// The connection, for a statement.
    pub fn take(&mut self) -> Option<Lane> {
        match std::mem::take(self) {
            Pin::Here(lane) => {
                *self = Pin::Away(lane.conn.pid());
                Some(lane)
            }
            other => {
                *self = other;
                None
            }
        }
    }

    /// A lane to home comes back from a statement or a transaction: it is kept if it is the one. `None`: it was.
    pub fn put_back(&mut self, mut lane: Lane) -> Option<Lane> {
        if !self.is_for(&lane) {
            return Some(lane);
        }
        *self = match lane.break_unless_at_rest() {
            true => Pin::Here(lane),
            false => Pin::lost(&lane.conn),
        };
        None
    }

    /// Looks at a lane to home that stays with its transaction. Whatever broke it, the session has lost what it kept there.
    pub fn watch(&mut self, lane: &mut Lane) {
        if let Pin::Wanted = self {
            *self = Pin::Away(lane.conn.pid());
        }
        if !lane.break_unless_at_rest() && matches!(self, Pin::Away(pid) if *pid == lane.conn.pid()) {
            *self = Pin::lost(&lane.conn);
        }
    }

    fn is_for(&self, lane: &Lane) -> bool {
        match self {
            Pin::Wanted => true,
            Pin::Away(pid) => *pid == lane.conn.pid(),
            Pin::Free | Pin::Here(_) | Pin::Lost(_) => false,
        }
    }

    /// With what the node said last, or that the connection was lost.
    pub fn lost(conn: &Conn) -> Pin {
        let said = conn.farewell().cloned().unwrap_or_else(|| {
            let message = format!("terminating connection because the connection to node {} was lost", conn.target());
            ErrorFields::fatal(sqlstate::CONNECTION_FAILURE, message)
                .detail("What the session kept there is gone: temporary tables, locks, LISTEN.")
        });
        Pin::Lost(Box::new(said))
    }
}

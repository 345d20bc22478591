//! Transactions over the nodes: who takes part, begin, savepoints, commit by one or two phases, recovery.
//!
//! PostgreSQL commits; this crate only says when and where. It does not know statements, plans or clients.

mod commit;
mod deferred;
pub mod failpoint;
pub mod gate;
mod gid;
mod lane;
mod manner;
pub mod recover;
mod said;
mod seal;
mod transaction;

pub use commit::{CommitError, Ended};
pub use gid::{Gid, Identity};
pub use lane::{CONNECT_AGAIN, Lane, Look};
pub use manner::{Manner, SHOWN};
pub use said::Said;
pub use seal::Seal;
pub use transaction::{Cuts, Participant, Raised, Transaction};

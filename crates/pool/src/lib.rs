//! Connections to nodes: login, TLS, framing, reset, health, and the pools that lend them.
//!
//! A [`Conn`] is one logged-in connection. [`Pools`] keeps some for each node and client's role, and lends them as
//! [`PooledConn`]s; [`OwnConns`] keeps the router's own, which no client ever gets. Both go back when dropped, but only if nothing of their last user is left on them: no reply owed, no
//! open transaction, no session state. Whatever is in doubt is closed.
//!
//! This crate does not know shards, plans or clients; it does not decide which node runs a statement, and does not
//! look into statements.

mod alike;
mod at_login;
pub mod awake;
mod cancel;
mod conn;
mod error;
mod heap;
mod hosts;
mod keywords;
mod ledger;
mod liveness;
mod login;
mod node_pool;
mod own;
mod patroni;
mod pooled;
mod pools;
mod require_auth;
mod role;
mod settings;
mod simple;
mod size;
pub mod slot_snapshot;
mod statements;
mod stream;
mod target;
mod tls;

pub use alike::Alike;
pub use at_login::{AtLogin, Defaults};
pub use cancel::{CancelKey, cancel};
pub use conn::{Asker, Conn, LongMessages, Progress, Remembers, Wish};
pub use error::PoolError;
pub use hosts::give_up;
pub use keywords::{KeywordError, keywords};
pub use liveness::Liveness;
pub use node_pool::PoolStats;
pub use own::{OWN_STARTUP, OwnConns};
pub use pooled::PooledConn;
pub use pools::{PoolConfig, Pools};
pub use require_auth::RequireAuth;
pub use role::{ClientLogin, Judge, RoleWord};
pub use settings::{Settings, roles_now};
pub use size::Size;
pub use statements::{StatementCache, StatementKey, StatementName};
pub use stream::is_anybody_at;
pub use target::{Login, NodeTarget, Secret, TlsMode};

//! Prepared statements and portals of a session. Nothing here talks to a node.

use std::sync::Arc;
use std::time::Duration;

use exec::{Bound, Compiled, ExecError, Taken};
use sql::NodeEnum;
use wire::backend::Field;
use wire::sqlstate;

use crate::session::Result;

/// What a text turned out to be.
#[derive(Clone)]
pub enum Parsed {
    Empty,
    /// A query, insert or modify that does nothing else: planned once for all that bind it.
    Planned(Arc<Compiled>),
    /// Everything else goes by its tree: what it is, is decided when it runs.
    Tree(Arc<NodeEnum>),
}

/// A prepared statement of the extended protocol.
pub struct Prepared {
    pub sql: String,
    /// What it takes of the router's memory.
    #[expect(dead_code, reason = "gives it back when dropped")]
    pub taken: Taken,
    /// As the client gave them; 0 where PostgreSQL infers.
    pub declared: Vec<u32>,
    pub params: Arc<[u32]>,
    pub fields: Option<Vec<Field>>,
    pub parsed: Parsed,
    /// Utility statements are not looked into before they are described or run: their error comes then.
    pub deferred: Option<Box<wire::ErrorFields>>,
    /// When, since the Unix epoch.
    pub at: Duration,
    /// The catalog it was planned with ([`exec::Epoch::serial`]).
    pub epoch: u64,
    pub context: u64,
}

/// A prepared statement with its parameters, and how far it has run.
pub struct Portal {
    pub prepared: Arc<Prepared>,
    pub bound: Bound,
    /// `None`: it has not run yet.
    pub state: Option<PortalState>,
    /// What the parameters of one with a name take of the memory for rows; there is one without a name at a time.
    pub _taken: Option<exec::Taken>,
}

/// Where a portal's rows are.
pub enum PortalState {
    /// On a node under this name; rows remain.
    OnNode { node: i32, name: String },
    /// Over several nodes; the word of its final tag.
    Spread { cursor: Box<exec::Cursor>, verb: String },
    Done {
        /// It was a query: run again it gives no more rows. Anything else can't be run again.
        query: bool,
    },
}

/// A statement of SQL's own PREPARE.
pub struct SqlPrepared {
    /// All of PREPARE.
    pub said: String,
    pub sql: String,
    /// Declared types as SQL text; empty: all inferred.
    pub types: Vec<String>,
    /// Their object ids on home.
    pub oids: Vec<u32>,
}

/// Whether a statement that is planned anew gives the columns that its client was told of.
pub fn still_told(told: Option<&[Field]>, now: Option<&[Field]>) -> Result<()> {
    let columns = |fields: Option<&[Field]>| {
        let each = |f: &Field| (f.name.clone(), f.type_oid, f.typmod);
        fields.map(|fields| fields.iter().map(each).collect::<Vec<_>>())
    };
    match columns(told) == columns(now) {
        true => Ok(()),
        false => Err(ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, "cached plan must not change result type")),
    }
}

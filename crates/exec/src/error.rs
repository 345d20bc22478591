//! What can go wrong while a plan runs, and what the client is told. SQLSTATEs of refusals come from the planner,
//! those of nodes from PostgreSQL itself.

use pool::PoolError;
use wire::sqlstate;
use wire::{ErrorFields, WireError};

/// Why a statement did not run to its end. Which of these can be tried again: `session/src/anew.rs`.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// An error the client gets as it is.
    #[error("{}", .0.message())]
    Sql(Box<ErrorFields>),
    /// The same, of a statement some of whose rows are committed: it must not be tried again.
    #[error("{}", .0.message())]
    Partial(Box<ErrorFields>),
    /// It met a table of another kind than it was planned for: it may be planned anew.
    #[error("tables were distributed, or made local or reference tables, while the statement ran")]
    Stale,
    #[error(transparent)]
    Pool(#[from] PoolError),
    #[error(transparent)]
    Refused(#[from] plan::Refusal),
    /// The session ends with this: its backend is lost, or somebody has ended it.
    #[error("{}", .0.message())]
    Ended(Box<ErrorFields>),
    /// The client is gone or breaks the protocol: the session ends.
    #[error("client: {0}")]
    Client(ClientError),
}

/// Why there is nobody to answer any more.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens.
    #[error("connection lost: {0}")]
    Lost(String),
    /// No message of the protocol.
    #[error("{0}")]
    Malformed(String),
    /// A message that has no place where it came.
    #[error("{0}")]
    OutOfStep(String),
}

/// What a client is told whose `statement_timeout` is over, in PostgreSQL's words.
pub const STATEMENT_TIMEOUT: &str = "canceling statement due to statement timeout";

impl ExecError {
    /// An error of the router's own, with this SQLSTATE.
    pub fn sql(code: &str, message: impl Into<String>) -> Self {
        ExecError::Sql(Box::new(ErrorFields::error(code, message)))
    }

    /// Sets the hint of an [`ExecError::Sql`]; any other error stays as it is.
    pub fn hint(self, hint: &str) -> Self {
        match self {
            ExecError::Sql(f) => ExecError::Sql(Box::new(f.hint(hint))),
            other => other,
        }
    }

    /// A node says that who asks may not: of tables that are read in place of these views, that is not the views' word.
    pub fn of_views(self, views: &[String]) -> Self {
        let code = self.code();
        if views.is_empty() || code != sqlstate::INSUFFICIENT_PRIVILEGE {
            return self;
        }
        // The right to the view itself.
        let own = self.to_fields().message().to_string();
        if views.iter().any(|v| own == format!("permission denied for view {v}")) {
            return self;
        }
        let message = format!(
            "this query takes {} apart over several nodes, which needs your own right to the tables below",
            views.iter().map(|v| format!("view \"{v}\"")).collect::<Vec<_>>().join(", ")
        );
        let mut fields = ErrorFields::error(sqlstate::FEATURE_NOT_SUPPORTED, message)
            .hint("Filter the query to one key value, or have SELECT on the tables granted to you.");
        fields.set(b'D', self.to_fields().message());
        ExecError::Sql(Box::new(fields))
    }

    /// Home has said that who asks may write to the view: what its rule uses is that one's owner's to use, in PostgreSQL.
    pub fn of_rule(self, view: &str) -> Self {
        if self.code() != sqlstate::INSUFFICIENT_PRIVILEGE {
            return self;
        }
        let message =
            format!("writing to view \"{view}\" by its rules needs your own right to the tables that they use");
        let mut fields = ErrorFields::error(sqlstate::FEATURE_NOT_SUPPORTED, message)
            .hint("Have the rights to these tables granted to you, or write to them as the view's owner.");
        fields.set(b'D', self.to_fields().message());
        ExecError::Sql(Box::new(fields))
    }

    /// A node says that a row is none of its shard's: one that UPDATE in WITH, or MERGE, gave another key than the statement
    /// was sent by. A row of VALUES goes by its own key, and the word is the node's.
    pub fn of_strays(self, plan: &plan::Planned) -> Self {
        if matches!(plan, plan::Planned::Forward(_) | plan::Planned::Insert { rows: plan::Insert::Row, .. }) {
            return self;
        }
        if !matches!(self, ExecError::Sql(_) | ExecError::Pool(_)) {
            return self;
        }
        let fields = self.to_fields();
        // ExecPartitionCheckEmitError and ExecFindPartition name a table; a CHECK is named besides.
        let partition = fields.get(b't').is_some() && fields.get(b'n').is_none();
        if fields.code() != sqlstate::CHECK_VIOLATION || !partition {
            return self;
        }
        if plan.whole().tables.iter().any(|t| t.relation.distribution().is_some_and(|d| is_none_of_key(&fields, t, d)))
        {
            return self;
        }
        let message = "a row's new key belongs to another shard than those that the statement was sent to";
        let mut refused = ErrorFields::error(sqlstate::FEATURE_NOT_SUPPORTED, message).hint(
            "Change the key by an UPDATE of its own, or DELETE the row and INSERT it with its new key, in one transaction.",
        );
        if let Some(detail) = fields.get(b'D') {
            refused.set(b'D', detail);
        }
        ExecError::Sql(Box::new(refused))
    }

    /// A row's key would change by an UPDATE that is made if none does (plan's `move_rows/stays.rs`).
    pub fn unless_stays(self, otherwise: impl FnOnce() -> ExecError) -> Self {
        match self.code() == sqlstate::INVALID_TEXT_REPRESENTATION
            && self.to_fields().refuses_text(plan::move_rows::KEY_CHANGES)
        {
            true => otherwise(),
            false => self,
        }
    }

    /// The client can't be reached any more: the session ends.
    pub fn lost(how: impl ToString) -> Self {
        ExecError::Client(ClientError::Lost(how.to_string()))
    }

    /// 57014, in PostgreSQL's words.
    pub fn cancelled() -> Self {
        Self::sql(sqlstate::QUERY_CANCELED, "canceling statement due to user request")
    }

    /// 57014 as well: its time is over.
    pub fn late() -> Self {
        Self::sql(sqlstate::QUERY_CANCELED, STATEMENT_TIMEOUT)
    }

    /// It was cancelled so that others go on: a deadlock that no node sees by itself.
    pub fn deadlocked() -> Self {
        let fields = ErrorFields::error(sqlstate::T_R_DEADLOCK_DETECTED, "deadlock detected")
            .detail("Transactions on several nodes waited for each other; this one began last.")
            .hint("Try the transaction again.");
        Self::Sql(Box::new(fields))
    }

    /// The client has given its COPY up.
    pub fn copy_failed(reason: &str) -> Self {
        Self::sql(sqlstate::QUERY_CANCELED, format!("COPY from stdin failed: {reason}"))
    }

    /// XX000: what a fault of the router itself brings about.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::sql(sqlstate::INTERNAL_ERROR, message)
    }

    /// The SQLSTATE that the client is told.
    pub fn code(&self) -> String {
        self.to_fields().code().to_string()
    }

    /// What the client is told. A node's FATAL is an ERROR there: its connection ends, not the client's.
    pub fn to_fields(&self) -> ErrorFields {
        match self {
            ExecError::Sql(fields) | ExecError::Partial(fields) | ExecError::Ended(fields) => (**fields).clone(),
            ExecError::Pool(e) => {
                let mut fields = e.to_fields();
                // The node's connection ends, not the client's.
                if fields.is_fatal() {
                    fields.set(b'S', "ERROR");
                    fields.set(b'V', "ERROR");
                }
                fields
            }
            ExecError::Stale => ErrorFields::error(sqlstate::T_R_SERIALIZATION_FAILURE, self.to_string())
                .hint("Try the transaction again."),
            ExecError::Refused(r) => {
                let fields = ErrorFields::error(r.sqlstate, r.message.clone());
                match &r.hint {
                    Some(hint) => fields.hint(hint.clone()),
                    None => fields,
                }
            }
            ExecError::Client(e) => ErrorFields::fatal(sqlstate::PROTOCOL_VIOLATION, e.to_string()),
        }
    }
}

impl From<WireError> for ExecError {
    fn from(e: WireError) -> Self {
        ExecError::Pool(PoolError::Wire(e))
    }
}

impl From<sql::SyntaxError> for ExecError {
    fn from(e: sql::SyntaxError) -> Self {
        match e.too_deep {
            true => ExecError::sql(sqlstate::STATEMENT_TOO_COMPLEX, e.message).hint(sql::SyntaxError::TOO_DEEP_HINT),
            false => ExecError::sql(sqlstate::SYNTAX_ERROR, e.message),
        }
    }
}

pub type Result<T> = std::result::Result<T, ExecError>;

/// It speaks of what a table is split by above its key, time say: PostgreSQL's own word is right. Of a partition it does not tell which
/// of both it was.
fn is_none_of_key(fields: &ErrorFields, table: &plan::TableKeys, d: &catalog::Distribution) -> bool {
    let names: Vec<String> =
        d.key.iter().filter_map(|k| table.relation.columns.get(*k)).map(|c| catalog::quote_ident(&c.name)).collect();
    let detail = fields.get(b'D').unwrap_or_default();
    let of_key = detail.find('(').is_some_and(|at| detail[at..].starts_with(&format!("({}) = (", names.join(", "))));
    d.is_part || d.is_partitioned() && !of_key
}

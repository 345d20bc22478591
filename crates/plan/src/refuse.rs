//! Why a statement can't be run over several nodes, in words for the user.

use crate::apart::{Apart, Differs, Gathering};
use wire::sqlstate;

/// A refusal: SQLSTATE 0A000 (`feature_not_supported`) unless said otherwise.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    pub sqlstate: &'static str,
    pub message: String,
    pub hint: Option<String>,
}

impl Refusal {
    /// One with advice: `hint` says what to do instead.
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Refusal { sqlstate: sqlstate::FEATURE_NOT_SUPPORTED, message: message.into(), hint: Some(hint.into()) }
    }

    /// One to which there is nothing to advise.
    pub fn bare(message: impl Into<String>) -> Self {
        Refusal { sqlstate: sqlstate::FEATURE_NOT_SUPPORTED, message: message.into(), hint: None }
    }

    /// What a relation is made of can't be read now. Sessions wait with such a statement.
    pub fn locked(relation: &str) -> Self {
        Refusal {
            sqlstate: sqlstate::LOCK_NOT_AVAILABLE,
            message: format!("\"{relation}\" can't be read: it, or what it is made of, is locked"),
            hint: Some(
                "Try again when the transaction that locked it has ended; herd.locks shows who waits for whom.".into(),
            ),
        }
    }

    /// Nobody knows any more where its rows are.
    pub fn replaced(relation: &str) -> Self {
        Refusal {
            sqlstate: sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE,
            message: format!("distributed table \"{relation}\" was made anew past the routers, and is split in another way"),
            hint: Some(
                "DROP TABLE through a router drops it, and what is left of the old one on the other nodes. To have it as a local \
                 table: SELECT herd.forget_dropped(), herd.bump_epoch() on home as the herd's owner."
                    .into(),
            ),
        }
    }

    /// It is one of [`locked`](Self::locked): waiting may help.
    pub fn is_locked(&self) -> bool {
        self.sqlstate == sqlstate::LOCK_NOT_AVAILABLE
    }

    /// Whose sides are split differently: rows would have to move.
    pub fn not_colocated(what: &str) -> Self {
        Refusal::not_together(
            format!(
                "{what} over distributed tables that are not joined on their distribution keys is not supported yet"
            ),
            None,
        )
    }

    /// `remedy`: statements that bring the tables' rows together.
    fn not_together(message: String, remedy: Option<String>) -> Self {
        let first = match remedy {
            Some(statements) => format!("To colocate them: {statements} Or join"),
            None => "Join".into(),
        };
        Refusal::new(
            message,
            format!(
                "{first} on the distribution keys of colocated tables, filter every table to one key value, or make the smaller table a reference table with create_reference_table()."
            ),
        )
    }

    /// Rows in the place of tables are not what the tables are.
    pub fn not_in_place(why: &str) -> Self {
        Refusal::new(
            format!(
                "this query is not supported over several nodes: with its tables' rows in place of the tables, {why}"
            ),
            "Join on the distribution keys of colocated tables, filter every table to one key value, or make the smaller table a reference table with create_reference_table().",
        )
    }

    /// An Exchange of a kind that nothing executes yet.
    pub fn not_moved() -> Self {
        Refusal::bare("this statement would have to move rows between nodes, which is not supported yet")
    }
}

impl From<Apart> for Refusal {
    fn from(apart: Apart) -> Self {
        let (why, remedy) = (apart.why(), apart.remedy());
        match apart {
            Apart::Join { left, right, .. } => {
                let why = why.unwrap_or_default();
                let message = format!("this join of {} and {} is not supported: {why}", left.table, right.table);
                Refusal::not_together(message, remedy)
            }
            Apart::Subquery { .. } => match why {
                Some(why) => Refusal::not_together(format!("this subquery is not supported: {why}"), None),
                None => Refusal::not_colocated("a subquery"),
            },
            Apart::SetOperation => Refusal::not_colocated("a set operation"),
            Apart::Spread { what, .. } => Refusal::not_colocated(match what {
                Gathering::Aggregate => "an aggregate in a subquery",
                Gathering::Window => "a window function in a subquery",
                Gathering::Distinct => "DISTINCT in a subquery",
                Gathering::Limit => "LIMIT in a subquery",
                Gathering::Order => "what relies on the order of a subquery",
            }),
            Apart::Local { table } => Refusal::new(
                format!("local table {table} can't be joined with distributed tables"),
                "Make it a reference table with create_reference_table(), or distribute it.",
            ),
            Apart::Code { what } => Refusal::new(
                format!("{what} uses what only home has, and can't be asked of rows of distributed tables here"),
                "Select its value first and pass it as a parameter, or make the tables it reads reference tables with create_reference_table().",
            ),
            Apart::Differs(Differs::Choice) => Refusal::new(
                "LIMIT or DISTINCT ON in a subquery over reference tables is not supported beside distributed tables",
                "Different nodes could pick different rows. Use a condition or an aggregate instead.",
            ),
            Apart::Differs(Differs::Order) => Refusal::new(
                "a window function, or an aggregate that heeds the order of its rows, in a subquery over reference tables is not supported beside distributed tables",
                "Different nodes could have another order. Say ORDER BY in the aggregate, or select the rows first.",
            ),
            Apart::Differs(Differs::Volatile) => {
                Refusal::bare("a volatile function in a subquery is not supported beside distributed tables")
            }
            Apart::Repeated => Refusal::new(
                "an outer join that keeps all rows of a reference table and joins a distributed table to them is not supported yet",
                "Turn the join around, or use an inner join.",
            ),
            Apart::Refused(refusal) => refusal,
        }
    }
}

impl From<sql::SyntaxError> for Refusal {
    fn from(e: sql::SyntaxError) -> Self {
        if e.too_deep {
            return Refusal {
                sqlstate: sqlstate::STATEMENT_TOO_COMPLEX,
                message: e.message,
                hint: Some(sql::SyntaxError::TOO_DEEP_HINT.into()),
            };
        }
        Refusal {
            sqlstate: sqlstate::INTERNAL_ERROR,
            message: format!("could not rewrite the statement: {}", e.message),
            hint: None,
        }
    }
}

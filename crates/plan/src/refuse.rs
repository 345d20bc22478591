//! Why a statement can't be run over several nodes, in words for the user.

/// A refusal: SQLSTATE 0A000 (`feature_not_supported`) unless said otherwise.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    pub sqlstate: &'static str,
    pub message: String,
    pub hint: Option<String>,
}

impl Refusal {
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Refusal { sqlstate: "0A000", message: message.into(), hint: Some(hint.into()) }
    }

    pub fn bare(message: impl Into<String>) -> Self {
        Refusal { sqlstate: "0A000", message: message.into(), hint: None }
    }

    /// A join or subquery whose sides are split differently: shuffle or gather would be needed.
    pub fn not_colocated(what: &str) -> Self {
        Refusal::new(
            format!(
                "{what} over distributed tables that are not joined on their distribution keys is not supported yet"
            ),
            "Join on the distribution keys of colocated tables, filter every table to one key value, or make the smaller table a reference table with create_reference_table().",
        )
    }

    /// An Exchange of a kind that nothing executes yet.
    pub fn not_moved() -> Self {
        Refusal::bare("this statement would have to move rows between nodes, which is not supported yet")
    }
}

impl From<sql::SyntaxError> for Refusal {
    fn from(e: sql::SyntaxError) -> Self {
        if e.too_deep {
            return Refusal {
                sqlstate: "54001",
                message: e.message,
                hint: Some(sql::SyntaxError::TOO_DEEP_HINT.into()),
            };
        }
        Refusal { sqlstate: "XX000", message: format!("could not rewrite the statement: {}", e.message), hint: None }
    }
}

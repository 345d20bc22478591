//! What libpg_query's errors mean: the one place that looks at their words. It hands on the message alone, in English whatever
//! `lc_messages` says, so there is nothing else to tell depth from faults by. It does not know what was read.

/// libpg_query could not read the statement. PostgreSQL itself, asked to parse it, gives the exact error and position.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct SyntaxError {
    pub message: String,
    /// It is nested deeper than can be read: SQLSTATE 54001, in PostgreSQL's words.
    pub too_deep: bool,
}

impl SyntaxError {
    pub(crate) fn new(message: String) -> Self {
        SyntaxError { message, too_deep: false }
    }

    /// What to do about a statement that is nested too deeply.
    pub const TOO_DEEP_HINT: &str =
        "Use IN (…), an array, VALUES or a temporary table in place of long chains of operators, subqueries or UNION.";

    pub(crate) fn too_deep() -> Self {
        SyntaxError { message: "stack depth limit exceeded".to_string(), too_deep: true }
    }
}

impl From<pg_query::Error> for SyntaxError {
    fn from(e: pg_query::Error) -> Self {
        let text = e.to_string();
        // What libpg_query says on the way to a tree's bytes and back.
        let deep = ["stack depth limit exceeded", "nested too deeply", "could not parse protobuf"];
        if deep.iter().any(|m| text.contains(m)) {
            return SyntaxError::too_deep();
        }
        SyntaxError::new(match e {
            pg_query::Error::Parse(message) => message,
            _ => text,
        })
    }
}

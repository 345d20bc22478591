//! Text to tree and back. It does not know what a statement means.

use pg_query::protobuf::{self, Node};
use pg_query::{NodeEnum, ParserOptions};

/// libpg_query could not read the statement. PostgreSQL itself, asked to parse it, gives the exact error and position.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct SyntaxError {
    pub message: String,
}

impl From<pg_query::Error> for SyntaxError {
    fn from(e: pg_query::Error) -> Self {
        let text = e.to_string();
        SyntaxError { message: text.strip_prefix("Invalid statement: ").unwrap_or(&text).to_string() }
    }
}

/// The statements of `sql`, in order.
pub fn parse(sql: &str, standard_conforming_strings: bool) -> Result<Vec<NodeEnum>, SyntaxError> {
    let mut options = ParserOptions::DISABLE_ESCAPE_STRING_WARNING;
    if !standard_conforming_strings {
        options |= ParserOptions::DISABLE_STANDARD_CONFORMING_STRINGS;
    }
    let parsed = pg_query::parse(sql, options)?;
    Ok(parsed.protobuf.stmts.into_iter().filter_map(|raw| raw.stmt?.node).collect())
}

/// The text of a statement.
pub fn deparse(statement: &NodeEnum) -> Result<String, SyntaxError> {
    Ok(statement.deparse(Default::default())?)
}

/// The text of an expression.
pub fn deparse_expr(expression: &Node) -> Result<String, SyntaxError> {
    let select = protobuf::SelectStmt {
        target_list: vec![crate::build::target(expression.clone(), None)],
        limit_option: protobuf::LimitOption::Default as i32,
        op: protobuf::SetOperation::SetopNone as i32,
        ..Default::default()
    };
    let text = deparse(&NodeEnum::SelectStmt(Box::new(select)))?;
    Ok(text.strip_prefix("SELECT ").unwrap_or(&text).to_string())
}

//! Text to tree and back. It does not know what a statement means.

use pg_query::protobuf::{self, Node};
use pg_query::{NodeEnum, ParserOptions};

use crate::{SyntaxError, comments, depth, names, null_ties, search, stack};

/// The statements of `sql`, in order. On a thread that has no room for deep trees (see [`stack`]) they are refused.
pub fn parse(sql: &str, standard_conforming_strings: bool) -> Result<Vec<NodeEnum>, SyntaxError> {
    let mut options = ParserOptions::DISABLE_ESCAPE_STRING_WARNING;
    if !standard_conforming_strings {
        options |= ParserOptions::DISABLE_STANDARD_CONFORMING_STRINGS;
    }
    let sql = comments::flat(sql, standard_conforming_strings).map_err(|error| SyntaxError::new(error.to_string()))?;
    let read = || {
        let parsed = pg_query::parse(&sql, options)?;
        Ok(parsed.protobuf.stmts.into_iter().filter_map(|raw| raw.stmt?.node).collect())
    };
    stack::with_room(read, |statements: &Vec<NodeEnum>| statements.iter().all(depth::is_shallow))
        .unwrap_or_else(|| Err(SyntaxError::too_deep()))
}

/// What is deeper is not printed: the encoder measures each message once for every message around it (half a second here).
const PRINTED_DEPTH_MAX: usize = 3000;

/// The text of a statement.
pub fn deparse(statement: &NodeEnum) -> Result<String, SyntaxError> {
    if depth::of(statement) > PRINTED_DEPTH_MAX {
        return Err(SyntaxError::too_deep());
    }
    if null_ties::are_in(statement) {
        return null_ties::deparse(statement);
    }
    if !search::any(statement, is_lengthless) {
        return Ok(statement.deparse(Default::default())?);
    }
    let mut statement = statement.clone();
    search::each_mut(&mut statement, |node| {
        if is_lengthless(node)
            && let NodeEnum::TypeCast(cast) = node
            && let Some(of) = &mut cast.type_name
        {
            of.names.remove(0);
        }
        true
    });
    Ok(statement.deparse(Default::default())?)
}

/// `pg_catalog.bpchar` and `pg_catalog."bit"` without a length: libpg_query writes them `char` and `bit`, which mean a length
/// of one. Under their own names alone they are written as they are meant.
fn is_lengthless(node: &NodeEnum) -> bool {
    let NodeEnum::TypeCast(cast) = node else { return false };
    let Some(of) = &cast.type_name else { return false };
    let names = names::strings(&of.names);
    of.typmods.is_empty() && matches!(names[..], ["pg_catalog", "bpchar" | "bit"])
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_without_a_length_stay_without() {
        for sql in ["SELECT 'ab'::bpchar", "SELECT '101'::\"bit\"", "SELECT 'ab'::char(2)"] {
            assert_eq!(deparse(&parse(sql, true).unwrap()[0]).unwrap(), sql);
        }
        let written = |sql: &str| deparse(&parse(sql, true).unwrap()[0]).unwrap();
        assert_eq!(
            written("SELECT 'ab'::pg_catalog.bpchar, '101'::pg_catalog.\"bit\""),
            "SELECT 'ab'::bpchar, '101'::\"bit\""
        );
        // The grammar itself gives CHAR a length of one.
        assert_eq!(written("SELECT 'ab'::char"), "SELECT 'ab'::char(1)");
        assert_eq!(written("SELECT '101'::bit(3)"), "SELECT '101'::pg_catalog.bit(3)");
        assert_eq!(written("SELECT ARRAY['ab'::pg_catalog.bpchar[]]"), "SELECT ARRAY['ab'::bpchar[]]");
        assert_eq!(deparse_expr(&pg("'ab'::pg_catalog.bpchar")).unwrap(), "'ab'::bpchar");
    }

    fn pg(expression: &str) -> Node {
        let Ok(mut parsed) = parse(&format!("SELECT {expression}"), true) else { panic!("{expression}") };
        let NodeEnum::SelectStmt(select) = parsed.remove(0) else { panic!("no SELECT") };
        let Some(NodeEnum::ResTarget(target)) = &select.target_list[0].node else { panic!("no target") };
        *target.val.clone().unwrap()
    }
}

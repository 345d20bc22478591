//! What a value depends on besides itself: the clock, a sequence, parameters. Judged by the tree alone; what a function
//! of another name does is not its business.

use catalog::Column;
use sql::ast::Node;
use sql::{NodeEnum, names, own, search};

use crate::rewrite;

/// A text of the catalog's; what it leaves unqualified is PostgreSQL's own. `None`: it can't be read.
pub fn parse_expression(text: &str) -> Option<Node> {
    let NodeEnum::SelectStmt(s) = sql::parse(&format!("SELECT {text}"), true).ok()?.pop()? else { return None };
    let mut value = rewrite::target_value(s.target_list.first()?).cloned()?;
    own::qualify_expression(&mut value);
    Some(value)
}

/// Its default reads the transaction's time.
pub fn reads_clock(column: &Column) -> bool {
    // Most defaults are plain values: they are not parsed for it.
    let may = |d: &String| ["now", "timestamp", "TIME", "DATE"].iter().any(|word| d.contains(word));
    column.default.as_ref().filter(|d| may(d)).is_some()
        && column.default.as_deref().and_then(parse_expression).is_some_and(|n| rewrite::reads_now(&n))
}

/// It calls nextval, currval or lastval.
pub fn calls_sequence(node: &Node) -> bool {
    search::any(
        node,
        |n| matches!(n, NodeEnum::FuncCall(f) if matches!(names::last(&f.funcname), "nextval" | "currval" | "lastval")),
    )
}

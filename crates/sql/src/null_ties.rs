//! `FETCH FIRST (NULL) ROWS WITH TIES`: libpg_query writes `ALL` for the NULL, as in LIMIT, which is no syntax there. PostgreSQL refuses
//! each such statement (2201W), and is to see it.

use pg_query::protobuf::{LimitOption, SelectStmt};

use crate::walk::{self, Visit, VisitMut};
use crate::{NodeEnum, SyntaxError, ast, build, parse};

/// No identifier: a parser cuts those of this length.
const MARK: &str = "Herd: NULL of FETCH FIRST, longer than any identifier that a parser lets through";

/// Whether there is one.
pub fn are_in(statement: &NodeEnum) -> bool {
    let mut found = Find(false);
    match statement {
        NodeEnum::SelectStmt(select) => walk::select_stmt(select, &mut found),
        other => walk::below(other, &mut found),
    }
    found.0
}

/// The text of a statement that has some.
pub fn deparse(statement: &NodeEnum) -> Result<String, SyntaxError> {
    let mut statement = statement.clone();
    if let NodeEnum::SelectStmt(select) = &mut statement {
        Put.select(select);
    }
    walk::below_mut(&mut statement, &mut Put);
    Ok(parse::deparse(&statement)?.replace(&format!("\"{MARK}\""), "NULL"))
}

fn is_one(select: &SelectStmt) -> bool {
    let count = select.limit_count.as_deref().and_then(|n| n.node.as_ref());
    let null = matches!(count, Some(NodeEnum::AConst(ast::AConst { isnull: true, .. })));
    null && select.limit_option == LimitOption::WithTies as i32
}

struct Find(bool);

impl Visit<'_> for Find {
    fn select(&mut self, select: &SelectStmt) -> bool {
        self.0 |= is_one(select);
        !self.0
    }
}

struct Put;

impl VisitMut for Put {
    fn select(&mut self, select: &mut SelectStmt) -> bool {
        if is_one(select) {
            select.limit_count = Some(Box::new(build::column(&[MARK])));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_is_written_as_it_was_read() {
        for sql in [
            "SELECT k FROM t ORDER BY k FETCH FIRST NULL ROWS WITH TIES",
            "SELECT x FROM (SELECT k FROM t ORDER BY k FETCH FIRST NULL ROWS WITH TIES) s(x) LIMIT ALL",
            "DECLARE c CURSOR FOR (SELECT k FROM t ORDER BY k FETCH FIRST NULL ROWS WITH TIES) UNION SELECT 1",
        ] {
            let written = crate::deparse(&crate::parse(sql, true).unwrap()[0]).unwrap();
            assert!(written.contains("FETCH FIRST NULL ROWS WITH TIES"), "{written}");
            crate::parse(&written, true).unwrap();
        }
    }
}

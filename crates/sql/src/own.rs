//! Texts that PostgreSQL has written where its search path held pg_catalog alone, as definitions of views and defaults are
//! read by the catalog: what they leave unqualified is PostgreSQL's own. Put into a statement of somebody's, whose path may lead to others'
//! functions, operators and types of the same names, it says so.

use pg_query::NodeEnum;
use pg_query::protobuf::{self as ast, AExprKind, Node};

use crate::walk::{self, VisitMut};
use crate::{build, names, search};

/// Qualifies what a statement of PostgreSQL's names without a schema: functions, operators, types of casts.
pub fn qualify(statement: &mut NodeEnum) {
    match statement {
        NodeEnum::SelectStmt(_) => walk::below_mut(statement, &mut Qualify),
        _ => {
            Qualify.node(statement);
            walk::below_mut(statement, &mut Qualify);
        }
    }
}

/// The same of an expression.
pub fn qualify_expression(expression: &mut Node) {
    walk::walk_mut(expression, &mut Qualify);
}

/// It compares by an `=` that PostgreSQL's text does not show, which a search path therefore decides on.
pub fn hides_equality(tree: &impl search::Tree) -> bool {
    search::any(tree, |n| match n {
        NodeEnum::AExpr(e) => matches!(
            AExprKind::try_from(e.kind),
            Ok(AExprKind::AexprNullif | AExprKind::AexprDistinct | AExprKind::AexprNotDistinct)
        ),
        NodeEnum::CaseExpr(c) => c.arg.is_some(),
        NodeEnum::JoinExpr(j) => j.is_natural || !j.using_clause.is_empty(),
        _ => false,
    })
}

struct Qualify;

impl VisitMut for Qualify {
    fn node(&mut self, n: &mut NodeEnum) -> bool {
        match n {
            // Of several arrays it is syntax, by its bare name alone.
            NodeEnum::FuncCall(f) if f.args.len() > 1 && names::strings(&f.funcname) == ["unnest"] => {}
            NodeEnum::FuncCall(f) => own(&mut f.funcname),
            NodeEnum::AExpr(e) if has_operator(e) => own(&mut e.name),
            // IN has no operator in the tree: PostgreSQL writes it where `= ANY` is meant, by an `=` of its own.
            NodeEnum::SubLink(s)
                if s.sub_link_type == ast::SubLinkType::AnySublink as i32 && s.oper_name.is_empty() =>
            {
                s.oper_name = build::own_name("=");
            }
            NodeEnum::SubLink(s) => own(&mut s.oper_name),
            NodeEnum::SortBy(s) => own(&mut s.use_op),
            NodeEnum::TypeCast(t) => t.type_name.iter_mut().for_each(|t| own(&mut t.names)),
            NodeEnum::ColumnDef(c) => c.type_name.iter_mut().for_each(|t| own(&mut t.names)),
            _ => {}
        }
        true
    }
}

/// Of the others, none is in what PostgreSQL writes but those whose operator can't be written.
fn has_operator(e: &ast::AExpr) -> bool {
    matches!(AExprKind::try_from(e.kind), Ok(AExprKind::AexprOp | AExprKind::AexprOpAny | AExprKind::AexprOpAll))
}

fn own(name: &mut Vec<Node>) {
    if name.len() == 1 {
        name.insert(0, build::string("pg_catalog"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn qualified(sql: &str) -> String {
        let mut tree = crate::parse(sql, true).unwrap().remove(0);
        qualify(&mut tree);
        let text = crate::deparse(&tree).unwrap();
        // Operators with a schema all bind alike: the text must still say what the tree does.
        let bare = |tree: &NodeEnum| {
            let mut shown = format!("{tree:?}");
            for place in ["location: ", "list_start: ", "list_end: "] {
                let parts = shown.split(place);
                shown = parts.map(|p| p.trim_start_matches(|c: char| c == '-' || c.is_ascii_digit())).collect();
            }
            shown
        };
        assert_eq!(bare(&crate::parse(&text, true).unwrap().remove(0)), bare(&tree), "{text}");
        text
    }

    #[test]
    fn nothing_is_looked_up_along_a_path() {
        let same = |sql: &str, wanted: &str| assert_eq!(qualified(sql), wanted);
        same(
            "SELECT count(*) FROM t WHERE (a)::text = ANY (ARRAY['x'::text])",
            "SELECT pg_catalog.count(*) FROM t WHERE a::pg_catalog.text OPERATOR(pg_catalog.=) ANY(ARRAY['x'::pg_catalog.text])",
        );
        same("SELECT s.f(a), - a FROM t", "SELECT s.f(a), OPERATOR(pg_catalog.-) a FROM t");
        same(
            "SELECT a FROM t WHERE a IN (SELECT b FROM u) AND a OPERATOR(s.=) 1",
            "SELECT a FROM t WHERE a OPERATOR(pg_catalog.=) ANY (SELECT b FROM u) AND a OPERATOR(s.=) 1",
        );
        same("SELECT a FROM t ORDER BY a USING ~<~", "SELECT a FROM t ORDER BY a USING OPERATOR(pg_catalog.~<~)");
    }

    #[test]
    fn what_binds_to_what_is_kept() {
        for sql in [
            "SELECT a + b * c, (a + b) * c, a - (b - c), a - b - c, - (a + b), (- a) ^ b, - a::int",
            "SELECT (a = b) = c, a = (b = c), NOT (a = b), (a + b) IS NULL, (a = b) IS NOT TRUE, a || b || c, (a || b) COLLATE \"C\"",
            "SELECT (a || b)[1], (a + b)::text, (a -> 'x') ->> 'y', a @> (b || c), (a + b) IN (SELECT 1), (a, b) IN (SELECT 1, 2)",
            "SELECT CASE WHEN a = b THEN a + 1 ELSE -1 END + 2, COALESCE(a + b, c) * 2, (a + b) IS DISTINCT FROM (c * d)",
            "SELECT (a + b) AT TIME ZONE 'UTC', (a < b) AND (b < c) OR NOT (c = d), ROW(a, b) < ROW(c, d), (a + b) = ANY (c || d)",
            "SELECT a ~~ (b || '%'), (a !~~ b) = c, -1 - -2, (a + 1) - (-1), (- 1) * a, NULLIF(a + b, 0) + 1, (a % 2) = 0 AND (a / 2) <> 1",
            "SELECT sum(a + b) OVER (PARTITION BY a % 2 ORDER BY a - b) + 1 FROM t GROUP BY (a + b) HAVING (sum(a) > 1) LIMIT (1 + 2)",
        ] {
            qualified(sql);
        }
    }

    #[test]
    fn equality_is_hidden_where_none_is_written() {
        let hides = |sql: &str| hides_equality(&crate::parse(sql, true).unwrap().remove(0));
        for sql in [
            "SELECT NULLIF(a, 1) FROM t",
            "SELECT a FROM t WHERE a IS NOT DISTINCT FROM b",
            "SELECT CASE a WHEN 1 THEN 2 END FROM t",
            "SELECT a FROM t JOIN u USING (a)",
            "SELECT a FROM t NATURAL JOIN u",
        ] {
            assert!(hides(sql), "{sql}");
        }
        assert!(!hides("SELECT CASE WHEN a = 1 THEN 2 END FROM t JOIN u ON t.a = u.a WHERE a IS NULL"));
    }
}

//! The definition of a view that only home has, over what home has a part of: its query, and beside it a function that lets nobody
//! read (or write) the view by its name. PostgreSQL knows by it what the view depends on; statements get the query in the view's place.
//!
//! It does not know what the query reads.

use pg_query::NodeEnum;
use pg_query::protobuf as ast;

use crate::names;

/// The function that lets none read; `true`: of what home has all of, which can be read there and is written through routers.
const READ: (&str, &str) = ("herd", "read_whole");

/// The definition for `query`; `whole`: home has all that it reads.
pub fn definition(query: &str, whole: bool) -> String {
    format!("SELECT * FROM ({query}) AS query WHERE {}.{}({whole})", READ.0, READ.1)
}

/// The text of a definition may be of such a view; no other's is by far.
pub fn may_be(definition: &str) -> bool {
    definition.contains("herd.read_whole(false)")
}

/// The query that such a definition is of, and whether home has all that it reads; `None`: it is no such definition.
pub fn query(definition: &NodeEnum) -> Option<(&ast::SelectStmt, bool)> {
    let NodeEnum::SelectStmt(around) = definition else { return None };
    let [ast::Node { node: Some(NodeEnum::RangeSubselect(sub)) }] = &around.from_clause[..] else { return None };
    let Some(NodeEnum::FuncCall(call)) = around.where_clause.as_deref().and_then(|n| n.node.as_ref()) else {
        return None;
    };
    let [ast::Node { node: Some(NodeEnum::AConst(whole)) }] = &call.args[..] else { return None };
    let Some(ast::a_const::Val::Boolval(whole)) = &whole.val else { return None };
    if names::qualified(&call.funcname) != (Some(READ.0), READ.1) {
        return None;
    }
    let NodeEnum::SelectStmt(query) = sub.subquery.as_deref()?.node.as_ref()? else { return None };
    let renamed = sub.alias.as_ref().map(|a| names::strings(&a.colnames)).unwrap_or_default();
    shows_all(&around.target_list, query, &renamed).then_some((query, whole.boolval))
}

/// The columns are those of the query, in its order: somebody else may have written such a definition.
fn shows_all(targets: &[ast::Node], query: &ast::SelectStmt, renamed: &[&str]) -> bool {
    let mut first = query;
    while let Some(left) = first.larg.as_deref() {
        first = left;
    }
    let own = |at: usize| -> Option<String> {
        match renamed.get(at) {
            Some(name) => Some((*name).to_string()),
            None if !first.values_lists.is_empty() => Some(format!("column{}", at + 1)),
            None => column_name(first.target_list.get(at)?),
        }
    };
    let shown = |target: &ast::Node| -> Option<String> {
        let Some(NodeEnum::ResTarget(t)) = &target.node else { return None };
        let Some(NodeEnum::ColumnRef(c)) = t.val.as_deref()?.node.as_ref() else { return None };
        (!names::has_star(c)).then(|| names::last(&c.fields).to_string())
    };
    let is_star = |n: &NodeEnum| matches!(n, NodeEnum::ColumnRef(c) if names::has_star(c));
    match targets {
        [ast::Node { node: Some(NodeEnum::ResTarget(t)) }]
            if t.val.as_deref().and_then(|v| v.node.as_ref()).is_some_and(is_star) =>
        {
            true
        }
        _ => {
            let all = if first.values_lists.is_empty() { first.target_list.len() == targets.len() } else { true };
            all && targets.iter().enumerate().all(|(at, t)| shown(t).is_some() && shown(t) == own(at))
        }
    }
}

/// What a column of a select list is called.
pub fn column_name(target: &ast::Node) -> Option<String> {
    let Some(NodeEnum::ResTarget(t)) = &target.node else { return None };
    if !t.name.is_empty() {
        return Some(t.name.clone());
    }
    t.val.as_deref().map(names::figure_column)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{deparse, parse};

    fn found(definition: &str) -> Option<(String, bool)> {
        let tree = parse(definition, true).unwrap().remove(0);
        query(&tree).map(|(q, whole)| (deparse(&NodeEnum::SelectStmt(Box::new(q.clone()))).unwrap(), whole))
    }

    #[test]
    fn the_query_comes_back() {
        for query in
            ["SELECT a, b AS \"B\" FROM t WHERE c > 1", "WITH x AS (SELECT 1) SELECT * FROM x ORDER BY 1 LIMIT 3"]
        {
            for whole in [false, true] {
                assert_eq!(found(&definition(query, whole)), Some((query.to_string(), whole)));
            }
        }
    }

    #[test]
    fn as_postgresql_prints_it() {
        let printed =
            " SELECT a\n   FROM ( SELECT t.a\n           FROM public.t) query\n  WHERE herd.read_whole(false);";
        assert_eq!(found(printed), Some(("SELECT t.a FROM public.t".into(), false)));
        let twice = "SELECT query.a, query.a_1 AS b FROM (SELECT t.a, t.a FROM public.t) query(a, a_1) WHERE herd.read_whole(true)";
        assert_eq!(found(twice), Some(("SELECT t.a, t.a FROM public.t".into(), true)));
    }

    #[test]
    fn others_are_not_taken_for_one() {
        for other in [
            "SELECT 1",
            "SELECT * FROM (SELECT a FROM t) query WHERE true",
            "SELECT * FROM t WHERE herd.read_whole(false)",
            "SELECT query.b, query.a FROM (SELECT t.a, t.b FROM t) query WHERE herd.read_whole(false)",
            "SELECT query.a FROM (SELECT t.a, t.b FROM t) query WHERE herd.read_whole(false)",
            "SELECT query.a + 1 AS a FROM (SELECT t.a FROM t) query WHERE herd.read_whole(false)",
        ] {
            assert_eq!(found(other), None, "{other}");
        }
    }
}

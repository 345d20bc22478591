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
    match sub.subquery.as_deref().and_then(|q| q.node.as_ref()) {
        Some(NodeEnum::SelectStmt(query)) => Some((query, whole.boolval)),
        _ => None,
    }
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
    }

    #[test]
    fn others_are_not_taken_for_one() {
        for other in [
            "SELECT 1",
            "SELECT * FROM (SELECT a FROM t) query WHERE true",
            "SELECT * FROM t WHERE herd.read_whole(false)",
        ] {
            assert_eq!(found(other), None, "{other}");
        }
    }
}

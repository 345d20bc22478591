//! The definition of a materialized view whose rows come through a router: what fills it, beside the query that says what they
//! are. That is part of the definition, so that PostgreSQL knows what the view depends on and what became of its names; it is never run.
//!
//! It does not know what the query reads.

use pg_query::NodeEnum;
use pg_query::protobuf as ast;

use crate::names;

/// The function that gives the rows.
const ROWS: (&str, &str) = ("herd", "materialized");

/// A column of the view, as SQL has its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    pub type_name: String,
    /// Where it is another than the type's own.
    pub collation: Option<String>,
}

/// The definition of a view of these columns for `query`.
pub fn definition(columns: &[Column], query: &str) -> String {
    let columns = columns.iter().map(|c| match &c.collation {
        Some(collation) => format!("{} {} COLLATE {collation}", c.name, c.type_name),
        None => format!("{} {}", c.name, c.type_name),
    });
    let columns = columns.collect::<Vec<_>>().join(", ");
    let (schema, function) = ROWS;
    format!(
        "SELECT * FROM {schema}.{function}() AS rows ({columns}) UNION ALL SELECT * FROM ({query}) AS query WHERE false"
    )
}

/// The query that such a definition is of; `None`: it is no such definition.
pub fn query(definition: &NodeEnum) -> Option<&ast::SelectStmt> {
    let NodeEnum::SelectStmt(both) = definition else { return None };
    let is_union = both.op == ast::SetOperation::SetopUnion as i32 && both.all;
    let (rows, query) = both.larg.as_deref().zip(both.rarg.as_deref()).filter(|_| is_union)?;
    let Some(NodeEnum::RangeFunction(function)) = single(&rows.from_clause) else { return None };
    let Some(NodeEnum::List(call)) = single(&function.functions) else { return None };
    let Some(NodeEnum::FuncCall(call)) = call.items.first().and_then(|n| n.node.as_ref()) else { return None };
    if names::qualified(&call.funcname) != (Some(ROWS.0), ROWS.1) || !is_false(query.where_clause.as_deref()) {
        return None;
    }
    let Some(NodeEnum::RangeSubselect(sub)) = single(&query.from_clause) else { return None };
    match sub.subquery.as_deref().and_then(|q| q.node.as_ref()) {
        Some(NodeEnum::SelectStmt(query)) => Some(query),
        _ => None,
    }
}

fn single(nodes: &[ast::Node]) -> Option<&NodeEnum> {
    match nodes {
        [node] => node.node.as_ref(),
        _ => None,
    }
}

fn is_false(condition: Option<&ast::Node>) -> bool {
    use ast::a_const::Val;
    let Some(NodeEnum::AConst(c)) = condition.and_then(|n| n.node.as_ref()) else { return false };
    matches!(&c.val, Some(Val::Boolval(b)) if !b.boolval)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{deparse, parse};

    fn found(definition: &str) -> Option<String> {
        let tree = parse(definition, true).unwrap().remove(0);
        query(&tree).map(|q| deparse(&NodeEnum::SelectStmt(Box::new(q.clone()))).unwrap())
    }

    #[test]
    fn the_query_comes_back() {
        let column = |name: &str, collation: Option<&str>| Column {
            name: name.into(),
            type_name: "text".into(),
            collation: collation.map(str::to_owned),
        };
        let columns = [column("a", None), column("\"B\"", Some("pg_catalog.\"C\""))];
        for query in
            ["SELECT a, b AS \"B\" FROM t WHERE c > 1", "WITH x AS (SELECT 1) SELECT * FROM x ORDER BY 1 LIMIT 3"]
        {
            assert_eq!(found(&definition(&columns, query)).as_deref(), Some(query));
        }
    }

    #[test]
    fn as_postgresql_prints_it() {
        let printed = " SELECT rows.a\n   FROM herd.materialized() rows(a integer)\nUNION ALL\n SELECT query.a\n   FROM ( SELECT t.a\n           FROM public.t) query\n  WHERE false;";
        assert_eq!(found(printed).as_deref(), Some("SELECT t.a FROM public.t"));
    }

    #[test]
    fn others_are_not_taken_for_one() {
        for other in [
            "SELECT 1",
            "SELECT a FROM t UNION ALL SELECT a FROM (SELECT 1) q WHERE false",
            "SELECT * FROM herd.materialized() AS r (a int) UNION ALL SELECT * FROM (SELECT a FROM t) q WHERE true",
            "SELECT * FROM herd.materialized() AS r (a int) UNION ALL SELECT * FROM (SELECT a FROM t) q",
            "SELECT * FROM herd.materialized() AS r (a int) UNION SELECT * FROM (SELECT a FROM t) q WHERE false",
            "SELECT * FROM herd.materialized() AS r (a int), t UNION ALL SELECT * FROM (SELECT a FROM t) q WHERE false",
            "SELECT * FROM public.materialized() AS r (a int) UNION ALL SELECT * FROM (SELECT a FROM t) q WHERE false",
        ] {
            assert_eq!(found(other), None, "{other}");
        }
    }
}

//! Looks through a syntax tree for what passes a test: for questions that need no scopes and nothing of what was passed on the
//! way down. It does not know what a node means.

use pg_query::NodeEnum;
use pg_query::protobuf::{Node, RangeVar, SelectStmt, TypeName};

use crate::walk::{self, Visit, VisitMut};

/// A place from which one can look down: a statement (what is below it), a node or a SELECT (themselves included).
pub trait Tree {
    fn look<'a>(&'a self, v: &mut dyn Visit<'a>);
}

impl Tree for NodeEnum {
    fn look<'a>(&'a self, v: &mut dyn Visit<'a>) {
        walk::below(self, v)
    }
}

impl Tree for Node {
    fn look<'a>(&'a self, v: &mut dyn Visit<'a>) {
        walk::walk(self, v)
    }
}

impl Tree for SelectStmt {
    fn look<'a>(&'a self, v: &mut dyn Visit<'a>) {
        walk::select_stmt(self, v)
    }
}

/// Shows a statement to a visitor from its beginning: where it is a SELECT, that is one that the visitor sees, too.
pub fn visit<'a>(statement: &'a NodeEnum, v: &mut dyn Visit<'a>) {
    match statement {
        NodeEnum::SelectStmt(select) => walk::select_stmt(select, v),
        _ => walk::below(statement, v),
    }
}

/// Whether any node passes the test. Relations and SELECTs are no nodes here: see `each_relation`.
pub fn any<'a>(tree: &'a impl Tree, mut test: impl FnMut(&'a NodeEnum) -> bool) -> bool {
    find(tree, |n| test(n).then_some(())).is_some()
}

/// What `test` says of the first node of which it says anything; nothing behind that is looked at.
pub fn find<'a, T>(tree: &'a impl Tree, test: impl FnMut(&'a NodeEnum) -> Option<T>) -> Option<T> {
    struct Find<F, T> {
        test: F,
        found: Option<T>,
    }
    impl<'a, T, F: FnMut(&'a NodeEnum) -> Option<T>> Visit<'a> for Find<F, T> {
        fn node(&mut self, n: &'a NodeEnum) -> bool {
            if self.found.is_none() {
                self.found = (self.test)(n);
            }
            self.found.is_none()
        }
        fn select(&mut self, _: &'a SelectStmt) -> bool {
            self.found.is_none()
        }
    }
    let mut find = Find { test, found: None };
    tree.look(&mut find);
    find.found
}

/// Shows every node to `f`.
pub fn each<'a>(tree: &'a impl Tree, mut f: impl FnMut(&'a NodeEnum)) {
    find(tree, |n| -> Option<()> {
        f(n);
        None
    });
}

/// Shows every relation that is named anywhere to `f`, a WITH query's name where it is read included.
pub fn each_relation<'a>(tree: &'a impl Tree, f: impl FnMut(&'a RangeVar)) {
    struct Each<F>(F);
    impl<'a, F: FnMut(&'a RangeVar)> Visit<'a> for Each<F> {
        fn range_var(&mut self, rv: &'a RangeVar) {
            (self.0)(rv)
        }
    }
    tree.look(&mut Each(f))
}

/// The types that values become by this very node, not by what is below it: of a cast, of columns that FROM gives a function, of JSON's
/// RETURNING … What only defines something converts nothing: its types are those that are written in `definitions`.
pub fn types_of(node: &NodeEnum, definitions: bool) -> Vec<&TypeName> {
    struct Types<'a>(Vec<&'a TypeName>);
    impl<'a> Visit<'a> for Types<'a> {
        fn node(&mut self, n: &'a NodeEnum) -> bool {
            matches!(n, NodeEnum::List(_) | NodeEnum::ColumnDef(_) | NodeEnum::AlterTableCmd(_))
        }
        fn type_name(&mut self, t: &'a TypeName) {
            self.0.push(t);
        }
        fn select(&mut self, _: &'a SelectStmt) -> bool {
            false
        }
    }
    let mut types = Types(vec![]);
    if defines(node).is_some_and(|defines| defines == definitions) {
        walk::below(node, &mut types);
    }
    types.0
}

/// Whether a node's types are those of something that is to be; `None`: they are another node's.
fn defines(node: &NodeEnum) -> Option<bool> {
    use NodeEnum::*;
    match node {
        ColumnDef(_) | List(_) | AlterTableCmd(_) | TypeName(_) | FunctionParameter(_) | CreateOpClassItem(_) => None,
        CreateStmt(_)
        | CreateForeignTableStmt(_)
        | AlterTableStmt(_)
        | CompositeTypeStmt(_)
        | CreateDomainStmt(_)
        | CreateFunctionStmt(_)
        | CreateCastStmt(_)
        | CreateTransformStmt(_)
        | DefineStmt(_) => Some(true),
        _ => Some(false),
    }
}

/// Has `f` change nodes on the way down. What it answers `false` for is not looked into.
pub fn each_mut(tree: &mut NodeEnum, f: impl FnMut(&mut NodeEnum) -> bool) {
    struct Each<F>(F);
    impl<F: FnMut(&mut NodeEnum) -> bool> VisitMut for Each<F> {
        fn node(&mut self, n: &mut NodeEnum) -> bool {
            (self.0)(n)
        }
    }
    walk::below_mut(tree, &mut Each(f))
}

/// Has `f` change each relation that is named below a statement.
pub fn each_relation_mut(tree: &mut NodeEnum, f: impl FnMut(&mut RangeVar)) {
    struct Each<F>(F);
    impl<F: FnMut(&mut RangeVar)> VisitMut for Each<F> {
        fn range_var(&mut self, rv: &mut RangeVar) {
            (self.0)(rv)
        }
    }
    walk::below_mut(tree, &mut Each(f))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(sql: &str) -> NodeEnum {
        crate::parse(sql, true).unwrap().remove(0)
    }

    #[test]
    fn looks_everywhere_and_stops_at_the_first() {
        let sql = tree("WITH w AS (SELECT $1 FROM a) SELECT $2 FROM w, b WHERE EXISTS (SELECT FROM c WHERE x = $3)");
        let mut seen = 0;
        let first = find(&sql, |n| {
            seen += 1;
            matches!(n, NodeEnum::ParamRef(_)).then_some(n)
        });
        assert!(first.is_some());
        let mut all = 0;
        each(&sql, |_| all += 1);
        assert!(seen < all, "{seen} of {all}");
        assert!(any(&sql, |n| matches!(n, NodeEnum::ParamRef(p) if p.number == 3)));
        assert!(!any(&sql, |n| matches!(n, NodeEnum::FuncCall(_))));
        let mut names = vec![];
        each_relation(&sql, |rv| names.push(rv.relname.as_str()));
        names.sort_unstable();
        assert_eq!(names, ["a", "b", "c", "w"]);
    }

    #[test]
    fn types_that_values_become_stand_in_many_nodes() {
        let types = |sql: &str| {
            let mut found = String::new();
            each(&tree(sql), |n| types_of(n, false).iter().for_each(|t| found += crate::names::last(&t.names)));
            found
        };
        assert_eq!(types("SELECT a::d FROM t"), "d");
        assert_eq!(types("SELECT * FROM f() AS x (a d[], b e)"), "de");
        assert_eq!(types("SELECT * FROM ROWS FROM (f() AS (a d), g() AS (b e)) AS x"), "de");
        assert_eq!(types("SELECT json_value('1', '$' RETURNING d)"), "d");
        assert_eq!(types("SELECT * FROM json_table('1', '$' COLUMNS (a d, NESTED '$' COLUMNS (b e)))"), "de");
        assert_eq!(types("SELECT * FROM xmltable('/a' PASSING x COLUMNS b d)"), "d");
        assert_eq!(types("CREATE TABLE t (a d DEFAULT '1'::e)"), "e");
        assert_eq!(types("DROP DOMAIN d"), "");
        assert_eq!(types("CREATE FUNCTION f(d) RETURNS e LANGUAGE sql AS ''"), "");
        let made = tree("CREATE TEMP TABLE t (a d DEFAULT '1'::e)");
        let made = types_of(&made, true).into_iter().map(|t| crate::names::last(&t.names));
        assert_eq!(made.collect::<String>(), "d");
    }

    #[test]
    fn changes_what_it_is_told_to() {
        let mut sql = tree("SELECT a FROM t WHERE a IN (SELECT a FROM t)");
        each_relation_mut(&mut sql, |rv| rv.relname = "u".into());
        each_mut(&mut sql, |n| {
            if let NodeEnum::SubLink(_) = n {
                return false;
            }
            if let NodeEnum::ColumnRef(c) = n {
                c.fields = vec![crate::build::string("b")];
            }
            true
        });
        // What is under the subquery's node stays, its relations do not.
        assert_eq!(crate::deparse(&sql).unwrap(), "SELECT b FROM u WHERE a IN (SELECT a FROM u)");
    }
}

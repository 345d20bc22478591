//! What a value depends on besides itself: the clock, a sequence, parameters. Judged by the tree alone; what a function
//! of another name does is not its business.

use catalog::Column;
use sql::ast::{self, Node};
use sql::{NodeEnum, names};

use crate::rewrite;

pub fn parse_expression(text: &str) -> Option<Node> {
    let NodeEnum::SelectStmt(s) = sql::parse(&format!("SELECT {text}"), true).ok()?.pop()? else { return None };
    rewrite::target_value(s.target_list.first()?).cloned()
}

pub fn reads_clock(column: &Column) -> bool {
    column.default.as_deref().and_then(parse_expression).is_some_and(|n| reads_now(&n))
}

pub fn reads_now(node: &Node) -> bool {
    let mut copy = NodeEnum::List(ast::List { items: vec![node.clone()] });
    rewrite::replace_now(&mut copy)
}

pub fn calls_sequence(node: &Node) -> bool {
    struct Find(bool);
    impl<'a> sql::walk::Visit<'a> for Find {
        fn node(&mut self, n: &'a NodeEnum) -> bool {
            if let NodeEnum::FuncCall(f) = n {
                self.0 |= matches!(names::last(&f.funcname), "nextval" | "currval" | "lastval");
            }
            true
        }
    }
    let mut f = Find(false);
    sql::walk::walk(node, &mut f);
    f.0
}

/// A string that may stand for a moment each node would read for itself: 'now', 'tomorrow'.
pub fn names_clock(statement: &NodeEnum) -> bool {
    struct Find(bool);
    impl<'a> sql::walk::Visit<'a> for Find {
        fn node(&mut self, n: &'a NodeEnum) -> bool {
            if let NodeEnum::AConst(c) = n
                && let Some(ast::a_const::Val::Sval(s)) = &c.val
            {
                let text = s.sval.to_ascii_lowercase();
                self.0 |= ["now", "today", "tomorrow", "yesterday"].iter().any(|word| text.contains(word));
            }
            true
        }
    }
    let mut f = Find(false);
    sql::walk::below(statement, &mut f);
    f.0
}

pub fn has_param(node: &Node) -> bool {
    struct Find(bool);
    impl<'a> sql::walk::Visit<'a> for Find {
        fn node(&mut self, n: &'a NodeEnum) -> bool {
            self.0 |= matches!(n, NodeEnum::ParamRef(_));
            true
        }
    }
    let mut f = Find(false);
    sql::walk::walk(node, &mut f);
    f.0
}

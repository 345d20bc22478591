//! What a value depends on besides itself: the clock, a sequence, parameters. Judged by the tree alone; what a function
//! of another name does is not its business.

use catalog::Column;
use sql::ast::{self, Node};
use sql::walk::{self, Visit};
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
    let mut find = Find::new(
        |n| matches!(n, NodeEnum::FuncCall(f) if matches!(names::last(&f.funcname), "nextval" | "currval" | "lastval")),
    );
    walk::walk(node, &mut find);
    find.found
}

/// A string that may stand for a moment each node would read for itself: 'now', 'tomorrow'.
pub fn names_clock(statement: &NodeEnum) -> bool {
    let mut find = Find::new(|n| {
        let NodeEnum::AConst(ast::AConst { val: Some(ast::a_const::Val::Sval(s)), .. }) = n else { return false };
        let text = s.sval.to_ascii_lowercase();
        ["now", "today", "tomorrow", "yesterday"].iter().any(|word| text.contains(word))
    });
    walk::below(statement, &mut find);
    find.found
}

/// Whether any node passes a test.
struct Find<F> {
    test: F,
    found: bool,
}

impl<F: Fn(&NodeEnum) -> bool> Find<F> {
    fn new(test: F) -> Self {
        Find { test, found: false }
    }
}

impl<'a, F: Fn(&NodeEnum) -> bool> Visit<'a> for Find<F> {
    fn node(&mut self, n: &'a NodeEnum) -> bool {
        self.found |= (self.test)(n);
        true
    }
}

//! What a value depends on besides itself: the clock, a sequence, parameters. Judged by the tree alone; what a function
//! of another name does is not its business.

use catalog::Column;
use sql::ast::{self, Node};
use sql::{NodeEnum, names, search};

use crate::rewrite;
use wire::type_oid;

pub fn parse_expression(text: &str) -> Option<Node> {
    let NodeEnum::SelectStmt(s) = sql::parse(&format!("SELECT {text}"), true).ok()?.pop()? else { return None };
    rewrite::target_value(s.target_list.first()?).cloned()
}

pub fn reads_clock(column: &Column) -> bool {
    column.default.as_deref().and_then(parse_expression).is_some_and(|n| rewrite::reads_now(&n))
}

pub fn calls_sequence(node: &Node) -> bool {
    search::any(
        node,
        |n| matches!(n, NodeEnum::FuncCall(f) if matches!(names::last(&f.funcname), "nextval" | "currval" | "lastval")),
    )
}

/// A string that may stand for a moment each node would read for itself: 'now', 'tomorrow'.
pub fn names_clock(statement: &NodeEnum) -> bool {
    search::any(statement, |n| {
        let NodeEnum::AConst(ast::AConst { val: Some(ast::a_const::Val::Sval(s)), .. }) = n else { return false };
        let text = s.sval.to_ascii_lowercase();
        let is_moment = |word: &str| matches!(word, "now" | "today" | "tomorrow" | "yesterday");
        let named = text.split(|c: char| !c.is_ascii_alphabetic()).any(is_moment);
        // Beside it a moment has a time, AM or PM, a zone: a sentence is none. Of arrays, ranges and rows nothing is known.
        let words =
            text.split_ascii_whitespace().filter(|w| !is_moment(w) && !w.contains(|c: char| c.is_ascii_digit()));
        named && (text.contains(['{', '[', '(']) || words.count() <= 2)
    })
}

/// Columns in which such a string is a moment; of types that may hold others, nothing is known.
pub fn holds_moments(column: &Column) -> bool {
    // bool, bytea, int8, int2, int4, text, json, float4, float8, char(n), varchar, numeric, uuid, jsonb (pg_type.dat)
    const NEVER: [u32; 14] = [
        type_oid::BOOL,
        type_oid::BYTEA,
        type_oid::INT8,
        type_oid::INT2,
        type_oid::INT4,
        type_oid::TEXT,
        type_oid::JSON,
        type_oid::FLOAT4,
        type_oid::FLOAT8,
        type_oid::BPCHAR,
        type_oid::VARCHAR,
        type_oid::NUMERIC,
        type_oid::UUID,
        type_oid::JSONB,
    ];
    !NEVER.contains(&column.type_oid)
}

//! Text that becomes a date or a time where it is read: 'now', 'today' and their like are another moment on each node.
//!
//! PostgreSQL reads a literal when it reads the statement, a parameter when it is bound, other text when a cast comes to it;
//! each is a conversion it calls stable. So text counts as reading the clock unless it is a literal without such a word. What
//! follows from it is not known here: where rows are written on several nodes, it is computed on one.

use std::collections::BTreeSet;

use catalog::{Column, Snapshot};
use sql::ast::{self, Node};
use sql::moments::{WORDS, mentions};
use sql::walk::Visit;
use sql::{NodeEnum, names, search};
use wire::type_oid::{self, Oid};

use crate::Context;
use crate::order::possible::{self, Possible};
use crate::reads::parse_expression;

/// datetime.c (`datetktbl`): what may stand any number of times beside a moment, or is none.
const NOISE: [&str; 13] = ["ad", "am", "at", "bc", "dst", "h", "m", "on", "pm", "s", "t", "y", "z"];
/// Functions that make rows of what JSON holds as text.
const OF_JSON: [&str; 4] =
    ["json_populate_record", "json_populate_recordset", "jsonb_populate_record", "jsonb_populate_recordset"];

/// What in a statement reads the clock of the node it runs on, in the user's words.
pub fn read(statement: &NodeEnum, cx: &Context) -> Option<String> {
    named(statement, cx).then(said).or_else(|| made(statement, cx))
}

/// How a refusal names such a text.
pub fn said() -> String {
    "a string that may stand for a moment ('now', 'today' …)".into()
}

/// As [`read`], of a column's default as the catalog prints it: its literals have been read, but what they are cast to
/// afterwards has not.
pub fn read_by_default(snapshot: &Snapshot, default: &str) -> bool {
    let cx = Context::new(snapshot, &[], &[]);
    let tree = parse_expression(default).and_then(|n| n.node);
    tree.is_some_and(|tree| made(&NodeEnum::List(ast::List { items: vec![Node { node: Some(tree) }] }), &cx).is_some())
}

/// A default names a moment that each node would read when it is told of the default. `holds`: the column's type may hold one.
pub fn is_read_at_once(default: &Node, holds: bool, cx: &Context) -> bool {
    let text = matches!(&default.node, Some(NodeEnum::AConst(_))) && !holds;
    !text && named(&NodeEnum::List(ast::List { items: vec![default.clone()] }), cx)
}

/// Only parameters can name a moment that the statement does not show.
pub fn has_parameters(statement: &NodeEnum) -> bool {
    search::any(statement, |n| matches!(n, NodeEnum::ParamRef(_)))
}

/// Parameters that are cast to such a type where they stand: read as that, whatever type they were declared to have.
pub fn parameters(statement: &NodeEnum, cx: &Context) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    search::each(statement, |n| {
        if let Some(NodeEnum::ParamRef(p)) = cast_to_moment(n, cx) {
            found.insert(p.number as usize);
        }
    });
    found
}

/// Values of the type may be moments; of types that may hold others, nothing is known.
pub fn may_hold(oid: Oid) -> bool {
    use type_oid::*;
    !is_number(oid)
        && !is_text(oid)
        && !matches!(
            oid,
            BOOL | BYTEA | CHAR | NAME | OID | BPCHAR | JSON | JSONB | UUID | INTERVAL | INET | CIDR | MACADDR | MONEY
        )
}

/// The text may be read as a moment: as such, or inside of an array, a range or a row. A sentence is none: beside a moment
/// stands a zone at most, and what is noise.
pub fn may_name(text: &str) -> bool {
    // Most texts end here.
    if !mentions(text) {
        return false;
    }
    let is = |list: &[&str], word: &str| list.iter().any(|w| w.eq_ignore_ascii_case(word));
    let parts = |text: &str| text.split(|c: char| !c.is_ascii_alphabetic()).any(|p| is(&WORDS, p));
    let strange = |word: &&str| {
        let mut parts = word.split(|c: char| !c.is_ascii_alphabetic());
        parts.any(|p| !p.is_empty() && !is(&WORDS, p) && !is(&NOISE, p))
    };
    parts(text) && (text.contains(['{', '[', '(']) || text.split_ascii_whitespace().filter(strange).count() <= 2)
}

/// A literal names a moment, other than one that goes into a column where it is a text or a number as it stands.
fn named(statement: &NodeEnum, cx: &Context) -> bool {
    let mut plain = BTreeSet::new();
    assigned(statement, cx, &mut plain);
    // What is cast further is seen as that.
    search::each(statement, |n| {
        if let NodeEnum::TypeCast(t) = n
            && let Some(NodeEnum::AConst(c)) = t.arg.as_deref().and_then(|a| a.node.as_ref())
            && t.type_name.as_ref().is_some_and(|t| !type_may_hold(t, cx))
        {
            plain.insert(std::ptr::from_ref(c));
        }
    });
    search::any(statement, |n| {
        let NodeEnum::AConst(c) = n else { return false };
        let Some(ast::a_const::Val::Sval(s)) = &c.val else { return false };
        may_name(&s.sval) && !plain.contains(&std::ptr::from_ref(c))
    })
}

/// The literals of VALUES and SET whose columns can't hold a moment.
fn assigned(statement: &NodeEnum, cx: &Context, plain: &mut BTreeSet<*const ast::AConst>) {
    let mut literal = |column: Option<&Column>, value: Option<&Node>| {
        if let (Some(column), Some(NodeEnum::AConst(c))) = (column, value.and_then(|v| v.node.as_ref()))
            && !may_hold(column.type_oid)
        {
            plain.insert(std::ptr::from_ref(c));
        }
    };
    let rv = match statement {
        NodeEnum::InsertStmt(s) => s.relation.as_ref(),
        NodeEnum::UpdateStmt(s) => s.relation.as_ref(),
        _ => None,
    };
    let Some(relation) = rv.and_then(|rv| cx.relation(rv)) else { return };
    let column = |name: &str| relation.columns.iter().find(|c| c.name == name);
    let target = |n: &Node| match &n.node {
        Some(NodeEnum::ResTarget(t)) => column(&t.name),
        _ => None,
    };
    let set: &[Node] = match statement {
        NodeEnum::UpdateStmt(u) => &u.target_list,
        NodeEnum::InsertStmt(i) => i.on_conflict_clause.as_ref().map_or(&[], |c| &c.target_list),
        _ => &[],
    };
    for n in set {
        if let Some(NodeEnum::ResTarget(t)) = &n.node {
            literal(column(&t.name), t.val.as_deref());
        }
    }
    let NodeEnum::InsertStmt(insert) = statement else { return };
    let Some(NodeEnum::SelectStmt(s)) = insert.select_stmt.as_deref().and_then(|s| s.node.as_ref()) else { return };
    for row in &s.values_lists {
        let Some(NodeEnum::List(row)) = &row.node else { continue };
        for (i, value) in row.items.iter().enumerate() {
            let column = match insert.cols.get(i) {
                Some(n) => target(n),
                None => relation.columns.get(i).filter(|_| insert.cols.is_empty()),
            };
            literal(column, Some(value));
        }
    }
}

/// What makes text that is no literal into a date or a time.
fn made(statement: &NodeEnum, cx: &Context) -> Option<String> {
    let possible = Possible::new(cx, statement);
    let mut find = Find { cx, possible, found: None };
    search::visit(statement, &mut find);
    find.found
}

struct Find<'f> {
    cx: &'f Context<'f>,
    possible: Possible<'f>,
    found: Option<String>,
}

impl<'a> Visit<'a> for Find<'_> {
    fn node(&mut self, n: &'a NodeEnum) -> bool {
        let typed = |t: &Option<ast::TypeName>| t.as_ref().is_some_and(|t| type_may_hold(t, self.cx));
        let found = match n {
            NodeEnum::JsonFuncExpr(f) => f.output.as_ref().is_some_and(|o| typed(&o.type_name)),
            NodeEnum::JsonTableColumn(c) => typed(&c.type_name),
            NodeEnum::RangeTableFuncCol(c) => typed(&c.type_name),
            NodeEnum::ColumnDef(c) => typed(&c.type_name),
            NodeEnum::FuncCall(f) if OF_JSON.contains(&names::last(&f.funcname)) => true,
            _ => match cast_to_moment(n, self.cx) {
                // Judged by itself, or at execution.
                None | Some(NodeEnum::AConst(_) | NodeEnum::ParamRef(_)) => false,
                Some(value) => self.may_be_text(value),
            },
        };
        if found {
            self.found.get_or_insert_with(|| "text that is made a date or a time".into());
        }
        self.found.is_none()
    }
}

impl Find<'_> {
    fn may_be_text(&self, value: &NodeEnum) -> bool {
        use type_oid::*;
        let known = |oid: Oid| {
            matches!(oid, 0 | UNKNOWN | DATE | TIMESTAMP | TIMESTAMPTZ | TIME | TIMETZ | INTERVAL | BOOL)
                || is_number(oid)
        };
        let kinds = self.possible.of(&Node { node: Some(value.clone()) });
        kinds.is_none_or(|kinds| kinds.iter().any(|(oid, _)| !known(*oid)))
    }
}

/// What a cast to a type that may hold moments is of.
fn cast_to_moment<'n>(n: &'n NodeEnum, cx: &Context) -> Option<&'n NodeEnum> {
    let value = match n {
        NodeEnum::TypeCast(t) if t.type_name.as_ref().is_some_and(|t| type_may_hold(t, cx)) => t.arg.as_deref(),
        // A type's name with brackets is a cast, too.
        NodeEnum::FuncCall(f) => match (names::last(&f.funcname), &f.args[..]) {
            ("date" | "time" | "timetz" | "timestamp" | "timestamptz", [value]) => Some(value),
            _ => None,
        },
        _ => None,
    };
    value?.node.as_ref()
}

/// Values of a type that is named may be moments.
pub fn type_may_hold(t: &ast::TypeName, cx: &Context) -> bool {
    let of = ast::TypeName { array_bounds: vec![], ..t.clone() };
    let Some(name) = names::plain_type(&of) else { return true };
    if let Some(oid) = possible::type_named(name) {
        return may_hold(oid);
    }
    let mut users = cx.snapshot.types.values().filter(|t| t.name == name).peekable();
    match users.peek() {
        None => !matches!(name, "bit" | "varbit" | "xml" | "tsvector" | "tsquery"),
        Some(_) => users.any(|t| match t.kind {
            b'e' => false,
            b'd' => may_hold(t.base),
            _ => true,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::may_name;

    #[test]
    fn moments_and_sentences() {
        for text in [
            "now",
            " NOW ",
            "today 12:00",
            "tomorrow 10:00 PM Europe/Berlin",
            "{now,2020-01-01}",
            "[today,)",
            "today on at on at 12:00 pm utc",
            "at,on utc,now at,at at,on",
        ] {
            assert!(may_name(text), "{text}");
        }
        for text in ["", "I know", "snow", "do it right now please", "nowhere", "2024-01-01"] {
            assert!(!may_name(text), "{text}");
        }
    }
}

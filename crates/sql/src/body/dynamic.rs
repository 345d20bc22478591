//! The text a dynamic statement runs, as far as it stands in the code: constants joined by `||`, and `format()` of a constant.
//!
//! A value takes the place of what is only known at run time where that can be nothing but a value (`%L`, `quote_literal`);
//! where it could be a name or any other part of a statement, nothing is known.

use pg_query::NodeEnum;
use pg_query::protobuf::{self as ast, Node, a_const::Val};

use crate::names;

/// Of `SELECT expression`: the statement that running the expression's value is, with values left out.
pub fn statement(select: &str) -> Option<String> {
    let NodeEnum::SelectStmt(s) = crate::parse(select, true).ok()?.pop()? else { return None };
    let NodeEnum::ResTarget(t) = s.target_list.first()?.node.as_ref()? else { return None };
    text(t.val.as_deref()?)
}

fn text(node: &Node) -> Option<String> {
    match node.node.as_ref()? {
        NodeEnum::AConst(ast::AConst { val: Some(Val::Sval(s)), .. }) => Some(s.sval.clone()),
        NodeEnum::AConst(ast::AConst { val: Some(Val::Ival(i)), .. }) => Some(i.ival.to_string()),
        NodeEnum::AExpr(e) if names::strings(&e.name) == ["||"] => {
            Some(text(e.lexpr.as_deref()?)? + &text(e.rexpr.as_deref()?)?)
        }
        NodeEnum::FuncCall(f) => match names::last(&f.funcname) {
            "quote_literal" | "quote_nullable" => Some("NULL".into()),
            "quote_ident" => text(f.args.first()?).map(|name| format!("\"{}\"", name.replace('"', "\"\""))),
            "format" => format(&text(f.args.first()?)?, f.args.get(1..)?),
            _ => None,
        },
        NodeEnum::TypeCast(t) => text(t.arg.as_deref()?),
        _ => None,
    }
}

/// `format()`'s text, with its arguments in order; positions and widths (`%1$s`, `%-10s`) are left alone.
fn format(template: &str, args: &[Node]) -> Option<String> {
    let mut out = String::with_capacity(template.len());
    let mut args = args.iter();
    let mut chars = template.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        match chars.next()? {
            '%' => out.push('%'),
            'L' => {
                args.next()?;
                out.push_str("NULL");
            }
            's' => out.push_str(&text(args.next()?)?),
            'I' => out += &format!("\"{}\"", text(args.next()?)?.replace('"', "\"\"")),
            _ => return None,
        }
    }
    Some(out)
}

//! The same SELECT for copies that have the first bytes of long texts in columns of their own ([`catalog::first_bytes`]): what these decide
//! is not read from the texts. It does not know which copies have them; stores do.
//!
//! - `text LIKE 'x%'` is a range of them, whatever the collation, and so are the rows in which `text = 'x'` can be.
//! - `ORDER BY text LIMIT n`, where the collation is bytes: the first n by their first bytes have at most some number, and the first n by the text
//!   are among the rows that have no greater one. So few texts are read: those of some n rows.
//!
//! Conditions are replaced only where false is as good as neither true nor false, as a NULL's number is a number. It is the last of all numbers, as NULLs
//! are in PostgreSQL's own orders.

use catalog::first_bytes;

use super::expression::{Bound, Column, Expr, Kind};
use super::from::From;
use super::scope::Reader;
use super::select::Select;
use super::types::Ty;

/// `None`: nothing of it would be read by them.
pub fn select(select: &Select, from: &[From], r: &Reader) -> Option<Select> {
    let mut by = select.clone();
    let condition = select.condition.as_ref().map(|condition| replaced(condition, r));
    let replaces = condition != select.condition;
    by.condition = condition;
    let bound = bound(&by, from, r);
    if !replaces && bound.is_none() {
        return None;
    }
    if let Some(bound) = bound {
        let bound = Expr::condition(Kind::Bound(Box::new(bound)));
        by.condition = Some(match by.condition {
            Some(condition) => both(vec![bound, condition]),
            None => bound,
        });
    }
    Some(by)
}

fn both(conditions: Vec<Expr>) -> Expr {
    Expr::condition(Kind::Infix("AND", conditions))
}

/// A condition of rows to be kept.
fn replaced(e: &Expr, r: &Reader) -> Expr {
    let same = || e.clone();
    match &e.kind {
        Kind::Infix(word @ ("AND" | "OR"), all) => {
            Expr::condition(Kind::Infix(word, all.iter().map(|e| replaced(e, r)).collect()))
        }
        Kind::Infix("LIKE", sides) => match &sides[..] {
            [text, Expr { kind: Kind::Constant(pattern), .. }] => match number_of(text, r) {
                Some(number) => like(number, pattern, e),
                None => same(),
            },
            _ => same(),
        },
        Kind::Infix("=", sides) => match &sides[..] {
            [text, Expr { kind: Kind::Constant(value), .. }] | [Expr { kind: Kind::Constant(value), .. }, text] => {
                match number_of(text, r) {
                    Some(number) => both(vec![compared(number, "=", first_bytes::number(value.as_bytes())), same()]),
                    None => same(),
                }
            }
            _ => same(),
        },
        _ => same(),
    }
}

/// With what the pattern begins is a range; that is all, if nothing but `%` follows and it is short enough.
fn like(number: Column, pattern: &str, e: &Expr) -> Expr {
    let end = pattern.find(['%', '_']).unwrap_or(pattern.len());
    let (with, rest) = pattern.split_at(end);
    if with.is_empty() {
        return e.clone();
    }
    let (least, greatest) = first_bytes::beginning(with.as_bytes());
    let mut all = vec![compared(number.clone(), ">=", least), compared(number, "<=", greatest)];
    if rest != "%" || with.len() > first_bytes::BYTES {
        all.push(e.clone());
    }
    both(all)
}

fn compared(number: Column, word: &'static str, with: u64) -> Expr {
    let sides = vec![
        Expr { ty: Ty::Opaque, kind: Kind::Column(number) },
        Expr { ty: Ty::Opaque, kind: Kind::FirstBytes(with) },
    ];
    Expr::condition(Kind::Infix(word, sides))
}

/// The column of a text's first bytes.
fn number_of(text: &Expr, r: &Reader) -> Option<Column> {
    let Kind::Column(column) = &text.kind else { return None };
    let table = r.table(column.table);
    let relation = table.relation()?;
    let told = &relation.columns[relation.column(&column.name)?];
    let kept = first_bytes::are_kept(told.type_oid, told.typmod);
    kept.then(|| Column { name: first_bytes::column(&column.name), ..column.clone() })
}

/// What the first rows by a text have, of one table's rows as they are.
fn bound(select: &Select, from: &[From], r: &Reader) -> Option<Bound> {
    let ([From::Table { copy, .. }], Some((first, direction))) = (from, select.order.first()) else { return None };
    let descending = match *direction {
        "ASC NULLS LAST" => false,
        "DESC NULLS FIRST" => true,
        _ => return None,
    };
    let mut all =
        select.targets.iter().map(|(_, e)| e).chain(&select.condition).chain(select.order.iter().map(|(e, _)| e));
    // What fails must not be left out.
    if select.distinct || select.groups_rows() || all.any(|e| e.any(&mut |e| !is_plain(e))) {
        return None;
    }
    Some(Bound {
        copy: *copy,
        number: number_of(first, r)?,
        descending,
        condition: select.condition.clone(),
        limit: select.limit.clone()?,
    })
}

/// It can be computed of any row.
fn is_plain(e: &Expr) -> bool {
    match &e.kind {
        Kind::Column(_) | Kind::Constant(_) | Kind::Null | Kind::Param(..) | Kind::FirstBytes(_) | Kind::List(..) => {
            true
        }
        Kind::Infix(word, _) => {
            matches!(*word, "AND" | "OR" | "LIKE" | "NOT LIKE" | "=" | "<>" | "<" | "<=" | ">" | ">=")
        }
        Kind::Prefix(word, _) => *word == "NOT",
        Kind::Postfix(..) => true,
        _ => false,
    }
}

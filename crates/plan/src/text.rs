//! The text of a node's statement as a list of typed pieces.
//!
//! What is known only when a statement runs (its parameters, its one timestamp, values evaluated beforehand, rows of
//! other statements) has a place of its own in the text: the text is cut into pieces once, along its tokens, and pieces
//! are only put one behind the other afterwards. Nothing is ever searched in it, so data may contain anything.
//!
//! In a tree a place is a *mark*: an identifier longer than PostgreSQL's own can be. The parser cuts identifiers at 63
//! bytes, so no statement of a client, view or default has one.

use std::fmt;

use sql::ast::{self, Node};
use sql::lexer::{Lexer, TokenKind};
use sql::{NodeEnum, build, names};

use crate::Result;
use crate::refuse::Refusal;

/// NAMEDATALEN − 1: what the parser leaves of an identifier.
const IDENTIFIER_BYTES_MAX: usize = 63;

/// A piece of a text: SQL, or what is put in its place at execution.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Piece {
    Sql(String),
    /// The client's parameter, from 1.
    Param(usize),
    /// The statement's one timestamp, as a string literal.
    Now,
    /// The n-th value evaluated beforehand, as a literal (see [`crate::Evaluation`]).
    Evaluated(usize),
    /// What follows SELECT so that it gives the rows of child n, with columns `c0`, `c1`, …: a list, FROM and a source.
    Rows(usize),
    /// What stands in `ANY(…)` before the client's array parameter, in parentheses: `SELECT unnest` if it is long.
    Array(usize),
    /// The name of the type of a child's column.
    Type {
        child: usize,
        column: usize,
    },
}

/// A text for a node, in pieces; never searched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Text(Vec<Piece>);

impl Text {
    /// The text of a tree that may hold marks.
    pub fn of(tree: &NodeEnum) -> Result<Text> {
        Text::cut(&sql::deparse(tree)?, true)
    }

    /// A statement, or a part of one, as the client wrote it. Backslashes in its strings must be plain.
    pub fn written(sql: &str) -> Result<Text> {
        Text::cut(sql, false)
    }

    /// Part of a deparsed text: along tokens.
    pub(crate) fn cut(sql: &str, marks: bool) -> Result<Text> {
        let mut text = Text::default();
        let mut at = 0;
        for token in Lexer::new(sql, true) {
            let token = token.map_err(|_| Refusal::bare("internal: a statement's text could not be read"))?;
            let word = &sql[token.start..token.end];
            let piece = match token.kind {
                TokenKind::Param => word[1..].parse().ok().map(Piece::Param),
                TokenKind::Ident if marks => marked(word),
                _ => None,
            };
            if let Some(piece) = piece {
                text.push_sql(&sql[at..token.start]);
                text.0.push(piece);
                at = token.end;
            }
        }
        text.push_sql(&sql[at..]);
        Ok(text)
    }

    /// It names the statement's time.
    pub fn names_now(&self) -> bool {
        self.0.contains(&Piece::Now)
    }

    /// How often it names rows of other statements: two or more are joined, or the same is read twice.
    pub fn rows_named(&self) -> usize {
        self.0.iter().filter(|piece| matches!(piece, Piece::Rows(_))).count()
    }

    /// The client's parameters that it names.
    pub fn params(&self) -> impl Iterator<Item = usize> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Param(n) => Some(*n),
            _ => None,
        })
    }

    /// One behind the other.
    pub fn all(texts: impl IntoIterator<Item = Text>) -> Text {
        Text(texts.into_iter().flat_map(|t| t.0).collect())
    }

    fn push_sql(&mut self, sql: &str) {
        if !sql.is_empty() {
            self.0.push(Piece::Sql(sql.to_string()));
        }
    }

    /// In the order of the text.
    pub fn pieces(&self) -> &[Piece] {
        &self.0
    }

    /// Whether there is no piece at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is before and behind the only piece of its kind.
    pub fn split_at(&self, piece: &Piece) -> Option<(Text, Text)> {
        let at = self.0.iter().position(|p| p == piece)?;
        Some((Text(self.0[..at].to_vec()), Text(self.0[at + 1..].to_vec())))
    }
}

impl From<String> for Text {
    /// A text without parameters and marks.
    fn from(sql: String) -> Self {
        Text(vec![Piece::Sql(sql)])
    }
}

impl From<&String> for Text {
    fn from(sql: &String) -> Self {
        sql.clone().into()
    }
}

impl From<&str> for Text {
    fn from(sql: &str) -> Self {
        sql.to_string().into()
    }
}

impl From<Piece> for Text {
    fn from(piece: Piece) -> Self {
        Text(vec![piece])
    }
}

/// For people: EXPLAIN and tests. Not to be sent anywhere.
impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|piece| match piece {
            Piece::Sql(sql) => f.write_str(sql),
            Piece::Param(n) => write!(f, "${n}"),
            Piece::Now => f.write_str("{now}"),
            Piece::Evaluated(n) => write!(f, "{{value {n}}}"),
            Piece::Rows(n) => write!(f, "{{rows {n}}}"),
            Piece::Array(_) => Ok(()),
            Piece::Type { child, column } => write!(f, "{{type {child}.{column}}}"),
        })
    }
}

fn mark(name: &str) -> String {
    format!("herd_{name:_<width$}", width = IDENTIFIER_BYTES_MAX)
}

fn marked(word: &str) -> Option<Piece> {
    let name = word.strip_prefix("herd_").filter(|_| word.len() > IDENTIFIER_BYTES_MAX)?.trim_end_matches('_');
    let mut parts = name.split('_');
    let kind = parts.next()?;
    let mut number = || parts.next()?.parse().ok();
    match kind {
        "now" => Some(Piece::Now),
        "value" => Some(Piece::Evaluated(number()?)),
        "rows" => Some(Piece::Rows(number()?)),
        "array" => Some(Piece::Array(number()?)),
        "type" => Some(Piece::Type { child: number()?, column: number()? }),
        _ => None,
    }
}

/// A place for one of the pieces, not a column.
pub fn is_mark(c: &ast::ColumnRef) -> bool {
    matches!(names::strings(&c.fields)[..], [word] if marked(word).is_some())
}

/// Where the statement's timestamp goes: an expression.
pub fn now() -> Node {
    build::column(&[&mark("now")])
}

/// Where a value evaluated beforehand goes: an expression.
pub fn evaluated(n: usize) -> Node {
    build::column(&[&mark(&format!("value_{n}"))])
}

/// Where the rows of child `n` go: a query.
pub fn rows(n: usize) -> ast::SelectStmt {
    let mut select = build::select();
    select.target_list = vec![build::target(build::column(&[&mark(&format!("rows_{n}"))]), None)];
    select
}

/// The child whose rows a query stands for, if it is what [`rows`] makes.
pub fn rows_of(select: &ast::SelectStmt) -> Option<usize> {
    let [Node { node: Some(NodeEnum::ResTarget(target)) }] = &select.target_list[..] else { return None };
    match marked(names::column(target.val.as_deref()?)?.first()?)? {
        Piece::Rows(n) => Some(n),
        _ => None,
    }
}

/// `array`, which is the client's parameter `n`, behind the place of [`Piece::Array`].
pub fn array(n: usize, array: Node) -> Node {
    let mut call = build::own_call("", vec![array]);
    if let Some(NodeEnum::FuncCall(f)) = &mut call.node {
        f.funcname = vec![build::string(&mark(&format!("array_{n}")))];
    }
    call
}

/// Where the type of a child's column goes: `value::{type}`.
pub fn cast(value: Node, child: usize, column: usize) -> Node {
    let mut cast = build::cast(value, "");
    if let Some(NodeEnum::TypeCast(c)) = &mut cast.node
        && let Some(t) = &mut c.type_name
    {
        t.names = vec![build::string(&mark(&format!("type_{child}_{column}")))];
    }
    cast
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(tree: Node) -> Vec<Piece> {
        let mut select = build::select();
        select.target_list = vec![build::target(tree, None)];
        Text::of(&NodeEnum::SelectStmt(Box::new(select))).unwrap().0
    }

    #[test]
    fn marks_become_pieces() {
        let sql = |s: &str| Piece::Sql(s.into());
        assert_eq!(text(now()), [sql("SELECT "), Piece::Now]);
        assert_eq!(text(evaluated(12)), [sql("SELECT "), Piece::Evaluated(12)]);
        let cast = text(cast(build::integer(1), 3, 4));
        assert_eq!(cast, [sql("SELECT 1::"), Piece::Type { child: 3, column: 4 }]);
        let rows = Text::of(&NodeEnum::SelectStmt(Box::new(rows(7)))).unwrap();
        assert_eq!(rows.split_at(&Piece::Rows(7)), Some(("SELECT ".into(), Text::default())));
    }

    /// The proof that marks are ours alone rests on this.
    #[test]
    fn the_parser_leaves_no_identifier_as_long_as_a_mark() {
        for name in [mark("now"), mark("rows_0"), format!("\"{}\"", mark("type_0_0"))] {
            let sql =
                format!("SELECT {name}, x.{name} AS {name} FROM {name}.{name} AS {name} WHERE {name}({name}::{name})");
            let tree = sql::parse(&sql, true).unwrap().pop().unwrap();
            let text = Text::of(&tree).unwrap();
            assert!(matches!(text.pieces(), [Piece::Sql(_)]), "{text}");
        }
    }

    #[test]
    fn data_is_never_a_piece() {
        let data = "SELECT '%now% %e0% $1 \"%r0\"', \"%r0\", \"$1\", $$ $2 $$, E'\\'$3', /* $4 */ $5 -- $6";
        let text = Text::written(data).unwrap();
        let found: Vec<_> = text.pieces().iter().filter(|p| !matches!(p, Piece::Sql(_))).collect();
        assert_eq!(found, [&Piece::Param(5)]);
        assert_eq!(text.to_string(), data);
    }
}

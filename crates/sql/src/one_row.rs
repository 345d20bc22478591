//! `INSERT … VALUES` of one row as a pattern for statements of many such rows.
//!
//! It does not parse: whoever calls knows that the statement ends with its only row. It does not know what may be put
//! into one statement.

use std::fmt::Write;

use crate::lexer::{Lexer, TokenKind};
use crate::split;

/// What comes before the row, and the row in pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneRow {
    head: String,
    row: Vec<Piece>,
    params: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// `$n`
    Param(usize),
}

impl OneRow {
    /// `None` where the row is not found, or is not the end of the statement. A text with a backslash is left alone: what
    /// it means is for a setting to say.
    pub fn of(text: &str) -> Option<OneRow> {
        if text.contains('\\') {
            return None;
        }
        let tokens: Vec<_> = Lexer::new(text, true).collect::<Result<_, _>>().ok()?;
        let is_values = |word: &str| word.eq_ignore_ascii_case("values");
        let mut values = tokens.iter().filter(|t| t.kind == TokenKind::Ident && is_values(&text[t.start..t.end]));
        let (Some(values), None) = (values.next(), values.next()) else { return None };
        let rows = split::values_rows(text, true, values.start).ok()?;
        let [row] = &rows[..] else { return None };
        if tokens.iter().any(|t| t.start >= row.end && t.kind != TokenKind::Punct(b';')) {
            return None;
        }
        let (mut pieces, mut params, mut at) = (Vec::new(), 0, row.start);
        for token in tokens.iter().filter(|t| row.contains(&t.start) && t.kind == TokenKind::Param) {
            let n: usize = text[token.start + 1..token.end].parse().ok().filter(|n| *n > 0)?;
            pieces.push(Piece::Text(text[at..token.start].to_string()));
            pieces.push(Piece::Param(n));
            params = params.max(n);
            at = token.end;
        }
        pieces.push(Piece::Text(text[at..row.end].to_string()));
        Some(OneRow { head: text[..row.start].to_string(), row: pieces, params })
    }

    /// Parameters of a row: `$1` to this.
    pub fn params(&self) -> usize {
        self.params
    }

    /// The statement of `n` rows, the parameters of each behind those of the one before.
    pub fn times(&self, n: usize) -> String {
        let mut text = self.head.clone();
        for i in 0..n {
            text.push_str(if i > 0 { ", " } else { "" });
            for piece in &self.row {
                match piece {
                    Piece::Text(piece) => text.push_str(piece),
                    Piece::Param(p) => {
                        let _ = write!(text, "${}", i * self.params + p);
                    }
                }
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::OneRow;

    fn twice(text: &str) -> Option<String> {
        OneRow::of(text).map(|row| row.times(2))
    }

    #[test]
    fn test_rows_are_repeated_with_their_own_parameters() {
        assert_eq!(
            twice("INSERT INTO t (a, b) VALUES ($1, $2::text)").unwrap(),
            "INSERT INTO t (a, b) VALUES ($1, $2::text), ($3, $4::text)"
        );
        assert_eq!(
            twice("insert into t values($2, f('x', $1), $2) ; -- end").unwrap(),
            "insert into t values($2, f('x', $1), $2), ($4, f('x', $3), $4)"
        );
        assert_eq!(
            twice("/* a */ INSERT INTO \"values\" VALUES -- (\n (1, ')' /* ) */)").unwrap(),
            "/* a */ INSERT INTO \"values\" VALUES -- (\n (1, ')' /* ) */), (1, ')' /* ) */)"
        );
    }

    #[test]
    fn test_what_is_not_one_row_at_the_end_is_left_alone() {
        for text in [
            "INSERT INTO t VALUES (1), (2)",
            "INSERT INTO t VALUES (1) RETURNING a",
            "INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING",
            "INSERT INTO t SELECT 1",
            "INSERT INTO t DEFAULT VALUES",
            "INSERT INTO t SELECT * FROM (VALUES (1)) x",
            "INSERT INTO t VALUES ('\\')",
            "INSERT INTO t VALUES ((VALUES (1)))",
            "INSERT INTO t VALUES ($0)",
            "INSERT INTO t VALUES ('",
            "",
        ] {
            assert_eq!(twice(text), None, "{text}");
        }
    }

    fn deparsed(text: &str) -> String {
        crate::deparse(&crate::parse(text, true).unwrap()[0]).unwrap()
    }

    proptest::proptest! {
            /// As PostgreSQL's own grammar reads it.
            #[test]
            fn test_the_grammar_sees_the_rows(cells in proptest::collection::vec(0..6_usize, 1..6), n in 1..20_usize) {
                const CELLS: [&str; 6] = ["$1", "$3", "'a), ($1'", "DEFAULT", "-1.5::numeric(3,1)", "coalesce($2, (NULL))"];
                let row: Vec<&str> = cells.iter().map(|c| CELLS[*c]).collect();
                let pattern = OneRow::of(&format!("INSERT INTO t VALUES ({})", row.join(", "))).unwrap();
    let shifted = |i: usize| {
                    let cell = |cell: &&str| (1..=3).rev().fold(cell.to_string(), |text, p| {
                        if text.contains('\'') { text } else { text.replace(&format!("${p}"), &format!("$#{}", i * pattern.params() + p)) }
                    }).replace("$#", "$");
                    row.iter().map(cell).collect::<Vec<_>>().join(", ")
                };
                let rows: Vec<String> = (0..n).map(|i| format!("({})", shifted(i))).collect();
                let expected = format!("INSERT INTO t VALUES {}", rows.join(", "));
                proptest::prop_assert_eq!(deparsed(&pattern.times(n)), deparsed(&expected));
            }
        }
}

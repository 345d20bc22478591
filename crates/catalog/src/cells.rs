//! Reading typed values out of text rows. Does not know any query.

use crate::{CatalogError, Row};

/// Reads a row's cells from left to right.
pub(crate) struct Cells {
    cells: std::vec::IntoIter<Option<String>>,
}

impl Cells {
    /// From the first cell of a row on.
    pub fn of(row: Row) -> Self {
        Cells { cells: row.into_iter() }
    }

    /// The next cell; `None`: NULL, or there are no more.
    pub fn opt(&mut self) -> Option<String> {
        self.cells.next().flatten()
    }

    /// NULL reads as the empty string.
    pub fn text(&mut self) -> String {
        self.opt().unwrap_or_default()
    }

    /// PostgreSQL's `t`; NULL reads as false.
    pub fn boolean(&mut self) -> bool {
        self.opt().as_deref() == Some("t")
    }

    /// PostgreSQL's `"char"`; 0 when NULL or empty.
    pub fn char(&mut self) -> u8 {
        self.opt().and_then(|s| s.bytes().next()).unwrap_or(0)
    }

    /// # Errors
    /// [`CatalogError::Corrupt`] if it is no number, or NULL.
    pub fn number<N: std::str::FromStr, E: std::error::Error>(&mut self) -> Result<N, CatalogError<E>> {
        let text = self.text();
        text.parse().map_err(|_| CatalogError::Corrupt(format!("\"{text}\" is not a number")))
    }

    /// As [`number`](Self::number); `None`: NULL.
    pub fn opt_number<N: std::str::FromStr, E: std::error::Error>(&mut self) -> Result<Option<N>, CatalogError<E>> {
        match self.opt() {
            None => Ok(None),
            Some(text) => {
                let corrupt = |_| CatalogError::Corrupt(format!("\"{text}\" is not a number"));
                text.parse().map(Some).map_err(corrupt)
            }
        }
    }

    /// An `int2vector` (`1 2`) or an array of numbers (`{1,2}`).
    pub fn numbers<N: std::str::FromStr, E: std::error::Error>(&mut self) -> Result<Vec<N>, CatalogError<E>> {
        let text = self.text();
        text.split([' ', ',', '{', '}'])
            .filter(|part| !part.is_empty())
            .map(|part| part.parse().map_err(|_| CatalogError::Corrupt(format!("\"{text}\" is not a list of numbers"))))
            .collect()
    }

    /// As [`texts`](Self::texts); `None`: NULL.
    pub fn opt_texts(&mut self) -> Option<Vec<String>> {
        self.opt().map(|text| parse_text_array(&text))
    }

    /// An array of text, in PostgreSQL's output format; NULL elements are left out.
    pub fn texts(&mut self) -> Vec<String> {
        parse_text_array(&self.text())
    }
}

fn parse_text_array(text: &str) -> Vec<String> {
    let mut items = Vec::new();
    let mut chars = text.trim_start_matches('{').chars().peekable();
    loop {
        match chars.peek() {
            None | Some('}') => return items,
            Some(',') => {
                chars.next();
            }
            Some('"') => {
                chars.next();
                let mut item = String::new();
                while let Some(c) = chars.next() {
                    match c {
                        '"' => break,
                        '\\' => item.extend(chars.next()),
                        c => item.push(c),
                    }
                }
                items.push(item);
            }
            Some(_) => {
                let mut item = String::new();
                while let Some(c) = chars.next_if(|c| !matches!(c, ',' | '}')) {
                    item.push(c);
                }
                if item != "NULL" {
                    items.push(item);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_arrays() {
        for (text, want) in [
            ("{}", vec![]),
            ("", vec![]),
            ("{a,b c}", vec!["a", "b c"]),
            (r#"{"a,b","q\"x","{}",NULL,"NULL"}"#, vec!["a,b", "q\"x", "{}", "NULL"]),
        ] {
            assert_eq!(parse_text_array(text), want);
        }
    }
}

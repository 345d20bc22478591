//! One execution's node statements: a plan's texts with the values of this execution put in their places.
//!
//! Each has exactly the parameters its text names, numbered anew. What a text means is not known here.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use plan::{Piece, Text};

use crate::arrays::Array;
use crate::carried::{Carried, TEXT};
use crate::now::Now;
use crate::request::{self, Bound, RowsTables};
use wire::backend::Field;
use wire::type_oid::TEXT_ARRAY;

/// Binary, as `Arrays` makes them.
pub const ARRAY_FORMAT: i16 = 1;
/// Bytes of an array parameter that nodes join with rather than look at each element of (see `plan::lists`).
const LONG_ARRAY: usize = 4096;

/// What a node is told.
#[derive(Clone, Debug, Default)]
pub struct NodeStatement {
    pub sql: String,
    pub types: Vec<u32>,
    pub formats: Vec<i16>,
    pub values: Vec<Option<Bytes>>,
    /// The text holds a value of this execution: it never comes again.
    pub once: bool,
    /// Types of the answer's columns, where whoever reads them goes by these.
    pub columns: Option<Arc<Vec<u32>>>,
}

/// Where the rows of a child are.
pub enum Source {
    /// One array a column, in binary.
    Arrays(Vec<Array>),
    /// In a table of the connection that the statement runs on.
    Table(String),
}

/// The rows of a part, for the statement that finishes.
pub struct Child {
    pub source: Source,
    /// The types of its columns, as `format_type` writes them.
    pub types: Vec<String>,
    /// Some of its values are made of others' domains: not above a join that makes them NULL, where PostgreSQL would take the expression.
    pub fenced: bool,
    /// What its columns are called; `None`: `c0`, `c1`, ….
    pub names: Option<Vec<String>>,
}

/// What goes into the places of texts.
pub struct Fill<'f> {
    pub bound: &'f Bound,
    pub now: &'f Now,
    pub evaluated: &'f [Option<String>],
    pub children: Vec<Child>,
}

impl<'f> Fill<'f> {
    /// With nothing evaluated, and no children's rows.
    pub fn new(bound: &'f Bound, now: &'f Now) -> Self {
        Fill { bound, now, evaluated: &[], children: vec![] }
    }

    /// The statement that these texts make, one behind the other.
    pub fn statement<'t>(&self, texts: impl IntoIterator<Item = &'t Text>) -> NodeStatement {
        self.statement_behind(0, texts)
    }

    /// The same where the first parameters are arrays that are put in front of its own.
    fn statement_behind<'t>(&self, arrays: usize, texts: impl IntoIterator<Item = &'t Text>) -> NodeStatement {
        let out = NodeStatement { types: vec![TEXT_ARRAY; arrays], ..Default::default() };
        let mut writer = Writer { fill: self, out, numbers: vec![], arrays: vec![] };
        let pieces = texts.into_iter().flat_map(Text::pieces);
        match &self.bound.tables {
            None => pieces.for_each(|piece| writer.piece(piece)),
            Some(tables) => writer.pieces_over(tables, pieces.cloned().collect()),
        }
        writer.out
    }
}

struct Writer<'w> {
    fill: &'w Fill<'w>,
    out: NodeStatement,
    /// The number here of each of the client's parameters; 0: not named so far.
    numbers: Vec<usize>,
    /// Children by the number of their first parameter here.
    arrays: Vec<(usize, usize)>,
}

impl Writer<'_> {
    fn piece(&mut self, piece: &Piece) {
        match piece {
            Piece::Sql(sql) => self.out.sql.push_str(sql),
            Piece::Param(n) => {
                let number = self.parameter(*n);
                self.out.sql.push_str(&format!("${number}"));
            }
            Piece::Now => {
                self.out.once = true;
                self.out.sql.push_str(&catalog::quote_literal(self.fill.now));
            }
            Piece::Evaluated(n) => {
                self.out.once = true;
                match self.fill.evaluated.get(*n).and_then(Option::as_deref) {
                    Some(value) => self.out.sql.push_str(&catalog::quote_literal(value)),
                    None => self.out.sql.push_str("NULL"),
                }
            }
            Piece::Rows(n) => self.rows(*n),
            Piece::Array(n) => {
                let value = self.fill.bound.values.get(n.wrapping_sub(1)).and_then(Option::as_ref);
                if value.is_some_and(|v| v.len() > LONG_ARRAY) {
                    self.out.sql.push_str("SELECT pg_catalog.unnest");
                }
            }
            Piece::Type { child, column } => {
                let ty = self.fill.children.get(*child).and_then(|c| c.types.get(*column));
                self.out.sql.push_str(ty.map_or("", String::as_str));
            }
        }
    }

    /// All of these, with tables in the places of the parameters whose rows they have.
    fn pieces_over(&mut self, tables: &RowsTables, mut rest: VecDeque<Piece>) {
        while let Some(piece) = rest.pop_front() {
            match table_next(tables, &piece, rest.make_contiguous()) {
                Some(next) => {
                    self.out.once = true;
                    self.out.sql.push_str(&next.sql);
                    rest.drain(..next.used);
                    // The next one may begin there.
                    rest.push_front(Piece::Sql(next.behind));
                }
                None => self.piece(&piece),
            }
        }
    }

    /// A parameter of the client's. One it has no value for keeps its number: PostgreSQL says that it is missing.
    fn parameter(&mut self, n: usize) -> usize {
        let bound = self.fill.bound;
        let at = n.wrapping_sub(1);
        let Some(ty) = bound.types.get(at) else { return n };
        match self.numbers.get(at) {
            Some(0) => {}
            Some(number) => return *number,
            None => self.numbers.resize(n, 0),
        }
        self.out.types.push(*ty);
        if let Some(value) = bound.values.get(at) {
            self.out.formats.push(bound.format(at));
            self.out.values.push(value.clone());
        }
        self.numbers[at] = self.out.types.len();
        self.out.types.len()
    }

    fn rows(&mut self, n: usize) {
        let Some(child) = self.fill.children.get(n) else { return };
        match &child.source {
            Source::Table(table) => {
                self.out.once = true;
                self.out.sql.push_str(&format!("* FROM {table}"));
            }
            Source::Arrays(values) => {
                let known = self.arrays.iter().find(|(own, _)| *own == n).map(|(_, first)| *first);
                let first = known.unwrap_or_else(|| {
                    let first = self.out.types.len() + 1;
                    self.out.types.extend(values.iter().map(|a| a.carried.array));
                    self.out.formats.extend(values.iter().map(|_| ARRAY_FORMAT));
                    self.out.values.extend(values.iter().map(|a| a.value.clone()));
                    self.arrays.push((n, first));
                    first
                });
                let rows = unnest(first, &child.types, values.iter().map(|a| &a.carried));
                match &child.names {
                    None => {
                        self.out.sql.push_str(&rows);
                        if child.fenced {
                            self.out.sql.push_str(" OFFSET 0");
                        }
                    }
                    Some(names) => {
                        let named = |(i, name): (usize, &String)| format!("h.c{i} AS {}", catalog::quote_ident(name));
                        let list: Vec<_> = names.iter().enumerate().map(named).collect();
                        self.out.sql.push_str(&format!("{} FROM (SELECT {rows}) AS h", list.join(", ")));
                    }
                }
            }
        }
    }
}

/// What stands before the first, and between any two, of the parameters of rows that are kept (`plan::kept_rows`).
const ROWS_OF: &str = "ROWS FROM (pg_catalog.unnest(";
const NEXT_OF: &str = ") , pg_catalog.unnest(";
const END_OF: &str = ") )";

/// A table in the place of parameters.
struct TableNext {
    /// All before it, and its name.
    sql: String,
    /// What stands behind the last parameter's function.
    behind: String,
    /// How many pieces that was, besides the first.
    used: usize,
}

/// The table whose parameters' rows begin here.
fn table_next(tables: &RowsTables, piece: &Piece, behind: &[Piece]) -> Option<TableNext> {
    let (Piece::Sql(sql), Piece::Param(first)) = (piece, behind.first()?) else { return None };
    let before = sql.strip_suffix(ROWS_OF)?;
    let table = tables.0.iter().find(|table| table.first == *first)?;
    let used = 2 * table.width;
    for (n, pair) in behind.get(..used)?.chunks_exact(2).enumerate() {
        let [Piece::Param(at), Piece::Sql(sql)] = pair else { return None };
        if *at != first + n {
            return None;
        }
        if n + 1 == table.width {
            let behind = sql.strip_prefix(END_OF)?.to_string();
            return Some(TableNext { sql: format!("{before}{}", table.name), behind, used });
        }
        if sql != NEXT_OF {
            return None;
        }
    }
    None
}

/// What follows SELECT to give rows of arrays, from parameter `first` on, as columns `c0`, `c1`, ….
pub fn unnest<'c>(first: usize, types: &[String], carried: impl IntoIterator<Item = &'c Carried>) -> String {
    let names: Vec<&str> = carried.into_iter().map(|c| c.name).collect();
    let list = |one: &dyn Fn(usize) -> String| (0..types.len()).map(one).collect::<Vec<_>>().join(", ");
    format!(
        "{} FROM ROWS FROM ({}) AS x({})",
        list(&|i| format!("x.v{i}::{} AS c{i}", types[i])),
        list(&|i| format!("pg_catalog.unnest(${}::pg_catalog.{}[])", first + i, names.get(i).unwrap_or(&TEXT.name))),
        list(&|i| format!("v{i}"))
    )
}

impl NodeStatement {
    /// Its answer has these columns, or the tables are others than it was planned for. Types of users' own have other numbers on each node.
    pub fn answered_by<'f>(self, fields: impl IntoIterator<Item = &'f Field>) -> Self {
        let ty = |f: &Field| if f.is_of_users() { 0 } else { f.type_oid };
        NodeStatement { columns: Some(Arc::new(fields.into_iter().map(ty).collect())), ..self }
    }

    /// A text of the router's own over rows that come as arrays.
    pub fn over_arrays(sql: String, arrays: Vec<Array>) -> Self {
        let types = arrays.iter().map(|a| a.carried.array).collect();
        let values = arrays.into_iter().map(|a| a.value).collect();
        NodeStatement { sql, types, formats: vec![ARRAY_FORMAT], values, once: true, columns: None }
    }

    /// The types as a node may be told them.
    pub fn types_on(&self, foreign: bool) -> Vec<u32> {
        request::types_on(&self.types, foreign)
    }
}

/// An INSERT that sends one batch after the other: the rows are its first parameters, an array a column.
pub struct BatchStatement(NodeStatement);

impl BatchStatement {
    /// `rows`: what stands between head and tail, a query's list, FROM and so on.
    pub fn new(fill: &Fill<'_>, head: &Text, rows: String, width: usize, tail: &Text) -> Self {
        // A tail need not begin with a space.
        BatchStatement(fill.statement_behind(width, [head, &Text::from(rows + " "), tail]))
    }

    /// The statement with these arrays, in binary, in front of its own parameters.
    pub fn with(&self, arrays: Vec<Array>) -> NodeStatement {
        let own = self.0.types.iter().copied().skip(arrays.len());
        let types = arrays.iter().map(|a| a.carried.array).chain(own).collect();
        let formats = arrays.iter().map(|_| ARRAY_FORMAT).chain(self.0.formats.iter().copied()).collect();
        let values = arrays.into_iter().map(|a| a.value).chain(self.0.values.iter().cloned()).collect();
        NodeStatement { types, formats, values, ..self.0.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::RowsTable;

    #[test]
    fn tables_stand_for_the_rows_of_parameters() {
        let sql = "SELECT x.a, y.v0, $1 FROM (SELECT x.v0 AS a FROM ROWS FROM (pg_catalog.unnest($2), pg_catalog.unnest($3)) AS x (v0, v1)) \
                   AS x, ROWS FROM (pg_catalog.unnest($4)) AS y (v0)";
        let text = Text::of(&sql::parse(sql, true).unwrap().remove(0)).unwrap();
        let table = |first, width| RowsTable { first, width, name: format!("pg_temp.t{first}") };
        let over = |tables: Vec<RowsTable>| {
            let tables = Some(std::sync::Arc::new(RowsTables(tables)));
            let bound = Bound { types: vec![20; 4].into(), values: vec![None; 4], tables, ..Default::default() };
            let statement = Fill::new(&bound, &Now::of(None)).statement([&text]);
            (statement.sql, statement.types.len())
        };
        let (sql, parameters) = over(vec![table(4, 1), table(2, 2)]);
        let wanted = "SELECT x.a, y.v0, $1 FROM (SELECT x.v0 AS a FROM pg_temp.t2 x(v0, v1)) x, pg_temp.t4 y(v0)";
        assert_eq!((sql.as_str(), parameters), (wanted, 1));
        // Those of another width are another's.
        assert_eq!(over(vec![table(2, 1), table(3, 1)]).1, 4);
    }

    #[test]
    fn parameters_are_numbered_by_the_text_that_names_them() {
        let values = [Some("a"), None, Some("c")].map(|v| v.map(|v: &str| Bytes::copy_from_slice(v.as_bytes())));
        let bound = Bound { types: vec![25, 20, 99999].into(), values: values.to_vec(), ..Default::default() };
        let now = Now::of(Some("2000-01-01"));
        let text = Text::written("SELECT $3, '$1', $2, $3, $4").unwrap();
        let s = Fill::new(&bound, &now).statement([&text]);
        assert_eq!(s.sql, "SELECT $1, '$1', $2, $1, $4");
        assert_eq!((s.types_on(true), &s.values[0], &s.values[1]), (vec![0, 20], &values[2], &None));
        let rows = Child {
            source: Source::Arrays(vec![Array { carried: TEXT, value: None }]),
            types: vec!["int".into()],
            fenced: false,
            names: None,
        };
        let fill = Fill { children: vec![rows], ..Fill::new(&bound, &now) };
        let insert = plan::InsertRows::of(&sql::parse("INSERT INTO t SELECT 1", true).unwrap().remove(0));
        assert!(insert.is_err(), "there is no mark in it");
        assert_eq!(fill.statement([&text]).types.len(), 2, "rows that are not named do not travel");
    }
}

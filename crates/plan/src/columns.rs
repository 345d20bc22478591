//! What of a Part a column copy answers: the Part's text for DuckDB, or why there is none.
//!
//! A table may have a *column copy*: beside each node a *store* has the node's rows of it in DuckDB (see [`catalog::ColumnCopy`]).
//! A Part that reads such a table gets, besides its text for the node, what the store is asked instead. The answer must be the one
//! PostgreSQL gives, value by value, so this is an allow-list: an expression's type is inferred from below as PostgreSQL would
//! (`columns/infer.rs` and its like; what names mean, `columns/scope.rs`), names must mean PostgreSQL's own (`columns/own.rs`), and DuckDB's text is written from the typed
//! tree that comes of it (`columns/expression.rs`), with casts wherever DuckDB's own types of results are others. Whatever is not on the list is refused
//! in words for EXPLAIN, and rows answer as ever. An error of DuckDB's (an overflow) sends the Part to rows, too: so it may raise
//! where PostgreSQL would not, and must raise where PostgreSQL would.
//!
//! It does not know stores, how fresh they are, or who may read a table.

mod aggregate;
mod arithmetic;
mod collation;
mod compare;
mod conditional;
mod constant;
mod expression;
mod first_bytes;
mod from;
mod infer;
mod mixed;
mod moment;
mod own;
mod scalar;
mod scans;
mod scope;
mod select;
mod subquery;
mod types;

use std::fmt;
use std::sync::Arc;

use catalog::{Oid, Relation};
use sql::ast;
use wire::type_oid;

use crate::levels::Analysis;
use crate::text::Text;

/// What column copies are to a Part of whose tables one has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnRead {
    Can(Box<ColumnPart>),
    /// Why rows answer, in words for a user.
    No(String),
}

/// A Part as stores answer it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnPart {
    /// DuckDB's SQL. In the place of [`Piece::Param`](crate::Piece::Param) stands what [`parameter`] writes of its value, in that of
    /// [`Piece::Now`](crate::Piece::Now) the same of a timestamptz; it has no other pieces.
    pub text: Text,
    /// The same for stores whose copies have the first bytes of long texts in columns of their own, where that is less to read.
    pub by_first_bytes: Option<Text>,
    /// The tables that have to have copies: distributed ones, and reference tables.
    pub tables: Vec<ColumnTable>,
    /// How each column of the answer is printed, those that the Part has for sorting included.
    pub types: Vec<ColumnType>,
    /// The client's parameters (from 1) that the text names, each with the type that it must have been given. Only then does it mean the same.
    pub params: Vec<(usize, Oid)>,
    /// It reads much of the table: no index that is known of would find its rows.
    pub scans: bool,
    /// The answer is small by construction: totals, groups, or a LIMIT.
    pub bounded: bool,
    /// It may come in pieces, each of other rows of the table: who finishes the statement adds them up.
    pub in_pieces: bool,
    /// It adds up floats. What comes of it depends on their order: somebody has to allow that.
    pub float_sums: bool,
}

/// A table that a store reads.
#[derive(Clone, Debug)]
pub struct ColumnTable {
    pub relation: Arc<Relation>,
    /// The names of its columns that are read: who may not read these may not have the answer.
    pub columns: Vec<String>,
}

impl PartialEq for ColumnTable {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.relation, &other.relation) && self.columns == other.columns
    }
}

impl Eq for ColumnTable {}

/// How a store prints a column of its answer: as PostgreSQL prints this type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    Bool,
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    /// With so many digits behind the point.
    Numeric(u8),
    /// A numeric as a text, each with its own digits behind the point.
    NumericText,
    Text,
    Varchar,
    /// By its modifier: the length in characters to which it is filled up with blanks, and 4.
    Bpchar(i32),
    /// In ISO's style: who has set another must not ask.
    Date,
    /// The same.
    Timestamp,
    /// In UTC, with its offset: what reads it knows it in any zone.
    Timestamptz,
    Uuid,
    /// In hexadecimal: who has set another format must not ask.
    Bytea,
}

impl ColumnType {
    /// The type's object id, which is the one that PostgreSQL gives the column.
    pub fn oid(self) -> Oid {
        match self {
            ColumnType::Bool => type_oid::BOOL,
            ColumnType::Int2 => type_oid::INT2,
            ColumnType::Int4 => type_oid::INT4,
            ColumnType::Int8 => type_oid::INT8,
            ColumnType::Float4 => type_oid::FLOAT4,
            ColumnType::Float8 => type_oid::FLOAT8,
            ColumnType::Numeric(_) | ColumnType::NumericText => type_oid::NUMERIC,
            ColumnType::Text => type_oid::TEXT,
            ColumnType::Varchar => type_oid::VARCHAR,
            ColumnType::Bpchar(_) => type_oid::BPCHAR,
            ColumnType::Date => type_oid::DATE,
            ColumnType::Timestamp => type_oid::TIMESTAMP,
            ColumnType::Timestamptz => type_oid::TIMESTAMPTZ,
            ColumnType::Uuid => type_oid::UUID,
            ColumnType::Bytea => type_oid::BYTEA,
        }
    }
}

/// As stores are told.
impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ColumnType::Bool => "bool",
            ColumnType::Int2 => "int2",
            ColumnType::Int4 => "int4",
            ColumnType::Int8 => "int8",
            ColumnType::Float4 => "float4",
            ColumnType::Float8 => "float8",
            ColumnType::Numeric(scale) => return write!(f, "numeric:{scale}"),
            ColumnType::Text | ColumnType::NumericText => "text",
            ColumnType::Varchar => "varchar",
            ColumnType::Bpchar(typmod) => return write!(f, "bpchar:{typmod}"),
            ColumnType::Date => "date",
            ColumnType::Timestamp => "timestamp",
            ColumnType::Timestamptz => "timestamptz",
            ColumnType::Uuid => "uuid",
            ColumnType::Bytea => "bytea",
        })
    }
}

/// A parameter's value, as PostgreSQL prints it, as DuckDB's SQL. `None`: it is not one that is surely read alike, and rows answer.
pub fn parameter(oid: Oid, value: Option<&str>) -> Option<String> {
    constant::parameter(oid, value)
}

/// What is found, or why rows must answer.
type Found<T> = std::result::Result<T, String>;

/// The words for what is not on the list.
fn refused(what: &str) -> String {
    format!("{what} is not computed on columns")
}

/// Which of a Part's rows are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    All,
    /// Of those that are the same one is enough.
    Once,
    /// Each is what some of the tables' rows come to, and they are added up: it does not matter how many there are of a group.
    AddedUp,
}

/// What column copies are to a query of reference tables alone.
pub fn read_whole(select: &ast::SelectStmt, a: &Analysis) -> ColumnRead {
    translated(select, &[], Rows::All, a)
}

/// What column copies are to a Part, while it is still a tree. `tables`: the uses of distributed tables that it reads.
pub fn read(part: &ast::SelectStmt, tables: &[usize], rows: Rows, a: &Analysis) -> Option<ColumnRead> {
    tables.iter().any(|u| a.uses[*u].relation.column_copy.is_some()).then(|| translated(part, tables, rows, a))
}

fn translated(part: &ast::SelectStmt, tables: &[usize], rows: Rows, a: &Analysis) -> ColumnRead {
    match select::read(part, tables, rows, a) {
        Ok(part) => ColumnRead::Can(Box::new(part)),
        Err(why) => ColumnRead::No(why),
    }
}

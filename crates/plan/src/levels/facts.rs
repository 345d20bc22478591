//! What is known of a query's levels and of the tables in them, as `levels.rs` collects it.
//!
//! Part of `levels.rs`: data alone, no conclusions.

use std::collections::HashSet;
use std::sync::Arc;

use catalog::Relation;
use sql::ast;

use crate::classes::{JoinDomain, Var};
use crate::refuse::Refusal;

/// One use of a distributed table.
#[derive(Debug)]
pub struct Use {
    pub relation: Arc<Relation>,
    /// One variable a column.
    pub columns: Vec<Var>,
    /// One variable a key column.
    pub key: Vec<Var>,
    /// Where it is: what is known there restricts it.
    pub classes: JoinDomain,
    /// Constants on this use alone.
    pub level: usize,
    pub range: Option<RangeUse>,
}

/// Where in the statement the table is named.
#[derive(Debug, Clone)]
pub struct RangeUse {
    pub location: i32,
    pub schema: Option<String>,
    pub alias: Option<String>,
}

/// An item of FROM.
#[derive(Debug)]
pub enum From {
    Use(usize),
    Reference,
    Home(String),
    /// Functions, VALUES: the same anywhere.
    Anywhere,
    /// Computed once for all rows, and perhaps another time something else: volatile functions, samples of tables that nodes have copies of.
    Once,
    Sub {
        level: usize,
        lateral: bool,
    },
    Join {
        kind: ast::JoinType,
        /// Where the join's rows are.
        place: JoinDomain,
        /// Where its condition holds: the same for an inner join, the side that may be left out for an outer one.
        on: JoinDomain,
        left: Box<From>,
        right: Box<From>,
    },
}

/// The level's DISTINCT.
#[derive(Debug, PartialEq)]
pub enum Distinct {
    None,
    All,
    On(Vec<Option<Var>>),
}

/// Columns that stand in GROUP BY.
#[derive(Debug, Default)]
pub struct GroupedBy {
    /// In each of its grouping sets.
    pub always: HashSet<Var>,
    /// In one of them at least.
    pub ever: HashSet<Var>,
}

/// One SELECT (or set operation, or VALUES).
#[derive(Debug)]
pub struct Level {
    /// Where what joins the items of FROM holds: its own place, but of MERGE, which takes rows that find no other as well.
    pub joined: JoinDomain,
    pub classes: JoinDomain,
    pub from: Vec<From>,
    /// Levels of subqueries in expressions: in WHERE/ON (`false`) or above (`true`: targets, HAVING, ORDER BY).
    pub sublinks: Vec<(usize, bool)>,
    pub ctes: Vec<usize>,
    pub arms: Option<(ast::SetOperation, bool, usize, usize)>,
    pub aggregates: bool,
    pub group: Vec<Option<Var>>,
    pub grouped: bool,
    pub grouping_sets: bool,
    /// What rows are grouped by in every grouping set, and in any; without such sets both are those of GROUP BY.
    pub grouped_by: GroupedBy,
    pub windows: Vec<Vec<Option<Var>>>,
    /// It has an ORDER BY.
    pub sorted: bool,
    /// An aggregate or window function in it says something else where its rows come in another order.
    pub order_sensitive: bool,
    /// Its rows become an array (`ARRAY(SELECT …)`).
    pub array: bool,
    pub distinct: Distinct,
    pub limit: bool,
    pub locking: bool,
    /// Output columns with their names; `None` where a star could not be expanded.
    pub columns: Option<Vec<(String, Option<Var>)>>,
    /// What an output column's variable is inside, where that is another one.
    pub inner: Vec<(Var, Var)>,
    pub refusal: Option<Refusal>,
    pub volatile: bool,
    /// Code in FROM and WHERE that only home can run, and such code above them.
    pub home_below: Option<String>,
    pub home_above: Option<String>,
}

//! What names mean to a Part's expressions: the tables and subqueries that each SELECT of it reads, and whose columns they are. Nothing of
//! expressions.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use catalog::{ColumnCopy, Relation, UniqueIndex};
use sql::{ast, names};

use super::collation::Collation;
use super::expression::{Column, Expr, Kind};
use super::types::Ty;
use super::{Found, refused, subquery};
use crate::Context;
use crate::levels::Analysis;

/// SELECTs within SELECTs: what DuckDB takes to make joins of them is four times as long for every three more.
const WITHIN_MAX: usize = 6;
/// What every table has besides its columns, and copies have not.
const SYSTEM_COLUMNS: [&str; 6] = ["tableoid", "ctid", "xmin", "xmax", "cmin", "cmax"];

/// Reads the expressions of a Part.
pub struct Reader<'a> {
    pub cx: &'a Context<'a>,
    pub a: &'a Analysis<'a>,
    /// The uses of distributed tables that the Part reads.
    pub uses: &'a [usize],
    /// All that are read, by number, whichever SELECT reads them.
    tables: RefCell<Vec<Rc<Table<'a>>>>,
    /// The numbers of those that can be named here, of the SELECTs from the outermost one inwards.
    levels: RefCell<Vec<Vec<usize>>>,
    /// How many of a tree were read, and how deep this one is.
    pub nodes: Cell<usize>,
    pub depth: Cell<usize>,
    /// SELECTs within one another.
    within: Cell<usize>,
    /// Where an aggregate may stand.
    pub aggregates: Cell<bool>,
    /// Where a subquery may.
    pub subqueries: Cell<bool>,
}

/// What a SELECT reads, as its expressions name it.
pub struct Table<'a> {
    pub source: Source<'a>,
    /// Its alias, or else its name.
    pub shown: String,
    /// It has an alias: its schema is not named.
    pub renamed: bool,
}

/// What a [`Table`] is.
pub enum Source<'a> {
    Copy {
        relation: &'a Arc<Relation>,
        copy: &'a ColumnCopy,
    },
    /// A subquery of FROM, by its columns.
    Query(Vec<Output>),
}

/// A subquery's column.
pub struct Output {
    pub name: String,
    pub ty: Ty,
    pub collation: Collation,
}

impl Table<'_> {
    /// The table, if it is one.
    pub fn relation(&self) -> Option<&Arc<Relation>> {
        match &self.source {
            Source::Copy { relation, .. } => Some(relation),
            Source::Query(_) => None,
        }
    }

    /// Its columns' names.
    pub fn names(&self) -> Vec<&str> {
        match &self.source {
            Source::Copy { relation, .. } => relation.columns.iter().map(|c| c.name.as_str()).collect(),
            Source::Query(outputs) => outputs.iter().map(|o| o.name.as_str()).collect(),
        }
    }

    /// The column leads an index of the nodes'.
    pub fn is_indexed(&self, name: &str) -> bool {
        let Source::Copy { relation, copy } = self.source else { return false };
        let at = relation.column(name);
        let unique = |index: &UniqueIndex| index.columns.first().copied() == at;
        copy.indexed.iter().any(|c| c == name) || relation.unique.iter().any(unique)
    }
}

impl<'a> Reader<'a> {
    /// With no tables yet.
    pub fn new(a: &'a Analysis<'a>, uses: &'a [usize]) -> Self {
        let (tables, levels, nodes, depth, within, aggregates, subqueries) = Default::default();
        Reader { cx: a.cx, a, uses, tables, levels, nodes, depth, within, aggregates, subqueries }
    }

    /// One of all that are read.
    pub fn table(&self, number: usize) -> Rc<Table<'a>> {
        self.tables.borrow()[number].clone()
    }

    /// All that are read so far.
    pub fn tables(&self) -> Vec<Rc<Table<'a>>> {
        self.tables.borrow().clone()
    }

    /// How many that are.
    pub fn count(&self) -> usize {
        self.tables.borrow().len()
    }

    /// One more, which can be named from now on.
    pub fn add(&self, table: Table<'a>) -> usize {
        let number = self.count();
        self.tables.borrow_mut().push(Rc::new(table));
        self.levels.borrow_mut().last_mut().into_iter().for_each(|level| level.push(number));
        number
    }

    /// The numbers of what this SELECT's FROM names, so far.
    pub fn level(&self) -> Vec<usize> {
        self.levels.borrow().last().cloned().unwrap_or_default()
    }

    /// Reads a SELECT within another one. `sees`: it can name what those around it read.
    pub fn within<R>(&self, sees: bool, read: impl FnOnce() -> Found<R>) -> Found<R> {
        if self.within.get() >= WITHIN_MAX {
            return Err("subqueries within so many others are not computed on columns".into());
        }
        self.within.set(self.within.get() + 1);
        let around = self.levels.borrow().clone();
        let mut levels = if sees { around.clone() } else { vec![] };
        levels.push(vec![]);
        *self.levels.borrow_mut() = levels;
        let (aggregates, subqueries) = (self.aggregates.replace(false), self.subqueries.replace(false));
        let done = read();
        *self.levels.borrow_mut() = around;
        self.aggregates.set(aggregates);
        self.subqueries.set(subqueries);
        self.within.set(self.within.get() - 1);
        done
    }

    /// What a name means here.
    pub fn column(&self, c: &ast::ColumnRef) -> Found<Expr> {
        let parts = names::strings(&c.fields);
        let (schema, table, name) = match parts[..] {
            [name] => (None, None, name),
            [table, name] => (None, Some(table), name),
            [schema, table, name] => (Some(schema), Some(table), name),
            _ => return Err(refused(&parts.join("."))),
        };
        // An inner table has it, where an outer SELECT has a column of that name.
        if SYSTEM_COLUMNS.contains(&name) {
            return Err(refused(name));
        }
        let is = |t: &Table| {
            let in_schema = |schema| !t.renamed && t.relation().is_some_and(|r| schema == r.schema);
            table.is_none_or(|name| t.shown == name) && schema.is_none_or(in_schema)
        };
        // The nearest SELECT that has a table of this name, or else the column.
        for level in self.levels.borrow().iter().rev() {
            let named: Vec<usize> = level.iter().copied().filter(|n| is(&self.table(*n))).collect();
            let mut found = vec![];
            for n in &named {
                let names = self.table(*n);
                found.extend(names.names().iter().enumerate().filter(|(_, own)| **own == name).map(|(at, _)| (*n, at)));
            }
            match found[..] {
                [(table, at)] if !names::has_star(c) => return self.of_position(table, at),
                [] if table.is_none() || named.is_empty() => {}
                _ => break,
            }
        }
        Err(refused(&parts.join(".")))
    }

    /// A name without a table's means a column of what this SELECT reads.
    pub fn has_column(&self, name: &str) -> bool {
        self.level().into_iter().any(|n| self.table(n).names().contains(&name))
    }

    /// The column of a table at a position.
    pub fn of_position(&self, table: usize, at: usize) -> Found<Expr> {
        let named = self.table(table);
        let (relation, copy) = match &named.source {
            Source::Copy { relation, copy } => (relation, copy),
            Source::Query(outputs) => {
                let Output { ty, collation, .. } = outputs[at];
                let kind = Kind::Column(Column { table, name: subquery::output(at), collation });
                return Ok(Expr { ty, kind });
            }
        };
        let column = &relation.columns[at];
        if !copy.columns.contains(&column.name) || column.generated {
            return Err(format!("column \"{}\" is not in the column copy", column.name));
        }
        let kind = Kind::Column(Column { table, name: column.name.clone(), collation: Collation::of_column(column) });
        Ok(Expr { ty: Ty::of_column(column), kind })
    }
}

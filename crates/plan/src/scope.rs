//! Names in scope at one level of a query: tables, subqueries, common table expressions.
//!
//! It resolves names to variables and does not know where rows are.

use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use sql::ast::Node;
use sql::{NodeEnum, ast, build, names};

use crate::classes::Var;

/// One item of a FROM list.
#[derive(Clone, Debug, Default)]
pub struct Item {
    pub alias: String,
    /// Schema, where the item is a table without an alias.
    pub schema: Option<String>,
    pub columns: Vec<(String, Option<Var>)>,
    /// Columns are not known (system catalogs, functions, tables of other kinds).
    pub opaque: bool,
}

/// Columns in their order: name, variable, and a reference to it.
pub type Star = Vec<(String, Option<Var>, Node)>;

/// What names mean at one place of a query.
#[derive(Clone, Debug, Default)]
pub struct Scope<'a> {
    /// The level whose names these are.
    pub level: Option<usize>,
    pub items: Vec<Item>,
    /// Columns merged by USING or NATURAL: an unqualified name means this one.
    pub merged: HashMap<String, Option<Var>>,
    /// Joins with merged columns: which items are in them, and what `*` gives of them.
    pub joins: Vec<(Range<usize>, Option<Rc<Star>>)>,
    /// Every WITH query that can be seen from here, those of levels above included.
    pub ctes: Ctes<'a>,
    pub parent: Option<Rc<Scope<'a>>>,
}

/// Each name with its place in the clause.
pub type CteNames<'a> = Rc<HashMap<&'a str, usize>>;

/// The WITH clauses around a place, the innermost first.
#[derive(Clone, Debug, Default)]
pub struct Ctes<'a>(Option<Rc<With<'a>>>);

#[derive(Debug)]
struct With<'a> {
    clause: &'a ast::WithClause,
    /// Each name with its place in the clause.
    names: CteNames<'a>,
    /// How many of its queries can be seen: inside of one, those before it, unless they are RECURSIVE.
    seen: usize,
    /// The recursive queries this place is in.
    within: Vec<usize>,
    outer: Ctes<'a>,
    around: Around<'a>,
}

/// Where a WITH clause stands: its queries see the levels around that, not its tables.
#[derive(Clone, Debug, Default)]
pub struct Around<'a> {
    pub level: Option<usize>,
    pub parent: Option<Rc<Scope<'a>>>,
}

/// A WITH query that a name means.
pub enum Cte<'a> {
    /// The query, and what its body sees.
    Query(&'a ast::CommonTableExpr, Ctes<'a>, Around<'a>),
    /// A recursive query, named inside itself.
    Itself,
}

impl<'a> Ctes<'a> {
    /// Where in a clause the queries of each name are.
    pub fn names(clause: &'a ast::WithClause) -> CteNames<'a> {
        let named = clause.ctes.iter().enumerate().filter_map(|(i, c)| match &c.node {
            Some(NodeEnum::CommonTableExpr(c)) => Some((c.ctename.as_str(), i)),
            _ => None,
        });
        Rc::new(named.collect())
    }

    /// These and the first `seen` queries of a clause.
    pub fn and(&self, clause: &'a ast::WithClause, names: CteNames<'a>, seen: usize, around: Around<'a>) -> Self {
        let seen = if clause.recursive { clause.ctes.len() } else { seen };
        Ctes(Some(Rc::new(With { clause, names, seen, within: vec![], outer: self.clone(), around })))
    }

    /// Inside of this query, which is recursive.
    pub fn is_within(&self, query: &ast::CommonTableExpr) -> bool {
        let is = |w: &With, i: &usize| matches!(&w.clause.ctes[*i].node, Some(NodeEnum::CommonTableExpr(c)) if std::ptr::eq(c.as_ref(), query));
        self.0.as_deref().is_some_and(|w| w.within.iter().any(|i| is(w, i)))
    }

    /// The WITH query of a name, if one can be seen from here.
    pub fn find(&self, name: &str) -> Option<Cte<'a>> {
        let mut with = self.0.as_deref();
        while let Some(w) = with {
            if let Some(i) = w.names.get(name).copied().filter(|i| *i < w.seen)
                && let Some(NodeEnum::CommonTableExpr(query)) = &w.clause.ctes[i].node
            {
                return Some(if w.within.contains(&i) {
                    Cte::Itself
                } else {
                    Cte::Query(query, w.inside(i), w.around.clone())
                });
            }
            with = w.outer.0.as_deref();
        }
        None
    }
}

impl<'a> With<'a> {
    fn inside(&self, query: usize) -> Ctes<'a> {
        let (mut within, mut seen) = (self.within.clone(), self.seen);
        match self.clause.recursive {
            true => within.push(query),
            false => seen = query,
        }
        let (clause, names, outer) = (self.clause, self.names.clone(), self.outer.clone());
        Ctes(Some(Rc::new(With { clause, names, seen, within, outer, around: self.around.clone() })))
    }
}

/// What a name means, and how many levels around.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Meaning {
    Column {
        hops: usize,
        item: usize,
        var: Option<Var>,
    },
    /// One that a join has merged.
    Merged {
        hops: usize,
        var: Option<Var>,
    },
    /// It may be of something whose columns are not known.
    Unknown,
    Nothing,
}

impl Meaning {
    /// Whoever goes by the one goes by the other: items of a join with a name of its own are others outside.
    pub fn is_like(self, other: Meaning) -> bool {
        let of = |m| match m {
            Meaning::Column { hops, var, .. } | Meaning::Merged { hops, var } => Some((hops, var)),
            Meaning::Unknown | Meaning::Nothing => None,
        };
        self == other || of(self).is_some() && of(self) == of(other)
    }
}

impl<'a> Scope<'a> {
    /// What the condition of a join sees whose first item is `before`: what is joined there, with what joins within it have merged.
    pub fn of_join(&self, before: usize, merged: &[String]) -> Self {
        let mut seen = self.clone();
        seen.items[..before].iter_mut().for_each(|item| *item = Item::default());
        seen.merged.retain(|name, _| merged.contains(name));
        seen
    }

    /// What a column reference means.
    pub fn meaning(&self, parts: &[&str]) -> Meaning {
        for (hops, s) in std::iter::successors(Some(self), |s| s.parent.as_deref()).enumerate() {
            match s.find(parts) {
                Found::Column(item, var) => return Meaning::Column { hops, item, var },
                Found::Merged(var) => return Meaning::Merged { hops, var },
                Found::Unknown => return Meaning::Unknown,
                Found::Nothing => {}
            }
        }
        Meaning::Nothing
    }

    /// What a subquery in FROM sees that is not LATERAL.
    pub fn without_items(&self) -> Self {
        Scope { level: self.level, ctes: self.ctes.clone(), parent: self.parent.clone(), ..Default::default() }
    }

    /// The columns of these items in the order of `*`: those that a join has merged come once, and first. `None`: not known.
    pub fn star(&self, items: Range<usize>) -> Option<Star> {
        let mut columns = vec![];
        let mut at = items.start;
        while at < items.end {
            let joined = self.joins.iter().filter(|(of, _)| of.start == at && of.end <= items.end);
            if let Some((of, star)) = joined.max_by_key(|(of, _)| of.end) {
                columns.extend(star.as_deref()?.iter().cloned());
                at = of.end;
                continue;
            }
            let item = self.items.get(at).filter(|i| !i.opaque)?;
            let reference = |name: &str| build::column(&[&item.alias, name]);
            columns.extend(item.columns.iter().map(|(n, v)| (n.clone(), *v, reference(n))));
            at += 1;
        }
        Some(columns)
    }

    /// Puts a join in front of which so many items stand, and whose right side begins at `middle`, among those with merged columns.
    /// How many columns that has.
    pub fn note_join(&mut self, before: usize, middle: usize, merged: &[String]) -> usize {
        let first = |name: &String| (name.clone(), self.merged.get(name).copied().flatten(), build::column(&[name]));
        let star = self.star(before..middle).zip(self.star(middle..self.items.len())).map(|(left, right)| {
            let rest = left.into_iter().chain(right).filter(|(name, ..)| !merged.contains(name));
            Rc::new(merged.iter().map(first).chain(rest).collect::<Star>())
        });
        let columns = star.as_deref().map_or(0, Vec::len);
        self.joins.push((before..self.items.len(), star));
        columns
    }

    /// What is behind `before` becomes one item with the names of a join's alias; `merged`: what else is merged.
    pub fn name_join(
        &mut self,
        before: usize,
        alias: &ast::Alias,
        own: &[String],
        merged: HashMap<String, Option<Var>>,
    ) {
        let star = self.star(before..self.items.len());
        let given = names::strings(&alias.colnames);
        let opaque = star.is_none();
        let mut columns: Vec<(String, Option<Var>)> = match star {
            Some(star) => star.into_iter().map(|(name, var, _)| (name, var)).collect(),
            // Which columns the names are given to is not known.
            None if !given.is_empty() => given.iter().map(|name| (name.to_string(), None)).collect(),
            None => {
                let first = own.iter().map(|name| (name.clone(), self.merged.get(name).copied().flatten()));
                first.chain(self.items[before..].iter().flat_map(|i| i.columns.clone())).collect()
            }
        };
        columns.iter_mut().zip(given).for_each(|(column, name)| column.0 = name.to_string());
        self.items.truncate(before);
        self.joins.retain(|(of, _)| of.end <= before);
        self.merged = merged;
        self.items.push(Item { alias: alias.aliasname.clone(), schema: None, columns, opaque });
    }

    /// The level so many levels around.
    pub fn level_around(&self, hops: usize) -> Option<usize> {
        std::iter::successors(Some(self), |s| s.parent.as_deref()).nth(hops)?.level
    }

    /// Which level a column reference is of. A name that may be of something whose columns are not known, and may as well be
    /// of a level around that, is nobody's for sure.
    pub fn owner(&self, parts: &[&str]) -> Owner {
        let levels = || std::iter::successors(Some(self), |s| s.parent.as_deref()).enumerate();
        let (table, column) = match parts {
            [column] => (None, *column),
            [table, _] | [_, table, _] | [_, _, table, _] => (Some(*table), ""),
            _ => return Owner::Nobody,
        };
        let alias = |s: &Scope, name: &str| s.items.iter().any(|i| i.alias == name);
        if let Some(table) = table {
            // `t.c`, or `t.c.f` of a composite column.
            let of = |name: &str| levels().find(|(_, s)| alias(s, name)).map(|(hops, _)| hops);
            return of(table).or_else(|| of(parts[0])).map_or(Owner::Nobody, Owner::Level);
        }
        let system = is_system(column);
        let mut opaque = None;
        for (hops, s) in levels() {
            let named = |i: &Item| i.columns.iter().any(|(n, _)| n == column) || (i.opaque && i.alias == column);
            if s.merged.contains_key(column) || s.items.iter().any(named) || (system && !s.items.is_empty()) {
                return opaque.map_or(Owner::Level(hops), |_| Owner::Unsure);
            }
            if s.items.iter().any(|i| i.opaque) && opaque.replace(hops).is_some() {
                return Owner::Unsure;
            }
        }
        // A whole row is meant only where no column is.
        let row = levels().find(|(_, s)| alias(s, column)).map(|(hops, _)| hops);
        match (row, opaque) {
            (Some(_), Some(_)) => Owner::Unsure,
            (row, opaque) => row.or(opaque).map_or(Owner::Nobody, Owner::Level),
        }
    }

    /// Whether something in this FROM, not around it, has a column of the name. `None`: it may have.
    pub fn has_column(&self, name: &str) -> Option<bool> {
        let has = |i: &Item| i.columns.iter().any(|(column, _)| column == name);
        if self.merged.contains_key(name) || self.items.iter().any(has) {
            return Some(true);
        }
        let unsure = is_system(name) && !self.items.is_empty() || self.items.iter().any(|i| i.opaque);
        (!unsure).then_some(false)
    }

    /// The variable a column reference means, if it is a plain column of something known.
    pub fn resolve(&self, parts: &[&str]) -> Option<Var> {
        for s in std::iter::successors(Some(self), |s| s.parent.as_deref()) {
            match s.find(parts) {
                Found::Column(_, v) | Found::Merged(v) => return v,
                Found::Unknown => return None,
                Found::Nothing => {}
            }
        }
        None
    }

    /// Where the column of a reference stands: how many levels around, in which item, and its name there.
    pub fn place<'n>(&self, parts: &[&'n str]) -> Option<(usize, usize, &'n str)> {
        for (hops, s) in std::iter::successors(Some(self), |s| s.parent.as_deref()).enumerate() {
            match s.find(parts) {
                Found::Column(item, _) => return Some((hops, item, parts.last()?)),
                Found::Nothing => {}
                Found::Merged(_) | Found::Unknown => return None,
            }
        }
        None
    }

    fn find(&self, parts: &[&str]) -> Found {
        match parts {
            [column] => self.unqualified(column),
            [table, column] => self.qualified(None, table, column),
            [schema, table, column] => self.qualified(Some(schema), table, column),
            _ => Found::Unknown,
        }
    }

    fn unqualified(&self, column: &str) -> Found {
        let of = |item: &Item| item.columns.iter().find(|(n, _)| n == column).map(|(_, v)| *v);
        if let Some(merged) = self.merged.get(column) {
            // The one side's own, where the other can't be there without it.
            let own = self.items.iter().position(|item| merged.is_some() && of(item) == Some(*merged));
            return own.map_or(Found::Merged(*merged), |item| Found::Column(item, *merged));
        }
        let found = self.items.iter().enumerate().find_map(|(at, item)| Some(Found::Column(at, of(item)?)));
        let opaque = || self.items.iter().any(|item| item.opaque);
        found.unwrap_or_else(|| if opaque() { Found::Unknown } else { Found::Nothing })
    }

    fn qualified(&self, schema: Option<&str>, table: &str, column: &str) -> Found {
        let is = |i: &Item| i.alias == table && schema.is_none_or(|s| i.schema.as_deref() == Some(s));
        let Some(at) = self.items.iter().position(is) else { return Found::Nothing };
        match self.items[at].columns.iter().find(|(n, _)| n == column) {
            Some((_, v)) => Found::Column(at, *v),
            None => Found::Unknown,
        }
    }
}

/// A column that every table has.
pub fn is_system(column: &str) -> bool {
    matches!(column, "tableoid" | "ctid" | "xmin" | "xmax" | "cmin" | "cmax")
}

/// The name of such a column, if it is one.
pub fn system_column(n: &NodeEnum) -> Option<&str> {
    match n {
        NodeEnum::ColumnRef(c) => names::strings(&c.fields).last().copied().filter(|name| is_system(name)),
        _ => None,
    }
}

/// Whose a column is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Of the level so many levels around.
    Level(usize),
    Unsure,
    /// Nobody's here: PostgreSQL will say so.
    Nobody,
}

enum Found {
    /// Of this item.
    Column(usize, Option<Var>),
    /// Of a join, and of no item.
    Merged(Option<Var>),
    /// Named, but not a column we know: no equality can be drawn from it.
    Unknown,
    Nothing,
}

//! The levels of a query (each SELECT, each subquery), what each reads and how their columns are equal.
//!
//! One pass over the tree collects facts; `local.rs` draws conclusions. It does not decide strategies.

mod aggregates;
mod conditions;
mod expressions;
mod facts;
mod from;
mod output;

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;
use wire::sqlstate;

use catalog::Relation;
use sql::NodeEnum;
use sql::ast::{self, Node};

use crate::classes::{Classes, JoinDomain, Var};
use crate::refuse::Refusal;
use crate::scope::Scope;
use crate::table_keys::TableKeys;
use crate::{Context, Result, Steps};

pub use facts::{Distinct, From, GroupedBy, Level, RangeUse, Use};
use from::Condition;
pub(crate) use from::{function_name, view_is_builtin};
pub use output::star_columns;

/// The levels of a query, and what has been found out about them.
pub struct Analysis<'a> {
    pub cx: &'a Context<'a>,
    pub levels: Vec<Level>,
    pub uses: Vec<Use>,
    /// The uses that a name of a distributed table has: one wherever the WITH query it stands in is named.
    pub ranges: HashMap<*const ast::RangeVar, Vec<usize>>,
    /// The columns of each place where a reference table is named: once for each time that the WITH query it stands in is named.
    pub references: HashMap<*const ast::RangeVar, Vec<Vec<Var>>>,
    /// The reference tables that it reads, once for each name.
    pub reference_tables: Vec<Arc<Relation>>,
    pub classes: Classes<'a>,
    /// Outer joins whose left-out side a condition may need after all, see `reduce`.
    outer: Vec<Outer>,
    /// Variables that are not NULL in the rows of a place, because a condition needs them.
    needed: HashSet<(JoinDomain, Var)>,
    /// Those of them that no outer join was looked at for.
    fresh: Vec<(JoinDomain, Var)>,
    /// Subqueries of `x IN (SELECT …)` that a row must pass.
    passed: HashSet<*const ast::SubLink>,
    /// Type of each variable that is a table's column.
    pub types: Vec<Option<(u32, bool)>>,
    /// Levels by the address of their SELECT, scopes likewise.
    pub by_node: HashMap<*const ast::SelectStmt, usize>,
    pub scopes: HashMap<usize, Rc<Scope<'a>>>,
    /// The SELECT of each level.
    pub bodies: HashMap<usize, &'a ast::SelectStmt>,
    /// The levels of each WITH query: one wherever it is named.
    pub named: HashMap<*const ast::SelectStmt, Vec<usize>>,
    /// WITH queries that are finished by themselves for several who name them: what one asks of its rows the others do not.
    pub shared: HashSet<*const ast::SelectStmt>,
    pub reads_reference: bool,
    pub needs_home: Option<String>,
    pub writes: bool,
    /// It changes rows itself, which no function has to do.
    pub changes_rows: bool,
    pending: Vec<Pending<'a>>,
    /// Aggregates of subqueries: whose they are is known when all scopes are.
    aggregates: Vec<aggregates::Call<'a>>,
    /// CTE bodies being analysed: their names mean themselves.
    depth: usize,
    /// Whether subqueries without distributed tables say the same on every node has been judged before (see `broadcast.rs`).
    pub judged: bool,
    /// What stands in FROM and is no table may be rows that were sent to every node, where each joins them as it likes.
    pub sent: bool,
    /// What sees less than all of its FROM, where that is asked for (`from_names.rs`).
    pub narrow: Option<Vec<Narrow<'a>>>,
    /// Columns that joins have merged, as they were met.
    merged: Vec<String>,
}

/// A part of a level's FROM, and what its names may mean: items that it does not see are empty.
pub struct Narrow<'a> {
    pub part: &'a Node,
    pub level: usize,
    pub seen: Rc<Scope<'a>>,
}

/// An outer join: LEFT, with its sides told apart.
struct Outer {
    place: JoinDomain,
    on: JoinDomain,
    /// Columns of the side that may be left out.
    nullable: Vec<Var>,
    equal: Vec<(Var, Var)>,
    /// It was looked at for all that was needed, and is needed.
    looked: bool,
    needed: bool,
    /// It joins like an inner one, and its equalities hold for all rows.
    reduced: bool,
}

struct Pending<'a> {
    select: &'a ast::SelectStmt,
    /// Left side of `x IN (SELECT …)`.
    test: Option<Var>,
    scope: Rc<Scope<'a>>,
    level: usize,
    upper: bool,
    /// Of `ARRAY(SELECT …)`.
    array: bool,
}

/// Levels within levels: WITH queries that name each other are deeper than the statement's tree.
const DEPTH_MAX: usize = 5000;
/// What a level is beside its columns and expressions, in steps of work.
const LEVEL_STEPS: usize = 20;

impl<'a> Analysis<'a> {
    /// With nothing analysed yet.
    pub fn new(cx: &'a Context<'a>) -> Self {
        Analysis {
            cx,
            levels: Vec::new(),
            uses: Vec::new(),
            ranges: HashMap::new(),
            references: HashMap::new(),
            reference_tables: Vec::new(),
            classes: Classes::new(cx.steps),
            outer: vec![],
            needed: HashSet::new(),
            fresh: vec![],
            passed: HashSet::new(),
            types: Vec::new(),
            by_node: HashMap::new(),
            scopes: HashMap::new(),
            bodies: HashMap::new(),
            named: HashMap::new(),
            shared: HashSet::new(),
            reads_reference: false,
            needs_home: None,
            writes: false,
            changes_rows: false,
            pending: Vec::new(),
            aggregates: Vec::new(),
            depth: 0,
            judged: false,
            sent: false,
            narrow: None,
            merged: vec![],
        }
    }

    /// Analyses a whole query; the level of its top is returned.
    pub fn query(&mut self, select: &'a ast::SelectStmt) -> Result<usize> {
        let level = self.select(select, None, Classes::WHOLE)?;
        self.finish_pending()?;
        Ok(level)
    }

    /// Subqueries in expressions are read after everything around them, as places of their own: what holds inside `EXISTS (…)` need not hold outside.
    pub fn finish_pending(&mut self) -> Result<()> {
        while let Some(p) = self.pending.pop() {
            let classes = self.classes.inside(self.levels[p.level].classes);
            let parent_level = p.level;
            let level = self.select(p.select, Some(p.scope), classes)?;
            self.levels[level].array = p.array;
            if let (Some(test), Some(columns)) = (p.test, &self.levels[level].columns)
                && let Some((_, Some(column))) = columns.first().cloned()
            {
                self.equate(classes, test, column);
            }
            self.levels[parent_level].sublinks.push((level, p.upper));
        }
        self.settle_aggregates();
        Ok(())
    }

    /// One that nothing is known of; `ty`: its type, and whether its collation orders by bytes; `None`: equal need not be identical.
    pub fn new_var(&mut self, ty: Option<(u32, bool)>) -> Var {
        self.types.push(ty);
        self.types.len() - 1
    }

    pub(crate) fn new_level(&mut self, classes: JoinDomain) -> usize {
        self.levels.push(Level {
            classes,
            joined: classes,
            from: vec![],
            sublinks: vec![],
            ctes: vec![],
            arms: None,
            aggregates: false,
            group: vec![],
            grouped: false,
            grouping_sets: false,
            grouped_by: GroupedBy::default(),
            windows: vec![],
            sorted: false,
            order_sensitive: false,
            array: false,
            distinct: Distinct::None,
            limit: false,
            locking: false,
            columns: None,
            inner: vec![],
            refusal: None,
            volatile: false,
            home_below: None,
            home_above: None,
        });
        self.levels.len() - 1
    }

    /// `classes`: the place whose rows are this level's.
    pub fn select(
        &mut self,
        s: &'a ast::SelectStmt,
        parent: Option<Rc<Scope<'a>>>,
        classes: JoinDomain,
    ) -> Result<usize> {
        self.depth += 1;
        // A WITH query is analysed wherever it is named, so two that name the last one twice are eight.
        if !self.cx.take(LEVEL_STEPS) {
            return Err(Steps::refusal());
        }
        if self.depth > DEPTH_MAX {
            let hint = Some(sql::SyntaxError::TOO_DEEP_HINT.into());
            return Err(Refusal {
                sqlstate: sqlstate::STATEMENT_TOO_COMPLEX,
                message: "stack depth limit exceeded".into(),
                hint,
            });
        }
        let level = self.new_level(classes);
        self.by_node.insert(s as *const _, level);
        self.bodies.insert(level, s);
        let ctes = parent.as_ref().map(|p| p.ctes.clone()).unwrap_or_default();
        let mut scope = Scope { parent, ctes, level: Some(level), ..Default::default() };
        if let Some(with) = &s.with_clause {
            self.with(with, level, &mut scope)?;
        }
        let op = ast::SetOperation::try_from(s.op).unwrap_or(ast::SetOperation::SetopNone);
        if let (Some(left), Some(right)) = (s.larg.as_deref(), s.rarg.as_deref()) {
            let scope = Rc::new(scope);
            // What holds in one arm says nothing of the other: each has its own copy of the classes.
            let l = self.arm(left, &scope, classes)?;
            let r = self.arm(right, &scope, classes)?;
            self.levels[level].arms = Some((op, s.all, l, r));
            let columns = self.levels[l].columns.as_ref().map(|c| c.iter().map(|(n, _)| (n.clone(), None)).collect());
            self.levels[level].columns = columns;
            self.expressions(
                s.limit_count.as_deref().into_iter().chain(s.limit_offset.as_deref()),
                level,
                &scope,
                true,
            )?;
            self.scopes.insert(level, scope);
        } else if !s.values_lists.is_empty() {
            let scope = Rc::new(scope);
            let uppers = s.values_lists.iter().chain(&s.sort_clause).chain(s.limit_count.as_deref());
            self.expressions(uppers.chain(s.limit_offset.as_deref()), level, &scope, true)?;
            let width = match s.values_lists.first().and_then(|n| n.node.as_ref()) {
                Some(NodeEnum::List(l)) => l.items.len(),
                _ => 0,
            };
            self.levels[level].columns = Some((1..=width).map(|i| (format!("column{i}"), None)).collect());
            self.scopes.insert(level, scope);
        } else {
            self.plain_select(s, level, scope)?;
        }
        self.levels[level].limit = s.limit_count.is_some() || s.limit_offset.is_some();
        self.levels[level].sorted = !s.sort_clause.is_empty();
        self.export(level);
        let l = &mut self.levels[level];
        l.locking = !s.locking_clause.is_empty();
        if s.into_clause.is_some() {
            l.refusal = Some(Refusal::new(
                "SELECT INTO from distributed tables is not supported",
                "Create the table first, then use INSERT … SELECT.",
            ));
        }
        self.depth -= 1;
        Ok(level)
    }

    fn arm(&mut self, s: &'a ast::SelectStmt, scope: &Rc<Scope<'a>>, classes: JoinDomain) -> Result<usize> {
        let own = self.classes.inside(classes);
        self.select(s, Some(scope.clone()), own)
    }

    /// Outside, a column is the same variable only where a condition on it may as well be asked inside: a row that LIMIT, a window
    /// or DISTINCT ON chose was chosen among all.
    fn export(&mut self, level: usize) {
        let l = &self.levels[level];
        let has = |set: &[Option<Var>], v: Var| set.iter().flatten().any(|c| self.classes.same(l.classes, *c, v));
        let same = |v: Var| {
            !l.limit && l.windows.iter().all(|w| has(w, v)) && !matches!(&l.distinct, Distinct::On(on) if !has(on, v))
        };
        let Some(columns) = &l.columns else { return };
        let chosen: Vec<_> = columns.iter().map(|(_, v)| v.filter(|v| !same(*v))).collect();
        for (i, v) in chosen.into_iter().enumerate() {
            let Some(v) = v else { continue };
            let own = self.new_var(self.types[v]);
            self.levels[level].inner.push((own, v));
            if let Some(columns) = &mut self.levels[level].columns {
                columns[i].1 = Some(own);
            }
        }
    }

    fn plain_select(&mut self, s: &'a ast::SelectStmt, level: usize, mut scope: Scope<'a>) -> Result<()> {
        let place = self.levels[level].classes;
        let mut conditions = Vec::new();
        for item in &s.from_clause {
            let from = self.read_item(item, level, &mut scope, place, &mut conditions)?;
            self.levels[level].from.push(from);
        }
        let scope = Rc::new(scope);
        self.scopes.insert(level, scope.clone());
        if let Some(w) = s.where_clause.as_deref() {
            conditions.push(Condition { node: w, place, seen: None });
        }
        for c in conditions.iter().filter(|c| !c.is_misread(&scope)) {
            self.conjuncts(c.node, c.place, &scope);
        }
        self.reduce();
        self.expressions(conditions.iter().map(|c| c.node), level, &scope, false)?;
        let uppers = s.target_list.iter().chain(&s.group_clause).chain(&s.sort_clause).chain(&s.window_clause);
        let uppers = uppers.chain(s.having_clause.as_deref()).chain(&s.distinct_clause);
        let uppers = uppers.chain(s.limit_count.as_deref()).chain(s.limit_offset.as_deref());
        self.expressions(uppers, level, &scope, true)?;

        let columns = self.output(s, &scope);
        let group: Vec<_> = s.group_clause.iter().map(|g| self.group_var(g, s, &scope)).collect();
        let grouped_by = self.grouped_by(&s.group_clause, s, &scope);
        let (windows, windows_sorted) = self.windows_of(s, &scope);
        let distinct = match &s.distinct_clause[..] {
            [] => Distinct::None,
            [Node { node: None }] => Distinct::All,
            on => Distinct::On(on.iter().map(|n| self.distinct_var(n, s, &scope)).collect()),
        };
        let l = &mut self.levels[level];
        l.grouped = !s.group_clause.is_empty() || s.having_clause.is_some();
        l.grouping_sets = s.group_clause.iter().any(|g| matches!(g.node, Some(NodeEnum::GroupingSet(_))));
        l.grouped_by = grouped_by;
        l.group = group;
        l.windows = windows;
        l.order_sensitive |= !windows_sorted;
        l.distinct = distinct;
        l.columns = columns;
        Ok(())
    }

    /// Every use of a distributed table with the values its key is known to have.
    pub fn table_keys(&self) -> Vec<TableKeys> {
        self.uses
            .iter()
            .map(|u| TableKeys {
                relation: u.relation.clone(),
                columns: u
                    .key
                    .iter()
                    .map(|v| self.classes.values(u.classes, *v).map(|v| v.to_vec()).unwrap_or_default())
                    .collect(),
                limits: self.limits(u),
                written: false,
            })
            .collect()
    }
}

/// The level of a data-modifying statement is put together in `modify.rs`.
impl<'a> Analysis<'a> {
    /// Reads the FROM of a change into its level; `condition` is known to hold in the place `holds`. Gives the scope with all of it.
    pub fn statement_from(
        &mut self,
        from: &'a [Node],
        level: usize,
        mut scope: Scope<'a>,
        condition: Option<&'a Node>,
        holds: JoinDomain,
    ) -> Result<Rc<Scope<'a>>> {
        let place = self.levels[level].classes;
        let mut conditions = Vec::new();
        for item in from {
            let f = self.read_item(item, level, &mut scope, place, &mut conditions)?;
            self.levels[level].from.push(f);
        }
        conditions.extend(condition.map(|node| Condition { node, place: holds, seen: None }));
        // What `*` of a change gives depends on its target.
        scope.joins.clear();
        let scope = Rc::new(scope);
        self.scopes.insert(level, scope.clone());
        for c in conditions.iter().filter(|c| !c.is_misread(&scope)) {
            self.conjuncts(c.node, c.place, &scope);
        }
        self.reduce();
        self.expressions(conditions.iter().map(|c| c.node), level, &scope, false)?;
        Ok(scope)
    }
}

//! The levels of a query (each SELECT, each subquery), what each reads and how their columns are equal.
//!
//! One pass over the tree collects facts; `local.rs` draws conclusions. It does not decide strategies.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use catalog::{FunctionKind, Placement, Relation, RelationKind};
use sql::ast::{self, Node};
use sql::walk::{self, Visit};
use sql::{NodeEnum, names};

use crate::classes::{Classes, Var};
use crate::keys;
use crate::refuse::Refusal;
use crate::scope::{Cte, Item, Scope};
use crate::types::{KeyExpr, TableKeys};
use crate::{Context, Result};

/// One use of a distributed table.
#[derive(Debug)]
pub struct Use {
    pub relation: Arc<Relation>,
    /// One variable a key column.
    pub key: Vec<Var>,
    /// Which copy of the classes knows about it.
    pub classes: usize,
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

#[derive(Debug)]
pub enum From {
    Use(usize),
    Reference,
    Home(String),
    /// Functions, VALUES: the same anywhere.
    Anywhere,
    Sub { level: usize, lateral: bool },
    Join { kind: ast::JoinType, left: Box<From>, right: Box<From> },
}

#[derive(Debug, PartialEq)]
pub enum Distinct {
    None,
    All,
    On(Vec<Option<Var>>),
}

/// One SELECT (or set operation, or VALUES).
#[derive(Debug)]
pub struct Level {
    pub classes: usize,
    pub from: Vec<From>,
    /// Levels of subqueries in expressions: in WHERE/ON (`false`) or above (`true`: targets, HAVING, ORDER BY).
    pub sublinks: Vec<(usize, bool)>,
    pub ctes: Vec<usize>,
    pub arms: Option<(ast::SetOperation, bool, usize, usize)>,
    pub aggregates: bool,
    pub group: Vec<Option<Var>>,
    pub grouped: bool,
    pub grouping_sets: bool,
    pub windows: Vec<Vec<Option<Var>>>,
    pub distinct: Distinct,
    pub limit: bool,
    pub locking: bool,
    /// Output columns with their names; `None` where a star could not be expanded.
    pub columns: Option<Vec<(String, Option<Var>)>>,
    /// Correlated: it refers to a column of a level above.
    pub correlated: bool,
    pub refusal: Option<Refusal>,
    pub volatile: bool,
}

pub struct Analysis<'a> {
    pub cx: &'a Context<'a>,
    pub levels: Vec<Level>,
    pub uses: Vec<Use>,
    pub classes: Vec<Classes>,
    /// Type of each variable that is a table's column.
    pub types: Vec<Option<(u32, bool)>>,
    /// Levels by the address of their SELECT, scopes likewise.
    pub by_node: HashMap<*const ast::SelectStmt, usize>,
    pub scopes: HashMap<usize, Rc<Scope<'a>>>,
    pub reads_reference: bool,
    pub needs_home: Option<String>,
    pub writes: bool,
    pending: Vec<Pending<'a>>,
    /// CTE bodies being analysed: their names mean themselves.
    depth: usize,
}

struct Pending<'a> {
    select: &'a ast::SelectStmt,
    /// Left side of `x IN (SELECT …)`.
    test: Option<Var>,
    scope: Rc<Scope<'a>>,
    level: usize,
    upper: bool,
}

/// Beyond this nesting a statement is refused rather than risking the stack.
const DEPTH_MAX: usize = 64;

impl<'a> Analysis<'a> {
    pub fn new(cx: &'a Context<'a>) -> Self {
        Analysis {
            cx,
            levels: Vec::new(),
            uses: Vec::new(),
            classes: vec![Classes::default()],
            types: Vec::new(),
            by_node: HashMap::new(),
            scopes: HashMap::new(),
            reads_reference: false,
            needs_home: None,
            writes: false,
            pending: Vec::new(),
            depth: 0,
        }
    }

    /// Analyses a whole query; the level of its top is returned.
    pub fn query(&mut self, select: &'a ast::SelectStmt) -> Result<usize> {
        let level = self.select(select, None, 0, true)?;
        self.finish_pending()?;
        Ok(level)
    }

    /// Subqueries in expressions are read after everything around them is known, with their own copy of the
    /// classes: what holds inside `EXISTS (…)` need not hold outside.
    pub fn finish_pending(&mut self) -> Result<()> {
        while let Some(p) = self.pending.pop() {
            let mut copy = self.classes[self.levels[p.level].classes].clone();
            copy.grow(self.types.len());
            self.classes.push(copy);
            let classes = self.classes.len() - 1;
            let parent_level = p.level;
            let level = self.select(p.select, Some(p.scope), classes, true)?;
            if let (Some(test), Some(columns)) = (p.test, &self.levels[level].columns)
                && let Some((_, Some(column))) = columns.first().cloned()
            {
                self.classes[classes].union(test, column);
            }
            self.levels[parent_level].sublinks.push((level, p.upper));
        }
        Ok(())
    }

    pub fn new_var(&mut self, ty: Option<(u32, bool)>) -> Var {
        self.types.push(ty);
        let len = self.types.len();
        self.classes.iter_mut().for_each(|c| c.grow(len));
        len - 1
    }

    fn new_level(&mut self, classes: usize) -> usize {
        self.levels.push(Level {
            classes,
            from: vec![],
            sublinks: vec![],
            ctes: vec![],
            arms: None,
            aggregates: false,
            group: vec![],
            grouped: false,
            grouping_sets: false,
            windows: vec![],
            distinct: Distinct::None,
            limit: false,
            locking: false,
            columns: None,
            correlated: false,
            refusal: None,
            volatile: false,
        });
        self.levels.len() - 1
    }

    /// `certain`: rows that fail this level's conditions vanish from the whole (no outer join in between), so its
    /// constants restrict every equal column.
    pub fn select(
        &mut self,
        s: &'a ast::SelectStmt,
        parent: Option<Rc<Scope<'a>>>,
        classes: usize,
        certain: bool,
    ) -> Result<usize> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Refusal { sqlstate: "54001", message: "statement is nested too deeply".into(), hint: None });
        }
        let level = self.new_level(classes);
        self.by_node.insert(s as *const _, level);
        let mut scope = Scope { parent, ..Default::default() };
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
            self.scopes.insert(level, scope);
        } else if !s.values_lists.is_empty() {
            let scope = Rc::new(scope);
            self.expressions(s.values_lists.iter(), level, &scope, true)?;
            let width = match s.values_lists.first().and_then(|n| n.node.as_ref()) {
                Some(NodeEnum::List(l)) => l.items.len(),
                _ => 0,
            };
            self.levels[level].columns = Some((1..=width).map(|i| (format!("column{i}"), None)).collect());
            self.scopes.insert(level, scope);
        } else {
            self.plain_select(s, level, scope, certain)?;
        }
        let l = &mut self.levels[level];
        l.limit = s.limit_count.is_some() || s.limit_offset.is_some();
        l.locking = !s.locking_clause.is_empty();
        if s.into_clause.is_some() {
            l.refusal = Some(Refusal::new("SELECT INTO from distributed tables is not supported", "Create the table first, then use INSERT … SELECT."));
        }
        self.depth -= 1;
        Ok(level)
    }

    fn arm(&mut self, s: &'a ast::SelectStmt, scope: &Rc<Scope<'a>>, classes: usize) -> Result<usize> {
        let mut copy = self.classes[classes].clone();
        copy.grow(self.types.len());
        self.classes.push(copy);
        let own = self.classes.len() - 1;
        self.select(s, Some(scope.clone()), own, true)
    }

    fn plain_select(&mut self, s: &'a ast::SelectStmt, level: usize, mut scope: Scope<'a>, certain: bool) -> Result<()> {
        let mut conditions: Vec<(&'a Node, bool)> = Vec::new();
        for item in &s.from_clause {
            let from = self.from_item(item, level, &mut scope, certain, &mut conditions)?;
            self.levels[level].from.push(from);
        }
        let scope = Rc::new(scope);
        self.scopes.insert(level, scope.clone());
        if let Some(w) = s.where_clause.as_deref() {
            conditions.push((w, certain));
        }
        for (condition, certain) in &conditions {
            self.conjuncts(condition, level, &scope, *certain);
        }
        self.expressions(conditions.iter().map(|(c, _)| *c), level, &scope, false)?;
        let uppers = s.target_list.iter().chain(&s.group_clause).chain(&s.sort_clause).chain(&s.window_clause);
        let uppers = uppers.chain(s.having_clause.as_deref()).chain(&s.distinct_clause);
        let uppers = uppers.chain(s.limit_count.as_deref()).chain(s.limit_offset.as_deref());
        self.expressions(uppers, level, &scope, true)?;

        let columns = self.output(s, &scope);
        let group: Vec<_> = s.group_clause.iter().map(|g| self.group_var(g, s, &scope)).collect();
        let windows = self.windows_of(s, &scope);
        let distinct = match &s.distinct_clause[..] {
            [] => Distinct::None,
            [Node { node: None }] => Distinct::All,
            on => Distinct::On(on.iter().map(|n| self.group_var(n, s, &scope)).collect()),
        };
        let l = &mut self.levels[level];
        l.grouped = !s.group_clause.is_empty() || s.having_clause.is_some();
        l.grouping_sets = s.group_clause.iter().any(|g| matches!(g.node, Some(NodeEnum::GroupingSet(_))));
        l.group = group;
        l.windows = windows;
        l.distinct = distinct;
        l.columns = columns;
        Ok(())
    }

    fn with(&mut self, with: &'a ast::WithClause, level: usize, scope: &mut Scope<'a>) -> Result<()> {
        for cte in &with.ctes {
            let Some(NodeEnum::CommonTableExpr(cte)) = &cte.node else { continue };
            match cte.ctequery.as_deref().and_then(|q| q.node.as_ref()) {
                Some(NodeEnum::SelectStmt(_)) => {}
                _ => {
                    self.writes = true;
                    self.levels[level].refusal = Some(Refusal::new(
                        "data-modifying statements in WITH over several nodes are not supported",
                        "Run them as statements of their own in one transaction, or filter every table to one key value.",
                    ));
                    // What it touches must still be known, so that it can be routed.
                    self.modifying_cte(cte, scope)?;
                }
            }
            scope.ctes.insert(cte.ctename.clone(), Cte { query: cte, recursive: with.recursive });
        }
        Ok(())
    }

    fn modifying_cte(&mut self, cte: &'a ast::CommonTableExpr, scope: &Scope<'a>) -> Result<()> {
        let ctes = scope.ctes.clone();
        let scope = Rc::new(Scope { ctes, ..Default::default() });
        match cte.ctequery.as_deref().and_then(|q| q.node.as_ref()) {
            Some(node) => crate::modify::analyse(self, node, Some(scope)).map(|_| ()),
            None => Ok(()),
        }
    }

    fn from_item(
        &mut self,
        node: &'a Node,
        level: usize,
        scope: &mut Scope<'a>,
        certain: bool,
        conditions: &mut Vec<(&'a Node, bool)>,
    ) -> Result<From> {
        match node.node.as_ref() {
            Some(NodeEnum::RangeVar(rv)) => self.range_var(rv, level, scope, certain),
            Some(NodeEnum::RangeSubselect(sub)) => {
                let Some(NodeEnum::SelectStmt(select)) = sub.subquery.as_deref().and_then(|q| q.node.as_ref()) else {
                    return Err(Refusal::bare("unknown kind of subquery in FROM"));
                };
                // A LATERAL subquery sees the items before it; any subquery sees the levels above.
                let seen = if sub.lateral { Rc::new(Scope { items: scope.items.clone(), merged: scope.merged.clone(), ctes: scope.ctes.clone(), parent: scope.parent.clone() }) } else { Rc::new(Scope { ctes: scope.ctes.clone(), parent: scope.parent.clone(), ..Default::default() }) };
                let inner = self.select(select, Some(seen), self.levels[level].classes, certain)?;
                let alias = sub.alias.as_ref();
                scope.items.push(self.sub_item(inner, alias.map(|a| a.aliasname.as_str()).unwrap_or(""), alias));
                Ok(From::Sub { level: inner, lateral: sub.lateral })
            }
            Some(NodeEnum::JoinExpr(join)) => self.join(join, level, scope, certain, conditions),
            Some(NodeEnum::RangeTableSample(sample)) => {
                self.levels[level].volatile = true;
                match sample.relation.as_deref() {
                    Some(inner) => self.from_item(inner, level, scope, certain, conditions),
                    None => Ok(From::Anywhere),
                }
            }
            other => {
                let alias = match other {
                    Some(NodeEnum::RangeFunction(f)) => f.alias.as_ref(),
                    Some(NodeEnum::RangeTableFunc(f)) => f.alias.as_ref(),
                    Some(NodeEnum::JsonTable(f)) => f.alias.as_ref(),
                    _ => None,
                };
                let seen = Rc::new(Scope { items: scope.items.clone(), merged: scope.merged.clone(), ctes: scope.ctes.clone(), parent: scope.parent.clone() });
                self.expressions(std::iter::once(node), level, &seen, false)?;
                let mut item = Item { alias: alias.map(|a| a.aliasname.clone()).unwrap_or_default(), schema: None, columns: vec![], opaque: true };
                if item.alias.is_empty() && let Some(NodeEnum::RangeFunction(f)) = other {
                    item.alias = function_name(f).unwrap_or_default();
                }
                scope.items.push(item);
                Ok(From::Anywhere)
            }
        }
    }

    fn sub_item(&mut self, level: usize, name: &str, alias: Option<&ast::Alias>) -> Item {
        let (mut columns, opaque) = match &self.levels[level].columns {
            Some(c) => (c.clone(), false),
            None => (vec![], true),
        };
        if let Some(alias) = alias {
            rename(&mut columns, alias);
        }
        Item { alias: name.to_string(), schema: None, columns, opaque }
    }

    fn range_var(&mut self, rv: &'a ast::RangeVar, level: usize, scope: &mut Scope<'a>, certain: bool) -> Result<From> {
        let (schema, name) = names::table(rv);
        let alias = rv.alias.as_ref();
        let shown = alias.map(|a| a.aliasname.as_str()).unwrap_or(name).to_string();
        if schema.is_none()
            && let Some(cte) = scope.cte(name)
        {
            return self.cte_reference(&cte, shown, alias, level, scope, certain);
        }
        let (from, item) = self.relation(rv, level, &shown)?;
        scope.items.push(item);
        Ok(from)
    }

    /// A table named in FROM (or as the target of a write).
    pub fn relation(&mut self, rv: &'a ast::RangeVar, level: usize, shown: &str) -> Result<(From, Item)> {
        let (schema, name) = names::table(rv);
        let alias = rv.alias.as_ref();
        let hidden = schema.is_none() && self.cx.temporary.iter().any(|t| t == name);
        let found = if hidden { None } else { self.cx.snapshot.resolve(schema, name, self.cx.search_path).cloned() };
        let Some(relation) = found else {
            self.needs_home.get_or_insert_with(|| name.to_string());
            let item = Item { alias: shown.to_string(), schema: schema.map(str::to_string), columns: vec![], opaque: true };
            return Ok((From::Home(name.to_string()), item));
        };
        let vars: Vec<Var> = relation
            .columns
            .iter()
            .map(|c| self.new_var(Some((c.type_oid, c.collation_is_bytes))))
            .collect();
        let mut columns: Vec<_> = relation.columns.iter().zip(&vars).map(|(c, v)| (c.name.clone(), Some(*v))).collect();
        if let Some(alias) = alias {
            rename(&mut columns, alias);
        }
        let own_schema = alias.is_none().then(|| relation.schema.clone());
        let item = Item { alias: shown.to_string(), schema: own_schema, columns, opaque: false };
        let from = match &relation.placement {
            Placement::Distributed(d) => {
                self.uses.push(Use {
                    key: d.key.iter().map(|k| vars[*k]).collect(),
                    relation: relation.clone(),
                    classes: self.levels[level].classes,
                    level,
                    range: Some(RangeUse {
                        location: rv.location,
                        schema: schema.map(str::to_string),
                        alias: alias.map(|a| a.aliasname.clone()),
                    }),
                });
                From::Use(self.uses.len() - 1)
            }
            Placement::Reference => {
                self.reads_reference = true;
                From::Reference
            }
            Placement::Local if relation.kind == RelationKind::View && view_is_builtin(&relation) => From::Anywhere,
            Placement::Local => {
                self.needs_home.get_or_insert_with(|| relation.name.clone());
                From::Home(relation.name.clone())
            }
        };
        Ok((from, item))
    }

    fn cte_reference(
        &mut self,
        cte: &Cte<'a>,
        shown: String,
        alias: Option<&ast::Alias>,
        level: usize,
        scope: &mut Scope<'a>,
        certain: bool,
    ) -> Result<From> {
        let Some(NodeEnum::SelectStmt(select)) = cte.query.ctequery.as_deref().and_then(|q| q.node.as_ref()) else {
            // Its tables were counted where WITH was read.
            scope.items.push(Item { alias: shown, schema: None, columns: vec![], opaque: true });
            return Ok(From::Anywhere);
        };
        // The body sees the CTEs above; a recursive one also itself, as something opaque.
        let mut seen = Scope { ctes: visible_ctes(scope), ..Default::default() };
        seen.ctes.remove(&cte.query.ctename);
        let recursive = cte.recursive && mentions(select, &cte.query.ctename);
        let inner = if recursive {
            // Analysed with its own name opaque; never pushed down in parts.
            let own = Cte { query: self_reference(), recursive: false };
            seen.ctes.insert(cte.query.ctename.clone(), own);
            let inner = self.select(select, Some(Rc::new(seen)), self.levels[level].classes, false)?;
            self.levels[inner].refusal = Some(Refusal::new(
                "recursive queries over distributed tables are not supported over several nodes",
                "Filter every distributed table in it to one key value.",
            ));
            inner
        } else {
            self.select(select, Some(Rc::new(seen)), self.levels[level].classes, certain)?
        };
        self.levels[level].ctes.push(inner);
        let mut item = self.sub_item(inner, &shown, None);
        let names = names::strings(&cte.query.aliascolnames);
        for (column, name) in item.columns.iter_mut().zip(names) {
            column.0 = name.to_string();
        }
        if let Some(alias) = alias {
            rename(&mut item.columns, alias);
        }
        scope.items.push(item);
        Ok(From::Sub { level: inner, lateral: false })
    }

    fn join(
        &mut self,
        join: &'a ast::JoinExpr,
        level: usize,
        scope: &mut Scope<'a>,
        certain: bool,
        conditions: &mut Vec<(&'a Node, bool)>,
    ) -> Result<From> {
        let kind = ast::JoinType::try_from(join.jointype).unwrap_or(ast::JoinType::JoinInner);
        let (left_certain, right_certain) = match kind {
            ast::JoinType::JoinInner => (certain, certain),
            ast::JoinType::JoinLeft => (certain, false),
            ast::JoinType::JoinRight => (false, certain),
            _ => (false, false),
        };
        let (Some(larg), Some(rarg)) = (join.larg.as_deref(), join.rarg.as_deref()) else {
            return Err(Refusal::bare("join without sides"));
        };
        let before = scope.items.len();
        let left = self.from_item(larg, level, scope, left_certain, conditions)?;
        let middle = scope.items.len();
        let right = self.from_item(rarg, level, scope, right_certain, conditions)?;
        let mut using: Vec<String> = names::strings(&join.using_clause).iter().map(|s| s.to_string()).collect();
        if join.is_natural {
            let right_names: Vec<String> = scope.items[middle..].iter().flat_map(|i| i.columns.iter().map(|c| c.0.clone())).collect();
            using = scope.items[before..middle]
                .iter()
                .flat_map(|i| i.columns.iter().map(|c| c.0.clone()))
                .filter(|n| right_names.contains(n))
                .collect();
        }
        for column in using {
            let find = |items: &[Item]| items.iter().find_map(|i| i.columns.iter().find(|c| c.0 == column).and_then(|c| c.1));
            let (l, r) = (find(&scope.items[before..middle]), find(&scope.items[middle..]));
            if let (Some(l), Some(r)) = (l, r) {
                self.classes[self.levels[level].classes].union(l, r);
            }
            scope.merged.insert(column, if kind == ast::JoinType::JoinRight { r } else { l });
        }
        if let Some(on) = join.quals.as_deref() {
            // Equalities of an outer join's condition hold wherever both sides are there; its constants do not.
            conditions.push((on, certain && kind == ast::JoinType::JoinInner));
        }
        if let Some(alias) = &join.alias {
            let mut columns: Vec<_> = scope.items[before..].iter().flat_map(|i| i.columns.clone()).collect();
            let opaque = scope.items[before..].iter().any(|i| i.opaque);
            rename(&mut columns, alias);
            scope.items.truncate(before);
            scope.items.push(Item { alias: alias.aliasname.clone(), schema: None, columns, opaque });
        }
        Ok(From::Join { kind, left: Box::new(left), right: Box::new(right) })
    }

    /// Draws equalities from the conditions that are ANDed together.
    pub fn conjuncts(&mut self, node: &'a Node, level: usize, scope: &Scope<'a>, certain: bool) {
        let classes = self.levels[level].classes;
        match node.node.as_ref() {
            Some(NodeEnum::BoolExpr(b)) if b.boolop == ast::BoolExprType::AndExpr as i32 => {
                b.args.iter().for_each(|a| self.conjuncts(a, level, scope, certain));
            }
            Some(NodeEnum::BoolExpr(b)) if b.boolop == ast::BoolExprType::OrExpr as i32 && certain => {
                if let Some((v, values)) = self.or_of_equals(b, scope) {
                    self.classes[classes].restrict(v, values);
                }
            }
            Some(NodeEnum::AExpr(e)) => {
                let kind = ast::AExprKind::try_from(e.kind).unwrap_or(ast::AExprKind::Undefined);
                if names::last(&e.name) != "=" || names::strings(&e.name).len() != 1 {
                    return;
                }
                let (Some(l), Some(r)) = (e.lexpr.as_deref(), e.rexpr.as_deref()) else { return };
                let (lv, rv) = (self.var(l, scope), self.var(r, scope));
                match kind {
                    ast::AExprKind::AexprOp => match (lv, rv) {
                        (Some(a), Some(b)) => self.equate(classes, a, b),
                        (Some(v), None) if certain => self.restrict(classes, v, keys::constant(r).map(|c| vec![c])),
                        (None, Some(v)) if certain => self.restrict(classes, v, keys::constant(l).map(|c| vec![c])),
                        _ => self.row_equality(l, r, level, scope, certain),
                    },
                    ast::AExprKind::AexprIn | ast::AExprKind::AexprOpAny if certain => {
                        if let Some(v) = lv {
                            self.restrict(classes, v, keys::list(r));
                        }
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// `(a, b) = (1, 2)`
    fn row_equality(&mut self, l: &'a Node, r: &'a Node, level: usize, scope: &Scope<'a>, certain: bool) {
        let (Some(NodeEnum::RowExpr(l)), Some(NodeEnum::RowExpr(r))) = (&l.node, &r.node) else { return };
        let classes = self.levels[level].classes;
        for (l, r) in l.args.iter().zip(&r.args) {
            match (self.var(l, scope), self.var(r, scope)) {
                (Some(a), Some(b)) => self.equate(classes, a, b),
                (Some(v), None) if certain => self.restrict(classes, v, keys::constant(r).map(|c| vec![c])),
                _ => {}
            }
        }
    }

    /// Two columns of one type are equal. Other types (int4 = numeric) have other hashes: no conclusion is drawn
    /// for them, but for the integers, which PostgreSQL hashes alike.
    fn equate(&mut self, classes: usize, a: Var, b: Var) {
        if let (Some((x, _)), Some((y, _))) = (self.types[a], self.types[b])
            && (x == y || (is_integer(x) && is_integer(y)) || (is_text(x) && is_text(y)))
        {
            self.classes[classes].union(a, b);
        }
    }

    fn restrict(&mut self, classes: usize, v: Var, values: Option<Vec<KeyExpr>>) {
        if let Some(values) = values {
            self.classes[classes].restrict(v, values);
        }
    }

    fn or_of_equals(&self, b: &'a ast::BoolExpr, scope: &Scope<'a>) -> Option<(Var, Vec<KeyExpr>)> {
        let mut var = None;
        let mut values = Vec::new();
        for arg in &b.args {
            let Some(NodeEnum::AExpr(e)) = &arg.node else { return None };
            let plain = e.kind == ast::AExprKind::AexprOp as i32 && names::strings(&e.name) == ["="];
            let within = e.kind == ast::AExprKind::AexprIn as i32 && names::strings(&e.name) == ["="];
            let (l, r) = (e.lexpr.as_deref()?, e.rexpr.as_deref()?);
            let v = self.var(l, scope)?;
            if *var.get_or_insert(v) != v {
                return None;
            }
            match (plain, within) {
                (true, _) => values.push(keys::constant(r)?),
                (_, true) => values.extend(keys::list(r)?),
                _ => return None,
            }
        }
        Some((var?, values))
    }

    pub fn var(&self, node: &Node, scope: &Scope<'a>) -> Option<Var> {
        scope.resolve(&names::column(node)?)
    }

    /// Looks through expressions for subqueries, aggregates and functions.
    pub fn expressions(&mut self, nodes: impl Iterator<Item = &'a Node>, level: usize, scope: &Rc<Scope<'a>>, upper: bool) -> Result<()> {
        let mut finder = Finder { found: vec![] };
        nodes.for_each(|n| walk::walk(n, &mut finder));
        for found in finder.found {
            match found {
                Found::Sub(select, sublink) => {
                    let test = sublink.and_then(|s| {
                        let any = s.sub_link_type == ast::SubLinkType::AnySublink as i32;
                        let equal = s.oper_name.is_empty() || names::strings(&s.oper_name) == ["="];
                        if any && equal { self.var(s.testexpr.as_deref()?, scope) } else { None }
                    });
                    self.pending.push(Pending { select, test, scope: scope.clone(), level, upper });
                }
                Found::Call(call) => self.function(call, level)?,
            }
        }
        Ok(())
    }

    fn function(&mut self, call: &'a ast::FuncCall, level: usize) -> Result<()> {
        let name = names::last(&call.funcname);
        let overloads: Vec<_> = self.cx.snapshot.functions(name).collect();
        if overloads.iter().any(|f| f.reads_herd_tables) {
            return Err(Refusal::new(
                format!("function {name} reads distributed or reference tables, which a function inside a statement can't do"),
                "Run the function's statements through the router, one by one.",
            ));
        }
        let aggregate = overloads.iter().any(|f| f.kind == FunctionKind::Aggregate);
        if call.over.is_none() && (aggregate || call.agg_star || call.agg_within_group) {
            self.levels[level].aggregates = true;
        }
        if matches!(name, "nextval" | "currval" | "lastval" | "setval" | "pg_notify") || is_home_function(name) {
            self.needs_home.get_or_insert_with(|| format!("{name}()"));
        }
        let volatile = overloads.iter().all(|f| f.volatility == catalog::Volatility::Volatile) && !overloads.is_empty();
        if volatile {
            self.levels[level].volatile = true;
            if overloads.iter().any(|f| f.user_defined) || !is_harmless(name) {
                self.writes = true;
            }
        }
        Ok(())
    }

    /// Output columns: names and variables.
    fn output(&self, s: &'a ast::SelectStmt, scope: &Scope<'a>) -> Option<Vec<(String, Option<Var>)>> {
        let mut columns = Vec::new();
        for t in &s.target_list {
            let Some(NodeEnum::ResTarget(t)) = &t.node else { return None };
            let value = t.val.as_deref()?;
            match &value.node {
                Some(NodeEnum::ColumnRef(c)) if names::has_star(c) => columns.extend(star_columns(c, scope)?.into_iter().map(|(n, v, _)| (n, v))),
                _ => {
                    let name = if t.name.is_empty() { names::figure_column(value) } else { t.name.clone() };
                    columns.push((name, self.var(value, scope)));
                }
            }
        }
        Some(columns)
    }

    /// The variable a GROUP BY or DISTINCT ON item means, by name or by position.
    fn group_var(&self, node: &'a Node, s: &'a ast::SelectStmt, scope: &Scope<'a>) -> Option<Var> {
        let node = crate::rewrite::output_item(node, s, true).unwrap_or(node);
        self.var(node, scope)
    }

    fn windows_of(&self, s: &'a ast::SelectStmt, scope: &Scope<'a>) -> Vec<Vec<Option<Var>>> {
        let mut finder = Windows { calls: vec![] };
        s.target_list.iter().chain(&s.sort_clause).for_each(|n| walk::walk(n, &mut finder));
        let named: HashMap<&str, &ast::WindowDef> = s
            .window_clause
            .iter()
            .filter_map(|w| match &w.node {
                Some(NodeEnum::WindowDef(w)) => Some((w.name.as_str(), w.as_ref())),
                _ => None,
            })
            .collect();
        finder
            .calls
            .iter()
            .map(|w| {
                let mut w = *w;
                let mut hops = 0;
                while w.partition_clause.is_empty() && hops < 32 {
                    let other = if w.refname.is_empty() { w.name.as_str() } else { w.refname.as_str() };
                    match named.get(other) {
                        Some(next) if !std::ptr::eq(*next, w) => w = next,
                        _ => break,
                    }
                    hops += 1;
                }
                w.partition_clause.iter().map(|p| self.var(p, scope)).collect()
            })
            .collect()
    }

    /// Every use of a distributed table with the values its key is known to have.
    pub fn table_keys(&self) -> Vec<TableKeys> {
        self.uses
            .iter()
            .map(|u| TableKeys {
                relation: u.relation.clone(),
                columns: u.key.iter().map(|v| self.classes[u.classes].values(*v).cloned().unwrap_or_default()).collect(),
            })
            .collect()
    }
}

/// The columns `*` or `t.*` stands for: name, variable, and a reference to it.
pub fn star_columns(c: &ast::ColumnRef, scope: &Scope) -> Option<Vec<(String, Option<Var>, Node)>> {
    let qualifier = names::strings(&c.fields);
    // With USING the merged column comes once and first: too easy to get wrong, so it is left to PostgreSQL.
    if !scope.merged.is_empty() && qualifier.is_empty() {
        return None;
    }
    let mut columns = Vec::new();
    let mut matched = false;
    for item in &scope.items {
        if qualifier.last().is_none_or(|q| *q == item.alias) {
            if item.opaque {
                return None;
            }
            matched = true;
            let reference = |n: &str| sql::build::column(&[&item.alias, n]);
            columns.extend(item.columns.iter().map(|(n, v)| (n.clone(), *v, reference(n))));
        }
    }
    matched.then_some(columns)
}

fn view_is_builtin(relation: &Relation) -> bool {
    matches!(relation.schema.as_str(), "pg_catalog" | "information_schema")
}

fn visible_ctes<'a>(scope: &Scope<'a>) -> HashMap<String, Cte<'a>> {
    let mut all = scope.parent.as_deref().map(visible_ctes).unwrap_or_default();
    all.extend(scope.ctes.iter().map(|(n, c)| (n.clone(), c.clone())));
    all
}

fn self_reference() -> &'static ast::CommonTableExpr {
    static EMPTY: std::sync::OnceLock<ast::CommonTableExpr> = std::sync::OnceLock::new();
    EMPTY.get_or_init(ast::CommonTableExpr::default)
}

fn mentions(select: &ast::SelectStmt, name: &str) -> bool {
    struct Find<'n>(&'n str, bool);
    impl Visit<'_> for Find<'_> {
        fn range_var(&mut self, rv: &ast::RangeVar) {
            self.1 |= rv.schemaname.is_empty() && rv.relname == self.0;
        }
    }
    let mut find = Find(name, false);
    walk::select_stmt(select, &mut find);
    find.1
}

fn rename(columns: &mut [(String, Option<Var>)], alias: &ast::Alias) {
    for (column, name) in columns.iter_mut().zip(names::strings(&alias.colnames)) {
        column.0 = name.to_string();
    }
}

fn function_name(f: &ast::RangeFunction) -> Option<String> {
    let Some(NodeEnum::List(l)) = &f.functions.first()?.node else { return None };
    match l.items.first()?.node.as_ref()? {
        NodeEnum::FuncCall(c) => Some(names::last(&c.funcname).to_string()),
        _ => None,
    }
}

pub fn is_integer(oid: u32) -> bool {
    matches!(oid, 20 | 21 | 23)
}

/// text and varchar share hash and equality.
fn is_text(oid: u32) -> bool {
    matches!(oid, 25 | 1043)
}

/// Functions whose answer is about the server or session they run in.
fn is_home_function(name: &str) -> bool {
    name.starts_with("pg_advisory") || name.starts_with("pg_try_advisory") || name.starts_with("lo_")
}

/// Volatile functions of PostgreSQL that change nothing.
fn is_harmless(name: &str) -> bool {
    matches!(
        name,
        "random" | "random_normal" | "clock_timestamp" | "timeofday" | "gen_random_uuid" | "uuidv4" | "uuidv7" | "uuid_generate_v4"
            | "pg_sleep" | "currval" | "lastval" | "pg_relation_size" | "pg_total_relation_size" | "pg_table_size"
            | "pg_database_size" | "pg_size_pretty" | "pg_backend_pid" | "setseed"
    )
}

enum Found<'a> {
    Sub(&'a ast::SelectStmt, Option<&'a ast::SubLink>),
    Call(&'a ast::FuncCall),
}

struct Finder<'a> {
    found: Vec<Found<'a>>,
}

impl<'a> Visit<'a> for Finder<'a> {
    fn node(&mut self, n: &'a NodeEnum) -> bool {
        match n {
            NodeEnum::SubLink(s) => {
                if let Some(test) = s.testexpr.as_deref() {
                    walk::walk(test, self);
                }
                if let Some(NodeEnum::SelectStmt(select)) = s.subselect.as_deref().and_then(|q| q.node.as_ref()) {
                    self.found.push(Found::Sub(select, Some(s)));
                }
                false
            }
            NodeEnum::FuncCall(c) => {
                self.found.push(Found::Call(c));
                true
            }
            _ => true,
        }
    }

    fn select(&mut self, s: &'a ast::SelectStmt) -> bool {
        self.found.push(Found::Sub(s, None));
        false
    }
}

struct Windows<'a> {
    calls: Vec<&'a ast::WindowDef>,
}

impl<'a> Visit<'a> for Windows<'a> {
    fn node(&mut self, n: &'a NodeEnum) -> bool {
        if let NodeEnum::FuncCall(c) = n
            && let Some(over) = c.over.as_deref()
        {
            self.calls.push(over);
        }
        !matches!(n, NodeEnum::SubLink(_))
    }
    fn select(&mut self, _: &'a ast::SelectStmt) -> bool {
        false
    }
}

/// Doors for `modify.rs`: the level of a data-modifying statement is put together there.
impl<'a> Analysis<'a> {
    pub fn new_statement_level(&mut self) -> usize {
        self.new_level(0)
    }

    pub fn statement_with(&mut self, with: &'a ast::WithClause, level: usize, scope: &mut Scope<'a>) -> Result<()> {
        self.with(with, level, scope)
    }

    pub fn statement_from(&mut self, from: &'a [Node], level: usize, mut scope: Scope<'a>, condition: Option<&'a Node>) -> Result<Rc<Scope<'a>>> {
        let mut conditions = Vec::new();
        for item in from {
            let f = self.from_item(item, level, &mut scope, true, &mut conditions)?;
            self.levels[level].from.push(f);
        }
        conditions.extend(condition.map(|c| (c, true)));
        let scope = Rc::new(scope);
        self.scopes.insert(level, scope.clone());
        for (c, certain) in &conditions {
            self.conjuncts(c, level, &scope, *certain);
        }
        self.expressions(conditions.iter().map(|(c, _)| *c), level, &scope, false)?;
        Ok(scope)
    }
}

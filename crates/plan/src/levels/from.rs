//! What a FROM list names: tables, subqueries, common table expressions, joins, functions.
//!
//! Part of `levels.rs`: it collects facts and draws no conclusions.

use std::ops::Range;
use std::rc::Rc;

use catalog::{Column, Placement, Relation, RelationKind};
use sql::ast::{self, Node};
use sql::{NodeEnum, names, relations, search};
use wire::type_oid;

use super::*;
use crate::scope::{Around, Cte, Ctes, Item, Meaning, Owner, Scope};

/// A column that is named in a tree takes so many times what a step stands for.
const REFERENCE: usize = 8;

/// What rows of a place must pass.
pub(super) struct Condition<'a> {
    pub node: &'a Node,
    pub place: JoinDomain,
    /// Of a join within one that has a name of its own: what can be seen there, and not outside.
    pub seen: Option<Rc<Scope<'a>>>,
}

impl Condition<'_> {
    /// A name in it means something else where the join can be seen as a whole.
    pub fn is_misread(&self, whole: &Scope) -> bool {
        let Some(seen) = &self.seen else { return false };
        search::any(self.node, |n| match n {
            NodeEnum::ColumnRef(c) => {
                let parts = names::strings(&c.fields);
                let outside = whole.meaning(&parts);
                !matches!(outside, Meaning::Unknown | Meaning::Nothing) && !outside.is_like(seen.meaning(&parts))
            }
            _ => false,
        })
    }
}

impl<'a> Analysis<'a> {
    pub(crate) fn with(&mut self, with: &'a ast::WithClause, level: usize, scope: &mut Scope<'a>) -> Result<()> {
        let outer = scope.ctes.clone();
        let names = Ctes::names(with);
        let around = Around { level: scope.level, parent: scope.parent.clone() };
        for (i, cte) in with.ctes.iter().enumerate() {
            let Some(NodeEnum::CommonTableExpr(cte)) = &cte.node else { continue };
            match cte.ctequery.as_deref().and_then(|q| q.node.as_ref()) {
                Some(NodeEnum::SelectStmt(_)) => {}
                _ => {
                    (self.writes, self.changes_rows) = (true, true);
                    self.levels[level].refusal = Some(Refusal::new(
                        "data-modifying statements in WITH over several nodes are not supported",
                        "Run them as statements of their own in one transaction, or filter every table to one key value.",
                    ));
                    // What it touches must still be known, so that it can be routed.
                    self.modifying_cte(cte, outer.and(with, names.clone(), i, around.clone()))?;
                }
            }
        }
        scope.ctes = outer.and(with, names, with.ctes.len(), around);
        Ok(())
    }

    fn modifying_cte(&mut self, cte: &'a ast::CommonTableExpr, ctes: Ctes<'a>) -> Result<()> {
        let scope = Rc::new(Scope { ctes, ..Default::default() });
        match cte.ctequery.as_deref().and_then(|q| q.node.as_ref()) {
            Some(node) => {
                crate::modify::analyse(self, node, Some(scope))?;
                Ok(())
            }
            None => Ok(()),
        }
    }

    pub(super) fn read_item(
        &mut self,
        node: &'a Node,
        level: usize,
        scope: &mut Scope<'a>,
        place: JoinDomain,
        conditions: &mut Vec<Condition<'a>>,
    ) -> Result<From> {
        match node.node.as_ref() {
            Some(NodeEnum::RangeVar(rv)) => self.range_var(rv, level, scope, place),
            Some(NodeEnum::RangeSubselect(sub)) => {
                let Some(NodeEnum::SelectStmt(select)) = sub.subquery.as_deref().and_then(|q| q.node.as_ref()) else {
                    return Err(Refusal::bare("unknown kind of subquery in FROM"));
                };
                // A LATERAL subquery sees the items before it; any subquery sees the levels above.
                let seen = if sub.lateral { Rc::new(self.scope_of(scope)) } else { Rc::new(scope.without_items()) };
                let place = self.place_of(select, place);
                let inner = self.select(select, Some(seen), place)?;
                let alias = sub.alias.as_ref();
                scope.items.push(self.sub_item(inner, alias.map(|a| a.aliasname.as_str()).unwrap_or(""), alias));
                Ok(From::Sub { level: inner, lateral: sub.lateral })
            }
            Some(NodeEnum::JoinExpr(join)) => self.join(join, level, scope, place, conditions),
            Some(NodeEnum::RangeTableSample(sample)) => {
                self.levels[level].volatile = true;
                let Some(inner) = sample.relation.as_deref() else { return Ok(From::Anywhere) };
                match self.read_item(inner, level, scope, place, conditions)? {
                    From::Reference => Ok(From::Once),
                    from => Ok(from),
                }
            }
            other => {
                let alias = match other {
                    Some(NodeEnum::RangeFunction(f)) => f.alias.as_ref(),
                    Some(NodeEnum::RangeTableFunc(f)) => f.alias.as_ref(),
                    Some(NodeEnum::JsonTable(f)) => f.alias.as_ref(),
                    _ => None,
                };
                let seen = Rc::new(self.scope_of(scope));
                self.note_narrow(node, level, &seen);
                let around = std::mem::take(&mut self.levels[level].volatile);
                self.expressions(std::iter::once(node), level, &seen, false)?;
                let volatile = std::mem::replace(&mut self.levels[level].volatile, around);
                self.levels[level].volatile |= volatile;
                let named = alias.map(|a| names::strings(&a.colnames)).unwrap_or_default();
                let mut item = Item {
                    alias: alias.map(|a| a.aliasname.clone()).unwrap_or_default(),
                    schema: None,
                    columns: named.into_iter().map(|n| (n.to_string(), None)).collect(),
                    opaque: true,
                };
                if item.alias.is_empty()
                    && let Some(NodeEnum::RangeFunction(f)) = other
                {
                    item.alias = function_name(f).unwrap_or_default();
                }
                scope.items.push(item);
                // Of other items' rows it is computed for each of them.
                Ok(if volatile && !names_columns(node, &seen) { From::Once } else { From::Anywhere })
            }
        }
    }

    /// Where the rows of a subquery in FROM are. An aggregate without GROUP BY is a row even of none: what its rows must pass says
    /// nothing of the rows beside it, which it may name.
    fn place_of(&mut self, s: &ast::SelectStmt, place: JoinDomain) -> JoinDomain {
        let is_aggregate = |n: &NodeEnum| match n {
            NodeEnum::FuncCall(f) => {
                let known = || self.cx.functions(&f.funcname).any(|f| f.kind == catalog::FunctionKind::Aggregate);
                f.over.is_none() && (f.agg_star || f.agg_within_group || known())
            }
            NodeEnum::JsonArrayAgg(_) | NodeEnum::JsonObjectAgg(_) => true,
            _ => false,
        };
        let computed = || s.target_list.iter().chain(&s.sort_clause).chain(&s.distinct_clause).chain(&s.window_clause);
        let aggregates = || computed().any(|n| search::any(n, is_aggregate));
        let of_none = match &s.group_clause[..] {
            [] => s.having_clause.is_some() || aggregates(),
            group => group.iter().any(|g| matches!(g.node, Some(NodeEnum::GroupingSet(_)))),
        };
        if of_none { self.classes.inside(place) } else { place }
    }

    fn note_narrow(&mut self, part: &'a Node, level: usize, seen: &Rc<Scope<'a>>) {
        if let Some(narrow) = &mut self.narrow {
            narrow.push(Narrow { part, level, seen: seen.clone() });
        }
    }

    /// A scope as it is now, for what sees the items before it.
    fn scope_of(&self, scope: &Scope<'a>) -> Scope<'a> {
        self.cx
            .take(scope.items.iter().map(|i| i.columns.len()).sum::<usize>() + scope.merged.len() + scope.joins.len());
        scope.clone()
    }

    fn sub_item(&mut self, level: usize, name: &str, alias: Option<&ast::Alias>) -> Item {
        let (mut columns, opaque) = match &self.levels[level].columns {
            Some(c) => (c.clone(), false),
            None => (vec![], true),
        };
        self.cx.take(columns.len());
        if let Some(alias) = alias {
            rename(&mut columns, alias);
        }
        Item { alias: name.to_string(), schema: None, columns, opaque }
    }

    fn range_var(
        &mut self,
        rv: &'a ast::RangeVar,
        level: usize,
        scope: &mut Scope<'a>,
        place: JoinDomain,
    ) -> Result<From> {
        let (schema, name) = names::table(rv);
        let alias = rv.alias.as_ref();
        let shown = alias.map(|a| a.aliasname.as_str()).unwrap_or(name).to_string();
        if schema.is_none()
            && let Some(cte) = scope.ctes.find(name)
        {
            return self.cte_reference(cte, shown, alias, level, scope, place);
        }
        let (from, item) = self.relation(rv, level, &shown, place)?;
        scope.items.push(item);
        Ok(from)
    }

    /// A table named in FROM (or as the target of a write).
    pub fn relation(
        &mut self,
        rv: &'a ast::RangeVar,
        level: usize,
        shown: &str,
        place: JoinDomain,
    ) -> Result<(From, Item)> {
        let (schema, name) = names::table(rv);
        let alias = rv.alias.as_ref();
        let Some(relation) = self.cx.relation(rv).cloned() else {
            self.needs_home.get_or_insert_with(|| name.to_string());
            let item =
                Item { alias: shown.to_string(), schema: schema.map(str::to_string), columns: vec![], opaque: true };
            return Ok((From::Home(name.to_string()), item));
        };
        self.cx.take(relation.columns.len());
        let mut var = |c: &Column| {
            // Where strings of other bytes are equal, equal to one string does not mean equal to each other.
            self.new_var(c.collation_deterministic.then_some((c.type_oid, c.collation_is_bytes)))
        };
        let vars: Vec<Var> = relation.columns.iter().map(&mut var).collect();
        let mut columns: Vec<_> = relation.columns.iter().zip(&vars).map(|(c, v)| (c.name.clone(), Some(*v))).collect();
        if let Some(alias) = alias {
            rename(&mut columns, alias);
        }
        let own_schema = alias.is_none().then(|| relation.schema.clone());
        let item = Item { alias: shown.to_string(), schema: own_schema, columns, opaque: false };
        let from = match &relation.placement {
            Placement::Distributed(d) => {
                let key = d.key.iter().map(|k| vars.get(*k).copied().unwrap_or_else(|| self.new_var(None))).collect();
                self.uses.push(Use {
                    key,
                    columns: vars,
                    relation: relation.clone(),
                    classes: place,
                    level,
                    range: Some(RangeUse {
                        location: rv.location,
                        schema: schema.map(str::to_string),
                        alias: alias.map(|a| a.aliasname.clone()),
                    }),
                });
                let number = self.uses.len() - 1;
                self.ranges.entry(std::ptr::from_ref(rv)).or_default().push(number);
                From::Use(number)
            }
            Placement::Reference => {
                self.reads_reference = true;
                self.reference_tables.push(relation.clone());
                self.references.entry(std::ptr::from_ref(rv)).or_default().push(vars);
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
        cte: Cte<'a>,
        shown: String,
        alias: Option<&ast::Alias>,
        level: usize,
        scope: &mut Scope<'a>,
        place: JoinDomain,
    ) -> Result<From> {
        let opaque = |alias| Item { alias, schema: None, columns: vec![], opaque: true };
        // A recursive query is something opaque to itself.
        let Cte::Query(query, ctes, around) = cte else {
            scope.items.push(opaque(shown));
            return Ok(From::Anywhere);
        };
        let Some(NodeEnum::SelectStmt(select)) = query.ctequery.as_deref().and_then(|q| q.node.as_ref()) else {
            // Its tables were counted where WITH was read.
            scope.items.push(opaque(shown));
            return Ok(From::Anywhere);
        };
        let recursive = ctes.is_within(query) && mentions(select, &query.ctename);
        // Its own level sees what is around that of the WITH clause.
        let seen = Scope { ctes, level: around.level, parent: around.parent, ..Default::default() };
        let inner = if recursive {
            // Never pushed down in parts.
            // What is asked of its rows is not asked of those they come from.
            let own = self.classes.inside(Classes::WHOLE);
            let inner = self.select(select, Some(Rc::new(seen)), own)?;
            self.levels[inner].refusal = Some(Refusal::new(
                "recursive queries over distributed tables are not supported over several nodes",
                "Filter every distributed table in it to one key value.",
            ));
            inner
        } else {
            let shared = self.shared.contains(&std::ptr::from_ref(select.as_ref()));
            let place = if shared { self.classes.alone() } else { self.place_of(select, place) };
            self.select(select, Some(Rc::new(seen)), place)?
        };
        self.named.entry(std::ptr::from_ref(select.as_ref())).or_default().push(inner);
        self.levels[level].ctes.push(inner);
        let mut item = self.sub_item(inner, &shown, None);
        let names = names::strings(&query.aliascolnames);
        for (column, name) in item.columns.iter_mut().zip(names) {
            column.0 = name.to_string();
        }
        if let Some(alias) = alias {
            rename(&mut item.columns, alias);
        }
        scope.items.push(item);
        Ok(From::Sub { level: inner, lateral: false })
    }

    /// The column that USING makes of two that are equal at `place`, where `own` is there. Of two types it has the one that both become
    /// (`buildMergedJoinVar` in parse_clause.c), which is another variable then; `None`: it may be another value than both.
    fn merged(&mut self, own: Option<Var>, other: Option<Var>, place: JoinDomain) -> Option<Var> {
        let own = own?;
        let Some((ty, bytes)) = self.types[own] else { return Some(own) };
        let (with, with_bytes) = self.types[other?]?;
        let common =
            match (ty, with) {
                (ty, with) if ty == with => return Some(own),
                (ty, with) if type_oid::is_integer(ty) && type_oid::is_integer(with) => {
                    if type_oid::is_wider(ty, with) { ty } else { with }
                }
                (ty, with) if type_oid::is_text(ty) && type_oid::is_text(with) => type_oid::TEXT,
                _ => return None,
            };
        let merged = self.new_var(Some((common, bytes && with_bytes)));
        self.equate(place, own, merged);
        Some(merged)
    }

    fn join(
        &mut self,
        join: &'a ast::JoinExpr,
        level: usize,
        scope: &mut Scope<'a>,
        place: JoinDomain,
        conditions: &mut Vec<Condition<'a>>,
    ) -> Result<From> {
        let kind = ast::JoinType::try_from(join.jointype).unwrap_or(ast::JoinType::JoinInner);
        // Rows of a side that may be left out matter only where the join's condition is true.
        let (left_place, right_place, on) = match kind {
            ast::JoinType::JoinInner => (place, place, place),
            ast::JoinType::JoinLeft => {
                let right = self.classes.inside(place);
                (place, right, right)
            }
            ast::JoinType::JoinRight => {
                let left = self.classes.inside(place);
                (left, place, left)
            }
            _ => (self.classes.inside(place), self.classes.inside(place), self.classes.inside(place)),
        };
        let (Some(larg), Some(rarg)) = (join.larg.as_deref(), join.rarg.as_deref()) else {
            return Err(Refusal::bare("join without sides"));
        };
        let (before, merged_before, first) = (scope.items.len(), self.merged.len(), conditions.len());
        let outside = if join.alias.is_some() { scope.merged.clone() } else { HashMap::new() };
        let left = self.read_item(larg, level, scope, left_place, conditions)?;
        let middle = scope.items.len();
        let right = self.read_item(rarg, level, scope, right_place, conditions)?;
        let nullable = match kind {
            ast::JoinType::JoinLeft => &scope.items[middle..],
            ast::JoinType::JoinRight => &scope.items[before..middle],
            _ => &[],
        };
        let nullable: Vec<Var> = nullable.iter().flat_map(|i| i.columns.iter().filter_map(|c| c.1)).collect();
        if !nullable.is_empty() {
            self.cx.take(nullable.len());
            self.outer.push(Outer { place, on, nullable, equal: vec![], looked: false, needed: false, reduced: false });
        }
        let mut using: Vec<String> = names::strings(&join.using_clause).iter().map(|s| s.to_string()).collect();
        if join.is_natural {
            let flat = |items: Range<usize>| -> Vec<String> {
                let star = scope.star(items.clone()).map(|star| star.into_iter().map(|(name, ..)| name).collect());
                let own = || scope.items[items].iter().flat_map(|i| &i.columns).map(|c| c.0.clone()).collect();
                star.unwrap_or_else(own)
            };
            let right: HashSet<String> = flat(middle..scope.items.len()).into_iter().collect();
            using = flat(before..middle).into_iter().filter(|n| right.contains(n)).collect();
        }
        let (mut merged_here, mut once): (Vec<String>, HashSet<&str>) = Default::default();
        merged_here.extend(using.iter().filter(|name| once.insert(name.as_str())).cloned());
        let equal = self.is_equality(&[]);
        let (mut left_vars, mut right_vars) = (HashMap::new(), HashMap::new());
        if !using.is_empty() {
            self.cx.take(scope.items[before..].iter().map(|i| i.columns.len()).sum());
            (left_vars, right_vars) = (by_name(&scope.items[before..middle]), by_name(&scope.items[middle..]));
        }
        for column in using {
            let find = |vars: &HashMap<&str, Option<Var>>| vars.get(column.as_str()).copied().flatten();
            let (l, r) = (find(&left_vars), find(&right_vars));
            if let (Some(l), Some(r)) = (l, r)
                && equal
            {
                self.equate(on, l, r);
            }
            let merged = match kind {
                ast::JoinType::JoinInner | ast::JoinType::JoinLeft => self.merged(l, r, place),
                ast::JoinType::JoinRight => self.merged(r, l, place),
                // Neither side's: the one that is there.
                _ => None,
            };
            self.merged.push(column.clone());
            scope.merged.insert(column, merged);
        }
        if let Some(quals) = join.quals.as_deref() {
            if self.narrow.is_some() {
                let seen = scope.of_join(before, &self.merged[merged_before..]);
                self.cx.take(seen.items.iter().map(|i| i.columns.len()).sum());
                self.note_narrow(quals, level, &Rc::new(seen));
            }
            conditions.push(Condition { node: quals, place: on, seen: None });
        }
        if !merged_here.is_empty() {
            let columns = scope.note_join(before, middle, &merged_here);
            self.cx.take(columns * REFERENCE);
        }
        if let Some(alias) = &join.alias {
            let seen = Rc::new(scope.of_join(before, &self.merged[merged_before..]));
            self.cx.take(seen.items.iter().map(|i| i.columns.len()).sum());
            conditions[first..].iter_mut().for_each(|c| _ = c.seen.get_or_insert_with(|| seen.clone()));
            scope.name_join(before, alias, &merged_here, outside);
            self.merged.truncate(merged_before);
        }
        Ok(From::Join { kind, place, on, left: Box::new(left), right: Box::new(right) })
    }
}

/// What each name means in an item of FROM: the first column that is known, of each item its first of the name.
fn by_name(items: &[Item]) -> HashMap<&str, Option<Var>> {
    let mut all: HashMap<&str, Option<Var>> = HashMap::new();
    for item in items {
        let mut own = HashMap::new();
        item.columns.iter().for_each(|(name, var)| _ = own.entry(name.as_str()).or_insert(*var));
        for (name, var) in own {
            let known = all.entry(name).or_default();
            *known = known.or(var);
        }
    }
    all
}

/// A view of PostgreSQL's own, which every node has.
pub(crate) fn view_is_builtin(relation: &Relation) -> bool {
    matches!(relation.schema.as_str(), "pg_catalog" | "information_schema")
}

fn mentions(select: &ast::SelectStmt, name: &str) -> bool {
    relations::of_select(select).iter().any(|rv| rv.schemaname.is_empty() && rv.relname == name)
}

fn rename(columns: &mut [(String, Option<Var>)], alias: &ast::Alias) {
    for (column, name) in columns.iter_mut().zip(names::strings(&alias.colnames)) {
        column.0 = name.to_string();
    }
}

pub(crate) fn function_name(f: &ast::RangeFunction) -> Option<String> {
    let Some(NodeEnum::List(l)) = &f.functions.first()?.node else { return None };
    match l.items.first()?.node.as_ref()? {
        NodeEnum::FuncCall(c) => Some(names::last(&c.funcname).to_string()),
        _ => None,
    }
}

/// A column that can be seen from there is in it.
pub(crate) fn names_columns(node: &Node, seen: &Scope) -> bool {
    search::any(node, |n| match n {
        NodeEnum::ColumnRef(c) => matches!(seen.owner(&names::strings(&c.fields)), Owner::Level(_)),
        _ => false,
    })
}

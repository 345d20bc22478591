//! Which names of a statement stand for variables: parameters come into their place. Where a name could be a column's, too, nobody here
//! decides: PL/pgSQL calls that an error, SQL takes the column. Which columns tables have is asked.

use std::collections::BTreeSet;

use super::{Block, Expression, Kind, Program, Query, Slot, Step, Variable};
use crate::ast;
use crate::body::{SYSTEM_COLUMNS, Unread, names_columns};
use crate::{NodeEnum, names, relations, search};

/// The columns of a table or view; none: nobody knows them.
pub type Columns<'c> = &'c dyn Fn(&ast::RangeVar) -> Option<Vec<String>>;

const UNCLEAR: Unread = "has names that may be both a column's and a variable's";

impl Program {
    /// Puts parameters in place of the names of variables, everywhere.
    ///
    /// # Errors
    /// Why that can't be told.
    pub fn resolve(&mut self, columns: Columns) -> Result<(), Unread> {
        // SQL counts what a call gives, PL/pgSQL all parameters; and does not see the outputs.
        let numbers = if self.gives_last { self.arguments.clone() } else { (0..self.parameters).collect() };
        let mut scope = Scope { names: vec![], records: vec![], labels: vec![], numbers: numbers.clone(), columns };
        scope.labels.extend(self.name.clone());
        let found = self.variables.iter().position(|v| v.name.as_deref() == Some("found"));
        for at in numbers.into_iter().chain(found) {
            scope.sees(at, &self.variables);
        }
        scope.block(&mut self.block, &mut self.variables)
    }
}

struct Scope<'c> {
    names: Vec<(String, usize)>,
    records: Vec<(String, usize)>,
    /// Names that variables can be qualified by.
    labels: Vec<String>,
    /// What `$1`, `$2` … are.
    numbers: Vec<usize>,
    columns: Columns<'c>,
}

impl Scope<'_> {
    /// A variable has a name from here on.
    fn sees(&mut self, at: usize, variables: &[Variable]) {
        let Some(name) = variables[at].name.clone() else { return };
        // The inner one hides those of its name.
        self.names.retain(|(n, _)| *n != name);
        self.records.retain(|(n, _)| *n != name);
        match variables[at].kind {
            Kind::Record => self.records.push((name, at)),
            _ => self.names.push((name, at)),
        }
    }

    fn block(&mut self, block: &mut Block, own: &mut Vec<Variable>) -> Result<(), Unread> {
        let around = (self.names.clone(), self.records.clone());
        self.labels.extend(block.label.clone());
        for at in &block.declared {
            // A variable begins with what those before it are.
            if let Some(mut first) = own[*at].first.take() {
                self.expression(&mut first)?;
                own[*at].first = Some(first);
            }
            self.sees(*at, own);
        }
        self.steps(&mut block.steps, own)?;
        for handler in &mut block.handlers {
            let before = self.names.clone();
            for name in ["sqlstate", "sqlerrm"] {
                if let Some(at) = own.iter().position(|v| v.name.as_deref() == Some(name)) {
                    self.sees(at, own);
                }
            }
            self.steps(&mut handler.steps, own)?;
            self.names = before;
        }
        (self.names, self.records) = around;
        Ok(())
    }

    fn query(&self, query: &mut Query) -> Result<(), Unread> {
        match query {
            Query::Static(e) => self.expression(e),
            Query::Dynamic(text, using) => {
                self.expression(text)?;
                using.iter_mut().try_for_each(|e| self.expression(e))
            }
        }
    }

    fn steps(&mut self, steps: &mut [Step], own: &mut Vec<Variable>) -> Result<(), Unread> {
        steps.iter_mut().try_for_each(|step| self.step(step, own))
    }

    /// With a variable that only these steps see.
    fn within(&mut self, variable: usize, own: &mut Vec<Variable>, steps: &mut [Step]) -> Result<(), Unread> {
        let before = self.names.clone();
        self.sees(variable, own);
        let done = self.steps(steps, own);
        self.names = before;
        done
    }

    fn step(&mut self, step: &mut Step, own: &mut Vec<Variable>) -> Result<(), Unread> {
        match step {
            Step::Block(b) => self.block(b, own),
            Step::Assign(_, e) | Step::Perform(e) => self.expression(e),
            Step::If(when, otherwise) => {
                for (e, steps) in when {
                    self.expression(e)?;
                    self.steps(steps, own)?;
                }
                self.steps(otherwise, own)
            }
            Step::Case { value, when, otherwise } => {
                let before = self.names.clone();
                if let Some((at, e)) = value {
                    self.expression(e)?;
                    self.sees(*at, own);
                }
                for (e, steps) in when {
                    self.expression(e)?;
                    self.steps(steps, own)?;
                }
                self.names = before;
                otherwise.iter_mut().try_for_each(|steps| self.steps(steps, own))
            }
            Step::Loop(l) => {
                self.labels.extend(l.label.clone());
                self.steps(&mut l.steps, own)
            }
            Step::While(e, l) => {
                self.labels.extend(l.label.clone());
                self.expression(e)?;
                self.steps(&mut l.steps, own)
            }
            Step::Count { variable, lower, upper, by, steps, .. } => {
                self.labels.extend(steps.label.clone());
                self.expression(lower)?;
                self.expression(upper)?;
                by.iter_mut().try_for_each(|e| self.expression(e))?;
                self.within(*variable, own, &mut steps.steps)
            }
            Step::Rows { query, steps, .. } => {
                self.labels.extend(steps.label.clone());
                self.query(query)?;
                self.steps(&mut steps.steps, own)
            }
            Step::Jump(_, e) | Step::Return(e) | Step::ReturnNext(e) => {
                e.iter_mut().try_for_each(|e| self.expression(e))
            }
            Step::Raise(r) => {
                r.values.iter_mut().try_for_each(|e| self.expression(e))?;
                r.options.iter_mut().try_for_each(|(_, e)| self.expression(e))
            }
            Step::Run { statement: query, .. } | Step::ReturnRows(query) => self.query(query),
            Step::CountRows(_) => Ok(()),
        }
    }

    fn expression(&self, e: &mut Expression) -> Result<(), Unread> {
        let mut found: BTreeSet<String> = BTreeSet::new();
        let mut unread = None;
        search::each(&*e.tree, |n| {
            let NodeEnum::ColumnRef(c) = n else { return };
            let parts = names::strings(&c.fields);
            match parts[..] {
                [name] if self.is(&self.names, name) && !names::has_star(c) => drop(found.insert(name.to_string())),
                [name] if self.is(&self.records, name) => unread = Some("uses a record as a whole"),
                [first, _] if self.is(&self.records, first) => {
                    found.insert(first.to_string());
                }
                [first, _, ..] if self.labels.iter().any(|l| l == first) => {
                    unread = Some("names a variable by its block or by its function");
                }
                _ => {}
            }
        });
        if let Some(why) = unread {
            return Err(why);
        }
        self.levels(&e.tree, &found)?;
        let mut uses: Vec<Slot> = vec![];
        let mut number = |slot: Slot| {
            let at = uses.iter().position(|s| *s == slot).unwrap_or_else(|| {
                uses.push(slot);
                uses.len() - 1
            });
            NodeEnum::ParamRef(ast::ParamRef { number: at as i32 + 1, location: -1 })
        };
        search::each_mut(&mut e.tree, |n| {
            match n {
                // `$1` is the first argument.
                NodeEnum::ParamRef(p) => {
                    if let Some(at) = usize::try_from(p.number - 1).ok().and_then(|at| self.numbers.get(at)) {
                        *n = number(Slot::Variable(*at));
                    }
                    return false;
                }
                // A column that a variable alone makes has the variable's name.
                NodeEnum::ResTarget(t) if t.name.is_empty() => {
                    if let Some(NodeEnum::ColumnRef(c)) = t.val.as_deref().and_then(|v| v.node.as_ref())
                        && let Some(name) = names::strings(&c.fields).last()
                        && !names::has_star(c)
                    {
                        t.name = (*name).to_string();
                    }
                    return true;
                }
                NodeEnum::ColumnRef(c) => {
                    let parts = names::strings(&c.fields);
                    let slot = match parts[..] {
                        [name] => self.place(&self.names, name).map(Slot::Variable),
                        [first, field] => self.place(&self.records, first).map(|at| Slot::Field(at, field.to_string())),
                        _ => None,
                    };
                    if let Some(slot) = slot {
                        *n = number(slot);
                        return false;
                    }
                    return true;
                }
                _ => {}
            }
            true
        });
        let text = crate::deparse(&e.tree).map_err(|_| "can't be read")?;
        // With the places of its own text.
        *e = Expression { uses, ..Expression::of(&text)? };
        Ok(())
    }

    fn is(&self, list: &[(String, usize)], name: &str) -> bool {
        list.iter().any(|(n, _)| n == name)
    }

    /// The innermost of its name.
    fn place(&self, list: &[(String, usize)], name: &str) -> Option<usize> {
        list.iter().rev().find(|(n, _)| n == name).map(|(_, at)| *at)
    }

    /// None of the names that are read anywhere in a query can be a column's of its own tables: it does not see those of queries in it.
    fn levels(&self, query: &NodeEnum, variables: &BTreeSet<String>) -> Result<(), Unread> {
        let mut found = BTreeSet::new();
        search::each(query, |n| {
            if let NodeEnum::ColumnRef(c) = n
                && let Some(first) = names::strings(&c.fields).first()
                && variables.contains(*first)
            {
                found.insert(first.to_string());
            }
        });
        if found.is_empty() {
            return Ok(());
        }
        let mut own = query.clone();
        let mut inner = vec![];
        search::each_mut(&mut own, |n| match n {
            NodeEnum::SubLink(s) => {
                inner.extend(s.subselect.take().and_then(|q| q.node));
                true
            }
            _ => true,
        });
        self.clear(&own, &found)?;
        inner.iter().try_for_each(|query| self.levels(query, &found))
    }

    /// None of the names can be a column's, a table's or an output's.
    fn clear(&self, statement: &NodeEnum, found: &BTreeSet<String>) -> Result<(), Unread> {
        let has = |name: &str| found.contains(name);
        // The columns of a table that rows are inserted into are not seen by VALUES.
        let target = match statement {
            NodeEnum::InsertStmt(i)
                if i.on_conflict_clause.is_none() && i.returning_clause.is_none() && i.with_clause.is_none() =>
            {
                i.relation.as_ref().map(names::table)
            }
            _ => None,
        };
        let named = relations::of(statement);
        let is_target = |rv: &ast::RangeVar| target.is_some_and(|t| names::table(rv) == t) && rv.alias.is_none();
        let is_with = |rv: &ast::RangeVar| {
            search::any(statement, |n| matches!(n, NodeEnum::CommonTableExpr(c) if c.ctename == rv.relname))
        };
        let mut seen_target = false;
        for rv in named {
            if !seen_target && is_target(rv) {
                seen_target = true;
                continue;
            }
            if has(&rv.relname) || is_with(rv) && rv.schemaname.is_empty() {
                // What WITH queries give is looked at where they stand.
                if has(&rv.relname) {
                    return Err(UNCLEAR);
                }
                continue;
            }
            let columns = (self.columns)(rv).ok_or(UNCLEAR)?;
            if columns.iter().any(|c| has(c)) {
                return Err(UNCLEAR);
            }
        }
        if SYSTEM_COLUMNS.iter().any(|c| has(c)) || ["excluded", "old", "new"].iter().any(|c| has(c)) {
            return Err(UNCLEAR);
        }
        let is_name = |n: &NodeEnum| match n {
            NodeEnum::Alias(a) => has(&a.aliasname) || names::strings(&a.colnames).iter().any(|c| has(c)),
            NodeEnum::CommonTableExpr(c) => has(&c.ctename) || names::strings(&c.aliascolnames).iter().any(|c| has(c)),
            NodeEnum::ResTarget(t) => has(&t.name),
            _ => false,
        };
        let is_alias = |n: &NodeEnum| {
            alias(n).is_some_and(|a| has(&a.aliasname) || names::strings(&a.colnames).iter().any(|c| has(c)))
        };
        let target_alias =
            |rv: Option<&ast::RangeVar>| rv.and_then(|rv| rv.alias.as_ref()).is_some_and(|a| has(&a.aliasname));
        let of_target = match statement {
            NodeEnum::InsertStmt(s) => target_alias(s.relation.as_ref()),
            NodeEnum::UpdateStmt(s) => target_alias(s.relation.as_ref()),
            NodeEnum::DeleteStmt(s) => target_alias(s.relation.as_ref()),
            NodeEnum::MergeStmt(s) => target_alias(s.relation.as_ref()),
            _ => false,
        };
        // A column that says no name has one all the same, and ORDER BY, GROUP BY and DISTINCT ON mean that one first.
        let is_sorted = |n: &NodeEnum| match n {
            NodeEnum::SelectStmt(s) => {
                !s.sort_clause.is_empty() || !s.group_clause.is_empty() || !s.distinct_clause.is_empty()
            }
            _ => false,
        };
        let is_implied = |n: &NodeEnum| match n {
            NodeEnum::ResTarget(t) if t.name.is_empty() => {
                t.val.as_deref().is_some_and(|v| has(&names::figure_column(v)))
            }
            _ => false,
        };
        let sorted = is_sorted(statement) || search::any(statement, is_sorted);
        if sorted && search::any(statement, is_implied) {
            return Err(UNCLEAR);
        }
        if of_target || names_columns(statement) || search::any(statement, |n| is_name(n) || is_alias(n)) {
            return Err(UNCLEAR);
        }
        Ok(())
    }
}

fn alias(n: &NodeEnum) -> Option<&ast::Alias> {
    match n {
        NodeEnum::RangeVar(r) => r.alias.as_ref(),
        NodeEnum::RangeSubselect(r) => r.alias.as_ref(),
        NodeEnum::RangeFunction(r) => r.alias.as_ref(),
        NodeEnum::JoinExpr(j) => j.alias.as_ref().or(j.join_using_alias.as_ref()),
        _ => None,
    }
}

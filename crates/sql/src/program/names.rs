//! Which names of a statement stand for variables: parameters come into their place. Where a name could be a column's, too, nobody here
//! decides: PL/pgSQL calls that an error, SQL takes the column. Which columns tables have is asked.

use std::collections::BTreeSet;

use super::scope::{Found, Scope};
use super::{Conflict, Expression, Program, Slot};
use crate::ast;
use crate::body::{SYSTEM_COLUMNS, Unread, names_columns};
use crate::{NodeEnum, build, names, relations, search};

/// The columns of a table or view; none: nobody knows them.
pub type Columns<'c> = &'c dyn Fn(&ast::RangeVar) -> Option<Vec<String>>;
/// Whether a variable is a row, which has fields.
pub type Rows<'c> = &'c dyn Fn(usize) -> bool;

const UNCLEAR: Unread = "has names that may be both a column's and a variable's";

impl Program {
    /// Its expressions, with parameters in place of the names of variables; or why that can't be told.
    pub fn resolved(&self, columns: Columns, rows: Rows) -> Vec<Result<Expression, Unread>> {
        // SQL counts what a call gives, PL/pgSQL all parameters.
        let numbers = if self.gives_last { self.arguments.clone() } else { (0..self.parameters).collect() };
        let collations = self.variables.iter().map(|v| v.collation.clone()).collect();
        let names = Names { numbers, columns, rows, collations, conflict: self.conflict };
        let resolved = |e: &Expression| {
            let mut e = e.clone();
            match takes_parameters(&e.tree) {
                true => names.expression(&mut e).map(|()| e),
                false => Ok(e),
            }
        };
        self.expressions.iter().map(resolved).collect()
    }
}

/// Names of variables mean something in it: other statements PostgreSQL gives no parameters.
fn takes_parameters(tree: &NodeEnum) -> bool {
    use NodeEnum::{DeleteStmt, InsertStmt, MergeStmt, SelectStmt, UpdateStmt};
    let is_about_rows = matches!(tree, SelectStmt(_) | InsertStmt(_) | UpdateStmt(_) | DeleteStmt(_) | MergeStmt(_));
    is_about_rows || query_inside(tree).is_some()
}

/// The query of a statement that has one, and names nothing besides that variables could be confused with.
fn query_inside(tree: &NodeEnum) -> Option<&NodeEnum> {
    match tree {
        NodeEnum::CreateTableAsStmt(c) => c.query.as_deref(),
        NodeEnum::ExplainStmt(e) => e.query.as_deref(),
        NodeEnum::DeclareCursorStmt(d) => d.query.as_deref(),
        _ => None,
    }
    .and_then(|n| n.node.as_ref())
}

struct Names<'c> {
    /// What `$1`, `$2` … are.
    numbers: Vec<usize>,
    columns: Columns<'c>,
    rows: Rows<'c>,
    /// By what variables are compared.
    collations: Vec<Option<Vec<String>>>,
    conflict: Conflict,
}

/// What a name in a statement stands for.
struct Meant {
    slot: Slot,
    /// All columns of a row.
    star: bool,
}

/// Names of variables in a statement: those that stand by themselves, and those in front of a dot.
#[derive(Default)]
struct Said {
    alone: BTreeSet<String>,
    in_front: BTreeSet<String>,
}

impl Said {
    fn any(&self, name: &str) -> bool {
        self.alone.contains(name) || self.in_front.contains(name)
    }
}

impl Names<'_> {
    fn meant(&self, c: &ast::ColumnRef, scope: &Scope) -> Option<Meant> {
        let (parts, star) = (names::strings(&c.fields), names::has_star(c));
        let Found { variable, names } = scope.find(&parts, self.rows)?;
        match (&parts[names..], star) {
            ([], true) if (self.rows)(variable) => Some(Meant { slot: Slot::Variable(variable), star }),
            ([], false) => Some(Meant { slot: Slot::Variable(variable), star }),
            ([field], false) => Some(Meant { slot: Slot::Field(variable, (*field).to_string()), star }),
            _ => None,
        }
    }

    fn expression(&self, e: &mut Expression) -> Result<(), Unread> {
        let mut columns = BTreeSet::new();
        if self.conflict == Conflict::Variable {
            if sorts_by_output(&e.tree, &self.said(&e.tree, &e.scope)) {
                return Err(UNCLEAR);
            }
        } else {
            self.levels(&e.tree, &e.scope, &mut columns)?;
        }
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
                    let is_column = matches!(&names::strings(&c.fields)[..], [one] if columns.contains(*one));
                    if let Some(meant) = self.meant(c, &e.scope).filter(|_| !is_column) {
                        let collation = match &meant.slot {
                            Slot::Variable(at) => self.collations[*at].as_deref(),
                            Slot::Field(..) => None,
                        };
                        let value = number(meant.slot);
                        *n = match (meant.star, collation) {
                            (true, _) => all_columns(value),
                            (false, Some(collation)) => compared_by(value, collation),
                            (false, None) => value,
                        };
                        return false;
                    }
                    return true;
                }
                _ => {}
            }
            true
        });
        let current_of = search::find(&*e.tree, |n| match n {
            NodeEnum::CurrentOfExpr(c) => e.scope.find(&[&c.cursor_name], self.rows).map(|found| found.variable),
            _ => None,
        });
        (e.uses, e.current_of) = (uses, current_of);
        *e = e.with_tree(&e.tree)?;
        Ok(())
    }

    /// The names of variables that are read anywhere in a query.
    fn said(&self, query: &NodeEnum, scope: &Scope) -> Said {
        let mut said = Said::default();
        search::each(query, |n| {
            let NodeEnum::ColumnRef(c) = n else { return };
            if self.meant(c, scope).is_none() {
                return;
            }
            match (&names::strings(&c.fields)[..], names::has_star(c)) {
                ([one], false) => drop(said.alone.insert((*one).to_string())),
                ([first, second, ..], _) => {
                    said.in_front.insert((*first).to_string());
                    said.in_front.insert((*second).to_string());
                }
                ([one], true) => drop(said.in_front.insert((*one).to_string())),
                ([], _) => {}
            }
        });
        said
    }

    /// None of the names that are read anywhere in a query can be a column's of its own tables: it does not see those of queries in it.
    /// Where columns go before variables, `columns` are those that are columns.
    fn levels(&self, query: &NodeEnum, scope: &Scope, columns: &mut BTreeSet<String>) -> Result<(), Unread> {
        if let Some(inside) = query_inside(query) {
            return self.levels(inside, scope, columns);
        }
        let mut own = query.clone();
        let mut inner: Vec<NodeEnum> = given_in_from(&mut own).into_iter().collect();
        let said = self.said(&own, scope);
        search::each_mut(&mut own, |n| match n {
            NodeEnum::SubLink(s) => {
                inner.extend(s.subselect.take().and_then(|q| q.node));
                true
            }
            _ => true,
        });
        // Columns by which rows are inserted are seen by nobody.
        if let NodeEnum::InsertStmt(i) = &mut own {
            i.cols.clear();
        }
        if said.alone.is_empty() && said.in_front.is_empty() {
            // There is nothing to be clear about.
        } else if self.conflict == Conflict::Column && inner.is_empty() && is_one_level(&own) {
            self.clear(&own, &said, Some(columns))?;
        } else {
            self.clear(&own, &said, None)?;
        }
        inner.iter().try_for_each(|query| self.levels(query, scope, columns))
    }

    /// None of the names can be a column's, a table's or an output's. `kept`: those of tables' columns are these.
    fn clear(&self, statement: &NodeEnum, said: &Said, mut kept: Option<&mut BTreeSet<String>>) -> Result<(), Unread> {
        let has = |name: &str| said.alone.contains(name);
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
            let named = |a: &ast::Alias| said.any(&a.aliasname) || names::strings(&a.colnames).iter().any(|c| has(c));
            if said.any(&rv.relname) || rv.alias.as_ref().is_some_and(named) {
                return Err(UNCLEAR);
            }
            // What WITH queries give is looked at where they stand.
            if said.alone.is_empty() || is_with(rv) && rv.schemaname.is_empty() {
                continue;
            }
            let columns = (self.columns)(rv).ok_or(UNCLEAR)?;
            for column in columns.into_iter().filter(|c| has(c)) {
                match &mut kept {
                    Some(kept) => drop(kept.insert(column)),
                    None => return Err(UNCLEAR),
                }
            }
        }
        let of_rows = said.any("excluded") || ["old", "new"].iter().any(|c| said.any(c)) && returns(statement);
        if SYSTEM_COLUMNS.iter().any(|c| has(c)) || of_rows {
            return Err(UNCLEAR);
        }
        let is_name = |n: &NodeEnum| match n {
            NodeEnum::Alias(a) => said.any(&a.aliasname) || names::strings(&a.colnames).iter().any(|c| has(c)),
            NodeEnum::CommonTableExpr(c) => {
                said.any(&c.ctename) || names::strings(&c.aliascolnames).iter().any(|c| has(c))
            }
            // Of one level nobody sees them.
            NodeEnum::ResTarget(t) => has(&t.name) && kept.is_none(),
            _ => false,
        };
        let is_alias = |n: &NodeEnum| {
            alias(n).is_some_and(|a| said.any(&a.aliasname) || names::strings(&a.colnames).iter().any(|c| has(c)))
        };
        let target_alias =
            |rv: Option<&ast::RangeVar>| rv.and_then(|rv| rv.alias.as_ref()).is_some_and(|a| said.any(&a.aliasname));
        let of_target = match statement {
            NodeEnum::InsertStmt(s) => target_alias(s.relation.as_ref()),
            NodeEnum::UpdateStmt(s) => target_alias(s.relation.as_ref()),
            NodeEnum::DeleteStmt(s) => target_alias(s.relation.as_ref()),
            NodeEnum::MergeStmt(s) => target_alias(s.relation.as_ref()),
            _ => false,
        };
        if sorts_by_output(statement, said) {
            return Err(UNCLEAR);
        }
        // What functions and queries in FROM call their columns need not be said.
        let unknown = !said.alone.is_empty() && names_columns(statement);
        if of_target || unknown || search::any(statement, |n| is_name(n) || is_alias(n)) {
            return Err(UNCLEAR);
        }
        Ok(())
    }
}

/// RETURNING, which knows the rows `old` and `new`, names one of them somewhere.
fn returns(statement: &NodeEnum) -> bool {
    let is_row = |n: &NodeEnum| {
        let NodeEnum::ColumnRef(c) = n else { return false };
        names::strings(&c.fields).first().is_some_and(|first| ["old", "new"].contains(first))
    };
    let is_returning = |n: &NodeEnum| {
        let clause = match n {
            NodeEnum::InsertStmt(s) => &s.returning_clause,
            NodeEnum::UpdateStmt(s) => &s.returning_clause,
            NodeEnum::DeleteStmt(s) => &s.returning_clause,
            NodeEnum::MergeStmt(s) => &s.returning_clause,
            _ => return false,
        };
        let mut exprs = clause.iter().flat_map(|c| &c.exprs);
        exprs.any(|e| e.node.as_ref().is_some_and(|n| is_row(n) || search::any(n, is_row)))
    };
    is_returning(statement) || search::any(statement, is_returning)
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

/// ORDER BY, GROUP BY and DISTINCT ON mean an output's name first; a column that says no name has one all the same.
fn sorts_by_output(statement: &NodeEnum, said: &Said) -> bool {
    let is_sorted = |n: &NodeEnum| match n {
        NodeEnum::SelectStmt(s) => {
            !s.sort_clause.is_empty() || !s.group_clause.is_empty() || !s.distinct_clause.is_empty()
        }
        _ => false,
    };
    let is_said = |n: &NodeEnum| match n {
        NodeEnum::ResTarget(t) if t.name.is_empty() => {
            t.val.as_deref().is_some_and(|v| said.alone.contains(&names::figure_column(v)))
        }
        NodeEnum::ResTarget(t) => said.alone.contains(&t.name),
        _ => false,
    };
    (is_sorted(statement) || search::any(statement, is_sorted)) && search::any(statement, is_said)
}

/// What the only function in FROM is given, which sees no columns of that FROM: it is taken out.
fn given_in_from(query: &mut NodeEnum) -> Option<NodeEnum> {
    let NodeEnum::SelectStmt(s) = query else { return None };
    let [ast::Node { node: Some(NodeEnum::RangeFunction(f)) }] = &mut s.from_clause[..] else { return None };
    let [ast::Node { node: Some(NodeEnum::List(call)) }] = &mut f.functions[..] else { return None };
    let Some(NodeEnum::FuncCall(call)) = call.items.first_mut().and_then(|n| n.node.as_mut()) else { return None };
    let target_list = std::mem::take(&mut call.args).into_iter().map(|value| build::target(value, None)).collect();
    Some(NodeEnum::SelectStmt(Box::new(ast::SelectStmt { target_list, ..build::select() })))
}

/// Every name in it can be a column of any of its tables.
fn is_one_level(statement: &NodeEnum) -> bool {
    use NodeEnum::{DeleteStmt, InsertStmt, MergeStmt, SelectStmt, UpdateStmt};
    let plain = match statement {
        SelectStmt(s) => s.with_clause.is_none() && s.larg.is_none() && s.values_lists.is_empty(),
        UpdateStmt(s) => s.with_clause.is_none(),
        DeleteStmt(s) => s.with_clause.is_none(),
        InsertStmt(_) | MergeStmt(_) => false,
        _ => false,
    };
    let is_more = |n: &NodeEnum| {
        use NodeEnum::{JoinExpr, RangeFunction, RangeSubselect};
        matches!(n, JoinExpr(_) | RangeSubselect(_) | RangeFunction(_))
    };
    plain && !search::any(statement, is_more)
}

/// `(row).*`
fn all_columns(row: NodeEnum) -> NodeEnum {
    NodeEnum::AIndirection(Box::new(ast::AIndirection {
        arg: Some(Box::new(build::node(row))),
        indirection: vec![build::star_alone()],
    }))
}

/// A value as a column is that is compared so: what says a collation itself goes before it.
fn compared_by(value: NodeEnum, collation: &[String]) -> NodeEnum {
    let clause = NodeEnum::CollateClause(Box::new(ast::CollateClause {
        arg: Some(Box::new(build::node(value))),
        collname: collation.iter().map(|part| build::string(part)).collect(),
        location: -1,
    }));
    let select = ast::SelectStmt { target_list: vec![build::target(build::node(clause), None)], ..build::select() };
    build::scalar(select)
}

//! What a statement uses of tables whose rows come to home: which columns, and nothing that rows in a table's place do not have
//! (system columns, functions written as columns, the row as a value of the table's type).
//!
//! It goes by names alone, over the whole statement, and so may find more than is used, never less.

use std::collections::{HashMap, HashSet};

use catalog::Relation;
use sql::ast;
use sql::walk::{self, Visit};
use sql::{NodeEnum, build, names, search};

use super::columns;
use crate::levels::Analysis;
use crate::scope::is_system;

/// The column of rows of which no column is used.
pub const NONE: &str = "%none";
/// The column that is the whole row, of the table's type.
pub const ROW: &str = "%row";

/// What is used of the tables.
pub struct Used {
    /// By schema and name of the relation: the columns.
    columns: HashMap<(String, String), Vec<usize>>,
    /// What is called so is also a value: the row.
    rows: HashSet<String>,
    /// `schema.table.column` of these means what `table.column` does.
    qualified: HashSet<(String, String)>,
}

/// The names that a use of a table has for its columns.
pub fn visible(relation: &Relation, rv: &ast::RangeVar) -> Vec<String> {
    let mut all: Vec<String> = relation.columns.iter().map(|c| c.name.clone()).collect();
    let given = rv.alias.iter().flat_map(|a| names::strings(&a.colnames));
    all.iter_mut().zip(given).for_each(|(name, given)| *name = given.to_string());
    all
}

impl Used {
    /// `None`: it needs more of a table than its columns.
    pub fn of(a: &Analysis, select: &ast::SelectStmt) -> Option<Used> {
        Used::of_tree(a, select, |row| is_output(select, row))
    }

    /// The same of a change, whose target is a table as well; but for the target's, rows as values are not among what it may use.
    pub fn of_change(a: &Analysis, statement: &NodeEnum) -> Option<Used> {
        let target = sql::clauses::target(statement).map(|rv| rv.alias.as_ref().map_or(&rv.relname, |a| &a.aliasname));
        let called = |name: &str| a.scopes.values().flat_map(|s| &s.items).filter(|i| i.alias == name).count();
        let is_target = |row: &str| target.is_some_and(|t| t == row) && called(row) == 1;
        let mut used = Used::of_tree(a, statement, |row| !is_target(row))?;
        used.rows.retain(|row| !is_target(row));
        Some(used)
    }

    fn of_tree(a: &Analysis, tree: &impl search::Tree, is_output: impl Fn(&str) -> bool) -> Option<Used> {
        let mut tables = Tables::default();
        // Of each alias which tables it stands for, and by which names of columns.
        let mut look = Look { a, tables: &mut tables, unfit: false };
        tree.look(&mut look);
        if look.unfit {
            return None;
        }
        let aliases = tables.list.iter().map(|t| t.alias.clone()).collect();
        let others = |alias: &str, column: &str| {
            let mut items = a.scopes.values().flat_map(|s| &s.items).filter(|i| i.alias == alias);
            items.any(|i| i.opaque || i.columns.iter().any(|(name, _)| name == column))
        };
        let mut found = Found::of(&tables.list, aliases, &others);
        found.columns = columns::of(a, tree);
        tree.look(&mut found);
        let unsure = |row: &String| found.all || found.starred.contains(row) || is_column(a, row) || is_output(row);
        if found.unfit || !found.qualified.iter().all(|q| is_only(a, q)) || found.values.iter().any(unsure) {
            return None;
        }
        let mut columns: HashMap<_, Vec<usize>> = HashMap::new();
        for table in &tables.list {
            let used = columns.entry(table.relation.clone()).or_default();
            let all = found.all || found.whole.contains(&table.alias);
            for (i, name) in table.names.iter().enumerate() {
                let named = || found.names.contains(name) || found.of.contains(&(table.alias.clone(), name.clone()));
                if !used.contains(&i) && (all || named()) {
                    used.push(i);
                }
            }
        }
        columns.values_mut().for_each(|c| c.sort_unstable());
        let qualified = found.qualified.into_iter().map(|(schema, table)| (schema.into(), table.into())).collect();
        Some(Used { columns, rows: found.values, qualified })
    }

    /// The columns that any use of the table needs, in order.
    pub fn columns(&self, relation: &Relation) -> Vec<usize> {
        self.columns.get(&(relation.schema.clone(), relation.name.clone())).cloned().unwrap_or_default()
    }

    /// The row itself is asked of something.
    pub fn has_rows(&self) -> bool {
        !self.rows.is_empty()
    }

    /// The row itself is asked of what is called so.
    pub fn has_row(&self, alias: &str) -> bool {
        self.rows.contains(alias)
    }

    /// Rows in a table's place have no schema, and the whole row is a column of theirs.
    pub fn rename(&self, statement: &mut NodeEnum) {
        struct Rename<'u>(&'u Used);
        impl walk::VisitMut for Rename<'_> {
            fn node(&mut self, n: &mut NodeEnum) -> bool {
                let row = |c: &ast::ColumnRef| match names::strings(&c.fields)[..] {
                    [name] if c.fields.len() == 1 && self.0.has_row(name) => Some(name.to_string()),
                    _ => None,
                };
                if let NodeEnum::ResTarget(t) = n
                    && t.name.is_empty()
                    && let Some(NodeEnum::ColumnRef(c)) = t.val.as_deref().and_then(|v| v.node.as_ref())
                    && let Some(name) = row(c)
                {
                    t.name = name;
                }
                if let NodeEnum::ColumnRef(c) = n
                    && row(c).is_some()
                {
                    c.fields.push(build::string(ROW));
                    return false;
                }
                if let NodeEnum::ColumnRef(c) = n
                    && c.fields.len() == 3
                    && let [schema, table, ..] = names::strings(&c.fields)[..]
                    && self.0.qualified.contains(&(schema.to_string(), table.to_string()))
                {
                    c.fields.remove(0);
                }
                true
            }
        }
        if !self.qualified.is_empty() || !self.rows.is_empty() {
            walk::below_mut(statement, &mut Rename(self));
        }
    }
}

/// A column may be called so: then the name need not mean a row.
fn is_column(a: &Analysis, name: &str) -> bool {
    let mut items = a.scopes.values().flat_map(|s| &s.items);
    items.any(|i| i.opaque || i.columns.iter().any(|(column, _)| column == name))
}

/// A column of a result is called so, and is not the row: ORDER BY may mean it.
fn is_output(select: &ast::SelectStmt, name: &str) -> bool {
    let named = |n: &ast::Node| names::column(n).is_some_and(|c| c == [name]);
    struct Sorted<F>(F, bool);
    impl<'n, F: Fn(&ast::Node) -> bool> Visit<'n> for Sorted<F> {
        fn node(&mut self, n: &'n NodeEnum) -> bool {
            self.1 |= matches!(n, NodeEnum::SortBy(by) if by.node.as_deref().is_some_and(&self.0));
            true
        }
        fn select(&mut self, s: &'n ast::SelectStmt) -> bool {
            self.1 |= s.group_clause.iter().chain(&s.distinct_clause).any(&self.0);
            true
        }
    }
    let mut sorted = Sorted(named, false);
    walk::select_stmt(select, &mut sorted);
    sorted.1
        && search::any(select, |n| match n {
            NodeEnum::ResTarget(t) if t.name.is_empty() => t
                .val
                .as_deref()
                .is_some_and(|v| !matches!(v.node, Some(NodeEnum::ColumnRef(_))) && names::figure_column(v) == name),
            NodeEnum::ResTarget(t) => t.name == name,
            _ => false,
        })
}

/// Nothing else of the statement is called as the table is.
fn is_only(a: &Analysis, (schema, table): &(&str, &str)) -> bool {
    let mut items = a.scopes.values().flat_map(|s| &s.items).filter(|i| i.alias == *table);
    items.all(|i| i.schema.as_deref() == Some(*schema))
}

/// A use of a distributed table.
struct Table {
    relation: (String, String),
    alias: String,
    names: Vec<String>,
}

#[derive(Default)]
struct Tables {
    list: Vec<Table>,
}

struct Look<'l, 'a> {
    a: &'l Analysis<'a>,
    tables: &'l mut Tables,
    unfit: bool,
}

impl<'n> Visit<'n> for Look<'_, '_> {
    fn node(&mut self, n: &'n NodeEnum) -> bool {
        // Which rows it takes depends on where they lie.
        if let NodeEnum::RangeTableSample(s) = n
            && let Some(NodeEnum::RangeVar(rv)) = s.relation.as_deref().and_then(|r| r.node.as_ref())
        {
            self.unfit |= self.a.ranges.contains_key(&std::ptr::from_ref(rv));
        }
        !matches!(n, NodeEnum::LockingClause(_))
    }

    fn range_var(&mut self, rv: &'n ast::RangeVar) {
        let Some(uses) = self.a.ranges.get(&std::ptr::from_ref(rv)) else { return };
        let relation = &self.a.uses[uses[0]].relation;
        let alias = rv.alias.as_ref().map_or(&rv.relname, |a| &a.aliasname).clone();
        let names = visible(relation, rv);
        self.unfit |= relation.columns.is_empty();
        self.tables.list.push(Table { relation: (relation.schema.clone(), relation.name.clone()), alias, names });
    }
}

struct Found<'f> {
    tables: &'f [Table],
    aliases: HashSet<String>,
    /// Whether something called so has, or may have, a column called so.
    has: &'f dyn Fn(&str, &str) -> bool,
    /// Any column may be meant.
    all: bool,
    /// All columns of what is called so.
    whole: HashSet<String>,
    /// Columns by their name alone, or by the name of what is not a table.
    names: HashSet<String>,
    of: HashSet<(String, String)>,
    qualified: HashSet<(&'f str, &'f str)>,
    /// All columns, in their order, of what is called so.
    starred: HashSet<String>,
    /// Rows that are values of their table's type.
    values: HashSet<String>,
    /// Whole rows that may be of any row type.
    rows: HashSet<*const ast::ColumnRef>,
    /// Stars in EXISTS, which asks for no column.
    unread: HashSet<*const ast::ColumnRef>,
    /// What is surely a column, though a table is called so.
    columns: HashSet<*const ast::ColumnRef>,
    unfit: bool,
}

impl<'f> Found<'f> {
    fn of(tables: &'f [Table], aliases: HashSet<String>, has: &'f dyn Fn(&str, &str) -> bool) -> Self {
        let (whole, names, of) = Default::default();
        let (qualified, starred, values) = Default::default();
        let (rows, unread, columns) = Default::default();
        let (all, unfit) = (false, false);
        Found { tables, aliases, has, all, whole, names, of, qualified, starred, values, rows, unread, columns, unfit }
    }

    /// All tables called so have a column called so.
    fn all_have(&self, alias: &str, column: &str) -> bool {
        self.tables.iter().filter(|t| t.alias == alias).all(|t| t.names.iter().any(|n| n == column))
    }

    fn column(&mut self, c: &'f ast::ColumnRef) {
        if self.unread.contains(&std::ptr::from_ref(c)) {
            return self.note_schema(c);
        }
        let star = names::has_star(c);
        match (&names::strings(&c.fields)[..], star) {
            ([], true) => self.all = true,
            ([table] | [_, table], true) => {
                self.all |= !self.aliases.contains(*table);
                self.whole.insert(table.to_string());
                self.starred.insert(table.to_string());
                self.note_schema(c);
            }
            ([name], false) => {
                self.unfit |= is_system(name);
                let column = self.columns.contains(&std::ptr::from_ref(c)) || self.all_have(name, name);
                if self.aliases.contains(*name) && !column {
                    if !self.rows.contains(&std::ptr::from_ref(c)) {
                        self.values.insert(name.to_string());
                    }
                    self.whole.insert(name.to_string());
                }
                self.names.insert(name.to_string());
            }
            ([table, name] | [_, table, name], false) => {
                if self.aliases.contains(*table) {
                    let own = self.tables.iter().any(|t| t.alias == *table && t.names.iter().any(|n| n == name));
                    self.unfit |= is_system(name) || !(own || (self.has)(table, name));
                    self.of.insert((table.to_string(), name.to_string()));
                } else {
                    self.names.insert(name.to_string());
                }
                self.note_schema(c);
            }
            _ => self.unfit = true,
        }
    }

    fn note_schema(&mut self, c: &'f ast::ColumnRef) {
        if c.fields.len() == 3
            && let [schema, table, ..] = names::strings(&c.fields)[..]
            && self.aliases.contains(table)
        {
            self.qualified.insert((schema, table));
        }
    }

    /// Of an EXISTS the list of its query means nothing, where that is no set operation, and neither groups nor sorts by it.
    fn exists(&mut self, query: Option<&'f ast::Node>) {
        let Some(NodeEnum::SelectStmt(s)) = query.and_then(|q| q.node.as_ref()) else { return };
        let by_its_list = [&s.group_clause, &s.distinct_clause, &s.sort_clause];
        if s.op == ast::SetOperation::SetopNone as i32 && by_its_list.iter().all(|list| list.is_empty()) {
            let values = s.target_list.iter().filter_map(|t| match &t.node {
                Some(NodeEnum::ResTarget(t)) => t.val.as_deref()?.node.as_ref(),
                _ => None,
            });
            self.unread.extend(values.filter_map(|v| match v {
                NodeEnum::ColumnRef(c) if names::has_star(c) => Some(std::ptr::from_ref(c)),
                _ => None,
            }));
        }
    }

    fn row(&mut self, node: Option<&'f ast::Node>) {
        if let Some(NodeEnum::ColumnRef(c)) = node.and_then(|n| n.node.as_ref()) {
            self.rows.insert(std::ptr::from_ref(c));
        }
    }
}

impl<'f> Visit<'f> for Found<'f> {
    fn node(&mut self, n: &'f NodeEnum) -> bool {
        match n {
            NodeEnum::ColumnRef(c) => self.column(c),
            NodeEnum::FuncCall(_) => crate::opened::of_any_row(n).iter().for_each(|arg| self.row(Some(arg))),
            NodeEnum::SubLink(s) if s.sub_link_type == ast::SubLinkType::ExistsSublink as i32 => {
                self.exists(s.subselect.as_deref());
            }
            NodeEnum::NullTest(t) => self.row(t.arg.as_deref()),
            NodeEnum::AIndirection(i) => self.row(i.arg.as_deref()),
            NodeEnum::JoinExpr(j) => {
                self.all |= j.is_natural || j.alias.is_some();
                self.names.extend(names::strings(&j.using_clause).into_iter().map(str::to_string));
            }
            // What is in it are names of relations.
            NodeEnum::LockingClause(_) => return false,
            _ => {}
        }
        true
    }
}

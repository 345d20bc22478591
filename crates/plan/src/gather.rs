//! Where nodes can't answer a query by themselves, and no other plan exists: the rows it needs of each distributed table come to
//! home, and the statement runs there, with those rows in the tables' places.
//!
//! Or rows go to nodes, and the statement with them: `stays.rs`, `shuffle.rs`.
//!
//! What nodes can answer of it (a subquery, a WITH query) they still do: `compose.rs` goes down the levels as ever, and asks here
//! for the tables that are left. It does not know how rows travel, nor whether home understands the statement that comes out:
//! the executor has home describe it, and compares ([`Statement::as_described`]).

mod columns;
mod filters;
pub mod grouped;
mod lookups;
mod semi;
mod semijoins;
mod shuffle;
mod stays;
mod used;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::rc::Rc;

use sql::ast::{self, Node};
use sql::walk::{self, Visit, VisitMut};
use sql::{NodeEnum, build, relations, search};

use crate::classes::Var;
use crate::compose::{Composer, part_column};
use crate::levels::Analysis;
use crate::refuse::Refusal;
use crate::stand_ins::TableRows;
use crate::text::{self, Text};
use crate::tree::{ChildRows, Exchange, Finish, Part, Recipients, Statement, To};
use crate::{Result, rewrite, unread, views};

pub use filters::Filters;
use lookups::Lookups;
use semi::Semi;
pub use semijoins::Semijoin;
pub use shuffle::{Key, Shuffle};
pub use used::{NONE, Used, visible};

/// What is known of a statement whose tables' rows come home.
pub struct Gather {
    facts: Rc<Facts>,
    /// Of each part by which columns its rows are looked up, where that is known.
    by: Vec<Vec<usize>>,
    /// Parts that are rows of one table: whoever needs the same rows shares them, so that both see the same.
    tables: BTreeMap<usize, TableRows>,
    /// Parts that are rows of a level which nodes answer by themselves.
    levels: BTreeMap<usize, usize>,
    /// Uses of tables that stay where they are (see `stays.rs`).
    stays: BTreeSet<usize>,
}

/// What a statement says of the rows that it needs.
struct Facts {
    used: Used,
    filters: Filters,
    lookups: Lookups,
    semi: Semi,
}

impl Gather {
    /// All rows are to come but those of the uses of tables that stay.
    fn new(facts: &Rc<Facts>, stays: BTreeSet<usize>) -> Self {
        Gather { facts: facts.clone(), by: vec![], tables: BTreeMap::new(), levels: BTreeMap::new(), stays }
    }

    /// The first columns of each part's rows.
    fn columns_of_parts(&self, a: &Analysis) -> Vec<(usize, Vec<Option<Var>>)> {
        let of_tables = self.tables.iter().flat_map(|(n, rows)| {
            let of_use = |u: &usize| rows.columns.iter().map(|c| Some(a.uses[*u].columns[*c])).collect();
            rows.uses.iter().map(move |u| (*n, of_use(u)))
        });
        let of_levels = self
            .levels
            .iter()
            .filter_map(|(n, level)| Some((*n, a.levels[*level].columns.as_ref()?.iter().map(|(_, v)| *v).collect())));
        of_tables.chain(of_levels).collect()
    }

    /// All of these stay, or none; `None`: some.
    fn all_stay(&self, uses: &[usize]) -> Option<bool> {
        match uses.iter().filter(|u| self.stays.contains(u)).count() {
            0 => Some(false),
            n => (n == uses.len()).then_some(true),
        }
    }
}

/// Its rows may be read before it, and sent somewhere: it says the same wherever it is asked, and reads more tables than one; and there are
/// nodes to send them to.
fn may_move(a: &Analysis, facts: &Facts) -> bool {
    let unsteady = a.levels.iter().any(|l| l.volatile || l.locking) || a.needs_home.is_some();
    // Named by itself, a partition by time is a table of its own, with rows of the whole one.
    let in_parts = a.uses.iter().any(|u| u.relation.distribution().is_some_and(|d| d.is_part));
    !unsteady && !in_parts && !facts.used.has_rows() && a.cx.snapshot.nodes.len() > 1 && a.uses.len() > 1
}

/// What several nodes do for a query that has no other plan; `None`: it has none here either.
pub fn finish<'a>(a: &Analysis<'a>, select: &'a ast::SelectStmt, level: usize) -> Option<Finish> {
    if a.changes_rows || a.levels.iter().any(|l| l.locking) || a.uses.is_empty() {
        return None;
    }
    if select.into_clause.is_some() || search::any(select, |n| matches!(n, NodeEnum::IntoClause(_))) {
        return None;
    }
    if !search::any(select, |n| matches!(n, NodeEnum::CommonTableExpr(_))) {
        return composed(a, select, level);
    }
    // WITH queries that nobody names are never run.
    let statement = NodeEnum::SelectStmt(Box::new(select.clone()));
    if let Some((NodeEnum::SelectStmt(read), _)) = unread::without_unread(&statement, a.cx) {
        let mut b = Analysis::new(a.cx);
        let level = b.query(&read).ok()?;
        // It reads the same tables in the same order, so parts say the same of where they go.
        let same = a.uses.iter().map(|u| &u.relation.oid).eq(b.uses.iter().map(|u| &u.relation.oid));
        return if same { shared(&b, &read, level) } else { None };
    }
    shared(a, select, level)
}

/// As `select.rs` does: what one asks of a WITH query's rows the others do not.
fn shared<'a>(a: &Analysis<'a>, select: &'a ast::SelectStmt, level: usize) -> Option<Finish> {
    let several: HashSet<_> = a.named.iter().filter(|(_, levels)| levels.len() > 1).map(|(body, _)| *body).collect();
    if several.is_empty() {
        return composed(a, select, level);
    }
    let mut b = Analysis::new(a.cx);
    b.shared = several;
    let level = b.query(select).ok()?;
    composed(&b, select, level)
}

fn composed<'a>(a: &Analysis<'a>, select: &'a ast::SelectStmt, level: usize) -> Option<Finish> {
    let (used, filters, lookups) = (Used::of(a, select)?, Filters::of(a, select), Lookups::of(a, select));
    let facts = Rc::new(Facts { used, filters, lookups, semi: Semi::of(a, select) });
    let mut composer = Composer::new(a);
    composer.gather = Some(Gather::new(&facts, BTreeSet::new()));
    // What is volatile PostgreSQL evaluates once: a WITH query that several subqueries name is not to be asked of nodes for each.
    let finish = match a.levels.iter().any(|l| l.volatile) {
        true => composer.in_place(select),
        false => composer.taken(select, level),
    };
    let mut finish = NodeEnum::SelectStmt(Box::new(finish.ok()?));
    facts.used.rename(&mut finish);
    let shuffle =
        composer.gather.as_ref().and_then(|g| shuffle::of(a, &finish, &facts, composer.parts.len(), &g.tables));
    let NodeEnum::SelectStmt(finish) = finish else { return None };
    // Functions with side effects are called by home alone, in the transaction.
    let reads_home =
        composer.uses_home || a.needs_home.is_some() || a.writes || !relations::of_select(&finish).is_empty();
    let reads_what_all_see = !a.writes && a.levels.iter().all(|l| l.home_above.is_none() && l.home_below.is_none());
    let text = composer.text(*finish).ok()?;
    let gather = composer.gather.take();
    let semijoins = gather.as_ref().map(|g| semijoins::of(a, select, &composer.parts, g)).unwrap_or_default();
    let lookups = gather.map(|g| g.by).unwrap_or_default();
    let children =
        composer.parts.into_iter().map(|part| Exchange { rows: ChildRows::Part(part), to: To::Gather }).collect();
    let (as_described, why) = (true, a.pushable(level, true).err().and_then(|apart| apart.why()));
    let ways = stays::ways(a, select, level, &facts);
    Some(Finish::Statement(Statement {
        text,
        children,
        reads_home,
        reads_what_all_see,
        as_described,
        lookups,
        why,
        semijoins,
        ways,
        shuffle,
    }))
}

impl<'p, 'a> Composer<'p, 'a> {
    /// A level as nodes answer it; where they can't, with the rows of its tables in their places.
    pub fn taken(&mut self, s: &'p ast::SelectStmt, level: usize) -> Result<ast::SelectStmt> {
        if self.gather.is_none() {
            return self.query(s, level);
        }
        if self.all_stay(level) == Some(true) {
            return Ok(s.clone());
        }
        let (parts, home, withs) = (self.parts.len(), self.uses_home, self.withs.len());
        let others = self.others.clone();
        self.query(s, level).or_else(|_| {
            self.parts.truncate(parts);
            self.types.truncate(parts);
            self.withs.truncate(withs);
            (self.uses_home, self.others) = (home, others);
            if let Some(gather) = &mut self.gather {
                gather.tables.retain(|t, _| *t < parts);
                gather.levels.retain(|t, _| *t < parts);
                gather.by.truncate(parts);
            }
            self.in_place(s)
        })
    }

    /// Of the tables of a level and below it all stay where they are, or none; `None`: some.
    fn all_stay(&self, level: usize) -> Option<bool> {
        match self.gather.as_ref().filter(|g| !g.stays.is_empty()) {
            Some(gather) => gather.all_stay(&self.a.deep_uses(level)),
            None => Some(false),
        }
    }

    /// A query as it is, but for the tables.
    pub fn in_place(&mut self, s: &'p ast::SelectStmt) -> Result<ast::SelectStmt> {
        let mut statement = NodeEnum::SelectStmt(Box::new(s.clone()));
        let mut levels = Levels::default();
        walk::select_stmt(s, &mut levels);
        let mut depend = grouped::Depend { levels: levels.0.into_iter(), composer: self };
        walk::below_mut(&mut statement, &mut depend);
        let mut originals = relations::of_select(s).into_iter();
        let mut outcome = Ok(());
        relations::replace(&mut statement, &mut |node| {
            let (Some(original), Some(NodeEnum::RangeVar(rv))) = (originals.next(), &node.node) else { return };
            if outcome.is_err() {
                return;
            }
            let same = original.relname == rv.relname && original.location == rv.location;
            outcome = match same {
                true => self.of_table(original).map(|rows| {
                    if let Some(rows) = rows {
                        *node = rows;
                    }
                }),
                false => Err(Refusal::not_moved()),
            };
        });
        outcome?;
        match statement {
            NodeEnum::SelectStmt(out) => Ok(*out),
            _ => Err(Refusal::not_moved()),
        }
    }

    /// The rows of a distributed table, by the names the statement has for it; `None`: it is no such table.
    pub fn of_table(&mut self, rv: &ast::RangeVar) -> Result<Option<Node>> {
        let a = self.a;
        let (Some(uses), Some(gather)) = (a.ranges.get(&std::ptr::from_ref(rv)), &self.gather) else { return Ok(None) };
        match gather.all_stay(uses) {
            None => return Err(Refusal::not_moved()),
            Some(true) => return Ok(None),
            Some(false) => {}
        }
        let relation = &a.uses[uses[0]].relation;
        let columns = gather.facts.used.columns(relation);
        let mut part = build::select();
        part.target_list =
            columns.iter().map(|c| build::target(build::column(&[&relation.columns[*c].name]), None)).collect();
        if columns.is_empty() {
            part.target_list.push(build::target(build::integer(1), None));
        }
        let mut table = rv.clone();
        // Whatever WITH queries are called here, it is the table.
        (table.alias, table.schemaname) = (None, relation.schema.clone());
        let aliasname = rv.alias.as_ref().map_or(&rv.relname, |a| &a.aliasname).clone();
        let row = gather.facts.used.has_row(&aliasname);
        if row {
            part.target_list.push(build::target(build::column(&[used::ROW]), None));
            table.alias = Some(build::alias(used::ROW));
        }
        part.from_clause = vec![build::node(NodeEnum::RangeVar(table))];
        part.where_clause = gather.facts.filters.of_table(rv).map(Box::new);
        gather.facts.semi.once(rv, relation, &columns, &mut part);
        let mut names = used::visible(relation, rv);
        let mut colnames: Vec<Node> = columns.iter().map(|c| build::string(&std::mem::take(&mut names[*c]))).collect();
        if columns.is_empty() {
            colnames.push(build::string(used::NONE));
        }
        if row {
            colnames.push(build::string(used::ROW));
        }
        let mut types: Vec<_> = columns.iter().map(|c| Some(relation.columns[*c].type_name.clone())).collect();
        types.resize(colnames.len(), None);
        let mut statement = NodeEnum::SelectStmt(Box::new(part));
        rewrite::replace_now(&mut statement);
        let text = a.cx.text(statement.clone())?;
        let query = match statement {
            NodeEnum::SelectStmt(query) if !views::is_in_view(rv) => Some(query),
            _ => None,
        };
        let rows = TableRows { relation: relation.clone(), columns: columns.clone(), uses: uses.clone(), query };
        let number = self.table_part(text, types, rows);
        if let Some(gather) = &mut self.gather {
            let by = gather.facts.lookups.of_table(rv).iter().filter_map(|c| columns.iter().position(|own| own == c));
            gather.by.resize(gather.by.len().max(number + 1), vec![]);
            let known = &mut gather.by[number];
            by.for_each(|c| {
                if !known.contains(&c) {
                    known.push(c)
                }
            });
        }
        Ok(Some(build::subselect(text::rows(number), Some(ast::Alias { aliasname, colnames }), false)))
    }

    /// The rows of a subquery in FROM that nodes answer by themselves: read as it stands there, so that a view is read by its name.
    pub fn of_item(&mut self, item: &Node, level: usize) -> Result<Option<Node>> {
        let Some(NodeEnum::RangeSubselect(sub)) = &item.node else { return Ok(None) };
        if self.gather.is_none() || sub.lateral || self.a.pushable(level, false).is_err() || self.a.gives_order(level) {
            return Ok(None);
        }
        let body = sub.subquery.as_deref().and_then(|q| q.node.as_ref());
        if matches!(body, Some(NodeEnum::SelectStmt(query)) if self.a.cx.views.grants_columns(query)) {
            return Ok(None);
        }
        let (Some(columns), Some(mut alias)) = (&self.a.levels[level].columns, sub.alias.clone()) else {
            return Ok(None);
        };
        let own = columns.iter().skip(alias.colnames.len()).map(|(name, _)| build::string(name));
        alias.colnames.extend(own);
        let mut part = build::select();
        part.target_list = vec![build::target(build::star(), None)];
        part.from_clause = vec![item.clone()];
        if self.all_stay(level) != Some(false) {
            return Ok(None);
        }
        let width = alias.colnames.len();
        Ok(match self.rows_of(part, level, width)?.node {
            Some(NodeEnum::RangeSubselect(mut rows)) => {
                rows.alias = Some(alias);
                Some(build::node(NodeEnum::RangeSubselect(rows)))
            }
            _ => None,
        })
    }

    /// Where tables stay, a subquery that stands by itself is a statement of its own, which is run before: its rows.
    pub fn of_subquery(&mut self, body: &ast::SelectStmt, level: usize) -> Result<Option<ast::SelectStmt>> {
        if self.all_stay(level) != Some(false) || self.gather.as_ref().is_none_or(|g| g.stays.is_empty()) {
            return Ok(None);
        }
        let Some(columns) = self.a.levels[level].columns.as_ref().filter(|columns| !columns.is_empty()) else {
            return Ok(None);
        };
        let mut rows = build::select();
        let named = columns.iter().enumerate();
        rows.target_list = named.map(|(i, (name, _))| build::target(part_column(i), Some(name))).collect();
        rows.from_clause = vec![self.rows_of(body.clone(), level, columns.len())?];
        Ok(Some(rows))
    }

    /// The rows of a level as a part, of which so many columns are known to come.
    fn rows_of(&mut self, part: ast::SelectStmt, level: usize, width: usize) -> Result<Node> {
        let rows = self.add_part(part, self.a.deep_uses(level))?;
        if let Some(types) = self.types.last_mut() {
            *types = Some(vec![None; width]);
        }
        self.answers(level);
        Ok(rows)
    }

    /// The last part has the rows of a level.
    pub fn answers(&mut self, level: usize) {
        if let (Some(gather), Some(part)) = (&mut self.gather, self.parts.len().checked_sub(1)) {
            gather.levels.insert(part, level);
        }
    }

    /// The number of the part that has these rows.
    fn table_part(&mut self, text: Text, types: Vec<Option<String>>, rows: TableRows) -> usize {
        let shared = self.gather.iter().flat_map(|g| g.tables.keys()).copied().find(|n| self.parts[*n].text == text);
        let number = shared.unwrap_or_else(|| {
            self.parts.push(Part { text, target: Recipients::Shards(vec![]), columns: None });
            self.types.push(Some(types));
            self.parts.len() - 1
        });
        let Recipients::Shards(known) = &mut self.parts[number].target;
        let new: Vec<usize> = rows.uses.iter().copied().filter(|u| !known.contains(u)).collect();
        known.extend(&new);
        if let Some(gather) = &mut self.gather {
            gather.tables.entry(number).and_modify(|rows| rows.uses.extend(new)).or_insert(rows);
        }
        number
    }
}

/// Every SELECT of a query, in the order of the walk.
#[derive(Default)]
struct Levels<'a>(Vec<&'a ast::SelectStmt>);

impl<'a> Visit<'a> for Levels<'a> {
    fn select(&mut self, s: &'a ast::SelectStmt) -> bool {
        self.0.push(s);
        true
    }
}

impl<'p, I: Iterator<Item = &'p ast::SelectStmt>> VisitMut for grouped::Depend<'_, 'p, '_, I> {
    fn select(&mut self, out: &mut ast::SelectStmt) -> bool {
        if let Some(s) = self.levels.next() {
            self.composer.group_dependent(s, out);
        }
        true
    }
}

//! Tables that are read beside the rows which their own change returns: PostgreSQL shows them as they were before. So what is read of
//! them becomes a WITH query of its own, which runs before the change. Who runs when is not known here.

use std::collections::{BTreeSet, HashSet};

use catalog::{Oid, Relation, RelationKind};
use sql::ast::{self, CommonTableExpr, Node, RangeVar};
use sql::walk::Visit;
use sql::{NodeEnum, build, clauses, relations, search};

use super::{body, modifies, touches};
use crate::Context;

/// Columns that each table has besides its own, and that rows which are kept have not.
const SYSTEM: [&str; 6] = ["ctid", "tableoid", "xmin", "xmax", "cmin", "cmax"];

/// The statement with these WITH queries, if it has such tables, and needs nothing of them but their columns.
pub fn of(statement: &NodeEnum, cx: &Context) -> Option<NodeEnum> {
    let with = clauses::with(statement).filter(|with| !with.recursive)?;
    let mut itself = statement.clone();
    *clauses::with_mut(&mut itself)? = None;
    let mut ctes = with.ctes.clone();
    let mut reads = ReadBefore { written: written(&ctes, cx), hidden: hidden(statement), tables: vec![], cx };
    // Names of those that wait for a change.
    let mut late = HashSet::new();
    for cte in &mut ctes {
        let waits = body(cte).is_some_and(|n| names_any(n, &late));
        let changes = modifies(cte);
        let Some(NodeEnum::CommonTableExpr(query)) = &mut cte.node else { return None };
        if waits || changes {
            late.insert(query.ctename.clone());
        }
        if waits && !changes {
            reads.take(query.ctequery.as_deref_mut()?.node.as_mut()?)?;
        }
    }
    if names_any(&itself, &late) {
        reads.take(&mut itself)?;
    }
    if reads.tables.is_empty() {
        return None;
    }
    // In front, where all others see them.
    let mut all: Vec<Node> = reads.tables.into_iter().enumerate().map(|(i, table)| table.query(i)).collect();
    all.append(&mut ctes);
    *clauses::with_mut(&mut itself)? = Some(ast::WithClause { ctes: all, recursive: false, location: -1 });
    Some(itself)
}

/// What is needed of these tables in a statement, where others' names stand in their places; `None`: more of one than its columns.
pub(crate) fn taken(
    statement: &mut NodeEnum,
    tables: HashSet<Oid>,
    cx: &Context,
) -> Option<Vec<(String, ast::SelectStmt)>> {
    let hidden = hidden(statement);
    let mut reads = ReadBefore { written: tables.into_iter().collect(), hidden, tables: vec![], cx };
    reads.take(statement)?;
    Some(reads.tables.into_iter().enumerate().map(|(i, table)| (name_of(i), table.select())).collect())
}

/// Tables that WITH queries write to.
fn written(ctes: &[Node], cx: &Context) -> BTreeSet<Oid> {
    let targets = ctes.iter().filter_map(body).filter_map(clauses::target);
    targets.flat_map(|rv| touches::tables(rv, cx)).filter_map(|t| Some(t.relation?.oid)).collect()
}

/// The names of WITH queries, which are no tables'.
fn hidden(statement: &NodeEnum) -> HashSet<String> {
    let mut names = HashSet::new();
    search::each(statement, |n| {
        if let NodeEnum::CommonTableExpr(c) = n {
            names.insert(c.ctename.clone());
        }
    });
    names
}

fn names_any(statement: &NodeEnum, names: &HashSet<String>) -> bool {
    relations::of(statement).iter().any(|rv| rv.schemaname.is_empty() && names.contains(&rv.relname))
}

fn name_of(number: usize) -> String {
    format!("herd rows before {number}")
}

/// What is read before.
struct ReadBefore<'a> {
    written: BTreeSet<Oid>,
    hidden: HashSet<String>,
    tables: Vec<Before>,
    cx: &'a Context<'a>,
}

/// A table, and which of its columns are needed.
struct Before {
    named: RangeVar,
    columns: Vec<(String, bool)>,
}

impl ReadBefore<'_> {
    /// Takes the written tables out of a statement that waits for a change. `None`: more is needed of one than its columns.
    fn take(&mut self, statement: &mut NodeEnum) -> Option<()> {
        let target = clauses::target(statement).map(std::ptr::from_ref::<RangeVar>);
        let (mut found, mut keyed) = (vec![], vec![]);
        search::each_relation(statement, |rv| {
            if !target.is_some_and(|t| std::ptr::eq(t, rv)) && self.is_written(rv) {
                found.push(called(rv).to_string());
                if self
                    .cx
                    .relation(rv)
                    .is_none_or(|r| r.kind != RelationKind::Table || r.unique.iter().any(|u| u.primary))
                {
                    keyed.push(called(rv).to_string());
                }
            }
        });
        if found.is_empty() {
            return Some(());
        }
        let words = Words::of(statement, &found, &keyed)?;
        search::each_relation_mut(statement, |rv| {
            if !target.is_some_and(|t| std::ptr::eq(t, rv))
                && self.is_written(rv)
                && let Some(relation) = self.cx.relation(rv).cloned()
            {
                self.replace(rv, &relation, &words);
            }
        });
        Some(())
    }

    fn is_written(&self, rv: &RangeVar) -> bool {
        let query = rv.schemaname.is_empty() && self.hidden.contains(&rv.relname);
        !query && self.cx.relation(rv).is_some_and(|r| self.written.contains(&r.oid))
    }

    fn replace(&mut self, rv: &mut RangeVar, relation: &Relation, words: &Words) {
        let same =
            |b: &Before| (&b.named.schemaname, &b.named.relname, b.named.inh) == (&rv.schemaname, &rv.relname, rv.inh);
        let at = self.tables.iter().position(same).unwrap_or_else(|| {
            let columns = relation.columns.iter().map(|c| (c.name.clone(), false)).collect();
            self.tables.push(Before { named: RangeVar { alias: None, ..rv.clone() }, columns });
            self.tables.len() - 1
        });
        let by_place = rv.alias.as_ref().is_some_and(|a| !a.colnames.is_empty());
        for (name, needed) in &mut self.tables[at].columns {
            *needed |= by_place || words.all || words.names.contains(name);
        }
        let alias = rv.alias.take().unwrap_or_else(|| build::alias(&rv.relname));
        *rv = RangeVar {
            relname: name_of(at),
            alias: Some(alias),
            inh: true,
            relpersistence: "p".into(),
            ..Default::default()
        };
    }
}

/// The name by which columns of a table are named.
fn called(rv: &RangeVar) -> &str {
    rv.alias.as_ref().map_or(&rv.relname, |a| &a.aliasname)
}

/// What may be a column's name.
struct Words {
    names: HashSet<String>,
    /// Each column of each table is named.
    all: bool,
}

impl Words {
    /// `None`: rows are named as a whole, or by what only a table has; they are locked or sampled; or columns stand beside a GROUP BY
    /// that a primary key may allow (`check_functional_grouping` in pg_constraint.c). `keyed`: tables that may have one.
    fn of(statement: &NodeEnum, tables: &[String], keyed: &[String]) -> Option<Words> {
        let mut words = Words { names: HashSet::new(), all: false };
        let (mut stars, mut listed, mut only_columns) = (0, 0, true);
        search::each(statement, |n| match n {
            NodeEnum::String(s) => drop(words.names.insert(s.sval.clone())),
            NodeEnum::ColumnRef(c) => {
                stars += usize::from(is_star(n));
                only_columns &= match &c.fields[..] {
                    [one] => word(one).is_none_or(|w| !tables.iter().any(|t| t == w)),
                    [_, _] => true,
                    _ => false,
                };
                only_columns &= c.fields.last().and_then(word).is_none_or(|w| !SYSTEM.contains(&w));
            }
            NodeEnum::ResTarget(t) => {
                listed += usize::from(t.val.as_deref().and_then(|v| v.node.as_ref()).is_some_and(is_star));
            }
            NodeEnum::JoinExpr(j) => words.all |= j.is_natural,
            NodeEnum::RangeTableSample(_) | NodeEnum::LockingClause(_) | NodeEnum::CurrentOfExpr(_) => {
                only_columns = false;
            }
            _ => {}
        });
        let mut grouped = Grouped { tables: keyed, found: false };
        search::visit(statement, &mut grouped);
        only_columns &= !grouped.found;
        words.all |= stars > 0;
        (only_columns && stars == listed).then_some(words)
    }
}

/// Queries with a GROUP BY that read the tables themselves.
struct Grouped<'t> {
    tables: &'t [String],
    found: bool,
}

impl Grouped<'_> {
    fn reads(&self, item: &Node) -> bool {
        match item.node.as_ref() {
            Some(NodeEnum::RangeVar(rv)) => self.tables.iter().any(|t| t == called(rv)),
            Some(NodeEnum::JoinExpr(j)) => [&j.larg, &j.rarg].into_iter().flatten().any(|side| self.reads(side)),
            _ => false,
        }
    }
}

impl<'n> Visit<'n> for Grouped<'_> {
    fn select(&mut self, s: &'n ast::SelectStmt) -> bool {
        self.found |= !s.group_clause.is_empty() && s.from_clause.iter().any(|item| self.reads(item));
        true
    }
}

fn word(node: &Node) -> Option<&str> {
    match node.node.as_ref()? {
        NodeEnum::String(s) => Some(&s.sval),
        _ => None,
    }
}

fn is_star(n: &NodeEnum) -> bool {
    matches!(n, NodeEnum::ColumnRef(c)
        if matches!(c.fields.last(), Some(Node { node: Some(NodeEnum::AStar(_)) })))
}

impl Before {
    /// The query that reads it.
    fn select(self) -> ast::SelectStmt {
        // Rows count, though none of their columns is named.
        let nothing = !self.columns.iter().any(|(_, needed)| *needed);
        let needed = self.columns.iter().enumerate().filter(|(i, (_, needed))| *needed || nothing && *i == 0);
        let mut select = build::select();
        select.target_list = needed.map(|(_, (name, _))| build::target(build::column(&[name]), None)).collect();
        select.from_clause = vec![build::node(NodeEnum::RangeVar(self.named))];
        select
    }

    /// The WITH query of it.
    fn query(self, number: usize) -> Node {
        let select = self.select();
        build::node(NodeEnum::CommonTableExpr(Box::new(CommonTableExpr {
            ctename: name_of(number),
            ctematerialized: ast::CteMaterialize::Default as i32,
            ctequery: Some(Box::new(build::node(NodeEnum::SelectStmt(Box::new(select))))),
            location: -1,
            ..Default::default()
        })))
    }
}

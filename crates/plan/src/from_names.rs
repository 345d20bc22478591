//! Names in parts of FROM that see less than all of it. The condition of a join sees what is joined there, and what a function is given sees
//! the items before it (`transformJoinOnClause` and `transformRangeFunction` in PostgreSQL's parser); what neither sees is looked for around
//! the query. Everything else here looks a name up in the whole FROM: so names that would mean something else there are qualified before.
//!
//! It does not know what is made of names.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use catalog::{Relation, RelationKind};
use sql::ast;
use sql::walk::{self, Visit, VisitMut};
use sql::{NodeEnum, build, names, relations, search};

use crate::levels::{Analysis, Narrow};
use crate::refuse::Refusal;
use crate::scope::{Meaning, Scope};
use crate::{Context, Result, Steps, modify};

/// Whether there may be such names. Of tables of one node none is looked up.
pub fn may_be(statement: &NodeEnum, cx: &Context) -> bool {
    let bare = |n: &NodeEnum| matches!(n, NodeEnum::ColumnRef(c) if c.fields.len() == 1);
    let called = |rv: &ast::RangeVar| rv.alias.as_ref().map_or(rv.relname.clone(), |a| a.aliasname.clone());
    let twice = || {
        let mut seen = HashSet::new();
        relations::of(statement).iter().any(|rv| !seen.insert(called(rv)))
    };
    let narrow = search::any(statement, |n| match n {
        NodeEnum::JoinExpr(j) => j.quals.as_deref().is_some_and(|q| search::any(q, bare) || twice()),
        NodeEnum::RangeFunction(f) => f.functions.iter().any(|f| search::any(f, bare)),
        NodeEnum::RangeTableFunc(_) | NodeEnum::JsonTable(_) => true,
        _ => false,
    });
    let spread = |r: &Arc<Relation>| r.distribution().is_some() || r.kind == RelationKind::View;
    narrow && relations::of(statement).into_iter().any(|rv| cx.relation(rv).is_some_and(spread))
}

/// Qualifies them; true if there were some.
pub fn qualify(statement: &mut NodeEnum, cx: &Context, steps: &Steps) -> Result<bool> {
    let tables = {
        let cx = Context { views: Default::default(), lists: Default::default(), steps: Some(steps), ..*cx };
        match found(statement, &cx)? {
            tables if tables.is_empty() => return Ok(false),
            tables => tables,
        }
    };
    let mut put = Put { tables, at: 0 };
    walk::below_mut(statement, &mut put);
    Ok(true)
}

/// The tables of such names, by the place of the name among all.
fn found(statement: &NodeEnum, cx: &Context) -> Result<HashMap<usize, String>> {
    let mut a = Analysis::new(cx);
    a.narrow = Some(vec![]);
    let analysed = match statement {
        NodeEnum::SelectStmt(s) => a.query(s).map(|_| ()),
        _ => modify::analyse(&mut a, statement, None).and_then(|_| a.finish_pending()),
    };
    // What is wrong with it is said by who plans it.
    if analysed.is_err() {
        return Ok(HashMap::new());
    }
    let mut tables = HashMap::new();
    for narrow in a.narrow.iter().flatten() {
        let Some(whole) = a.scopes.get(&narrow.level) else { continue };
        let mut names = Names { a: &a, narrow, whole, around: vec![], tables: &mut tables, failed: None };
        walk::walk(narrow.part, &mut names);
        if let Some(refusal) = names.failed {
            return Err(refusal);
        }
    }
    let mut places = Places { tables: &tables, at: 0, found: HashMap::new() };
    walk::below(statement, &mut places);
    Ok(places.found)
}

struct Names<'n, 'a> {
    a: &'n Analysis<'a>,
    narrow: &'n Narrow<'a>,
    /// All of the FROM.
    whole: &'n Scope<'a>,
    /// The levels of queries within the part.
    around: Vec<Option<usize>>,
    tables: &'n mut HashMap<*const ast::ColumnRef, String>,
    failed: Option<Refusal>,
}

impl<'a> Names<'_, 'a> {
    fn name(&mut self, c: &'a ast::ColumnRef) -> Result<()> {
        let parts = names::strings(&c.fields);
        let mut within: Vec<&Scope> = vec![];
        if let Some(inner) = self.around.last() {
            let Some(scope) = inner.and_then(|level| self.a.scopes.get(&level)) else { return Ok(()) };
            let around = std::iter::successors(Some(&**scope), |s| s.parent.as_deref());
            within = around.take_while(|s| s.level != Some(self.narrow.level)).collect();
        }
        // Of a query within the part.
        let alone = |s: &&Scope| Scope { parent: None, ..Scope::clone(s) }.meaning(&parts) != Meaning::Nothing;
        if parts.is_empty() || within.iter().any(alone) {
            return Ok(());
        }
        let (seen, whole) = (self.narrow.seen.meaning(&parts), self.whole.meaning(&parts));
        if seen.is_like(whole) {
            return Ok(());
        }
        let known = |m: Meaning| matches!(m, Meaning::Column { .. } | Meaning::Merged { .. });
        match seen {
            // What is in a join with a name of its own is nothing outside.
            Meaning::Column { hops: 0, .. } | Meaning::Merged { hops: 0, .. } if !known(whole) => Ok(()),
            // PostgreSQL does not know which of several.
            Meaning::Column { hops, .. } if parts.len() == 1 && self.have(hops, parts[0]) > 1 => Ok(()),
            Meaning::Column { hops, item, .. } if parts.len() == 1 => {
                let table = match self.called(&within, (hops, item), parts[0]) {
                    None if self.is_hidden(hops, item) => return Ok(()),
                    table => table.ok_or_else(|| refusal(parts[0]))?,
                };
                self.tables.insert(std::ptr::from_ref(c), table);
                Ok(())
            }
            Meaning::Column { hops, item, .. } if self.is_hidden(hops, item) => Ok(()),
            // An error of PostgreSQL's, or the row of what is called so.
            Meaning::Nothing if !known(whole) || !self.is_row(&parts) => Ok(()),
            Meaning::Unknown if !known(whole) => Ok(()),
            _ => Err(refusal(parts.last().copied().unwrap_or_default())),
        }
    }

    /// What an item is called, if its column is meant by that, and nothing else would be.
    fn called(&self, within: &[&Scope], (hops, item): (usize, usize), column: &str) -> Option<String> {
        let mut around = std::iter::successors(Some(&*self.narrow.seen), |s| s.parent.as_deref());
        let name = around.nth(hops)?.items.get(item).map(|i| i.alias.clone()).filter(|name| !name.is_empty())?;
        let (bare, parts) = (self.narrow.seen.meaning(&[column]), [&*name, column]);
        let whole = self.whole.meaning(&parts);
        let is_it = self.narrow.seen.meaning(&parts) == bare && (whole.is_like(bare) || whole == Meaning::Nothing);
        let hidden = within.iter().flat_map(|s| &s.items).any(|i| i.alias == name);
        (is_it && !hidden).then_some(name)
    }

    /// It is in a join with a name of its own, whose conditions are not used where names in them would be misread (`Condition::is_misread`).
    fn is_hidden(&self, hops: usize, item: usize) -> bool {
        let alias = |s: &Scope| s.items.get(item).map(|i| i.alias.clone());
        hops == 0 && alias(&self.narrow.seen) != alias(self.whole)
    }

    /// How many items that are seen have a column of the name.
    fn have(&self, hops: usize, name: &str) -> usize {
        let mut seen = std::iter::successors(Some(&*self.narrow.seen), |s| s.parent.as_deref());
        let items = seen.nth(hops).map_or(&[][..], |s| &s.items);
        items.iter().filter(|i| i.columns.iter().any(|(column, _)| column == name)).count()
    }

    fn is_row(&self, parts: &[&str]) -> bool {
        let mut seen = std::iter::successors(Some(&*self.narrow.seen), |s| s.parent.as_deref());
        matches!(parts, [name] if seen.any(|s| s.items.iter().any(|i| i.alias == *name)))
    }
}

fn refusal(name: &str) -> Refusal {
    Refusal::new(
        format!(
            "\"{name}\" in a join's condition or a function's argument, where it means something else than beside it, is not supported"
        ),
        "Write the table's name in front of the column's, and call no two tables the same.",
    )
}

impl<'a> Visit<'a> for Names<'_, 'a> {
    fn node(&mut self, n: &'a NodeEnum) -> bool {
        if let NodeEnum::ColumnRef(c) = n
            && !names::has_star(c)
            && self.failed.is_none()
        {
            self.failed = self.name(c).err();
        }
        true
    }

    fn select(&mut self, s: &'a ast::SelectStmt) -> bool {
        self.around.push(self.a.by_node.get(&std::ptr::from_ref(s)).copied());
        true
    }

    fn leave_select(&mut self, _: &'a ast::SelectStmt) {
        self.around.pop();
    }
}

struct Places<'p> {
    tables: &'p HashMap<*const ast::ColumnRef, String>,
    at: usize,
    found: HashMap<usize, String>,
}

impl<'n> Visit<'n> for Places<'_> {
    fn node(&mut self, n: &'n NodeEnum) -> bool {
        if let NodeEnum::ColumnRef(c) = n {
            self.found.extend(self.tables.get(&std::ptr::from_ref(c)).map(|table| (self.at, table.clone())));
            self.at += 1;
        }
        true
    }
}

struct Put {
    tables: HashMap<usize, String>,
    at: usize,
}

impl VisitMut for Put {
    fn node(&mut self, n: &mut NodeEnum) -> bool {
        if let NodeEnum::ColumnRef(c) = n {
            if let Some(table) = self.tables.get(&self.at) {
                c.fields.insert(0, build::string(table));
            }
            self.at += 1;
        }
        true
    }
}

//! Views over distributed and reference tables are replaced by their queries, so that planning sees the tables; in the
//! texts for nodes each view that is still whole stands under its own name again.
//!
//! Planning looks into views, rights do not: a node that reads a view by its name does what PostgreSQL does with its
//! owner's rights, its policies, its security barrier and its columns' grants. Where a plan takes a view apart, its tables are
//! read with the rights of who asks: then the text asks for the right to the view besides, and what could show more (or
//! less) than the view does is refused.
//!
//! Views over local tables and system views are left as they are. A view's names are those its maker meant: the catalog
//! has them qualified, so nothing of the statement around it, its WITH queries and search path least of all, changes them.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;
use wire::sqlstate;

use sql::ast;
use sql::walk::{self, VisitMut};
use sql::{NodeEnum, build, names, own, relations, search, weight};

use catalog::{Placement, Relation};

use crate::refuse::Refusal;
use crate::{Context, Result, Text, opened};

/// Views within views.
const DEPTH_MAX: usize = 64;
/// Views put into one statement: each use of a view that names another twice doubles them.
const EXPANSIONS_MAX: usize = 1000;
/// Their texts together, and what reading them may take, in bytes.
const BYTES_MAX: usize = 16 << 20;
const WEIGHT_MAX: usize = 512 << 20;

/// The views a statement's tree holds in place of their names.
#[derive(Default)]
pub struct Views {
    list: Vec<Inlined>,
    /// Those whose tables a text names.
    apart: RefCell<BTreeSet<usize>>,
}

struct Inlined {
    relation: Arc<Relation>,
    /// The view around it.
    inside: Option<usize>,
    /// What stands for it in the tree.
    query: ast::SelectStmt,
    /// Why its tables must not be read with the rights of who asks.
    whole: Option<Refusal>,
}

/// Puts the views' queries in the place of their names.
pub fn expand(statement: &mut NodeEnum, cx: &Context) -> Result<Views> {
    let mut v = Expand { cx, list: vec![], bytes: 0, weight: 0 };
    // The target of a write is never replaced: see `through_views.rs`.
    v.replace(statement, 0, None)?;
    let missing = || Refusal::bare("internal: a view was not put in place");
    let list = v.list.into_iter().map(|i| i.ok_or_else(missing)).collect::<Result<_>>()?;
    Ok(Views { list, apart: RefCell::default() })
}

struct Expand<'a> {
    cx: &'a Context<'a>,
    list: Vec<Option<Inlined>>,
    bytes: usize,
    weight: usize,
}

impl Expand<'_> {
    fn replace(&mut self, statement: &mut NodeEnum, depth: usize, inside: Option<usize>) -> Result<()> {
        let mut outcome = Ok(());
        relations::replace(statement, &mut |node| {
            let Some(NodeEnum::RangeVar(rv)) = &node.node else { return };
            if outcome.is_err() {
                return;
            }
            match self.expansion(rv, depth, inside) {
                Ok(None) => {}
                Ok(Some(new)) => *node = new,
                Err(e) => outcome = Err(e),
            }
        });
        outcome
    }

    fn expansion(&mut self, rv: &ast::RangeVar, depth: usize, inside: Option<usize>) -> Result<Option<ast::Node>> {
        let Some(relation) = named(rv, self.cx, depth).filter(|_| !opened::is_asked(rv)) else { return Ok(None) };
        if self.cx.snapshot.locked.contains(&relation.oid) {
            return Err(Refusal::locked(&relation.name));
        }
        let Some(view) = &relation.view else { return Ok(None) };
        if view.materialized || !reads_herd(&view.query, self.cx) {
            return Ok(None);
        }
        let number = self.list.len();
        self.list.push(None);
        if depth >= DEPTH_MAX || number >= EXPANSIONS_MAX {
            return Err(Refusal {
                sqlstate: sqlstate::STATEMENT_TOO_COMPLEX,
                message: "stack depth limit exceeded".into(),
                hint: Some("Views are nested too deeply to be read over several nodes.".into()),
            });
        }
        self.bytes += view.query.len();
        let too_long = |what: String| Refusal {
            sqlstate: sqlstate::PROGRAM_LIMIT_EXCEEDED,
            message: format!("the definitions of the views in this statement {what}"),
            hint: Some("Name a view with a long definition less often.".into()),
        };
        if self.bytes > BYTES_MAX {
            return Err(too_long(format!("are longer than {BYTES_MAX} bytes")));
        }
        self.weight += weight::of(&view.query, true).made;
        if self.weight > WEIGHT_MAX {
            return Err(too_long(format!("would take more than {WEIGHT_MAX} bytes to plan")));
        }
        let unreadable = || Refusal::bare(format!("the definition of view {} could not be read", relation.name));
        let mut query = match sql::parse(&view.query, true) {
            Err(e) if !e.too_deep => return Err(unreadable()),
            read => read?.pop().ok_or_else(unreadable)?,
        };
        mark(&mut query, number);
        self.replace(&mut query, depth + 1, Some(number))?;
        qualify(&mut query);
        let NodeEnum::SelectStmt(query) = query else { return Err(unreadable()) };
        let alias = rv.alias.clone().unwrap_or_else(|| build::alias(&relation.name));
        let whole = must_be_whole(relation, self.cx);
        self.list[number] = Some(Inlined { relation: relation.clone(), inside, query: (*query).clone(), whole });
        Ok(Some(build::subselect(*query, Some(alias), false)))
    }
}

/// What a statement names, as a target or in FROM, can be read now.
pub fn refuse_locked(statement: &NodeEnum, cx: &Context) -> Result<()> {
    let (locked, replaced) = (&cx.snapshot.locked, &cx.snapshot.replaced);
    if locked.is_empty() && replaced.is_empty() {
        return Ok(());
    }
    let mut named = relations::of(statement).into_iter().filter_map(|rv| named(rv, cx, 0));
    match named.find(|r| locked.contains(&r.oid) || replaced.contains(&r.oid)) {
        Some(relation) if replaced.contains(&relation.oid) => Err(Refusal::replaced(&relation.name)),
        Some(relation) => Err(Refusal::locked(&relation.name)),
        None => Ok(()),
    }
}

/// What a name means: in the statement itself (`depth` 0) by its search path, in a view, whose names are qualified, by itself.
pub(crate) fn named<'a>(rv: &ast::RangeVar, cx: &'a Context, depth: usize) -> Option<&'a Arc<Relation>> {
    if depth == 0 {
        return cx.relation(rv);
    }
    let (schema, name) = names::table(rv);
    cx.snapshot.resolve(schema, name, &[])
}

/// What a view's text leaves unqualified is PostgreSQL's own.
fn qualify(query: &mut NodeEnum) {
    relations::replace(query, &mut |node| {
        if let Some(NodeEnum::RangeVar(rv)) = &mut node.node
            && rv.schemaname.is_empty()
        {
            rv.schemaname = "pg_catalog".into();
        }
    });
    own::qualify(query);
}

/// The view's query names a distributed or reference table, itself or through other views.
pub fn reads_herd(view: &str, cx: &Context) -> bool {
    let mut seen = std::collections::HashSet::new();
    let mut texts = vec![view];
    while let Some(text) = texts.pop() {
        let Ok(statements) = sql::parse(text, true) else { return true };
        for rv in statements.iter().flat_map(relations::of) {
            let Some(relation) = named(rv, cx, 1).filter(|r| seen.insert(r.oid)) else { continue };
            match (&relation.placement, &relation.view) {
                (Placement::Local, Some(view)) => texts.push(&view.query),
                (Placement::Local, None) => {}
                _ => return true,
            }
        }
    }
    false
}

/// Places in a statement's text are offsets; −1 is PostgreSQL's word for none. What comes from view n is at −2 − n.
const FIRST_MARK: i32 = -2;

/// The name stands in a view's query.
pub fn is_in_view(rv: &ast::RangeVar) -> bool {
    view_at(rv.location).is_some()
}

fn view_at(location: i32) -> Option<usize> {
    usize::try_from(FIRST_MARK.checked_sub(location)?).ok()
}

/// The literal is one of a view's query: no offset into the client's text.
pub fn is_of_view(literal: &ast::AConst) -> bool {
    view_at(literal.location).is_some()
}

fn mark(query: &mut NodeEnum, number: usize) {
    let at = FIRST_MARK - number as i32;
    search::each_relation_mut(query, |rv| rv.location = at);
    search::each_mut(query, |n| {
        match n {
            NodeEnum::AConst(c) => c.location = at,
            // Whatever is known of the statement's by their places is not of these.
            NodeEnum::AExpr(e) => e.location = -1,
            NodeEnum::BoolExpr(b) => b.location = -1,
            _ => {}
        }
        true
    });
}

/// The schema of the search path with an `=` that could stand here for the maker's, which a view's text does not show.
pub(crate) fn another_equality<'c>(query: &[NodeEnum], cx: &'c Context) -> Option<&'c String> {
    let other = || cx.snapshot.own_equality.iter().find(|s| cx.search_path.contains(s));
    if query.iter().any(own::hides_equality) { other() } else { None }
}

/// Why a view's tables can't be read with the rights of who asks, if they can't.
pub(crate) fn must_be_whole(relation: &Relation, cx: &Context) -> Option<Refusal> {
    let view = relation.view.as_ref()?;
    let refusal = |why: String| {
        Refusal::new(
            format!("this query takes view \"{}\" apart over several nodes, {why}", relation.name),
            "Read the tables themselves, or filter the query to one key value.",
        )
    };
    if view.security_barrier {
        return Some(refusal("which is a security barrier".into()));
    }
    if view.column_grants {
        return Some(refusal("of which single columns are granted".into()));
    }
    let statements = sql::parse(&view.query, true).ok()?;
    if let Some(schema) = another_equality(&statements, cx) {
        return Some(refusal(format!("and schema \"{schema}\" of the search path has an operator = of its own")));
    }
    let mut tables = statements.iter().flat_map(relations::of).filter_map(|rv| named(rv, cx, 1));
    let guarded = tables.find(|t| t.row_security && !view.security_invoker)?;
    Some(refusal(format!("whose owner's row-level security policies of \"{}\" hold", guarded.name)))
}

impl Views {
    /// No view's query stands in the tree in place of its name.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// It stands for a view of which single columns are granted: not to be read with more of them than are asked for.
    pub fn grants_columns(&self, query: &ast::SelectStmt) -> bool {
        let granted = |v: &Inlined| v.relation.view.as_ref().is_some_and(|view| view.column_grants);
        self.list.iter().any(|v| granted(v) && v.query == *query)
    }

    /// The text of a tree for nodes.
    pub fn text(&self, tree: NodeEnum) -> Result<Text> {
        Text::of(&self.settle(tree)?)
    }

    /// The tree as a node may run it: views by their names where they are whole, and where one is not the right to it is
    /// asked for.
    pub fn settle(&self, mut tree: NodeEnum) -> Result<NodeEnum> {
        if self.list.is_empty() {
            return Ok(tree);
        }
        self.fold(&mut tree);
        let mut outermost = BTreeSet::new();
        for number in apart(&mut tree) {
            let Some(view) = self.list.get(number) else { continue };
            if let Some(refusal) = &view.whole {
                return Err(refusal.clone());
            }
            outermost.insert(self.outermost(number));
        }
        for number in &outermost {
            if !ask(&mut tree, &self.list[*number].relation, None) {
                return Err(Refusal::bare(format!(
                    "view \"{}\" can't be read here over several nodes",
                    self.list[*number].relation.name
                )));
            }
        }
        self.apart.borrow_mut().extend(outermost);
        Ok(tree)
    }

    /// Every view that is as it was put in gets its name back.
    pub fn fold(&self, tree: &mut NodeEnum) {
        walk::below_mut(tree, &mut Fold(&self.list));
    }

    fn outermost(&self, mut number: usize) -> usize {
        while let Some(outer) = self.list[number].inside {
            number = outer;
        }
        number
    }

    /// The views whose tables are read with the rights of who asks.
    pub fn taken_apart(&self) -> Vec<String> {
        self.apart.borrow().iter().map(|n| self.list[*n].relation.name.clone()).collect()
    }
}

struct Fold<'v>(&'v [Inlined]);

impl VisitMut for Fold<'_> {
    fn node(&mut self, n: &mut NodeEnum) -> bool {
        let NodeEnum::RangeSubselect(sub) = n else { return true };
        let Some(NodeEnum::SelectStmt(query)) = sub.subquery.as_deref().and_then(|q| q.node.as_ref()) else {
            return true;
        };
        let Some(view) = self.0.iter().find(|v| v.query == **query) else { return true };
        let mut named = build::range_var(&view.relation.schema, &view.relation.name, None);
        if let Some(NodeEnum::RangeVar(rv)) = &mut named.node {
            rv.alias = sub.alias.take();
            rv.location = view.inside.map_or(-1, |outer| FIRST_MARK - outer as i32);
        }
        if let Some(named) = named.node {
            *n = named;
        }
        false
    }
}

/// The views whose own names a tree holds.
fn apart(tree: &mut NodeEnum) -> BTreeSet<usize> {
    let mut marked = BTreeSet::new();
    search::each_relation(tree, |rv| marked.extend(view_at(rv.location)));
    marked
}

/// A view's query, which asks for the right to it; `called`: what the view is called there.
pub(crate) fn asking(mut query: ast::SelectStmt, view: &Relation, called: Option<&str>) -> Option<ast::SelectStmt> {
    if ask_select(&mut query, view, called) {
        return Some(query);
    }
    let mut around = build::select();
    around.target_list = vec![build::target(build::star(), None)];
    around.from_clause = vec![build::subselect(query, Some(build::alias("query")), false)];
    ask_select(&mut around, view, called).then_some(around)
}

/// Adds `NOT EXISTS (SELECT FROM view WHERE false)`, which is true, costs nothing and needs the right to the view.
fn ask(tree: &mut NodeEnum, view: &Relation, called: Option<&str>) -> bool {
    match tree {
        NodeEnum::SelectStmt(s) => ask_select(s, view, called),
        NodeEnum::UpdateStmt(s) => ask_where(&mut s.where_clause, view, called),
        NodeEnum::DeleteStmt(s) => ask_where(&mut s.where_clause, view, called),
        NodeEnum::InsertStmt(s) => match s.select_stmt.as_deref_mut().and_then(|s| s.node.as_mut()) {
            Some(NodeEnum::SelectStmt(s)) => ask_select(s, view, called),
            _ => false,
        },
        _ => false,
    }
}

fn ask_select(select: &mut ast::SelectStmt, view: &Relation, called: Option<&str>) -> bool {
    match (&mut select.larg, &mut select.rarg) {
        (Some(left), Some(right)) => ask_select(left, view, called) || ask_select(right, view, called),
        _ => select.values_lists.is_empty() && ask_where(&mut select.where_clause, view, called),
    }
}

fn ask_where(condition: &mut Option<Box<ast::Node>>, view: &Relation, called: Option<&str>) -> bool {
    let mut name = catalog::qualified(&view.schema, &view.name);
    if let Some(called) = called {
        name = format!("{name} AS {}", catalog::quote_ident(called));
    }
    let asked = sql::parse(&format!("SELECT WHERE NOT EXISTS (SELECT FROM {name} WHERE false)"), true);
    let Ok(Some(NodeEnum::SelectStmt(asked))) = asked.map(|mut s| s.pop()) else { return false };
    *condition = match (condition.take(), asked.where_clause) {
        (Some(condition), Some(asked)) => Some(Box::new(build::and(vec![*condition, *asked]))),
        (None, asked) => asked,
        (condition, None) => condition,
    };
    true
}

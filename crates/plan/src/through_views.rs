//! Writes through views that PostgreSQL updates by itself: planning sees the table under the view, texts for nodes keep the view's name.
//!
//! What stands for such a view while a statement is planned is a relation of the view's name and columns, which is placed as the table
//! is, by the view's own names of the key's columns. A node that gets the statement rewrites it with the rights of the view's owner, its
//! security barrier and its check option; so no partition is named, and no row is copied past the view. What the view's own condition
//! says of the key is not used. It does not know how statements are planned, nor what views read (`views.rs`).

use std::sync::Arc;

use catalog::{Column, Placement, Relation, RelationKind, UniqueIndex};
use sql::ast::{self, Node, SelectStmt};
use sql::body::Body;
use sql::{NodeEnum, names, relations, search};

use crate::levels::Analysis;
use crate::{Context, Refusal, Result, backends, clock_text, needs, reads, rewrite, same, views};

/// Views on views.
const DEPTH_MAX: usize = 64;

/// What stands for the views that a statement writes to.
pub enum Targets {
    Tables(Vec<Arc<Relation>>),
    /// PostgreSQL does not update one of them by itself: home says so.
    Fails,
}

/// `with`: the statement may have WITH queries, which may write.
pub fn of(statement: &NodeEnum, with: bool, cx: &Context) -> Result<Targets> {
    let mut written = vec![];
    written.extend(target(statement));
    if with {
        search::each(statement, |n| written.extend(target(n)));
    }
    let mut tables: Vec<Arc<Relation>> = vec![];
    for Written { rv, adds, gives, adds_only } in &written {
        let Some(view) = cx.relation(rv).filter(|r| r.kind == RelationKind::View) else { continue };
        let Some(definition) = view.view.as_ref().filter(|_| !runs_code(view)) else { continue };
        if !views::reads_herd(&definition.query, cx) {
            continue;
        }
        let Some(mut under) = under(view, 0, cx)? else { return Ok(Targets::Fails) };
        let once = written.iter().filter(|other| cx.relation(other.rv).is_some_and(|r| r.oid == view.oid)).count() == 1;
        under.show_once(view, if once { gives } else { &Gives::Unknown })?;
        if *adds_only && !under.checked {
            under.queries.iter_mut().for_each(forget_conditions);
        }
        under.refuse(view, *adds, cx)?;
        if !tables.iter().any(|t| is_named(t, view)) {
            tables.push(Arc::new(under.stands_for(view)));
        }
    }
    Ok(Targets::Tables(tables))
}

/// It is what stands for this relation.
pub fn is_named(stands: &Relation, relation: &Relation) -> bool {
    stands.name == relation.name && stands.schema == relation.schema
}

/// Rows that go through it are whole: of the table under what stands for the view all columns are shown that can be given.
pub fn shows_all(stands: &Relation, cx: &Context) -> bool {
    let given = |r: &Relation| r.columns.iter().filter(|c| !c.generated).count();
    let table = cx.snapshot.relations.values().find(|r| r.oid == stands.oid);
    table.is_some_and(|table| given(table) == given(stands))
}

/// The refusal of a write through a view.
pub fn refusal(view: &Relation, why: &str) -> Refusal {
    Refusal::new(
        format!("writing to distributed or reference tables through view \"{}\" {why} is not supported", view.name),
        "Write to the table itself.",
    )
}

/// What a statement adds to what it writes to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Adds {
    Nothing,
    OneRow,
    Rows,
    /// MERGE: perhaps one for each row.
    Merged,
}

/// Which columns of what it writes to a statement gives.
enum Gives<'s> {
    Named(Vec<&'s str>),
    /// So many, from the first on.
    First(usize),
    Unknown,
}

impl Gives<'_> {
    /// It gives this column, the `at`th. `None`: it may, in some of its parts.
    fn has(&self, at: usize, name: &str) -> Option<bool> {
        match self {
            Gives::Named(names) => Some(names.contains(&name)),
            Gives::First(width) => Some(at < *width),
            Gives::Unknown => None,
        }
    }
}

/// A statement's target.
struct Written<'s> {
    rv: &'s ast::RangeVar,
    adds: Adds,
    gives: Gives<'s>,
    /// An INSERT, and no row that is there is looked at.
    adds_only: bool,
}

/// Which rows a view shows is not asked of those that are added to it (rewriteTargetView in rewriteHandler.c).
fn forget_conditions(query: &mut NodeEnum) {
    if let NodeEnum::SelectStmt(select) = query {
        select.where_clause = None;
    }
}

fn target(statement: &NodeEnum) -> Option<Written<'_>> {
    let (rv, adds, gives) = match statement {
        NodeEnum::InsertStmt(s) => (&s.relation, rows(s.select_stmt.as_deref()), given(s)),
        NodeEnum::MergeStmt(s) => (&s.relation, Adds::Merged, Gives::Unknown),
        NodeEnum::UpdateStmt(s) => (&s.relation, Adds::Nothing, Gives::Named(named(&s.target_list))),
        NodeEnum::DeleteStmt(s) => (&s.relation, Adds::Nothing, Gives::Named(vec![])),
        _ => return None,
    };
    let adds_only = matches!(statement, NodeEnum::InsertStmt(s) if s.on_conflict_clause.is_none());
    rv.as_ref().map(|rv| Written { rv, adds, gives, adds_only })
}

fn named(targets: &[Node]) -> Vec<&str> {
    let mut names = vec![];
    for target in targets {
        if let Some(NodeEnum::ResTarget(t)) = &target.node {
            names.push(t.name.as_str());
        }
    }
    names
}

fn given(insert: &ast::InsertStmt) -> Gives<'_> {
    // What ON CONFLICT names and sets may be other columns than those that the rows give.
    if insert.on_conflict_clause.is_some() {
        return Gives::Unknown;
    }
    let width = |row: &Node| match &row.node {
        Some(NodeEnum::List(row)) => row.items.len(),
        _ => usize::MAX,
    };
    match insert.select_stmt.as_deref().and_then(|n| n.node.as_ref()) {
        _ if !insert.cols.is_empty() => Gives::Named(named(&insert.cols)),
        None => Gives::Named(vec![]),
        Some(NodeEnum::SelectStmt(s)) if !s.values_lists.is_empty() => {
            Gives::First(s.values_lists.iter().map(width).max().unwrap_or(0))
        }
        Some(_) => Gives::Unknown,
    }
}

fn rows(source: Option<&Node>) -> Adds {
    match source.and_then(|n| n.node.as_ref()) {
        Some(NodeEnum::SelectStmt(s)) if s.values_lists.len() != 1 => Adds::Rows,
        _ => Adds::OneRow,
    }
}

/// INSTEAD OF triggers and rules do in a write's place what they like.
fn runs_code(view: &Relation) -> bool {
    view.triggers || view.statement_triggers
}

/// The table under a view.
struct Under {
    table: Arc<Relation>,
    /// For each column of the view the table's; `None`: an expression.
    shown: Vec<Option<usize>>,
    /// The table's columns with the defaults of the view, or of those under it.
    columns: Vec<Column>,
    /// The queries of the view and of those under it.
    queries: Vec<NodeEnum>,
    /// One of these views has WITH CHECK OPTION.
    checked: bool,
}

/// `None`: PostgreSQL does not update the view by itself (view_query_is_auto_updatable in rewriteHandler.c).
fn under(view: &Relation, depth: usize, cx: &Context) -> Result<Option<Under>> {
    if cx.snapshot.locked.contains(&view.oid) {
        return Err(Refusal::locked(&view.name));
    }
    let unreadable = || refusal(view, "whose definition can't be read");
    let definition = view.view.as_ref().filter(|_| depth < DEPTH_MAX).ok_or_else(unreadable)?;
    let query = sql::parse(&definition.query, true)?.pop().ok_or_else(unreadable)?;
    if sql::read_whole::query(&query).is_some() {
        return Err(refusal(view, "that reads local tables, too,"));
    }
    let NodeEnum::SelectStmt(select) = &query else { return Err(unreadable()) };
    let Some(from) = only_relation(select) else { return Ok(None) };
    let Some(inner) = views::named(from, cx, 1) else { return Err(unreadable()) };
    let mut found = match (&inner.placement, inner.kind) {
        (Placement::Distributed(_) | Placement::Reference, _) => Under {
            table: inner.clone(),
            shown: (0..inner.columns.len()).map(Some).collect(),
            columns: inner.columns.to_vec(),
            queries: vec![],
            checked: false,
        },
        (Placement::Local, RelationKind::View) if runs_code(inner) => {
            return Err(refusal(view, "over one with triggers or rules"));
        }
        (Placement::Local, RelationKind::View) => match under(inner, depth + 1, cx)? {
            Some(under) => under,
            None => return Ok(None),
        },
        (Placement::Local, RelationKind::MaterializedView) => return Ok(None),
        (Placement::Local, _) => return Err(refusal(view, "of a local table")),
    };
    if !from.inh || !select.locking_clause.is_empty() {
        return Err(refusal(view, "with ONLY or FOR UPDATE"));
    }
    let mut called: Vec<&str> = inner.columns.iter().map(|c| c.name.as_str()).collect();
    let aliases = from.alias.iter().flat_map(|alias| names::strings(&alias.colnames));
    called.iter_mut().zip(aliases).for_each(|(name, alias)| *name = alias);
    let column = |item: &Node| -> Option<usize> {
        let name = names::column(rewrite::target_value(item)?)?.pop()?;
        found.shown[called.iter().position(|c| *c == name)?]
    };
    let shown: Vec<Option<usize>> = select.target_list.iter().map(column).collect();
    if shown.len() != view.columns.len() {
        return Err(unreadable());
    }
    found.shown = shown;
    for (own, of_table) in view.columns.iter().zip(&found.shown) {
        if let (Some(at), true) = (of_table, own.default.is_some()) {
            let column = &mut found.columns[*at];
            column.default.clone_from(&own.default);
            column.sequence.clone_from(&own.sequence);
            (column.sequence_oid, column.identity) = (own.sequence_oid, 0);
        }
    }
    found.queries.push(query);
    found.checked |= definition.check_option;
    Ok(Some(found))
}

/// The one relation a view selects from, if its rows are that one's rows.
fn only_relation(s: &SelectStmt) -> Option<&ast::RangeVar> {
    let [Node { node: Some(NodeEnum::RangeVar(from)) }] = &s.from_clause[..] else { return None };
    let plain = s.op == ast::SetOperation::SetopNone as i32
        && s.distinct_clause.is_empty()
        && s.group_clause.is_empty()
        && s.having_clause.is_none()
        && s.with_clause.is_none()
        && s.limit_count.is_none()
        && s.limit_offset.is_none()
        && s.values_lists.is_empty();
    // Whatever else may be an aggregate or gives sets is left to the nodes, who know for sure; in subqueries it is theirs.
    let gathers = |n: &NodeEnum| matches!(n, NodeEnum::FuncCall(f) if f.over.is_some() || f.agg_star);
    let has_subquery = |n: &Node| search::any(n, |n| matches!(n, NodeEnum::SubLink(_)));
    let gathered = s.target_list.iter().any(|n| !has_subquery(n) && search::any(n, gathers));
    (plain && !gathered).then_some(from)
}

/// A node finds the view's rows among its rows of the table, whatever subqueries ask: what these read is where the row is.
fn by_each_node(query: &NodeEnum, cx: &Context) -> bool {
    let NodeEnum::SelectStmt(select) = query else { return false };
    let is_table = |rv: &ast::RangeVar| cx.relation(rv).is_some_and(|r| r.kind == RelationKind::Table);
    let answered = || -> Result<bool> {
        let mut a = Analysis::new(cx);
        let level = a.query(select)?;
        a.finish_pending()?;
        let stays = a.levels[level].refusal.is_none() && a.needs_home.is_none() && !a.levels.iter().any(|l| l.volatile);
        Ok(stays && a.colocated(level).is_ok())
    };
    relations::of(query).into_iter().all(is_table) && answered().unwrap_or(false)
}

impl Under {
    /// Of columns of the view that are one of the table's, that which the statement gives is it: the others are computed of it. Where it
    /// gives several, PostgreSQL refuses it, unless some are DEFAULT.
    fn show_once(&mut self, view: &Relation, gives: &Gives) -> Result<()> {
        for at in 0..self.shown.len() {
            let Some(column) = self.shown[at] else { continue };
            let alike: Vec<usize> = (at..self.shown.len()).filter(|i| self.shown[*i] == Some(column)).collect();
            if alike.len() < 2 {
                continue;
            }
            let twice = || refusal(view, &format!("that shows column \"{}\" twice", self.table.columns[column].name));
            let mut given = vec![];
            for i in &alike {
                // A default of the view's own is given as well.
                if view.columns[*i].default.is_some() {
                    return Err(twice());
                }
                if gives.has(*i, &view.columns[*i].name).ok_or_else(twice)? {
                    given.push(*i);
                }
            }
            let shows = match given[..] {
                [] => at,
                [one] => one,
                _ => return Err(twice()),
            };
            alike.into_iter().filter(|i| *i != shows).for_each(|i| self.shown[i] = None);
        }
        Ok(())
    }

    /// The relation that stands for the view.
    fn stands_for(&self, view: &Relation) -> Relation {
        let own = |(column, at): (&Column, &Option<usize>)| match at {
            Some(at) => Column { name: column.name.clone(), ..self.columns[*at].clone() },
            // It is computed, and nobody writes it.
            None => Column { default: None, sequence: None, identity: 0, generated: true, ..column.clone() },
        };
        let table = &self.table;
        let unique = |u: &UniqueIndex| {
            let columns = u.columns.iter().map(|c| self.position(*c)).collect::<Option<_>>()?;
            Some(UniqueIndex { columns, ..u.clone() })
        };
        let mut placement = table.placement.clone();
        if let Placement::Distributed(d) = &mut placement {
            d.key.iter_mut().for_each(|k| *k = self.position(*k).unwrap_or(Relation::HIDDEN));
        }
        Relation {
            schema: view.schema.clone(),
            name: view.name.clone(),
            kind: RelationKind::View,
            placement,
            columns: view.columns.iter().zip(&self.shown).map(own).collect(),
            view: view.view.clone(),
            through: Some(view.oid),
            unique: table.unique.iter().filter_map(unique).collect(),
            schema_is_open: table.schema_is_open && view.schema_is_open,
            ..Relation::clone(table)
        }
    }

    /// Where the view shows a column of the table.
    fn position(&self, column: usize) -> Option<usize> {
        self.shown.iter().position(|c| *c == Some(column))
    }

    /// What would not come out as on one PostgreSQL.
    fn refuse(&self, view: &Relation, adds: Adds, cx: &Context) -> Result<()> {
        let reference = self.table.is_reference();
        if reference && adds == Adds::Merged {
            return Err(refusal(view, "by MERGE"));
        }
        if let Some(what) = self.queries.iter().find_map(|q| self.apart(q, cx)) {
            return Err(refusal(view, &format!("whose query {what}")));
        }
        let hidden = || (0..self.columns.len()).filter(|c| self.position(*c).is_none());
        if reference && self.table.triggers && hidden().next().is_some() {
            return Err(refusal(view, "that hides columns of a reference table with triggers"));
        }
        let is_key = |c: usize| self.table.distribution().is_some_and(|d| d.key.contains(&c));
        let computed_once = |at: &usize| {
            let column = &self.columns[*at];
            let default = column.default.as_deref().and_then(reads::parse_expression);
            // One row has the time of its node.
            column.sequence.is_some()
                || is_key(*at) && column.default.is_some()
                || default.is_some_and(|d| reads::calls_sequence(&d))
                || reads::reads_clock(column) && adds != Adds::OneRow
                || reference && same::default_differs(cx.snapshot, column)
        };
        match hidden().find(computed_once).filter(|_| adds != Adds::Nothing) {
            Some(at) => Err(refusal(
                view,
                &format!("that hides column \"{}\", whose default is computed once,", self.columns[at].name),
            )),
            None => Ok(()),
        }
    }

    /// What in a view's query could mean something else from node to node.
    fn apart(&self, query: &NodeEnum, cx: &Context) -> Option<String> {
        // The names in it are qualified.
        let cx = &Context::new(cx.snapshot, &[], &[]);
        let reference = self.table.is_reference();
        let is_sublink = |n: &NodeEnum| matches!(n, NodeEnum::SubLink(_));
        let copied = |rv: &&ast::RangeVar| {
            cx.snapshot.resolve(names::table(rv).0, &rv.relname, &[]).is_some_and(|r| r.is_reference())
        };
        // The first is what the view shows.
        let elsewhere = || relations::of(query).into_iter().filter(|rv| !copied(rv)).count() > 1;
        if search::any(query, is_sublink) && (reference || elsewhere() && !by_each_node(query, cx)) {
            return Some("has subqueries".into());
        }
        if search::any(query, |n| rewrite::clock_type(n).is_some()) || clock_text::read(query, cx).is_some() {
            return Some("reads the clock".into());
        }
        if backends::are_named(query) || backends::reads_of_node(query) {
            return Some("speaks of backends".into());
        }
        if let Some(need) = search::find(query, |n| needs::of(n, cx).filter(|need| need.home || need.herd)) {
            return Some(format!("uses {}", need.what));
        }
        let differs = same::differs(cx.snapshot, &[], &Body::of_statement(query)).filter(|_| reference);
        differs.map(|what| format!("uses {what}"))
    }
}

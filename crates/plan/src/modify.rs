//! Plans UPDATE, DELETE and MERGE: on one node, or the same statement on every node that may hold such rows.
//!
//! It does not know transactions; that a change on several nodes is atomic is the work of `txn`.

use std::rc::Rc;

use catalog::{Column, Placement, Relation, RelationKind};
use sql::ast::{self, Node};
use sql::body::Body;
use sql::{NodeEnum, search};

use crate::apart::Apart;
use crate::broadcast;
use crate::by_image;
use crate::by_key;
use crate::classes::Classes;
use crate::clock_text;
use crate::compared;
use crate::levels::{Analysis, From};
use crate::matches;
use crate::merge_inserts;
use crate::move_rows;
use crate::order;
use crate::reads;
use crate::refuse::Refusal;
use crate::rewrite;
use crate::same;
use crate::scope::Scope;
use crate::splice;
use crate::through_views;
use crate::tree::{self, Part};
use crate::types::*;
use crate::{Context, Result};

/// What a data-modifying statement writes, and the level that finds its rows.
pub struct TargetRelation {
    pub level: usize,
    pub relation: Option<std::sync::Arc<Relation>>,
}

/// What a statement reads to find what it writes.
struct Clauses<'a> {
    from: &'a [Node],
    condition: Option<&'a Node>,
    /// What is evaluated for the rows found.
    uppers: Vec<&'a Node>,
    merge: Option<&'a ast::MergeStmt>,
}

/// Collects the facts of a data-modifying statement: also of one inside WITH.
pub fn analyse<'a>(
    a: &mut Analysis<'a>,
    statement: &'a NodeEnum,
    parent: Option<Rc<Scope<'a>>>,
) -> Result<TargetRelation> {
    let none: &'a [Node] = &[];
    let (relation, with, from, condition, uppers): (_, _, &'a [Node], Option<&'a Node>, Vec<&'a Node>) = match statement
    {
        NodeEnum::UpdateStmt(u) => (
            &u.relation,
            &u.with_clause,
            &u.from_clause[..],
            u.where_clause.as_deref(),
            returning(&u.returning_clause).chain(&u.target_list).collect(),
        ),
        NodeEnum::DeleteStmt(d) => (
            &d.relation,
            &d.with_clause,
            &d.using_clause[..],
            d.where_clause.as_deref(),
            returning(&d.returning_clause).collect(),
        ),
        NodeEnum::MergeStmt(m) => {
            let source = m.source_relation.as_deref().map(std::slice::from_ref).unwrap_or(none);
            (
                &m.relation,
                &m.with_clause,
                source,
                m.join_condition.as_deref(),
                returning(&m.returning_clause).chain(&m.merge_when_clauses).collect(),
            )
        }
        NodeEnum::InsertStmt(i) => {
            let select = i.select_stmt.as_deref().map(std::slice::from_ref).unwrap_or(none);
            (&i.relation, &i.with_clause, none, None, select.iter().chain(returning(&i.returning_clause)).collect())
        }
        NodeEnum::SelectStmt(s) => {
            let own = a.classes.inside(Classes::WHOLE);
            let level = a.select(s, parent, own)?;
            return Ok(TargetRelation { level, relation: None });
        }
        _ => return Err(Refusal::bare("this statement is not supported in WITH")),
    };
    let Some(rv) = relation else { return Err(Refusal::bare("a write without a table")) };
    refuse_view(rv, statement, a.cx)?;
    (a.writes, a.changes_rows) = (true, true);
    let merge = if let NodeEnum::MergeStmt(m) = statement { Some(m.as_ref()) } else { None };
    a.statement(rv, with.as_ref(), Clauses { from, condition, uppers, merge }, parent)
}

fn has_clause(merge: &ast::MergeStmt, kind: ast::MergeMatchKind) -> bool {
    let is = |w: &Node| matches!(&w.node, Some(NodeEnum::MergeWhenClause(w)) if w.match_kind == kind as i32);
    merge.merge_when_clauses.iter().any(is)
}

fn returning(clause: &Option<ast::ReturningClause>) -> impl Iterator<Item = &Node> {
    clause.iter().flat_map(|r| &r.exprs)
}

impl<'a> Analysis<'a> {
    /// The level of a data-modifying statement: its target and what it is joined with.
    fn statement(
        &mut self,
        rv: &'a ast::RangeVar,
        with: Option<&'a ast::WithClause>,
        clauses: Clauses<'a>,
        parent: Option<Rc<Scope<'a>>>,
    ) -> Result<TargetRelation> {
        let Clauses { from, condition, uppers, merge } = clauses;
        let level = self.new_level(0);
        let ctes = parent.as_ref().map(|p| p.ctes.clone()).unwrap_or_default();
        let mut scope = Scope { parent, ctes, level: Some(level), ..Default::default() };
        if let Some(with) = with {
            self.with(with, level, &mut scope)?;
        }
        let shown = rv.alias.as_ref().map(|x| x.aliasname.clone()).unwrap_or_else(|| rv.relname.clone());
        let place = self.levels[level].classes;
        // WHEN NOT MATCHED takes the source's rows whatever the condition says: that restricts the target alone.
        let keeps = |kind| merge.is_some_and(|m| has_clause(m, kind));
        let sources = keeps(ast::MergeMatchKind::MergeWhenNotMatchedByTarget);
        let holds = if sources { self.classes.inside(place) } else { place };
        let (target, item) = self.relation(rv, level, &shown, holds)?;
        let relation = match &target {
            From::Home(_) => None,
            _ => self.cx.relation(rv).cloned(),
        };
        scope.items.push(item);
        self.levels[level].from.push(target);
        // WHEN NOT MATCHED BY SOURCE takes the target's, too: it restricts nothing.
        let targets = keeps(ast::MergeMatchKind::MergeWhenNotMatchedBySource);
        let holds = if targets { self.classes.inside(holds) } else { holds };
        self.levels[level].joined = holds;
        let scope = self.statement_from(from, level, scope, condition, holds)?;
        self.expressions(uppers.into_iter(), level, &scope, true)?;
        Ok(TargetRelation { level, relation })
    }
}

/// The plan of UPDATE, DELETE and MERGE.
pub fn plan(statement: &NodeEnum, text: &str, cx: &Context) -> Result<Planned> {
    let mut a = Analysis::new(cx);
    let target = analyse(&mut a, statement, None)?;
    a.finish_pending()?;
    let verb = match statement {
        NodeEnum::UpdateStmt(_) => Verb::Update,
        NodeEnum::DeleteStmt(_) => Verb::Delete,
        NodeEnum::MergeStmt(_) => Verb::Merge,
        _ => return Err(Refusal::bare("not an UPDATE, DELETE or MERGE")),
    };
    let mut whole = Whole {
        tables: a.table_keys(),
        needs_home: a.needs_home.is_some(),
        reads_reference: a.reads_reference,
        splices: splice::splices(statement, text, &a, true),
        ..Whole::on_home(true)
    };
    let change = match &target.relation {
        Some(r) if r.is_reference() && !a.uses.is_empty() && !is_row_by_row(statement, r, cx) => {
            whole.splices = None;
            match from(&a, statement, target.level, from_distributed(), &mut whole) {
                // Whoever has the rows that it reads, it is not for that node alone.
                Change::Refused(refusal) => {
                    let everywhere = Err(refusal);
                    Change::Copies(ReferenceWrite { everywhere, ..reference(&a, statement, r, target.level)? })
                }
                change => change,
            }
        }
        Some(r) if r.is_reference() => Change::Copies(reference(&a, statement, r, target.level)?),
        Some(r) if r.distribution().is_some() => {
            refuse_sequences(statement, r)?;
            let inserts = merge_inserts::of(&a, statement, target.level);
            if !matches!(inserts, Ok(None)) {
                // New rows go where their keys say, whatever ON does.
                whole.tables.iter_mut().for_each(|table| table.limits.clear());
            }
            if let Ok(Some(keys)) = inserts {
                whole.tables[keys.used].columns = keys.values(&a, statement, target.level);
            }
            let each = each(&a, statement, target.level);
            let moved = match statement {
                NodeEnum::UpdateStmt(u) => {
                    // Of other literals the same may not be true.
                    whole.template &= !move_rows::stays_by_literals(u, r, &a, target.level);
                    move_rows::changed_key(u, r, &a, target.level).map(|key| (u, key))
                }
                _ => None,
            };
            match moved {
                Some((u, key)) if let Ok(part) = &each => {
                    (whole.template, whole.splices) = (false, None);
                    move_rows::change(u, r, key, part.target.clone(), (&a, target.level))?
                }
                Some((_, key)) if r.through.is_some() && !through_views::shows_all(r, cx) => {
                    return Err(through_views::refusal(r, &format!("by UPDATE of \"{key}\", the distribution key,")));
                }
                Some(_) => {
                    let why = each.err().unwrap_or_else(Refusal::not_moved);
                    whole.splices = None;
                    match from(&a, statement, target.level, why, &mut whole) {
                        Change::Refused(refusal) => return Err(refusal),
                        change => change,
                    }
                }
                None => match each {
                    Ok(part) => Change::Each(part),
                    Err(why) if let Some(cursor) = current_of(&a, statement) => {
                        whole.current_of = Some(cursor.into());
                        Change::Refused(why)
                    }
                    Err(why) => from(&a, statement, target.level, why, &mut whole),
                },
            }
        }
        _ if a.uses.is_empty() => return Ok(Planned::Forward(whole)),
        _ => {
            let why = Refusal::new(
                "this change of a local table from distributed tables is not supported",
                "Copy the rows into a temporary or local table first, with INSERT … SELECT.",
            );
            from(&a, statement, target.level, why, &mut whole)
        }
    };
    Ok(Planned::Modify { whole, verb, change })
}

/// Over rows that are read beforehand, where the statement can't run as it is: `why`.
fn from<'a>(a: &Analysis<'a>, statement: &'a NodeEnum, level: usize, why: Refusal, whole: &mut Whole) -> Change {
    let planned = no_cursor(statement).and_then(|()| broadcast::plan(a, statement, level, why));
    match planned {
        Ok(from) => {
            whole.template = false;
            whole.apart_views = from.reads.iter().flat_map(|r| r.plan.whole().apart_views.clone()).collect();
            Change::From(Box::new(from))
        }
        Err(refusal) => Change::Refused(refusal),
    }
}

/// The same statement on every node concerned.
fn each(a: &Analysis, statement: &NodeEnum, level: usize) -> Result<Part> {
    let inserts = merge_inserts::of(a, statement, level)?;
    if let Some(refusal) = &a.levels[level].refusal {
        return Err(refusal.clone());
    }
    no_cursor(statement)?;
    a.colocated(level)?;
    if let Some(what) = &a.needs_home {
        return Err(on_home_alone(what));
    }
    if inserts.is_some_and(|keys| !keys.is_at_home(a, level)) {
        return Err(merge_inserts::elsewhere());
    }
    let mut statement = statement.clone();
    rewrite::replace_now(&mut statement);
    Ok(Part {
        text: a.cx.text(statement)?,
        target: tree::Recipients::Shards((0..a.uses.len()).collect()),
        columns: None,
    })
}

/// Nodes that change rows need what they do not have.
pub(crate) fn on_home_alone(what: &str) -> Refusal {
    Refusal::new(
        format!("changing a distributed table by {what}, which only home has, is not supported"),
        "Select the values first and pass them as parameters.",
    )
}

/// The cursor on whose row it is, if that row and tables that every node has are all it needs.
fn current_of<'s>(a: &Analysis, statement: &'s NodeEnum) -> Option<&'s str> {
    let condition = match statement {
        NodeEnum::UpdateStmt(u) => u.where_clause.as_deref(),
        NodeEnum::DeleteStmt(d) => d.where_clause.as_deref(),
        _ => None,
    };
    match condition?.node.as_ref()? {
        NodeEnum::CurrentOfExpr(c) if a.uses.len() == 1 && a.needs_home.is_none() => Some(&c.cursor_name),
        _ => None,
    }
}

/// A cursor stands on one node.
fn no_cursor(statement: &NodeEnum) -> Result<()> {
    match search::any(statement, |n| matches!(n, NodeEnum::CurrentOfExpr(_))) {
        true => Err(Refusal::new(
            "WHERE CURRENT OF a cursor over several nodes is not supported",
            "Select the key and use it in WHERE.",
        )),
        false => Ok(()),
    }
}

/// A change of a reference table happens on every node where it means the same on every node; what does not is made on home,
/// and the copies take over its rows.
fn reference(
    a: &Analysis,
    statement: &NodeEnum,
    relation: &std::sync::Arc<Relation>,
    level: usize,
) -> Result<ReferenceWrite> {
    if a.cx.snapshot.nodes.len() > 1 {
        no_cursor(statement)?;
    }
    let mut statement = statement.clone();
    rewrite::replace_now(&mut statement);
    // Which rows a condition finds depends on what others commit in that moment, unless it is the one of a key.
    let chooses = !matches!(statement, NodeEnum::MergeStmt(_)) && !matches::is_of_one_row(&statement, a.cx);
    // All rows of a table, which may be many, do not pass through the router for it.
    let reads_others = chooses && has_condition(&statement) || by_key::reads_others(&statement, a.cx);
    let (everywhere, by_key) = match not_at_all(a, &statement, relation, level) {
        Some((refusal, true)) => (Err(refusal), by_image::or_by_key(&statement, relation, a.cx)?.map(Box::new)),
        Some((refusal, false)) => (Err(refusal), None),
        None => {
            let everywhere = match differs(a, &statement, relation) {
                Some(refusal) => Err(refusal),
                None => Ok(a.cx.text(statement.clone())?),
            };
            let once = everywhere.is_err() || reads_others || clock_text::has_parameters(&statement);
            let by_key = match once {
                true if everywhere.is_err() => by_image::or_by_key(&statement, relation, a.cx)?,
                true => by_key::plan(&statement, relation, a.cx)?,
                false => None,
            };
            (everywhere, by_key.map(Box::new))
        }
    };
    let moments = clock_text::parameters(&statement, a.cx);
    let triggers = compared::has_triggers(relation, a.cx);
    let compares = everywhere.is_ok() && ((reads_others || chooses) && !relation.row_security || triggers);
    let compared = if compares { compared::plan(&statement, relation, a.cx)?.map(Box::new) } else { None };
    let everywhere = match compared {
        None if triggers => Err(unseen(relation)),
        _ => everywhere,
    };
    Ok(ReferenceWrite {
        relation: relation.clone(),
        everywhere,
        reads_others,
        chooses: chooses || reads_others,
        moments,
        by_key,
        by_rows: None,
        unread: None,
        returned: None,
        compared,
        tied: compared::tied(&statement, relation, a.cx),
    })
}

fn has_condition(statement: &NodeEnum) -> bool {
    match statement {
        NodeEnum::UpdateStmt(s) => s.where_clause.is_some(),
        NodeEnum::DeleteStmt(s) => s.where_clause.is_some(),
        _ => true,
    }
}

/// MERGE before PostgreSQL 17 does not tell what triggers have made of its rows.
fn unseen(relation: &Relation) -> Refusal {
    Refusal::new(
        format!(
            "MERGE into reference table \"{}\", whose triggers could do something else on each node, is not supported",
            relation.name
        ),
        "Use INSERT … ON CONFLICT, UPDATE and DELETE.",
    )
}

/// Why a change of a reference table can't be made on every node, and whether home may make it, whose rows the others take over.
fn not_at_all(a: &Analysis, statement: &NodeEnum, relation: &Relation, level: usize) -> Option<(Refusal, bool)> {
    if !a.uses.is_empty() {
        Some((from_distributed(), false))
    } else if is_row_by_row(statement, relation, a.cx) {
        let why = Refusal::new(
            format!(
                "a change of several rows of reference table \"{}\", whose triggers or policies read what is changed, is not supported: each node has an order of its own",
                relation.name
            ),
            "Change row by row, each by all columns of a unique key; or mark the trigger's function STABLE: it sees the table as it was before.",
        );
        Some((why, false))
    } else if let Some(Apart::Local { table }) = a.deep_home(level) {
        let what = format!("changing a reference table from local table {table}");
        Some((unfound(&what), true))
    } else {
        None
    }
}

fn from_distributed() -> Refusal {
    unfound("changing a reference table from distributed tables")
}

/// A change that only home could make: there is nothing by which the other copies would find its rows.
fn unfound(what: &str) -> Refusal {
    Refusal::new(
        format!("{what} is not supported here: the copies can't take over home's rows"),
        "Give the table a unique key of NOT NULL columns that the statement leaves alone, no triggers and no row-level security, and \
         the role SELECT on it; or use INSERT … SELECT into it.",
    )
}

/// What could come out differently on each node.
fn differs(a: &Analysis, statement: &NodeEnum, relation: &Relation) -> Option<Refusal> {
    const ONCE: &str = "Select the value first and pass it as a parameter; or give the table a unique key that the statement leaves alone, and no triggers: then it is computed once.";
    let written = without_returning(statement);
    let left_out = |(i, c): &(usize, &Column)| is_left_out(statement, *i, c) && same::default_differs(a.cx.snapshot, c);
    let defaulted = |found: Option<(usize, &Column)>| found.map(|(_, c)| format!("the default of \"{}\"", c.name));
    let what = if a.levels.iter().any(|l| l.volatile) {
        Some("volatile functions".to_string())
    } else if a.needs_home.is_some() {
        Some("what only home has".into())
    } else {
        same::differs(a.cx.snapshot, a.cx.search_path, &Body::of_statement(&written))
            .or_else(|| clock_text::read(&written, a.cx))
            .or_else(|| defaulted(relation.columns.iter().enumerate().find(left_out)))
            .or_else(|| order::depends(&written, a.cx))
    };
    what.map(|what| {
        Refusal::new(
            format!("{what} in a change of a reference table is not supported here: it could differ from node to node"),
            ONCE,
        )
    })
}

/// Code on the table, or on one that its foreign keys' actions come to, sees the rows that the statement has written so far.
fn is_row_by_row(statement: &NodeEnum, relation: &Relation, cx: &Context) -> bool {
    let Some(code) = cx.snapshot.relation_code.get(&relation.oid) else { return false };
    code.by_tied_rows && takes_others(statement, relation) || code.by_rows && !matches::is_of_one_row(statement, cx)
}

/// Foreign keys' actions may come to rows of other tables.
pub(crate) fn takes_others(statement: &NodeEnum, relation: &Relation) -> bool {
    let is_key = |n: &Node| match &n.node {
        Some(NodeEnum::ResTarget(t)) => {
            relation.unique.iter().flat_map(|u| &u.columns).any(|c| relation.columns[*c].name == t.name)
        }
        _ => false,
    };
    // A row that keeps its keys, which nobody else changes, takes nothing with it.
    match statement {
        NodeEnum::UpdateStmt(u) => relation.triggers || u.target_list.iter().any(is_key),
        NodeEnum::InsertStmt(i) => i.on_conflict_clause.is_some(),
        _ => true,
    }
}

/// What a statement returns is not written: home's word of it is the client's.
pub(crate) fn without_returning(statement: &NodeEnum) -> NodeEnum {
    let mut statement = statement.clone();
    match &mut statement {
        NodeEnum::InsertStmt(s) => s.returning_clause = None,
        NodeEnum::UpdateStmt(s) => s.returning_clause = None,
        NodeEnum::DeleteStmt(s) => s.returning_clause = None,
        NodeEnum::MergeStmt(s) => s.returning_clause = None,
        _ => {}
    }
    statement
}

/// A column that is set to a default from a sequence would need a value of home's for each row that is found.
pub(crate) fn refuse_sequences(statement: &NodeEnum, relation: &Relation) -> Result<()> {
    let from_sequence = |name: &&str| {
        let default = |c: &Column| c.default.as_deref().and_then(reads::parse_expression);
        let calls = |c: &Column| c.sequence.is_some() || default(c).is_some_and(|d| reads::calls_sequence(&d));
        relation.columns.iter().any(|c| c.name == *name && calls(c))
    };
    match defaults_set(statement).into_iter().find(from_sequence) {
        None => Ok(()),
        Some(column) => Err(Refusal::new(
            format!(
                "setting \"{column}\" of a distributed table to its default, which comes from a sequence, is not supported"
            ),
            "Select nextval() first and pass it as a parameter.",
        )),
    }
}

/// A row may get the column's default: it is set to DEFAULT, or an arm of MERGE that inserts does not give it, or gives what
/// OVERRIDING USER VALUE passes over.
pub(crate) fn is_left_out(statement: &NodeEnum, at: usize, column: &Column) -> bool {
    let names = |n: &Node| matches!(&n.node, Some(NodeEnum::ResTarget(t)) if t.name == column.name);
    let gives = |n: &Node| !matches!(n.node, Some(NodeEnum::SetToDefault(_)));
    let inserts = |n: &Node| match &n.node {
        Some(NodeEnum::MergeWhenClause(arm)) => {
            let place = match arm.target_list.is_empty() {
                true => Some(at),
                false => arm.target_list.iter().position(names),
            };
            let given = place.and_then(|place| arm.values.get(place)).is_some_and(gives);
            let passed_over = column.identity != 0 && arm.r#override == ast::OverridingKind::OverridingUserValue as i32;
            arm.command_type == ast::CmdType::CmdInsert as i32 && (!given || passed_over)
        }
        _ => false,
    };
    let arms = match statement {
        NodeEnum::MergeStmt(m) => &m.merge_when_clauses[..],
        _ => &[],
    };
    defaults_set(statement).contains(&column.name.as_str()) || arms.iter().any(inserts)
}

/// The columns an UPDATE, ON CONFLICT or an arm of MERGE sets to DEFAULT.
pub fn defaults_set(statement: &NodeEnum) -> Vec<&str> {
    let mut columns = vec![];
    let is_default = |n: &Node| matches!(n.node, Some(NodeEnum::SetToDefault(_)));
    let one_of_row = |m: &ast::MultiAssignRef| match m.source.as_deref().and_then(|s| s.node.as_ref()) {
        Some(NodeEnum::RowExpr(row)) => {
            usize::try_from(m.colno - 1).ok().and_then(|i| row.args.get(i)).is_some_and(is_default)
        }
        _ => false,
    };
    search::each(statement, |n| {
        if let NodeEnum::ResTarget(t) = n
            && let Some(value) = t.val.as_deref()
            && (is_default(value) || matches!(&value.node, Some(NodeEnum::MultiAssignRef(m)) if one_of_row(m)))
        {
            columns.push(t.name.as_str());
        }
    });
    columns
}

/// What stands for a view over the herd's tables is placed as they are. One with code of its own would, on home, reach home's part of
/// them; but a trigger that takes the rows of an INSERT is home's own affair: what it does has been judged, unless
/// it is run step by step (`instead_of.rs`).
fn refuse_view(rv: &ast::RangeVar, statement: &NodeEnum, cx: &Context) -> Result<()> {
    let Some(view) = cx.relation(rv).filter(|r| r.kind == RelationKind::View && r.through.is_none()) else {
        return Ok(());
    };
    let reads_herd = view.view.as_ref().is_some_and(|v| crate::views::reads_herd(&v.query, cx));
    let by_trigger =
        matches!(statement, NodeEnum::InsertStmt(_)) && view.triggers && !crate::instead_of::is_run(view, cx);
    if !reads_herd || by_trigger {
        return Ok(());
    }
    Err(through_views::refusal(view, "with triggers or rules"))
}

/// True if the table is stored whole on home.
pub fn is_local(relation: &Relation) -> bool {
    matches!(relation.placement, Placement::Local)
}

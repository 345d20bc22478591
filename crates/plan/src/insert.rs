//! Plans INSERT: each row to its shard, a reference table's rows to every node, a SELECT's rows through the router.
//!
//! What must be evaluated once (sequences, volatile keys) is evaluated on home before. It does not know how rows travel.

mod copies;
mod of_rows;
pub(crate) mod overriding;
pub(crate) mod parts;
mod returned;
pub(crate) mod sets;
mod tail_reads;

pub(crate) use of_rows::{output_width, through_router};

use std::sync::Arc;
use wire::sqlstate;

use catalog::{Column, Placement, Relation};
use sql::ast::{self, Node};
use sql::{NodeEnum, build, relations, search};

use crate::clock_text;
use crate::compose::names_query;
use crate::keys;
use crate::levels::Analysis;
use crate::needs;
use crate::reads::{calls_sequence, parse_expression, reads_clock};
use crate::refuse::Refusal;
use crate::rewrite;
use crate::scope::system_column;
use crate::splice;
use crate::table_keys::TableKeys;
use crate::text::{self, Text};
use crate::tree::{Part, Recipients};
use crate::types::*;
use crate::views::Views;
use crate::{Context, Result};

/// `statement`: the same.
pub fn plan(insert: &ast::InsertStmt, statement: &NodeEnum, text: &str, cx: &Context) -> Result<Planned> {
    let Some(rv) = &insert.relation else { return Err(Refusal::bare("INSERT without a table")) };
    let relation = cx.relation(rv).cloned();
    let source = match insert.select_stmt.as_deref().and_then(|s| s.node.as_ref()) {
        Some(NodeEnum::SelectStmt(s)) => Some(s.as_ref()),
        _ => None,
    };
    let values = source.is_none_or(|s| {
        !s.values_lists.is_empty()
            && s.with_clause.is_none()
            && s.sort_clause.is_empty()
            && s.limit_count.is_none()
            && s.limit_offset.is_none()
    });
    let mut a = Analysis::new(cx);
    crate::modify::analyse(&mut a, statement, None)?;
    a.finish_pending()?;
    if let Some(target) = relation.as_deref().or(cx.target.map(AsRef::as_ref))
        && (values || !crate::modify::is_local(target))
        && let Some(plan) = tail_reads::plan(insert, target, cx)?
    {
        return Ok(plan);
    }
    let Some(relation) = relation.filter(|r| !crate::modify::is_local(r)) else {
        return local(insert, &a, source, values, cx);
    };
    refuse_tail(insert, &relation, cx)?;
    sets::refuse(source, cx)?;
    let columns = target_columns(insert, &relation)?;
    let parts = parts::of(insert, &columns);
    parts::refuse_subscripts(insert, cx)?;
    if let Some(key) = relation.distribution().and_then(|d| d.key.iter().find(|k| parts.contains(k))) {
        return Err(parts::refusal(&relation, *key));
    }
    if relation.is_reference() {
        return copies::reference(insert, &a, source, &relation, &columns, values, cx);
    }
    if let Some(conflict) = &insert.on_conflict_clause {
        let conflict = NodeEnum::OnConflictClause(conflict.clone());
        crate::modify::refuse_sequences(&conflict, &relation)?;
        if calls_sequence(&build::node(conflict)) {
            return Err(Refusal::new(
                "a sequence in ON CONFLICT of a distributed table is not supported: only home has its values",
                "Select nextval() first and pass it as a parameter.",
            ));
        }
    }
    if values {
        rows(insert, statement, text, &a, source, relation, columns, parts, cx)
    } else {
        from_select(insert, statement, text, a, source, relation, columns, cx)
    }
}

/// ON CONFLICT runs where the rows are written, on each node for its own; so does RETURNING, but for a reference table, whose
/// rows home returns.
fn refuse_tail(insert: &ast::InsertStmt, relation: &Relation, cx: &Context) -> Result<()> {
    let conflict = insert.on_conflict_clause.clone().map(|c| build::node(NodeEnum::OnConflictClause(c)));
    let returning = insert.returning_clause.iter().flat_map(|r| &r.exprs);
    let nodes = conflict.iter().map(|n| (n, "ON CONFLICT")).chain(returning.map(|n| (n, "RETURNING")));
    for (node, clause) in nodes {
        if let Some(need) = needs::find(node, cx, |n| n.herd) {
            return Err(need.refuse_herd());
        }
        let on_nodes = clause == "ON CONFLICT" || !relation.is_reference();
        let named = |rv: &ast::RangeVar| insert.with_clause.as_ref().is_some_and(|w| names_query(w, &rv.relname));
        let read = relations::of_node(node).into_iter().find(|rv| match cx.placement(rv) {
            _ if rv.schemaname.is_empty() && named(rv) => false,
            Some(Placement::Distributed(_)) => true,
            Some(Placement::Reference) => false,
            Some(Placement::Local) | None => on_nodes,
        });
        let code = needs::find(node, cx, |n| n.home).filter(|_| on_nodes);
        let what = read.map(|rv| format!("table {}", rv.relname)).or(code.map(|n| n.what));
        if let Some(what) = what {
            return Err(Refusal::new(
                format!("{what} in {clause} is not supported: not every node has all of it"),
                "Select its value first and pass it as a parameter.",
            ));
        }
    }
    Ok(())
}

/// Into a local table: on home, with the rows of a distributed query streamed there.
fn local(
    insert: &ast::InsertStmt,
    a: &Analysis,
    source: Option<&ast::SelectStmt>,
    values: bool,
    cx: &Context,
) -> Result<Planned> {
    if a.uses.is_empty() {
        return Ok(Planned::home(true));
    }
    let relation = insert.relation.as_ref().and_then(|rv| cx.relation(rv)).or(cx.target).cloned();
    let (Some(source), Some(relation), false) = (source, relation, values) else {
        return Err(Refusal::new(
            "distributed tables in an INSERT into this table are not supported",
            "Select the rows first.",
        ));
    };
    let columns = target_columns(insert, &relation)?;
    through_router(insert, source, relation, columns, cx)
}

/// Positions of the columns the source gives values for, in its order.
pub(crate) fn target_columns(insert: &ast::InsertStmt, relation: &Relation) -> Result<Vec<usize>> {
    if insert.cols.is_empty() {
        return Ok((0..relation.columns.len()).collect());
    }
    insert
        .cols
        .iter()
        .map(|c| {
            let Some(NodeEnum::ResTarget(t)) = &c.node else { return Err(Refusal::bare("unknown column list")) };
            relation.column(&t.name).ok_or_else(|| Refusal {
                sqlstate: sqlstate::UNDEFINED_COLUMN,
                message: format!("column \"{}\" of relation \"{}\" does not exist", t.name, relation.name),
                hint: None,
            })
        })
        .collect()
}

/// ON CONFLICT may change a row's key: PostgreSQL does that to one that stays in its partition, and refuses it otherwise.
fn sets_key(insert: &ast::InsertStmt, relation: &Relation) -> bool {
    let (Some(d), Some(c)) = (relation.distribution(), &insert.on_conflict_clause) else { return false };
    c.target_list.iter().any(|t| match &t.node {
        Some(NodeEnum::ResTarget(t)) => {
            d.key.iter().any(|k| relation.columns.get(*k).is_some_and(|c| c.name == t.name))
        }
        _ => false,
    })
}

/// The rewriting of a VALUES list: columns and values that PostgreSQL would fill in differently on each node.
struct ValuesList<'r> {
    relation: &'r Relation,
    cx: &'r Context<'r>,
    /// The statement's WITH queries, which values may read.
    with: Option<&'r ast::WithClause>,
    /// OVERRIDING USER VALUE: values for identity columns are passed over.
    user_value: bool,
    evaluate: Vec<Evaluation>,
    /// Columns of which parts are given.
    parts: Vec<usize>,
    changed: bool,
    overriding: bool,
}

#[allow(clippy::too_many_arguments)]
fn rows(
    insert: &ast::InsertStmt,
    statement: &NodeEnum,
    text: &str,
    a: &Analysis,
    source: Option<&ast::SelectStmt>,
    relation: Arc<Relation>,
    columns: Vec<usize>,
    parts: Vec<usize>,
    cx: &Context,
) -> Result<Planned> {
    let Some(d) = relation.distribution().cloned() else { return Err(Refusal::bare("internal: not distributed")) };
    let mut lists: Vec<Vec<Node>> = match source {
        Some(s) => s.values_lists.iter().map(list_items).collect(),
        None => vec![vec![]],
    };
    let several = lists.len() > 1;
    let mut columns = columns;
    // INSERT INTO t VALUES (1): the columns without values come last and get their defaults.
    let width = lists.iter().map(Vec::len).max().unwrap_or(0);
    if width > columns.len() || lists.iter().any(|l| l.len() != width) {
        return Ok(Planned::home(true));
    }
    columns.truncate(width);
    if gives_generated(insert, &relation, &columns, &lists) {
        return Ok(Planned::home(true));
    }
    let mut r = ValuesList {
        relation: &relation,
        cx,
        with: insert.with_clause.as_ref(),
        evaluate: vec![],
        parts,
        changed: false,
        overriding: false,
        user_value: insert.r#override == ast::OverridingKind::OverridingUserValue as i32,
    };
    for (i, column) in relation.columns.iter().enumerate() {
        if !columns.contains(&i) && r.must_fill(i, column, &d.key, several) {
            columns.push(i);
            lists.iter_mut().for_each(|l| l.push(default_marker()));
            r.changed = true;
        }
    }
    let mut row_keys = Vec::with_capacity(lists.len());
    for list in &mut lists {
        let mut keys = vec![KeyExpr::Null; d.key.len()];
        for (value, column) in list.iter_mut().zip(&columns) {
            let position = d.key.iter().position(|k| k == column);
            if let Some(key) = r.value(value, *column, position.is_some(), several)?
                && let Some(p) = position
            {
                keys[p] = key;
            }
        }
        row_keys.push(keys);
    }
    // The target itself is the only use there may be.
    if a.uses.len() > 1 || (insert.with_clause.is_some() && a.deep_home(0).is_some()) {
        return Err(Refusal::new(
            "subqueries over distributed tables in INSERT … VALUES are not supported",
            "Use INSERT … SELECT.",
        ));
    }
    // The client's own words, where backslashes in them can't mean anything else.
    let mut rewritten = None;
    let single = row_keys.len() == 1 && !r.changed;
    if r.changed || (!single && text.contains('\\')) {
        let mut new = insert.clone();
        new.cols = parts::targets(insert, &columns, width, &relation);
        if (r.overriding && new.r#override == ast::OverridingKind::OverridingNotSet as i32) || r.user_value {
            new.r#override = ast::OverridingKind::OverridingSystemValue as i32;
        }
        let mut values = build::select();
        values.values_lists = lists.into_iter().map(|items| build::node(NodeEnum::List(ast::List { items }))).collect();
        new.select_stmt = Some(Box::new(build::node(NodeEnum::SelectStmt(Box::new(values)))));
        let mut statement = NodeEnum::InsertStmt(Box::new(new));
        rewrite::replace_now(&mut statement);
        rewritten = Some(sql::deparse(&a.cx.views.settle(statement)?)?);
    }
    let evaluate = std::mem::take(&mut r.evaluate);
    let tables = vec![TableKeys {
        relation: relation.clone(),
        columns: if single { row_keys[0].iter().map(|k| vec![k.clone()]).collect() } else { vec![] },
        limits: vec![],
        written: true,
    }];
    let named_constraint =
        insert.on_conflict_clause.as_deref().and_then(|c| c.infer.as_deref()).is_some_and(|i| !i.conname.is_empty());
    // A partition by its name would refuse another key than its own in other words than its table.
    let splices = if single && !named_constraint && !sets_key(insert, &relation) {
        splice::splices(statement, text, a, true)
    } else {
        None
    };
    let rows = match single {
        true => Insert::Row,
        false => {
            refuse_system_columns(insert)?;
            Insert::Rows(split(insert, text, rewritten.as_deref(), relation, row_keys, evaluate)?)
        }
    };
    let (reads_reference, needs_home) = (a.reads_reference, false);
    let whole = Whole { tables, needs_home, reads_reference, splices, template: single, ..Whole::on_home(true) };
    Ok(Planned::Insert { whole, rows, share: None })
}

/// A column GENERATED ALWAYS AS IDENTITY is given a value without OVERRIDING: home refuses that, whatever other rows say of the column
/// (`rewriteTargetListIU` in rewriteHandler.c).
fn gives_generated(insert: &ast::InsertStmt, relation: &Relation, columns: &[usize], lists: &[Vec<Node>]) -> bool {
    let mut generated = columns.iter().enumerate().filter(|(_, c)| relation.columns[**c].identity == b'a');
    let given = |v: Option<&Node>| v.is_some_and(|v| !matches!(v.node, Some(NodeEnum::SetToDefault(_))));
    insert.r#override == ast::OverridingKind::OverridingNotSet as i32
        && generated.any(|(at, _)| lists.iter().any(|list| given(list.get(at))))
}

/// PostgreSQL has none of the rows that it puts into a partition by way of its table.
fn refuse_system_columns(insert: &ast::InsertStmt) -> Result<()> {
    let system = |n: &NodeEnum| system_column(n).is_some_and(|name| name != "tableoid");
    match insert.returning_clause.iter().flat_map(|r| &r.exprs).any(|n| search::any(n, system)) {
        false => Ok(()),
        true => Err(Refusal::new(
            "system columns (xmax, ctid and so on) in RETURNING of an INSERT of several rows into a distributed table are not supported",
            "Insert them row by row, or tell new rows from old ones by a column of your own.",
        )),
    }
}

/// The statement in pieces: what is around its rows, and each of them.
fn split(
    insert: &ast::InsertStmt,
    text: &str,
    rewritten: Option<&str>,
    relation: Arc<Relation>,
    keys: Vec<Vec<KeyExpr>>,
    evaluate: Vec<Evaluation>,
) -> Result<SplitInsert> {
    let text = rewritten.unwrap_or(text);
    let ranges = value_ranges(text)?;
    let (Some(first), Some(last), true) = (ranges.first(), ranges.last(), ranges.len() == keys.len()) else {
        return Err(Refusal::bare("internal: the rows of VALUES could not be told apart"));
    };
    let cut = |text: &str| Text::cut(text, rewritten.is_some());
    Ok(SplitInsert {
        relation,
        head: cut(&text[..first.0])?,
        tail: cut(&text[last.1..])?,
        rows: ranges.iter().map(|(start, end)| cut(&text[*start..*end])).collect::<Result<_>>()?,
        keys,
        evaluate,
        returning: insert.returning_clause.is_some(),
    })
}

impl ValuesList<'_> {
    /// A column left out whose default each node would compute by itself.
    fn must_fill(&self, i: usize, column: &Column, key: &[usize], several: bool) -> bool {
        column.sequence.is_some()
            || (column.default.is_some() && (key.contains(&i) || (several && reads_clock(column))))
    }

    /// One value: replaced where it must be evaluated once. The key expression of a key column is returned.
    fn value(&mut self, value: &mut Node, column: usize, is_key: bool, several: bool) -> Result<Option<KeyExpr>> {
        let c = &self.relation.columns[column];
        if self.user_value && c.identity != 0 {
            *value = default_marker();
        }
        if matches!(value.node, Some(NodeEnum::SetToDefault(_))) {
            if let Some(sequence) = &c.sequence {
                self.overriding |= c.identity == b'a';
                let next = format!("pg_catalog.nextval({}::pg_catalog.regclass)", catalog::quote_literal(sequence));
                return Ok(self.evaluated(value, next.into(), column, is_key));
            }
            match &c.default {
                Some(default) if is_key => {
                    let parsed = parse_expression(default);
                    let text =
                        parsed.map_or_else(|| Ok(default.as_str().into()), |e| expression(&e, &self.cx.views))?;
                    return Ok(self.evaluated(value, text, column, true));
                }
                Some(default) if several && reads_clock(c) => {
                    if let Some(expression) = parse_expression(default) {
                        *value = expression;
                        self.changed = true;
                    }
                    return Ok(None);
                }
                _ => return Ok(is_key.then_some(KeyExpr::Null)),
            }
        }
        if calls_sequence(value) {
            self.refuse_with(value)?;
            let text = expression(value, &self.cx.views)?;
            return Ok(self.evaluated(value, text, column, is_key));
        }
        if self.with.is_none() && self.needs_home(value) {
            if self.parts.contains(&column) {
                return Err(parts::refusal(self.relation, column));
            }
            // Of the column's type, which PostgreSQL would give it: a number of another kind is no constant of it.
            let typed = rewrite::cast(value, &catalog::without_modifier(&c.type_name))?;
            let text = expression(&typed, &self.cx.views)?;
            return Ok(self.evaluated(value, text, column, is_key));
        }
        if several && !is_key && rewrite::reads_now(value) {
            self.changed = true;
        }
        if !is_key {
            return Ok(None);
        }
        // Another type's value becomes the column's as PostgreSQL assigns it.
        let assigned = |key: &KeyExpr| match key {
            KeyExpr::Literal { cast, .. } => cast.is_none_or(|cast| keys::is_kept(cast, c.type_oid)),
            _ => true,
        };
        // 'now' and its like are read once.
        let is_steady = |key: &KeyExpr| match key {
            KeyExpr::Literal { text, .. } => !clock_text::may_hold(c.type_oid) || !clock_text::may_name(text),
            _ => true,
        };
        match keys::constant(value).filter(assigned).filter(is_steady) {
            Some(key) => Ok(Some(key)),
            None => {
                self.refuse_with(value)?;
                let text = expression(&rewrite::cast(value, &c.type_name)?, &self.cx.views)?;
                Ok(self.evaluated(value, text, column, true))
            }
        }
    }

    /// What is evaluated before has no WITH queries: their names would mean something else there.
    fn refuse_with(&self, value: &Node) -> Result<()> {
        let named =
            |rv: &ast::RangeVar| rv.schemaname.is_empty() && self.with.is_some_and(|w| names_query(w, &rv.relname));
        match relations::of_node(value).into_iter().find(|rv| named(rv)) {
            None => Ok(()),
            Some(rv) => Err(Refusal::new(
                format!(
                    "WITH query \"{}\" in what an INSERT … VALUES gives the distribution key or takes from a sequence is not supported",
                    rv.relname
                ),
                "Use INSERT … SELECT.",
            )),
        }
    }

    /// It reads what only home has.
    fn needs_home(&self, value: &Node) -> bool {
        let on_home = |rv: &&ast::RangeVar| matches!(self.cx.placement(rv), None | Some(Placement::Local));
        needs::find(value, self.cx, |n| n.home).is_some() || relations::of_node(value).iter().any(on_home)
    }

    fn evaluated(&mut self, value: &mut Node, expression: Text, column: usize, is_key: bool) -> Option<KeyExpr> {
        let n = self.evaluate.len();
        self.evaluate.push(Evaluation { expression, column });
        *value = text::evaluated(n);
        self.changed = true;
        is_key.then_some(KeyExpr::Evaluated(n))
    }
}

fn expression(value: &Node, views: &Views) -> Result<Text> {
    // No column, which would get a name.
    let mut select = build::select();
    select.values_lists = vec![build::node(NodeEnum::List(ast::List { items: vec![value.clone()] }))];
    let mut statement = NodeEnum::SelectStmt(Box::new(select));
    rewrite::replace_now(&mut statement);
    let text = sql::deparse(&views.settle(statement)?)?;
    let value = text.strip_prefix("VALUES (").and_then(|text| text.strip_suffix(')')).unwrap_or(&text);
    Text::cut(value, true)
}

pub(crate) fn list_items(node: &Node) -> Vec<Node> {
    match &node.node {
        Some(NodeEnum::List(l)) => l.items.clone(),
        _ => vec![],
    }
}

fn default_marker() -> Node {
    build::node(NodeEnum::SetToDefault(Box::new(ast::SetToDefault { location: -1, ..Default::default() })))
}

pub(crate) fn column_target(name: &str) -> Node {
    build::node(NodeEnum::ResTarget(Box::new(ast::ResTarget {
        name: name.to_string(),
        location: -1,
        ..Default::default()
    })))
}

/// Byte ranges of the rows behind the statement's own VALUES.
fn value_ranges(text: &str) -> Result<Vec<(usize, usize)>> {
    let failed = |_| Refusal::bare("internal: the rows of VALUES could not be read");
    let (mut depth, mut before, mut recursive) = (0usize, "", false);
    for token in sql::lexer::Lexer::new(text, true) {
        let token = token.map_err(failed)?;
        // A table may be called so.
        let is_name =
            recursive || [".", ",", "into", "as", "with"].iter().any(|word| before.eq_ignore_ascii_case(word));
        recursive =
            before.eq_ignore_ascii_case("with") && text[token.start..token.end].eq_ignore_ascii_case("recursive");
        before = &text[token.start..token.end];
        match token.kind {
            sql::lexer::TokenKind::Punct(b'(') => depth += 1,
            sql::lexer::TokenKind::Punct(b')') => depth = depth.saturating_sub(1),
            sql::lexer::TokenKind::Ident if depth == 0 && !is_name && before.eq_ignore_ascii_case("values") => {
                let rows = sql::split::values_rows(text, true, token.start).map_err(failed)?;
                return Ok(rows.into_iter().map(|r| (r.start, r.end)).collect());
            }
            _ => {}
        }
    }
    Ok(vec![])
}

fn marks_default(source: Option<&ast::SelectStmt>) -> bool {
    source.is_some_and(|s| {
        s.values_lists.iter().any(|l| list_items(l).iter().any(|v| matches!(v.node, Some(NodeEnum::SetToDefault(_)))))
    })
}

#[allow(clippy::too_many_arguments)]
fn from_select(
    insert: &ast::InsertStmt,
    statement: &NodeEnum,
    text: &str,
    mut a: Analysis,
    source: Option<&ast::SelectStmt>,
    relation: Arc<Relation>,
    columns: Vec<usize>,
    cx: &Context,
) -> Result<Planned> {
    let Some(source) = source else { return Err(Refusal::bare("INSERT without a source")) };
    let d = relation.distribution().cloned();
    let sequences_given =
        relation.columns.iter().enumerate().all(|(i, c)| c.sequence.is_none() || columns.contains(&i));
    // Every row stays on its node when the source's key is what goes into the target's.
    let mut colocated = None;
    if let (Some(d), true) = (&d, sequences_given) {
        let top = a.by_node_of(insert);
        if let Some(top) = top {
            let out = a.levels[top].columns.clone().unwrap_or_default();
            let pairs: Option<Vec<_>> = d
                .key
                .iter()
                .enumerate()
                .map(|(i, k)| {
                    columns.iter().position(|c| c == k).and_then(|p| out.get(p).and_then(|o| o.1)).map(|v| (i, v))
                })
                .collect();
            if let Some(pairs) = pairs {
                let target = a.uses[0].key.clone();
                let classes = a.levels[top].classes;
                let columns: Vec<_> = pairs.iter().map(|(_, v)| *v).collect();
                let same = a.is_keyed_by(top, d.group.id, &columns);
                if same {
                    for (i, v) in pairs {
                        a.classes.union(classes, v, target[i]);
                    }
                    a.uses[0].classes = classes;
                    let mut statement = NodeEnum::InsertStmt(Box::new(insert.clone()));
                    rewrite::replace_now(&mut statement);
                    colocated = Some(cx.text(statement)?);
                }
            }
        }
    }
    let Some(colocated) = colocated else {
        return through_router(insert, source, relation, columns, cx);
    };
    let whole = Whole {
        tables: a.table_keys(),
        needs_home: a.needs_home.is_some(),
        splices: splice::splices(statement, text, &a, true),
        template: false,
        ..Whole::on_home(true)
    };
    let part = Part { text: colocated, target: Recipients::Shards((0..a.uses.len()).collect()), columns: None };
    Ok(Planned::Insert { whole, rows: Insert::Each { relation, part }, share: None })
}

impl Analysis<'_> {
    /// The level of an INSERT's source.
    fn by_node_of(&self, insert: &ast::InsertStmt) -> Option<usize> {
        // The analysed statement is a clone: the source is the first level below the top that is no CTE.
        let _ = insert;
        self.levels[0].sublinks.iter().map(|(l, _)| *l).next()
    }
}

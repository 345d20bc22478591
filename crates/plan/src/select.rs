//! Plans a SELECT: what it reads, whether one node has it all, and otherwise how the nodes' parts are finished.
//!
//! It does not know how rows travel. The order of tries: rows passed on or merged, one row of integers a node
//! added up by the router, everything else finished by PostgreSQL.

use sql::ast::{self, Node};
use sql::body::Body;
use sql::{NodeEnum, build, relations, search};

use crate::apart::Apart;
use crate::columns::{self, Rows};
use crate::compose::Composer;
use crate::gather;
use crate::levels::Analysis;
use crate::lift;
use crate::refuse::Refusal;
use crate::rewrite;
use crate::splice;
use crate::tree::*;
use crate::types::*;
use crate::{Context, Result};

/// `statement`: the same.
pub fn plan(select: &ast::SelectStmt, statement: &NodeEnum, text: &str, cx: &Context) -> Result<Planned> {
    let mut a = Analysis::new(cx);
    let level = a.query(select)?;
    let writes = a.writes || has_locking(&a);
    let whole = Whole {
        tables: a.table_keys(),
        others: vec![],
        needs_home: a.needs_home.is_some() || (a.uses.is_empty() && !a.reads_reference),
        reads_reference: a.reads_reference,
        writes,
        effect: if a.writes { Effect::MayWrite } else { Effect::Locks },
        splices: splice::splices(statement, text, &a, writes),
        template: true,
        names_parameters: false,
        reads_setting: false,
        rewritten: None,
        unread: false,
        planned: vec![],
        by_parent: None,
        share: None,
        plain: false,
        narrow: None,
        by_standby: false,
        local: false,
        rules: false,
        apart_views: vec![],
        by_rule: None,
        clock: None,
        current_of: None,
        by_store: None,
        sequences: Sequences::None,
    };
    Ok(match a.uses.is_empty() {
        true => Planned::Forward(Whole { by_store: by_store(&a, select, &whole).map(Box::new), ..whole }),
        // Rows of whole tables move only where there is no other way.
        false => Planned::Query {
            whole,
            tree: tree(&a, select, level).or_else(|refusal| gather::finish(&a, select, level).ok_or(refusal)),
        },
    })
}

/// A query of reference tables alone, as a store answers it.
fn by_store(a: &Analysis, select: &ast::SelectStmt, whole: &Whole) -> Option<Finish> {
    let reads = !whole.needs_home && whole.reads_reference && !whole.writes;
    let copied = a.reference_tables.iter().any(|r| r.column_copy.is_some());
    let columns = (reads && copied).then(|| columns::read_whole(select, a))?;
    // It is a node's own text where rows are read.
    let rows = Part { text: String::new().into(), target: Recipients::Shards(vec![]), columns: Some(columns) };
    Some(Finish::PassOn { rows, slice: Slice { limit: None, offset: None, locks: false } })
}

/// Nodes can answer this query by themselves, over rows that were sent to each of them.
pub(crate) fn is_answered(statement: &NodeEnum, cx: &Context) -> Result<bool> {
    let NodeEnum::SelectStmt(select) = statement else { return Ok(false) };
    let mut a = Analysis::new(cx);
    a.sent = true;
    let level = a.query(select)?;
    Ok(a.needs_home.is_none() && tree(&a, select, level).is_ok())
}

fn has_locking(a: &Analysis) -> bool {
    a.levels.iter().any(|l| l.locking)
}

/// What several nodes do.
fn tree(a: &Analysis, select: &ast::SelectStmt, level: usize) -> Result<Finish> {
    if let Some(refusal) = &a.levels[level].refusal {
        return Err(refusal.clone());
    }
    if a.writes {
        return Err(Refusal::new(
            "functions with side effects over several nodes are not supported",
            "Filter every distributed table to one key value, call the function in a statement of its own, or lock the rows in one.",
        ));
    }
    // Each node would lock as many rows as the answer has. Of the query itself rows are taken one by one.
    let inside =
        |(at, l): (usize, &crate::levels::Level)| at != level && l.locking && (l.limit || a.levels[level].limit);
    if a.levels.iter().enumerate().any(inside) {
        return Err(Refusal::new(
            "FOR UPDATE and FOR SHARE with LIMIT or OFFSET in a subquery are not supported over several nodes: rows would be locked that are not returned",
            "Filter by one key value, or lock these rows by a query of their own.",
        ));
    }
    let pushable = a.pushable(level, true);
    if let Ok(anchor) = pushable
        && let Some(finish) = pass_on_or_merge(a, select, level, anchor)?
    {
        return Ok(finish);
    }
    if a.relies_on_order(level, true, false)
        && let Some(lifted) = lift::lift(a, select, level)
    {
        let mut b = Analysis::new(a.cx);
        let level = b.query(&lifted)?;
        // It reads the same tables in the same order, so parts say the same of where they go.
        if a.uses.iter().map(|u| &u.relation.oid).eq(b.uses.iter().map(|u| &u.relation.oid)) {
            return tree(&b, &lifted, level);
        }
    }
    if a.levels[level].locking {
        let apart = pushable.err();
        let why = apart.as_ref().and_then(Apart::why).map_or(String::new(), |why| format!(": {why}"));
        let remedy = apart.and_then(|a| a.remedy()).map_or(String::new(), |r| format!(" Or colocate them: {r}"));
        return Err(Refusal::new(
            format!("FOR UPDATE and FOR SHARE are not supported with this query over several nodes{why}"),
            format!("Lock the rows in a query of their own.{remedy}"),
        ));
    }
    let mut several = a.named.iter().filter(|(_, levels)| levels.len() > 1).map(|(body, _)| *body).peekable();
    if several.peek().is_some() && a.shared.is_empty() {
        let mut b = Analysis::new(a.cx);
        b.shared = several.collect();
        let level = b.query(select)?;
        // Uses are the same, in the same order: parts say of them where they go.
        return tree(&b, select, level);
    }
    let mut composer = Composer::new(a);
    let text = match composer.query(select, level).and_then(|finish| composer.text(finish)) {
        Ok(text) => text,
        Err(refusal) => {
            // The order of a subquery that nothing but the order of the answer relies on is not promised.
            let any_order = a.pushable(level, false).map(|anchor| pass_on_or_merge(a, select, level, anchor));
            return any_order.map_err(|_| refusal.clone())??.ok_or(refusal);
        }
    };
    let (reads_home, adds) = (composer.uses_home, composer.adds.take());
    let mut parts = composer.parts;
    if let (Some(functions), [_]) = (adds, &parts[..])
        && let Some(rows) = parts.pop()
    {
        return Ok(Finish::AddUp(AddUp { rows, functions, otherwise: text }));
    }
    let children = parts.into_iter().map(|part| Exchange { rows: ChildRows::Part(part), to: To::Gather }).collect();
    let (reads_what_all_see, as_described, lookups, why) = (false, false, vec![], None);
    Ok(Finish::Statement(Statement {
        text,
        children,
        reads_home,
        reads_what_all_see,
        as_described,
        lookups,
        why,
        semijoins: vec![],
        ways: vec![],
        shuffle: None,
    }))
}

/// Rows pass through as they are, in any order or merged by hidden sort columns.
fn pass_on_or_merge(a: &Analysis, select: &ast::SelectStmt, level: usize, anchor: usize) -> Result<Option<Finish>> {
    let (Ok(limit), Ok(offset)) =
        (rewrite::count(select.limit_count.as_deref()), rewrite::count(select.limit_offset.as_deref()))
    else {
        return Ok(None);
    };
    let with_ties = select.limit_option == ast::LimitOption::WithTies as i32;
    if with_ties || (!select.sort_clause.is_empty() && select.larg.is_some()) {
        return Ok(None);
    }
    let mut part = select.clone();
    push_limit(&mut part);
    let mut sort = Vec::new();
    let distinct = !select.distinct_clause.is_empty();
    for item in &select.sort_clause {
        let Some(NodeEnum::SortBy(s)) = &item.node else { return Ok(None) };
        let Some(value) = s.node.as_deref() else { return Ok(None) };
        if s.sortby_dir == ast::SortByDir::SortbyUsing as i32 {
            return Ok(None);
        }
        let value = match rewrite::output_item(value, select) {
            Some(v) => v,
            // A position behind a star: left to PostgreSQL's finish.
            None if matches!(value.node, Some(NodeEnum::AConst(_))) => return Ok(None),
            None => value,
        };
        // Computed once more it would be another value than the one that is seen.
        let volatile = |n: &Node| search::any(n, |n| a.cx.calls_volatile(n));
        if volatile(value) && select.target_list.iter().any(volatile) {
            return Ok(None);
        }
        let descending = s.sortby_dir == ast::SortByDir::SortbyDesc as i32;
        let nulls_first = match ast::SortByNulls::try_from(s.sortby_nulls) {
            Ok(ast::SortByNulls::SortbyNullsFirst) => true,
            Ok(ast::SortByNulls::SortbyNullsLast) => false,
            _ => descending,
        };
        part.target_list.push(build::target(value.clone(), Some(&rewrite::hidden_name(select, sort.len()))));
        sort.push(SortKey { descending, nulls_first });
    }
    if distinct && !sort.is_empty() {
        // A hidden column would change what is distinct.
        return Ok(None);
    }
    let tables = a.deep_uses(level);
    debug_assert!(tables.contains(&anchor) || a.cx.steps.is_some_and(crate::Steps::is_spent));
    let otherwise = if sort.is_empty() {
        None
    } else {
        let mut composer = Composer::new(a);
        composer.pushed_sorted(select, level, true).and_then(|finish| composer.text(finish)).ok()
    };
    let columns = columns::read(&part, &tables, Rows::All, a);
    let mut statement = NodeEnum::SelectStmt(Box::new(part));
    rewrite::replace_now(&mut statement);
    let rows = Part { text: a.cx.text(statement)?, target: Recipients::Shards(tables), columns };
    let slice = Slice { limit, offset, locks: a.levels[level].locking };
    Ok(Some(match sort.is_empty() {
        true => Finish::PassOn { rows, slice },
        false => Finish::Merge(Merge { rows, sort, slice, bytewise: bytewise(a, select), otherwise }),
    }))
}

/// Strings in this statement compare by bytes: the database's collation does, and nothing says otherwise.
fn bytewise(a: &Analysis, select: &ast::SelectStmt) -> bool {
    let snapshot = a.cx.snapshot;
    let collates = || search::any(select, |n| matches!(n, NodeEnum::CollateClause(_)));
    let columns = || a.types.iter().flatten().all(|(_, bytes)| *bytes);
    // The outermost has all others in it.
    let whole = a.bodies.get(&0).copied().unwrap_or(select);
    let others = || may_bring_collation(whole, a.cx);
    snapshot.collation_is_bytes && !collates() && columns() && !(snapshot.unlike_bytes && others())
}

/// Something besides columns of tables and PostgreSQL's own functions: types (domains, fields of composite types), functions and views of users'
/// own can have collations that are not seen here.
fn may_bring_collation(select: &ast::SelectStmt, cx: &Context) -> bool {
    if search::any(select, |n| matches!(n, NodeEnum::AIndirection(_))) {
        return true;
    }
    let snapshot = cx.snapshot;
    let body = Body::of_statement(&NodeEnum::SelectStmt(Box::new(select.clone())));
    let own_type = |name: &str| snapshot.types.values().any(|t| t.name == name);
    let is_function =
        |name: &str| snapshot.builtin_functions.contains_key(name) && !snapshot.functions.contains_key(name);
    let is_view = |rv: &ast::RangeVar| cx.relation(rv).is_some_and(|r| r.view.is_some());
    body.words.is_some()
        || body.types.iter().any(|(_, name)| own_type(name))
        || !body.calls.iter().all(|(_, name)| is_function(name))
        || body.operators.iter().any(|(_, name)| snapshot.operators.contains_key(name))
        || relations::of_select(select).into_iter().any(is_view)
}

/// Each node needs at most `limit + offset` rows.
pub fn push_limit(part: &mut ast::SelectStmt) {
    let Some(offset) = part.limit_offset.take() else { return };
    if let Some(limit) = part.limit_count.take() {
        let constant = |n: &Node| rewrite::count(Some(n));
        part.limit_count = match (constant(&limit), constant(&offset)) {
            (Ok(Some(Count::Constant(l))), Ok(Some(Count::Constant(o)))) => {
                i32::try_from(l.saturating_add(o)).ok().map(|n| Box::new(build::integer(n)))
            }
            (Ok(None), _) => None,
            (_, Ok(None)) => Some(limit),
            _ => {
                // Together they may be more than a bigint holds: then there is no limit.
                let bigint = |n: Node| build::cast(n, "int8");
                let offset = coalesce(bigint(*offset), build::integer(0));
                let none = build::cast(build::text(&i64::MAX.to_string()), "int8");
                let skipped = either(ast::MinMaxOp::IsGreatest, offset.clone(), build::integer(0));
                let most = build::own_operator("-", none, skipped);
                let limit = either(ast::MinMaxOp::IsLeast, bigint(*limit), most);
                Some(Box::new(build::own_operator("+", limit, offset)))
            }
        };
        if part.limit_count.is_none() {
            part.limit_option = ast::LimitOption::Default as i32;
        }
    }
}

/// `GREATEST(a, b)`, `LEAST(a, b)`
fn either(op: ast::MinMaxOp, a: Node, b: Node) -> Node {
    build::node(NodeEnum::MinMaxExpr(Box::new(ast::MinMaxExpr {
        op: op as i32,
        args: vec![a, b],
        location: -1,
        ..Default::default()
    })))
}

fn coalesce(a: Node, b: Node) -> Node {
    build::node(NodeEnum::CoalesceExpr(Box::new(ast::CoalesceExpr {
        args: vec![a, b],
        location: -1,
        ..Default::default()
    })))
}

//! COPY FROM into a table of several nodes: what each of them would count or compute for itself is computed once, or refused. Every
//! copy of a reference table gets the client's data. It does not know how data travels.

use catalog::{Column, Placement, Relation, Snapshot};
use sql::ast::{self, Node};
use sql::body::Body;
use sql::{NodeEnum, build};

use crate::text::Text;
use crate::{Context, Refusal, Result, by_argument, clock_text, needs, reads, rewrite, same};

/// REJECT_LIMIT, if it is a number: what else is wrong with it nodes say.
pub fn reject_limit(copy: &ast::CopyStmt) -> Option<u64> {
    match option(copy, "reject_limit")?.arg.as_deref()?.node.as_ref()? {
        NodeEnum::Integer(i) => u64::try_from(i.ival).ok(),
        NodeEnum::Float(f) => f.fval.parse().ok(),
        NodeEnum::String(s) => s.sval.trim().parse().ok(),
        _ => None,
    }
}

/// Whether it says anything of this.
pub fn has_option(copy: &ast::CopyStmt, name: &str) -> bool {
    option(copy, name).is_some()
}

fn option<'c>(copy: &'c ast::CopyStmt, name: &str) -> Option<&'c ast::DefElem> {
    copy.options.iter().find_map(|o| match &o.node {
        Some(NodeEnum::DefElem(d)) if d.defname.eq_ignore_ascii_case(name) => Some(&**d),
        _ => None,
    })
}

/// Refuses what each node would count for itself, where each gets other rows, and nobody could tell what it has passed over.
pub fn refuse_counts(copy: &ast::CopyStmt, relation: &Relation) -> Result<()> {
    match reject_limit(copy).is_some() && (copy.where_clause.is_some() || relation.triggers) {
        true => Err(not_counted()),
        false => Ok(()),
    }
}

/// Rows that are missing may have been passed over by something else than ON_ERROR, or are written by now.
pub fn not_counted() -> Refusal {
    Refusal::new(
        "REJECT_LIMIT of COPY into a distributed table is not supported with WHERE, triggers, or batches that commit by themselves: \
         each node would count by itself",
        "COPY into a temporary table, then INSERT … SELECT from it; or leave REJECT_LIMIT out.",
    )
}

/// Refuses code in the condition that does not find where it runs what it uses: on home for a local table's rows, else where each row
/// belongs. `relation`: the table, if it is in the catalog.
pub fn refuse_code(copy: &ast::CopyStmt, relation: Option<&Relation>, cx: &Context) -> Result<()> {
    if let Some(view) = copy.relation.as_ref().and_then(|rv| crate::instead_of::view(rv, cx)) {
        return Err(crate::through_views::refusal(view, "with triggers, by COPY,"));
    }
    let Some(condition) = copy.where_clause.as_deref() else { return Ok(()) };
    let tree = as_query(condition, relation);
    needs::refuse_called(&tree, cx)?;
    let is_local = |r: &Relation| matches!(r.placement, Placement::Local);
    if cx.snapshot.nodes.len() < 2 || relation.is_none_or(is_local) {
        return Ok(());
    }
    let refusal = |what: String| {
        Err(Refusal::new(
            format!("{what} in WHERE of COPY into a table of several nodes is not supported"),
            "COPY into a temporary table, then INSERT … SELECT from it.",
        ))
    };
    if let Some(need) = needs::find(condition, cx, |need| need.home) {
        return refusal(format!("{}, which uses what only home has,", need.what));
    }
    match by_argument::leaves(&tree, |_| true, cx) {
        Some(name) => refusal(format!("{name}(), which may leave settings behind,")),
        None => Ok(()),
    }
}

/// `SELECT FROM table WHERE condition`
fn as_query(condition: &Node, relation: Option<&Relation>) -> NodeEnum {
    let mut select = build::select();
    select.from_clause = relation.iter().map(|r| build::range_var(&r.schema, &r.name, None)).collect();
    select.where_clause = Some(Box::new(condition.clone()));
    NodeEnum::SelectStmt(Box::new(select))
}

/// Whether the condition reads the clock, of which each node has its own.
pub fn reads_clock(condition: &Node) -> bool {
    rewrite::replace_now(&mut as_query(condition, None))
}

/// The statement for nodes, with one time for all.
pub fn text(copy: ast::CopyStmt) -> Result<Text> {
    let mut tree = NodeEnum::CopyStmt(Box::new(copy));
    rewrite::replace_now(&mut tree);
    Text::of(&tree)
}

/// Refuses what each copy would decide for itself. `columns`: those that the data has; `marks_default`: it may say that a row
/// takes a column's default.
pub fn refuse(
    copy: &ast::CopyStmt,
    relation: &Relation,
    columns: &[usize],
    marks_default: bool,
    snapshot: &Snapshot,
) -> Result<()> {
    let differs = |c: &&usize| same::default_differs(snapshot, &relation.columns[**c]);
    if let Some(at) = columns.iter().find(differs).filter(|_| marks_default) {
        return Err(Refusal::new(
            format!(
                "DEFAULT in COPY into reference table \"{}\" is not supported: the default of \"{}\" could differ from node to node",
                relation.name, relation.columns[*at].name
            ),
            "Leave the column out of the list of columns, or give its values.",
        ));
    }
    let Some(condition) = copy.where_clause.as_deref() else { return Ok(()) };
    // Whatever the session's path: names count wherever they are.
    let mut path: Vec<String> = snapshot.operators.values().flatten().map(|o| o.schema.clone()).collect();
    path.extend(snapshot.functions.values().flatten().map(|f| f.schema.clone()));
    path.sort_unstable();
    path.dedup();
    let cx = Context::new(snapshot, &path, &[]);
    let tree = as_query(condition, Some(relation));
    let what = same::differs(snapshot, &path, &Body::of_expression(condition)).or_else(|| clock_text::read(&tree, &cx));
    match what {
        None => Ok(()),
        Some(what) => Err(Refusal::new(
            format!(
                "{what} in WHERE of COPY into reference table \"{}\" is not supported: it could differ from node to node",
                relation.name
            ),
            "COPY into a temporary table, then INSERT … SELECT from it.",
        )),
    }
}

/// `SELECT value FROM …` for a column whose default could differ from copy to copy, up to the number of values.
pub fn defaults(column: &Column) -> Result<Option<Text>> {
    let Some(value) = column.default.as_deref().and_then(reads::parse_expression) else { return Ok(None) };
    let mut select = build::select();
    select.target_list = vec![build::target(value, None)];
    let mut tree = NodeEnum::SelectStmt(Box::new(select));
    rewrite::replace_now(&mut tree);
    Ok(Some(Text::all([Text::of(&tree)?, " FROM pg_catalog.generate_series(1, ".into()])))
}

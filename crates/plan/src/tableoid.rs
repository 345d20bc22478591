//! `tableoid` of a table whose rows are in shards: each node, and each shard, has an object id of its own for it.
//!
//! `tableoid::regclass` of a single table becomes the table's name; anything else is refused. It does not know levels.

use catalog::Relation;
use sql::ast;
use sql::walk::{self, VisitMut};
use sql::{NodeEnum, build, names, relations, search};

use crate::refuse::Refusal;
use crate::{Context, Result};

/// Replaces it; true if there was one.
pub fn replace(statement: &mut NodeEnum, cx: &Context) -> Result<bool> {
    if !search::any(statement, is_tableoid) {
        return Ok(false);
    }
    let named = relations::of(statement);
    let tables: Vec<&Relation> = named.iter().filter_map(|rv| distributed(rv, cx)).collect();
    let [table] = tables[..] else { return if tables.is_empty() { Ok(false) } else { Err(refusal()) } };
    if table.distribution().is_some_and(|d| d.is_partitioned()) {
        return Err(Refusal::new(
            format!(
                "tableoid of \"{}\" is not supported: it tells a shard, not the partition that the shard is of",
                table.name
            ),
            "Ask each partition by its name, or compare the column that the table is partitioned by.",
        ));
    }
    // A row that an outer join left out has none.
    let outer = |n: &NodeEnum| matches!(n, NodeEnum::JoinExpr(j) if j.jointype != ast::JoinType::JoinInner as i32);
    let alone = named.len() == 1 && !search::any(statement, outer);
    let name = format!("{}.{}", catalog::quote_ident(&table.schema), catalog::quote_ident(&table.name));
    let mut replace = Replace { name: &name, refused: !alone };
    walk::below_mut(statement, &mut replace);
    if replace.refused { Err(refusal()) } else { Ok(true) }
}

fn refusal() -> Refusal {
    Refusal::new(
        "tableoid of a distributed table is not supported here: it differs from shard to shard and from node to node",
        "Write tableoid::regclass in a query of one table, or the table's name.",
    )
}

fn distributed<'c>(rv: &ast::RangeVar, cx: &'c Context) -> Option<&'c Relation> {
    let relation = cx.relation(rv)?;
    relation.distribution().is_some().then_some(relation.as_ref())
}

/// A column of that name, with or without its table before it.
pub fn is_tableoid(n: &NodeEnum) -> bool {
    matches!(n, NodeEnum::ColumnRef(c) if names::strings(&c.fields).last() == Some(&"tableoid"))
}

struct Replace<'r> {
    name: &'r str,
    refused: bool,
}

impl VisitMut for Replace<'_> {
    fn node(&mut self, n: &mut NodeEnum) -> bool {
        match n {
            // Its column keeps its name.
            NodeEnum::ResTarget(t) if t.name.is_empty() => {
                if let Some(value) = t.val.as_deref().filter(|v| v.node.as_ref().is_some_and(is_cast)) {
                    t.name = names::figure_column(value);
                }
                true
            }
            NodeEnum::TypeCast(cast) if cast.arg.as_deref().and_then(|a| a.node.as_ref()).is_some_and(is_tableoid) => {
                let regclass = cast.type_name.as_ref().and_then(names::plain_type) == Some("regclass");
                self.refused |= !regclass;
                cast.arg = Some(Box::new(build::text(self.name)));
                false
            }
            _ => {
                self.refused |= is_tableoid(n);
                true
            }
        }
    }
}

/// A cast of it, or a cast of that.
fn is_cast(n: &NodeEnum) -> bool {
    let NodeEnum::TypeCast(cast) = n else { return false };
    cast.arg.as_deref().and_then(|a| a.node.as_ref()).is_some_and(|a| is_tableoid(a) || is_cast(a))
}

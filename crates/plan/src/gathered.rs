//! Rows in tables' places that are planned like tables: by a name that nobody can write, and again rows in a text.

use std::sync::Arc;

use catalog::Relation;
use sql::ast::RangeVar;
use sql::{NodeEnum, build, relations};

use crate::text;

/// Longer than PostgreSQL's names can be.
pub const SCHEMA: &str = "herd_rows_that_came_from_tables_and_are_planned_like_tables_themselves";

/// The one of them that a name means.
pub fn named<'a>(rv: &RangeVar, all: &'a [Arc<Relation>]) -> Option<&'a Arc<Relation>> {
    all.iter().find(|r| rv.schemaname == SCHEMA && rv.relname == r.name)
}

/// Their rows go where they are named.
pub fn put_rows(tree: &mut NodeEnum) {
    relations::replace(tree, &mut |node| {
        if let Some(NodeEnum::RangeVar(rv)) = &node.node
            && rv.schemaname == SCHEMA
            && let Ok(number) = rv.relname.parse()
        {
            let alias = rv.alias.clone().unwrap_or_else(|| build::alias(&rv.relname));
            *node = build::subselect(text::rows(number), Some(alias), false);
        }
    });
}

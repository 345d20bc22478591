//! Stand-ins: rows in tables' places that are planned like tables, by a name that nobody can write, and are rows again in a text. It does not
//! know why they are planned so (`gather/shuffle.rs`).

use std::sync::Arc;

use catalog::{Colocation, Column, Distribution, Oid, Placement, Relation, RelationKind};
use key::PartitionStrategy;
use sql::ast::{RangeVar, SelectStmt};
use sql::walk::{self, VisitMut};
use sql::{NodeEnum, build, relations};

use crate::text;

/// Longer than PostgreSQL's names can be.
pub const SCHEMA: &str = "herd_rows_that_came_from_tables_and_are_planned_like_tables_themselves";

/// Rows of one table that have come.
pub struct TableRows {
    pub relation: Arc<Relation>,
    /// Which of its columns, by their places there.
    pub columns: Vec<usize>,
    /// The uses of the table that they stand for ([`crate::levels::Analysis::uses`]).
    pub uses: Vec<usize>,
    /// What nodes are asked for them; `None`: whoever asks may have no right to the table itself.
    pub query: Option<Box<SelectStmt>>,
}

impl TableRows {
    /// The table's column that is the n-th here.
    pub fn column(&self, n: usize) -> &Column {
        &self.relation.columns[self.columns[n]]
    }
}

/// The colocation group of all that are distributed by a column of this type. It has no shards: whoever runs the plan knows where rows are.
pub fn group(key: Option<Oid>) -> Arc<Colocation> {
    let key_types = key.into_iter().collect();
    Arc::new(Colocation { id: i32::MIN, strategy: PartitionStrategy::Hash, key_types, shards: vec![] })
}

/// The table that the rows of child `n` are; without a column, every node has all of it.
pub fn table(n: usize, rows: &TableRows, by: Option<usize>, group: &Arc<Colocation>) -> Arc<Relation> {
    let own = |(i, c): (usize, &usize)| Column {
        name: format!("c{i}"),
        default: None,
        sequence: None,
        sequence_oid: 0,
        identity: 0,
        generated: false,
        ..rows.relation.columns[*c].clone()
    };
    let columns: Vec<Column> = rows.columns.iter().enumerate().map(own).collect();
    let placement = by.map_or(Placement::Reference, |c| {
        let (group, prefix) = (group.clone(), String::new());
        Placement::Distributed(Distribution { key: vec![c], group, prefix, partitions: None, is_part: false })
    });
    Arc::new(Relation {
        oid: Oid::MAX - n as Oid,
        schema: SCHEMA.to_string(),
        name: n.to_string(),
        kind: RelationKind::Table,
        placement,
        columns: columns.into(),
        view: None,
        unique: vec![],
        row_security: false,
        schema_is_open: true,
        statement_triggers: false,
        rules: false,
        triggers: false,
        refers_to_itself: false,
        checked_at_commit: false,
        through: None,
        column_copy: None,
    })
}

/// The one of them that a name means.
pub fn named<'a>(rv: &RangeVar, all: &'a [Arc<Relation>]) -> Option<&'a Arc<Relation>> {
    all.iter().find(|r| is_named(rv) && rv.relname == r.name)
}

/// It is one of them, whichever.
pub fn is_named(rv: &RangeVar) -> bool {
    rv.schemaname == SCHEMA
}

/// Rows become tables.
pub fn put_tables(tree: &mut NodeEnum) {
    walk::below_mut(tree, &mut Tables);
}

/// Tables become rows.
pub fn put_rows(tree: &mut NodeEnum) {
    relations::replace(tree, &mut |node| {
        if let Some(NodeEnum::RangeVar(rv)) = &node.node
            && is_named(rv)
            && let Ok(number) = rv.relname.parse()
        {
            let alias = rv.alias.clone().unwrap_or_else(|| build::alias(&rv.relname));
            *node = build::subselect(text::rows(number), Some(alias), false);
        }
    });
}

struct Tables;

impl VisitMut for Tables {
    fn node(&mut self, n: &mut NodeEnum) -> bool {
        if let NodeEnum::RangeSubselect(sub) = n
            && let Some(NodeEnum::SelectStmt(query)) = sub.subquery.as_deref().and_then(|q| q.node.as_ref())
            && let Some(number) = text::rows_of(query)
        {
            let table = build::range_var(SCHEMA, &number.to_string(), None);
            if let Some(NodeEnum::RangeVar(mut table)) = table.node {
                table.alias = sub.alias.take();
                *n = NodeEnum::RangeVar(table);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_tables_and_rows_again() {
        let alias = |name: &str| Some(build::alias(name));
        let mut query = build::select();
        query.target_list = vec![build::target(build::star(), None)];
        query.from_clause = vec![
            build::subselect(text::rows(0), alias("a"), false),
            build::subselect(text::rows(1), alias("b"), false),
            build::range_var("s", "c", None),
        ];
        let rows = NodeEnum::SelectStmt(Box::new(query));
        let mut tables = rows.clone();
        put_tables(&mut tables);
        let named: Vec<_> =
            relations::of(&tables).iter().map(|rv| (rv.schemaname == SCHEMA, rv.relname.clone())).collect();
        assert_eq!(named, [(true, "0".to_string()), (true, "1".to_string()), (false, "c".to_string())]);
        put_rows(&mut tables);
        assert_eq!(sql::deparse(&tables).ok(), sql::deparse(&rows).ok());
    }
}

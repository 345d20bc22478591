//! The source of a MERGE that inserts rows: it is read once, and each of its rows goes to the node of its shard alone.

use sql::ast::{self, Node};
use sql::{NodeEnum, build};

use super::{Broadcast, Keys, Split};
use crate::Result;
use crate::gather::{NONE, visible};
use crate::refuse::Refusal;

impl<'a> Broadcast<'_, 'a> {
    /// Reads the source, and behind its columns the keys its rows go by.
    pub(super) fn split(&mut self, item: &'a Node, out: &mut Node, keys: Keys) -> Result<()> {
        let mut from = item.clone();
        let (mut alias, mut columns) = (None, None);
        match &mut from.node {
            Some(NodeEnum::RangeVar(rv)) => {
                alias = Some(rv.alias.clone().unwrap_or_else(|| build::alias(&rv.relname)));
                if let Some(NodeEnum::RangeVar(own)) = &item.node
                    && !self.is_with_query(own)
                    && let Some(uses) = self.a.ranges.get(&std::ptr::from_ref(own))
                {
                    let relation = &self.a.uses[uses[0]].relation;
                    let names = visible(relation, own);
                    let used = self.used.columns(relation).into_iter();
                    columns = Some(used.map(|c| names[c].clone()).collect::<Vec<_>>());
                    rv.schemaname = relation.schema.clone();
                }
            }
            Some(NodeEnum::RangeSubselect(s)) => alias = s.alias.clone(),
            Some(NodeEnum::RangeFunction(f)) => alias = f.alias.clone(),
            _ => {}
        }
        let Some(mut alias) = alias else {
            return Err(Refusal::new(
                "MERGE over several nodes that inserts rows of a source without a name is not supported",
                "Give the source an alias.",
            ));
        };
        let mut query = build::select();
        query.target_list = match columns {
            Some(columns) if columns.is_empty() => vec![build::target(build::integer(1), Some(NONE))],
            Some(columns) => {
                columns.iter().map(|c| build::target(build::column(&[&alias.aliasname, c]), None)).collect()
            }
            None => vec![build::target(all_of(&alias.aliasname), None)],
        };
        let Keys { keys, unmatched, relation, everywhere } = keys;
        let (some, width) = (unmatched.is_some(), keys.len());
        query.target_list.extend(keys.into_iter().chain(unmatched).map(|e| build::target(e, None)));
        query.from_clause = vec![from];
        let number = self.reads.len();
        let rows = self.read_with(query)?;
        if self.reads.len() == number {
            return Err(Refusal::bare("MERGE from a source that is read twice is not supported over several nodes"));
        }
        self.split = Some(Split { read: number, keys: width, some, relation, everywhere });
        alias.colnames.clear();
        *out = build::subselect(rows, Some(alias), false);
        Ok(())
    }
}

/// `name.*`
fn all_of(name: &str) -> Node {
    let star = build::node(NodeEnum::AStar(ast::AStar {}));
    build::node(NodeEnum::ColumnRef(ast::ColumnRef { fields: vec![build::string(name), star], location: -1 }))
}

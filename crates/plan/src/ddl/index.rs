//! CREATE INDEX, ALTER INDEX, REINDEX on tables of the herd.

use crate::Refusal;
use catalog::{Relation, quote_literal};
use sql::ast::{self, AlterTableType as T, ReindexObjectType};
use sql::{NodeEnum, names};

use super::alter::subtype;
use super::place::{Cx, deparse, is_partitioned, of_relation, text, whole};
use super::steps::{Rights, Step};
use super::{Ddl, Decided, concurrently, constraint, partition};

/// CREATE INDEX on a distributed or reference table: of one name everywhere; a unique one must have the table's key.
pub fn create(cx: &Cx, s: &ast::IndexStmt) -> Decided {
    let Some(rv) = &s.relation else { return Ok(Ddl::Home) };
    cx.not_ours(names::table(rv))?;
    let Some(table) = cx.herd_var(rv) else { return Ok(Ddl::Home) };
    partition::refuse_only(rv, table)?;
    if s.concurrent && is_partitioned(table) {
        return Err(Refusal::new(
            format!("cannot create index on partitioned table \"{}\" concurrently", table.name),
            "Make it concurrently on each of its partitions, then CREATE INDEX on the table: it takes theirs.",
        ));
    }
    if s.unique && table.distribution().is_some() {
        let columns = s.index_params.iter().filter_map(|p| match &p.node {
            Some(NodeEnum::IndexElem(e)) => Some(e.name.as_str()),
            _ => None,
        });
        constraint::includes_key(table, &columns.collect::<Vec<_>>(), "a unique index")?;
    }
    let mut named = s.clone();
    if table.distribution().is_some() {
        named.relation = Some(whole(rv));
    }
    if named.idxname.is_empty() {
        // The same name everywhere, whatever else is there: home has one to spare.
        named.idxname = cx.facts.index_name.clone().unwrap_or_default();
    }
    if s.concurrent {
        return concurrently::create(cx, &named, table);
    }
    let skipped = s.if_not_exists && cx.is_taken((Some(&table.schema), &s.idxname));
    let tree = NodeEnum::IndexStmt(Box::new(named));
    let sql = if tree == *cx.statement { cx.sql.to_string() } else { deparse(tree)? };
    if skipped {
        // Perhaps by what only home has: home says so, and nothing else happens.
        return Ok(Ddl::Nodes(Box::new(cx.home_and(vec![Step::new(sql)], vec![]))));
    }
    let mut spread = cx.everywhere(&sql);
    spread.rights = table.distribution().map(|_| Rights { table: of_relation(table), new_owner: None });
    Ok(Ddl::Nodes(Box::new(spread)))
}

/// ALTER INDEX on an index of the herd's table.
pub fn alter(cx: &Cx, a: &ast::AlterTableStmt, table: &Relation) -> Decided {
    let kinds: Vec<T> = a
        .cmds
        .iter()
        .filter_map(|n| match &n.node {
            Some(NodeEnum::AlterTableCmd(c)) => Some(subtype(c)),
            _ => None,
        })
        .collect();
    if table.is_reference() {
        return Ok(Ddl::Nodes(Box::new(cx.everywhere(cx.sql))));
    }
    let storage = |k: &T| matches!(k, T::AtSetRelOptions | T::AtResetRelOptions) && is_partitioned(table);
    if kinds.iter().any(|k| matches!(k, T::AtAttachPartition | T::AtSetTableSpace) || storage(k)) {
        return Err(Refusal::new(
            format!("this form of ALTER INDEX is not supported on distributed table \"{}\"", table.name),
            "Drop the index and create it as it should be.",
        ));
    }
    if !kinds.iter().any(|k| matches!(k, T::AtSetRelOptions | T::AtResetRelOptions)) {
        return Ok(Ddl::Nodes(Box::new(cx.everywhere(cx.sql))));
    }
    // A partitioned index has no storage: its parameters are those of the partitions' indexes.
    let Some(rv) = &a.relation else { return Ok(Ddl::Home) };
    let placeholder = ast::RangeVar { schemaname: String::new(), relname: "%part%".into(), ..rv.clone() };
    let sql = deparse(NodeEnum::AlterTableStmt(ast::AlterTableStmt { relation: Some(placeholder), ..a.clone() }))?;
    let each = super::column::do_block(&format!(
        "DECLARE part pg_catalog.regclass; BEGIN FOR part IN SELECT inhrelid FROM pg_catalog.pg_inherits \
         WHERE inhparent OPERATOR(pg_catalog.=) {}::pg_catalog.regclass ORDER BY inhrelid LOOP \
         EXECUTE pg_catalog.replace({}, '\"%part%\"', part::pg_catalog.text); END LOOP; END",
        quote_literal(&text(names::table(rv))),
        quote_literal(&sql)
    ));
    let mut spread = cx.everywhere(&each);
    spread.tag = Some("ALTER INDEX");
    Ok(Ddl::Nodes(Box::new(spread)))
}

/// REINDEX: outside of a transaction, on every node that has what it names.
pub fn reindex(cx: &Cx, s: &ast::ReindexStmt) -> Decided {
    let kind = ReindexObjectType::try_from(s.kind).unwrap_or(ReindexObjectType::Undefined);
    let spread = match (kind, &s.relation) {
        (ReindexObjectType::ReindexObjectTable, Some(rv)) if cx.herd_var(rv).is_some() => cx.everywhere(cx.sql),
        (ReindexObjectType::ReindexObjectIndex, Some(rv)) if cx.table_of_index(names::table(rv)).is_some() => {
            cx.everywhere(cx.sql)
        }
        (ReindexObjectType::ReindexObjectSchema, _) => {
            let guard =
                format!("pg_catalog.to_regnamespace({}) IS NOT NULL", quote_literal(&catalog::quote_ident(&s.name)));
            cx.everywhere_if(guard)
        }
        (ReindexObjectType::ReindexObjectSystem | ReindexObjectType::ReindexObjectDatabase, _) => {
            // A database may have another name on each node.
            let mut spread = cx.everywhere(cx.sql);
            for n in spread.nodes.iter_mut().filter(|n| n.node != cx.home()) {
                let name = cx.snapshot.node(n.node).map(|n| n.database.clone()).unwrap_or_default();
                n.steps = vec![Step::new(deparse(NodeEnum::ReindexStmt(ast::ReindexStmt { name, ..s.clone() }))?)];
            }
            spread
        }
        _ => return Ok(Ddl::Home),
    };
    Ok(Ddl::Autocommit(Box::new(spread)))
}

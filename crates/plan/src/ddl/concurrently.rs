//! CREATE INDEX CONCURRENTLY on tables of the herd. PostgreSQL can't do it on a partitioned table: an empty index is made
//! on the parent, then one concurrently on each partition, then they are joined. It does not run anything.

use crate::Refusal;
use catalog::{Relation, quote_ident, quote_literal};
use sql::NodeEnum;
use sql::ast::{IndexStmt, RangeVar};

use super::facts::truncated;
use super::place::{Cx, deparse, of_relation};
use super::steps::{NodeSteps, Rights, Step};
use super::{Ddl, Decided};

/// `s` has a name.
pub fn create(cx: &Cx, s: &IndexStmt, table: &Relation) -> Decided {
    let index = catalog::qualified(&table.schema, &s.idxname);
    let text = |s: IndexStmt| deparse(NodeEnum::IndexStmt(Box::new(s)));
    if cx.is_taken((Some(&table.schema), &s.idxname)) {
        // It is there: home says so, as an error or a notice, and nothing else happens.
        let home = text(IndexStmt { concurrent: false, ..s.clone() })?;
        return Ok(Ddl::Autocommit(Box::new(cx.home_and(vec![Step::new(home)], vec![]))));
    }
    let Some(d) = table.distribution() else {
        let sql = text(s.clone())?;
        let mut spread = cx.everywhere(&sql);
        spread.undo = vec![format!("DROP INDEX IF EXISTS {index}")];
        spread.whole = Some(is_valid(&index));
        return Ok(Ddl::Autocommit(Box::new(spread)));
    };
    let Some(rv) = &s.relation else { return Ok(Ddl::Home) };
    let only =
        text(IndexStmt { concurrent: false, relation: Some(RangeVar { inh: false, ..rv.clone() }), ..s.clone() })?;
    let mut spread = cx.everywhere(&only);
    // Writers of the table as a whole would queue behind its lock, which waits for those that are there.
    for n in &mut spread.nodes {
        n.steps = std::mem::take(&mut n.steps).into_iter().map(Step::in_tries).collect();
    }
    spread.rights = Some(Rights { table: of_relation(table), new_owner: None });
    spread.undo.push(format!("DROP INDEX IF EXISTS {index}"));
    for NodeSteps { node, steps } in &mut spread.nodes {
        for shard in d.group.shards.iter().filter(|shard| shard.node == *node) {
            let name = name_on_partition(&s.idxname, &d.prefix, shard.number);
            steps.extend(on_partition(s, rv, &d.prefix, shard.number, &name, &index)?);
        }
    }
    spread.whole = Some(is_valid(&index));
    // What was not joined yet stays behind when the parent's index is dropped.
    let names =
        d.group.shards.iter().map(|shard| {
            format!("herd_shards.{}", quote_ident(&name_on_partition(&s.idxname, &d.prefix, shard.number)))
        });
    spread.undo.push(format!("DROP INDEX IF EXISTS {}", names.collect::<Vec<_>>().join(", ")));
    Ok(Ddl::Autocommit(Box::new(spread)))
}

/// A table's index is not, as long as one of its partitions has none.
fn is_valid(index: &str) -> String {
    format!(
        "SELECT COALESCE((SELECT i.indisvalid FROM pg_catalog.pg_index i \
         WHERE i.indexrelid OPERATOR(pg_catalog.=) pg_catalog.to_regclass({})), false)",
        quote_literal(index)
    )
}

fn on_partition(
    s: &IndexStmt,
    rv: &RangeVar,
    prefix: &str,
    number: i32,
    name: &str,
    index: &str,
) -> Result<[Step; 2], Refusal> {
    let relation = RangeVar {
        catalogname: String::new(),
        schemaname: "herd_shards".into(),
        relname: format!("{prefix}_{number}"),
        inh: true,
        ..rv.clone()
    };
    let create = IndexStmt { idxname: name.to_string(), relation: Some(relation), if_not_exists: false, ..s.clone() };
    let create = deparse(NodeEnum::IndexStmt(Box::new(create)))?;
    Ok([
        Step::new(create),
        Step::new(format!("ALTER INDEX {index} ATTACH PARTITION herd_shards.{}", quote_ident(name))).in_tries(),
    ])
}

/// Index names are unique in a schema only, and the partitions of all tables share one: the table's prefix tells them apart.
fn name_on_partition(index: &str, prefix: &str, number: i32) -> String {
    let base = if index.contains(prefix) { index.to_string() } else { format!("{prefix}_{index}") };
    format!("{}_{number}", truncated(&base, 58))
}

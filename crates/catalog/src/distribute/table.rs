//! From a local table to a distributed one.

use std::collections::HashSet;

use key::PartitionStrategy;

use super::colocate::{Chosen, choose};
use super::foreign::{Becomes, check_foreign_keys};
use super::{Builder, CopyRows, CopyTarget, DistributeRequest, DistributionPlan, partitioned};
use crate::definition::{Definition, TableKind};
use crate::ident::{ident_list, truncate};
use crate::{Placement, Refusal, RefusalKind, Snapshot, quote_ident, quote_literal};

/// Plans `create_distributed_table`. `definition` is of the table as it is now on home; `shards_default` counts when the
/// request does not say how many shards.
pub fn plan_distribution(
    snapshot: &Snapshot,
    definition: &Definition,
    request: &DistributeRequest,
    shards_default: i32,
) -> Result<DistributionPlan, Refusal> {
    let relation = super::known(snapshot, &request.schema, &request.name)?;
    if !matches!(relation.placement, Placement::Local) {
        let message = format!("table \"{}\" is already distributed", request.name);
        return Err(Refusal::new(
            RefusalKind::ObjectNotInPrerequisiteState,
            message,
            "Call undistribute_table() first.",
        ));
    }
    match definition.kind {
        b'p' => definition.check_partitioned()?,
        _ => definition.check_plain_table()?,
    }
    let chosen = choose(snapshot, definition, request, shards_default)?;
    let key = &request.columns;
    definition.check_unique(key)?;
    definition.check_triggers()?;
    let group = (!chosen.new).then_some(chosen.group.id);
    check_foreign_keys(snapshot, definition, Becomes::Distributed { group, key })?;
    definition.check_replaceable()?;
    let prefix = request.prefix.clone().unwrap_or_else(|| free_prefix(snapshot, definition));
    Ok(match definition.kind {
        b'p' => partitioned::build(snapshot, definition, key, &chosen, &prefix),
        _ => build(snapshot, definition, key, &chosen, &prefix),
    })
}

fn build(
    snapshot: &Snapshot,
    definition: &Definition,
    key: &[String],
    chosen: &Chosen,
    prefix: &str,
) -> DistributionPlan {
    let strategy = chosen.group.strategy;
    let mut builder = Builder::new(snapshot);
    let home = snapshot.home;
    builder.before(home, super::hold(definition, "ACCESS EXCLUSIVE", true));
    builder.before(home, definition.park_views());
    builder.before(home, super::put_aside(definition));
    for node in builder.nodes() {
        let shards = chosen.shards_on(node);
        let kind = TableKind::Distributed { strategy, key, prefix, shards: &shards };
        if node == home {
            if chosen.new && strategy != PartitionStrategy::Hash {
                builder.before(home, try_bounds(definition, key, chosen));
            }
            // What was an identity column's sequence and is a plain one now.
            let plain = definition.sequences.iter().filter(|s| s.identity && !definition.is_identity(s, kind));
            builder.before(home, plain.flat_map(|s| s.create()));
            builder.before(home, definition.create_table(kind));
            builder.before(home, super::carry_identities(definition));
        } else {
            builder.before(node, super::sequences_elsewhere(definition, kind));
            builder.before(node, definition.create_table(kind));
            builder.before(node, super::exhaust_identities(definition, kind));
        }
        builder.made(definition, node);
        builder.fill_as_owner(definition, node);
        builder.after(node, definition.finish(kind));
    }

    let columns = definition.stored_columns();
    let position = |name: &String| columns.iter().position(|c| c == name);
    builder.plan.copies.push(CopyRows {
        sources: vec![(home, super::copy_out(definition, &super::aside(definition)))],
        // A key column is never generated, so it is among them.
        to: CopyTarget::ByKey { key: key.iter().filter_map(position).collect(), group: chosen.group.clone() },
        into: super::copy_into(definition),
        table: definition.qualified(),
        columns,
    });

    register(&mut builder, definition, chosen, prefix, None);
    builder.after(home, definition.take_views_along());
    builder.after(home, super::drop_aside(definition));
    builder.finish()
}

/// The table is in the catalog as a distributed one. `key`: of one that has no shards of its own, the columns' numbers.
pub(super) fn register(
    builder: &mut Builder,
    definition: &Definition,
    chosen: &Chosen,
    prefix: &str,
    key: Option<&[String]>,
) {
    let home = builder.snapshot.home;
    builder.after(home, super::grant_identities(definition));
    builder.after(home, chosen.insert());
    let key = key.map_or("NULL".into(), |numbers| format!("ARRAY[{}]::int2[]", numbers.join(", ")));
    builder.after(
        home,
        [format!(
            "INSERT INTO herd.relation (schema, name, kind, colocation, prefix, oid, key) \
             VALUES ({}, {}, 'd', {}, {}, {}::pg_catalog.regclass, {key})",
            quote_literal(&definition.schema),
            quote_literal(&definition.name),
            chosen.group.id,
            quote_literal(prefix),
            quote_literal(&definition.qualified())
        )],
    );
}

/// Makes all shards of a new group once on home, for nothing but the server's own check of the bounds against each other:
/// each node will see only its own.
pub(super) fn try_bounds(definition: &Definition, key: &[String], chosen: &Chosen) -> Vec<String> {
    let strategy = if chosen.group.strategy == PartitionStrategy::Range { "RANGE" } else { "LIST" };
    let columns = key.iter().filter_map(|name| definition.column(name)).map(|column| {
        let collation = column.collation.as_ref().map_or(String::new(), |c| format!(" COLLATE {c}"));
        format!("{} {}{collation}", quote_ident(&column.name), column.type_name)
    });
    let columns = columns.collect::<Vec<_>>().join(", ");
    let room = quote_ident(&format!("{}_bounds", definition.aside));
    let mut statements = vec![
        format!("CREATE SCHEMA {room}"),
        format!("CREATE TABLE {room}.parent ({columns}) PARTITION BY {strategy} ({})", ident_list(key)),
    ];
    let bounds = chosen.group.shards.iter().zip(&chosen.bounds);
    statements.extend(bounds.map(|(shard, bound)| {
        format!("CREATE TABLE {room}.shard_{} PARTITION OF {room}.parent {bound}", shard.number)
    }));
    statements.push(format!("DROP TABLE {room}.parent"));
    statements.push(format!("DROP SCHEMA {room}"));
    statements
}

/// Room for `_` and a shard's number within PostgreSQL's 63 bytes.
const LENGTH_MAX: usize = 52;

/// Asks home for a prefix that no table has ever had, for partitions of a table of this name. `plain`: the name itself
/// is good, if it is still to be had.
pub fn new_prefix_sql(name: &str, plain: bool) -> String {
    const NUMBER_MAX: usize = 22;
    let plain = if plain { quote_literal(truncate(name, LENGTH_MAX)) } else { "NULL".into() };
    format!("SELECT herd.new_prefix({plain}, {})", quote_literal(truncate(name, LENGTH_MAX - NUMBER_MAX)))
}

/// What partitions are named after: the table's name, made different from those of other tables.
fn free_prefix(snapshot: &Snapshot, definition: &Definition) -> String {
    let taken: HashSet<&str> =
        snapshot.relations.values().filter_map(|r| Some(r.distribution()?.prefix.as_str())).collect();
    let plain = truncate(&definition.name, LENGTH_MAX).to_string();
    let with_schema = truncate(&format!("{}_{}", definition.schema, definition.name), LENGTH_MAX).to_string();
    let numbered = (2..).map(|n| {
        let suffix = format!("_{n}x");
        format!("{}{suffix}", truncate(&definition.name, LENGTH_MAX - suffix.len()))
    });
    let mut candidates = [plain, with_schema].into_iter().chain(numbered);
    candidates.find(|candidate| !taken.contains(candidate.as_str())).unwrap_or_default()
}

//! Adding and removing nodes. Shards stay where they are; moving them is another matter.

use super::partitioned::attach_as_owner;
use super::reference::{copy_from_home, create_elsewhere};
use super::{Builder, DistributionPlan};
use crate::definition::{Definition, TableKind};
use crate::schema::NodeAddress;
use crate::{Node, Placement, Refusal, RefusalKind, Snapshot, qualified, quote_ident, quote_literal};

/// Plans `citus_add_node`. The new server has been through [`crate::bootstrap_node_sql`], and gets what
/// [`super::objects`] tells of before the plan is run. `definitions` are those of all reference and distributed tables.
pub fn plan_add_node(
    snapshot: &Snapshot,
    definitions: &[Definition],
    address: &NodeAddress,
    server_version: i32,
) -> Result<(Node, DistributionPlan), Refusal> {
    let NodeAddress { name, host, port, database } = address;
    let same = |n: &&Node| n.name == *name || (&n.host, n.port, &n.database) == (host, *port, database);
    if let Some(node) = snapshot.nodes.iter().find(same) {
        let message = format!("node \"{}\" ({}:{}) is already part of the herd", node.name, node.host, node.port);
        return Err(Refusal::new(RefusalKind::DuplicateObject, message, ""));
    }
    check_version(snapshot, definitions, server_version)?;

    let id = snapshot.nodes.iter().map(|n| n.id).max().unwrap_or(0) + 1;
    let node = Node { id, name: name.clone(), host: host.clone(), port: *port, database: database.clone() };
    let with_node =
        Snapshot { nodes: snapshot.nodes.iter().cloned().chain([node.clone()]).collect(), ..snapshot.clone() };
    let mut builder = Builder::of_nodes(&with_node);
    let home = snapshot.home;
    builder.after(
        home,
        [format!(
            "INSERT INTO herd.node (id, name, host, port, database) VALUES ({id}, {}, {}, {port}, {})",
            quote_literal(name),
            quote_literal(host),
            quote_literal(database)
        )],
    );
    for definition in in_order_of_foreign_keys(definitions) {
        let relation = super::known(snapshot, &definition.schema, &definition.name)?;
        match &relation.placement {
            Placement::Local => {}
            Placement::Reference => {
                builder.before(home, super::hold(definition, "SHARE ROW EXCLUSIVE", true));
                builder.before(id, create_elsewhere(definition));
                builder.plan.copies.extend(copy_from_home(definition, home, vec![id]));
                builder.made(definition, id);
                builder.fill_as_owner(definition, id);
                builder.after(id, definition.finish(TableKind::Reference));
                builder.after(id, relation.column_copy.as_ref().map(|copy| copy.listed(&definition.qualified())));
            }
            Placement::Distributed(d) => {
                let key: Vec<String> = d.key.iter().map(|&i| relation.columns[i].name.clone()).collect();
                let kind = match d.is_partitioned() {
                    true => TableKind::Partitioned,
                    false => {
                        TableKind::Distributed { strategy: d.group.strategy, key: &key, prefix: &d.prefix, shards: &[] }
                    }
                };
                builder.before(id, super::sequences_elsewhere(definition, kind));
                builder.before(id, definition.create_table(kind));
                builder.before(id, super::exhaust_identities(definition, kind));
                builder.made(definition, id);
                builder.after(id, definition.finish(kind));
                builder.after(id, relation.column_copy.as_ref().map(|copy| copy.listed(&definition.qualified())));
            }
        }
    }
    for definition in definitions {
        if let Some((schema, name, bound)) = &definition.partition_of {
            let attach = attach_as_owner((schema, name), (&definition.schema, &definition.name), bound);
            let parent = definitions.iter().find(|d| (&d.schema, &d.name) == (schema, name));
            let other = parent.filter(|parent| parent.owner != definition.owner);
            let belongs =
                |owner: &str| format!("ALTER TABLE {} OWNER TO {}", definition.qualified(), quote_ident(owner));
            builder.after(id, other.map(|parent| belongs(&parent.owner)));
            builder.after(id, [attach]);
            builder.after(id, other.map(|_| belongs(&definition.owner)));
        }
    }
    Ok((node, builder.finish_nodes()))
}

/// A node may be of another version than home, but not where a table's definition would differ.
fn check_version(snapshot: &Snapshot, definitions: &[Definition], server_version: i32) -> Result<(), Refusal> {
    if server_version < 150_000 {
        let message = format!("the server is PostgreSQL {}; a herd needs 15 or later", server_version / 10_000);
        return Err(Refusal::unsupported(message, ""));
    }
    let home_has_identity = definitions.iter().any(|d| d.kind == b'p' && d.columns.iter().any(|c| c.identity != 0));
    if home_has_identity && server_version < 170_000 {
        let message = format!(
            "the server is PostgreSQL {}, home is {}, and distributed tables have identity columns",
            server_version / 10_000,
            snapshot.server_version / 10_000
        );
        return Err(Refusal::unsupported(message, "Use PostgreSQL 17 or later on the new node."));
    }
    Ok(())
}

/// Tables after those they reference. (Those that reference each other come last; PostgreSQL will refuse them.)
fn in_order_of_foreign_keys(definitions: &[Definition]) -> Vec<&Definition> {
    let mut waiting: Vec<&Definition> = definitions.iter().collect();
    let mut ordered: Vec<&Definition> = Vec::new();
    while !waiting.is_empty() {
        let waits = |d: &&Definition| {
            let mut targets = d.constraints.iter().filter_map(|c| c.foreign.as_ref());
            targets.any(|f| waiting.iter().any(|w| w.oid != d.oid && (&w.schema, &w.name) == (&f.schema, &f.table)))
        };
        let (later, now): (Vec<_>, Vec<_>) = waiting.iter().copied().partition(waits);
        if now.is_empty() {
            ordered.extend(later);
            break;
        }
        ordered.extend(now);
        waiting = later;
    }
    ordered
}

/// The functions that a herd has in schema public (`schema/admin.sql`).
pub const ADMIN_FUNCTIONS: [&str; 6] = [
    "create_distributed_table(regclass, text, text, text, integer, text, text[])",
    "create_reference_table(regclass)",
    "create_distributed_function(regprocedure, text, text, boolean)",
    "undistribute_table(regclass)",
    "citus_add_node(text, integer)",
    "citus_remove_node(text, integer)",
];

/// Plans `citus_remove_node`. The removed node's part, last in `after`, may be left out when its server is gone for good.
pub fn plan_remove_node(snapshot: &Snapshot, id: crate::NodeId) -> Result<DistributionPlan, Refusal> {
    let Some(node) = snapshot.node(id) else {
        return Err(Refusal::new(RefusalKind::UndefinedObject, format!("there is no node {id}"), ""));
    };
    let refuse =
        |message: String, hint: &str| Err(Refusal::new(RefusalKind::ObjectNotInPrerequisiteState, message, hint));
    if id == snapshot.home {
        return refuse(format!("node \"{}\" is home", node.name), "Home holds the catalog and the local tables.");
    }
    let shards: usize = snapshot.groups.values().map(|g| g.shards.iter().filter(|s| s.node == id).count()).sum();
    if shards > 0 {
        return refuse(
            format!("node \"{}\" still has {shards} shards", node.name),
            &format!("SELECT herd.drain_node({}) moves them to other nodes.", quote_literal(&node.name)),
        );
    }
    let without =
        Snapshot { nodes: snapshot.nodes.iter().filter(|n| n.id != id).cloned().collect(), ..snapshot.clone() };
    let mut builder = Builder::of_nodes(&without);
    builder.after(snapshot.home, [format!("DELETE FROM herd.node WHERE id OPERATOR(pg_catalog.=) {id}")]);
    let mut plan = builder.finish_nodes();
    let relations = snapshot.relations.values().filter(|r| !matches!(r.placement, Placement::Local));
    let mut statements: Vec<String> =
        relations.map(|r| format!("DROP TABLE IF EXISTS {} CASCADE", qualified(&r.schema, &r.name))).collect();
    statements.extend(["herd_shards", "herd"].map(|s| format!("DROP SCHEMA IF EXISTS {} CASCADE", quote_ident(s))));
    statements.extend(ADMIN_FUNCTIONS.map(|function| format!("DROP FUNCTION IF EXISTS public.{function}")));
    plan.after.push(super::NodeSql { node: id, statements });
    Ok(plan)
}

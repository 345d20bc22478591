//! A partitioned table whose partitions are distributed tables of their own: by time, say, and each by the key.
//!
//! On every node it is the table that its owner has made, with all its partitions; each of them is split by the key, and has the
//! shards of that node. The table itself has no shards. Rows are moved partition by partition, as those of any table that
//! becomes distributed: each is detached before, and attached on all nodes behind it.

use super::colocate::Chosen;
use super::table::try_bounds;
use super::{Builder, DistributionPlan};
use crate::definition::{Definition, TableKind};
use crate::{Refusal, Snapshot, qualified, quote_literal};
use key::PartitionStrategy;

/// The partitions on home of the table of this object id, in the place of `{}`: schema, name, kind, the bound as SQL, object id, and
/// whose each is, if not the table's owner's.
pub const PARTITIONS: &str = "SELECT n.nspname, c.relname, c.relkind, pg_catalog.pg_get_expr(c.relpartbound, c.oid), c.oid, \
            CASE WHEN c.relowner OPERATOR(pg_catalog.<>) p.relowner THEN pg_catalog.pg_get_userbyid(c.relowner) END, \
            pg_catalog.pg_get_userbyid(p.relowner), CURRENT_USER \
     FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) i.inhrelid \
     JOIN pg_catalog.pg_class p ON p.oid OPERATOR(pg_catalog.=) i.inhparent \
     JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace \
     WHERE i.inhparent OPERATOR(pg_catalog.=) {} ORDER BY c.oid";

/// Makes a table of this name a partition again, or for the first time. `bound` as [`PARTITIONS`] gives it.
fn attach(parent: (&str, &str), partition: (&str, &str), bound: &str) -> String {
    format!(
        "ALTER TABLE {} ATTACH PARTITION {} {bound}",
        qualified(parent.0, parent.1),
        qualified(partition.0, partition.1)
    )
}

/// The same as the table's owner, whose the partition is, too: PostgreSQL folds CHECKs there, and reads the bound as a type that may
/// have some.
pub fn attach_as_owner(parent: (&str, &str), partition: (&str, &str), bound: &str) -> String {
    format!(
        "SELECT herd.run_as_owner({}::pg_catalog.regclass, {})",
        quote_literal(&qualified(parent.0, parent.1)),
        quote_literal(&attach(parent, partition, bound))
    )
}

/// Makes a partition of a table, in its schema, as its owner.
pub fn create_as_owner(parent: (&str, &str), partition: &str, bound: &str) -> String {
    format!(
        "SELECT herd.create_partition({}::pg_catalog.regclass, {}, {})",
        quote_literal(&qualified(parent.0, parent.1)),
        quote_literal(partition),
        quote_literal(bound)
    )
}

/// Makes a partition a table of its own.
pub fn detach(parent: (&str, &str), partition: (&str, &str)) -> String {
    format!("ALTER TABLE {} DETACH PARTITION {}", qualified(parent.0, parent.1), qualified(partition.0, partition.1))
}

/// The table on all nodes, and in the catalog. It has no partitions on home at that moment.
pub(super) fn build(
    snapshot: &Snapshot,
    definition: &Definition,
    key: &[String],
    chosen: &Chosen,
    prefix: &str,
) -> DistributionPlan {
    let mut builder = Builder::new(snapshot);
    let home = snapshot.home;
    builder.before(home, super::hold(definition, "ACCESS EXCLUSIVE", true));
    if chosen.new && chosen.group.strategy != PartitionStrategy::Hash {
        builder.before(home, try_bounds(definition, key, chosen));
    }
    for node in builder.others() {
        let kind = TableKind::Partitioned;
        builder.before(node, super::sequences_elsewhere(definition, kind));
        builder.before(node, definition.create_table(kind));
        builder.before(node, super::exhaust_identities(definition, kind));
        builder.made(definition, node);
        builder.after(node, definition.finish(kind));
    }
    let numbers: Vec<String> =
        key.iter().filter_map(|name| definition.column(name)).map(|c| c.attnum.to_string()).collect();
    super::table::register(&mut builder, definition, chosen, prefix, Some(&numbers));
    builder.finish()
}

impl Definition {
    /// A partition is made local with its table, or after it is none any more.
    pub(super) fn check_no_part(&self) -> Result<(), Refusal> {
        if !self.blockers.is_partition {
            return Ok(());
        }
        let message = format!("\"{}\" is a partition of a distributed table", self.name);
        Err(Refusal::unsupported(message, "Use ALTER TABLE … DETACH PARTITION first, or undistribute the whole table."))
    }
}

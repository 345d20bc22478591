//! Plans that change what a table is: lists of SQL statements for each node, and the rows to copy.
//!
//! A plan is made from a snapshot and a definition without asking anybody; it refuses before anything is changed. The caller
//! runs it in **one transaction on each node, committed together**, at READ COMMITTED:
//!
//! 1. on home `BEGIN`, `herd.lock_kinds()` and the table's lock (of nodes: the lock on [`CATALOG_LOCK`]), the snapshot,
//!    [`crate::read_definition`] (and [`read_bounds`]), then the `plan_…` function
//! 2. [`DistributionPlan::before`], home first
//! 3. every [`CopyRows`]
//! 4. [`DistributionPlan::after`], then the new epoch (plans about nodes raise it themselves) and commit
//! 5. [`DistributionPlan::after_commit`], which cannot be part of a prepared transaction
//!
//! A plan made by other groups than there are (one about nodes: by other kinds of tables) fails with SQLSTATE 40001 in its first
//! statements: load the snapshot anew, plan again.
//!
//! Who may do what meanwhile: nodes come and go under [`CATALOG_LOCK`] alone, all other changes of the catalog hold it shared.
//! Kinds of tables, and groups, change under the lock on `herd.kinds`; DDL that drops or renames the table waits for the table's own
//! lock. What DDL does to the names of others is nothing to the plan: a group lasts, whoever leaves it. The rest is free, too: code
//! that others have changed is judged at the commit.
//!
//! Not known here: connections, transactions, how rows are split.

mod bounds;
mod colocate;
mod foreign;
mod merge;
mod node;
pub mod objects;
mod operators;
mod partitioned;
mod reference;
mod rename;
mod split;
mod table;
mod undistribute;

pub use bounds::{ShardBound, read_bounds, shard_bound_sql};
pub use merge::merge_bounds;
pub use node::{ADMIN_FUNCTIONS, plan_add_node, plan_remove_node};
pub use partitioned::{PARTITIONS, attach_as_owner, create_as_owner, detach};
pub use reference::plan_reference;
pub use rename::{plan_drop, plan_rename, plan_rename_schema};
pub use split::{NewShard, Room, room_in, split_bounds};
pub use table::{new_prefix_sql, plan_distribution};
pub use undistribute::plan_undistribute;

use std::collections::BTreeMap;
use std::sync::Arc;

use key::PartitionStrategy;

use crate::definition::Definition;
use crate::schema::{CATALOG_LOCK, EPOCH_CHANNEL};
use crate::{Colocation, NodeId, Refusal, RefusalKind, Snapshot, qualified, quote_ident, quote_literal};

/// Most shards a colocation group may have.
pub const SHARDS_MAX: i32 = 4096;

/// `create_distributed_table(…)`.
#[derive(Clone, Debug, Default)]
pub struct DistributeRequest {
    pub schema: String,
    pub name: String,
    /// The key, in order.
    pub columns: Vec<String>,
    /// None: that of the table to colocate with, or hash.
    pub strategy: Option<PartitionStrategy>,
    /// For hash. None: that of the table to colocate with, or the default.
    pub shard_count: Option<i32>,
    /// `default` (also when None), `none`, or a table's name, qualified or not.
    pub colocate_with: Option<String>,
    /// For range and list, when no group is shared: one for each shard.
    pub bounds: Option<Vec<ShardBound>>,
    /// What partitions are named after, as [`new_prefix_sql`] gives it. None: a name that no table has now.
    pub prefix: Option<String>,
}

/// Statements for one node, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSql {
    pub node: NodeId,
    pub statements: Vec<String>,
}

/// Rows on their way from an old table to a new one.
#[derive(Clone, Debug)]
pub struct CopyRows {
    /// `COPY … TO STDOUT` for each node to read from: of a query, or of a table itself (which is on none of the nodes they go to).
    pub sources: Vec<(NodeId, String)>,
    /// As it is called on each of these nodes before the plan begins, quoted.
    pub table: String,
    /// The columns of each row, in order: all but generated ones.
    pub columns: Vec<String>,
    /// `COPY … FROM STDIN` into the new table, the same on every node.
    pub into: String,
    pub to: CopyTarget,
}

/// Where copied rows go.
#[derive(Clone, Debug)]
pub enum CopyTarget {
    /// Each row to the node of its shard. `key`: positions of the key's columns in [`CopyRows::columns`].
    ByKey { key: Vec<usize>, group: Arc<Colocation> },
    /// Each row to all of these nodes.
    Nodes(Vec<NodeId>),
}

/// What to run to change a table's kind, or the herd's nodes. See the module's head for the order.
#[derive(Clone, Debug, Default)]
pub struct DistributionPlan {
    pub before: Vec<NodeSql>,
    pub copies: Vec<CopyRows>,
    pub after: Vec<NodeSql>,
    /// On home, once all is committed.
    pub after_commit: Vec<String>,
}

/// A locked table keeps its name, but not its schema, unless that is held as well: whatever took its name would be read and written
/// in the name of whoever runs the plan.
fn hold_schema(schema: &str) -> String {
    format!("SELECT herd.hold_schema({})", quote_literal(schema))
}

/// Locks a table, and what its name means. `known`: on home, where it is the one that the definition was read from.
fn hold(definition: &Definition, mode: &str, known: bool) -> Vec<String> {
    let table = definition.qualified();
    vec![
        hold_schema(&definition.schema),
        format!("LOCK TABLE {table} IN {mode} MODE"),
        still(definition, &table, known),
    ]
}

fn still(definition: &Definition, table: &str, known: bool) -> String {
    let oid = if known { definition.oid.to_string() } else { "NULL".into() };
    format!("SELECT herd.still_table({}::pg_catalog.regclass, {oid})", quote_literal(table))
}

/// Takes, on home, what a change of a table's kind holds besides the table: not waiting for longer. Groups that have lost their last
/// table are gone then.
pub fn lock_kinds_sql(schema: &str, wait: std::time::Duration) -> String {
    format!("SELECT herd.lock_kinds({CATALOG_LOCK}, {}, {})", quote_literal(schema), wait.as_millis())
}

/// Builds a plan's parts node by node, home first.
struct Builder<'a> {
    snapshot: &'a Snapshot,
    plan: DistributionPlan,
    /// What says that a table which the plan has made still has its name.
    made: Vec<(NodeId, String)>,
}

impl<'a> Builder<'a> {
    /// Of a plan about a table. With, for every node, what any plan begins with.
    fn new(snapshot: &'a Snapshot) -> Self {
        Builder::unless(&groups_differ(snapshot), snapshot)
    }

    /// Of a plan about nodes, which goes by all tables.
    fn of_nodes(snapshot: &'a Snapshot) -> Self {
        let differ = format!("(SELECT kinds FROM herd.epoch) <> {}", snapshot.kinds);
        Builder::unless(&differ, snapshot)
    }

    fn unless(stale: &str, snapshot: &'a Snapshot) -> Self {
        let mut builder = Builder { snapshot, plan: DistributionPlan::default(), made: vec![] };
        builder.before(snapshot.home, [fail_if(stale)]);
        for node in builder.nodes() {
            // Bounds, defaults and rows are written and read under these; and no policy may hide rows from a copy.
            let settings = [
                "timezone = 'UTC'",
                "datestyle = 'ISO, MDY'",
                "intervalstyle = 'postgres'",
                "extra_float_digits = 1",
                "array_nulls = on",
                "row_security = off",
            ];
            builder.before(node, settings.map(|setting| format!("SET LOCAL {setting}")));
        }
        builder
    }

    /// Ids of all nodes, home first.
    fn nodes(&self) -> Vec<NodeId> {
        let home = self.snapshot.home;
        let others = self.snapshot.nodes.iter().map(|n| n.id).filter(|id| *id != home);
        std::iter::once(home).chain(others).collect()
    }

    fn others(&self) -> Vec<NodeId> {
        self.nodes().split_off(1)
    }

    fn before(&mut self, node: NodeId, statements: impl IntoIterator<Item = String>) {
        push(&mut self.plan.before, node, statements);
    }

    fn after(&mut self, node: NodeId, statements: impl IntoIterator<Item = String>) {
        push(&mut self.plan.after, node, statements);
    }

    /// A table has been made on a node, and is gone on with by its name when others' owners' code has run.
    fn made(&mut self, definition: &Definition, node: NodeId) {
        let (key, table) = (quote_literal(&definition.oid.to_string()), quote_literal(&definition.qualified()));
        self.before(node, [format!("SELECT herd.note_made({key}, {table}::pg_catalog.regclass)")]);
        let check = format!("SELECT herd.still_table({table}::pg_catalog.regclass, herd.made({key}))");
        self.after(node, [check.clone()]);
        self.made.push((node, check));
    }

    /// Rows that run code of the owner's come into his table by a statement of his own, in a security-restricted operation
    /// (`herd.run_as_owner()`). The table is made before, and finished after.
    fn fill_as_owner(&mut self, definition: &Definition, node: NodeId) {
        if !definition.runs_code() {
            return;
        }
        let room = waiting_room(definition);
        let names = definition.stored_columns();
        let texts: Vec<String> = names.iter().map(|name| format!("{} pg_catalog.text", quote_ident(name))).collect();
        self.before(node, [format!("CREATE UNLOGGED TABLE {room} ({})", texts.join(", "))]);
        let columns = definition.columns.iter().filter(|c| c.generated == 0);
        let values: Vec<String> = columns.map(|c| format!("{}::{}", quote_ident(&c.name), c.type_name)).collect();
        let table = definition.qualified();
        let fill = format!(
            "INSERT INTO {table} ({}) OVERRIDING SYSTEM VALUE SELECT {} FROM {room}",
            crate::ident::ident_list(&names),
            values.join(", ")
        );
        let statements = [
            format!("GRANT SELECT ON TABLE {room} TO {}", quote_ident(&definition.owner)),
            format!(
                "SELECT herd.run_as_owner({}::pg_catalog.regclass, {})",
                quote_literal(&table),
                quote_literal(&fill)
            ),
            format!("DROP TABLE {room}"),
        ];
        self.after(node, statements);
    }

    /// Ends the plan. Its transaction raises the epoch as the last thing before its commit: while it stays open, nobody waits.
    fn finish(mut self) -> DistributionPlan {
        for (node, check) in std::mem::take(&mut self.made) {
            self.before(node, [check]);
        }
        self.plan
    }

    /// Ends a plan about nodes, beside which nothing else changes the catalog: the new epoch on those that there will be, and
    /// word of it to the routers.
    fn finish_nodes(mut self) -> DistributionPlan {
        let epoch = self.snapshot.epoch + 1;
        for node in self.nodes() {
            self.after(node, [format!("SELECT herd.bump_epoch({epoch})")]);
        }
        let mut plan = self.finish();
        plan.after_commit.push(format!("NOTIFY {EPOCH_CHANNEL}, '{epoch}'"));
        plan
    }
}

fn push(parts: &mut Vec<NodeSql>, node: NodeId, statements: impl IntoIterator<Item = String>) {
    match parts.iter_mut().find(|part| part.node == node) {
        Some(part) => part.statements.extend(statements),
        None => parts.push(NodeSql { node, statements: statements.into_iter().collect() }),
    }
}

/// Whether there are other groups than the snapshot has.
fn groups_differ(snapshot: &Snapshot) -> String {
    let mut ids: Vec<i32> = snapshot.groups.keys().copied().collect();
    ids.sort_unstable();
    let ids: Vec<String> = ids.iter().map(i32::to_string).collect();
    format!("ARRAY(SELECT id FROM herd.colocation ORDER BY id) <> '{{{}}}'::pg_catalog.int4[]", ids.join(","))
}

/// Fails when the snapshot is not of the catalog that there is.
fn fail_if(stale: &str) -> String {
    format!(
        "DO $herd$ BEGIN IF {stale} THEN \
         RAISE EXCEPTION 'the catalog of the herd has changed meanwhile' USING ERRCODE = 'serialization_failure', HINT = 'Try again.'; \
         END IF; END $herd$"
    )
}

/// Makes schema and sequences of a table on a node that is not home. Identity columns make their own, which are then
/// exhausted by [`exhaust_identities`].
fn sequences_elsewhere(definition: &Definition, kind: crate::definition::TableKind<'_>) -> Vec<String> {
    let (schema, owner) = (quote_ident(&definition.schema), quote_ident(&definition.schema_owner));
    let mut statements = vec![format!("CREATE SCHEMA IF NOT EXISTS {schema} AUTHORIZATION {owner}")];
    statements.push(hold_schema(&definition.schema));
    for crate::definition::Privilege { grantee, privilege, grantable, .. } in &definition.schema_privileges {
        let option = if *grantable { " WITH GRANT OPTION" } else { "" };
        statements.push(format!("GRANT {privilege} ON SCHEMA {schema} TO {grantee}{option}"));
    }
    for sequence in definition.sequences.iter().filter(|s| !definition.is_identity(s, kind)) {
        if sequence.schema != definition.schema {
            statements.push(format!("CREATE SCHEMA IF NOT EXISTS {}", quote_ident(&sequence.schema)));
        }
        statements.extend(sequence.create());
        statements.extend(sequence.exhaust());
    }
    statements
}

fn exhaust_identities(definition: &Definition, kind: crate::definition::TableKind<'_>) -> Vec<String> {
    definition.sequences.iter().filter(|s| definition.is_identity(s, kind)).flat_map(|s| s.exhaust()).collect()
}

/// A router takes an identity column's values by nextval() in the client's name, which needs a privilege that INSERT does not.
fn grant_identities(definition: &Definition) -> Vec<String> {
    let of_table = definition.privileges.iter().flatten();
    let all = of_table.chain(definition.columns.iter().flat_map(|c| &c.privileges));
    let mut grantees: BTreeMap<&str, bool> = BTreeMap::new();
    for p in all.filter(|p| p.privilege == "INSERT") {
        *grantees.entry(&p.grantee).or_default() |= p.grantable;
    }
    let sequences = definition.sequences.iter().filter(|s| s.identity);
    let option = |grantable: bool| if grantable { " WITH GRANT OPTION" } else { "" };
    let grant = |name: String, (grantee, grantable): (&&str, &bool)| {
        format!("GRANT USAGE ON SEQUENCE {name} TO {grantee}{}", option(*grantable))
    };
    sequences.flat_map(|s| grantees.iter().map(move |g| grant(s.qualified(), g))).collect()
}

/// Moves the table and what stays with it out of the way of its successor. Sequences that are not identity columns'
/// stay where they are.
fn put_aside(definition: &Definition) -> Vec<String> {
    let table = definition.qualified();
    let owned = definition.sequences.iter().filter(|s| s.owned_by.is_some() && !s.identity);
    let mut statements: Vec<String> =
        owned.map(|s| format!("ALTER SEQUENCE {} OWNED BY NONE", s.qualified())).collect();
    statements.push(format!("CREATE SCHEMA {}", quote_ident(&definition.aside)));
    statements.push(format!("ALTER TABLE {table} SET SCHEMA {}", quote_ident(&definition.aside)));
    statements.push(still(definition, &aside(definition), true));
    statements.push(strip(&aside(definition)));
    statements
}

/// The table where it is kept while its successor takes its name; gone at the end of the transaction.
fn aside(definition: &Definition) -> String {
    qualified(&definition.aside, &definition.name)
}

/// Before the rows of a table that will be gone are read.
fn strip(table: &str) -> String {
    format!("SELECT herd.strip({}::pg_catalog.regclass)", quote_literal(table))
}

/// Carries the state of identity columns' sequences over from the table put aside.
fn carry_identities(definition: &Definition) -> Vec<String> {
    let carry = |s: &crate::definition::SequenceDefinition| {
        let new = quote_literal(&s.qualified());
        let old = qualified(&definition.aside, &s.name);
        format!("SELECT pg_catalog.setval({new}::pg_catalog.regclass, last_value, is_called) FROM {old}")
    };
    definition.sequences.iter().filter(|s| s.identity).map(carry).collect()
}

fn drop_aside(definition: &Definition) -> [String; 2] {
    // Without CASCADE: what was not foreseen must be an error, not lost.
    [format!("DROP TABLE {}", aside(definition)), format!("DROP SCHEMA {}", quote_ident(&definition.aside))]
}

fn copy_into(definition: &Definition) -> String {
    let columns = crate::ident::ident_list(&definition.stored_columns());
    let table = if definition.runs_code() { waiting_room(definition) } else { definition.qualified() };
    format!("COPY {table} ({columns}) FROM STDIN")
}

/// Where rows wait, as text, which would run the owner's code if they went into his table at once. In a schema in which nobody
/// else can have made something of that name.
fn waiting_room(definition: &Definition) -> String {
    qualified("herd", &format!("herd_rows_{}", definition.oid))
}

/// The rows of a table that stays as it is, for other nodes. Nothing is planned for that, so no expression is folded.
fn copy_out_as_it_is(definition: &Definition) -> String {
    let columns = crate::ident::ident_list(&definition.stored_columns());
    format!("COPY {} ({columns}) TO STDOUT", definition.qualified())
}

/// `table` is quoted and qualified, and stripped. A query, because COPY of a partitioned table itself is not possible before PostgreSQL 18.
fn copy_out(definition: &Definition, table: &str) -> String {
    let columns = crate::ident::ident_list(&definition.stored_columns());
    format!("COPY (SELECT {columns} FROM {table}) TO STDOUT")
}

/// The definition is of the table in the request, and the snapshot knows it.
fn known<'a>(snapshot: &'a Snapshot, schema: &str, name: &str) -> Result<&'a Arc<crate::Relation>, Refusal> {
    let found = snapshot.relations.get(&(schema.to_string(), name.to_string()));
    found.ok_or_else(|| {
        Refusal::new(RefusalKind::UndefinedTable, format!("relation \"{schema}.{name}\" does not exist"), "")
    })
}

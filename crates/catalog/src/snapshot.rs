//! The catalog snapshot: everything a router must know of the herd to plan a statement.
//!
//! A snapshot is immutable and replaced as a whole. It does not know how it was loaded (`load.rs`), what a
//! statement is, or how to reach a node.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::sync::{Arc, LazyLock};

use key::{Bound, PartitionStrategy};

use crate::code::{Harm, RelationCode, can_mean};
use crate::load::KeptColumns;
use crate::quote_literal;
use crate::session_code::SessionCode;

/// Number of a node, as in `herd.node.id`. Home has a row like every other node.
pub type NodeId = i32;
/// Object id of a type, function or relation **on home**. Ids of user objects differ from node to node.
pub use wire::type_oid::Oid;

/// How to reach a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub id: NodeId,
    pub name: String,
    pub host: String,
    pub port: u16,
    pub database: String,
}

/// All that a router knows of the herd: immutable, and replaced as a whole.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Raised by every change of the catalog and every DDL statement.
    pub epoch: i64,
    /// Raised when a table becomes distributed, reference or local, and when nodes come or go.
    pub kinds: i64,
    /// Random 64-bit number made when the herd was, in hexadecimal; part of every prepared transaction's gid.
    pub herd_id: String,
    /// PostgreSQL's `server_version_num` of home.
    pub server_version: i32,
    /// Not everybody may call all of PostgreSQL's own functions that are not volatile.
    pub builtins_revoked: bool,
    /// The database's collation orders by bytes (`C`, `POSIX`, or `C.UTF-8` of the builtin provider), and ASCII's letters have the cases they have there.
    pub collation_is_bytes: bool,
    /// Schemas in which somebody made an operator `=` of PostgreSQL's own types (their oids are below 16384,
    /// FirstNormalObjectId).
    pub own_equality: Vec<String>,
    /// Operators of such types that somebody made, by name: their schemas.
    pub own_operators: HashMap<String, Vec<String>>,
    /// A table's column, or a type, has another collation than the database's.
    pub own_collations: bool,
    /// One of these does not compare by bytes.
    pub unlike_bytes: bool,
    pub home: NodeId,
    /// In the order of their numbers.
    pub nodes: Vec<Node>,
    /// All user tables, views and foreign tables outside `pg_catalog`, `information_schema`, `herd`, `herd_shards`.
    pub relations: HashMap<(String, String), Arc<Relation>>,
    /// Views (and tables with odd defaults) whose definitions were behind a lock of somebody's when the catalog was loaded: who
    /// names one waits for that lock, as he would in PostgreSQL, and nobody else does.
    pub locked: HashSet<Oid>,
    /// Tables that were made past the routers under the name of a distributed one, split in another way: what they are made
    /// of is not known, and nothing is read or written there.
    pub replaced: HashSet<Oid>,
    pub groups: HashMap<i32, Arc<Colocation>>,
    /// What each group's shards were read at: another word with each change of them.
    pub group_versions: HashMap<i32, String>,
    /// Bound of each range or list shard, by group and shard number, as PostgreSQL writes it after `FOR VALUES`.
    /// Bounds of hash shards follow from [`Shard::bound`].
    pub bound_texts: HashMap<i32, Arc<HashMap<i32, String>>>,
    /// Groups made with `colocate_with => 'none'`, which tables join only by naming one of their tables.
    pub private_groups: HashSet<i32>,
    /// How often shards of each group were moved, split or merged: a snapshot of a node from before sees none of their rows.
    pub moves: HashMap<i32, i64>,
    /// pg_catalog's functions by name; the same table is shared by all snapshots of a server. See [`Snapshot::functions`].
    pub builtin_functions: Arc<HashMap<String, Vec<Function>>>,
    /// Functions outside pg_catalog by name (schema-less): every overload whose facts differ.
    pub functions: HashMap<String, Vec<Function>>,
    /// Operators of users' own, by name, whose code uses what is not on every node, or may differ; domains, whose code does.
    pub operators: HashMap<String, Vec<Harm>>,
    pub domains: HashMap<String, Vec<Harm>>,
    /// Of views, what their queries run besides reading tables; of tables, whether what hangs on them may run any text.
    pub relation_code: HashMap<Oid, RelationCode>,
    /// Of tables that nodes share, and views over them: names of relations that what hangs on them uses.
    pub named_by_code: HashMap<Oid, Vec<String>>,
    /// The same of functions, by their names without schemas: what they use that other nodes have, too.
    pub named_by_calls: HashMap<String, Vec<String>>,
    /// The same of what views' queries call.
    pub named_by_views: HashMap<Oid, Vec<String>>,
    /// Code of users' own, or a text that PostgreSQL's runs, may come to tables of which a node has a part or a copy: where
    /// this is not so, no statement need be looked through for it.
    pub reaches: bool,
    /// Functions of a row need more than it, which may be called without parentheses: `t.f`.
    pub row_code: bool,
    /// What runs by itself or when it is called.
    pub code: crate::Code,
    /// What leaves something behind in a session when it runs.
    pub session_code: SessionCode,
    /// User types (domains, enums, composites) by oid on home.
    pub types: HashMap<Oid, UserType>,
    /// It would say the same whoever had loaded it, and once the transaction is committed in which it was: there are no
    /// temporary objects of that session's, whose names are printed in another way, and no deferred triggers of users' own,
    /// which run when it commits and may change anything.
    pub anyones: bool,
    /// What home was asked for it, for the next load.
    pub asked: Arc<[String]>,
    /// What it was told of columns, for the next load.
    pub columns: KeptColumns,
}

/// A table, view, materialized view, foreign table or sequence.
#[derive(Clone, Debug)]
pub struct Relation {
    pub oid: Oid,
    pub schema: String,
    pub name: String,
    pub kind: RelationKind,
    pub placement: Placement,
    pub columns: Arc<[Column]>,
    /// What a view, materialized or not, is made of.
    pub view: Option<View>,
    /// Column positions (index into `columns`) of each unique index, the primary key first.
    pub unique: Vec<UniqueIndex>,
    pub row_security: bool,
    /// Everybody has USAGE of its schema.
    pub schema_is_open: bool,
    /// Statement-level triggers, transition tables or rules: statements must name the parent.
    pub statement_triggers: bool,
    /// Rules, of those the ones that are no view's query.
    pub rules: bool,
    /// Any user trigger at all (foreign keys' internal triggers not counted).
    pub triggers: bool,
    /// A foreign key of its own rows to its own rows.
    pub refers_to_itself: bool,
    /// A constraint of it, or of rows that refer to it, is INITIALLY DEFERRED.
    pub checked_at_commit: bool,
    /// It stands for a view that is written through, of this object id: what else is said here, the object id included, is of the
    /// table under it.
    pub through: Option<Oid>,
    /// Beside every node there is a column copy of its rows (distributed tables only).
    pub column_copy: Option<Arc<ColumnCopy>>,
}

/// A column copy of a distributed or reference table: beside each node a store has the node's rows of it, as `copy_<id>` (see `herd.column_copy`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnCopy {
    /// The same on every node.
    pub id: i64,
    /// The names of the table's columns that it has: those of the primary key are among them.
    pub columns: Vec<String>,
    /// Its rows lie about in the order of these.
    pub order_by: Vec<String>,
    /// The table's columns that lead an index of the nodes' which has all of the rows.
    pub indexed: Vec<String>,
}

impl ColumnCopy {
    /// The statement that takes the copy of a number from a node's list.
    pub fn unlisted(id: i64) -> String {
        format!("DELETE FROM herd.column_copy WHERE id OPERATOR(pg_catalog.=) {id}")
    }

    /// The statement that lists it on a node, where the table is called so.
    pub fn listed(&self, table: &str) -> String {
        let array = |names: &[String]| {
            let quoted: Vec<String> = names.iter().map(|name| quote_literal(name)).collect();
            format!("ARRAY[{}]::pg_catalog.text[]", quoted.join(", "))
        };
        format!(
            "INSERT INTO herd.column_copy (id, relation, columns, order_by) VALUES ({}, {}::pg_catalog.regclass, {}, {})",
            self.id,
            quote_literal(table),
            array(&self.columns),
            array(&self.order_by)
        )
    }
}

/// A view, as text to be read in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// `pg_get_viewdef`, its names qualified.
    pub query: String,
    pub materialized: bool,
    pub security_barrier: bool,
    /// WITH CHECK OPTION: what is written through it is held against its query, or those of views under it.
    pub check_option: bool,
    /// Its tables are read with the rights of who asks; otherwise with its owner's.
    pub security_invoker: bool,
    /// Rights to single columns of it were granted.
    pub column_grants: bool,
    /// Materialized, and over distributed tables: home has its rows from a router.
    pub filled_by_router: bool,
}

/// In place of a view's query that could not be read: no SQL, so that nobody takes it for a query of no tables.
pub(crate) const LOCKED: &str = "locked";

/// What no two rows share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UniqueIndex {
    pub name: String,
    pub columns: Vec<usize>,
    pub primary: bool,
    /// No two rows are equal at any moment by PostgreSQL's own `=` of the columns' types: it is checked at once, and by their
    /// default operator classes. Its collations may be others than the columns'.
    pub plain: bool,
}

/// What a relation is to PostgreSQL (`pg_class.relkind`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelationKind {
    Table,
    View,
    MaterializedView,
    ForeignTable,
    Sequence,
}

/// Where a relation's rows are.
#[derive(Clone, Debug)]
pub enum Placement {
    /// Whole, on home. Also views, whose placement follows from what they read.
    Local,
    /// A full copy on every node.
    Reference,
    /// Split by its key over the shards of a colocation group.
    Distributed(Distribution),
}

/// By what a table is distributed, and where its shards are.
#[derive(Clone, Debug)]
pub struct Distribution {
    /// Positions (index into `Relation::columns`) of the key columns, in key order.
    pub key: Vec<usize>,
    pub group: Arc<Colocation>,
    /// Shard `n`'s partition is `herd_shards.<prefix>_<n>`.
    pub prefix: String,
    /// Of a table that its owner has split by something else first (time, say): each of its partitions is a distributed table
    /// of the same group and key. Their prefixes, oldest first; the table itself has no shards, and statements name it.
    pub partitions: Option<Arc<[String]>>,
    /// The table is one of those partitions.
    pub is_part: bool,
}

/// Tables that share key type, bounds and placement.
#[derive(Clone, Debug)]
pub struct Colocation {
    pub id: i32,
    pub strategy: PartitionStrategy,
    /// Types of the key columns (built-in types only, so the oids hold on every node).
    pub key_types: Vec<Oid>,
    /// Ordered by `number`.
    pub shards: Vec<Shard>,
}

/// One piece of all tables of a colocation group, and the node it is placed on.
#[derive(Clone, Debug)]
pub struct Shard {
    pub number: i32,
    pub node: NodeId,
    pub bound: Bound,
}

/// A column as plans need it.
#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    pub type_oid: Oid,
    pub typmod: i32,
    /// `format_type(atttypid, atttypmod)`, schema-qualified where it must be.
    pub type_name: String,
    pub not_null: bool,
    /// `pg_get_expr` of the default (None for generated columns and none).
    pub default: Option<String>,
    /// The sequence, quoted and schema-qualified, that a serial or identity column takes its values from.
    pub sequence: Option<String>,
    /// Its object id; 0 without one.
    pub sequence_oid: Oid,
    /// 'a' always, 'd' by default, '\0' no identity.
    pub identity: u8,
    /// Stored or virtual generated column.
    pub generated: bool,
    /// The column's collation; 0: the type has none.
    pub collation: Oid,
    /// The same of the column's collation; or the type has none.
    pub collation_is_bytes: bool,
    /// Strings of other bytes are not equal.
    pub collation_deterministic: bool,
}

/// What a routine is (`pg_proc.prokind`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionKind {
    Function,
    Aggregate,
    Window,
    Procedure,
}

/// What a function promises (`pg_proc.provolatile`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Volatility {
    Immutable,
    Stable,
    Volatile,
}

/// A function as plans need it: what it is, and may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    pub schema: String,
    pub kind: FunctionKind,
    pub volatility: Volatility,
    pub returns_set: bool,
    /// The type of its result.
    pub returns: Oid,
    /// The types of its arguments; `None` where nobody need know: all of PostgreSQL's own of this name have one type of result, or it
    /// is none of them, or takes any number of arguments.
    pub arguments: Option<Vec<Oid>>,
    /// False for pg_catalog's and extensions' functions.
    pub user_defined: bool,
    /// It uses a distributed table or writes a reference table: on one node it would see or change a part only.
    pub reads_herd_tables: bool,
    /// It uses a local table or a sequence, which only home has.
    pub needs_home: bool,
    /// It runs text that it puts together: what that names is not known.
    pub dynamic: bool,
    /// What it gives could differ from node to node, by its body.
    pub varies: bool,
    /// A row alone is all it must be given, so that it may be called as if it were a column: `t.f`.
    pub of_row: bool,
}

/// Any function in pg_temp: the session alone has it, on home, and nothing is known of it. PostgreSQL finds it by a qualified name only.
static TEMPORARY: LazyLock<Function> = LazyLock::new(|| Function {
    schema: "pg_temp".into(),
    kind: FunctionKind::Function,
    volatility: Volatility::Volatile,
    returns_set: false,
    returns: 0,
    arguments: None,
    user_defined: true,
    reads_herd_tables: false,
    needs_home: true,
    dynamic: true,
    varies: true,
    of_row: false,
});

/// A type of users' own.
#[derive(Clone, Debug)]
pub struct UserType {
    pub schema: String,
    pub name: String,
    /// 'e' enum, 'd' domain, 'c' composite, 'b' base, 'r' range, 'm' multirange, 'a' array of another user type.
    pub kind: u8,
    /// The type under a domain, the element type of an array, otherwise 0.
    pub base: Oid,
    /// A domain's own, as SQL.
    pub default: Option<String>,
    /// The types of a composite type's fields, a table's row type included.
    pub fields: Vec<Oid>,
}

impl Relation {
    /// The position of a key column that a view does not show.
    pub const HIDDEN: usize = usize::MAX;

    /// The object id of what its name names.
    pub fn named_oid(&self) -> Oid {
        self.through.unwrap_or(self.oid)
    }

    /// The position of a column among [`columns`](Self::columns).
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|c| c.name == name)
    }

    /// How it is split; `None`: it is a local or reference table.
    pub fn distribution(&self) -> Option<&Distribution> {
        match &self.placement {
            Placement::Distributed(d) => Some(d),
            _ => None,
        }
    }

    /// A full copy of it is on every node.
    pub fn is_reference(&self) -> bool {
        matches!(self.placement, Placement::Reference)
    }
}

impl Distribution {
    /// The partition of shard `number`, quoted and schema-qualified.
    pub fn partition(&self, number: i32) -> String {
        let mut out = String::new();
        self.put_partition(&mut out, number);
        out
    }

    /// The same, behind a text.
    pub fn put_partition(&self, out: &mut String, number: i32) {
        put_partition_of(&self.prefix, out, number);
    }

    /// The table is split by something else before it is by its key, and has no shards of its own.
    pub fn is_partitioned(&self) -> bool {
        self.partitions.is_some()
    }

    /// What of shard `number` is looked at to see whether the table is still the one that was planned for; `None`: it has no
    /// partitions yet, and so no rows.
    pub fn looked_at(&self, number: i32) -> Option<String> {
        match &self.partitions {
            None => Some(self.partition(number)),
            Some(parts) => parts.first().map(|prefix| {
                let mut out = String::new();
                put_partition_of(prefix, &mut out, number);
                out
            }),
        }
    }
}

fn put_partition_of(prefix: &str, out: &mut String, number: i32) {
    // No keyword ends with a number. Writing to a String can't fail.
    let _ = match crate::ident::is_lexical(prefix) {
        true => write!(out, "herd_shards.{prefix}_{number}"),
        false => write!(out, "herd_shards.{}", crate::quote_ident(&format!("{prefix}_{number}"))),
    };
}

impl Snapshot {
    /// The node of this number; `None`: it is not, or no longer, one of the herd.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.binary_search_by_key(&id, |n| n.id).ok().map(|at| &self.nodes[at])
    }

    /// Every overload of a function, built-in and user-defined, of any schema.
    pub fn functions(&self, name: &str) -> impl Iterator<Item = &Function> {
        let builtin = self.builtin_functions.get(name).into_iter().flatten();
        builtin.chain(self.functions.get(name).into_iter().flatten())
    }

    /// What a function's name, qualified or looked up along a path, can mean: every overload in those schemas.
    pub fn functions_meant<'s>(
        &'s self,
        (schema, name): (Option<&'s str>, &str),
        path: &'s [String],
    ) -> impl Iterator<Item = &'s Function> {
        let builtin = schema.is_none_or(|s| s == "pg_catalog").then(|| self.builtin_functions.get(name)).flatten();
        let own = self.functions.get(name).into_iter().flatten();
        let temporary = schema.filter(|s| crate::code::is_temporary(s)).map(|_| &*TEMPORARY);
        builtin.into_iter().flatten().chain(own.filter(move |f| can_mean(schema, path, &f.schema))).chain(temporary)
    }

    /// Finds a relation as PostgreSQL would: by its schema, or along the search path.
    pub fn resolve(&self, schema: Option<&str>, name: &str, search_path: &[String]) -> Option<&Arc<Relation>> {
        match schema {
            Some(s) => self.relations.get(&(s.to_string(), name.to_string())),
            None => search_path.iter().find_map(|s| self.relations.get(&(s.clone(), name.to_string()))),
        }
    }
}

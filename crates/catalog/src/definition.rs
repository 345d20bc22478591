//! One table's full definition, as home has it.
//!
//! [`read_definition`] reads it, `print.rs` prints it as DDL for one of three kinds of table, `check.rs` says what
//! stands in the way, `views.rs` what is over it. Texts in here (types, expressions, index definitions) are PostgreSQL's own printing with all names
//! qualified, so they mean the same in any session. Does not know nodes or placement.

mod check;
mod details;
mod finish;
mod print;
mod read;
mod views;

pub use print::TableKind;
pub use read::read_definition;
pub use views::{ViewOver, read_view_elsewhere, read_views};

use wire::type_oid;

use crate::{Oid, qualified};

/// All that it takes to make the table anew.
#[derive(Clone, Debug, Default)]
pub struct Definition {
    pub oid: Oid,
    pub schema: String,
    pub name: String,
    pub schema_owner: String,
    /// Of its schema. What its owner has by default is not among them while nothing was ever granted.
    pub schema_privileges: Vec<Privilege>,
    pub owner: String,
    pub owner_is_superuser: bool,
    /// `pg_class.relkind`: 'r' table, 'p' partitioned table, 'v', 'm', 'f' …
    pub kind: u8,
    /// `pg_class.relpersistence`: 'p' permanent, 'u' unlogged, 't' temporary.
    pub persistence: u8,
    /// `server_version_num` of home.
    pub server_version: i32,
    pub columns: Vec<ColumnDefinition>,
    pub sequences: Vec<SequenceDefinition>,
    pub constraints: Vec<Constraint>,
    /// Indexes that no constraint makes.
    pub indexes: Vec<Index>,
    pub triggers: Vec<Trigger>,
    pub policies: Vec<Policy>,
    pub statistics: Vec<Statistics>,
    /// None when nothing was ever granted or revoked.
    pub privileges: Option<Vec<Privilege>>,
    pub row_security: bool,
    pub force_row_security: bool,
    /// `pg_class.relreplident`: 'd', 'n', 'f' or 'i'.
    pub replica_identity: u8,
    pub replica_identity_index: Option<String>,
    /// Storage parameters, `toast.` ones included, as they stand inside `WITH (…)`.
    pub storage_parameters: Vec<String>,
    /// Where it is not heap.
    pub access_method: Option<String>,
    pub tablespace: Option<String>,
    pub comment: Option<String>,
    /// Of a partition: schema and name of the table it is one of, and its bound as SQL.
    pub partition_of: Option<(String, String, String)>,
    /// What stands behind PARTITION BY, of a partitioned table.
    pub partition_by: Option<String>,
    /// A name that nobody can guess, for a schema in which the table is kept while its successor is made.
    pub aside: String,
    /// Views over it, and over those, each behind those that it reads.
    pub views: Vec<ViewOver>,
    pub blockers: Blockers,
}

/// What keeps a table from being made anew under its name, or split.
#[derive(Clone, Debug, Default)]
pub struct Blockers {
    pub inherits: bool,
    pub has_children: bool,
    /// Is a partition of another table.
    pub is_partition: bool,
    /// Is partitioned by an expression.
    pub splits_by_expression: bool,
    /// `CREATE TABLE … OF type`.
    pub typed: bool,
    pub rules: Vec<String>,
    pub publications: Vec<String>,
    /// Materialized views, functions, policies of other tables… in PostgreSQL's own words (`pg_describe_object`). Of views over the table
    /// what depends on them.
    pub dependents: Vec<String>,
    pub referenced_by: Vec<IncomingKey>,
}

/// A foreign key of another table.
#[derive(Clone, Debug)]
pub struct IncomingKey {
    pub schema: String,
    pub table: String,
    pub constraint: String,
    /// What follows its name in ADD CONSTRAINT.
    pub text: String,
}

/// A column as its table's DDL has it.
#[derive(Clone, Debug, Default)]
pub struct ColumnDefinition {
    pub name: String,
    pub attnum: i32,
    pub type_oid: Oid,
    pub type_name: String,
    /// `pg_type.typtype`: 'b' base, 'd' domain, 'e' enum…
    pub type_kind: u8,
    /// Of a domain: the type under it.
    pub base_type: Option<String>,
    pub collation: Option<String>,
    pub collation_deterministic: bool,
    pub collation_is_bytes: bool,
    pub not_null: bool,
    /// PostgreSQL 18 names not-null constraints.
    pub not_null_name: Option<String>,
    /// The default, or the expression of a generated column.
    pub expression: Option<String>,
    /// '\0', 's' stored or 'v' virtual.
    pub generated: u8,
    /// '\0', 'a' always or 'd' by default.
    pub identity: u8,
    /// Where they differ from the type's: PLAIN, EXTERNAL, EXTENDED, MAIN.
    pub storage: Option<&'static str>,
    pub compression: Option<&'static str>,
    pub statistics_target: Option<i32>,
    /// `n_distinct=…`, as inside `SET (…)`.
    pub options: Option<String>,
    pub comment: Option<String>,
    pub privileges: Vec<Privilege>,
}

/// A sequence that a column takes its default from, or owns.
#[derive(Clone, Debug)]
pub struct SequenceDefinition {
    pub schema: String,
    pub name: String,
    pub owner: String,
    pub type_name: String,
    pub start: String,
    pub increment: String,
    pub min: String,
    pub max: String,
    pub cache: String,
    pub cycle: bool,
    pub unlogged: bool,
    /// The column that owns it (`OWNED BY`, or identity).
    pub owned_by: Option<String>,
    pub identity: bool,
}

/// A constraint, in PostgreSQL's own words.
#[derive(Clone, Debug)]
pub struct Constraint {
    pub name: String,
    /// 'c' check, 'p' primary key, 'u' unique, 'x' exclusion, 'f' foreign key. (Not null: see the column.)
    pub kind: u8,
    /// `pg_get_constraintdef`.
    pub text: String,
    /// The columns that are compared; of an exclusion constraint only those compared with `=`.
    pub columns: Vec<String>,
    pub not_valid: bool,
    pub no_inherit: bool,
    /// Of the index under it, as inside `WITH (…)`.
    pub index_parameters: Option<String>,
    pub foreign: Option<ForeignKey>,
    pub comment: Option<String>,
    pub index_comment: Option<String>,
}

/// What a foreign key refers to.
#[derive(Clone, Debug)]
pub struct ForeignKey {
    pub schema: String,
    pub table: String,
    /// Of the table it points to, in the order of `Constraint::columns`.
    pub columns: Vec<String>,
}

/// An index that is no constraint's.
#[derive(Clone, Debug)]
pub struct Index {
    pub name: String,
    pub unique: bool,
    /// `pg_get_indexdef`.
    pub text: String,
    /// The plain columns among its key columns.
    pub columns: Vec<String>,
    pub comment: Option<String>,
}

/// A trigger of users' own.
#[derive(Clone, Debug)]
pub struct Trigger {
    pub name: String,
    /// `pg_get_triggerdef`.
    pub text: String,
    pub row: bool,
    pub transition_tables: bool,
    /// `pg_trigger.tgenabled`: 'O' origin, 'D' disabled, 'R' replica, 'A' always.
    pub enabled: u8,
    pub comment: Option<String>,
}

/// A policy of row-level security.
#[derive(Clone, Debug)]
pub struct Policy {
    pub name: String,
    pub permissive: bool,
    /// ALL, SELECT, INSERT, UPDATE, DELETE.
    pub command: &'static str,
    /// Quoted; PUBLIC for all.
    pub roles: Vec<String>,
    pub using: Option<String>,
    pub check: Option<String>,
    pub comment: Option<String>,
}

/// Extended statistics (CREATE STATISTICS).
#[derive(Clone, Debug)]
pub struct Statistics {
    pub schema: String,
    pub name: String,
    pub owner: String,
    /// `pg_get_statisticsobjdef`.
    pub text: String,
    pub target: Option<i32>,
    pub comment: Option<String>,
}

/// What somebody was granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Privilege {
    /// Quoted; PUBLIC for all.
    pub grantee: String,
    /// SELECT, INSERT…
    pub privilege: String,
    pub grantable: bool,
    /// By whom, quoted; `None`: by the owner.
    pub grantor: Option<String>,
}

impl Definition {
    /// The table's name, quoted and qualified.
    pub fn qualified(&self) -> String {
        qualified(&self.schema, &self.name)
    }

    /// The column of this name, as it is stored.
    pub fn column(&self, name: &str) -> Option<&ColumnDefinition> {
        self.columns.iter().find(|c| c.name == name)
    }

    /// Schemas and names of the tables its foreign keys refer to.
    pub fn referenced(&self) -> impl Iterator<Item = (&str, &str)> {
        let keys = self.constraints.iter().filter_map(|c| c.foreign.as_ref());
        keys.map(|f| (f.schema.as_str(), f.table.as_str()))
    }

    /// Whether rows that come in may run what the owner has written, who is nobody a superuser would run code of. Which functions
    /// it calls does not matter: built-in ones run any statement they are given (`query_to_xml`).
    pub fn runs_code(&self) -> bool {
        // Types of users' own: domains have CHECKs, and may be anywhere inside others.
        let own_type = |c: &ColumnDefinition| c.type_oid >= type_oid::FIRST_NORMAL_OBJECT_ID && c.type_kind != b'e';
        !self.owner_is_superuser
            && (self.constraints.iter().any(|c| c.kind == b'c')
                || self.columns.iter().any(|c| c.generated != 0 || own_type(c)))
    }

    /// The columns that rows are copied with: all but generated ones.
    pub fn stored_columns(&self) -> Vec<String> {
        self.columns.iter().filter(|c| c.generated == 0).map(|c| c.name.clone()).collect()
    }
}

impl SequenceDefinition {
    /// Its name with its schema, quoted where needed.
    pub fn qualified(&self) -> String {
        qualified(&self.schema, &self.name)
    }
}

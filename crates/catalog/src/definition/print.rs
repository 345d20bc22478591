//! Printing a definition as DDL, for a table of another kind than the one it was read from.
//!
//! In two parts, so that rows can be copied in between: [`Definition::create_table`] makes what rows must satisfy as they
//! come (types, NOT NULL, CHECK, generated columns), [`Definition::finish`] (`finish.rs`) what comes after them. Does not
//! check that a table can be of that kind.

use key::PartitionStrategy;

use super::{ColumnDefinition, Constraint, Definition, SequenceDefinition};
use crate::ident::ident_list;
use crate::{qualified, quote_ident, quote_literal};

/// What to print a definition as.
#[derive(Clone, Copy, Debug)]
pub enum TableKind<'a> {
    /// A partitioned table with the shards of one node: number, and the bound as [`crate::shard_bound_sql`] gives it.
    Distributed { strategy: PartitionStrategy, key: &'a [String], prefix: &'a str, shards: &'a [(i32, String)] },
    /// A partitioned table as its owner has made it, without its partitions.
    Partitioned,
    /// A plain table that is the same on every node.
    Reference,
    /// A plain table on home.
    Local,
}

impl TableKind<'_> {
    pub(super) fn is_distributed(self) -> bool {
        matches!(self, TableKind::Distributed { .. } | TableKind::Partitioned)
    }
}

/// The partition of shard `number`, quoted and schema-qualified.
pub(crate) fn partition(prefix: &str, number: i32) -> String {
    qualified("herd_shards", &format!("{prefix}_{number}"))
}

impl Definition {
    /// All statements that make the table anew: [`Definition::create_table`], then [`Definition::finish`].
    pub fn create(&self, kind: TableKind<'_>) -> Vec<String> {
        let mut statements = self.create_table(kind);
        statements.extend(self.finish(kind));
        statements
    }

    /// Makes the table and its shards. The sequences of its defaults must be there. What runs code of the owner's is his to make; shards have
    /// their owner before anything is done to them.
    pub fn create_table(&self, kind: TableKind<'_>) -> Vec<String> {
        let table = self.qualified();
        let mut elements: Vec<String> = self.columns.iter().map(|c| self.column_sql(c, kind)).collect();
        let checks = self.constraints.iter().filter(|c| c.kind == b'c' && !c.not_valid);
        elements.extend(checks.map(|c| format!("CONSTRAINT {} {}", quote_ident(&c.name), constraint_sql(c, kind))));
        let (persistence, suffix) = match kind {
            TableKind::Distributed { strategy, key, .. } => {
                let strategy = match strategy {
                    PartitionStrategy::Hash => "HASH",
                    PartitionStrategy::Range => "RANGE",
                    PartitionStrategy::List => "LIST",
                };
                ("", format!(" PARTITION BY {strategy} ({})", ident_list(key)))
            }
            TableKind::Partitioned => {
                ("", format!(" PARTITION BY {}", self.partition_by.as_deref().unwrap_or_default()))
            }
            TableKind::Reference | TableKind::Local => (self.persistence_sql(), self.storage_sql()),
        };
        let definition = format!("(\n    {}\n){suffix}", elements.join(",\n    "));
        let mut statements = vec![match self.runs_code() {
            true => format!(
                "SELECT herd.create_as_owner({}, {}, {}, {}, {})",
                quote_literal(&self.owner),
                quote_literal(&self.schema),
                quote_literal(&self.name),
                quote_literal(persistence),
                quote_literal(&definition)
            ),
            false => format!("CREATE {persistence}TABLE {table} {definition}"),
        }];
        statements.push(format!("ALTER TABLE {table} OWNER TO {}", quote_ident(&self.owner)));

        // Partitions take these from their parent as they are made.
        for column in &self.columns {
            let name = quote_ident(&column.name);
            if let Some(storage) = column.storage {
                statements.push(format!("ALTER TABLE {table} ALTER COLUMN {name} SET STORAGE {storage}"));
            }
            if let Some(compression) = column.compression {
                statements.push(format!("ALTER TABLE {table} ALTER COLUMN {name} SET COMPRESSION {compression}"));
            }
        }
        if let TableKind::Distributed { prefix, shards, .. } = kind {
            statements.extend(shards.iter().map(|(number, bound)| self.create_partition(prefix, *number, bound)));
            if !shards.is_empty() {
                statements.push(self.mirror_partitions());
            }
        }

        // A sequence can be owned only by a table of the same owner.
        for sequence in &self.sequences {
            if let Some(column) = sequence.owned_by.as_ref().filter(|_| !self.is_identity(sequence, kind)) {
                statements.push(format!(
                    "ALTER SEQUENCE {} OWNED BY {table}.{}",
                    sequence.qualified(),
                    quote_ident(column)
                ));
            }
        }
        statements
    }

    /// Makes one shard of the table, which must be there as a distributed one. `bound`: see [`crate::shard_bound_sql`].
    pub fn create_partition(&self, prefix: &str, number: i32, bound: &str) -> String {
        format!(
            "CREATE {}TABLE {} PARTITION OF {} {bound}{}",
            self.persistence_sql(),
            partition(prefix, number),
            self.qualified(),
            self.storage_sql()
        )
    }

    /// Gives the shards the owner, rights and settings of the table.
    pub(super) fn mirror_partitions(&self) -> String {
        let table = quote_literal(&self.qualified());
        format!("SELECT herd.mirror_partitions({table}::pg_catalog.regclass)")
    }

    /// Is the sequence an identity column's in this kind of table? Partitioned tables have them since PostgreSQL 17; before,
    /// the sequence becomes a default.
    pub(crate) fn is_identity(&self, sequence: &SequenceDefinition, kind: TableKind<'_>) -> bool {
        sequence.identity && !(kind.is_distributed() && self.server_version < 170_000)
    }

    /// A column GENERATED ALWAYS AS IDENTITY that is none any more where the table is distributed.
    pub fn opened_identity(&self) -> Option<&str> {
        let always = self.columns.iter().find(|c| c.identity == b'a');
        always.filter(|_| self.server_version < 170_000).map(|c| c.name.as_str())
    }

    fn column_sql(&self, column: &ColumnDefinition, kind: TableKind<'_>) -> String {
        let mut sql = format!("{} {}", quote_ident(&column.name), column.type_name);
        if let Some(collation) = &column.collation {
            sql += &format!(" COLLATE {collation}");
        }
        let expression = column.expression.as_deref().unwrap_or_default();
        let sequence = self.sequences.iter().find(|s| s.identity && s.owned_by.as_ref() == Some(&column.name));
        match (column.generated, column.identity, sequence) {
            (b's', ..) => sql += &format!(" GENERATED ALWAYS AS ({expression}) STORED"),
            (0, 0, _) if !expression.is_empty() => sql += &format!(" DEFAULT {expression}"),
            (0, 0, _) => {}
            (0, identity, Some(sequence)) if self.is_identity(sequence, kind) => {
                let when = if identity == b'a' { "ALWAYS" } else { "BY DEFAULT" };
                // In the table's schema, wherever that is made.
                let (name, options) = (quote_ident(&sequence.name), sequence.options());
                sql += &format!(" GENERATED {when} AS IDENTITY (SEQUENCE NAME {name} {options})");
            }
            (0, _, Some(sequence)) => {
                let name = quote_literal(&sequence.qualified());
                sql += &format!(" DEFAULT nextval({name}::pg_catalog.regclass)");
            }
            (0, ..) => {}
            _ => sql += &format!(" GENERATED ALWAYS AS ({expression}) VIRTUAL"),
        }
        if column.not_null {
            if let Some(name) = &column.not_null_name {
                sql += &format!(" CONSTRAINT {}", quote_ident(name));
            }
            sql += " NOT NULL";
        }
        sql
    }

    fn persistence_sql(&self) -> &'static str {
        if self.persistence == b'u' { "UNLOGGED " } else { "" }
    }

    /// Access method, storage parameters and tablespace, for a table that has storage.
    fn storage_sql(&self) -> String {
        let mut sql = String::new();
        if let Some(method) = &self.access_method {
            sql += &format!(" USING {}", quote_ident(method));
        }
        if !self.storage_parameters.is_empty() {
            sql += &format!(" WITH ({})", self.storage_parameters.join(", "));
        }
        if let Some(tablespace) = &self.tablespace {
            sql += &format!(" TABLESPACE {}", quote_ident(tablespace));
        }
        sql
    }
}

impl SequenceDefinition {
    /// Its parameters but for the type, which an identity column does not take.
    fn options(&self) -> String {
        let SequenceDefinition { start, increment, min, max, cache, cycle, .. } = self;
        let cycle = if *cycle { "CYCLE" } else { "NO CYCLE" };
        format!("START WITH {start} INCREMENT BY {increment} MINVALUE {min} MAXVALUE {max} CACHE {cache} {cycle}")
    }

    /// Makes the sequence, owned by its owner.
    pub(crate) fn create(&self) -> [String; 2] {
        let name = self.qualified();
        let unlogged = if self.unlogged { "UNLOGGED " } else { "" };
        [
            format!("CREATE {unlogged}SEQUENCE IF NOT EXISTS {name} AS {} {}", self.type_name, self.options()),
            format!("ALTER SEQUENCE {name} OWNER TO {}", quote_ident(&self.owner)),
        ]
    }

    /// Exhausts the sequence: a value taken from it anywhere but on home would be given out twice, so it is an error.
    pub(crate) fn exhaust(&self) -> [String; 2] {
        let name = self.qualified();
        let last = if self.increment.starts_with('-') { &self.min } else { &self.max };
        [
            format!("ALTER SEQUENCE {name} NO CYCLE"),
            format!("SELECT pg_catalog.setval({}::pg_catalog.regclass, {last}, true)", quote_literal(&name)),
        ]
    }
}

/// A constraint's text as it can be given for this kind of table, without NOT VALID: rows are checked, unless it comes behind them with that.
pub(super) fn constraint_sql(constraint: &Constraint, kind: TableKind<'_>) -> String {
    let mut text = constraint.text.as_str();
    if constraint.not_valid {
        text = text.strip_suffix(" NOT VALID").unwrap_or(text);
    }
    // A partitioned table cannot have NO INHERIT constraints; without, the constraint is where the rows are.
    if constraint.no_inherit && kind.is_distributed() {
        text = text.strip_suffix(" NO INHERIT").unwrap_or(text);
    }
    let Some(parameters) = &constraint.index_parameters else { return text.to_string() };
    // pg_get_constraintdef leaves the index's parameters out. They stand after the columns.
    let tails = [" WHERE (", " DEFERRABLE", " INITIALLY DEFERRED"];
    let from = if constraint.kind == b'x' { 0 } else { text.rfind(')').unwrap_or(0) };
    let at = tails.iter().filter_map(|tail| text[from..].find(tail)).min().map_or(text.len(), |at| from + at);
    format!("{} WITH ({parameters}){}", &text[..at], &text[at..])
}

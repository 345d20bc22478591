//! Printing a definition as DDL, for a table of another kind than the one it was read from.
//!
//! In two parts, so that rows can be copied in between: [`Definition::create_table`] makes what rows must satisfy as they
//! come (types, NOT NULL, CHECK, generated columns), [`Definition::finish`] all that is faster or must not fire before they are
//! there (keys, indexes, foreign keys, triggers, policies, privileges). Does not check that a table can be of that kind.

use key::Strategy;

use super::{ColumnDefinition, Constraint, Definition, SequenceDefinition};
use crate::ident::ident_list;
use crate::{qualified, quote_ident, quote_literal};

/// What to print a definition as.
#[derive(Clone, Copy, Debug)]
pub enum TableKind<'a> {
    /// A partitioned table with the shards of one node: number, and the bound as [`crate::shard_bound_sql`] gives it.
    Distributed { strategy: Strategy, key: &'a [String], prefix: &'a str, shards: &'a [(i32, String)] },
    /// A plain table that is the same on every node.
    Reference,
    /// A plain table on home.
    Local,
}

impl TableKind<'_> {
    fn is_distributed(self) -> bool {
        matches!(self, TableKind::Distributed { .. })
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

    /// Makes the table and its shards. The sequences of its defaults must be there.
    pub fn create_table(&self, kind: TableKind<'_>) -> Vec<String> {
        let table = self.qualified();
        let mut elements: Vec<String> = self.columns.iter().map(|c| self.column_sql(c, kind)).collect();
        let checks = self.constraints.iter().filter(|c| c.kind == b'c');
        elements.extend(checks.map(|c| format!("CONSTRAINT {} {}", quote_ident(&c.name), constraint_sql(c, kind))));
        let (persistence, suffix) = match kind {
            TableKind::Distributed { strategy, key, .. } => {
                let strategy = match strategy {
                    Strategy::Hash => "HASH",
                    Strategy::Range => "RANGE",
                    Strategy::List => "LIST",
                };
                ("", format!(" PARTITION BY {strategy} ({})", ident_list(key)))
            }
            TableKind::Reference | TableKind::Local => (self.persistence_sql(), self.storage_sql()),
        };
        let mut statements =
            vec![format!("CREATE {persistence}TABLE {table} (\n    {}\n){suffix}", elements.join(",\n    "))];

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
        }

        // A sequence can be owned only by a table of the same owner.
        statements.push(format!("ALTER TABLE {table} OWNER TO {}", quote_ident(&self.owner)));
        for sequence in &self.sequences {
            if let Some(column) = sequence.owned_by.as_ref().filter(|_| !self.is_identity(sequence, kind)) {
                statements.push(format!("ALTER SEQUENCE {} OWNED BY {table}.{}", sequence.qualified(), quote_ident(column)));
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

    /// Makes all that comes after the rows.
    pub fn finish(&self, kind: TableKind<'_>) -> Vec<String> {
        let mut statements = Vec::new();
        self.finish_constraints(kind, &mut statements);
        self.finish_columns(&mut statements);
        self.finish_statistics(&mut statements);
        self.finish_triggers(&mut statements);
        self.finish_policies(&mut statements);
        self.finish_privileges(&mut statements);
        if kind.is_distributed() {
            let table = quote_literal(&self.qualified());
            statements.push(format!("SELECT herd.mirror_partitions({table}::pg_catalog.regclass)"));
        }
        statements
    }

    /// Is the sequence an identity column's in this kind of table? Partitioned tables have them since PostgreSQL 17; before,
    /// the sequence becomes a default.
    pub(crate) fn is_identity(&self, sequence: &SequenceDefinition, kind: TableKind<'_>) -> bool {
        sequence.identity && !(kind.is_distributed() && self.server_version < 170_000)
    }

    fn column_sql(&self, column: &ColumnDefinition, kind: TableKind<'_>) -> String {
        let mut sql = format!("{} {}", quote_ident(&column.name), column.type_name);
        if let Some(collation) = &column.collation {
            sql += &format!(" COLLATE {collation}");
        }
        let expression = column.expression.as_deref().unwrap_or_default();
        let sequence =
            self.sequences.iter().find(|s| s.identity && s.owned_by.as_ref() == Some(&column.name));
        match (column.generated, column.identity, sequence) {
            (b's', ..) => sql += &format!(" GENERATED ALWAYS AS ({expression}) STORED"),
            (0, 0, _) if !expression.is_empty() => sql += &format!(" DEFAULT {expression}"),
            (0, 0, _) => {}
            (0, identity, Some(sequence)) if self.is_identity(sequence, kind) => {
                let when = if identity == b'a' { "ALWAYS" } else { "BY DEFAULT" };
                let (name, options) = (sequence.qualified(), sequence.options());
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

    fn finish_constraints(&self, kind: TableKind<'_>, statements: &mut Vec<String>) {
        let table = self.qualified();
        let index_name = |name: &str| qualified(&self.schema, name);
        let (foreign, own): (Vec<_>, Vec<_>) =
            self.constraints.iter().filter(|c| c.kind != b'c').partition(|c| c.kind == b'f');
        let add = |c: &&Constraint| {
            format!("ALTER TABLE {table} ADD CONSTRAINT {} {}", quote_ident(&c.name), constraint_sql(c, kind))
        };
        statements.extend(own.iter().map(add));
        for index in &self.indexes {
            // Of a partitioned table it says ON ONLY, which would leave the partitions without.
            let head = |only: &str| {
                let unique = if index.unique { "UNIQUE " } else { "" };
                format!("CREATE {unique}INDEX {} ON {only}", quote_ident(&index.name))
            };
            statements.push(match index.text.strip_prefix(&head("ONLY ")) {
                Some(rest) => head("") + rest,
                None => index.text.clone(),
            });
            comment(statements, "INDEX", &index_name(&index.name), &index.comment);
        }
        statements.extend(foreign.iter().map(add));
        for constraint in &self.constraints {
            let on = format!("{} ON {table}", quote_ident(&constraint.name));
            comment(statements, "CONSTRAINT", &on, &constraint.comment);
            comment(statements, "INDEX", &index_name(&constraint.name), &constraint.index_comment);
        }
        let identity = match (self.replica_identity, &self.replica_identity_index) {
            (b'f', _) => "FULL".to_string(),
            (b'n', _) => "NOTHING".to_string(),
            (b'i', Some(index)) => format!("USING INDEX {}", quote_ident(index)),
            _ => return,
        };
        statements.push(format!("ALTER TABLE {table} REPLICA IDENTITY {identity}"));
    }

    fn finish_columns(&self, statements: &mut Vec<String>) {
        let table = self.qualified();
        comment(statements, "TABLE", &table, &self.comment);
        for column in &self.columns {
            let name = quote_ident(&column.name);
            if let Some(target) = column.statistics_target {
                statements.push(format!("ALTER TABLE {table} ALTER COLUMN {name} SET STATISTICS {target}"));
            }
            if let Some(options) = &column.options {
                statements.push(format!("ALTER TABLE {table} ALTER COLUMN {name} SET ({options})"));
            }
            comment(statements, "COLUMN", &format!("{table}.{name}"), &column.comment);
        }
    }

    fn finish_statistics(&self, statements: &mut Vec<String>) {
        for object in &self.statistics {
            let name = qualified(&object.schema, &object.name);
            statements.push(object.text.clone());
            statements.push(format!("ALTER STATISTICS {name} OWNER TO {}", quote_ident(&object.owner)));
            if let Some(target) = object.target {
                statements.push(format!("ALTER STATISTICS {name} SET STATISTICS {target}"));
            }
            comment(statements, "STATISTICS", &name, &object.comment);
        }
    }

    fn finish_triggers(&self, statements: &mut Vec<String>) {
        let table = self.qualified();
        for trigger in &self.triggers {
            let name = quote_ident(&trigger.name);
            statements.push(trigger.text.clone());
            let enabled = match trigger.enabled {
                b'D' => "DISABLE",
                b'R' => "ENABLE REPLICA",
                b'A' => "ENABLE ALWAYS",
                _ => "",
            };
            if !enabled.is_empty() {
                statements.push(format!("ALTER TABLE {table} {enabled} TRIGGER {name}"));
            }
            comment(statements, "TRIGGER", &format!("{name} ON {table}"), &trigger.comment);
        }
    }

    fn finish_policies(&self, statements: &mut Vec<String>) {
        let table = self.qualified();
        for policy in &self.policies {
            let name = quote_ident(&policy.name);
            let kind = if policy.permissive { "PERMISSIVE" } else { "RESTRICTIVE" };
            let (command, roles) = (policy.command, policy.roles.join(", "));
            let mut sql = format!("CREATE POLICY {name} ON {table} AS {kind} FOR {command} TO {roles}");
            if let Some(using) = &policy.using {
                sql += &format!(" USING ({using})");
            }
            if let Some(check) = &policy.check {
                sql += &format!(" WITH CHECK ({check})");
            }
            statements.push(sql);
            comment(statements, "POLICY", &format!("{name} ON {table}"), &policy.comment);
        }
        if self.row_security {
            statements.push(format!("ALTER TABLE {table} ENABLE ROW LEVEL SECURITY"));
        }
        if self.force_row_security {
            statements.push(format!("ALTER TABLE {table} FORCE ROW LEVEL SECURITY"));
        }
    }

    fn finish_privileges(&self, statements: &mut Vec<String>) {
        let table = self.qualified();
        // ALTER DEFAULT PRIVILEGES may have granted more than the table had.
        statements.push(format!("SELECT herd.revoke_all({}::pg_catalog.regclass)", quote_literal(&table)));
        if let Some(privileges) = &self.privileges {
            statements.push(format!("REVOKE ALL ON TABLE {table} FROM {}", quote_ident(&self.owner)));
            grant(statements, privileges, "", &table);
        }
        for column in &self.columns {
            grant(statements, &column.privileges, &format!(" ({})", quote_ident(&column.name)), &table);
        }
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

fn comment(statements: &mut Vec<String>, what: &str, name: &str, text: &Option<String>) {
    if let Some(text) = text {
        statements.push(format!("COMMENT ON {what} {name} IS {}", quote_literal(text)));
    }
}

/// `columns` is empty, or the column in parentheses after a space.
fn grant(statements: &mut Vec<String>, privileges: &[super::Privilege], columns: &str, table: &str) {
    for super::Privilege { grantee, privilege, grantable } in privileges {
        let option = if *grantable { " WITH GRANT OPTION" } else { "" };
        statements.push(format!("GRANT {privilege}{columns} ON TABLE {table} TO {grantee}{option}"));
    }
}

/// A constraint's text as it can be given for this kind of table. Constraints that were NOT VALID become valid: rows are
/// checked as they are copied.
fn constraint_sql(constraint: &Constraint, kind: TableKind<'_>) -> String {
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

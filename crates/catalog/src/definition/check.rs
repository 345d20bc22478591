//! What keeps a table from becoming distributed, reference or local again. All of it is asked before anything is changed.
//!
//! Knows only the table itself; where other tables are is for `distribute/foreign.rs`.

use key::PartitionStrategy;

use super::{ColumnDefinition, Definition, IncomingKey};
use crate::ident::ident_list;
use crate::{Oid, Refusal, RefusalKind, qualified, quote_ident};

impl Definition {
    fn display(&self) -> String {
        format!("\"{}\"", self.name)
    }

    fn wrong_type(&self, what: &str, hint: &str) -> Refusal {
        Refusal::new(RefusalKind::WrongObjectType, format!("{} is {what}", self.display()), hint)
    }

    /// A table of its own that rows can be moved out of: not a view, a partition, an inheritance child…
    pub(crate) fn check_plain_table(&self) -> Result<(), Refusal> {
        match self.kind {
            b'r' => {}
            b'p' => {
                let hint = "create_distributed_table() distributes it with its partitions; others need a plain table.";
                return Err(self.wrong_type("a partitioned table", hint));
            }
            b'v' | b'm' => return Err(self.wrong_type("a view", "Distribute the tables it reads instead.")),
            b'f' => return Err(self.wrong_type("a foreign table", "Copy its rows into a plain table first.")),
            b'S' => return Err(self.wrong_type("a sequence", "")),
            _ => return Err(self.wrong_type("not a table", "")),
        }
        let Definition { blockers, .. } = self;
        if self.persistence == b't' {
            return Err(self.wrong_type("a temporary table", "Temporary tables stay on one node."));
        }
        if blockers.is_partition {
            return Err(
                self.wrong_type("a partition", "Distribute its parent, whose partitions follow; or detach it first.")
            );
        }
        if blockers.inherits || blockers.has_children {
            let message = format!("{} takes part in inheritance", self.display());
            return Err(Refusal::unsupported(message, "Use ALTER TABLE … NO INHERIT first."));
        }
        if blockers.typed {
            let message = format!("{} is a typed table", self.display());
            return Err(Refusal::unsupported(message, "Use ALTER TABLE … NOT OF first."));
        }
        if let Some(rule) = blockers.rules.first() {
            let message = format!("{} has a rule: \"{rule}\"", self.display());
            return Err(Refusal::unsupported(message, "Drop the rule; a trigger can often take its place."));
        }
        Ok(())
    }

    /// A partitioned table of which every node can have a part.
    pub(crate) fn check_partitioned(&self) -> Result<(), Refusal> {
        let refuse = |what: &str, hint: &str| Err(Refusal::unsupported(format!("{} is {what}", self.display()), hint));
        if self.blockers.is_partition {
            return refuse("a partition that is partitioned itself", "Distribute a table of one level of partitions.");
        }
        if self.blockers.splits_by_expression {
            return refuse("partitioned by an expression", "Partition it by columns, perhaps by a generated one.");
        }
        if let Some(rule) = self.blockers.rules.first() {
            return refuse(
                &format!("a table with a rule: \"{rule}\""),
                "Drop the rule; a trigger can often take its place.",
            );
        }
        Ok(())
    }

    /// The table can be made anew under its name: nothing depends on the old one.
    pub(crate) fn check_replaceable(&self) -> Result<(), Refusal> {
        let Definition { blockers, .. } = self;
        let refuse = |message, hint| Err(Refusal::new(RefusalKind::DependentObjects, message, hint));
        if !blockers.dependents.is_empty() {
            let message = format!("other objects depend on {}: {}", self.display(), blockers.dependents.join(", "));
            return refuse(message, "Drop them first, and create them again afterwards.".to_string());
        }
        if let Some((view, rule)) = self.views.iter().find_map(|v| Some((v, v.rules.first()?))) {
            let message = format!("view \"{}\" over {} has a rule: \"{rule}\"", view.name, self.display());
            return Err(Refusal::unsupported(
                message,
                "Drop the rule; an INSTEAD OF trigger can often take its place.",
            ));
        }
        if let Some(refusal) = self.refer_to_it() {
            return Err(refusal);
        }
        if let Some(publication) = blockers.publications.first() {
            let message = format!("{} is part of publication \"{publication}\"", self.display());
            let hint = match publication.starts_with("herd_column") {
                true => "Use SELECT herd.drop_column_copy() first.".to_string(),
                false => format!("Use ALTER PUBLICATION {publication} DROP TABLE first."),
            };
            return refuse(message, hint);
        }
        Ok(())
    }

    /// Other tables' foreign keys refer to it.
    fn refer_to_it(&self) -> Option<Refusal> {
        let keys = &self.blockers.referenced_by;
        let first = keys.first()?;
        let more = if keys.len() > 1 { format!(" (and {} more)", keys.len() - 1) } else { String::new() };
        let message = format!(
            "table \"{}.{}\" references {} by foreign key \"{}\"{more}",
            first.schema,
            first.table,
            self.display(),
            first.constraint
        );
        let alter = |key: &IncomingKey, change: &str, rest: &str| {
            let (table, name) = (qualified(&key.schema, &key.table), quote_ident(&key.constraint));
            format!("ALTER TABLE {table} {change} CONSTRAINT {name}{rest};")
        };
        let drop = keys.iter().map(|key| alter(key, "DROP", "")).collect::<Vec<_>>().join(" ");
        let add = keys.iter().map(|key| alter(key, "ADD", &format!(" {}", key.text))).collect::<Vec<_>>().join(" ");
        let hint = format!(
            "First {drop} Then distribute {name}, and each of those tables by its column that refers to the key of {name} (or make {name} a reference table). Then {add}",
            name = self.display()
        );
        Some(Refusal::new(RefusalKind::DependentObjects, message, hint))
    }

    /// The key's columns are fit for the strategy; returns their types.
    pub(crate) fn check_key(&self, key: &[String], strategy: PartitionStrategy) -> Result<Vec<Oid>, Refusal> {
        let invalid = |message| Err(Refusal::new(RefusalKind::InvalidParameter, message, ""));
        if key.is_empty() {
            return invalid("a distributed table needs at least one key column".to_string());
        }
        if strategy == PartitionStrategy::List && key.len() > 1 {
            return invalid("a table distributed by list has one key column".to_string());
        }
        if let Some((_, repeated)) = key.iter().enumerate().find(|(i, name)| key[..*i].contains(name)) {
            return invalid(format!("column \"{repeated}\" appears twice in the key"));
        }
        key.iter().map(|name| self.check_key_column(name, strategy)).collect()
    }

    fn check_key_column(&self, name: &str, strategy: PartitionStrategy) -> Result<Oid, Refusal> {
        let Some(column) = self.column(name) else {
            let message = format!("column \"{name}\" of relation {} does not exist", self.display());
            return Err(Refusal::new(RefusalKind::UndefinedColumn, message, ""));
        };
        if column.generated != 0 {
            let message = format!("column \"{name}\" is generated and cannot be a key");
            return Err(Refusal::unsupported(message, "Use a column that is stored as it is given."));
        }
        self.check_key_type(column, strategy)?;
        if !column.collation_deterministic {
            let message = format!("column \"{name}\" has a nondeterministic collation and cannot be a key");
            return Err(Refusal::unsupported(
                message,
                format!("Use ALTER TABLE … ALTER COLUMN {name} TYPE … COLLATE \"C\"."),
            ));
        }
        if strategy == PartitionStrategy::Range && !column.collation_is_bytes {
            let message = format!(
                "column \"{name}\" is ordered by a collation, which only PostgreSQL knows, and cannot be a range key"
            );
            let hint = format!("Use ALTER TABLE … ALTER COLUMN {name} TYPE … COLLATE \"C\", or distribute by hash.");
            return Err(Refusal::unsupported(message, hint));
        }
        Ok(column.type_oid)
    }

    fn check_key_type(&self, column: &ColumnDefinition, strategy: PartitionStrategy) -> Result<(), Refusal> {
        let supported = match strategy {
            PartitionStrategy::Hash => key::hashable(column.type_oid),
            PartitionStrategy::Range | PartitionStrategy::List => key::orderable(column.type_oid),
        };
        if supported {
            return Ok(());
        }
        let ColumnDefinition { name, type_name, .. } = column;
        let message = format!("type {type_name} of column \"{name}\" cannot be a distribution key");
        let hint = match (column.type_kind, &column.base_type) {
            (b'd', Some(base)) => {
                format!("It is a domain; use its base type, {base}, and move its constraints to the table.")
            }
            (b'e', _) => "It is an enum, whose values have other internal numbers on every node; use text, with a CHECK constraint.".to_string(),
            _ => "Use a column of a built-in type such as bigint, uuid or text.".to_string(),
        };
        Err(Refusal::unsupported(message, hint))
    }

    /// Every unique index and exclusion constraint includes the key: each node can check only its own rows.
    pub(crate) fn check_unique(&self, key: &[String]) -> Result<(), Refusal> {
        let includes_key = |columns: &[String]| key.iter().all(|k| columns.contains(k));
        let refuse = |what: &str, name: &str, hint: String| {
            let message =
                format!("{what} \"{name}\" of {} does not include the key ({})", self.display(), key.join(", "));
            Err(Refusal::unsupported(message, hint))
        };
        for constraint in &self.constraints {
            let what = match constraint.kind {
                b'p' => "primary key",
                b'u' => "unique constraint",
                b'x' if self.server_version < 170_000 => {
                    let message = format!("{} has an exclusion constraint: \"{}\"", self.display(), constraint.name);
                    return Err(Refusal::unsupported(
                        message,
                        "A distributed table can have one since PostgreSQL 17. Drop it first.",
                    ));
                }
                b'x' => "exclusion constraint",
                _ => continue,
            };
            if !includes_key(&constraint.columns) {
                let mut columns = constraint.columns.clone();
                columns.extend(key.iter().filter(|k| !constraint.columns.contains(k)).cloned());
                let hint = match constraint.kind {
                    b'x' => "Drop it, or have it compare the key with \"=\" as well.".to_string(),
                    _ => format!(
                        "Distribute by a column it has, or drop it and make it on ({}), or make this a reference table.",
                        ident_list(&columns)
                    ),
                };
                return refuse(what, &constraint.name, hint);
            }
        }
        for index in self.indexes.iter().filter(|i| i.unique) {
            if !includes_key(&index.columns) {
                let hint =
                    "Drop it, or create it with the key's columns among its own, or distribute by a column it has.";
                return refuse("unique index", &index.name, hint.to_string());
            }
        }
        Ok(())
    }

    /// Triggers that a partitioned table can have.
    pub(crate) fn check_triggers(&self) -> Result<(), Refusal> {
        match self.triggers.iter().find(|t| t.row && t.transition_tables) {
            None => Ok(()),
            Some(trigger) => {
                let message = format!(
                    "trigger \"{}\" of {} is a row trigger with transition tables",
                    trigger.name,
                    self.display()
                );
                Err(Refusal::unsupported(message, "Make it a statement trigger, or drop it."))
            }
        }
    }
}

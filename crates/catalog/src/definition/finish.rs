//! Printing what a table gets once its rows are there: what is faster then (keys, indexes), can only be checked then (foreign
//! keys) or must not see the rows come (triggers, policies). Comments, privileges and settings, too.

use std::collections::HashSet;

use super::print::constraint_sql;
use super::{Constraint, Definition, Privilege, TableKind};
use crate::{qualified, quote_ident, quote_literal};

impl Definition {
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
            statements.push(self.mirror_partitions());
        }
        statements
    }

    fn finish_constraints(&self, kind: TableKind<'_>, statements: &mut Vec<String>) {
        let table = self.qualified();
        let index_name = |name: &str| qualified(&self.schema, name);
        let (foreign, own): (Vec<_>, Vec<_>) =
            self.constraints.iter().filter(|c| c.kind != b'c').partition(|c| c.kind == b'f');
        let add = |c: &&Constraint| {
            format!("ALTER TABLE {table} ADD CONSTRAINT {} {}", quote_ident(&c.name), constraint_sql(c, kind))
        };
        // The owner's code in an index is run as the owner by PostgreSQL itself, as long as the table and its shards are his.
        statements.extend(own.iter().map(|c| self.runs_owners_code("herd.run_on", add(c))));
        for index in &self.indexes {
            // Of a partitioned table it says ON ONLY, which would leave the partitions without.
            let head = |only: &str| {
                let unique = if index.unique { "UNIQUE " } else { "" };
                format!("CREATE {unique}INDEX {} ON {only}", quote_ident(&index.name))
            };
            let create = match index.text.strip_prefix(&head("ONLY ")) {
                Some(rest) => head("") + rest,
                None => index.text.clone(),
            };
            statements.push(self.runs_owners_code("herd.run_on", create));
            comment(statements, "INDEX", &index_name(&index.name), &index.comment);
        }
        // Old rows need not satisfy what they were never held against.
        let late = self.constraints.iter().filter(|c| c.kind == b'c' && c.not_valid);
        statements.extend(late.map(|c| self.runs_owners_code("herd.run_as_owner", format!("{} NOT VALID", add(&c)))));
        // Checking the rows runs casts of the owner's, who may have made the types. Before PostgreSQL 18 a partitioned table has no foreign
        // keys that are NOT VALID: rows are checked where one becomes distributed.
        let becomes_partitioned = kind.is_distributed() && self.kind != b'p';
        statements.extend(foreign.iter().map(|c| match c.not_valid && !becomes_partitioned {
            true => format!("{} NOT VALID", add(c)),
            false => self.runs_owners_code("herd.run_as_owner", add(c)),
        }));
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
        // It looks at the expressions of indexes.
        let alter = format!("ALTER TABLE {table} REPLICA IDENTITY {identity}");
        statements.push(self.runs_owners_code("herd.run_as_owner", alter));
    }

    /// A statement that may run code of the owner's, by the function of the catalog that sees to that (`owner.sql`).
    pub(super) fn runs_owners_code(&self, function: &str, statement: String) -> String {
        let table = quote_literal(&self.qualified());
        match self.owner_is_superuser {
            true => statement,
            false => format!("SELECT {function}({table}::pg_catalog.regclass, {})", quote_literal(&statement)),
        }
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

    pub(super) fn finish_triggers(&self, statements: &mut Vec<String>) {
        let table = self.qualified();
        for trigger in &self.triggers {
            let name = quote_ident(&trigger.name);
            // Whether its function may be called is asked of the owner, whatever its name means by now.
            statements.push(self.runs_owners_code("herd.run_as_owner", trigger.text.clone()));
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

    pub(super) fn finish_privileges(&self, statements: &mut Vec<String>) {
        let table = self.qualified();
        // ALTER DEFAULT PRIVILEGES may have granted more than the table had.
        statements.push(format!("SELECT herd.revoke_all({}::pg_catalog.regclass)", quote_literal(&table)));
        if self.privileges.is_some() {
            statements.push(format!("REVOKE ALL ON TABLE {table} FROM {}", quote_ident(&self.owner)));
        }
        let on_table = self.privileges.iter().flatten().map(|p| (p, String::new()));
        let on_columns = self
            .columns
            .iter()
            .flat_map(|column| column.privileges.iter().map(|p| (p, format!(" ({})", quote_ident(&column.name)))));
        let granted: Vec<(&Privilege, String)> = on_table.chain(on_columns).collect();
        statements.extend(in_order(&granted).into_iter().map(|(p, columns)| grant(p, columns, &table)));
    }
}

/// A grant comes behind the one that its grantor could make it by.
fn in_order<'g>(granted: &'g [(&'g Privilege, String)]) -> Vec<&'g (&'g Privilege, String)> {
    let mut may_grant: HashSet<&str> = HashSet::new();
    let (mut ordered, mut left): (Vec<_>, Vec<_>) = granted.iter().partition(|(p, _)| p.grantor.is_none());
    let mut looked_at = 0;
    while !left.is_empty() {
        may_grant.extend(ordered[looked_at..].iter().filter(|(p, _)| p.grantable).map(|(p, _)| p.grantee.as_str()));
        looked_at = ordered.len();
        let by = |(p, _): &&(&Privilege, String)| p.grantor.as_deref().is_some_and(|g| may_grant.contains(g));
        let (next, others): (Vec<_>, Vec<_>) = left.into_iter().partition(by);
        // What nobody could have granted is not to be lost.
        (left, ordered) = match next.is_empty() {
            true => (vec![], ordered.into_iter().chain(others).collect()),
            false => (others, ordered.into_iter().chain(next).collect()),
        };
    }
    ordered
}

pub(super) fn comment(statements: &mut Vec<String>, what: &str, name: &str, text: &Option<String>) {
    if let Some(text) = text {
        statements.push(format!("COMMENT ON {what} {name} IS {}", quote_literal(text)));
    }
}

/// `columns` is empty, or the column in parentheses after a space.
fn grant(given: &Privilege, columns: &str, table: &str) -> String {
    let Privilege { grantee, privilege, grantable, grantor } = given;
    let option = if *grantable { " WITH GRANT OPTION" } else { "" };
    let grant = format!("GRANT {privilege}{columns} ON TABLE {table} TO {grantee}{option}");
    match grantor {
        // It is his to take back.
        Some(grantor) => {
            format!("SELECT herd.grant_as({}::pg_catalog.regrole, {})", quote_literal(grantor), quote_literal(&grant))
        }
        None => grant,
    }
}

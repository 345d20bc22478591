//! Constraints that were given no name are called on all nodes as on home. PostgreSQL takes a name that no constraint in the schema has
//! (`ChooseConstraintName` in pg_constraint.c), and home's schemas have more of them: those of local tables.

use catalog::{Row, quote_ident, quote_literal};

use crate::client::Client;
use crate::error::Result;
use crate::work::Work;

/// A constraint of a table, quoted and qualified, or of one of its partitions that are no shards.
#[derive(Debug, PartialEq, Eq)]
struct Named {
    table: String,
    name: String,
    what: String,
}

impl<C: Client> Work<'_, C> {
    /// Gives those of the other nodes the names that home has chosen. `table`: quoted and qualified.
    pub(super) async fn constraints_as_on_home(&mut self, table: &str) -> Result<()> {
        let (home, question) = (self.home(), constraints(table));
        let chosen = named(self.ask_home(&question).await?);
        let nodes: Vec<_> = self.epoch.snapshot.nodes.iter().map(|n| n.id).filter(|id| *id != home).collect();
        for node in nodes {
            let theirs = named(self.ask_node(node, &question).await?);
            let renamed = renamed(&chosen, theirs);
            if !renamed.is_empty() {
                self.run_on(node, renamed.into_iter()).await?;
            }
        }
        Ok(())
    }
}

/// In the order in which they were made. Those that partitions have from their table follow it; what a foreign key has behind itself for each
/// partition that it refers to has no name that shows.
fn constraints(table: &str) -> String {
    let table = format!("{}::pg_catalog.regclass", quote_literal(table));
    format!(
        "SELECT pg_catalog.format('%I.%I', n.nspname, t.relname), c.conname, \
             CASE WHEN c.contype OPERATOR(pg_catalog.=) 'f' THEN pg_catalog.concat(pg_catalog.split_part(pg_catalog.pg_get_constraintdef(c.oid), ' REFERENCES ', 1), \
                 ' ', rn.nspname, '.', r.relname) ELSE pg_catalog.pg_get_constraintdef(c.oid) END \
         FROM pg_catalog.pg_constraint c JOIN pg_catalog.pg_class t ON t.oid OPERATOR(pg_catalog.=) c.conrelid \
             JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) t.relnamespace \
             LEFT JOIN pg_catalog.pg_class r ON r.oid OPERATOR(pg_catalog.=) c.confrelid \
             LEFT JOIN pg_catalog.pg_namespace rn ON rn.oid OPERATOR(pg_catalog.=) r.relnamespace \
         WHERE c.contype OPERATOR(pg_catalog.<>) 't' AND (c.conrelid OPERATOR(pg_catalog.=) {table} AND c.conparentid OPERATOR(pg_catalog.=) 0 \
             OR c.contype OPERATOR(pg_catalog.=) ANY ('{{p,u,x}}'::pg_catalog.\"char\"[]) AND n.nspname OPERATOR(pg_catalog.<>) 'herd_shards' \
                 AND c.conrelid OPERATOR(pg_catalog.=) ANY (SELECT p.relid FROM pg_catalog.pg_partition_tree({table}) p)) \
         ORDER BY c.oid"
    )
}

fn named(rows: Vec<Row>) -> Vec<Named> {
    let cells = rows.into_iter().map(|row| row.into_iter().map(Option::unwrap_or_default));
    let constraint =
        |mut row: std::iter::Map<_, _>| Some(Named { table: row.next()?, name: row.next()?, what: row.next()? });
    cells.filter_map(constraint).collect()
}

/// The statements by which `theirs` get the names of `chosen`.
fn renamed(chosen: &[Named], theirs: Vec<Named>) -> Vec<String> {
    let mut missing: Vec<&Named> = chosen.iter().filter(|c| !theirs.contains(c)).collect();
    let mut renames = Vec::new();
    for c in theirs.into_iter().filter(|c| !chosen.contains(c)) {
        if let Some(i) = missing.iter().position(|m| m.table == c.table && m.what == c.what) {
            renames.push((c, missing.remove(i)));
        }
    }
    let mut statements = Vec::new();
    // Before a constraint gets a name, the one goes that has it: home's numbers are the higher ones, so none waits for itself.
    let free = |renames: &[(Named, &Named)], to: &Named| {
        !renames.iter().any(|(from, _)| from.table == to.table && from.name == to.name)
    };
    while let Some(i) = renames.iter().position(|(_, to)| free(&renames, to)) {
        let (from, to) = renames.remove(i);
        let (old, new) = (quote_ident(&from.name), quote_ident(&to.name));
        statements.push(format!("ALTER TABLE {} RENAME CONSTRAINT {old} TO {new}", from.table));
    }
    statements
}

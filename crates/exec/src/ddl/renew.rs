//! New names for the partitions of a table that statements may have been planned for under another meaning. Which tables those are,
//! and why, says `plan/src/ddl/renew.rs`.
//!
//! A prefix is never used twice (`herd.new_prefix`), so it finds no other table's partitions either. It does not know how utility
//! statements run.

use catalog::{new_prefix_sql, quote_literal};
use plan::ddl::{Renewed, Rights, Spread};

use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::work::Work;

impl<C: Client> Work<'_, C> {
    /// Adds the steps, and sees to the rights they need.
    pub(super) async fn renew(&mut self, spread: &mut Spread, renewed: &[Renewed]) -> Result<()> {
        for r in renewed {
            // By the router itself: nobody else may take names.
            let rows = self.herd.own.rows(&self.herd.config.home, &new_prefix_sql(&r.name, false)).await?;
            let prefix = rows.into_iter().next().and_then(|row| row.into_iter().next()).flatten();
            let prefix = prefix.ok_or_else(|| ExecError::internal("home gives no names for partitions"))?;
            let rights = Rights { table: r.table.clone(), new_owner: None };
            self.grant_rights(&rights, spread.nodes.iter().map(|n| n.node)).await?;
            for n in &mut spread.nodes {
                n.steps.extend(r.steps(n.node, &prefix));
            }
            let token = self.herd.config.seal.token_hex(&format!("prefix {} {} {prefix}", r.prefix.len(), r.prefix));
            let (old, new) = (quote_literal(&r.prefix), quote_literal(&prefix));
            spread.push_home(format!("SELECT herd.follow_prefix({old}, {new}, pg_catalog.decode('{token}', 'hex'))"));
        }
        Ok(())
    }
}

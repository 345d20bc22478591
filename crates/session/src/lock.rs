//! LOCK TABLE, and how dumping tools are told from others: they lock what they are going to read IN ACCESS SHARE MODE in a
//! READ ONLY transaction (`getTables` in pg_dump.c), then read partitions one by one, and through a router see home's alone.
//!
//! It does not know where locks are taken.

use exec::ExecError;
use sql::{NodeEnum, ast, names};
use wire::sqlstate;

use crate::session::{Result, Session};

/// `LOCKMODE` in lockdefs.h.
const ACCESS_SHARE: i32 = 1;

impl Session {
    /// In a block, and not of what a dump would miss rows of.
    pub(crate) async fn may_lock(&mut self, lock: &ast::LockStmt) -> Result<()> {
        if !self.transaction.is_block() && !self.batch {
            return Err(ExecError::sql(
                sqlstate::NO_ACTIVE_SQL_TRANSACTION,
                "LOCK TABLE can only be used in transaction blocks",
            ));
        }
        if lock.mode == ACCESS_SHARE
            && let Some(table) = self.split_table(lock)
            && self.work().manner().await?.read_only
        {
            return Err(ExecError::sql(
                sqlstate::FEATURE_NOT_SUPPORTED,
                format!("a dump through a router would miss the rows of \"{table}\" on other nodes"),
            )
            .hint("Use `herd dump` in place of pg_dump: it dumps all nodes at one snapshot. (LOCK TABLE … IN ACCESS SHARE MODE in a READ ONLY transaction is what pg_dump begins with.)"));
        }
        Ok(())
    }

    /// A table of the list whose rows are on several nodes, or a partition of one.
    fn split_table(&self, lock: &ast::LockStmt) -> Option<String> {
        let split = |node: &ast::Node| {
            let Some(NodeEnum::RangeVar(rv)) = &node.node else { return None };
            let (schema, name) = names::table(rv);
            let distributed = || {
                let found = self.epoch.snapshot.resolve(schema, name, &self.search_path);
                found.is_some_and(|r| r.distribution().is_some())
            };
            (schema == Some("herd_shards") || distributed()).then(|| name.to_string())
        };
        lock.relations.iter().find_map(split)
    }
}

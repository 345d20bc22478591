//! Reference tables of which code that runs for each row (BEFORE triggers, policies) sees the rows that the same statement has
//! written so far: what becomes of a row depends on which came before it, and each copy has an order of its own.
//!
//! Code sees them if it is VOLATILE ("Visibility of Data Changes" in PostgreSQL's chapters on triggers and SPI). CHECKs and AFTER
//! triggers only pass or fail: if one copy fails, all do. It does not know statements.

use std::collections::{BTreeSet, HashMap, HashSet};

use catalog::Oid;

use super::{Graph, PlacementKind};

impl Graph<'_> {
    /// Tables whose own rows are meant, and those of others that foreign keys' actions come to.
    pub(super) fn row_by_row(&self) -> HashMap<Oid, (bool, bool)> {
        let code = &self.snapshot.code;
        let shared = |oid: &Oid| self.relations.get(oid).is_some_and(|r| self.kind(r) == PlacementKind::Reference);
        let hanging: Vec<(Oid, BTreeSet<Oid>)> = code
            .attached
            .iter()
            .filter(|a| (a.before_rows || a.what == "policy") && shared(&a.table))
            .map(|a| (a.table, self.reach_of(a.object(), Some(a.table), a.definition.as_deref())))
            .filter(|(_, reach)| reach.volatile)
            .map(|(table, reach)| (table, reach.reads))
            .collect();
        if hanging.is_empty() {
            return HashMap::new();
        }
        let tables = self.relations.keys().filter(|oid| shared(oid));
        let judged = tables.map(|table| (*table, self.sees_itself(*table, &hanging)));
        judged.filter(|(_, (own, tied))| *own || *tied).collect()
    }

    /// Reference tables with BEFORE triggers for each row, once for each, and whether it reads tables.
    pub(super) fn before_rows(&self) -> impl Iterator<Item = (Oid, bool)> {
        let shared = |oid: &Oid| self.relations.get(oid).is_some_and(|r| self.kind(r) == PlacementKind::Reference);
        let triggers = self.snapshot.code.attached.iter().filter(move |a| a.before_rows && shared(&a.table));
        triggers.map(|a| (a.table, !self.reach_of(a.object(), Some(a.table), None).reads.is_empty()))
    }

    /// `hanging`: tables, with what their code reads.
    fn sees_itself(&self, table: Oid, hanging: &[(Oid, BTreeSet<Oid>)]) -> (bool, bool) {
        // Foreign keys' actions come after all rows of the table itself, row by row of it.
        let (mut tied, mut todo) = (HashSet::new(), vec![table]);
        while let Some(from) = todo.pop() {
            let more: Vec<Oid> = self
                .snapshot
                .code
                .tied
                .iter()
                .filter(|(f, to)| *f == from && tied.insert(*to))
                .map(|(_, to)| *to)
                .collect();
            todo.extend(more);
        }
        let own = hanging.iter().any(|(on, reads)| *on == table && reads.contains(on));
        let sees = |reads: &BTreeSet<Oid>| reads.contains(&table) || reads.iter().any(|r| tied.contains(r));
        (own, hanging.iter().any(|(on, reads)| tied.contains(on) && sees(reads)))
    }
}

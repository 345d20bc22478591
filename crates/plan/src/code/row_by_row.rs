//! Reference tables of which code that runs for each row (BEFORE triggers, policies) sees the rows that the same statement has
//! written so far: what becomes of a row depends on which came before it, and each copy has an order of its own.
//!
//! Code sees them if it is VOLATILE ("Visibility of Data Changes" in PostgreSQL's chapters on triggers and SPI). CHECKs and AFTER
//! triggers only pass or fail: if one copy fails, all do. It does not know statements.

use std::collections::{HashMap, HashSet};

use catalog::Oid;

use super::relation_set::RelationSet;
use super::{Graph, PlacementKind};

impl Graph<'_> {
    /// Tables whose own rows are meant, and those of others that foreign keys' actions come to.
    pub(super) fn row_by_row(&self) -> HashMap<Oid, (bool, bool)> {
        let code = &self.snapshot.code;
        let shared = |oid: &Oid| self.relations.get(oid).is_some_and(|r| self.kind(r) == PlacementKind::Reference);
        let hanging: Vec<(Oid, RelationSet)> = code
            .attached
            .iter()
            .filter(|a| (a.before_rows || a.what == "policy") && shared(&a.table))
            .map(|a| (a.table, self.reach_of_attached(a)))
            .filter(|(_, reach)| reach.volatile)
            .map(|(table, reach)| (table, reach.reads))
            .collect();
        if hanging.is_empty() {
            return HashMap::new();
        }
        let tables = self.relations.keys().filter(|oid| shared(oid));
        let tied_to = self.tied_to();
        let judged = tables.map(|table| (*table, self.sees_itself(*table, &hanging, &tied_to)));
        judged.filter(|(_, (own, tied))| *own || *tied).collect()
    }

    /// Whose rows the rows of a table bring with them.
    pub(super) fn tied_to(&self) -> HashMap<Oid, Vec<Oid>> {
        let mut tied_to: HashMap<Oid, Vec<Oid>> = HashMap::new();
        for (from, to) in &self.snapshot.code.tied {
            tied_to.entry(*from).or_default().push(*to);
        }
        tied_to
    }

    /// Reference tables with BEFORE triggers for each row, once for each, and whether it reads tables.
    pub(super) fn before_rows(&self) -> impl Iterator<Item = (Oid, bool)> {
        let shared = |oid: &Oid| self.relations.get(oid).is_some_and(|r| self.kind(r) == PlacementKind::Reference);
        let triggers = self.snapshot.code.attached.iter().filter(move |a| a.before_rows && shared(&a.table));
        triggers.map(|a| (a.table, !self.reach_of_attached(a).reads.is_empty()))
    }

    /// `hanging`: tables, with what their code reads.
    fn sees_itself(
        &self,
        table: Oid,
        hanging: &[(Oid, RelationSet)],
        tied_to: &HashMap<Oid, Vec<Oid>>,
    ) -> (bool, bool) {
        // Foreign keys' actions come after all rows of the table itself, row by row of it.
        let (mut tied, mut todo) = (HashSet::new(), vec![table]);
        while let Some(from) = todo.pop() {
            let more = tied_to.get(&from).into_iter().flatten().copied();
            todo.extend(more.filter(|to| tied.insert(*to)));
        }
        let own = hanging.iter().any(|(on, reads)| *on == table && self.numbers.has(reads, table));
        let all = self.numbers.set(tied.iter().copied().chain([table]));
        (own, hanging.iter().any(|(on, reads)| tied.contains(on) && reads.meets(&all)))
    }
}

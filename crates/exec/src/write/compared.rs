//! A change of a reference table that every copy makes by itself: what each has written is compared, and if it is not the same
//! everywhere, the statement fails.
//!
//! Rows are added up by their hashes as they come, in whatever order, so none are kept. It does not know why a change needs it
//! (`plan/src/compared.rs`).

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use bytes::BytesMut;
use catalog::{NodeId, Relation};
use plan::{Compared, ReferenceWrite};
use txn::Participant;
use wire::{backend, sqlstate};

use super::reference::seen_apart;
use crate::client::{Answer, Client};
use crate::error::{ExecError, Result};
use crate::render::{Fill, NodeStatement};
use crate::request::{Bound, Keep, Request};
use crate::router::described::Described;
use crate::work::Work;
use crate::work::rows::{self, Reply};

/// Rows of one copy, whatever their order.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Sum {
    rows: u64,
    hashes: (u64, u64),
}

impl Sum {
    fn add(&mut self, row: &[Option<&[u8]>]) {
        let hash = |seed: u8| {
            let mut hasher = DefaultHasher::new();
            seed.hash(&mut hasher);
            row.hash(&mut hasher);
            hasher.finish()
        };
        self.rows += 1;
        self.hashes = (self.hashes.0.wrapping_add(hash(0)), self.hashes.1.wrapping_add(hash(1)));
    }
}

impl<C: Client> Work<'_, C> {
    /// Whether what copies write is to be compared, and can be: who may change a table need not be allowed to read it.
    pub(super) async fn is_compared(&mut self, w: &ReferenceWrite) -> Result<bool> {
        let Some(compared) = w.compared.as_deref() else { return Ok(false) };
        match self.may_return(&w.relation).await? {
            false if compared.by_triggers => Err(unseen(&w.relation)),
            may => Ok(may),
        }
    }

    pub(super) async fn compared(
        &mut self,
        request: &Request<'_>,
        w: &ReferenceWrite,
        compared: Option<&Compared>,
        bound: &Bound,
        described: &Described,
        mut nodes: BTreeSet<NodeId>,
    ) -> Result<u64> {
        let Some(compared) = compared else { return Err(ExecError::internal("nothing to compare")) };
        nodes.insert(self.home());
        let statement = Fill::new(bound, &self.now).statement([&compared.text]);
        let shown = described.fields.as_ref().map_or(0, Vec::len);
        let formats = (0..shown).map(|i| bound.result_format(i)).chain(w.relation.columns.iter().map(|_| 0));
        let formats: Vec<i16> = formats.collect();
        self.need_transaction();
        let home = self.home();
        let mut lanes = self
            .ask_each(nodes.iter().map(|n| (*n, ())), |work, p, ()| {
                p.wrote = true;
                let (mark, foreign) = (work.mark(Keep::No, &statement), p.lane.node != home);
                rows::send_statement(&mut p.lane, mark.as_deref(), &statement, foreign, &formats);
            })
            .await?;
        self.describe_to_client(request, described);
        let (mut failure, mut sums) = (None, vec![]);
        for p in &mut lanes {
            match self.sum_of(p, shown).await {
                Ok(sum) => sums.push(sum),
                Err(e) => {
                    failure.get_or_insert(e);
                }
            }
        }
        self.abandon(lanes).await;
        if let Some(e) = failure {
            return Err(e);
        }
        same(&w.relation, &sums, w.relation.triggers)
    }

    /// One copy's rows; of home's, the client gets what it wants.
    async fn sum_of(&mut self, p: &mut Participant, shown: usize) -> Result<Sum> {
        let is_home = p.lane.node == self.home();
        let (mut sum, mut row) = (Sum::default(), BytesMut::new());
        let read = loop {
            let reply = match is_home {
                true => self.next_reply(&mut p.lane).await,
                false => rows::next(&mut p.lane).await,
            };
            match reply {
                Ok(Reply::Row(frame)) => {
                    let values = backend::parse_data_row(frame.body())?;
                    let (client, written) = values.split_at(shown.min(values.len()));
                    sum.add(written);
                    if is_home && shown > 0 {
                        backend::data_row(&mut row, client.iter().copied());
                        self.client.tell(Answer::Sent(&row.split().freeze()));
                        self.client.relieve().await?;
                    }
                }
                Ok(Reply::Done) => break Ok(sum),
                Ok(_) => {}
                Err(e) => break Err(e),
            }
        };
        if !is_home {
            p.lane.said.forget();
        }
        read
    }

    /// After rows have come to all copies by COPY or by foreign keys' actions, of which triggers may have made something else on each.
    pub(crate) async fn compare_copies(&mut self, relation: &Relation) -> Result<()> {
        let code = self.epoch.snapshot.relation_code.get(&relation.oid).copied().unwrap_or_default();
        if !code.before_rows || self.epoch.snapshot.nodes.len() < 2 {
            return Ok(());
        }
        match self.may_return(relation).await? {
            false if code.before_reads => return Err(unseen(relation)),
            false => return Ok(()),
            true => {}
        }
        let table = catalog::qualified(&relation.schema, &relation.name);
        let sql = format!(
            "SELECT pg_catalog.count(*), pg_catalog.sum(pg_catalog.hashtextextended(t::pg_catalog.text, 0)) FROM {table} AS t"
        );
        let nodes: BTreeSet<NodeId> = self.epoch.snapshot.nodes.iter().map(|n| n.id).collect();
        let lanes = self.ask_part(&nodes, &NodeStatement::over_arrays(sql, vec![]), &[], Keep::No).await?;
        let mut sums = vec![];
        for answer in self.read_answers(lanes, false).await? {
            let mut sum = Sum::default();
            for row in answer.rows.iter() {
                sum.add(&backend::parse_data_row(&row?[wire::frame::HEADER_LEN..])?);
            }
            sums.push(sum);
        }
        same(relation, &sums, true).map(drop)
    }
}

fn same(relation: &Relation, sums: &[Sum], triggers: bool) -> Result<u64> {
    let first = sums.first().copied().unwrap_or_default();
    if sums.iter().all(|sum| *sum == first) {
        return Ok(first.rows);
    }
    if !triggers {
        return Err(seen_apart(relation));
    }
    let message = format!(
        "triggers of reference table \"{}\" made other rows on one node than on another, or its copies were being changed at the same time",
        relation.name
    );
    Err(ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, message).hint(
        "Have triggers set what does not depend on the order of rows, on object ids or on the time; or try again.",
    ))
}

fn unseen(relation: &Relation) -> ExecError {
    let message = format!(
        "triggers of reference table \"{}\" read tables: what they make of its rows on each node is compared, for which the role must be allowed to read them",
        relation.name
    );
    ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, message).hint("GRANT SELECT on the table to the role.")
}

//! A change of a reference table that reads other rows: home makes it, the other copies take its rows over by a key.
//!
//! What home has read may be committed there and not yet elsewhere: before the copies are told, they finish what stands
//! prepared. It does not know how the texts came about (`plan/src/by_key.rs`).

use std::collections::BTreeSet;

use bytes::{Bytes, BytesMut};
use catalog::{NodeId, Relation};
use plan::ByKey;
use txn::Participant;
use wire::backend;

use super::reference::{read_copy, seen_apart};
use crate::arrays::Arrays;
use crate::budget::Taken;
use crate::client::{Answer, Client};
use crate::error::Result;
use crate::render::{Child, Fill, Source};
use crate::request::{Bound, Keep, Request};
use crate::router::described::Described;
use crate::router::unfinished::wait_for_changes;
use crate::work::Work;
use crate::work::rows::Reply;

impl<C: Client> Work<'_, C> {
    /// Whether home may return what it writes: who may change a table need not be allowed to read it.
    pub(super) async fn may_return(&mut self, relation: &Relation) -> Result<bool> {
        let sql =
            format!("SELECT pg_catalog.has_table_privilege('{}'::pg_catalog.oid, 'SELECT')", relation.named_oid());
        let rows = self.ask_home(&sql).await?;
        Ok(rows.first().and_then(|r| r.first()).is_some_and(|v| v.as_deref() == Some("t")))
    }

    /// `children`: rows that were read beforehand.
    #[allow(clippy::too_many_arguments)]
    pub(super) async fn by_key(
        &mut self,
        request: &Request<'_>,
        relation: &Relation,
        by_key: &ByKey,
        children: Vec<Child>,
        bound: &Bound,
        described: &Described,
        others: &BTreeSet<NodeId>,
    ) -> Result<u64> {
        let carriers = self.carry_unread(by_key.types.iter().map(String::as_str)).await?;
        let home = BTreeSet::from([self.home()]);
        let statement = Fill { children, ..Fill::new(bound, &self.now) }.statement([&by_key.on_home]);
        // As the client wants them; behind them what is for the copies.
        let shown = described.fields.as_ref().map_or(0, Vec::len);
        let formats =
            (0..shown).map(|i| bound.result_format(i)).chain(carriers.iter().map(|c| i16::from(!c.is_text())));
        let mut lanes = self.ask_part(&home, &statement, &formats.collect::<Vec<_>>(), Keep::No).await?;
        self.describe_to_client(request, described);
        let (mut written, mut taken) = (Arrays::new(&carriers), self.memory.nothing());
        let mut failure = None;
        for p in &mut lanes {
            p.wrote = true;
            if let Err(e) = self.read_by_key(p, shown, &mut written, &mut taken).await {
                failure.get_or_insert(e);
            }
        }
        self.abandon(lanes).await;
        failure.map_or(Ok(()), Err)?;
        let count = written.rows;
        if count == 0 {
            return Ok(0);
        }
        wait_for_changes(self.herd, &self.epoch.snapshot).await;
        let rows =
            Child { source: Source::Arrays(written.finish()), types: by_key.types.clone(), fenced: false, names: None };
        let none = Bound::default();
        let copy = Fill { children: vec![rows], ..Fill::new(&none, &self.now) }.statement([&by_key.on_copies]);
        let texts: Vec<_> = others.iter().map(|n| (*n, copy.clone())).collect();
        let mut lanes = self.write(&texts, &Request::simple(&copy.sql)).await?;
        let (mut failure, mut same) = (None, true);
        for p in &mut lanes {
            match read_copy(p).await {
                Ok(copied) => same &= copied == count,
                Err(e) => {
                    failure.get_or_insert(e);
                }
            }
        }
        self.abandon(lanes).await;
        match failure {
            Some(e) => Err(e),
            None if !same => Err(seen_apart(relation)),
            None => Ok(count),
        }
    }

    /// Home's rows: what the client wants of each goes to it, the rest is kept for the copies.
    async fn read_by_key(
        &mut self,
        p: &mut Participant,
        shown: usize,
        written: &mut Arrays,
        taken: &mut Taken,
    ) -> Result<()> {
        let mut row = BytesMut::new();
        loop {
            match self.next_reply(&mut p.lane).await? {
                Reply::Row(frame) => {
                    let values = backend::parse_data_row(frame.body())?;
                    let (client, copies) = values.split_at(shown.min(values.len()));
                    written.push(copies)?;
                    taken.grow_to(written.bytes())?;
                    if shown > 0 {
                        backend::data_row(&mut row, client.iter().copied());
                        let row: Bytes = row.split().freeze();
                        self.client.tell(Answer::Sent(&row));
                        self.client.relieve().await?;
                    }
                }
                Reply::Done => return Ok(()),
                _ => {}
            }
        }
    }
}

//! How rows on their way into a table come to their end: all of them are counted, or given up. It does not know where
//! they came from.

use wire::{put, sqlstate};

use super::returned::Returned;
use super::{Batches, Sink, SinkKind};
use crate::client::{Answer, Client, Nobody, tell_said};
use crate::error::{ExecError, Result};
use crate::work::Work;
use crate::work::copy_lane::{end_copy, push};
use crate::write::bulk::Tally;
use crate::write::copy_lines;
use crate::write::copy_lines::CopyLines;
use crate::write::copy_skipped::Skipped;
use crate::write::reference::seen_apart;

/// What ends a COPY that is given up.
const GIVEN_UP: &str = "the statement was given up";

impl Sink {
    /// Ends the stream; the rows counted and those of RETURNING. The lanes go back to the transaction.
    pub async fn finish<C: Client>(mut self, work: &mut Work<'_, C>) -> Result<(u64, Returned)> {
        let ended = self.end(work.client).await;
        self.tell_sequences(work);
        self.tell_said(&mut |said| work.client.tell(said));
        let failed = ended.is_err();
        for (i, mut p) in self.lanes.drain(..).enumerate() {
            if failed && i < self.copying && p.lane.conn.outstanding() > 0 && !p.lane.conn.is_broken() {
                let _ = end_copy(&mut p, true, &mut Nobody).await;
            }
            work.put_back(p).await;
        }
        ended.map_err(|e| self.tally().tell(e, self.numbered))?;
        if self.relation.is_reference() {
            work.compare_copies(&self.relation).await?;
        }
        Ok((self.count, self.returned))
    }

    /// Tells what nodes have said since. Of a reference table's copies home's alone says what there is to say.
    pub fn tell_said(&mut self, tell: &mut dyn FnMut(Answer<'_>)) {
        let copies = self.relation.distribution().is_none();
        for p in &mut self.lanes {
            match copies && p.lane.node != self.home {
                true => p.lane.said.forget(),
                false => tell_said(tell, &mut p.lane),
            }
        }
    }

    /// What was taken from sequences is the session's to ask for, failed or not.
    fn tell_sequences<C: Client>(&mut self, work: &mut Work<'_, C>) {
        let Some(own) = &mut work.sequences else { return };
        for f in &mut self.filled {
            if let (Some((oid, _)), Some(last)) = (&f.sequence, f.last.take()) {
                own.took(*oid, &last);
            }
        }
    }

    pub(super) fn tally(&self) -> Tally {
        match &self.bulk {
            Batches::None => Tally::default(),
            Batches::Stream(stream) => stream.tally(),
            Batches::Held(held) => held.tally(),
        }
    }

    async fn end(&mut self, client: &mut impl Client) -> Result<()> {
        match &mut self.bulk {
            Batches::None => {}
            Batches::Stream(stream) => {
                self.count = stream.finish(&mut self.lanes).await?;
                return Ok(());
            }
            Batches::Held(held) => {
                let ended = held.finish(&mut self.lanes).await;
                if ended.is_err() {
                    held.abort(&mut self.lanes).await;
                }
                self.count = ended?;
                self.returned = Returned::none(held.returned());
                return Ok(());
            }
        }
        if let SinkKind::Insert(_) = self.kind {
            for i in 0..self.lanes.len() {
                // One that finds no row is sent all the same: whether it is allowed at all, a node says.
                if self.batches[i].rows > 0 || (!self.inserted && i + 1 == self.lanes.len()) {
                    self.insert_batch(i).await?;
                }
            }
            return Ok(());
        }
        for p in &mut self.lanes {
            put::copy_done(p.lane.conn.out());
            // All nodes at once; what goes wrong is seen again when the answer is read.
            let _ = push(p).await;
        }
        let mut failure: Option<ExecError> = None;
        let mut counts = Vec::with_capacity(self.lanes.len());
        let copies = self.relation.distribution().is_none();
        let skips = self.lines.as_ref().is_some_and(CopyLines::skips);
        let mut skipped = Skipped::new(client);
        for (at, p) in self.lanes.iter_mut().enumerate() {
            let client = &mut *skipped.client;
            let ended = match copies && p.lane.node != self.home {
                _ if skips => end_copy(p, false, &mut skipped).await,
                true => end_copy(p, false, &mut Nobody).await,
                false => end_copy(p, false, client).await,
            };
            match ended {
                Ok(n) => {
                    counts.push(n);
                    if self.relation.distribution().is_some() || p.lane.node == self.home {
                        self.count += n;
                    }
                }
                Err(e) => {
                    let e = match &self.lines {
                        Some(lines) => lines.restore(at, e),
                        None => e,
                    };
                    failure = Some(copy_lines::first(failure, e));
                }
            }
        }
        let done = match failure {
            Some(e) => Err(e),
            None if self.relation.is_reference() && counts.iter().any(|n| *n != self.count) => {
                Err(seen_apart(&self.relation))
            }
            None => self.lines.as_ref().map_or(Ok(()), |lines| lines.refuse_rejected(self.count)),
        };
        if done.is_ok() {
            skipped.tell();
        }
        done
    }

    /// Gives up: every node is told, and forgets what it got, but for batches that are committed: the error says so.
    pub async fn abort<C: Client>(mut self, work: &mut Work<'_, C>, error: ExecError) -> ExecError {
        self.tell_sequences(work);
        match &mut self.bulk {
            Batches::None => {}
            Batches::Stream(stream) => stream.abort(&mut self.lanes).await,
            Batches::Held(held) => held.abort(&mut self.lanes).await,
        }
        let mut error = self.tally().tell(error, self.numbered);
        self.tell_said(&mut |said| work.client.tell(said));
        for (i, mut p) in self.lanes.drain(..).enumerate() {
            if i < self.copying && p.lane.conn.outstanding() > 0 && !p.lane.conn.is_broken() {
                put::copy_fail(p.lane.conn.out(), GIVEN_UP);
                // One line earlier in the client's data counts first, as if there were one node.
                // CopyFail comes back as query_canceled.
                if let (Err(e), Some(lines)) = (end_copy(&mut p, false, &mut Nobody).await, &self.lines)
                    && e.code() != sqlstate::QUERY_CANCELED
                {
                    error = copy_lines::first(Some(error), lines.restore(i, e));
                }
            }
            work.put_back(p).await;
        }
        error
    }
}

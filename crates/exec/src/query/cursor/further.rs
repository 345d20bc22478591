//! The next rows of a cursor: node after node, or merged from what was read ahead of each.

use std::collections::VecDeque;

use bytes::Bytes;
use txn::Participant;
use wire::Frame;

use crate::client::Client;
use crate::error::Result;
use crate::query::cursor::position::ALL;
use crate::query::cursor::{Nodes, Reading, To};
use crate::query::merge::Merge as Merging;
use crate::work::Work;
use crate::work::rows::{self, Reply};

impl Nodes {
    /// So many more rows at most. `logs`: it is remembered where they came from.
    pub(super) async fn further<C: Client>(
        &mut self,
        work: &mut Work<'_, C>,
        count: u64,
        logs: bool,
        reading: &Reading<'_>,
        to: &mut To<'_>,
    ) -> Result<u64> {
        let count = count.min(self.limit.map_or(u64::MAX, |limit| limit - self.passed));
        if count == 0 {
            return Ok(0);
        }
        while self.skip > 0 {
            let skipped = self.take(work, self.skip, false, reading, &mut To::Nowhere).await?;
            self.skip -= skipped;
            if skipped == 0 {
                break;
            }
        }
        self.streams.iter_mut().filter(|_| self.passed == 0).for_each(|s| s.skipped = s.passed);
        let given = self.take(work, count, logs, reading, to).await?;
        self.passed += given;
        Ok(given)
    }

    async fn take<C: Client>(
        &mut self,
        work: &mut Work<'_, C>,
        count: u64,
        logs: bool,
        reading: &Reading<'_>,
        to: &mut To<'_>,
    ) -> Result<u64> {
        match self.merge {
            Some(_) => self.merge_on(work, count, logs, reading, to).await,
            None => self.pass_on(work, count, logs, reading, to).await,
        }
    }

    /// Rows as they come, node after node; all nodes are asked at once only if all rows are wanted.
    async fn pass_on<C: Client>(
        &mut self,
        work: &mut Work<'_, C>,
        count: u64,
        logs: bool,
        reading: &Reading<'_>,
        to: &mut To<'_>,
    ) -> Result<u64> {
        let mut given = 0;
        while given < count {
            let open = (0..self.streams.len()).filter(|i| !self.streams[*i].ended);
            let asked: Vec<usize> = open.take(if count >= ALL { usize::MAX } else { 1 }).collect();
            if asked.is_empty() {
                break;
            }
            let wanted = count - given;
            let how = match to {
                To::Nowhere if reading.key.is_none() || wanted >= ALL => format!("MOVE FORWARD {}", said(wanted)),
                _ => format!("FETCH FORWARD {}", said(wanted)),
            };
            let mut lanes = self.ask(work, &asked, &how, reading.formats).await?;
            let mut result = Ok(());
            for (i, p) in asked.iter().zip(&mut lanes) {
                match give_all(work, p, reading, to).await {
                    Ok(came) => {
                        self.last = if came > 0 { Some(*i) } else { self.last };
                        let stream = &mut self.streams[*i];
                        (stream.passed, stream.at) = (stream.passed + came, stream.passed + came);
                        if came < wanted {
                            (stream.ended, stream.at) = (true, u64::MAX);
                        }
                        if logs {
                            (0..came).for_each(|_| self.order.push(*i));
                        }
                        given += came;
                    }
                    Err(e) => {
                        result = Err(e);
                        break;
                    }
                }
            }
            work.abandon(lanes).await;
            result?;
            self.count_memory()?;
        }
        Ok(given)
    }

    /// Rows in order, from what was read ahead.
    async fn merge_on<C: Client>(
        &mut self,
        work: &mut Work<'_, C>,
        count: u64,
        logs: bool,
        reading: &Reading<'_>,
        to: &mut To<'_>,
    ) -> Result<u64> {
        if !matches!(to, To::Nowhere) {
            self.read_ahead_as(work, reading.formats).await?;
        } else if self.formats.is_empty() {
            self.read_ahead_as(work, &vec![0; reading.fields.len()]).await?;
        }
        let Some(merged) = &self.merge else { return Ok(0) };
        let visible = reading.fields.len();
        let mut merge = Merging::new(merged.sort.clone(), merged.keys.clone(), visible, self.streams.len());
        let mut given = 0;
        let mut empty = vec![true; self.streams.len()];
        let result = async {
            while given < count {
                let dry = |i: &usize| empty[*i] && self.streams[*i].ahead.is_empty() && !self.streams[*i].ended;
                let dry: Vec<usize> = (0..self.streams.len()).filter(dry).collect();
                if !dry.is_empty() {
                    self.refill(work, &dry, count - given).await?;
                }
                for (i, empty) in empty.iter_mut().enumerate().filter(|(_, empty)| **empty) {
                    let row = self.streams[i].ahead.pop_front();
                    *empty = row.is_none();
                    merge.put(i, row.map(|raw| Frame { raw }))?;
                }
                let Some(i) = merge.smallest()? else { break };
                self.streams[i].passed += 1;
                empty[i] = true;
                self.last = Some(i);
                if logs {
                    self.order.push(i);
                }
                given += 1;
                if matches!(to, To::Nowhere) && reading.key.is_none() {
                    merge.skip(i);
                } else {
                    give(work, merge.take(i)?, self.streams[i].node, reading, to).await?;
                }
            }
            Ok(())
        }
        .await;
        for (i, head) in merge.into_heads().enumerate() {
            if let Some(head) = head {
                self.streams[i].ahead.push_front(head.raw);
            }
        }
        result.map(|()| given)
    }

    /// Reads ahead of these streams.
    async fn refill<C: Client>(&mut self, work: &mut Work<'_, C>, dry: &[usize], wanted: u64) -> Result<()> {
        if self.locks && dry.len() > 1 {
            // One after the other, and always in that order: whoever else takes the first rows waits at the same node.
            for i in dry {
                Box::pin(self.refill(work, std::slice::from_ref(i), wanted)).await?;
            }
            return Ok(());
        }
        let batch = self.batch(wanted);
        let formats = self.formats.clone();
        let mut lanes = self.ask(work, dry, &format!("FETCH FORWARD {batch}"), &formats).await?;
        let mut result = Ok(());
        for (i, p) in dry.iter().zip(&mut lanes) {
            match read_all(work, p).await {
                Ok(rows) => {
                    rows.iter().for_each(|row| self.saw(row));
                    let stream = &mut self.streams[*i];
                    stream.ended = (rows.len() as u64) < batch;
                    stream.ahead.extend(rows);
                    stream.at = if stream.ended { u64::MAX } else { stream.next() };
                }
                Err(e) => {
                    result = Err(e);
                    break;
                }
            }
        }
        work.abandon(lanes).await;
        result?;
        self.count_memory()
    }

    /// Asks these streams' nodes for what comes next there.
    async fn ask<C: Client>(
        &mut self,
        work: &mut Work<'_, C>,
        streams: &[usize],
        how: &str,
        formats: &[i16],
    ) -> Result<Vec<Participant>> {
        let asked = streams.iter().map(|i| {
            let s = &self.streams[*i];
            let name = catalog::quote_ident(&s.name);
            let back = (s.at != s.next()).then(|| format!("MOVE ABSOLUTE {} FROM {name}", s.next()));
            (s.node, (back, format!("{how} FROM {name}")))
        });
        work.ask_each(asked, |_, p, (back, sql)| send(p, back.as_deref(), &sql, formats)).await
    }
}

/// Sends a FETCH, and in front of it a MOVE.
pub(super) fn send(p: &mut Participant, back: Option<&str>, sql: &str, formats: &[i16]) {
    if let Some(back) = back {
        rows::send(&mut p.lane, None, back, &[], &[], &[], &[]);
    }
    let formats = if sql.starts_with("MOVE") { &[] } else { formats };
    rows::send(&mut p.lane, None, sql, &[], &[], &[], formats);
}

fn said(count: u64) -> String {
    // What is left of all, too: nobody can ask for as many in numbers.
    if count > i32::MAX as u64 { "ALL".into() } else { count.to_string() }
}

/// Passes on what a node answers; how many rows it has fetched or moved over.
async fn give_all<C: Client>(
    work: &mut Work<'_, C>,
    p: &mut Participant,
    reading: &Reading<'_>,
    to: &mut To<'_>,
) -> Result<u64> {
    let mut count = 0;
    loop {
        match work.next_reply(&mut p.lane).await? {
            Reply::Row(frame) => give(work, &frame.raw, p.lane.node, reading, to).await?,
            Reply::Complete(tag) => count = tag.rsplit(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0),
            Reply::Done if p.lane.conn.outstanding() == 0 => return Ok(count),
            _ => {}
        }
    }
}

/// All rows of a node's answer.
pub(super) async fn read_all<C: Client>(work: &mut Work<'_, C>, p: &mut Participant) -> Result<VecDeque<Bytes>> {
    let mut rows = VecDeque::new();
    loop {
        match work.next_reply(&mut p.lane).await? {
            // Of its own: a slice would keep all that came with it.
            Reply::Row(frame) => rows.push_back(Bytes::copy_from_slice(&frame.raw)),
            Reply::Done if p.lane.conn.outstanding() == 0 => return Ok(rows),
            _ => {}
        }
    }
}

/// One row, of visible columns alone, goes where it is wanted.
pub(super) async fn give<C: Client>(
    work: &mut Work<'_, C>,
    row: &[u8],
    node: catalog::NodeId,
    reading: &Reading<'_>,
    to: &mut To<'_>,
) -> Result<()> {
    let seen = reading.key.map(|key| key.taken_from(row)).transpose()?;
    let row = seen.as_deref().unwrap_or(row);
    match to {
        To::Client => {
            work.tell_row(row, node, reading.ids)?;
            work.client.relieve().await
        }
        To::Kept(rows) => rows.push(Bytes::copy_from_slice(row)),
        To::Nowhere => Ok(()),
    }
}

//! Rows that were passed over before: asked of the nodes once more, or found among those that the router holds.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use wire::backend;

use crate::client::{Answer, Client};
use crate::error::{ExecError, Result};
use crate::query::cursor::further::{give, read_all, send};
use crate::query::cursor::{BATCH_FIRST, Kept, Nodes, Reading, To};
use crate::work::Work;

impl Nodes {
    /// Rows of these numbers, counted from 0, in this order or the other way round.
    pub(super) async fn again<C: Client>(
        &mut self,
        work: &mut Work<'_, C>,
        rows: Range<u64>,
        backward: bool,
        reading: &Reading<'_>,
        to: &mut To<'_>,
    ) -> Result<()> {
        if matches!(to, To::Nowhere) {
            return Ok(());
        }
        let Range { mut start, mut end } = rows;
        while start < end {
            let batch = self.batch(BATCH_FIRST).min(end - start);
            let stretch = match backward {
                true => end - batch..end,
                false => start..start + batch,
            };
            self.stretch(work, stretch, backward, reading, to).await?;
            match backward {
                true => end -= batch,
                false => start += batch,
            }
        }
        Ok(())
    }

    async fn stretch<C: Client>(
        &mut self,
        work: &mut Work<'_, C>,
        rows: Range<u64>,
        backward: bool,
        reading: &Reading<'_>,
        to: &mut To<'_>,
    ) -> Result<()> {
        let stretch = self.order.stretch(rows.start, rows.end, self.streams.len());
        let asked: Vec<usize> = (0..self.streams.len()).filter(|i| stretch.rows[*i] > 0).collect();
        let questions = asked.iter().map(|i| {
            let (s, name) = (&self.streams[*i], catalog::quote_ident(&self.streams[*i].name));
            let (from, count) = (s.skipped + stretch.before[*i], stretch.rows[*i]);
            let (back, sql) = match s.at == from {
                true => (None, format!("FETCH FORWARD {count} FROM {name}")),
                false if count == 1 => (None, format!("FETCH ABSOLUTE {} FROM {name}", from + 1)),
                false => {
                    let back = format!("MOVE ABSOLUTE {from} FROM {name}");
                    (Some(back), format!("FETCH FORWARD {count} FROM {name}"))
                }
            };
            (s.node, (back, sql))
        });
        let formats = self.all_formats(reading.formats);
        let mut lanes = work.ask_each(questions, |_, p, (back, sql)| send(p, back.as_deref(), &sql, &formats)).await?;
        let mut came: Vec<VecDeque<Bytes>> = vec![VecDeque::new(); self.streams.len()];
        let mut result = Ok(());
        for (i, p) in asked.iter().zip(&mut lanes) {
            self.streams[*i].at = self.streams[*i].skipped + stretch.before[*i] + stretch.rows[*i];
            match read_all(work, p).await {
                Ok(rows) if rows.len() as u64 == stretch.rows[*i] => came[*i] = rows,
                Ok(_) => result = Err(ExecError::internal("a node's cursor has lost rows")),
                Err(e) => result = Err(e),
            }
            if result.is_err() {
                break;
            }
        }
        work.abandon(lanes).await;
        result?;
        let runs = stretch.runs.iter().flat_map(|r| std::iter::repeat_n(r.stream as usize, r.rows as usize));
        let mut order: Vec<(usize, Bytes)> = runs.filter_map(|i| came[i].pop_front().map(|row| (i, row))).collect();
        if backward {
            order.reverse();
        }
        let mut visible = BytesMut::new();
        for (i, row) in order {
            let node = self.streams[i].node;
            match self.merge {
                None => give(work, &row, node, reading, to).await?,
                Some(_) => {
                    let values = backend::parse_data_row(&row[wire::frame::HEADER_LEN..])?;
                    visible.clear();
                    backend::data_row(&mut visible, values.into_iter().take(reading.fields.len()));
                    give(work, &visible, node, reading, to).await?;
                }
            }
        }
        Ok(())
    }
}

impl Kept {
    /// Rows of these numbers, counted from 0, in this order or the other way round.
    pub(super) async fn give<C: Client>(
        &self,
        work: &mut Work<'_, C>,
        rows: Range<u64>,
        backward: bool,
        reading: &Reading<'_>,
        to: &mut To<'_>,
    ) -> Result<()> {
        if !matches!(to, To::Client) {
            return Ok(());
        }
        let Range { mut start, mut end } = rows;
        while start < end {
            let batch = BATCH_FIRST.min(end - start);
            let mut some: Vec<Bytes> = match backward {
                true => (end - batch..end).rev().filter_map(|n| self.row(n).transpose()).collect::<Result<_>>()?,
                false => (start..start + batch).filter_map(|n| self.row(n).transpose()).collect::<Result<_>>()?,
            };
            if self.formats != reading.formats {
                let types = work.type_names(reading.fields).await?;
                some = work.converted(some, &types, &self.formats, reading.formats).await?;
            }
            for row in some {
                work.client.tell(Answer::Sent(&row));
                work.client.relieve().await?;
            }
            match backward {
                true => end -= batch,
                false => start += batch,
            }
        }
        Ok(())
    }

    fn row(&self, n: u64) -> Result<Option<Bytes>> {
        match n.checked_sub(self.before).and_then(|n| usize::try_from(n).ok()) {
            Some(at) => self.rows.get(at),
            None => Ok(None),
        }
    }
}

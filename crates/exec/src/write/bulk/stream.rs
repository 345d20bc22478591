//! Rows that go on as they came, each batch a COPY of its own that commits by itself.
//!
//! No batch waits for a disk: the end of all does, before anybody is told. Nothing is kept: data goes into the nodes' sockets as it comes, and while one batch is being written another may be
//! on its way. After an error nothing new begins, and every batch that has been sent is waited for, so that what is
//! committed can be said exactly.

use std::collections::VecDeque;
use wire::sqlstate;

use bytes::BytesMut;
use pool::Progress as Flow;
use txn::{Participant, Said};
use wire::{ErrorFields, Frame, backend, put};

use super::{Tally, Unflushed, WITHOUT_FLUSH, make_durable};
use crate::bulk_settings::Batching;
use crate::client::PENDING_MAX;
use crate::error::{ExecError, Result};
use crate::router::looks::Looks;

/// A COPY for each batch, one after another on every node.
pub struct Stream {
    /// `COPY t (…) FROM STDIN …`
    sql: String,
    looks: Looks,
    /// What comes first and last in every COPY: a header, the binary format's trailer.
    preamble: Vec<u8>,
    trailer: &'static [u8],
    batch_rows: u64,
    in_flight_max: u64,
    lanes: Vec<LaneStream>,
    /// The lanes of batches that are sent and not yet answered, oldest first.
    order: VecDeque<usize>,
    in_flight: u64,
    /// Rows given so far.
    taken: u64,
    tally: Tally,
    unflushed: Vec<Unflushed>,
    failure: Option<ExecError>,
}

#[derive(Default)]
struct LaneStream {
    open: Option<Batch>,
    sent: VecDeque<Batch>,
    /// What the node has said of the batch it answers now.
    count: u64,
    error: Option<ErrorFields>,
}

struct Batch {
    rows: u64,
    /// Number of its first row.
    first: u64,
}

impl Stream {
    /// # Errors
    /// What a node says against the COPY: each is asked before the client sends data.
    pub async fn begin(batching: &Batching, copy: &str, looks: Looks, lanes: &mut [Participant]) -> Result<Stream> {
        let sql = format!("{WITHOUT_FLUSH}{copy}");
        // Whether the nodes take the statement is seen before the client is asked for data: a COPY begun and given up.
        for p in lanes.iter_mut() {
            p.lane.put_query(&looks.in_front(p.lane.node, &sql));
            put::copy_fail(p.lane.conn.out(), "a try");
            p.lane.conn.flush().await?;
        }
        for p in lanes.iter_mut() {
            try_answer(p).await?;
        }
        Ok(Stream {
            sql,
            looks,
            preamble: vec![],
            trailer: &[],
            batch_rows: batching.rows_for(lanes.len(), 1),
            in_flight_max: batching.in_flight_rows,
            lanes: lanes.iter().map(|_| LaneStream::default()).collect(),
            order: VecDeque::new(),
            in_flight: 0,
            taken: 0,
            tally: Tally::default(),
            unflushed: vec![Unflushed::default(); lanes.len()],
            failure: None,
        })
    }

    /// What each COPY begins and ends with.
    pub fn preamble(&mut self, preamble: &[u8], trailer: &'static [u8]) {
        (self.preamble, self.trailer) = (preamble.to_vec(), trailer);
    }

    /// What the nodes have answered so far; whether it is on their disks is known after [`finish`](Self::finish).
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// One row, as COPY data.
    pub async fn add(&mut self, lanes: &mut [Participant], at: usize, record: &[u8]) -> Result<()> {
        self.taken += 1;
        let first = self.taken;
        let open = self.lanes[at].open.get_or_insert_with(|| {
            lanes[at].lane.put_query(&self.looks.in_front(lanes[at].lane.node, &self.sql));
            if !self.preamble.is_empty() {
                put::copy_data(lanes[at].lane.conn.out(), &self.preamble);
            }
            Batch { rows: 0, first }
        });
        open.rows += 1;
        let full = open.rows >= self.batch_rows;
        self.in_flight += 1;
        put::copy_data(lanes[at].lane.conn.out(), record);
        if full {
            self.close(lanes[at].lane.conn.out(), at);
        }
        if full || lanes[at].lane.conn.out().len() > PENDING_MAX {
            self.write(&mut lanes[at], at).await?;
        }
        while full && self.in_flight > self.in_flight_max {
            let Some(oldest) = self.order.front().copied() else { break };
            self.answer(&mut lanes[oldest], oldest).await?;
        }
        self.failure.take().map_or(Ok(()), Err)
    }

    fn close(&mut self, out: &mut BytesMut, at: usize) {
        if let Some(batch) = self.lanes[at].open.take() {
            if !self.trailer.is_empty() {
                put::copy_data(out, self.trailer);
            }
            put::copy_done(out);
            self.lanes[at].sent.push_back(batch);
            self.order.push_back(at);
        }
    }

    /// Writes what waits for a node, and reads what it says meanwhile.
    async fn write(&mut self, p: &mut Participant, at: usize) -> Result<()> {
        loop {
            let flow = p.lane.conn.flush_or_fill().await?;
            while let Some(frame) = p.lane.conn.buffered_frame()? {
                self.hear(&mut p.lane.said, at, &frame)?;
            }
            if flow == Flow::Flushed {
                return Ok(());
            }
        }
    }

    /// Waits for the answer to a node's oldest batch.
    async fn answer(&mut self, p: &mut Participant, at: usize) -> Result<()> {
        self.write(p, at).await?;
        let before = self.lanes[at].sent.len();
        while self.lanes[at].sent.len() == before && before > 0 {
            let frame = p.lane.conn.frame().await?;
            self.hear(&mut p.lane.said, at, &frame)?;
        }
        Ok(())
    }

    /// A message of a node: of the oldest batch it has not answered.
    fn hear(&mut self, said: &mut Said, at: usize, frame: &Frame) -> Result<()> {
        let lane = &mut self.lanes[at];
        match frame.tag() {
            b'C' => lane.count = backend::rows_of_tag(backend::parse_command_complete(frame.body())?),
            b'E' => {
                let fields = ErrorFields::parse(frame.body())?;
                if fields.is_fatal() {
                    return Err(pool::PoolError::Server(Box::new(fields)).into());
                }
                lane.error.get_or_insert(fields);
            }
            b'N' => said.hear(frame),
            b'Z' => {
                let batch = match lane.sent.pop_front() {
                    Some(batch) => {
                        if let Some(i) = self.order.iter().position(|l| *l == at) {
                            self.order.remove(i);
                        }
                        Some(batch)
                    }
                    None => lane.open.take(),
                };
                let count = std::mem::take(&mut lane.count);
                let error = lane.error.take();
                if let Some(batch) = batch {
                    self.in_flight -= batch.rows;
                    match error {
                        None => {
                            self.tally.committed += count;
                            self.unflushed[at].add(count, batch.first);
                        }
                        Some(fields) => {
                            self.tally.lost(batch.first);
                            self.failure.get_or_insert(ExecError::Sql(Box::new(fields)));
                        }
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Ends the stream; the rows written.
    pub async fn finish(&mut self, lanes: &mut [Participant]) -> Result<u64> {
        for (at, p) in lanes.iter_mut().enumerate() {
            self.close(p.lane.conn.out(), at);
            if self.write(p, at).await.is_err() {
                p.lane.conn.mark_broken();
            }
        }
        self.settle(lanes).await;
        match self.failure.take() {
            Some(e) => Err(e),
            None => Ok(self.tally.committed),
        }
    }

    /// Gives up what is not sent as a whole, and learns what became of the rest.
    pub async fn abort(&mut self, lanes: &mut [Participant]) {
        for (at, p) in lanes.iter_mut().enumerate() {
            if self.lanes[at].open.is_some() && !p.lane.conn.is_broken() {
                put::copy_fail(p.lane.conn.out(), "the statement was given up");
            }
        }
        self.settle(lanes).await;
        self.failure = None;
    }

    async fn all_answers(&mut self, p: &mut Participant, at: usize) -> Result<()> {
        self.write(p, at).await?;
        while !self.lanes[at].sent.is_empty() || self.lanes[at].open.is_some() {
            let frame = p.lane.conn.frame().await?;
            self.hear(&mut p.lane.said, at, &frame)?;
        }
        Ok(())
    }

    /// Waits for all answers, and for the disks. A lane that is lost takes its batches with it.
    async fn settle(&mut self, lanes: &mut [Participant]) {
        for (at, p) in lanes.iter_mut().enumerate() {
            let settled = match p.lane.conn.is_broken() {
                true => Err(ExecError::sql(sqlstate::CONNECTION_FAILURE, "a node was lost")),
                false => self.all_answers(p, at).await,
            };
            if let Err(e) = settled {
                p.lane.conn.mark_broken();
                let lane = &mut self.lanes[at];
                self.tally.doubtful |= !lane.sent.is_empty();
                if let Some(batch) = lane.sent.front().or(lane.open.as_ref()) {
                    self.tally.lost(batch.first);
                }
                self.failure.get_or_insert(e);
            }
        }
        if let Err(e) = make_durable(lanes, &mut self.unflushed, &mut self.tally).await {
            self.failure.get_or_insert(e);
        }
    }
}

/// The answer to a COPY that is given up at once; an error if it had not begun.
async fn try_answer(p: &mut Participant) -> Result<()> {
    let mut begun = false;
    let mut error = None;
    loop {
        let frame = p.lane.next().await?;
        match frame.tag() {
            b'G' => begun = true,
            b'E' if !begun => error = Some(ErrorFields::parse(frame.body())?),
            b'Z' => break,
            _ => {}
        }
    }
    error.map_or(Ok(()), |fields| Err(ExecError::Sql(Box::new(fields))))
}

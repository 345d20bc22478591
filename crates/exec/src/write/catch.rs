//! The source of `INSERT … SELECT`: read on connections of its own, while the transaction's write. What it takes from
//! sequences is remembered there; the session is told, or forgets what it knew: an older value would be wrong. It does not
//! know where the rows go.

use catalog::Oid;
use plan::Planned;
use txn::Transaction;
use wire::sqlstate;

use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::request::Request;
use crate::router::compiled::Compiled;
use crate::work::Work;
use crate::work::pin::Pin;
use crate::work::sequences::Sequences;
use crate::write::capture::Rows;
use crate::write::sink::Sink;

/// What a source has taken, as far as it can be told.
#[derive(Default)]
struct Taken {
    values: Vec<(Oid, String)>,
    last: Option<String>,
}

impl<C: Client> Work<'_, C> {
    /// Runs the source with its rows going into the sink. With `herd.snapshot` it is a transaction of its own too.
    /// `takes`: the sequences it may take values from, `None`: any.
    pub(super) async fn catch(
        &mut self,
        source: &Compiled,
        takes: Option<&[String]>,
        request: &Request<'_>,
        sink: &mut Sink,
    ) -> Result<()> {
        sink.start().await?;
        let mut reading = Transaction::default();
        reading.wants = self.transaction.wants;
        let named = takes.unwrap_or_default();
        // The connection is kept until it was asked what it remembers.
        let mut pin = if named.is_empty() { Pin::Free } else { Pin::Wanted };
        // Not the session's own: its values would be remembered in two places then.
        let mut own = Sequences::default();
        let cancelled = self.client.cancelled();
        let who = (self.login, self.settings);
        let mut reader = Work {
            sequences: Some(&mut own),
            uses: source.plan.whole().sequences.clone(),
            now: self.now.clone(),
            ..Work::plain(self.herd, self.epoch, who, &mut reading, self.client, &mut pin, self.memory)
        };
        let read = tokio::select! {
            biased;
            // A cancel for the nodes that write may find them between two batches.
            () = cancelled => Err(ExecError::cancelled()),
            read = reader.read_into(source, request, Rows::Sink(sink)) => read,
        };
        let taken = match named {
            [] => takes.map(|_| Taken::default()),
            // One that was refused, or had all of it elsewhere, has not come to home. A lost connection tells nobody.
            _ if reader.has_not_been_home() => {
                let refused = |e: &ExecError| e.code() == sqlstate::FEATURE_NOT_SUPPORTED;
                read.as_ref().err().is_none_or(refused).then(Taken::default)
            }
            _ => reader.taken(named, matches!(source.plan, Planned::Forward(_))).await,
        };
        if reading.is_active() {
            self.client.settled().await;
            reading.rollback().await;
        }
        if let Some(own) = self.sequences.as_deref_mut() {
            match taken {
                Some(taken) => taken.tell(own),
                None => own.lose(),
            }
        }
        read
    }

    /// No connection to home was kept.
    fn has_not_been_home(&self) -> bool {
        !self.transaction.has(self.home()) && matches!(self.pin, Pin::Wanted)
    }

    /// Asks the connection to home what it took. `None`: that can't be known. `alone`: nothing else can have taken any.
    async fn taken(&mut self, named: &[String], alone: bool) -> Option<Taken> {
        let mut p = self.lane(self.home()).await.ok()?;
        let mut taken = Taken::default();
        let mut known = true;
        for sequence in named {
            let sql = format!(
                "SELECT s.oid, pg_catalog.currval(s.oid), pg_catalog.lastval() \
                 FROM (SELECT {sequence}::pg_catalog.regclass::pg_catalog.oid AS oid) s"
            );
            match p.lane.rows(&sql).await.map_err(ExecError::from) {
                Ok(rows) => match rows.into_iter().next().as_deref() {
                    Some([Some(oid), Some(value), last]) => {
                        let Ok(oid) = oid.parse() else { return None };
                        taken.values.push((oid, value.clone()));
                        taken.last = last.clone();
                    }
                    _ => known = false,
                },
                Err(e) => known &= alone && e.code() == sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE,
            }
        }
        p.lane.conn.sequences = pool::Remembers::Somebodys;
        if !self.client.settled().await {
            // A cancel may still arrive there, and would hit the next client's statement.
            p.lane.conn.mark_broken();
        }
        if self.transaction.is_active() {
            self.transaction.put_back(p);
        }
        known.then_some(taken)
    }
}

impl Taken {
    fn tell(self, own: &mut Sequences) {
        let Some(last) = self.last else { return };
        for (sequence, value) in &self.values {
            own.took(*sequence, value);
        }
        own.took_last(last);
    }
}

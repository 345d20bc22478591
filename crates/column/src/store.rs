//! Looks after the copies: makes what there is be what is listed, has the stream read meanwhile, and begins again after whatever
//! goes wrong. It does not know how any of it is done.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use pool::Conn;
use tokio::time::{Instant, sleep};

use crate::copy_in::copy_in;
use crate::definition::{self, Found};
use crate::duck_error;
use crate::error::{Error, Result};
use crate::fingerprint;
use crate::jobs::Handle;
use crate::node;
use crate::published;
use crate::reopen::{Others, reopen};
use crate::replicate;
use crate::shared::{Copy, Shared, State};
use crate::slot;
use crate::wanted::{self, Wanted};

/// The list is looked at this often at least.
const POLL: Duration = Duration::from_secs(1);
/// Between tries of a copy that failed, from the first to the last.
const RETRY_FIRST: Duration = Duration::from_millis(500);
const RETRY_LAST: Duration = Duration::from_secs(60);
/// A copy of a table that is changed all the time is made so often in so long: the others have to wait meanwhile.
const MADE_MAX: usize = 30;
const MADE_IN: Duration = Duration::from_secs(120);
/// Behind a copy of so many rows the file is opened anew.
const LARGE: u64 = 122_880;
/// Between tries of everything.
const AGAIN_FIRST: Duration = Duration::from_millis(200);
const AGAIN_LAST: Duration = Duration::from_secs(10);

struct Store {
    shared: Arc<Shared>,
    writer: Handle,
    others: Others,
    /// Which copies failed: how long was waited, and until when.
    failed: HashMap<i64, (Duration, Instant)>,
    /// When copies were made, of late.
    made: Vec<(i64, Instant)>,
    /// Nothing is read of the node, lest its commits wait for that.
    stands_aside: bool,
}

/// What there is to do while the stream is not read.
#[derive(Default)]
struct Work {
    drop: Vec<i64>,
    make: Vec<Wanted>,
}

/// For as long as DuckDB lives: the error after which it does not.
pub async fn run(shared: Arc<Shared>, writer: Handle, others: Others) -> Error {
    let mut store = Store { shared, writer, others, failed: HashMap::new(), made: Vec::new(), stands_aside: false };
    let mut pause = AGAIN_FIRST;
    loop {
        let began = Instant::now();
        let Err(error) = store.round().await;
        tracing::warn!("{error}");
        if let Err(over) = store.lives().await {
            return over;
        }
        if let Error::Standby(_) = error {
            // Nobody waits for it meanwhile.
            store.shared.is_stuck(&error.to_string());
            store.stands_aside = true;
        }
        if let Error::TooMuch { .. } = error {
            store.drop_slot().await;
            pause = AGAIN_LAST;
        }
        pause = if began.elapsed() > AGAIN_LAST { AGAIN_FIRST } else { (pause * 2).min(AGAIN_LAST) };
        sleep(pause).await;
    }
}

impl Store {
    /// An error if DuckDB does nothing any more.
    async fn lives(&self) -> Result<()> {
        let asked = self.writer.call(|w| Ok(w.conn.execute_batch("SELECT 1")?)).await;
        asked.and_then(|asked| asked).or_else(|error| if duck_error::is_over(&error) { Err(error) } else { Ok(()) })
    }

    /// With one connection, until something fails.
    async fn round(&mut self) -> Result<Infallible> {
        let mut control = node::connect(&self.shared.config).await?;
        slot::prepare(&mut control, &self.shared, &self.writer).await?;
        if std::mem::take(&mut self.stands_aside) {
            self.shared.goes_on();
        }
        control.simple("LISTEN herd_column").await?;
        loop {
            let (shared, writer) = (self.shared.clone(), self.writer.clone());
            let ended = tokio::select! {
                Err(error) = replicate::stream(&shared, &writer) => Err(error),
                found = self.until_work(&mut control) => found,
            };
            self.writer.call(|w| w.end_stream()).await?;
            let work = ended?;
            self.work(&mut control, work).await?;
        }
    }

    /// The node's log need not be kept for us any more; all copies begin anew.
    async fn drop_slot(&self) {
        let dropped = async {
            let mut control = node::connect(&self.shared.config).await?;
            slot::drop(&mut control, &self.shared.config.slot).await
        };
        if let Err(error) = dropped.await {
            tracing::warn!("the slot could not be dropped: {error}");
        }
    }

    async fn until_work(&mut self, control: &mut Conn) -> Result<Work> {
        loop {
            let work = self.look(control).await?;
            if !work.make.is_empty() {
                self.wait_for_transactions(control).await?;
                return Ok(work);
            }
            if !work.drop.is_empty() {
                return Ok(work);
            }
            self.watch_slot(control).await?;
            self.lives().await?;
            tokio::select! {
                () = sleep(POLL) => {}
                () = self.shared.attention.notified() => {}
                filled = control.fill() => {
                    filled?;
                    while control.buffered_frame()?.is_some() {}
                    control.take_notifications();
                }
            }
        }
    }

    /// A first copy waits for all transactions that are open: most of that is done here, while the stream is still read.
    async fn wait_for_transactions(&self, control: &mut Conn) -> Result<()> {
        let mut conn = node::connect(&self.shared.config).await?;
        let name = format!("{}_{}", self.shared.config.slot, conn.pid());
        // It goes with its connection.
        let make = format!("SELECT pg_create_logical_replication_slot('{name}', 'pgoutput', true)");
        let making = conn.simple(&make);
        tokio::pin!(making);
        loop {
            tokio::select! {
                made = &mut making => return Ok(made.map(|_| ())?),
                () = sleep(POLL) => self.watch_slot(control).await?,
            }
        }
    }

    /// A slot that holds back too much log is worth less than the node's disk.
    async fn watch_slot(&self, control: &mut Conn) -> Result<()> {
        let config = &self.shared.config;
        slot::is_no_standby(control).await?;
        if !slot::is_published(control, &config.slot).await? {
            return Err(Error::surprise("the publication is not as it was"));
        }
        match slot::look(control, &config.slot).await? {
            Some(slot) if slot.ours && slot.held_bytes <= config.wal_bytes_max => Ok(()),
            Some(slot) if slot.ours => Err(Error::TooMuch {
                max: config.wal_bytes_max,
                what: "bytes of log are held back: the slot is dropped",
            }),
            _ => Err(Error::surprise("the slot is gone")),
        }
    }

    /// Compares what there is with what is listed.
    async fn look(&mut self, control: &mut Conn) -> Result<Work> {
        let listed = wanted::read(control).await?;
        let held = self.writer.call(|w| w.held()).await?;
        self.unpublish(control, &listed, &held).await?;
        let mut work = Work::default();
        for (id, relation) in &held {
            if !listed.iter().any(|wanted| wanted.id == *id && wanted.relation == *relation) {
                work.drop.push(*id);
            }
        }
        self.shared.copies.lock().retain(|id, _| listed.iter().any(|wanted| wanted.id == *id));
        self.failed.retain(|id, _| listed.iter().any(|wanted| wanted.id == *id));
        for wanted in listed {
            let is_held = held.contains(&(wanted.id, wanted.relation));
            self.note(&wanted, is_held);
            let changed = is_held && !self.is_as_it_was(control, &wanted).await?;
            if changed {
                work.drop.push(wanted.id);
            }
            if (changed || !is_held) && self.is_due(wanted.id) && self.can(control, &wanted).await? {
                work.make.push(wanted);
            }
        }
        Ok(work)
    }

    /// The copy is among those that are known.
    fn note(&self, wanted: &Wanted, is_held: bool) {
        let state = if is_held { State::Ready } else { State::Copying };
        let mut copies = self.shared.copies.lock();
        let new = || Copy { relation: wanted.relation, table: String::new(), state, why: String::new(), rows: 0 };
        let copy = copies.entry(wanted.id).or_insert_with(new);
        (copy.relation, copy.table) = (wanted.relation, wanted.table.clone());
    }

    async fn is_as_it_was(&self, control: &mut Conn, wanted: &Wanted) -> Result<bool> {
        let id = wanted.id;
        let was = self.writer.call(move |w| w.made_of(id)).await??;
        let rows = control.simple(&fingerprint::question(wanted.relation, &self.shared.config.slot)).await?;
        let same = match (fingerprint::answer(&rows)?, was) {
            (Some(now), Some((was, columns))) => now.fingerprint == was && columns == wanted.columns,
            _ => false,
        };
        if !same {
            self.shared.is_changed(id, "the table was changed");
        }
        let reported = self.shared.copies.lock().get(&id).is_some_and(|copy| copy.state == State::Rebuilding);
        Ok(same && !reported)
    }

    fn is_due(&mut self, id: i64) -> bool {
        self.made.retain(|(_, when)| when.elapsed() <= MADE_IN);
        if self.made.iter().filter(|(of, _)| *of == id).count() >= MADE_MAX {
            return false;
        }
        self.failed.get(&id).is_none_or(|(_, until)| *until <= Instant::now())
    }

    /// Whether it can be copied; if not, it is said why.
    async fn can(&mut self, control: &mut Conn, wanted: &Wanted) -> Result<bool> {
        match definition::read(control, wanted).await? {
            Found::Can(table) => {
                if let Some(copy) = self.shared.copies.lock().get_mut(&wanted.id) {
                    copy.table = format!("{}.{}", table.schema, table.name);
                }
                Ok(true)
            }
            Found::Gone => {
                self.shared.set_state(wanted.id, State::Refused, "there is no such table on this node");
                Ok(false)
            }
            Found::Refused(table, why) => {
                if let Some(copy) = self.shared.copies.lock().get_mut(&wanted.id) {
                    (copy.table, copy.state, copy.why) = (table, State::Refused, why);
                }
                Ok(false)
            }
        }
    }

    async fn work(&mut self, control: &mut Conn, work: Work) -> Result<()> {
        for id in work.drop {
            self.writer.call(move |w| w.drop_copy(id)).await??;
        }
        let mut large = false;
        for wanted in work.make {
            let id = wanted.id;
            self.shared.set_state(id, State::Copying, "");
            match self.make(control, &wanted).await {
                Ok(()) => {
                    self.failed.remove(&id);
                    self.made.push((id, Instant::now()));
                    large |= self.shared.copies.lock().get(&id).is_some_and(|copy| copy.rows >= LARGE);
                }
                // The connection is fine: it is this copy's.
                Err(error @ (Error::Copy { .. } | Error::Duck(_) | Error::Surprise(_) | Error::Node(_)))
                    if !control.is_broken() =>
                {
                    let waited = self.failed.get(&id).map_or(RETRY_FIRST, |(waited, _)| (*waited * 2).min(RETRY_LAST));
                    self.failed.insert(id, (waited, Instant::now() + waited));
                    tracing::warn!("copy {id} could not be made: {error}");
                    self.shared.set_state(id, State::Rebuilding, &error.to_string());
                    self.writer.call(move |w| w.drop_copy(id)).await??;
                }
                Err(error) => return Err(error),
            }
        }
        if large {
            let done = reopen(&self.writer, &self.others).await?;
            tracing::info!("the file of copies was {}opened anew", if done { "" } else { "in use, and not " });
        }
        Ok(())
    }

    /// Makes one copy, while the slot is looked after: it holds back log meanwhile.
    async fn make(&self, control: &mut Conn, wanted: &Wanted) -> Result<()> {
        let guard = async {
            let mut conn = node::connect(&self.shared.config).await?;
            loop {
                sleep(POLL).await;
                self.watch_slot(&mut conn).await?;
            }
        };
        tokio::select! {
            done = copy_in(&self.shared, &self.writer, control, wanted) => done,
            failed = guard => failed,
        }
    }

    /// Of what is neither listed nor held, or can't be copied, no changes are told any more: whoever published it may not have come to the end of it.
    async fn unpublish(&self, control: &mut Conn, listed: &[Wanted], held: &[(i64, u32)]) -> Result<()> {
        let sql = format!(
            "SELECT c.oid, n.nspname, c.relname FROM pg_publication p JOIN pg_publication_rel r ON r.prpubid = p.oid JOIN pg_class c ON c.oid = r.prrelid
             JOIN pg_namespace n ON n.oid = c.relnamespace WHERE p.pubname = {}",
            catalog::quote_literal(&self.shared.config.slot)
        );
        for row in control.simple(&sql).await? {
            let [Some(relation), Some(schema), Some(name)] = row.as_slice() else { continue };
            let Ok(relation) = relation.parse::<u32>() else { continue };
            let is_refused =
                |id: i64| self.shared.copies.lock().get(&id).is_some_and(|copy| copy.state == State::Refused);
            let is_wanted = listed.iter().any(|wanted| wanted.relation == relation && !is_refused(wanted.id));
            if !is_wanted && held.iter().all(|(_, of)| *of != relation) {
                control.simple(&published::without(&self.shared.config.slot, relation, schema, name)).await?;
            }
        }
        Ok(())
    }
}

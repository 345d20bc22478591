//! One read, in five steps: (1) where does the node's log end, (2) wait until that is applied, (3) take a snapshot of the copies,
//! (4) ask the node whether the tables are still what the copies were made of, if that is not known (`unchanged.rs`), (5) run the SELECT in the snapshot.
//!
//! Where all is applied that is known of the log, (3) and (5) begin beside (1): if the log turns out to end where the snapshot does, or before, the
//! snapshot has all that was committed when the read began, and else it begins again as above.
//!
//! What a snapshot has that the node does not show yet (`unseen.rs`) is waited for beside (5).
//!
//! Why (4) is after (3): what rewrote a table before (4) is seen by (4); what rewrites it later is not in the snapshot.
//! It does not know who asks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use duckdb::arrow::record_batch::RecordBatch;
use tokio::sync::oneshot;
use tokio::time::timeout;
use wire::backend;

use crate::duck;
use crate::error::{Error, Result};
use crate::fingerprint::Facts;
use crate::freshness::{End, Freshness, Moment};
use crate::jobs::Handle;
use crate::kept::{Kept, Rows};
use crate::print::{As, Zeros, put_rows};
use crate::query::{Query, Table};
use crate::readers::Readers;
use crate::shared::{Made, Shared, State};
use crate::unchanged::{Seen, Unchanged};

/// Answers questions. All clones are one.
#[derive(Clone)]
pub struct Reads {
    pub shared: Arc<Shared>,
    pub freshness: Freshness,
    pub readers: Readers,
    pub writer: Handle,
    pub unchanged: Arc<Unchanged>,
    pub kept: Arc<Kept>,
}

/// Messages for the client, and how many rows are among them.
pub struct Answer {
    pub messages: BytesMut,
    pub rows: u64,
}

impl Reads {
    /// The whole answer, or an error and nothing of it.
    pub async fn read(&self, query: Query) -> Result<Answer> {
        let came = Instant::now();
        self.all_are_ready(&query.tables)?;
        self.is_asked_of(&query)?;
        let query = Arc::new(query);
        if query.stale_ms.is_none()
            && self.shared.is_level()
            && let Some(answer) = self.read_at_once(&query, came).await?
        {
            return Ok(answer);
        }
        let moment = self.fresh(&query, came).await?;
        self.snapshot_and_run(&query, came, async { Ok(Some(moment)) }).await?.ok_or(Error::Gone)
    }

    /// `None`: the log had gone on, or it is not known.
    async fn read_at_once(&self, query: &Arc<Query>, came: Instant) -> Result<Option<Answer>> {
        let of = self.shared.identity.lock().clone();
        let applied = self.shared.applied();
        let seen = async {
            let end = timeout(left(query, came), self.freshness.end()).await;
            let Ok(Ok(End { lsn, moment })) = end else { return Ok(None) };
            // Positions of one server say nothing of another.
            let is_all = lsn <= applied && *self.shared.identity.lock() == of;
            Ok(is_all.then_some(moment))
        };
        self.snapshot_and_run(query, came, seen).await
    }

    /// Steps 3 to 5, with the moment that they are good for; `None` where that is none.
    async fn snapshot_and_run(
        &self,
        query: &Arc<Query>,
        came: Instant,
        moment: impl Future<Output = Result<Option<Option<Moment>>>>,
    ) -> Result<Option<Answer>> {
        let busy = |_| Error::NotFresh("others are read, and none of them has ended yet".into());
        let mut reader = timeout(left(query, came), self.readers.get()).await.map_err(busy)??;
        let (applied, shared, kept) = (self.shared.applied(), self.shared.clone(), self.kept.clone());
        let (began, begun) = oneshot::channel();
        let asked = query.clone();
        let answer = reader.run(move |conn| {
            let Snapshot { made, content, rows } = snapshot(conn, &shared, &asked.tables)?;
            // A copy that is newer than all others are is not read until they are as new.
            if let Some(made) = made.iter().find(|made| made.since > applied) {
                return Err(Error::NotFresh(format!("a copy is as of {}, and the others as of {applied}", made.since)));
            }
            let zeros = if made.iter().any(|made| made.signed_zeros) { Zeros::Unsure } else { Zeros::Sure };
            let has_first_bytes = made.iter().all(|made| made.first_bytes);
            // Whoever commits later than this is not in the snapshot.
            let unseen = shared.unseen.all();
            let _ = began.send((made, content, unseen));
            run(conn, &asked, has_first_bytes, zeros, rows.as_ref().map(|rows| (&*kept, rows)))
        });
        let same = async {
            let (begun, moment) = tokio::join!(begun, moment);
            let Some(moment) = moment? else { return Ok::<_, Error>(false) };
            // Else the answer says why there is no snapshot.
            if let Ok((made, content, unseen)) = begun {
                if query.stale_ms.is_none() {
                    let shown = timeout(left(query, came), self.freshness.shows(unseen, moment.clone()));
                    let late = |_| Error::NotFresh("a commit waits for a standby of the node".into());
                    shown.await.map_err(late)??;
                }
                let seen = moment.zip(content).map(|(moment, content)| Seen { moment, content });
                self.all_are_same(&query.tables, &made, seen.as_ref()).await?;
            }
            self.is_asked_of(query)?;
            Ok(true)
        };
        tokio::pin!(same, answer);
        // A table that is another one now may be why it failed; and if it is, or more has been written, nobody waits for the rows.
        tokio::select! {
            biased;
            is_good = &mut same => if is_good? { answer.await.map(Some) } else { Ok(None) },
            answer = &mut answer => if same.await? { answer.map(Some) } else { Ok(None) },
        }
    }

    /// Copies are of the server that the asker has for the node, and not of another with the same tables: one that it was restored from, or that was
    /// followed by a standby.
    fn is_asked_of(&self, query: &Query) -> Result<()> {
        let Some(server) = &query.server else { return Ok(()) };
        let own = self.shared.identity.lock().as_ref().map(ToString::to_string);
        match own.as_ref() == Some(server) {
            true => Ok(()),
            false => Err(Error::Changed(format!(
                "the copies are of server {}, and the asker's node is {server}",
                own.as_deref().unwrap_or("none yet")
            ))),
        }
    }

    fn all_are_ready(&self, tables: &[Table]) -> Result<()> {
        let copies = self.shared.copies.lock();
        for table in tables {
            match copies.get(&table.copy) {
                Some(copy) if copy.state == State::Ready => {}
                Some(copy) => {
                    return Err(Error::Changed(format!("copy {} is {}: {}", table.copy, copy.state.word(), copy.why)));
                }
                None => return Err(Error::Changed(format!("there is no copy {}", table.copy))),
            }
        }
        Ok(())
    }

    /// What a table is: the node is asked, if it may have changed.
    async fn facts(&self, relation: u32, seen: Option<&Seen>) -> Result<Option<Facts>> {
        if let Some(facts) = seen.and_then(|seen| self.unchanged.facts(relation, seen)) {
            return Ok(Some(facts));
        }
        let told = self.freshness.table(relation).await?;
        if let Some(seen) = seen {
            self.unchanged.found(relation, seen, &told);
        }
        Ok(told.map(|(facts, _)| facts))
    }

    /// Steps 1 and 2. With a bound, nothing is waited for where all that was committed that long ago is known to be applied: the node was
    /// asked where its log ends at a moment that is not longer ago, and all of that is applied. Where that is not known, it is as without a bound.
    async fn fresh(&self, query: &Query, came: Instant) -> Result<Option<Moment>> {
        if let Some(stale_ms) = query.stale_ms
            && self.shared.fresh_as_of().is_some_and(|as_of| as_of + Duration::from_millis(stale_ms) >= came)
        {
            return Ok(None);
        }
        let reached = async {
            let End { lsn: end, moment } = self.freshness.end().await?;
            if self.shared.applied() < end {
                // It may be read already, and wait for being committed.
                self.shared.want(end);
                self.writer.nudge();
                self.freshness.reach(end).await?;
            }
            Ok(moment)
        };
        let wait = left(query, came);
        let late = |_| Error::NotFresh(format!("the node's changes were not applied within {} ms", query.wait_ms));
        timeout(wait, reached).await.map_err(late)?
    }

    /// Step 4.
    async fn all_are_same(&self, tables: &[Table], made: &[Made], seen: Option<&Seen>) -> Result<()> {
        for (table, made) in tables.iter().zip(made) {
            let Some(now) = self.facts(made.relation, seen).await?.filter(|now| now.fingerprint == made.fingerprint)
            else {
                self.shared.is_changed(table.copy, "the table was changed");
                return Err(Error::Changed(format!("the table of copy {} is not what was copied", table.copy)));
            };
            if (&*now.schema, &*now.name, &*now.shards) != (&*table.schema, &*table.name, &*table.shards) {
                return Err(Error::Changed(format!(
                    "copy {} is of {}.{} with shards {}, which is not what was asked for",
                    table.copy, now.schema, now.name, now.shards
                )));
            }
        }
        Ok(())
    }
}

/// How long may still be waited for the node.
fn left(query: &Query, came: Instant) -> Duration {
    Duration::from_millis(query.wait_ms).saturating_sub(came.elapsed())
}

/// What a read sees.
struct Snapshot {
    /// Of each copy, what it is made of.
    made: Vec<Made>,
    /// The number of all that there is, if it is known.
    content: Option<u64>,
    /// Of one copy alone, which rows it has lost, if it is known.
    rows: Option<Rows>,
}

/// Step 3. BEGIN takes the snapshot (`immediate_transaction_mode`), and what is told of the copies is what is in it.
fn snapshot(conn: &duckdb::Connection, shared: &Shared, tables: &[Table]) -> Result<Snapshot> {
    let removals = match tables {
        [one] => Some((one.copy, shared.removals.of(one.copy))),
        _ => None,
    };
    let made = shared.made.read();
    let content = shared.content.number();
    let before = removals.as_ref().and_then(|(_, of)| of.number());
    conn.execute_batch("BEGIN TRANSACTION READ ONLY")?;
    let content = content.filter(|number| shared.content.number() == Some(*number));
    let of = |table: &Table| {
        let found = made.get(&table.copy).ok_or_else(|| Error::Changed(format!("there is no copy {}", table.copy)))?;
        // It may have been made anew since it was planned for.
        match found.has(&table.columns) {
            true => Ok(found.clone()),
            false => Err(Error::Changed(format!("copy {} has other columns than the question", table.copy))),
        }
    };
    let rows = removals.zip(before).filter(|((_, of), before)| of.number() == Some(*before));
    let made: Vec<Made> = tables.iter().map(of).collect::<Result<_>>()?;
    let rows = rows.zip(made.first()).map(|(((copy, _), removals), made)| Rows { copy, since: made.since, removals });
    Ok(Snapshot { made, content, rows })
}

/// Step 5. Of several SELECTs, a row comes first that says how many rows each has; then come theirs.
fn run(
    conn: &duckdb::Connection,
    query: &Query,
    has_first_bytes: bool,
    zeros: Zeros,
    kept: Option<(&Kept, &Rows)>,
) -> Result<Answer> {
    let mut all = Vec::with_capacity(query.selects.len());
    let mut rows_left = query.rows_max;
    for select in &query.selects {
        let sql = select.by_first_bytes.as_ref().filter(|_| has_first_bytes).unwrap_or(&select.sql);
        if query.explain {
            return Ok(plan(&duck::plan(conn, sql)?));
        }
        let batches = match kept.filter(|_| select.in_pieces) {
            Some((kept, rows)) => kept.all(conn, sql, rows)?,
            None => duck::all(conn, sql)?,
        };
        if let Some(columns) = batches.iter().map(RecordBatch::num_columns).find(|n| *n != select.types.len()) {
            return Err(Error::Answer(format!("there are {columns} columns, and types of {}", select.types.len())));
        }
        let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
        let too_many = Error::TooMuch { max: query.rows_max, what: "rows" };
        rows_left = rows_left.checked_sub(rows).ok_or(too_many)?;
        all.push((&select.types, batches, rows));
    }
    let mut messages = BytesMut::new();
    let rows = all.iter().map(|(_, _, rows)| *rows).sum::<u64>();
    if let [(types, batches, _)] = &*all {
        put_described(&mut messages, types, batches);
    } else {
        backend::row_description(&mut messages, &[backend::Field::text("rows")]);
        let counts: Vec<String> = all.iter().map(|(_, _, rows)| rows.to_string()).collect();
        backend::data_row(&mut messages, counts.iter().map(|count| Some(count.as_bytes())));
    }
    for (types, batches, _) in &all {
        for batch in batches {
            put_rows(batch, types, zeros, &mut messages, query.bytes_max as usize)?;
        }
    }
    Ok(Answer { messages, rows })
}

/// What rows have.
fn put_described(messages: &mut BytesMut, types: &[As], batches: &[RecordBatch]) {
    if let Some(batch) = batches.first() {
        let names: Vec<String> = batch.schema().fields().iter().map(|field| field.name().clone()).collect();
        describe(messages, types, &names);
    } else {
        describe(messages, types, &vec![String::new(); types.len()]);
    }
}

/// Line by line.
fn plan(text: &str) -> Answer {
    let mut messages = BytesMut::new();
    backend::row_description(&mut messages, &[backend::Field::new("plan", wire::type_oid::TEXT, -1)]);
    text.lines().for_each(|line| backend::data_row(&mut messages, std::iter::once(Some(line.as_bytes()))));
    Answer { messages, rows: text.lines().count() as u64 }
}

fn describe(messages: &mut BytesMut, types: &[As], names: &[String]) {
    let fields: Vec<_> = types.iter().zip(names).map(|(shown, name)| shown.field(name)).collect();
    backend::row_description(messages, &fields);
}

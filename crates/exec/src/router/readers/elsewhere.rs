//! Whether transactions of other routers read a table that have begun on no node: who wants the table for himself asks them, and each answers
//! when there are none, or when the time is over. A question and its answers are notifications, each under the herd's seal.
//!
//! A router that is alive answers at once. One that says nothing, to home neither, for [`barrier::WAIT_MAX`], is taken for dead: should it live, it finds that
//! it is overdue (`router/lease.rs`), and transactions that have read there so are not gone on with (session `reading.rs`). It does not know what the table is wanted for.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use catalog::{Oid, quote_literal};
use parking_lot::Mutex;
use pool::PoolError;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::router::barrier;
use crate::router::herd::Herd;
use crate::router::pause::PAUSE_MAX;

/// Beyond what it may wait for its readers, a router has so long to answer, or to be heard of by home.
const ANSWER_MAX: Duration = barrier::WAIT_MAX;

/// Of one question: a notification has less than 8000 bytes.
const TABLES_MAX: usize = 500;
/// More routers than a herd has.
const ROUTERS_MAX: usize = 256;
/// Questions of a router that are older than its last so many are not answered.
const WINDOW: u64 = 4096;

/// What a router says: its number, and whether it reads the table.
type Answer = (u64, bool);

/// The questions of this router that wait for answers.
#[derive(Default)]
pub struct Questions {
    open: Mutex<HashMap<u64, mpsc::Sender<Answer>>>,
    numbers: AtomicU64,
    /// Those of others that were heard, by their router: anybody can say one again.
    heard: Mutex<HashMap<u64, Heard>>,
}

/// Nobody waits for its answers when this is dropped.
struct Open<'q> {
    questions: &'q Questions,
    number: u64,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.questions.open.lock().remove(&self.number);
    }
}

/// Questions of one router.
#[derive(Default)]
struct Heard {
    last: u64,
    lately: HashSet<u64>,
}

impl Heard {
    /// Several may come in another order than they were numbered in.
    fn is_new(&mut self, number: u64) -> bool {
        if number + WINDOW <= self.last || !self.lately.insert(number) {
            return false;
        }
        self.last = self.last.max(number);
        if self.lately.len() as u64 > 2 * WINDOW {
            let last = self.last;
            self.lately.retain(|n| n + WINDOW > last);
        }
        true
    }
}

impl Questions {
    fn is_new(&self, router: u64, number: u64) -> bool {
        let mut heard = self.heard.lock();
        if heard.len() >= ROUTERS_MAX && !heard.contains_key(&router) {
            heard.clear();
        }
        heard.entry(router).or_default().is_new(number)
    }
}

impl Herd {
    /// Whether any other router reads one of the tables so, when `wait` is over at the latest.
    pub(crate) async fn are_read_elsewhere(&self, tables: &[Oid], wait: Duration) -> Result<bool, PoolError> {
        for some in tables.chunks(TABLES_MAX) {
            if self.ask_of(some, wait).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn ask_of(&self, tables: &[Oid], wait: Duration) -> Result<bool, PoolError> {
        let questions = &self.elsewhere;
        let number = questions.numbers.fetch_add(1, Ordering::Relaxed);
        let (says, mut answers) = mpsc::channel(ROUTERS_MAX);
        questions.open.lock().insert(number, says);
        let _open = Open { questions, number };
        self.ask_elsewhere(number, tables, wait, &mut answers).await
    }

    async fn ask_elsewhere(
        &self,
        number: u64,
        tables: &[Oid],
        wait: Duration,
        answers: &mut mpsc::Receiver<Answer>,
    ) -> Result<bool, PoolError> {
        let wait = wait.min(PAUSE_MAX);
        let oids = tables.iter().map(Oid::to_string).collect::<Vec<_>>().join(",");
        let question = self.pauses.sealed(format!("read? {} {number} {oids} {}", self.router, wait.as_millis()));
        // Who comes later finds locks on the nodes, or waits in front of the table.
        let others = format!(
            "SELECT r.id, pg_catalog.clock_timestamp() FROM herd.router r \
              WHERE r.id OPERATOR(pg_catalog.<>) {} AND r.answers AND r.seen OPERATOR(pg_catalog.>) (pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) interval '{} ms')",
            self.router as i64,
            barrier::WAIT_MAX.as_millis(),
        );
        let rows = self.own.rows(&self.config.home, &others).await?;
        let asked = rows.first().and_then(|r| r.get(1)?.clone()).unwrap_or_default();
        let id = |row: &Vec<Option<String>>| row.first()?.as_deref()?.parse::<i64>().ok();
        let mut silent: HashSet<u64> = rows.iter().filter_map(id).map(|id| id as u64).collect();
        if silent.is_empty() {
            return Ok(false);
        }
        let end = Instant::now() + wait + ANSWER_MAX;
        self.own.rows(&self.config.home, &notify(&question)).await?;
        while !silent.is_empty() {
            match tokio::time::timeout_at(end, answers.recv()).await {
                Ok(Some((_, true))) => return Ok(true),
                Ok(Some((router, false))) => drop(silent.remove(&router)),
                Ok(None) => break,
                Err(_) => return self.live(&silent, &asked).await,
            }
        }
        Ok(false)
    }

    /// Whether one of those who said nothing has been heard of since: it has not heard the question, and is to be asked again.
    async fn live(&self, silent: &HashSet<u64>, asked: &str) -> Result<bool, PoolError> {
        let ids = silent.iter().map(|id| (*id as i64).to_string()).collect::<Vec<_>>().join(",");
        let look = format!(
            "SELECT EXISTS (SELECT FROM herd.router r WHERE r.id OPERATOR(pg_catalog.=) ANY ('{{{ids}}}'::pg_catalog.int8[]) \
             AND r.seen OPERATOR(pg_catalog.>) {}::pg_catalog.timestamptz)",
            quote_literal(asked)
        );
        let rows = self.own.rows(&self.config.home, &look).await?;
        let live = rows.first().and_then(|r| r.first()?.as_deref()) == Some("t");
        if !live {
            tracing::info!(routers = silent.len(), "routers did not say what they read: taken for dead");
        }
        Ok(live)
    }

    /// Answers another router's question, or takes its answer. What is neither is nothing.
    pub fn heed_readers(self: &Arc<Self>, said: &str) {
        let Some((text, _)) = said.rsplit_once(' ') else { return };
        let mut words = text.split(' ');
        let what = words.next();
        let numbers: Option<(u64, u64)> =
            words.next().zip(words.next()).and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        let Some((router, number)) = numbers.filter(|_| matches!(what, Some("read?" | "read!"))) else { return };
        if self.pauses.sealed(text.to_string()) != said {
            return;
        }
        match what {
            Some("read?") if router != self.router && self.elsewhere.is_new(router, number) => {
                let tables: Vec<Oid> =
                    words.next().into_iter().flat_map(|t| t.split(',')).filter_map(|t| t.parse().ok()).collect();
                let wait = words.next().and_then(|ms| ms.parse().ok()).map_or(Duration::ZERO, Duration::from_millis);
                tokio::spawn(self.clone().answer(router, number, tables, wait.min(PAUSE_MAX)));
            }
            Some("read!") if router == self.router => {
                let (from, read) = (words.next().and_then(|w| w.parse().ok()), words.next() == Some("1"));
                if let (Some(from), Some(says)) = (from, self.elsewhere.open.lock().get(&number)) {
                    let _ = says.try_send((from, read));
                }
            }
            _ => {}
        }
    }

    async fn answer(self: Arc<Self>, router: u64, number: u64, tables: Vec<Oid>, wait: Duration) {
        let gone = tokio::time::timeout(wait, self.readers.gone(&tables, None)).await;
        let read = u8::from(gone.is_err());
        let answer = self.pauses.sealed(format!("read! {router} {number} {} {read}", self.router));
        if let Err(e) = self.own.rows(&self.config.home, &notify(&answer)).await {
            tracing::debug!(error = %e, "another router was not told what is read here");
        }
    }
}

fn notify(text: &str) -> String {
    format!("NOTIFY {}, {}", catalog::schema::EPOCH_CHANNEL, quote_literal(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_answered_once() {
        let mut heard = Heard::default();
        assert!([5, 3, 4, 9, 0].into_iter().all(|n| heard.is_new(n)));
        assert!(![5, 3, 4, 9, 0].into_iter().any(|n| heard.is_new(n)));
        assert!((10..100_000).all(|n| heard.is_new(n)) && heard.lately.len() as u64 <= 2 * WINDOW);
        assert!(!(0..100_000).any(|n| heard.is_new(n)));
    }
}

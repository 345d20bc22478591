//! Whether transactions of other routers read a table that have begun on no node: who wants the table for himself asks them, and each answers
//! when there are none, or when the time is over. A question and its answers are notifications, each under the herd's seal.
//!
//! A router that is alive answers at once, and one that says nothing serves nobody: its lease on the catalog has run out
//! (`router/lease.rs`). It does not know what the table is wanted for.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use catalog::{Oid, quote_literal};
use parking_lot::Mutex;
use pool::PoolError;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::router::herd::Herd;
use crate::router::pause::PAUSE_MAX;

/// Beyond what it may wait for its readers, a router has so long to answer; longer than its lease, with what it may have been seen ago.
const ANSWER_MAX: Duration = Duration::from_millis(1500);
/// A router that home has heard nothing of for so long has no lease.
const SEEN: &str = "2 s";

/// What a router says: its number, and whether it reads the table.
type Answer = (u64, bool);

/// The questions of this router that wait for answers.
#[derive(Default)]
pub struct Questions {
    open: Mutex<HashMap<u64, mpsc::UnboundedSender<Answer>>>,
    numbers: AtomicU64,
}

impl Herd {
    /// Whether any other router reads one of the tables so, when `wait` is over at the latest.
    pub(crate) async fn are_read_elsewhere(&self, tables: &[Oid], wait: Duration) -> Result<bool, PoolError> {
        let questions = &self.elsewhere;
        let number = questions.numbers.fetch_add(1, Ordering::Relaxed);
        let (says, mut answers) = mpsc::unbounded_channel();
        questions.open.lock().insert(number, says);
        let asked = self.ask_elsewhere(number, tables, wait, &mut answers).await;
        questions.open.lock().remove(&number);
        asked
    }

    async fn ask_elsewhere(
        &self,
        number: u64,
        tables: &[Oid],
        wait: Duration,
        answers: &mut mpsc::UnboundedReceiver<Answer>,
    ) -> Result<bool, PoolError> {
        let wait = wait.min(PAUSE_MAX);
        let oids = tables.iter().map(Oid::to_string).collect::<Vec<_>>().join(",");
        let question = self.pauses.sealed(format!("read? {} {number} {oids} {}", self.router, wait.as_millis()));
        // Who comes later finds locks on the nodes, or waits in front of the table.
        let others = format!(
            "SELECT r.id FROM herd.router r WHERE r.id <> {} AND r.seen > pg_catalog.clock_timestamp() - interval '{SEEN}'",
            self.router as i64,
        );
        let rows = self.own.rows(&self.config.home, &others).await?;
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
                Err(_) => {
                    tracing::info!(routers = silent.len(), "routers did not say what they read: taken for dead");
                    break;
                }
            }
        }
        Ok(false)
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
            Some("read?") if router != self.router => {
                let tables: Vec<Oid> =
                    words.next().into_iter().flat_map(|t| t.split(',')).filter_map(|t| t.parse().ok()).collect();
                let wait = words.next().and_then(|ms| ms.parse().ok()).map_or(Duration::ZERO, Duration::from_millis);
                tokio::spawn(self.clone().answer(router, number, tables, wait.min(PAUSE_MAX)));
            }
            Some("read!") if router == self.router => {
                let (from, read) = (words.next().and_then(|w| w.parse().ok()), words.next() == Some("1"));
                if let (Some(from), Some(says)) = (from, self.elsewhere.open.lock().get(&number)) {
                    let _ = says.send((from, read));
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

//! Who wants to begin with a table waits a moment while a change takes its locks on all nodes.
//!
//! A change needs its locks everywhere at once. A transaction that has the table on one node and wants it on another would
//! wait for the change there, and the change for it here: with many writers there is always one. So transactions that
//! have touched none of its tables yet wait in front of them, at the routers, those that have go on, and soon nobody is in the way.
//! Afterwards whoever waited is planned by the new catalog. Nothing rests on this but that changes come through: locks and
//! names of partitions (`router/looks.rs`) keep answers right where a statement slips by. A pause ends by itself, too. It does not know
//! what changes, nor how locks are taken.
//!
//! Other routers are told by notifications, which any client can send: each is under the herd's seal, and heeded once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use catalog::{Oid, quote_literal};
use parking_lot::Mutex;
use tokio::sync::Notify;
use txn::Seal;

use crate::router::herd::Herd;

/// No statement waits longer than this in one go, whatever was announced.
pub const PAUSE_MAX: Duration = Duration::from_millis(1000);
/// How long a pause stays that is kept, if it is not ended: long enough for a commit.
const KEPT: Duration = Duration::from_millis(3000);
/// How long statements may be on their way to a node that began before a pause.
pub const SETTLE: Duration = Duration::from_millis(10);
/// How often it is renewed.
const KEEP_EVERY: Duration = Duration::from_millis(400);
/// Stands for the catalog's lock: no table has this object id.
pub const CATALOG: Oid = 0;
/// Routers whose last word is remembered.
const ROUTERS_MAX: usize = 256;

/// Who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    Writers,
    /// Statements in transactions that go on, whatever they do: those keep what they take.
    Blocks,
    All,
}

/// A statement that begins.
#[derive(Clone, Copy, Debug)]
pub struct Begins {
    pub writes: bool,
    pub in_block: bool,
}

impl Who {
    const EACH: [(&str, Who); 3] = [("w", Who::Writers), ("b", Who::Blocks), ("a", Who::All)];

    fn waits(self, statement: Begins) -> bool {
        match self {
            Who::Writers => statement.writes,
            Who::Blocks => statement.in_block,
            Who::All => true,
        }
    }
}

/// The pauses of this router's changes, and of those that others have announced.
pub struct Pauses {
    router: u64,
    seal: Seal,
    /// How many there are: all that is looked at for a statement while there are none.
    count: AtomicUsize,
    all: Mutex<All>,
    ended: Notify,
    numbers: AtomicU64,
}

#[derive(Default)]
struct All {
    pauses: Vec<Pause>,
    /// The newest of each other router that was heard of.
    heard: HashMap<u64, u64>,
}

#[derive(Clone, Debug)]
struct Pause {
    /// Whose it is, and which of his.
    router: u64,
    number: u64,
    tables: Vec<Oid>,
    who: Who,
    until: Instant,
    /// Who has it waits for nobody, and renews it as long as that lasts.
    kept: bool,
    announced: bool,
}

impl Pauses {
    /// No pauses yet. `router`: whose these are; `seal`: what announcements are under.
    pub fn new(router: u64, seal: Seal) -> Self {
        let (count, numbers) = (AtomicUsize::new(0), AtomicU64::new(1));
        Pauses { router, seal, count, all: Mutex::default(), ended: Notify::new(), numbers }
    }

    /// Nobody waits or will: no pause is begun.
    #[inline]
    pub fn none(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Tables by their object ids on home. The number is for [`end`](Self::end).
    pub fn begin(&self, tables: &[Oid], who: Who, length: Duration) -> u64 {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let until = Instant::now() + length.min(PAUSE_MAX);
        let tables = tables.to_vec();
        self.add(Pause { router: self.router, number, tables, who, until, kept: false, announced: false });
        number
    }

    /// As [`begin`](Self::begin), by one who has all locks he needs, and begins it again before it ends: whoever waits for it may wait
    /// for longer than for others, since he is waited for by nobody it needs.
    fn renew(&self, tables: &[Oid], who: Who) -> u64 {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let (until, tables) = (Instant::now() + KEPT, tables.to_vec());
        self.add(Pause { router: self.router, number, tables, who, until, kept: true, announced: false });
        number
    }

    fn add(&self, pause: Pause) {
        let mut all = self.all.lock();
        all.pauses.push(pause);
        self.count.store(all.pauses.len(), Ordering::Relaxed);
    }

    /// What other routers must be told is returned.
    fn end(&self, numbers: &[u64]) -> Vec<String> {
        self.end_of(self.router, numbers)
    }

    fn end_of(&self, router: u64, numbers: &[u64]) -> Vec<String> {
        let (now, mut over) = (Instant::now(), Vec::new());
        let mut all = self.all.lock();
        all.pauses.retain(|p| {
            let ends = p.router == router && numbers.contains(&p.number);
            if ends && p.announced {
                over.push(self.sealed(format!("go {} {}", p.router, p.number)));
            }
            !ends && p.until > now
        });
        self.count.store(all.pauses.len(), Ordering::Relaxed);
        drop(all);
        self.ended.notify_waiters();
        over
    }

    /// Waits while one of the tables is paused by others than oneself: no longer than [`PAUSE_MAX`] in one go. Whether a pause that is
    /// kept was the reason. Who has touched (`has`) another table of the same pause goes on: the change waits for him.
    pub async fn wait(&self, tables: &[Oid], statement: Begins, own: &[u64], has: impl Fn(Oid) -> bool) -> bool {
        let last = Instant::now() + PAUSE_MAX;
        let mut kept = false;
        loop {
            let ended = self.ended.notified();
            let now = Instant::now();
            let until = {
                let all = self.all.lock();
                let others = all.pauses.iter().filter(|p| p.router != self.router || !own.contains(&p.number));
                let mine = others.filter(|p| p.until > now && p.who.waits(statement));
                let mine =
                    mine.filter(|p| p.tables.iter().any(|t| tables.contains(t)) && !p.tables.iter().any(|t| has(*t)));
                mine.max_by_key(|p| p.until).map(|p| {
                    kept = p.kept;
                    p.until
                })
            };
            match until.map(|u| u.min(last)) {
                Some(until) if until > now => {
                    if tokio::time::timeout(until - now, ended).await.is_err() {
                        // It has run out, and is counted until somebody takes it away.
                        self.end(&[]);
                    }
                }
                Some(_) => return kept,
                None => return false,
            }
        }
    }

    /// What other routers are told of one's own; see [`heed`](Self::heed).
    fn announcement(&self, number: u64) -> Option<String> {
        let mut all = self.all.lock();
        let p = all.pauses.iter_mut().find(|p| p.router == self.router && p.number == number)?;
        p.announced = true;
        let tables = p.tables.iter().map(Oid::to_string).collect::<Vec<_>>().join(",");
        let ms = p.until.saturating_duration_since(Instant::now()).as_millis();
        let who = Who::EACH.iter().find(|(_, who)| *who == p.who).map_or("a", |(word, _)| word);
        Some(self.sealed(format!("pause {} {number} {tables} {who} {ms} {}", p.router, u8::from(p.kept))))
    }

    /// Under the herd's seal, as all that routers tell each other.
    pub(crate) fn sealed(&self, text: String) -> String {
        format!("{text} {}", self.seal.token_hex(&text))
    }

    /// Does what another router has announced.
    pub fn heed(&self, announcement: &str) {
        let Some((text, _)) = announcement.rsplit_once(' ') else { return };
        let mut words = text.split(' ');
        let (what, router) = (words.next(), words.next().and_then(|w| w.parse().ok()));
        let (Some(router), Some(number)) = (router, words.next().and_then(|w| w.parse().ok())) else { return };
        if router == self.router || self.sealed(text.to_string()) != announcement {
            return;
        }
        match what {
            Some("go") => drop(self.end_of(router, &[number])),
            Some("pause") if self.is_new(router, number) => {
                let tables = words.next().into_iter().flat_map(|t| t.split(',')).filter_map(|t| t.parse().ok());
                let (tables, word) = (tables.collect(), words.next());
                let who = Who::EACH.iter().find(|(w, _)| Some(*w) == word).map_or(Who::All, |(_, who)| *who);
                let ms = words.next().and_then(|ms| ms.parse().ok()).map_or(Duration::ZERO, Duration::from_millis);
                let (until, kept) = (Instant::now() + ms.min(KEPT), words.next() == Some("1"));
                self.add(Pause { router, number, tables, who, until, kept, announced: false });
            }
            _ => {}
        }
    }

    /// Nobody makes an old one last by saying it again.
    fn is_new(&self, router: u64, number: u64) -> bool {
        let mut all = self.all.lock();
        if all.heard.len() >= ROUTERS_MAX {
            all.heard.clear();
        }
        let last = all.heard.entry(router).or_default();
        let new = number > *last;
        *last = number.max(*last);
        new
    }
}

impl Herd {
    /// Other routers pause, too. They need not hear of it.
    pub(crate) async fn announce_pause(&self, number: u64) {
        let said = self.pauses.announcement(number);
        self.say(said.into_iter().collect()).await;
    }

    /// Does the work of a change that has all locks it needs, with statements that begin with its tables waiting at all routers until
    /// it is done: at the nodes each would wait for it, too, and then find a table that it was not planned for. `waits` tells
    /// whether the work waits for somebody after all, who may be one of those. The pause that is left at the end, for the caller to end.
    pub(crate) async fn keep_paused<T, F: Future<Output = bool>>(
        &self,
        tables: &[Oid],
        who: Who,
        waits: impl Fn() -> F,
        work: impl Future<Output = T>,
    ) -> (T, Option<u64>) {
        let last = Mutex::new(None);
        let renew = || async {
            let new = self.pauses.renew(tables, who);
            let old = last.lock().replace(new);
            self.announce_pause(new).await;
            self.end_pauses(old.as_slice()).await;
        };
        renew().await;
        let keep = async {
            loop {
                tokio::time::sleep(KEEP_EVERY).await;
                if !waits().await {
                    renew().await;
                }
            }
        };
        let done = tokio::select! {
            done = work => done,
            never = keep => never,
        };
        (done, last.into_inner())
    }

    /// Whoever waited goes on, everywhere.
    pub async fn end_pauses(&self, numbers: &[u64]) {
        let over = self.pauses.end(numbers);
        self.say(over).await;
    }

    async fn say(&self, said: Vec<String>) {
        if said.is_empty() {
            return;
        }
        let notify = |text: &String| format!("NOTIFY {}, {}", catalog::schema::EPOCH_CHANNEL, quote_literal(text));
        let sql = said.iter().map(notify).collect::<Vec<_>>().join("; ");
        if let Err(e) = self.own.rows(&self.config.home, &sql).await {
            tracing::debug!(error = %e, "other routers were not told of a pause");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(router: u64, seal: &str) -> Pauses {
        Pauses::new(router, Seal::from_hex(&seal.repeat(64)).expect("a seal"))
    }

    async fn waits(pauses: &Pauses, table: Oid, writes: bool, own: &[u64]) -> bool {
        let statement = Begins { writes, in_block: false };
        tokio::time::timeout(Duration::from_millis(20), pauses.wait(&[table], statement, own, |_| false)).await.is_err()
    }

    #[tokio::test]
    async fn who_needs_the_table_waits_and_others_do_not() {
        let pauses = pauses(1, "a");
        assert!(pauses.none());
        let number = pauses.begin(&[7, 8], Who::Writers, Duration::from_millis(300));
        assert!(!waits(&pauses, 9, true, &[]).await && !waits(&pauses, 7, false, &[]).await);
        assert!(!waits(&pauses, 7, true, &[number]).await, "who makes it does not wait");
        assert!(waits(&pauses, 7, true, &[]).await);
        let begun = Instant::now();
        assert!(!pauses.wait(&[7], Begins { writes: true, in_block: true }, &[], |t| t == 8).await);
        assert!(begun.elapsed() < Duration::from_millis(100), "the change waits for who has another of its tables");
        assert!(!pauses.wait(&[7], Begins { writes: true, in_block: false }, &[], |_| false).await);
        assert!(pauses.none(), "it has run out");
        let number = pauses.begin(&[7], Who::All, PAUSE_MAX * 9);
        assert!(waits(&pauses, 7, false, &[]).await);
        assert!(pauses.end(&[number]).is_empty() && pauses.none() && !waits(&pauses, 7, false, &[]).await);
        let number = pauses.renew(&[7], Who::Blocks);
        assert!(!waits(&pauses, 7, true, &[]).await, "it keeps nothing");
        assert!(
            pauses.wait(&[7], Begins { writes: false, in_block: true }, &[], |_| false).await,
            "and waits once more"
        );
        assert!(pauses.end(&[number]).is_empty() && pauses.none());
    }

    #[tokio::test]
    async fn other_routers_heed_what_bears_the_seal_once() {
        let (here, there, stranger) = (pauses(1, "a"), pauses(2, "a"), pauses(3, "b"));
        let number = here.begin(&[7], Who::All, PAUSE_MAX);
        let said = here.announcement(number).expect("it is there");
        stranger.heed(&said);
        there.heed(&said.replace(" 7 ", " 8 "));
        there.heed("12");
        assert!(stranger.none() && there.none());
        there.heed(&said);
        assert!(waits(&there, 7, false, &[number]).await);
        let over = here.end(&[number]);
        here.heed(&said);
        there.heed(&over[0]);
        there.heed(&said);
        assert!(here.none() && there.none());
    }
}

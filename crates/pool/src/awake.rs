//! Whether the thread that serves clients looks for what comes next again and again, rather than sleeping until it is woken: where
//! something mostly comes within some microseconds, sleeping and being woken costs more than looking.
//!
//! What came last, from a client or from a node, tells how soon the next comes (a client that thinks between its statements is not waited
//! for, a node that answers quickly is). Between looks others have the processor if they want it. It does not know what comes.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// How long it looks before it sleeps after all; and it looks where the next mostly comes within that.
const LOOKS: Duration = Duration::from_micros(100);
/// As this long a look in vain counts.
const IN_VAIN: Duration = Duration::from_micros(200);
/// Each look changes the mean by this part of what it differs.
const WEIGHT: u32 = 4;
/// So many waits are slept through before one is looked at again, where looking did not pay: a wait that is slept through takes longer, and
/// tells nothing.
const TRIED_AGAIN: u32 = 16;

/// Where something came from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum From {
    Client = 0,
    Node = 1,
}

/// Of what has come, in twos, and in the lowest bit what came last.
static CAME: AtomicU32 = AtomicU32::new(0);
static ASLEEP: AtomicBool = AtomicBool::new(false);
static WAKE: Notify = Notify::const_new();

/// Something has come. Where nobody [looks](look), it is nothing.
#[inline]
pub fn came(from: From) {
    // Of two threads one may be overlooked, which does not matter.
    CAME.store((CAME.load(Ordering::Relaxed) & !1).wrapping_add(2) | from as u32, Ordering::Relaxed);
    if ASLEEP.load(Ordering::Relaxed) {
        ASLEEP.store(false, Ordering::Relaxed);
        WAKE.notify_one();
    }
}

/// For as long as the runtime is there: a task of the thread that serves clients.
pub async fn look() {
    let mut behind = [Waits::default(); 2];
    loop {
        let came = CAME.load(Ordering::Relaxed);
        let waits = &mut behind[came as usize & 1];
        if waits.are_looked_at() {
            let since = Instant::now();
            let mut waited = Duration::ZERO;
            while CAME.load(Ordering::Relaxed) == came && waited < LOOKS {
                // The runtime's other tasks, and whoever has something to read; then other processes.
                tokio::task::yield_now().await;
                std::thread::yield_now();
                waited = since.elapsed();
            }
            waits.add(waited);
        }
        if CAME.load(Ordering::Relaxed) == came {
            ASLEEP.store(true, Ordering::Relaxed);
            WAKE.notified().await;
        }
    }
}

/// What waits behind one kind of thing were like.
#[derive(Clone, Copy)]
struct Waits {
    /// How long they take, those of late above all.
    mean: Duration,
    /// Of those that were slept through, since one was looked at.
    slept: u32,
}

impl Default for Waits {
    fn default() -> Self {
        Waits { mean: IN_VAIN, slept: 0 }
    }
}

impl Waits {
    /// Whether the next is.
    fn are_looked_at(&mut self) -> bool {
        self.slept += 1;
        self.mean <= LOOKS || self.slept > TRIED_AGAIN
    }

    fn add(&mut self, looked: Duration) {
        let looked = if looked < LOOKS { looked } else { IN_VAIN };
        (self.mean, self.slept) = ((self.mean * (WEIGHT - 1) + looked) / WEIGHT, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of these waits, in microseconds, are looked at.
    fn looks(all: impl IntoIterator<Item = u64>) -> usize {
        let mut waits = Waits::default();
        let looked = all.into_iter().filter(|micros| {
            let looks = waits.are_looked_at();
            if looks {
                waits.add(Duration::from_micros(*micros));
            }
            looks
        });
        looked.count()
    }

    #[test]
    fn it_looks_where_the_next_mostly_comes_soon() {
        assert_eq!(looks([20; 1000]), 1000 - 3 * 16);
        assert_eq!(looks([300; 1700]), 100, "in vain");
        assert!(looks((0..1000).map(|n| if n % 5 == 0 { 5000 } else { 20 })) > 900, "with pauses");
        assert!(looks((0..1000).map(|n| if n % 5 != 0 { 5000 } else { 20 })) < 100, "but for some");
    }
}

//! How far a primary's log was at which moments. Who has applied it up to one of these has everything that was committed before that
//! moment. A clock of a standby's, or of a transaction's, is not needed for that, and none is trusted. The clock stands still while the
//! machine sleeps, and marks from before that are older than they seem: they count no more. It does not know who asks.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Marks kept: of the older half every second one goes when there are more, so that it becomes coarser and not shorter.
const MOST: usize = 512;
/// So short a sleep is none: clocks are not read at once.
const NAP: Duration = Duration::from_millis(100);

/// A history of a cluster: what its log's positions mean. A promotion begins another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    pub system: u64,
    pub timeline: u32,
}

/// Of one primary.
#[derive(Default)]
pub struct Marks {
    line: Option<Line>,
    /// How long the machine had slept by then.
    slept: Duration,
    /// Moments at which the primary was asked, and how far its log was then, or later.
    marks: VecDeque<(Instant, u64)>,
}

impl Marks {
    /// The primary was asked at this moment, or later, how far its log is. Of another line, or from before a sleep, nothing is known any
    /// more. `slept`: see [`slept`].
    pub fn put(&mut self, line: Line, asked: Instant, position: u64, slept: Duration) {
        if self.line.replace(line) != Some(line) || !self.are_of(slept) {
            self.marks.clear();
        }
        self.slept = slept;
        if self.marks.back().is_some_and(|(when, at)| *when > asked || *at > position) {
            // It has gone back: a server of the same line that is not the one which was asked before.
            self.marks.clear();
        }
        if self.marks.len() >= MOST {
            let mut n = 0;
            self.marks.retain(|_| {
                n += 1;
                n > MOST / 2 || n % 2 == 0
            });
        }
        self.marks.push_back((asked, position));
    }

    /// The history that its positions are of; `None`: it was never asked.
    pub fn line(&self) -> Option<Line> {
        self.line
    }

    /// The machine has not slept since.
    pub fn are_of(&self, slept: Duration) -> bool {
        slept.abs_diff(self.slept) < NAP
    }

    /// How far the log was last.
    pub fn position(&self) -> Option<u64> {
        self.marks.back().map(|(_, position)| *position)
    }

    /// Who has applied the log up to there has everything that was committed before this moment. `None`: it is not known to have
    /// anything.
    pub fn has_all_of(&self, applied: u64) -> Option<Instant> {
        self.marks.iter().rev().find(|(_, position)| *position <= applied).map(|(when, _)| *when)
    }
}

/// How long the machine has slept since it was started. It is read from two clocks, one after the other.
pub fn slept() -> Duration {
    let now = |clock| {
        let now = clock_gettime(clock);
        Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
    };
    let awake = now(ClockId::Monotonic);
    now(ClockId::Boottime).saturating_sub(awake)
}

/// Where the log ends, by where its next record begins: that is behind a page's header, where the last one has filled its page
/// (XLogBytePosToRecPtr and XLogBytePosToEndRecPtr in xlog.c), and nobody applies a header.
pub fn end_of(next: u64, page: u64) -> u64 {
    /// SizeOfXLogShortPHD and SizeOfXLogLongPHD (xlog_internal.h); the long one is a segment's first page's.
    const HEADERS: [u64; 2] = [24, 40];
    match next.checked_rem(page) {
        Some(within) if HEADERS.contains(&within) => next - within,
        _ => next,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const LINE: Line = Line { system: 7, timeline: 1 };

    #[test]
    fn who_has_applied_a_mark_has_what_was_before_it() {
        let begun = Instant::now();
        let at = |s| begun + Duration::from_secs(s);
        let mut marks = Marks::default();
        assert_eq!(marks.has_all_of(u64::MAX), None);
        for (s, position) in [(1, 100), (2, 200), (3, 200), (4, 300)] {
            marks.put(LINE, at(s), position, Duration::ZERO);
        }
        let known: Vec<_> = [99, 100, 199, 200, 299, 300, 999].into_iter().map(|at| marks.has_all_of(at)).collect();
        assert_eq!(known, [None, Some(at(1)), Some(at(1)), Some(at(3)), Some(at(3)), Some(at(4)), Some(at(4))]);
        // Positions of another line mean something else.
        marks.put(Line { timeline: 2, ..LINE }, at(5), 250, Duration::ZERO);
        assert_eq!((marks.has_all_of(249), marks.has_all_of(250)), (None, Some(at(5))));
        marks.put(Line { timeline: 2, ..LINE }, at(6), 240, Duration::ZERO);
        assert_eq!((marks.has_all_of(240), marks.has_all_of(239)), (Some(at(6)), None));
        let slept = Duration::from_secs(60);
        assert!(!marks.are_of(slept) && marks.are_of(Duration::from_millis(1)));
        marks.put(Line { timeline: 2, ..LINE }, at(7), 250, slept);
        assert_eq!((marks.has_all_of(249), marks.has_all_of(250)), (None, Some(at(7))));
        assert!(marks.are_of(slept) && super::slept() <= super::slept() + NAP);
    }

    #[test]
    fn old_marks_become_coarse() {
        let begun = Instant::now();
        let at = |s| begun + Duration::from_secs(s);
        let mut marks = Marks::default();
        for n in 0..20 * MOST as u64 {
            marks.put(LINE, at(n), 10 * n, Duration::ZERO);
        }
        assert!(marks.marks.len() <= MOST);
        for n in (0..20 * MOST as u64).step_by(37) {
            // Never more than it has.
            assert!(marks.has_all_of(10 * n + 9).is_none_or(|when| when <= at(n)), "{n}");
        }
        let last = 20 * MOST as u64 - 1;
        assert_eq!(marks.has_all_of(10 * last), Some(at(last)));
    }

    #[test]
    fn a_header_is_no_record() {
        let ends = [end_of(0x200_0028, 8192), end_of(0x200_2018, 8192), end_of(0x200_2020, 8192), end_of(5, 0)];
        assert_eq!(ends, [0x200_0000, 0x200_2000, 0x200_2020, 5]);
    }
}

//! How long the statements of a queue take, each, of late: whether it pays to send them together. It does not know what they are.

use std::time::Duration;

/// Below this a node spends more on being woken and on answering than on a statement.
const SHORT: Duration = Duration::from_micros(500);
/// Each batch changes the mean by this part of what it differs.
const WEIGHT: u32 = 4;

/// The mean of late.
#[derive(Default)]
pub struct Pace {
    mean: Duration,
}

impl Pace {
    /// A batch of so many has taken so long.
    pub fn took(&mut self, statements: usize, time: Duration) {
        let each = time / u32::try_from(statements).unwrap_or(u32::MAX).max(1);
        self.mean = (self.mean * (WEIGHT - 1) + each) / WEIGHT;
    }

    /// A node had better work on several of them at once.
    pub fn is_long(&self) -> bool {
        self.mean > SHORT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_late_batch_says_nothing_several_do_and_short_ones_are_noticed_again() {
        let mut pace = Pace::default();
        let ms = Duration::from_millis;
        pace.took(3, ms(4));
        assert!(!pace.is_long());
        (0..3).for_each(|_| pace.took(3, ms(4)));
        assert!(pace.is_long());
        (0..4).for_each(|_| pace.took(20, ms(1)));
        assert!(!pace.is_long());
        pace.took(0, ms(0));
    }
}

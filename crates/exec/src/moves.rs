//! What a session has set for queries of tables that are not colocated. It does not know how they are answered (`query/ways.rs`).

/// How rows may move, where home need not get them all. Idle sessions have one each: it is a byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Moves(u8);

/// Whether a query goes a way that it could.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// Where less is to be done.
    #[default]
    Auto,
    /// Wherever it can.
    On,
    /// Never.
    Off,
}

const BITS: u8 = 2;

impl Moves {
    /// `herd.broadcast`, `herd.shuffle` and `herd.semijoin`.
    pub fn new(broadcast: Choice, shuffle: Choice, semijoin: Choice) -> Self {
        Moves(broadcast as u8 | (shuffle as u8) << BITS | (semijoin as u8) << (2 * BITS))
    }

    /// To all nodes of the largest table.
    pub fn broadcast(self) -> Choice {
        Choice::of(self.0)
    }

    /// Each to one node, by what it is joined by.
    pub fn shuffle(self) -> Choice {
        Choice::of(self.0 >> BITS)
    }

    /// Home, but only those that meet others'.
    pub fn semijoin(self) -> Choice {
        Choice::of(self.0 >> (2 * BITS))
    }
}

impl Choice {
    fn of(bits: u8) -> Self {
        match bits % (1 << BITS) {
            1 => Choice::On,
            2 => Choice::Off,
            _ => Choice::Auto,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_kept_in_a_byte() {
        let all = [Choice::Auto, Choice::On, Choice::Off];
        for broadcast in all {
            for (shuffle, semijoin) in all.iter().flat_map(|s| all.iter().map(move |j| (*s, *j))) {
                let moves = Moves::new(broadcast, shuffle, semijoin);
                assert_eq!((moves.broadcast(), moves.shuffle(), moves.semijoin()), (broadcast, shuffle, semijoin));
            }
        }
        assert_eq!(Moves::default(), Moves::new(Choice::Auto, Choice::Auto, Choice::Auto));
    }
}

//! Sets of relations, which code of thousands of objects has in common. A set of all that a chain of views reads is that of the
//! view below and one more: what two sets have alike is in memory once, so that thousands of large sets cost what they differ by.
//!
//! Relations are numbered in the order of their object ids ([`Numbers`]); a set does not know whose numbers it holds.

use std::collections::HashMap;
use std::sync::Arc;

use catalog::Oid;

const WORDS: usize = 64;
const CHUNK_BITS: usize = WORDS * 64;

type Chunk = [u64; WORDS];

/// A set of numbers: bits, in pieces that sets share until one of them changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RelationSet {
    chunks: Vec<Option<Arc<Chunk>>>,
}

impl RelationSet {
    /// Puts a number into it.
    pub fn insert(&mut self, number: usize) {
        let (chunk, word, bit) = place(number);
        if self.chunks.len() <= chunk {
            self.chunks.resize(chunk + 1, None);
        }
        let chunk = self.chunks[chunk].get_or_insert_with(|| Arc::new([0; WORDS]));
        if chunk[word] & bit == 0 {
            Arc::make_mut(chunk)[word] |= bit;
        }
    }

    /// It has the number.
    pub fn contains(&self, number: usize) -> bool {
        let (chunk, word, bit) = place(number);
        self.chunks.get(chunk).and_then(Option::as_ref).is_some_and(|c| c[word] & bit != 0)
    }

    /// Adds all of another; what is then the same as there is shared with it.
    pub fn add(&mut self, other: &RelationSet) {
        if self.chunks.len() < other.chunks.len() {
            self.chunks.resize(other.chunks.len(), None);
        }
        for (own, more) in self.chunks.iter_mut().zip(&other.chunks) {
            match (&mut *own, more) {
                (_, None) => {}
                (None, Some(more)) => *own = Some(more.clone()),
                (Some(chunk), Some(more)) if Arc::ptr_eq(chunk, more) || is_within(more, chunk) => {}
                (Some(chunk), Some(more)) if is_within(chunk, more) => *chunk = more.clone(),
                (Some(chunk), Some(more)) => {
                    Arc::make_mut(chunk).iter_mut().zip(more.iter()).for_each(|(word, more)| *word |= more);
                }
            }
        }
    }

    /// It has none.
    pub fn is_empty(&self) -> bool {
        // A chunk is made for what is put into it.
        self.chunks.iter().all(Option::is_none)
    }

    /// The first that is in the other, too.
    pub fn first_in(&self, other: &RelationSet) -> Option<usize> {
        let chunks = self.chunks.iter().zip(&other.chunks).enumerate();
        let mut common = chunks.filter_map(|(at, (a, b))| Some((at, a.as_ref()?, b.as_ref()?)));
        common.find_map(|(at, a, b)| {
            let mut words = a.iter().zip(b.iter()).map(|(a, b)| a & b).enumerate();
            let (word, bits) = words.find(|(_, bits)| *bits != 0)?;
            Some(at * CHUNK_BITS + word * 64 + bits.trailing_zeros() as usize)
        })
    }

    fn numbers(&self) -> impl Iterator<Item = usize> + '_ {
        let chunks = self.chunks.iter().enumerate().filter_map(|(at, c)| Some((at * CHUNK_BITS, c.as_ref()?)));
        let words = chunks.flat_map(|(from, c)| c.iter().enumerate().map(move |(at, word)| (from + at * 64, *word)));
        words
            .filter(|(_, word)| *word != 0)
            .flat_map(|(from, word)| (0..64).filter(move |bit| word & (1 << bit) != 0).map(move |bit| from + bit))
    }

    /// The two have a number in common.
    pub fn meets(&self, other: &RelationSet) -> bool {
        self.first_in(other).is_some()
    }
}

fn place(number: usize) -> (usize, usize, u64) {
    (number / CHUNK_BITS, number % CHUNK_BITS / 64, 1 << (number % 64))
}

fn is_within(small: &Chunk, large: &Chunk) -> bool {
    small.iter().zip(large).all(|(small, large)| small & !large == 0)
}

/// Which relation has which number.
pub(super) struct Numbers {
    oids: Vec<Oid>,
    of: HashMap<Oid, usize>,
}

impl Numbers {
    /// Of these relations, each of which may come several times.
    pub fn new(oids: impl Iterator<Item = Oid>) -> Self {
        let mut oids: Vec<Oid> = oids.collect();
        oids.sort_unstable();
        oids.dedup();
        Numbers { of: oids.iter().enumerate().map(|(number, oid)| (*oid, number)).collect(), oids }
    }

    /// The relation of a number that was given here.
    pub fn oid(&self, number: usize) -> Oid {
        self.oids[number]
    }

    /// Puts a relation into a set. One that has no number is of no concern to anybody.
    pub fn put(&self, set: &mut RelationSet, oid: Oid) {
        if let Some(number) = self.of.get(&oid) {
            set.insert(*number);
        }
    }

    /// A set of these relations.
    pub fn set(&self, oids: impl Iterator<Item = Oid>) -> RelationSet {
        let mut set = RelationSet::default();
        oids.for_each(|oid| self.put(&mut set, oid));
        set
    }

    /// A set has the relation.
    pub fn has(&self, set: &RelationSet, oid: Oid) -> bool {
        self.of.get(&oid).is_some_and(|number| set.contains(*number))
    }

    /// What is in a set, in the order of the object ids.
    pub fn oids<'n>(&'n self, set: &'n RelationSet) -> impl Iterator<Item = Oid> + 'n {
        set.numbers().map(|number| self.oids[number])
    }
}

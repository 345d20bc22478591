//! Which prepared statements a connection has on its node. It does not parse, prepare or close them.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::ops::Deref;

use sha2::{Digest, Sha256};

/// Names a statement's text and parameter types: 128 bits of their SHA-256, so that no two statements anybody can find
/// share one. Make it once for each statement, not for each execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StatementKey(u128);

impl StatementKey {
    /// `types`: oids of its parameters, as its Parse gives them.
    pub fn of(sql: &str, types: &[u32]) -> Self {
        let mut hash = Sha256::new();
        hash.update((sql.len() as u64).to_be_bytes());
        hash.update(sql);
        types.iter().for_each(|t| hash.update(t.to_be_bytes()));
        let hash: [u8; 32] = hash.finalize().into();
        StatementKey(u128::from_be_bytes(std::array::from_fn(|i| hash[i])))
    }
}

impl Hash for StatementKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0 as u64);
    }
}

/// The keys are hashes already.
#[derive(Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.0 = self.0.rotate_left(8) ^ u64::from(*b));
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = n;
    }
}

/// A statement's name on the node: `h1`, `h2`, … Never used twice on one connection. Derefs to `str`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct StatementName {
    /// `h` and at most 20 digits.
    bytes: [u8; 21],
    len: u8,
}

impl StatementName {
    fn number(n: u64) -> Self {
        let mut name = StatementName { bytes: [b'h'; 21], len: 1 };
        for digit in n.to_string().bytes() {
            name.bytes[name.len as usize] = digit;
            name.len += 1;
        }
        name
    }
}

impl Deref for StatementName {
    type Target = str;
    fn deref(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.len as usize]).expect("a letter and digits")
    }
}

impl fmt::Debug for StatementName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

/// Least recently used first out.
pub struct StatementCache {
    slots: HashMap<StatementKey, u32, BuildHasherDefault<AsIs>>,
    entries: Vec<Entry>,
    /// Most and least recently used entries; meaningless while there are none.
    newest: Option<u32>,
    oldest: Option<u32>,
    free: Vec<u32>,
    max: usize,
    names: u64,
    /// Inserted, and their Parses not answered yet, in order.
    unproved: VecDeque<Unproved>,
    /// Forgotten here, and not closed on the node yet.
    forgotten: Vec<StatementName>,
}

/// A statement that is on its way.
struct Unproved {
    /// Its Parse is the connection's so manieth.
    parse: u64,
    key: StatementKey,
    name: StatementName,
    /// What is closed just before.
    closed: Vec<StatementName>,
}

struct Entry {
    key: StatementKey,
    name: StatementName,
    columns: Option<u64>,
    newer: Option<u32>,
    older: Option<u32>,
}

impl StatementCache {
    /// Keeps at most `max` statements (at least one).
    pub fn new(max: usize) -> Self {
        StatementCache {
            slots: HashMap::default(),
            entries: Vec::new(),
            newest: None,
            oldest: None,
            free: Vec::new(),
            max: max.clamp(1, u32::MAX as usize),
            names: 0,
            unproved: VecDeque::new(),
            forgotten: Vec::new(),
        }
    }

    /// The node has said that the statement gives the columns of this mark (`backend::mark_of`), or will say otherwise soon.
    pub fn agree(&mut self, key: &StatementKey, columns: u64) {
        if let Some(at) = self.slots.get(key) {
            self.entries[*at as usize].columns = Some(columns);
        }
    }

    /// Whether that is so: if not, it is to be described.
    pub fn has_agreed(&self, key: &StatementKey, columns: u64) -> bool {
        self.slots.get(key).is_some_and(|at| self.entries[*at as usize].columns == Some(columns))
    }

    /// It is prepared for other columns than are wanted; the node is told with the next Parse.
    pub fn forget(&mut self, key: &StatementKey) {
        let name = self.remove(key);
        self.forgotten.extend(name);
    }

    pub(crate) fn take_forgotten(&mut self) -> Vec<StatementName> {
        std::mem::take(&mut self.forgotten)
    }

    /// The Parse of a statement that was just inserted is on its way, the connection's so manieth, and before it the Close of these.
    pub(crate) fn sent(&mut self, key: StatementKey, name: StatementName, parse: u64, closed: Vec<StatementName>) {
        self.unproved.push_back(Unproved { parse, key, name, closed });
    }

    /// The node has answered that Parse.
    pub(crate) fn parsed(&mut self, parse: u64) {
        if self.unproved.front().is_some_and(|unproved| unproved.parse == parse) {
            self.unproved.pop_front();
        }
    }

    /// The node has passed over Parses up to this one, or refused them: those are not there. What was to be closed before them may be there still;
    /// to close what is not there is no error.
    pub(crate) fn settled(&mut self, parse: u64) {
        while self.unproved.front().is_some_and(|unproved| unproved.parse <= parse) {
            let Some(unproved) = self.unproved.pop_front() else { break };
            if self.slots.get(&unproved.key).is_some_and(|at| self.entries[*at as usize].name == unproved.name) {
                self.remove(&unproved.key);
            }
            self.forgotten.extend(unproved.closed);
        }
    }

    /// The statement's name if the node has it; counts as use.
    pub fn get(&mut self, key: &StatementKey) -> Option<StatementName> {
        let at = *self.slots.get(key)?;
        if Some(at) != self.newest {
            self.unlink(at);
            self.link_newest(at);
        }
        Some(self.entries[at as usize].name)
    }

    /// A new name to Parse the statement under, and the name of a statement that had to make room: Close it.
    /// If the Parse fails, `remove` the key.
    pub fn insert(&mut self, key: StatementKey) -> (StatementName, Option<StatementName>) {
        let replaced = self.remove(&key);
        let evicted = match self.slots.len() >= self.max {
            true => {
                let oldest = self.oldest.map(|at| self.entries[at as usize].key);
                oldest.and_then(|key| self.remove(&key))
            }
            false => replaced,
        };
        self.names += 1;
        let name = StatementName::number(self.names);
        let entry = Entry { key, name, columns: None, newer: None, older: None };
        let at = match self.free.pop() {
            Some(at) => {
                self.entries[at as usize] = entry;
                at
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        };
        self.slots.insert(key, at);
        self.link_newest(at);
        (name, evicted)
    }

    /// Forgets a statement: its Parse failed, or it was closed.
    pub fn remove(&mut self, key: &StatementKey) -> Option<StatementName> {
        let at = self.slots.remove(key)?;
        self.unlink(at);
        self.free.push(at);
        Some(self.entries[at as usize].name)
    }

    /// Forgets all: the node dropped them (DISCARD ALL, DEALLOCATE ALL).
    pub fn clear(&mut self) {
        self.slots.clear();
        self.entries.clear();
        self.free.clear();
        self.unproved.clear();
        self.forgotten.clear();
        (self.newest, self.oldest) = (None, None);
    }

    /// How many statements the node has for this connection.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// The node has no statement for this connection.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    fn unlink(&mut self, at: u32) {
        let Entry { newer, older, .. } = self.entries[at as usize];
        match newer {
            None => self.newest = older,
            Some(n) => self.entries[n as usize].older = older,
        }
        match older {
            None => self.oldest = newer,
            Some(o) => self.entries[o as usize].newer = newer,
        }
    }

    fn link_newest(&mut self, at: u32) {
        let older = self.newest;
        let entry = &mut self.entries[at as usize];
        (entry.newer, entry.older) = (None, older);
        match older {
            None => self.oldest = Some(at),
            Some(o) => self.entries[o as usize].newer = Some(at),
        }
        self.newest = Some(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: usize) -> StatementKey {
        StatementKey::of(&format!("select {n}"), &[])
    }

    #[test]
    fn keys_differ_by_text_and_types() {
        let keys = [
            StatementKey::of("select $1", &[]),
            StatementKey::of("select $1", &[23]),
            StatementKey::of("select $1", &[20]),
            StatementKey::of("select $1", &[20, 20]),
            StatementKey::of("select $2", &[]),
        ];
        for (i, a) in keys.iter().enumerate() {
            assert!(keys[i + 1..].iter().all(|b| a != b));
        }
        assert_eq!(keys[0], StatementKey::of("select $1", &[]));
    }

    #[test]
    fn the_least_recently_used_makes_room() {
        let mut cache = StatementCache::new(2);
        let (one, none) = cache.insert(key(1));
        assert_eq!((&*one, none), ("h1", None));
        let (two, _) = cache.insert(key(2));
        assert_eq!(cache.get(&key(1)), Some(one));
        let (three, evicted) = cache.insert(key(3));
        assert_eq!((&*three, evicted), ("h3", Some(two)));
        assert_eq!((cache.get(&key(2)), cache.len()), (None, 2));
        assert_eq!(cache.remove(&key(3)), Some(three));
        let (four, evicted) = cache.insert(key(4));
        assert_eq!((&*four, evicted), ("h4", None));
        let (again, replaced) = cache.insert(key(4));
        assert_eq!((&*again, replaced), ("h5", Some(four)), "prepared anew: the old one is to be closed");
        cache.clear();
        assert!(cache.is_empty() && cache.get(&key(1)).is_none());
        assert_eq!(&*cache.insert(key(1)).0, "h6", "names are never used twice");
    }

    #[test]
    fn what_was_not_closed_is_closed_later() {
        let mut cache = StatementCache::new(1);
        let mut number = 0;
        let mut send = |cache: &mut StatementCache, n: usize| {
            number += 1;
            let (name, evicted) = cache.insert(key(n));
            let closed: Vec<_> = cache.take_forgotten().into_iter().chain(evicted).collect();
            cache.sent(key(n), name, number, closed.clone());
            closed.iter().map(|name| name.to_string()).collect::<Vec<_>>()
        };
        assert!(send(&mut cache, 1).is_empty());
        cache.parsed(1);
        assert_eq!(send(&mut cache, 2), ["h1"]);
        assert_eq!(send(&mut cache, 3), ["h2"]);
        // An error before: neither the Parses nor the Closes were looked at.
        cache.settled(3);
        assert!(cache.is_empty());
        assert_eq!(send(&mut cache, 4), ["h1", "h2"]);
        cache.parsed(4);
        cache.settled(4);
        assert_eq!(send(&mut cache, 5), ["h4"]);
    }

    /// Against a plain list, over many random operations.
    #[test]
    fn agrees_with_a_simple_model() {
        let (mut cache, mut model) = (StatementCache::new(5), Vec::<(usize, StatementName)>::new());
        let mut random = 12345u64;
        for step in 0..20_000 {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let n = (random >> 33) as usize % 9;
            let at = model.iter().position(|(k, _)| *k == n);
            match (random >> 50) % 10 {
                0 => assert_eq!(cache.remove(&key(n)), at.map(|at| model.remove(at).1), "step {step}"),
                1 if step % 7 == 0 => {
                    cache.clear();
                    model.clear();
                }
                _ => match cache.get(&key(n)) {
                    Some(name) => {
                        let used = model.remove(at.expect("the model has it too"));
                        assert_eq!(name, used.1, "step {step}");
                        model.push(used);
                    }
                    None => {
                        assert_eq!(at, None, "step {step}");
                        let (name, evicted) = cache.insert(key(n));
                        let expected = (model.len() == 5).then(|| model.remove(0).1);
                        assert_eq!(evicted, expected, "step {step}");
                        model.push((n, name));
                    }
                },
            }
        }
    }
}

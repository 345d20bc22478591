//! A body of code, read for its words and for the custom parameters it names: once, and kept for later loads by its text. It does
//! not know what the words mean, nor whose the body is.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use super::keywords;
use crate::session_code::lower;

/// Names of parameters that are taken of one body.
const SETTINGS_MAX: usize = 256;
/// Bytes of bodies that are kept; beyond that all are forgotten and read again.
const KEPT_MAX: usize = 64 << 20;

pub(super) struct Body {
    /// In lower case.
    pub text: Box<str>,
    /// Where each word stands, once for each: in the order of the words.
    words: Box<[(u32, u32)]>,
    /// Custom parameters in `current_setting('…')`.
    pub reads: Vec<String>,
    /// In `set_config('…')` and `SET x.y`.
    pub sets: Vec<String>,
    /// It sets some whose names are made at run time, or more than are taken of a body.
    pub sets_unknown: bool,
    /// It may have a DO statement, whose text may be anything.
    pub runs_block: bool,
    /// It may make a table by SELECT INTO, if it is in SQL.
    pub selects_into: bool,
}

impl Body {
    /// Reads a text; nothing is kept of it for later loads.
    pub fn of(text: &str) -> Self {
        let text = lower(text).into_boxed_str();
        let at = |word: &str| word.as_ptr() as usize - text.as_ptr() as usize;
        let mut found: Vec<&str> = words(&text).collect();
        found.sort_unstable();
        found.dedup();
        let words = found.into_iter().map(|word| (at(word) as u32, (at(word) + word.len()) as u32)).collect();
        let taken = |mut names: Vec<String>| {
            names.sort_unstable();
            names.dedup();
            let more = names.len() > SETTINGS_MAX;
            names.truncate(SETTINGS_MAX);
            (names, more)
        };
        let (reads, _) = taken(settings_read(&text));
        let (sets, more) = taken(settings_set(&text));
        let sets_unknown = more || names_at_run_time(&text);
        let (runs_block, selects_into) = (keywords::runs_block(&text), keywords::selects_into(&text));
        Body { text, words, reads, sets, sets_unknown, runs_block, selects_into }
    }

    /// The same, if it was read before.
    pub fn kept(text: &str) -> Option<Arc<Body>> {
        KEPT.lock().unwrap_or_else(PoisonError::into_inner).bodies.get(&key(text)).cloned()
    }

    /// Reads it, for later loads, too.
    pub fn keep(text: &str) -> Arc<Body> {
        let body = Arc::new(Body::of(text));
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.bytes > KEPT_MAX {
            *kept = Kept::default();
        }
        kept.bytes += text.len() + LEAST;
        kept.bodies.insert(key(text), body.clone());
        body
    }

    /// `word` in lower case; part of a longer word does not count.
    pub fn has_word(&self, word: &str) -> bool {
        self.words.binary_search_by(|at| self.word(at).cmp(word)).is_ok()
    }

    /// It has texts that are run, or may be, and are not read here.
    pub fn holds_texts(&self) -> bool {
        let makes_code = || ["function", "procedure", "extension"].iter().any(|word| self.has_word(word));
        self.runs_block || self.has_word("create") && makes_code()
    }

    /// In lower case, each once, sorted.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.words.iter().map(|at| self.word(at))
    }

    fn word(&self, at: &(u32, u32)) -> &str {
        &self.text[at.0 as usize..at.1 as usize]
    }

    /// Its words that are among these, in time by the shorter of both lists.
    pub fn among<'b, S: AsRef<str> + Eq + std::hash::Hash + std::borrow::Borrow<str>>(
        &'b self,
        names: &HashSet<S>,
    ) -> impl Iterator<Item = &'b str> {
        let found: Vec<&str> = match self.words.len() <= names.len() {
            true => self.words().filter(|word| names.contains(*word)).collect(),
            false => names
                .iter()
                .filter_map(|name| self.words.binary_search_by(|at| self.word(at).cmp(name.as_ref())).ok())
                .map(|at| self.word(&self.words[at]))
                .collect(),
        };
        found.into_iter()
    }
}

/// What a body takes beside its text.
const LEAST: usize = 256;

#[derive(Default)]
struct Kept {
    bodies: HashMap<(u64, u64), Arc<Body>>,
    bytes: usize,
}

static KEPT: LazyLock<Mutex<Kept>> = LazyLock::new(Mutex::default);
/// Seeded at random: nobody can make two texts that are taken for one.
static HASHES: LazyLock<[RandomState; 2]> = LazyLock::new(Default::default);

fn key(text: &str) -> (u64, u64) {
    (HASHES[0].hash_one(text), HASHES[1].hash_one(text))
}

pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c| !is_word(c)).filter(|w| !w.is_empty())
}

pub(super) fn is_word(c: char) -> bool {
    // Not '$', though identifiers may hold it: "$$SELECT … FROM t$$" has to show t.
    c.is_alphanumeric() || c == '_'
}

/// Names in `current_setting('…')` of custom parameters.
fn settings_read(text: &str) -> Vec<String> {
    literals_behind(text, "current_setting").flatten().filter_map(|n| custom(&n)).collect()
}

/// Names in `set_config('…')` and `SET x.y`.
fn settings_set(text: &str) -> Vec<String> {
    let mut found: Vec<String> = literals_behind(text, "set_config").flatten().filter_map(|n| custom(&n)).collect();
    let mut words = text.split_whitespace().peekable();
    while let Some(word) = words.next() {
        if !word.ends_with("set") {
            continue;
        }
        while words.next_if(|w| matches!(*w, "local" | "session")).is_some() {}
        let name: String = words.peek().unwrap_or(&"").chars().take_while(|c| is_word(*c) || *c == '.').collect();
        found.extend(custom(&name));
    }
    found
}

fn names_at_run_time(text: &str) -> bool {
    literals_behind(text, "set_config").any(|name| name.is_none())
}

/// For each call of a function: its first argument; `None` if that is no literal.
fn literals_behind<'t>(text: &'t str, function: &'t str) -> impl Iterator<Item = Option<String>> + 't {
    text.match_indices(function).map(move |(at, _)| {
        let rest = text[at + function.len()..].trim_start().strip_prefix('(')?.trim_start();
        let name = rest.strip_prefix('\'')?.split('\'').next()?;
        Some(name.to_string())
    })
}

fn custom(name: &str) -> Option<String> {
    (name.contains('.') && !name.starts_with('.')).then(|| name.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_whichever_list_is_longer() {
        let body = Body::of("Select set_config('a.b', x) from t; select t");
        assert!(body.has_word("t") && !body.has_word("b x"));
        let of = |names: &[&'static str]| {
            let mut found: Vec<&str> = body.among(&names.iter().copied().collect::<HashSet<_>>()).collect();
            found.sort_unstable();
            found.join(" ")
        };
        assert_eq!(of(&["t", "u"]), "t");
        assert_eq!(of(&["t", "u", "v", "w", "x", "y", "z", "k", "l", "m"]), "t x");
    }

    #[test]
    fn of_one_body_so_many_parameters_are_taken() {
        let text: String = (0..1_000).map(|n| format!("set_config('a.n{n}', '') current_setting('b.n{n}') ")).collect();
        let body = Body::of(&text);
        assert_eq!((body.sets.len(), body.reads.len(), body.sets_unknown), (SETTINGS_MAX, SETTINGS_MAX, true));
        assert!(!Body::of("set_config('a.b', '')").sets_unknown);
        assert!(Body::of("set_config(name, '')").sets_unknown);
    }
}

//! A small fuzzer for stable Rust: replays a corpus, changes its inputs at random from a seed, and keeps those that make the
//! target behave in a way not seen before (a target tells its behaviour as numbers, in place of a compiler's coverage).
//! It does not know what the bytes mean.
//!
//! `FUZZ_SECONDS` (2) and `FUZZ_SEED` (1) say how long and which; with `FUZZ_SAVE=1` what is new goes into the corpus. An
//! input that panics is written there in any case.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// No input grows beyond this: what matters of a protocol fits.
const INPUT_MAX: usize = 2048;
/// What is saved stays small.
const SAVED_MAX: usize = 400;

/// What a target did: each distinct thing once, as a number.
#[derive(Default)]
pub struct Seen(HashSet<u64>);

impl Seen {
    pub fn note(&mut self, what: impl Hash) {
        let mut hash = DefaultHasher::new();
        what.hash(&mut hash);
        self.0.insert(hash.finish());
    }
}

/// xorshift64*: the same on every machine.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() >> 33) as usize % n.max(1)
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

/// Runs `target` on the corpus files whose names begin with `kind`, on `seeds`, and on what becomes of them.
pub fn run(corpus: &Path, kind: &str, seeds: Vec<Vec<u8>>, words: &[&[u8]], target: impl Fn(&[u8], &mut Seen)) {
    let (limit, seed) = (Duration::from_secs(setting("FUZZ_SECONDS", 2)), setting("FUZZ_SEED", 1));
    let save = std::env::var("FUZZ_SAVE").is_ok();
    let mut random = Random::new(seed);
    let mut known: HashSet<u64> = HashSet::new();
    let mut inputs: Vec<Vec<u8>> = Vec::new();
    let mut files: Vec<PathBuf> = std::fs::read_dir(corpus)
        .into_iter()
        .flatten()
        .filter_map(|f| Some(f.ok()?.path()))
        .filter(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with(kind)))
        .collect();
    files.sort();
    let replayed = files.len();
    let try_one = |input: &[u8], known: &mut HashSet<u64>| {
        let mut seen = Seen::default();
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| target(input, &mut seen))) {
            let file = corpus.join(format!("{kind}-panic-{:016x}", fingerprint(input)));
            let _ = std::fs::write(&file, input);
            eprintln!("panicked on {} bytes, kept as {}", input.len(), file.display());
            std::panic::resume_unwind(panic);
        }
        let before = known.len();
        known.extend(seen.0);
        known.len() > before
    };
    for file in files {
        let input = std::fs::read(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        try_one(&input, &mut known);
        inputs.push(input);
    }
    for input in seeds {
        if try_one(&input, &mut known) && save {
            write(corpus, kind, &input);
        }
        inputs.push(input);
    }
    assert!(!inputs.is_empty(), "no corpus in {}", corpus.display());
    let (started, from_corpus, mut tried) = (Instant::now(), known.len(), 0u64);
    while started.elapsed() < limit {
        for _ in 0..256 {
            tried += 1;
            let changed = change(&inputs, words, &mut random);
            if try_one(&changed, &mut known) {
                let small = smaller(&changed, &mut |i| {
                    let mut seen = Seen::default();
                    target(i, &mut seen);
                    seen.0
                });
                if save && small.len() <= SAVED_MAX {
                    write(corpus, kind, &small);
                }
                inputs.push(changed);
            }
        }
    }
    println!(
        "{kind}: seed {seed}, {replayed} files, {tried} inputs, {} behaviours, {} of them not from the corpus",
        known.len(),
        known.len() - from_corpus
    );
}

fn write(corpus: &Path, kind: &str, input: &[u8]) {
    let file = corpus.join(format!("{kind}-{:016x}", fingerprint(input)));
    std::fs::write(&file, input).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
}

fn fingerprint(input: &[u8]) -> u64 {
    let mut hash = DefaultHasher::new();
    input.hash(&mut hash);
    hash.finish()
}

/// Cuts pieces out for as long as the behaviour stays the same.
fn smaller(input: &[u8], behaviour: &mut dyn FnMut(&[u8]) -> HashSet<u64>) -> Vec<u8> {
    let wanted = behaviour(input);
    let mut best = input.to_vec();
    let mut piece = best.len() / 2;
    while piece > 0 {
        let mut at = 0;
        while at + piece <= best.len() {
            let mut shorter = best.clone();
            shorter.drain(at..at + piece);
            match behaviour(&shorter).is_superset(&wanted) {
                true => best = shorter,
                false => at += piece,
            }
        }
        piece /= 2;
    }
    best
}

/// Another input: some changes to one of the known, or two of them joined.
fn change(inputs: &[Vec<u8>], words: &[&[u8]], random: &mut Random) -> Vec<u8> {
    let mut input = inputs[random.below(inputs.len())].clone();
    for _ in 0..1 + random.below(4) {
        let at = random.below(input.len() + 1);
        let byte = at.min(input.len().saturating_sub(1));
        match random.below(9) {
            0 if !input.is_empty() => input[byte] ^= 1 << random.below(8),
            1 if !input.is_empty() => input[byte] = random.next() as u8,
            2 if !input.is_empty() => input[byte] = [0, 1, 4, 0x7f, 0x80, 0xff][random.below(6)],
            3 => _ = input.splice(at..at, words[random.below(words.len())].iter().copied()),
            4 => input.truncate(at),
            5 => {
                let end = (at + random.below(16)).min(input.len());
                input.drain(at..end);
            }
            6 if input.len() >= at + 4 => {
                // Lengths and counts.
                let numbers = [0u32, 3, 4, 5, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, input.len() as u32];
                input[at..at + 4].copy_from_slice(&numbers[random.below(8)].to_be_bytes());
            }
            7 => {
                let end = (at + random.below(64)).min(input.len());
                let copy = input[at..end].to_vec();
                let to = random.below(input.len() + 1);
                input.splice(to..to, copy);
            }
            _ => {
                let other = &inputs[random.below(inputs.len())];
                let from = random.below(other.len() + 1);
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
        }
    }
    input.truncate(INPUT_MAX);
    input
}

//! Which bodies of code mention a name, and which mention those, and so on: each body is found once, in time by the length of
//! all bodies, whatever names their owners have chosen. It does not know what is looked for, nor what bodies are of.

use std::collections::{HashMap, HashSet};

use super::body::{Body, is_word, words};
use crate::session_code::lower;

/// Bytes that are searched for names which are not one word. Beyond that a body with a word of the name is taken to mention it.
const SEARCHED_MAX: usize = 64 << 20;

pub(super) struct Reach<'b> {
    bodies: Vec<&'b Body>,
    by_word: HashMap<&'b str, Vec<usize>>,
    reached: Vec<bool>,
    searched: usize,
}

impl<'b> Reach<'b> {
    /// `names`: all that may come to be looked for. No other word of a body is worth a place.
    pub fn new(bodies: impl Iterator<Item = &'b Body>, names: &HashSet<String>) -> Self {
        let bodies: Vec<&Body> = bodies.collect();
        let names: HashSet<&str> = names.iter().flat_map(|name| words(name)).collect();
        let mut by_word: HashMap<&str, Vec<usize>> = HashMap::new();
        for (at, body) in bodies.iter().enumerate() {
            body.among(&names).for_each(|word| by_word.entry(word).or_default().push(at));
        }
        Reach { reached: vec![false; bodies.len()], bodies, by_word, searched: 0 }
    }

    /// Takes a body as reached; false: it was before.
    pub fn take(&mut self, at: usize) -> bool {
        !std::mem::replace(&mut self.reached[at], true)
    }

    /// The bodies that mention a name and were not reached before.
    pub fn mentioning(&mut self, name: &str) -> Vec<usize> {
        let name = lower(name);
        if name.chars().all(is_word) {
            // All that have the word are reached with this: nobody need look for it again.
            let bodies = self.by_word.remove(&*name).unwrap_or_default();
            return bodies.into_iter().filter(|at| self.take(*at)).collect();
        }
        // Such as `"order lines"`: its words are whole words of whatever mentions it. A word nobody has any more leads to
        // bodies that are reached.
        let rarest = words(&name).min_by_key(|word| self.by_word.get(word).map_or(0, Vec::len));
        let bodies = match rarest {
            Some(word) if self.searched > SEARCHED_MAX => self.by_word.remove(word).unwrap_or_default(),
            Some(word) => self.by_word.get(word).cloned().unwrap_or_default(),
            None => (0..self.bodies.len()).collect(),
        };
        let quoted = name.replace('"', "\"\"");
        let mut found = Vec::new();
        for at in bodies {
            self.searched += 1;
            if self.reached[at] {
                continue;
            }
            if self.searched <= SEARCHED_MAX {
                self.searched += self.bodies[at].text.len();
                if !self.bodies[at].text.contains(&quoted) {
                    continue;
                }
            }
            self.reached[at] = true;
            found.push(at);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bodies: &[&str], first: &str) -> Vec<usize> {
        let bodies: Vec<Body> = bodies.iter().map(|b| Body::of(b)).collect();
        let known = (0..bodies.len()).map(|at| format!("f {at}")).chain([first.to_string()]).collect();
        let mut reach = Reach::new(bodies.iter(), &known);
        let mut found = Vec::new();
        let mut names = vec![first.to_string()];
        while let Some(name) = names.pop() {
            for at in reach.mentioning(&name) {
                found.push(at);
                // Body n is of a function named `f n`.
                names.push(format!("F {at}"));
            }
        }
        found.sort_unstable();
        found
    }

    #[test]
    fn callers_of_callers_are_found() {
        let bodies = ["perform set_config(1)", "x.\"f 0\"()", "select \"f 1\"()", "select f, 0", "\"F 5\"", "\"f 4\""];
        assert_eq!(all(&bodies, "set_config"), [0, 1, 2]);
        assert_eq!(all(&bodies, "nothing"), [0usize; 0]);
    }

    #[test]
    fn a_long_chain_takes_time_by_its_length() {
        // Each is mentioned by the next alone, under a name of words that all have.
        let bodies: Vec<Body> = (0..2_000).map(|n| Body::of(&format!("perform a.\"g a {n}\"();"))).collect();
        let known = (0..2_001).map(|n| format!("g a {n}")).collect();
        let mut reach = Reach::new(bodies.iter(), &known);
        let mut next = vec![0];
        let mut steps = 0;
        while let Some(at) = next.pop() {
            steps += 1;
            next.extend(reach.mentioning(&format!("g a {at}")).iter().map(|at| at + 1));
        }
        assert_eq!(steps, 2_001);
        assert!(reach.searched < 400 << 10, "{}", reach.searched);
    }

    #[test]
    fn beyond_the_bound_more_is_found_and_never_less() {
        let bodies = [Body::of("b"), Body::of("\"b c\""), Body::of("c b")];
        let known = HashSet::from(["b c".to_string()]);
        let mut reach = Reach::new(bodies.iter(), &known);
        assert_eq!(reach.mentioning("b c"), [1]);
        let mut reach = Reach { searched: SEARCHED_MAX, ..Reach::new(bodies.iter(), &known) };
        assert!(reach.mentioning("b c").contains(&1));
    }
}

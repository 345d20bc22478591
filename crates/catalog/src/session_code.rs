//! Code of users' own that may leave something in the session, and who may come to run it: a graph of what mentions what, walked from the
//! words of a statement. It does not know how it is read from the server (`load/session_code.rs`), nor what a statement is.
//!
//! A place that mentions a name may mean what has that name in a schema of the search path it runs under, or in one whose name it mentions, too. An operator
//! has no name that must be written (IN, BETWEEN, CASE): it is met by whatever sees its schema. So what somebody makes in a schema of his own
//! is nothing to those who neither look there nor name it; types lead to what their casts and constraints call, tables and functions to their types.

use std::collections::{HashMap, HashSet};

/// Steps of one walk; beyond that, it is taken to arrive.
const STEPS_MAX: usize = 10_000;
/// Parameters that are told by name; where there are more, some are set whose names nobody knows.
const SETTINGS_MAX: usize = 1_000;

/// In lower case, each character by itself: what becomes of one must not depend on those beside it, as of a final sigma, or the same name
/// would be another word where it stands before a dot.
pub(crate) fn lower(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}

/// What code may leave in a session, by the names that can mean it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionCode {
    things: Vec<Thing>,
    by_name: HashMap<String, Vec<usize>>,
    operators: Vec<usize>,
    /// Operators and types are among it: a value of unknown type may call some.
    pub by_types: bool,
    /// Custom parameters that code anywhere reads: what sets some whose names are made at run time may set these, and no list
    /// of a server's own has them.
    pub read: Vec<String>,
}

/// What may be left of what a statement comes to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Custom parameters.
    pub settings: Vec<String>,
    /// Parameters whose names are made at run time.
    pub opaque: bool,
}

impl Left {
    /// What either of them may leave.
    pub(crate) fn both(one: Option<Left>, other: Option<Left>) -> Option<Left> {
        match (one, other) {
            (Some(mut one), Some(other)) => {
                one.settings.extend(other.settings);
                one.opaque |= other.opaque;
                Some(one)
            }
            (one, other) => one.or(other),
        }
    }
}

/// A function, relation, type or operator that may leave something, or mentions what may by name, whatever schema that is in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Thing {
    pub schema: String,
    pub name: String,
    pub operator: bool,
    /// An operator, or a type.
    pub by_type: bool,
    /// By what its own text says.
    pub leaves: bool,
    /// The same of values of sequences.
    pub sequences: bool,
    /// Names of other things that it mentions, and names of schemas.
    pub mentions: HashSet<String>,
    /// Where its unqualified names are looked up.
    pub path: Path,
    /// Custom parameters that it may set.
    pub settings: Vec<String>,
    /// It may set some whose names are made at run time.
    pub opaque: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Path {
    #[default]
    Callers,
    Own(Vec<String>),
    /// It runs as somebody else, whose "$user" and rights nobody knows here.
    Any,
}

impl SessionCode {
    pub(crate) fn of(things: Vec<Thing>) -> Self {
        let mut code = SessionCode::default();
        for (at, thing) in things.iter().enumerate() {
            match thing.operator {
                true => code.operators.push(at),
                false => code.by_name.entry(thing.name.clone()).or_default().push(at),
            }
        }
        code.by_types = things.iter().any(|t| t.by_type);
        code.things = things;
        code
    }

    /// Whether what has this name may leave something, or mentions what may.
    pub fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(&lower(name))
    }

    /// Of schemas, too.
    pub(crate) fn all_names(&self) -> impl Iterator<Item = &str> {
        self.things.iter().flat_map(|t| [t.schema.as_str(), t.name.as_str()]).filter(|name| !name.is_empty())
    }

    /// What may be left in the session by what has these words, where names are looked up along `path`.
    pub fn leaves<'w>(&self, words: impl IntoIterator<Item = &'w str>, path: &[String]) -> Option<Left> {
        match self.things.is_empty() {
            true => None,
            false => self.walked(words, path, |walk| walk.left()),
        }
    }

    /// What operators and types may leave, whoever comes to use them.
    pub fn left_by_types(&self) -> Option<Left> {
        let mut walk = Walk::of(self);
        let first = (0..self.things.len()).filter(|at| self.things[*at].by_type);
        walk.next.extend(first.map(|at| (at, None)));
        walk.left()
    }

    /// Whether it may take or ask for values of sequences.
    pub fn takes_values<'w>(&self, words: impl IntoIterator<Item = &'w str>, path: &[String]) -> bool {
        !self.things.is_empty() && !self.walked(words, path, |walk| walk.all(|thing| !thing.sequences))
    }

    fn walked<'w, T>(
        &self,
        words: impl IntoIterator<Item = &'w str>,
        path: &[String],
        then: impl FnOnce(&mut Walk) -> T,
    ) -> T {
        // Casts between types of PostgreSQL's own, which anything may run, have no name.
        let words: HashSet<String> = words.into_iter().chain([""]).map(lower).collect();
        let callers: Vec<String> = path.iter().map(|s| lower(s)).collect();
        let mut walk = Walk::of(self);
        walk.from(&words, Some(&callers));
        then(&mut walk)
    }
}

struct Walk<'c> {
    code: &'c SessionCode,
    seen: HashSet<Meeting<'c>>,
    next: Vec<Meeting<'c>>,
    steps: usize,
}

/// A thing, and the path it is met under; `None`: nobody knows.
type Meeting<'c> = (usize, Option<&'c [String]>);

impl<'c> Walk<'c> {
    fn of(code: &'c SessionCode) -> Self {
        Walk { code, seen: HashSet::new(), next: Vec::new(), steps: 0 }
    }

    /// Each thing on the way, as long as `more` says so; false: not all of them.
    fn all(&mut self, mut more: impl FnMut(&'c Thing) -> bool) -> bool {
        while let Some((at, path)) = self.next.pop() {
            let thing = &self.code.things[at];
            if !more(thing) || self.steps > STEPS_MAX {
                return false;
            }
            let below = match &thing.path {
                Path::Callers => path,
                Path::Own(own) => Some(&own[..]),
                Path::Any => None,
            };
            self.from(&thing.mentions, below);
        }
        true
    }

    fn left(&mut self) -> Option<Left> {
        let (mut leaves, mut opaque, mut settings) = (false, false, HashSet::new());
        let all = self.all(|thing| {
            leaves |= thing.leaves;
            opaque |= thing.opaque;
            settings.extend(&thing.settings);
            settings.len() <= SETTINGS_MAX
        });
        let told = || settings.into_iter().take(SETTINGS_MAX).cloned().collect();
        (leaves || !all).then(|| Left { settings: told(), opaque: opaque || !all })
    }

    fn from(&mut self, words: &HashSet<String>, path: Option<&'c [String]>) {
        let sees = |schema: &String| path.is_none_or(|path| path.contains(schema)) || words.contains(schema);
        let named = words.iter().filter_map(|word| self.code.by_name.get(word)).flatten();
        for &at in named.chain(&self.code.operators) {
            self.steps += 1;
            if sees(&self.code.things[at].schema) && self.seen.insert((at, path)) {
                self.next.push((at, path));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thing(schema: &str, name: &str, mentions: &[&str]) -> Thing {
        let mentions = mentions.iter().map(|m| m.to_string()).collect();
        Thing { schema: schema.into(), name: name.into(), mentions, ..Thing::default() }
    }

    fn leaver(schema: &str, name: &str) -> Thing {
        Thing { leaves: true, ..thing(schema, name, &[]) }
    }

    fn leaves(code: &SessionCode, words: &str, path: &str) -> bool {
        let path: Vec<String> = path.split_whitespace().map(str::to_string).collect();
        code.leaves(words.split_whitespace(), &path).is_some()
    }

    #[test]
    fn what_is_left_is_told_of_what_is_reached() {
        let sets = |schema, name, setting: &str, opaque| Thing {
            settings: vec![setting.into()],
            opaque,
            ..leaver(schema, name)
        };
        let code = SessionCode::of(vec![sets("app", "f", "a.x", false), sets("mal", "g", "b.y", true)]);
        let left = |words: &str| code.leaves(words.split_whitespace(), &["app".to_string()]);
        assert_eq!(left("f g"), Some(Left { settings: vec!["a.x".into()], opaque: false }));
        assert_eq!(left("mal g"), Some(Left { settings: vec!["b.y".into()], opaque: true }));
        assert_eq!(left("g"), None);
    }

    #[test]
    fn a_name_is_one_word_wherever_it_stands() {
        assert!(lower("\u{391}\u{3a3}.b").starts_with(&lower("\u{391}\u{3a3}")));
    }

    #[test]
    fn a_name_means_what_the_path_or_another_word_gives_it() {
        let code = SessionCode::of(vec![leaver("mal", "lower"), thing("app", "f", &["lower"])]);
        assert!(!leaves(&code, "lower d", "public"));
        assert!(leaves(&code, "lower", "public mal"));
        assert!(leaves(&code, "Mal LOWER", "public"));
        assert!(!leaves(&code, "f", "app"), "what it calls is not the other's");
        assert!(leaves(&code, "f", "app mal"));
    }

    #[test]
    fn an_operator_is_met_by_whoever_sees_its_schema() {
        let operator = Thing { operator: true, ..thing("mal", "=", &["mal", "eq"]) };
        let code = SessionCode::of(vec![leaver("mal", "eq"), operator, thing("app", "t", &["mal", "et"])]);
        assert!(!leaves(&code, "d k", "public app"));
        assert!(leaves(&code, "d k", "public mal"));
        assert!(leaves(&code, "t", "app"), "a column of a type of that schema");
    }

    #[test]
    fn code_with_a_path_of_its_own_looks_there() {
        let own = |path| Thing { path, ..thing("app", "f", &["lower"]) };
        let of = |path| SessionCode::of(vec![leaver("mal", "lower"), own(path)]);
        assert!(leaves(&of(Path::Own(vec!["mal".into()])), "f", "app"));
        assert!(!leaves(&of(Path::Own(vec!["app".into()])), "f", "app mal"));
        assert!(leaves(&of(Path::Any), "f", "app"));
    }

    #[test]
    fn a_cast_without_a_name_is_met_by_all() {
        let code = SessionCode::of(vec![leaver("mal", "f"), thing("", "", &["mal", "f"])]);
        assert!(leaves(&code, "anything", ""));
    }

    #[test]
    fn a_walk_ends() {
        let others: Vec<String> = (0..300).map(|n| format!("f{n}")).collect();
        let names: Vec<&str> = others.iter().map(String::as_str).collect();
        let code = SessionCode::of(others.iter().map(|name| thing("app", name, &names)).collect());
        assert!(leaves(&code, "f1", "app"), "so many steps are not taken");
        assert!(!leaves(&code, "g", "app"));
    }
}

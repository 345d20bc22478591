//! Where the unqualified names of code may be looked up: what of several objects of one name it can mean.
//!
//! A statement's names are looked up along its search path, and so are those of a function that sets its own. Other functions
//! take the path of whoever calls them, which is not known here. What they mean is taken to be in the function's own schema,
//! in `public`, in its owner's schemas or in those where only superusers make anything: nobody else's objects change what a
//! function is taken to do. A name that neither those have nor pg_catalog may be in any schema.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use catalog::Oid;
use catalog::code::{Object, Routine, can_mean};
use sql::body::{Body, Words};

use super::Graph;
use super::facts::What;

/// By which path a name in code is looked up.
pub enum LookupPath<'r> {
    /// These schemas, and pg_catalog.
    Path(&'r [String]),
    /// The function's own path.
    Own(Vec<String>),
    /// The path of whoever calls the function.
    Callers(&'r Routine),
    /// The code changes the path while it runs, or nothing is known of it.
    Anywhere,
}

impl<'r> LookupPath<'r> {
    /// The path of a function or procedure, by what is set for it and how often its text names the setting.
    pub fn of(routine: &'r Routine, named: usize) -> Self {
        let path = routine.path.as_deref().map(sql::names::split_path);
        if named > usize::from(path.is_some()) {
            return LookupPath::Anywhere;
        }
        match path {
            // Who calls it has a part in that path.
            Some(path) if !path.iter().any(|s| s == "$user") => LookupPath::Own(path),
            _ => LookupPath::Callers(routine),
        }
    }

    /// Of a statement with code in it (DO).
    pub fn of_statement(body: &Body, path: &'r [String]) -> Self {
        if body.search_paths > 0 { LookupPath::Anywhere } else { LookupPath::Path(path) }
    }

    /// The same for all by which names mean the same.
    pub(super) fn key(&self) -> String {
        let path = |path: &[String]| format!("path {path:?}");
        match self {
            LookupPath::Path(schemas) => path(schemas),
            LookupPath::Own(schemas) => path(schemas),
            LookupPath::Callers(r) => format!("callers {} {:?} {:?}", r.owner, r.schema, r.path),
            LookupPath::Anywhere => "anywhere".into(),
        }
    }
}

/// What names mean, where it is more than one object: thousands of functions that call one name, which thousands have, do not
/// lead to each of those one by one.
#[derive(Default)]
pub(super) struct Names<'s> {
    known: RefCell<HashMap<Asked, Option<What>>>,
    meant: RefCell<Vec<Arc<[Object]>>>,
    mentionable: OnceCell<Mentionable<'s>>,
}

/// Kind, schema if one is written, name and path.
type Asked = (u8, Option<String>, String, String);

/// Names of relations and routines, by the word that stands for them in a text; those that are no word.
#[derive(Default)]
struct Mentionable<'s> {
    words: HashMap<String, Vec<&'s str>>,
    others: Vec<&'s str>,
}

impl Names<'_> {
    /// Whatever a name that leads to several leads to.
    pub fn meant(&self, named: usize) -> Arc<[Object]> {
        self.meant.borrow()[named].clone()
    }

    /// `find`: the objects of a kind that a name, written with this schema, means along the path of this key.
    fn named(
        &self,
        (class, schema, name, key): (u8, Option<&str>, &str, &str),
        find: impl FnOnce() -> Vec<Oid>,
    ) -> Option<What> {
        let asked = (class, schema.map(str::to_string), name.to_string(), key.to_string());
        *self.known.borrow_mut().entry(asked).or_insert_with(|| {
            let found = find();
            match found[..] {
                [] => None,
                [oid] => Some(What::Used(Object { class, oid })),
                _ => {
                    let mut meant = self.meant.borrow_mut();
                    meant.push(found.iter().map(|oid| Object { class, oid: *oid }).collect());
                    Some(What::Named(meant.len() - 1))
                }
            }
        })
    }
}

impl Graph<'_> {
    /// Which of `found` (schema and object id, all of one name) a name can mean. `builtin`: pg_catalog has the name, too.
    pub(super) fn meant<'n>(
        &self,
        scope: &LookupPath,
        schema: Option<&str>,
        found: impl Iterator<Item = (&'n str, Oid)>,
        builtin: bool,
    ) -> Vec<Oid> {
        let along = |path: &[String], found: &mut dyn Iterator<Item = (&'n str, Oid)>| {
            found.filter(|(s, _)| can_mean(schema, path, s)).map(|(_, oid)| oid).collect()
        };
        let mut found = found;
        match scope {
            LookupPath::Path(path) => along(path, &mut found),
            LookupPath::Own(path) => along(path, &mut found),
            _ if schema.is_some() => along(&[], &mut found),
            LookupPath::Anywhere => found.map(|(_, oid)| oid).collect(),
            LookupPath::Callers(routine) => {
                let (near, far): (Vec<_>, Vec<_>) = found.partition(|(s, _)| self.is_near(routine, s));
                let meant = if near.is_empty() && !builtin { far } else { near };
                meant.into_iter().map(|(_, oid)| oid).collect()
            }
        }
    }

    /// Functions of a name, if it can mean any. `key`: the path's.
    pub(super) fn routines_named(
        &self,
        schema: Option<&str>,
        name: &str,
        scope: &LookupPath,
        key: &str,
    ) -> Option<What> {
        let found = self.routines_by_name.get(name)?.iter().copied();
        self.names.named((b'f', schema, name, key), || self.meant(scope, schema, found, self.is_builtin(name)))
    }

    /// The same of operators.
    pub(super) fn operators_named(
        &self,
        schema: Option<&str>,
        name: &str,
        scope: &LookupPath,
        key: &str,
    ) -> Option<What> {
        let all = self.operators.get(name)?;
        let found = all.iter().map(|o| (o.schema.as_str(), o.oid));
        let builtin = || all.iter().any(|o| o.builtin);
        self.names.named((b'o', schema, name, key), || self.meant(scope, schema, found, builtin()))
    }

    /// Names of relations and routines that words may be.
    pub(super) fn mentioned(&self, words: &Words) -> Vec<&str> {
        let mentionable = self.names.mentionable.get_or_init(|| {
            let mut all = Mentionable::default();
            let routines = self.routines_by_name.keys().filter(|name| !self.by_name.contains_key(*name));
            for name in self.by_name.keys().chain(routines).copied() {
                let word = name.to_lowercase();
                match Words::is_word(&word) {
                    true => all.words.entry(word).or_default().push(name),
                    false => all.others.push(name),
                }
            }
            all
        });
        let found = words.words.iter().filter_map(|word| mentionable.words.get(word)).flatten();
        found.chain(mentionable.others.iter().filter(|name| words.mentions(name))).copied().collect()
    }

    fn is_near(&self, routine: &Routine, schema: &str) -> bool {
        let set = || routine.path.as_deref().map(sql::names::split_path).is_some_and(|p| p.iter().any(|s| s == schema));
        let owned = || self.schemas.get(schema).is_some_and(|s| s.trusted || s.owner == routine.owner);
        schema == routine.schema || schema == "public" || owned() || set()
    }

    pub(super) fn is_builtin(&self, function: &str) -> bool {
        self.snapshot.builtin_functions.contains_key(function)
    }
}

//! Where the unqualified names of code may be looked up: what of several objects of one name it can mean.
//!
//! A statement's names are looked up along its search path, and so are those of a function that sets its own. Other functions
//! take the path of whoever calls them, which is not known here. What they mean is taken to be in the function's own schema,
//! in `public`, in its owner's schemas or in those where only superusers make anything: nobody else's objects change what a
//! function is taken to do. A name that neither those have nor pg_catalog may be in any schema.

use catalog::Oid;
use catalog::code::{Routine, can_mean};

use super::Graph;

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
    /// The path of a function or procedure, by what is set for it and what its text says.
    pub fn of(routine: &'r Routine) -> Self {
        let path = routine.path.as_deref().map(sql::names::split_path);
        if mentions_path(&routine.definition) > usize::from(path.is_some()) {
            return LookupPath::Anywhere;
        }
        match path {
            // Who calls it has a part in that path.
            Some(path) if !path.iter().any(|s| s == "$user") => LookupPath::Own(path),
            _ => LookupPath::Callers(routine),
        }
    }

    /// Of a statement with code in it (DO).
    pub fn of_text(text: &str, path: &'r [String]) -> Self {
        if mentions_path(text) > 0 { LookupPath::Anywhere } else { LookupPath::Path(path) }
    }
}

fn mentions_path(text: &str) -> usize {
    text.to_ascii_lowercase().matches("search_path").count()
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

    fn is_near(&self, routine: &Routine, schema: &str) -> bool {
        let set = || routine.path.as_deref().map(sql::names::split_path).is_some_and(|p| p.iter().any(|s| s == schema));
        let owned = || self.schemas.get(schema).is_some_and(|s| s.trusted || s.owner == routine.owner);
        schema == routine.schema || schema == "public" || owned() || set()
    }

    pub(super) fn is_builtin(&self, function: &str) -> bool {
        self.snapshot.builtin_functions.contains_key(function)
    }
}

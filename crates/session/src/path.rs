//! Where a session's unqualified names are looked up: its search path without the schemas that its role may not use, as in
//! PostgreSQL (recomputeNamespacePath in namespace.c). Most sessions' schemas are everybody's; of the others home is asked, once
//! for a role and its path while home's word lasts.
//!
//! It does not know what names mean.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use exec::usage;
use pool::Alike;

use crate::session::{Result, Session};

/// Most sessions have the same.
static PATHS: Alike<Vec<String>> = Alike::new();

/// Whether the session's path is what it should be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PathWord {
    /// Everybody may use all of its schemas.
    #[default]
    Open,
    /// Home has said which of them the role may use; how long that counts.
    Until(Instant),
    /// Home is yet to be asked: no plan that is kept was made by a path such as this.
    Unasked,
}

impl Session {
    /// What plans depend on has changed.
    pub fn refresh_context(&mut self) {
        let (role, path) = (self.current_role(), self.named_path());
        let asked = self.epoch.usage.in_question(&path);
        let known = match asked.is_empty() || self.own_catalog.is_own() {
            true => None,
            false => self.epoch.usage.known(&self.role_condition(role.as_deref()), &asked),
        };
        match known {
            Some(usable) => self.take_path(path, &asked, usable),
            None => {
                self.path_word = if asked.is_empty() { PathWord::Open } else { PathWord::Unasked };
                self.search_path = PATHS.one(Arc::new(path));
                self.hash_context();
            }
        }
    }

    /// Before names are looked up: home is asked of schemas that not everybody may use.
    pub async fn settle_path(&mut self) -> Result<()> {
        self.settle_temporary_views().await?;
        match self.path_word {
            PathWord::Open => Ok(()),
            PathWord::Until(until) if Instant::now() < until => Ok(()),
            // Nothing is looked up any more.
            _ if self.transaction.has_failed() => Ok(()),
            _ => Box::pin(self.ask_path()).await,
        }
    }

    async fn ask_path(&mut self) -> Result<()> {
        let path = self.named_path();
        let asked = self.epoch.usage.in_question(&path);
        let role = self.role_condition(self.current_role().as_deref());
        let usable = match self.own_catalog.is_own() {
            // It sees its own changes.
            true => {
                let until = Instant::now() + usage::LASTS;
                let rows = self.work().ask_home(&usage::question(&role, &asked)).await?;
                usage::Usable { schemas: usage::answer(rows), until }
            }
            false => self.epoch.usage.ask(&self.router.herd, &role, &asked).await?,
        };
        self.take_path(path, &asked, usable);
        Ok(())
    }

    fn take_path(&mut self, mut path: Vec<String>, asked: &[String], usable: usage::Usable) {
        path.retain(|schema| !asked.contains(schema) || usable.schemas.contains(schema));
        self.search_path = PATHS.one(Arc::new(path));
        self.path_word = PathWord::Until(usable.until);
        self.hash_context();
    }

    /// The path as its setting names it; pg_catalog comes first where it is not named.
    fn named_path(&self) -> Vec<String> {
        let path = self.setting("search_path").unwrap_or("\"$user\", public");
        let role = self.current_role();
        let user = role.as_deref().unwrap_or(self.login.user());
        let named = sql::names::split_path(path);
        let first = (!named.iter().any(|s| s == "pg_catalog")).then(|| "pg_catalog".to_string());
        let all = first.into_iter().chain(named.into_iter().map(|s| if s == "$user" { user.to_string() } else { s }));
        // Nothing is found where it was looked for before, and what is asked and kept of a path is as long as it is.
        let mut seen = HashSet::new();
        all.filter(|schema| seen.insert(schema.clone())).collect()
    }

    /// As current_user: the role, or who the session was made to be. `None`: who logged in.
    fn current_role(&self) -> Option<String> {
        let session = self.setting("session_authorization").filter(|u| *u != "default");
        self.setting("role").filter(|r| *r != "none").or(session).map(str::to_string)
    }

    /// Which row of `pg_roles r` that is.
    fn role_condition(&self, role: Option<&str>) -> String {
        let name = match (role, self.login.oid()) {
            (None, Some(oid)) => return format!("r.oid OPERATOR(pg_catalog.=) {oid}"),
            (None, None) => self.login.user(),
            (Some(role), _) => role,
        };
        format!("r.rolname OPERATOR(pg_catalog.=) {}", catalog::quote_literal(name))
    }

    fn hash_context(&mut self) {
        // The same for all sessions; nobody outside can find two paths that look alike.
        static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        let role = self.current_role();
        let role = role.as_deref().unwrap_or(self.login.user());
        self.temporary = self.pg_temp.relations(&self.epoch.snapshot, &self.search_path, role).into();
        let unasked = self.path_word == PathWord::Unasked;
        self.context = KEY.hash_one((
            &self.search_path,
            unasked,
            (&self.temporary, &self.pg_temp.told.types, self.pg_temp.mark()),
            self.standard_conforming_strings(),
            self.bulk.upsert,
        ));
    }
}

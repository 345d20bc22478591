//! Roles that a session has SET are who they were when it did, whatever they are called by now, as in PostgreSQL: by their
//! object ids. Connections are given them by name, so the name follows. It does not know where settings are kept.

use crate::session::{Result, Session};

/// Object ids on home of those that the settings name, as far as they are known.
#[derive(Debug, Default)]
pub struct NamedRoles {
    role: Option<u32>,
    session_authorization: Option<u32>,
    /// The role the session began with, to which RESET ROLE leads.
    first: Option<u32>,
    /// The names were theirs at that time ([`pool::roles_now`]).
    as_of: u64,
}

/// The settings, and how PostgreSQL tells whom they name: not by the name, which may be another's a moment later.
pub const SETTINGS: [(&str, &str); 2] = [("role", "current_user"), ("session_authorization", "session_user")];

/// What asks for the object id of whom a setting names, on the connection it was made on.
pub fn question(name: &str) -> Option<String> {
    let (_, who) = SETTINGS.iter().find(|(setting, _)| *setting == name)?;
    Some(format!("pg_catalog.quote_ident({who}::pg_catalog.text)::pg_catalog.regrole::pg_catalog.oid"))
}

/// What reads a setting on a connection. One that names a role tells the name it was set by, which a role that was renamed
/// since no longer has: it is asked for who that is.
pub fn value(name: &str) -> String {
    let read = format!("pg_catalog.current_setting({}, true)", catalog::quote_literal(name));
    match SETTINGS.iter().find(|(setting, _)| *setting == name) {
        Some((_, who)) => {
            format!("CASE WHEN {read} OPERATOR(pg_catalog.=) 'none' THEN 'none' ELSE {who}::pg_catalog.text END")
        }
        None => read,
    }
}

impl NamedRoles {
    fn of(&mut self, setting: &str) -> Option<&mut Option<u32>> {
        match setting {
            "role" => Some(&mut self.role),
            "session_authorization" => Some(&mut self.session_authorization),
            _ => None,
        }
    }

    /// The session begins with this role, if any.
    pub fn begin_as(&mut self, role: Option<u32>) {
        (self.role, self.first) = (role, role);
    }

    /// All that was set since then is forgotten.
    pub fn begin_again(&mut self) {
        (self.role, self.session_authorization) = (self.first, None);
    }

    /// A setting has a new value; `oid`: of the role it names.
    pub fn note(&mut self, setting: &str, oid: Option<u32>) {
        if let Some(known) = self.of(setting) {
            *known = oid;
        }
    }
}

impl Session {
    /// Before a statement: names may have come to mean others.
    pub async fn follow_named_roles(&mut self) -> Result<()> {
        let now = pool::roles_now();
        if self.named_roles.as_of == now {
            return Ok(());
        }
        for (setting, _) in SETTINGS {
            let oid = self.named_roles.of(setting).and_then(|oid| *oid);
            let (Some(oid), Some(name)) = (oid, self.settings.get(setting)) else { continue };
            if matches!(name, "none" | "default") {
                continue;
            }
            let now_called = Box::pin(self.role_called(oid)).await?;
            if now_called != name {
                self.settings.set(setting, &now_called);
                self.refresh_context();
            }
        }
        if let Some(oid) = self.named_roles.first {
            let now_called = Box::pin(self.role_called(oid)).await?;
            self.startup.set("role", &now_called);
        }
        self.named_roles.as_of = now;
        Ok(())
    }

    /// The name a role has now. Of one that is gone: none, which no role has, so that nodes say so; whoever is called as it was is another.
    async fn role_called(&self, oid: u32) -> Result<String> {
        let sql = format!("SELECT rolname FROM pg_catalog.pg_roles WHERE oid OPERATOR(pg_catalog.=) {oid}");
        let rows = self.router.herd.own.rows(&self.router.herd.config.home, &sql).await?;
        Ok(rows.into_iter().next().and_then(|row| row.into_iter().next()?).unwrap_or_default())
    }
}

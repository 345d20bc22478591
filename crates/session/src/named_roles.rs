//! Roles that a session has SET are who they were when it did, whatever they are called by now, as in PostgreSQL: by their
//! object ids. Connections are given them by name, so the name follows. It does not know where settings are kept.

use crate::session::{Result, Session};

/// Object ids on home of those that the settings name, as far as they are known.
#[derive(Debug, Default)]
pub struct NamedRoles {
    role: Option<u32>,
    session_authorization: Option<u32>,
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

impl NamedRoles {
    fn of(&mut self, setting: &str) -> Option<&mut Option<u32>> {
        match setting {
            "role" => Some(&mut self.role),
            "session_authorization" => Some(&mut self.session_authorization),
            _ => None,
        }
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
            let sql = format!("SELECT rolname FROM pg_catalog.pg_roles WHERE oid OPERATOR(pg_catalog.=) {oid}");
            let rows = self.router.herd.own.get(&self.router.herd.config.home).await?.simple(&sql).await?;
            match rows.into_iter().next().and_then(|row| row.into_iter().next()?) {
                Some(new) if new == name => {}
                // Whoever is called so now is another: no role has no name, so nodes say that there is none.
                gone_or_renamed => {
                    self.settings.set(setting, &gone_or_renamed.unwrap_or_default());
                    self.refresh_context();
                }
            }
        }
        self.named_roles.as_of = now;
        Ok(())
    }
}

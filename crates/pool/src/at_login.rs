//! What the login of a connection has made of ALTER ROLE … SET and ALTER DATABASE … SET. PostgreSQL applies them to sessions
//! that begin, and to those alone. A session here has connections that are made long after it: what they were given is theirs,
//! and they are brought to what the session began with ([`Settings`](crate::Settings)). It does not know sessions.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use wire::{ErrorFields, sqlstate};

use crate::alike::Alike;
use crate::conn::Conn;
use crate::error::PoolError;
use crate::settings::{Settings, hash};
use crate::target::NodeTarget;

/// Bytes of what ALTER ROLE … SET and ALTER DATABASE … SET may give a login, names and values.
const MAX: usize = 256 << 10;

/// As the login has left it; nothing set afterwards changes it.
#[derive(Debug, Default)]
pub struct AtLogin {
    /// Set for the role, the database, or the role in the database: where RESET on this connection leads.
    pub own: Settings,
    /// The same, but hidden by what routers ask of every connection.
    pub hidden: Settings,
    /// A role is named among them, whether there was one of that name or not.
    pub names_role: bool,
    /// The object id here of the role among them, if there is one.
    pub role: Option<u32>,
    /// What all others are.
    pub defaults: Option<Arc<Defaults>>,
}

/// Parameters as the server has them where nobody has set them.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Defaults {
    values: BTreeMap<String, String>,
    fingerprint: u64,
}

/// Parameters that the session may set, and those it may not but that decide what its statements mean: a connection that can't be given a session's
/// says so. What else only a superuser may set (what is logged, …) each connection has for itself.
const FOUND: &str = "SELECT CASE WHEN source OPERATOR(pg_catalog.=) ANY ('{global,database,user,database user}'::pg_catalog.text[]) THEN 'own' ELSE 'default' END, \
    pg_catalog.lower(name), setting FROM pg_catalog.pg_settings \
  WHERE source OPERATOR(pg_catalog.<>) ALL ('{client,session}'::pg_catalog.text[]) AND name OPERATOR(pg_catalog.!~) '^transaction_' \
    AND (context OPERATOR(pg_catalog.=) 'user' OR context OPERATOR(pg_catalog.=) 'superuser' \
      AND (category OPERATOR(pg_catalog.~) '^(Client Connection Defaults / Statement|Version and Platform)' \
        OR pg_catalog.has_parameter_privilege(session_user, name, 'SET'))) \
  UNION ALL SELECT CASE WHEN n OPERATOR(pg_catalog.~) '[.]' THEN 'own' WHEN n OPERATOR(pg_catalog.=) 'role' THEN 'names' ELSE 'hidden' END, n, \
    CASE WHEN n OPERATOR(pg_catalog.~) '[.]' THEN pg_catalog.current_setting(n, true) ELSE value END \
  FROM (SELECT DISTINCT ON (pg_catalog.lower(pg_catalog.split_part(c, '=', 1))) pg_catalog.lower(pg_catalog.split_part(c, '=', 1)) AS n, \
      pg_catalog.substr(c, pg_catalog.strpos(c, '=') OPERATOR(pg_catalog.+) 1) AS value \
    FROM pg_catalog.pg_db_role_setting s, pg_catalog.unnest(s.setconfig) c \
    WHERE (s.setrole OPERATOR(pg_catalog.=) '0' OR s.setrole OPERATOR(pg_catalog.=) (SELECT oid FROM pg_catalog.pg_roles WHERE rolname OPERATOR(pg_catalog.=) session_user)) \
      AND (s.setdatabase OPERATOR(pg_catalog.=) '0' OR s.setdatabase OPERATOR(pg_catalog.=) (SELECT oid FROM pg_catalog.pg_database WHERE datname OPERATOR(pg_catalog.=) pg_catalog.current_database())) \
    ORDER BY 1, s.setrole OPERATOR(pg_catalog.<>) '0' DESC, s.setdatabase OPERATOR(pg_catalog.<>) '0' DESC) set \
  WHERE n OPERATOR(pg_catalog.~) '[.]' AND NOT EXISTS (SELECT FROM pg_catalog.pg_settings WHERE pg_catalog.lower(name) OPERATOR(pg_catalog.=) n) \
    OR n OPERATOR(pg_catalog.=) ANY ('{application_name,client_connection_check_interval,role}'::pg_catalog.text[]) \
  UNION ALL SELECT 'own', 'role', pg_catalog.current_setting('role') WHERE pg_catalog.current_setting('role') OPERATOR(pg_catalog.<>) 'none' \
  UNION ALL SELECT 'role', NULL, pg_catalog.quote_ident(current_user::pg_catalog.text)::pg_catalog.regrole::pg_catalog.oid::pg_catalog.text";

/// Of more than the limit the number of bytes alone.
fn question() -> &'static str {
    static QUESTION: LazyLock<String> = LazyLock::new(|| {
        format!(
            "WITH found (kind, name, setting) AS ({FOUND}), \
               size (bytes) AS (SELECT coalesce(pg_catalog.sum(pg_catalog.octet_length(name) OPERATOR(pg_catalog.+) pg_catalog.octet_length(setting)), 0) \
                 FROM found WHERE kind OPERATOR(pg_catalog.=) 'own' OR kind OPERATOR(pg_catalog.=) 'hidden') \
             SELECT kind, name, setting FROM found, size WHERE bytes OPERATOR(pg_catalog.<=) {MAX} \
             UNION ALL SELECT 'bytes', NULL, bytes::pg_catalog.text FROM size WHERE bytes OPERATOR(pg_catalog.>) {MAX}"
        )
    });
    &QUESTION
}

impl Conn {
    /// Asks what the login has made of settings, and takes the connection to have that. To be called before anything is set.
    pub(crate) async fn read_at_login(&mut self) -> Result<(), PoolError> {
        let (mut found, mut defaults) = (AtLogin::default(), BTreeMap::new());
        for row in self.simple(question()).await? {
            let [Some(kind), name, Some(value)] = &row[..] else { continue };
            match (kind.as_str(), name) {
                ("own", Some(name)) => found.own.set(name, value),
                ("hidden", Some(name)) => found.hidden.set(name, value),
                ("names", _) => found.names_role = true,
                ("default", Some(name)) => drop(defaults.insert(name.clone(), value.clone())),
                ("bytes", _) => return Err(too_much(value, &self.target)),
                _ => found.role = value.parse().ok(),
            }
        }
        found.role = found.role.filter(|_| found.own.get("role").is_some());
        found.defaults = Some(Defaults::of(defaults));
        self.settings = found.own.clone();
        self.at_login = Arc::new(found);
        Ok(())
    }

    /// A login now would find what this one has found. Whether it has the role that its settings name hangs on that role's name, and
    /// on who is a member of it by then.
    pub fn is_of_login_now(&self) -> bool {
        !(self.at_login.names_role && self.served)
    }

    /// What was set on the connection, by its login or since. `None`: nothing was.
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.settings.on(&self.at_login.own, name)
    }

    /// All settings and statements of the session on it have been discarded (DISCARD ALL).
    pub fn discarded(&mut self) {
        self.statements.clear();
        self.settings = self.at_login.own.clone();
        if self.settings.get("role").is_some() {
            // Versions of PostgreSQL differ in whether it has its role again; no role has no name.
            self.settings.set("role", "");
        }
    }
}

/// Each connection of the role's would have them, and each session.
fn too_much(bytes: &str, target: &NodeTarget) -> PoolError {
    let error = ErrorFields::error(sqlstate::OUT_OF_MEMORY, "out of memory for settings that logins begin with")
        .detail(format!("{bytes} bytes would be in use, {MAX} are the limit."))
        .hint("Another role can take them away: ALTER ROLE … RESET ALL, ALTER DATABASE … RESET ALL.");
    PoolError::Auth { node: target.to_string(), error: Box::new(error) }
}

impl Defaults {
    /// Connections of a server mostly have the same: there is one of each.
    pub(crate) fn of(values: BTreeMap<String, String>) -> Arc<Defaults> {
        static KNOWN: Alike<Defaults> = Alike::new();
        let fingerprint = values.iter().fold(1, |print, (name, value)| print ^ hash(name, value).rotate_left(1));
        KNOWN.one(Arc::new(Defaults { values, fingerprint }))
    }

    pub(crate) fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// A parameter that nobody knows, or knew then, is empty once somebody has set it.
    pub fn get(&self, name: &str) -> &str {
        match name {
            "role" => "none",
            _ => self.values.get(name).map_or("", String::as_str),
        }
    }
}

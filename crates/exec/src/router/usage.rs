//! Which schemas a role may use, as home says: PostgreSQL leaves the others out where it looks for an unqualified name
//! (recomputeNamespacePath in its namespace.c), so that a plan must, too.
//!
//! What everybody may use nobody asks for. What home has said lasts as long as the snapshot, and no longer than a second:
//! rights are also given past the routers. It does not know what a search path is, nor who asks.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use catalog::{Row, Snapshot};
use parking_lot::Mutex;

use crate::error::Result;
use crate::router::compiled::LEARNT_MAX;
use crate::router::herd::Herd;

/// How long home's word counts.
pub const LASTS: Duration = Duration::from_secs(1);
/// How long nobody tries again when home can't be asked.
const LASTS_WITHOUT_HOME: Duration = Duration::from_secs(10);

/// A role and the schemas in question.
type Question = (String, Vec<String>);

/// What home has said of schemas, for one snapshot.
pub struct Usage {
    /// Schemas with relations that not everybody may use.
    closed: HashSet<String>,
    known: Mutex<HashMap<Question, Usable>>,
    /// One asks for all who wait for the same.
    asking: tokio::sync::Mutex<()>,
}

/// Those of the schemas asked for that the role may use.
#[derive(Clone, Debug)]
pub struct Usable {
    pub schemas: Vec<String>,
    pub until: Instant,
}

impl Usage {
    pub(crate) fn of(snapshot: &Snapshot) -> Self {
        let closed = snapshot.relations.values().filter(|r| !r.schema_is_open).map(|r| r.schema.clone()).collect();
        Usage { closed, known: Mutex::default(), asking: Default::default() }
    }

    /// Those of a path's schemas about which home is to be asked.
    pub fn in_question(&self, path: &[String]) -> Vec<String> {
        if self.closed.is_empty() {
            return Vec::new();
        }
        path.iter().filter(|schema| self.closed.contains(*schema)).cloned().collect()
    }

    /// What home has said a moment ago.
    pub fn known(&self, role: &str, schemas: &[String]) -> Option<Usable> {
        let found = self.known.lock().get(&(role.to_string(), schemas.to_vec())).cloned()?;
        (Instant::now() < found.until).then_some(found)
    }

    /// Asks home. `role`: see [`question`].
    pub async fn ask(&self, herd: &Herd, role: &str, schemas: &[String]) -> Result<Usable> {
        let _turn = self.asking.lock().await;
        if let Some(known) = self.known(role, schemas) {
            return Ok(known);
        }
        let until = Instant::now() + LASTS;
        let usable = match herd.own.rows(&herd.config.home, &question(role, schemas)).await {
            Ok(rows) => Usable { schemas: answer(rows), until },
            // While home is down its last word counts.
            Err(e) if e.is_node_trouble() => {
                let last = self.known.lock().get(&(role.to_string(), schemas.to_vec())).cloned();
                Usable { until: Instant::now() + LASTS_WITHOUT_HOME, ..last.ok_or(e)? }
            }
            Err(e) => return Err(e.into()),
        };
        let mut known = self.known.lock();
        if known.len() >= LEARNT_MAX {
            known.clear();
        }
        known.insert((role.to_string(), schemas.to_vec()), usable.clone());
        Ok(usable)
    }
}

/// SQL that gives those of the schemas that a role may use. `role`: a condition on `r`, a row of `pg_roles`.
pub fn question(role: &str, schemas: &[String]) -> String {
    let names: Vec<String> = schemas.iter().map(|s| catalog::quote_literal(s)).collect();
    format!(
        "SELECT n.nspname FROM pg_catalog.pg_namespace n, pg_catalog.pg_roles r \
         WHERE {role} AND n.nspname OPERATOR(pg_catalog.=) ANY (ARRAY[{}]::pg_catalog.name[]) \
         AND pg_catalog.has_schema_privilege(r.oid, n.oid, 'USAGE')",
        names.join(", ")
    )
}

/// The answer to [`question`].
pub fn answer(rows: Vec<Row>) -> Vec<String> {
    rows.into_iter().flatten().flatten().collect()
}

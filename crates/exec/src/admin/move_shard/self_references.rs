//! Foreign keys of a table to itself, which PostgreSQL lets no shard leave with: `herd.self_references` in the catalog's `move.sql` says why. They are
//! away for as long as the change of the catalog takes, under its locks, and come back NOT VALID; that rows satisfy them is looked at
//! by a job in the background. It does not know what else is changed meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use catalog::{NodeId, Relation, qualified, quote_ident, quote_literal};

use super::changes::changed;
use super::plan::Move;
use super::unsupported;
use crate::client::Client;
use crate::error::Result;
use crate::router::herd::Herd;
use crate::work::Work;

/// Where they can't be kept.
pub const HINT: &str = "Drop the foreign key, and add it again afterwards.";
/// Before, PostgreSQL adds no foreign key to a partitioned table without a look at all of its rows.
const VERSION_MIN: i32 = 180_000;

/// Of one table, as its shard's node has them under the locks.
pub struct SelfReferences {
    relation: Arc<Relation>,
    /// What `herd.self_references` says.
    known: String,
    /// The names of those that all rows are known to satisfy.
    valid: BTreeSet<String>,
}

/// An error where a node can't do without them for a moment only.
pub async fn may_be_added_again(herd: &Herd, of: &Move, members: &[Arc<Relation>]) -> Result<()> {
    let Some(relation) = members.iter().find(|r| r.refers_to_itself) else { return Ok(()) };
    for node in BTreeSet::from([of.from, of.to]) {
        let rows = herd.own.rows(&herd.target(&of.snapshot, node)?, "SHOW server_version_num").await?;
        let version = rows.first().and_then(|row| row.first()?.as_deref()?.parse::<i32>().ok()).unwrap_or_default();
        if version < VERSION_MIN {
            let why = "has a foreign key to itself, which needs PostgreSQL 18 on both nodes";
            return Err(unsupported(relation, why).hint(HINT));
        }
    }
    Ok(())
}

impl<C: Client> Work<'_, C> {
    /// Of all tables. Whoever looks at rows has ended by now, or will see what is there then.
    pub(super) async fn self_references(&mut self, of: &Move) -> Result<Vec<SelfReferences>> {
        let mut found = Vec::new();
        for relation in of.tables.iter().map(|t| &t.relation).filter(|r| r.refers_to_itself) {
            let (mut known, mut valid) = (None, BTreeSet::new());
            for node in [of.to, of.from] {
                let ask = format!("SELECT herd.self_references({})", parent(relation));
                let said = self.row_on(node, &ask).await?.into_iter().next().flatten().ok_or_else(changed)?;
                let all: Vec<serde_json::Value> = serde_json::from_str(&said).map_err(|_| changed())?;
                let names = all.iter().filter(|one| one["valid"] == true).filter_map(|one| one["name"].as_str());
                valid.extend(names.map(str::to_owned));
                known = Some(said);
            }
            found.extend(known.map(|known| SelfReferences { relation: relation.clone(), known, valid }));
        }
        Ok(found)
    }
}

/// What nodes do before any shard leaves or comes.
pub fn drop_all(of: &Move, all: &[SelfReferences], texts: &mut BTreeMap<NodeId, Vec<String>>) {
    call_all(of, all, "herd.drop_self_references", texts);
}

/// What they do behind that; and home, which has the rows looked at.
pub fn add_all(of: &Move, all: &[SelfReferences], router: u64, texts: &mut BTreeMap<NodeId, Vec<String>>) {
    call_all(of, all, "herd.add_self_references", texts);
    for of_table in all {
        let r = &of_table.relation;
        for name in &of_table.valid {
            let name = quote_ident(name);
            let call = format!("ALTER TABLE {} VALIDATE CONSTRAINT {name}", qualified(&r.schema, &r.name));
            let (call, about) = (quote_literal(&call), quote_literal(&format!("constraint {name} of {}", r.name)));
            // One that nobody has begun with looks at all that is there by then.
            texts.entry(of.snapshot.home).or_default().push(format!(
                "INSERT INTO herd.job (kind, about, arguments, router, step, call, caller) \
                 SELECT 'validate', {about}, '{{}}', '{router:016x}', 'wait', {call}, c.relowner FROM pg_catalog.pg_class c \
                  WHERE c.oid OPERATOR(pg_catalog.=) {} AND NOT EXISTS (SELECT FROM herd.job j \
                        WHERE j.call OPERATOR(pg_catalog.=) {call} AND j.state OPERATOR(pg_catalog.=) 'running' AND j.owner_pid IS NULL)",
                r.oid
            ));
        }
    }
}

fn call_all(of: &Move, all: &[SelfReferences], function: &str, texts: &mut BTreeMap<NodeId, Vec<String>>) {
    for node in BTreeSet::from([of.from, of.to]) {
        let calls = all.iter().map(|s| {
            format!("SELECT {function}({}, {}::pg_catalog.jsonb)", parent(&s.relation), quote_literal(&s.known))
        });
        texts.entry(node).or_default().extend(calls);
    }
}

/// A table, as a regclass.
fn parent(r: &Relation) -> String {
    format!("{}::pg_catalog.regclass", quote_literal(&qualified(&r.schema, &r.name)))
}

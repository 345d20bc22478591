//! What `herd.verify` says. Rights that do not follow are made to, as the router does by itself in time; what is left is told. It goes through the
//! router's own connections, as rights of any owner's tables do. Tables that jobs which run have made are theirs.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use catalog::{NodeId, quote_literal};

use super::{Finding, Repair, name};
use crate::client::Client;
use crate::error::Result;
use crate::work::Work;

const WRONG: &str = "SELECT object, problem FROM herd.verify() WHERE problem OPERATOR(pg_catalog.<>) ''";
const OF_HOME: &str =
    "SELECT pg_catalog.jsonb_object_agg(d::pg_catalog.text, herd.rights(d)) FROM herd.distributed() AS d";
/// Of tables, and of roles their attributes and memberships, which are compared with home's as the view `herd.verify` does.
const OF_EACH: &str =
    "SELECT object, rights::pg_catalog.text FROM herd.verify() WHERE problem OPERATOR(pg_catalog.=) ''";
const MOMENT: Duration = Duration::from_millis(300);
/// Where a shard has another owner, or other rights, than its table says; and where a table has others than on home.
const MIRROR: &str = "SELECT herd.try_mirror(d, NULL) FROM herd.distributed() AS d";

impl<C: Client> Work<'_, C> {
    pub(super) async fn repair_rights(&mut self, repair: &Repair) -> Result<Vec<Finding>> {
        let mut before = self.wrong(repair).await?;
        if !before.is_empty() {
            // Nothing is locked, and shards that are moved or made are strange for a moment.
            tokio::time::sleep(MOMENT).await;
            let again = self.wrong(repair).await?;
            before.retain(|of| again.contains(of));
        }
        let mut after = before.clone();
        if !before.is_empty() && !repair.dry_run {
            let (herd, snapshot) = (self.herd.clone(), self.epoch.snapshot.clone());
            let home = herd.own.rows(&herd.config.home, OF_HOME).await?;
            let home = home.into_iter().flatten().flatten().next();
            for node in &snapshot.nodes {
                let mut conn = herd.admin(&snapshot, node.id).await?;
                if let Some(home) = home.as_ref().filter(|_| node.id != snapshot.home) {
                    conn.simple(&format!("SELECT herd.follow_home({}::pg_catalog.jsonb)", quote_literal(home))).await?;
                }
                conn.simple(MIRROR).await?;
            }
            after = self.wrong(repair).await?;
        }
        let finding = |of: &(NodeId, String, String)| {
            let mended = !after.contains(of);
            let action = match (mended, repair.dry_run) {
                (true, _) => "its rights follow its table's, and those home's",
                (false, true) => "rights would be made to follow; what then is left is to be decided by somebody",
                (false, false) => {
                    "it is not known what was meant: make it on that node what home has, or drop it there (docs/security.md)"
                }
            };
            let (node, object, problem) = of.clone();
            Finding { node: self.node_name(node), object, problem, mended, action: action.into() }
        };
        Ok(before.iter().map(finding).collect())
    }

    /// On which node, what, and how.
    async fn wrong(&self, repair: &Repair) -> Result<BTreeSet<(NodeId, String, String)>> {
        let (herd, snapshot) = (self.herd.clone(), self.epoch.snapshot.clone());
        let mut wanted: Option<Vec<String>> = None;
        if let Some(only) = repair.only {
            let mut names = Vec::new();
            for r in snapshot.relations.values().filter(|r| r.oid == only) {
                names.push(name(r));
                let shards =
                    r.distribution().into_iter().flat_map(|d| d.group.shards.iter().map(|s| d.partition(s.number)));
                names.extend(shards);
            }
            wanted = Some(names);
        }
        let mut wrong = BTreeSet::new();
        let pairs = |rows: Vec<catalog::Row>| {
            let pair = |row: catalog::Row| {
                let mut cells = row.into_iter().flatten();
                Some((cells.next()?, cells.next()?))
            };
            rows.into_iter().filter_map(pair).collect::<HashMap<String, String>>()
        };
        let home = pairs(herd.own.rows(&herd.config.home, OF_EACH).await?);
        for node in &snapshot.nodes {
            let target = herd.target(&snapshot, node.id)?;
            for row in herd.own.rows(&target, WRONG).await? {
                let mut cells = row.into_iter().flatten();
                let (Some(object), Some(problem)) = (cells.next(), cells.next()) else { continue };
                wrong.insert((node.id, object, problem));
            }
            for (object, rights) in pairs(herd.own.rows(&target, OF_EACH).await?) {
                let same = match home.get(&object) {
                    Some(of_home) => *of_home == rights,
                    None => rights == "[]" || object.starts_with("attributes of role "),
                };
                if !same {
                    let what = if rights.starts_with('[') { "they" } else { "owner, privileges or row-level security" };
                    wrong.insert((node.id, object, format!("{what} are not those on home")));
                }
            }
        }
        // Asked for last: a job is entered before it makes anything.
        let running = self.running_jobs().await?;
        wrong.retain(|(_, object, _)| !job_of(object).is_some_and(|job| running.contains(&job)));
        wrong.retain(|(_, object, _)| wanted.as_ref().is_none_or(|names| names.contains(object)));
        Ok(wrong)
    }
}

/// The job whose table it is, by a name that nothing else has.
fn job_of(object: &str) -> Option<String> {
    let (_, behind) = object.split_once("herd_moving_")?;
    Some(format!("herd_move_{}", behind.get(..16)?))
}

//! Views over a table that changes its kind. Home keeps them (`catalog/src/definition/views.rs`); other nodes have those that read nothing
//! but what they have, as CREATE VIEW makes them there, and so get them with the table. Those that come to read local tables beside distributed
//! ones are changed so that nobody reads them on home (`sql/src/read_whole.rs`). What a view is made of is not known here.

use catalog::{NodeId, Oid, Placement, Relation, Snapshot, ViewOver};
use plan::code::PlacementKind;
use plan::ddl::place::is_herd;
use plan::ddl::reads_of_query;
use wire::sqlstate;

use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::router::herd::catalog_error;
use crate::work::Work;

/// The views over tables, one with its partitions, that every node is to have once they are of that kind.
pub(super) fn wanted_elsewhere(
    snapshot: &Snapshot,
    tables: &[Oid],
    views: &mut [ViewOver],
    kind: PlacementKind,
) -> Vec<ViewOver> {
    if views.is_empty() {
        return vec![];
    }
    // What else a view reads: a table on every node is nothing that counts.
    let placement = if kind == PlacementKind::Local { Placement::Local } else { Placement::Reference };
    let snapshot = with_placement(snapshot, tables, placement);
    let mut wanted = vec![];
    for view in views {
        // Once it is so, it stays so until it is made anew.
        if sql::read_whole::may_be(&view.query) {
            continue;
        }
        let reads = reads_of_query(&snapshot, &view.query);
        let distributed = reads.distributed || kind == PlacementKind::Distributed;
        if reads.local && distributed {
            view.query = sql::read_whole::definition(view.query.trim_end_matches(';'), false);
            view.changed = true;
        } else if !reads.local {
            wanted.push(view.clone());
        }
    }
    wanted
}

/// The catalog with tables somewhere else.
fn with_placement(snapshot: &Snapshot, tables: &[Oid], placement: Placement) -> Snapshot {
    let mut snapshot = snapshot.clone();
    for relation in snapshot.relations.values_mut().filter(|r| tables.contains(&r.oid)) {
        *relation = Relation { placement: placement.clone(), ..(**relation).clone() }.into();
    }
    snapshot
}

fn is_of_a_session(view: &ViewOver) -> bool {
    view.schema.starts_with("pg_temp_")
}

/// A table becomes another one: only the session that has made a temporary view can have it take its query once more.
pub(super) fn refuse_temporary(views: &[ViewOver]) -> Result<()> {
    let Some(view) = views.iter().find(|v| is_of_a_session(v)) else { return Ok(()) };
    let message = format!("temporary view \"{}\" reads the table, which is to become another one", view.name);
    Err(ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, message)
        .hint("Drop it, or wait for the session to end that has made it; it can be made again afterwards."))
}

impl<C: Client> Work<'_, C> {
    /// The views over tables, and over those, as home has them.
    pub(super) async fn views_over(&mut self, tables: &[Oid]) -> Result<Vec<ViewOver>> {
        let mut p = self.lane(self.home()).await?;
        let views = catalog::read_views(&mut p.lane, tables).await.map_err(catalog_error);
        self.put_back(p).await;
        views
    }

    /// Makes views on the nodes that don't have them, with all that belongs to them.
    pub(super) async fn make_views_elsewhere(&mut self, views: &[ViewOver]) -> Result<()> {
        let home = self.home();
        let others: Vec<_> = self.epoch.snapshot.nodes.iter().map(|n| n.id).filter(|n| *n != home).collect();
        self.make_views_on(&others, views).await
    }

    /// Makes a view over the herd's tables on the other nodes, which don't have it, as home has it now.
    pub(crate) async fn view_elsewhere(&mut self, schema: &str, name: &str) -> Result<()> {
        let snapshot = self.epoch.snapshot.clone();
        let tables: Vec<Oid> = snapshot.relations.values().filter(|r| is_herd(r)).map(|r| r.oid).collect();
        let mut views = self.views_over(&tables).await?;
        views.retain(|v| v.schema == schema && v.name == name);
        self.make_views_elsewhere(&views).await
    }

    /// Makes on a node that has joined what all others have.
    pub(super) async fn copy_views(&mut self, node: NodeId, snapshot: &Snapshot) -> Result<()> {
        let tables: Vec<Oid> = snapshot.relations.values().filter(|r| is_herd(r)).map(|r| r.oid).collect();
        let mut views = self.views_over(&tables).await?;
        views.retain(|v| !is_of_a_session(v) && !reads_of_query(snapshot, &v.query).local);
        self.make_views_on(&[node], &views).await
    }

    async fn make_views_on(&mut self, nodes: &[NodeId], views: &[ViewOver]) -> Result<()> {
        let home = self.home();
        for view in views.iter().filter(|_| !nodes.is_empty()) {
            let mut p = self.lane(home).await?;
            let made = catalog::read_view_elsewhere(&mut p.lane, view).await.map_err(catalog_error);
            self.put_back(p).await;
            let made = made?;
            for node in nodes {
                let name = catalog::quote_literal(&view.qualified());
                let there = self.ask_node(*node, &format!("SELECT NOT EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass({name}) AND c.relkind OPERATOR(pg_catalog.=) 'v')")).await?;
                if there.first().and_then(|r| r.first()?.as_deref()) == Some("t") {
                    let path = self.set_on(*node, "search_path", "pg_catalog, pg_temp").await?;
                    self.run_on(*node, made.iter().cloned()).await?;
                    self.set_on(*node, "search_path", &path).await?;
                }
            }
        }
        Ok(())
    }
}

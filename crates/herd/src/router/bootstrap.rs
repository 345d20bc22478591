//! Makes a new herd: the catalog on home, and the nodes named in the configuration.

use std::sync::Arc;
use std::time::Duration;

use catalog::schema::NodeAddress;
use catalog::{HerdKey, Node, Snapshot};
use pool::Conn;
use tokio::task::JoinSet;

use super::{RouterError, login, target};
use crate::config::{Config, NodeConfig};

/// Nodes that are looked at side by side when a router starts.
const AT_ONCE: usize = 32;

fn address(name: &str, node: &NodeConfig) -> NodeAddress {
    NodeAddress { name: name.to_string(), host: node.host.clone(), port: node.port, database: node.dbname.clone() }
}

/// The catalog on home.
pub async fn home(conn: &mut Conn, home: &NodeConfig) -> Result<HerdKey, RouterError> {
    let key = catalog::bootstrap_home(conn, &address("home", home)).await.map_err(catalog_error)?;
    warn_without_prepared_transactions(conn, "home").await?;
    Ok(key)
}

/// Registers nodes of the configuration that the catalog does not know; only a herd without tables gets them this way.
pub async fn nodes(
    home: &mut Conn,
    key: &HerdKey,
    mut snapshot: Snapshot,
    config: &Config,
) -> Result<Snapshot, RouterError> {
    for node in &config.nodes {
        if snapshot.nodes.iter().any(|n| n.host == node.host && n.port == node.port && n.database == node.dbname) {
            continue;
        }
        let spread = snapshot.relations.values().any(|r| r.distribution().is_some() || r.is_reference());
        if spread {
            tracing::warn!(
                host = node.host,
                port = node.port,
                "a node of the configuration is not in the herd: add it with citus_add_node()"
            );
            continue;
        }
        let failed = |error| RouterError::Node { node: format!("{}:{}", node.host, node.port), error };
        let mut conn = first_contact(home, config, node).await.map_err(failed)?;
        for remark in exec::can_join(home, &mut conn).await? {
            tracing::warn!(hint = remark.hint, "{}", remark.message);
        }
        let name = format!("node{}", snapshot.nodes.len() + 1);
        let version = conn.simple("SELECT current_setting('server_version_num')").await.map_err(failed)?;
        let version = version.first().and_then(|r| r[0].as_deref()?.parse().ok()).unwrap_or(0);
        let planned = catalog::plan_add_node(&snapshot, &[], &address(&name, node), version);
        let (added, plan) = planned.map_err(|r| exec::ExecError::sql(r.sqlstate(), r.message))?;
        conn.simple(&catalog::bootstrap_node_sql(&key.id)).await.map_err(failed)?;
        conn.with_parameters(catalog::SEAL_NODE, &[&key.seal]).await.map_err(failed)?;
        home.simple("BEGIN").await?;
        conn.simple("BEGIN").await?;
        for part in plan.before.iter().chain(&plan.after) {
            let on = if part.node == added.id { &mut conn } else { &mut *home };
            for sql in &part.statements {
                on.simple(sql).await?;
            }
        }
        conn.simple("COMMIT").await?;
        home.simple("COMMIT").await?;
        snapshot = exec::load(home, Some(&snapshot)).await?;
        tracing::info!(name, host = node.host, port = node.port, "node registered");
    }
    Ok(snapshot)
}

/// By the node's own entry of the configuration, and then as the router will always come: by home's.
async fn first_contact(home: &mut Conn, config: &Config, node: &NodeConfig) -> Result<Conn, pool::PoolError> {
    let (target, limit) = (target(node), Duration::from_secs(10));
    let mut conn = Conn::connect(&target, &login(node), &pool::OWN_STARTUP, limit).await?;
    exec::is_trusted(home, &conn)?;
    if exec::bring_verifier(home, &mut conn).await? {
        tracing::info!(host = node.host, port = node.port, "the router's role has home's verifier on the node now");
    }
    if login(node) != login(&config.home) {
        conn = Conn::connect(&target, &login(&config.home), &pool::OWN_STARTUP, limit).await?;
        exec::is_trusted(home, &conn)?;
    }
    Ok(conn)
}

/// Brings nodes that an older version has prepared up to this one. A node that is away gets what it lacks from the next
/// router that starts.
pub async fn renew(herd: &Arc<exec::Herd>, key: &HerdKey) {
    let snapshot = herd.epoch.load().snapshot.clone();
    let asked = async {
        let mut home = herd.admin(&snapshot, snapshot.home).await?;
        Ok::<_, exec::ExecError>(exec::Likeness::ask(&mut home).await?)
    };
    let home = match asked.await {
        Ok(home) => Arc::new(home),
        Err(e) => {
            return tracing::warn!(error = %e, "home could not be asked whether nodes are as this version needs them");
        }
    };
    let mut at_work = JoinSet::new();
    for node in snapshot.nodes.iter().filter(|n| n.id != snapshot.home).cloned() {
        if at_work.len() >= AT_ONCE {
            at_work.join_next().await;
        }
        let (herd, key, snapshot, home) = (herd.clone(), key.clone(), snapshot.clone(), home.clone());
        at_work.spawn(async move {
            if let Err(e) = renew_node(&herd, &key, &snapshot, &node, &home).await {
                tracing::warn!(node = node.name, error = %e, "whether the node has all this version needs could not be seen");
            }
        });
    }
    at_work.join_all().await;
}

async fn renew_node(
    herd: &exec::Herd,
    key: &HerdKey,
    snapshot: &Snapshot,
    node: &Node,
    home: &exec::Likeness,
) -> Result<(), exec::ExecError> {
    const VERSION: &str =
        "SELECT pg_catalog.obj_description(pg_catalog.to_regnamespace('herd')::pg_catalog.oid, 'pg_namespace')";
    let mut conn = herd.admin(snapshot, node.id).await?;
    let unlike = home.unlike(&exec::Likeness::ask(&mut conn).await?);
    if !unlike.differences.is_empty() {
        let differences = unlike.differences.join("; ");
        tracing::warn!(
            node = node.name,
            differences,
            "the node reads text in another way than home: answers can differ from node to node"
        );
    }
    let rows = conn.simple(VERSION).await?;
    if rows.first().and_then(|r| r[0].as_deref()) != Some(&catalog::schema::version()) {
        conn.simple(&catalog::bootstrap_node_sql(&key.id)).await?;
        conn.with_parameters(catalog::SEAL_NODE, &[&key.seal]).await?;
        tracing::info!(node = node.name, "the node is brought up to this version");
    }
    Ok(())
}

async fn warn_without_prepared_transactions(conn: &mut Conn, name: &str) -> Result<(), RouterError> {
    let rows = conn.simple("SHOW max_prepared_transactions").await?;
    if rows.first().and_then(|r| r[0].as_deref()) == Some("0") {
        tracing::warn!(
            node = name,
            "max_prepared_transactions is 0: transactions that write to several nodes will be refused; set it and restart the node"
        );
    }
    Ok(())
}

fn catalog_error(e: catalog::CatalogError<pool::PoolError>) -> RouterError {
    match e {
        catalog::CatalogError::Query(e) => e.into(),
        other => exec::ExecError::internal(other.to_string()).into(),
    }
}

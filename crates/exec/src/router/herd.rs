//! What all sessions of a router share: pools, the current snapshot, counters.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use wire::sqlstate;

use arc_swap::ArcSwap;
use catalog::{NodeId, Snapshot};
use pool::{Conn, NodeTarget, OwnConns, PoolError, Pools, TlsMode};
use share::SharedQueues;
use tokio::sync::{Mutex, Notify};
use txn::{Identity, Raised, Seal};

use crate::budget::Allowance;
use crate::error::{ExecError, Result};
use crate::kept_rows::for_rows;
use crate::router::barrier;
use crate::router::column_stores::{ColumnReads, Store};
use crate::router::compiled::Epoch;
use crate::router::desk::Desk;
use crate::router::gates::Gates;
use crate::router::lease::Lease;
use crate::router::pause::Pauses;
use crate::router::progress::Progress;
use crate::router::readers::Readers;
use crate::router::readers::elsewhere::Questions;
use crate::router::roles::Roles;
use crate::router::row_queue::RowQueues;
use crate::router::servers::Servers;
use crate::router::sizes::Sizes;
use crate::router::standbys::Standbys;
use crate::spool::Disk;

/// What the operator has said of the herd.
#[derive(Clone)]
pub struct HerdConfig {
    pub home: NodeTarget,
    /// What routers sign decisions with.
    pub seal: Seal,
    /// Bytes that kept plans take at most.
    pub plan_bytes: usize,
    /// The same of rows that wait in the router, of a session and of all.
    pub row_bytes_per_session: usize,
    pub row_bytes: usize,
    /// Where rows wait that are more.
    pub disk: Arc<Disk>,
    /// Stores of column copies, by the name or number of their node.
    pub stores: Vec<(String, Store)>,
}

/// What all sessions of a router share: connections, roles, the catalog, queues, pauses.
pub struct Herd {
    /// Connections for clients, each as the client's role.
    pub pools: Pools,
    /// The router's own: as a superuser (or who owns what it manages).
    pub own: OwnConns,
    /// Who clients are.
    pub roles: Arc<Roles>,
    pub shared: SharedQueues,
    pub rows: RowQueues,
    pub config: HerdConfig,
    pub epoch: ArcSwap<Epoch>,
    /// How long `epoch` may be taken for the newest.
    pub lease: Lease,
    pub router: u64,
    /// Readers of `herd.snapshot` take their turns here.
    pub gates: Gates,
    pub progress: Progress,
    pub columns: ColumnReads,
    pub servers: Servers,
    /// Tables that statements do not begin with for a moment.
    pub pauses: Pauses,
    /// What transactions read that have begun on no node.
    pub readers: Arc<Readers>,
    /// What other routers are asked about theirs.
    pub elsewhere: Questions,
    pub standbys: Standbys,
    /// A session has entered a job for any router.
    pub entered: Notify,
    /// Of tables.
    pub sizes: Sizes,
    /// For rows that wait; this part of it is what no session does.
    pub memory: Allowance,
    transactions: AtomicU64,
    /// One at a time; the connection by which the catalog was loaded last.
    refreshing: Mutex<Option<Desk>>,
    /// Those who wait for a lock take turns to look.
    looking: Mutex<()>,
}

impl Herd {
    /// With this snapshot of the catalog, and no lease on it yet.
    pub fn new(
        config: HerdConfig,
        own: OwnConns,
        roles: Arc<Roles>,
        pools: Pools,
        snapshot: Snapshot,
        router: u64,
    ) -> Self {
        let pauses = Pauses::new(router, config.seal.clone());
        let memory = Allowance::of(&Arc::new(for_rows(
            config.row_bytes_per_session,
            config.row_bytes,
            Some(config.disk.clone()),
        )));
        Herd {
            rows: RowQueues::default(),
            shared: SharedQueues::new(pools.clone(), own.clone()),
            pools,
            own,
            roles,
            epoch: ArcSwap::from_pointee(Epoch::new(snapshot, config.plan_bytes)),
            config,
            lease: Lease::default(),
            router,
            gates: Gates::default(),
            progress: Progress::default(),
            columns: ColumnReads::default(),
            servers: Servers::default(),
            standbys: Standbys::default(),
            entered: Notify::new(),
            sizes: Sizes::default(),
            pauses,
            readers: Arc::default(),
            elsewhere: Questions::default(),
            memory,
            transactions: AtomicU64::new(1),
            refreshing: Mutex::new(None),
            looking: Mutex::new(()),
        }
    }

    /// What the router says of itself where it decides transactions.
    pub fn identity(&self) -> Identity {
        Identity {
            herd: self.epoch.load().snapshot.herd_id.clone(),
            router: self.router,
            seal: self.config.seal.clone(),
        }
    }

    /// A number that no other transaction of this router has had.
    pub fn next_transaction(&self) -> u64 {
        self.transactions.fetch_add(1, Ordering::Relaxed)
    }

    /// How to reach a node. TLS as for home, but for sockets.
    pub fn target(&self, snapshot: &Snapshot, node: NodeId) -> Result<NodeTarget> {
        if node == snapshot.home {
            return Ok(self.config.home.clone());
        }
        let n = snapshot.node(node).ok_or_else(|| ExecError::internal(format!("node {node} is not in the catalog")))?;
        let tls = if n.host.starts_with('/') { TlsMode::Disable } else { self.config.home.tls.clone() };
        Ok(NodeTarget {
            host: n.host.clone(),
            port: n.port,
            database: n.database.clone(),
            tls,
            require_auth: self.config.home.require_auth,
            liveness: self.config.home.liveness,
            standby_of: None,
        })
    }

    /// The store beside a node, if the operator has named one.
    pub fn store(&self, snapshot: &Snapshot, node: NodeId) -> Option<&Store> {
        let name = &snapshot.node(node)?.name;
        let of_node = |(called, _): &&(String, Store)| called == name || called.parse() == Ok(node);
        self.config.stores.iter().find(of_node).map(|(_, store)| store)
    }

    /// A connection of the router's own to a node, which belongs to no pool.
    pub async fn admin(&self, snapshot: &Snapshot, node: NodeId) -> Result<Conn> {
        let target = self.target(snapshot, node)?;
        Ok(self.own.connect(&target).await?)
    }

    /// Loads the catalog anew, unless somebody did while we waited and it is at least as new as `epoch`.
    pub fn refresh(&self, at_least: Option<i64>) -> impl Future<Output = Result<()>> + Send {
        Box::pin(self.loaded_anew(at_least))
    }

    async fn loaded_anew(&self, at_least: Option<i64>) -> Result<()> {
        let mut desk = self.refreshing.lock().await;
        let current = self.epoch.load().snapshot.clone();
        if at_least.is_some_and(|e| current.epoch >= e) {
            return Ok(());
        }
        // Before anybody learns that the change is known here.
        self.pools.follow_names().await?;
        if let Some(mut conn) = desk.take()
            && let Ok(snapshot) = load(&mut conn, Some(&current)).await
        {
            *desk = Some(conn);
            self.epoch.store(Arc::new(Epoch::read(snapshot, self.config.plan_bytes).await));
            return Ok(());
        }
        // A connection that has stood for long may be dead while home is well.
        let mut conn = Desk(self.own.connect(&self.config.home).await?);
        let snapshot = load(&mut conn, Some(&current)).await?;
        *desk = Some(conn);
        self.epoch.store(Arc::new(Epoch::read(snapshot, self.config.plan_bytes).await));
        Ok(())
    }

    /// Takes what a transaction has loaded for itself after its last change, and then committed, for everybody's catalog, if that
    /// is what a load would give now. It is, where the transaction has raised the epoch from the one it loaded:
    ///
    /// - Whoever changes the catalog raises the epoch as the last thing before his commit, and holds its row's lock until then. A load
    ///   reads the epoch before all else that others change. So a change that was committed before that has been seen by all its
    ///   questions, whichever snapshot each had; one that was committed later, up to our own raising, has raised the epoch in between,
    ///   and ours went by more than one; and from our raising to our commit nobody could commit any.
    /// - What the transaction itself has changed is in it: nothing ran on its nodes after the load (`Transaction::uses`) but deferred
    ///   triggers, of which none may be there ([`Snapshot::anyones`]); what raising the epoch itself changes is `kinds`, which it has told.
    /// - It says the same whoever asks: the settings that texts are printed by are given (`catalog::load::SETTINGS`), all that is read
    ///   is readable by everybody and filtered for nobody, and temporary objects of the session's, which would be printed without
    ///   their schema, are not there (`anyones` again).
    ///
    /// What was behind others' locks is unknown in it as it would be in a load, and is looked at again as ever.
    async fn adopt(&self, own: &Epoch, raised: Raised) -> Result<()> {
        if !own.snapshot.anyones || own.snapshot.epoch + 1 != raised.epoch {
            return Ok(());
        }
        let _desk = self.refreshing.lock().await;
        if self.epoch.load().snapshot.epoch >= raised.epoch {
            return Ok(());
        }
        // As in a refresh.
        self.pools.follow_names().await?;
        self.epoch.store(Arc::new(Epoch::committed(own, raised, self.config.plan_bytes)));
        Ok(())
    }

    /// Somebody waits for what was locked when the catalog was loaded that he has seen: it is loaded anew when any of it is free.
    pub async fn look_again(&self, seen: &Arc<Epoch>) -> Result<()> {
        let _turn = self.looking.lock().await;
        if !Arc::ptr_eq(&self.epoch.load(), seen) {
            return Ok(());
        }
        let locked: Vec<String> = seen.snapshot.locked.iter().map(|oid| oid.to_string()).collect();
        let sql = format!(
            "SELECT count(*) FROM herd.behind_locks() b WHERE b.class = 'pg_class'::regclass AND b.object = ANY ('{{{}}}')",
            locked.join(",")
        );
        let rows = self.own.rows(&self.config.home, &sql).await?;
        let still: usize = rows.first().and_then(|r| r.first()?.as_deref()?.parse().ok()).unwrap_or(0);
        if still < locked.len() { self.refresh(None).await } else { Ok(()) }
    }
}

/// The catalog as `q` sees it. `previous` spares what has not changed.
pub async fn load<Q: catalog::Query<Error = PoolError>>(q: &mut Q, previous: Option<&Snapshot>) -> Result<Snapshot> {
    Box::pin(catalog::load_with(q, previous)).await.map_err(catalog_error)
}

/// What a node said stays so; a refusal keeps its hint; what has no SQLSTATE is XX000.
pub fn catalog_error(e: catalog::CatalogError<PoolError>) -> ExecError {
    match e {
        catalog::CatalogError::Query(e) => ExecError::Pool(e),
        catalog::CatalogError::Refused(refusal) => refused(&refusal),
        other => ExecError::sql(other.sqlstate().unwrap_or(sqlstate::INTERNAL_ERROR), other.to_string()),
    }
}

/// The catalog's refusal as the client gets it, with its hint if there is one.
pub fn refused(refusal: &catalog::Refusal) -> ExecError {
    let fields = wire::ErrorFields::error(refusal.sqlstate(), refusal.message.clone());
    ExecError::Sql(Box::new(if refusal.hint.is_empty() { fields } else { fields.hint(refusal.hint.clone()) }))
}

/// A committed change of the catalog: word to the other routers, our own snapshot, and then a wait until they have
/// theirs, so that whoever hears of the change can use it through any router. If it has `raised` the epoch, a snapshot of
/// that epoch has it, whoever loaded it. `own`: what the transaction saw at its end, and what it has raised the epoch to.
pub async fn catalog_changed(herd: &Herd, after_commit: Vec<String>, raised: bool, own: Option<(Arc<Epoch>, Raised)>) {
    // Before anybody hears of the change, this router among them: it would be loaded then.
    if let Some((own, raised)) = own
        && let Err(e) = herd.adopt(&own, raised).await
    {
        tracing::debug!(error = %e, "what a transaction has loaded could not be taken over");
    }
    let told = barrier::tell(herd, after_commit).await;
    let at_least = told.as_ref().ok().filter(|_| raised).map(|told| told.epoch);
    if let Err(e) = herd.refresh(at_least).await {
        tracing::warn!(error = %e, "the catalog could not be loaded after a change");
    }
    match told {
        Ok(told) => {
            if let Err(e) = told.wait(herd).await {
                tracing::warn!(error = %e, "whether other routers know of a change of the catalog could not be seen");
            }
        }
        Err(e) => tracing::warn!(error = %e, "other routers could not be told of a change of the catalog"),
    }
}

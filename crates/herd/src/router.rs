//! The router: makes the herd's catalog if it is new, loads it, listens, and serves each client in a task of its own.
//!
//! What a session does is in the `session` crate; this file only starts things, keeps the background work going and ends
//! them in order.

mod background;
mod bootstrap;
mod circles;
mod deadlock;
mod health;
mod metrics;
mod registry;
mod rights;
mod stores;

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use catalog::{HerdKey, Snapshot};
use exec::{Herd, HerdConfig, Roles};
use pool::{
    Conn, Liveness, Login, LongMessages, NodeTarget, OWN_STARTUP, OwnConns, PoolConfig, Pools, Secret, TlsMode,
};
use session::cancel::CancelRegistry;
use session::login::{Auth, LoginConfig, ServerConfig};
use session::{Limits, Router, RouterDefaults};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::config::{self, Config, LogFormat, NodeConfig};

/// Why a router could not start, or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum RouterError {
    #[error("cannot listen on {address}: {source}")]
    Listen { address: String, source: std::io::Error },
    #[error("home: {}", with_hint(.0))]
    Pool(#[from] pool::PoolError),
    #[error("node {node}: {}", with_hint(.error))]
    Node { node: String, error: pool::PoolError },
    #[error("{0}")]
    Exec(#[from] exec::ExecError),
    #[error("cannot read {path}: {source}")]
    File { path: String, source: std::io::Error },
    #[error("TLS: {0}")]
    Tls(String),
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// What is printed once, to an operator, says what to do in the same line.
fn with_hint(error: &pool::PoolError) -> String {
    match error.to_fields().get(b'H') {
        Some(hint) => format!("{error}. {hint}"),
        None => error.to_string(),
    }
}

/// How long home may take to come up before the router gives up.
const HOME_WAIT: Duration = Duration::from_secs(30);
/// How long a router that starts waits for nodes that an older version has prepared; what is left is done beside its clients.
const RENEWAL_WAITED_FOR: Duration = Duration::from_secs(3);
/// How long home may take to note that the router has left.
const LEAVE: Duration = Duration::from_secs(1);
/// How long sessions get to finish when the router is told to stop.
const DRAIN: Duration = Duration::from_secs(3);
/// And then to tell their clients why they end.
const TOLD: Duration = Duration::from_secs(1);

/// Serves until a signal ends it and sessions have ended, or had their time; `Err`: it could not start.
pub async fn run(config: Config) -> Result<(), RouterError> {
    log_to_stderr(&config);
    config.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    let home = NodeTarget { liveness: config.pool.tcp.liveness(Liveness::NODE), ..target(&config.home) };
    let admin = login(&config.home);
    let mut conn = connect_home(&home, &admin).await?;
    let key = bootstrap::home(&mut conn, &config.home).await?;
    let begun = Instant::now();
    let snapshot = exec::load(&mut conn, None).await?;
    let shards: usize = snapshot.groups.values().map(|group| group.shards.len()).sum();
    let (tables, nodes, took) = (snapshot.relations.len(), snapshot.nodes.len(), begun.elapsed());
    tracing::info!(nodes, shards, tables, ?took, "the catalog is loaded");
    let snapshot = bootstrap::nodes(&mut conn, &key, snapshot, &config).await?;
    let parameters: Vec<(String, String)> = conn.parameters().iter().map(|(n, v)| (n.clone(), v.clone())).collect();
    let herd = Arc::new(herd_of(&config, home, admin, &key, snapshot)?);
    let (renewed, of) = (herd.clone(), key.clone());
    let renewal = tokio::spawn(async move { bootstrap::renew(&renewed, &of).await });
    // The first clients find on all nodes what this version needs, unless a node lets us wait.
    let _ = tokio::time::timeout(RENEWAL_WAITED_FOR, renewal).await;
    let parameters = Arc::new(ArcSwap::from_pointee(parameters));
    let listeners = listen(&config).await?;
    let router = Arc::new(Router {
        login: login_config(&config, &herd.config.seal, parameters.clone())?,
        herd: herd.clone(),
        address: listeners.first().and_then(|l| l.local_addr().ok()).map(|a| a.to_string()).unwrap_or_default(),
        cancels: Arc::new(CancelRegistry::default()),
        doors: Arc::new(session::Doors::new(
            config.limits.logins as usize,
            config.limits.connections_per_user as usize,
        )),
        budget: Arc::new(session::budget::for_statements(
            config.limits.prepared_bytes_per_session as usize,
            config.limits.prepared_bytes as usize,
        )),
        apart: session::Apart::new(config.limits.statement_bytes as usize, config.limits.client_message_bytes as usize),
        limits: Limits { message_bytes_max: config.limits.message_bytes_max as usize },
        defaults: RouterDefaults { shards: config.shards as i32 },
        metrics: Default::default(),
        encodings: Default::default(),
        parameters,
    });
    let health = Arc::new(health::Health::default());
    let stores = Arc::new(stores::Stores::default());
    if let Some(address) = config.metrics {
        let listener = TcpListener::bind(address)
            .await
            .map_err(|source| RouterError::Listen { address: address.to_string(), source })?;
        tokio::spawn(metrics::serve(listener, router.clone(), health.clone(), stores.clone()));
    }
    tokio::spawn(stores::look(router.clone(), stores));
    let address = match listeners.first() {
        Some(first) => first.local_addr()?,
        None => return Err(std::io::Error::other("no address to listen on").into()),
    };
    // Before the first client gets its key: the router's number is part of it.
    registry::register(&mut conn, &router, address).await?;
    let reporting = background::start(&router, address, health);
    if config.threads() == 1 {
        // Of several threads one would look for all, and find nothing while another one sleeps where it would look.
        tokio::spawn(pool::awake::look());
    }
    tokio::spawn(deadlock::watch(router.clone()));
    let places = Arc::new(Semaphore::new(config.limits.connections as usize));
    let mut listening = JoinSet::new();
    for listener in listeners {
        tracing::info!(address = %listener.local_addr()?, "listening");
        listening.spawn(accept(listener, router.clone(), places.clone()));
    }
    until_told_to_stop(&router, &config).await?;
    tracing::info!("stopping");
    listening.shutdown().await;
    end_sessions(&router).await;
    reporting.abort();
    let _ = reporting.await;
    if let Ok(Err(e)) = tokio::time::timeout(LEAVE, registry::leave(&router)).await {
        tracing::warn!(error = %e, "other routers will wait once for this one");
    }
    Ok(())
}

/// What all sessions share: pools, roles, the catalog's snapshot. Those who see to pools begin.
fn herd_of(
    config: &Config,
    home: NodeTarget,
    admin: Login,
    key: &HerdKey,
    snapshot: Snapshot,
) -> Result<Herd, RouterError> {
    let pool_config = PoolConfig {
        size: pool::Size::shared(config.pool.size as usize, config.pool.shared_size.map(|size| size as usize)),
        wait_timeout: Duration::from_millis(config.pool.wait_timeout_ms),
        idle_timeout: Duration::from_secs(config.pool.idle_timeout_s),
        max_prepared: config.pool.max_prepared as usize,
        long: Arc::new(LongMessages::new(
            config.limits.row_bytes_per_session as usize,
            config.limits.row_bytes as usize,
        )),
        ..Default::default()
    };
    let own = OwnConns::new(&PoolConfig { connect_timeout: Duration::from_secs(10), ..pool_config.clone() }, admin);
    let roles = Arc::new(Roles::new(own.clone(), home.clone(), config.auth == config::Auth::Scram));
    let pools = Pools::new(pool_config.clone(), Some(roles.clone()));
    pools.spawn_reaper(own.clone());
    pools.spawn_role_follower();
    let seal = txn::Seal::from_hex(&key.seal).ok_or_else(|| exec::ExecError::internal("herd.seal is unreadable"))?;
    let herd_config = HerdConfig {
        home,
        plan_bytes: config.limits.plan_bytes as usize,
        row_bytes_per_session: config.limits.row_bytes_per_session as usize,
        row_bytes: config.limits.row_bytes as usize,
        disk: Arc::new(exec::Disk::new(
            config.limits.spool_directory.clone().unwrap_or_else(std::env::temp_dir),
            config.limits.spool_bytes_per_session,
            config.limits.spool_bytes,
        )),
        stores: config.column.iter().map(|c| (c.node.clone(), store_of(&c.store, &pool_config))).collect(),
        seal,
    };
    Ok(Herd::new(herd_config, own, roles, pools, snapshot, rand::random()))
}

/// A store is not worth waiting for: rows are there.
fn store_of(store: &NodeConfig, pool: &PoolConfig) -> exec::Store {
    let config =
        PoolConfig { connect_timeout: Duration::from_secs(1), wait_timeout: Duration::from_secs(5), ..pool.clone() };
    exec::Store::new(target(store), OwnConns::new(&config, login(store)))
}

async fn listen(config: &Config) -> Result<Vec<TcpListener>, RouterError> {
    let mut listeners = Vec::new();
    for address in &config.listen {
        let bound = TcpListener::bind(address).await;
        listeners.push(bound.map_err(|source| RouterError::Listen { address: address.to_string(), source })?);
    }
    Ok(listeners)
}

/// To a signal that ends the router. Another one, as for PostgreSQL, has it read its files anew: the certificate.
async fn until_told_to_stop(router: &Router, config: &Config) -> Result<(), RouterError> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    loop {
        tokio::select! {
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
            _ = hangup.recv() => match tls(config) {
                Ok(tls) => {
                    router.login.tls.store(tls);
                    tracing::info!("the certificate has been read anew; all else is as when the router was started");
                }
                Err(e) => tracing::error!(error = %e, "the certificate stays as it was"),
            },
        }
    }
}

/// Nobody waits for clients that want nothing now; those whose statement runs have their time, and hear why when that is over.
async fn end_sessions(router: &Router) {
    let deadline = tokio::time::Instant::now() + DRAIN;
    let there = || router.metrics.connections.load(std::sync::atomic::Ordering::Relaxed) > 0;
    while there() && tokio::time::Instant::now() < deadline {
        router.cancels.end_idle();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    if there() {
        let _ = tokio::time::timeout(TOLD, router.cancels.terminate_all()).await;
        let deadline = tokio::time::Instant::now() + TOLD;
        while there() && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

async fn accept(listener: TcpListener, router: Arc<Router>, places: Arc<Semaphore>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(session::serve(stream, router.clone(), places.clone()));
            }
            Err(e) => {
                // Out of file descriptors, most likely: others must end first.
                tracing::warn!(error = %e, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

fn log_to_stderr(config: &Config) {
    let filter = tracing_subscriber::EnvFilter::try_new(&config.log).unwrap_or_else(|_| "info".into());
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second router in one process (in tests) keeps the first one's log.
    let _ = match config.log_format {
        LogFormat::Text => logs.with_ansi(false).try_init(),
        LogFormat::Json => logs.json().try_init(),
    };
    std::panic::set_hook(Box::new(|panic| {
        let backtrace = std::backtrace::Backtrace::capture();
        tracing::error!(%panic, %backtrace, "a fault of the router ends a session or a task; please report it");
    }));
}

async fn connect_home(home: &NodeTarget, admin: &Login) -> Result<Conn, RouterError> {
    let deadline = tokio::time::Instant::now() + HOME_WAIT;
    loop {
        match Conn::connect(home, admin, &OWN_STARTUP, Duration::from_secs(10)).await {
            Ok(conn) => return Ok(conn),
            Err(e) if e.is_node_trouble() && tokio::time::Instant::now() < deadline => {
                tracing::warn!(error = %e, "waiting for home");
                tokio::time::sleep(Duration::from_millis(250)).await;
            }
            Err(e) => return Err(e.into()),
        }
    }
}

fn target(node: &NodeConfig) -> NodeTarget {
    let root = || node.sslrootcert.clone().unwrap_or_else(|| "system".into());
    let tls = match node.sslmode {
        config::conninfo::SslMode::Disable => TlsMode::Disable,
        config::conninfo::SslMode::Prefer => TlsMode::Prefer,
        config::conninfo::SslMode::Require => TlsMode::Require,
        config::conninfo::SslMode::VerifyCa => TlsMode::VerifyCa { root: root() },
        config::conninfo::SslMode::VerifyFull => TlsMode::VerifyFull { root: root() },
    };
    NodeTarget {
        host: node.host.clone(),
        port: node.port,
        database: node.dbname.clone(),
        tls,
        require_auth: node.require_auth,
        liveness: Liveness::NODE,
        standby_of: None,
    }
}

fn login(node: &NodeConfig) -> Login {
    let secret = node.password.clone().map_or(Secret::None, Secret::Password);
    Login::new(&node.user, secret)
}

/// What clients that ask for TLS are offered, by the files as they are now.
fn tls(config: &Config) -> Result<Option<Arc<ServerConfig>>, RouterError> {
    let Some(t) = &config.tls else { return Ok(None) };
    let read = |path: &std::path::Path| {
        std::fs::read(path).map_err(|source| RouterError::File { path: path.display().to_string(), source })
    };
    session::login::server_config(&read(&t.certificate)?, &read(&t.key)?).map(Some).map_err(RouterError::Tls)
}

fn login_config(
    config: &Config,
    seal: &txn::Seal,
    parameters: Arc<ArcSwap<Vec<(String, String)>>>,
) -> Result<LoginConfig, RouterError> {
    // The same on all routers of a herd, so that an unknown user looks the same on all of them; and known to nobody else, or
    // he could tell unknown users from known ones.
    let mock_secret = seal.token("the salts of unknown users");
    Ok(LoginConfig {
        auth: match config.auth {
            config::Auth::Trust => Auth::Trust,
            config::Auth::Scram => Auth::Scram,
        },
        tls: Arc::new(tls(config)?.into()),
        tls_required: config.tls.as_ref().is_some_and(|t| t.required),
        login_timeout: Duration::from_secs(config.limits.login_timeout_s),
        liveness: config.limits.tcp.liveness(Liveness::CLIENT),
        server_parameters: Arc::new(move || parameters.load().as_ref().clone()),
        mock_secret,
    })
}

//! The program `herd-column`: reads its configuration, and joins what the library has.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use column::apply::Writer;
use column::config::Config;
use column::freshness::Freshness;
use column::kept::Kept;
use column::read::Reads;
use column::readers::Readers;
use column::reopen::Others;
use column::shared::Shared;
use column::{private, resort, serve, store};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// Reads at a time; more wait.
const READERS: usize = 4;

/// Keeps column copies of a PostgreSQL node's tables, and answers questions about them.
#[derive(Parser)]
#[command(name = "herd-column", version)]
struct Cli {
    /// The configuration, TOML with a table [column].
    #[arg(long)]
    config: PathBuf,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    private::close();
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into()))
        .with_writer(std::io::stderr)
        .init();
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error),
    };
    match runtime.block_on(run(&cli)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&*error),
    }
}

async fn run(cli: &Cli) -> Result<(), Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string(&cli.config).map_err(|e| format!("{}: {e}", cli.config.display()))?;
    let config = Config::parse(&text).map_err(|e| format!("{}: {e}", cli.config.display()))?;
    if config.has_password() {
        private::readable(&cli.config).into_iter().for_each(|warning| tracing::warn!("{warning}"));
    }
    private::directory(&config.directory)?;
    let listener = TcpListener::bind(config.listen).await.map_err(|e| format!("{}: {e}", config.listen))?;
    let shared = Shared::new(config);
    let writer = Writer::open(shared.clone())?;
    let readers = Readers::new(writer.connection(), READERS)?;
    let sorts = writer.connection().try_clone()?;
    let writer = writer.spawn()?;
    let sorts = resort::spawn(shared.clone(), writer.clone(), sorts)?;
    let others = Others { readers: readers.clone(), sorts };
    let freshness = Freshness::spawn(shared.clone());
    let (unchanged, kept) = (Default::default(), Arc::new(Kept::new(shared.config.kept_bytes)));
    let reads = Reads { shared: shared.clone(), freshness, readers, writer: writer.clone(), unchanged, kept };
    let mut terminate = signal(SignalKind::terminate())?;
    tracing::info!("listening on {}", listener.local_addr()?);
    tokio::select! {
        never = store::run(shared, writer, others) => match never {},
        served = serve::serve(listener, reads) => Ok(served?),
        _ = tokio::signal::ctrl_c() => Ok(()),
        _ = terminate.recv() => Ok(()),
    }
}

fn fail(error: &(impl std::fmt::Display + ?Sized)) -> ExitCode {
    eprintln!("herd-column: {error}");
    ExitCode::FAILURE
}

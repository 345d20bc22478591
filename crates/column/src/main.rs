//! The program `herd-column`: reads its configuration, and joins what the library has.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Parser, Subcommand};
use column::apply::Writer;
use column::config::Config;
use column::freshness::Freshness;
use column::kept::Kept;
use column::read::Reads;
use column::readers::Readers;
use column::reopen::Others;
use column::shared::Shared;
use column::{duck_error, embedded, private, resort, serve, store};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// Reads at a time; more wait.
const READERS: usize = 4;

/// How long those are waited for who still work when it ends.
const SHUTDOWN_MAX: Duration = Duration::from_secs(1);

/// Keeps column copies of a PostgreSQL node's tables, and answers questions about them.
#[derive(Parser)]
#[command(name = "herd-column", version, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
struct Cli {
    /// The configuration, TOML with a table [column].
    #[arg(long, required = true)]
    config: Option<PathBuf>,
    #[command(subcommand)]
    alone: Option<Alone>,
}

/// What it does in the place of a store.
#[derive(Subcommand)]
enum Alone {
    /// Run SQL of standard input, a statement a line, on a file of DuckDB's, and tell answers and times: what stores are compared with.
    Sql {
        /// The file; it is made if it is not there.
        #[arg(long)]
        file: PathBuf,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let config = match (cli.alone, cli.config) {
        (Some(Alone::Sql { file }), _) => return sql(&file),
        (None, config) => config.unwrap_or_default(),
    };
    private::close();
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into()))
        .with_writer(std::io::stderr)
        .init();
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error),
    };
    let ended = runtime.block_on(run(&config));
    // Reads may still be at work.
    runtime.shutdown_timeout(SHUTDOWN_MAX);
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.downcast_ref().is_some_and(duck_error::is_over) => fail(&again(&error.to_string())),
        Err(error) => fail(&*error),
    }
}

/// The same process begins anew. An error if it can't.
fn again(why: &str) -> std::io::Error {
    tracing::error!("begins anew, as DuckDB has ended: {why}");
    // Should it end at once each time.
    std::thread::sleep(SHUTDOWN_MAX);
    let mut args = std::env::args_os();
    let name = args.next();
    match std::env::current_exe() {
        Ok(program) => {
            let mut command = std::process::Command::new(program);
            name.into_iter().for_each(|name| _ = command.arg0(name));
            command.args(args).exec()
        }
        Err(error) => error,
    }
}

/// SQL on a file of its own.
fn sql(file: &Path) -> ExitCode {
    let script = match std::io::read_to_string(std::io::stdin()) {
        Ok(script) => script,
        Err(error) => return fail(&error),
    };
    match embedded::run(file, &script, &mut std::io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

async fn run(path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let config = Config::parse(&text).map_err(|e| format!("{}: {e}", path.display()))?;
    if config.has_password() {
        private::readable(path).into_iter().for_each(|warning| tracing::warn!("{warning}"));
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
        over = store::run(shared, writer, others) => Err(over.into()),
        served = serve::serve(listener, reads) => Ok(served?),
        _ = tokio::signal::ctrl_c() => Ok(()),
        _ = terminate.recv() => Ok(()),
    }
}

fn fail(error: &(impl std::fmt::Display + ?Sized)) -> ExitCode {
    eprintln!("herd-column: {error}");
    ExitCode::FAILURE
}

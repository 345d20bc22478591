//! The command line of `herd`. Its commands and options are a contract that scripts rely on.
//!
//! It turns arguments into calls and does none of the work.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::bench::{self, Protocol};
use crate::config::{Config, SHARDS_MAX};
use crate::demo;
use crate::dump;
use crate::export::{self, Format};
use crate::jobs;
use crate::local::{self, NODES_MAX, Target, UpOptions, literal};
use crate::status;

/// Many PostgreSQL servers, one database.
#[derive(Debug, Parser)]
#[command(name = "herd", version, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start (or make, or repair) a local herd in the background; print its URL when it is ready
    Up {
        #[command(flatten)]
        dir: Dir,
        /// PostgreSQL servers of a new herd [default: 2]
        #[arg(long, value_parser = clap::value_parser!(u16).range(1..=i64::from(NODES_MAX)))]
        nodes: Option<u16>,
        /// The router's port; nodes listen on the ports after it [default: 6500]
        #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
        port: Option<u16>,
        /// Shards of a table, unless it is told otherwise [default: 32]
        #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(SHARDS_MAX)))]
        shards: Option<u32>,
        /// A setting of the PostgreSQL servers, such as synchronous_commit=off (repeatable)
        #[arg(long = "set", value_name = "NAME=VALUE")]
        settings: Vec<String>,
        /// A store of column copies beside each node, from now on
        #[arg(long, conflicts_with = "ha")]
        columns: bool,
        /// Each node of a new herd with a standby that takes over: needs the programs etcd and patroni
        #[arg(long)]
        ha: bool,
    },
    /// Stop a local herd; its data stays
    Down {
        #[command(flatten)]
        dir: Dir,
    },
    /// Show what of a herd is up, every node of its catalog included; exit code 0 when all of it is
    Status {
        #[command(flatten)]
        of: Where,
        #[arg(long)]
        json: bool,
    },
    /// Show what takes long (moves and splits of shards, tables that are distributed), how far they have come and how they ended
    Jobs {
        #[command(flatten)]
        of: Where,
        /// Show those that run until none does; exit code 0 when all of them were done
        #[arg(long)]
        watch: bool,
    },
    /// Open psql on a local herd
    Psql {
        #[command(flatten)]
        dir: Dir,
        /// Arguments of psql, such as -c 'select 1'
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Run a router for servers that exist already, in the foreground
    Router {
        /// The configuration file
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
    /// Watch over the servers of a local herd with standbys, in the foreground; `herd up --ha` starts it in the background
    #[command(hide = true)]
    Watch {
        #[command(flatten)]
        dir: Dir,
    },
    /// Run the workloads W1 to W4 in small on a local herd and on a plain PostgreSQL; print a table of figures
    Demo {
        /// The herd's directory; made where it is missing
        #[arg(long, default_value = ".herd-demo")]
        dir: PathBuf,
        /// The router's port; nodes listen on the ports after it [default: 6700]
        #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
        port: Option<u16>,
        /// Rows of W2 and W4; W3 has twice as many
        #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
        rows: u64,
    },
    /// Write all of a herd at one snapshot into a folder, for a plain PostgreSQL or another herd (see `herd restore`)
    Dump {
        #[command(flatten)]
        from: Where,
        /// The folder to make; it must be empty
        #[arg(long, value_name = "DIR")]
        to: PathBuf,
        /// Connections to a node at once
        #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
        jobs: u16,
        /// How pg_dump reaches a node that it can't reach at the address the herd knows (repeatable)
        #[arg(long = "node", value_name = "NAME=URL", value_parser = named)]
        nodes: Vec<(String, String)>,
    },
    /// Read what `herd dump` wrote into an empty database: of a plain PostgreSQL, or of another herd
    Restore {
        /// The folder
        #[arg(long, value_name = "DIR")]
        from: PathBuf,
        #[command(flatten)]
        to: Where,
        /// Connections at once
        #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
        jobs: u16,
        /// Leave roles as they are; otherwise those that are missing are made
        #[arg(long)]
        no_roles: bool,
    },
    /// Write the rows of a table or a query at one snapshot of all nodes into a folder, as Parquet or CSV files
    Export(Export),
    /// Measure a workload on a server, side by side with others
    Bench(Bench),
    /// Add, remove and list nodes
    #[command(subcommand)]
    Node(NodeCommand),
    /// List tables
    #[command(subcommand)]
    Table(TableCommand),
    /// List shards
    #[command(subcommand)]
    Shard(ShardCommand),
}

#[derive(Debug, Args)]
struct Dir {
    /// The herd's directory
    #[arg(long, default_value = ".herd")]
    dir: PathBuf,
}

#[derive(Debug, Args)]
struct Where {
    /// The local herd's directory
    #[arg(long, default_value = ".herd")]
    dir: PathBuf,
    /// Any router, instead of a local herd
    #[arg(long, conflicts_with = "dir")]
    url: Option<String>,
}

#[derive(Debug, Args)]
struct Export {
    /// A table's name, or a SELECT
    #[arg(value_name = "TABLE|QUERY")]
    what: String,
    #[command(flatten)]
    from: Source,
    #[arg(long, value_enum)]
    format: Format,
    /// The folder to make; it must be empty
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Nodes that are read at once
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
    /// How a node is reached that is not at the address the herd knows (repeatable)
    #[arg(long = "node", value_name = "NAME=URL", value_parser = named)]
    nodes: Vec<(String, String)>,
    /// A column that Parquet is to have as text (repeatable)
    #[arg(long = "as-text", value_name = "COLUMN")]
    as_text: Vec<String>,
    /// Leave out the rows that row-level security hides; otherwise that is an error
    #[arg(long)]
    enable_row_security: bool,
}

#[derive(Debug, Args)]
struct Source {
    /// The local herd's directory
    #[arg(long, default_value = ".herd")]
    herd: PathBuf,
    /// Any router, instead of a local herd
    #[arg(long, conflicts_with = "herd")]
    url: Option<String>,
}

impl From<Export> for export::Export {
    fn from(asked: Export) -> export::Export {
        let Export { what, from, format, dir, jobs, nodes, as_text, enable_row_security } = asked;
        let from = from.url.map_or(Target::Dir(from.herd), Target::Url);
        export::Export { what, from, format, dir, jobs, nodes, as_text, row_security: enable_row_security }
    }
}

#[derive(Debug, Args)]
struct Bench {
    #[arg(value_enum)]
    workload: bench::Name,
    /// What is measured: a herd's router, or any PostgreSQL. Its tables are made and dropped in that database
    #[arg(long)]
    url: String,
    /// What it is held against (repeatable); `duckdb=duckdb:` is DuckDB itself, for w2, on a file that is made and dropped (`duckdb:FILE` says where)
    #[arg(long = "vs", value_name = "NAME=URL")]
    versus: Vec<String>,
    /// Write everything measured
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw the medians
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Clients at once, for w1, w3, w5, w6 and oltp; several numbers (1,8,64) are measured one after the other
    #[arg(long, default_value = "16", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=10_000))]
    clients: Vec<u32>,
    /// How long a turn of w1, w3, w5, w6 and oltp takes
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: u32,
    /// Turns on each server
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pairs: u32,
    /// Rows of the table [default: 1000000; w3 and w5: 200000; oltp: 100000]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    rows: Option<u64>,
    /// Column copies of the tables of w2 and w5 on herds, which must have stores; w5 then tells how far they are behind
    #[arg(long)]
    columns: bool,
    /// Inserts a second of w5 [default: as many as there can be]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    rate: Option<u32>,
    /// How statements travel [default: simple; w3, w6 and oltp: prepared]
    #[arg(long, value_enum)]
    protocol: Option<Protocol>,
}

impl From<Bench> for bench::Options {
    fn from(asked: Bench) -> bench::Options {
        let Bench { workload, url, versus, json, svg, clients, seconds, pairs, rows, columns, rate, protocol } = asked;
        let first = clients.first().copied().unwrap_or(1);
        let parameters =
            bench::Parameters { clients: first, seconds, pairs, rows, protocol, columns, rate, keep: false };
        bench::Options { workload, url, versus, json, svg, clients, parameters }
    }
}

#[derive(Debug, Args)]
struct Address {
    host: String,
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
}

#[derive(Debug, Subcommand)]
enum NodeCommand {
    /// Let a PostgreSQL server join the herd
    Add {
        #[command(flatten)]
        address: Address,
        #[command(flatten)]
        to: Where,
    },
    /// Let a node that holds no shards leave the herd
    Remove {
        #[command(flatten)]
        address: Address,
        #[command(flatten)]
        to: Where,
    },
    /// List the nodes
    List {
        #[command(flatten)]
        to: Where,
    },
}

#[derive(Debug, Subcommand)]
enum TableCommand {
    /// List the tables, their kinds and keys
    List {
        #[command(flatten)]
        to: Where,
    },
}

#[derive(Debug, Subcommand)]
enum ShardCommand {
    /// List the shards and where they are
    List {
        #[command(flatten)]
        to: Where,
    },
}

fn named(text: &str) -> Result<(String, String), dump::Error> {
    let (name, url) = text.split_once('=').ok_or_else(|| dump::Error::Node { text: text.to_owned() })?;
    Ok((name.to_owned(), url.to_owned()))
}

impl From<Where> for Target {
    fn from(place: Where) -> Target {
        place.url.map_or(Target::Dir(place.dir), Target::Url)
    }
}

/// What the arguments ask for.
pub enum Action {
    /// It is done.
    Done(ExitCode),
    /// Run a router in this process.
    Router(Box<Config>),
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Local(#[from] local::Error),
    #[error(transparent)]
    Bench(#[from] bench::Error),
    #[error(transparent)]
    Dump(#[from] dump::Error),
    #[error(transparent)]
    Export(#[from] export::Error),
}

impl Cli {
    /// Does what was asked, short of running a router.
    pub fn run(self) -> Result<Action, Error> {
        let done = |()| Action::Done(ExitCode::SUCCESS);
        match self.command {
            Command::Up { dir, nodes, port, shards, settings, columns, ha } => {
                let url = local::up(&UpOptions { dir: dir.dir.clone(), nodes, port, shards, settings, columns, ha })?;
                // The URL alone on standard output, for scripts.
                println!("{url}");
                let option = if dir.dir.as_os_str() == ".herd" {
                    String::new()
                } else {
                    format!(" --dir {}", dir.dir.display())
                };
                eprintln!("Connect with `herd psql{option}`, or give the URL to any PostgreSQL client.");
                Ok(Action::Done(ExitCode::SUCCESS))
            }
            Command::Down { dir } => Ok(local::down(&dir.dir).map(done)?),
            Command::Status { of, json } => {
                let status = status::of(&of.into())?;
                if json {
                    println!(
                        "{}",
                        serde_json::to_string_pretty(&status).unwrap_or_else(|e| unreachable!("plain data: {e}"))
                    );
                } else {
                    print!("{status}");
                }
                Ok(Action::Done(ExitCode::from(u8::from(!status.up))))
            }
            Command::Jobs { of, watch: false } => Ok(jobs::list(&of.into()).map(done)?),
            Command::Jobs { of, watch: true } => {
                let all_done = jobs::watch(&of.into())?;
                Ok(Action::Done(ExitCode::from(u8::from(!all_done))))
            }
            Command::Psql { dir, arguments } => Ok(local::psql(&dir.dir, &arguments).map(done)?),
            Command::Router { config } => {
                let config = Config::load(&config).map_err(local::Error::from)?;
                Ok(Action::Router(Box::new(config)))
            }
            Command::Watch { dir } => {
                tracing_subscriber::fmt().with_ansi(false).with_writer(std::io::stderr).init();
                Ok(local::watch(&dir.dir).map(done)?)
            }
            Command::Demo { dir, port, rows } => Ok(demo::run(&demo::Options { dir, port, rows }).map(done)?),
            Command::Dump { from, to, jobs, nodes } => {
                dump::take(&dump::Dump { from: from.into(), dir: to, jobs, nodes })?;
                Ok(Action::Done(ExitCode::SUCCESS))
            }
            Command::Restore { from, to, jobs, no_roles } => {
                dump::restore(&dump::Restore { dir: from, to: to.into(), jobs, roles: !no_roles })?;
                Ok(Action::Done(ExitCode::SUCCESS))
            }
            Command::Export(asked) => Ok(export::export(&asked.into()).map(done)?),
            Command::Bench(asked) => Ok(bench::run(&asked.into()).map(done)?),
            Command::Node(command) => {
                let (sql, to) = node_sql(command);
                Ok(local::run_sql(&to.into(), &sql).map(done)?)
            }
            Command::Table(TableCommand::List { to }) => {
                Ok(local::run_sql(&to.into(), "select * from herd.tables").map(done)?)
            }
            Command::Shard(ShardCommand::List { to }) => {
                Ok(local::run_sql(&to.into(), "select * from herd.shards").map(done)?)
            }
        }
    }
}

fn node_sql(command: NodeCommand) -> (String, Where) {
    let call =
        |function: &str, address: &Address| format!("select {function}({}, {})", literal(&address.host), address.port);
    match command {
        NodeCommand::Add { address, to } => (call("citus_add_node", &address), to),
        NodeCommand::Remove { address, to } => (call("citus_remove_node", &address), to),
        NodeCommand::List { to } => ("select * from herd.nodes".to_owned(), to),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Command {
        Cli::try_parse_from(line.split(' ')).unwrap_or_else(|error| panic!("{line}: {error}")).command
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn psql_gets_its_arguments_as_they_are() {
        let Command::Psql { dir, arguments } = parse("herd psql --dir /x -c select --dir y") else { panic!() };
        assert_eq!(dir.dir, PathBuf::from("/x"));
        assert_eq!(arguments, ["-c", "select", "--dir", "y"]);
        let Command::Psql { dir, arguments } = parse("herd psql -At") else { panic!() };
        assert_eq!((dir.dir, arguments), (PathBuf::from(".herd"), vec![OsString::from("-At")]));
    }

    #[test]
    fn node_commands_are_sql() {
        let sql = |line: &str| match parse(line) {
            Command::Node(command) => node_sql(command).0,
            other => panic!("{other:?}"),
        };
        assert_eq!(sql("herd node add 10.0.0.5 5432"), "select citus_add_node('10.0.0.5', 5432)");
        assert_eq!(sql("herd node remove o'neil 5432 --url u"), "select citus_remove_node('o''neil', 5432)");
        assert_eq!(sql("herd node list --dir x"), "select * from herd.nodes");
    }

    #[test]
    fn impossible_numbers_are_refused() {
        for line in
            ["herd up --nodes 0", "herd up --nodes 65", "herd up --port 0", "herd up --shards 0", "herd node add h 0"]
        {
            assert!(Cli::try_parse_from(line.split(' ')).is_err(), "{line}");
        }
    }
}

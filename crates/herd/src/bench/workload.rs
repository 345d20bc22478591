//! What a workload is: its names, its figures, what it is asked to do.
//!
//! It does not know how turns are ordered or shown.

use std::fmt;

use super::error::{Error, Result};
use super::lag::Lag;
use super::server::Server;
use super::workload_oltp::Transactions;
use super::workload_tpcc::OrderEntry;
use super::workload_w4::OneStatement;
use super::workload_w5::Beside;
use super::{workload_copy, workload_w1, workload_w2, workload_w3, workload_w6};

/// The workloads of `herd bench`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Name {
    /// Single-row inserts (sysbench oltp_insert, or pgbench)
    W1,
    /// Five aggregates and sorts, one connection
    W2,
    /// Point queries that return ten thousand rows each
    W3,
    /// W3 after the table was clustered by its index
    W3Clustered,
    /// Many rows in one INSERT … SELECT
    W4,
    /// The same in batches that commit one by one
    W4Bulk,
    /// The same with rows that replace those with their key
    W4Upsert,
    /// W1's inserts, and beside them W2's Q1 to Q4 and a query of a wide table
    W5,
    /// Point selects by primary key
    W6,
    /// psql's \copy of a file
    Copy,
    /// Everyday transactions: all that follow
    Oltp,
    /// Five reads by key in a transaction
    OltpPoints,
    /// sysbench's oltp_read_only
    OltpReadOnly,
    /// sysbench's oltp_read_write
    OltpReadWrite,
    /// sysbench's oltp_read_only, on a table that a herd has split by ranges of its key
    OltpReadOnlyRange,
    /// sysbench's oltp_read_write, likewise
    OltpReadWriteRange,
    /// sysbench's oltp_update_index
    OltpUpdateIndex,
    /// sysbench's oltp_update_non_index
    OltpUpdateNonIndex,
    /// sysbench's oltp_delete
    OltpDelete,
    /// pgbench's TPC-B
    OltpTpcb,
    /// TPC-C's mix of five transactions
    OltpTpcc,
}

/// How statements travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Protocol {
    Simple,
    Extended,
    Prepared,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Protocol::Simple => "simple",
            Protocol::Extended => "extended",
            Protocol::Prepared => "prepared",
        })
    }
}

#[derive(Debug, Clone)]
pub struct Parameters {
    pub clients: u32,
    /// How long a turn of a workload with many statements takes.
    pub seconds: u32,
    pub pairs: u32,
    /// `None`: the workload's own number.
    pub rows: Option<u64>,
    /// `None`: the workload's own.
    pub protocol: Option<Protocol>,
    /// Tables of a herd get column copies.
    pub columns: bool,
    /// Transactions a second that are begun; `None`: as many as there can be.
    pub rate: Option<u32>,
    /// Leave the tables in place.
    pub keep: bool,
}

impl Parameters {
    /// That a workload knows the options that not all know.
    pub fn suit(&self, workload: &'static str) -> Result<()> {
        match workload {
            _ if self.columns && !["w2", "w5"].contains(&workload) => {
                Err(Error::Unknown { workload, option: "--columns: w2 and w5 do" })
            }
            _ if self.rate.is_some() && workload != "w5" => Err(Error::Unknown { workload, option: "--rate: w5 does" }),
            _ => Ok(()),
        }
    }

    /// The tables of this server get column copies.
    pub fn columns_of(&self, server: &Server) -> bool {
        self.columns && server.is_herd()
    }
}

/// One thing that is measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figure {
    pub name: String,
    pub unit: &'static str,
    /// More is better; otherwise less is (times).
    pub more_is_better: bool,
}

impl Figure {
    /// So many a second, or the like: more is better.
    pub fn rate(name: &str, unit: &'static str) -> Figure {
        Figure { name: name.to_owned(), unit, more_is_better: true }
    }

    /// A time in milliseconds: less is better.
    pub fn time_ms(name: &str) -> Figure {
        Figure { name: name.to_owned(), unit: "ms", more_is_better: false }
    }
}

/// What one turn on one server gave.
#[derive(Debug, Clone, Default)]
pub struct Turn {
    /// One for each figure, in their order.
    pub values: Vec<f64>,
    /// What must be the same on every server: a name and the answer.
    pub answers: Vec<(String, String)>,
    /// How far column copies were behind, where that was looked at.
    pub lag: Vec<Lag>,
}

pub trait Workload {
    fn name(&self) -> &'static str;

    fn figures(&self) -> Vec<Figure>;

    /// What is run, in a few words, for the report.
    fn describe(&self, parameters: &Parameters) -> String;

    /// Looks at all servers before anything is loaded; the place to choose one client program for all of them.
    fn choose(&mut self, _servers: &[Server], _parameters: &Parameters) -> Result<()> {
        Ok(())
    }

    /// Makes and loads what the turns need.
    fn prepare(&self, server: &Server, parameters: &Parameters) -> Result<()>;

    /// Measures once, and checks that the server holds what the client was told.
    fn turn(&self, server: &Server, parameters: &Parameters) -> Result<Turn>;

    /// Drops the tables.
    fn clean_up(&self, server: &Server) -> Result<()>;
}

/// The workloads that a name on the command line stands for: one, but for `oltp`.
pub fn named(name: Name) -> Vec<Box<dyn Workload>> {
    let one: Box<dyn Workload> = match name {
        Name::Oltp => {
            let kinds = Transactions::ALL.map(|kind| Box::new(kind) as Box<dyn Workload>);
            return kinds.into_iter().chain([Box::new(OrderEntry) as Box<dyn Workload>]).collect();
        }
        Name::OltpPoints => Box::new(Transactions::Points),
        Name::OltpReadOnly => Box::new(Transactions::ReadOnly),
        Name::OltpReadWrite => Box::new(Transactions::ReadWrite),
        Name::OltpReadOnlyRange => Box::new(Transactions::ReadOnlyByRange),
        Name::OltpReadWriteRange => Box::new(Transactions::ReadWriteByRange),
        Name::OltpUpdateIndex => Box::new(Transactions::UpdateIndex),
        Name::OltpUpdateNonIndex => Box::new(Transactions::UpdateNonIndex),
        Name::OltpDelete => Box::new(Transactions::Delete),
        Name::OltpTpcb => Box::new(Transactions::TpcB),
        Name::OltpTpcc => Box::new(OrderEntry),
        Name::W1 => Box::<workload_w1::SingleRowInserts>::default(),
        Name::W2 => Box::new(workload_w2::Aggregates),
        Name::W3 => Box::new(workload_w3::ManyRowsAKey { clustered: false }),
        Name::W3Clustered => Box::new(workload_w3::ManyRowsAKey { clustered: true }),
        Name::W4 => Box::new(OneStatement::AllOrNothing),
        Name::W4Bulk => Box::new(OneStatement::Bulk),
        Name::W4Upsert => Box::new(OneStatement::Upsert),
        Name::W5 => Box::new(Beside),
        Name::W6 => Box::new(workload_w6::PointSelects),
        Name::Copy => Box::<workload_copy::Copy>::default(),
    };
    vec![one]
}

/// For workloads that psql runs.
pub fn only_simple(workload: &'static str, parameters: &Parameters) -> Result<()> {
    match parameters.protocol {
        None | Some(Protocol::Simple) => Ok(()),
        Some(protocol) => Err(Error::Protocol { workload, protocol }),
    }
}

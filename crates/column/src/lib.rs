//! Column copies: tables' rows of one node, in DuckDB, kept up by logical replication and asked in PostgreSQL's protocol.
//!
//! The way of a change: [`replicate`] reads the slot's stream, [`pgoutput`] its messages, [`batch`] nets them by key, and
//! [`apply`], the one thread that writes, puts them into DuckDB ([`duck`]) together with how far the stream has been read.
//! The way of a question: [`serve`] and [`session`] take it, [`query`] reads it, [`read`] answers it in five steps, with
//! [`freshness`] (what the node has) and [`fingerprint`] (what the table is), [`kept`] has what is known of the first rows already, and [`print`]
//! writes values as PostgreSQL would.
//! [`store`] makes what there is be what is listed in `herd.column_copy`; [`copy_in`] copies a table the first time,
//! and [`reopen`] opens the file anew behind it.
//!
//! Any doubt is an error, never an answer: whoever asks has the rows themselves to fall back on. This crate knows neither
//! herds nor plans, and nothing of other nodes.

pub mod apply;
pub mod batch;
pub mod columns;
pub mod config;
pub mod conninfo;
pub mod copy_in;
pub mod datetime;
pub mod definition;
pub mod duck;
pub mod duck_error;
pub mod embedded;
pub mod error;
pub mod fingerprint;
pub mod float;
pub mod freshness;
pub mod held;
pub mod jobs;
pub mod kept;
pub mod load;
pub mod login;
pub mod lsn;
pub mod node;
pub mod pgoutput;
pub mod print;
pub mod private;
pub mod published;
pub mod query;
pub mod read;
pub mod readers;
pub mod reopen;
pub mod replicate;
pub mod resort;
pub mod resorted;
pub mod serve;
pub mod session;
pub mod shape;
pub mod shared;
pub mod slot;
pub mod status;
pub mod store;
pub mod types;
pub mod unchanged;
pub mod unseen;
pub mod value;
pub mod wanted;

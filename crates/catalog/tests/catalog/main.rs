//! Tests of the catalog against real PostgreSQL, every version that is installed.

mod bootstrap;
mod distributing;
mod herd;
mod loading;
mod nodes;
mod refusals;
mod round_trip;
mod server;
mod taken_over;

//! Connections to the node, with settings that decide how its values are written. It does not know what is asked.

use std::time::Duration;

use pool::Conn;

use crate::config::Config;
use crate::error::{Error, Result};
use crate::shared::Identity;

/// How it calls itself.
pub const NAME: &str = "herd-column";

/// Nothing that is set for the role or the database decides what texts mean.
const STARTUP: [(&str, &str); 4] = [
    ("client_encoding", "UTF8"),
    ("application_name", NAME),
    ("TimeZone", "UTC"),
    (
        "options",
        "-c search_path=pg_catalog,pg_temp -c DateStyle=ISO,MDY -c IntervalStyle=postgres -c extra_float_digits=1 -c bytea_output=hex \
         -c xmloption=content -c row_security=off -c statement_timeout=0 -c lock_timeout=0 -c idle_in_transaction_session_timeout=0 \
         -c client_min_messages=error -c jit=off",
    ),
];

const CONNECT: Duration = Duration::from_secs(10);

/// For statements.
pub async fn connect(config: &Config) -> Result<Conn> {
    Ok(Box::pin(Conn::connect(&config.node, &config.login, &STARTUP, CONNECT)).await?)
}

/// To a walsender, which streams changes, makes slots with snapshots, and answers simple statements.
pub async fn connect_to_replicate(config: &Config) -> Result<Conn> {
    let memory = format!("{}kB", config.decoding_kb);
    let startup = [&STARTUP[..], &[("replication", "database"), ("logical_decoding_work_mem", &memory)]].concat();
    Ok(Box::pin(Conn::connect(&config.node, &config.login, &startup, CONNECT)).await?)
}

/// Which server this is.
pub async fn identity(conn: &mut Conn) -> Result<Identity> {
    let sql = "SELECT (pg_control_system()).system_identifier, left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)";
    let rows = conn.simple(sql).await?;
    match rows.first().map(Vec::as_slice) {
        Some([Some(system), Some(timeline)]) => Ok(Identity { system: system.clone(), timeline: timeline.clone() }),
        _ => Err(Error::surprise("the node does not say which server it is")),
    }
}

/// A value of the first row.
pub fn cell(rows: &[catalog::Row], column: usize) -> Option<&str> {
    rows.first()?.get(column)?.as_deref()
}

//! Which statements speak of backends: `pg_backend_pid()`, the functions that signal one, and what a client's own backend speaks with it
//! (`pg_client_encoding()`). Clients know the router's sessions
//! as such; what a node knows of its own backends (`pg_locks`, `pg_stat_ssl` …) speaks of the node's pids. What a call comes to
//! is not known here.

use sql::ast;
use sql::{NodeEnum, names, relations, search};

/// What a call does to a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    Cancel,
    Terminate,
}

/// Whether a statement calls functions that speak of backends, and means those that clients know.
pub fn are_named(statement: &NodeEnum) -> bool {
    let speaks =
        |n: &NodeEnum| matches!(n, NodeEnum::FuncCall(f) if is_pid(f) || is_encoding(f) || signal(f).is_some());
    search::any(statement, speaks) && !reads_of_node(statement)
}

/// Whether it reads what a node knows of its own backends.
pub fn reads_of_node(statement: &NodeEnum) -> bool {
    let view = |rv: &&ast::RangeVar| {
        matches!(rv.schemaname.as_str(), "" | "pg_catalog")
            && (rv.relname.starts_with("pg_stat_progress_") || OF_NODE.contains(&rv.relname.as_str()))
    };
    let function = |n: &NodeEnum| {
        matches!(n, NodeEnum::FuncCall(f) if {
            let name = names::last(&f.funcname);
            name.starts_with("pg_stat_get_") || name == "pg_blocking_pids"
        })
    };
    relations::of(statement).iter().any(view) || search::any(statement, function)
}

/// Views of a node's own backends, beside those of progress.
const OF_NODE: [&str; 5] = ["pg_locks", "pg_stat_ssl", "pg_stat_gssapi", "pg_stat_replication", "pg_stat_wal_receiver"];

/// What may read the client's encoding by its name.
pub const READS_SETTING: &str = "current_setting";

/// `pg_backend_pid()`
pub fn is_pid(f: &ast::FuncCall) -> bool {
    builtin(f) == "pg_backend_pid" && f.args.is_empty()
}

/// `pg_client_encoding()`, or `current_setting()` of that.
pub fn is_encoding(f: &ast::FuncCall) -> bool {
    match builtin(f) {
        "pg_client_encoding" => f.args.is_empty(),
        READS_SETTING => {
            let name = f.args.first().and_then(crate::needs::constant);
            name.is_some_and(|name| name.eq_ignore_ascii_case("client_encoding"))
        }
        _ => false,
    }
}

/// What a call does to the backend it names.
pub fn signal(f: &ast::FuncCall) -> Option<Signal> {
    match builtin(f) {
        "pg_terminate_backend" if !f.args.is_empty() => Some(Signal::Terminate),
        "pg_cancel_backend" if !f.args.is_empty() => Some(Signal::Cancel),
        _ => None,
    }
}

/// A function's name, but for one in a schema of users'.
fn builtin(f: &ast::FuncCall) -> &str {
    match names::qualified(&f.funcname) {
        (None | Some("pg_catalog"), name) => name,
        _ => "",
    }
}

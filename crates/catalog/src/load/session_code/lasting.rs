//! Which functions of PostgreSQL's own, and of extensions, may leave something behind in the session that calls them.
//!
//! The rule: what is not volatile leaves nothing, because it may not change anything; of what is volatile only that does not which
//! is listed here. What makes a value of a type that it is told is another's question ([`crate::code::TAKE_TYPES`]). `tests/security/test_left_behind.py` holds both against the catalogs of the servers there are. It does not know
//! what users' own code does.

use crate::{Function, Snapshot, Volatility};

/// Volatile because their values change, or because they change what is stored, or what ends with the transaction: nothing
/// of it is the session's. Sequences' values are followed by other means.
const HARMLESS: &[&str] = &[
    "amvalidate",
    "array_sample",
    "array_shuffle",
    "bernoulli",
    "brin_desummarize_range",
    "brin_summarize_new_values",
    "brin_summarize_range",
    "clock_timestamp",
    "current_query",
    "currtid2",
    "currval",
    "gen_random_uuid",
    "gin_clean_pending_list",
    "lastval",
    "loread",
    "lowrite",
    "nextval",
    "pg_advisory_unlock",
    "pg_advisory_unlock_all",
    "pg_advisory_unlock_shared",
    "pg_advisory_xact_lock",
    "pg_advisory_xact_lock_shared",
    "pg_blocking_pids",
    "pg_cancel_backend",
    "pg_collation_actual_version",
    "pg_create_restore_point",
    "pg_database_collation_actual_version",
    "pg_database_size",
    "pg_export_snapshot",
    "pg_hba_file_rules",
    "pg_ident_file_mappings",
    "pg_import_system_collations",
    "pg_indexes_size",
    "pg_is_in_recovery",
    "pg_is_wal_replay_paused",
    "pg_isolation_test_session_is_blocked",
    "pg_jit_available",
    "pg_lock_status",
    "pg_log_backend_memory_contexts",
    "pg_log_standby_snapshot",
    "pg_logical_emit_message",
    "pg_nextoid",
    "pg_notification_queue_usage",
    "pg_notify",
    "pg_partition_ancestors",
    "pg_partition_tree",
    "pg_prepared_xact",
    "pg_promote",
    "pg_read_binary_file",
    "pg_read_file",
    "pg_relation_size",
    "pg_reload_conf",
    "pg_rotate_logfile",
    "pg_safe_snapshot_blocking_pids",
    "pg_sequence_last_value",
    "pg_show_all_file_settings",
    "pg_show_replication_origin_status",
    "pg_sleep",
    "pg_sleep_for",
    "pg_sleep_until",
    "pg_switch_wal",
    "pg_table_size",
    "pg_tablespace_size",
    "pg_terminate_backend",
    "pg_total_relation_size",
    "pg_try_advisory_xact_lock",
    "pg_try_advisory_xact_lock_shared",
    "pg_wal_replay_pause",
    "pg_wal_replay_resume",
    "pg_wal_summary_contents",
    "pg_xact_commit_timestamp",
    "pg_xact_commit_timestamp_origin",
    "pg_xact_status",
    "random",
    "random_normal",
    "setval",
    "system",
    "timeofday",
    "txid_status",
    "uuidv4",
    "uuidv7",
    // Triggers that come with PostgreSQL.
    "suppress_redundant_updates_trigger",
    "tsvector_update_trigger",
    "tsvector_update_trigger_column",
    "unique_key_recheck",
    // Of the extensions that come with PostgreSQL.
    "autoinc",
    "check_foreign_key",
    "check_primary_key",
    "gen_random_bytes",
    "gen_salt",
    "insert_username",
    "lo_manage",
    "moddatetime",
    "normal_rand",
    "pgp_pub_encrypt",
    "pgp_pub_encrypt_bytea",
    "pgp_sym_encrypt",
    "pgp_sym_encrypt_bytea",
    "triggered_change_notification",
    "uuid_generate_v1",
    "uuid_generate_v1mc",
    "uuid_generate_v4",
];
/// The same by how names begin: large objects (a descriptor ends with its transaction), triggers of foreign keys, and views of the
/// server's state.
const HARMLESS_BEGIN: &[&str] =
    &["lo_", "RI_FKey_", "pg_available_", "pg_control_", "pg_current_", "pg_get_", "pg_last_", "pg_ls_", "pg_stat_"];
/// Not all of these are volatile, but what they read is named in a string, and may call anything: by how names end, and begin.
const RUNS_END: &[&str] = &["_to_xml", "_to_xmlschema", "_to_xml_and_xmlschema"];
const RUNS_BEGIN: &[&str] = &["connectby", "crosstab", "dblink", "ts_rewrite", "ts_stat", "xpath_table"];

impl Snapshot {
    /// Whether a function that comes with PostgreSQL, or with an extension, may leave something in the session: of those that a name,
    /// qualified or looked up along a path, can mean.
    pub fn lasts(&self, (schema, name): (Option<&str>, &str), path: &[String]) -> bool {
        self.functions_meant((schema, name), path).any(|f| lasts(name, f))
    }
}

fn lasts(name: &str, function: &Function) -> bool {
    let harmless =
        || HARMLESS.contains(&name) || HARMLESS_BEGIN.iter().any(|b| name.starts_with(b)) || name.ends_with("handler");
    !function.user_defined && (function.volatility == Volatility::Volatile && !harmless() || runs(name))
}

/// Whether it runs a text, of which nobody knows what that names.
pub(super) fn runs(name: &str) -> bool {
    RUNS_END.iter().any(|end| name.ends_with(end)) || RUNS_BEGIN.iter().any(|begin| name.starts_with(begin))
}

/// All of them by name.
pub(super) fn names(snapshot: &Snapshot) -> Vec<String> {
    let all = snapshot.builtin_functions.iter().chain(&snapshot.functions);
    let lasting = all.filter(|(name, overloads)| overloads.iter().any(|f| lasts(name, f)));
    let mut names: Vec<String> = lasting.map(|(name, _)| name.clone()).collect();
    names.sort_unstable();
    names
}

//! Golden test: what kind of statement each is. `kinds/*.txt` holds statements, each followed by its kind; what is `no` or usual is
//! left out. `UPDATE_GOLDEN=1 cargo test -p plan --test kind` writes them anew.

#[path = "../../sql/tests/golden_support/mod.rs"]
mod golden_support;

use std::path::Path;

use plan::kind::Kind;

#[test]
fn kinds_are_what_the_golden_files_say() {
    golden_support::check(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kinds"), show);
}

fn show(sql: &str) -> String {
    let statement = match sql::parse(sql, true) {
        Ok(mut statements) => statements.remove(0),
        Err(error) => return format!("syntax error: {error}"),
    };
    let Kind { mode, planned, analyzed, joins, holds, leaves, sessions_own, changes } = Kind::of(&statement);
    let flags =
        [(planned, "planned"), (analyzed, "analyzed"), (sessions_own, "the session's own"), (changes, "changes")];
    let flags = flags.iter().filter(|(is, _)| *is).map(|(_, name)| format!(", {name}")).collect::<String>();
    format!("{mode:?}{flags}; joins: {joins:?}; holds: {holds:?}; leaves: {leaves:?}")
}

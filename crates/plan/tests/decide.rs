//! Golden test: which of the seven each statement is. `decided/*.txt` holds statements, each followed by its plan, with what it does
//! besides. `UPDATE_GOLDEN=1 cargo test -p plan --test decide` writes them anew.

#[path = "golden_herd/mod.rs"]
mod golden_herd;
#[path = "../../sql/tests/golden_support/mod.rs"]
mod golden_support;

use std::fmt::Debug;
use std::path::Path;

use plan::special::Special;
use plan::{Context, Decided, Does, Plan, Utility};

#[test]
fn plans_are_those_that_the_golden_files_say() {
    let snapshot = golden_herd::snapshot();
    let search_path = ["pg_catalog".to_owned(), "public".to_owned()];
    let temporary = [catalog::TemporaryRelation::named("scratch")];
    let context = Context::new(&snapshot, &search_path, &temporary);
    golden_support::check(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/decided"), |sql| show(sql, &context));
}

fn show(sql: &str, context: &Context) -> String {
    let statement = match sql::parse(sql, true) {
        Ok(mut statements) => statements.remove(0),
        Err(error) => return format!("syntax error: {error}"),
    };
    let decided = Decided::of(&statement, context);
    let mut shown = match &decided.plan {
        Plan::Query(does) => format!("query{}", show_does(does)),
        Plan::Insert(does) => format!("insert{}", show_does(does)),
        Plan::Modify(does) => format!("modify{}", show_does(does)),
        Plan::Copy(_) => "copy".into(),
        Plan::Utility(Utility::Refused(refusal)) => format!("utility, refused: {}", refusal.message),
        Plan::Utility(Utility::Temporary(makes)) => format!("utility: temporary {}", word(makes)),
        Plan::Utility(utility) => format!("utility: {}", word(utility)),
        Plan::Admin(Ok(call)) => format!("admin: {:?} of {:?}", call.function, call.args),
        Plan::Admin(Err(refusal)) => format!("admin, refused: {}", refusal.message),
        Plan::Session(own) => format!("session: {}", word(own)),
    };
    for view in &decided.reads.views {
        shown += &format!("; reads {}.{}", view.schema(), view.name());
    }
    if decided.reads.backends {
        shown += "; speaks of backends";
    }
    if decided.lasts() {
        shown += "; its plan lasts";
    }
    shown
}

/// A variant's name.
fn word(variant: &impl Debug) -> String {
    format!("{variant:?}").split('(').next().unwrap_or_default().to_ascii_lowercase()
}

fn show_does(does: &Does) -> String {
    let Special { pins, watched, catches, marked, writes, calls_admin: _, reads_sequences, leaves, hides: _ } =
        &does.special;
    let flags = [
        (*pins, "pins"),
        (*watched, "watched"),
        (*catches, "catches"),
        (*marked, "marked"),
        (*writes, "writes"),
        (*reads_sequences, "reads sequences"),
        (leaves.anything(true), "leaves something"),
        (does.fills_temporary, "fills a temporary table"),
    ];
    let flags: Vec<_> = flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, name)| name).collect();
    if flags.is_empty() { String::new() } else { format!(": {}", flags.join(", ")) }
}

//! What keeps a level from being answered node by node is a value that names the tables, not a text.

#[path = "golden_herd/mod.rs"]
mod golden_herd;

use plan::apart::{Apart, Gathering, Mismatch, Side};
use plan::{Context, levels::Analysis};
use sql::NodeEnum;

fn apart(sql: &str) -> Apart {
    let snapshot = golden_herd::snapshot();
    let search_path = ["public".to_owned()];
    let context = Context::new(&snapshot, &search_path, &[]);
    let tree = sql::parse(sql, true).unwrap().remove(0);
    let NodeEnum::SelectStmt(select) = &tree else { panic!("not a query") };
    let mut analysis = Analysis::new(&context);
    let level = analysis.query(select).unwrap();
    analysis.pushable(level, false).unwrap_err()
}

fn joined(sql: &str) -> (String, String, Mismatch) {
    match apart(sql) {
        Apart::Join { left: Side { table: left, .. }, right: Side { table: right, .. }, why } => (left, right, why),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_join_says_which_tables_and_what_tells_them_apart() {
    let pair = |a: &str, b: &str, why| (a.to_owned(), b.to_owned(), why);
    let same_shards = "SELECT * FROM orders o JOIN items i ON o.customer = i.order_id";
    assert_eq!(joined(same_shards), pair("orders", "items", Mismatch::Keys));
    let other_types = "SELECT * FROM orders o JOIN shops s ON s.name = o.note";
    assert_eq!(joined(other_types), pair("orders", "shops", Mismatch::KeyTypes));
}

#[test]
fn what_gathers_rows_says_of_which_table() {
    let spread = |sql| match apart(sql) {
        Apart::Spread { what, table } => (what, table.table),
        other => panic!("{other:?}"),
    };
    assert_eq!(spread("SELECT count(*) FROM orders GROUP BY note"), (Gathering::Aggregate, "orders".into()));
    assert_eq!(spread("SELECT DISTINCT note FROM orders"), (Gathering::Distinct, "orders".into()));
    assert_eq!(spread("SELECT id FROM orders LIMIT 1"), (Gathering::Limit, "orders".into()));
    assert!(matches!(apart("SELECT 1 FROM orders, notes"), Apart::Local { table } if table == "notes"));
}

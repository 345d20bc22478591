//! What a data directory and a pid file are taken for.

use super::*;

#[test]
fn conditions_of_a_data_directory() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("node1");
    let log = dir.path().join("node1.log");
    let node = Node { name: "node1".to_owned(), number: 1, port: 1, data: data.clone(), log };
    let condition_with = |file: &str| {
        fs::write(data.join(file), "").unwrap();
        node.condition().unwrap()
    };
    assert_eq!(node.condition().unwrap(), Condition::Absent);
    fs::create_dir_all(&data).unwrap();
    assert_eq!(node.condition().unwrap(), Condition::Absent);
    assert_eq!(condition_with("PG_VERSION"), Condition::HalfMade);
    assert_eq!(condition_with("postgresql.conf"), Condition::HalfMade);
    assert_eq!(condition_with("thesis.doc"), Condition::Foreign);
    assert_eq!(condition_with("postmaster.opts"), Condition::Unmarked);
    assert_eq!(condition_with(MARKER), Condition::Complete);
    assert_eq!(numbers_in(dir.path()), [1]);
}

#[test]
fn a_pid_file_of_another_program_is_stale() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().canonicalize().unwrap();
    let node = Node { name: "node1".to_owned(), number: 1, port: 1, log: data.join("log"), data };
    assert!(!node.has_crashed());
    fs::write(node.data.join("postmaster.pid"), format!("{}\n", std::process::id())).unwrap();
    if process::has_proc() {
        assert_eq!((node.pid(), node.has_crashed()), (None, true));
        node.clear_crash().unwrap();
        assert!(!node.data.join("postmaster.pid").exists());
    }
}

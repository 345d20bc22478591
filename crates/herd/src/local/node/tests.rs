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

#[test]
fn a_server_that_is_about_to_be_gone_does_not_serve() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().canonicalize().unwrap();
    let listener = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let node = Node { name: "node1".to_owned(), number: 1, port, log: data.join("log"), data };
    // Stands for a postmaster that was killed while the kernel has not yet ended it: it works in the folder, its id is
    // in the file, and nobody listens on the port.
    let mut dying = std::process::Command::new("sleep").arg("100").current_dir(&node.data).spawn().unwrap();
    fs::write(node.data.join("postmaster.pid"), format!("{}\n", dying.id())).unwrap();
    let (is_served, served) = std::sync::mpsc::sync_channel(1);
    std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        std::io::Write::write_all(&mut stream, b"R\0\0\0\x08\0\0\0\x05").unwrap();
        served.recv().unwrap();
    });
    assert!(node.serves());
    is_served.send(()).unwrap();
    let until_dead = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        dying.kill().unwrap();
        dying.wait().unwrap();
    });
    assert!(!node.serves());
    until_dead.join().unwrap();
}

//! Directories and files that are stale, half made or lost: what can be repaired is, and no data is ever removed.

use std::fs;

use super::harness::{Place, is_root, kill_9};

#[test]
fn a_half_made_node_is_made_anew() {
    let place = Place::new();
    // What initdb leaves when it is killed early.
    fs::create_dir_all(place.file("node1/global")).unwrap();
    fs::write(place.file("node1/PG_VERSION"), "18\n").unwrap();
    place.up().said("node1: removing a half-made data directory").said("router: ready");
    assert_eq!(place.on_node(1, "select 1"), "1");
}

#[test]
fn an_interrupted_up_is_finished_by_the_next() {
    let place = Place::new();
    let port = place.port.to_string();
    let mut up = place.command("up", &["--port", &port]).spawn().unwrap();
    while !place.file("node2/PG_VERSION").exists() {
        assert_eq!(up.try_wait().unwrap(), None, "it ended before it could be killed");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    kill_9(up.id().into());
    up.wait().unwrap();
    // initdb may still run; it removes nothing when it ends, and must not be raced.
    while running_in(&place, "initdb") {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    place.up().said("router: ready");
    assert_eq!(place.on_node(2, "select 1"), "1");
}

fn running_in(place: &Place, program: &str) -> bool {
    let dir = place.dir().display().to_string();
    fs::read_dir("/proc").unwrap().flatten().any(|process| {
        let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        line.contains(&dir) && (line.contains(program) || line.contains("--boot") || line.contains("--single"))
    })
}

#[test]
fn a_backend_that_outlives_its_postmaster_is_ended_first() {
    let place = Place::new();
    place.up().said("ready");
    place.on_node(1, "create table kept as select 1");
    let port = (place.port + 1).to_string();
    // It computes without ever looking whether its postmaster lives.
    let busy = "select count(*) from generate_series(1, 100000000000)";
    let mut client = place.command("psql", &["-p", &port, "-Xc", busy]);
    let mut client = client.stderr(std::process::Stdio::null()).spawn().unwrap();
    let running = "select count(*) from pg_stat_activity where query like 'select count(*) from generate%'";
    while place.on_node(1, running) != "1" {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    kill_9(place.node_pid(1));
    place.run("up", &[]).said("node1: ready");
    assert_eq!(place.on_node(1, "select count(*) from kept"), "1");
    assert!(!client.wait().unwrap().success(), "its connection was lost");
}

#[test]
fn stale_pid_files_of_other_programs_are_not_believed() {
    let place = Place::new();
    place.up().said("ready");
    place.on_node(1, "create table kept as select 1");
    place.run("down", &[]).said("stopped");

    // The ids were given to another program: one that runs as the same user, which is what PostgreSQL stumbles over.
    let mut sleeper = std::process::Command::new("sleep");
    if is_root() {
        use std::os::unix::{fs::MetadataExt, process::CommandExt};
        sleeper.uid(fs::metadata(place.file("node1")).unwrap().uid());
    }
    let mut sleeper = sleeper.arg("1000").spawn().unwrap();
    fs::write(place.file("node1/postmaster.pid"), format!("{}\n/x\n1\n1\n", sleeper.id())).unwrap();
    fs::write(place.file("router.pid"), sleeper.id().to_string()).unwrap();
    assert_eq!(place.status()["up"], false);
    place.run("down", &[]).said("nothing of this herd is running");
    place.run("up", &[]).said("node1: removing a stale postmaster.pid").said("router: router.pid is stale");
    assert_eq!(place.on_node(1, "select count(*) from kept"), "1");
    assert_eq!(sleeper.try_wait().unwrap(), None, "the other program was left alone");
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
}

#[test]
fn data_without_a_marker_is_left_untouched() {
    let place = Place::new();
    place.up().said("ready");
    place.run("down", &[]).said("stopped");
    fs::remove_file(place.file("node2/herd.made")).unwrap();
    place.run("up", &[]).failed("has held a running PostgreSQL but lacks the file herd.made");
    assert!(place.file("node2/base").is_dir());
    fs::write(place.file("node2/herd.made"), "").unwrap();
    place.run("up", &[]).said("router: ready");
}

#[test]
fn lost_files_are_written_anew_but_a_lost_node_is_told() {
    let place = Place::new();
    place.up().said("ready");
    let router = place.status()["router"]["pid"].clone();
    place.run("down", &[]).said("stopped");
    fs::remove_file(place.file("herd.json")).unwrap();
    fs::remove_file(place.file("herd.toml")).unwrap();
    place.run("up", &[]).said("herd.json is missing").said("herd.toml is missing");
    assert_eq!((&place.status()["up"], &place.status()["url"]), (&true.into(), &place.url().into()));
    assert_ne!(place.status()["router"]["pid"], router);

    // The router still runs: it is found without its pid file.
    fs::remove_file(place.file("router.pid")).unwrap();
    place.run("up", &[]).said("running already");
    place.run("down", &[]).said("router: stopped");

    fs::rename(place.file("node2"), place.root().join("elsewhere")).unwrap();
    place.run("up", &[]).failed("data of this herd, is gone");
    assert!(!place.file("node2").exists(), "an empty node in its place would hide the loss");
    fs::rename(place.root().join("elsewhere"), place.file("node2")).unwrap();
    place.run("up", &[]).said("router: ready");
}

#[test]
fn root_in_a_closed_folder_keeps_the_data_where_postgres_can_go() {
    use std::os::unix::fs::PermissionsExt;
    if !is_root() {
        return; // only root runs PostgreSQL as another user
    }
    let place = Place::new();
    fs::set_permissions(place.root(), fs::Permissions::from_mode(0o700)).unwrap();
    let port = place.port.to_string();
    place.run("up", &["--nodes", "1", "--port", &port]).said("its data is kept in /var/lib/pgherd/");
    assert_eq!(place.on_node(1, "create table kept as select 7 as x; select x from kept"), "SELECT 1\n7");
    let data = place.file("node1").canonicalize().unwrap();
    place.run("down", &[]).said("stopped");
    place.run("up", &[]).said("ready");
    assert_eq!(place.on_node(1, "select x from kept"), "7");
    place.run("down", &[]).said("stopped");
    fs::remove_dir_all(data).unwrap();
}

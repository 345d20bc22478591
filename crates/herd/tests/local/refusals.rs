//! What `herd up` refuses, and that it says why and what to do.

use std::fs;
use std::net::TcpListener;
use std::process::Command;

use super::harness::{Answer, Place};

#[test]
fn a_port_in_use_is_named_with_its_owner_before_anything_is_made() {
    let place = Place::new();
    for taken in [place.port, place.port + 2] {
        let listener = TcpListener::bind(("127.0.0.1", taken)).unwrap();
        let up = place.up();
        up.failed(&format!("port {taken} of 127.0.0.1 is in use by process {}", std::process::id()));
        up.failed("--port");
        assert!(!place.file("node1").exists());
        drop(listener);
    }
    place.up().said("ready");
    place.run("down", &[]).said("stopped");
    let _listener = TcpListener::bind(("127.0.0.1", place.port + 1)).unwrap();
    place.run("up", &[]).failed("and node1 needs it: stop that process");
}

#[test]
fn a_herd_keeps_its_shape() {
    let place = Place::new();
    place.up().said("ready");
    place.run("up", &["--nodes", "3"]).failed("a herd with nodes 2, not 3").failed("herd node add");
    place.run("up", &["--port", "7777"]).failed(&format!("a herd with port {}, not 7777", place.port));
    place.run("up", &["--shards", "8"]).failed("a herd with shards 32, not 8");
    place.run("up", &["--ha"]).failed("whose nodes have no standbys");
    place.run("up", &["--shards", "32", "--nodes", "2"]).said("running already");
}

#[test]
fn missing_programs_say_where_they_were_looked_for() {
    let place = Place::new();
    let up =
        |folder: &std::path::Path| Answer::of(place.command("up", &[]).env("HERD_PG_BIN", folder).output().unwrap());
    up(place.root()).failed("HERD_PG_BIN is").failed("it holds no program \"initdb\"");
    for program in ["initdb", "postgres", "pg_ctl"] {
        fs::write(place.root().join(program), "").unwrap();
    }
    up(place.root()).failed("`postgres --version` cannot run");
    assert!(!place.file("node1").exists());
}

#[test]
fn a_folder_of_something_else_is_left_alone() {
    let place = Place::new();
    fs::create_dir_all(place.file("node1")).unwrap();
    fs::write(place.file("node1/thesis.doc"), "years of work").unwrap();
    place.up().failed("is not a node that `herd up` made, and is not empty");
    assert!(place.file("node1/thesis.doc").exists());
}

#[test]
fn a_broken_configuration_is_explained() {
    let place = Place::new();
    place.up().said("ready");
    place.run("down", &[]).said("stopped");
    let good = fs::read_to_string(place.file("herd.toml")).unwrap();
    fs::write(place.file("herd.toml"), format!("{good}colour = \"red\"\n")).unwrap();
    place.run("up", &[]).failed("unknown field `colour`");
    fs::write(place.file("herd.toml"), good.replace(&place.port.to_string(), "1")).unwrap();
    place.run("up", &[]).failed("does not listen on this herd's port");
    fs::write(place.file("herd.toml"), good).unwrap();
    place.run("up", &[]).said("router: ready");
}

#[test]
fn commands_without_a_herd_say_how_to_make_one() {
    let place = Place::new();
    for command in ["down", "status", "psql"] {
        place.run(command, &[]).failed("there is no herd in").failed("herd up --dir");
    }
    let herd =
        |arguments: &[&str]| Answer::of(Command::new(env!("CARGO_BIN_EXE_herd")).args(arguments).output().unwrap());
    let dir = place.dir().display().to_string();
    herd(&["node", "list", "--dir", &dir]).failed("there is no herd in");
    herd(&["router", "--config", &format!("{dir}/herd.toml")]).failed("cannot read");
}

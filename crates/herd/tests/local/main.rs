//! `herd up`, `down`, `status` and `psql` on real PostgreSQL: made, started again, broken and repaired.
//!
//! Nothing here asks the router for more than a login; what it answers is tested end to end elsewhere.

mod damage;
mod harness;
mod refusals;

use std::time::{Duration, Instant};

use harness::{Answer, Place, kill_9};

#[test]
fn made_used_stopped_and_started_again() {
    let place = Place::new();
    let began = Instant::now();
    let up = place.up();
    up.said("node2: ready on port");
    assert_eq!(up.out.trim(), place.url(), "standard output is the URL and nothing else");
    assert!(began.elapsed() < Duration::from_secs(15), "from nothing in {:?}", began.elapsed());

    let status = place.status();
    assert_eq!(status["up"], true);
    assert_eq!(status["router"]["port"], place.port);
    assert_eq!(status["nodes"][1]["port"], place.port + 2);
    assert_eq!(status["nodes"].as_array().unwrap().len(), 2);
    assert!(place.run("status", &[]).ok);

    assert_eq!(place.on_node(1, "show max_prepared_transactions"), "300");
    assert_eq!(place.on_node(2, "show wal_level"), "logical");
    assert_eq!(place.on_node(2, "show server_encoding"), "UTF8");
    place.on_node(2, "create table kept as select 42 as answer");

    let began = Instant::now();
    place.run("up", &[]).said("running already");
    assert!(began.elapsed() < Duration::from_secs(2), "running already in {:?}", began.elapsed());

    place.run("down", &[]).said("node1: stopped").said("router: stopped");
    assert_eq!(place.status()["up"], false);
    assert!(!place.run("status", &[]).ok, "the exit code tells that it is down");
    place.run("down", &[]).said("nothing of this herd is running");

    let began = Instant::now();
    place.run("up", &[]).said("router: ready");
    assert!(began.elapsed() < Duration::from_secs(5), "an existing herd in {:?}", began.elapsed());
    assert_eq!(place.on_node(2, "select answer from kept"), "42");
}

#[test]
fn killed_processes_are_started_again_and_nothing_committed_is_lost() {
    let place = Place::new();
    place.up().said("ready");
    place.on_node(1, "create table kept as select g from generate_series(1, 1000) g");
    for _ in 0..3 {
        kill_9(place.node_pid(1));
        let status = place.status();
        assert_eq!((&status["nodes"][0]["up"], &status["nodes"][1]["up"]), (&false.into(), &true.into()));
        assert!(!place.run("status", &[]).ok);
        place.run("up", &[]).said("node1: was not stopped properly").said("node1: ready");
        assert_eq!(place.on_node(1, "select count(*) from kept"), "1000");
    }
    let router = place.status()["router"]["pid"].as_u64().unwrap();
    kill_9(router);
    assert_eq!(place.status()["router"]["up"], false);
    place.run("up", &[]).said("router.pid is stale");
    assert_ne!(place.status()["router"]["pid"].as_u64().unwrap(), router);
    assert_eq!(place.status()["up"], true);
}

#[test]
fn two_at_once_make_one_herd() {
    let place = Place::new();
    let port = place.port.to_string();
    let children: Vec<_> = (0..2)
        .map(|_| {
            let mut up = place.command("up", &["--nodes", "1", "--port", &port]);
            up.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let answers: Vec<_> = children.into_iter().map(|child| Answer::of(child.wait_with_output().unwrap())).collect();
    for answer in &answers {
        assert!(answer.ok, "{}", answer.err);
        assert_eq!(answer.out.trim(), place.url());
    }
    let made = answers.iter().filter(|answer| answer.err.contains("making PostgreSQL")).count();
    let waited = answers.iter().filter(|answer| answer.err.contains("running already")).count();
    assert_eq!((made, waited), (1, 1));
}

#[test]
fn settings_reach_the_nodes_and_stay() {
    let place = Place::new();
    let port = place.port.to_string();
    place.run("up", &["--nodes", "1", "--port", &port, "--set", "synchronous_commit=off"]).said("ready");
    assert_eq!(place.on_node(1, "show synchronous_commit"), "off");
    assert_eq!(place.on_node(1, "show fsync"), "on");
    place.run("up", &["--set", "work_mem=8MB"]).said("settings reloaded");
    assert_eq!(place.on_node(1, "show work_mem"), "8MB");
    place.run("down", &[]).said("stopped");
    place.run("up", &["--set", "max_connections=77"]).said("ready");
    let shown = place.on_node(1, "select current_setting('max_connections'), current_setting('synchronous_commit')");
    assert_eq!(shown, "77|off");
}

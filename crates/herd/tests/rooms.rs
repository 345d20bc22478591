//! The rooms of a crate (folders of its source, each with the file of the same name) as a test: arrows between them run one
//! way. What stands beside the rooms is the floor, which all of them use and which uses none of them.

use std::fs;
use std::path::{Path, PathBuf};

/// Rooms in the order they build on each other: one uses only those before it, and the floor.
const ROOMS: [(&str, &[&str]); 1] =
    [("exec", &["router", "work", "route", "query", "write", "copy", "share", "ddl", "admin", "statement"])];

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(name).join("src")
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => files.extend(rust_files(&path)),
            false => files.push(path),
        }
    }
    files
}

/// The names behind `crate::` in code; comments may name what they like.
fn used(text: &str) -> Vec<String> {
    let code = text.lines().map(|line| line.split("//").next().unwrap_or(""));
    let mut names = Vec::new();
    for line in code {
        for (at, found) in line.match_indices("crate::") {
            if line[..at].chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_') {
                continue;
            }
            let name = line[at + found.len()..].chars().take_while(|c| c.is_alphanumeric() || *c == '_');
            names.push(name.collect());
        }
    }
    names
}

/// What is wrong with a file of `own` (a room, or something on the floor) that uses these names.
fn wrong_arrows(rooms: &[&str], floor: &[String], own: &str, names: &[String]) -> Vec<String> {
    let place = |name: &str| rooms.iter().position(|room| *room == name);
    let wrong = names.iter().filter(|name| match (place(name), place(own)) {
        (Some(other), Some(own)) => other > own,
        (Some(_), None) => true,
        // Neither a room nor a file: a name that lib.rs hands out, by which nobody sees where it is from.
        (None, _) => !floor.contains(name),
    });
    wrong.map(|name| format!("{own} uses {name}")).collect()
}

#[test]
fn arrows_between_rooms_run_one_way() {
    for (crate_name, rooms) in ROOMS {
        let folder = source(crate_name);
        let module = |file: &Path| {
            let inside = file.strip_prefix(&folder).unwrap();
            inside.components().next().unwrap().as_os_str().to_string_lossy().trim_end_matches(".rs").to_owned()
        };
        let files = rust_files(&folder);
        let modules: Vec<String> = files.iter().map(|f| module(f)).collect();
        for room in rooms {
            assert!(modules.iter().any(|m| m == room), "{crate_name} has no room {room}");
        }
        let floor: Vec<String> = modules.into_iter().filter(|m| !rooms.contains(&m.as_str())).collect();
        let mut wrong = Vec::new();
        for file in files.iter().filter(|f| module(f) != "lib") {
            let names = used(&fs::read_to_string(file).unwrap());
            let found = wrong_arrows(rooms, &floor, &module(file), &names);
            wrong.extend(found.into_iter().map(|w| format!("{}: {w}", file.display())));
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

#[test]
fn a_back_arrow_would_be_found() {
    let wrong = |own, text: &str| wrong_arrows(&["low", "high"], &["floor".to_owned()], own, &used(text)).len();
    assert_eq!(
        [wrong("low", "use crate::high::X;"), wrong("floor", "crate::low::f()"), wrong("high", "crate::X")],
        [1; 3]
    );
    assert_eq!(
        [wrong("high", "use crate::low::X;"), wrong("low", "// crate::high"), wrong("high", "crate::floor::f()")],
        [0; 3]
    );
}

//! `src/walk.rs` is what its generator makes of the pg_query this workspace uses. `make walk` writes it anew.

use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn the_walk_is_of_this_pg_query() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let made = run(Command::new("python3").arg(here.join("tools/generate_walk.py")).arg(messages()));
    let walk = here.join("src/walk.rs");
    if std::env::var_os("UPDATE_WALK").is_some() {
        std::fs::write(&walk, &made).unwrap();
    }
    // Not `assert_eq`: the files are long.
    assert!(made == std::fs::read_to_string(&walk).unwrap(), "src/walk.rs is stale: run `make walk`");
}

/// The Rust source of pg_query's messages.
fn messages() -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // What other platforms need may never have been fetched.
    let rustc = run(Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())).arg("-vV"));
    let host = rustc.lines().find_map(|line| line.strip_prefix("host: ")).expect("rustc names its host");
    let arguments = ["metadata", "--format-version", "1", "--offline", "--locked", "--filter-platform", host];
    let metadata = run(Command::new(cargo).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")));
    let metadata: serde_json::Value = serde_json::from_str(&metadata).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let package = packages.iter().find(|p| p["name"] == "pg_query").expect("the workspace uses pg_query");
    let manifest = Path::new(package["manifest_path"].as_str().unwrap());
    manifest.with_file_name("src").join("protobuf.rs")
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

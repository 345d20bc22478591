//! Where the program finds DuckDB's library when it runs: beside itself, or where it was when it was built. Never what the system has by chance.

fn main() {
    println!("cargo:rerun-if-env-changed=DUCKDB_LIB_DIR");
    println!("cargo:rustc-link-arg=-Wl,-rpath,$ORIGIN");
    if let Ok(folder) = std::env::var("DUCKDB_LIB_DIR") {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}");
    }
}

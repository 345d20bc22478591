//! The rules of the source tree, as a test: which crate may use which, and what every file looks like.

use std::fs;
use std::path::{Path, PathBuf};

/// The crates in the order data flows. A crate depends only on crates before it.
const ORDER: [&str; 13] =
    ["wire", "key", "catalog", "sql", "copy", "plan", "pool", "share", "txn", "exec", "column", "session", "herd"];

/// Dependencies that only one crate may have, so that what it wraps stays replaceable.
const RESERVED: [(&str, &str); 2] = [("pg_query", "sql"), ("duckdb", "column")];

/// Lines of a file at most. A file that grows past it is two files.
const LINES_MAX: usize = 600;

fn crates_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn crate_names() -> Vec<String> {
    let entries = fs::read_dir(crates_folder()).unwrap().flatten();
    let folders = entries.filter(|entry| entry.path().join("Cargo.toml").exists());
    folders.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

fn manifest(name: &str) -> toml::Table {
    let path = crates_folder().join(name).join("Cargo.toml");
    fs::read_to_string(&path).unwrap().parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What a crate is built from; test-only dependencies may point anywhere.
fn dependencies(manifest: &toml::Table) -> Vec<String> {
    let sections = ["dependencies", "build-dependencies"].map(|section| manifest.get(section));
    let tables = sections.into_iter().flatten().filter_map(toml::Value::as_table);
    tables.flat_map(|table| table.keys().cloned()).collect()
}

/// The rules that the dependencies of one crate break.
fn wrong_edges(name: &str, dependencies: &[String]) -> Vec<String> {
    let place = |name: &str| ORDER.iter().position(|other| *other == name);
    let Some(own) = place(name) else {
        return vec![format!("{name} has no place in ORDER")];
    };
    let mut wrong = Vec::new();
    for dependency in dependencies {
        if place(dependency).is_some_and(|other| other >= own) {
            wrong.push(format!("{name} depends on {dependency}, which comes after it"));
        }
        if RESERVED.iter().any(|(library, owner)| library == dependency && *owner != name) {
            wrong.push(format!("{name} depends on {dependency}, which is reserved for another crate"));
        }
    }
    wrong
}

#[test]
fn dependencies_point_one_way() {
    let names = crate_names();
    assert!(names.len() >= 10, "{names:?}");
    let wrong: Vec<String> = names.iter().flat_map(|name| wrong_edges(name, &dependencies(&manifest(name)))).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_back_edge_would_be_found() {
    let edges = |name, dependency: &str| wrong_edges(name, &[dependency.to_owned()]).len();
    assert_eq!([edges("plan", "sql"), edges("plan", "serde")], [0, 0]);
    assert_eq!([edges("sql", "plan"), edges("sql", "sql"), edges("plan", "pg_query"), edges("new", "sql")], [1; 4]);
}

/// Whether some source of the crate names the library.
fn is_used(crate_name: &str, library: &str) -> bool {
    // The one library whose name in code is not that of its package.
    let name = if library == "md-5" { "md5".to_owned() } else { library.replace('-', "_") };
    let names = |text: &str| {
        text.match_indices(&name).any(|(at, _)| {
            let before = text[..at].chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_');
            !before && (text[at + name.len()..].starts_with("::") || text[at + name.len()..].starts_with(';'))
        })
    };
    rust_files(&crates_folder().join(crate_name)).iter().any(|file| names(&fs::read_to_string(file).unwrap()))
}

#[test]
fn every_dependency_is_used() {
    let mut wrong = Vec::new();
    let mut anywhere = std::collections::HashSet::new();
    for name in crate_names() {
        let manifest = manifest(&name);
        let tests = manifest.get("dev-dependencies").and_then(toml::Value::as_table).cloned().unwrap_or_default();
        for library in dependencies(&manifest).into_iter().chain(tests.keys().cloned()) {
            if !is_used(&name, &library) {
                wrong.push(format!("crates/{name}/Cargo.toml lists {library}, which no source of it uses"));
            }
            anywhere.insert(library);
        }
    }
    let root = fs::read_to_string(crates_folder().parent().unwrap().join("Cargo.toml")).unwrap();
    let root: toml::Table = root.parse().unwrap();
    let listed = root["workspace"]["dependencies"].as_table().unwrap();
    let unused = listed.keys().filter(|library| !anywhere.contains(*library));
    wrong.extend(unused.map(|library| format!("Cargo.toml lists {library}, which no crate uses")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_unused_dependency_would_be_found() {
    assert!(is_used("herd", "tokio") && !is_used("herd", "pg_query") && !is_used("wire", "tokio"));
}

#[test]
fn every_crate_follows_the_workspaces_lints() {
    for name in crate_names() {
        let lints = manifest(&name).get("lints").and_then(|lints| lints.get("workspace")?.as_bool());
        assert_eq!(lints, Some(true), "crates/{name}/Cargo.toml lacks `[lints] workspace = true`");
    }
}

#[test]
fn every_file_says_what_it_is_for_and_is_short() {
    let mut wrong = Vec::new();
    for file in rust_files(&crates_folder()) {
        let text = fs::read_to_string(&file).unwrap();
        if !text.starts_with("//!") {
            wrong.push(format!("{} does not begin with a //! header", file.display()));
        }
        let lines = text.lines().count();
        // Nobody reads what a program writes.
        if lines > LINES_MAX && !text.starts_with("//! Generated by ") {
            wrong.push(format!("{} has {lines} lines; split it at {LINES_MAX}", file.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Crates whose types all say what they are.
const DOCUMENTED: [&str; 9] = ["wire", "catalog", "copy", "plan", "pool", "share", "txn", "exec", "session"];

/// Whether the line begins a public type.
fn is_type(line: &str) -> bool {
    ["pub struct ", "pub enum ", "pub trait "].iter().any(|start| line.starts_with(start))
}

/// Whether the line begins a public function; those of a trait's implementation never say `pub`.
fn is_function(line: &str) -> bool {
    let mut words = line.split_whitespace();
    words.next() == Some("pub") && words.find(|word| !["const", "async", "unsafe"].contains(word)) == Some("fn")
}

/// The lines of a file, counted from 1, that `is_item` and that no line of documentation stands above; its tests may be silent.
fn undocumented(text: &str, is_item: fn(&str) -> bool) -> Vec<(usize, &str)> {
    let lines: Vec<&str> = text.lines().take_while(|line| !line.ends_with("mod tests {")).collect();
    let silent = |i: &usize| {
        let depth = lines[*i].len() - lines[*i].trim_start().len();
        // As seen from there: what stands deeper is the inside of an attribute.
        let mut above = lines[..*i].iter().rev().map(|line| line.strip_prefix(&lines[*i][..depth]).unwrap_or(line));
        let above = above.find(|line| !line.starts_with("#[") && !line.starts_with([')', ']', ' ']));
        is_item(lines[*i]) && !above.is_some_and(|line| line.starts_with("///"))
    };
    (0..lines.len()).filter(silent).map(|i| (i + 1, lines[i].trim())).collect()
}

/// Whether the whole file is tests.
fn is_tests(file: &Path) -> bool {
    file.ends_with("tests.rs") || file.parent().unwrap().ends_with("tests")
}

#[test]
fn every_public_type_and_function_says_what_it_is() {
    let mut silent = Vec::new();
    for name in crate_names() {
        for file in rust_files(&crates_folder().join(&name).join("src")).iter().filter(|file| !is_tests(file)) {
            let text = fs::read_to_string(file).unwrap();
            let mut found = if DOCUMENTED.contains(&name.as_str()) { undocumented(&text, is_type) } else { vec![] };
            // What a program writes is described where that is.
            if !text.starts_with("//! Generated by ") {
                found.extend(undocumented(&text, is_function));
            }
            silent.extend(found.iter().map(|(at, line)| format!("{}:{at}: {line}", file.display())));
        }
    }
    assert!(silent.is_empty(), "{} without a line of documentation:\n{}", silent.len(), silent.join("\n"));
}

#[test]
fn a_type_without_documentation_would_be_found() {
    let found = |text: &'static str| undocumented(text, is_type);
    assert_eq!(
        found("/// Said.\n#[derive(Debug)]\npub struct A;\n\n#[derive(Debug)]\npub enum B {}\n"),
        [(6, "pub enum B {}")]
    );
    assert_eq!(found("//! A file.\n\npub trait C {}\n"), [(3, "pub trait C {}")]);
}

#[test]
fn a_function_without_documentation_would_be_found() {
    let found = |text: &'static str| undocumented(text, is_function);
    assert_eq!(
        found(
            "impl A {\n    pub fn a() {}\n    /// Said.\n    #[cfg(any(\n        unix,\n    ))]\n    pub fn b() {}\n}\n"
        ),
        [(2, "pub fn a() {}")]
    );
    assert_eq!(
        found("fn a() {}\npub const unsafe fn b() {}\n\npub async fn c() {}\n"),
        [(2, "pub const unsafe fn b() {}"), (4, "pub async fn c() {}")]
    );
    assert!(
        found("pub const A: fn() = a;\npub(crate) fn a() {}\n\npub mod tests {\n    pub fn b() {}\n}\n").is_empty()
    );
}

/// What errors say is for people, and may be translated: only these files look at words, where PostgreSQL, libpg_query and DuckDB
/// give nothing else.
const LOOK_AT_WORDS: [&str; 3] = ["wire/src/recognise.rs", "sql/src/syntax_error.rs", "column/src/duck_error.rs"];

/// Where a source decides by the text of a message; its tests may.
fn decisions_by_text(text: &str) -> Vec<String> {
    let code = text.split("\n#[cfg(test)]\nmod ").next().unwrap();
    // As rustfmt would write it on one line.
    let code: String = code.lines().map(str::trim).filter(|line| !line.starts_with("//")).collect();
    let texts =
        [".message", ".message()", ".get(b'M')", ".get(b'D')", ".get(b'H')", "error.to_string()", "e.to_string()"];
    let same = [".as_str()", ".as_ref()", ".as_deref()", ".to_lowercase()", ""];
    let looks =
        [" == ", " != ", ".eq(", ".contains(", ".starts_with(", ".ends_with(", ".strip_prefix(", ".find(", ".split"];
    let mut found = Vec::new();
    for (text, same) in texts.iter().flat_map(|text| same.iter().map(move |same| (text, same))) {
        let whole: Vec<String> = looks.iter().map(|look| format!("{text}{same}{look}")).collect();
        found.extend(whole.into_iter().filter(|look| code.contains(look.as_str())));
    }
    found
}

#[test]
fn nothing_is_decided_by_what_an_error_says() {
    let mut wrong = Vec::new();
    for file in crate_names().iter().flat_map(|name| rust_files(&crates_folder().join(name).join("src"))) {
        let may = LOOK_AT_WORDS.iter().any(|known| file.ends_with(known)) || file.ends_with("tests.rs");
        let found = decisions_by_text(&fs::read_to_string(&file).unwrap());
        wrong.extend(found.iter().filter(|_| !may).map(|look| format!("{}: {look}", file.display())));
    }
    assert!(wrong.is_empty(), "make it a value, or let one of {LOOK_AT_WORDS:?} tell:\n{}", wrong.join("\n"));
}

#[test]
fn a_decision_by_text_would_be_found() {
    let found = |code: &str| !decisions_by_text(code).is_empty();
    assert!(found("if e.message().contains(\"gone\") {}") && found("a.refusal.message == b.refusal.message"));
    assert!(found("let x = fields\n    .message()\n    .starts_with(\"tuple\");"));
    assert!(found("e.get(b'M') == Some(text)") && found("e.to_string().contains(\"x\")"));
    assert!(
        !found("fields.message().into()") && !found("fn a() {}\n#[cfg(test)]\nmod tests {\n    e.message() == x\n}")
    );
}

/// A source without comments, tests and what stands in strings, which stay as `""`; lines stay lines.
fn code_of(text: &str) -> String {
    let text = text.split("\n#[cfg(test)]\nmod ").next().unwrap();
    let (mut code, mut rest) = (String::new(), text);
    while let Some(c) = rest.chars().next() {
        let hashes = rest[c.len_utf8()..].chars().take_while(|c| *c == '#').count();
        let word = code.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let whole = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if c == '"' {
            let escaped = |at: usize| rest[..at].bytes().rev().take_while(|b| *b == b'\\').count() % 2 == 1;
            rest.match_indices('"').skip(1).find(|(at, _)| !escaped(*at)).map_or(rest.len(), |(at, _)| at + 1)
        } else if c == 'r' && !word && rest[1 + hashes..].starts_with('"') {
            let end = format!("\"{}", "#".repeat(hashes));
            let start = 2 + hashes;
            rest[start..].find(&end).map_or(rest.len(), |at| start + at + end.len())
        } else if rest.starts_with("'\"'") || rest.starts_with("'\\\"'") || rest.starts_with("b'\"'") {
            rest[2..].find('\'').unwrap() + 3
        } else {
            code.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        };
        if !rest.starts_with("//") {
            code.push_str("\"\"");
        }
        code.extend(rest[..whole].chars().filter(|c| *c == '\n'));
        rest = &rest[whole..];
    }
    code
}

/// Object ids that have a name: the constants of wire's `type_oid.rs`.
fn named_oids() -> Vec<String> {
    let text = fs::read_to_string(crates_folder().join("wire/src/type_oid.rs")).unwrap();
    let values = text.lines().filter_map(|line| line.trim().split_once(": Oid = ")?.1.strip_suffix(';'));
    values.map(str::to_owned).collect()
}

/// Lines that name such an object id by its number: where `oid` is said, or as the arm of a `match`. Those of two digits are
/// anybody's numbers.
fn bare_oids<'c>(code: &'c str, named: &[String]) -> Vec<&'c str> {
    let is_named = |number: &str| number.len() > 2 && named.iter().any(|oid| oid == number);
    let has = |line: &str| line.split(|c: char| !c.is_alphanumeric() && c != '_').any(is_named);
    let is_arm = |line: &str| {
        let (pattern, _) = line.split_once("=>").unwrap_or_default();
        pattern.split('|').any(|number| is_named(number.trim()))
    };
    let bare = |line: &&str| line.to_lowercase().contains("oid") && has(line) || is_arm(line);
    code.lines().filter(bare).collect()
}

#[test]
fn types_are_named_not_numbered() {
    let named = named_oids();
    assert!(named.len() > 50, "{named:?}");
    let mut wrong = Vec::new();
    for file in crate_names().iter().flat_map(|name| rust_files(&crates_folder().join(name).join("src"))) {
        if !file.ends_with("wire/src/type_oid.rs")
            && !file.ends_with("tests.rs")
            && !file.parent().unwrap().ends_with("tests")
        {
            let code = code_of(&fs::read_to_string(&file).unwrap());
            wrong.extend(bare_oids(&code, &named).iter().map(|line| format!("{}: {}", file.display(), line.trim())));
        }
    }
    assert!(wrong.is_empty(), "wire::type_oid has names for these:\n{}", wrong.join("\n"));
}

#[test]
fn a_bare_number_of_a_type_would_be_found() {
    let found = |text: &str| bare_oids(&code_of(text), &named_oids()).len();
    assert_eq!(found("matches!(type_oid, 1114 | 1184)\nmatch t {\n    23 | 1700 => 4,\n}\noid >= 16384"), 3);
    assert_eq!(
        found("// oid 1700\nlet oids = \"\\\"WHERE oid >= 16384\n  AND oid <> 1700\";\nlet n = 1000;\noid == '\"'"),
        0
    );
    assert_eq!(found("let oid = r#\"say \"1700\" oid\"#; oid(1184)\n#[cfg(test)]\nmod tests {\n    oid(1700)\n}"), 1);
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() && entry.file_name() != "target" {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

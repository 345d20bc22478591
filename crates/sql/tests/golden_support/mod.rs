//! Golden files: statements behind `> `, each followed by what a test says of it. Knows nothing of what is said.
//!
//! A statement may go on over several lines, each behind `> `; lines behind `#` are remarks. `UPDATE_GOLDEN=1` writes the
//! files anew.

use std::fmt::Write;
use std::path::Path;

/// What is said of every statement of `<folder>/*.txt` must be what the files say.
pub fn check(folder: &Path, show: impl Fn(&str) -> String) {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|e| e == "txt")).collect();
    files.sort();
    assert!(!files.is_empty(), "no golden files in {}", folder.display());
    let mut wrong = Vec::new();
    for file in files {
        let before = std::fs::read_to_string(&file).unwrap();
        let after = rewritten(&before, &show);
        assert!(after.contains("\n> "), "{} holds no statement", file.display());
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&file, &after).unwrap();
        } else if before != after {
            wrong.push(first_difference(&file, &before, &after));
        }
    }
    assert!(wrong.is_empty(), "{}\n(`make golden` writes the files anew)", wrong.join("\n"));
}

/// The file with everything but statements and remarks made anew.
fn rewritten(before: &str, show: &impl Fn(&str) -> String) -> String {
    let mut after = String::new();
    let mut lines = before.lines().peekable();
    while let Some(line) = lines.next() {
        if line.starts_with('#') {
            writeln!(after, "{line}").unwrap();
            if !lines.peek().is_some_and(|next| next.starts_with('#')) {
                after.push('\n');
            }
        }
        let Some(first) = line.strip_prefix('>') else { continue };
        let mut statement = first.strip_prefix(' ').unwrap_or(first).to_owned();
        while let Some(next) = lines.next_if(|next| next.starts_with('>')) {
            statement.push('\n');
            statement.push_str(next[1..].strip_prefix(' ').unwrap_or(&next[1..]));
        }
        for line in statement.split('\n') {
            writeln!(after, "{}", format!("> {line}").trim_end()).unwrap();
        }
        writeln!(after, "{}\n", show(&statement).trim_end()).unwrap();
    }
    after
}

fn first_difference(file: &Path, before: &str, after: &str) -> String {
    let same = before.lines().zip(after.lines()).take_while(|(b, a)| b == a).count();
    let line = |text: &str| text.lines().nth(same).unwrap_or("(the end)").to_owned();
    format!("{}:{}\n  expected {}\n  found    {}", file.display(), same + 1, line(before), line(after))
}

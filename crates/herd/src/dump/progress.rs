//! How far a dump or a restore has come: a bar on a terminal, a line for each archive elsewhere.
//!
//! It counts bytes as the nodes hold them, by tables begun; what programs say of themselves is read here and nowhere else.

use indicatif::{ProgressBar, ProgressStyle};

use super::manifest::Archive;

pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Of all these archives together.
    pub fn new(archives: &[Archive]) -> Progress {
        let bytes = archives.iter().flat_map(|a| &a.tables).map(|(_, bytes)| *bytes).sum();
        let bar = ProgressBar::new(bytes);
        let template = "{msg:32!} [{bar:32}] {binary_bytes}/{binary_total_bytes} {percent}% {elapsed} (still {eta})";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        Progress { bar }
    }

    /// An archive has begun; without a terminal a line says so, with `what` before its name.
    pub fn archive(&self, what: &str, archive: &Archive) {
        if self.bar.is_hidden() {
            eprintln!("{what} {} ({} tables)", archive.folder, archive.tables.len());
        }
    }

    /// A table of the archive has begun, if a line of pg_dump's or pg_restore's words says so.
    pub fn heard<'a>(&self, line: &str, archive: &'a Archive) -> Option<&'a str> {
        let said = line
            .split_once("dumping contents of table \"")
            .or_else(|| line.split_once("processing data for table \""))?
            .1;
        let said = said.trim_end().trim_end_matches('"');
        let (name, bytes) = archive.tables.iter().find(|(name, _)| name == said)?;
        self.bar.set_message(name.clone());
        self.bar.inc(*bytes);
        Some(name)
    }

    /// Takes the bar off the terminal.
    pub fn done(self) {
        self.bar.finish_and_clear();
    }
}

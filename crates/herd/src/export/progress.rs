//! How far an export has come: rows written, on a terminal beside what the nodes' statistics say that there are.

use std::io::Write;

use indicatif::{HumanCount, ProgressBar, ProgressStyle};

/// The bar.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Of about so many rows; `None`: nobody knows.
    pub fn new(rows: Option<u64>) -> Progress {
        let (bar, template) = match rows {
            Some(rows) => {
                (ProgressBar::new(rows), "{msg:32!} [{bar:32}] {human_pos} of about {human_len} rows {elapsed}")
            }
            None => (ProgressBar::no_length(), "{msg:32!} {human_pos} rows {elapsed}"),
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        Progress { bar }
    }

    /// So many rows more.
    pub fn rows(&self, rows: u64) {
        self.bar.inc(rows);
        if self.bar.length().is_some_and(|length| self.bar.position() > length) {
            self.bar.set_length(self.bar.position());
        }
    }

    /// A file is whole; without a terminal a line says so.
    pub fn file(&self, name: &str, rows: u64) {
        self.bar.set_message(name.to_owned());
        if self.bar.is_hidden() {
            // Nobody need listen.
            let _ = writeln!(std::io::stderr(), "{name}: {} rows", HumanCount(rows));
        }
    }

    /// Takes the bar off the terminal.
    pub fn done(&self) {
        self.bar.finish_and_clear();
    }
}

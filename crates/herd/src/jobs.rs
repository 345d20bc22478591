//! `herd jobs`: what takes long as `herd.jobs` has it, in a table, or with `--watch` as bars on a terminal (lines
//! elsewhere) until none is left. It asks a router by psql, and ends nothing.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use serde::Deserialize;

use crate::dump::Error;
use crate::dump::program::{value, without_password};
use crate::local::{Target, run_sql};

const LIST: &str = "SELECT id, kind, about, state, step, pg_size_pretty(bytes_done) || ' of ' || pg_size_pretty(bytes_total) AS bytes, \
    rows_done AS rows, changes, pg_size_pretty(lag_bytes) AS lag, date_trunc('second', time_left) AS time_left, error FROM herd.jobs";

/// Those that run, and those that were seen to run.
const NOW: &str = "SELECT coalesce(jsonb_agg(to_jsonb(j) || jsonb_build_object('left', extract(epoch FROM time_left)::bigint)), '[]') \
    FROM herd.jobs j WHERE state IN ('running', 'waiting') OR id = ANY (ARRAY[{seen}]::bigint[])";

const ASK_EVERY: Duration = Duration::from_millis(500);
/// Between two jobs of one call (a drain, say) none runs.
const PATIENCE: Duration = Duration::from_secs(3);

#[derive(Debug, Deserialize)]
struct Job {
    id: i64,
    kind: String,
    about: String,
    state: String,
    step: Option<String>,
    bytes_done: u64,
    bytes_total: u64,
    rows_done: u64,
    changes: u64,
    lag_bytes: Option<u64>,
    /// Seconds.
    left: Option<u64>,
    error: Option<String>,
}

impl Job {
    fn runs(&self) -> bool {
        matches!(&*self.state, "running" | "waiting")
    }

    /// What there is besides bytes.
    fn said(&self) -> String {
        let lag = self.lag_bytes.map_or_else(String::new, |lag| format!(", {} behind", bytes(lag)));
        let left = self.left.map_or_else(String::new, |left| format!(", still {left} s"));
        let step = self.step.as_deref().unwrap_or("prepare");
        format!("{step}: {} rows, {} changes{lag}{left}", self.rows_done, self.changes)
    }

    fn ended(&self) -> String {
        let why = self.error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
        format!("{} of {}: {}{why}", self.kind, self.about, self.state)
    }
}

/// Prints what `herd.jobs` shows.
pub fn list(target: &Target) -> Result<(), crate::local::Error> {
    run_sql(target, LIST)
}

/// Shows the jobs that run until there is none; whether all of these came to their end.
pub fn watch(target: &Target) -> Result<bool, Error> {
    let (server, screen) = (target.url()?, MultiProgress::new());
    let on_terminal = std::io::stderr().is_terminal();
    let mut shown: BTreeMap<i64, (ProgressBar, String)> = BTreeMap::new();
    let (mut all_done, mut idle_since) = (true, None::<Instant>);
    loop {
        let seen: Vec<String> = shown.keys().map(i64::to_string).collect();
        let said = value(&server, &NOW.replace("{seen}", &seen.join(", ")))?;
        let mut jobs: Vec<Job> = serde_json::from_str(&said)
            .map_err(|_| Error::Unreadable { server: without_password(&server), said: said.clone() })?;
        jobs.sort_by_key(|job| job.id);
        for job in &jobs {
            let (bar, last) = shown.entry(job.id).or_insert_with(|| (screen.add(bar(job)), String::new()));
            if bar.is_finished() {
                continue;
            }
            bar.set_length(job.bytes_total.max(job.bytes_done));
            bar.set_position(job.bytes_done);
            bar.set_message(job.said());
            let line = if job.runs() { job.step.clone().unwrap_or_default() } else { job.ended() };
            if !on_terminal && *last != line {
                let said =
                    if job.runs() { format!("{} of {}: {}", job.kind, job.about, job.said()) } else { job.ended() };
                eprintln!("{said}");
            }
            *last = line;
            if !job.runs() {
                all_done &= job.state == "done";
                bar.finish_with_message(job.ended());
            }
        }
        match jobs.iter().any(Job::runs) {
            true => idle_since = None,
            false if idle_since.get_or_insert_with(Instant::now).elapsed() > PATIENCE => return Ok(all_done),
            false => {}
        }
        std::thread::sleep(ASK_EVERY);
    }
}

fn bar(job: &Job) -> ProgressBar {
    let bar = ProgressBar::new(job.bytes_total);
    if let Ok(style) =
        ProgressStyle::with_template("{prefix} [{bar:24}] {binary_bytes}/{binary_total_bytes} {wide_msg}")
    {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.with_prefix(format!("{} {}", job.kind, job.about))
}

fn bytes(n: u64) -> String {
    indicatif::BinaryBytes(n).to_string()
}

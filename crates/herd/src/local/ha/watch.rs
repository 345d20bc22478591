//! The watch of a local herd with standbys (`herd watch`, in the background): ends what hangs, starts Patronis that have ended.
//!
//! Patroni itself sees at once that PostgreSQL has ended. One that hangs leaves Patroni waiting for its answer, and a Patroni that
//! has ended, or hangs, says nothing more: both are followed only after `ttl`, which is 20 s or more. So who does not answer for
//! some seconds is killed here, and Patroni does the rest. It does not know who leads, nor etcd's data.

use std::io::ErrorKind;
use std::path::Path;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::Member;
use super::etcd::Etcd;
use super::up::Means;
use super::wait;
use crate::http;
use crate::local::error::{Error, Result};
use crate::local::files::Files;
use crate::local::state::State;
use crate::local::{probe, process};

/// Between two looks at one server.
const PAUSE: Duration = Duration::from_secs(1);
/// Who answers nothing for so long, hangs: a busy machine answers within it.
const SILENCE: Duration = Duration::from_secs(5);
/// And so many times: what stood still with the whole machine answers one of them.
const LOOKS: u32 = 2;
/// Between two starts of a Patroni that does not stay.
const BETWEEN_STARTS: Duration = Duration::from_secs(10);
/// Between two looks whether there is something to watch over.
const BETWEEN_LOOKS_AT_ALL: Duration = Duration::from_secs(3);

/// Until the herd is stopped, or gone: without etcd nobody leads.
pub fn run(dir: &Path) -> Result<()> {
    let files = Files::new(dir)?;
    let state = State::load(&files.state())?.filter(|state| state.ha);
    let state = state.ok_or_else(|| Error::NoHerd { path: files.dir().to_owned() })?;
    let (members, etcds) = (Member::all(&files, &state), Etcd::all(&files, &state));
    let is_over = AtomicBool::new(false);
    let goes_on = || !is_over.load(Ordering::Relaxed);
    std::thread::scope(|scope| {
        for member in &members {
            scope.spawn(|| watch_postgres(member, goes_on));
            scope.spawn(|| Patroni { member, started: None }.watch(&files, &members, goes_on));
        }
        while files.state().exists() && etcds.iter().any(|etcd| etcd.pid().is_some()) {
            std::thread::sleep(BETWEEN_LOOKS_AT_ALL);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    tracing::info!("no etcd of this herd runs: there is nothing to watch over");
    Ok(())
}

fn watch_postgres(member: &Member, goes_on: impl Fn() -> bool) {
    let mut silence = Silence::default();
    while goes_on() {
        std::thread::sleep(PAUSE);
        let Some(pid) = member.node.pid() else { continue };
        let began = Instant::now();
        let answers = probe::probe(member.node.port) != probe::Answer::Nothing;
        if silence.is_too_long(pid, began, answers) {
            tracing::warn!(
                "{}: PostgreSQL (process {pid}) has not answered for {} s: it is killed, so that its standby can follow",
                member.name(),
                silence.seconds()
            );
            member.node.kill();
        }
    }
}

/// The Patroni of a member.
struct Patroni<'a> {
    member: &'a Member,
    /// What this process started last, and when.
    started: Option<(Child, Instant)>,
}

impl Patroni<'_> {
    fn watch(&mut self, files: &Files, members: &[Member], goes_on: impl Fn() -> bool) {
        let (mut silence, mut known) = (Silence::default(), None);
        while goes_on() {
            std::thread::sleep(PAUSE);
            known = known.filter(|pid| self.member.is_patroni(*pid)).or_else(|| self.member.pid());
            let Some(pid) = known else {
                if let Err(error) = self.start(files, members) {
                    tracing::warn!("{}: its Patroni has ended and can't be started: {error}", self.member.name());
                }
                continue;
            };
            let began = Instant::now();
            if silence.is_too_long(pid, began, self.answers()) {
                tracing::warn!(
                    "{}: Patroni (process {pid}) has not answered for {} s: it is killed, and started again",
                    self.member.name(),
                    silence.seconds()
                );
                process::signal(pid, Signal::KILL);
            }
        }
    }

    /// With any status: whether all is well is not asked here.
    fn answers(&self) -> bool {
        let said = http::get(&format!("127.0.0.1:{}", self.member.rest_port), "/liveness");
        said.map_or_else(|error| error.kind() == ErrorKind::InvalidData, |_| true)
    }

    /// Unless it was started just now, or another `herd` command is at work, which does it or does not want it.
    fn start(&mut self, files: &Files, members: &[Member]) -> Result<()> {
        if let Some((child, at)) = &mut self.started {
            // Reaped, if it has ended.
            let _ = child.try_wait();
            if at.elapsed() < BETWEEN_STARTS {
                return Ok(());
            }
        }
        let Some(_lock) = files.try_lock()? else { return Ok(()) };
        // A program that becomes another one has no arguments for a moment.
        if !files.state().exists() || !self.member.config.exists() || !wait::has_ended(|| self.member.pid()) {
            return Ok(());
        }
        let means = Means::find(members)?;
        tracing::warn!("{}: its Patroni has ended: starting it again", self.member.name());
        self.started = Some((means.start(self.member)?, Instant::now()));
        Ok(())
    }
}

/// How long one process has not answered.
#[derive(Debug, Default)]
struct Silence {
    pid: u32,
    /// It did once: before that, it starts.
    has_answered: bool,
    since: Option<Instant>,
    looks: u32,
}

impl Silence {
    /// Notes a look that began then, and tells whether it hangs.
    fn is_too_long(&mut self, pid: u32, began: Instant, answers: bool) -> bool {
        if self.pid != pid {
            *self = Silence { pid, ..Silence::default() };
        }
        if answers {
            *self = Silence { pid, has_answered: true, ..Silence::default() };
            return false;
        }
        self.looks += 1;
        self.since.get_or_insert(began);
        self.has_answered && self.looks >= LOOKS && self.seconds() >= SILENCE.as_secs()
    }

    fn seconds(&self) -> u64 {
        self.since.map_or(0, |since| since.elapsed().as_secs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_answered_and_is_silent_for_long_hangs() {
        let (mut silence, long_ago) = (Silence::default(), Instant::now().checked_sub(SILENCE).unwrap());
        // It starts.
        assert!((0..9).all(|_| !silence.is_too_long(7, long_ago, false)));
        assert!(!silence.is_too_long(7, long_ago, true));
        let looks: Vec<bool> = (0..2).map(|_| silence.is_too_long(7, long_ago, false)).collect();
        assert_eq!(looks, [false, true]);
        // Another process is another one.
        assert!((0..9).all(|_| !silence.is_too_long(8, long_ago, false)));
        // Many looks in a short time are not enough.
        assert!(!silence.is_too_long(8, long_ago, true));
        assert!((0..9).all(|_| !silence.is_too_long(8, Instant::now(), false)));
    }
}

//! Waits until what was started does what it is for, or says in which log it stands why it does not.

use std::path::Path;
use std::time::{Duration, Instant};

use super::Member;
use super::etcd::Etcd;
use crate::local::error::{Error, Result};
use crate::local::files::{Files, tail};
use crate::local::probe;
use crate::local::state::State;
use crate::patroni;

/// Crash recovery, or the copy of a node, can take long; what can't start ends at once.
const MEMBER_LIMIT: Duration = Duration::from_secs(300);
const ETCD_LIMIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);
/// Who is not found so often is gone.
const LOOKS: u32 = 4;

/// Until these answer, which they do when most of the three run.
pub fn for_health(started: &[&Etcd]) -> Result<()> {
    let end = Instant::now() + ETCD_LIMIT;
    for etcd in started {
        while !etcd.is_healthy() {
            if has_ended(|| etcd.pid()) {
                return Err(failed(&etcd.name, "it ended".to_owned(), &etcd.log));
            }
            if Instant::now() > end {
                let reason = format!("it is not healthy after {} s", ETCD_LIMIT.as_secs());
                return Err(failed(&etcd.name, reason, &etcd.log));
            }
            std::thread::sleep(PAUSE);
        }
        eprintln!("{}: ready on port {}", etcd.name, etcd.port);
    }
    Ok(())
}

/// Until each node has a member that takes writes.
pub fn for_leaders(files: &Files, state: &State) -> Result<()> {
    for_members(files, state, "leader", patroni::Member::leads)
}

/// Until each node has its synchronous standby beside its leader. It serves before, too.
pub fn for_standbys(files: &Files, state: &State) -> Result<()> {
    for_members(files, state, "sync standby", patroni::Member::is_sync_standby)
}

fn for_members(files: &Files, state: &State, role: &str, has_it: fn(&patroni::Member) -> bool) -> Result<()> {
    let end = Instant::now() + MEMBER_LIMIT;
    for number in state.numbers() {
        let members = Member::of(files, state, number);
        let mut waited = false;
        let found = loop {
            if let Some(found) = first_with(&members, has_it) {
                break found;
            }
            waited = true;
            if let Some(ended) = members.iter().find(|member| has_ended(|| member.pid())) {
                return Err(failed(ended.name(), "its Patroni ended".to_owned(), &ended.node.log));
            }
            if Instant::now() > end {
                let idle = members.iter().find(|member| !probe::probe(member.node.port).is_ready());
                let reason = format!("it has no {role} after {} s", MEMBER_LIMIT.as_secs());
                return Err(failed(&format!("node{number}"), reason, &idle.unwrap_or(&members[0]).node.log));
            }
            std::thread::sleep(PAUSE);
        };
        if waited {
            eprintln!("{}: {role}, ready on port {}", found.name(), found.node.port);
        }
    }
    Ok(())
}

/// The first member that is so and answers: what Patroni says of one that was killed is some seconds old.
fn first_with(members: &[Member], is_so: impl Fn(&patroni::Member) -> bool) -> Option<&Member> {
    let urls: Vec<String> = members.iter().map(|member| member.rest_url.clone()).collect();
    let said = patroni::members(&urls);
    let says_so = |member: &Member| said.iter().any(|one| one.name == member.name() && is_so(one));
    members.iter().find(|member| says_so(member) && probe::probe(member.node.port).is_ready())
}

/// A process that becomes another program (a script's interpreter) has no arguments for a moment.
pub fn has_ended(pid: impl Fn() -> Option<u32>) -> bool {
    let is_missing = |_| {
        let is_missing = pid().is_none();
        if is_missing {
            std::thread::sleep(PAUSE);
        }
        is_missing
    };
    (0..LOOKS).all(is_missing)
}

fn failed(member: &str, reason: String, log: &Path) -> Error {
    Error::MemberStart { member: member.to_owned(), reason, tail: tail(log, 12), log: log.to_owned() }
}

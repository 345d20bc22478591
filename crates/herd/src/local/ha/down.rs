//! `herd down` of a herd whose nodes have standbys: standbys, then leaders, so that nobody takes over; etcd last.

use super::Member;
use super::etcd::Etcd;
use crate::local::error::Result;
use crate::local::files::Files;
use crate::local::state::State;
use crate::local::{account, binaries, reach, up};

/// Stops what runs. True: something did.
pub fn down(files: &Files, state: &State) -> Result<bool> {
    let running: Vec<Member> = Member::all(files, state).into_iter().filter(Member::runs).collect();
    if let Some(first) = running.first() {
        let owner = account::owner_of(&first.folder)?;
        let major = running.iter().find(|member| member.has_data()).map(|member| member.node.major()).transpose()?;
        let binaries = reach::binaries(owner.as_ref(), binaries::find(major)?)?;
        let (standbys, leaders): (Vec<Member>, Vec<Member>) = running.into_iter().partition(Member::is_standby);
        for members in [standbys, leaders] {
            up::in_parallel(&members, |member| {
                if member.stop(&binaries)? {
                    eprintln!("{}: stopped", member.name());
                }
                Ok(())
            })?;
        }
        return stop_etcd(files, state).map(|_| true);
    }
    stop_etcd(files, state)
}

fn stop_etcd(files: &Files, state: &State) -> Result<bool> {
    let mut stopped = false;
    for etcd in Etcd::all(files, state) {
        if let Some(pid) = etcd.pid() {
            etcd.stop(pid)?;
            eprintln!("{}: stopped", etcd.name);
            stopped = true;
        }
    }
    Ok(stopped)
}

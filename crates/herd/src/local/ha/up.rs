//! `herd up` of a herd whose nodes have standbys: etcd, then every member's Patroni, then a leader of each node.
//!
//! Patroni makes PostgreSQL where there is none: the first member of a node by initdb, the other as its copy. Run again, it
//! starts what does not run.

use std::process::Child;

use super::etcd::Etcd;
use super::programs::{self, Programs};
use super::{Member, config, wait, watcher};
use crate::local::account::{self, Account};
use crate::local::binaries::{self, Binaries};
use crate::local::error::{Error, Result};
use crate::local::files::Files;
use crate::local::state::State;
use crate::local::{reach, up};
use crate::patroni;

/// Something of one was made in this directory.
pub fn has_begun(files: &Files) -> bool {
    files.etcd(1).exists() || files.member("node1a").exists()
}

/// Starts what does not run, and waits until each node has a leader. True: at least one was started.
pub fn start(files: &Files, state: &mut State, router_runs: bool) -> Result<bool> {
    let (members, etcds) = (Member::all(files, state), Etcd::all(files, state));
    check_losses(state, &members, &etcds)?;
    let stopped_etcds: Vec<&Etcd> = etcds.iter().filter(|etcd| etcd.pid().is_none()).collect();
    let ports = members.iter().flat_map(|member| member.ports_needed().into_iter().map(|port| (member.name(), port)));
    let ports = ports.chain(stopped_etcds.iter().flat_map(|etcd| etcd.ports().map(|port| (etcd.name.as_str(), port))));
    let ports: Vec<(String, u16)> = ports.map(|(name, port)| (name.to_owned(), port)).collect();
    up::check_ports(files, state, &ports, router_runs)?;

    let starts = !stopped_etcds.is_empty() || members.iter().any(|member| member.pid().is_none());
    let means = starts.then(|| Means::find(&members)).transpose()?;
    up::note_begun(files, state)?;
    if let Some(means) = &means {
        if let ([first, .., last], false) = (&members[..], state.made) {
            let (version, place) = (&means.binaries.version, files.dir().display());
            eprintln!("{} to {}: making PostgreSQL {version} data directories in {place}", first.name(), last.name());
        }
        make_folders(files, &members, &etcds, means)?;
        start_all(files, state, means)?;
    }
    wait::for_leaders(files, state)?;
    up::note_made(files, state)?;
    give_settings(files, state)?;
    Ok(watcher::start(files)? || starts)
}

/// Who runs all of it, with which programs.
pub(super) struct Means {
    account: Option<Account>,
    binaries: Binaries,
    programs: Programs,
}

impl Means {
    pub(super) fn find(members: &[Member]) -> Result<Means> {
        let account = match members.iter().find(|member| member.folder.exists()) {
            Some(made) => account::owner_of(&made.folder)?,
            None => account::for_new_data()?,
        };
        let major = members.iter().find(|member| member.has_data()).map(|member| member.node.major()).transpose()?;
        let binaries = reach::binaries(account.as_ref(), binaries::find(major)?)?;
        let programs = programs::find(account.as_ref())?;
        Ok(Means { account, binaries, programs })
    }

    /// Starts the Patroni of a member that has its configuration.
    pub(super) fn start(&self, member: &Member) -> Result<Child> {
        member.start(&self.programs, self.account.as_ref())
    }
}

/// What was made and is gone: a member is copied anew from the other, a node or an etcd can't be.
fn check_losses(state: &State, members: &[Member], etcds: &[Etcd]) -> Result<()> {
    if !state.made {
        return Ok(());
    }
    if let Some(lost) = etcds.iter().find(|etcd| !etcd.folder.join("member").exists()) {
        return Err(Error::NodeGone { path: lost.folder.clone() });
    }
    for number in state.numbers() {
        let of_node = || members.iter().filter(|member| member.node.number == number);
        if of_node().all(|member| !member.has_data()) {
            let path = of_node().map(|member| member.node.data.clone()).next().unwrap_or_default();
            return Err(Error::NodeGone { path });
        }
    }
    Ok(())
}

fn make_folders(files: &Files, members: &[Member], etcds: &[Etcd], means: &Means) -> Result<()> {
    let links = etcds.iter().map(|etcd| &etcd.link).chain(members.iter().map(|member| &member.link));
    for link in links.filter(|link| !link.exists()) {
        reach::own_folder(means.account.as_ref(), files.dir(), link)?;
    }
    Ok(())
}

/// Starts what does not run, etcd first.
fn start_all(files: &Files, state: &State, means: &Means) -> Result<()> {
    let Means { account, binaries, programs } = means;
    let account = account.as_ref();
    // Folders that were made just now have real paths.
    let etcds = Etcd::all(files, state);
    let stopped: Vec<&Etcd> = etcds.iter().filter(|etcd| etcd.pid().is_none()).collect();
    for etcd in &stopped {
        etcd.start(&etcds, programs, account)?;
    }
    wait::for_health(&stopped)?;
    for member in Member::all(files, state).iter().filter(|member| member.pid().is_none()) {
        config::write(member, state, binaries, account)?;
        if state.made {
            eprintln!("{}: starting its Patroni", member.name());
        }
        means.start(member)?;
    }
    Ok(())
}

/// Settings of `--set` that came after the herd was made.
fn give_settings(files: &Files, state: &State) -> Result<()> {
    for number in state.numbers() {
        let [first, second] = Member::of(files, state, number).map(|member| member.rest_url);
        let given = patroni::set_parameters(&first, &state.settings);
        let given = given.or_else(|_| patroni::set_parameters(&second, &state.settings));
        let path = format!("{first}/config").into();
        if given.map_err(|source| Error::Io { action: "change", path, source })? {
            eprintln!("node{number}: settings reloaded; some take effect only after `herd down` and `herd up`");
        }
    }
    Ok(())
}

//! What of a herd with standbys is up: each etcd, each member of each node, and its role.

use super::etcd::Etcd;
use super::{Member, watcher};
use crate::local::files::Files;
use crate::local::probe::{Answer, probe};
use crate::local::state::State;
use crate::local::status::{DOWN, EtcdStatus, MemberStatus, NodeStatus, WatchStatus};
use crate::patroni;

/// Each etcd: whether it runs, answers, and sees another one.
pub fn etcd(files: &Files, state: &State) -> Vec<EtcdStatus> {
    let status = |etcd: Etcd| EtcdStatus { up: etcd.is_healthy(), pid: etcd.pid(), port: etcd.port, name: etcd.name };
    Etcd::all(files, state).into_iter().map(status).collect()
}

/// Whether somebody watches over the members.
pub fn watch(files: &Files) -> WatchStatus {
    let pid = watcher::pid(files);
    WatchStatus { up: pid.is_some(), pid }
}

/// A node and its members. It is up when one of them leads.
pub fn node(files: &Files, state: &State, number: u16) -> NodeStatus {
    let members = Member::of(files, state, number);
    let said = patroni::members(&members.each_ref().map(|member| member.rest_url.clone()));
    let mut node = NodeStatus::new(format!("node{number}"), super::hosts(state, number), members[0].node.port);
    for member in members {
        let answer = probe(member.node.port);
        let (patroni_pid, of_patroni) = (member.pid(), said.iter().find(|one| one.name == member.name()));
        let up = answer.is_ready() && patroni_pid.is_some();
        let role = match of_patroni {
            Some(one) if up => one.role_shown(),
            _ if up => "not in Patroni's list".to_owned(),
            // Whoever has its key in etcd: nobody would follow it when it ends.
            _ if answer.is_ready() => "without Patroni".to_owned(),
            _ => DOWN.to_owned(),
        };
        if up && of_patroni.is_some_and(patroni::Member::leads) {
            (node.up, node.port) = (true, member.node.port);
            if let Answer::Ready { version } = answer {
                node.version = version;
            }
        }
        let (host, port, pid) = ("127.0.0.1".to_owned(), member.node.port, member.node.pid());
        let (name, data) = (member.node.name, Some(member.node.data));
        node.members.push(MemberStatus { name, up, role, pid, patroni_pid, host, port, data });
    }
    node
}

//! Who listens where, counted from the router's port: PostgreSQL of all members, then their Patronis, then etcd.

use crate::local::state::{METRICS_OFFSET, State};

/// Of a node: `node1a` and `node1b`.
pub const MEMBERS: [u16; 2] = [0, 1];
/// Each member's PostgreSQL and its Patroni.
pub const PORTS_PER_NODE: u16 = 2 * MEMBERS.len() as u16;
/// For clients and for each other.
pub const PORTS_OF_ETCD: u16 = 2 * super::etcd::COUNT;
/// The most nodes: the ports stay below the metrics page's.
pub const NODES_MAX: u16 = (METRICS_OFFSET - 1 - PORTS_OF_ETCD) / PORTS_PER_NODE;

impl State {
    /// Of a member's PostgreSQL.
    pub fn member_port(&self, number: u16, member: u16) -> u16 {
        self.port + 1 + (number - 1) * MEMBERS.len() as u16 + member
    }

    /// Of its Patroni's REST API.
    pub fn rest_port(&self, number: u16, member: u16) -> u16 {
        self.member_port(number, member) + self.nodes * MEMBERS.len() as u16
    }

    /// Of an etcd, counted from 1: for clients, and for the other two.
    pub fn etcd_ports(&self, number: u16) -> [u16; 2] {
        let client = self.port + self.nodes * PORTS_PER_NODE + number;
        [client, client + super::etcd::COUNT]
    }
}

/// Of a member's Patroni.
pub fn rest_url(state: &State, number: u16, member: u16) -> String {
    format!("http://127.0.0.1:{}", state.rest_port(number, member))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_is_anothers_and_none_the_metrics_page_s() {
        for nodes in [1, 2, NODES_MAX] {
            let state = State { nodes, ha: true, ..State::default() };
            let members = state.numbers().flat_map(|number| MEMBERS.map(|member| (number, member)));
            let ports = members.flat_map(|(n, m)| [state.member_port(n, m), state.rest_port(n, m)]);
            let mut ports: Vec<u16> = ports.chain((1..=3).flat_map(|n| state.etcd_ports(n))).collect();
            ports.sort_unstable();
            assert!(ports.iter().copied().eq(state.port + 1..=state.port + state.ports_after()), "{ports:?}");
            assert!(state.ports_after() < METRICS_OFFSET);
        }
    }
}

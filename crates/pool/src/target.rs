//! Where a node is and who logs in to it. Nothing here connects.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;

use crate::liveness::Liveness;
use crate::require_auth::RequireAuth;

/// How to reach one database of one node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeTarget {
    /// A name, an address, or (starting with `/`) the directory of a Unix socket. A node with standbys has a list,
    /// `a,b:5433`; a host without a port of its own has `port`. Whichever is the primary is the node. URLs in the list,
    /// `a,b,http://a:8008`, are Patroni's REST API: it says which one that is.
    pub host: String,
    pub port: u16,
    pub database: String,
    pub tls: TlsMode,
    pub require_auth: RequireAuth,
    pub liveness: Liveness,
    /// A standby: it must be of the cluster that has this system identifier, or nobody is connected. `None`: whoever is there will do.
    pub standby_of: Option<u64>,
}

/// What is asked of TLS, as libpq's `sslmode`. Unix sockets never use TLS.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub enum TlsMode {
    Disable,
    /// TLS if the node offers it; who the node is, is not checked.
    #[default]
    Prefer,
    /// TLS or nothing; who the node is, is not checked.
    Require,
    /// The node's certificate must come from an authority in the PEM file `root` (`system`: the well-known ones).
    VerifyCa {
        root: PathBuf,
    },
    /// Also, it must be issued for the host's name, in its subjectAltName.
    VerifyFull {
        root: PathBuf,
    },
}

/// Who logs in. Its `Debug` shows no secret.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Login {
    pub user: String,
    pub secret: Secret,
}

/// With what one logs in.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// For nodes that ask for none (`trust`, `peer`).
    None,
    Password(String),
    /// SCRAM keys of a client that proved itself to the router. They open every node that holds the same verifier.
    Keys {
        client_key: [u8; 32],
        server_key: [u8; 32],
    },
}

impl NodeTarget {
    /// A target without TLS; for nodes on this machine.
    pub fn new(host: &str, port: u16, database: &str) -> Self {
        NodeTarget {
            host: host.into(),
            port,
            database: database.into(),
            tls: TlsMode::Disable,
            require_auth: RequireAuth::default(),
            liveness: Liveness::NODE,
            standby_of: None,
        }
    }

    /// Each of the hosts of the list as a target of its own.
    pub fn candidates(&self) -> Vec<NodeTarget> {
        let each = |host: &str| {
            let (host, port) = match host.rsplit_once(':') {
                // An IPv6 address has colons too.
                Some((name, port)) if !name.contains(':') => (name, port.parse().unwrap_or(self.port)),
                _ => (host, self.port),
            };
            NodeTarget { host: host.to_string(), port, ..self.clone() }
        };
        match self.has_standbys() {
            true => self.listed().filter(|entry| !is_url(entry)).map(each).collect(),
            false => vec![self.clone()],
        }
    }

    /// Where Patroni says which host is the primary. Empty: each host is asked itself.
    pub fn patroni(&self) -> Vec<String> {
        self.listed().filter(|entry| is_url(entry)).map(str::to_owned).collect()
    }

    fn listed(&self) -> impl Iterator<Item = &str> {
        self.host.split(',').map(str::trim)
    }

    /// It is a list: several hosts, of which one is the primary, or Patroni says which host it is.
    pub fn has_standbys(&self) -> bool {
        self.host.contains(',')
    }

    /// Whether `host` is a directory of a Unix socket.
    pub fn is_unix(&self) -> bool {
        self.host.starts_with('/')
    }

    /// The path of its Unix socket, where it has one.
    pub(crate) fn socket(&self) -> String {
        format!("{}/.s.PGSQL.{}", self.host, self.port)
    }
}

fn is_url(entry: &str) -> bool {
    entry.contains("://")
}

impl Login {
    /// The user as the server knows it; nothing is checked before somebody logs in.
    pub fn new(user: &str, secret: Secret) -> Self {
        Login { user: user.into(), secret }
    }
}

impl fmt::Display for NodeTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.has_standbys() {
            true => f.write_str(&self.host),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl Hash for Secret {
    /// Equal secrets hash equally; different ones may too, so that no hash tells anything of a secret.
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Secret::None => "None",
            Secret::Password(_) => "Password(…)",
            Secret::Keys { .. } => "Keys(…)",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_hosts_is_taken_apart() {
        let hosts = |host: &str| -> Vec<String> {
            NodeTarget::new(host, 5432, "d").candidates().iter().map(|c| format!("{} {}", c.host, c.port)).collect()
        };
        assert_eq!(hosts("a"), ["a 5432"]);
        assert_eq!(hosts("::1"), ["::1 5432"]);
        assert_eq!(hosts("a,b:5433, ::1"), ["a 5432", "b 5433", "::1 5432"]);
        assert_eq!(hosts("a, b:5433, http://a:8008"), ["a 5432", "b 5433"]);
        assert_eq!(
            NodeTarget::new("a,http://a:8008, http://b:8008", 1, "d").patroni(),
            ["http://a:8008", "http://b:8008"]
        );
    }
}

//! Where a router and its nodes are reached. A node is reached as the router is, at the host, port and database that the
//! herd's catalog has for it, unless the user names another way.

use serde::Deserialize;

/// A node as `herd.node` has it.
#[derive(Debug, Clone, Deserialize)]
pub struct Node {
    pub id: i32,
    pub name: String,
    pub host: String,
    pub port: u16,
    pub database: String,
    pub is_home: bool,
}

impl Node {
    /// How libpq reaches it: `router` with another place.
    pub fn conninfo(&self, router: &str, named: &[(String, String)]) -> String {
        if let Some((_, url)) = named.iter().find(|(name, _)| *name == self.name) {
            return url.clone();
        }
        // libpq knows nothing of Patroni: it asks each host.
        let hosts: Vec<&str> = self.host.split(',').filter(|host| !is_url(host)).collect();
        let several = hosts.len() > 1;
        let Some((scheme, rest)) = router.split_once("://") else {
            // libpq takes the last of two equal keywords.
            let attrs = if several { " target_session_attrs=primary" } else { "" };
            let hosts = hosts.join(",");
            let port = if hosts.contains(':') { String::new() } else { format!(" port={}", self.port) };
            return format!("{router} host={}{port} dbname={}{attrs}", quote(&hosts), quote(&self.database));
        };
        let (authority, tail) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let query = tail.split_once('?').map_or("", |(_, query)| query);
        let login = authority.rsplit_once('@').map_or(String::new(), |(login, _)| format!("{login}@"));
        let mut options: Vec<&str> = query.split('&').filter(|option| !option.is_empty()).collect();
        if several {
            options.push("target_session_attrs=primary");
        }
        let options = if options.is_empty() { String::new() } else { format!("?{}", options.join("&")) };
        format!("{scheme}://{login}{}/{}{options}", self.authority(&hosts), encode(&self.database))
    }

    /// Each of its hosts, as if it were the only one.
    pub fn hosts(&self) -> Vec<Node> {
        let one = |host: &str| {
            let (name, port) = host.rsplit_once(':').filter(|(name, _)| !name.contains(':')).unwrap_or((host, ""));
            match port.parse() {
                Ok(port) => Node { host: name.to_owned(), port, ..self.clone() },
                Err(_) => Node { host: host.to_owned(), ..self.clone() },
            }
        };
        self.host.split(',').filter(|host| !is_url(host)).map(one).collect()
    }

    /// The URLs of Patroni's REST API, where it says which host is the primary.
    pub fn patroni(&self) -> Vec<String> {
        self.host.split(',').filter(is_url).map(str::to_owned).collect()
    }

    /// `a:1`, or `a:1,b:2` for a node with standbys, which is kept as `a,b` with one port or `a:1,b:2`.
    fn authority(&self, hosts: &[&str]) -> String {
        let one = |host: &&str| match host.contains(':') && !host.contains("::") {
            true => (*host).to_owned(),
            false if host.contains(':') => format!("[{host}]:{}", self.port),
            false => format!("{}:{}", encode(host), self.port),
        };
        hosts.iter().map(one).collect::<Vec<_>>().join(",")
    }
}

fn is_url(host: &&str) -> bool {
    host.contains("://")
}

/// A value of a keyword connection string.
fn quote(value: &str) -> String {
    format!("'{}'", value.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// Percent-encoding of a part of a URL.
fn encode(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'~');
    text.bytes().map(|b| if plain(b) { (b as char).to_string() } else { format!("%{b:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(host: &str) -> Node {
        Node { id: 2, name: "node2".into(), host: host.into(), port: 7002, database: "my db".into(), is_home: false }
    }

    #[test]
    fn a_node_is_reached_as_the_router_is() {
        let url = |router: &str| node("db2").conninfo(router, &[]);
        assert_eq!(url("postgresql://u:p%40@h:6500/x"), "postgresql://u:p%40@db2:7002/my%20db");
        assert_eq!(url("postgres://h"), "postgres://db2:7002/my%20db");
        assert_eq!(url("postgresql://u@/x?sslmode=require"), "postgresql://u@db2:7002/my%20db?sslmode=require");
        assert_eq!(url("host=h user=u"), "host=h user=u host='db2' port=7002 dbname='my db'");
        assert_eq!(node("::1").conninfo("postgresql://h/x", &[]), "postgresql://[::1]:7002/my%20db");
        let standby = "postgresql://a:7002,b:7002/my%20db?target_session_attrs=primary";
        assert_eq!(node("a,b").conninfo("postgresql://h/x", &[]), standby);
        assert_eq!(node("a,b,http://a:8008").conninfo("postgresql://h/x", &[]), standby);
        assert_eq!(node("a,http://a:8008").conninfo("postgresql://h/x", &[]), "postgresql://a:7002/my%20db");
    }

    #[test]
    fn hosts_of_a_node_one_by_one() {
        let node = node("a:1,b,::1,http://a:8008");
        let hosts: Vec<_> = node.hosts().into_iter().map(|host| (host.host, host.port)).collect();
        assert_eq!(hosts, [("a".to_owned(), 1), ("b".to_owned(), 7002), ("::1".to_owned(), 7002)]);
        assert_eq!(node.patroni(), ["http://a:8008"]);
    }

    #[test]
    fn a_node_may_be_reached_otherwise() {
        let named = [("node2".to_owned(), "postgresql://elsewhere/x".to_owned())];
        assert_eq!(node("db2").conninfo("postgresql://h/x", &named), "postgresql://elsewhere/x");
    }
}

//! Connection strings of nodes in libpq's keyword form: `host=10.0.0.5 port=5432 dbname=app user=app`.
//!
//! Only the keywords a router can honour are known; any other is an error, not ignored. URLs, service files and
//! environment variables are deliberately not read: what a router connects to stands in its configuration.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use pool::{KeywordError, RequireAuth, keywords};

/// How to reach one node.
#[derive(Clone, PartialEq, Eq)]
pub struct NodeConfig {
    pub host: String,
    pub port: u16,
    pub dbname: String,
    pub user: String,
    pub password: Option<String>,
    pub sslmode: SslMode,
    /// PEM file of the authorities trusted for this node; the usual public ones when absent.
    pub sslrootcert: Option<PathBuf>,
    /// By which methods it may ask who the router is.
    pub require_auth: RequireAuth,
}

/// libpq's `sslmode`, without `allow` (which would send the password in clear first).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SslMode {
    Disable,
    #[default]
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

/// What is wrong with a connection string.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConninfoError {
    #[error(
        "\"{0}\" is not a keyword of a node: host, port, dbname, user, password, sslmode, sslrootcert, require_auth, target_session_attrs are"
    )]
    Keyword(String),
    #[error(transparent)]
    Form(#[from] KeywordError),
    #[error("{keyword} cannot be \"{value}\": {reason}")]
    Value { keyword: &'static str, value: String, reason: &'static str },
    #[error("host is missing")]
    NoHost,
}

impl FromStr for SslMode {
    type Err = ConninfoError;

    fn from_str(text: &str) -> Result<Self, ConninfoError> {
        Ok(match text {
            "disable" => SslMode::Disable,
            "prefer" => SslMode::Prefer,
            "require" => SslMode::Require,
            "verify-ca" => SslMode::VerifyCa,
            "verify-full" => SslMode::VerifyFull,
            _ => {
                return Err(ConninfoError::Value {
                    keyword: "sslmode",
                    value: text.to_owned(),
                    reason: "use disable, prefer, require, verify-ca or verify-full",
                });
            }
        })
    }
}

impl FromStr for NodeConfig {
    type Err = ConninfoError;

    fn from_str(text: &str) -> Result<Self, ConninfoError> {
        let mut node = NodeConfig {
            host: String::new(),
            port: 5432,
            dbname: String::new(),
            user: "postgres".to_owned(),
            password: None,
            sslmode: SslMode::default(),
            sslrootcert: None,
            require_auth: RequireAuth::default(),
        };
        let mut ports = Vec::new();
        for (keyword, value) in keywords(text)? {
            match keyword.as_str() {
                "host" => node.host = value,
                "port" => ports = value.split(',').map(|p| port(p.to_owned())).collect::<Result<_, _>>()?,
                "target_session_attrs" if matches!(value.as_str(), "primary" | "read-write") => {}
                "target_session_attrs" => {
                    return Err(ConninfoError::Value {
                        keyword: "target_session_attrs",
                        value,
                        reason: "a node is where writes go: use primary",
                    });
                }
                "dbname" => node.dbname = value,
                "user" => node.user = value,
                "password" => node.password = Some(value),
                "sslmode" => node.sslmode = value.parse()?,
                "require_auth" => {
                    let failed =
                        |reason| ConninfoError::Value { keyword: "require_auth", value: value.clone(), reason };
                    node.require_auth = value.parse().map_err(failed)?;
                }
                "sslrootcert" => node.sslrootcert = Some(PathBuf::from(value)),
                _ => return Err(ConninfoError::Keyword(keyword)),
            }
        }
        if node.host.is_empty() {
            return Err(ConninfoError::NoHost);
        }
        node.set_ports(&ports)?;
        if node.dbname.is_empty() {
            // libpq's rule: the database is named like the user.
            node.dbname.clone_from(&node.user);
        }
        Ok(node)
    }
}

impl NodeConfig {
    /// Patroni's REST API at one of these URLs says which host is the primary. They go into the list of hosts, and with
    /// it into the catalog.
    pub fn led_by_patroni(mut self, urls: &[String]) -> Result<Self, ConninfoError> {
        let failed = |value: &str, reason| ConninfoError::Value { keyword: "patroni", value: value.to_owned(), reason };
        if urls.is_empty() {
            return Err(failed("", "name at least one URL of its REST API"));
        }
        for url in urls {
            let address = url.strip_prefix("http://").map(|rest| rest.strip_suffix('/').unwrap_or(rest));
            let has_port = |a: &str| a.rsplit_once(':').is_some_and(|(h, p)| !h.is_empty() && p.parse::<u16>().is_ok());
            if !address.is_some_and(|a| has_port(a) && !a.contains(['/', ',', ' '])) {
                return Err(failed(url, "a URL is http://host:port"));
            }
            self.host = format!("{},{}", self.host, url.trim_end_matches('/'));
        }
        Ok(self)
    }

    /// As libpq has it: one port for all hosts of a list, or one for each.
    fn set_ports(&mut self, ports: &[u16]) -> Result<(), ConninfoError> {
        let hosts: Vec<&str> = self.host.split(',').collect();
        self.port = ports.first().copied().unwrap_or(self.port);
        if ports.len() > 1 && ports.len() != hosts.len() {
            let value = ports.iter().map(u16::to_string).collect::<Vec<_>>().join(",");
            return Err(ConninfoError::Value { keyword: "port", value, reason: "one for all hosts, or one for each" });
        }
        if ports.len() > 1 {
            self.host = hosts.iter().zip(ports).map(|(h, p)| format!("{h}:{p}")).collect::<Vec<_>>().join(",");
        }
        Ok(())
    }
}

/// Passwords never reach a log.
impl fmt::Debug for NodeConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeConfig")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("dbname", &self.dbname)
            .field("user", &self.user)
            .field("password", &self.password.as_ref().map(|_| "…"))
            .field("sslmode", &self.sslmode)
            .field("sslrootcert", &self.sslrootcert)
            .field("require_auth", &self.require_auth)
            .finish()
    }
}

fn port(value: String) -> Result<u16, ConninfoError> {
    match value.parse() {
        Ok(port) if port > 0 => Ok(port),
        _ => Err(ConninfoError::Value { keyword: "port", value, reason: "a port is from 1 to 65535" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(text: &str) -> NodeConfig {
        text.parse().unwrap()
    }

    #[test]
    fn keywords_quotes_and_defaults() {
        let n = node("host=127.0.0.1 port=6501 dbname=postgres user=postgres");
        assert_eq!((n.host.as_str(), n.port, n.dbname.as_str()), ("127.0.0.1", 6501, "postgres"));
        assert_eq!((n.user.as_str(), n.password, n.sslmode), ("postgres", None, SslMode::Prefer));
        let n = node(r" host = db  password='it\'s a \\ ' user=u\ v sslmode=verify-full sslrootcert=/ca.pem ");
        assert_eq!(n.password.as_deref(), Some("it's a \\ "));
        assert_eq!((n.user.as_str(), n.dbname.as_str(), n.port), ("u v", "u v", 5432));
        assert_eq!(n.sslmode, SslMode::VerifyFull);
    }

    #[test]
    fn passwords_are_told_only_where_somebody_says_so() {
        assert_eq!(node("host=a").require_auth, RequireAuth::default());
        let told = node("host=a require_auth=md5,scram-sha-256").require_auth;
        assert!(told.md5 && told.scram && !told.none && !told.password);
        let wrong = "host=a require_auth=gss".parse::<NodeConfig>().unwrap_err().to_string();
        assert!(wrong.contains("require_auth") && wrong.contains("scram-sha-256"), "{wrong}");
    }

    #[test]
    fn a_node_with_a_standby() {
        let n = node("host=a,b port=5432,5433 target_session_attrs=primary");
        assert_eq!((n.host.as_str(), n.port), ("a:5432,b:5433", 5432));
        let n = node("host=a,b port=6000 target_session_attrs=read-write");
        assert_eq!((n.host.as_str(), n.port), ("a,b", 6000));
        for wrong in ["host=a,b port=1,2,3", "host=a port=1,2", "host=a,b target_session_attrs=standby"] {
            assert!(wrong.parse::<NodeConfig>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_node_led_by_patroni() {
        let led = |text: &str, urls: &[&str]| {
            node(text).led_by_patroni(&urls.iter().map(|u| u.to_string()).collect::<Vec<_>>())
        };
        let n = led("host=a,b port=1,2", &["http://a:8008", "http://b:8008/"]).unwrap();
        assert_eq!((n.host.as_str(), n.port), ("a:1,b:2,http://a:8008,http://b:8008", 1));
        for wrong in ["https://a:8008", "a:8008", "http://a", "http://a:8008/x", "http://a:1,http://b:2"] {
            assert!(led("host=a", &[wrong]).unwrap_err().to_string().contains("http://host:port"), "{wrong}");
        }
        assert!(led("host=a", &[]).is_err());
    }

    #[test]
    fn mistakes_are_named() {
        let error = |text: &str| text.parse::<NodeConfig>().unwrap_err().to_string();
        assert!(error("hots=a").contains("\"hots\" is not a keyword"));
        assert!(error("host").contains("missing \"=\" after \"host\""));
        assert!(error("host='a").contains("quoted value of \"host\" has no end"));
        assert!(error("host=a port=0").contains("port cannot be \"0\""));
        assert!(error("host=a port=70000").contains("from 1 to 65535"));
        assert!(error("host=a sslmode=allow").contains("sslmode cannot be \"allow\""));
        assert!(error("port=5").contains("host is missing"));
    }

    #[test]
    fn a_password_is_not_printed() {
        assert!(!format!("{:?}", node("host=a password=secret")).contains("secret"));
    }
}

//! The node's connection string in libpq's keyword form, as the router's configuration has it. Only what is needed to
//! connect is known; any other keyword is an error, not ignored.

use std::path::PathBuf;

use pool::{KeywordError, Login, NodeTarget, Secret, TlsMode, keywords};

/// What is wrong with a connection string.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConninfoError {
    #[error(
        "\"{0}\" is not a keyword of a node: host, port, dbname, user, password, sslmode, sslrootcert, require_auth are"
    )]
    Keyword(String),
    #[error(transparent)]
    Form(#[from] KeywordError),
    #[error("{keyword}: {reason}")]
    Value { keyword: &'static str, reason: String },
    #[error("host is missing")]
    NoHost,
}

/// Where the node is, and who logs in to it.
pub fn parse(text: &str) -> Result<(NodeTarget, Login), ConninfoError> {
    let mut target = NodeTarget::new("", 5432, "");
    let (mut user, mut password, mut root) = ("postgres".to_owned(), None, None);
    let mut sslmode = "prefer".to_owned();
    for (keyword, value) in keywords(text)? {
        match keyword.as_str() {
            "host" => target.host = value,
            "port" => {
                let reason = || format!("\"{value}\" is no port");
                target.port = value.parse().map_err(|_| ConninfoError::Value { keyword: "port", reason: reason() })?;
            }
            "dbname" => target.database = value,
            "user" => user = value,
            "password" => password = Some(value),
            "sslmode" => sslmode = value,
            "sslrootcert" => root = Some(PathBuf::from(value)),
            "require_auth" => {
                let failed = |e: &str| ConninfoError::Value { keyword: "require_auth", reason: e.into() };
                target.require_auth = value.parse().map_err(failed)?;
            }
            _ => return Err(ConninfoError::Keyword(keyword)),
        }
    }
    if target.host.is_empty() {
        return Err(ConninfoError::NoHost);
    }
    if target.database.is_empty() {
        target.database.clone_from(&user);
    }
    let root = || root.clone().unwrap_or_else(|| PathBuf::from("system"));
    target.tls = match sslmode.as_str() {
        "disable" => TlsMode::Disable,
        "prefer" => TlsMode::Prefer,
        "require" => TlsMode::Require,
        "verify-ca" => TlsMode::VerifyCa { root: root() },
        "verify-full" => TlsMode::VerifyFull { root: root() },
        _ => {
            let reason = "use disable, prefer, require, verify-ca or verify-full".into();
            return Err(ConninfoError::Value { keyword: "sslmode", reason });
        }
    };
    Ok((target, Login::new(&user, password.map_or(Secret::None, Secret::Password))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_quotes_and_defaults() {
        let (target, login) = parse("host=127.0.0.1 port=6501 user=postgres").unwrap();
        assert_eq!((&*target.host, target.port, &*target.database), ("127.0.0.1", 6501, "postgres"));
        assert_eq!((&*login.user, login.secret, target.tls), ("postgres", Secret::None, TlsMode::Prefer));
        let (target, login) = parse(r" host = db  password='it\'s a ' user=u sslmode=disable ").unwrap();
        assert_eq!((login.secret, target.tls), (Secret::Password("it's a ".into()), TlsMode::Disable));
        for wrong in ["", "port=1", "host=a port=x", "host=a sslmode=no", "host=a b=c", "host", "host='a"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}

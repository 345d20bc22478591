//! By which methods a server may ask who logs in, as libpq's `require_auth`: a server that asks otherwise gets no answer.
//!
//! Without word of the operator's, no password is told to a server: by MD5 whoever listens can try passwords without end, in
//! clear text he has it. SCRAM tells nothing, and the server must prove that it knows the password's verifier.

use std::str::FromStr;

/// The methods that are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequireAuth {
    pub scram: bool,
    pub md5: bool,
    /// A password in clear text, over TLS or a Unix socket.
    pub password: bool,
    /// The server asks for nothing (`trust`, `peer`, a certificate).
    pub none: bool,
    /// Somebody has said so.
    pub told: bool,
}

impl Default for RequireAuth {
    fn default() -> Self {
        RequireAuth { scram: true, md5: false, password: false, none: true, told: false }
    }
}

impl FromStr for RequireAuth {
    type Err = &'static str;

    /// A list of methods, or of methods with `!` in front: all but these.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let methods: Vec<&str> = text.split(',').map(str::trim).collect();
        let without = methods.iter().filter(|m| m.starts_with('!')).count();
        if without != 0 && without != methods.len() {
            return Err("name either what may be, or with ! what may not be");
        }
        let may = without == 0;
        let mut all = RequireAuth { scram: !may, md5: !may, password: !may, none: !may, told: true };
        for method in methods {
            match method.trim_start_matches('!') {
                "scram-sha-256" => all.scram = may,
                "md5" => all.md5 = may,
                "password" => all.password = may,
                "none" => all.none = may,
                _ => return Err("use scram-sha-256, md5, password or none, or several with commas"),
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_libpq_reads_them() {
        let read = |text: &str| text.parse::<RequireAuth>().map(|a| (a.scram, a.md5, a.password, a.none));
        assert_eq!(read("scram-sha-256"), Ok((true, false, false, false)));
        assert_eq!(read("scram-sha-256, none"), Ok((true, false, false, true)));
        assert_eq!(read("!password,!md5"), Ok((true, false, false, true)));
        for wrong in ["", "scram-sha-256,!md5", "gss", "SCRAM-SHA-256", "scram-sha-256,"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert_eq!(RequireAuth { told: false, ..read_all("!password,!md5") }, RequireAuth::default());
    }

    fn read_all(text: &str) -> RequireAuth {
        text.parse().unwrap()
    }
}

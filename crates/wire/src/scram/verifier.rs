//! What a server keeps of a password: `pg_authid.rolpassword` of SCRAM-SHA-256. It does not know roles or catalogs.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{Key, ScramError, client_key, decoded_key, hmac, salted_password, server_key, sha256};

/// PostgreSQL's default of `scram_iterations`.
pub const SCRAM_ITERATIONS: u32 = 4096;

/// A SCRAM-SHA-256 verifier. It proves a password without holding it; whoever has it cannot log in with it.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    pub(super) iterations: u32,
    /// In base64, as it travels.
    pub(super) salt: String,
    pub(super) stored_key: Key,
    pub(super) server_key: Key,
    /// No proof satisfies it.
    pub(super) doomed: bool,
}

impl Verifier {
    /// Reads `SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>`.
    pub fn parse(text: &str) -> Result<Self, ScramError> {
        let bad = ScramError::Verifier;
        let mut parts = text.split('$');
        let (Some(super::MECHANISM), Some(cost), Some(keys), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(bad);
        };
        let (iterations, salt) = cost.split_once(':').ok_or(bad)?;
        let (stored, server) = keys.split_once(':').ok_or(bad)?;
        let digits = !iterations.is_empty() && iterations.bytes().all(|b| b.is_ascii_digit());
        let iterations: u32 = iterations.parse().map_err(|_| bad)?;
        let salt_len = STANDARD.decode(salt).map_err(|_| bad)?.len();
        if !digits || iterations == 0 || salt_len == 0 {
            return Err(bad);
        }
        Ok(Verifier {
            iterations,
            salt: salt.into(),
            stored_key: decoded_key(stored).map_err(|_| bad)?,
            server_key: decoded_key(server).map_err(|_| bad)?,
            doomed: false,
        })
    }

    /// What PostgreSQL would store for `password`.
    pub fn from_password(password: &str, salt: &[u8], iterations: u32) -> Self {
        let salted = salted_password(password, salt, iterations);
        Verifier {
            iterations,
            salt: STANDARD.encode(salt),
            stored_key: sha256(&client_key(&salted)),
            server_key: server_key(&salted),
            doomed: false,
        }
    }

    /// A stand-in for a user that does not exist: it looks like a real one, with a salt that stays the same for the
    /// same user and `secret`, and refuses every proof after the same work (as auth-scram.c's mock authentication). `iterations`:
    /// of passwords that are set now.
    pub fn mock(user: &str, secret: &[u8; 32], iterations: u32) -> Self {
        let salt = hmac(secret, &["salt\0", user]);
        Verifier {
            iterations,
            salt: STANDARD.encode(&salt[..16]),
            stored_key: hmac(secret, &["stored\0", user]),
            server_key: hmac(secret, &["server\0", user]),
            doomed: true,
        }
    }

    /// Rounds of hashing that make a key of the password.
    pub fn iterations(&self) -> u32 {
        self.iterations
    }

    /// Goes with the ClientKey a login recovers, to log in elsewhere (see [`super::Secret::Keys`]).
    pub fn server_key(&self) -> Key {
        self.server_key
    }
}

impl fmt::Display for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (stored, server) = (STANDARD.encode(self.stored_key), STANDARD.encode(self.server_key));
        write!(f, "{}${}:{}${stored}:{server}", super::MECHANISM, self.iterations, self.salt)
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").field("iterations", &self.iterations).finish_non_exhaustive()
    }
}

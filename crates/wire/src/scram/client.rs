//! The client's side of SCRAM-SHA-256: the router logging in to a node. It does not know messages or connections.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{
    ITERATIONS_MAX, Key, ScramError, attribute, checked_nonce, client_key, decoded_key, hmac, salted_password, same,
    server_key, sha256, xor,
};

/// What a client proves it knows.
#[derive(Clone)]
pub enum Secret {
    Password(String),
    /// Keys recovered from somebody's login elsewhere. They fit servers whose verifier has the same salt and
    /// iterations, so nodes must hold copies of one verifier.
    Keys {
        client_key: Key,
        server_key: Key,
    },
}

/// One login. Call `first`, `handle_first` and `verify`, in this order.
pub struct ClientScram {
    secret: Secret,
    nonce: String,
    state: State,
}

enum State {
    Started,
    /// The signature the server must answer with.
    Proved(Key),
    Done,
}

impl ClientScram {
    /// `nonce` must be fresh and random; see [`super::nonce`].
    pub fn new(secret: Secret, nonce: impl Into<String>) -> Self {
        ClientScram { secret, nonce: nonce.into(), state: State::Started }
    }

    /// The client-first-message. The user name stays empty, as in libpq: the startup message has named it.
    pub fn first(&self) -> String {
        format!("n,,{}", self.first_bare())
    }

    fn first_bare(&self) -> String {
        format!("n=,r={}", self.nonce)
    }

    /// Takes the server-first-message, gives the client-final-message.
    pub fn handle_first(&mut self, server_first: &str) -> Result<String, ScramError> {
        if !matches!(self.state, State::Started) {
            return Err(ScramError::Order);
        }
        let mut rest = Some(server_first);
        let nonce = checked_nonce(attribute(&mut rest, 'r')?)?;
        let salt = STANDARD.decode(attribute(&mut rest, 's')?).map_err(|_| ScramError::Malformed("invalid salt"))?;
        let iterations = attribute(&mut rest, 'i')?;
        let iterations: u32 = match iterations.bytes().all(|b| b.is_ascii_digit()) {
            true => iterations.parse().map_err(|_| ScramError::Malformed("invalid iteration count"))?,
            false => return Err(ScramError::Malformed("invalid iteration count")),
        };
        if rest.is_some() {
            return Err(ScramError::Malformed("garbage at the end of server-first-message"));
        }
        // The server must have added something of its own, or it could replay an old exchange.
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err(ScramError::Nonce);
        }
        if iterations == 0 || salt.is_empty() {
            return Err(ScramError::Malformed("invalid salt or iteration count"));
        }
        if iterations > ITERATIONS_MAX {
            return Err(ScramError::Unsupported("more than 1000000 iterations"));
        }
        let (client_key, server_key) = match &self.secret {
            Secret::Password(password) => {
                let salted = salted_password(password, &salt, iterations);
                (client_key(&salted), server_key(&salted))
            }
            Secret::Keys { client_key, server_key } => (*client_key, *server_key),
        };
        let without_proof = format!("c=biws,r={nonce}");
        let message = [&*self.first_bare(), ",", server_first, ",", &without_proof];
        let proof = xor(&client_key, &hmac(&sha256(&client_key), &message));
        self.state = State::Proved(hmac(&server_key, &message));
        Ok(format!("{without_proof},p={}", STANDARD.encode(proof)))
    }

    /// Checks the server-final-message: only a server that holds the verifier can have signed it.
    pub fn verify(&mut self, server_final: &str) -> Result<(), ScramError> {
        let State::Proved(expected) = std::mem::replace(&mut self.state, State::Done) else {
            return Err(ScramError::Order);
        };
        let mut rest = Some(server_final);
        let signature = decoded_key(attribute(&mut rest, 'v')?)?;
        if rest.is_some() {
            return Err(ScramError::Malformed("garbage at the end of server-final-message"));
        }
        if same(&signature, &expected) { Ok(()) } else { Err(ScramError::ServerSignature) }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Secret::Password(_) => "Password(…)",
            Secret::Keys { .. } => "Keys(…)",
        })
    }
}

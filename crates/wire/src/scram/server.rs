//! The server's side of SCRAM-SHA-256: a client logging in to the router. It does not know users or sessions.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{Key, ScramError, Verifier, any_attribute, attribute, checked_nonce, decoded_key, hmac, same, sha256, xor};

/// One login. Call `handle_first`, then `handle_final`.
pub struct ServerScram {
    verifier: Verifier,
    nonce: String,
    state: State,
}

enum State {
    Started,
    Challenged {
        /// What `c=` must be: the client's own GS2 header, in base64.
        binding: &'static str,
        /// Both nonces.
        nonce: String,
        client_first_bare: String,
        server_first: String,
    },
    Done,
}

impl ServerScram {
    /// `server_nonce` must be fresh and random: it is what makes a recorded login useless. See [`super::nonce`].
    pub fn new(verifier: Verifier, server_nonce: impl Into<String>) -> Self {
        ServerScram { verifier, nonce: server_nonce.into(), state: State::Started }
    }

    /// Takes the client-first-message, gives the server-first-message.
    pub fn handle_first(&mut self, client_first: &str) -> Result<String, ScramError> {
        if !matches!(self.state, State::Started) {
            return Err(ScramError::Order);
        }
        self.state = State::Done;
        let (binding, bare) = gs2_header(client_first)?;
        if bare.starts_with("m=") {
            return Err(ScramError::Unsupported("mandatory extensions"));
        }
        let mut rest = Some(bare);
        // The name is ignored, as PostgreSQL does: the startup message has named the user.
        attribute(&mut rest, 'n')?;
        let client_nonce = checked_nonce(attribute(&mut rest, 'r')?)?;
        while rest.is_some() {
            any_attribute(&mut rest)?;
        }
        let nonce = format!("{client_nonce}{}", self.nonce);
        let server_first = format!("r={nonce},s={},i={}", self.verifier.salt, self.verifier.iterations);
        self.state =
            State::Challenged { binding, nonce, client_first_bare: bare.into(), server_first: server_first.clone() };
        Ok(server_first)
    }

    /// Takes the client-final-message; if the proof holds, gives the server-final-message and the ClientKey, with
    /// which (and [`Verifier::server_key`]) one can log in as this user wherever the same verifier is stored.
    pub fn handle_final(&mut self, client_final: &str) -> Result<(String, Key), ScramError> {
        let State::Challenged { binding, nonce, client_first_bare, server_first } =
            std::mem::replace(&mut self.state, State::Done)
        else {
            return Err(ScramError::Order);
        };
        let (without_proof, proof) =
            client_final.rsplit_once(",p=").ok_or(ScramError::Malformed("the proof is missing"))?;
        let proof = decoded_key(proof)?;
        let mut rest = Some(without_proof);
        if attribute(&mut rest, 'c')? != binding {
            return Err(ScramError::ChannelBinding);
        }
        if attribute(&mut rest, 'r')? != nonce {
            return Err(ScramError::Nonce);
        }
        while rest.is_some() {
            // Optional extensions; a second proof is none.
            if any_attribute(&mut rest)?.0 == 'p' {
                return Err(ScramError::Malformed("two proofs"));
            }
        }
        let message = [&*client_first_bare, ",", &server_first, ",", without_proof];
        let client_key = xor(&proof, &hmac(&self.verifier.stored_key, &message));
        let server_signature = hmac(&self.verifier.server_key, &message);
        // Everything is computed before deciding, so that a mock verifier takes as long as a real one.
        let holds = same(&sha256(&client_key), &self.verifier.stored_key) & !self.verifier.doomed;
        match holds {
            true => Ok((format!("v={}", STANDARD.encode(server_signature)), client_key)),
            false => Err(ScramError::Proof),
        }
    }
}

/// Splits the GS2 header off: what `c=` must repeat, and the rest of the message.
fn gs2_header(client_first: &str) -> Result<(&'static str, &str), ScramError> {
    match client_first.as_bytes() {
        [b'n', b',', b',', ..] => Ok(("biws", &client_first[3..])),
        // "I could bind, but believe you can't": true, as we never offer SCRAM-SHA-256-PLUS. Had somebody in between
        // removed an offer, this is where it would show.
        [b'y', b',', b',', ..] => Ok(("eSws", &client_first[3..])),
        [b'n' | b'y', b',', b'a', b'=', ..] => Err(ScramError::Unsupported("authorization identity")),
        [b'p', b'=', ..] => Err(ScramError::Unsupported("channel binding")),
        _ => Err(ScramError::Malformed("invalid GS2 header")),
    }
}

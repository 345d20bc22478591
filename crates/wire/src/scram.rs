//! SCRAM-SHA-256 (RFC 5802, RFC 7677), both sides, and the md5 response of older servers.
//!
//! Strings in, strings out. It does not know messages, sockets or where verifiers come from, and makes no nonces:
//! randomness is passed in. Channel binding (SCRAM-SHA-256-PLUS) is not offered.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::hex;

mod client;
mod server;
mod verifier;

pub use client::{ClientScram, Secret};
pub use server::ServerScram;
pub use verifier::{SCRAM_ITERATIONS, Verifier};

/// The mechanism's name in AuthenticationSASL.
pub const MECHANISM: &str = "SCRAM-SHA-256";
/// A client's or server's key: one SHA-256.
pub type Key = [u8; 32];
/// Iterations a peer may ask of us. Far above PostgreSQL's default of 4096; a hostile server could otherwise keep a
/// core busy for minutes with one message.
pub const ITERATIONS_MAX: u32 = 1_000_000;

/// Why an exchange failed. What a client is told is decided by the session, which must not tell a wrong password from
/// an unknown user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ScramError {
    #[error("malformed SCRAM message: {0}")]
    Malformed(&'static str),
    #[error("unsupported SCRAM feature: {0}")]
    Unsupported(&'static str),
    #[error("SCRAM channel binding check failed")]
    ChannelBinding,
    #[error("SCRAM nonce does not match")]
    Nonce,
    #[error("SCRAM proof is wrong")]
    Proof,
    #[error("incorrect server signature")]
    ServerSignature,
    #[error("SCRAM message out of order")]
    Order,
    #[error("invalid SCRAM verifier")]
    Verifier,
}

/// A nonce for either side: 18 random bytes, as PostgreSQL's SCRAM_RAW_NONCE_LEN, in base64.
pub fn nonce(random: [u8; 18]) -> String {
    STANDARD.encode(random)
}

/// The answer to AuthenticationMD5Password: `md5` + md5(md5(password + user) + salt), in hexadecimal.
pub fn md5_password(user: &str, password: &str, salt: [u8; 4]) -> String {
    let inner = hex::encode(&md5::Md5::new().chain_update(password).chain_update(user).finalize());
    format!("md5{}", hex::encode(&md5::Md5::new().chain_update(inner).chain_update(salt).finalize()))
}

fn hmac(key: &[u8], parts: &[&str]) -> Key {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    parts.iter().for_each(|p| mac.update(p.as_bytes()));
    mac.finalize().into_bytes().into()
}

fn sha256(bytes: &[u8]) -> Key {
    Sha256::digest(bytes).into()
}

fn xor(a: &Key, b: &Key) -> Key {
    std::array::from_fn(|i| a[i] ^ b[i])
}

fn same(a: &Key, b: &Key) -> bool {
    a.ct_eq(b).into()
}

/// SaltedPassword, from which both keys are derived.
fn salted_password(password: &str, salt: &[u8], iterations: u32) -> Key {
    let password = prepared(password);
    let keyed = Hmac::<Sha256>::new_from_slice(password.as_bytes()).expect("HMAC takes keys of any length");
    let first = keyed.clone().chain_update(salt).chain_update(1u32.to_be_bytes());
    let mut last: Key = first.finalize().into_bytes().into();
    let mut sum = last;
    for _ in 1..iterations {
        last = keyed.clone().chain_update(last).finalize().into_bytes().into();
        sum = xor(&sum, &last);
    }
    sum
}

/// SASLprep, or the password as it is where SASLprep refuses it: so does PostgreSQL (auth-scram.c, fe-auth-scram.c).
fn prepared(password: &str) -> std::borrow::Cow<'_, str> {
    match stringprep::saslprep(password) {
        Ok(text) if !text.is_empty() => text,
        _ => password.into(),
    }
}

fn client_key(salted: &Key) -> Key {
    hmac(salted, &["Client Key"])
}

fn server_key(salted: &Key) -> Key {
    hmac(salted, &["Server Key"])
}

/// Takes `name=value` off the front of `rest`; the value ends at a comma or the end.
fn attribute<'a>(rest: &mut Option<&'a str>, name: char) -> Result<&'a str, ScramError> {
    match any_attribute(rest)? {
        (found, value) if found == name => Ok(value),
        _ => Err(ScramError::Malformed("another attribute was expected")),
    }
}

fn any_attribute<'a>(rest: &mut Option<&'a str>) -> Result<(char, &'a str), ScramError> {
    let text = rest.ok_or(ScramError::Malformed("an attribute is missing"))?;
    let (this, next) = match text.split_once(',') {
        Some((this, next)) => (this, Some(next)),
        None => (text, None),
    };
    let (name, value) = this.split_once('=').ok_or(ScramError::Malformed("an attribute has no value"))?;
    match name.as_bytes() {
        [letter] if letter.is_ascii_alphabetic() => {
            *rest = next;
            Ok((*letter as char, value))
        }
        _ => Err(ScramError::Malformed("invalid attribute name")),
    }
}

/// Nonces are printable ASCII without commas (RFC 5802, "printable").
fn checked_nonce(text: &str) -> Result<&str, ScramError> {
    match !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic() && b != b',') {
        true => Ok(text),
        false => Err(ScramError::Malformed("invalid characters in nonce")),
    }
}

fn decoded_key(text: &str) -> Result<Key, ScramError> {
    let bytes = STANDARD.decode(text).map_err(|_| ScramError::Malformed("invalid base64"))?;
    bytes.try_into().map_err(|_| ScramError::Malformed("wrong length of a key, proof or signature"))
}

#[cfg(test)]
mod tests;

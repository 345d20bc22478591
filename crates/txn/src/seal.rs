//! The herd's seal: what all its routers know and no client does. A node believes that a router has asked for something if
//! the name of it comes with its token (`herd.decide()` in the catalog's `schema/functions.sql` makes the same and
//! compares). It does not know what is asked for, nor where the seal is kept.

use sha2::{Digest, Sha256};

/// 32 bytes from home's `herd.seal`.
#[derive(Clone)]
pub struct Seal([u8; 32]);

impl Seal {
    /// From 64 hexadecimal digits.
    pub fn from_hex(hex: &str) -> Option<Self> {
        Some(Seal(wire::hex::decode(hex)?.try_into().ok()?))
    }

    /// 64 hexadecimal digits, as [`from_hex`](Self::from_hex) reads them.
    pub fn hex(&self) -> String {
        wire::hex::encode(&self.0)
    }

    /// The name's [`token`](Self::token) in hexadecimal.
    pub fn token_hex(&self, name: &str) -> String {
        wire::hex::encode(&self.token(name))
    }

    /// The name's token. Two rounds, so that nobody can lengthen a name whose token he has seen.
    pub fn token(&self, name: &str) -> [u8; 32] {
        let inner = Sha256::new().chain_update(self.0).chain_update(name).finalize();
        Sha256::new().chain_update(self.0).chain_update(inner).finalize().into()
    }
}

/// The seal itself is never shown.
impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seal")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_of_one_name_and_one_seal() {
        let seal = |digit: &str| Seal::from_hex(&digit.repeat(64)).expect("a seal");
        assert_eq!(seal("a").hex(), "a".repeat(64));
        assert_ne!(seal("a").token("x"), seal("a").token("y"));
        assert_ne!(seal("a").token("x"), seal("b").token("x"));
        assert_eq!(format!("{:?}", seal("a")), "Seal");
        assert!(Seal::from_hex("ab").is_none() && Seal::from_hex(&"g".repeat(64)).is_none());
        // As sha256() of PostgreSQL has it: select sha256(s || sha256(s || 'x')) with s = repeat('a', 64) in hex.
        assert_eq!(seal("a").token_hex("x")[..16], EXPECTED[..16]);
    }

    const EXPECTED: &str = "ff66a99f58bb42168b5dae2d2c98ef09db213e1efdf125a4c02e2afe7dbbadb4";
}

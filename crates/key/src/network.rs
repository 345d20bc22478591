//! `inet`, `cidr` and MAC addresses from text. Only full, plain forms; abbreviations are left to the server.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::KeyError;

/// An address with an optional `/bits`. A `cidr` must not have bits set right of its mask: the server's error to give.
pub(crate) fn parse_inet(text: &str, cidr: bool) -> Result<Vec<u8>, KeyError> {
    let (address, mask) = match text.split_once('/') {
        Some((address, mask)) => (address, Some(mask)),
        None => (text, None),
    };
    let (family, bytes) = if let Ok(address) = address.parse::<Ipv4Addr>() {
        (2, address.octets().to_vec())
    } else if let Ok(address) = address.parse::<Ipv6Addr>() {
        (3, address.octets().to_vec())
    } else {
        return Err(KeyError::NeedsServer);
    };
    let bits_max = bytes.len() * 8;
    let bits = mask.map_or(Some(bits_max), parse_bits).filter(|bits| *bits <= bits_max).ok_or(KeyError::NeedsServer)?;
    if cidr && has_host_bits(&bytes, bits) {
        return Err(KeyError::NeedsServer);
    }
    let mut value = vec![family, bits as u8, cidr.into(), bytes.len() as u8];
    value.extend(bytes);
    Ok(value)
}

fn parse_bits(mask: &str) -> Option<usize> {
    let plain = mask.bytes().all(|byte| byte.is_ascii_digit()) && (mask == "0" || !mask.starts_with('0'));
    plain.then(|| mask.parse().ok()).flatten()
}

fn has_host_bits(address: &[u8], bits: usize) -> bool {
    address.iter().enumerate().any(|(index, byte)| {
        let network_bits = bits.saturating_sub(index * 8).min(8) as u32;
        byte.checked_shl(network_bits).unwrap_or(0) != 0
    })
}

/// `N` pairs of hexadecimal digits, all separated by colons or all by hyphens.
pub(crate) fn parse_mac<const N: usize>(text: &str) -> Result<Vec<u8>, KeyError> {
    let separator = if text.contains(':') { ':' } else { '-' };
    let bytes: Option<Vec<u8>> = text
        .split(separator)
        .map(|pair| wire::hex::decode(pair).filter(|bytes| bytes.len() == 1).map(|bytes| bytes[0]))
        .collect();
    bytes.filter(|bytes| bytes.len() == N).ok_or(KeyError::NeedsServer)
}

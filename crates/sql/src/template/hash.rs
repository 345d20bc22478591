//! A fast 64-bit hash of short texts: 16 bytes a step, multiplied and folded (the construction of wyhash).
//!
//! Not for hostile input on its own: whoever looks up by it compares the texts too.

// Odd numbers with about half of their bits set: digits of pi (beyond the point), as used by Blowfish.
const SEED: u64 = 0x243F_6A88_85A3_08D3;
const KEY_LOW: u64 = 0x1319_8A2E_0370_7345;
const KEY_HIGH: u64 = 0xA409_3822_299F_31D1;

pub(super) fn hash(mut bytes: &[u8]) -> u64 {
    let length = bytes.len() as u64;
    let mut state = SEED;
    while let Some((block, rest)) = bytes.split_first_chunk::<16>() {
        state = mix(state, block);
        bytes = rest;
    }
    // The length, mixed in below, tells padding from zeros that were there.
    let mut block = [0; 16];
    block[..bytes.len()].copy_from_slice(bytes);
    state = mix(state, &block);
    fold(state ^ KEY_LOW, length ^ KEY_HIGH)
}

#[inline]
fn mix(state: u64, block: &[u8; 16]) -> u64 {
    let value = u128::from_le_bytes(*block);
    fold(state ^ KEY_LOW ^ value as u64, state.rotate_left(32) ^ KEY_HIGH ^ (value >> 64) as u64)
}

/// Both halves of the full product.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::hash;
    use std::collections::HashSet;

    #[test]
    fn close_texts_differ_everywhere() {
        let base = [b'a'; 100];
        let mut seen = HashSet::new();
        for length in 0..base.len() {
            assert!(seen.insert(hash(&base[..length])));
            for bit in 0..length * 8 {
                let mut changed = base[..length].to_vec();
                changed[bit / 8] ^= 1 << (bit % 8);
                assert!(seen.insert(hash(&changed)), "length {length} bit {bit}");
            }
        }
    }

    #[test]
    fn trailing_zeros_count() {
        assert_ne!(hash(b"a"), hash(b"a\0"));
        assert_ne!(hash(b""), hash(&[0; 16]));
        assert_ne!(hash(&[7; 16]), hash(&[7; 17]));
    }

    #[test]
    fn bits_are_spread() {
        // Low and high bits alike choose buckets: 4096 numbered texts fill at least half of 4096 of either.
        let texts = || (0..4096).map(|number| hash(format!("SELECT * FROM t{number}").as_bytes()));
        assert!(texts().map(|hash| hash & 0xFFF).collect::<HashSet<_>>().len() > 2048);
        assert!(texts().map(|hash| hash >> 52).collect::<HashSet<_>>().len() > 2048);
    }
}

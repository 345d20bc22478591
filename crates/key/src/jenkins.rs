//! Bob Jenkins' lookup3 as PostgreSQL seeds it (`hash_bytes_extended` in src/common/hashfn.c), on little-endian words.
//! It hashes bytes and knows no types.

/// What PostgreSQL starts its three words from, before adding the length.
const START: u32 = 0x9e37_79b9_u32.wrapping_add(3_923_095);

struct State {
    a: u32,
    b: u32,
    c: u32,
}

impl State {
    /// A non-zero seed is mixed in as if it were the first twelve bytes (its last four zero).
    fn new(len: usize, seed: u64) -> State {
        let start = START.wrapping_add(len as u32);
        let mut state = State { a: start, b: start, c: start };
        if seed != 0 {
            state.add([(seed >> 32) as u32, seed as u32, 0]);
            state.mix();
        }
        state
    }

    fn add(&mut self, words: [u32; 3]) {
        self.a = self.a.wrapping_add(words[0]);
        self.b = self.b.wrapping_add(words[1]);
        self.c = self.c.wrapping_add(words[2]);
    }

    fn mix(&mut self) {
        let State { a, b, c } = self;
        for (first, second) in [(4, 6), (16, 19)] {
            *a = a.wrapping_sub(*c) ^ c.rotate_left(first);
            *c = c.wrapping_add(*b);
            *b = b.wrapping_sub(*a) ^ a.rotate_left(second);
            *a = a.wrapping_add(*c);
            let third = if first == 4 { 8 } else { 4 };
            *c = c.wrapping_sub(*b) ^ b.rotate_left(third);
            *b = b.wrapping_add(*a);
        }
    }

    fn finish(mut self) -> u64 {
        let State { a, b, c } = &mut self;
        *c = (*c ^ *b).wrapping_sub(b.rotate_left(14));
        *a = (*a ^ *c).wrapping_sub(c.rotate_left(11));
        *b = (*b ^ *a).wrapping_sub(a.rotate_left(25));
        *c = (*c ^ *b).wrapping_sub(b.rotate_left(16));
        *a = (*a ^ *c).wrapping_sub(c.rotate_left(4));
        *b = (*b ^ *a).wrapping_sub(a.rotate_left(14));
        *c = (*c ^ *b).wrapping_sub(b.rotate_left(24));
        u64::from(*b) << 32 | u64::from(*c)
    }
}

fn word(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// `hash_bytes_extended`.
pub(crate) fn hash_bytes(bytes: &[u8], seed: u64) -> u64 {
    let mut state = State::new(bytes.len(), seed);
    let mut chunks = bytes.chunks_exact(12);
    for chunk in &mut chunks {
        state.add([word(&chunk[..4]), word(&chunk[4..8]), word(&chunk[8..])]);
        state.mix();
    }
    let rest = chunks.remainder();
    let mut tail = [0; 12];
    tail[..rest.len()].copy_from_slice(rest);
    // The lowest byte of the third word is kept for the length, so its (at most three) bytes move up by one.
    state.add([word(&tail[..4]), word(&tail[4..8]), word(&tail[8..]) << 8]);
    state.finish()
}

/// `hash_bytes_uint32_extended`.
pub(crate) fn hash_u32(value: u32, seed: u64) -> u64 {
    let mut state = State::new(4, seed);
    state.add([value, 0, 0]);
    state.finish()
}

/// `ROTATE_HIGH_AND_LOW_32BITS` (src/include/common/hashfn.h): both halves rotate left by one, each on its own.
pub(crate) fn rotate_halves(value: u64) -> u64 {
    let rotate = |half: u64| u64::from((half as u32).rotate_left(1));
    rotate(value >> 32) << 32 | rotate(value)
}

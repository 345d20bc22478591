//! Bytes as hexadecimal digits, and back.

/// Two lower-case digits a byte.
pub fn encode(bytes: &[u8]) -> String {
    let digit = |d: u8| char::from_digit(u32::from(d), 16).unwrap_or('0');
    bytes.iter().flat_map(|b| [digit(b >> 4), digit(b & 15)]).collect()
}

/// Pairs of digits, nothing else.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    if !text.len().is_multiple_of(2) {
        return None;
    }
    text.as_bytes().chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(encode(&all[8..18]), "08090a0b0c0d0e0f1011");
        assert_eq!(decode(&encode(&all)), Some(all));
        assert_eq!((decode("AbcD"), decode("")), (Some(vec![0xab, 0xcd]), Some(vec![])));
        for wrong in ["a", "+1", "0g", " 1", "é"] {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
    }
}

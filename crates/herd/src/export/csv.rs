//! Rows as PostgreSQL's COPY writes them in CSV: passed through, and counted. It does not know columns.

/// The options of COPY.
pub const OPTIONS: &str = " (FORMAT csv, HEADER)";

/// Counts the rows of CSV that comes in pieces.
#[derive(Debug, Default)]
pub struct Counter {
    is_quoted: bool,
}

impl Counter {
    /// How many lines end in a piece, the header's among them; what is quoted may have several.
    pub fn lines(&mut self, piece: &[u8]) -> u64 {
        let mut lines = 0;
        for byte in piece {
            match byte {
                b'"' => self.is_quoted = !self.is_quoted,
                b'\n' if !self.is_quoted => lines += 1,
                _ => {}
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_within_quotes_are_none() {
        let mut counter = Counter::default();
        let pieces: [&[u8]; 4] = [b"a,b\n1,\"x\n", b"y\"\"\n\"\n2", b",\"\"", b"\n"];
        assert_eq!(pieces.iter().map(|piece| counter.lines(piece)).collect::<Vec<_>>(), [1, 1, 0, 1]);
    }
}

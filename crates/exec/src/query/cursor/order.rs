//! From which stream each row that was passed over has come, so that rows can be asked for once more, in the same order. It knows no rows.

/// Rows of one stream that follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub stream: u32,
    pub rows: u32,
}

/// The streams of all rows passed over, oldest first.
#[derive(Default)]
pub struct Order {
    runs: Vec<Run>,
}

/// Some rows in a row: where they begin in each stream, and their order.
#[derive(Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Rows of each stream in front of it.
    pub before: Vec<u64>,
    /// Rows of each stream in it.
    pub rows: Vec<u64>,
    pub runs: Vec<Run>,
}

impl Order {
    /// The next row has come from this stream.
    pub fn push(&mut self, stream: usize) {
        match self.runs.last_mut() {
            Some(run) if run.stream == stream as u32 && run.rows < u32::MAX => run.rows += 1,
            _ => self.runs.push(Run { stream: stream as u32, rows: 1 }),
        }
    }

    /// Of memory, for all that was pushed.
    pub fn bytes(&self) -> usize {
        self.runs.len() * size_of::<Run>()
    }

    /// Rows `from` up to `to`, counted from 0, of so many streams.
    pub fn stretch(&self, from: u64, to: u64, streams: usize) -> Stretch {
        let mut out = Stretch { before: vec![0; streams], rows: vec![0; streams], runs: vec![] };
        let mut at = 0;
        for run in &self.runs {
            if at >= to {
                break;
            }
            let end = at + u64::from(run.rows);
            let before = from.clamp(at, end) - at;
            let within = to.clamp(at, end) - at - before;
            out.before[run.stream as usize] += before;
            out.rows[run.stream as usize] += within;
            if within > 0 {
                out.runs.push(Run { stream: run.stream, rows: within as u32 });
            }
            at = end;
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_stretch_is_found_again() {
        let streams = [0, 0, 1, 2, 2, 2, 0, 1, 1];
        let mut order = Order::default();
        streams.iter().for_each(|s| order.push(*s));
        for from in 0..=9 {
            for to in from..=9 {
                let stretch = order.stretch(from as u64, to as u64, 3);
                let count = |rows: &[usize], s| rows.iter().filter(|r| **r == s).count() as u64;
                for s in 0..3 {
                    assert_eq!(stretch.before[s], count(&streams[..from], s));
                    assert_eq!(stretch.rows[s], count(&streams[from..to], s));
                }
                let runs: Vec<usize> =
                    stretch.runs.iter().flat_map(|r| vec![r.stream as usize; r.rows as usize]).collect();
                assert_eq!(runs, streams[from..to]);
            }
        }
    }
}

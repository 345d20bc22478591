//! What RETURNING gives of rows that went to several nodes: in the order in which the rows came, as one server has it. Where nodes have not
//! returned each of them (ON CONFLICT, triggers), in the order in which they were returned. What is in a row is not known here.

use bytes::Bytes;

use crate::error::Result;
use crate::kept_rows::KeptRows;

/// Rows that nodes have returned so far.
pub struct Returned {
    rows: KeptRows,
    /// The lane of each of them.
    from: Vec<u32>,
    /// The lane of each row that was sent; `None`: some were sent that did not come back, and the order is that in which others did.
    sent: Option<Vec<u32>>,
    /// Of each lane how many rows were sent, and came back.
    counts: Vec<(usize, usize)>,
}

impl Returned {
    /// None so far, to be kept like these.
    pub fn none(rows: KeptRows) -> Self {
        Returned { rows, from: vec![], sent: Some(vec![]), counts: vec![] }
    }

    /// For rows that are kept beside these.
    pub fn another(&self) -> KeptRows {
        self.rows.another()
    }

    /// A row was sent there.
    pub fn sent(&mut self, lane: usize) {
        self.count(lane).0 += 1;
        if let Some(sent) = &mut self.sent {
            sent.push(lane as u32);
        }
    }

    /// One came back from there. One lane's are in the order in which its rows were sent.
    ///
    /// # Errors
    /// 53200 if there is no place for it.
    pub fn push(&mut self, lane: usize, row: Bytes) -> Result<()> {
        self.rows.push(row)?;
        self.count(lane).1 += 1;
        self.from.push(lane as u32);
        Ok(())
    }

    /// All that was sent there is answered. What is remembered of rows that did not come back would be remembered for nothing.
    pub fn answered(&mut self, lane: usize) {
        let (sent, back) = *self.count(lane);
        if sent != back {
            self.sent = None;
        }
    }

    fn count(&mut self, lane: usize) -> &mut (usize, usize) {
        if self.counts.len() <= lane {
            self.counts.resize(lane + 1, (0, 0));
        }
        &mut self.counts[lane]
    }

    /// All of them, as the client gets them.
    pub fn iter(&self) -> impl Iterator<Item = Result<Bytes>> {
        let places = self.places().unwrap_or_else(|| (0..self.rows.len()).collect());
        places.into_iter().filter_map(|at| self.rows.get(at).transpose())
    }

    /// Where the row is that each of those sent has become; `None`: some have become none, or nobody noted them.
    fn places(&self) -> Option<Vec<usize>> {
        let sent = self.sent.as_ref().filter(|sent| sent.len() == self.rows.len())?;
        let mut of_lane = vec![vec![]; self.counts.len()];
        self.from.iter().enumerate().for_each(|(at, lane)| of_lane[*lane as usize].push(at));
        let mut left: Vec<_> = of_lane.iter().map(|places| places.iter()).collect();
        sent.iter().map(|lane| left[*lane as usize].next().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::budget::Allowance;
    use crate::kept_rows;

    fn returned(sent: &[usize], from: &[(usize, &'static str)]) -> Vec<String> {
        let memory = Allowance::of(&Arc::new(kept_rows::for_rows(1 << 20, 1 << 20, None)));
        let mut all = Returned::none(KeptRows::new(&memory));
        sent.iter().for_each(|lane| all.sent(*lane));
        for (lane, row) in from {
            all.push(*lane, Bytes::from_static(row.as_bytes())).unwrap();
        }
        (0..2).for_each(|lane| all.answered(lane));
        all.iter().map(|row| String::from_utf8_lossy(&row.unwrap()).into_owned()).collect()
    }

    #[test]
    fn rows_come_back_in_the_order_in_which_they_went() {
        let two = [(1, "a"), (1, "c"), (0, "b"), (1, "d")];
        assert_eq!(returned(&[1, 0, 1, 1], &two), ["a", "b", "c", "d"]);
        // One of them was not inserted.
        assert_eq!(returned(&[1, 0, 1, 1, 0], &two), ["a", "c", "b", "d"]);
        assert_eq!(returned(&[], &two), ["a", "c", "b", "d"]);
        assert_eq!(returned(&[0], &[]), [""; 0]);
    }
}

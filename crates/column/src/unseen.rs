//! Transactions that are applied here, and that the node itself may not show yet: a commit is sent once it is in the node's log, and is seen there
//! when it has also been waited for (a synchronous standby). Who reads at the node's moment must not see more than the node shows; and what would be
//! gone with the node, nobody is to have read. It does not know who reads.

use parking_lot::Mutex;

/// Those that are not known to be shown, by the lower half of their numbers, as streams tell them.
#[derive(Default)]
pub struct Unseen(Mutex<Vec<u32>>);

impl Unseen {
    /// These are about to be applied.
    pub fn applied(&self, transactions: impl IntoIterator<Item = u32>) {
        self.0.lock().extend(transactions);
    }

    /// Of a server that is read no more, nothing is shown.
    pub fn clear(&self) {
        self.0.lock().clear();
    }

    /// All, at this moment.
    pub fn all(&self) -> Vec<u32> {
        self.0.lock().clone()
    }

    /// What the node shows in this snapshot it shows from now on.
    pub fn shown(&self, snapshot: &NodeSnapshot) {
        self.0.lock().retain(|transaction| !snapshot.shows(*transaction));
    }
}

/// What statements of the node see that begin now (`pg_current_snapshot()`).
#[derive(Debug, PartialEq, Eq)]
pub struct NodeSnapshot {
    /// All below have ended.
    xmin: u64,
    /// None from here on has begun.
    xmax: u64,
    /// Between both, those that run; in order.
    running: Vec<u64>,
}

impl NodeSnapshot {
    /// `xmin:xmax:running,…`
    pub fn parse(text: &str) -> Option<NodeSnapshot> {
        let mut parts = text.splitn(3, ':');
        let (xmin, xmax) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let running = parts.next()?.split(',').filter(|number| !number.is_empty()).map(|number| number.parse().ok());
        Some(NodeSnapshot { xmin, xmax, running: running.collect::<Option<_>>()? })
    }

    /// Whether one that has written its commit can be seen.
    pub fn shows(&self, transaction: u32) -> bool {
        const HALF: u64 = 1 << 31;
        // Numbers that are in use are no more than half of all apart.
        let same = (self.xmax & !u64::from(u32::MAX)) | u64::from(transaction);
        let number = match same {
            same if same > self.xmax + HALF => same.saturating_sub(2 * HALF),
            same if same + HALF < self.xmax => same + 2 * HALF,
            same => same,
        };
        number < self.xmin || (number < self.xmax && self.running.binary_search(&number).is_err())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_snapshot_shows() {
        let snapshot = NodeSnapshot::parse("100:105:100,103").unwrap();
        let shown: Vec<u32> = (98..108).filter(|number| snapshot.shows(*number)).collect();
        assert_eq!(shown, [98, 99, 101, 102, 104]);
        assert_eq!(NodeSnapshot::parse("7:7:").unwrap(), NodeSnapshot { xmin: 7, xmax: 7, running: vec![] });
        assert_eq!(NodeSnapshot::parse("7:x:"), None);
    }

    #[test]
    fn numbers_that_have_begun_anew() {
        let after = NodeSnapshot { xmin: (1 << 32) + 5, xmax: (1 << 32) + 9, running: vec![(1 << 32) + 5] };
        assert!(after.shows(u32::MAX) && after.shows(4) && !after.shows(5) && after.shows(6) && !after.shows(9));
        let before = NodeSnapshot { xmin: (1 << 32) - 2, xmax: (1 << 32) - 1, running: vec![(1 << 32) - 2] };
        assert!(!before.shows(u32::MAX - 1) && !before.shows(3) && before.shows(u32::MAX - 2));
    }

    #[test]
    fn what_is_shown_is_forgotten() {
        let unseen = Unseen::default();
        unseen.applied([100, 101, 103]);
        unseen.shown(&NodeSnapshot::parse("100:104:100").unwrap());
        assert_eq!(unseen.all(), [100]);
    }
}

//! Names of prepared transactions: whose herd, which node decides, which transaction, which participant.

use catalog::NodeId;

/// This router among the herd's routers: random, new at each start. Nothing is kept of it.
#[derive(Clone, Debug)]
pub struct Identity {
    pub herd: String,
    pub router: u64,
}

/// `herd_<herd>_<decider>_<router>_<number>_<participant>`; without the last part it is the decision's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gid {
    pub herd: String,
    pub decider: NodeId,
    pub router: u64,
    pub number: u64,
}

impl Gid {
    /// The key of the decision row.
    pub fn decision(&self) -> String {
        format!("herd_{}_{}_{:016x}_{}", self.herd, self.decider, self.router, self.number)
    }

    pub fn participant(&self, node: NodeId) -> String {
        format!("{}_{node}", self.decision())
    }

    /// The advisory lock that the decider's transaction holds while it may still commit.
    pub fn lock_key(&self) -> i64 {
        hash(&self.decision())
    }

    /// Reads a participant's gid of the given herd; anything else is not ours.
    pub fn parse(gid: &str, herd: &str) -> Option<(Gid, NodeId)> {
        let mut parts = gid.split('_');
        if parts.next()? != "herd" || parts.next()? != herd {
            return None;
        }
        let decider = parts.next()?.parse().ok()?;
        let router = u64::from_str_radix(parts.next()?, 16).ok()?;
        let number = parts.next()?.parse().ok()?;
        let node = parts.next()?.parse().ok()?;
        if parts.next().is_some() {
            return None;
        }
        Some((Gid { herd: herd.to_string(), decider, router, number }, node))
    }
}

/// FNV-1a: the key of an advisory lock by its name, the same in every router.
pub(crate) fn hash(name: &str) -> i64 {
    let step = |h: u64, b: u8| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3);
    name.bytes().fold(0xcbf2_9ce4_8422_2325, step) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gids_read_back_and_foreign_ones_do_not() {
        let gid = Gid { herd: "00ff".into(), decider: 2, router: 0xdead_beef, number: 17 };
        assert_eq!(Gid::parse(&gid.participant(5), "00ff"), Some((gid.clone(), 5)));
        for foreign in [
            "",
            "herd_",
            "herd_00fe_2_00000000deadbeef_17_5",
            "x",
            "herd_00ff_2_zz_17_5",
            "herd_00ff_2_00000000deadbeef_17",
        ] {
            assert_eq!(Gid::parse(foreign, "00ff"), None, "{foreign}");
        }
        assert_eq!(Gid::parse(&format!("{}_1", gid.participant(5)), "00ff"), None);
    }
}

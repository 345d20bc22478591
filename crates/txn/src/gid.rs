//! Names of prepared transactions: whose herd, which node decides, which transaction, which participant.

use catalog::NodeId;

use crate::seal::Seal;

/// This router among the herd's routers: random, new at each start. Nothing is kept of it.
#[derive(Clone, Debug)]
pub struct Identity {
    pub herd: String,
    pub router: u64,
    pub seal: Seal,
}

/// `herd_<herd>_<decider>_<router>_<number>_<xid>_<participant>`; without the last part it is the decision's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gid {
    pub herd: String,
    pub decider: NodeId,
    pub router: u64,
    pub number: u64,
    /// The decider's transaction, as its node numbers it (`pg_current_xact_id()`).
    pub xid: u64,
}

impl Gid {
    /// What the router asks the decider to decide about; the decider adds its transaction's number.
    pub fn asked(identity: &Identity, decider: NodeId, number: u64) -> String {
        format!("herd_{}_{decider}_{:016x}_{number}", identity.herd, identity.router)
    }

    /// The key of the decision row.
    pub fn decision(&self) -> String {
        format!("herd_{}_{}_{:016x}_{}_{}", self.herd, self.decider, self.router, self.number, self.xid)
    }

    /// The gid under which this node prepares.
    pub fn participant(&self, node: NodeId) -> String {
        format!("{}_{node}", self.decision())
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
        let xid = parts.next()?.parse().ok()?;
        let node = parts.next()?.parse().ok()?;
        if parts.next().is_some() {
            return None;
        }
        Some((Gid { herd: herd.to_string(), decider, router, number, xid }, node))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gids_read_back_and_foreign_ones_do_not() {
        let gid = Gid { herd: "00ff".into(), decider: 2, router: 0xdead_beef, number: 17, xid: 5000 };
        assert_eq!(Gid::parse(&gid.participant(5), "00ff"), Some((gid.clone(), 5)));
        for foreign in [
            "",
            "herd_",
            "herd_00fe_2_00000000deadbeef_17_5000_5",
            "x",
            "herd_00ff_2_zz_17_5000_5",
            "herd_00ff_2_00000000deadbeef_17_5000",
        ] {
            assert_eq!(Gid::parse(foreign, "00ff"), None, "{foreign}");
        }
        assert_eq!(Gid::parse(&format!("{}_1", gid.participant(5)), "00ff"), None);
    }
}

//! Where `currval` and `lastval` of a session are answered. PostgreSQL remembers a session's values of sequences in its
//! backend; so the connection to home on which a session took values last is marked as the session's, is lent
//! to others last (`pool::NodePool`), and forgets them before another session's statement may take or read values there.
//! Values the router took for the session's rows on connections of nobody's own (COPY, INSERT … SELECT, shared rows) are
//! kept here, until the session takes others by itself.
//!
//! A value is a session's own or not known to it (55000). It does not know which statements take or read values: plans
//! say so ([`plan::Whole::sequences`]); a session that ran code that may keeps its connection (`session/src/code.rs`).

use catalog::Oid;
use plan::Sequences as Uses;
use pool::{Asker, Remembers};
use txn::Lane;

/// What a session has taken from sequences, and on which connection.
#[derive(Default)]
pub struct Sequences {
    /// The connection that remembers the session's values knows it by this; `None`: there is none.
    asker: Option<Asker>,
    /// Sequences, with the values the router took last: newer than what the connection remembers.
    seen: Vec<(Oid, String)>,
    /// `lastval`, and of which sequence, if it is the router that took it.
    last: Option<(Oid, String)>,
}

impl Sequences {
    /// Who asks the connection that remembers the session's values for them.
    pub fn asker(&self) -> Option<&Asker> {
        self.asker.as_ref()
    }

    /// What the session knows by the router.
    pub fn seen(&self) -> &[(Oid, String)] {
        &self.seen
    }

    /// `lastval`, with its sequence; `None`: it was not the router that took it, if anybody did.
    pub fn last(&self) -> Option<&(Oid, String)> {
        self.last.as_ref()
    }

    /// The router took a value for the session, which is newer than any its connection remembers.
    pub fn took(&mut self, sequence: Oid, value: &str) {
        self.seen.retain(|(oid, _)| *oid != sequence);
        self.seen.push((sequence, value.to_string()));
        self.last = Some((sequence, value.to_string()));
    }

    /// `lastval`, of one of the sequences that were just told.
    pub(crate) fn took_last(&mut self, value: String) {
        let of = self.seen.iter().rev().find(|(_, seen)| *seen == value).map(|(oid, _)| *oid);
        self.last = Some((of.unwrap_or_default(), value));
    }

    /// Values were taken in the session's name that nobody has seen.
    pub fn lose(&mut self) {
        *self = Sequences::default();
    }

    /// A statement that may take or read values is about to run on a connection to home.
    pub(crate) fn come_to(&mut self, lane: &mut Lane, uses: &Uses) {
        match uses {
            Uses::None | Uses::Read => {}
            Uses::Take(sequences) => {
                let known = self.seen.len();
                self.seen.retain(|(oid, _)| !sequences.contains(oid));
                // A statement without rows takes none, and what the connection remembers is older than what was known here.
                if self.last.take().is_some() || self.seen.len() < known {
                    self.asker = None;
                }
            }
            // Nobody knows of which sequence the connection will have the newer value.
            Uses::Any if !self.seen.is_empty() => self.lose(),
            Uses::Any => {}
        }
        // Where it took some before, it may find older values than it takes now.
        if !matches!(uses, Uses::Read) && self.asker.as_ref().is_some_and(|own| !lane.conn.sequences.are_of(own)) {
            self.asker = None;
        }
        claim(lane, self.asker.get_or_insert_default());
    }
}

/// The same for a statement of nobody's session.
pub(crate) fn claim_for_nobody(lane: &mut Lane) {
    lane.conn.sequences = Remembers::Somebodys;
}

fn claim(lane: &mut Lane, asker: &Asker) {
    if lane.conn.sequences.are_of(asker) {
        return;
    }
    if !lane.conn.sequences.are_none() {
        lane.put_before("DISCARD SEQUENCES");
    }
    lane.conn.sequences = Remembers::of(asker);
}

//! One statement at work: which session's login, settings and transaction it runs under, and lanes to nodes.
//!
//! Lanes are taken out of the transaction while they are used and put back afterwards, so that a statement given up
//! half-way (the client went away) leaves no lane of unknown state behind.

pub mod answered;
pub mod ask;
pub mod ask_key;
pub mod by_rule;
pub mod code;
pub mod copy_lane;
pub mod copy_rows;
pub mod cut;
pub mod cut_statement;
pub mod describe;
mod exact;
pub mod follow;
pub mod guard;
mod key_values;
mod limits;
pub mod made;
pub mod moment;
pub mod own_catalog;
pub mod pin;
pub mod place;
pub mod planned;
pub mod row_node;
pub mod rows;
pub mod schema_usage;
pub mod sequences;
pub mod shards;
pub mod sharing;
pub mod standby;
mod time;

use std::sync::Arc;

use catalog::NodeId;
use pool::{ClientLogin, PooledConn, Settings, Wish};
use txn::{Lane, Participant, Transaction};

use crate::budget::Allowance;
use crate::bulk_settings::Bulk;
use crate::client::{Answer, Client, tell_parameter, tell_said};
use crate::column_settings::ColumnUse;
use crate::counters::Counters;
use crate::error::{ExecError, Result};
use crate::moves::Moves;
use crate::now::Now;
use crate::router::compiled::Epoch;
use crate::router::herd::Herd;
use crate::router::looks::Looks;
use crate::router::readers::Reading;
use crate::work::pin::Pin;
use crate::work::sequences::Sequences;
use crate::work::sharing::Sharing;
use crate::work::standby::FromStandbys;

/// One statement at work: who runs it, in which transaction, for which client.
pub struct Work<'w, C: Client> {
    pub herd: &'w Arc<Herd>,
    pub epoch: &'w Arc<Epoch>,
    pub login: &'w ClientLogin,
    pub settings: &'w Settings,
    pub transaction: &'w mut Transaction,
    pub client: &'w mut C,
    /// The session's own connection to home.
    pub pin: &'w mut Pin,
    /// The transaction has changed the schema: statements are described inside it.
    pub own_catalog: bool,
    /// The statement may leave session state behind: its connections are reset before anyone else gets them.
    pub taint: bool,
    /// `None`: nothing of it travels with other clients' statements.
    pub sharing: Option<&'w mut Sharing>,
    /// `None`: nobody's session.
    pub sequences: Option<&'w mut Sequences>,
    /// What the statement may do with values of sequences on home.
    pub uses: plan::Sequences,
    /// `None`: nobody's session.
    pub cursors: Option<&'w (dyn place::Stands + Sync)>,
    /// What the transaction has read before it began on any node.
    pub reading: Option<&'w Reading>,
    /// `now()` of the statement or its transaction.
    pub now: Now,
    pub bulk: Bulk,
    pub columns: ColumnUse,
    /// How rows of tables that are not colocated may move.
    pub moves: Moves,
    /// Its rows go to another statement.
    pub is_source: bool,
    /// It is one of several statements that see one state, in a transaction of their own.
    pub one_state: bool,
    /// The statement sets what connections that have had temporary tables can't take.
    pub sets_fixed: bool,
    /// In how many statements it is that are read for ways of others.
    pub within_ways: u8,
    /// What rows that wait here may take.
    pub memory: &'w Allowance,
    /// What nodes look at behind their parts of this statement.
    pub looks: Looks,
    /// It went to one node, whatever its plan has besides; known from when it is placed, also of what fails.
    pub on_one: bool,
    /// `None`: nodes' primaries are asked.
    pub standbys: Option<&'w mut FromStandbys>,
    /// What nodes are to have in place of the session's settings.
    pub planned_once: Option<Settings>,
    /// How far a statement has come that may be a job.
    pub counters: Option<Arc<Counters>>,
}

/// What PostgreSQL does not set any more where there have been temporary tables.
pub const FIXED_SETTING: &str = "temp_buffers";

impl<'w, C: Client> Work<'w, C> {
    /// With all that a statement need not have at rest.
    pub fn plain(
        herd: &'w Arc<Herd>,
        epoch: &'w Arc<Epoch>,
        (login, settings): (&'w ClientLogin, &'w Settings),
        transaction: &'w mut Transaction,
        client: &'w mut C,
        pin: &'w mut Pin,
        memory: &'w Allowance,
    ) -> Self {
        Work {
            herd,
            epoch,
            login,
            settings,
            transaction,
            client,
            pin,
            memory,
            own_catalog: false,
            taint: false,
            sharing: None,
            sequences: None,
            cursors: None,
            reading: None,
            uses: plan::Sequences::default(),
            now: Now::default(),
            bulk: Bulk::default(),
            columns: ColumnUse::default(),
            moves: Moves::default(),
            is_source: false,
            one_state: false,
            within_ways: 0,
            sets_fixed: false,
            looks: Looks::default(),
            on_one: false,
            standbys: None,
            planned_once: None,
            counters: None,
        }
    }
}

impl<C: Client> Work<'_, C> {
    /// A lane to a node: the transaction's, or one for this statement alone, which has the session's settings by then: what is done under others
    /// can't be undone.
    pub async fn lane(&mut self, node: NodeId) -> Result<Participant> {
        let mut p = self.lane_to_read(node).await?;
        if !self.transaction.is_active() {
            let settled = p.lane.settle().await;
            if let Err(e) = settled {
                self.put_back(p).await;
                return Err(e.into());
            }
        }
        Ok(p)
    }

    /// The same for who only reads: what is read under other settings than the session's is told to nobody.
    pub async fn lane_to_read(&mut self, node: NodeId) -> Result<Participant> {
        if self.transaction.is_active() && (self.may_repeat() || !self.transaction.cut.is_empty()) {
            Box::pin(self.cut_for_transaction(node)).await?;
        }
        let at = self.transaction.participants.iter().position(|p| p.lane.node == node);
        if let Some(at) = at {
            let p = &self.transaction.participants[at];
            if p.lane.conn.is_broken() {
                return Err(p.lane.conn.gone().into());
            }
            let mut p = self.transaction.take(at);
            self.claim_sequences(&mut p.lane);
            return Ok(p);
        }
        let mut lane = self.fresh(node).await?;
        self.client.started(lane.conn.cancel_key());
        lane.want(self.node_settings());
        self.claim_sequences(&mut lane);
        if self.transaction.is_active() {
            let first = self.transaction.participants.is_empty();
            let joined = self.transaction.join(lane);
            if let Some(reading) = self.reading.filter(|_| first) {
                joined.lane.put_looked(&reading.tables(&self.epoch.snapshot));
            }
            let last = self.transaction.participants.len() - 1;
            return Ok(self.transaction.take(last));
        }
        Ok(Participant::new(lane))
    }

    /// The settings of a lane that is fresh.
    fn node_settings(&self) -> &Settings {
        self.planned_once.as_ref().unwrap_or(self.settings)
    }

    fn claim_sequences(&mut self, lane: &mut Lane) {
        // What takes no snapshot takes no values, either; and DISCARD would take one, inside the transaction.
        let none = self.uses == plan::Sequences::None || self.before_snapshot();
        if none || lane.node != self.epoch.snapshot.home {
            return;
        }
        match &mut self.sequences {
            Some(own) => own.come_to(lane, &self.uses),
            None => sequences::claim_for_nobody(lane),
        }
    }

    /// A connection that takes no part in the transaction yet, as whoever had it last has left it.
    pub async fn fresh(&mut self, node: NodeId) -> Result<Lane> {
        if node == self.epoch.snapshot.home
            && let Some(lane) = self.pin.take()
        {
            return Ok(lane);
        }
        let standby = self.standby(node).await;
        let primary = match &standby {
            None => Some(self.herd.target(&self.epoch.snapshot, node)?),
            Some(_) => None,
        };
        let Some(target) = standby.as_deref().or(primary.as_ref()) else { return Err(ExecError::internal("no node")) };
        let asker = match &self.sequences {
            Some(own) if node == self.epoch.snapshot.home => own.asker().cloned(),
            _ => None,
        };
        let wish = Wish { asker: asker.as_ref(), settings: Some(self.node_settings().fingerprint()) };
        loop {
            let mut conn = match self.herd.pools.try_get_for(target, self.login, wish) {
                Some(conn) => conn,
                None => {
                    self.client.waits();
                    tokio::select! {
                        biased;
                        () = self.client.cancelled() => return Err(ExecError::cancelled()),
                        conn = Box::pin(self.herd.pools.get_for(target, self.login, wish)) => conn?,
                    }
                }
            };
            if self.fits(&mut conn) {
                return Ok(Lane::new(node, conn));
            }
        }
    }

    /// `false`: the session's settings can't be made there, and it is to be closed.
    fn fits(&self, conn: &mut PooledConn) -> bool {
        let unfit = conn.temporary && (self.sets_fixed || self.has_set(FIXED_SETTING));
        if unfit {
            conn.mark_broken();
        }
        !unfit
    }

    /// The client has set it, for the session or in its transaction.
    pub fn has_set(&self, setting: &str) -> bool {
        self.settings.get(setting).is_some()
            || self.transaction.settings().any(|sql| sql.to_ascii_lowercase().contains(setting))
    }

    /// What the statement may leave on a node in its transaction.
    pub fn takes_part(&mut self, p: &mut Participant, whole: &plan::Whole) {
        if !whole.writes {
            return;
        }
        p.locked |= whole.effect != plan::Effect::Writes;
        match whole.effect {
            plan::Effect::Locks => {}
            plan::Effect::MayWrite if !p.wrote => {
                p.wrote = true;
                self.transaction.asks_who_wrote = true;
            }
            plan::Effect::Writes | plan::Effect::MayWrite => p.wrote = true,
        }
    }

    /// Gives a lane back: to the transaction, to the session that is pinned to it, or to its pool.
    pub async fn put_back(&mut self, mut participant: Participant) {
        participant.lane.conn.tainted |= self.taint;
        // Code of a user's own may have written, whatever kind of statement called it.
        // Only the node knows: it is asked before a commit over several.
        if self.taint && !participant.wrote {
            participant.wrote = true;
            self.transaction.asks_who_wrote = true;
        }
        let notices = std::mem::take(&mut participant.lane.notices);
        if participant.lane.node == self.home() {
            let mut notices = notices;
            while let Ok(Some(f)) = wire::frame::take(&mut notices, wire::frame::NODE_MAX) {
                match f.tag() {
                    b'S' => tell_parameter(self.client, &f),
                    _ => self.client.tell(Answer::Sent(&f.raw)),
                }
            }
        }
        self.pass_notices(&mut participant.lane);
        if self.transaction.is_active() {
            match participant.lane.node == self.home() && !self.pin.is_free() {
                true => self.pin.watch(&mut participant.lane),
                false => drop(participant.lane.break_unless_at_rest()),
            }
            self.transaction.put_back(participant);
            return;
        }
        if participant.lane.node == self.home() {
            match self.pin.put_back(participant.lane) {
                Some(lane) => participant.lane = lane,
                None => return,
            }
        }
        if !self.client.settled().await {
            // A cancel may still arrive there, and would hit the next client's statement.
            participant.lane.conn.mark_broken();
        }
    }

    /// Undoes the transaction in the middle of a statement that goes on: no cancel of it may come to the connections any more, which are others' then,
    /// and nobody takes what these wait for there for a wait of this session's.
    pub async fn roll_back_and_go_on(&mut self) {
        let keys: Vec<_> = self.transaction.participants.iter().map(|p| p.lane.conn.cancel_key()).collect();
        for key in &keys {
            self.transaction.doubtful |= !self.client.given_back(key).await;
        }
        self.transaction.rollback().await;
    }

    /// What the client's statement has said on a node besides its rows.
    pub fn pass_notices(&mut self, lane: &mut Lane) {
        tell_said(&mut |said| self.client.tell(said), lane);
    }

    /// As [`rows::next`], and the client gets at once what is not of the rows.
    pub async fn next_reply(&mut self, lane: &mut Lane) -> Result<rows::Reply> {
        let reply = rows::next(lane).await;
        if !lane.said.is_empty() {
            self.pass_notices(lane);
            self.client.relieve().await?;
        }
        reply
    }

    /// A lane outside the transaction, for a question that must not take part in it: there is one for it where sessions have all others.
    pub async fn outside(&mut self, node: NodeId) -> Result<Lane> {
        self.fitting(node, true).await
    }

    /// The same, for as long as it takes.
    pub async fn outside_to_work(&mut self, node: NodeId) -> Result<Lane> {
        self.fitting(node, false).await
    }

    async fn fitting(&mut self, node: NodeId, beside: bool) -> Result<Lane> {
        let target = self.herd.target(&self.epoch.snapshot, node)?;
        loop {
            let mut conn = match beside {
                true => self.herd.pools.get_beside(&target, self.login).await?,
                false => self.herd.pools.get(&target, self.login).await?,
            };
            if self.fits(&mut conn) {
                return Ok(Lane::lent(node, conn, self.settings));
            }
        }
    }

    /// Several nodes in one statement that writes: they commit together.
    pub fn need_transaction(&mut self) {
        if !self.transaction.is_active() {
            self.transaction.begin("BEGIN", false);
        }
    }

    /// Tells apart the settings, and the changes of the schema in this transaction, under which a text is read.
    pub fn settings_fingerprint(&self) -> u64 {
        self.settings.fingerprint() ^ self.transaction.settings_fingerprint()
    }

    /// The home node, by the catalog that the session has.
    pub fn home(&self) -> NodeId {
        self.epoch.snapshot.home
    }

    /// Text rows of SQL on home, inside the transaction if there is one.
    pub async fn ask_home(&mut self, sql: &str) -> Result<Vec<catalog::Row>> {
        self.ask_node(self.home(), sql).await
    }

    /// The same on any node.
    pub async fn ask_node(&mut self, node: NodeId, sql: &str) -> Result<Vec<catalog::Row>> {
        let mut p = self.lane(node).await?;
        let rows = p.lane.rows(sql).await;
        self.put_back(p).await;
        Ok(rows?)
    }

    /// The first row, in the client's name; without columns if there is none.
    pub async fn row_on(&mut self, node: NodeId, sql: &str) -> Result<catalog::Row> {
        Ok(self.ask_node(node, sql).await?.into_iter().next().unwrap_or_default())
    }
}

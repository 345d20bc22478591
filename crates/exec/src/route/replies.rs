//! What a node answers to one statement, passed on: runs of rows as they are, the rest message by message.
//!
//! It does not know how the statement was sent.

use catalog::Snapshot;
use txn::Lane;
use wire::{ErrorFields, Frame, backend, frame, put, sqlstate};

use crate::client::{Answer, Client, CopyInput, PENDING_MAX, tell_parameter};
use crate::error::{ExecError, Result};
use crate::router::compiled::Compiled;
use crate::router::names;
use crate::work::guard;

/// What came of forwarding.
#[derive(Debug, Default)]
pub struct Forwarded {
    pub tag: String,
    pub empty: bool,
    pub suspended: bool,
    /// The node that has the portal, if one was asked for.
    pub node: Option<i32>,
    /// The look behind a read has found that kinds of tables have changed.
    pub stale: bool,
    /// What the rows to come are like in the node's own ids: the client was not told, and they wait to be forwarded.
    pub undescribed: Option<Vec<backend::Field>>,
}

/// How a node's object ids in an answer become home's.
#[derive(Clone, Copy)]
pub enum Ids<'a> {
    /// They are home's, or the client sees none.
    Home,
    /// The same of a change of the schema, whose notices of the partitions of this catalog's tables are not for the client.
    Schema(&'a Snapshot),
    /// Columns are those of the statement's tables; of other types only home knows the ids.
    Tables(&'a Compiled),
    /// The description has gone to the client; these columns' values hold some.
    Values(&'a crate::object_ids::OidColumns),
}

/// Forwards one statement's replies up to ReadyForQuery, which is swallowed, as is CommandComplete: its tag is returned.
/// `described`: RowDescription goes to the client too.
pub async fn forward<C: Client>(lane: &mut Lane, client: &mut C, described: bool, ids: Ids<'_>) -> Result<Forwarded> {
    forward_replies(lane, client, described, ids, Heard::default()).await
}

/// As [`forward`], of a bound statement, whose columns were `told`: where the node describes it, and has others, no row is passed on.
pub async fn forward_told<C: Client>(
    lane: &mut Lane,
    client: &mut C,
    ids: Ids<'_>,
    told: Option<&[backend::Field]>,
) -> Result<Forwarded> {
    forward_replies(lane, client, false, ids, Heard { told, ..Heard::default() }).await
}

/// As [`forward`], for a statement with a [`Guard`] behind it.
pub async fn forward_guarded<C: Client>(
    lane: &mut Lane,
    client: &mut C,
    described: bool,
    told: Option<&[backend::Field]>,
) -> Result<Forwarded> {
    forward_replies(lane, client, described, Ids::Home, Heard { guarded: true, told, ..Heard::default() }).await
}

async fn forward_replies<C: Client>(
    lane: &mut Lane,
    client: &mut C,
    described: bool,
    ids: Ids<'_>,
    mut heard: Heard<'_>,
) -> Result<Forwarded> {
    lane.settle_before().await?;
    loop {
        let rbuf = lane.conn.rbuf();
        let at = frame::run_of_rows(rbuf);
        if at > 0 {
            let mut run = rbuf.split_to(at);
            if let Ids::Values(ids) = ids
                && heard.refused.is_none()
            {
                heard.refused = crate::object_ids::rewrite(&mut run, ids).err();
            }
            if heard.takes_rows() {
                client.tell(Answer::Sent(&run));
                client.relieve().await?;
            }
            continue;
        }
        if client.takes_pieces()
            && !matches!(ids, Ids::Values(_))
            && let Some(total) = frame::long_row(lane.conn.rbuf())
        {
            let tell = heard.takes_rows();
            Box::pin(in_pieces(lane, total, tell.then_some(&mut *client))).await?;
            continue;
        }
        let Some(frame) = lane.conn.buffered_frame()? else {
            // Before waiting for more, what is there can go.
            if client.waiting() > PENDING_MAX / 4 {
                client.flush().await?;
            }
            lane.conn.fill().await?;
            continue;
        };
        match heard.message(&frame, client, described, ids)? {
            Then::Next => {}
            Then::Relieve => client.relieve().await?,
            Then::CopyIn => {
                if let Some(fields) = Box::pin(copy_in(lane, client, &frame)).await? {
                    heard.error.get_or_insert(fields);
                }
            }
            Then::Undescribed => return Ok(heard.done),
            Then::End => return heard.result(),
        }
    }
}

/// What was heard so far of one statement.
#[derive(Default)]
struct Heard<'t> {
    /// The columns that the client was told of.
    told: Option<&'t [backend::Field]>,
    done: Forwarded,
    error: Option<ErrorFields>,
    /// Rows can't be made what they are at home: those that are left are passed over.
    refused: Option<ExecError>,
    /// A look is behind it.
    guarded: bool,
    look: GuardHeard,
}

/// What is to be done behind a message.
enum Then {
    Next,
    /// The client was told something long.
    Relieve,
    CopyIn,
    /// The rows to come wait to be described.
    Undescribed,
    End,
}

impl Heard<'_> {
    /// Rows that come are the statement's, and the client's.
    fn takes_rows(&self) -> bool {
        self.error.is_none() && self.refused.is_none() && !self.look.begun
    }

    /// Any message but rows.
    fn message<C: Client>(&mut self, frame: &Frame, client: &mut C, described: bool, ids: Ids<'_>) -> Result<Then> {
        if self.look.begun && self.look.hears(frame, &mut self.done, &mut self.error)? {
            return Ok(Then::Next);
        }
        match frame.tag() {
            b'Z' => return Ok(Then::End),
            b'C' | b'I' => {
                self.look.begun |= self.guarded;
                match frame.tag() {
                    b'C' => self.done.tag = backend::parse_command_complete(frame.body())?.to_string(),
                    _ => self.done.empty = true,
                }
            }
            b's' => self.done.suspended = true,
            b'E' => {
                let fields = ErrorFields::parse(frame.body())?;
                if fields.is_fatal() {
                    return Err(pool::PoolError::Server(Box::new(fields)).into());
                }
                self.error.get_or_insert(fields);
            }
            b'T' if described => match ids {
                Ids::Home | Ids::Schema(_) | Ids::Values(_) => client.tell(Answer::Sent(&frame.raw)),
                Ids::Tables(compiled) => {
                    let mut fields = backend::parse_row_description(frame.body())?;
                    if !is_as_at_home(&mut fields, compiled) {
                        self.done.undescribed = Some(fields);
                        return Ok(Then::Undescribed);
                    }
                    client.tell(Answer::Columns(&fields));
                }
            },
            b'T' if let Some(told) = self.told => self.compare(told, frame)?,
            b'N' => match ids {
                Ids::Schema(snapshot) if names::is_of_partition(snapshot, &ErrorFields::parse(frame.body())?) => {}
                _ => client.tell(Answer::Sent(&frame.raw)),
            },
            b'S' => tell_parameter(client, frame),
            b'G' => return Ok(Then::CopyIn),
            b'H' | b'd' | b'c' => {
                client.tell(Answer::Sent(&frame.raw));
                return Ok(Then::Relieve);
            }
            b'W' => {
                return Err(ExecError::sql(
                    sqlstate::FEATURE_NOT_SUPPORTED,
                    "replication through the router is not supported",
                ));
            }
            // Completions of Parse, Bind, Close and descriptions are the router's own affair.
            _ => {}
        }
        Ok(Then::Next)
    }

    /// What the client was told of, with what the table is now on the node, which keeps it so to the end of the statement.
    fn compare(&mut self, told: &[backend::Field], frame: &Frame) -> Result<()> {
        if !backend::are_alike(told, &backend::parse_row_description(frame.body())?) {
            self.refused.get_or_insert(ExecError::Stale);
        }
        Ok(())
    }

    fn result(self) -> Result<Forwarded> {
        match self.error {
            Some(_) if self.look.rolled_back => Err(ExecError::Stale),
            Some(fields) => Err(pool::PoolError::Server(Box::new(fields)).into()),
            None => self.refused.map_or(Ok(self.done), Err),
        }
    }
}

/// Passes a long message on as it comes: nobody holds it whole. Without a client it is passed over.
///
/// # Errors
/// When some of it is with the client, who can be told nothing any more, the client counts as lost.
async fn in_pieces<C: Client>(lane: &mut Lane, total: usize, mut client: Option<&mut C>) -> Result<()> {
    /// In the middle of a message nothing else can be read.
    struct Midway<'l>(&'l mut Lane, usize);
    impl Drop for Midway<'_> {
        fn drop(&mut self) {
            if self.1 > 0 {
                self.0.conn.mark_broken();
            }
        }
    }
    let mut midway = Midway(lane, total);
    loop {
        let rbuf = midway.0.conn.rbuf();
        let piece = rbuf.split_to(midway.1.min(rbuf.len()));
        midway.1 -= piece.len();
        if let Some(client) = client.as_deref_mut() {
            client.tell(Answer::Sent(&piece));
            client.relieve().await?;
        }
        if midway.1 == 0 {
            return Ok(());
        }
        midway.0.conn.fill().await.map_err(ExecError::lost)?;
    }
}

/// What the guard behind a statement says.
#[derive(Default)]
struct GuardHeard {
    /// The statement itself is complete: what comes is the guard's.
    begun: bool,
    answered: bool,
    rolled_back: bool,
}

impl GuardHeard {
    /// Whether the message was for it.
    fn hears(&mut self, frame: &Frame, done: &mut Forwarded, error: &mut Option<ErrorFields>) -> Result<bool> {
        match frame.tag() {
            b'C' => {
                done.stale = backend::parse_command_complete(frame.body())? != "SELECT 0";
                self.answered = true;
            }
            b'E' if !self.answered && error.is_none() => {
                let fields = ErrorFields::parse(frame.body())?;
                self.rolled_back = fields.code() == guard::RAISED;
                *error = Some(fields);
            }
            b'T' => {}
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// COPY FROM STDIN on one node: what the client sends goes there as it is. An error the node raises ends it at once: what
/// the client still sends is passed over, as PostgreSQL does.
async fn copy_in<C: Client>(lane: &mut Lane, client: &mut C, response: &Frame) -> Result<Option<ErrorFields>> {
    client.tell(Answer::Sent(&response.raw));
    client.flush().await?;
    loop {
        // While the client is slow, what it has sent goes on, and what the node says is heard.
        let input = tokio::select! {
            biased;
            input = client.copy_input() => Some(input?),
            said = crate::work::copy_lane::said(&mut lane.conn) => {
                said?;
                None
            }
        };
        if let Some(input) = &input {
            let out = lane.conn.out();
            match input {
                CopyInput::Data(data) => put::copy_data(out, data),
                CopyInput::Done => put::copy_done(out),
                CopyInput::Fail(reason) => put::copy_fail(out, reason),
            }
            if !matches!(input, CopyInput::Data(_)) {
                // A Sync sent with Execute was swallowed by COPY; the simple protocol needs none.
                lane.conn.flush().await?;
                return Ok(None);
            }
            if lane.conn.out().len() <= PENDING_MAX || lane.conn.flush_or_fill().await? == pool::Progress::Flushed {
                continue;
            }
        }
        while let Some(said) = lane.conn.buffered_frame()? {
            match said.tag() {
                b'N' => client.tell(Answer::Sent(&said.raw)),
                b'S' => tell_parameter(client, &said),
                b'E' => {
                    let fields = ErrorFields::parse(said.body())?;
                    if fields.is_fatal() {
                        return Err(pool::PoolError::Server(Box::new(fields)).into());
                    }
                    // It passes over what is still on its way to it.
                    lane.conn.flush().await?;
                    return Ok(Some(fields));
                }
                _ => {}
            }
        }
    }
}

/// Tables' object ids in terms of home: a partition's columns are its table's; what is not known is left out. False: there
/// are types of users' own.
pub(super) fn is_as_at_home(fields: &mut [backend::Field], compiled: &Compiled) -> bool {
    let one = match &compiled.plan.whole().tables[..] {
        [t] => Some(&t.relation),
        _ => None,
    };
    for f in fields.iter_mut() {
        match one {
            Some(r) if f.table_oid != 0 && r.column(&f.name).is_some_and(|c| r.columns[c].type_oid == f.type_oid) => {
                f.table_oid = r.named_oid();
            }
            _ => {
                f.table_oid = 0;
                f.column = 0;
            }
        }
    }
    !crate::router::described::has_user_types(fields)
}

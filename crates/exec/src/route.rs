//! Runs a statement on one node: rows are forwarded as they come, in runs, without being looked at.

pub mod portal;

use bytes::BytesMut;
use pool::{StatementKey, StatementName};
use txn::{Lane, Participant};
use wire::frame::{self, HEADER_LEN};
use wire::sqlstate;
use wire::{ErrorFields, backend, put};

use crate::client::{Answer, Client, CopyInput, PENDING_MAX, tell_parameter};
use crate::error::{ExecError, Result};
use crate::request::{Bound, Literals, Request};
use crate::router::compiled::Compiled;
use crate::work::Work;
use crate::work::guard::{self, Guard};
use crate::work::rows;

/// Messages longer than this from a node are a fault (PostgreSQL's own limit is 1 GiB).
const FRAME_MAX: usize = 1 << 30;

/// What came of forwarding.
#[derive(Debug, Default)]
pub struct Forwarded {
    pub tag: String,
    pub empty: bool,
    pub suspended: bool,
    /// The look behind a read has found that kinds of tables have changed.
    pub moved: bool,
    /// More than one node worked on it.
    pub several: bool,
    /// What the rows to come are like in the node's own ids: the client was not told, and they wait to be forwarded.
    pub undescribed: Option<Vec<backend::Field>>,
}

impl<C: Client> Work<'_, C> {
    /// The whole statement on one node; `shard`: name that shard's partitions instead of the parents.
    pub async fn route(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        node: i32,
        shard: Option<i32>,
    ) -> Result<Forwarded> {
        let shard = self.nameable(compiled, request, shard).await?;
        self.on_one_node(compiled, request, node, shard).await
    }

    /// The shard whose partitions the statement can name, and who asks may name their tables.
    pub async fn nameable(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        shard: Option<i32>,
    ) -> Result<Option<i32>> {
        let whole = compiled.plan.whole();
        let shard = shard.filter(|_| whole.splices.is_some() && !whole.tables.is_empty());
        if shard.is_some() {
            self.may_name_tables(compiled, request).await?;
        }
        Ok(shard)
    }

    /// As `route`, where it is known already whether `shard` can be named.
    pub async fn on_one_node(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        node: i32,
        shard: Option<i32>,
    ) -> Result<Forwarded> {
        let mut p = self.lane(node).await?;
        p.wrote |= compiled.plan.whole().writes;
        let template = match request.literals {
            Literals::Template(t) => Some(t),
            Literals::Own => None,
        };
        let spliced = |shard| compiled.spliced(request.sql, template, shard);
        let guard = self.guard(compiled, node);
        // By the table's own name: is it still the one that was planned for?
        let behind = match shard {
            None if !compiled.plan.whole().tables.is_empty() => compiled.looks().of(node),
            _ => None,
        };
        match request.bound {
            None => {
                match &guard {
                    None if behind.is_some() => {
                        let out = p.lane.conn.out();
                        put::parse(out, "", request.sql, &[]);
                        put::bind_tail(out, "", "", &share::NO_PARAMETERS);
                        put::describe(out, b'P', "");
                        put::execute(out, "", 0);
                        rows::put_look(out, behind);
                        put::sync(out);
                        p.lane.conn.sent_sync();
                    }
                    Some(guard) if compiled.plan.whole().rules => p.lane.put_query(&guard.behind(request.sql)),
                    // By the extended protocol, where the guard is prepared already.
                    Some(guard) => {
                        let look = prepare_guard(&mut p.lane, guard);
                        let out = p.lane.conn.out();
                        put::parse(out, "", request.sql, &[]);
                        put::bind_tail(out, "", "", &share::NO_PARAMETERS);
                        put::describe(out, b'P', "");
                        put::execute(out, "", 0);
                        put_guard(out, Some(look));
                        put::sync(out);
                        p.lane.conn.sent_sync();
                    }
                    None => {
                        let text = shard.and_then(spliced);
                        p.lane.put_query(text.as_deref().unwrap_or(request.sql));
                    }
                }
            }
            Some(bound) => {
                let number = shard.unwrap_or(-1);
                let foreign = node != self.home();
                let types = bound.types_on(foreign);
                // A statement means what it meant when it was parsed: under other settings (how literals are read) or
                // after a change of the schema it is another statement.
                let settings = self.settings.fingerprint() ^ self.transaction.settings_mark() ^ compiled.own;
                let epoch = self.epoch.snapshot.epoch;
                let make = || {
                    let text = shard.and_then(spliced);
                    StatementKey::of(
                        &format!("{settings:x} {epoch} {}", text.as_deref().unwrap_or(request.sql)),
                        &types,
                    )
                };
                // In front, so that it is there whatever becomes of the statement.
                let look = guard.as_ref().map(|g| prepare_guard(&mut p.lane, g));
                let key = if types == bound.types { compiled.statement_key(number, settings, make) } else { make() };
                let name = match p.lane.conn.statements.get(&key) {
                    Some(name) => name,
                    None => {
                        let text = shard.and_then(spliced);
                        rows::prepared(&mut p.lane, key, text.as_deref().unwrap_or(request.sql), &types)
                    }
                };
                put::bind_tail(p.lane.conn.out(), "", &name, &bound.tail);
                put::execute(p.lane.conn.out(), "", 0);
                put_guard(p.lane.conn.out(), look);
                rows::put_look(p.lane.conn.out(), behind);
                put::sync(p.lane.conn.out());
                p.lane.conn.sent_sync();
            }
        }
        let result = self.finish_route(&mut p, compiled, request).await;
        self.put_back(p).await;
        result.map_err(|e| match shard {
            Some(s) => restore_position(e, compiled, template, s),
            None => e,
        })
    }

    async fn finish_route(
        &mut self,
        p: &mut Participant,
        compiled: &Compiled,
        request: &Request<'_>,
    ) -> Result<Forwarded> {
        p.lane.conn.flush().await?;
        let foreign = p.lane.node != self.home();
        let arrays = match foreign {
            true => self.arrays(compiled, request.bound),
            false => vec![],
        };
        if !arrays.is_empty() {
            return forward(&mut p.lane, self.client, false, Ids::Arrays(&arrays)).await;
        }
        if self.guard(compiled, p.lane.node).is_some() {
            return forward_guarded(&mut p.lane, self.client, request.is_simple()).await;
        }
        match foreign && request.is_simple() {
            true => self.forward_as_home(&mut p.lane, compiled, &[]).await,
            false => forward(&mut p.lane, self.client, request.is_simple(), Ids::Home).await,
        }
    }

    /// Forwards the answer of a node other than home, its columns described as home does. `types`: of parameters.
    pub async fn forward_as_home(&mut self, lane: &mut Lane, compiled: &Compiled, types: &[u32]) -> Result<Forwarded> {
        let mut done = forward(lane, self.client, true, Ids::Tables(compiled)).await?;
        let Some(fields) = done.undescribed.take() else { return Ok(done) };
        let fields = Box::pin(self.as_home_describes(fields, compiled, types)).await;
        self.client.tell(Answer::Columns(&fields));
        forward(lane, self.client, false, Ids::Home).await
    }

    /// A description of another node with home's object ids.
    pub async fn as_home_describes(
        &mut self,
        mut fields: Vec<backend::Field>,
        compiled: &Compiled,
        types: &[u32],
    ) -> Vec<backend::Field> {
        if is_as_at_home(&mut fields, compiled) {
            return fields;
        }
        // While home is away the rest is true all the same.
        let Ok(described) = self.described(compiled, types).await else { return fields };
        for (field, own) in fields.iter_mut().zip(described.fields.iter().flatten()) {
            *field = backend::Field { format: field.format, ..own.clone() };
        }
        fields
    }

    /// Columns of an answer that hold object ids of the node it comes from.
    pub(crate) fn arrays(&self, compiled: &Compiled, bound: Option<&Bound>) -> crate::arrays::ArrayColumns {
        let fields = compiled.described.get().and_then(|d| d.fields.as_deref());
        crate::arrays::columns(&self.epoch.snapshot, fields, bound)
    }
}

/// The guard's name on the node; it is prepared now if it is not yet.
fn prepare_guard(lane: &mut Lane, guard: &Guard) -> StatementName {
    rows::prepared(lane, StatementKey::of(&guard.sql, &[]), &guard.sql, &[])
}

fn put_guard(out: &mut BytesMut, look: Option<StatementName>) {
    if let Some(name) = look {
        put::bind_tail(out, "", &name, &share::NO_PARAMETERS);
        put::execute(out, "", 0);
    }
}

/// How a node's object ids in an answer become home's.
#[derive(Clone, Copy)]
pub enum Ids<'a> {
    /// They are home's, or the client sees none.
    Home,
    /// Columns are those of the statement's tables; of other types only home knows the ids.
    Tables(&'a Compiled),
    /// The description has gone to the client; these columns' values hold some.
    Arrays(&'a crate::arrays::ArrayColumns),
}

/// Forwards one statement's replies up to ReadyForQuery, which is swallowed, as is CommandComplete: its tag is returned.
/// `described`: RowDescription goes to the client too.
pub async fn forward<C: Client>(lane: &mut Lane, client: &mut C, described: bool, ids: Ids<'_>) -> Result<Forwarded> {
    forward_replies(lane, client, described, ids, false).await
}

/// As [`forward`], for a statement with a [`Guard`] behind it.
pub async fn forward_guarded<C: Client>(lane: &mut Lane, client: &mut C, described: bool) -> Result<Forwarded> {
    forward_replies(lane, client, described, Ids::Home, true).await
}

async fn forward_replies<C: Client>(
    lane: &mut Lane,
    client: &mut C,
    described: bool,
    ids: Ids<'_>,
    guarded: bool,
) -> Result<Forwarded> {
    lane.settle_before().await?;
    let mut done = Forwarded::default();
    let mut error: Option<ErrorFields> = None;
    // The statement itself is complete: what comes is the guard's.
    let (mut look, mut looked, mut rolled_back) = (false, false, false);
    loop {
        // A run of rows is copied to the client in one piece.
        let rbuf = lane.conn.rbuf();
        let mut at = 0;
        while rbuf.len() - at >= HEADER_LEN && rbuf[at] == b'D' {
            match frame::peek(&rbuf[at..], FRAME_MAX) {
                Ok(Some((_, len))) if rbuf.len() - at >= len => at += len,
                _ => break,
            }
        }
        if at > 0 {
            let mut run = rbuf.split_to(at);
            if let Ids::Arrays(arrays) = ids {
                crate::arrays::rewrite(&mut run, arrays);
            }
            if error.is_none() && !look {
                client.tell(Answer::Sent(&run));
                client.relieve().await?;
            }
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
        match frame.tag() {
            b'Z' => break,
            b'C' if look => {
                done.moved = backend::parse_command_complete(frame.body())? != "SELECT 0";
                looked = true;
            }
            b'E' if look && !looked && error.is_none() => {
                let fields = ErrorFields::parse(frame.body())?;
                rolled_back = fields.code() == guard::RAISED;
                error = Some(fields);
            }
            b'T' if look => {}
            b'C' | b'I' if guarded => {
                look = true;
                match frame.tag() {
                    b'C' => done.tag = backend::parse_command_complete(frame.body())?.to_string(),
                    _ => done.empty = true,
                }
            }
            b'C' => done.tag = backend::parse_command_complete(frame.body())?.to_string(),
            b'I' => done.empty = true,
            b's' => done.suspended = true,
            b'E' => {
                let fields = ErrorFields::parse(frame.body())?;
                if fields.is_fatal() {
                    return Err(pool::PoolError::Server(Box::new(fields)).into());
                }
                error.get_or_insert(fields);
            }
            b'T' if described => match ids {
                Ids::Home | Ids::Arrays(_) => client.tell(Answer::Sent(&frame.raw)),
                Ids::Tables(compiled) => {
                    let mut fields = backend::parse_row_description(frame.body())?;
                    if !is_as_at_home(&mut fields, compiled) {
                        return Ok(Forwarded { undescribed: Some(fields), ..done });
                    }
                    client.tell(Answer::Columns(&fields));
                }
            },
            b'N' => client.tell(Answer::Sent(&frame.raw)),
            b'S' => tell_parameter(client, &frame),
            b'G' => {
                if let Some(fields) = Box::pin(copy_in(lane, client, &frame)).await? {
                    error.get_or_insert(fields);
                }
            }
            b'H' | b'd' | b'c' => {
                client.tell(Answer::Sent(&frame.raw));
                client.relieve().await?;
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
    }
    match error {
        Some(_) if rolled_back => Err(ExecError::Moved),
        Some(fields) => Err(pool::PoolError::Server(Box::new(fields)).into()),
        None => Ok(done),
    }
}

/// COPY FROM STDIN on one node: what the client sends goes there as it is. An error the node raises ends it at once: what
/// the client still sends is passed over, as PostgreSQL does.
async fn copy_in<C: Client>(lane: &mut Lane, client: &mut C, response: &wire::Frame) -> Result<Option<ErrorFields>> {
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

/// An error's position counts the partition's name; the client's statement has the table's.
fn restore_position(
    e: ExecError,
    compiled: &Compiled,
    template: Option<&sql::template::Template>,
    shard: i32,
) -> ExecError {
    let mut fields = match &e {
        ExecError::Pool(pool::PoolError::Server(f)) => (**f).clone(),
        _ => return e,
    };
    let Some(mut position) = fields.get(b'P').and_then(|p| p.parse::<usize>().ok()) else { return e };
    let mut grown = 0;
    for (start, end, added) in compiled.splice_lengths(template, shard) {
        // Bytes and characters are the same up to the first name in nearly every statement; others are off by a few.
        if position > start + grown + added {
            grown += added - (end - start).min(added);
        }
    }
    position = position.saturating_sub(grown).max(1);
    fields.set(b'P', position.to_string());
    ExecError::Pool(pool::PoolError::Server(Box::new(fields)))
}

/// Tables' object ids in terms of home: a partition's columns are its table's; what is not known is left out. False: there
/// are types of users' own.
fn is_as_at_home(fields: &mut [backend::Field], compiled: &Compiled) -> bool {
    let one = match &compiled.plan.whole().tables[..] {
        [t] => Some(&t.relation),
        _ => None,
    };
    for f in fields.iter_mut() {
        match one {
            Some(r) if f.table_oid != 0 && r.column(&f.name).is_some_and(|c| r.columns[c].type_oid == f.type_oid) => {
                f.table_oid = r.oid;
            }
            _ => {
                f.table_oid = 0;
                f.column = 0;
            }
        }
    }
    !crate::router::described::has_user_types(fields)
}

//! Runs a statement on one node: rows are forwarded as they come, in runs, without being looked at.

pub mod portal;
mod replies;

pub use replies::{Forwarded, Ids, forward, forward_guarded};

use bytes::BytesMut;
use pool::{StatementKey, StatementName};
use txn::{Lane, Participant};
use wire::{backend, put};

use crate::client::{Answer, Client};
use crate::error::{ExecError, Result};
use crate::request::{Bound, Literals, Request};
use crate::route::replies::is_as_at_home;
use crate::router::compiled::Compiled;
use crate::work::Work;
use crate::work::guard::Guard;
use crate::work::rows;

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

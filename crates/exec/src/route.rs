//! Runs a statement on one node: rows are forwarded as they come, in runs, without being looked at.

mod function_call;
pub mod portal;
mod replies;

pub use replies::{Forwarded, Ids, forward, forward_guarded, forward_told};

use std::sync::Arc;

use pool::{StatementKey, StatementName};
use txn::{Lane, Look, Participant};
use wire::{backend, put};

use crate::client::{Answer, Client};
use crate::error::{ExecError, Result};
use crate::request::{Bound, Request};
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
        if compiled.plan.whole().writes && request.bound.is_some() && node != self.home() {
            crate::object_ids::refuse_records(&self.object_ids(compiled, request.bound))?;
        }
        let mut p = match compiled.plan.whole().plain {
            true => self.lane_to_read(node).await?,
            false => self.lane(node).await?,
        };
        self.takes_part(&mut p, compiled.plan.whole());
        let behind = Behind {
            guard: self.guard(compiled, node),
            // By the table's own name: is it still the one that was planned for?
            look: match shard {
                None if !compiled.plan.whole().tables.is_empty() => compiled.looks().of(node),
                _ => None,
            },
        };
        let mut used = None;
        let put = match request.bound {
            None => {
                put_simple(&mut p.lane, compiled, request, shard, behind);
                Ok(())
            }
            Some(bound) => self.put_bound(&mut p.lane, compiled, (request, bound), shard, behind, &mut used).await,
        };
        let result = match put {
            Ok(()) => self.finish_route(&mut p, compiled, request).await,
            Err(e) => Err(e),
        };
        if let (Err(e), Some(used)) = (&result, used)
            && (matches!(e, ExecError::Stale) || e.to_fields().has_other_columns())
        {
            // It is prepared for columns that nobody was told of.
            p.lane.conn.statements.forget(&used);
        }
        self.put_back(p).await;
        result.map_err(|e| match shard {
            Some(s) => restore_position(e, compiled, request.template(), s),
            None => e,
        })
    }

    /// As a prepared statement, which the node keeps, unless it comes but once. `used`: its key there.
    async fn put_bound(
        &mut self,
        lane: &mut Lane,
        compiled: &Compiled,
        (request, bound): (&Request<'_>, &Bound),
        shard: Option<i32>,
        behind: Behind,
        used: &mut Option<StatementKey>,
    ) -> Result<()> {
        let spliced = || compiled.spliced(request.sql, request.template(), shard?);
        let types = bound.types_on(lane.node != self.home());
        // A statement means what it meant when it was parsed: under other settings (how literals are read) or
        // after a change of the schema it is another statement.
        let settings = self.settings_fingerprint() ^ compiled.own;
        let epoch = self.epoch.snapshot.epoch;
        let make = || {
            let text = spliced();
            StatementKey::of(&format!("{settings:x} {epoch} {}", text.as_deref().unwrap_or(request.sql)), &types)
        };
        // In front, so that it is there whatever becomes of the statement.
        let guard = behind.guard.as_ref().map(|g| prepare_guard(lane, g));
        let key = if *types == *bound.types { compiled.statement_key(shard, settings, make) } else { make() };
        *used = Some(key);
        let name = match (lane.conn.statements.get(&key), compiled.comes_once()) {
            (Some(name), _) => Some(name),
            (None, once) => {
                let text = spliced();
                let text = text.as_deref().unwrap_or(request.sql);
                if once {
                    put::parse(lane.conn.out(), "", text, &types);
                }
                (!once).then(|| lane.conn.prepare(key, text, &types).0)
            }
        };
        // What has been compared already PostgreSQL itself refuses to run with other columns.
        if let Some(told) = columns_told(compiled, request)
            && !lane.conn.statements.has_agreed(&key, backend::mark_of(told))
        {
            lane.conn.statements.agree(&key, backend::mark_of(told));
            self.put_agreement(lane, compiled, name.as_deref().unwrap_or_default(), told).await?;
        }
        put::bind_tail(lane.conn.out(), "", name.as_deref().unwrap_or_default(), &bound.tail);
        put::execute(lane.conn.out(), "", 0);
        put_behind(lane, guard, behind.look);
        Ok(())
    }

    /// A statement is new to its node: does it have the columns that the client was `told` of? Its answer is compared with the rest of the statement's
    /// ([`forward_told`]), which is planned anew if they differ; but what writes can't be taken back where nothing but it is a transaction, and waits.
    async fn put_agreement(
        &mut self,
        lane: &mut Lane,
        compiled: &Compiled,
        name: &str,
        told: &[backend::Field],
    ) -> Result<()> {
        put::describe(lane.conn.out(), b'S', name);
        if compiled.plan.whole().writes && !self.transaction.is_active() {
            put::sync(lane.conn.out());
            lane.conn.sent_sync();
            lane.conn.flush().await?;
            forward_told(lane, self.client, Ids::Home, Some(told)).await?;
        }
        Ok(())
    }

    async fn finish_route(
        &mut self,
        p: &mut Participant,
        compiled: &Compiled,
        request: &Request<'_>,
    ) -> Result<Forwarded> {
        p.lane.conn.flush().await?;
        let foreign = p.lane.node != self.home();
        let ids = match foreign {
            true => self.object_ids(compiled, request.bound),
            false => vec![],
        };
        let told = columns_told(compiled, request);
        if !ids.is_empty() {
            return forward_told(&mut p.lane, self.client, Ids::Values(&ids), told).await;
        }
        if self.guard(compiled, p.lane.node).is_some() {
            return forward_guarded(&mut p.lane, self.client, request.is_simple(), told).await;
        }
        match (foreign, request.is_simple()) {
            (true, true) => self.forward_as_home(&mut p.lane, compiled, &[]).await,
            (false, true) => forward(&mut p.lane, self.client, true, Ids::Home).await,
            (_, false) => forward_told(&mut p.lane, self.client, Ids::Home, told).await,
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
            // A literal of the client's may be another than was described: `1::numeric(4,1)`. It says no type of users' own.
            let type_oid = if field.is_of_users() { own.type_oid } else { field.type_oid };
            *field = backend::Field { type_oid, table_oid: own.table_oid, column: own.column, ..field.clone() };
        }
        fields
    }

    /// Columns of an answer that hold object ids of the node it comes from.
    pub(crate) fn object_ids(&self, compiled: &Compiled, bound: Option<&Bound>) -> crate::object_ids::OidColumns {
        let fields = compiled.described.get().and_then(|d| d.fields.as_deref());
        crate::object_ids::columns(&self.epoch.snapshot, fields, bound)
    }
}

/// The columns that the client of a bound statement was told of.
fn columns_told<'c>(compiled: &'c Compiled, request: &Request<'_>) -> Option<&'c [backend::Field]> {
    request.bound?;
    compiled.described.get()?.fields.as_deref()
}

/// The guard's name on the node; it is prepared now if it is not yet.
fn prepare_guard(lane: &mut Lane, guard: &Guard) -> StatementName {
    lane.conn.prepare(StatementKey::of(&guard.sql, &[]), &guard.sql, &[]).0
}

/// What is looked at behind a statement, in its round trip and transaction.
struct Behind {
    guard: Option<Guard>,
    look: Option<Arc<Look>>,
}

/// As a simple query; where something is looked at behind it, as the unnamed statement.
fn put_simple(lane: &mut Lane, compiled: &Compiled, request: &Request<'_>, shard: Option<i32>, behind: Behind) {
    let guard = match &behind.guard {
        Some(guard) if compiled.plan.whole().rules => return lane.put_query(&guard.behind(request.sql)),
        // By the extended protocol, where the guard is prepared already.
        Some(guard) => Some(prepare_guard(lane, guard)),
        None if behind.look.is_some() => None,
        None => {
            let text = shard.and_then(|s| compiled.spliced(request.sql, request.template(), s));
            return lane.put_query(text.as_deref().unwrap_or(request.sql));
        }
    };
    let out = lane.conn.out();
    put::parse(out, "", request.sql, &[]);
    put::bind_tail(out, "", "", &share::NO_PARAMETERS);
    put::describe(out, b'P', "");
    put::execute(out, "", 0);
    put_behind(lane, guard, behind.look);
}

fn put_behind(lane: &mut Lane, guard: Option<StatementName>, look: Option<Arc<Look>>) {
    let out = lane.conn.out();
    if let Some(name) = guard {
        put::bind_tail(out, "", &name, &share::NO_PARAMETERS);
        put::execute(out, "", 0);
    }
    rows::put_look(out, look);
    put::sync(out);
    lane.conn.sent_sync();
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

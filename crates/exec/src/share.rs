//! Statements that travel with those of other clients: whether this execution may, and how it becomes a prepared
//! statement of a shared queue. It does not know how a queue batches (`share::SharedQueues`), nor why a statement is
//! harmless (`plan::share`).

pub mod batch;
pub mod rows;

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use catalog::{NodeId, Placement};
use plan::LiteralKind;
use pool::{NodeTarget, StatementKey};
use share::{Alone, Many, Outcome, QueueKind, SharedQueue, SharedStatement};
use sql::one_row::OneRow;

use crate::client::{Answer, Client};
use crate::error::{ExecError, Result};
use crate::request::{Literals, Request, put_formats};
use crate::route::Forwarded;
use crate::router::compiled::{Compiled, LEARNT_MAX};
use crate::router::shared_literals::SharedLiteral;
use crate::work::Work;
use crate::work::guard::Guard;
use wire::type_oid;

/// Queues a session remembers: of reads and writes of a few nodes.
const REMEMBERED_MAX: usize = 16;

/// So many rows of one statement, found by an index, do not make others wait for long.
const FEW: i64 = 256;

/// How a statement that might travel with others goes on.
pub enum Way<Turn> {
    Done(Forwarded),
    /// By itself, and those that come meanwhile wait for it.
    Ahead(Turn),
    /// By itself, and nobody waits for it.
    Apart,
}

impl<C: Client> Work<'_, C> {
    /// The whole statement on one node: with those of others, or by itself.
    pub async fn share_or_route(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        node: NodeId,
        shard: Option<i32>,
    ) -> Result<Forwarded> {
        let shard = self.nameable(compiled, request, shard).await?;
        let _alone = match self.try_share(compiled, request, node, shard).await? {
            Way::Done(forwarded) => return Ok(forwarded),
            Way::Ahead(alone) => Some(alone),
            Way::Apart => None,
        };
        self.on_one_node(compiled, request, node, shard).await
    }

    async fn try_share(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        node: NodeId,
        shard: Option<i32>,
    ) -> Result<Way<Alone>> {
        let Some(share) = &compiled.plan.whole().share else { return Ok(Way::Apart) };
        let free = !self.transaction.is_active() && self.pin.is_free() && !self.own_catalog && !self.taint;
        let allowed = self.sharing.as_ref().is_some_and(|s| if share.writes { s.writes } else { s.reads });
        // Object ids of users' own types differ from node to node.
        let same_types = node == self.home() || !compiled.may_have_user_types();
        let few = |range| shard.is_some() && request.bound.is_some_and(|bound| bound.spans(range) < FEW);
        // lastval() and currval() tell a session what it has taken: in a batch it is taken for somebody else.
        if share.takes || !free || !allowed || !same_types || !share.between.is_none_or(few) {
            return Ok(Way::Apart);
        }
        let standby = self.standby(node).await;
        let Some(queue) = self.shared_queue(node, standby.as_deref(), share.writes)? else { return Ok(Way::Apart) };
        let guard = self.guard(compiled, node).map(|_| Guard::of(self.epoch.snapshot.kinds, true).sql);
        let (settings, epoch) = (self.settings.fingerprint(), self.epoch.snapshot.epoch);
        let may_be_one = |table: &str| !self.herd.shared.speaks(table);
        let statement = match compiled.shared(request, (node, shard), settings, epoch, guard, &may_be_one) {
            Some(s) if !s.is_apart() => s,
            _ => return Ok(Way::Apart),
        };
        if let Some(alone) = queue.alone() {
            return Ok(Way::Ahead(alone));
        }
        let described = match request.is_simple() {
            true => match self.described(compiled, &[]).await {
                Ok(d) => Some(d),
                Err(_) => return Ok(Way::Apart),
            },
            false => None,
        };
        if let Some(fields) = compiled.described.get().and_then(|d| d.fields.as_deref()) {
            statement.returns(fields);
        }
        let Some(bind) = compiled.shared_bind(request) else { return Ok(Way::Apart) };
        // What was asked of home before has ended.
        self.client.waits();
        let outcome = queue.run(statement, bind, self.client.cancelled()).await;
        match outcome {
            Outcome::Withdrawn => Err(ExecError::cancelled()),
            Outcome::Rerun => self.sent_away().await,
            Outcome::Lost(e) => Err(e.into()),
            Outcome::Done(reply) => {
                if let Some(fields) = described.as_ref().and_then(|d| d.fields.as_deref()) {
                    self.client.tell(Answer::Columns(fields));
                }
                for message in &reply.messages {
                    self.client.tell(Answer::Sent(message));
                }
                self.client.relieve().await?;
                Ok(Way::Done(Forwarded { tag: reply.tag, ..Default::default() }))
            }
        }
    }

    /// Its batch has done nothing: it runs by itself, in what is left of its time.
    async fn sent_away<Turn>(&mut self) -> Result<Way<Turn>> {
        if self.is_cancelled() {
            return Err(ExecError::cancelled());
        }
        self.keep_time().await?;
        Ok(Way::Apart)
    }

    /// `standby`: in the node's place.
    fn shared_queue(
        &mut self,
        node: NodeId,
        standby: Option<&NodeTarget>,
        writes: bool,
    ) -> Result<Option<Arc<SharedQueue>>> {
        let (epoch, kind) = (self.epoch.snapshot.epoch, if writes { QueueKind::Write } else { QueueKind::Read });
        let Some(sharing) = &mut self.sharing else { return Ok(None) };
        let (login, settings) = (self.login, self.settings);
        let known = |(e, n, l): &&(i64, NodeId, Arc<SharedQueue>)| {
            let at = match standby {
                None => l.target().standby_of.is_none(),
                Some(standby) => l.target() == standby,
            };
            *e == epoch && *n == node && at && l.kind() == kind && l.is_for(login, settings)
        };
        if let Some((_, _, queue)) = sharing.queues.iter().find(known) {
            return Ok(Some(queue.clone()));
        }
        let target = match standby {
            Some(standby) => standby.clone(),
            None => self.herd.target(&self.epoch.snapshot, node)?,
        };
        let queue = self.herd.shared.queue(&target, login, settings, kind);
        if sharing.queues.len() >= REMEMBERED_MAX {
            sharing.queues.clear();
        }
        sharing.queues.push((epoch, node, queue.clone()));
        Ok(Some(queue))
    }
}

impl Compiled {
    /// The prepared statement this execution is one of.
    fn shared(
        &self,
        request: &Request<'_>,
        (node, shard): (NodeId, Option<i32>),
        settings: u64,
        epoch: i64,
        guard: Option<String>,
        may_be_one: &dyn Fn(&str) -> bool,
    ) -> Option<Arc<SharedStatement>> {
        let place = (shard, settings, request.is_simple());
        if let Some(known) = self.shared.lock().get(&place) {
            return Some(known.clone());
        }
        let guard = match guard {
            None => self.parent_guard(node, shard)?,
            guard => guard,
        };
        let (text, types) = match request.bound {
            Some(_) if self.comes_once() => return None,
            Some(bound) => {
                let text = shard.and_then(|s| self.spliced(request.sql, None, s));
                (text.unwrap_or_else(|| request.sql.to_string()), bound.types.to_vec())
            }
            None => {
                let (parameters, others) = self.shared_literals.as_ref()?;
                // It would be read when the statement is prepared.
                if others.iter().any(|(_, text)| sql::moments::mentions(text)) {
                    return None;
                }
                (self.with_parameters(parameters, shard)?, parameters.iter().map(|p| p.type_oid).collect())
            }
        };
        let key = |text: &str| StatementKey::of(&format!("{settings:x} {epoch} {text}"), &types);
        let many = self.many(request, node, settings, &types, &key).filter(|many| may_be_one(many.table()));
        let statement = SharedStatement::new(key(&text), text, types.clone()).guarded(guard).one_of(many);
        let statement = Arc::new(statement);
        let mut shared = self.shared.lock();
        if shared.len() >= LEARNT_MAX {
            shared.clear();
        }
        shared.insert(place, statement.clone());
        Some(statement)
    }

    /// Of a statement that names no partition: whether the table is still the one that it was planned for. `None`: nothing would tell.
    fn parent_guard(&self, node: NodeId, shard: Option<i32>) -> Option<Option<String>> {
        let whole = self.plan.whole();
        let Some(relation) = whole.tables.first().map(|t| &t.relation).filter(|_| whole.splices.is_none()) else {
            return Some(None);
        };
        let Some(d) = relation.distribution() else { return Some(None) };
        let shard = shard.or_else(|| d.group.shards.iter().find(|s| s.node == node).map(|s| s.number))?;
        let table = catalog::qualified(&relation.schema, &relation.name);
        Some(Some(Guard::of_rows(&table, &d.looked_at(shard)?, d.is_part).sql))
    }

    /// How this INSERT is one of many rows: rows of all shards of a node can be one statement, which names the parent.
    fn many(
        &self,
        request: &Request<'_>,
        node: NodeId,
        settings: u64,
        types: &[u32],
        key: &dyn Fn(&str) -> StatementKey,
    ) -> Option<Arc<Many>> {
        let table = self.plan.whole().share.as_ref()?.one_row.as_deref()?;
        let make = || {
            let text = match request.bound {
                Some(_) => request.sql.to_string(),
                None => self.with_parameters(&self.shared_literals.as_ref()?.0, None)?,
            };
            let row = OneRow::of(&text)?;
            // A local table has a guard already.
            let guard = match self.plan.whole().tables.first().map(|t| &t.relation.placement) {
                Some(Placement::Distributed(d)) => {
                    let shard = d.group.shards.iter().find(|s| s.node == node)?;
                    Some(Guard::of_rows(table, &d.looked_at(shard.number)?, d.is_part).sql)
                }
                _ => None,
            };
            let (key, params) = (key(&text), row.params());
            Some(Arc::new(Many::new(key, params, types.to_vec(), move |n| row.times(n))?.for_table(table, guard)))
        };
        let mut many = self.many.lock();
        if many.len() >= LEARNT_MAX {
            many.clear();
        }
        many.entry((node, settings, request.is_simple())).or_insert_with(make).clone()
    }

    /// This statement's own text with `$n` for its literals, and partitions of one shard named.
    fn with_parameters(&self, parameters: &[SharedLiteral], shard: Option<i32>) -> Option<String> {
        let mut changes: Vec<(usize, usize, String)> =
            parameters.iter().enumerate().map(|(i, p)| (p.start, p.end, format!("${}", i + 1))).collect();
        if let Some(shard) = shard.filter(|_| !self.plan.whole().tables.is_empty()) {
            for splice in self.plan.whole().splices.iter().flatten() {
                changes.push((splice.start, splice.end, self.splice_text(splice, shard)?));
            }
        }
        changes.sort();
        let mut out = String::with_capacity(self.text.len() + 64);
        let mut at = 0;
        for (start, end, new) in changes {
            out.push_str(self.text.get(at..start)?);
            out.push_str(&new);
            at = end;
        }
        out.push_str(self.text.get(at..)?);
        Some(out)
    }

    /// Bind behind the names; `None`: these values must be read by PostgreSQL's parser.
    fn shared_bind(&self, request: &Request<'_>) -> Option<Bytes> {
        if let Some(bound) = request.bound {
            return Some(bound.tail.clone());
        }
        let Literals::Template(t) = request.literals else { return None };
        let (parameters, others) = self.shared_literals.as_ref()?;
        if others.iter().any(|(i, text)| t.literal_text(request.sql, *i) != text) {
            return None;
        }
        let columns = self.described.get().and_then(|d| Some(d.fields.as_ref()?.len())).unwrap_or_default();
        let mut out = BytesMut::with_capacity(request.sql.len() + 8 * parameters.len() + 2 * columns);
        out.put_u16(0);
        out.put_u16(parameters.len() as u16);
        for p in parameters {
            let value = t.literal_value(request.sql, p.index).ok()?;
            let zero = p.negated && is_zero(&value);
            if p.kind == LiteralKind::Number && (zero || !is_plain_number(&value, p.type_oid)) {
                return None;
            }
            out.put_u32(value.len() as u32);
            out.put_slice(value.as_bytes());
        }
        put_formats(&mut out, &vec![0; columns]);
        Some(out.freeze())
    }
}

/// Behind a minus it has no sign to the parser, but would be `-0` as a float.
pub(crate) fn is_zero(digits: &str) -> bool {
    digits.bytes().all(|b| matches!(b, b'0' | b'.'))
}

/// The type's input function reads this text as the parser would read the literal and cast it.
pub(crate) fn is_plain_number(text: &str, type_oid: u32) -> bool {
    let mut points = 0;
    let digits = text.bytes().all(|b| {
        points += usize::from(b == b'.');
        b.is_ascii_digit() || b == b'.'
    });
    digits && points <= usize::from(!type_oid::is_integer(type_oid)) && !text.starts_with('.') && !text.ends_with('.')
}

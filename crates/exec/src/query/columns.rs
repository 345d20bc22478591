//! A read whose parts column copies answer: each store beside a node is asked for its node's rows, and the answer is finished as ever.
//!
//! Any doubt, and whatever a store says that is not rows, leads back to the nodes' rows: a store is never needed. What can be asked of
//! it at all is the plan's to say (`plan/src/columns.rs`), how fresh it has to be the session's. Rights are the client's: home is
//! asked, as the client's role, for no rows of the very columns, while the stores are at it. The store compares the table's name and its shards' with what its
//! node has in the moment it reads.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use catalog::{NodeId, Row, qualified, quote_ident};
use plan::columns::{ColumnPart, ColumnRead, ColumnTable, ColumnType, parameter};
use plan::{AddUp, Finish, Merge, Part, Piece, Slice, Text};
use pool::PoolError;
use tokio::task::JoinSet;
use txn::Cuts;
use wire::type_oid;

use crate::arrays::Arrays;
use crate::binary_text::text_of;
use crate::client::{Answer, Client};
use crate::column_settings::ColumnWay;
use crate::error::{ExecError, Result};
use crate::now::Now;
use crate::query::finish::Answers;
use crate::query::part_rows::PartRows;
use crate::query::{add_up, counts};
use crate::request::{Bound, Request};
use crate::router::column_stores::{Asked, Store, TableAsked};
use crate::router::compiled::Compiled;
use crate::router::described::Described;
use crate::work::{Work, answered};

/// A node that does not say in this time which server it is has its rows read, if it can.
const SERVER_MAX: Duration = Duration::from_secs(1);

impl<C: Client> Work<'_, C> {
    /// The command tag; `None`: nothing has been told, and rows are to be read.
    pub async fn by_columns(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        finish: &Finish,
        described: &Described,
    ) -> Result<Option<String>> {
        let parts = finish.parts();
        let Ok(reads) = self.column_parts(compiled, request, finish, &parts) else { return Ok(None) };
        let bound = described.parameters(request);
        let Ok(questions) = self.all_questions(compiled, request, (&parts, &reads), &bound).await? else {
            return Ok(None);
        };
        // Stores begin while home is asked, and are told to stop where it says no.
        let came = Instant::now();
        let begun = begin(questions);
        let Some(limit) = self.may_read(&reads).await else { return Ok(None) };
        let left = limit.map(|limit| limit.saturating_sub(came.elapsed()));
        let all = tokio::select! {
            biased;
            () = self.client.cancelled() => return Err(ExecError::cancelled()),
            all = all_of(begun, left) => all?,
        };
        let of_stores = match all {
            Ok(of_stores) => of_stores,
            Err(why) => {
                self.herd.columns.passed_over(&why);
                return Ok(None);
            }
        };
        let mut answers: Vec<Vec<Row>> = parts.iter().map(|_| vec![]).collect();
        for (node, came, of_parts) in of_stores {
            for (part, rows) in of_parts {
                answered::by_columns(node, &rows, came);
                answers[part].extend(rows);
            }
        }
        // They are held until the client has read what they become.
        let _held = match self.memory.take(answers.iter().flatten().map(bytes).sum()) {
            Ok(held) => held,
            Err(why) => {
                self.herd.columns.passed_over(&why);
                return Ok(None);
            }
        };
        self.herd.columns.read();
        let tag = self.finish_columns(compiled, request, finish, described, (&parts, answers)).await?;
        Ok(Some(tag))
    }

    /// The same of a statement of which one node has all, or one shard.
    pub async fn one_by_columns(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        shard: Option<i32>,
    ) -> Result<Option<String>> {
        let Some(finish) = compiled.plan.finish() else { return Ok(None) };
        if request.limit.is_some() || !self.one_asks_columns(compiled, shard) {
            return Ok(None);
        }
        if compiled.plan.whole().clock.is_some() {
            Box::pin(self.settle_now()).await?;
        }
        let described = self.described(compiled, request.types()).await?;
        let tag = Box::pin(self.by_columns(compiled, request, finish, &described)).await?;
        Ok(tag.inspect(|_| compiled.has_run()))
    }

    /// Whether stores are asked what one node could answer. A store reads all that its node has: where it is one shard's rows that are wanted, somebody
    /// has to say so (`herd.columns = on`).
    pub fn one_asks_columns(&self, compiled: &Compiled, shard: Option<i32>) -> bool {
        let Some(finish) = compiled.plan.finish() else { return false };
        let way = self.columns.way;
        if way == ColumnWay::Off || (shard.is_some() && way != ColumnWay::On) || compiled.plan.whole().writes {
            return false;
        }
        let parts = finish.parts();
        !parts.is_empty() && parts.iter().all(|part| matches!(&part.columns, Some(ColumnRead::Can(c)) if self.asks(c)))
    }

    /// Whether a store is asked what it can be.
    fn asks(&self, part: &ColumnPart) -> bool {
        part.bounded
            && (part.scans || self.columns.way == ColumnWay::On)
            && (!part.float_sums || self.columns.float_sums)
    }

    /// What stores are asked for each part, where each can be; or why rows are read.
    pub(super) fn column_parts<'p>(
        &self,
        compiled: &Compiled,
        request: &Request<'_>,
        finish: &Finish,
        parts: &[&'p Part],
    ) -> std::result::Result<Vec<&'p ColumnPart>, WhyRows> {
        if self.columns.way == ColumnWay::Off {
            return Err("herd.columns is off");
        }
        let t = &self.transaction;
        if t.is_active() || self.own_catalog {
            return Err("columns are read outside of transactions alone");
        }
        if !t.cut.is_empty() || t.wants == Cuts::All || self.may_repeat() {
            return Err("columns are read in READ COMMITTED and without herd.snapshot alone");
        }
        if !compiled.plan.whole().apart_views.is_empty() {
            return Err("it reads views that nodes have of their own");
        }
        let can = |part: &&'p Part| match &part.columns {
            Some(ColumnRead::Can(c)) if self.asks(c) => match c.tables.iter().any(|t| t.relation.row_security) {
                true => Err("of a table with row-level security, rows are read"),
                false => Ok(&**c),
            },
            Some(ColumnRead::Can(c)) if c.float_sums && !self.columns.float_sums => {
                Err("a sum of floats depends on the order of rows, and herd.column_float_sums is off")
            }
            Some(ColumnRead::Can(c)) if c.bounded => {
                Err("an index may serve it better, and herd.columns is auto (on asks columns all the same)")
            }
            _ => Err("another part of the statement is read from rows"),
        };
        let reads = parts.iter().map(can).collect::<std::result::Result<Vec<_>, _>>()?;
        let is_text = |visible: usize| (0..visible).all(|i| request.bound.map_or(0, |b| b.result_format(i)) == 0);
        let can_finish = match finish {
            // As stores print them, and no setting of the session's in another way.
            Finish::PassOn { .. } => {
                let shown = compiled.described.get().and_then(|d| Some(d.fields.as_ref()?.len()));
                shown.is_some_and(is_text) && reads[0].types.iter().all(is_plain)
            }
            Finish::Merge(merge) => merge.otherwise.is_some(),
            Finish::Statement(s) => !s.as_described,
            Finish::AddUp(_) => true,
        };
        match can_finish {
            true => Ok(reads),
            false => Err("its rows are passed on as nodes print them"),
        }
    }

    /// The client's role may read the columns, by what home says; how long the statement may take. An error is PostgreSQL's to tell,
    /// where it reads rows.
    pub(super) async fn may_read(&mut self, reads: &[&ColumnPart]) -> Option<Option<Duration>> {
        const LIMIT: &str = "(EXTRACT(epoch FROM pg_catalog.current_setting('statement_timeout')::pg_catalog.interval) OPERATOR(pg_catalog.*) 1000)::pg_catalog.int8";
        let mut asked = vec![LIMIT.to_string()];
        for ColumnTable { relation, columns } in reads.iter().flat_map(|read| &read.tables) {
            let columns: Vec<_> = columns.iter().map(|name| quote_ident(name)).collect();
            let name = qualified(&relation.schema, &relation.name);
            asked.push(format!("(SELECT 1 FROM (SELECT {} FROM {name} WHERE false) AS x)", columns.join(", ")));
        }
        let rows = self.ask_home(&format!("SELECT {}", asked.join(", "))).await.ok()?;
        let ms: u64 = rows.first()?.first()?.as_deref()?.parse().ok()?;
        Some((ms > 0).then(|| Duration::from_millis(ms)))
    }

    /// What each node's store is asked, for all parts together: they are of one moment of the node, as rows are, which one statement reads. Or why
    /// rows are to be read.
    pub(super) async fn all_questions(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        (parts, reads): (&[&Part], &[&ColumnPart]),
        bound: &Bound,
    ) -> Result<std::result::Result<Questions, WhyRows>> {
        let mut questions = Questions::new();
        for (place, (part, read)) in parts.iter().zip(reads).enumerate() {
            let nodes = self.part_nodes(compiled, request, part).await?;
            let servers = self.herd.servers_of(&self.epoch.snapshot, nodes);
            let Ok(Ok(servers)) = tokio::time::timeout(SERVER_MAX, servers).await else {
                return Ok(Err("a node does not say which server it is"));
            };
            let Some(asked) = self.questions(read, servers, bound) else {
                return Ok(Err("a node has no store that this router knows, or a parameter is of another type"));
            };
            for (node, store, asked) in asked {
                let of_node = questions.entry(node).or_insert_with(|| (store, vec![]));
                of_node.1.push((place, asked));
            }
        }
        Ok(Ok(questions))
    }

    /// What is asked of each store; `None`: a node has none, or a parameter is not what columns were planned for.
    fn questions(
        &self,
        read: &ColumnPart,
        servers: Vec<(NodeId, Arc<str>)>,
        bound: &Bound,
    ) -> Option<Vec<(NodeId, Store, Asked)>> {
        let sql = text(read, &read.text, bound, &self.now)?;
        let by_first_bytes = read.by_first_bytes.as_ref().and_then(|by| text(read, by, bound, &self.now));
        let mut asked = Vec::with_capacity(servers.len());
        for (node, server) in servers {
            let store = self.herd.store(&self.epoch.snapshot, node)?.clone();
            let table = |t: &ColumnTable| {
                Some(TableAsked::of(t.relation.column_copy.as_ref()?.id, &t.relation, &t.columns, node))
            };
            let tables = read.tables.iter().map(table).collect::<Option<Vec<_>>>()?;
            let types = read.types.iter().map(ToString::to_string).collect();
            let (sql, by_first_bytes) = (sql.clone(), by_first_bytes.clone());
            let (in_pieces, fresh) = (read.in_pieces, self.columns);
            asked.push((node, store, Asked { tables, types, sql, by_first_bytes, in_pieces, fresh, server }));
        }
        Some(asked)
    }

    async fn finish_columns(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        finish: &Finish,
        described: &Described,
        (parts, answers): (&[&Part], Vec<Vec<Row>>),
    ) -> Result<String> {
        let bound = described.parameters(request);
        let otherwise = match finish {
            Finish::PassOn { slice, .. } => {
                return self.pass_on_columns(request, described, *slice, answers).await;
            }
            Finish::AddUp(AddUp { functions, otherwise, .. }) => {
                let columns = self.part_columns(compiled, parts, &bound).await?;
                let rows = answers
                    .iter()
                    .flatten()
                    .map(|row| row.iter().map(|v| v.as_ref().map(|v| v.clone().into_bytes())).collect());
                let partials: Vec<_> = rows.collect();
                if let Some(row) = add_up::row(functions, &columns[0], described, request, &partials) {
                    self.describe_to_client(request, described);
                    self.client.tell(Answer::Row(&row.iter().map(|v| v.as_deref()).collect::<Vec<_>>()));
                    return Ok("SELECT 1".into());
                }
                otherwise
            }
            Finish::Merge(Merge { otherwise: Some(text), .. }) => text,
            Finish::Statement(s) => &s.text,
            Finish::Merge(_) => return Err(ExecError::internal("columns can't be merged")),
        };
        let columns = self.part_columns(compiled, parts, &bound).await?;
        let mut held = Vec::with_capacity(answers.len());
        for (rows, c) in answers.iter().zip(columns.iter()) {
            let mut arrays = Arrays::of_text(c.fields.len());
            for row in rows {
                arrays.push(&row.iter().map(|v| v.as_deref().map(str::as_bytes)).collect::<Vec<_>>())?;
            }
            held.push(PartRows::Held(arrays));
        }
        let answers =
            Answers { whole: compiled.plan.whole(), keep: compiled.keep(request), columns: &columns, rows: held };
        self.finish_over(request, otherwise, described, answers, None).await
    }

    async fn pass_on_columns(
        &mut self,
        request: &Request<'_>,
        described: &Described,
        slice: Slice,
        answers: Vec<Vec<Row>>,
    ) -> Result<String> {
        let (limit, offset) = counts(slice, &described.parameters(request))?;
        let most = limit.map_or(usize::MAX, |l| usize::try_from(l).unwrap_or(usize::MAX));
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        self.describe_to_client(request, described);
        let mut sent = 0;
        for row in answers.iter().flatten().skip(from).take(most) {
            self.client.tell(Answer::Row(&row.iter().map(|v| v.as_deref().map(str::as_bytes)).collect::<Vec<_>>()));
            sent += 1;
            self.client.relieve().await?;
        }
        Ok(format!("SELECT {sent}"))
    }
}

/// What a row takes.
fn bytes(row: &Row) -> usize {
    size_of::<Row>() + row.iter().map(|value| size_of_val(value) + value.as_ref().map_or(0, String::len)).sum::<usize>()
}

/// The store's text of this execution.
fn text(read: &ColumnPart, text: &Text, bound: &Bound, now: &Now) -> Option<String> {
    if !read.params.iter().all(|(n, ty)| bound.types.get(n - 1) == Some(ty)) {
        return None;
    }
    let mut sql = String::new();
    for piece in text.pieces() {
        match piece {
            Piece::Sql(text) => sql.push_str(text),
            Piece::Now => sql.push_str(&parameter(type_oid::TIMESTAMPTZ, Some(now))?),
            Piece::Param(n) => {
                let ty = *bound.types.get(n - 1)?;
                let value = match bound.values.get(n - 1)? {
                    None => None,
                    Some(value) if bound.format(n - 1) == 0 => Some(Cow::Borrowed(&value[..])),
                    Some(value) => Some(text_of(ty, value)?),
                };
                let value = value.as_deref().map(std::str::from_utf8).transpose().ok()?;
                sql.push_str(&parameter(ty, value)?);
            }
            _ => return None,
        }
    }
    Some(sql)
}

/// Why rows are read of what columns could answer.
pub type WhyRows = &'static str;

/// Each node's store, and what it is asked, for which parts.
pub(super) type Questions = BTreeMap<NodeId, (Store, Vec<(usize, Asked)>)>;

/// What one store has said, when, and of which parts.
type OfStore = (NodeId, Instant, Vec<(usize, Vec<Row>)>);

/// What stores say.
type Begun = JoinSet<std::result::Result<OfStore, PoolError>>;

/// Asks all at once. Who drops it wants no answers any more.
fn begin(questions: Questions) -> Begun {
    let mut tasks = JoinSet::new();
    for (node, (store, of_parts)) in questions {
        let (places, asked): (Vec<usize>, Vec<Asked>) = of_parts.into_iter().unzip();
        tasks.spawn(async move {
            let rows = store.rows(&asked).await?;
            Ok((node, Instant::now(), places.into_iter().zip(rows).collect()))
        });
    }
    tasks
}

/// All answers. The outer error is the client's, the inner one only says why rows are to be read.
async fn all_of(mut tasks: Begun, limit: Option<Duration>) -> Result<std::result::Result<Vec<OfStore>, PoolError>> {
    let gather = async {
        let mut all = Vec::with_capacity(tasks.len());
        while let Some(done) = tasks.join_next().await {
            match done.map_err(|_| ExecError::internal("a store's answer was given up"))? {
                Ok(said) => all.push(said),
                Err(why) => return Ok(Err(why)),
            }
        }
        all.sort_unstable_by_key(|(node, ..)| *node);
        Ok(Ok(all))
    };
    match limit {
        None => gather.await,
        Some(limit) => tokio::time::timeout(limit, gather).await.unwrap_or_else(|_| Err(ExecError::late())),
    }
}

/// Printed in one way, whatever the session has set.
fn is_plain(ty: &ColumnType) -> bool {
    !matches!(
        ty,
        ColumnType::Float4
            | ColumnType::Float8
            | ColumnType::Date
            | ColumnType::Timestamp
            | ColumnType::Timestamptz
            | ColumnType::Bytea
    )
}

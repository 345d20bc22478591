//! A read whose parts column copies answer: each store beside a node is asked for its node's rows, and the answer is finished as ever.
//!
//! Any doubt, and whatever a store says that is not rows, leads back to the nodes' rows: a store is never needed. What can be asked of
//! it at all is the plan's to say (`plan/src/columns.rs`), how fresh it has to be the session's. Rights are the client's: home is
//! asked, as the client's role, for no rows of the very columns, while the stores are at it. The store compares the table's name and its shards' with what its
//! node has in the moment it reads.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use catalog::{NodeId, Row, qualified, quote_ident};
use plan::columns::{ColumnPart, ColumnRead, ColumnTable, ColumnType, parameter};
use plan::{AddUp, Finish, Merge, Part, Piece, Planned, Slice, Text};
use pool::PoolError;
use tokio::task::JoinSet;
use txn::Cuts;

use crate::arrays::Arrays;
use crate::binary_text::text_of;
use crate::client::{Answer, Client};
use crate::column_settings::ColumnWay;
use crate::error::{ExecError, Result};
use crate::query::finish::Answers;
use crate::query::part_rows::PartRows;
use crate::query::{add_up, counts};
use crate::request::{Bound, Request};
use crate::router::column_stores::{Asked, Store, TableAsked};
use crate::router::compiled::Compiled;
use crate::router::described::Described;
use crate::work::{Work, answered};

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
        let Some(reads) = self.column_parts(compiled, request, finish, &parts) else { return Ok(None) };
        let bound = described.parameters(request);
        let Some(questions) = self.all_questions(compiled, request, (&parts, &reads), &bound).await? else {
            return Ok(None);
        };
        // Stores begin while home is asked, and are told to stop where it says no.
        let came = Instant::now();
        let begun: Vec<_> = questions.into_iter().map(begin).collect();
        let Some(limit) = self.may_read(&reads).await else { return Ok(None) };
        let mut answers = Vec::with_capacity(parts.len());
        for begun in begun {
            let left = limit.map(|limit| limit.saturating_sub(came.elapsed()));
            let all = tokio::select! {
                biased;
                () = self.client.cancelled() => return Err(ExecError::cancelled()),
                all = all_of(begun, left) => all?,
            };
            match all {
                Ok(of_stores) => answers.push(of_stores),
                Err(why) => {
                    self.herd.columns.passed_over(&why);
                    return Ok(None);
                }
            }
        }
        for (node, came, rows) in answers.iter().flatten() {
            answered::by_columns(*node, rows, *came);
        }
        let answers: Vec<Vec<Row>> =
            answers.into_iter().map(|part| part.into_iter().flat_map(|(_, _, rows)| rows).collect()).collect();
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
        let Planned::Query { tree: Ok(finish), .. } = &compiled.plan else { return Ok(None) };
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
        let Planned::Query { whole, tree: Ok(finish) } = &compiled.plan else { return false };
        let way = self.columns.way;
        let copied = whole.tables.iter().any(|t| t.relation.column_copy.is_some());
        if way == ColumnWay::Off || (shard.is_some() && way != ColumnWay::On) || !copied || whole.writes {
            return false;
        }
        let parts = finish.parts();
        !parts.is_empty() && parts.iter().all(|part| matches!(&part.columns, Some(ColumnRead::Can(c)) if self.asks(c)))
    }

    /// Whether a store is asked what it can be.
    fn asks(&self, part: &ColumnPart) -> bool {
        part.bounded && (part.scans || self.columns.way == ColumnWay::On)
    }

    /// What stores are asked for each part, where each can be.
    pub(super) fn column_parts<'p>(
        &self,
        compiled: &Compiled,
        request: &Request<'_>,
        finish: &Finish,
        parts: &[&'p Part],
    ) -> Option<Vec<&'p ColumnPart>> {
        let t = &self.transaction;
        let alone = !t.is_active() && t.cut.is_empty() && t.wants != Cuts::All && !self.may_repeat();
        let whole = compiled.plan.whole();
        if !alone || self.own_catalog || self.columns.way == ColumnWay::Off || !whole.apart_views.is_empty() {
            return None;
        }
        let can = |part: &&'p Part| match part.columns.as_ref()? {
            ColumnRead::Can(c) if self.asks(c) => Some(&**c),
            _ => None,
        };
        let open = |c: &&ColumnPart| c.tables.iter().all(|t| !t.relation.row_security);
        let reads = parts.iter().map(|part| can(part).filter(open)).collect::<Option<Vec<_>>>()?;
        let is_text = |visible: usize| (0..visible).all(|i| request.bound.map_or(0, |b| b.result_format(i)) == 0);
        let can_finish = match finish {
            // As stores print them, and no setting of the session's in another way.
            Finish::PassOn { .. } => {
                is_text(compiled.described.get()?.fields.as_ref()?.len()) && reads[0].types.iter().all(is_plain)
            }
            Finish::Merge(merge) => merge.otherwise.is_some(),
            Finish::Statement(s) => !s.as_described,
            Finish::AddUp(_) => true,
        };
        can_finish.then_some(reads)
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

    /// What stores are asked for each part; `None`: rows are to be read. So they are where a node would be asked twice: it is one statement
    /// that reads its rows, of one moment, and two questions of a store are of two.
    pub(super) async fn all_questions(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        (parts, reads): (&[&Part], &[&ColumnPart]),
        bound: &Bound,
    ) -> Result<Option<Vec<Questions>>> {
        let mut questions = Vec::with_capacity(parts.len());
        let mut asked_nodes = BTreeSet::new();
        for (part, read) in parts.iter().zip(reads) {
            let nodes = self.part_nodes(compiled, request, part).await?;
            if !nodes.iter().all(|node| asked_nodes.insert(*node)) {
                return Ok(None);
            }
            let Some(asked) = self.questions(read, &nodes, bound) else { return Ok(None) };
            questions.push(asked);
        }
        Ok(Some(questions))
    }

    /// What is asked of each store; `None`: a node has none, or a parameter is not what columns were planned for.
    fn questions(&self, read: &ColumnPart, nodes: &BTreeSet<NodeId>, bound: &Bound) -> Option<Questions> {
        let sql = text(read, &read.text, bound)?;
        let by_first_bytes = read.by_first_bytes.as_ref().and_then(|by| text(read, by, bound));
        let mut asked = Vec::with_capacity(nodes.len());
        for node in nodes {
            let store = self.herd.store(&self.epoch.snapshot, *node)?.clone();
            let table = |t: &ColumnTable| Some(TableAsked::of(t.relation.column_copy.as_ref()?.id, &t.relation, *node));
            let tables = read.tables.iter().map(table).collect::<Option<Vec<_>>>()?;
            let types = read.types.iter().map(ToString::to_string).collect();
            let (sql, by_first_bytes) = (sql.clone(), by_first_bytes.clone());
            asked.push((*node, store, Asked { tables, types, sql, by_first_bytes, fresh: self.columns }));
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
fn text(read: &ColumnPart, text: &Text, bound: &Bound) -> Option<String> {
    if !read.params.iter().all(|(n, ty)| bound.types.get(n - 1) == Some(ty)) {
        return None;
    }
    let mut sql = String::new();
    for piece in text.pieces() {
        match piece {
            Piece::Sql(text) => sql.push_str(text),
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

/// Of one part, each node's store, and what it is asked.
type Questions = Vec<(NodeId, Store, Asked)>;

/// What one store has said, and when.
type OfStore = (NodeId, Instant, Vec<Row>);

/// What stores say, each with its place.
type Begun = JoinSet<(usize, std::result::Result<OfStore, PoolError>)>;

/// Asks all at once. Who drops it wants no answers any more.
fn begin(asked: Questions) -> Begun {
    let mut tasks = JoinSet::new();
    for (at, (node, store, asked)) in asked.into_iter().enumerate() {
        tasks.spawn(async move { (at, store.rows(&asked).await.map(|rows| (node, Instant::now(), rows))) });
    }
    tasks
}

/// All answers. The outer error is the client's, the inner one only says why rows are to be read.
async fn all_of(mut tasks: Begun, limit: Option<Duration>) -> Result<std::result::Result<Vec<OfStore>, PoolError>> {
    let gather = async {
        let mut all = Vec::with_capacity(tasks.len());
        while let Some(done) = tasks.join_next().await {
            match done.map_err(|_| ExecError::internal("a store's answer was given up"))? {
                (at, Ok(said)) => all.push((at, said)),
                (_, Err(why)) => return Ok(Err(why)),
            }
        }
        all.sort_unstable_by_key(|(at, _)| *at);
        Ok(Ok(all.into_iter().map(|(_, said)| said).collect()))
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

//! Runs a utility statement: home first, whose error is the client's before any other node is touched, then the other
//! nodes side by side, then the new epoch. Who commits, and tells the other routers, is the session.

use std::sync::Arc;
use std::time::Instant;
use wire::sqlstate;

use catalog::NodeId;
use sql::NodeEnum;
use tokio::task::JoinSet;
use txn::Participant;
use wire::ErrorFields;

use plan::ddl::facts::{self, Answers};
use plan::ddl::{Ddl, Facts, Mode, NodeSteps, Spread, Step, changes_catalog, classify, is_temporary, with_verifier};

use super::elsewhere::{Elsewhere, holds, is_true, restore_setting, sql_of};
use super::{lock, renew};
use crate::client::{Answer, Client};
use crate::error::{ExecError, Result};
use crate::request::Request;
use crate::route::{Forwarded, Ids, forward};
use crate::router::compiled::{Compiled, Epoch};
use crate::router::pause::CATALOG;
use crate::work::Work;
use crate::work::own_schema::load_own;

/// How many pauses for the catalog's lock a change waits for: some seconds.
const TURNS_MAX: usize = 4;

impl<C: Client> Work<'_, C> {
    /// Runs a utility statement; None if it is not one of this kind. In a transaction afterwards, it is the caller's to
    /// commit. `search_path` and `temporary` are the session's.
    pub async fn ddl(
        &mut self,
        statement: &NodeEnum,
        sql: &str,
        search_path: &[String],
        temporary: &[String],
    ) -> Result<Option<Forwarded>> {
        let mode = Mode::of(statement);
        if mode == Mode::NotDdl || is_temporary(statement, temporary) {
            return Ok(None);
        }
        let block = self.transaction.is_active();
        if mode == Mode::Changes && !block {
            self.give_way().await?;
        }
        if mode != Mode::Plain {
            self.need_transaction();
        }
        let mut salt = [0; 16];
        rand::fill(&mut salt[..]);
        let hashed = with_verifier(statement, &salt);
        let (statement, sql) = match &hashed {
            Some(changed) => (changed, sql::deparse(changed)?),
            None => (statement, sql.to_string()),
        };
        let mut facts = Facts { search_path: search_path.to_vec(), temporary: temporary.to_vec(), ..Facts::default() };
        let mut answers = self.ask(mode, statement, &facts).await?;
        let mut newer = None;
        if answers.epoch != self.epoch.snapshot.epoch {
            newer = Some(self.newer(answers.epoch).await?);
        }
        let own_schema = self.own_schema;
        let epoch = newer.as_ref().unwrap_or(self.epoch);
        let mut work = self.with_epoch(epoch, own_schema);
        if newer.is_some() {
            // What was asked went by the old snapshot's names.
            answers = work.ask(mode, statement, &facts).await?;
        }
        facts.indexes = std::mem::take(&mut answers.indexes);
        facts.index_name = answers.index_name.take();
        let ddl = classify(statement, &sql, &work.epoch.snapshot, &facts);
        let done = work.run_ddl(ddl, statement, &sql, &facts, &answers, block).await;
        match done {
            Ok(forwarded) => Ok(forwarded),
            Err(e) => Err(crate::router::names::restore_error(work.herd, &work.epoch.snapshot, e).await),
        }
    }

    /// Somebody wants the catalog for himself, and has waited for changes that came before: he goes first, for a while.
    async fn give_way(&mut self) -> Result<()> {
        let begun = Instant::now();
        for _ in 0..TURNS_MAX {
            if self.herd.pauses.none() {
                break;
            }
            let limits = self.limits(begun).await?;
            tokio::select! {
                biased;
                () = self.client.cancelled() => return Err(ExecError::cancelled()),
                () = self.herd.pauses.wait(&[CATALOG], true, &[]) => limits.check()?,
            }
        }
        Ok(())
    }

    fn with_epoch<'s>(&'s mut self, epoch: &'s Arc<Epoch>, own_schema: bool) -> Work<'s, C> {
        Work {
            herd: self.herd,
            epoch,
            login: self.login,
            settings: self.settings,
            transaction: self.transaction,
            client: self.client,
            pin: self.pin,
            own_schema,
            taint: self.taint,
            sharing: None,
            sequences: self.sequences.as_deref_mut(),
            uses: self.uses.clone(),
            patience: 0,
            now: self.now.clone(),
            bulk: Default::default(),
            memory: self.memory,
            looks: Default::default(),
        }
    }

    async fn ask(&mut self, mode: Mode, statement: &NodeEnum, facts: &Facts) -> Result<Answers> {
        let question = facts::question(mode, statement, &self.epoch.snapshot, facts);
        Ok(facts::answers(self.ask_home(&question).await?))
    }

    /// The catalog as it is now: a statement classified by an old one could reach too few nodes.
    async fn newer(&mut self, epoch: i64) -> Result<Arc<Epoch>> {
        if self.transaction.is_active() {
            return load_own(self).await;
        }
        self.herd.refresh(Some(epoch)).await?;
        Ok(self.herd.epoch.load_full())
    }

    async fn run_ddl(
        &mut self,
        ddl: Ddl,
        statement: &NodeEnum,
        sql: &str,
        facts: &Facts,
        answers: &Answers,
        block: bool,
    ) -> Result<Option<Forwarded>> {
        let mode = Mode::of(statement);
        let forwarded = match ddl {
            Ddl::NotDdl => return Ok(None),
            Ddl::Refuse(refusal) => return Err(refusal.into()),
            Ddl::Home => {
                let spread = Spread {
                    nodes: vec![NodeSteps { node: self.home(), steps: vec![Step::new(sql)] }],
                    ..Spread::default()
                };
                self.spread(spread, answers, mode == Mode::Changes).await?
            }
            Ddl::Nodes(mut spread) => {
                if let Some(locks) = lock::wanted(statement, &self.epoch.snapshot, facts) {
                    self.take_locks(&locks).await?;
                }
                self.renew(&mut spread, &renew::renewed(statement, &self.epoch.snapshot, facts)).await?;
                self.spread(*spread, answers, mode == Mode::Changes).await?
            }
            Ddl::Autocommit(spread) => {
                if block && spread.nodes.len() > 1 {
                    return Err(ExecError::sql(
                        sqlstate::ACTIVE_SQL_TRANSACTION,
                        format!("{} cannot run inside a transaction block", command(sql)),
                    ));
                }
                self.each_by_itself(*spread).await?
            }
            Ddl::CreateTableAs { create, insert } => self.create_table_as(&create, &insert).await?,
        };
        if mode == Mode::Plain && changes_catalog(statement) && !block {
            // What PostgreSQL does not do in a transaction is done; now the routers must hear of it.
            self.need_transaction();
            self.join_all().await?;
            self.raises_epoch();
        }
        if matches!(mode, Mode::Uses | Mode::Changes) {
            // A table that became distributed meanwhile is on other nodes, too, and a node that has come needs all of it.
            self.same_kinds().await?;
        }
        Ok(Some(forwarded))
    }

    /// The transaction changes the catalog: routers hear of it when it commits.
    pub fn raises_epoch(&mut self) {
        self.transaction.raises_epoch = Some(self.home());
        self.transaction.schema_mark = self.herd.next_transaction();
    }

    /// Runs the steps: in the transaction, if there is one.
    async fn spread(&mut self, spread: Spread, answers: &Answers, bump: bool) -> Result<Forwarded> {
        self.prepare(&spread).await?;
        let Spread { nodes, tag, settings, unqualified, read_only, .. } = spread;
        let mut nodes = nodes.into_iter();
        let Some(first) = nodes.next() else { return Err(ExecError::internal("a utility statement for no node")) };
        if bump {
            self.raises_epoch();
        }
        let mut forwarded = self.at_home(first, tag.is_none(), !read_only).await?;
        if let Some(tag) = tag {
            forwarded.tag = tag.to_string();
        }

        let mut tasks = JoinSet::new();
        let mut failure = None;
        for n in nodes {
            let mut p = match self.lane(n.node).await {
                Ok(p) => p,
                Err(e) => {
                    failure = Some((n.node, e));
                    break;
                }
            };
            p.wrote |= !read_only;
            let texts = Elsewhere {
                steps: n.steps,
                now: self.now.clone(),
                before: settings.iter().map(|(name, value)| format!("SET LOCAL {name} = {value}")).collect(),
                after: settings.iter().map(|(name, _)| restore_setting(name, self.settings.get(name))).collect(),
                schema: unqualified.then(|| answers.current_schema.clone()),
            };
            tasks.spawn(async move {
                let done = texts.run(&mut p).await;
                (p, done)
            });
        }
        while let Some(joined) = tasks.join_next().await {
            let Ok((p, done)) = joined else {
                return Err(ExecError::internal("a node's part of a utility statement was given up"));
            };
            let node = p.lane.node;
            self.put_back(p).await;
            if let Err(e) = done
                && failure.as_ref().is_none_or(|(n, _)| node < *n)
            {
                failure = Some((node, e));
            }
        }
        match failure {
            Some((node, e)) => Err(self.on_node(node, e)),
            None => Ok(forwarded),
        }
    }

    /// Home's steps; the client sees the first.
    async fn at_home(&mut self, n: NodeSteps, forward_first: bool, wrote: bool) -> Result<Forwarded> {
        let mut p = self.lane(n.node).await?;
        p.wrote |= wrote;
        let done = async {
            let mut forwarded = Forwarded::default();
            for (i, step) in n.steps.iter().enumerate() {
                let sql = sql_of(step, &self.now);
                if i == 0 && forward_first {
                    p.lane.put_query(&sql);
                    p.lane.conn.flush().await?;
                    forwarded = forward(&mut p.lane, self.client, true, Ids::Home).await?;
                } else if holds(&mut p, step).await? {
                    p.lane.run(&sql).await?;
                }
            }
            Ok(forwarded)
        }
        .await;
        self.put_back(p).await;
        done
    }

    /// On each node outside of a transaction. What was done before a failure is undone.
    async fn each_by_itself(&mut self, spread: Spread) -> Result<Forwarded> {
        self.prepare(&spread).await?;
        let mut forwarded = Forwarded::default();
        let mut begun = Vec::new();
        for n in &spread.nodes {
            let home = n.node == self.home();
            let mut p = self.lane(n.node).await?;
            let mut done = Ok(());
            for (i, step) in n.steps.iter().enumerate() {
                done = self.one_step(&mut p, step, home && i == 0, &mut forwarded).await;
                if done.is_err() {
                    break;
                }
                if i == 0 {
                    begun.push(n.node);
                }
            }
            self.put_back(p).await;
            if let Err(e) = done {
                // A concurrent build that failed leaves an invalid index behind; one that was there before is not ours to drop.
                if !begun.contains(&n.node) && e.code() != sqlstate::DUPLICATE_TABLE {
                    begun.push(n.node);
                }
                self.undo(&begun, &spread.undo).await;
                return Err(if home { e } else { self.on_node(n.node, e) });
            }
        }
        Ok(forwarded)
    }

    async fn one_step(&mut self, p: &mut Participant, step: &Step, own: bool, forwarded: &mut Forwarded) -> Result<()> {
        if !holds(p, step).await? {
            return Ok(());
        }
        if own {
            p.lane.put_query(&sql_of(step, &self.now));
            p.lane.conn.flush().await?;
            *forwarded = forward(&mut p.lane, self.client, true, Ids::Home).await?;
        } else {
            p.lane.run(&sql_of(step, &self.now)).await?;
        }
        Ok(())
    }

    async fn undo(&mut self, nodes: &[NodeId], texts: &[String]) {
        for &node in nodes {
            let Ok(mut p) = self.lane(node).await else { continue };
            for sql in texts {
                if let Err(e) = p.lane.run(sql).await {
                    tracing::warn!(node, error = %e, "could not undo a part of a statement");
                }
            }
            self.put_back(p).await;
        }
    }

    /// Every node takes part in the transaction.
    async fn join_all(&mut self) -> Result<()> {
        let nodes: Vec<NodeId> = self.epoch.snapshot.nodes.iter().map(|n| n.id).collect();
        for node in nodes {
            let mut p = self.lane(node).await?;
            p.wrote = true;
            self.put_back(p).await;
        }
        Ok(())
    }

    /// The empty table, then its rows as an INSERT … SELECT of the transaction's own schema.
    async fn create_table_as(&mut self, create: &str, insert: &str) -> Result<Forwarded> {
        let home = self.home();
        let mut p = self.lane(home).await?;
        let made = async {
            p.lane.put_query(create);
            p.lane.conn.flush().await?;
            forward(&mut p.lane, self.client, false, Ids::Home).await
        }
        .await;
        self.put_back(p).await;
        made?;
        let epoch = load_own(self).await?;
        let search_path = self.ask_home("SELECT pg_catalog.unnest(pg_catalog.current_schemas(true))").await?;
        let search_path: Vec<String> = search_path.into_iter().flatten().flatten().collect();
        let mut work = self.with_epoch(&epoch, true);
        let statement = sql::parse(insert, true)?.pop().ok_or_else(|| ExecError::internal("no statement"))?;
        let cx = plan::Context::new(&epoch.snapshot, &search_path, &[]);
        let compiled = Compiled::new(plan::plan(&statement, insert, &cx)?, insert, 0, None);
        let inserted = work.run(&compiled, &Request::simple(insert)).await?;
        work.raises_epoch();
        Ok(Forwarded { tag: format!("SELECT {}", wire::backend::rows_of_tag(&inserted.tag)), ..inserted })
    }

    /// What comes before anything is changed: the warning, the checks, the privileges.
    async fn prepare(&mut self, spread: &Spread) -> Result<()> {
        if let Some(warning) = &spread.warning {
            let warning = ErrorFields::with_severity("WARNING", sqlstate::WARNING, warning.clone());
            self.client.tell(Answer::Notice(&warning));
        }
        for check in &spread.checks {
            for n in &spread.nodes {
                let mut p = self.lane(n.node).await?;
                let answer = p.lane.rows(&check.sql).await;
                self.put_back(p).await;
                if is_true(&answer?) {
                    return Err(check.refusal.clone().into());
                }
            }
        }
        match &spread.rights {
            Some(rights) => self.grant_rights(rights, spread.nodes.iter().map(|n| n.node)).await,
            None => Ok(()),
        }
    }

    /// Says which node an error came from: the client knows only one server.
    fn on_node(&self, node: NodeId, e: ExecError) -> ExecError {
        let mut fields = e.to_fields();
        let name = self.epoch.snapshot.node(node).map_or_else(|| node.to_string(), |n| n.name.clone());
        let context = match fields.get(b'W') {
            Some(context) => format!("{context}\non node \"{name}\""),
            None => format!("on node \"{name}\""),
        };
        fields.set(b'W', context);
        ExecError::Sql(Box::new(fields))
    }
}

/// The command's name, for PostgreSQL's own error message.
fn command(sql: &str) -> String {
    let words: Vec<String> = sql.split_whitespace().map(str::to_uppercase).collect();
    let concurrently = words.iter().any(|w| w == "CONCURRENTLY");
    match words.first().map(String::as_str) {
        Some("CREATE") => "CREATE INDEX CONCURRENTLY".into(),
        Some("DROP") => "DROP INDEX CONCURRENTLY".into(),
        Some(first) if concurrently => format!("{first} CONCURRENTLY"),
        Some(first) => first.into(),
        None => String::new(),
    }
}

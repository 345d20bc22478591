//! EXPLAIN: the strategy, the shards pruned to, each node's statement, and the nodes' own plans. How that reads in each format is
//! not known here.

use std::time::Instant;
use wire::sqlstate;

use exec::{Compiled, ExecError, Forwarded, OtherWay, Request};
use sql::ast::{self, a_const::Val};
use sql::{NodeEnum, build};
use wire::backend::{self, Field};

mod columns;
mod shown;

use self::shown::{Explained, Format, NodePlan};
use crate::held::Held;
use crate::sequences::asks_elsewhere;
use crate::session::{Result, Session};

impl Session {
    /// The router's plan with those of the nodes, or a node's own word alone. `described`: the client gets RowDescription, too.
    pub async fn explain(&mut self, e: &ast::ExplainStmt, sql: &str, described: bool) -> Result<Forwarded> {
        let Some(tree) = e.query.as_deref().and_then(|q| q.node.clone()) else {
            return self.on_home_described(sql, described).await;
        };
        if let NodeEnum::CreateTableAsStmt(c) = &tree {
            if is_on(e, "analyze") {
                return Err(ExecError::sql(
                    sqlstate::FEATURE_NOT_SUPPORTED,
                    "EXPLAIN ANALYZE of a statement that makes a table is not supported through the router",
                )
                .hint("Use EXPLAIN ANALYZE of its query, or the statement without EXPLAIN."));
            }
            let query = ast::ExplainStmt { query: c.query.clone(), ..e.clone() };
            let text = sql::deparse(&NodeEnum::ExplainStmt(Box::new(query.clone())))?;
            return Box::pin(self.explain(&query, &text, described)).await;
        }
        let reads_sequences = match self.decide(&tree, &[])?.plan {
            // Run statement by statement it has no plan.
            plan::Plan::Session(plan::Own::Code) => false,
            plan => match plan.rows() {
                Some(does) => does.special.reads_sequences,
                None => return self.on_home_described(sql, described).await,
            },
        };
        let text = sql::deparse(&tree)?;
        let tree = sql::parse(&text, true)?.pop().ok_or_else(|| ExecError::internal("empty statement"))?;
        let mut compiled = self.compile(&tree, &text).await;
        let mut text = text;
        // What other nodes would be asked for is asked before, as when it runs.
        if reads_sequences
            && asks_elsewhere(&compiled)
            && let Some((asked, asked_text)) = self.with_values_of_home(&tree).await?
        {
            compiled = self.compile(&asked, &asked_text).await;
            text = asked_text;
        }
        let compiled = compiled?;
        self.work().may_by_rule(&compiled, &Request::simple(&text)).await?;
        // ANALYZE runs it; without, too, nodes lock what they plan.
        if self.begins_anew(&compiled).await? {
            return Box::pin(self.explain(e, sql, described)).await;
        }
        if compiled.plan.whole().unread {
            self.work().described(&compiled, &[]).await?;
        }
        let text = compiled.plan.whole().rewritten.clone().unwrap_or(text);
        let goes_as_it_is =
            matches!(compiled.plan, plan::Planned::Forward(_)) && !self.work().one_asks_columns(&compiled, None);
        if goes_as_it_is && compiled.plan.whole().rewritten.is_some() {
            let mut rewritten = e.clone();
            rewritten.query = sql::parse(&text, true)?.pop().map(|t| Box::new(build::node(t)));
            let text = sql::deparse(&NodeEnum::ExplainStmt(Box::new(rewritten)))?;
            return self.on_home_described(&text, described).await;
        }
        if goes_as_it_is {
            return self.on_home_described(sql, described).await;
        }
        let request = Request::simple(&text);
        let format = Format::of(option(e, "format").as_deref());
        let placed = self.work().place(&compiled, &request).await?;
        let by_columns = match format {
            Some(_) => self.explain_columns(&compiled, e, &request, &placed).await?,
            None => Err(None),
        };
        let why = by_columns.as_ref().err().cloned().flatten();
        let mut explained = match (placed, format) {
            _ if let Ok(explained) = by_columns => explained,
            (exec::Placed::One(node, shard), Some(Format::Text)) => {
                self.explain_one(&compiled, e, &text, (node, shard)).await?
            }
            // The node's own document; or it says which formats there are.
            (exec::Placed::One(node, _), _) => return self.on_node(node, sql, described).await,
            (exec::Placed::Several(_), None) => return self.on_home_described(sql, described).await,
            (exec::Placed::Several(_), Some(_)) => self.explain_several(&compiled, e, &request).await?,
        };
        columns::from_rows(&mut explained.details, why.as_deref());
        let format = format.unwrap_or(Format::Text);
        let rows = explained.show(format)?;
        if described {
            backend::row_description(self.out(), &[Field::new("QUERY PLAN", format.type_oid(), -1)]);
        }
        for row in &rows {
            backend::data_row(self.out(), std::iter::once(Some(row.as_bytes())));
        }
        Ok(Forwarded { tag: "EXPLAIN".into(), ..Default::default() })
    }

    async fn explain_one(
        &mut self,
        compiled: &Compiled,
        e: &ast::ExplainStmt,
        text: &str,
        (node, shard): (i32, Option<i32>),
    ) -> Result<Explained> {
        let started = Instant::now();
        let shown = of_one_node(shard);
        // Who may not use the table's schema may not be told by its shard either.
        let of = shard;
        let shard = self.work().nameable(compiled, &Request::simple(text), shard).await?;
        let statement = shard.and_then(|s| compiled.spliced(text, None, s)).unwrap_or_else(|| text.to_string());
        let nodes = vec![self.explain_node(e, node, statement).await?];
        let time = is_on(e, "analyze").then(|| started.elapsed());
        let columns = match self.work().one_asks_columns(compiled, of) {
            true => plan::explain::describe_columns(&compiled.plan),
            false => vec![],
        };
        let details = shown.into_iter().chain(labelled(columns)).chain(self.standbys_said(compiled)).collect();
        Ok(Explained { strategy: "route", details, nodes, answered: vec![], rows: None, time })
    }

    async fn explain_several(
        &mut self,
        compiled: &Compiled,
        e: &ast::ExplainStmt,
        request: &Request<'_>,
    ) -> Result<Explained> {
        let started = Instant::now();
        if let Some(refusal) = compiled.plan.refusal() {
            return Err(refusal.clone().into());
        }
        let options = for_nodes(e);
        // Its parts may be none, or less than it does: home says who may.
        let home = self.epoch.snapshot.home;
        self.explain_node(&options, home, request.sql.to_string()).await?;
        let way = self.work().way(compiled, request).await?;
        let described = match &way {
            Some(OtherWay::Semijoined(statement, chosen)) => {
                plan::explain::describe_semijoins(&compiled.plan, statement, chosen)
            }
            Some(OtherWay::Sent(_, way)) => plan::explain::describe_way(&compiled.plan, way),
            Some(OtherWay::Shuffled(_, shuffle)) => plan::explain::describe_shuffle(&compiled.plan, shuffle),
            None => plan::explain::describe(&compiled.plan),
        };
        let mut details: Vec<(String, String)> = labelled(described).collect();
        details.extend(self.pruned(compiled, request).await?);
        if way.is_none() {
            details.extend(self.standbys_said(compiled));
        }
        let mut nodes = Vec::new();
        let statements = match way {
            Some(OtherWay::Sent(_, way)) => self.read_statements(way, request),
            Some(OtherWay::Shuffled(..) | OtherWay::Semijoined(..)) | None => {
                self.node_statements(compiled, request).await?
            }
        };
        for (node, statement) in statements {
            nodes.push(self.explain_node(&options, node, statement).await?);
        }
        let mut explained = Explained {
            strategy: compiled.plan.strategy().as_str(),
            details,
            nodes,
            answered: vec![],
            rows: None,
            time: None,
        };
        if is_on(e, "analyze") {
            self.analyze(compiled, request, &mut explained, started).await?;
            // Stores that don't tell their plans: what nodes would have done is nothing that was done.
            if explained.is_by_columns() {
                explained.nodes.clear();
            }
        }
        Ok(explained)
    }

    /// Runs it, and takes up what has come of it.
    async fn analyze(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        explained: &mut Explained,
        started: Instant,
    ) -> Result<()> {
        let mut held = Held::new(&self.memory);
        let began = !self.transaction.is_active();
        let (done, nodes) = exec::looking(self.hold(compiled, request, &mut held)).await;
        let done = done?;
        if began {
            self.finish_implicit(false).await?;
        }
        explained.rows = Some(backend::rows_of_tag(&done.tag));
        explained.time = Some(started.elapsed());
        explained.answered = nodes.into_iter().map(|(node, answered)| (self.node_name(node), answered)).collect();
        Ok(())
    }

    /// Which state is read, if it is not the primaries'. The plans shown are theirs.
    fn standbys_said(&self, compiled: &Compiled) -> Option<(String, String)> {
        let said = compiled.plan.whole().by_standby && self.reads_standbys() && !self.transaction.is_active();
        said.then(|| ("Standbys".into(), "may answer, of each node with a state of its own".into()))
    }

    /// How many shards of each table are looked at.
    async fn pruned(&mut self, compiled: &Compiled, request: &Request<'_>) -> Result<Vec<(String, String)>> {
        let mut all = Vec::new();
        for t in &compiled.plan.whole().tables {
            let Some(d) = t.relation.distribution() else { continue };
            let most = d.group.shards.len();
            let some = self.work().shards_of(compiled, request, t).await?.map_or(most, |s| s.len());
            all.push((format!("Shards of {}", t.relation.name), format!("{some} of {most}")));
        }
        Ok(all)
    }

    /// The statement each node gets.
    async fn node_statements(&mut self, compiled: &Compiled, request: &Request<'_>) -> Result<Vec<(i32, String)>> {
        let mut all = Vec::new();
        for part in plan::explain::parts(&compiled.plan) {
            let sql = self.work().statement_text(&part.text, request);
            let nodes = self.work().part_nodes(compiled, request, part).await?;
            all.extend(nodes.into_iter().map(|n| (n, sql.clone())));
        }
        Ok(all)
    }

    /// What each node is asked before the statement, whose rows are not there yet.
    fn read_statements(&mut self, way: &plan::InTurn, request: &Request<'_>) -> Vec<(i32, String)> {
        let work = self.work();
        let reads = way.turns.iter().filter(|turn| turn.query.is_some());
        let texts = reads.map(|turn| (exec::nodes_of(turn), work.statement_text(&turn.text, request)));
        texts.flat_map(|(nodes, sql)| nodes.into_iter().map(move |n| (n, sql.clone()))).collect()
    }

    fn node_name(&self, node: i32) -> String {
        let node_of = self.epoch.snapshot.node(node);
        node_of.map_or_else(|| node.to_string(), |n| format!("{} ({}:{})", n.name, n.host, n.port))
    }

    async fn explain_node(&mut self, e: &ast::ExplainStmt, node: i32, statement: String) -> Result<NodePlan> {
        let name = self.node_name(node);
        let mut explain = e.clone();
        explain.query = sql::parse(&statement, true)?.pop().map(|t| Box::new(build::node(t)));
        let explain = sql::deparse(&NodeEnum::ExplainStmt(Box::new(explain)))?;
        let mut work = self.work();
        let mut p = work.lane(node).await?;
        p.wrote = true;
        let rows = p.lane.rows(&explain).await;
        work.put_back(p).await;
        let plan = rows?.into_iter().filter_map(|r| r.into_iter().next().flatten()).collect();
        Ok(NodePlan { name, statement, plan })
    }
}

fn option(e: &ast::ExplainStmt, name: &str) -> Option<String> {
    // The last one counts.
    e.options.iter().rev().find_map(|o| match &o.node {
        Some(NodeEnum::DefElem(d)) if d.defname == name => Some(match d.arg.as_deref().and_then(|a| a.node.as_ref()) {
            Some(NodeEnum::String(s)) => s.sval.clone(),
            Some(NodeEnum::Integer(i)) => i.ival.to_string(),
            Some(NodeEnum::Boolean(b)) => b.boolval.to_string(),
            Some(NodeEnum::AConst(c)) => match &c.val {
                Some(Val::Sval(s)) => s.sval.clone(),
                _ => "true".into(),
            },
            _ => "true".into(),
        }),
        _ => None,
    })
}

/// What is said of a statement that one node answers: which shard that is.
fn of_one_node(shard: Option<i32>) -> [(String, String); 2] {
    let which = match shard {
        Some(s) => ("Shard".to_string(), s.to_string()),
        None => ("Shards".to_string(), "those on one node".to_string()),
    };
    [("How".to_string(), "one node has all of it".to_string()), which]
}

fn labelled(said: Vec<(&'static str, String)>) -> impl Iterator<Item = (String, String)> {
    said.into_iter().map(|(label, value)| (label.to_string(), value))
}

fn is_on(e: &ast::ExplainStmt, name: &str) -> bool {
    option(e, name).is_some_and(|v| matches!(v.to_ascii_lowercase().as_str(), "true" | "on" | "1"))
}

/// What several nodes are asked: for their plans alone, as the statement itself is run once, as a whole; in JSON, of which all
/// formats but text are made.
fn for_nodes(e: &ast::ExplainStmt) -> ast::ExplainStmt {
    let mut e = e.clone();
    let of_whole = ["analyze", "timing", "wal", "serialize", "buffers"];
    let as_text = matches!(Format::of(option(&e, "format").as_deref()), Some(Format::Text));
    e.options.retain(|o| match &o.node {
        Some(NodeEnum::DefElem(d)) => !of_whole.contains(&&*d.defname) && (as_text || d.defname != "format"),
        _ => true,
    });
    if !as_text {
        e.options.push(build::node(NodeEnum::DefElem(Box::new(ast::DefElem {
            defname: "format".into(),
            arg: Some(Box::new(build::node(NodeEnum::String(ast::String { sval: "json".into() })))),
            defaction: ast::DefElemAction::DefelemUnspec as i32,
            ..Default::default()
        }))));
    }
    e
}

//! EXPLAIN: the strategy, the shards pruned to, each node's statement, and the nodes' own plans.

use std::time::Instant;
use wire::sqlstate;

use exec::{Compiled, ExecError, Forwarded, Request};
use sql::ast::{self, a_const::Val};
use sql::{NodeEnum, build};
use wire::backend::{self, Field};

use crate::held::Held;
use crate::sequences::asks_elsewhere;
use crate::session::{Result, Session};
use crate::special::special;

impl Session {
    pub async fn explain(&mut self, e: &ast::ExplainStmt, sql: &str, described: bool) -> Result<Forwarded> {
        let Some(tree) = e.query.as_deref().and_then(|q| q.node.clone()) else {
            return self.on_home_described(sql, described).await;
        };
        let planned = matches!(
            tree,
            NodeEnum::SelectStmt(_)
                | NodeEnum::InsertStmt(_)
                | NodeEnum::UpdateStmt(_)
                | NodeEnum::DeleteStmt(_)
                | NodeEnum::MergeStmt(_)
        );
        if !planned || exec::recognise(&tree).is_some() {
            return self.on_home_described(sql, described).await;
        }
        let text = sql::deparse(&tree)?;
        let tree = sql::parse(&text, true)?.pop().ok_or_else(|| ExecError::internal("empty statement"))?;
        let mut compiled = self.compile(&tree, &text, None).await;
        let mut text = text;
        // What other nodes would be asked for is asked before, as when it runs.
        if special(&tree, &self.epoch.snapshot).reads_sequences
            && asks_elsewhere(&compiled)
            && let Some((asked, asked_text)) = self.with_values_of_home(&tree).await?
        {
            compiled = self.compile(&asked, &asked_text, None).await;
            text = asked_text;
        }
        let compiled = compiled?;
        let text = compiled.plan.whole().rewritten.clone().unwrap_or(text);
        if matches!(compiled.plan, plan::Plan::Forward(_)) && compiled.plan.whole().rewritten.is_some() {
            let mut rewritten = e.clone();
            rewritten.query = sql::parse(&text, true)?.pop().map(|t| Box::new(build::node(t)));
            let text = sql::deparse(&NodeEnum::ExplainStmt(Box::new(rewritten)))?;
            return self.on_home_described(&text, described).await;
        }
        if matches!(compiled.plan, plan::Plan::Forward(_)) {
            return self.on_home_described(sql, described).await;
        }
        let format = option(e, "format").unwrap_or_else(|| "text".into()).to_ascii_lowercase();
        if format != "text" {
            return self.explain_one(&compiled, e, sql, described).await;
        }
        let lines = self.explain_lines(&compiled, e, &text).await?;
        if described {
            backend::row_description(self.out(), &[Field::text("QUERY PLAN")]);
        }
        for line in &lines {
            backend::data_row(self.out(), std::iter::once(Some(line.as_bytes())));
        }
        Ok(Forwarded { tag: "EXPLAIN".into(), ..Default::default() })
    }

    /// JSON, XML and YAML: the node's own document where there is one node.
    async fn explain_one(
        &mut self,
        compiled: &Compiled,
        e: &ast::ExplainStmt,
        sql: &str,
        described: bool,
    ) -> Result<Forwarded> {
        let request = Request::simple(&compiled.text);
        match self.work().place(compiled, &request).await? {
            exec::Placed::One(node, _) => self.on_node(node, sql, described).await,
            exec::Placed::Several(_) => {
                let format = option(e, "format").unwrap_or_default();
                Err(ExecError::sql(
                    sqlstate::FEATURE_NOT_SUPPORTED,
                    format!("EXPLAIN (FORMAT {format}) over several nodes is not supported"),
                )
                .hint("Use the text format."))
            }
        }
    }

    async fn explain_lines(&mut self, compiled: &Compiled, e: &ast::ExplainStmt, text: &str) -> Result<Vec<String>> {
        let analyze = is_on(e, "analyze");
        let request = Request::simple(text);
        let mut lines = Vec::new();
        let placed = self.work().place(compiled, &request).await?;
        let started = Instant::now();
        match placed {
            exec::Placed::One(node, shard) => {
                let spliced = shard.and_then(|s| compiled.spliced(text, None, s));
                lines.push("Herd route".to_string());
                lines.push(match shard {
                    Some(s) => format!("  Shard: {s}"),
                    None => "  Shards: those on one node".to_string(),
                });
                let statement = spliced.unwrap_or_else(|| text.to_string());
                self.explain_node(&mut lines, e, node, &statement).await?;
            }
            exec::Placed::Several(_) => {
                lines.push(format!("Herd {}", compiled.plan.strategy().as_str()));
                if let Some(refusal) = compiled.plan.refusal() {
                    return Err(refusal.clone().into());
                }
                lines.extend(plan::explain::describe(&compiled.plan).into_iter().map(|l| format!("  {l}")));
                lines.extend(self.pruned(compiled, &request).await?);
                for (node, statement) in self.node_statements(compiled, &request).await? {
                    self.explain_node(&mut lines, &without_analyze(e), node, &statement).await?;
                }
                if analyze {
                    let mut held = Held::new(&self.memory);
                    let began = !self.transaction.is_active();
                    let done = self.hold(compiled, &request, &mut held).await?;
                    if began {
                        self.finish_implicit(false).await?;
                    }
                    lines.push(format!("Rows: {}", backend::rows_of_tag(&done.tag)));
                }
            }
        }
        if analyze {
            lines.push(format!("Execution Time: {:.3} ms", started.elapsed().as_secs_f64() * 1000.0));
        }
        Ok(lines)
    }

    /// How many shards of each table are looked at.
    async fn pruned(&mut self, compiled: &Compiled, request: &Request<'_>) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        for t in &compiled.plan.whole().tables {
            let Some(d) = t.relation.distribution() else { continue };
            let all = d.group.shards.len();
            let some = self.work().shards_of(compiled, request, t).await?.map_or(all, |s| s.len());
            lines.push(format!("  Shards of {}: {some} of {all}", t.relation.name));
        }
        Ok(lines)
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

    async fn explain_node(
        &mut self,
        lines: &mut Vec<String>,
        e: &ast::ExplainStmt,
        node: i32,
        statement: &str,
    ) -> Result<()> {
        let name = self
            .epoch
            .snapshot
            .node(node)
            .map_or_else(|| node.to_string(), |n| format!("{} ({}:{})", n.name, n.host, n.port));
        lines.push(format!("  Node: {name}"));
        lines.push(format!("    Statement: {statement}"));
        let mut explain = e.clone();
        explain.query = sql::parse(statement, true)?.pop().map(|t| Box::new(build::node(t)));
        let explain = sql::deparse(&NodeEnum::ExplainStmt(Box::new(explain)))?;
        let mut work = self.work();
        let mut p = work.lane(node).await?;
        p.wrote = true;
        let rows = p.lane.rows(&explain).await;
        work.put_back(p).await;
        lines.extend(rows?.into_iter().filter_map(|r| r.into_iter().next().flatten()).map(|l| format!("    {l}")));
        Ok(())
    }
}

fn option(e: &ast::ExplainStmt, name: &str) -> Option<String> {
    e.options.iter().find_map(|o| match &o.node {
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

fn is_on(e: &ast::ExplainStmt, name: &str) -> bool {
    option(e, name).is_some_and(|v| matches!(v.to_ascii_lowercase().as_str(), "true" | "on" | "1"))
}

/// The nodes' plans alone: the statement itself is run once, as a whole.
fn without_analyze(e: &ast::ExplainStmt) -> ast::ExplainStmt {
    let mut e = e.clone();
    let only_analyze = ["analyze", "timing", "wal", "serialize", "buffers"];
    e.options.retain(|o| !matches!(&o.node, Some(NodeEnum::DefElem(d)) if only_analyze.contains(&d.defname.as_str())));
    e
}

//! Backends as clients know them: the router's sessions. `pg_backend_pid()` is the pid a client was greeted with,
//! `pg_terminate_backend` and `pg_cancel_backend` act on them, on whichever router they are.
//!
//! The calls are written into the statement as values before it is planned. Which statements mean those backends is not known
//! here (`plan/src/backends.rs`).

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use wire::sqlstate;

use catalog::Volatility;
use exec::{Bound, ExecError, Forwarded, Request};
use plan::backends::{Signal, is_encoding, is_pid, signal};
use pool::Conn;
use sql::ast::{self, Node};
use sql::walk::{self, VisitMut};
use sql::{NodeEnum, build, names, search};
use wire::ErrorFields;

use crate::cancel::{CancelHandle, router_of};
use crate::held::Held;
use crate::session::{Result, Session};

/// Pids that are looked at before others have their turn.
const STEPS: usize = 1000;

/// Another router.
struct Other {
    conn: Conn,
    /// Its sessions, and the object ids of their roles on home.
    sessions: HashMap<i32, Option<u32>>,
}

/// What another router answers, if it does before the client cancels.
async fn unless_cancelled<T>(
    handle: &CancelHandle,
    asked: impl Future<Output = std::result::Result<T, pool::PoolError>>,
) -> Result<T> {
    handle.goes_on();
    tokio::select! {
        biased;
        () = handle.cancelled() => Err(ExecError::cancelled()),
        said = asked => Ok(said?),
    }
}

/// Puts values in place of calls and of the view; columns keep the names they would have.
struct Put {
    pid: i32,
    encoding: String,
    /// What stands for a call that signals: nothing but its argument, or what became of it.
    done: Option<Vec<i32>>,
    /// Those calls, with their arguments.
    calls: Vec<(Signal, Node)>,
}

impl VisitMut for Put {
    fn node(&mut self, n: &mut NodeEnum) -> bool {
        match n {
            NodeEnum::ResTarget(t) if t.name.is_empty() => {
                if let Some(NodeEnum::FuncCall(f)) = t.val.as_deref().and_then(|v| v.node.as_ref())
                    && (is_pid(f) || is_encoding(f) || signal(f).is_some())
                {
                    t.name = names::last(&f.funcname).to_string();
                }
                true
            }
            NodeEnum::FuncCall(f) if is_pid(f) => {
                let value = build::cast(build::integer(self.pid), "int4");
                if let Some(value) = value.node {
                    *n = value;
                }
                false
            }
            NodeEnum::FuncCall(f) if is_encoding(f) => {
                // current_setting() gives text.
                let type_name = if f.args.is_empty() { "name" } else { "text" };
                if let Some(value) = build::cast(build::text(&self.encoding), type_name).node {
                    *n = value;
                }
                false
            }
            NodeEnum::FuncCall(f) if signal(f).is_some() => {
                // The argument may hold a call itself.
                f.args.iter_mut().for_each(|a| walk::walk_mut(a, self));
                let (Some(kind), Some(argument)) = (signal(f), f.args.first().cloned()) else { return false };
                let own = NodeEnum::FuncCall(f.clone());
                let shown = self.done.as_ref().and_then(|pids| what_became(&argument, pids, own));
                self.calls.push((kind, argument));
                if let Some(value) = shown.or_else(|| build::cast(build::integer(1), "bool").node) {
                    *n = value;
                }
                false
            }
            _ => true,
        }
    }
}

/// True for those that were signalled here; others are for home to know.
fn what_became(argument: &Node, pids: &[i32], own: NodeEnum) -> Option<NodeEnum> {
    let list: Vec<String> = pids.iter().map(i32::to_string).collect();
    let argument = sql::deparse_expr(argument).ok()?;
    let own = sql::deparse_expr(&build::node(own)).ok()?;
    let text = format!(
        "SELECT CASE WHEN ({argument}) OPERATOR(pg_catalog.=) ANY ('{{{}}}'::pg_catalog.int4[]) THEN true ELSE {own} END",
        list.join(",")
    );
    let NodeEnum::SelectStmt(s) = sql::parse(&text, true).ok()?.pop()? else { return None };
    s.target_list.first().and_then(plan::rewrite::target_value)?.node.clone()
}

/// A query inside another statement: the session's pid, and what it speaks, are written into it. Signals are for a plain SELECT.
pub fn put_pid(statement: &mut NodeEnum, pid: i32, encoding: &str) -> Result<()> {
    let mut put = Put { pid, encoding: encoding.to_string(), done: None, calls: vec![] };
    walk::below_mut(statement, &mut put);
    if put.calls.is_empty() { Ok(()) } else { Err(not_signalled()) }
}

fn not_signalled() -> ExecError {
    ExecError::sql(
        sqlstate::FEATURE_NOT_SUPPORTED,
        "pg_terminate_backend and pg_cancel_backend are supported in the select list of a plain SELECT only, of pids that no volatile function gives",
    )
    .hint("SELECT the pids first, then signal each by a statement of its own.")
}

impl Session {
    /// Runs a statement that [speaks of backends](plan::backends).
    pub async fn backends(&mut self, statement: &NodeEnum, bound: Option<&Bound>) -> Result<Forwarded> {
        let own = statement.clone();
        let mut put = Put {
            pid: self.id as i32,
            encoding: self.own.get(crate::encoding::NAME).to_string(),
            done: None,
            calls: vec![],
        };
        let mut asked = own.clone();
        walk::below_mut(&mut asked, &mut put);
        let mut tree = asked.clone();
        if !put.calls.is_empty() {
            let pids = self.pids(asked, &put.calls, bound).await?;
            let mut done = Vec::new();
            for ((kind, _), pids) in put.calls.iter().zip(pids) {
                done.extend(self.signal_all(*kind, pids).await?);
            }
            if let Some(said) = self.io.ended() {
                return Err(ExecError::Ended(said));
            }
            tree = own;
            put.done = Some(done);
            put.calls.clear();
            walk::below_mut(&mut tree, &mut put);
        }
        let text = sql::deparse(&tree)?;
        // Texts have no place in them that PostgreSQL's errors could point at; the rest is as if it had been written so.
        let tree = sql::parse(&text, true)?.pop().ok_or_else(|| ExecError::internal("empty statement"))?;
        let compiled = Arc::new(self.compile(&tree, &text).await?);
        self.run(&compiled, &text, bound).await
    }

    /// The arguments of each call, for the rows the statement would have.
    async fn pids(
        &mut self,
        asked: NodeEnum,
        calls: &[(Signal, Node)],
        bound: Option<&Bound>,
    ) -> Result<Vec<Vec<i32>>> {
        if calls.iter().any(|(_, argument)| self.is_volatile(argument)) {
            return Err(not_signalled());
        }
        let NodeEnum::SelectStmt(mut select) = asked else { return Err(not_signalled()) };
        let plain = select.op == ast::SetOperation::SetopNone as i32
            && select.group_clause.is_empty()
            && select.distinct_clause.is_empty()
            && select.into_clause.is_none();
        let before = select.target_list.len();
        if !plain || before == 0 {
            return Err(not_signalled());
        }
        for (n, (_, argument)) in calls.iter().enumerate() {
            let value = build::cast(argument.clone(), "int4");
            select.target_list.push(build::target(value, Some(&format!("herd_pid_{n}"))));
        }
        let text = sql::deparse(&NodeEnum::SelectStmt(select))?;
        let tree = sql::parse(&text, true)?.pop().ok_or_else(|| ExecError::internal("empty statement"))?;
        let compiled = self.compile(&tree, &text).await?;
        let mut texts = bound.cloned().unwrap_or_default();
        texts.result_formats = Default::default();
        texts.tail = exec::bind_tail(&texts);
        let request = Request::bound(&text, Some(&texts));
        let mut held = Held::new(&self.memory);
        self.hold(&compiled, &request, &mut held).await?;
        let mut pids = vec![vec![]; calls.len()];
        for (n, row) in held.rows.iter().enumerate() {
            self.let_others_run(n).await?;
            let row = row?;
            let values = wire::backend::parse_data_row(&row[wire::frame::HEADER_LEN..])?;
            let given = values.get(values.len() - calls.len()..).unwrap_or_default();
            for (list, value) in pids.iter_mut().zip(given) {
                list.extend(value.and_then(|v| std::str::from_utf8(v).ok()?.parse::<i32>().ok()));
            }
        }
        Ok(pids)
    }

    /// It would be computed by itself, and once more where the statement runs.
    fn is_volatile(&self, argument: &Node) -> bool {
        let cx = self.names();
        search::any(argument, |n| match n {
            NodeEnum::FuncCall(f) => cx.functions(&f.funcname).any(|f| f.volatility == Volatility::Volatile),
            _ => false,
        })
    }

    /// Signals those that are sessions of the herd, each once, and says which. What the others cost is a look into a map.
    async fn signal_all(&mut self, kind: Signal, pids: Vec<i32>) -> Result<Vec<i32>> {
        let router = self.router.clone();
        let (mut seen, mut may) = (HashSet::new(), HashSet::new());
        let mut others: HashMap<i32, Option<Other>> = HashMap::new();
        let mut done = Vec::new();
        for (n, pid) in pids.into_iter().enumerate() {
            self.let_others_run(n).await?;
            if !seen.insert(pid) {
                continue;
            }
            let here = router.cancels.shown_as(pid);
            let other = router_of(pid).filter(|n| here.is_none() && *n != router.cancels.router_number());
            if let Some(number) = other
                && let Entry::Vacant(unknown) = others.entry(number)
            {
                unknown.insert(self.other_router(number).await?);
            }
            let other = other.and_then(|number| others.get_mut(&number)?.as_mut());
            let there = other.as_ref().and_then(|other| other.sessions.get(&pid).copied());
            let Some(role) = here.map(|shown| shown.role).or(there) else { continue };
            if !may.contains(&role) {
                self.may_signal(kind, role).await?;
                may.insert(role);
            }
            match (kind, other) {
                (_, Some(other)) => {
                    let function = if kind == Signal::Cancel { "pg_cancel_backend" } else { "pg_terminate_backend" };
                    let text = format!("SELECT {function}({pid})");
                    unless_cancelled(&self.io.handle(), other.conn.simple(&text)).await?;
                }
                (Signal::Cancel, None) if pid == self.id as i32 => return Err(ExecError::cancelled()),
                (Signal::Cancel, None) => drop(router.cancels.cancel_by_pid(pid).await),
                (Signal::Terminate, None) => drop(router.cancels.terminate(pid).await),
            }
            done.push(pid);
        }
        Ok(done)
    }

    /// In what takes a while on this thread: others have their turn after so many steps, and a cancel counts.
    async fn let_others_run(&mut self, step: usize) -> Result<()> {
        if step.is_multiple_of(STEPS) {
            let handle = self.io.handle();
            handle.goes_on();
            tokio::task::yield_now().await;
            if handle.is_cancelled() {
                return Err(ExecError::cancelled());
            }
        }
        Ok(())
    }

    /// Another router, asked as the herd's own user. `None`: there is none of this number.
    async fn other_router(&self, number: i32) -> Result<Option<Other>> {
        let Some(address) = crate::cancel_forward::address(&self.router, number).await? else { return Ok(None) };
        let at = pool::NodeTarget::new(&address.ip().to_string(), address.port(), &self.shown.database);
        let target = pool::NodeTarget { tls: pool::TlsMode::Prefer, ..at };
        let handle = self.io.handle();
        let mut conn = unless_cancelled(&handle, self.router.herd.own.connect(&target)).await?;
        let rows = unless_cancelled(&handle, conn.simple("SELECT pid, usesysid FROM pg_stat_activity")).await?;
        let number = |cell: &Option<String>| cell.as_deref()?.parse().ok();
        let sessions = rows.iter().filter_map(|row| match &row[..] {
            [pid, role] => Some((number(pid)? as i32, number(role))),
            _ => None,
        });
        Ok(Some(Other { sessions: sessions.collect(), conn }))
    }

    /// As `pg_signal_backend` in signalfuncs.c.
    async fn may_signal(&mut self, kind: Signal, role: Option<u32>) -> Result<()> {
        let role = role.unwrap_or(0);
        // On the client's connection, where `=` may be an operator of his own.
        let sql = format!(
            "SELECT r.rolsuper AND NOT me.rolsuper, \
                    me.rolsuper OR pg_catalog.pg_has_role(me.oid, r.oid, 'USAGE') \
                    OR pg_catalog.pg_has_role(me.oid, 'pg_signal_backend', 'USAGE') \
             FROM pg_catalog.pg_roles me, pg_catalog.pg_roles r \
             WHERE me.rolname OPERATOR(pg_catalog.=) current_user AND r.oid OPERATOR(pg_catalog.=) '{role}'"
        );
        let rows = self.work().ask_home(&sql).await?;
        let is = |n: usize| rows.first().and_then(|r| r.get(n)?.as_deref()) == Some("t");
        if is(1) && !is(0) {
            return Ok(());
        }
        let (act, whose, be) = match kind {
            Signal::Cancel => ("cancel query", "whose query is being canceled", "cancel queries"),
            Signal::Terminate => ("terminate process", "whose process is being terminated", "terminate processes"),
        };
        let detail = match is(0) {
            true => format!("Only roles with the SUPERUSER attribute may {be} of roles with the SUPERUSER attribute."),
            false => format!(
                "Only roles with privileges of the role {whose} or with privileges of the \"pg_signal_backend\" role may {} this {}.",
                if kind == Signal::Cancel { "cancel" } else { "terminate" },
                if kind == Signal::Cancel { "query" } else { "process" },
            ),
        };
        let fields =
            ErrorFields::error(sqlstate::INSUFFICIENT_PRIVILEGE, format!("permission denied to {act}")).detail(detail);
        Err(ExecError::Sql(Box::new(fields)))
    }
}

//! SET, SHOW, RESET, DISCARD. PostgreSQL validates and spells values; the session remembers them, and every connection
//! that serves it gets them before its statements.

use std::collections::BTreeSet;

use wire::sqlstate;

use exec::{ExecError, Forwarded, Pin};
use sql::NodeEnum;
use sql::ast::{self, Node};
use txn::Cuts;
use wire::backend::{self, Field};

use crate::activity::Pins;
use crate::encoding;
use crate::idle::Idle;
use crate::named_roles;
use crate::router_settings::RouterSettings;
use crate::said::plainly;
use crate::session::{Result, Session};

/// A setting made inside a transaction: it lasts if the transaction commits and it is not LOCAL.
pub struct Pending {
    pub name: String,
    /// `None`: RESET.
    pub value: Option<String>,
    pub local: bool,
    /// Whom it names, if it names a role.
    pub role: Option<u32>,
    /// Savepoints open when it was made.
    pub depth: usize,
}

/// Who the session is (GUC_NO_RESET_ALL in PostgreSQL's guc_tables.c).
const STAY: [&str; 2] = ["session_authorization", "role"];

/// A statement that sets something.
struct Change<'s> {
    sql: &'s str,
    names: &'s [&'s str],
    local: bool,
    /// RESET, or TO DEFAULT: to what the session began with, which its connections need not have begun with.
    back: bool,
}

impl Session {
    /// What of this session may travel with other clients' statements, what its transactions must see, and how its bulk
    /// writes travel.
    pub fn refresh_sharing(&mut self) {
        self.idle = Idle::of(&self.own);
        self.transaction.wants = self.own.cuts();
        self.sharing.reads = self.own.is_on("herd.multiplex");
        self.sharing.writes = self.own.is_on("herd.coalesce");
        let number = |name| self.own.get(name).parse().unwrap_or(0);
        self.bulk = exec::Bulk {
            load: self.own.is_on("herd.bulk_load"),
            upsert: self.own.is_on("herd.upsert"),
            batch_rows: number("herd.batch_rows"),
            in_flight_rows: number("herd.in_flight_rows"),
            session: self.bulk.session,
        };
        self.moves = self.own.moves();
        let spoken = self.own.get(encoding::NAME);
        self.io.speak(self.router.encodings.known(spoken), spoken);
        self.refresh_reads();
    }

    /// SET and RESET, and SET TRANSACTION with its like. The router's own settings go to no node.
    pub async fn set(&mut self, s: &ast::VariableSetStmt, sql: &str) -> Result<Forwarded> {
        use ast::VariableSetKind::*;
        let kind = ast::VariableSetKind::try_from(s.kind).unwrap_or(Undefined);
        let name = s.name.to_ascii_lowercase();
        let sql = plainly(sql, || NodeEnum::VariableSetStmt(s.clone()))?;
        let sql = &*sql;
        let tag = |t: &str| Forwarded { tag: t.to_string(), ..Default::default() };
        if s.is_local && !self.transaction.is_active() {
            let message = "SET LOCAL can only be used in transaction blocks";
            self.notice("WARNING", sqlstate::NO_ACTIVE_SQL_TRANSACTION, message);
            // It holds to the statement's end, or to Sync.
            self.transaction.begin("BEGIN", false);
        }
        if let Some(own) = RouterSettings::canonical(&name) {
            let value = match kind {
                VarSetValue if own == encoding::NAME => {
                    let asked = value_text(&s.args);
                    Some(self.router.encodings.spelled(&self.router.herd, &asked).await?)
                }
                VarSetValue => Some(RouterSettings::spelled(own, &value_text(&s.args))?),
                _ => self.own_at_start()?.set_to(own),
            };
            self.set_own(own, value, s.is_local);
            return Ok(tag(if matches!(kind, VarReset) { "RESET" } else { "SET" }));
        }
        match kind {
            VarResetAll => {
                // Connections of a batch are reset when they are given back.
                self.transaction.participants.iter_mut().for_each(|p| p.lane.conn.tainted = true);
                if self.transaction.is_active() {
                    return Box::pin(self.reset_each()).await;
                }
                let forwarded = Forwarded { tag: "RESET".into(), ..Default::default() };
                let mut settings = self.startup.clone();
                for name in STAY {
                    match self.settings.get(name) {
                        Some(value) => settings.set(name, value),
                        None => settings.remove(name),
                    }
                }
                self.settings = settings;
                self.io.reports.as_it_began(&[STAY[0], "is_superuser"]);
                self.own = self.own_at_start()?;
                self.refresh_sharing();
                self.refresh_context();
                Ok(forwarded)
            }
            // SET TRANSACTION, SET SESSION CHARACTERISTICS
            VarSetMulti => self.set_multi(&name, sql).await,
            _ => self.set_one(&name, s, sql).await,
        }
    }

    /// RESET ALL where it may be rolled back: what the session has set, one after the other.
    async fn reset_each(&mut self) -> Result<Forwarded> {
        let changed = self.settings.iter().filter(|(name, value)| self.startup.get(name) != Some(value));
        let names = changed.map(|(name, _)| name).chain(self.pending.iter().map(|p| p.name.as_str()));
        let own = |name: &&str| STAY.contains(name) || RouterSettings::canonical(name).is_some();
        let names: BTreeSet<String> = names.filter(|name| !own(name)).map(str::to_string).collect();
        for name in names {
            let reset = ast::VariableSetStmt {
                kind: ast::VariableSetKind::VarReset as i32,
                name,
                ..ast::VariableSetStmt::default()
            };
            let sql = sql::deparse(&NodeEnum::VariableSetStmt(reset.clone()))?;
            self.set(&reset, &sql).await?;
        }
        let began = self.own_at_start()?;
        for name in RouterSettings::names() {
            self.set_own(name, began.set_to(name), false);
        }
        Ok(Forwarded { tag: "RESET".into(), ..Default::default() })
    }

    fn set_own(&mut self, name: &'static str, value: Option<String>, local: bool) {
        match self.transaction.is_active() {
            true => {
                let depth = self.transaction.depth();
                match self.pending.iter_mut().rev().find(|p| p.name == name) {
                    // Nothing can go back to what was said in between.
                    Some(last) if (last.local, last.depth) == (local, depth) => last.value = value,
                    _ => self.pending.push(Pending { name: name.to_string(), value, local, role: None, depth }),
                }
            }
            false => self.own.keep(name, value),
        }
        self.refresh_own();
    }

    /// The router's own settings follow those of the transaction.
    pub fn refresh_own(&mut self) {
        self.own.follow(&self.pending);
        self.refresh_sharing();
        self.refresh_context();
    }

    pub(crate) async fn set_multi(&mut self, name: &str, sql: &str) -> Result<Forwarded> {
        if name.contains("session characteristics") {
            let names =
                ["default_transaction_isolation", "default_transaction_read_only", "default_transaction_deferrable"];
            return self.set_and_read(Change { sql, names: &names, local: false, back: false }).await;
        }
        if !self.transaction.is_active() {
            // Home warns of it. It holds to the statement's end, or to Sync.
            let done = self.on_home(sql).await?;
            self.transaction.begin("BEGIN", false);
            self.transaction.note_setting(sql);
            return Ok(done);
        }
        self.begin_where_it_read().await?;
        self.room_for_settings(sql.len())?;
        let imports = name == "transaction snapshot" && self.transaction.wants != Cuts::All;
        if self.transaction.wants != Cuts::None && self.transaction.is_fresh() && !imports {
            // No node takes part before it is known whether all must; home says whether it is right.
            self.transaction.note_setting(sql);
            if let Err(e) = self.work().manner().await {
                self.transaction.forget_last_setting();
                return Err(e);
            }
            return Ok(Forwarded { tag: "SET".into(), ..Default::default() });
        }
        // Whoever joins later hears of it too.
        if self.transaction.participants.is_empty() {
            // Another transaction's snapshot is of home alone: the other nodes refuse it.
            let home = self.epoch.snapshot.home;
            self.transaction.imports |= imports;
            let mut work = self.work();
            let p = work.lane(home).await?;
            work.put_back(p).await;
        }
        self.transaction.everywhere(sql).await?;
        self.transaction.note_setting(sql);
        Ok(Forwarded { tag: "SET".into(), ..Default::default() })
    }

    async fn set_one(&mut self, name: &str, s: &ast::VariableSetStmt, sql: &str) -> Result<Forwarded> {
        if name == "transaction_isolation" && self.transaction.is_active() {
            return self.set_multi(name, sql).await;
        }
        if name.starts_with("herd.") {
            return Err(ExecError::sql(
                sqlstate::UNDEFINED_OBJECT,
                format!("unrecognized configuration parameter \"{name}\""),
            ));
        }
        if name == "seed" {
            // The numbers that follow come from one connection.
            self.pin_home(Pins::SETTING);
            return self.on_home(sql).await;
        }
        // Whoever the session becomes begins without a role (assign_session_authorization in PostgreSQL's variable.c).
        let names = if name == "session_authorization" { &[name, "role"][..] } else { &[name] };
        let kind = ast::VariableSetKind::try_from(s.kind).unwrap_or(ast::VariableSetKind::Undefined);
        let back = matches!(kind, ast::VariableSetKind::VarSetDefault | ast::VariableSetKind::VarReset);
        let change = Change { sql, names, local: s.is_local, back };
        // Whoever was dropped has no name.
        let gone = named_roles::SETTINGS.iter().any(|(n, _)| self.settings.get(n) == Some(""));
        if !gone || self.transaction.is_active() || named_roles::question(name).is_none() {
            return self.set_and_read(change).await;
        }
        // Who is somebody that was dropped may become another: it is asked of who logged in whether he may.
        let before = self.settings.clone();
        names.iter().for_each(|n| self.settings.remove(n));
        let done = self.set_and_read(change).await;
        if done.is_err() {
            self.settings = before;
        }
        done
    }

    /// Runs SQL that sets something on home, and on all who take part in the transaction, and remembers what it set.
    async fn set_and_read(&mut self, change: Change<'_>) -> Result<Forwarded> {
        let Change { sql, names, local, back } = change;
        self.room_for_settings(sql.len())?;
        let home = self.epoch.snapshot.home;
        let active = self.transaction.is_active();
        let described = false;
        let began = back.then(|| self.startup.clone());
        // Whoever says BEGIN behind it in a pipeline may say how it is to read: nothing takes a snapshot before.
        let first = active && !self.transaction.is_block() && self.transaction.is_fresh();
        let shown = first && names.iter().all(|name| named_roles::question(name).is_none());
        let mut work = self.work();
        work.sets_fixed = names.contains(&exec::FIXED_SETTING);
        let mut p = work.lane(home).await?;
        let result = async {
            p.lane.put_query(sql);
            p.lane.conn.flush().await?;
            let forwarded = exec::forward(&mut p.lane, work.client, described, exec::Ids::Home).await?;
            if let Some(sql) = began.and_then(|began| p.lane.conn.back_to(&began, names, local)) {
                p.lane.run(&sql).await?;
            }
            if shown || work.before_snapshot() {
                let mut row = Vec::with_capacity(names.len());
                for name in names {
                    let name: Vec<String> = name.split('.').map(catalog::quote_ident).collect();
                    let shown = p.lane.rows(&format!("SHOW {}", name.join("."))).await?;
                    row.push(shown.into_iter().next().and_then(|r| r.into_iter().next()).flatten());
                }
                return Ok((forwarded, row));
            }
            let values = names.iter().map(|n| named_roles::value(n));
            let list: Vec<String> = values.chain(names.iter().filter_map(|n| named_roles::question(n))).collect();
            let row = p.lane.rows(&format!("SELECT {}", list.join(", "))).await?.into_iter().next().unwrap_or_default();
            Ok::<_, ExecError>((forwarded, row))
        }
        .await;
        match &result {
            Ok((_, row)) if !active => {
                for (name, value) in names.iter().zip(row) {
                    match value {
                        Some(v) => p.lane.conn.settings.set(name, v),
                        None => p.lane.conn.settings.remove(name),
                    }
                }
            }
            // In a transaction the setting may yet be rolled back: the connection is reset when it is given back.
            _ => p.lane.conn.tainted |= !local,
        }
        work.put_back(p).await;
        let (forwarded, row) = result?;
        if active {
            self.transaction.leaves_settings |= !local;
            // Other connections began elsewhere.
            let same = back.then(|| set_to(names, &row, local)).flatten();
            let sql = same.as_deref().unwrap_or(sql);
            for p in self.transaction.participants.iter_mut().filter(|p| p.lane.node != home) {
                p.lane.conn.tainted |= !local;
                p.lane.run(sql).await?;
            }
            self.transaction.note_setting(sql);
        }
        let depth = self.transaction.depth();
        let mut row = row.into_iter();
        let values: Vec<_> = row.by_ref().take(names.len()).collect();
        let mut roles = row.flatten();
        for (name, value) in names.iter().zip(values) {
            let role = named_roles::question(name).and_then(|_| roles.next()?.parse::<u32>().ok());
            match active {
                true => self.pending.push(Pending { name: name.to_string(), value, local, role, depth }),
                false => {
                    self.keep(name, value);
                    self.named_roles.note(name, role);
                }
            }
        }
        self.refresh_context();
        Ok(forwarded)
    }

    /// A setting for the rest of the session.
    pub fn keep(&mut self, name: &str, value: Option<String>) {
        if let Some(own) = crate::idle::NAMES.into_iter().find(|own| *own == name) {
            // Code has set it on a node.
            self.own.keep(own, value);
            return self.refresh_own();
        }
        match value.or_else(|| self.startup.get(name).map(str::to_string)) {
            Some(v) => self.settings.set(name, &v),
            None => self.settings.remove(name),
        }
    }

    /// The transaction has ended: its settings stay or go.
    pub fn settle_settings(&mut self, committed: bool) {
        if self.pending.is_empty() {
            return;
        }
        for p in std::mem::take(&mut self.pending) {
            match RouterSettings::canonical(&p.name) {
                _ if !committed || p.local => {}
                Some(own) => self.own.keep(own, p.value),
                None => {
                    self.keep(&p.name, p.value);
                    self.named_roles.note(&p.name, p.role);
                }
            }
        }
        self.refresh_own();
    }

    /// The router's own settings from here, any other from home. `described`: the client gets RowDescription, too.
    pub async fn show(&mut self, s: &ast::VariableShowStmt, sql: &str, described: bool) -> Result<Forwarded> {
        let name = s.name.to_ascii_lowercase();
        if let Some(own) = RouterSettings::canonical(&name) {
            let mut value = self.own.get(own).to_string();
            if own == "citus.shard_count" && value.is_empty() {
                value = self.router.defaults.shards.to_string();
            }
            if described {
                backend::row_description(self.out(), &[Field::text(&s.name)]);
            }
            backend::data_row(self.out(), std::iter::once(Some(value.as_bytes())));
            return Ok(Forwarded { tag: "SHOW".into(), ..Default::default() });
        }
        self.on_home_described(sql, described).await
    }

    /// In each of its forms; ALL in a transaction is 25001.
    pub async fn discard(&mut self, s: &ast::DiscardStmt, sql: &str) -> Result<Forwarded> {
        let mode = ast::DiscardMode::try_from(s.target).unwrap_or(ast::DiscardMode::DiscardAll);
        if mode == ast::DiscardMode::DiscardAll && self.transaction.is_active() {
            return Err(ExecError::sql(
                sqlstate::ACTIVE_SQL_TRANSACTION,
                "DISCARD ALL cannot run inside a transaction block",
            ));
        }
        if mode == ast::DiscardMode::DiscardTemp && !self.pin.is_free() {
            // Part of the transaction, as any DROP TABLE.
            self.on_home(sql).await?;
        } else if let Some(lane) = self.pin.here() {
            lane.run(sql).await?;
            if mode == ast::DiscardMode::DiscardAll {
                lane.conn.discarded();
            }
        }
        match mode {
            ast::DiscardMode::DiscardAll => {
                self.io.reports.as_it_began(&[]);
                self.settings = self.startup.clone();
                self.named_roles.begin_again();
                self.own = self.own_at_start()?;
                self.refresh_sharing();
                self.prepared.clear();
                self.statements.clear();
                self.portals.clear();
                self.cursors.clear();
                self.pg_temp.clear();
                self.sequences.lose();
                self.unpin().await;
                self.refresh_context();
                Ok(Forwarded { tag: "DISCARD ALL".into(), ..Default::default() })
            }
            ast::DiscardMode::DiscardTemp => {
                self.pg_temp_changed(false).await?;
                Ok(Forwarded { tag: "DISCARD TEMP".into(), ..Default::default() })
            }
            ast::DiscardMode::DiscardPlans => Ok(Forwarded { tag: "DISCARD PLANS".into(), ..Default::default() }),
            _ => {
                // A connection of the transaction, or that is pinned, forgets before it takes or tells anything again.
                self.sequences.lose();
                Ok(Forwarded { tag: "DISCARD SEQUENCES".into(), ..Default::default() })
            }
        }
    }

    /// The session's own connection goes back, after a reset. A cancel that is on its way to it would meet whoever has it next.
    pub async fn unpin(&mut self) {
        if let Some(mut lane) = self.pin.take() {
            lane.conn.tainted = true;
            if !exec::Client::given_back(&mut self.io, &lane.conn.cancel_key()).await {
                lane.conn.mark_broken();
            }
        }
        self.pin = Pin::Free;
        self.pins = 0;
        self.transaction.keep = None;
    }
}

/// SQL that gives these what they have elsewhere.
fn set_to(names: &[&str], values: &[Option<String>], local: bool) -> Option<String> {
    let one = |(name, value): (&&str, &Option<String>)| {
        let (name, value) = (catalog::quote_literal(name), catalog::quote_literal(value.as_deref()?));
        Some(format!("pg_catalog.set_config({name}, {value}, {local})"))
    };
    Some(format!("SELECT {}", names.iter().zip(values).map(one).collect::<Option<Vec<_>>>()?.join(", ")))
}

/// The value of a SET as plain text, for the router's own settings.
fn value_text(args: &[Node]) -> String {
    let one = |n: &Node| match &n.node {
        Some(NodeEnum::AConst(c)) => match &c.val {
            Some(ast::a_const::Val::Ival(i)) => i.ival.to_string(),
            Some(ast::a_const::Val::Fval(f)) => f.fval.clone(),
            Some(ast::a_const::Val::Sval(s)) => s.sval.clone(),
            Some(ast::a_const::Val::Boolval(b)) => b.boolval.to_string(),
            _ => String::new(),
        },
        _ => String::new(),
    };
    args.iter().map(one).collect::<Vec<_>>().join(", ")
}

//! Code of users' own that may leave something behind in the session: functions, procedures, DO, triggers, and whatever
//! calls `set_config`. Parameters, temporary tables, locks: what PostgreSQL would keep for the session's next statement is
//! read back from the connections where the code ran, and goes with the session from then on, to every node.
//!
//! Which statements may is the catalog's word ([`catalog::SessionCode`]). It does not know what the code does.

use exec::{Client, ExecError, Forwarded, Pin};
use pool::{AtLogin, Settings};
use txn::Lane;
use wire::sqlstate;

use crate::activity::Pins;
use crate::pg_temp;
use crate::session::{Result, Session};
use crate::set::Pending;
use crate::settings_room;

/// What ran in the transaction, or in the statement.
#[derive(Clone, Debug, Default)]
pub struct Code {
    /// Custom parameters it may have set: no list of a server's own has them.
    pub settings: Vec<String>,
    /// It may have set parameters nobody can name.
    pub opaque: bool,
    /// It may have taken values from sequences.
    pub sequences: bool,
}

/// How a statement with code runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunsIn {
    /// In a transaction, whose connections are looked at when it ends.
    Transaction,
    /// By itself on home; `kept`: the session had no connection of its own before.
    Home { kept: bool },
}

/// What one connection has.
#[derive(Default)]
struct Found {
    settings: Settings,
    /// Custom parameters that were asked for and are there.
    custom: Vec<(String, String)>,
    temporary: pg_temp::Told,
    pins: u8,
}

impl Session {
    /// A statement with code begins.
    pub fn code_begins(&mut self, code: Code, only_home: bool) -> RunsIn {
        let known = self.code.get_or_insert_default();
        known.settings.extend(code.settings);
        known.settings.sort_unstable();
        known.settings.dedup();
        known.opaque |= code.opaque;
        known.sequences |= code.sequences;
        self.taint = true;
        if !self.transaction.is_active() && only_home {
            let kept = self.pin.is_free();
            if kept {
                self.pin.want();
                self.transaction.keep = Some(self.epoch.snapshot.home);
            }
            return RunsIn::Home { kept };
        }
        if !self.transaction.is_active() {
            self.transaction.begin("BEGIN", false);
        }
        self.transaction.keep_all = true;
        RunsIn::Transaction
    }

    /// It has ended.
    pub async fn code_ends(&mut self, scope: RunsIn, result: Result<Forwarded>) -> Result<Forwarded> {
        self.taint = false;
        match scope {
            RunsIn::Transaction if result.is_ok() && !self.transaction.has_failed() => self.look_inside().await?,
            RunsIn::Transaction => {}
            RunsIn::Home { kept } => {
                let code = self.code.take().unwrap_or_default();
                // A cancel on its way would meet whoever has the connection next.
                let clean = self.io.settled().await;
                let mut lane = match kept {
                    true => match std::mem::take(&mut self.pin) {
                        Pin::Here(lane) => Some(lane),
                        _ => None,
                    },
                    false => self.pin.take(),
                };
                if let Some(lane) = lane.as_mut().filter(|_| !clean) {
                    lane.conn.mark_broken();
                }
                if kept {
                    self.transaction.keep = None;
                }
                if kept || lane.is_some() {
                    self.code_is_over(code, lane.into_iter().collect()).await?;
                }
            }
        }
        result
    }

    /// Inside the transaction: what the code has set holds for the statements that follow, on all nodes.
    async fn look_inside(&mut self) -> Result<()> {
        let Some(code) = self.code.clone() else { return Ok(()) };
        let (home, depth) = (self.epoch.snapshot.home, self.transaction.depth());
        let mut changed: Vec<(String, Option<String>, i32)> = Vec::new();
        for at in 0..self.transaction.participants.len() {
            let at_login = self.transaction.participants[at].lane.conn.at_login.clone();
            let question = self.question(&code, &at_login);
            let lane = &mut self.transaction.participants[at].lane;
            let node = lane.node;
            let found = read(lane.rows(&question).await?);
            refuse_encoding(&found)?;
            let known = |s: &Session, n: &str| {
                s.setting(n).or_else(|| s.settings.default_on(&at_login.own, n)).map(str::to_string)
            };
            for (name, value) in self.news(&found, &known) {
                if !changed.iter().any(|(n, ..)| *n == name) {
                    changed.push((name, value, node));
                }
            }
            if node == home {
                self.pg_temp_told(found.temporary);
            }
        }
        // As it is, and as what it was said by.
        self.room_for_settings(2 * changed.iter().map(|(n, v, _)| settings_room::size(n, v)).sum::<usize>())?;
        for (name, value, node) in changed {
            let quoted = catalog::quote_literal(&name);
            let sql = match &value {
                Some(v) => format!("SELECT pg_catalog.set_config({quoted}, {}, true)", catalog::quote_literal(v)),
                None => format!("SET LOCAL {} TO DEFAULT", catalog::quote_ident(&name)),
            };
            for p in self.transaction.participants.iter_mut().filter(|p| p.lane.node != node) {
                p.lane.run(&sql).await?;
            }
            self.transaction.note_setting(&sql);
            self.pending.push(Pending { name, value, local: true, role: None, depth });
        }
        self.refresh_context();
        Ok(())
    }

    /// The transaction, or the statement by itself, is over: what is still there on its connections is the session's.
    ///
    /// # Errors
    /// 53200 if that is more than a session may have: the connection has gone with it.
    pub async fn code_is_over(&mut self, code: Code, lanes: Vec<Lane>) -> Result<()> {
        let home = self.epoch.snapshot.home;
        // Each connection had these when the code began.
        let before = self.settings.clone();
        for mut lane in lanes {
            let at_login = lane.conn.at_login.clone();
            let question = self.question(&code, &at_login);
            let Ok(rows) = lane.rows(&question).await else {
                lane.conn.mark_broken();
                self.pin.put_back(lane);
                continue;
            };
            let found = read(rows);
            if let Err(e) = refuse_encoding(&found) {
                lane.conn.mark_broken();
                self.pin.put_back(lane);
                return Err(e);
            }
            let news = self.news(&found, &|_, n| before.on(&at_login.own, n).map(str::to_string));
            if let Err(e) = self.room_for_settings(news.iter().map(|(n, v)| settings_room::size(n, v)).sum()) {
                lane.conn.mark_broken();
                self.pin.put_back(lane);
                return Err(e);
            }
            for (name, value) in news {
                self.keep(&name, value);
                self.named_roles.note(&name, None);
            }
            if lane.node != home {
                continue;
            }
            let mut has = found.settings;
            found.custom.iter().for_each(|(n, v)| has.set(n, v));
            lane.conn.settings = has;
            let opaque = if code.opaque { Pins::SETTING } else { 0 } | if code.sequences { Pins::SEQUENCE } else { 0 };
            if found.pins | opaque != 0 {
                self.pin_home(found.pins | opaque);
            }
            self.pg_temp_told(found.temporary);
            self.pin.put_back(lane);
        }
        self.refresh_context();
        Ok(())
    }

    /// What differs from what the session knows.
    fn news(&self, found: &Found, known: &dyn Fn(&Session, &str) -> Option<String>) -> Vec<(String, Option<String>)> {
        let mut news = Vec::new();
        for (name, value) in found.settings.iter() {
            if known(self, name).as_deref() != Some(value) {
                news.push((name.to_string(), Some(value.to_string())));
            }
        }
        for (name, value) in &found.custom {
            let before = known(self, name);
            // Never set, as PostgreSQL shows what was set once and rolled back; nobody's role.
            let nothing = value.is_empty() || name == "role" && value == "none";
            if before.as_deref() != Some(value) && !(nothing && before.is_none()) {
                news.push((name.clone(), Some(value.clone())));
            }
        }
        let there = |name: &str| found.settings.get(name).is_some() || found.custom.iter().any(|(n, _)| n == name);
        let names: Vec<&str> = self.settings.iter().map(|(n, _)| n).filter(|n| known(self, n).is_some()).collect();
        let gone = names.into_iter().filter(|n| !there(n) && *n != "session_authorization");
        news.extend(gone.map(|n| (n.to_string(), None)));
        news
    }

    /// Asks a connection for all that outlives a statement there. What its login has set is the session's, too, if that has it set to the same.
    fn question(&self, code: &Code, at_login: &AtLogin) -> String {
        let own = self.settings.iter().map(|(n, _)| n).chain(self.pending.iter().map(|p| p.name.as_str()));
        // What names are made at run time may be those that code reads.
        let read = if code.opaque { &self.epoch.snapshot.session_code.read[..] } else { &[] };
        let by_login = || at_login.own.iter().map(|(n, _)| n);
        let mut names: Vec<&str> = own.chain(by_login()).filter(|n| n.contains('.')).chain(["role"]).collect();
        names.extend(code.settings.iter().chain(read).map(String::as_str));
        names.sort_unstable();
        names.dedup();
        let names: Vec<String> = names.into_iter().map(catalog::quote_literal).collect();
        let by_login: Vec<String> = by_login().map(catalog::quote_literal).collect();
        format!(
            "SELECT 's', pg_catalog.lower(name), pg_catalog.left(pg_catalog.current_setting(name), {most}) FROM pg_catalog.pg_settings \
               WHERE (source OPERATOR(pg_catalog.=) 'session' OR source OPERATOR(pg_catalog.~) '^(user|database|global)' \
                 AND pg_catalog.lower(name) OPERATOR(pg_catalog.=) ANY (ARRAY[{}]::pg_catalog.text[])) AND name OPERATOR(pg_catalog.!~) '^transaction_' \
             UNION ALL SELECT 'c', n, pg_catalog.left(pg_catalog.current_setting(n, true), {most}) FROM pg_catalog.unnest(ARRAY[{}]::pg_catalog.text[]) n \
             UNION ALL SELECT kind, name, NULL FROM ({}) AS t \
             UNION ALL SELECT 'p', '{}', NULL WHERE EXISTS (SELECT FROM pg_catalog.pg_locks \
               WHERE locktype OPERATOR(pg_catalog.=) 'advisory' AND pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid() AND granted) \
             UNION ALL SELECT 'p', '{}', NULL FROM pg_catalog.pg_listening_channels() \
             UNION ALL SELECT 'p', '{}', NULL FROM pg_catalog.pg_cursors WHERE is_holdable",
            by_login.join(", "),
            names.join(", "),
            pg_temp::NAMES,
            Pins::LOCK,
            Pins::LISTEN,
            Pins::CURSOR,
            most = settings_room::MAX + 1,
        )
    }
}

fn read(rows: Vec<catalog::Row>) -> Found {
    let mut found = Found::default();
    for row in rows {
        let [Some(kind), Some(name), value] = &row[..] else { continue };
        match (kind.as_str(), value) {
            ("s", Some(value)) => found.settings.set(name, value),
            ("c", Some(value)) => found.custom.push((name.to_ascii_lowercase(), value.clone())),
            ("t" | "v" | "y" | "z", _) => found.temporary.add(name, kind),
            ("p", _) => found.pins |= name.parse::<u8>().unwrap_or(0),
            _ => {}
        }
    }
    found
}

/// Keys are hashed as they come, so they must come as nodes store them.
fn refuse_encoding(found: &Found) -> Result<()> {
    match found.settings.get("client_encoding") {
        Some(encoding) if !matches!(encoding, "UTF8" | "SQL_ASCII") => Err(crate::encoding::unsupported(encoding)),
        _ => Ok(()),
    }
}

/// What a name in a parameter means for `set_config($1, …)`.
pub fn named_in(bound: Option<&exec::Bound>, numbers: &[i32]) -> Result<Vec<String>> {
    let name = |n: &i32| {
        let value = bound?.values.get(usize::try_from(*n).ok()?.checked_sub(1)?)?.as_ref()?;
        std::str::from_utf8(value).ok().map(str::to_ascii_lowercase)
    };
    numbers
        .iter()
        .map(|n| {
            name(n).ok_or_else(|| ExecError::sql(sqlstate::INVALID_PARAMETER_VALUE, "SET requires parameter name"))
        })
        .collect()
}

//! SELECT and its like that do more than give rows, DO and CALL: what they may leave in the session, and whether they are watched.

use std::sync::Arc;

use exec::code::Watch;
use exec::{Bound, ExecError, Forwarded};
use plan::code::Watched;
use plan::special::{Leaves, Special};
use sql::NodeEnum;
use wire::sqlstate;

use crate::activity::Pins;
use crate::encoding;
use crate::left_behind::Code;
use crate::router_settings::RouterSettings;
use crate::sequences;
use crate::session::{Result, Session};

/// What code given as text says: of DO the string's value, however that is written; and whether its language can be looked into.
fn text_of<'s>(statement: &'s NodeEnum, sql: &'s str) -> (&'s str, bool) {
    let NodeEnum::DoStmt(block) = statement else { return (sql, true) };
    let option = |name: &str| {
        block.args.iter().find_map(|arg| match arg.node.as_ref()? {
            NodeEnum::DefElem(d) if d.defname == name => match d.arg.as_deref()?.node.as_ref()? {
                NodeEnum::String(s) => Some(s.sval.as_str()),
                _ => None,
            },
            _ => None,
        })
    };
    let plpgsql = option("language").is_none_or(|name| name == "plpgsql");
    (option("as").unwrap_or(sql), plpgsql)
}

impl Session {
    /// DO and CALL run whole on home; code that uses tables of the herd would see a part of them only, and is run step by step.
    pub(super) async fn code(&mut self, statement: &NodeEnum, sql: &str, bound: Option<&Bound>) -> Result<Forwarded> {
        let (queries, changes) = match statement {
            NodeEnum::SelectStmt(_) => (true, false),
            NodeEnum::DoStmt(_) | NodeEnum::CallStmt(_) => (false, false),
            _ => (false, true),
        };
        if queries || changes {
            return match self.compile_with(statement, sql, bound.map_or(&[], |b| &b.types)).await {
                Ok(compiled) if changes => Box::pin(self.run(&Arc::new(compiled), sql, bound)).await,
                Ok(_) => {
                    let special = plan::special::special(statement, &self.names_with(bound));
                    Box::pin(self.rows(statement, special, sql, bound)).await
                }
                Err(refusal) if refusal.code() == sqlstate::FEATURE_NOT_SUPPORTED => {
                    let opened = plan::opened::to_run(statement, &self.names_with(bound))?;
                    let (statement, sql) = opened.as_ref().map_or((statement, sql), |(tree, text)| (tree, text));
                    Box::pin(self.by_steps(statement, sql, bound, refusal)).await
                }
                Err(e) => Err(e),
            };
        }
        let judged = exec::code::judge_at_home(statement, sql, &self.epoch, &self.search_path).await;
        let watched = match judged {
            Ok(watched) => watched,
            Err(refusal) => return Box::pin(self.by_steps(statement, sql, bound, refusal.into())).await,
        };
        let before = self.watch(watched).await?;
        let known = &self.epoch.snapshot.session_code;
        let (text, is_read) = text_of(statement, sql);
        let (settings, unknown) = catalog::SessionCode::settings_in(text);
        let (called, inside) = (known.called_in(text, &self.search_path), catalog::SessionCode::is_text(text));
        let forwarded = if called.is_some() || inside || !is_read {
            let called = called.unwrap_or_default();
            let code = Code {
                settings: called.settings.into_iter().chain(settings).collect(),
                opaque: unknown || called.opaque || !is_read,
                sequences: known.sequences_in(text, &self.search_path),
            };
            let scope = self.code_begins(code, true);
            let result = self.on_home_bound(sql, bound).await;
            self.code_ends(scope, result).await?
        } else {
            self.taint = true;
            let result = self.on_home_bound(sql, bound).await;
            self.taint = false;
            result?
        };
        self.watched(before).await?;
        Ok(forwarded)
    }

    /// Code is about to run on home that may use anything: in a transaction, so that it can be looked at, and undone.
    pub(crate) async fn watch(&mut self, how: Option<Watched>) -> Result<Option<Watch>> {
        let Some(how) = how else { return Ok(None) };
        let mut work = self.work();
        work.need_transaction();
        work.watch_home(how).await.map(Some)
    }

    /// It has used nothing that others have a part of; what it has changed in the catalog is judged as DDL is.
    pub(crate) async fn watched(&mut self, before: Option<Watch>) -> Result<()> {
        let Some(before) = before else { return Ok(()) };
        let mut work = self.work();
        let made = work.watched_home(&before).await?;
        if work.made_on_home(&before.made, &made).await? {
            self.schema_changed().await?;
            self.work().refuse_views(&made)?;
        }
        Ok(())
    }

    /// A statement about rows that does more than that, or whose plan is made for this once.
    pub(super) async fn rows(
        &mut self,
        statement: &NodeEnum,
        special: Special,
        sql: &str,
        bound: Option<&Bound>,
    ) -> Result<Forwarded> {
        let parameters: &[u32] = bound.map_or(&[], |b| &b.types);
        special.refused()?;
        let whole = statement;
        let seen = if special.reads_sequences { self.with_values_seen(statement)? } else { None };
        let (statement, sql) = seen.as_ref().map_or((statement, sql), |(tree, text)| (&**tree, &**text));
        if special.pins {
            self.pin_home(Pins::LOCK);
        }
        let mut compiled = self.compile_with(statement, sql, parameters).await;
        let asked = match special.reads_sequences && sequences::asks_elsewhere(&compiled) {
            true => self.with_values_of_home(whole).await?,
            false => None,
        };
        if let Some((tree, text)) = &asked {
            compiled = self.compile_with(tree, text, parameters).await;
        }
        let sql = asked.as_ref().map_or(sql, |(_, text)| text);
        let compiled = Arc::new(compiled?);
        let before = self.watch(special.watched.then_some(Watched::Text)).await?;
        let result = if special.leaves.anything(self.transaction.is_active()) {
            let mut code = self.code_of(special.leaves, bound)?;
            code.sequences = compiled.plan.whole().sequences == plan::Sequences::Any;
            let scope = self.code_begins(code, matches!(compiled.plan, plan::Planned::Forward(_)));
            let result = self.run(&compiled, sql, bound).await;
            self.code_ends(scope, result).await
        } else {
            self.taint = special.writes;
            let result = self.run(&compiled, sql, bound).await;
            self.taint = false;
            result
        };
        if result.is_ok() {
            self.watched(before).await?;
        }
        if special.reads_sequences { result.map_err(Session::no_value) } else { result }
    }

    pub(super) fn code_of(&self, leaves: Leaves, bound: Option<&Bound>) -> Result<Code> {
        let mut settings = leaves.settings;
        settings.extend(crate::left_behind::named_in(bound, &leaves.named_by)?);
        // Nodes are spoken to in UTF8: who does so, too, may say it again.
        let speaks_another = self.io.encoding().is_some();
        let of_code = leaves.by_code.iter().filter(|name| *name == encoding::NAME);
        let mut own = settings.iter().chain(of_code).filter_map(|name| RouterSettings::canonical(name));
        if let Some(own) = own.find(|own| *own != encoding::NAME || speaks_another) {
            let message = format!("set_config() of {own}, a setting of the router, is not supported");
            return Err(ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, message).hint(&format!("Use SET {own}.")));
        }
        settings.extend(leaves.by_code);
        Ok(Code { settings, opaque: leaves.unknown, sequences: false })
    }
}

//! `herd.isolate_tenant(table, key)`: which split comes next until the shard of a key holds that key alone, or nearly. How a shard is
//! split, and that there are several splits, is not known here.
//!
//! Rows are counted in the client's name, of tables that are all his, and where no code of their owners would run by it
//! (`herd.ask_rows`): he may be a superuser, or in several of their roles.

use std::sync::Arc;

use ::plan::admin::{AdminCall, AdminFunction, Arg};
use catalog::{Colocation, NodeId, Relation, qualified, quote_ident, quote_literal};
use key::{Bound, Located};
use wire::{sqlstate, type_oid};

use super::plan::group_of;
use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::work::Work;
use crate::work::shards::key_error;

/// A shard is taken for alone where so many of its rows are the key's to each one of another key.
const NEARLY: u64 = 100;
/// How often one call halves a shard of hash: the other keys are one of 65 536 of what they were.
const HALVINGS_MAX: usize = 16;
/// How many of the other keys are named.
const NAMED: usize = 5;

/// How far the shard of a key is from holding that key alone.
pub enum Isolation {
    /// This split comes next.
    Split(AdminCall),
    /// It is as far as it goes.
    Done(Isolated),
}

/// A shard that is as alone as it gets.
pub struct Isolated {
    pub shard: i32,
    /// What is in it, for the client.
    pub said: String,
    /// It is to be moved to another node.
    pub moves: bool,
}

/// A value as text that is read as the same value under any DateStyle and TimeZone.
pub(super) fn plain_text(value: &str, of: catalog::Oid) -> String {
    match of {
        type_oid::DATE | type_oid::TIMESTAMP | type_oid::TIMESTAMPTZ => {
            format!("(pg_catalog.to_jsonb({value}) OPERATOR(pg_catalog.#>>) '{{}}'::pg_catalog.text[])")
        }
        _ => format!("{value}::pg_catalog.text"),
    }
}

/// The key and its shard.
struct Tenant {
    table: Arc<Relation>,
    /// As PostgreSQL prints it, whatever the session's settings are.
    text: String,
    /// As SQL.
    value: String,
    key_type: catalog::Oid,
    shard: catalog::Shard,
}

/// Rows of a shard, with those of the colocated tables.
struct Rows {
    of_key: u64,
    others: u64,
    below: u64,
    /// The next key, as PostgreSQL prints it.
    next: Option<String>,
}

impl<C: Client> Work<'_, C> {
    /// `splits`: how many there were already.
    pub async fn next_isolation(
        &mut self,
        call: &AdminCall,
        splits: usize,
        search_path: &[String],
    ) -> Result<Isolation> {
        self.isolation_as_known(call, splits, search_path).await.map_err(super::met_a_change)
    }

    async fn isolation_as_known(
        &mut self,
        call: &AdminCall,
        splits: usize,
        search_path: &[String],
    ) -> Result<Isolation> {
        self.may_begin_job(call).await?;
        let (table, group) = self.distributed(call, search_path)?;
        let node = call.key_node()?.map(|name| self.node_called(&name)).transpose()?;
        // What can't be split is said before its rows are read.
        let members = group_of(&self.epoch.snapshot, group.id);
        self.owns_all(&members.iter().map(|r| r.oid).collect::<Vec<_>>()).await?;
        self.in_order(members.clone()).await?;
        // The key is read as its type, which may be a domain of the owner's.
        let names = members.iter().map(|r| qualified(&r.schema, &r.name)).collect();
        self.ask_rows(self.home(), names, None).await?;
        let tenant = self.tenant(call, &table, &group).await?;
        let rows = self.rows_of(&tenant, &group).await?;
        let (shard, at) = (tenant.shard.number, &tenant.text);
        let values = match &tenant.shard.bound {
            Bound::List { values } => values.len(),
            _ => 0,
        };
        let at = match &tenant.shard.bound {
            Bound::Hash { .. } if rows.of_key == 0 => {
                let message = format!("table \"{}\" and those colocated with it have no rows of key {at}", table.name);
                return Err(ExecError::sql(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
                    .hint("A shard of hash is halved until the key's rows are most of it."));
            }
            Bound::Hash { .. } if rows.others * NEARLY > rows.of_key && splits < HALVINGS_MAX => vec![],
            Bound::Range { .. } if rows.below > 0 => vec![at.clone()],
            Bound::Range { .. } if rows.others > 0 => rows.next.clone().into_iter().collect(),
            Bound::List { .. } if values > 1 => vec![at.clone()],
            Bound::Default => {
                let message = format!("key {at} has no shard but that of all values without one");
                return Err(
                    ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, message).hint("The shard DEFAULT can't be split.")
                );
            }
            _ => {
                let said = self.told(&tenant, &group, &rows).await?;
                let moves = node.is_some_and(|node| node != tenant.shard.node);
                return Ok(Isolation::Done(Isolated { shard, said, moves }));
            }
        };
        let args = [Arg::Text(qualified(&table.schema, &table.name)), Arg::Text(shard.to_string()), Arg::Null];
        let at = if at.is_empty() { Arg::Null } else { Arg::List(at) };
        let args = args.into_iter().chain([at]);
        Ok(Isolation::Split(AdminCall::step(AdminFunction::SplitShard, "split_shard", args)))
    }

    async fn tenant(&mut self, call: &AdminCall, table: &Arc<Relation>, group: &Colocation) -> Result<Tenant> {
        let [column] = table.distribution().map_or(&[][..], |d| &d.key[..]) else {
            let message = format!("table \"{}\" is distributed by several columns", table.name);
            return Err(
                ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, message).hint("herd.split_shard() splits any shard.")
            );
        };
        let (c, given) = (&table.columns[*column], call.key()?);
        let bytes = self.ask_value(&given, table, *column).await?;
        let bytes = bytes.map(|v| key::fit(c.type_oid, c.typmod, v)).transpose().map_err(key_error)?;
        // A number is read as one first, as in `ask_value`.
        let number = type_oid::is_integer(c.type_oid) && given.parse::<f64>().is_ok_and(f64::is_finite);
        let value = if number { format!("({given})") } else { quote_literal(&given) };
        let key_type = group.key_types.first().copied().unwrap_or(c.type_oid);
        let text = plain_text(&format!("({value}::{})", c.type_name), key_type);
        let text = self.ask_home(&format!("SELECT {text}")).await?;
        let text = text.into_iter().flatten().flatten().next().unwrap_or_default();
        let bounds = self.epoch.bounds(group.id);
        let found = key::locate(group.strategy, &group.key_types, &bounds, &[bytes]).map_err(key_error)?;
        let shard = match found {
            Located::Shard(at) => group.shards.get(at).cloned(),
            Located::Nowhere => None,
        };
        let shard = shard.ok_or_else(|| {
            let message = format!("table \"{}\" has no shard for key {text}", table.name);
            ExecError::sql(sqlstate::CHECK_VIOLATION, message).hint("herd.shards shows their bounds.")
        })?;
        let value = format!("{}::{}", quote_literal(&text), c.type_name);
        Ok(Tenant { table: table.clone(), text, value, key_type, shard })
    }

    /// The first row of a question about rows of tables on a node, as text.
    async fn ask_rows(&mut self, node: NodeId, tables: Vec<String>, ask: Option<&str>) -> Result<catalog::Row> {
        let ask = ask.map_or_else(|| "NULL".to_string(), quote_literal);
        let tables: Vec<String> = tables.iter().map(|name| quote_literal(name)).collect();
        // Elements of an array, each a value of its own.
        let sql =
            format!("SELECT pg_catalog.unnest(herd.ask_rows(ARRAY[{}]::pg_catalog.text[], {ask}))", tables.join(","));
        let rows = self.ask_node(node, &sql).await?;
        Ok(rows.into_iter().map(|row| row.into_iter().next().flatten()).collect())
    }

    /// The shard's part of every table, and its key's column.
    fn tables_of(&self, tenant: &Tenant, group: &Colocation) -> Vec<(String, String)> {
        let of = |t: &Arc<Relation>| {
            let d = t.distribution().filter(|d| !d.is_partitioned())?;
            let column = &t.columns.get(*d.key.first()?)?.name;
            let part = qualified("herd_shards", &format!("{}_{}", d.prefix, tenant.shard.number));
            Some((part, quote_ident(column)))
        };
        group_of(&self.epoch.snapshot, group.id).iter().filter_map(of).collect()
    }

    /// Every table's rows of the shard, each as its key, `k`.
    fn keys_in(&self, tenant: &Tenant, group: &Colocation) -> String {
        let all = self.tables_of(tenant, group).into_iter().map(|(part, key)| format!("SELECT {key} AS k FROM {part}"));
        all.collect::<Vec<_>>().join(" UNION ALL ")
    }

    async fn rows_of(&mut self, tenant: &Tenant, group: &Colocation) -> Result<Rows> {
        let (keys, value) = (self.keys_in(tenant, group), &tenant.value);
        let is = |operator: &str| format!("x.k OPERATOR(pg_catalog.{operator}) {value}");
        let sql = format!(
            "SELECT ARRAY[pg_catalog.count(*) FILTER (WHERE {})::pg_catalog.text, pg_catalog.count(*) FILTER (WHERE {})::pg_catalog.text, \
                    pg_catalog.count(*) FILTER (WHERE {})::pg_catalog.text, \
                    (SELECT {} FROM ({keys}) x WHERE {} ORDER BY x.k LIMIT 1)] FROM ({keys}) x",
            is("="),
            is("<>"),
            is("<"),
            plain_text("x.k", tenant.key_type),
            is(">"),
        );
        let parts = self.tables_of(tenant, group).into_iter().map(|(part, _)| part).collect();
        let row = self.ask_rows(tenant.shard.node, parts, Some(&sql)).await?;
        let count = |at: usize| row.get(at).and_then(|v| v.as_deref()?.parse().ok()).unwrap_or(0);
        Ok(Rows { of_key: count(0), others: count(1), below: count(2), next: row.get(3).cloned().flatten() })
    }

    /// What is in the shard.
    async fn told(&mut self, tenant: &Tenant, group: &Colocation, rows: &Rows) -> Result<String> {
        let (shard, text, table) = (tenant.shard.number, &tenant.text, &tenant.table.name);
        if rows.others == 0 {
            return Ok(format!("shard {shard} of table \"{table}\" holds key {text} alone"));
        }
        let (keys, value) = (self.keys_in(tenant, group), &tenant.value);
        let sql = format!(
            "SELECT ARRAY[pg_catalog.count(*)::pg_catalog.text, \
                    pg_catalog.array_to_string((pg_catalog.array_agg(x.k::pg_catalog.text ORDER BY x.k))[1:{NAMED}], ', ')] \
             FROM (SELECT DISTINCT y.k FROM ({keys}) y WHERE y.k OPERATOR(pg_catalog.<>) {value}) x"
        );
        let parts = self.tables_of(tenant, group).into_iter().map(|(part, _)| part).collect();
        let row = self.ask_rows(tenant.shard.node, parts, Some(&sql)).await?;
        let (count, named) = (row.first().cloned().flatten(), row.get(1).cloned().flatten().unwrap_or_default());
        let count: usize = count.and_then(|n| n.parse().ok()).unwrap_or(0);
        let more = if count > NAMED { ", …" } else { "" };
        Ok(format!(
            "shard {shard} of table \"{table}\" holds {} rows of key {text}, and {} of {count} other keys: {named}{more}",
            rows.of_key, rows.others
        ))
    }
}

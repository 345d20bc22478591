//! What a herd does by itself where it is asked to by settings of its database on home: shards that have grown too large are split, and nodes that
//! have more to do than others give some of it away. It enters jobs as clients do, one at a time; how these are worked on is not known here.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use ::plan::admin::{AdminCall, AdminFunction, Arg, By};
use catalog::{NodeId, Row, Snapshot, quote_literal};
use key::Bound;

use super::move_shard::{Goal, Measures, Unit, goal_next, measured, move_call, units};
use crate::error::Result;
use crate::router::herd::Herd;

/// "auto" in ASCII: who enters a job holds it.
const LOCK: i64 = 0x6175_746f;
/// Of the last split a half has so little that another one would not help: it is one key that is large.
const LITTLE: u64 = 20;

/// The settings, with their defaults, which `pg_size_bytes` and intervals read; those of the database count, whoever's session it is.
const SETTINGS: &str = "SELECT coalesce(max(v) FILTER (WHERE n = 'herd.auto_rebalance'), 'off'), \
           pg_size_bytes(coalesce(max(v) FILTER (WHERE n = 'herd.auto_split_bytes'), '0')), \
           pg_size_bytes(coalesce(max(v) FILTER (WHERE n = 'herd.auto_move_bytes_per_hour'), '100 GB')), \
           greatest(extract(epoch FROM coalesce(max(v) FILTER (WHERE n = 'herd.auto_interval'), '1 min')::interval), 1)::int8 \
      FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase AND d.datname = current_database(), unnest(s.setconfig) c, \
           LATERAL (SELECT split_part(c, '=', 1), substr(c, strpos(c, '=') + 1)) AS o (n, v) WHERE s.setrole = 0";

/// Looks now and then; what it has seen before.
pub struct Automatic {
    looked: Option<Instant>,
    every: Duration,
    measures: Measures,
    /// What was wrong with the settings: said once.
    said: String,
}

impl Default for Automatic {
    fn default() -> Self {
        Automatic { looked: None, every: Duration::ZERO, measures: Measures::new(), said: String::new() }
    }
}

struct Settings {
    rebalance: Option<By>,
    split_bytes: u64,
    bytes_per_hour: u64,
}

impl Automatic {
    /// Whether a job was entered.
    pub async fn look(&mut self, herd: &Herd) -> Result<bool> {
        const SETTINGS_EVERY: Duration = Duration::from_secs(5);
        if self.looked.is_some_and(|at| at.elapsed() < self.every.max(SETTINGS_EVERY)) {
            return Ok(false);
        }
        self.looked = Some(Instant::now());
        let rows = match herd.own.rows(&herd.config.home, SETTINGS).await {
            Ok(rows) => rows,
            Err(e) if !e.is_node_trouble() => {
                self.warn(&e.to_string());
                return Ok(false);
            }
            Err(e) => return Err(e.into()),
        };
        let Some(settings) = self.read(rows.first()) else { return Ok(false) };
        if settings.rebalance.is_none() && settings.split_bytes == 0 {
            return Ok(false);
        }
        let snapshot = herd.epoch.load().snapshot.clone();
        let now = measured(herd, &snapshot).await?;
        let before = std::mem::replace(&mut self.measures, now.clone());
        let split = split_call(&snapshot, settings.split_bytes, &now);
        let moves = settings.rebalance.and_then(|by| {
            let nodes: Vec<NodeId> = snapshot.nodes.iter().map(|n| n.id).collect();
            let goal = if by == By::Shards { Goal::Even } else { Goal::Weight };
            let units = units(&snapshot, by, &now, &before);
            let (at, to) = goal_next(&units, &nodes, goal, &HashSet::new())?;
            Some((move_call(&snapshot, &units[at], to)?, bytes(&now, &units[at])))
        });
        let Some((call, bytes)) = split.or(moves) else { return Ok(false) };
        enter(herd, &call, bytes, settings.bytes_per_hour).await
    }

    fn read(&mut self, row: Option<&Row>) -> Option<Settings> {
        let [Some(by), Some(split), Some(hour), Some(every)] = &row?[..] else { return None };
        let rebalance = match &*by.to_ascii_lowercase() {
            "off" | "false" | "no" | "0" => None,
            "on" | "true" | "yes" | "1" => Some(By::Size),
            by => match By::of(by) {
                Some(by) => Some(by),
                None => {
                    self.warn(&format!("herd.auto_rebalance is off, on, shards, size, rows or load, not \"{by}\""));
                    None
                }
            },
        };
        self.every = Duration::from_secs(every.parse().unwrap_or(60));
        let number = |text: &str| text.parse().unwrap_or(0);
        Some(Settings { rebalance, split_bytes: number(split), bytes_per_hour: number(hour) })
    }

    fn warn(&mut self, why: &str) {
        if self.said != why {
            tracing::warn!("nothing is moved or split automatically: {why}");
            self.said = why.to_string();
        }
    }
}

fn bytes(now: &Measures, unit: &Unit) -> u64 {
    now.get(&(unit.group, unit.shard)).map_or(0, |m| m.bytes)
}

/// Splits the largest shard that is larger than it should be, and can be split with some use.
fn split_call(snapshot: &Snapshot, most: u64, now: &Measures) -> Option<(AdminCall, u64)> {
    let of = |group: i32, shard: i32| now.get(&(group, shard)).map_or(0, |m| m.bytes);
    let may = |group: i32, number: i32| {
        let Some(group) = snapshot.groups.get(&group) else { return false };
        let Some(shard) = group.shards.iter().find(|s| s.number == number) else { return false };
        match &shard.bound {
            Bound::Hash { modulus, remainder } => {
                let half = modulus / 2;
                let remainder = if *remainder < half { remainder + half } else { remainder.saturating_sub(half) };
                let other = Bound::Hash { modulus: *modulus, remainder };
                let other = group.shards.iter().find(|s| modulus % 2 == 0 && s.bound == other);
                other.is_none_or(|s| of(group.id, s.number) * LITTLE > of(group.id, number))
            }
            Bound::Range { .. } => true,
            // Which values leave, only people know.
            _ => false,
        }
    };
    let large = now.iter().filter(|((group, shard), m)| most > 0 && m.bytes > most && may(*group, *shard));
    let ((group, shard), m) = large.max_by_key(|(unit, m)| (m.bytes, **unit))?;
    let unit = Unit { group: *group, shard: *shard, node: 0, weight: 0.0 };
    let mut call = move_call(snapshot, &unit, 0)?;
    call.args.truncate(2);
    (call.function, call.name, call.column) = (AdminFunction::SplitShard, "split_shard".into(), "split_shard".into());
    Some((call, m.bytes))
}

/// Unless a job runs, or waits; the same has come to nothing not long ago; or enough was moved in this hour.
async fn enter(herd: &Herd, call: &AdminCall, bytes: u64, bytes_per_hour: u64) -> Result<bool> {
    let Some((_, Arg::Text(table))) = call.args.first() else { return Ok(false) };
    let (statement, home) = (quote_literal(&call.statement()), &herd.config.home);
    let enter = format!(
        "BEGIN; SELECT pg_advisory_xact_lock({LOCK}); \
         INSERT INTO herd.job (kind, about, arguments, router, step, call, caller) \
         SELECT {}, {}, '{{\"automatic\": true}}', '', 'wait', {statement}, r.oid FROM pg_roles r WHERE r.rolname = current_user \
            AND NOT EXISTS (SELECT FROM herd.job j WHERE j.state = 'running') \
            AND NOT EXISTS (SELECT FROM herd.job j WHERE j.call = {statement} AND j.state IN ('failed', 'cancelled') AND j.ended_at > now() - interval '1 hour') \
            AND {bytes} + (SELECT coalesce(sum(j.bytes_done), 0) FROM herd.job j JOIN herd.job p ON p.id = j.parent \
                            WHERE p.arguments @> '{{\"automatic\": true}}' AND j.created_at > now() - interval '1 hour') <= {bytes_per_hour} \
         RETURNING id; COMMIT",
        quote_literal(&call.name),
        quote_literal(table),
    );
    let mut desk = herd.own.connect(home).await?;
    let rows = desk.simple(&enter).await?;
    let entered = rows.iter().any(|row| row.len() == 1 && row[0].as_deref().is_some_and(|id| !id.is_empty()));
    if entered {
        tracing::info!(call = call.statement(), "entered a job automatically");
    }
    Ok(entered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read() {
        let mut automatic = Automatic::default();
        let row = |by: &str| -> Row { vec![Some(by.into()), Some("1024".into()), Some("7".into()), Some("5".into())] };
        let read = |automatic: &mut Automatic, by: &str| automatic.read(Some(&row(by))).map(|s| s.rebalance);
        assert_eq!(read(&mut automatic, "off"), Some(None));
        assert_eq!(read(&mut automatic, "ON"), Some(Some(By::Size)));
        assert_eq!(read(&mut automatic, "load"), Some(Some(By::Load)));
        assert_eq!(automatic.said, "");
        assert_eq!(read(&mut automatic, "perhaps"), Some(None));
        assert!(automatic.said.contains("perhaps"));
        assert_eq!(automatic.every, Duration::from_secs(5));
        let settings = automatic.read(Some(&row("rows"))).expect("read");
        assert_eq!((settings.split_bytes, settings.bytes_per_hour), (1024, 7));
    }
}

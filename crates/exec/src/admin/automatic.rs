//! What a herd does by itself where it is asked to by settings of its database on home: shards that have grown too large are split, and nodes that
//! have more to do than others give some of it away. It enters jobs as clients do, one at a time; how these are worked on is not known here.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use ::plan::admin::{AdminCall, AdminFunction, Arg, By};
use catalog::{NodeId, Row, Snapshot, quote_literal};
use key::Bound;

use super::move_shard::{Goal, Measured, Measures, goal_next, group_of, measured, move_call, units};
use crate::error::Result;
use crate::router::herd::Herd;

/// "auto" in ASCII: who enters a job holds it.
const LOCK: i64 = 0x6175_746f;
/// Of the last split a half has so little that another one would not help: it is one key that is large.
const LITTLE: u64 = 20;
/// No shard is split that is smaller, whatever is set: an empty table with some indexes is not for ever to be halved.
const SPLIT_LEAST: u64 = 1 << 20;
/// A node with which less is done, in rows a second, has no load worth moving anything for.
const LOAD_LEAST: f64 = 1000.0;

/// The settings, with their defaults, which `pg_size_bytes` and intervals read; those of the database count, whoever's session it is.
const SETTINGS: &str = "SELECT coalesce(max(v) FILTER (WHERE n = 'herd.auto_rebalance'), 'off'), \
           pg_size_bytes(coalesce(max(v) FILTER (WHERE n = 'herd.auto_split_bytes'), '0')), \
           pg_size_bytes(coalesce(max(v) FILTER (WHERE n = 'herd.auto_move_bytes_per_hour'), '100 GB')), \
           greatest(extract(epoch FROM coalesce(max(v) FILTER (WHERE n = 'herd.auto_interval'), '1 min')::interval), 1)::int8 \
      FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase AND d.datname = current_database(), unnest(s.setconfig) c, \
           LATERAL (SELECT split_part(c, '=', 1), substr(c, strpos(c, '=') + 1)) AS o (n, v) WHERE s.setrole = 0";

/// What of automatic jobs is not over an hour ago: what they have copied, which shards they have moved, and what has come to nothing. A group
/// without any of the tables that it had is another one by the same number. And whether somebody moves shards, or has until a moment ago: one
/// after another, perhaps.
const RECENT: &str = "SELECT p.kind, g.id::text, p.arguments ->> 'shard', p.state, \
           coalesce((SELECT sum(j.bytes_done) FROM herd.job j WHERE j.parent = p.id), 0)::int8, NULL \
      FROM herd.job p \
      LEFT JOIN herd.colocation g ON g.id = (p.arguments ->> 'group')::int4 \
            AND EXISTS (SELECT FROM herd.relation r WHERE r.colocation = g.id AND p.arguments -> 'tables' @> to_jsonb(r.oid::int8)) \
     WHERE p.arguments @> '{\"automatic\": true}' AND coalesce(p.ended_at, now()) > now() - interval '1 hour' \
     UNION ALL SELECT NULL, NULL, NULL, NULL, NULL, bool_or(j.state = 'running' OR j.ended_at > now() - interval '10 s' AND j.parent IS NULL AND j.call IS NULL)::text \
      FROM herd.job j";

/// Looks now and then; what it has seen before.
#[derive(Default)]
pub struct Automatic {
    looked: Option<Instant>,
    measures: Measures,
    /// What was wrong, or in the way: said once.
    said: String,
}

struct Settings {
    rebalance: Option<By>,
    split_bytes: u64,
    bytes_per_hour: u64,
    every: Duration,
}

/// A job that could be entered.
struct Candidate {
    call: AdminCall,
    /// Group and shard.
    unit: (i32, i32),
    bytes: u64,
}

/// What `RECENT` tells.
#[derive(Default)]
struct Recent {
    copied: u64,
    moved: HashSet<(i32, i32)>,
    failed: HashSet<(String, (i32, i32))>,
    is_busy: bool,
}

impl Automatic {
    /// Whether a job was entered.
    pub async fn look(&mut self, herd: &Herd) -> Result<bool> {
        let home = &herd.config.home;
        let rows = match herd.own.rows(home, SETTINGS).await {
            Ok(rows) => rows,
            Err(e) if !e.is_node_trouble() => {
                self.warn(&format!("its settings can't be read: {e}"));
                return Ok(false);
            }
            Err(e) => return Err(e.into()),
        };
        let Some(settings) = self.read(rows.first()) else { return Ok(false) };
        let wanted = settings.rebalance.is_some() || settings.split_bytes > 0;
        if !wanted || self.looked.is_some_and(|at| at.elapsed() < settings.every) {
            return Ok(false);
        }
        let since = self.looked.replace(Instant::now()).map(|at| at.elapsed());
        let snapshot = herd.epoch.load().snapshot.clone();
        let now = measured(herd, &snapshot).await?;
        let before = std::mem::replace(&mut self.measures, now.clone());
        let recent = Recent::of(&herd.own.rows(home, RECENT).await?);
        if recent.is_busy {
            return Ok(false);
        }
        let mut candidates = splits(&snapshot, settings.split_bytes, &now);
        if let Some(by) = settings.rebalance {
            candidates.extend(a_move(&snapshot, by, &now, &before, since, &recent));
        }
        candidates.retain(|c| !recent.failed.contains(&(c.call.name.clone(), c.unit)));
        let fits = |c: &&Candidate| recent.copied == 0 || recent.copied + c.bytes <= settings.bytes_per_hour;
        match candidates.iter().find(fits) {
            Some(candidate) => enter(herd, &snapshot, candidate).await,
            None => {
                if let Some(first) = candidates.first() {
                    self.warn(&format!("{} is more than may be moved in this hour", first.call.statement()));
                }
                Ok(false)
            }
        }
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
        let every = Duration::from_secs(every.parse().unwrap_or(60));
        let number = |text: &str| text.parse().unwrap_or(0);
        let split_bytes = match number(split) {
            0 => 0,
            bytes => bytes.max(SPLIT_LEAST),
        };
        Some(Settings { rebalance, split_bytes, bytes_per_hour: number(hour), every })
    }

    fn warn(&mut self, why: &str) {
        if self.said != why {
            tracing::warn!("nothing is moved or split automatically: {why}");
            self.said = why.to_string();
        }
    }
}

impl Recent {
    fn of(rows: &[Row]) -> Recent {
        let mut recent = Recent::default();
        for row in rows {
            let text = |at: usize| row.get(at).and_then(|v| v.as_deref());
            recent.is_busy |= text(5) == Some("true");
            let number = |at: usize| text(at).and_then(|v| v.parse().ok());
            recent.copied += text(4).and_then(|v| v.parse::<u64>().ok()).unwrap_or(0);
            let (Some(kind), Some(state), Some(unit)) = (text(0), text(3), number(1).zip(number(2))) else { continue };
            match state {
                "done" if kind == "move_shard" => drop(recent.moved.insert(unit)),
                "failed" | "cancelled" => drop(recent.failed.insert((kind.to_string(), unit))),
                _ => {}
            }
        }
        recent
    }
}

/// The shards that are larger than they should be, and can be split with some use; the largest first.
fn splits(snapshot: &Snapshot, most: u64, now: &Measures) -> Vec<Candidate> {
    let bytes = |group: i32, shard: i32| now.get(&(group, shard)).map_or(0, |m| m.bytes);
    let may = |group: i32, number: i32| {
        let Some(group) = snapshot.groups.get(&group) else { return false };
        let Some(shard) = group.shards.iter().find(|s| s.number == number) else { return false };
        match &shard.bound {
            Bound::Hash { modulus, remainder } => {
                let half = modulus / 2;
                let remainder = if *remainder < half { remainder + half } else { remainder.saturating_sub(half) };
                let other = Bound::Hash { modulus: *modulus, remainder };
                let other = group.shards.iter().find(|s| modulus % 2 == 0 && s.bound == other);
                other.is_none_or(|s| bytes(group.id, s.number) * LITTLE > bytes(group.id, number))
            }
            Bound::Range { .. } => true,
            // Which values leave, only people know.
            _ => false,
        }
    };
    let mut large: Vec<_> =
        now.iter().filter(|((group, shard), m)| most > 0 && m.bytes > most && may(*group, *shard)).collect();
    large.sort_by_key(|(unit, m)| (std::cmp::Reverse(m.bytes), **unit));
    let candidate = |(unit, m): (&(i32, i32), &Measured)| {
        // Of those that are split together, the one with most rows says where.
        let table = snapshot.relations.values().find(|r| r.oid == m.largest)?;
        let args = [catalog::qualified(&table.schema, &table.name), unit.1.to_string()];
        let call = AdminCall::step(AdminFunction::SplitShard, "split_shard", args.map(Arg::Text));
        Some(Candidate { call, unit: *unit, bytes: m.bytes })
    };
    large.into_iter().filter_map(candidate).collect()
}

/// The move that makes nodes most alike.
fn a_move(
    snapshot: &Snapshot,
    by: By,
    now: &Measures,
    before: &Measures,
    since: Option<Duration>,
    recent: &Recent,
) -> Option<Candidate> {
    let all = units(snapshot, by, now, before);
    if by == By::Load {
        let since = since?.as_secs_f64().max(1.0);
        let mut loads: HashMap<NodeId, f64> = HashMap::new();
        all.iter().for_each(|u| *loads.entry(u.node).or_default() += u.weight / since);
        let came = now.iter().any(|(unit, m)| before.get(unit).is_none_or(|b| b.node != m.node));
        // What has just come to a node is counted anew there.
        if came || loads.values().all(|load| *load < LOAD_LEAST) {
            return None;
        }
    }
    // A node without shards is about to be removed, or new: who wants it used says so by rebalancing once.
    let has = |node: NodeId| snapshot.groups.values().any(|g| g.shards.iter().any(|s| s.node == node));
    let nodes: Vec<NodeId> = snapshot.nodes.iter().map(|n| n.id).filter(|n| has(*n)).collect();
    let goal = if by == By::Shards { Goal::Even } else { Goal::Weight };
    let stay: HashSet<(i32, i32)> = recent
        .moved
        .iter()
        .copied()
        .chain(recent.failed.iter().filter(|(kind, _)| kind == "move_shard").map(|(_, unit)| *unit))
        .collect();
    let (at, to) = goal_next(&all, &nodes, goal, &stay)?;
    let unit = &all[at];
    let bytes = now.get(&(unit.group, unit.shard)).map_or(0, |m| m.bytes);
    Some(Candidate { call: move_call(snapshot, unit, to)?, unit: (unit.group, unit.shard), bytes })
}

/// Unless a job runs, or somebody else is about to enter one.
async fn enter(herd: &Herd, snapshot: &Snapshot, candidate: &Candidate) -> Result<bool> {
    let Candidate { call, unit: (group, shard), .. } = candidate;
    let Some((_, Arg::Text(table))) = call.args.first() else { return Ok(false) };
    let tables: Vec<String> = group_of(snapshot, *group).into_iter().map(|r| r.oid.to_string()).collect();
    let enter = format!(
        "INSERT INTO herd.job (kind, about, arguments, router, step, call, caller) \
         SELECT {}, {}, jsonb_build_object('automatic', true, 'group', {group}, 'shard', {shard}, 'tables', '[{}]'::jsonb), '', 'wait', {}, r.oid \
           FROM pg_roles r WHERE r.rolname = current_user AND pg_try_advisory_xact_lock({LOCK}) \
            AND NOT EXISTS (SELECT FROM herd.job j WHERE j.state = 'running') RETURNING id",
        quote_literal(&call.name),
        quote_literal(table),
        tables.join(", "),
        quote_literal(&call.statement()),
    );
    let entered = !herd.own.rows(&herd.config.home, &enter).await?.is_empty();
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
        let settings = automatic.read(Some(&row("rows"))).expect("read");
        assert_eq!(
            (settings.split_bytes, settings.bytes_per_hour, settings.every),
            (SPLIT_LEAST, 7, Duration::from_secs(5))
        );
    }

    #[test]
    fn what_was_done_is_told_apart() {
        let row = |cells: [&str; 6]| -> Row { cells.map(|c| (!c.is_empty()).then(|| c.to_string())).to_vec() };
        let rows = [
            row(["move_shard", "1", "2", "done", "100", ""]),
            row(["split_shard", "1", "3", "failed", "5", ""]),
            // Of a group that is gone.
            row(["move_shard", "", "4", "done", "10", ""]),
            row(["", "", "", "", "", "false"]),
        ];
        let recent = Recent::of(&rows);
        assert_eq!((recent.copied, recent.is_busy), (115, false));
        assert_eq!(recent.moved, HashSet::from([(1, 2)]));
        assert_eq!(recent.failed, HashSet::from([("split_shard".to_string(), (1, 3))]));
        assert!(Recent::of(&[row(["", "", "", "", "", "true"])]).is_busy);
    }
}

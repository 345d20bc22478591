//! `herd.create_time_partitions` and `herd.drop_old_time_partitions`: home tells which partitions are missing, or old. They are made as the
//! table's owner, whose code a new table runs (`herd.create_partition`), and dropped by the statements that a user would write.

use catalog::{Oid, Relation, qualified, quote_literal};
use plan::admin::{AdminCall, AdminFunction};
use plan::ddl::Partition;
use wire::sqlstate;

use super::named;
use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::work::Work;

/// Most partitions that one call makes.
const CREATED_MAX: usize = 1000;

impl<C: Client> Work<'_, C> {
    /// How many were made or dropped.
    pub(super) async fn time_partitions(&mut self, call: &AdminCall, search_path: &[String]) -> Result<i32> {
        if !self.transaction.is_active() {
            self.transaction.begin("BEGIN ISOLATION LEVEL READ COMMITTED", false);
        }
        let relation = named(&self.epoch.snapshot, &call.table()?, search_path)?;
        let name = &relation.name;
        if !relation.distribution().is_some_and(|d| d.is_partitioned()) {
            let message = format!("\"{name}\" is no distributed table that is partitioned by time");
            return Err(ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, message).hint(
                "Create it with PARTITION BY RANGE of a date or timestamp, then call create_distributed_table().",
            ));
        }
        let of_type = self.in_catalog(&type_of(relation.oid)).await?;
        let Some(kind) = of_type.into_iter().flatten().flatten().next() else {
            let message = format!("\"{name}\" is not partitioned by ranges of one date or timestamp");
            return Err(ExecError::sql(sqlstate::WRONG_OBJECT_TYPE, message));
        };
        let statements = match call.function {
            AdminFunction::CreateTimePartitions => {
                let missing = self.in_catalog(&missing(&relation, &kind, call.time_partitions()?)).await?;
                if missing.len() > CREATED_MAX {
                    let message = format!("more than {CREATED_MAX} partitions at once");
                    return Err(ExecError::sql(sqlstate::INVALID_PARAMETER_VALUE, message)
                        .hint("Take a longer interval, or a nearer end."));
                }
                let made: Vec<Partition> = missing.into_iter().filter_map(|row| created(&relation, row)).collect();
                for partition in &made {
                    self.new_partition(partition, false).await?;
                }
                return Ok(i32::try_from(made.len()).unwrap_or(i32::MAX));
            }
            _ => {
                let old = self.in_catalog(&old(relation.oid, &kind, &call.before()?)).await?;
                let names = old.into_iter().filter_map(|row| match &row[..] {
                    [Some(schema), Some(name)] => Some(format!("DROP TABLE {}", qualified(schema, name))),
                    _ => None,
                });
                names.collect::<Vec<_>>()
            }
        };
        for sql in &statements {
            let statement = sql::parse(sql, true)?.pop().ok_or_else(|| ExecError::internal("no statement"))?;
            self.ddl(&statement, sql, search_path, &[]).await?;
        }
        Ok(i32::try_from(statements.len()).unwrap_or(i32::MAX))
    }

    /// Asks home where no name is a user's own, and times are written in one way.
    async fn in_catalog(&mut self, sql: &str) -> Result<Vec<catalog::Row>> {
        let home = self.home();
        let path = self.set_on(home, "search_path", "pg_catalog, pg_temp").await?;
        let style = self.set_on(home, "datestyle", "ISO, MDY").await?;
        let rows = self.ask_home(sql).await;
        if rows.is_ok() {
            self.set_on(home, "datestyle", &style).await?;
            self.set_on(home, "search_path", &path).await?;
        }
        rows
    }
}

/// The type of the one column that the table is partitioned by ranges of.
fn type_of(table: Oid) -> String {
    format!(
        "SELECT a.atttypid::regtype FROM pg_partitioned_table p JOIN pg_attribute a ON a.attrelid = p.partrelid AND a.attnum = p.partattrs[0] \
         WHERE p.partrelid = {table} AND p.partstrat = 'r' AND p.partnatts = 1 \
           AND a.atttypid IN ('date'::regtype, 'timestamp'::regtype, 'timestamptz'::regtype)"
    )
}

/// Partitions and their bounds, where they have such.
fn parts(table: Oid, kind: &str) -> String {
    let bound = |word: &str| format!("substring(b.bound FROM '{word} \\(''([^'']+)''\\)')::{kind}");
    format!(
        "SELECT b.*, {} AS low, {} AS high FROM (SELECT n.nspname, c.relname, pg_get_expr(c.relpartbound, c.oid) AS bound \
           FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
          WHERE i.inhparent = {table}) b",
        bound("FROM"),
        bound("TO")
    )
}

/// Ranges from the one that holds the start to the one that holds the end, where no partition is: their names and bounds. They go on
/// from those that are there, and begin at a whole year, month, day … otherwise.
fn missing(r: &Relation, kind: &str, (interval, until, start): (String, String, String)) -> String {
    format!(
        "WITH given AS (SELECT ({interval})::interval AS step, ({until})::{kind} AS until, ({start})::{kind} AS start), \
         unit AS (SELECT *, date_trunc(CASE WHEN step >= '1 year' THEN 'year' WHEN step >= '3 months' THEN 'quarter' WHEN step >= '1 month' THEN 'month' \
                                            WHEN step >= '1 week' THEN 'week' WHEN step >= '1 day' THEN 'day' WHEN step >= '1 hour' THEN 'hour' \
                                            ELSE 'minute' END, start)::{kind} AS whole FROM given), \
         parts AS ({}), \
         began AS (SELECT *, coalesce((SELECT low FROM parts WHERE low <= start AND high > start), whole) AS first FROM unit), \
         ranges AS (SELECT step, (first + k * step)::{kind} AS low, (first + (k + 1) * step)::{kind} AS high \
                      FROM began, generate_series(0, {CREATED_MAX}) k WHERE (first + k * step)::{kind} < until) \
         SELECT left({}, 45) || to_char(low, CASE WHEN step >= '1 year' THEN '\"_p\"YYYY' WHEN step >= '1 month' THEN '\"_p\"YYYY_MM' \
                                                  WHEN step >= '1 day' THEN '\"_p\"YYYY_MM_DD' ELSE '\"_p\"YYYY_MM_DD_HH24MI' END), low::text, high::text \
           FROM ranges WHERE NOT EXISTS (SELECT FROM parts WHERE parts.low = ranges.low AND parts.high = ranges.high) ORDER BY ranges.low",
        parts(r.oid, kind),
        quote_literal(&r.name)
    )
}

fn created(r: &Relation, row: catalog::Row) -> Option<Partition> {
    let [Some(name), Some(low), Some(high)] = &row[..] else { return None };
    let bound = format!("FOR VALUES FROM ({}) TO ({})", quote_literal(low), quote_literal(high));
    let sql = catalog::create_as_owner((&r.schema, &r.name), name, &bound);
    Some(Partition { parent: (r.schema.clone(), r.name.clone()), distributed: None, sql })
}

/// Partitions that end before that time.
fn old(table: Oid, kind: &str, before: &str) -> String {
    let parts = parts(table, kind);
    format!("SELECT nspname, relname FROM ({parts}) p WHERE high <= ({before})::{kind} ORDER BY high")
}

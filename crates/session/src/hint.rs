//! Settings of one statement, in a comment that it begins with: `/*+ Set(herd.columns on) */ SELECT …`, as pg_hint_plan's. Settings of reads of column
//! copies are taken; of what is not the herd's nothing is said here, a node may know it. It does not know what the settings do.

use exec::ExecError;
use wire::sqlstate;

use crate::column_use;
use crate::router_settings::RouterSettings;
use crate::session::{Result, Session};

/// The statement begins with one.
fn comment(sql: &str) -> Option<&str> {
    let (hints, _) = sql.trim_ascii_start().strip_prefix("/*+")?.split_once("*/")?;
    Some(hints)
}

/// Each `Set(name value)`; what has no value has an empty one.
fn sets(hints: &str) -> impl Iterator<Item = (&str, &str)> {
    hints.split_inclusive(')').filter_map(|hint| {
        let (word, inside) = hint.trim_ascii().strip_suffix(')')?.split_once('(')?;
        let inside = inside.trim_ascii();
        let (name, value) = inside.split_once(|c: char| c.is_ascii_whitespace()).unwrap_or((inside, ""));
        word.trim_ascii().eq_ignore_ascii_case("set").then(|| (unquoted(name), unquoted(value.trim_ascii())))
    })
}

fn unquoted(text: &str) -> &str {
    ['"', '\''].iter().find_map(|q| text.strip_prefix(*q)?.strip_suffix(*q)).unwrap_or(text)
}

/// The settings as such a statement has them; `None`: it has no hint of ours.
fn hinted(sql: &str, own: &RouterSettings) -> Result<Option<RouterSettings>> {
    let Some(hints) = comment(sql) else { return Ok(None) };
    let mut hinted = None;
    for (name, value) in sets(hints) {
        let name = name.to_ascii_lowercase();
        if !name.starts_with("herd.") {
            continue;
        }
        let Some(name) = column_use::ALL.into_iter().find(|own| *own == name) else {
            let message = format!("a hint can't set \"{name}\" for one statement");
            return Err(ExecError::sql(sqlstate::UNDEFINED_OBJECT, message)
                .hint(&format!("It can set {}. Use SET for others.", column_use::ALL.join(", "))));
        };
        hinted.get_or_insert_with(|| own.clone()).use_now(name, RouterSettings::spelled(name, value)?);
    }
    Ok(hinted)
}

impl Session {
    /// A statement begins: with what its hint sets, and without that of the one before.
    pub fn take_hint(&mut self, sql: &str) -> Result<()> {
        if self.reads.as_ref().is_some_and(|reads| reads.hinted) {
            self.refresh_reads();
        }
        // Nearly all begin with a word.
        if sql.as_bytes().first().is_some_and(u8::is_ascii_alphabetic) {
            return Ok(());
        }
        // What is wrong with the hint is nothing to say where only the transaction's end is wanted.
        if self.transaction.has_failed() {
            return Ok(());
        }
        if let Some(own) = hinted(sql, &self.own)? {
            self.read_by(&own);
            self.reads.iter_mut().for_each(|reads| reads.hinted = true);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(sql: &str) -> Option<exec::ColumnUse> {
        hinted(sql, &RouterSettings::default()).unwrap().and_then(|own| column_use::of(&own))
    }

    #[test]
    fn a_comment_in_front_sets() {
        let way = |sql| taken(sql).map(|taken| taken.way);
        assert_eq!(way("/*+ Set(herd.columns on) */ SELECT 1"), Some(exec::ColumnWay::On));
        assert_eq!(way("\n /*+SeqScan(t) set ( \"HERD.columns\"  'OFF' )*/SELECT 1"), Some(exec::ColumnWay::Off));
        let both = taken("/*+ Set(herd.columns on) Set(herd.freshness \"5s\") */ SELECT 1").unwrap();
        assert_eq!((both.way, both.stale_ms), (exec::ColumnWay::On, Some(5000)));
        assert!(taken("/*+ Set(herd.column_float_sums on) */ SELECT 1").unwrap().float_sums);
    }

    #[test]
    fn others_hints_are_theirs() {
        for sql in [
            "SELECT 1",
            "SELECT /*+ Set(herd.columns on) */ 1",
            "/* Set(herd.columns on) */ SELECT 1",
            "/*+ Set(random_page_cost 1.1) IndexScan(t t_pkey) Leading((a b)) */ SELECT 1",
            "/*+ herd.columns on */ SELECT 1",
            "/*+ Set(herd.columns on) SELECT 1",
            "/*+",
        ] {
            assert!(taken(sql).is_none(), "{sql}");
        }
    }

    #[test]
    fn what_cannot_be_set_so_is_told() {
        let code = |sql| hinted(sql, &RouterSettings::default()).map(drop).unwrap_err().code();
        assert_eq!(code("/*+ Set(herd.columns perhaps) */ SELECT 1"), sqlstate::INVALID_PARAMETER_VALUE);
        assert_eq!(code("/*+ Set(herd.columns) */ SELECT 1"), sqlstate::INVALID_PARAMETER_VALUE);
        assert_eq!(code("/*+ Set(herd.column on) */ SELECT 1"), sqlstate::UNDEFINED_OBJECT);
        assert_eq!(code("/*+ Set(herd.columns,on) */ SELECT 1"), sqlstate::UNDEFINED_OBJECT);
        assert_eq!(code("/*+ Set(herd.two_phase off) */ SELECT 1"), sqlstate::UNDEFINED_OBJECT);
    }
}

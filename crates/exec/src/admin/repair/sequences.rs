//! Sequences on home that are behind their columns: rows were written past the routers, and the next ones would meet them. A sequence is brought to the
//! furthest value that there is; values that a router has taken ahead for many sessions are still given out. Where that would take most of what
//! is left of it, a row may have that value for a mark, and somebody decides.

use std::sync::Arc;

use catalog::{NodeId, Placement, Relation, quote_literal};
use wire::type_oid;

use super::{Finding, Repair, name, regclass};
use crate::client::Client;
use crate::error::Result;
use crate::work::Work;

impl<C: Client> Work<'_, C> {
    pub(super) async fn repair_sequences(&mut self, repair: &Repair, table: &Arc<Relation>) -> Result<Vec<Finding>> {
        let home = self.home();
        let nodes: Vec<NodeId> = match table.placement {
            // What other copies have is not looked at here.
            Placement::Distributed(_) => self.epoch.snapshot.nodes.iter().map(|n| n.id).collect(),
            _ => vec![home],
        };
        let mut findings = Vec::new();
        for column in table.columns.iter().filter(|c| type_oid::is_integer(c.type_oid)) {
            let Some(sequence) = &column.sequence else { continue };
            let sequence_sql = regclass(sequence);
            let ask = format!(
                "SELECT s.seqincrement, s.seqmin, s.seqmax FROM pg_catalog.pg_sequence s WHERE s.seqrelid OPERATOR(pg_catalog.=) {sequence_sql} AND NOT s.seqcycle"
            );
            let said = self.ask_home(&ask).await?;
            // What begins anew when it is at its end is never behind.
            let Some([step, first, last]) = said.into_iter().next().and_then(numbers) else { continue };
            let falls = step < 0;
            let end = end(falls, (first, last), column.type_oid);
            let ask =
                format!("SELECT herd.furthest({}, {}, {falls})", regclass(&name(table)), quote_literal(&column.name));
            let mut furthest: Option<i64> = None;
            for node in &nodes {
                let rows = self.ask_node(*node, &ask).await?;
                let Some(value) = rows.first().and_then(|row| row.first()?.as_deref()?.parse::<i64>().ok()) else {
                    continue;
                };
                furthest =
                    Some(furthest.map_or(value, |known| if falls { known.min(value) } else { known.max(value) }));
            }
            let Some(reached) = furthest else { continue };
            let ask = |how: &str| format!("SELECT herd.{how}({sequence_sql}, {reached})");
            let first = |rows: Vec<catalog::Row>| rows.into_iter().flatten().flatten().next();
            let mut was = first(self.ask_home(&ask("behind")).await?);
            let at = was.as_ref().and_then(|was| was.parse::<i64>().ok());
            let has_room = at.is_some_and(|at| has_room(at, reached, end));
            if has_room && !repair.dry_run {
                self.need_transaction();
                was = first(self.write_on(home, &ask("advance")).await?);
            }
            let Some(was) = was else { continue };
            findings.push(Finding {
                node: self.node_name(home),
                object: sequence.clone(),
                problem: format!("it is at {was}, and column \"{}\" of {} at {reached}", column.name, name(table)),
                mended: has_room && !repair.dry_run,
                action: match (has_room, repair.dry_run) {
                    (true, true) => "it would go on from there".into(),
                    (true, false) => "it goes on from there".into(),
                    (false, _) => left_there(sequence, reached, end, falls),
                },
            });
        }
        Ok(findings)
    }
}

fn numbers(row: catalog::Row) -> Option<[i64; 3]> {
    let cells: Option<Vec<i64>> = row.iter().map(|cell| cell.as_deref()?.parse().ok()).collect();
    cells?.try_into().ok()
}

/// The last value that it can give to the column.
fn end(falls: bool, (first, last): (i64, i64), of: u32) -> i64 {
    let (least, most) = match of {
        type_oid::INT2 => (i16::MIN.into(), i16::MAX.into()),
        type_oid::INT4 => (i32::MIN.into(), i32::MAX.into()),
        _ => (i64::MIN, i64::MAX),
    };
    if falls { first.max(least) } else { last.min(most) }
}

fn left_there(sequence: &str, reached: i64, end: i64, falls: bool) -> String {
    let mark = format!("left there: its end is {end}. Change that row if its value is a mark and no number;");
    let limit = if falls { "MINVALUE" } else { "MAXVALUE" };
    match if falls { reached < end } else { reached > end } {
        true => format!("{mark} or ALTER SEQUENCE {sequence} AS bigint NO {limit}, and repair again"),
        false => {
            format!("{mark} or SELECT pg_catalog.setval({}, {reached}), and little is left", quote_literal(sequence))
        }
    }
}

/// At least half of what is left of it stays.
fn has_room(was: i64, reached: i64, end: i64) -> bool {
    let to_end = |at: i64| i128::from(end) - i128::from(at);
    let (before, after) = (to_end(was), to_end(reached));
    after != 0 && after.signum() == before.signum() && 2 * after.abs() >= before.abs()
}

#[cfg(test)]
mod tests {
    use super::{end, has_room, left_there};

    #[test]
    fn what_takes_most_of_a_sequence_is_somebodys_to_decide() {
        assert!(has_room(1, 500, 1000) && has_room(-1, -500, -1000) && has_room(0, i64::MAX / 2, i64::MAX));
        assert!(!has_room(1, 501, 1000) && !has_room(1, 1000, 1000) && !has_room(1, 1001, 1000));
        assert!(!has_room(-1, -501, -1000) && !has_room(i64::MIN, i64::MAX, i64::MAX));
        assert_eq!(end(false, (1, i64::MAX), wire::type_oid::INT4), i64::from(i32::MAX));
        assert!(left_there("s", 1001, 1000, false).contains("ALTER SEQUENCE s AS bigint NO MAXVALUE"));
        assert!(left_there("s", -1000, -1000, true).contains("SELECT pg_catalog.setval('s', -1000)"));
        assert_eq!(end(true, (-100, -1), wire::type_oid::INT8), -100);
    }
}

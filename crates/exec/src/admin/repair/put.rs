//! Rows of a shard that belong to another one are put there and taken away here, page by page, in the transaction that there is, which has the tables
//! for itself. What is there already, by its key, stays here. It does not know how they were found, nor whether what refers to them comes along.

use catalog::{qualified, quote_literal};

use super::rows::Misplaced;
use super::{Finding, counted, name, number, regclass, texts};
use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::work::Work;

/// Rows that are taken at a time.
const AT_ONCE: usize = 500;
/// And no more behind so many bytes of them.
const BYTES: usize = 4 << 20;

impl<C: Client> Work<'_, C> {
    /// Nobody reads or writes the tables. What was found, and done.
    pub(super) async fn move_rows_of(&mut self, m: &Misplaced) -> Result<Vec<Finding>> {
        let Some((to, there)) = &m.to else { return Ok(vec![]) };
        let (parent, from) = (regclass(&name(&m.table)), regclass(&qualified("herd_shards", &m.shard)));
        let into = regclass(&qualified("herd_shards", to));
        let (mut moved, mut left, mut behind) = (0, 0, "(0,0)".to_string());
        loop {
            let ask = format!(
                "SELECT r.at, r.told FROM herd.misplaced_rows({parent}, {from}, {}, {}, {}, {AT_ONCE}, {BYTES}) r",
                texts(&m.bounds),
                m.place,
                quote_literal(&behind)
            );
            let rows = self.ask_node(m.node, &ask).await?;
            let rows: Vec<(String, String)> = rows
                .into_iter()
                .filter_map(|row| {
                    let mut cells = row.into_iter().flatten();
                    Some((cells.next()?, cells.next()?))
                })
                .collect();
            let Some((last, _)) = rows.last() else { break };
            behind = last.clone();
            // As they came, as they are sent, and quoted for that.
            let bytes: usize = rows.iter().map(|(_, told)| told.len()).sum();
            let _counted = self.memory.take(3 * bytes)?;
            let told = texts(rows.iter().map(|(_, told)| told));
            let put = format!("SELECT herd.put_rows({into}, herd.told_columns({parent}), {told})");
            let put = self.write_on(*there, &put).await?;
            if put.len() != rows.len() {
                return Err(ExecError::internal("a node does not say which rows it has taken"));
            }
            let is_put = |row: &catalog::Row| row.first().and_then(|v| v.as_deref()) == Some("t");
            let gone: Vec<&String> =
                rows.iter().zip(&put).filter(|(_, put)| is_put(put)).map(|((at, _), _)| at).collect();
            left += (rows.len() - gone.len()) as i64;
            if gone.is_empty() {
                continue;
            }
            let dropped = self.write_on(m.node, &format!("SELECT herd.drop_rows({from}, {})", texts(&gone))).await?;
            if number(&dropped) != gone.len() as i64 {
                return Err(ExecError::internal("rows that were locked are not where they were"));
            }
            moved += gone.len() as i64;
        }
        if moved + left != m.count {
            let message =
                format!("{} were found elsewhere, and {} of them again", counted(m.count, "row"), moved + left);
            return Err(ExecError::internal(message));
        }
        let finding = |count: i64, mended: bool, action: String| Finding {
            node: self.node_name(m.node),
            object: qualified("herd_shards", &m.shard),
            problem: format!("{} of {} of another shard", counted(count, "row"), name(&m.table)),
            mended,
            action,
        };
        let target = format!("{} on node \"{}\"", qualified("herd_shards", to), self.node_name(*there));
        let mut findings = Vec::new();
        if moved > 0 {
            findings.push(finding(moved, true, format!("moved to {target}")));
        }
        if left > 0 {
            let action = format!(
                "left there: {target} has rows of the same keys. Decide which are right: on this node DELETE those of {} that are wrong, or delete the others through a router, and repair again",
                qualified("herd_shards", &m.shard)
            );
            findings.push(finding(left, false, action));
        }
        Ok(findings)
    }
}

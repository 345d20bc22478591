//! Calls that are jobs, moves, splits and merges of shards above all: what their arguments say, and how one is written down that is made in the background.
//!
//! Which statements are calls is recognised beside this; who works on jobs is not known here.

use wire::sqlstate;

use super::{AdminCall, AdminFunction, Arg, wrong};
use crate::{Refusal, Result};

/// What nodes are to have as much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// As many shards of each colocation group.
    Shards,
    Size,
    Rows,
    /// What is done with it.
    Load,
}

impl By {
    /// As it is written.
    pub fn of(text: &str) -> Option<By> {
        let all = [("shards", By::Shards), ("size", By::Size), ("rows", By::Rows), ("load", By::Load)];
        all.into_iter().find(|(name, _)| *name == text).map(|(_, by)| by)
    }
}

/// By which a call says that it is to be done in the background; only ever by name.
const BACKGROUND: &str = "background";

impl AdminFunction {
    /// Whether routers do it by themselves if asked to: what is begun again goes on, or finds that it was done.
    pub fn has_background(self) -> bool {
        use AdminFunction::{
            AddColumnCopy, Cluster, DrainNode, IsolateTenant, MergeShards, MoveShard, Rebalance, SplitShard,
        };
        let moves = matches!(self, MoveShard | SplitShard | MergeShards | IsolateTenant | DrainNode | Rebalance);
        moves || self.changes_kind() || matches!(self, Cluster | AddColumnCopy)
    }

    /// Whether it makes a table one of another kind.
    pub fn changes_kind(self) -> bool {
        use AdminFunction::{CreateDistributedTable, CreateReferenceTable, UndistributeTable};
        matches!(self, CreateDistributedTable | CreateReferenceTable | UndistributeTable)
    }
}

impl AdminCall {
    /// One that the router makes itself, as a step of what it was asked for; `name`: the function's.
    pub fn step(function: AdminFunction, name: &str, args: impl IntoIterator<Item = Arg>) -> AdminCall {
        let args = args.into_iter().map(|arg| (None, arg)).collect();
        AdminCall { function, name: name.into(), column: name.into(), args, background: false }
    }

    /// Takes out whether it is to be done in the background: that says of which type the answer is.
    pub(super) fn take_background(mut self) -> Result<AdminCall> {
        let is_it = |(name, _): &mut (Option<String>, Arg)| name.as_deref() == Some(BACKGROUND);
        if !self.function.has_background() {
            return Ok(self);
        }
        let said: Vec<_> = self.args.extract_if(.., is_it).collect();
        if said.len() > 1 {
            let message = format!("argument name \"{BACKGROUND}\" used more than once");
            return Err(wrong(sqlstate::SYNTAX_ERROR, message));
        }
        for (_, arg) in said {
            self.background = match &arg {
                Arg::Text(t) if t == "true" => true,
                Arg::Text(t) if t == "false" => false,
                _ => {
                    let message = format!("{BACKGROUND} of {}() is true or false, written in the call", self.name);
                    return Err(wrong(sqlstate::INVALID_PARAMETER_VALUE, message));
                }
            };
        }
        Ok(self)
    }

    /// As people call it: all of them are in schema `herd`, but those that Citus has, too.
    pub fn shown(&self) -> String {
        if self.function.changes_kind() { self.name.clone() } else { format!("herd.{}", self.name) }
    }

    /// As a statement, which says the same wherever it is run. Its parameters have their values.
    pub fn statement(&self) -> String {
        let value = |arg: &Arg| match arg {
            Arg::Null | Arg::Param(_) => "NULL".to_string(),
            Arg::Text(t) => catalog::quote_literal(t),
            Arg::Moment(sql) => sql.clone(),
            Arg::List(values) => {
                let values: Vec<String> = values.iter().map(|v| catalog::quote_literal(v)).collect();
                format!("ARRAY[{}]::pg_catalog.text[]", values.join(", "))
            }
        };
        let args = self.args.iter().map(|(name, arg)| match name {
            Some(name) => format!("{} => {}", catalog::quote_ident(name), value(arg)),
            None => value(arg),
        });
        format!("SELECT herd.{}({})", self.name, args.collect::<Vec<_>>().join(", "))
    }

    /// The job that is waited for.
    pub fn job(&self) -> Result<i64> {
        let v = self.named(&["job"])?;
        let job = self.text(&v[0], "a job's number")?;
        let wrong = |_| wrong(sqlstate::INVALID_PARAMETER_VALUE, format!("\"{job}\" is not a job's number"));
        job.parse().map_err(wrong)
    }

    /// What `herd.move_shard` moves, and where: the shard's number, and a node's id or name.
    pub fn shard_and_node(&self) -> Result<(i32, String)> {
        let v = self.named(&["table_name|table|relation", "shard", "node"])?;
        Ok((self.shard(&v[1])?, self.text(&v[2], "a node's id or name")?))
    }

    /// What `herd.split_shard` splits: the shard's number, the node of its second half, and the values it is split by.
    pub fn shard_node_and_bound(&self) -> Result<(i32, Option<String>, Vec<String>)> {
        let v = self.named(&["table_name|table|relation", "shard", "node", "at"])?;
        let node = v[2].as_ref().map(|_| self.text(&v[2], "a node's id or name")).transpose()?;
        let at = match &v[3] {
            None => vec![],
            Some(Arg::List(values)) => values.clone(),
            Some(_) => vec![self.text(&v[3], "a value to split at")?],
        };
        Ok((self.shard(&v[1])?, node, at))
    }

    /// What `herd.merge_shards` makes one of: the number of the shard on whose node that is, and of the other.
    pub fn two_shards(&self) -> Result<(i32, i32)> {
        let v = self.named(&["table_name|table|relation", "shard", "other"])?;
        Ok((self.shard(&v[1])?, self.shard(&v[2])?))
    }

    /// The key whose shard `herd.isolate_tenant` makes its own.
    pub fn key(&self) -> Result<String> {
        self.text(&self.tenant()?[1], "a value of the distribution key")
    }

    /// The node on which that shard is to be in the end.
    pub fn key_node(&self) -> Result<Option<String>> {
        let node = &self.tenant()?[2];
        node.as_ref().map(|_| self.text(node, "a node's id or name")).transpose()
    }

    fn tenant(&self) -> Result<Vec<Option<Arg>>> {
        self.named(&["table_name|table|relation", "key|tenant_id", "node"])
    }

    fn shard(&self, value: &Option<Arg>) -> Result<i32> {
        let shard = self.text(value, "a shard's number")?;
        let wrong = |_| wrong(sqlstate::INVALID_PARAMETER_VALUE, format!("\"{shard}\" is not a shard's number"));
        shard.parse().map_err(wrong)
    }

    /// The node that `herd.drain_node` empties, by its id or name.
    pub fn node(&self) -> Result<String> {
        let v = self.named(&["node"])?;
        self.text(&v[0], "a node's id or name")
    }

    /// By what `herd.rebalance` compares nodes.
    pub fn by(&self) -> Result<By> {
        let v = self.named(&["by"])?;
        let Some(by) = v[0].as_ref().map(|_| self.text(&v[0], "a measure")).transpose()? else { return Ok(By::Shards) };
        By::of(&by.to_ascii_lowercase()).ok_or_else(|| Refusal {
            sqlstate: sqlstate::INVALID_PARAMETER_VALUE,
            message: format!("{}() does not know \"{by}\"", self.name),
            hint: Some("It is by shards, size, rows or load.".into()),
        })
    }
}

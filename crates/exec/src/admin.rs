//! Admin SQL: `create_distributed_table` and its kin, run over the herd.
//!
//! What each has to do is planned by the catalog crate; `admin/kind.rs` and `admin/distribute.rs` run the plans. Which statements are
//! such calls, and what their arguments say, knows `plan/src/admin.rs`.

pub mod automatic;
pub mod background;
mod beside;
pub mod chunks;
mod cluster;
mod column_copy;
pub mod distribute;
pub mod export;
mod fill_column_copy;
pub mod function;
pub mod job;
mod kind;
mod move_rows;
pub mod move_shard;
mod partitions;
pub mod repair;
mod restore_point;
mod time_partitions;
mod views;

use std::sync::Arc;

use catalog::{Relation, Snapshot};
use plan::admin::{AdminCall, AdminFunction, Arg, split_name};
use wire::backend::Field;
use wire::{sqlstate, type_oid};

use crate::binary_text::text_of;
use crate::error::{ExecError, Result};
use crate::request::Bound;
use crate::route::Forwarded;

/// What an admin call did.
pub struct AdminDone {
    pub forwarded: Forwarded,
    /// To run on home once the transaction is committed.
    pub after_commit: Vec<String>,
    /// The catalog has changed.
    pub changed: bool,
}

/// The values of `$n` put in.
pub fn with_parameters(mut call: AdminCall, bound: &Bound) -> Result<AdminCall> {
    for (_, arg) in &mut call.args {
        if let Arg::Param(n) = arg {
            let value = bound
                .values
                .get(*n - 1)
                .ok_or_else(|| ExecError::sql(sqlstate::UNDEFINED_PARAMETER, format!("there is no parameter ${n}")))?;
            *arg = match value {
                None => Arg::Null,
                Some(v)
                    if bound.format(*n - 1) == 0
                        || matches!(
                            bound.types.get(*n - 1).copied(),
                            Some(0 | type_oid::TEXT | type_oid::VARCHAR | type_oid::NAME | type_oid::UNKNOWN)
                        ) =>
                {
                    Arg::Text(
                        std::str::from_utf8(v)
                            .map_err(|_| {
                                ExecError::sql(
                                    sqlstate::CHARACTER_NOT_IN_REPERTOIRE,
                                    "invalid byte sequence for encoding \"UTF8\"",
                                )
                            })?
                            .to_string(),
                    )
                }
                Some(v) => {
                    let read = bound.types.get(*n - 1).and_then(|ty| text_of(*ty, v));
                    let text = read.and_then(|text| String::from_utf8(text.into_owned()).ok());
                    Arg::Text(text.ok_or_else(|| {
                        let message = format!("{}() does not read parameters of this type in binary", call.name);
                        ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, message).hint("Give them as text.")
                    })?)
                }
            };
        }
    }
    Ok(call)
}

/// The table of a name as calls have it, if there is one.
fn find(snapshot: &Snapshot, name: &str, search_path: &[String]) -> Result<Option<Arc<Relation>>> {
    let (schema, name) = split_name(name)?;
    Ok(snapshot.resolve(schema.as_deref(), &name, search_path).cloned())
}

/// The same; there must be one.
fn named(snapshot: &Snapshot, name: &str, search_path: &[String]) -> Result<Arc<Relation>> {
    let found = find(snapshot, name, search_path)?;
    let (_, name) = split_name(name)?;
    found.ok_or_else(|| ExecError::sql(sqlstate::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist")))
}

/// What PostgreSQL describes of the call.
pub fn columns(call: &AdminCall) -> Vec<Field> {
    if call.background {
        return vec![Field::new(&call.column, type_oid::INT8, 8)];
    }
    match call.function {
        AdminFunction::RebalancePlan => return move_shard::plan_columns(),
        AdminFunction::Repair | AdminFunction::Verify => return repair::columns(call),
        _ => {}
    }
    vec![match call.function {
        AdminFunction::AddNode
        | AdminFunction::Cluster
        | AdminFunction::CreateTimePartitions
        | AdminFunction::DropOldTimePartitions
        | AdminFunction::SplitShard
        | AdminFunction::MergeShards
        | AdminFunction::IsolateTenant
        | AdminFunction::DrainNode
        | AdminFunction::Rebalance => Field::new(&call.column, type_oid::INT4, 4),
        AdminFunction::MoveShard | AdminFunction::AddColumnCopy => Field::new(&call.column, type_oid::INT8, 8),
        AdminFunction::Version
        | AdminFunction::ExportSnapshot
        | AdminFunction::RestorePoint
        | AdminFunction::WaitJob => Field::new(&call.column, type_oid::TEXT, -1),
        // void
        _ => Field::new(&call.column, type_oid::VOID, 4),
    }]
}

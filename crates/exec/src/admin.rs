//! Admin SQL: `create_distributed_table` and its kin, recognised in statements and run over the herd.
//!
//! What each has to do is planned by the catalog crate; this file recognises the calls, `admin/kind.rs` and `admin/distribute.rs` run the plans.

pub mod chunks;
mod cluster;
pub mod distribute;
pub mod export;
mod kind;
mod move_rows;

use catalog::DistributeRequest;
use key::PartitionStrategy;
use sql::NodeEnum;
use sql::ast::{Node, a_const::Val};
use sql::names;
use wire::backend::Field;
use wire::{sqlstate, type_oid};

use crate::error::{ExecError, Result};
use crate::request::Bound;
use crate::route::Forwarded;

/// A call of an admin function with the texts of its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminCall {
    pub function: AdminFunction,
    /// The name it was called by, which is the name of the result's column.
    pub name: String,
    args: Vec<(Option<String>, Arg)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Arg {
    Null,
    Text(String),
    List(Vec<String>),
    Param(usize),
}

/// The functions that routers run themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdminFunction {
    CreateDistributedTable,
    CreateReferenceTable,
    UndistributeTable,
    AddNode,
    RemoveNode,
    Cluster,
    ExportSnapshot,
    Version,
}

/// What an admin call did.
pub struct AdminDone {
    pub forwarded: Forwarded,
    /// To run on home once the transaction is committed.
    pub after_commit: Vec<String>,
    /// The catalog has changed.
    pub changed: bool,
}

/// Recognises `SELECT f(…)` and `SELECT * FROM f(…)` with constants or parameters as arguments. `own`: a name without a schema means
/// a function of a user's.
pub fn recognise(statement: &NodeEnum, own: impl Fn(&str) -> bool) -> Option<Result<AdminCall>> {
    let NodeEnum::SelectStmt(s) = statement else { return None };
    let call = match (&s.target_list[..], &s.from_clause[..]) {
        ([one], []) if s.where_clause.is_none() => plan::rewrite::target_value(one)?,
        ([_], [from]) => match from.node.as_ref()? {
            NodeEnum::RangeFunction(f) => match f.functions.first()?.node.as_ref()? {
                NodeEnum::List(l) => l.items.first()?,
                _ => return None,
            },
            _ => return None,
        },
        _ => return None,
    };
    let NodeEnum::FuncCall(f) = call.node.as_ref()? else { return None };
    let qualified = names::strings(&f.funcname);
    let name = *qualified.last()?;
    let elsewhere = match qualified.len() {
        1 => own(name),
        _ => !matches!(qualified[0], "public" | "herd" | "pg_catalog"),
    };
    if elsewhere {
        return None;
    }
    let function = match name {
        "create_distributed_table" => AdminFunction::CreateDistributedTable,
        "create_reference_table" => AdminFunction::CreateReferenceTable,
        "undistribute_table" => AdminFunction::UndistributeTable,
        "citus_add_node" | "citus_add_secondary_node" | "master_add_node" => AdminFunction::AddNode,
        "citus_remove_node" | "master_remove_node" => AdminFunction::RemoveNode,
        "citus_version" | "herd_version" => AdminFunction::Version,
        "cluster" if qualified[0] == "herd" => AdminFunction::Cluster,
        "export_snapshot" if qualified[0] == "herd" => AdminFunction::ExportSnapshot,
        "add_node" if qualified[0] == "herd" => AdminFunction::AddNode,
        "remove_node" if qualified[0] == "herd" => AdminFunction::RemoveNode,
        _ => return None,
    };
    let args = f.args.iter().map(|a| argument(a, name)).collect::<Result<Vec<_>>>();
    Some(args.map(|args| AdminCall { function, name: name.to_string(), args }))
}

fn argument(node: &Node, function: &str) -> Result<(Option<String>, Arg)> {
    let (name, value) = match &node.node {
        Some(NodeEnum::NamedArgExpr(n)) => (Some(n.name.clone()), n.arg.as_deref()),
        _ => (None, Some(node)),
    };
    let unknown = || {
        ExecError::sql(
            sqlstate::FEATURE_NOT_SUPPORTED,
            format!("{function}() takes constants and parameters as arguments, not expressions"),
        )
        .hint("Write the values themselves.")
    };
    Ok((name, constant(value.ok_or_else(unknown)?).ok_or_else(unknown)?))
}

fn constant(node: &Node) -> Option<Arg> {
    match node.node.as_ref()? {
        NodeEnum::AConst(c) if c.isnull => Some(Arg::Null),
        NodeEnum::AConst(c) => Some(Arg::Text(match c.val.as_ref()? {
            Val::Ival(i) => i.ival.to_string(),
            Val::Fval(f) => f.fval.clone(),
            Val::Sval(s) => s.sval.clone(),
            Val::Boolval(b) => b.boolval.to_string(),
            Val::Bsval(_) => return None,
        })),
        NodeEnum::TypeCast(t) => constant(t.arg.as_deref()?),
        NodeEnum::ParamRef(p) => usize::try_from(p.number).ok().map(Arg::Param),
        NodeEnum::AArrayExpr(a) => a
            .elements
            .iter()
            .map(|e| match constant(e)? {
                Arg::Text(t) => Some(t),
                _ => None,
            })
            .collect::<Option<Vec<_>>>()
            .map(Arg::List),
        _ => None,
    }
}

impl AdminCall {
    /// The values of `$n` put in.
    pub fn with_params(mut self, bound: &Bound) -> Result<Self> {
        for (_, arg) in &mut self.args {
            if let Arg::Param(n) = arg {
                let value = bound.values.get(*n - 1).ok_or_else(|| {
                    ExecError::sql(sqlstate::UNDEFINED_PARAMETER, format!("there is no parameter ${n}"))
                })?;
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
                    Some(v) => match v[..] {
                        [a, b, c, d] => Arg::Text(i32::from_be_bytes([a, b, c, d]).to_string()),
                        _ => {
                            return Err(ExecError::sql(
                                sqlstate::FEATURE_NOT_SUPPORTED,
                                format!("{}() takes its parameters as text", self.name),
                            ));
                        }
                    },
                };
            }
        }
        Ok(self)
    }

    pub fn columns(&self) -> Vec<Field> {
        vec![match self.function {
            AdminFunction::AddNode | AdminFunction::Cluster => Field::new(&self.name, type_oid::INT4, 4),
            AdminFunction::Version | AdminFunction::ExportSnapshot => Field::new(&self.name, type_oid::TEXT, -1),
            // void
            _ => Field::new(&self.name, type_oid::VOID, 4),
        }]
    }

    /// Assigns arguments to parameter names, by name or by position.
    fn named(&self, parameters: &[&str]) -> Result<Vec<Option<Arg>>> {
        let mut values = vec![None; parameters.len()];
        for (i, (name, arg)) in self.args.iter().enumerate() {
            let at = match name {
                Some(n) => parameters.iter().position(|p| p.split('|').any(|alias| alias == n)),
                None => (i < parameters.len()).then_some(i),
            };
            let Some(at) = at else {
                let what = name.clone().unwrap_or_else(|| format!("argument {}", i + 1));
                let known: Vec<&str> = parameters.iter().filter_map(|p| p.split('|').next()).collect();
                return Err(ExecError::sql(
                    sqlstate::UNDEFINED_FUNCTION,
                    format!("{}() does not know {what}", self.name),
                )
                .hint(&format!("Its arguments are: {}.", known.join(", "))));
            };
            values[at] = (*arg != Arg::Null).then(|| arg.clone());
        }
        Ok(values)
    }

    fn text(&self, value: &Option<Arg>, what: &str) -> Result<String> {
        match value {
            Some(Arg::Text(t)) => Ok(t.clone()),
            _ => Err(ExecError::sql(sqlstate::NULL_VALUE_NOT_ALLOWED, format!("{}() needs {what}", self.name))),
        }
    }

    /// The table an admin function is about, as written.
    pub fn table(&self) -> Result<String> {
        let first = self
            .args
            .iter()
            .find(|(n, _)| n.is_none() || matches!(n.as_deref(), Some("table_name" | "table" | "relation")))
            .map(|(_, a)| a.clone());
        self.text(&first, "a table's name")
    }

    /// `has`: whether the table has a column of exactly this name.
    pub fn distribute_request(
        &self,
        schema: &str,
        name: &str,
        has: impl Fn(&str) -> bool,
    ) -> Result<(DistributeRequest, Option<Vec<String>>)> {
        let v = self.named(&[
            "table_name|table|relation",
            "distribution_column|column",
            "distribution_type|strategy",
            "colocate_with",
            "shard_count",
            "bounds",
        ])?;
        let columns = self.text(&v[1], "a distribution column")?;
        // A name is taken as it is given; only where there is none such, as SQL would read it.
        let column = |c: &str| if has(c) { c.to_string() } else { unquote(c.trim()) };
        let columns = if has(&columns) { vec![columns] } else { columns.split(',').map(column).collect() };
        let strategy = match &v[2] {
            None => None,
            Some(_) => Some(match self.text(&v[2], "a strategy")?.to_ascii_lowercase().as_str() {
                "hash" => PartitionStrategy::Hash,
                "range" => PartitionStrategy::Range,
                "list" => PartitionStrategy::List,
                other => {
                    return Err(ExecError::sql(
                        sqlstate::INVALID_PARAMETER_VALUE,
                        format!("unknown strategy \"{other}\""),
                    )
                    .hint("The strategies are hash, range and list."));
                }
            }),
        };
        let shard_count = match &v[4] {
            Some(_) => {
                let text = self.text(&v[4], "a shard count")?;
                Some(text.parse().map_err(|_| {
                    ExecError::sql(
                        sqlstate::INVALID_PARAMETER_VALUE,
                        format!("shard_count must be a number, not \"{text}\""),
                    )
                })?)
            }
            None => None,
        };
        let colocate_with = v[3].as_ref().map(|_| self.text(&v[3], "a table to colocate with")).transpose()?;
        let bounds = match &v[5] {
            Some(Arg::List(l)) => Some(l.clone()),
            Some(Arg::Text(t)) => Some(t.split(';').map(|b| b.trim().to_string()).collect()),
            _ => None,
        };
        Ok((
            DistributeRequest {
                schema: schema.into(),
                name: name.into(),
                columns,
                strategy,
                shard_count,
                colocate_with,
                bounds: None,
                prefix: None,
            },
            bounds,
        ))
    }

    /// The index `herd.cluster` sorts by.
    pub fn index(&self) -> Result<String> {
        let v = self.named(&["table_name|table|relation", "index_name|index"])?;
        Ok(unquote(&self.text(&v[1], "an index's name")?))
    }

    /// Host, port and database of a node.
    pub fn address(&self) -> Result<(String, u16, Option<String>)> {
        let v = self.named(&["nodename|host", "nodeport|port", "database"])?;
        let host = self.text(&v[0], "a host")?;
        let port = self.text(&v[1], "a port")?;
        let port = port
            .parse()
            .map_err(|_| ExecError::sql(sqlstate::INVALID_PARAMETER_VALUE, format!("\"{port}\" is not a port")))?;
        let database = match &v[2] {
            Some(Arg::Text(t)) => Some(t.clone()),
            _ => None,
        };
        Ok((host, port, database))
    }
}

/// A name as SQL reads it: quoted as it is, otherwise in lower case.
pub fn unquote(name: &str) -> String {
    match name.strip_prefix('"').and_then(|n| n.strip_suffix('"')) {
        Some(inner) => inner.replace("\"\"", "\""),
        None => name.to_ascii_lowercase(),
    }
}

/// `schema.table` or `table`, quoted or not.
pub fn split_name(name: &str) -> Result<(Option<String>, String)> {
    let parsed = sql::parse(&format!("TABLE {name}"), true).ok().and_then(|mut s| s.pop());
    if let Some(NodeEnum::SelectStmt(s)) = parsed
        && let Some(Node { node: Some(NodeEnum::RangeVar(rv)) }) = s.from_clause.first()
    {
        let (schema, name) = names::table(rv);
        return Ok((schema.map(str::to_string), name.to_string()));
    }
    Err(ExecError::sql(sqlstate::INVALID_NAME, format!("invalid name syntax: \"{name}\"")))
}

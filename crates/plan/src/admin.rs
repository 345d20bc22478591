//! Admin SQL: calls of `create_distributed_table` and its kin, and what their arguments say.
//!
//! What each has to do is planned by the catalog crate. Who runs it, and what parameters stand for, is not known here.

mod jobs;

pub use jobs::By;

use catalog::DistributeRequest;
use key::PartitionStrategy;
use sql::NodeEnum;
use sql::ast::{FuncCall, Node, SelectStmt, a_const::Val};
use sql::names;
use wire::sqlstate;

use crate::{Context, Refusal, Result};

/// A call of an admin function with the texts of its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminCall {
    pub function: AdminFunction,
    /// The name it was called by.
    pub name: String,
    /// The name of the result's column.
    pub column: String,
    /// With the names they are given by.
    pub args: Vec<(Option<String>, Arg)>,
    /// A job is entered that makes it.
    pub background: bool,
}

/// The value of an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arg {
    Null,
    Text(String),
    List(Vec<String>),
    /// `$n`, from 1.
    Param(usize),
    /// What PostgreSQL's own clock and arithmetic make of constants, as SQL.
    Moment(String),
}

/// The functions that routers run themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdminFunction {
    CreateDistributedTable,
    CreateReferenceTable,
    UndistributeTable,
    CreateDistributedFunction,
    AddNode,
    RemoveNode,
    Cluster,
    CreateTimePartitions,
    DropOldTimePartitions,
    MoveShard,
    SplitShard,
    MergeShards,
    IsolateTenant,
    DrainNode,
    Rebalance,
    RebalancePlan,
    Repair,
    Verify,
    WaitJob,
    ExportSnapshot,
    RestorePoint,
    AddColumnCopy,
    DropColumnCopy,
    Version,
}

/// A function that is to be distributed by an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DistributedFunction {
    /// Its name and the types of its arguments, as written.
    pub function: String,
    /// `$n`, or a name; none: it is no longer to be.
    pub argument: Option<String>,
    /// A table whose shards calls are expected to go to, as written.
    pub colocate_with: Option<String>,
}

/// Recognises `SELECT f(…)` and `SELECT * FROM f(…)` with constants or parameters as arguments, and nothing besides; not of a function
/// of that name in a schema that comes before theirs.
pub fn recognise(s: &SelectStmt, cx: &Context) -> Option<Result<AdminCall>> {
    let (f, alias) = match (&s.target_list[..], &s.from_clause[..]) {
        ([one], []) => selected(one)?,
        ([star], [from]) if is_star(star) => read_from(from)?,
        _ => return None,
    };
    let function = AdminFunction::of(f, cx)?;
    if !is_all_there_is(s, f) {
        return None;
    }
    let name = names::last(&f.funcname);
    let moments = matches!(function, AdminFunction::CreateTimePartitions | AdminFunction::DropOldTimePartitions);
    let args = f.args.iter().map(|a| argument(a, name, moments)).collect::<Result<Vec<_>>>();
    let column = if alias.is_empty() { name } else { alias };
    let call =
        |args| AdminCall { function, name: name.to_string(), column: column.to_string(), args, background: false };
    Some(args.and_then(|args| call(args).take_background()))
}

/// The value of a target, if that is a call, and the name it is given.
fn selected(target: &Node) -> Option<(&FuncCall, &str)> {
    let NodeEnum::ResTarget(target) = target.node.as_ref()? else { return None };
    Some((call(target.val.as_deref()?)?, &target.name))
}

/// The call that is read as a table, and the name it is given.
fn read_from(from: &Node) -> Option<(&FuncCall, &str)> {
    let NodeEnum::RangeFunction(read) = from.node.as_ref()? else { return None };
    let [only] = &read.functions[..] else { return None };
    let NodeEnum::List(call_and_columns) = only.node.as_ref()? else { return None };
    let alias = match &read.alias {
        None => "",
        Some(alias) if alias.colnames.is_empty() => &*alias.aliasname,
        Some(_) => return None,
    };
    let plain = !read.ordinality && !read.is_rowsfrom && read.coldeflist.is_empty();
    if plain { Some((call(call_and_columns.items.first()?)?, alias)) } else { None }
}

fn call(node: &Node) -> Option<&FuncCall> {
    match node.node.as_ref()? {
        NodeEnum::FuncCall(f) => Some(f),
        _ => None,
    }
}

fn is_star(target: &Node) -> bool {
    let Some(NodeEnum::ResTarget(target)) = &target.node else { return false };
    let Some(NodeEnum::ColumnRef(column)) = target.val.as_deref().and_then(|v| v.node.as_ref()) else { return false };
    matches!(&column.fields[..], [Node { node: Some(NodeEnum::AStar(_)) }])
}

/// The statement has no clause besides, nor has the call.
fn is_all_there_is(s: &SelectStmt, f: &FuncCall) -> bool {
    let (target_list, from_clause) = (s.target_list.clone(), s.from_clause.clone());
    let plain = SelectStmt { target_list, from_clause, limit_option: s.limit_option, op: s.op, ..Default::default() };
    let bare = f.agg_filter.is_none() && f.over.is_none() && f.agg_order.is_empty();
    *s == plain && bare && !f.agg_star && !f.agg_distinct && !f.func_variadic
}

/// The function that routers run which a statement calls somewhere inside.
pub fn called_inside(statement: &NodeEnum, cx: &Context) -> Option<Refusal> {
    sql::search::find(statement, |n| match n {
        NodeEnum::FuncCall(f) => AdminFunction::of(f, cx).map(|_| not_alone(names::last(&f.funcname))),
        _ => None,
    })
}

/// Why a function that routers run is not called in a statement that does something else.
pub fn not_alone(function: &str) -> Refusal {
    Refusal::new(
        format!("{function}() is run by the router, as a statement of its own"),
        format!("Call it by SELECT {function}(…), with constants and parameters as arguments and nothing besides."),
    )
}

impl AdminFunction {
    /// Which of them a call means.
    pub fn of(f: &FuncCall, cx: &Context) -> Option<Self> {
        let (schema, name) = names::qualified(&f.funcname);
        let herds = schema == Some("herd");
        let function = match name {
            "create_distributed_table" => AdminFunction::CreateDistributedTable,
            "create_reference_table" => AdminFunction::CreateReferenceTable,
            "undistribute_table" => AdminFunction::UndistributeTable,
            "create_distributed_function" => AdminFunction::CreateDistributedFunction,
            "citus_add_node" | "citus_add_secondary_node" | "master_add_node" => AdminFunction::AddNode,
            "citus_remove_node" | "master_remove_node" => AdminFunction::RemoveNode,
            "citus_version" | "herd_version" => AdminFunction::Version,
            "create_time_partitions" => AdminFunction::CreateTimePartitions,
            "drop_old_time_partitions" => AdminFunction::DropOldTimePartitions,
            "cluster" if herds => AdminFunction::Cluster,
            "move_shard" if herds => AdminFunction::MoveShard,
            "split_shard" if herds => AdminFunction::SplitShard,
            "merge_shards" if herds => AdminFunction::MergeShards,
            "isolate_tenant" if herds => AdminFunction::IsolateTenant,
            "drain_node" if herds => AdminFunction::DrainNode,
            "rebalance" if herds => AdminFunction::Rebalance,
            "rebalance_plan" if herds => AdminFunction::RebalancePlan,
            "repair" if herds => AdminFunction::Repair,
            // Without arguments it is what one node says of itself.
            "verify" if herds && !f.args.is_empty() => AdminFunction::Verify,
            "wait_job" if herds => AdminFunction::WaitJob,
            "export_snapshot" if herds => AdminFunction::ExportSnapshot,
            "restore_point" if herds => AdminFunction::RestorePoint,
            "add_column_copy" if herds => AdminFunction::AddColumnCopy,
            "drop_column_copy" if herds => AdminFunction::DropColumnCopy,
            "add_node" if herds => AdminFunction::AddNode,
            "remove_node" if herds => AdminFunction::RemoveNode,
            _ => return None,
        };
        let elsewhere = match schema {
            None => is_hidden(name, cx),
            Some(schema) => !matches!(schema, "public" | "herd" | "pg_catalog"),
        };
        if elsewhere { None } else { Some(function) }
    }
}

/// A function of a user's has this name, in a schema that is looked into before `public`.
fn is_hidden(name: &str, cx: &Context) -> bool {
    let before = |schema: &String| cx.search_path.iter().take_while(|s| *s != "public").any(|s| s == schema);
    cx.snapshot.functions.get(name).is_some_and(|all| all.iter().any(|f| before(&f.schema)))
}

fn argument(node: &Node, function: &str, moments: bool) -> Result<(Option<String>, Arg)> {
    let (name, value) = match &node.node {
        Some(NodeEnum::NamedArgExpr(n)) => (Some(n.name.clone()), n.arg.as_deref()),
        _ => (None, Some(node)),
    };
    let unknown = || {
        Refusal::new(
            format!("{function}() takes constants and parameters as arguments, not expressions"),
            "Write the values themselves.",
        )
    };
    let value = value.ok_or_else(unknown)?;
    let moment = || if moments { moment(value) } else { None };
    Ok((name, constant(value).or_else(moment).ok_or_else(unknown)?))
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

/// `now() + interval '1 month'` and the like: nothing in it is a table's, or a user's own.
fn moment(node: &Node) -> Option<Arg> {
    const CLOCK: [&str; 4] = ["now", "clock_timestamp", "transaction_timestamp", "date_trunc"];
    let statement = NodeEnum::SelectStmt(Box::new(SelectStmt {
        target_list: vec![sql::build::target(node.clone(), None)],
        limit_option: sql::ast::LimitOption::Default as i32,
        op: sql::ast::SetOperation::SetopNone as i32,
        ..Default::default()
    }));
    let strange = sql::search::any(node, |n| match n {
        NodeEnum::FuncCall(f) => {
            !CLOCK.contains(&names::last(&f.funcname))
                || names::qualified(&f.funcname).0.is_some_and(|s| s != "pg_catalog")
        }
        NodeEnum::AExpr(e) => !matches!(names::strings(&e.name)[..], ["+" | "-" | "*"]),
        NodeEnum::AConst(_) | NodeEnum::TypeCast(_) | NodeEnum::SqlvalueFunction(_) | NodeEnum::TypeName(_) => false,
        NodeEnum::String(_) | NodeEnum::Integer(_) | NodeEnum::List(_) => false,
        _ => true,
    });
    let text = sql::deparse(&statement).ok().filter(|_| !strange)?;
    text.strip_prefix("SELECT ").map(|text| Arg::Moment(text.to_string()))
}

impl AdminCall {
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
                return Err(Refusal {
                    sqlstate: sqlstate::UNDEFINED_FUNCTION,
                    message: format!("{}() does not know {what}", self.name),
                    hint: Some(format!("Its arguments are: {}.", known.join(", "))),
                });
            };
            values[at] = (*arg != Arg::Null).then(|| arg.clone());
        }
        Ok(values)
    }

    fn text(&self, value: &Option<Arg>, what: &str) -> Result<String> {
        match value {
            Some(Arg::Text(t)) => Ok(t.clone()),
            _ => Err(wrong(sqlstate::NULL_VALUE_NOT_ALLOWED, format!("{}() needs {what}", self.name))),
        }
    }

    /// The table an admin function is about, as written.
    pub fn table(&self) -> Result<String> {
        let first = self.args.iter().find(|(name, _)| is_table(name)).map(|(_, a)| a.clone());
        self.text(&first, "a table's name")
    }

    /// The same, another.
    pub fn set_table(&mut self, table: Arg) {
        if let Some((_, arg)) = self.args.iter_mut().find(|(name, _)| is_table(name)) {
            *arg = table;
        }
    }

    /// The table whose shards a table's are to be colocated with, as written.
    pub fn other_table(&self) -> Result<Option<String>> {
        if self.function != AdminFunction::CreateDistributedTable {
            return Ok(None);
        }
        let v = self.named(&DISTRIBUTE)?;
        let other = v[3].as_ref().map(|_| self.text(&v[3], "a table to colocate with")).transpose()?;
        Ok(other.filter(|other| other != "default" && other != "none"))
    }

    /// The same, another.
    pub fn set_other_table(&mut self, other: String) {
        let at = self.args.iter().enumerate().position(|(i, (name, _))| match name {
            Some(name) => name == DISTRIBUTE[3],
            None => i == 3,
        });
        if let Some(at) = at {
            self.args[at].1 = Arg::Text(other);
        }
    }

    /// `has`: whether the table has a column of exactly this name.
    pub fn distribute_request(
        &self,
        schema: &str,
        name: &str,
        has: impl Fn(&str) -> bool,
    ) -> Result<(DistributeRequest, Option<Vec<String>>)> {
        let v = self.named(&DISTRIBUTE)?;
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
                    return Err(Refusal {
                        sqlstate: sqlstate::INVALID_PARAMETER_VALUE,
                        message: format!("unknown strategy \"{other}\""),
                        hint: Some("The strategies are hash, range and list.".into()),
                    });
                }
            }),
        };
        let shard_count = match &v[4] {
            Some(_) => {
                let text = self.text(&v[4], "a shard count")?;
                Some(text.parse().map_err(|_| {
                    wrong(sqlstate::INVALID_PARAMETER_VALUE, format!("shard_count must be a number, not \"{text}\""))
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

    /// What `create_distributed_function` is told.
    pub fn distributed_function(&self) -> Result<DistributedFunction> {
        let v = self.named(&[
            "function_name|function",
            "distribution_arg_name|argument",
            "colocate_with",
            "force_delegation",
        ])?;
        let given = |n: usize, what| v[n].as_ref().map(|_| self.text(&v[n], what)).transpose();
        let colocate_with = given(2, "a table to colocate with")?.filter(|t| t != "default");
        Ok(DistributedFunction {
            function: self.text(&v[0], "a function's name and types")?,
            argument: given(1, "an argument")?,
            colocate_with,
        })
    }

    /// Of `herd.create_time_partitions`: the interval, until when, and from when, as SQL.
    pub fn time_partitions(&self) -> Result<(String, String, String)> {
        let v = self.named(&[
            "table_name|table|relation",
            "partition_interval|interval",
            "until|end_at",
            "start_from|start",
        ])?;
        let start = v[3].as_ref().map(|_| self.moment(&v[3], "a start")).transpose()?;
        let start = start.unwrap_or_else(|| "pg_catalog.now()".into());
        Ok((self.moment(&v[1], "an interval")?, self.moment(&v[2], "a time until which")?, start))
    }

    /// Of `herd.drop_old_time_partitions`: before when, as SQL.
    pub fn before(&self) -> Result<String> {
        let v = self.named(&["table_name|table|relation", "before|older_than"])?;
        self.moment(&v[1], "a time before which")
    }

    fn moment(&self, value: &Option<Arg>, what: &str) -> Result<String> {
        match value {
            Some(Arg::Moment(sql)) => Ok(sql.clone()),
            _ => Ok(catalog::quote_literal(&self.text(value, what)?)),
        }
    }

    /// The index `herd.cluster` sorts by.
    pub fn index(&self) -> Result<String> {
        let v = self.named(&["table_name|table|relation", "index_name|index"])?;
        Ok(unquote(&self.text(&v[1], "an index's name")?))
    }

    /// Of `herd.add_column_copy`: the columns (none: all), and those that it is sorted by.
    pub fn column_copy(&self) -> Result<(Vec<String>, Vec<String>)> {
        let v = self.named(&["table_name|table|relation", "columns", "order_by"])?;
        let list = |value: &Option<Arg>| match value {
            None => Ok(vec![]),
            Some(Arg::List(names)) => Ok(names.clone()),
            Some(Arg::Text(text)) => {
                let inner = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')).unwrap_or(text);
                Ok(inner.split(',').map(|name| unquote(name.trim())).filter(|name| !name.is_empty()).collect())
            }
            Some(_) => Err(wrong(
                sqlstate::INVALID_PARAMETER_VALUE,
                format!("{}() takes columns as an array of names", self.name),
            )),
        };
        Ok((list(&v[1])?, list(&v[2])?))
    }

    /// The table that `herd.verify` looks at.
    fn verified(&self) -> Result<String> {
        let v = self.named(&["table_name|table|relation"])?;
        self.text(&v[0], "a table's name")
    }

    /// What `herd.repair` looks at (none: all tables), the node whose copies of reference tables are right, and whether it only looks.
    /// `herd.verify` looks at one table, and nothing more.
    pub fn repair(&self) -> Result<(Option<String>, Option<String>, bool)> {
        if self.function == AdminFunction::Verify {
            return Ok((Some(self.verified()?), None, true));
        }
        let v = self.named(&["table_name|table|relation", "trust_node", "dry_run"])?;
        let text = |at: usize, what| v[at].as_ref().map(|_| self.text(&v[at], what)).transpose();
        let dry_run = match text(2, "whether it only looks")?.map(|t| t.to_ascii_lowercase()).as_deref() {
            None | Some("false" | "f" | "off" | "no" | "0") => false,
            Some("true" | "t" | "on" | "yes" | "1") => true,
            Some(other) => {
                let message = format!("dry_run of {}() is true or false, not \"{other}\"", self.name);
                return Err(wrong(sqlstate::INVALID_PARAMETER_VALUE, message));
            }
        };
        Ok((text(0, "a table's name")?, text(1, "a node's id or name")?, dry_run))
    }

    /// What a restore point is to be called.
    pub fn point(&self) -> Result<String> {
        let v = self.named(&["name"])?;
        self.text(&v[0], "the restore point's name")
    }

    /// Host, port and database of a node.
    pub fn address(&self) -> Result<(String, u16, Option<String>)> {
        let v = self.named(&["nodename|host", "nodeport|port", "database"])?;
        let host = self.text(&v[0], "a host")?;
        let port = self.text(&v[1], "a port")?;
        let port =
            port.parse().map_err(|_| wrong(sqlstate::INVALID_PARAMETER_VALUE, format!("\"{port}\" is not a port")))?;
        let database = match &v[2] {
            Some(Arg::Text(t)) => Some(t.clone()),
            _ => None,
        };
        Ok((host, port, database))
    }
}

/// What `create_distributed_table` is told.
const DISTRIBUTE: [&str; 6] = [
    "table_name|table|relation",
    "distribution_column|column",
    "distribution_type|strategy",
    "colocate_with",
    "shard_count",
    "bounds",
];

/// An argument of this name, or without one, is the table.
fn is_table(name: &Option<String>) -> bool {
    matches!(name.as_deref(), None | Some("table_name" | "table" | "relation"))
}

fn wrong(sqlstate: &'static str, message: String) -> Refusal {
    Refusal { sqlstate, message, hint: None }
}

/// A name as SQL reads it: quoted as it is, otherwise in lower case.
fn unquote(name: &str) -> String {
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
    Err(wrong(sqlstate::INVALID_NAME, format!("invalid name syntax: \"{name}\"")))
}

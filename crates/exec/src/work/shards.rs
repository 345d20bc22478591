//! From key expressions to shards and nodes, for one execution. PostgreSQL is asked where only it can read a value.

use std::collections::BTreeSet;

use bytes::Bytes;
use catalog::{NodeId, Relation};
use key::{Converted, KeyError, Located};
use plan::{Evaluation, KeyExpr, LiteralKind, Piece, TableKeys, Text};
use wire::type_oid;

use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::request::{Literals, Request};
use crate::router::compiled::Compiled;
use crate::work::Work;

/// Where a statement's rows can be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Targets {
    pub nodes: BTreeSet<NodeId>,
    /// All of it is in this one shard.
    pub shard: Option<i32>,
}

/// A key value at execution.
pub enum Value {
    Known(Option<Vec<u8>>),
    /// No row can have it (out of the type's range).
    Impossible,
    /// Only PostgreSQL can read this text as the key's type.
    Ask(String),
    /// Says nothing of the key.
    Unknown,
}

/// Lists longer than this are not evaluated one by one: all shards are taken.
const ALTERNATIVES_MAX: usize = 100_000;

impl<C: Client> Work<'_, C> {
    /// The nodes a plan concerns, for the values of this request.
    pub async fn targets(&mut self, compiled: &Compiled, request: &Request<'_>) -> Result<Targets> {
        let mut nodes = BTreeSet::new();
        let mut shard = None;
        let mut one = true;
        for (i, table) in compiled.plan.whole().tables.iter().enumerate() {
            let shards = self.shards_of(compiled, request, table).await?;
            let Some(d) = table.relation.distribution() else { continue };
            match shards {
                Some(shards) => {
                    for s in &shards {
                        nodes.insert(d.group.shards[*s].node);
                    }
                    let number =
                        (shards.len() == 1).then(|| d.group.shards[*shards.iter().next().unwrap_or(&0)].number);
                    one &= number.is_some() && (i == 0 || number == shard);
                    shard = number;
                }
                None => {
                    nodes.extend(d.group.shards.iter().map(|s| s.node));
                    one = false;
                }
            }
        }
        if compiled.plan.whole().needs_home {
            nodes.insert(self.home());
        }
        Ok(Targets { shard: if one { shard } else { None }, nodes })
    }

    /// The commonest case at once: one table, one key column, one value that can be read here.
    pub fn one_shard(&self, compiled: &Compiled, request: &Request<'_>) -> Result<Option<(NodeId, i32)>> {
        let ([table], false) = (&compiled.plan.whole().tables[..], compiled.plan.whole().needs_home) else {
            return Ok(None);
        };
        let (Some(d), [alternatives]) = (table.relation.distribution(), &table.columns[..]) else { return Ok(None) };
        let ([e], [ty]) = (&alternatives[..], &d.group.key_types[..]) else { return Ok(None) };
        let value = match e {
            KeyExpr::Param(n) => param(request, *n, *ty),
            KeyExpr::CastParam(n, cast) => cast_param(request, *n, *cast, *ty),
            KeyExpr::Literal { .. } => literal_value(compiled, request, e, *ty),
            _ => return Ok(None),
        };
        let Value::Known(value) = value else { return Ok(None) };
        let bounds = self.epoch.bounds(d.group.id);
        match key::locate(d.group.strategy, &d.group.key_types, &bounds, &[value]).map_err(key_error)? {
            Located::Shard(s) => Ok(Some((d.group.shards[s].node, d.group.shards[s].number))),
            Located::Nowhere => Ok(None),
        }
    }

    /// Positions of the shards one use of a table is restricted to; `None`: all.
    pub async fn shards_of(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        table: &TableKeys,
    ) -> Result<Option<BTreeSet<usize>>> {
        let Some(d) = table.relation.distribution() else { return Ok(None) };
        if table.columns.is_empty() || table.columns.first().is_none_or(Vec::is_empty) {
            return Ok(None);
        }
        let bounds = self.epoch.bounds(d.group.id);
        let inserts = matches!(compiled.plan, plan::Plan::Insert { .. });
        let mut known: Vec<Vec<Option<Vec<u8>>>> = vec![vec![]];
        for (i, alternatives) in table.columns.iter().enumerate() {
            if alternatives.is_empty() {
                break;
            }
            let ty = d.group.key_types[i];
            let mut values = Vec::new();
            for e in alternatives {
                for value in evaluate(compiled, request, e, ty) {
                    match value {
                        Value::Known(v) => values.push(v),
                        // Written, it is converted as on assignment; `key = $1` compares.
                        Value::Unknown | Value::Impossible if inserts && parameter(e).is_some() => {
                            values.push(self.ask_parameter(request, e, &table.relation, d.key[i]).await?);
                        }
                        Value::Impossible => {}
                        Value::Ask(text) => {
                            let asked = self.ask_value(&text, &table.relation, d.key[i]).await;
                            values.push(asked.map_err(|error| at_literal(error, compiled, request, e))?);
                        }
                        // A value to be written is coerced by PostgreSQL, as on assignment.
                        Value::Unknown if inserts => match literal_text(compiled, request, e) {
                            Some(text) => values.push(self.ask_value(&text, &table.relation, d.key[i]).await?),
                            None => return Ok(None),
                        },
                        Value::Unknown => return Ok(None),
                    }
                }
            }
            if known.len().saturating_mul(values.len()) > ALTERNATIVES_MAX {
                return Ok(None);
            }
            known =
                known.iter().flat_map(|k| values.iter().map(move |v| [k.clone(), vec![v.clone()]].concat())).collect();
        }
        let mut shards = BTreeSet::new();
        for values in &known {
            if values.len() == d.key.len() {
                if let Located::Shard(s) =
                    key::locate(d.group.strategy, &d.group.key_types, &bounds, values).map_err(key_error)?
                {
                    shards.insert(s);
                }
            } else if !values.is_empty() {
                shards.extend(
                    key::locate_prefix(d.group.strategy, &d.group.key_types, &bounds, values).map_err(key_error)?,
                );
            } else {
                return Ok(None);
            }
        }
        if shards.is_empty() {
            // No row can match; some node must say so in PostgreSQL's words.
            shards.insert(0);
        }
        Ok(Some(shards))
    }

    /// The shard a row to be written belongs to, as a position in the group.
    pub async fn shard_of_row(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        relation: &Relation,
        keys: &[KeyExpr],
        evaluated: &[Option<String>],
    ) -> Result<usize> {
        let d = relation.distribution().ok_or_else(|| ExecError::internal("not a distributed table"))?;
        let mut values = Vec::with_capacity(keys.len());
        for (i, e) in keys.iter().enumerate() {
            let ty = d.group.key_types[i];
            let column = &relation.columns[d.key[i]];
            let value = match e {
                KeyExpr::Evaluated(n) => match evaluated.get(*n).cloned().flatten() {
                    Some(text) => from_text(ty, &text),
                    None => Value::Known(None),
                },
                _ => evaluate(compiled, request, e, ty).into_iter().next().unwrap_or(Value::Unknown),
            };
            let value = match (value, literal_text(compiled, request, e)) {
                (Value::Unknown, Some(text)) => Value::Ask(text),
                (value, _) => value,
            };
            let value = match value {
                Value::Known(v) => v,
                Value::Ask(text) => self
                    .ask_value(&text, relation, d.key[i])
                    .await
                    .map_err(|error| at_literal(error, compiled, request, e))?,
                Value::Impossible | Value::Unknown if parameter(e).is_some() => {
                    self.ask_parameter(request, e, relation, d.key[i]).await?
                }
                // PostgreSQL refuses the value by itself wherever the row is sent.
                Value::Impossible | Value::Unknown => return Ok(0),
            };
            values.push(match value {
                Some(v) => match key::fit(ty, column.typmod, &v) {
                    Ok(v) => Some(v),
                    Err(_) => return Ok(0),
                },
                None => None,
            });
        }
        match key::locate(d.group.strategy, &d.group.key_types, &self.epoch.bounds(d.group.id), &values)
            .map_err(key_error)?
        {
            Located::Shard(s) => Ok(s),
            // "no partition of relation found for row" comes from any node.
            Located::Nowhere => Ok(0),
        }
    }

    /// Asks PostgreSQL for what a parameter of another type becomes in the key's column.
    async fn ask_parameter(
        &mut self,
        request: &Request<'_>,
        e: &KeyExpr,
        relation: &Relation,
        column: usize,
    ) -> Result<Option<Vec<u8>>> {
        let (Some((n, cast)), Some(bound)) = (parameter(e), request.bound) else { return Ok(None) };
        let c = &relation.columns[column];
        self.travel_whole([c.type_name.as_str()])?;
        let cast = cast.map(|name| format!("::pg_catalog.{name}")).unwrap_or_default();
        let behind = format!("{cast})::{}", c.type_name);
        let expression = Text::all([Text::from("("), Text::from(Piece::Param(n)), Text::from(behind)]);
        let values = self.evaluate(&[Evaluation { expression }], bound).await?;
        match values.into_iter().next().flatten() {
            Some(text) => match from_text(c.type_oid, &text) {
                Value::Known(v) => Ok(v),
                _ => self.ask_value(&text, relation, column).await,
            },
            None => Ok(None),
        }
    }

    /// Asks PostgreSQL to read a text as the key's type; its error is the client's error.
    async fn ask_value(&mut self, text: &str, relation: &Relation, column: usize) -> Result<Option<Vec<u8>>> {
        let c = &relation.columns[column];
        let send = send_function(c.type_oid);
        // A number is read as one first, so that 11.4 becomes the integer 11 as on assignment.
        let number = text.parse::<f64>().is_ok() && type_oid::is_integer(c.type_oid);
        let value = if number { format!("({text})") } else { catalog::quote_literal(text) };
        let sql = format!("SELECT pg_catalog.encode({send}({value}::{}), 'hex')", c.type_name);
        let rows = self.ask_home(&sql).await?;
        let hex = rows.into_iter().next().and_then(|r| r.into_iter().next()).flatten();
        hex.map(|h| decode_hex(&h).ok_or_else(|| ExecError::internal("unreadable key value"))).transpose()
    }
}

/// The function that gives a value in the type's binary send format (pg_type.dat).
pub fn send_function(oid: u32) -> &'static str {
    match oid {
        type_oid::BOOL => "pg_catalog.boolsend",
        type_oid::BYTEA => "pg_catalog.byteasend",
        type_oid::CHAR => "pg_catalog.charsend",
        type_oid::NAME => "pg_catalog.namesend",
        type_oid::INT8 => "pg_catalog.int8send",
        type_oid::INT2 => "pg_catalog.int2send",
        type_oid::INT4 => "pg_catalog.int4send",
        type_oid::TEXT => "pg_catalog.textsend",
        type_oid::OID => "pg_catalog.oidsend",
        type_oid::TID => "pg_catalog.tidsend",
        type_oid::XID => "pg_catalog.xidsend",
        type_oid::CID => "pg_catalog.cidsend",
        type_oid::OIDVECTOR => "pg_catalog.oidvectorsend",
        type_oid::CIDR => "pg_catalog.cidr_send",
        type_oid::FLOAT4 => "pg_catalog.float4send",
        type_oid::FLOAT8 => "pg_catalog.float8send",
        type_oid::MACADDR8 => "pg_catalog.macaddr8_send",
        type_oid::MACADDR => "pg_catalog.macaddr_send",
        type_oid::INET => "pg_catalog.inet_send",
        type_oid::BPCHAR => "pg_catalog.bpcharsend",
        type_oid::VARCHAR => "pg_catalog.varcharsend",
        type_oid::DATE => "pg_catalog.date_send",
        type_oid::TIME => "pg_catalog.time_send",
        type_oid::TIMESTAMP => "pg_catalog.timestamp_send",
        type_oid::TIMESTAMPTZ => "pg_catalog.timestamptz_send",
        type_oid::INTERVAL => "pg_catalog.interval_send",
        type_oid::TIMETZ => "pg_catalog.timetz_send",
        type_oid::NUMERIC => "pg_catalog.numeric_send",
        type_oid::UUID => "pg_catalog.uuid_send",
        type_oid::PG_LSN => "pg_catalog.pg_lsn_send",
        type_oid::JSONB => "pg_catalog.jsonb_send",
        type_oid::XID8 => "pg_catalog.xid8send",
        3904 | 3906 | 3908 | 3910 | 3912 | 3926 => "pg_catalog.range_send",
        4451 | 4532 | 4533 | 4534 | 4535 | 4536 => "pg_catalog.multirange_send",
        _ => "pg_catalog.array_send",
    }
}

fn decode_hex(text: &str) -> Option<Vec<u8>> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(text.get(i..i + 2)?, 16).ok()).collect()
}

pub fn key_error(e: KeyError) -> ExecError {
    ExecError::sql(e.sqlstate(), e.to_string())
}

/// The value or values an expression has in this request.
fn evaluate(compiled: &Compiled, request: &Request, e: &KeyExpr, ty: u32) -> Vec<Value> {
    match e {
        KeyExpr::Null => vec![Value::Known(None)],
        KeyExpr::Literal { .. } => vec![literal_value(compiled, request, e, ty)],
        KeyExpr::Param(n) => vec![param(request, *n, ty)],
        KeyExpr::CastParam(n, cast) => vec![cast_param(request, *n, *cast, ty)],
        KeyExpr::ParamArray(n) => array(request, *n, None, ty),
        KeyExpr::CastParamArray(n, cast) => array(request, *n, Some(*cast), ty),
        KeyExpr::Evaluated(_) => vec![Value::Unknown],
    }
}

/// The value a literal of the plan has in this request.
fn literal_value(compiled: &Compiled, request: &Request, e: &KeyExpr, ty: u32) -> Value {
    let KeyExpr::Literal { location, text, kind, cast } = e else { return Value::Unknown };
    match request.literals {
        Literals::Own => literal(ty, text, *kind, *cast),
        Literals::Template(_) if location.is_none() => literal(ty, text, *kind, *cast),
        Literals::Template(t) => match location.and_then(|l| compiled.literal(l)) {
            Some((index, negative)) => match t.literal_value(request.sql, index) {
                Ok(value) if negative => literal(ty, &format!("-{value}"), *kind, *cast),
                Ok(value) => literal(ty, &value, *kind, *cast),
                Err(_) => Value::Unknown,
            },
            None => Value::Unknown,
        },
    }
}

/// The position of an error about a key's value is that of its literal in the client's statement.
fn at_literal(error: ExecError, compiled: &Compiled, request: &Request, e: &KeyExpr) -> ExecError {
    let mut fields = error.to_fields();
    fields.fields.retain(|(code, _)| *code != b'P');
    if let KeyExpr::Literal { location: Some(location), .. } = e {
        let start = match request.literals {
            Literals::Own => Some(*location),
            Literals::Template(t) => {
                compiled.literal(*location).and_then(|(i, _)| t.literals().get(i)).map(|l| l.start as usize)
            }
        };
        if let Some(before) = start.and_then(|s| request.sql.get(..s)) {
            fields.set(b'P', (before.chars().count() + 1).to_string());
        }
    }
    ExecError::Sql(Box::new(fields))
}

/// The value of a literal in this request, as text.
fn literal_text(compiled: &Compiled, request: &Request, e: &KeyExpr) -> Option<String> {
    let KeyExpr::Literal { location, text, .. } = e else { return None };
    match (request.literals, location) {
        (Literals::Own, _) | (_, None) => Some(text.clone()),
        (Literals::Template(t), Some(location)) => {
            let (index, negative) = compiled.literal(*location)?;
            let value = t.literal_value(request.sql, index).ok()?;
            Some(if negative { format!("-{value}") } else { value.into_owned() })
        }
    }
}

fn literal(ty: u32, text: &str, kind: LiteralKind, cast: u32) -> Value {
    match kind {
        // Read as the cast's type by PostgreSQL; of a number (`5.5::int`) only integers are read here.
        _ if cast != 0 && (cast != ty || type_oid::is_integer(cast)) => match key::parse_text(cast, text) {
            Ok(v) => converted(cast, ty, &v),
            Err(_) => Value::Unknown,
        },
        LiteralKind::String => from_text(ty, text),
        LiteralKind::Number => {
            let number = ty == type_oid::OID || type_oid::is_number(ty);
            match key::parse_text(ty, text) {
                Ok(v) if number => Value::Known(Some(v)),
                Err(KeyError::OutOfRange { .. }) if number => Value::Impossible,
                // 5.0 against an integer key: equal to 5, but not written like it.
                _ => Value::Unknown,
            }
        }
    }
}

fn from_text(ty: u32, text: &str) -> Value {
    match key::parse_text(ty, text) {
        Ok(v) => Value::Known(Some(v)),
        Err(_) => Value::Ask(text.to_string()),
    }
}

fn param(request: &Request, n: usize, ty: u32) -> Value {
    let Some(bound) = request.bound else { return Value::Unknown };
    let Some(value) = bound.values.get(n - 1) else { return Value::Unknown };
    let declared = bound.types.get(n - 1).copied().unwrap_or(0);
    let Some(value) = value else { return Value::Known(None) };
    typed(bound.format(n - 1), declared, value, ty)
}

/// A parameter under a cast: its number, and the name of the cast's type, if it has one.
fn parameter(e: &KeyExpr) -> Option<(usize, Option<&'static str>)> {
    match e {
        KeyExpr::Param(n) => Some((*n, None)),
        KeyExpr::CastParam(n, cast) => {
            let name = match *cast {
                type_oid::INT2 => "int2",
                type_oid::INT4 => "int4",
                type_oid::INT8 => "int8",
                type_oid::VARCHAR => "varchar",
                type_oid::UUID => "uuid",
                _ => "text",
            };
            Some((*n, Some(name)))
        }
        _ => None,
    }
}

/// `$n::cast`, where that is certain: the value itself, a string read as the cast's type, an integer as another.
fn cast_param(request: &Request, n: usize, cast: u32, ty: u32) -> Value {
    let declared = request.bound.and_then(|b| b.types.get(n - 1)).copied().unwrap_or(0);
    if declared == cast {
        return param(request, n, ty);
    }
    let Some(Some(value)) = request.bound.and_then(|b| b.values.get(n - 1)) else { return param(request, n, ty) };
    match declared {
        // PostgreSQL takes the parameter to be of the cast's type.
        0 | type_oid::UNKNOWN if request.bound.is_some_and(|b| b.format(n - 1) == 0) => typed(0, cast, value, ty),
        0 | type_oid::UNKNOWN => Value::Unknown,
        // text, varchar: the same bytes in both formats
        type_oid::TEXT | type_oid::VARCHAR => {
            match std::str::from_utf8(value).ok().and_then(|text| key::parse_text(cast, text).ok()) {
                Some(v) => converted(cast, ty, &v),
                None => Value::Unknown,
            }
        }
        _ if type_oid::is_integer(declared) && type_oid::is_integer(cast) => match param(request, n, cast) {
            Value::Known(Some(v)) => converted(cast, ty, &v),
            _ => Value::Unknown,
        },
        _ => Value::Unknown,
    }
}

fn typed(format: i16, declared: u32, value: &Bytes, ty: u32) -> Value {
    if format == 0 {
        let Ok(text) = std::str::from_utf8(value) else { return Value::Unknown };
        if declared == ty || declared == 0 || declared == type_oid::UNKNOWN {
            return from_text(ty, text);
        }
        return match key::parse_text(declared, text) {
            Ok(v) => converted(declared, ty, &v),
            Err(_) => Value::Unknown,
        };
    }
    converted(declared, ty, value)
}

fn converted(from: u32, to: u32, value: &[u8]) -> Value {
    if from == to {
        return Value::Known(Some(value.to_vec()));
    }
    match key::convert(from, to, value) {
        Some(Converted::Value(v)) => Value::Known(Some(v)),
        Some(Converted::NoMatch) => Value::Impossible,
        None => Value::Unknown,
    }
}

/// The elements of an array parameter, in binary or text form. `cast`: the elements' type by a cast, which must keep their values.
fn array(request: &Request, n: usize, cast: Option<u32>, ty: u32) -> Vec<Value> {
    let unknown = || vec![Value::Unknown];
    let Some(bound) = request.bound else { return unknown() };
    let Some(Some(value)) = bound.values.get(n - 1) else { return unknown() };
    let Some(element) = bound.types.get(n - 1).and_then(|array| type_oid::element(*array)) else { return unknown() };
    if cast.is_some_and(|cast| !plan::keys::is_kept(element, cast)) {
        return unknown();
    }
    if bound.format(n - 1) == 0 {
        let Ok(text) = std::str::from_utf8(value) else { return unknown() };
        let Some(inner) = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')) else { return unknown() };
        if inner.contains(['"', '{', '\\']) {
            return unknown();
        }
        if inner.is_empty() {
            return vec![Value::Impossible];
        }
        return inner
            .split(',')
            .filter(|e| !e.trim().eq_ignore_ascii_case("null"))
            .map(|e| match key::parse_text(element, e.trim()) {
                Ok(v) => converted(element, ty, &v),
                Err(_) => Value::Unknown,
            })
            .chain(std::iter::once(Value::Impossible))
            .collect();
    }
    let mut r = wire::frame::Reader::new(value);
    let mut read = || -> std::result::Result<Vec<Value>, wire::WireError> {
        let (dimensions, _, _) = (r.i32()?, r.i32()?, r.u32()?);
        let mut count = usize::from(dimensions > 0);
        for _ in 0..dimensions {
            count = count.saturating_mul(r.i32()?.max(0) as usize);
            r.i32()?;
        }
        let mut values = vec![Value::Impossible];
        for _ in 0..count {
            if let Some(v) = r.value()? {
                values.push(converted(element, ty, v));
            }
        }
        Ok(values)
    };
    read().unwrap_or_else(|_| unknown())
}

//! From key expressions to shards and nodes, for one execution. PostgreSQL is asked where only it can read a value.

use std::collections::BTreeSet;

use catalog::{Distribution, NodeId, Relation};
use key::{KeyError, Located};
use plan::{KeyExpr, TableKeys};
use wire::sqlstate;

use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::request::Request;
use crate::router::compiled::Compiled;
use crate::work::Work;
use crate::work::ask_key::at_literal;
use crate::work::key_values::{
    Value, cast_param, evaluate, from_text, literal_text, literal_value, param, parameter, takes_no_number,
};

/// Where a statement's rows can be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Targets {
    pub nodes: BTreeSet<NodeId>,
    /// All of it is in this one shard.
    pub shard: Option<i32>,
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
        let [ty] = d.group.key_types[..] else { return Ok(None) };
        let [e] = &alternatives[..] else {
            let between = alternatives.is_empty().then(|| self.one_between(compiled, request, table, d)).transpose()?;
            let shard = between.flatten().map(|s| &d.group.shards[s]);
            return Ok(shard.map(|s| (s.node, s.number)));
        };
        let value = match e {
            KeyExpr::Param(n) => param(request, *n, ty),
            KeyExpr::CastParam(n, cast) => cast_param(request, *n, *cast, ty),
            KeyExpr::Literal { .. } => literal_value(compiled, request, e, ty),
            _ => return Ok(None),
        };
        let Value::Known(value) = value else { return Ok(None) };
        let value = match value {
            Some(v) if table.written => match key::fit(ty, typmod(table, d, 0), v) {
                Ok(v) => Some(v),
                Err(_) => return Ok(None),
            },
            value => value,
        };
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
        let within = self.within(compiled, request, table, d)?;
        if within.is_none() && table.columns.first().is_none_or(Vec::is_empty) {
            return Ok(None);
        }
        let mut shards = match (self.of_values(compiled, request, table, d).await?, within) {
            (Some(shards), Some(within)) => &shards & &within,
            (Some(shards), None) | (None, Some(shards)) => shards,
            (None, None) => return Ok(None),
        };
        if shards.is_empty() {
            // No row can match; some node must say so in PostgreSQL's words.
            shards.insert(0);
        }
        Ok(Some(shards))
    }

    /// The same by the values that key columns have, whatever their limits; `None`: by these all.
    async fn of_values(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        table: &TableKeys,
        d: &Distribution,
    ) -> Result<Option<BTreeSet<usize>>> {
        let bounds = self.epoch.bounds(d.group.id);
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
                        Value::Known(Some(v)) if table.written => match key::fit(ty, typmod(table, d, i), v) {
                            Ok(v) => values.push(Some(v)),
                            Err(KeyError::NeedsServer) if parameter(e).is_some() => {
                                values.push(self.ask_parameter(request, e, &table.relation, d.key[i]).await?);
                            }
                            // PostgreSQL refuses the value by itself wherever the row is sent.
                            Err(_) => return Ok(Some(BTreeSet::from([0]))),
                        },
                        Value::Known(v) => values.push(v),
                        // Written, it is converted as on assignment; `key = $1` compares.
                        Value::Unknown | Value::Impossible if table.written && parameter(e).is_some() => {
                            values.push(self.ask_parameter(request, e, &table.relation, d.key[i]).await?);
                        }
                        // PostgreSQL refuses the value by itself wherever the row is sent.
                        Value::Unknown if table.written && takes_no_number(e, ty) => {
                            return Ok(Some(BTreeSet::from([0])));
                        }
                        Value::Impossible => {}
                        Value::Ask(text) if table.written && names_moment(ty, &text) => {
                            return Err(moment(&table.relation, d.key[i]));
                        }
                        Value::Ask(text) => {
                            let asked = self.ask_value(&text, &table.relation, d.key[i]).await;
                            values.push(asked.map_err(|error| at_literal(error, compiled, request, e))?);
                        }
                        // A value to be written is coerced by PostgreSQL, as on assignment.
                        Value::Unknown if table.written => match literal_text(compiled, request, e) {
                            Some(text) => values.push(self.ask_literal(e, &text, &table.relation, d.key[i]).await?),
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
        Ok(Some(shards))
    }

    /// The shard of a row with this key, as a node wrote it (NULL: none), as a position in the group. Of tables with one key column.
    pub async fn shard_of_text(&mut self, relation: &Relation, key: Option<&str>) -> Result<usize> {
        let d = relation.distribution().ok_or_else(|| ExecError::internal("not a distributed table"))?;
        let value = match key.map(|text| from_text(d.group.key_types[0], text)) {
            Some(Value::Known(value)) => value,
            Some(Value::Ask(text)) => self.ask_value(&text, relation, d.key[0]).await?,
            Some(Value::Impossible | Value::Unknown) => return Err(ExecError::internal("a key that is none")),
            None => None,
        };
        match key::locate(d.group.strategy, &d.group.key_types, &self.epoch.bounds(d.group.id), &[value])
            .map_err(key_error)?
        {
            Located::Shard(s) => Ok(s),
            Located::Nowhere => Err(ExecError::internal("a row whose key is in no partition")),
        }
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
            // What a view hides is NULL.
            let typmod = relation.columns.get(d.key[i]).map_or(-1, |column| column.typmod);
            let value = match e {
                KeyExpr::Evaluated(n) => match evaluated.get(*n).cloned().flatten() {
                    Some(text) => from_text(ty, &text),
                    None => Value::Known(None),
                },
                _ => evaluate(compiled, request, e, ty).into_iter().next().unwrap_or(Value::Unknown),
            };
            let value = match (value, literal_text(compiled, request, e)) {
                (Value::Unknown, _) if takes_no_number(e, ty) => Value::Unknown,
                (Value::Unknown, Some(text)) => Value::Ask(text),
                (value, _) => value,
            };
            let value = match value {
                Value::Known(v) => v,
                Value::Ask(text) if names_moment(ty, &text) => return Err(moment(relation, d.key[i])),
                Value::Ask(text) => self
                    .ask_literal(e, &text, relation, d.key[i])
                    .await
                    .map_err(|error| at_literal(error, compiled, request, e))?,
                Value::Impossible | Value::Unknown if parameter(e).is_some() => {
                    self.ask_parameter(request, e, relation, d.key[i]).await?
                }
                // PostgreSQL refuses the value by itself wherever the row is sent.
                Value::Impossible | Value::Unknown => return Ok(0),
            };
            values.push(match value {
                Some(v) => match key::fit(ty, typmod, v) {
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
}

/// What a key column adds to its type; of what a view hides nothing is known.
fn typmod(table: &TableKeys, d: &Distribution, key: usize) -> i32 {
    d.key.get(key).and_then(|column| table.relation.columns.get(*column)).map_or(-1, |column| column.typmod)
}

/// Whether a literal of a row's key names a moment: then its own text has another plan than others of its template.
pub fn has_moments(compiled: &Compiled, request: &Request<'_>) -> bool {
    compiled.plan.whole().tables.iter().filter(|table| table.written).any(|table| {
        let types = table.relation.distribution().map_or(&[][..], |d| &d.group.key_types);
        let named = |e: &KeyExpr, ty| literal_text(compiled, request, e).is_some_and(|text| names_moment(ty, &text));
        let may = |ty| plan::clock_text::may_hold(ty);
        table.columns.iter().zip(types).any(|(all, ty)| may(*ty) && all.iter().any(|e| named(e, *ty)))
    })
}

/// 'now' is another moment where the row is written. Of a literal it is known when the statement is planned by its own text.
fn names_moment(ty: u32, text: &str) -> bool {
    let now = || text.as_bytes().windows(3).any(|t| t.eq_ignore_ascii_case(b"now"));
    plan::clock_text::may_hold(ty) && now() && plan::clock_text::may_name(text)
}

fn moment(relation: &Relation, column: usize) -> ExecError {
    let name = relation.columns.get(column).map_or("", |c| &c.name);
    let said = plan::clock_text::said();
    ExecError::sql(
        sqlstate::FEATURE_NOT_SUPPORTED,
        format!(
            "{said} for the distribution key \"{name}\" of a new row is not supported here: each node reads it anew"
        ),
    )
    .hint("Give the moment itself, or now().")
}

/// As the client gets it, with its own SQLSTATE.
pub fn key_error(e: KeyError) -> ExecError {
    ExecError::sql(e.sqlstate(), e.to_string())
}

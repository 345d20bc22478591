//! SQL's own PREPARE, EXECUTE and DEALLOCATE: kept by the session, executed as statements with the arguments put in.

use std::borrow::Cow;
use std::collections::HashSet;

use exec::{Bound, ExecError, Forwarded};
use plan::Plan;
use sql::ast::{self, Node};
use sql::{NodeEnum, build, names, search};
use wire::backend::Field;
use wire::sqlstate;

use crate::budget;
use crate::prepared::SqlPrepared;
use crate::session::{Result, Session};

impl Session {
    /// Plans it at once, and keeps it; 42P05 if a statement of either protocol has the name.
    pub async fn sql_prepare(&mut self, p: &ast::PrepareStmt, sql: &str) -> Result<Forwarded> {
        if self.prepared.contains_key(&p.name) || self.statements.contains_key(&p.name) {
            return Err(ExecError::sql(
                sqlstate::DUPLICATE_PSTATEMENT,
                format!("prepared statement \"{}\" already exists", p.name),
            ));
        }
        let Some(query) = p.query.as_deref().and_then(|q| q.node.as_ref()) else {
            return Err(ExecError::internal("PREPARE without a statement"));
        };
        let types = p.argtypes.iter().map(type_text).collect::<Result<Vec<_>>>()?;
        let text = sql::deparse(query)?;
        // PostgreSQL checks it now.
        let typed = typed(&text, &types)?;
        let oids = self.declared(&types).await?;
        let kept = self.prepare(&typed, oids.clone()).await?;
        self.statements.insert(p.name.clone(), std::sync::Arc::new(kept));
        self.prepared.insert(p.name.clone(), SqlPrepared { said: sql.to_string(), sql: text, types, oids });
        Ok(Forwarded { tag: "PREPARE".into(), ..Default::default() })
    }

    /// The statement PREPARE kept, with an EXECUTE's arguments in it.
    pub async fn executed_text(&mut self, e: &ast::ExecuteStmt) -> Result<String> {
        if let Some(kept) = self.statements.get(&e.name).cloned() {
            self.current(&kept).await?;
        }
        let (text, declared, own) = match (self.prepared.get(&e.name), self.statements.get(&e.name)) {
            (Some(p), _) => (p.sql.clone(), p.types.clone(), p.oids.clone()),
            // One of the extended protocol: they share their names.
            (None, Some(p)) => (p.sql.clone(), vec![], p.params.to_vec()),
            (None, None) => {
                return Err(ExecError::sql(
                    sqlstate::INVALID_SQL_STATEMENT_NAME,
                    format!("prepared statement \"{}\" does not exist", e.name),
                ));
            }
        };
        let mut tree = sql::parse(&text, true)?.pop().ok_or_else(|| ExecError::internal("empty prepared statement"))?;
        let (oids, inferred) = match self.decide(&tree, &[])?.plan {
            // No node knows it.
            Plan::Admin(_) => (own, declared.clone()),
            _ => self.parameter_types(&typed(&text, &declared)?, &own).await?,
        };
        let wanted = inferred.len();
        if wanted != e.params.len() {
            return Err(ExecError::Sql(Box::new(
                wire::ErrorFields::error(
                    sqlstate::SYNTAX_ERROR,
                    format!("wrong number of parameters for prepared statement \"{}\"", e.name),
                )
                .detail(format!("Expected {wanted} parameters but got {}.", e.params.len())),
            )));
        }
        self.can_be_assigned(&e.params, &oids).await?;
        let of_type = |i: usize| declared.get(i).or_else(|| inferred.get(i)).map_or("text", String::as_str);
        let types: Vec<&str> = (0..e.params.len()).map(of_type).collect();
        let mut values = Vec::with_capacity(types.len());
        for (value, ty) in e.params.iter().zip(&types) {
            values.push(format!("CAST({} AS {ty})", sql::deparse_expr(value)?));
        }
        // As PostgreSQL calls them, not as PREPARE did.
        let known: Vec<&str> = (0..types.len()).map(|i| inferred.get(i).map_or(types[i], String::as_str)).collect();
        let mut unused: HashSet<usize> = (0..types.len()).collect();
        search::each(&tree, |n| {
            if let NodeEnum::ParamRef(p) = n {
                unused.remove(&usize::try_from(p.number - 1).unwrap_or(usize::MAX));
            }
        });
        self.evaluate(&e.params, &types, &known, (&mut values, &unused)).await?;
        put_values(&mut tree, &values)?;
        Ok(sql::deparse(&tree)?)
    }

    /// The object ids of declared types.
    async fn declared(&mut self, types: &[String]) -> Result<Vec<u32>> {
        if types.is_empty() {
            return Ok(vec![]);
        }
        let casts: Vec<String> = types.iter().enumerate().map(|(i, t)| format!("CAST(${} AS {t})", i + 1)).collect();
        Ok(self.work().describe_text(&format!("SELECT {}", casts.join(", ")), &[]).await?.params.clone())
    }

    /// The types of a statement's parameters, and their names.
    async fn parameter_types(&mut self, text: &str, declared: &[u32]) -> Result<(Vec<u32>, Vec<String>)> {
        let types = self.work().describe_text(text, declared).await?.params.clone();
        let fields: Vec<Field> = types.iter().map(|t| Field::new("", *t, -1)).collect();
        let names = self.work().type_names(&fields).await?;
        Ok((types, names))
    }

    /// A statement around a query, which nodes are not sent as it is, with the values of a client's parameters in it.
    pub async fn with_parameters(&mut self, statement: &NodeEnum, bound: &Bound) -> Result<(NodeEnum, String)> {
        let mut whole = statement.clone();
        let query = match &mut whole {
            NodeEnum::ExplainStmt(e) => e.query.as_deref_mut(),
            NodeEnum::CreateTableAsStmt(c) => c.query.as_deref_mut(),
            _ => None,
        };
        let Some(tree) = query.and_then(|q| q.node.as_mut()) else {
            return Err(ExecError::internal("a statement without a query"));
        };
        let (params, types) = self.parameter_types(&sql::deparse(tree)?, &bound.types).await?;
        let mut values = Vec::with_capacity(types.len());
        for (i, (ty, value)) in types.iter().zip(&bound.values).enumerate() {
            let text = match value {
                None => "NULL".to_string(),
                Some(value) => {
                    let text = match bound.format(i) {
                        0 => Some(Cow::Borrowed(&**value)),
                        _ => exec::text_of(params[i], value),
                    };
                    let text = text.ok_or_else(|| unreadable(ty))?;
                    catalog::quote_literal(std::str::from_utf8(&text).map_err(|_| unreadable(ty))?)
                }
            };
            values.push(format!("CAST({text} AS {ty})"));
        }
        put_values(tree, &values)?;
        let text = sql::deparse(&whole)?;
        Ok((whole, text))
    }

    /// Runs what PREPARE, or Parse, has kept; 26000 if there is nothing of the name.
    pub async fn sql_execute(&mut self, e: &ast::ExecuteStmt, bound: Option<&exec::Bound>) -> Result<Forwarded> {
        let text = self.executed_text(e).await?;
        let tree = sql::parse(&text, true)?.pop().ok_or_else(|| ExecError::internal("empty prepared statement"))?;
        // The client knows the columns, and has said in which formats it takes them, or does neither.
        let bound = bound.map(Bound::without_values);
        let decided = self.decide(&tree, &[])?;
        if !decided.lasts() {
            return Box::pin(self.run_tree(&tree, decided, &text, bound.as_ref())).await;
        }
        let compiled = self.planned(&tree, &text, &[]).await?;
        self.run(&compiled, &text, bound.as_ref()).await
    }

    /// One, or ALL where there is no name, whichever protocol it came by; 26000 if there is none.
    pub fn sql_deallocate(&mut self, d: &ast::DeallocateStmt) -> Result<Forwarded> {
        if d.name.is_empty() {
            self.prepared.clear();
            self.statements.clear();
            return Ok(Forwarded { tag: "DEALLOCATE ALL".into(), ..Default::default() });
        }
        let (sql, message) = (self.prepared.remove(&d.name), self.statements.remove(&d.name));
        if sql.is_none() && message.is_none() {
            return Err(ExecError::sql(
                sqlstate::INVALID_SQL_STATEMENT_NAME,
                format!("prepared statement \"{}\" does not exist", d.name),
            ));
        }
        Ok(Forwarded { tag: "DEALLOCATE".into(), ..Default::default() })
    }
}

fn unreadable(ty: &str) -> ExecError {
    let message = format!("a binary parameter of type {ty} is not supported here through the router");
    ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, message)
        .hint("Send the value as text, or write it into the statement.")
}

/// Values, as expressions' texts, in place of parameters.
fn put_values(tree: &mut NodeEnum, values: &[String]) -> Result<()> {
    let mut bytes = 0;
    search::each(tree, |n| {
        if let NodeEnum::ParamRef(p) = n {
            let value = usize::try_from(p.number - 1).ok().and_then(|i| values.get(i));
            bytes += value.map_or(0, String::len);
        }
    });
    budget::put_together(bytes, values.iter().map(String::len).sum())?;
    let values = values.iter().map(|v| expression(v)).collect::<Result<Vec<_>>>()?;
    search::each_mut(tree, |n| {
        // A column that a parameter alone makes has no name.
        if let NodeEnum::ResTarget(target) = n
            && target.name.is_empty()
            && matches!(target.val.as_deref(), Some(Node { node: Some(NodeEnum::ParamRef(_)) }))
        {
            target.name = "?column?".into();
        }
        if let NodeEnum::ParamRef(p) = n
            && let Some(value) = usize::try_from(p.number - 1).ok().and_then(|i| values.get(i))
        {
            *n = value.clone();
            return false;
        }
        true
    });
    Ok(())
}

fn expression(text: &str) -> Result<NodeEnum> {
    match sql::parse(&format!("SELECT {text}"), true)?.pop() {
        Some(NodeEnum::SelectStmt(s)) => {
            s.target_list.first().and_then(plan::rewrite::target_value).and_then(|value| value.node.clone())
        }
        _ => None,
    }
    .ok_or_else(|| ExecError::internal("unreadable argument"))
}

/// The text of a type name. Modifiers PostgreSQL passes over: values of parameters are not cut or rounded by them.
fn type_text(node: &Node) -> Result<String> {
    let Some(NodeEnum::TypeName(t)) = &node.node else { return Err(ExecError::internal("unreadable type")) };
    let mut t = t.clone();
    t.typmods.clear();
    if let ["pg_catalog", "bpchar"] = names::strings(&t.names)[..] {
        // Printed as character, which is character(1).
        return Ok(format!("pg_catalog.bpchar{}", "[]".repeat(t.array_bounds.len())));
    }
    let cast = NodeEnum::TypeCast(Box::new(ast::TypeCast {
        arg: Some(Box::new(build::integer(0))),
        type_name: Some(t),
        location: -1,
    }));
    let text = sql::deparse_expr(&build::node(cast))?;
    text.split_once("::").map(|(_, t)| t.to_string()).ok_or_else(|| ExecError::internal("unreadable type"))
}

/// A statement whose declared parameter types are written into it, to be described.
fn typed(text: &str, declared: &[String]) -> Result<String> {
    if declared.is_empty() {
        return Ok(text.to_string());
    }
    let mut tree = sql::parse(text, true)?.pop().ok_or_else(|| ExecError::internal("empty prepared statement"))?;
    let values: Vec<String> = declared.iter().enumerate().map(|(i, t)| format!("CAST(${} AS {t})", i + 1)).collect();
    put_values(&mut tree, &values)?;
    Ok(sql::deparse(&tree)?)
}

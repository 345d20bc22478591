//! SQL's own PREPARE, EXECUTE and DEALLOCATE: kept by the session, executed as statements with the arguments put in.

use exec::{ExecError, Forwarded};
use sql::ast::{self, Node};
use sql::{NodeEnum, build, search};
use wire::sqlstate;

use crate::prepared::{Parsed, SqlPrepared};
use crate::session::{Result, Session};

impl Session {
    pub async fn sql_prepare(&mut self, p: &ast::PrepareStmt) -> Result<Forwarded> {
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
        let kept = self.prepare(&typed, vec![]).await?;
        self.statements.insert(p.name.clone(), std::sync::Arc::new(kept));
        self.prepared.insert(p.name.clone(), SqlPrepared { sql: text, types });
        Ok(Forwarded { tag: "PREPARE".into(), ..Default::default() })
    }

    /// The statement PREPARE kept, with an EXECUTE's arguments in it.
    pub async fn executed_text(&mut self, e: &ast::ExecuteStmt) -> Result<String> {
        let (text, declared) = match (self.prepared.get(&e.name), self.statements.get(&e.name)) {
            (Some(p), _) => (p.sql.clone(), p.types.clone()),
            // One of the extended protocol: they share their names.
            (None, Some(p)) => (p.sql.clone(), vec![]),
            (None, None) => {
                return Err(ExecError::sql(
                    sqlstate::INVALID_SQL_STATEMENT_NAME,
                    format!("prepared statement \"{}\" does not exist", e.name),
                ));
            }
        };
        let mut tree = sql::parse(&text, true)?.pop().ok_or_else(|| ExecError::internal("empty prepared statement"))?;
        let described = self.work().describe_text(&typed(&text, &declared)?, &[]).await?;
        if described.params.len() != e.params.len() && declared.len() != e.params.len() {
            let wanted = declared.len().max(described.params.len());
            return Err(ExecError::Sql(Box::new(
                wire::ErrorFields::error(
                    sqlstate::SYNTAX_ERROR,
                    format!("wrong number of parameters for prepared statement \"{}\"", e.name),
                )
                .detail(format!("Expected {wanted} parameters but got {}.", e.params.len())),
            )));
        }
        let inferred: Vec<wire::backend::Field> =
            described.params.iter().map(|t| wire::backend::Field::new("", *t, -1)).collect();
        let inferred = self.work().type_names(&inferred).await?;
        let values = e
            .params
            .iter()
            .enumerate()
            .map(|(i, v)| {
                let ty = declared.get(i).or_else(|| inferred.get(i)).cloned().unwrap_or_else(|| "text".into());
                let text = format!("SELECT CAST({} AS {ty})", sql::deparse_expr(v)?);
                let Some(NodeEnum::SelectStmt(s)) = sql::parse(&text, true)?.pop() else {
                    return Err(ExecError::internal("unreadable argument"));
                };
                s.target_list
                    .first()
                    .and_then(plan::rewrite::target_value)
                    .cloned()
                    .ok_or_else(|| ExecError::internal("unreadable argument"))
            })
            .collect::<Result<Vec<Node>>>()?;
        put_values(&mut tree, &values);
        Ok(sql::deparse(&tree)?)
    }

    pub async fn sql_execute(&mut self, e: &ast::ExecuteStmt, bound: Option<&exec::Bound>) -> Result<Forwarded> {
        let text = self.executed_text(e).await?;
        let tree = sql::parse(&text, true)?.pop().ok_or_else(|| ExecError::internal("empty prepared statement"))?;
        match self.planned(tree, &text, &[]).await? {
            Parsed::Planned(compiled) => match bound {
                None => self.run(&compiled, &text, None, None).await,
                Some(b) => {
                    let mut bound = exec::Bound { result_formats: b.result_formats.clone(), ..Default::default() };
                    bound.tail = exec::bind_tail(&bound);
                    self.run(&compiled, &text, Some(&bound), None).await
                }
            },
            Parsed::Tree(tree) => Box::pin(self.run_tree(&tree, &text, None)).await,
            Parsed::Empty => Ok(Forwarded { empty: true, ..Default::default() }),
        }
    }

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

/// Values in place of parameters.
fn put_values(tree: &mut NodeEnum, values: &[Node]) {
    search::each_mut(tree, |n| {
        if let NodeEnum::ParamRef(p) = n
            && let Some(Some(value)) = usize::try_from(p.number - 1).ok().and_then(|i| values.get(i)).map(|v| &v.node)
        {
            *n = value.clone();
            return false;
        }
        true
    });
}

/// The text of a type name.
fn type_text(node: &Node) -> Result<String> {
    let Some(NodeEnum::TypeName(t)) = &node.node else { return Err(ExecError::internal("unreadable type")) };
    let cast = NodeEnum::TypeCast(Box::new(ast::TypeCast {
        arg: Some(Box::new(build::integer(0))),
        type_name: Some(t.clone()),
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
    let values = declared
        .iter()
        .enumerate()
        .map(|(i, t)| {
            let Some(NodeEnum::SelectStmt(s)) = sql::parse(&format!("SELECT CAST(${} AS {t})", i + 1), true)?.pop()
            else {
                return Err(ExecError::internal("unreadable type"));
            };
            s.target_list
                .first()
                .and_then(plan::rewrite::target_value)
                .cloned()
                .ok_or_else(|| ExecError::internal("unreadable type"))
        })
        .collect::<Result<Vec<Node>>>()?;
    put_values(&mut tree, &values);
    Ok(sql::deparse(&tree)?)
}

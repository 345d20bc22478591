//! Calls in a statement that makes one row of nothing, or that reads what one call returns: they are made first, and what they return
//! stands in their places when the statement runs. It does not know which statements that is right for (`plan::programs::once`).

use exec::{Bound, ExecError, Forwarded};
use plan::programs::once;
use sql::ast::{self, Node};
use sql::{NodeEnum, build, search};
use wire::backend::Field;

use super::call::unless_known;
use super::run::literal;
use super::{Rows, Text};
use crate::session::{Result, Session};

impl Session {
    /// The statement, once its calls are made.
    pub(super) async fn calls_first(
        &mut self,
        statement: &NodeEnum,
        bound: Option<&Bound>,
        sees_once: bool,
        refusal: ExecError,
    ) -> Result<Forwarded> {
        // All of it is one transaction.
        let refusal = self.may_run(sees_once, refusal).await?;
        let mut statement = statement.clone();
        match &mut statement {
            NodeEnum::SelectStmt(s) if !s.from_clause.is_empty() => {
                if self.gives_domains(s).await? {
                    return Err(unless_known(refusal, "gives domains, among other things"));
                }
                self.with_rows_first(s, bound, refusal).await?;
            }
            _ => {
                while let Some(call) = once::take(&mut statement, &self.names()) {
                    let value = self.made(call, bound).await?;
                    search::each_mut(&mut statement, |n| {
                        let is_it = matches!(n, NodeEnum::ParamRef(p) if p.number == once::TAKEN);
                        if is_it {
                            *n = value.clone();
                        }
                        !is_it
                    });
                }
            }
        }
        let text = sql::deparse(&statement)?;
        // Where its words stand belongs to a statement.
        let tree = sql::parse(&text, true)?.pop().ok_or_else(|| ExecError::internal("no statement"))?;
        let types = bound.map_or(&[][..], |b| &b.types);
        let compiled = self.compile_with(&tree, &text, types).await?;
        Box::pin(self.run(&std::sync::Arc::new(compiled), &text, bound)).await
    }

    /// A column of what the call in FROM returns is of a domain, which descriptions do not tell.
    async fn gives_domains(&mut self, s: &ast::SelectStmt) -> Result<bool> {
        let Some(oid) = once::in_from(s, &self.names()).map(|call| call.routine.oid) else { return Ok(true) };
        let sql = format!(
            "SELECT pg_catalog.count(*) FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_type r ON r.oid OPERATOR(pg_catalog.=) p.prorettype \
             JOIN pg_catalog.pg_attribute a ON a.attrelid OPERATOR(pg_catalog.=) r.typrelid JOIN pg_catalog.pg_type t ON t.oid OPERATOR(pg_catalog.=) a.atttypid \
             WHERE p.oid OPERATOR(pg_catalog.=) {oid} AND t.typtype OPERATOR(pg_catalog.=) 'd' AND a.attnum OPERATOR(pg_catalog.>) 0"
        );
        let row = self.asked(&sql).await?.pop().unwrap_or_default();
        Ok(row.first().and_then(|v| v.as_deref()) != Some(b"0"))
    }

    /// What is asked of a call, run as a statement of its own.
    pub(super) async fn asked_of(
        &mut self,
        tree: NodeEnum,
        bound: Option<&Bound>,
    ) -> Result<(Vec<Field>, Rows, Vec<String>)> {
        let text = sql::deparse(&tree)?;
        let tree = sql::parse(&text, true)?.pop().ok_or_else(|| ExecError::internal("no statement"))?;
        let types = bound.map_or(&[][..], |b| &b.types);
        let fields = self.work().describe_text(&text, types).await?.fields.unwrap_or_default();
        self.may_come(&fields).await?;
        let names = self.work().type_names(&fields).await?;
        let given = bound.cloned().unwrap_or_default().for_columns(vec![]);
        let rows = self.nested(&tree, &text, &given).await?;
        Ok((fields, rows, names))
    }

    /// The value that a call returns, as a constant.
    async fn made(&mut self, call: NodeEnum, bound: Option<&Bound>) -> Result<NodeEnum> {
        let select = ast::SelectStmt { target_list: vec![build::target(build::node(call), None)], ..build::select() };
        let (_, rows, names) = self.asked_of(NodeEnum::SelectStmt(Box::new(select)), bound).await?;
        let value = match &rows.rows[..] {
            [row] => row.first().cloned().flatten(),
            _ => {
                return Err(ExecError::sql(
                    wire::sqlstate::FEATURE_NOT_SUPPORTED,
                    "a function that runs over several nodes and returns a set can't be called within an expression",
                )
                .hint("Call it in FROM."));
            }
        };
        let ty = names.first().ok_or_else(|| ExecError::internal("a call without a value"))?;
        constant(&value, ty)
    }

    /// The rows that a call in FROM returns, in its place.
    async fn with_rows_first(
        &mut self,
        s: &mut ast::SelectStmt,
        bound: Option<&Bound>,
        refusal: ExecError,
    ) -> Result<()> {
        let Some(Node { node: Some(NodeEnum::RangeFunction(f)) }) = s.from_clause.first().cloned() else {
            return Err(ExecError::internal("no call in FROM"));
        };
        let all = ast::SelectStmt {
            target_list: vec![build::target(build::star(), None)],
            from_clause: s.from_clause.clone(),
            ..build::select()
        };
        let name = match (&f.alias, &f.functions[..]) {
            (Some(alias), _) => alias.aliasname.clone(),
            (None, [Node { node: Some(NodeEnum::List(l)) }]) => match l.items.first().and_then(|n| n.node.as_ref()) {
                Some(NodeEnum::FuncCall(call)) => sql::names::last(&call.funcname).to_string(),
                _ => return Err(ExecError::internal("no call in FROM")),
            },
            _ => return Err(ExecError::internal("no call in FROM")),
        };
        let tree = NodeEnum::SelectStmt(Box::new(all));
        let types = bound.map_or(&[][..], |b| &b.types);
        let fields = self.work().describe_text(&sql::deparse(&tree)?, types).await?.fields.unwrap_or_default();
        // A row of values has no type of its own.
        if once::names_row(s, &name) && !fields.iter().any(|f| f.name == name) {
            return Err(unless_known(refusal, "has its row named as a whole"));
        }
        let (fields, rows, names) = self.asked_of(tree, bound).await?;
        let values = |row: &Vec<Text>| -> Result<Vec<Node>> {
            row.iter().zip(&names).map(|(value, ty)| Ok(build::node(constant(value, ty)?))).collect()
        };
        let query = match rows.rows.is_empty() {
            false => {
                let list = |row| Ok(build::node(NodeEnum::List(ast::List { items: values(row)? })));
                let values_lists = rows.rows.iter().map(list).collect::<Result<_>>()?;
                ast::SelectStmt { values_lists, ..build::select() }
            }
            true => ast::SelectStmt {
                target_list: values(&vec![None; names.len()])?.into_iter().map(|v| build::target(v, None)).collect(),
                where_clause: Some(Box::new(build::cast(build::text("f"), "bool"))),
                ..build::select()
            },
        };
        let colnames = fields.iter().map(|f| build::string(&f.name)).collect();
        s.from_clause = vec![build::subselect(query, Some(ast::Alias { aliasname: name, colnames }), false)];
        Ok(())
    }
}

/// A value as a constant of its type.
fn constant(value: &Text, ty: &str) -> Result<NodeEnum> {
    let tree = sql::parse(&format!("SELECT CAST({} AS {ty})", literal(value)?), true)?.pop();
    let value = tree.as_ref().and_then(super::records::value).cloned();
    value.ok_or_else(|| ExecError::internal("a value without a type"))
}

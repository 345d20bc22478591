//! What the catalog says of a function or procedure that is run statement by statement, and its arguments as it takes them. It does not know
//! what runs.

use exec::ExecError;
use sql::ast;
use sql::program::Program;
use wire::{sqlstate, type_oid};

use super::Text;
use super::types::Type;
use crate::session::{Result, Session};

/// What the catalog says of a function or procedure.
pub struct Signature {
    /// All of them, in their order.
    pub parameters: Vec<Parameter>,
    pub returns: Returns,
    pub set: bool,
    /// It gives NULL, or no rows, for NULL.
    pub strict: bool,
}

/// One of its parameters.
pub struct Parameter {
    pub ty: Type,
    pub is_row: bool,
    /// It is compared by a collation.
    pub collated: bool,
}

/// What it returns, or each row of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Returns {
    /// It returns void, or is a procedure, or a DO block.
    Nothing,
    Value(Type),
    /// A row of a type with a name.
    Row(u32),
    /// A row of its outputs.
    Outputs,
}

impl Signature {
    /// What to ask PostgreSQL for of a call: each argument as a value of its type, and behind it by which collation it is compared.
    pub fn arguments(&self, given: &[ast::Node], program: &Program) -> Result<Vec<String>> {
        let mut asked = Vec::with_capacity(2 * given.len());
        for (value, at) in given.iter().zip(&program.arguments) {
            let parameter = &self.parameters[*at];
            let value = sql::deparse_expr(value)?;
            asked.push(format!("CAST({value} AS {})", parameter.ty.name));
            asked.push(match parameter.collated {
                true => format!("pg_catalog.pg_collation_for({value})"),
                false => "NULL".into(),
            });
        }
        Ok(asked)
    }

    /// The arguments among what was answered; `None`: one is compared by a collation of its own.
    pub fn given(&self, answer: Vec<Text>, program: &Program) -> Option<Vec<Text>> {
        let mut values = Vec::with_capacity(program.arguments.len());
        for pair in answer.chunks(2) {
            let [value, collation] = pair else { return None };
            // Of its type, that is.
            let is_own = |c: &[u8]| c != b"\"default\"" && c != b"pg_catalog.\"default\"";
            if collation.as_deref().is_some_and(is_own) {
                return None;
            }
            values.push(value.clone());
        }
        Some(values)
    }
}

/// Its parameters would be compared by another.
pub const COLLATED: &str = "is given a text whose collation is its own, or not known";

impl Session {
    /// What the catalog says of it; or why it can't be run.
    pub(super) async fn signature(&mut self, oid: u32) -> Result<std::result::Result<Signature, &'static str>> {
        let sql = format!(
            "SELECT p.prosecdef OR p.proconfig IS NOT NULL OR p.provariadic OPERATOR(pg_catalog.<>) 0, \
             pg_catalog.has_function_privilege(p.oid, 'EXECUTE'), p.prorettype, pg_catalog.format_type(p.prorettype, -1), r.typtype, p.proname, \
             p.proretset, a.type, pg_catalog.format_type(a.type, -1), \
             pg_catalog.has_schema_privilege(p.pronamespace, 'USAGE'), p.pronamespace::pg_catalog.regnamespace, p.prokind, \
             t.typtype, t.typcollation OPERATOR(pg_catalog.<>) 0, p.proisstrict \
             FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_type r ON r.oid OPERATOR(pg_catalog.=) p.prorettype \
             LEFT JOIN LATERAL ROWS FROM (pg_catalog.unnest(p.proallargtypes), pg_catalog.unnest(p.proargtypes)) WITH ORDINALITY AS l (alls, ins, n) ON true \
             LEFT JOIN LATERAL (SELECT CASE WHEN p.proallargtypes IS NULL THEN l.ins ELSE l.alls END) AS a (type) ON true \
             LEFT JOIN pg_catalog.pg_type t ON t.oid OPERATOR(pg_catalog.=) a.type \
             WHERE p.oid OPERATOR(pg_catalog.=) {oid} ORDER BY l.n"
        );
        let rows = self.asked(&sql).await?;
        let of = |row: &[Text], i: usize| {
            row.get(i).cloned().flatten().and_then(|v| String::from_utf8(v.to_vec()).ok()).unwrap_or_default()
        };
        let Some(first) = rows.first() else { return Ok(Err("is not there any more")) };
        if of(first, 9) != "t" {
            let message = format!("permission denied for schema {}", of(first, 10));
            return Err(ExecError::sql(sqlstate::INSUFFICIENT_PRIVILEGE, message));
        }
        if of(first, 1) != "t" {
            let kind = if of(first, 11) == "p" { "procedure" } else { "function" };
            let message = format!("permission denied for {kind} {}", of(first, 5));
            return Err(ExecError::sql(sqlstate::INSUFFICIENT_PRIVILEGE, message));
        }
        if of(first, 0) != "f" {
            return Ok(Err("is SECURITY DEFINER or VARIADIC, or has settings of its own"));
        }
        let number = |row: &[Text], i: usize| of(row, i).parse::<u32>().unwrap_or(0);
        let returns = match (number(first, 2), of(first, 4).as_str()) {
            (type_oid::VOID, _) => Returns::Nothing,
            (type_oid::RECORD, _) => Returns::Outputs,
            (oid, "b" | "e" | "r") => Returns::Value(Type::plain(oid, &of(first, 3))),
            (oid, "c") => Returns::Row(oid),
            _ => return Ok(Err("returns a domain or a pseudo-type")),
        };
        let parameters: Vec<_> = rows.iter().filter(|row| number(row, 7) != 0).collect();
        // A domain's length is one that a cast cuts to.
        if parameters.iter().any(|row| matches!(&*of(row, 12), "d" | "p")) {
            return Ok(Err("takes or gives a domain or a pseudo-type"));
        }
        let parameter = |row: &&Vec<Text>| Parameter {
            ty: Type::plain(number(row, 7), &of(row, 8)),
            is_row: of(row, 12) == "c",
            collated: of(row, 13) == "t",
        };
        let parameters = parameters.iter().map(parameter).collect();
        Ok(Ok(Signature { parameters, returns, set: of(first, 6) == "t", strict: of(first, 14) == "t" }))
    }
}

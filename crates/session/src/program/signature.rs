//! What the catalog says of a function or procedure that is run statement by statement, and its arguments as it takes them. It does not know
//! what runs.

use exec::ExecError;
use sql::ast;
use sql::program::Program;
use wire::{sqlstate, type_oid};

use super::Text;
use crate::session::{Result, Session};

/// What the catalog says of a function or procedure.
pub struct Signature {
    /// The types of all parameters, in their order.
    pub parameters: Vec<(u32, String)>,
    /// Which of them are compared by a collation.
    pub collated: Vec<bool>,
    /// Its type, where it returns one value.
    pub returns: Option<(u32, String)>,
    /// It returns void, or is a procedure.
    pub nothing: bool,
    pub set: bool,
}

impl Signature {
    /// What to ask PostgreSQL for of a call: each argument as a value of its type, and behind it by which collation it is compared.
    pub fn arguments(&self, given: &[ast::Node], program: &Program) -> Result<Vec<String>> {
        let mut asked = Vec::with_capacity(2 * given.len());
        for (value, at) in given.iter().zip(&program.arguments) {
            let (_, ty) = &self.parameters[*at];
            let value = sql::deparse_expr(value)?;
            asked.push(format!("CAST({value} AS {ty})"));
            asked.push(match self.collated[*at] {
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
            "SELECT p.prosecdef OR p.proisstrict OR p.proconfig IS NOT NULL OR p.provariadic OPERATOR(pg_catalog.<>) 0, \
             pg_catalog.has_function_privilege(p.oid, 'EXECUTE'), p.prorettype, pg_catalog.format_type(p.prorettype, -1), r.typtype, p.proname, \
             p.proretset, a.type, pg_catalog.format_type(a.type, -1), \
             pg_catalog.has_schema_privilege(p.pronamespace, 'USAGE'), p.pronamespace::pg_catalog.regnamespace, p.prokind, \
             t.typtype, t.typcollation OPERATOR(pg_catalog.<>) 0 \
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
            return Ok(Err("is SECURITY DEFINER, STRICT or VARIADIC, or has settings of its own"));
        }
        let number = |row: &[Text], i: usize| of(row, i).parse::<u32>().unwrap_or(0);
        let returns = match (number(first, 2), of(first, 4).as_str()) {
            (type_oid::VOID, _) => None,
            // Of its outputs.
            (type_oid::RECORD, _) => None,
            (oid, "b" | "e" | "r") => Some((oid, of(first, 3))),
            _ => return Ok(Err("returns a row, a domain or a pseudo-type")),
        };
        let parameters: Vec<_> = rows.iter().filter(|row| number(row, 7) != 0).collect();
        // A domain's length is one that a cast cuts to.
        if parameters.iter().any(|row| matches!(&*of(row, 12), "d" | "p")) {
            return Ok(Err("takes or gives a domain or a pseudo-type"));
        }
        let collated = parameters.iter().map(|row| of(row, 13) == "t").collect();
        let parameters = parameters.into_iter().map(|row| (number(row, 7), of(row, 8))).collect();
        let (nothing, set) = (number(first, 2) == type_oid::VOID, of(first, 6) == "t");
        Ok(Ok(Signature { parameters, collated, returns, nothing, set }))
    }
}

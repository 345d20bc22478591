//! Types of variables and results: what PostgreSQL knows of them, and how a value becomes one of them. It does not know values.

use std::sync::Arc;

use exec::ExecError;
use sql::program::{Kind, Program};

use super::signature::Signature;
use super::{Held, Text, Value};
use crate::session::{Result, Session};

/// A type, perhaps with a modifier: a length, a precision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Type {
    pub oid: u32,
    /// As a cast names it, with the modifier.
    pub name: String,
    /// -1: it has none. A value of the same type may be changed by it.
    pub modifier: i32,
    /// The function that says whether a value is too long, the type without its length, and the modifier: a cast would cut what is too long.
    length: Option<(String, String, i32)>,
}

/// A type of rows.
#[derive(Debug)]
pub struct RowType {
    pub name: String,
    pub columns: Vec<(String, Type)>,
}

impl Type {
    /// Without a modifier.
    pub fn plain(oid: u32, name: &str) -> Type {
        Type { oid, name: name.to_string(), modifier: -1, length: None }
    }

    /// The cast of an assignment.
    pub fn cast(&self, value: &str) -> String {
        match &self.length {
            None => format!("CAST({value} AS {})", self.name),
            Some((function, base, modifier)) => format!("{function}(CAST({value} AS {base}), {modifier}, false)"),
        }
    }
}

/// What is asked of a type `t` with the modifier `modifier`.
fn columns_of(t: &str, modifier: &str) -> String {
    format!(
        "{t}.oid, {t}.typtype, {modifier}, pg_catalog.format_type({t}.oid, -1), \
         pg_catalog.format_type({t}.oid, CASE WHEN {modifier} OPERATOR(pg_catalog.>=) 0 THEN {modifier} ELSE -1 END), \
         (SELECT pg_catalog.concat(p.pronargs, ' ', pg_catalog.quote_ident(n.nspname), '.', pg_catalog.quote_ident(p.proname)) FROM pg_catalog.pg_cast c \
         JOIN pg_catalog.pg_proc p ON p.oid OPERATOR(pg_catalog.=) c.castfunc JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) p.pronamespace \
         WHERE c.castsource OPERATOR(pg_catalog.=) {t}.oid AND c.casttarget OPERATOR(pg_catalog.=) {t}.oid)"
    )
}

/// How many those are.
const COLUMNS: usize = 6;

/// What was answered: the type, and whether it is one of values, rows or something else (`typtype`).
fn read(row: &[Text]) -> Option<(Type, u8)> {
    let of = |i: usize| row.get(i).cloned().flatten().and_then(|v| String::from_utf8(v.to_vec()).ok());
    let (oid, kind, modifier): (u32, _, i32) = (of(0)?.parse().ok()?, of(1)?.into_bytes(), of(2)?.parse().ok()?);
    let (base, name, cast) = (of(3)?, of(4)?, of(5));
    let length = cast.as_deref().and_then(|c| c.strip_prefix("3 ")).filter(|_| modifier >= 0);
    // Of an array each element would be cut.
    if modifier >= 0 && cast.is_none() {
        return None;
    }
    let length = length.map(|function| (function.to_string(), base, modifier));
    Some((Type { oid, name, modifier, length }, *kind.first()?))
}

impl Session {
    /// What variables hold when it begins; none: one's type is not understood.
    pub(super) async fn empty(&mut self, program: &Program, signature: &Signature) -> Result<Option<Vec<Held>>> {
        let found = self.types(program).await?;
        let mut held: Vec<Held> = Vec::with_capacity(program.variables.len());
        for (at, variable) in program.variables.iter().enumerate() {
            let given = signature.parameters.get(at).map(|p| (p.ty.clone(), if p.is_row { b'c' } else { b'b' }));
            let (ty, kind) = match (&variable.kind, given, found[at].clone()) {
                (_, Some(given), _) => given,
                (Kind::Record, ..) => {
                    held.push(Held::Record(None));
                    continue;
                }
                (Kind::Own, ..) => {
                    held.push(Held::Any(Value::default()));
                    continue;
                }
                (Kind::Like(other), ..) => {
                    held.push(held[*other].clone());
                    continue;
                }
                (_, None, Some(found)) => found,
                (_, None, None) => return Ok(None),
            };
            held.push(match kind {
                b'c' => match self.row_type(ty.oid).await? {
                    Some(row) => Held::Row(row, None),
                    None => return Ok(None),
                },
                _ => Held::Value { ty: Arc::new(ty), text: None },
            });
        }
        Ok(Some(held))
    }

    /// The types of variables that say one; none where that is not one of plain values or of rows.
    async fn types(&mut self, program: &Program) -> Result<Vec<Option<(Type, u8)>>> {
        let modifiers = self.modifiers(program).await?;
        let mut questions = vec![];
        for (at, variable) in program.variables.iter().enumerate() {
            match &variable.kind {
                Kind::Type(name) => questions.push(format!(
                    "SELECT {at}, pg_catalog.to_regtype({})::pg_catalog.oid, {}",
                    catalog::quote_literal(name),
                    modifiers[at]
                )),
                Kind::Column(table, column) => questions.push(format!(
                    "SELECT {at}, a.atttypid, a.atttypmod FROM pg_catalog.pg_attribute a \
                     WHERE a.attrelid OPERATOR(pg_catalog.=) pg_catalog.to_regclass({})::pg_catalog.oid \
                     AND a.attname OPERATOR(pg_catalog.=) ANY (pg_catalog.parse_ident({})) AND a.attnum OPERATOR(pg_catalog.>) 0",
                    catalog::quote_literal(table),
                    catalog::quote_literal(column)
                )),
                Kind::Row(table) => questions.push(format!(
                    "SELECT {at}, c.reltype, -1 FROM pg_catalog.pg_class c \
                     WHERE c.oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass({})::pg_catalog.oid",
                    catalog::quote_literal(table)
                )),
                Kind::Record | Kind::Own | Kind::Like(_) => {}
            }
        }
        let mut types = vec![None; program.variables.len()];
        if questions.is_empty() {
            return Ok(types);
        }
        let sql = format!(
            "SELECT {}, v.at FROM ({}) AS v (at, type, modifier) JOIN pg_catalog.pg_type t ON t.oid OPERATOR(pg_catalog.=) v.type \
             WHERE t.typtype OPERATOR(pg_catalog.=) ANY (ARRAY['b', 'e', 'r', 'c']::pg_catalog.\"char\"[]) \
             AND NOT (t.oid OPERATOR(pg_catalog.=) 18 OR t.typname OPERATOR(pg_catalog.~) '^reg')",
            columns_of("t", "v.modifier"),
            questions.join(" UNION ALL ")
        );
        for row in self.asked(&sql).await? {
            let at =
                row.get(COLUMNS).cloned().flatten().and_then(|v| std::str::from_utf8(&v).ok()?.parse::<usize>().ok());
            if let Some(at) = at {
                types[at] = read(&row);
            }
        }
        Ok(types)
    }

    /// The modifiers of types that are written in the body: what describes a value of them tells.
    async fn modifiers(&mut self, program: &Program) -> Result<Vec<i32>> {
        let mut modifiers = vec![-1; program.variables.len()];
        let named = program.variables.iter().enumerate().filter_map(|(at, v)| match &v.kind {
            Kind::Type(name) => Some((at, name)),
            _ => None,
        });
        let (places, casts): (Vec<usize>, Vec<String>) =
            named.map(|(at, name)| (at, format!("CAST(NULL AS {name}\n)"))).unzip();
        if !places.is_empty() {
            let sql = format!("SELECT {}", casts.join(", "));
            let fields = self.work().describe_text(&sql, &[]).await?.fields.unwrap_or_default();
            if fields.len() != places.len() {
                return Err(ExecError::internal("types of variables are not described"));
            }
            places.into_iter().zip(fields).for_each(|(at, field)| modifiers[at] = field.typmod);
        }
        Ok(modifiers)
    }

    /// A type of rows by its object id; none: it is none, or has columns that are not understood.
    pub(super) async fn row_type(&mut self, oid: u32) -> Result<Option<Arc<RowType>>> {
        let sql = format!(
            "SELECT {}, a.attname, pg_catalog.format_type(r.oid, -1) FROM pg_catalog.pg_type r \
             JOIN pg_catalog.pg_attribute a ON a.attrelid OPERATOR(pg_catalog.=) r.typrelid AND a.attnum OPERATOR(pg_catalog.>) 0 AND NOT a.attisdropped \
             JOIN pg_catalog.pg_type t ON t.oid OPERATOR(pg_catalog.=) a.atttypid WHERE r.oid OPERATOR(pg_catalog.=) {oid} \
             AND r.typtype OPERATOR(pg_catalog.=) 'c' ORDER BY a.attnum",
            columns_of("t", "a.atttypmod")
        );
        let (mut columns, mut name) = (vec![], String::new());
        for row in self.asked(&sql).await? {
            let of = |i: usize| row.get(i).cloned().flatten().and_then(|v| String::from_utf8(v.to_vec()).ok());
            let Some((ty, _)) = read(&row) else { return Ok(None) };
            columns.push((of(COLUMNS).unwrap_or_default(), ty));
            name = of(COLUMNS + 1).unwrap_or_default();
        }
        Ok((!columns.is_empty()).then(|| Arc::new(RowType { name, columns })))
    }

    /// A type by its object id and modifier.
    pub(super) async fn type_of(&mut self, oid: u32, modifier: i32) -> Result<Type> {
        let sql = format!(
            "SELECT {} FROM pg_catalog.pg_type t WHERE t.oid OPERATOR(pg_catalog.=) {oid}",
            columns_of("t", &format!("({modifier})"))
        );
        let row = self.asked(&sql).await?.pop().unwrap_or_default();
        match read(&row) {
            Some((ty, _)) => Ok(ty),
            None => Err(ExecError::sql(
                wire::sqlstate::FEATURE_NOT_SUPPORTED,
                "values of an array type with a modifier can't be assigned in a function that runs over several nodes",
            )
            .hint("Cast the value to the type.")),
        }
    }
}

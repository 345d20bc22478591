//! Options of COPY that PostgreSQL does not know: they are taken out before anything goes to a node.

use sql::NodeEnum;
use sql::ast::{self, DefElem};
use wire::sqlstate;

use crate::error::{ExecError, Result};

/// What a COPY asks for besides PostgreSQL's own options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BulkCopy {
    /// `ROWS_PER_TRANSACTION n`; 0: all of it is one transaction, whatever the session has set.
    pub rows_per_transaction: Option<u64>,
    /// `REPLACE`: rows replace those with their primary key.
    pub replace: bool,
}

impl BulkCopy {
    /// Takes the options out of a statement.
    pub fn take(copy: &mut ast::CopyStmt) -> Result<BulkCopy> {
        let mut taken = BulkCopy::default();
        let mut kept = Vec::with_capacity(copy.options.len());
        for option in std::mem::take(&mut copy.options) {
            match &option.node {
                Some(NodeEnum::DefElem(d)) if d.defname == "rows_per_transaction" => {
                    if taken.rows_per_transaction.replace(rows(d)?).is_some() {
                        return Err(redundant());
                    }
                }
                Some(NodeEnum::DefElem(d)) if d.defname == "replace" => {
                    if std::mem::replace(&mut taken.replace, is_on(d)?) {
                        return Err(redundant());
                    }
                }
                Some(NodeEnum::DefElem(d)) if d.defname == "disable_fk_check" => {
                    return Err(ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, "COPY DISABLE_FK_CHECK is not supported")
                        .hint("Foreign keys are always checked. To load first and check later, drop the constraint and add it again."));
                }
                _ => kept.push(option),
            }
        }
        copy.options = kept;
        if taken != BulkCopy::default() && !copy.is_from {
            let name = if taken.replace { "REPLACE" } else { "ROWS_PER_TRANSACTION" };
            return Err(ExecError::sql(
                sqlstate::FEATURE_NOT_SUPPORTED,
                format!("COPY {name} cannot be used with COPY TO"),
            ));
        }
        Ok(taken)
    }

    /// Whether the statement had any of these options.
    pub fn is_any(&self) -> bool {
        *self != BulkCopy::default()
    }
}

fn redundant() -> ExecError {
    ExecError::sql(sqlstate::SYNTAX_ERROR, "conflicting or redundant options")
}

fn text(d: &DefElem) -> Option<String> {
    Some(match d.arg.as_deref()?.node.as_ref()? {
        NodeEnum::Integer(i) => i.ival.to_string(),
        NodeEnum::Float(f) => f.fval.clone(),
        NodeEnum::String(s) => s.sval.clone(),
        NodeEnum::Boolean(b) => b.boolval.to_string(),
        _ => String::new(),
    })
}

fn rows(d: &DefElem) -> Result<u64> {
    let value = text(d)
        .ok_or_else(|| ExecError::sql(sqlstate::SYNTAX_ERROR, "rows_per_transaction requires an integer value"))?;
    value.parse().map_err(|_| {
        ExecError::sql(
            sqlstate::INVALID_PARAMETER_VALUE,
            format!("ROWS_PER_TRANSACTION must be a number that is not negative, not \"{value}\""),
        )
    })
}

fn is_on(d: &DefElem) -> Result<bool> {
    match text(d).map(|t| t.to_ascii_lowercase()).as_deref() {
        None | Some("true" | "on" | "1") => Ok(true),
        Some("false" | "off" | "0") => Ok(false),
        _ => Err(ExecError::sql(sqlstate::SYNTAX_ERROR, "replace requires a Boolean value")),
    }
}

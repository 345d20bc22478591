//! How rows are read from a table that is moved, and taken by another: the texts and the answers of one node. It does not know which
//! rows go where.

use catalog::CopyRows;
use catalog::CopyTarget;
use pool::PoolError;
use sql::NodeEnum;
use txn::Participant;
use wire::ErrorFields;

use crate::error::{ExecError, Result};

/// Nothing but tables' own rows is read, where the server knows how to see to that (since 15.8, 16.4 and 17).
pub(super) async fn open_copy(p: &mut Participant, select: &str) -> Result<()> {
    let only = |kinds: &str| {
        format!(
            "SELECT s.setting, pg_catalog.set_config(s.name, {}, true) FROM pg_catalog.pg_settings s \
             WHERE s.name OPERATOR(pg_catalog.=) 'restrict_nonsystem_relation_kind'",
            catalog::quote_literal(kinds)
        )
    };
    let before = p.lane.rows(&only("view, foreign-table")).await?;
    p.lane.run(&format!("DECLARE herd_copy NO SCROLL CURSOR FOR {select}")).await?;
    if let Some(before) = before.into_iter().next().and_then(|row| row.into_iter().next()?) {
        p.lane.rows(&only(&before)).await?;
    }
    Ok(())
}

pub(super) async fn end_copy(p: &mut Participant) -> Result<()> {
    let mut error = None;
    loop {
        let frame = p.lane.next().await?;
        match frame.tag() {
            b'E' => error = Some(ErrorFields::parse(frame.body())?),
            b'Z' => break,
            _ => {}
        }
    }
    error.map_or(Ok(()), |e| Err(PoolError::Server(Box::new(e)).into()))
}

/// The rows of a `COPY … TO STDOUT` of a query as a query, with the key's values in binary behind them. None: it is of a table.
pub(super) fn select_of(copy: &str, rows: &CopyRows) -> Result<Option<String>> {
    let unreadable = || ExecError::internal("unreadable COPY");
    let Some(NodeEnum::CopyStmt(c)) = sql::parse(copy, true)?.pop() else { return Err(unreadable()) };
    let columns: Vec<String> = rows.columns.iter().map(|n| catalog::quote_ident(n)).collect();
    let mut list = columns.clone();
    if let CopyTarget::ByKey { key, group } = &rows.to {
        for (k, ty) in key.iter().zip(&group.key_types) {
            let send = crate::work::ask_key::send_function(*ty);
            list.push(format!("pg_catalog.encode({send}({}), 'hex')", columns[*k]));
        }
    }
    let from = match (&c.relation, c.query.as_deref().and_then(|q| q.node.as_ref())) {
        (Some(_), _) => return Ok(None),
        (None, Some(q)) => format!("({}) AS q", sql::deparse(q)?),
        _ => return Err(unreadable()),
    };
    Ok(Some(format!("SELECT {} FROM {from}", list.join(", "))))
}

//! Asks PostgreSQL for a key's value where only it can read it. Which shard the value means is not known here.

use catalog::Relation;
use plan::{Evaluation, KeyExpr, Piece, Text};
use wire::type_oid;

use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::request::{Literals, Request};
use crate::router::compiled::Compiled;
use crate::work::Work;
use crate::work::key_values::{Value, from_text, is_bare_number, parameter};

impl<C: Client> Work<'_, C> {
    /// Asks PostgreSQL for what a parameter of another type becomes in the key's column.
    pub(super) async fn ask_parameter(
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
        let values = self.evaluate(&[Evaluation { expression, column }], bound).await?;
        match values.into_iter().next().flatten() {
            Some(text) => match from_text(c.type_oid, &text) {
                Value::Known(v) => Ok(v),
                _ => self.ask_value(&text, relation, column).await,
            },
            None => Ok(None),
        }
    }

    /// What the key's column makes of a literal with this text. A number becomes a text as it is printed, not as it is written.
    pub(super) async fn ask_literal(
        &mut self,
        literal: &KeyExpr,
        text: &str,
        relation: &Relation,
        column: usize,
    ) -> Result<Option<Vec<u8>>> {
        match is_bare_number(literal) && type_oid::is_string(relation.columns[column].type_oid) {
            true => self.ask_expression(&format!("({text})"), relation, column).await,
            false => self.ask_value(text, relation, column).await,
        }
    }

    /// Asks PostgreSQL to read a text as the key's type; its error is the client's error.
    pub(crate) async fn ask_value(
        &mut self,
        text: &str,
        relation: &Relation,
        column: usize,
    ) -> Result<Option<Vec<u8>>> {
        let c = &relation.columns[column];
        // A number is read as one first, so that 11.4 becomes the integer 11 as on assignment.
        let number = type_oid::is_integer(c.type_oid) && text.parse::<f64>().is_ok_and(f64::is_finite);
        let value = if number { format!("({text})") } else { catalog::quote_literal(text) };
        self.ask_expression(&value, relation, column).await
    }

    async fn ask_expression(&mut self, value: &str, relation: &Relation, column: usize) -> Result<Option<Vec<u8>>> {
        let c = &relation.columns[column];
        let send = send_function(c.type_oid);
        let sql = format!("SELECT pg_catalog.encode({send}({value}::{}), 'hex')", c.type_name);
        let rows = self.ask_home(&sql).await?;
        let hex = rows.into_iter().next().and_then(|r| r.into_iter().next()).flatten();
        hex.map(|h| key_bytes(&h)).transpose()
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
        oid if type_oid::is_range(oid) => "pg_catalog.range_send",
        oid if type_oid::is_multirange(oid) => "pg_catalog.multirange_send",
        _ => "pg_catalog.array_send",
    }
}

/// A key's value as home has written it: in binary, in hexadecimal.
pub fn key_bytes(hex: &str) -> Result<Vec<u8>> {
    wire::hex::decode(hex).ok_or_else(|| ExecError::internal("unreadable key value"))
}

/// The position of an error about a key's value is that of its literal in the client's statement.
pub(super) fn at_literal(error: ExecError, compiled: &Compiled, request: &Request, e: &KeyExpr) -> ExecError {
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

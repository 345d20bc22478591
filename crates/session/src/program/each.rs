//! FOREACH: an array's elements, or its slices. It does not know what is done with them.

use exec::ExecError;
use sql::program::{Ex, Loop, Target};
use wire::backend::Field;
use wire::sqlstate;

use super::run::literal;
use super::types::Type;
use super::{After, Flow, Held, Running, Text, rows};
use crate::session::{Result, Session};

/// An array taken apart.
struct Array {
    /// Of its elements.
    element: Type,
    delimiter: u8,
    /// Lower bound and length of each dimension.
    bounds: Vec<(i64, i64)>,
    elements: Vec<Text>,
}

impl Session {
    pub(super) async fn each(
        &mut self,
        running: &mut Running<'_>,
        (row, slice): (&Target, usize),
        array: Ex,
        steps: &Loop,
    ) -> Result<Flow> {
        let (oid, array) = self.array(running, array).await?;
        if slice > array.bounds.len() {
            let message = format!("slice dimension ({slice}) is out of the valid range 0..{}", array.bounds.len());
            return Err(ExecError::sql(sqlstate::ARRAY_SUBSCRIPT_ERROR, message));
        }
        self.fits(running, row, slice > 0).await?;
        let bounds = &array.bounds[array.bounds.len() - slice..];
        let size = bounds.iter().map(|(_, length)| *length as usize).product::<usize>().max(1);
        let ty = if slice > 0 { oid } else { array.element.oid };
        let field = [Field::new("value", ty, -1)];
        let whole = self.type_of(oid, -1).await?;
        let mut found = false;
        for some in array.elements.chunks(size) {
            let value = match slice {
                0 => some.first().cloned().flatten(),
                _ => Some(rows::array(some, bounds, array.delimiter)),
            };
            found = true;
            let value = match slice {
                0 => value,
                // As PostgreSQL prints it.
                _ => self.printed(value, &whole).await?,
            };
            self.put(running, row, &field, Some(&vec![value])).await?;
            match self.turn(running, steps).await? {
                After::Again => {}
                After::Out => break,
                After::Leave(flow) => {
                    running.set_found(found);
                    return Ok(flow);
                }
            }
        }
        running.set_found(found);
        Ok(Flow::Next)
    }

    /// Slices are arrays, and elements are none.
    async fn fits(&mut self, running: &mut Running<'_>, row: &Target, slices: bool) -> Result<()> {
        let [place] = &row[..] else { return Ok(()) };
        let Held::Value { ty, .. } = &running.held[place.variable] else { return Ok(()) };
        let sql = format!(
            "SELECT t.typelem OPERATOR(pg_catalog.<>) 0 AND t.typlen OPERATOR(pg_catalog.=) -1 FROM pg_catalog.pg_type t WHERE t.oid OPERATOR(pg_catalog.=) {}",
            ty.oid
        );
        let answer = self.asked(&sql).await?.pop().and_then(|row| row.into_iter().next()).flatten();
        let message = match (answer.as_deref() == Some(b"t"), slices) {
            (false, true) => "FOREACH ... SLICE loop variable must be of an array type",
            (true, false) => "FOREACH loop variable must not be of an array type",
            _ => return Ok(()),
        };
        Err(ExecError::sql(sqlstate::DATATYPE_MISMATCH, message))
    }

    /// The array that an expression is, with its type.
    async fn array(&mut self, running: &mut Running<'_>, e: Ex) -> Result<(u32, Array)> {
        let value = self.value(running, e).await?;
        let Some(text) = value.text else {
            return Err(ExecError::sql(sqlstate::NULL_VALUE_NOT_ALLOWED, "FOREACH expression must not be null"));
        };
        let oid = value.oid;
        let sql = format!(
            "SELECT e.oid, pg_catalog.format_type(e.oid, -1), e.typdelim, pg_catalog.format_type({oid}, -1) FROM (SELECT) o \
             LEFT JOIN (pg_catalog.pg_type t JOIN pg_catalog.pg_type e ON e.oid OPERATOR(pg_catalog.=) t.typelem AND t.typlen OPERATOR(pg_catalog.=) -1) \
             ON t.oid OPERATOR(pg_catalog.=) {oid}"
        );
        let row = self.asked(&sql).await?.pop().unwrap_or_default();
        let of = |i: usize| row.get(i).cloned().flatten().and_then(|v| String::from_utf8(v.to_vec()).ok());
        let array = of(3).unwrap_or_default();
        let (Some(element), Some(name), Some(delimiter)) = (of(0).and_then(|v| v.parse().ok()), of(1), of(2)) else {
            let message = format!("FOREACH expression must yield an array, not type {array}");
            return Err(ExecError::sql(sqlstate::DATATYPE_MISMATCH, message));
        };
        let literal = literal(&Some(text))?;
        let sql = format!(
            "SELECT pg_catalog.array_ndims(a), pg_catalog.array_lower(a, d), pg_catalog.array_length(a, d) FROM (SELECT CAST({literal} AS {array})) AS x (a), \
             pg_catalog.generate_series(1, pg_catalog.array_ndims(a)) AS d"
        );
        let mut bounds = vec![];
        for row in self.asked(&sql).await? {
            let of = |i: usize| row.get(i).cloned().flatten().and_then(|v| std::str::from_utf8(&v).ok()?.parse().ok());
            bounds.push((of(1).unwrap_or(1), of(2).unwrap_or(0)));
        }
        let sql = format!("SELECT pg_catalog.unnest(CAST({literal} AS {array}))");
        let elements = self.asked(&sql).await?.into_iter().map(|row| row.into_iter().next().flatten()).collect();
        let element = Type::plain(element, &name);
        let delimiter = delimiter.bytes().next().unwrap_or(b',');
        Ok((oid, Array { element, delimiter, bounds, elements }))
    }
}

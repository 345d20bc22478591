//! One row a node of counts, sums, minima and maxima: the router adds integers up by itself.
//!
//! Anything that is not plainly an integer is finished by PostgreSQL instead.

use plan::{AddFunction, AddUp};
use wire::backend;
use wire::type_oid;

use crate::arrays::Arrays;
use crate::client::{Answer, Client};
use crate::error::Result;
use crate::query::finish::Answers;
use crate::query::part_rows::PartRows;
use crate::render::Fill;
use crate::request::Request;
use crate::router::compiled::Compiled;
use crate::router::described::{Described, PartColumns};
use crate::work::Work;
use crate::work::rows::Reply;

impl<C: Client> Work<'_, C> {
    /// Sends the client one row, made by the router or, where integers do not do, by PostgreSQL; the command tag.
    pub async fn add_up(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        AddUp { rows: part, functions, otherwise }: &AddUp,
        described: &Described,
    ) -> Result<String> {
        let bound = described.parameters(request);
        let columns = self.part_columns(compiled, &[part], &bound).await?;
        let carriers = self.carry(columns[0].types.iter().map(String::as_str)).await?;
        let nodes = self.part_nodes(compiled, request, part).await?;
        let statement = Fill::new(&bound, &self.now).statement([&part.text]).answered_by(&columns[0].fields);
        let mut lanes = self.ask_part(&nodes, &statement, &carriers.formats(), compiled.keep(request)).await?;
        let mut partials: Vec<Vec<Option<Vec<u8>>>> = Vec::new();
        let mut failure = None;
        for p in &mut lanes {
            loop {
                match self.next_reply(&mut p.lane).await {
                    Ok(Reply::Row(frame)) => partials.push(
                        backend::parse_data_row(frame.body())?.into_iter().map(|v| v.map(<[u8]>::to_vec)).collect(),
                    ),
                    Ok(Reply::Done) => break,
                    Ok(_) => {}
                    Err(e) => {
                        failure = Some(e);
                        break;
                    }
                }
            }
            if failure.is_some() {
                break;
            }
        }
        self.abandon(lanes).await;
        if let Some(e) = failure {
            return Err(e);
        }
        match row(functions, &columns[0], described, request, &partials) {
            Some(row) => {
                self.describe_to_client(request, described);
                self.client.tell(Answer::Row(&row.iter().map(|v| v.as_deref()).collect::<Vec<_>>()));
                Ok("SELECT 1".into())
            }
            None => {
                let mut arrays = Arrays::new(&carriers);
                for p in &partials {
                    arrays.push(&p.iter().map(|v| v.as_deref()).collect::<Vec<_>>())?;
                }
                let rows = vec![PartRows::Held(arrays)];
                let answers =
                    Answers { whole: compiled.plan.whole(), keep: compiled.keep(request), columns: &columns, rows };
                self.finish_over(request, otherwise, described, answers, None).await
            }
        }
    }
}

/// The answer, if all of it is integers.
pub fn row(
    functions: &[AddFunction],
    columns: &PartColumns,
    described: &Described,
    request: &Request<'_>,
    partials: &[Vec<Option<Vec<u8>>>],
) -> Option<Vec<Option<Vec<u8>>>> {
    let fields = described.fields.as_deref().unwrap_or_default();
    let one = |i: usize| {
        let described = fields.get(i)?;
        let (of_part, of_all) = (columns.fields.get(i)?.type_oid, described.type_oid);
        if !type_oid::is_integer(of_part) || !type_oid::is_integer(of_all) || fields.len() != functions.len() {
            return None;
        }
        let value = fold(functions[i], partials.iter().map(|p| p.get(i).cloned().flatten()))?;
        encode(value, described.type_oid, request.bound.map_or(0, |b| b.result_format(i)))
    };
    (0..functions.len()).map(one).collect()
}

/// `Some(None)`: NULL. `None`: not integers after all, or too large.
fn fold(f: AddFunction, values: impl Iterator<Item = Option<Vec<u8>>>) -> Option<Option<i64>> {
    let mut result: Option<i64> = None;
    for value in values.flatten() {
        let n: i64 = std::str::from_utf8(&value).ok()?.parse().ok()?;
        result = Some(match (result, f) {
            (None, _) => n,
            // An overflow is PostgreSQL's to report.
            (Some(r), AddFunction::Sum) => r.checked_add(n)?,
            (Some(r), AddFunction::Min) => r.min(n),
            (Some(r), AddFunction::Max) => r.max(n),
        });
    }
    Some(result)
}

fn encode(value: Option<i64>, ty: u32, format: i16) -> Option<Option<Vec<u8>>> {
    let Some(n) = value else { return Some(None) };
    Some(Some(match (format, ty) {
        (0, _) => n.to_string().into_bytes(),
        (_, type_oid::INT8) => n.to_be_bytes().to_vec(),
        (_, type_oid::INT4) => i32::try_from(n).ok()?.to_be_bytes().to_vec(),
        (_, type_oid::INT2) => i16::try_from(n).ok()?.to_be_bytes().to_vec(),
        _ => return None,
    }))
}

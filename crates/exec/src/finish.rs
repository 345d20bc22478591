//! PostgreSQL finishes: the parts' rows go to one node as typed arrays, and the outer query runs there.

use bytes::Bytes;
use plan::MultiSelect;
use txn::Lane;

use crate::client::Client;
use crate::compiled::Compiled;
use crate::cut_statement::Wanted;
use crate::describe::Described;
use crate::error::{ExecError, Result};
use crate::gather::PartRows;
use crate::render;
use crate::request::{Bound, Request};
use crate::route::forward;
use crate::rows;
use crate::spill::{self, Spill};
use crate::work::Work;

const TEXT_ARRAY: u32 = 1009;

impl<C: Client> Work<'_, C> {
    /// Collects all parts and runs `sql` over them.
    pub async fn finish(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        m: &MultiSelect,
        sql: &str,
        described: &Described,
    ) -> Result<String> {
        let bound = parameters(request, described);
        let keep = compiled.keep(request);
        let columns = self.part_columns(compiled, &m.parts, &bound.types).await?;
        let mut nodes = Vec::with_capacity(m.parts.len());
        for part in &m.parts {
            nodes.push(self.part_nodes(compiled, request, part).await?);
        }
        let mut opened = vec![];
        if self.opens_together() {
            let each = m.parts.iter().zip(&nodes);
            let wanted: Vec<_> = each.map(|(p, nodes)| Wanted { nodes, sql: &p.sql, formats: &[] }).collect();
            opened = self.open_together(&wanted, &bound).await?;
        }
        let mut spill = Spill::new(self, m);
        let result = async {
            let mut parts = Vec::with_capacity(m.parts.len());
            for (n, ((part, nodes), c)) in m.parts.iter().zip(&nodes).zip(columns.iter()).enumerate() {
                let lanes = self.ask_opened(nodes, &part.sql, &bound, &[], keep, &mut opened).await?;
                parts.push(self.collect(lanes, n, &c.types, &mut spill).await?);
            }
            self.finish_over(compiled, request, sql, described, parts, spill.lane.as_mut()).await
        }
        .await;
        spill.end().await;
        result
    }

    /// Runs `sql` over answers that are already here; on `lane`, if that has some of them.
    pub async fn finish_over(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        sql: &str,
        described: &Described,
        parts: Vec<PartRows>,
        lane: Option<&mut Lane>,
    ) -> Result<String> {
        let mut bound = parameters(request, described);
        let columns = compiled.parts.get().cloned().ok_or_else(|| ExecError::internal("parts are not described"))?;
        let mark = self.mark(compiled.keep(request), sql);
        let mut sql = render::with_now(sql, &self.now);
        let mut formats: Vec<i16> = (0..bound.values.len()).map(|i| bound.format(i)).collect();
        for (n, (rows, c)) in parts.into_iter().zip(columns.iter()).enumerate() {
            let PartRows::Held(mut a) = rows else {
                sql = render::with_part(&sql, n, &format!("(SELECT * FROM {})", spill::table(n)), &c.types);
                continue;
            };
            let source = render::unnest(bound.values.len() + 1, &c.types);
            sql = render::with_part(&sql, n, &source, &c.types);
            let values: Vec<Option<Bytes>> = a.finish();
            bound.types.extend(values.iter().map(|_| TEXT_ARRAY));
            formats.extend(values.iter().map(|_| 0));
            bound.values.extend(values);
        }
        if let Some(lane) = lane {
            rows::send(lane, None, &sql, &bound.types, &formats, &bound.values, request.result_formats());
            lane.conn.flush().await?;
            self.describe_to_client(request, described);
            return Ok(forward(lane, self.client, false, None).await?.tag);
        }
        let home = self.home();
        let mut p = self.lane(home).await?;
        rows::send(&mut p.lane, mark.as_deref(), &sql, &bound.types, &formats, &bound.values, request.result_formats());
        let result = async {
            p.lane.conn.flush().await?;
            self.describe_to_client(request, described);
            forward(&mut p.lane, self.client, false, None).await
        }
        .await;
        self.put_back(p).await;
        Ok(result?.tag)
    }

    /// RowDescription, where the protocol wants it: of the statement as PostgreSQL itself described it.
    pub fn describe_to_client(&mut self, request: &Request<'_>, described: &Described) {
        if request.is_simple()
            && let Some(fields) = &described.fields
        {
            wire::backend::row_description(self.client.out(), fields);
        }
    }
}

/// The client's parameters with all their types known.
pub fn parameters(request: &Request<'_>, described: &Described) -> Bound {
    let mut bound = request.bound.cloned().unwrap_or_default();
    bound.types = described.params.clone();
    bound
}

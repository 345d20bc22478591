//! Writes to reference tables: the same on every node, in one transaction.

use std::collections::BTreeSet;

use catalog::NodeId;
use plan::ReferenceWrite;
use wire::backend;

use crate::client::Client;
use crate::compiled::Compiled;
use crate::error::{ExecError, Result};
use crate::finish::parameters;
use crate::gather::Arrays;
use crate::render;
use crate::request::{Bound, Keep, Request};
use crate::work::Work;

impl<C: Client> Work<'_, C> {
    pub async fn reference_write(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        w: &ReferenceWrite,
        verb: &str,
    ) -> Result<String> {
        let types = request.bound.map(|b| b.types.clone()).unwrap_or_default();
        let described = self.described(compiled, &types).await?;
        let bound = parameters(request, &described);
        let home = self.home();
        let others: BTreeSet<NodeId> = self.epoch.snapshot.nodes.iter().map(|n| n.id).filter(|n| *n != home).collect();
        // A node that has just come is not among them: seen before the commit.
        self.need_transaction();
        let tag = match (&w.everywhere, &w.by_rows) {
            (Ok(sql), _) => {
                let texts: Vec<(NodeId, String)> =
                    std::iter::once(home).chain(others).map(|n| (n, sql.clone())).collect();
                let mut lanes = self.write(&texts, &bound, request).await?;
                self.describe_to_client(request, &described);
                let mut count = 0;
                let mut failure = None;
                for p in &mut lanes {
                    let is_home = p.lane.node == home;
                    match self.read_answer(p, is_home).await {
                        Ok(a) if is_home => count = backend::rows_of_tag(&a.tag),
                        Ok(_) => {}
                        Err(e) => {
                            failure.get_or_insert(e);
                        }
                    }
                }
                self.abandon(lanes).await;
                match failure {
                    Some(e) => Err(e),
                    None => Ok(tag(verb, count)),
                }
            }
            (Err(_), Some(by_rows)) => self.by_rows(request, w, by_rows, &bound, &described, others).await,
            (Err(refusal), None) => Err(refusal.clone().into()),
        }?;
        self.same_kinds().await?;
        Ok(tag)
    }

    /// Values that could differ from node to node are computed once, on home; the others get the finished rows.
    async fn by_rows(
        &mut self,
        request: &Request<'_>,
        w: &ReferenceWrite,
        sql: &str,
        bound: &Bound,
        described: &crate::Described,
        others: BTreeSet<NodeId>,
    ) -> Result<String> {
        let stored: Vec<_> = w.relation.columns.iter().filter(|c| !c.generated).collect();
        let names: Vec<String> = stored.iter().map(|c| catalog::quote_ident(&c.name)).collect();
        let types: Vec<String> = stored.iter().map(|c| c.type_name.clone()).collect();
        if !others.is_empty() {
            self.need_transaction();
        }
        let home = BTreeSet::from([self.home()]);
        let mut text = bound.clone();
        text.result_formats.clear();
        let returning = format!("{sql} RETURNING {}", names.join(", "));
        let mut lanes = self.ask_part(&home, &returning, &text, &[], Keep::No).await?;
        let mut arrays = Arrays::new(names.len());
        let mut failure = None;
        for p in &mut lanes {
            p.wrote = true;
            match self.read_answer(p, false).await {
                Ok(answer) => {
                    for row in &answer.rows {
                        arrays.push(&backend::parse_data_row(&row[wire::frame::HEADER_LEN..])?)?;
                    }
                }
                Err(e) => failure = Some(e),
            }
        }
        self.abandon(lanes).await;
        if let Some(e) = failure {
            return Err(e);
        }
        let count = arrays.rows;
        let values = arrays.finish();
        let rows =
            Bound { types: vec![1009; values.len()], formats: vec![0; values.len()], values, ..Default::default() };
        let table = catalog::qualified(&w.relation.schema, &w.relation.name);
        let source = render::unnest(1, &types);
        let copy =
            format!("INSERT INTO {table} ({}) OVERRIDING SYSTEM VALUE SELECT * FROM {source} AS p", names.join(", "));
        let plain = Request::simple(&copy);
        if !others.is_empty() {
            self.everywhere(&others, &copy, &rows, &plain).await?;
        }
        if w.returning {
            let list = w.returning_list.as_ref().ok_or_else(|| ExecError::internal("RETURNING without a list"))?;
            let all = format!(
                "SELECT {list} FROM {source} AS {} ({})",
                catalog::quote_ident(&w.relation.name),
                names.join(", ")
            );
            let mut lanes = self.ask_part(&home, &all, &rows, request.result_formats(), Keep::No).await?;
            self.describe_to_client(request, described);
            for p in &mut lanes {
                self.read_answer(p, true).await?;
            }
            self.abandon(lanes).await;
        }
        Ok(tag(verb_insert(), count))
    }
}

fn verb_insert() -> &'static str {
    "INSERT"
}

fn tag(verb: &str, count: u64) -> String {
    if verb == "INSERT" { format!("INSERT 0 {count}") } else { format!("{verb} {count}") }
}

//! Writes to reference tables: the same on every node, in one transaction.

use std::collections::BTreeSet;

use bytes::Bytes;
use catalog::{NodeId, Relation};
use plan::{ReferenceWrite, Text};
use wire::backend;

use crate::client::Client;
use crate::error::Result;
use crate::query::finish::parameters;
use crate::query::gather::Arrays;
use crate::render::{self, Child, Fill, NodeStatement, Source};
use crate::request::{Bound, Keep, Request};
use crate::router::compiled::Compiled;
use crate::work::{Work, rows};
use txn::Participant;

impl<C: Client> Work<'_, C> {
    pub async fn reference_write(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        w: &ReferenceWrite,
    ) -> Result<u64> {
        let types = request.bound.map(|b| b.types.clone()).unwrap_or_default();
        let described = self.described(compiled, &types).await?;
        let bound = parameters(request, &described);
        let home = self.home();
        let others: BTreeSet<NodeId> = self.epoch.snapshot.nodes.iter().map(|n| n.id).filter(|n| *n != home).collect();
        // A node that has just come is not among them: seen before the commit.
        self.need_transaction();
        let count = match (&w.everywhere, &w.by_rows) {
            (Ok(text), _) => {
                let statement = Fill::new(&bound, &self.now).statement([text]);
                let texts: Vec<_> = std::iter::once(home).chain(others).map(|n| (n, statement.clone())).collect();
                let mut lanes = self.write(&texts, request).await?;
                self.describe_to_client(request, &described);
                let mut count = 0;
                let mut failure = None;
                for p in &mut lanes {
                    let is_home = p.lane.node == home;
                    let answer = match is_home {
                        true => self.read_answer(p, true).await.map(|a| count = backend::rows_of_tag(&a.tag)),
                        false => read_copy(p).await,
                    };
                    if let Err(e) = answer {
                        failure.get_or_insert(e);
                    }
                }
                self.abandon(lanes).await;
                match failure {
                    Some(e) => Err(e),
                    None => Ok(count),
                }
            }
            (Err(_), Some(by_rows)) => self.by_rows(request, w, by_rows, &bound, &described, others).await,
            (Err(refusal), None) => Err(refusal.clone().into()),
        }?;
        self.same_kinds().await?;
        Ok(count)
    }

    /// Values that could differ from node to node are computed once, on home; the others get the finished rows.
    async fn by_rows(
        &mut self,
        request: &Request<'_>,
        w: &ReferenceWrite,
        by_rows: &Text,
        bound: &Bound,
        described: &crate::router::described::Described,
        others: BTreeSet<NodeId>,
    ) -> Result<u64> {
        if !others.is_empty() {
            self.travel_whole(w.relation.columns.iter().map(|c| c.type_name.as_str()))?;
            self.need_transaction();
        }
        let home = BTreeSet::from([self.home()]);
        let insert = Fill::new(bound, &self.now).statement([by_rows]);
        let mut lanes = self.ask_part(&home, &insert, &[], Keep::No).await?;
        let mut arrays = Arrays::new(w.relation.columns.len());
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
        if !others.is_empty() {
            let copy = copies(&w.relation, &values);
            let texts: Vec<_> = others.iter().map(|n| (*n, copy.clone())).collect();
            let mut lanes = self.write(&texts, &Request::simple(&copy.sql)).await?;
            let mut failure = None;
            for p in &mut lanes {
                if let Err(e) = read_copy(p).await {
                    failure.get_or_insert(e);
                }
            }
            self.abandon(lanes).await;
            if let Some(e) = failure {
                return Err(e);
            }
        }
        if let Some(returned) = &w.returned {
            let types = w.relation.columns.iter().map(|c| c.type_name.clone()).collect();
            let children = vec![Child { source: Source::Arrays(values), types }];
            let all = Fill { children, ..Fill::new(bound, &self.now) }.statement([returned]);
            let mut lanes = self.ask_part(&home, &all, request.result_formats(), Keep::No).await?;
            self.describe_to_client(request, described);
            for p in &mut lanes {
                self.read_answer(p, true).await?;
            }
            self.abandon(lanes).await;
        }
        Ok(count)
    }
}

/// Another copy's answer. What it says besides, home has said.
async fn read_copy(p: &mut Participant) -> Result<()> {
    let read = rows::drain(&mut p.lane).await;
    p.lane.said.clear();
    read
}

/// The finished rows into another copy; what is generated each copy generates.
fn copies(relation: &Relation, values: &[Option<Bytes>]) -> NodeStatement {
    let stored = relation.columns.iter().zip(values).filter(|(c, _)| !c.generated);
    let names: Vec<String> = stored.clone().map(|(c, _)| catalog::quote_ident(&c.name)).collect();
    let types: Vec<String> = stored.clone().map(|(c, _)| c.type_name.clone()).collect();
    let table = catalog::qualified(&relation.schema, &relation.name);
    let sql = format!(
        "INSERT INTO {table} ({}) OVERRIDING SYSTEM VALUE SELECT {}",
        names.join(", "),
        render::unnest(1, &types)
    );
    NodeStatement::over_arrays(sql, stored.map(|(_, v)| v.clone()).collect())
}

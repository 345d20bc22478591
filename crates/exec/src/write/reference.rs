//! Writes to reference tables: the same on every node, in one transaction.

use std::collections::BTreeSet;

use catalog::{NodeId, Relation};
use plan::{InsertSelect, ReferenceWrite, Text};
use wire::{backend, sqlstate, type_oid};

use crate::arrays::{Array, Arrays};
use crate::carried::Carriers;
use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::render::{self, Child, Fill, NodeStatement, Source};
use crate::request::{Bound, Keep, Request};
use crate::router::compiled::Compiled;
use crate::work::rows::Reply;
use crate::work::{Work, rows};
use txn::Participant;

impl<C: Client> Work<'_, C> {
    /// The same statement on all copies; how many rows it has changed.
    pub async fn reference_write(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        w: &ReferenceWrite,
    ) -> Result<u64> {
        let (described, bound) = self.described_bound(compiled, request).await?;
        let home = self.home();
        let others: BTreeSet<NodeId> = self.epoch.snapshot.nodes.iter().map(|n| n.id).filter(|n| *n != home).collect();
        // A node that has just come is not among them: seen before the commit.
        self.need_transaction();
        let moment = !others.is_empty() && names_moment(&bound, w);
        let once = w.everywhere.is_err() || moment || w.reads_others && !others.is_empty();
        let by_key = match w.by_key.as_deref().filter(|_| once) {
            Some(by_key) if self.may_return(&w.relation).await? => Some(by_key),
            _ => None,
        };
        let by_rows = w.by_rows.as_ref().filter(|_| once);
        let count = match (by_key, by_rows, &w.everywhere) {
            (Some(by_key), ..) => self.by_key(request, &w.relation, by_key, vec![], &bound, &described, &others).await,
            (None, Some(by_rows), _) => self.by_rows(request, w, by_rows, &bound, &described, others).await,
            (None, None, Err(refusal)) => Err(refusal.clone().into()),
            (None, None, Ok(_)) if moment => Err(moment_given(&w.relation)),
            (None, None, Ok(_)) if !others.is_empty() && self.is_compared(w).await? => {
                let compared = w.compared.as_deref();
                self.compared(request, w, compared, &bound, &described, others).await
            }
            (None, None, Ok(text)) => {
                if w.chooses && !others.is_empty() && self.may_stop_writers(&w.relation).await? {
                    self.stop_writers(&w.relation, others.clone()).await?;
                }
                let statement = Fill::new(&bound, &self.now).statement([text]);
                let texts: Vec<_> = std::iter::once(home).chain(others).map(|n| (n, statement.clone())).collect();
                let mut lanes = self.write(&texts, request).await?;
                self.describe_to_client(request, &described);
                let (mut counts, mut failure) = (vec![], None);
                for p in &mut lanes {
                    let count = match p.lane.node == home {
                        true => self.read_answer(p, true).await.map(|a| backend::rows_of_tag(&a.tag)),
                        false => read_copy(p).await,
                    };
                    match count {
                        Ok(count) => counts.push(count),
                        Err(e) => {
                            failure.get_or_insert(e);
                        }
                    }
                }
                self.abandon(lanes).await;
                let count = counts.first().copied().unwrap_or_default();
                match failure {
                    Some(e) => Err(e),
                    None if counts.iter().any(|c| *c != count) => Err(seen_apart(&w.relation)),
                    None => Ok(count),
                }
            }
        }?;
        for relation in &w.tied {
            self.compare_copies(relation).await?;
        }
        self.same_kinds().await?;
        Ok(count)
    }

    /// Rows that home would compute and return, for a role that may not read the table.
    pub async fn unread<'w>(&mut self, w: &'w ReferenceWrite) -> Result<Option<&'w InsertSelect>> {
        let once = w.everywhere.is_err() && self.epoch.snapshot.nodes.len() > 1;
        match w.unread.as_deref().filter(|_| once) {
            Some(unread) if !self.may_return(&w.relation).await? => Ok(Some(unread)),
            _ => Ok(None),
        }
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
        let types = || w.relation.columns.iter().map(|c| c.type_name.as_str());
        let carriers = match others.is_empty() {
            true => Carriers::text(w.relation.columns.len()),
            false => self.carry_unread(types()).await?,
        };
        if !others.is_empty() {
            self.need_transaction();
        }
        let home = BTreeSet::from([self.home()]);
        let insert = Fill::new(bound, &self.now).statement([by_rows]);
        let formats = carriers.formats();
        let mut lanes = self.ask_part(&home, &insert, &formats, Keep::No).await?;
        lanes.iter_mut().for_each(|p| p.wrote = true);
        let written = self.read_written(&mut lanes, &carriers).await;
        self.abandon(lanes).await;
        let (count, values) = written?.pop().unwrap_or_default();
        if !others.is_empty() {
            let copy = copies(&w.relation, &values);
            let texts: Vec<_> = others.iter().map(|n| (*n, copy.clone())).collect();
            let read = Bound::default().for_columns(if w.relation.triggers { formats } else { vec![] });
            let request = Request::bound(&copy.sql, (!read.result_formats.is_empty()).then_some(&read));
            let mut lanes = self.write(&texts, &request).await?;
            let written = self.read_written(&mut lanes, &carriers).await;
            lanes.iter_mut().for_each(|p| p.lane.said.forget());
            self.abandon(lanes).await;
            // Triggers have changed finished rows once more.
            if written?.iter().any(|(_, copy)| w.relation.triggers && *copy != values) {
                return Err(changed_again(&w.relation));
            }
        }
        if let Some(returned) = &w.returned {
            let types = types().map(str::to_string).collect();
            let children = vec![Child { source: Source::Arrays(values), types, fenced: false, names: None }];
            let all = Fill { children, ..Fill::new(bound, &self.now) }.statement([returned]);
            let lanes = self.ask_part(&home, &all, request.result_formats(), Keep::No).await?;
            self.describe_to_client(request, described);
            self.read_answers(lanes, true).await?;
        }
        Ok(count)
    }

    /// How many rows each lane has written, and their columns where it was asked for them.
    async fn read_written(&mut self, lanes: &mut [Participant], carriers: &Carriers) -> Result<Vec<(u64, Vec<Array>)>> {
        let (mut written, mut failure) = (vec![], None);
        for p in lanes {
            match self.read_answer(p, false).await {
                Ok(answer) => {
                    let mut arrays = Arrays::new(carriers);
                    for row in answer.rows.iter() {
                        arrays.push(&backend::parse_data_row(&row?[wire::frame::HEADER_LEN..])?)?;
                    }
                    written.push((arrays.rows, arrays.finish()));
                }
                Err(e) => {
                    failure.get_or_insert(e);
                }
            }
        }
        failure.map_or(Ok(written), Err)
    }
}

/// A parameter that each node would read as a moment of its own: 'now', as text.
fn names_moment(bound: &Bound, w: &ReferenceWrite) -> bool {
    bound.values.iter().enumerate().any(|(i, value)| {
        let Some(text) = value.as_deref().and_then(|v| std::str::from_utf8(v).ok()) else { return false };
        let oid = bound.types.get(i).copied().unwrap_or(type_oid::UNKNOWN);
        // Of text, both formats are the text.
        let read = match plan::clock_text::may_hold(oid) {
            true => bound.format(i) == 0,
            false => w.moments.contains(&(i + 1)),
        };
        read && plan::clock_text::may_name(text)
    })
}

fn moment_given(relation: &Relation) -> ExecError {
    let message = format!(
        "{} as a parameter of a change of reference table \"{}\" is not supported here: each node would read it by itself",
        plan::clock_text::said(),
        relation.name
    );
    ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, message)
        .hint("Write now() or CURRENT_DATE, or give the moment itself.")
}

fn changed_again(relation: &Relation) -> ExecError {
    ExecError::sql(
        sqlstate::FEATURE_NOT_SUPPORTED,
        format!(
            "this INSERT into reference table \"{}\" computes values on one node, and a trigger of the table changes the finished rows once more on the others",
            relation.name
        ),
    )
    .hint("Select the values first and pass them; or have the trigger leave alone what it has set before.")
}

/// What another transaction committed meanwhile, one node had already and another not yet.
pub(super) fn seen_apart(relation: &Relation) -> ExecError {
    ExecError::sql(
        sqlstate::T_R_SERIALIZATION_FAILURE,
        format!(
            "copies of reference table \"{}\" were being changed by another transaction at the same time",
            relation.name
        ),
    )
    .hint("Try the transaction again.")
}

/// Another copy's answer: how many rows it has changed. What it says besides, home has said.
pub(super) async fn read_copy(p: &mut Participant) -> Result<u64> {
    let mut count = 0;
    let read = loop {
        match rows::next(&mut p.lane).await {
            Ok(Reply::Complete(tag)) => count = backend::rows_of_tag(&tag),
            Ok(Reply::Done) => break Ok(count),
            Ok(_) => {}
            Err(e) => break Err(e),
        }
    };
    p.lane.said.forget();
    read
}

/// The finished rows into another copy; what is generated each copy generates. Where triggers may change them, they are returned.
fn copies(relation: &Relation, values: &[Array]) -> NodeStatement {
    let stored = relation.columns.iter().zip(values).filter(|(c, _)| !c.generated);
    let names: Vec<String> = stored.clone().map(|(c, _)| catalog::quote_ident(&c.name)).collect();
    let types: Vec<String> = stored.clone().map(|(c, _)| c.type_name.clone()).collect();
    let table = catalog::qualified(&relation.schema, &relation.name);
    let mut sql = format!(
        "INSERT INTO {table} ({}) OVERRIDING SYSTEM VALUE SELECT {}",
        names.join(", "),
        render::unnest(1, &types, stored.clone().map(|(_, v)| &v.carried))
    );
    if relation.triggers {
        let all: Vec<String> = relation.columns.iter().map(|c| catalog::quote_ident(&c.name)).collect();
        sql += &format!(" RETURNING {}", all.join(", "));
    }
    NodeStatement::over_arrays(sql, stored.map(|(_, v)| v.clone()).collect())
}

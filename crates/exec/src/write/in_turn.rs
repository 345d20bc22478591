//! Data-modifying WITH over several nodes: statements one after the other in one transaction. What a WITH query returns waits here
//! until all who name it have run. Why they run in this order is not known here (`plan/src/in_turn.rs`).

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use plan::{InTurn, Turn, WithQuery};
use wire::type_oid::TEXT_ARRAY;

use crate::arrays::{Array, Arrays};
use crate::budget::Taken;
use crate::bulk_settings::Bulk;
use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::render::ARRAY_FORMAT;
use crate::request::{Bound, Request, bind_tail};
use crate::router::compiled::{Compiled, ReadyTurn};
use crate::router::described::Described;
use crate::work::Work;
use crate::work::planned::planned;
use crate::write::capture::{Consumer, Rows};

/// What rows take: buffers have room to grow, and are copied into a message.
const TIMES: usize = 2;

impl<C: Client> Work<'_, C> {
    /// All of them, and what the client is told of the statement itself.
    pub async fn in_turn(&mut self, compiled: &Compiled, request: &Request<'_>, all: &InTurn) -> Result<String> {
        let (described, mut bound) = self.described_bound(compiled, request).await?;
        bound.values.truncate(all.parameters);
        let ready = self.ready(compiled, all, &described).await?;
        self.travel_made_of(ready.iter().flat_map(|r| r.base_types.iter().map(String::as_str)).collect()).await?;
        self.need_transaction();
        self.bulk = Bulk::default();
        let mut kept: HashMap<usize, (Vec<Array>, Taken)> = HashMap::new();
        let mut tag = String::new();
        for (n, (turn, ready)) in all.turns.iter().zip(ready.iter()).enumerate() {
            let values = |(number, column): &(usize, usize)| kept.get(number)?.0.get(*column)?.value.clone();
            let own = own_bound(ready, all, &bound, values);
            let parameters = (!ready.params.is_empty() || !request.is_simple()).then_some(&own);
            let done = match &turn.query {
                Some(query) => {
                    let mut rows = Kept::new(self, if query.unnamed { 0 } else { ready.types.len() });
                    let inner = Request::bound(&ready.compiled.text, parameters);
                    let done = self.write_into(&ready.compiled, &inner, Rows::Kept(&mut rows)).await;
                    if !query.unnamed {
                        kept.insert(query.number, (rows.arrays.finish(), rows.taken));
                    }
                    done
                }
                None => self.itself(ready, request, &described, &bound, parameters).await.map(|done| tag = done),
            };
            done.map_err(|e| if n == 0 { e } else { settled(e) })?;
        }
        Ok(tag)
    }

    async fn itself(
        &mut self,
        ready: &ReadyTurn,
        request: &Request<'_>,
        described: &Described,
        bound: &Bound,
        own: Option<&Bound>,
    ) -> Result<String> {
        let with_formats = own.map(|own| {
            let mut own = Bound { result_formats: bound.result_formats.clone(), ..own.clone() };
            own.tail = bind_tail(&own);
            own
        });
        if with_formats.is_some() {
            self.describe_to_client(request, described);
        }
        let inner = Request::bound(&ready.compiled.text, with_formats.as_ref());
        match Box::pin(self.run_alone(&ready.compiled, &inner, None)).await? {
            done if done.stale => Err(ExecError::Stale),
            done => Ok(done.tag),
        }
    }

    /// The statements planned with the types of what each returns; home is asked once.
    async fn ready(&mut self, compiled: &Compiled, all: &InTurn, described: &Described) -> Result<Arc<Vec<ReadyTurn>>> {
        if let Some(ready) = compiled.in_turn.get() {
            return Ok(ready.clone());
        }
        let mut ready: Vec<ReadyTurn> = vec![];
        for turn in &all.turns {
            let one = self.ready_turn(all, turn, described, &ready).await?;
            ready.push(one);
        }
        let ready = Arc::new(ready);
        let _ = compiled.in_turn.set(ready.clone());
        Ok(ready)
    }

    async fn ready_turn(
        &mut self,
        all: &InTurn,
        turn: &Turn,
        described: &Described,
        before: &[ReadyTurn],
    ) -> Result<ReadyTurn> {
        let type_of = |number: usize, column: usize| {
            let known = before.iter().find(|r| r.number == Some(number)).and_then(|r| r.types.get(column));
            known.cloned().unwrap_or_else(|| "pg_catalog.text".into())
        };
        let (text, params) = InTurn::numbered(&turn.text, &type_of);
        let oids: Vec<u32> = params.iter().map(|n| type_of_parameter(*n, all, described)).collect();
        let tree = sql::parse(&text, true)?.pop().ok_or_else(|| ExecError::internal("an empty statement"))?;
        let compiled = planned(self.epoch, tree, &text, &all.search_path, &all.temporary, &oids).await?;
        let own = self.described(&compiled, &oids).await?;
        let (mut types, mut base_types) = (vec![], vec![]);
        match &turn.query {
            Some(query) if !query.unnamed => {
                let fields = own.fields.clone().unwrap_or_default();
                types = self.type_names(&fields).await?;
                base_types.clone_from(&types);
                self.own_types(query, &type_of, (all, described), &fields, &mut types).await?;
            }
            Some(_) => {}
            None => {
                let oids = |d: &Described| d.fields.iter().flatten().map(|f| f.type_oid).collect::<Vec<_>>();
                if oids(&own) != oids(described) {
                    return Err(plan::Refusal::not_in_place("its columns would be of other types").into());
                }
            }
        }
        Ok(ReadyTurn { number: turn.query.as_ref().map(|q| q.number), compiled, params, types, base_types })
    }

    /// Domains and collations, of which descriptions do not tell.
    async fn own_types(
        &mut self,
        query: &WithQuery,
        type_of: &(dyn Fn(usize, usize) -> String + Sync),
        (all, described): (&InTurn, &Described),
        fields: &[wire::backend::Field],
        types: &mut [String],
    ) -> Result<()> {
        for (name, own) in types.iter_mut().zip(&query.types) {
            if let Some(own) = own {
                name.clone_from(own);
            }
        }
        let Some(columns) = &query.columns else { return Ok(()) };
        let (sql, params) = InTurn::numbered(columns, type_of);
        if self.epoch.snapshot.own_collations || sql.contains("COLLATE") {
            let oids = params.iter().map(|n| type_of_parameter(*n, all, described)).collect();
            let values = vec![None; params.len()];
            let asked = crate::render::NodeStatement { sql, types: oids, formats: vec![], values, once: true };
            self.add_collations(&asked, fields, types).await.map_err(crate::work::describe::not_in_place)?;
        }
        Ok(())
    }
}

fn type_of_parameter(n: usize, all: &InTurn, described: &Described) -> u32 {
    match n > all.parameters {
        true => TEXT_ARRAY,
        false => described.params.get(n.wrapping_sub(1)).copied().unwrap_or(0),
    }
}

/// What one of the statements names of the parameters.
fn own_bound(ready: &ReadyTurn, all: &InTurn, bound: &Bound, kept: impl Fn(&(usize, usize)) -> Option<Bytes>) -> Bound {
    let mut own = Bound::default();
    let (mut types, mut formats) = (vec![], vec![]);
    for n in &ready.params {
        match all.rows.get(n.wrapping_sub(all.parameters + 1)) {
            Some(column) if *n > all.parameters => {
                types.push(TEXT_ARRAY);
                formats.push(ARRAY_FORMAT);
                own.values.push(kept(column));
            }
            _ => {
                let at = n.wrapping_sub(1);
                types.push(bound.types.get(at).copied().unwrap_or(0));
                formats.push(bound.format(at));
                own.values.push(bound.values.get(at).cloned().flatten());
            }
        }
    }
    (own.types, own.formats) = (types.into(), formats.into_iter().collect());
    own.tail = bind_tail(&own);
    own
}

/// What was written before is not undone by running the last of them again.
fn settled(e: ExecError) -> ExecError {
    match e {
        ExecError::Stale => ExecError::Sql(Box::new(e.to_fields())),
        e => e,
    }
}

/// Rows that wait for who names them.
struct Kept {
    arrays: Arrays,
    /// 0: nobody does.
    width: usize,
    taken: Taken,
}

impl Kept {
    fn new<C: Client>(work: &Work<'_, C>, width: usize) -> Self {
        Kept { arrays: Arrays::of_text(width), width, taken: work.memory.nothing() }
    }
}

impl Consumer for Kept {
    fn row(&mut self, values: &[Option<&[u8]>]) -> Result<()> {
        if self.width == 0 {
            return Ok(());
        }
        self.arrays.push(values)?;
        self.taken.grow_to(TIMES * self.arrays.bytes())
    }
}

//! Data-modifying WITH over several nodes: statements one after the other in one transaction. What a WITH query returns waits here
//! until all who name it have run. Why they run in this order is not known here (`plan/src/in_turn.rs`).

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;

use plan::{InTurn, Turn, WithQuery};

use crate::arrays::{Array, Arrays};
use crate::budget::Taken;
use crate::bulk_settings::Bulk;
use crate::carried::{Carried, Carriers, TEXT};
use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::render::ARRAY_FORMAT;
use crate::request::{Bound, Request};
use crate::route::Forwarded;
use crate::router::compiled::{Compiled, ReadyTurn, ReadyTurns};
use crate::router::described::Described;
use crate::work::Work;
use crate::work::describe::not_in_place;
use crate::work::planned::planned;
use crate::write::capture::{Consumer, Rows};

/// What rows take: buffers have room to grow, and are copied into a message.
const TIMES: usize = 2;

impl<C: Client> Work<'_, C> {
    /// All of them, and what the client is told of the statement itself.
    pub async fn in_turn(&mut self, compiled: &Compiled, request: &Request<'_>, all: &InTurn) -> Result<String> {
        let (described, mut bound) = self.described_bound(compiled, request).await?;
        bound.values.truncate(all.parameters);
        let ready = self.ready(&compiled.in_turn, all, &described).await?;
        let carriers = self.carriers(&ready).await?;
        self.need_transaction();
        self.bulk = Bulk::default();
        let mut kept = KeptRows::new();
        let mut tag = String::new();
        for (n, (turn, ready)) in all.turns.iter().zip(ready.iter()).enumerate() {
            let mut own = own_bound(ready, all, &bound, &kept);
            if turn.query.is_some() {
                own = own.for_columns(carriers[n].formats());
            }
            let said = !ready.params.is_empty() || !request.is_simple() || !own.result_formats.is_empty();
            let parameters = said.then_some(&own);
            let done = match &turn.query {
                Some(query) => {
                    let (arrays, taken) = (Arrays::new(&carriers[n]), self.memory.nothing());
                    let mut rows = Kept { arrays, unnamed: query.unnamed, taken };
                    let inner = Request::bound(&ready.compiled.text, parameters);
                    let done = self.write_into(&ready.compiled, &inner, Rows::Kept(&mut rows)).await;
                    if !query.unnamed {
                        kept.insert(query.number, KeptTurn::of(rows.arrays, rows.taken));
                    }
                    done
                }
                None => self.itself(ready, request, &described, &bound, parameters).await.map(|done| tag = done),
            };
            done.map_err(|e| if n == 0 { e } else { settled(e) })?;
        }
        Ok(tag)
    }

    /// How the rows of each travel.
    pub async fn carriers(&mut self, ready: &[ReadyTurn]) -> Result<Vec<Carriers>> {
        let mut carriers = Vec::with_capacity(ready.len());
        for r in ready {
            carriers.push(self.carry_unread(r.base_types.iter().map(String::as_str)).await?);
        }
        Ok(carriers)
    }

    /// The last of them, over the rows of those before: what the client is told.
    pub async fn itself(
        &mut self,
        ready: &ReadyTurn,
        request: &Request<'_>,
        described: &Described,
        bound: &Bound,
        own: Option<&Bound>,
    ) -> Result<String> {
        let with_formats = own.map(|own| own.for_columns(bound.result_formats.to_vec()));
        if with_formats.is_some() {
            self.describe_to_client(request, described);
        }
        let inner = Request::bound(&ready.compiled.text, with_formats.as_ref());
        match self.again(&ready.compiled, &inner).await? {
            done if done.stale => Err(ExecError::Stale),
            done => Ok(done.tag),
        }
    }

    /// It may be several statements once more.
    fn again<'a>(
        &'a mut self,
        compiled: &'a Compiled,
        request: &'a Request<'_>,
    ) -> Pin<Box<dyn Future<Output = Result<Forwarded>> + Send + 'a>> {
        Box::pin(self.run_at(compiled, request, None))
    }

    /// The statements planned with the types of what each returns; home is asked once.
    pub async fn ready(
        &mut self,
        known: &ReadyTurns,
        all: &InTurn,
        described: &Described,
    ) -> Result<Arc<Vec<ReadyTurn>>> {
        if let Some(ready) = known.get() {
            return Ok(ready.clone());
        }
        let mut ready: Vec<ReadyTurn> = vec![];
        for turn in &all.turns {
            let one = self.ready_turn(all, turn, described, &ready).await?;
            ready.push(one);
        }
        Ok(known.get_or_init(|| async { Arc::new(ready) }).await.clone())
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
        let oids: Vec<u32> = params.iter().map(|n| type_of_parameter(*n, all, described, before)).collect();
        let tree = sql::parse(&text, true)?.pop().ok_or_else(|| ExecError::internal("an empty statement"))?;
        let compiled = planned(self.epoch, tree, &text, &all.search_path, &all.temporary, &oids, None).await?;
        let own = self.described(&compiled, &oids).await?;
        let (mut types, mut base_types) = (vec![], vec![]);
        match &turn.query {
            Some(query) if !query.unnamed => {
                let fields = own.fields.clone().unwrap_or_default();
                types = self.type_names(&fields).await?;
                base_types.clone_from(&types);
                self.own_types(query, &type_of, (all, described, before), &fields, &mut types).await?;
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
        (all, described, before): (&InTurn, &Described, &[ReadyTurn]),
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
        let collated = self.epoch.snapshot.own_collations || sql.contains("COLLATE");
        if collated || query.domains {
            let oids = params.iter().map(|n| type_of_parameter(*n, all, described, before)).collect();
            let values = vec![None; params.len()];
            let asked =
                crate::render::NodeStatement { sql, types: oids, formats: vec![], values, once: true, columns: None };
            if query.domains {
                self.add_domains(&asked, fields, types).await?;
            }
            if collated {
                self.add_collations(&asked, fields, types).await.map_err(not_in_place)?;
            }
        }
        Ok(())
    }
}

/// `before`: those that have run by then.
fn type_of_parameter(n: usize, all: &InTurn, described: &Described, before: &[ReadyTurn]) -> u32 {
    if n <= all.parameters {
        return described.params.get(n.wrapping_sub(1)).copied().unwrap_or(0);
    }
    let base_type = all
        .rows
        .get(n - all.parameters - 1)
        .and_then(|(number, column)| before.iter().find(|r| r.number == Some(*number))?.base_types.get(*column));
    base_type.map_or(TEXT, |t| Carried::unread(t)).array
}

/// What one of the statements names of the parameters.
pub fn own_bound(ready: &ReadyTurn, all: &InTurn, bound: &Bound, kept: &KeptRows) -> Bound {
    let kept = |(number, column): &(usize, usize)| kept.get(number)?.arrays.get(*column);
    let mut own = Bound::default();
    let (mut types, mut formats) = (vec![], vec![]);
    for n in &ready.params {
        match all.rows.get(n.wrapping_sub(all.parameters + 1)) {
            Some(column) if *n > all.parameters => {
                let array = kept(column);
                types.push(array.map_or(TEXT, |a| a.carried).array);
                formats.push(ARRAY_FORMAT);
                own.values.push(array.and_then(|a| a.value.clone()));
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
    own
}

/// What was written before is not undone by running the last of them again.
fn settled(e: ExecError) -> ExecError {
    match e {
        ExecError::Stale => ExecError::Sql(Box::new(e.to_fields())),
        e => e,
    }
}

/// Rows of queries by their numbers.
pub type KeptRows = HashMap<usize, KeptTurn>;

/// A query's rows, and the memory they take.
pub struct KeptTurn {
    pub arrays: Vec<Array>,
    pub rows: u64,
    _taken: Taken,
}

impl KeptTurn {
    /// All that have come.
    pub fn of(arrays: Arrays, taken: Taken) -> Self {
        let rows = arrays.rows;
        KeptTurn { arrays: arrays.finish(), rows, _taken: taken }
    }
}

/// Rows that wait for who names them.
struct Kept {
    arrays: Arrays,
    /// Nobody does.
    unnamed: bool,
    taken: Taken,
}

impl Consumer for Kept {
    fn row(&mut self, values: &[Option<&[u8]>]) -> Result<()> {
        if self.unnamed {
            return Ok(());
        }
        self.arrays.push(values)?;
        self.taken.grow_to(TIMES * self.arrays.bytes())
    }
}

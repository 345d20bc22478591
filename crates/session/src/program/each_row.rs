//! `SELECT f(x), … FROM t`: the query's rows are found first, without what the calls return; then each program runs for each of them, as
//! PostgreSQL calls functions among what is selected once the row is there. It does not know which queries that is right for (`plan::programs`).

use bytes::Bytes;
use catalog::Volatility;
use catalog::code::Routine;
use exec::{Bound, ExecError, Forwarded};
use plan::programs;
use sql::ast::{self, Node};
use sql::program::Program;
use sql::{NodeEnum, names, search};

use super::call::{only_rows, unless_known};
use super::signature::{COLLATED, Signature};
use super::{Running, Text};
use crate::session::{Result, Session};

/// One of them, as it stands there.
struct Call {
    /// Its place among what is selected.
    at: usize,
    routine: Routine,
    given: Vec<Node>,
}

/// A call, ready to be made for one row after the other.
struct Ready<'p> {
    /// Its place in a row.
    place: usize,
    arguments: usize,
    running: Running<'p>,
    signature: Signature,
}

impl Session {
    /// `refusal`: why the statement can't be planned, which is told where it can't be run so, either.
    pub(super) async fn for_each_row(
        &mut self,
        statement: &NodeEnum,
        sql: &str,
        bound: Option<&Bound>,
        refusal: ExecError,
    ) -> Result<Forwarded> {
        let names = self.names();
        let Some(per_row) = programs::per_row(statement, &names) else { return Err(refusal) };
        let calls = per_row.calls.into_iter().map(|(at, call)| Call {
            at,
            routine: call.routine.clone(),
            given: call.arguments.to_vec(),
        });
        let (select, calls) = (per_row.select.clone(), calls.collect::<Vec<_>>());
        let mut programs = Vec::with_capacity(calls.len());
        let mut sees_once = false;
        for call in &calls {
            let only = call.routine.volatility != Volatility::Volatile;
            sees_once |= only;
            let Some(definition) = self.definition(&call.routine).await? else { return Err(refusal) };
            match Program::of(&definition).and_then(|p| only_rows(p, only)) {
                Ok(program) => programs.push(program),
                Err(why) => return Err(unless_known(refusal, why)),
            }
        }
        let refusal = self.may_run(sees_once, refusal).await?;
        self.nesting += 1;
        let done = Box::pin(self.each_row(select, &calls, programs, (sql, bound), refusal)).await;
        self.nesting -= 1;
        done
    }

    async fn each_row(
        &mut self,
        mut select: ast::SelectStmt,
        calls: &[Call],
        programs: Vec<Program>,
        (sql, bound): (&str, Option<&Bound>),
        refusal: ExecError,
    ) -> Result<Forwarded> {
        // PostgreSQL says whether they can be called so.
        let types: &[u32] = bound.map_or(&[], |b| &b.types);
        let fields = self.work().describe_text(sql, types).await?.fields.unwrap_or_default();
        let Some(places) = places(&select.target_list, fields.len()) else { return Err(refusal) };
        self.may_come(&fields).await?;
        let (mut ready, mut arguments) = (Vec::with_capacity(calls.len()), vec![]);
        for (call, program) in calls.iter().zip(&programs) {
            let signature = match self.signature(call.routine.oid).await? {
                Ok(signature) => signature,
                Err(why) => return Err(unless_known(refusal, why)),
            };
            if signature.parameters.len() != program.parameters || call.given.len() != program.arguments.len() {
                return Err(refusal);
            }
            if signature.set && (select.limit_count.is_some() || calls_others(&select.target_list, call.at)) {
                return Err(unless_known(
                    refusal,
                    "returns a set, which is selected beside other calls, or with LIMIT",
                ));
            }
            arguments.extend(signature.arguments(&call.given, program)?);
            let gives = match self.gives(program, &signature, None).await? {
                Ok(gives) => gives,
                Err(why) => return Err(unless_known(refusal, why)),
            };
            let first = match self.begins(program, &signature).await? {
                Ok(first) => first,
                Err(why) => return Err(unless_known(refusal, why)),
            };
            let (place, arguments) = (places[call.at], call.given.len());
            let running = self.running(program, first, gives);
            ready.push(Ready { place, arguments, running, signature });
        }
        // No name of the query's own can mean them.
        let named =
            arguments.iter().enumerate().map(|(n, a)| format!("{a} AS \"herd: argument {n}\"")).collect::<Vec<_>>();
        let arguments = sql::parse(&format!("SELECT {}", named.join(", ")), true)?.pop();
        let Some(NodeEnum::SelectStmt(arguments)) = arguments else { return Err(ExecError::internal("no arguments")) };
        let targets = std::mem::take(&mut select.target_list).into_iter().enumerate();
        let others = targets.filter(|(at, _)| !calls.iter().any(|call| call.at == *at)).map(|(_, target)| target);
        select.target_list = others.chain(arguments.target_list).collect();
        let text = sql::deparse(&NodeEnum::SelectStmt(Box::new(select)))?;
        // Where its words stand belongs to a statement.
        let tree = sql::parse(&text, true)?.pop().ok_or_else(|| ExecError::internal("no statement"))?;
        let given = bound.cloned().unwrap_or_default().for_columns(vec![]);
        let found = match self.nested(&tree, &text, &given).await {
            Ok(found) => found,
            // What can't be planned is the statement as it is.
            Err(ExecError::Refused(_)) => return Err(refusal),
            Err(e) => return Err(e),
        };
        let others = fields.len() - calls.len();
        let mut found = found.rows;
        for row in &mut found {
            let mut given = row.split_off(others.min(row.len())).into_iter();
            for r in &ready {
                let some = given.by_ref().take(2 * r.arguments).collect();
                match r.signature.given(some, r.running.program) {
                    Some(values) => row.extend(values),
                    None => return Err(unless_known(refusal, COLLATED)),
                }
            }
        }
        let (mut rows, mut taken, mut bytes) = (vec![], self.memory.nothing(), 0);
        for row in found {
            for row in self.called_for(&mut ready, row, fields.len()).await? {
                bytes += row.iter().map(|v| v.as_ref().map_or(0, Bytes::len) + size_of::<Text>()).sum::<usize>();
                taken.grow_to(bytes)?;
                rows.push(row);
            }
        }
        self.tell_rows(&rows, &fields, bound).await
    }

    /// The rows that become of one: as many as a set has, otherwise one.
    async fn called_for(
        &mut self,
        ready: &mut [Ready<'_>],
        mut row: Vec<Text>,
        width: usize,
    ) -> Result<Vec<Vec<Text>>> {
        let Some(others) = width.checked_sub(ready.len()).filter(|n| *n <= row.len()) else {
            return Err(ExecError::internal("a row has another number of columns than described"));
        };
        let mut arguments = row.split_off(others).into_iter();
        let mut rows = vec![row];
        for r in ready {
            let values = arguments.by_ref().take(r.arguments).collect();
            self.keep_time().await?;
            self.run_once(&mut r.running, &r.signature, values).await?;
            let given = r.running.taken_out();
            let with = |row: &Vec<Text>, value: &Vec<Text>| {
                let mut row = row.clone();
                row.splice(r.place..r.place, value.iter().cloned());
                row
            };
            rows = rows.iter().flat_map(|row| given.iter().map(move |value| with(row, value))).collect();
        }
        Ok(rows)
    }
}

/// Where each target's columns begin in a row of `width`; `None`: that can't be told, as there is more than one `*`.
fn places(targets: &[Node], width: usize) -> Option<Vec<usize>> {
    let is_star = |target: &Node| match target.node.as_ref() {
        Some(NodeEnum::ResTarget(t)) => match t.val.as_deref().and_then(|v| v.node.as_ref()) {
            Some(NodeEnum::ColumnRef(c)) => names::has_star(c),
            Some(NodeEnum::AIndirection(i)) => i.indirection.iter().any(|n| matches!(n.node, Some(NodeEnum::AStar(_)))),
            _ => false,
        },
        _ => true,
    };
    let stars = targets.iter().filter(|t| is_star(t)).count();
    let of_star = (width + stars).checked_sub(targets.len())?;
    if stars > 1 || (stars == 0 && of_star > 0) {
        return None;
    }
    let mut places = Vec::with_capacity(targets.len());
    let mut next = 0;
    for target in targets {
        places.push(next);
        next += if is_star(target) { of_star } else { 1 };
    }
    Some(places)
}

/// Something is called beside what stands there: it may return a set, too.
fn calls_others(targets: &[Node], at: usize) -> bool {
    let is_call = |n: &NodeEnum| matches!(n, NodeEnum::FuncCall(_));
    targets.iter().enumerate().any(|(i, t)| i != at && t.node.as_ref().is_some_and(|t| search::any(t, is_call)))
}

//! What EXECUTE is given for the parameters of a statement: whether it may be assigned to their types, and its values.
//! It does not know how they come into the statement (`sql_prepare.rs`).

use std::collections::HashSet;

use exec::ExecError;
use sql::ast::{Node, a_const::Val};
use sql::{NodeEnum, search};
use wire::{sqlstate, type_oid};

use crate::session::{Result, Session};

/// Which of pairs of types, `{}`, PostgreSQL does not assign one to the other (`find_coercion_pathway` in parse_coerce.c says by what
/// rules): there is no cast but one that has to be written; without any, text takes everything, and arrays go as their elements.
/// Rows are left to the cast.
const UNFIT: &str = include_str!("arguments.sql");

impl Session {
    /// As PostgreSQL assigns them: 42804 where a cast would have to be written. `types`: the parameters'.
    pub(crate) async fn can_be_assigned(&mut self, arguments: &[Node], types: &[u32]) -> Result<()> {
        let open: Vec<usize> =
            (0..arguments.len().min(types.len())).filter(|i| !is_taken(&arguments[*i], types[*i])).collect();
        if open.is_empty() {
            return Ok(());
        }
        if arguments.iter().any(|a| search::any(a, |n| matches!(n, NodeEnum::SubLink(_)))) {
            return Err(ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, "cannot use subquery in EXECUTE parameter"));
        }
        // Aggregates, windows and sets of rows are not allowed in VALUES, either.
        let asked =
            open.iter().map(|i| sql::deparse_expr(&arguments[*i])).collect::<std::result::Result<Vec<_>, _>>()?;
        let fields =
            self.work().describe_text(&format!("VALUES ({})", asked.join(", ")), &[]).await?.fields.unwrap_or_default();
        let pairs: Vec<String> = (open.iter().zip(&fields))
            .map(|(i, field)| (*i, field.type_oid, types[*i]))
            .filter(|(_, from, to)| from != to)
            .map(|(i, from, to)| format!("({i}, true, {from}::pg_catalog.oid), ({i}, false, {to}::pg_catalog.oid)"))
            .collect();
        if pairs.is_empty() {
            return Ok(());
        }
        let unfit = self.work().ask_home(&UNFIT.replace("{}", &pairs.join(", "))).await?;
        let Some([Some(n), Some(from), Some(to)]) = unfit.first().map(Vec::as_slice) else { return Ok(()) };
        let number = n.parse::<usize>().map_or(0, |n| n + 1);
        let message = format!("parameter ${number} of type {from} cannot be coerced to the expected type {to}");
        Err(ExecError::sql(sqlstate::DATATYPE_MISMATCH, message)
            .hint("You will need to rewrite or cast the expression."))
    }

    /// Arguments that are not plain constants become such: they have one value each, wherever their parameters stand.
    /// `known`: the types by their own names; `unused`: those whose parameters stand nowhere, which PostgreSQL reads all the same.
    pub(crate) async fn evaluate(
        &mut self,
        arguments: &[Node],
        types: &[&str],
        known: &[&str],
        (values, unused): (&mut [String], &HashSet<usize>),
    ) -> Result<()> {
        let open: Vec<usize> =
            (0..arguments.len()).filter(|i| unused.contains(i) || !is_constant(&arguments[*i])).collect();
        if open.is_empty() {
            return Ok(());
        }
        self.work().travel_made_of(open.iter().map(|i| known[*i]).collect()).await?;
        let asked: Vec<String> = open.iter().map(|i| format!("({})::pg_catalog.text", values[*i])).collect();
        let text = format!("SELECT {}", asked.join(", "));
        let tree = sql::parse(&text, true)?.pop().ok_or_else(|| ExecError::internal("no arguments"))?;
        let special = plan::special::special(&tree, &self.names());
        if special.pins || special.watched || special.leaves.anything(true) {
            let message =
                "EXECUTE with arguments that may leave something in the session, or use any table, is not supported";
            return Err(ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, message)
                .hint("SELECT the values first, and give them as constants."));
        }
        let seen = self.with_values_seen(&tree)?;
        let (tree, text) = seen.as_ref().map_or((&tree, &*text), |(tree, text)| (&**tree, &**text));
        let compiled = self.compile(tree, text).await?;
        let mut work = self.work();
        work.uses = compiled.plan.whole().sequences.clone();
        let row =
            work.ask_home(text).await.map_err(|e| if special.reads_sequences { Session::no_value(e) } else { e })?;
        for (i, value) in open.into_iter().zip(row.into_iter().flatten()) {
            let value = value.map_or("NULL".into(), |v| catalog::quote_literal(&v));
            values[i] = format!("CAST({value} AS {})", types[i]);
        }
        Ok(())
    }
}

/// A constant that its parameter takes, whatever home says of its type.
fn is_taken(argument: &Node, ty: u32) -> bool {
    use type_oid::{BPCHAR, FLOAT4, FLOAT8, INT2, INT4, INT8, NUMERIC, TEXT, VARCHAR};
    let Some(NodeEnum::AConst(c)) = &argument.node else { return false };
    match &c.val {
        // Of no type yet.
        None | Some(Val::Sval(_)) => true,
        Some(Val::Ival(_) | Val::Fval(_)) => {
            [INT2, INT4, INT8, FLOAT4, FLOAT8, NUMERIC, TEXT, VARCHAR, BPCHAR].contains(&ty)
        }
        Some(_) => false,
    }
}

/// It has the same value wherever, and how often, it is read. Of strings the words that moments may be told by have not.
fn is_constant(n: &Node) -> bool {
    let clock = |s: &str| ["now", "today", "tomorrow", "yesterday"].iter().any(|w| s.to_ascii_lowercase().contains(w));
    match n.node.as_ref() {
        Some(NodeEnum::AConst(c)) => !matches!(&c.val, Some(Val::Sval(s)) if clock(&s.sval)),
        Some(NodeEnum::TypeCast(t)) => t.arg.as_deref().is_some_and(is_constant),
        _ => false,
    }
}

//! MERGE over several nodes that inserts rows: by which keys the source's rows go to the nodes of their shards.
//!
//! A row of the source that finds none of the target must be inserted once, by the node of its shard; one that finds a row must be there
//! as well. Both hold where ON says that the key equals an expression over the source, and INSERT gives the key that very expression:
//! then each node merges its own rows of the source. How these come to their nodes is not known here.

use sql::ast::{self, Node};
use sql::walk::{self, Visit, VisitMut};
use sql::{NodeEnum, build, names, relations, search};

use catalog::{Column, Relation};
use wire::type_oid;

use crate::classes::Var;
use crate::levels::{Analysis, From};
use crate::modify;
use crate::move_rows;
use crate::refuse::Refusal;
use crate::scope::{Item, Scope};
use crate::types::KeyExpr;
use crate::{Result, keys, reads};

/// What each key column is, of a row of the source.
pub struct SourceKeys {
    /// They name columns by the source's alias.
    pub expressions: Vec<Node>,
    /// The columns they are, where they are just that.
    columns: Vec<Option<Var>>,
    /// The target.
    pub used: usize,
}

impl SourceKeys {
    /// The source's rows are where rows of the target with these keys are.
    pub fn is_at_home(&self, a: &Analysis, level: usize) -> bool {
        let columns: Option<Vec<Var>> = self.columns.iter().copied().collect();
        let group = a.uses[self.used].relation.distribution().map(|d| d.group.id);
        let source = a.levels[level].from.get(1);
        source
            .zip(group)
            .zip(columns)
            .is_some_and(|((source, group), columns)| a.is_item_at(level, source, group, &columns))
    }

    /// The values the target's key can have: those of all the source's rows, not only of those that ON finds something for.
    /// Nothing is known where rows that the source does not find are changed as well, and of what is cut or rounded as it is stored.
    pub fn values(&self, a: &Analysis, statement: &NodeEnum, level: usize) -> Vec<Vec<KeyExpr>> {
        let relation = &a.uses[self.used].relation;
        let mut key = relation.distribution().into_iter().flat_map(|d| &d.key);
        if takes_unfound(statement) || key.any(|k| relation.columns[*k].typmod != -1) {
            return vec![];
        }
        let of = |(e, column): (&Node, &Option<Var>)| match column {
            Some(v) => a.classes.values(a.levels[level].classes, *v).map(|v| v.to_vec()).unwrap_or_default(),
            None => keys::constant(e).map(|e| vec![e]).or_else(|| listed(statement, e)).unwrap_or_default(),
        };
        self.expressions.iter().zip(&self.columns).map(of).collect()
    }
}

/// The constants of a column of VALUES.
fn listed(statement: &NodeEnum, e: &Node) -> Option<Vec<KeyExpr>> {
    let NodeEnum::MergeStmt(m) = statement else { return None };
    let Some(NodeEnum::RangeSubselect(source)) = m.source_relation.as_deref()?.node.as_ref() else { return None };
    let Some(NodeEnum::SelectStmt(list)) = source.subquery.as_deref()?.node.as_ref() else { return None };
    let [_, column] = names::column(e)?[..] else { return None };
    let given = names::strings(&source.alias.as_ref()?.colnames);
    let at = given.iter().position(|name| *name == column).or_else(|| {
        let at = column.strip_prefix("column")?.parse::<usize>().ok()?.checked_sub(1)?;
        (at >= given.len()).then_some(at)
    })?;
    let value = |row: &Node| match &row.node {
        Some(NodeEnum::List(row)) => keys::constant(row.items.get(at)?),
        _ => None,
    };
    (!list.values_lists.is_empty()).then(|| list.values_lists.iter().map(value).collect())?
}

/// It adds a row.
pub fn is_insert(arm: &&ast::MergeWhenClause) -> bool {
    arm.command_type == ast::CmdType::CmdInsert as i32
}

/// The arms of MERGE.
pub fn arms(m: &ast::MergeStmt) -> impl Iterator<Item = &ast::MergeWhenClause> {
    m.merge_when_clauses.iter().filter_map(|w| match &w.node {
        Some(NodeEnum::MergeWhenClause(w)) => Some(w.as_ref()),
        _ => None,
    })
}

/// Rows of the target that the source does not find are changed, too.
pub fn takes_unfound(statement: &NodeEnum) -> bool {
    let kind = ast::MergeMatchKind::MergeWhenNotMatchedBySource as i32;
    matches!(statement, NodeEnum::MergeStmt(m) if arms(m).any(|w| w.match_kind == kind))
}

/// By what the source's rows go; `None`: nothing is inserted, and each node may do to its rows what it finds.
pub fn of(a: &Analysis, statement: &NodeEnum, level: usize) -> Result<Option<SourceKeys>> {
    let NodeEnum::MergeStmt(m) = statement else { return Ok(None) };
    let Some(From::Use(used)) = a.levels[level].from.first() else { return Ok(None) };
    let relation = &a.uses[*used].relation;
    let Some(d) = relation.distribution() else { return Ok(None) };
    if changes_key(m, relation, (a, level)) {
        return Err(Refusal::new(
            "changing the distribution key of rows by MERGE over several nodes is not supported",
            "Use UPDATE … FROM.",
        ));
    }
    if !arms(m).any(|w| is_insert(&w)) {
        return Ok(None);
    }
    let named = d.key.iter().map(|k| relation.columns[*k].name.as_str()).collect::<Vec<_>>();
    let scope = a.scopes.get(&level).ok_or_else(|| unknown(&named))?;
    let [target, source] = &scope.items[..] else {
        return Err(refuse(
            "from a join",
            "Write the join as a subquery with a name: USING (SELECT … FROM … JOIN …) AS s.",
        ));
    };
    let is_function =
        matches!(m.source_relation.as_deref().and_then(|s| s.node.as_ref()), Some(NodeEnum::RangeFunction(_)));
    let names = Names { target, source, is_function };
    let mut found = SourceKeys { expressions: vec![], columns: vec![], used: *used };
    for (at, k) in d.key.iter().enumerate() {
        let column = &relation.columns[*k];
        let equal = conjuncts(m.join_condition.as_deref())
            .into_iter()
            .filter_map(|c| key_equals(a, c, a.uses[*used].key[at], scope))
            .filter_map(|e| Some((e, names.qualified(e)?)))
            .filter(|(_, e)| is_steady(a, e) && compares_bytes(a, column, e, scope, statement));
        let given = |(e, expression): (&Node, Node)| {
            let same = |value: &Node| {
                let both = a.var(e, scope).zip(a.var(value, scope));
                both.is_some_and(|(x, y)| a.classes.same(a.levels[level].classes, x, y))
                    || names.qualified(value).is_some_and(|value| text(&value) == text(&expression))
            };
            let all = arms(m).filter(is_insert).all(|w| value_of(w, *k, &column.name).is_some_and(same));
            all.then(|| (a.var(e, scope), expression))
        };
        let (var, expression) = equal.filter_map(given).next().ok_or_else(|| unknown(&named))?;
        found.expressions.push(expression);
        found.columns.push(var);
    }
    refuse_sequences(statement, relation)?;
    Ok(Some(found))
}

/// ON equates the `at`th key column with the very column that the arm sets it to, of the same type or one that is not known. Where what is equal by that
/// is another key after all (floats), the row's node moves it among its shards, which only triggers would see, or has no place for it.
fn is_told(
    m: &ast::MergeStmt,
    arm: &ast::MergeWhenClause,
    t: &ast::ResTarget,
    at: usize,
    (a, level): (&Analysis, usize),
) -> bool {
    let (Some(From::Use(used)), Some(scope)) = (a.levels[level].from.first(), a.scopes.get(&level)) else {
        return false;
    };
    let relation = &a.uses[*used].relation;
    if relation.triggers || relation.statement_triggers {
        return false;
    }
    let Some(given) = move_rows::alone(t) else { return false };
    let Some(value) = names::column(given).filter(|parts| parts.len() > 1) else { return false };
    // Of values of other types several may be equal to one.
    let key = a.uses[*used].key[at];
    let types = a.var(given, scope).and_then(|var| a.types[var].zip(a.types[key]));
    if types.is_some_and(|((one, _), (other, _))| !keys::is_kept(one, other)) {
        return false;
    }
    let is_it = |c| key_equals(a, c, a.uses[*used].key[at], scope).and_then(names::column).is_some_and(|e| e == value);
    arm.match_kind == ast::MergeMatchKind::MergeWhenMatched as i32
        && conjuncts(m.join_condition.as_deref()).into_iter().any(is_it)
}

/// An arm sets a column of the key, and not to what ON says that it is.
pub fn changes_key(m: &ast::MergeStmt, relation: &Relation, (a, level): (&Analysis, usize)) -> bool {
    let key = relation.distribution().map_or(&[][..], |d| &d.key);
    let changes = |w: &ast::MergeWhenClause, n: &Node| match &n.node {
        Some(NodeEnum::ResTarget(t)) => {
            let at = key.iter().position(|k| relation.columns[*k].name == t.name);
            at.is_some_and(|at| !move_rows::stays_in_arm(w, t, at, a, level) && !is_told(m, w, t, at, (a, level)))
        }
        _ => false,
    };
    arms(m).any(|w| !is_insert(&w) && w.target_list.iter().any(|n| changes(w, n)))
}

fn refuse(what: &str, hint: &str) -> Refusal {
    Refusal::new(format!("MERGE over several nodes that inserts rows {what} is not supported"), hint)
}

/// The source's rows are not where they are inserted.
pub fn elsewhere() -> Refusal {
    refuse("of other nodes", "Select the rows first and pass them as parameters; or use INSERT … ON CONFLICT.")
}

fn unknown(key: &[&str]) -> Refusal {
    let key = key.join("\", \"");
    refuse(
        &format!(
            "where ON does not say that the key (\"{key}\") equals columns of the source, or INSERT gives it something else,"
        ),
        &format!(
            "Write ON t.\"{key}\" = s.c … WHEN NOT MATCHED THEN INSERT (\"{key}\", …) VALUES (s.c, …); or use INSERT … ON CONFLICT."
        ),
    )
}

/// What is left out of INSERT would be taken from a sequence of each node's own.
pub fn refuse_sequences(statement: &NodeEnum, relation: &Relation) -> Result<()> {
    let default = |c: &Column| c.default.as_deref().and_then(reads::parse_expression);
    let calls = |c: &Column| c.sequence.is_some() || default(c).is_some_and(|d| reads::calls_sequence(&d));
    let mut columns = relation.columns.iter().enumerate();
    match columns.find(|(i, c)| calls(c) && modify::is_left_out(statement, *i, c)) {
        None => Ok(()),
        Some((_, c)) => Err(refuse(
            &format!("with the default of \"{}\", which comes from a sequence,", c.name),
            "Have the source give the value, or use INSERT … SELECT for the rows that are new.",
        )),
    }
}

/// What an arm that inserts gives a column.
pub fn value_of<'w>(arm: &'w ast::MergeWhenClause, at: usize, column: &str) -> Option<&'w Node> {
    let is = |n: &Node| matches!(&n.node, Some(NodeEnum::ResTarget(t)) if t.name == column && t.indirection.is_empty());
    let place = match arm.target_list.is_empty() {
        true => at,
        false => arm.target_list.iter().position(is)?,
    };
    arm.values.get(place)
}

/// What must all be true.
fn conjuncts(condition: Option<&Node>) -> Vec<&Node> {
    match condition.and_then(|c| Some((c, c.node.as_ref()?))) {
        Some((_, NodeEnum::BoolExpr(b))) if b.boolop == ast::BoolExprType::AndExpr as i32 => {
            b.args.iter().flat_map(|arg| conjuncts(Some(arg))).collect()
        }
        Some((c, _)) => vec![c],
        None => vec![],
    }
}

/// The other side of PostgreSQL's own `key = …`.
fn key_equals<'n>(a: &Analysis<'_>, condition: &'n Node, key: Var, scope: &Scope<'_>) -> Option<&'n Node> {
    let Some(NodeEnum::AExpr(e)) = &condition.node else { return None };
    if e.kind != ast::AExprKind::AexprOp as i32 || !a.is_equality(&e.name) {
        return None;
    }
    let (l, r) = (e.lexpr.as_deref()?, e.rexpr.as_deref()?);
    let is_key = |side: &Node| names::column(side).and_then(|parts| scope.resolve(&parts)) == Some(key);
    match (is_key(l), is_key(r)) {
        (true, false) => Some(r),
        (false, true) => Some(l),
        _ => None,
    }
}

/// It is the same wherever it is computed for the same row.
fn is_steady(a: &Analysis, e: &Node) -> bool {
    !is_volatile(a, e)
        && !search::any(e, |n| {
            matches!(n, NodeEnum::SubLink(_) | NodeEnum::SetToDefault(_) | NodeEnum::CurrentOfExpr(_))
        })
}

/// It may be another value each time.
pub fn is_volatile(a: &Analysis, e: &Node) -> bool {
    search::any(e, |n| a.cx.calls_volatile(n))
}

/// Equal keys are of one shard: strings that are equal are the same bytes.
fn compares_bytes(a: &Analysis, key: &Column, e: &Node, scope: &Scope<'_>, statement: &NodeEnum) -> bool {
    if !key.collation_deterministic {
        return false;
    }
    if !(type_oid::is_text(key.type_oid) || key.type_oid == type_oid::BPCHAR) {
        return true;
    }
    if names::column(e).and_then(|parts| scope.resolve(&parts)).is_some_and(|v| a.types[v].is_some()) {
        return true;
    }
    let odd =
        |rv: &ast::RangeVar| a.cx.relation(rv).is_some_and(|r| r.columns.iter().any(|c| !c.collation_deterministic));
    !relations::of(statement).iter().any(|rv| odd(rv))
        && !search::any(statement, |n| matches!(n, NodeEnum::CollateClause(_)))
}

/// As it would be written in a query.
fn text(e: &Node) -> Option<String> {
    let mut query = build::select();
    query.target_list = vec![build::target(e.clone(), None)];
    sql::deparse(&NodeEnum::SelectStmt(Box::new(query))).ok()
}

/// What names mean in ON.
struct Names<'s> {
    target: &'s Item,
    source: &'s Item,
    is_function: bool,
}

impl Names<'_> {
    /// The expression with the source's alias before each column; `None`: it is not of the source's columns alone.
    fn qualified(&self, e: &Node) -> Option<Node> {
        struct Check<'n>(&'n Names<'n>, bool);
        impl<'a> Visit<'a> for Check<'_> {
            fn node(&mut self, n: &'a NodeEnum) -> bool {
                if let NodeEnum::ColumnRef(c) = n {
                    self.1 &= self.0.of_source(c);
                }
                true
            }
        }
        struct Qualify<'n>(&'n str);
        impl VisitMut for Qualify<'_> {
            fn node(&mut self, n: &mut NodeEnum) -> bool {
                if let NodeEnum::ColumnRef(c) = n
                    && c.fields.len() == 1
                {
                    c.fields.insert(0, build::string(self.0));
                }
                true
            }
        }
        let mut check = Check(self, !self.source.alias.is_empty());
        walk::walk(e, &mut check);
        let mut e = e.clone();
        walk::walk_mut(&mut e, &mut Qualify(&self.source.alias));
        check.1.then_some(e)
    }

    fn of_source(&self, c: &ast::ColumnRef) -> bool {
        let has = |item: &Item, column: &str| item.columns.iter().any(|(name, _)| name == column);
        match names::strings(&c.fields)[..] {
            [table, _] => c.fields.len() == 2 && table == self.source.alias && table != self.target.alias,
            [column] if c.fields.len() == 1 => {
                let row = column == self.source.alias && !self.is_function;
                has(self.source, column) || self.source.opaque && !row && !has(self.target, column)
            }
            _ => false,
        }
    }
}

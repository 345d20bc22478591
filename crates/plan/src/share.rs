//! Which statements may travel with those of other clients in one transaction on one connection.
//!
//! Such a statement must be short and mean the same in somebody else's transaction: it touches at most one row, which a
//! unique index finds, reads the few that one finds between two integers, or inserts one; it takes no locks but its row's; nothing in it is volatile or a user's own
//! code; no rule or policy hangs on its table, and no trigger if it writes. Judged by the tree alone, and only what is known to be
//! harmless passes. That it is autocommit and on one shard, and few how few, is seen when it is executed.

use std::sync::Arc;

use catalog::{Placement, Relation, RelationKind, Volatility};
use sql::ast::{self, Node};
use sql::walk::{self, Visit};
use sql::{NodeEnum, names, search};

use crate::Context;
use crate::keys;
use crate::narrow;
use crate::needs;
use crate::standby;
use crate::table_keys::ParameterRange;
use crate::types::{Change, Insert, KeyExpr, LiteralKind, Planned};
use wire::type_oid;

/// How a statement travels with others: prepared, with these literals as parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    pub writes: bool,
    /// Of an INSERT of one row and nothing else, of which many may be one statement: the table's name as it is written.
    pub one_row: Option<String>,
    /// In the order of the text. Other literals stay where they are.
    pub literals: Vec<ShareLiteral>,
    /// It reads several rows, found by a unique index between these parameters: few where those are near each other.
    pub between: Option<ParameterRange>,
    /// It takes values of sequences, which its session is asked for later.
    pub takes: bool,
}

/// A constant that becomes a parameter where statements share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareLiteral {
    /// Byte offset of the constant.
    pub location: usize,
    /// The type of the column it is assigned to or compared with.
    pub type_oid: u32,
    pub kind: LiteralKind,
}

/// `None`: it has to travel alone.
pub fn of(statement: &NodeEnum, plan: &Planned, cx: &Context) -> Option<Share> {
    let whole = plan.whole();
    let alone = matches!(
        plan,
        Planned::Modify { change: Change::Move(_) | Change::Stay(_), .. } | Planned::InTurn { split: true, .. }
    ) || matches!(plan, Planned::Insert { rows, .. } if !matches!(rows, Insert::Row))
        || whole.rewritten.is_some()
        || (whole.needs_home && !whole.tables.is_empty());
    if alone || whole.tables.len() > 1 || !is_harmless(statement, cx) {
        return None;
    }
    let (mut literals, mut one_row, mut between, mut takes) = (Vec::new(), None, None, false);
    match statement {
        NodeEnum::SelectStmt(s) => {
            let plain = s.with_clause.is_none()
                && s.locking_clause.is_empty()
                && s.op == ast::SetOperation::SetopNone as i32
                && s.into_clause.is_none();
            let [from] = &s.from_clause[..] else { return None };
            let Some(NodeEnum::RangeVar(rv)) = &from.node else { return None };
            let relation = table(rv, false, cx)?;
            plain.then_some(())?;
            if !finds_one(s.where_clause.as_deref(), &relation, &mut literals) {
                between = Some(finds_few(s.where_clause.as_deref()?, &relation, cx)?);
            }
        }
        NodeEnum::InsertStmt(i) => {
            let relation = written(i.relation.as_ref()?, cx)?;
            let values = match i.select_stmt.as_deref()?.node.as_ref()? {
                NodeEnum::SelectStmt(s) if s.values_lists.len() == 1 => s.values_lists.first()?,
                _ => return None,
            };
            if i.with_clause.is_some() {
                return None;
            }
            let Some(NodeEnum::List(values)) = &values.node else { return None };
            let columns: Vec<usize> = match i.cols.is_empty() {
                true => (0..relation.columns.len()).collect(),
                false => i.cols.iter().map(|c| target(c, &relation)).collect::<Option<_>>()?,
            };
            // Foreign keys are looked at when a statement ends: two rows that need each other would both pass.
            let nothing_else = i.on_conflict_clause.is_none()
                && i.returning_clause.is_none()
                && i.r#override == ast::OverridingKind::OverridingNotSet as i32
                && !relation.refers_to_itself;
            one_row = nothing_else.then(|| written_name(i.relation.as_ref())).flatten();
            let mut given = vec![false; relation.columns.len()];
            for (value, column) in values.items.iter().zip(columns) {
                given[column] = !is_default(value);
                assigned(value, column, &relation, &mut literals);
            }
            let directly = values.items.iter().filter(|value| is_default(value)).count();
            let all = defaults(statement) > directly;
            takes = filled(&relation, |column| all || !given[column], cx)?;
        }
        NodeEnum::UpdateStmt(u) => {
            let relation = written(u.relation.as_ref()?, cx)?;
            if u.with_clause.is_some() || !u.from_clause.is_empty() {
                return None;
            }
            let mut to_default = vec![];
            for t in &u.target_list {
                let column = target(t, &relation)?;
                let Some(NodeEnum::ResTarget(t)) = &t.node else { return None };
                let value = t.val.as_deref()?;
                to_default.extend(is_default(value).then_some(column));
                assigned(value, column, &relation, &mut literals);
            }
            let all = defaults(statement) > to_default.len();
            takes = filled(&relation, |column| all || to_default.contains(&column), cx)?;
            finds_one(u.where_clause.as_deref(), &relation, &mut literals).then_some(())?;
        }
        NodeEnum::DeleteStmt(d) => {
            let relation = written(d.relation.as_ref()?, cx)?;
            if d.with_clause.is_some() || !d.using_clause.is_empty() {
                return None;
            }
            finds_one(d.where_clause.as_deref(), &relation, &mut literals).then_some(())?;
        }
        _ => return None,
    }
    literals.sort_by_key(|l| l.location);
    Some(Share { writes: whole.writes, one_row, literals, between, takes })
}

/// A table whose rows are all there is to it.
pub(crate) fn table(rv: &ast::RangeVar, writes: bool, cx: &Context) -> Option<Arc<Relation>> {
    let relation = cx.relation(rv).filter(|_| rv.inh)?;
    // What is looked at when a transaction ends, writes of several clients might pass together, of which none would alone.
    let plain = relation.kind == RelationKind::Table
        && !relation.row_security
        && !(writes && (relation.triggers || relation.statement_triggers || relation.checked_at_commit));
    plain.then(|| relation.clone())
}

/// A table one node has to write to.
fn written(rv: &ast::RangeVar, cx: &Context) -> Option<Arc<Relation>> {
    table(rv, true, cx).filter(|r| !matches!(r.placement, Placement::Reference))
}

fn is_default(value: &Node) -> bool {
    matches!(value.node, Some(NodeEnum::SetToDefault(_)))
}

/// How often DEFAULT stands in a statement.
fn defaults(statement: &NodeEnum) -> usize {
    let mut found = 0;
    search::each(statement, |n| found += usize::from(matches!(n, NodeEnum::SetToDefault(_))));
    found
}

/// Whether columns that are filled by their defaults take values of sequences, or tell of them. `None`: one of them has to travel alone.
fn filled(relation: &Relation, is_filled: impl Fn(usize) -> bool, cx: &Context) -> Option<bool> {
    let mut takes = false;
    for (_, column) in relation.columns.iter().enumerate().filter(|(at, _)| is_filled(*at)) {
        takes |= column.sequence.is_some();
        if let Some(default) = column.default.as_deref() {
            if speaks_of_session(default, cx) {
                return None;
            }
            takes |= called(default).any(|(_, name)| matches!(name, "nextval" | "setval" | "currval" | "lastval"));
        }
    }
    Some(takes)
}

/// A default that says what only the client's own transaction can say, or may: what a user's code does is not known.
pub(crate) fn speaks_of_session(default: &str, cx: &Context) -> bool {
    called(default).any(|(schema, name)| {
        let own = schema.is_some_and(|schema| is_users_own(schema, name, cx));
        own || name == "OPERATOR" || standby::speaks_of_server(name)
    })
}

/// In a default only PostgreSQL's own functions are named without a schema.
fn is_users_own(schema: &str, name: &str, cx: &Context) -> bool {
    let mut meant = cx.snapshot.functions_meant((Some(schema), name), &[]).peekable();
    meant.peek().is_none() || meant.any(|f| f.user_defined)
}

/// Names before a parenthesis in an expression's text, those of all functions in it and maybe more, with what stands before their point.
fn called(expression: &str) -> impl Iterator<Item = (Option<&str>, &str)> {
    let mut pieces: Vec<&str> = expression.split('(').collect();
    pieces.pop();
    pieces.into_iter().map(|before| {
        let (rest, name) = last_name(before);
        (rest.strip_suffix('.').map(|rest| last_name(rest).1), name)
    })
}

/// The name at the end, and what is before. A quoted one is without its quotes.
fn last_name(text: &str) -> (&str, &str) {
    if let Some(text) = text.strip_suffix('"') {
        let start = text.rfind('"').unwrap_or_default();
        // A quote within: it is some schema's.
        return match text[..start].ends_with('"') {
            true => (".", ""),
            false => (&text[..start], text[start..].trim_start_matches('"')),
        };
    }
    let name = |c: char| c.is_alphanumeric() || c == '_';
    text.split_at(text.rfind(|c| !name(c)).map_or(0, |at| at + text[at..].chars().next().map_or(1, char::len_utf8)))
}

fn written_name(rv: Option<&ast::RangeVar>) -> Option<String> {
    let (schema, name) = names::table(rv?);
    let quoted = catalog::quote_ident(name);
    Some(schema.map_or(quoted.clone(), |schema| format!("{}.{quoted}", catalog::quote_ident(schema))))
}

pub(crate) fn target(node: &Node, relation: &Relation) -> Option<usize> {
    match &node.node {
        Some(NodeEnum::ResTarget(t)) if t.indirection.is_empty() => relation.column(&t.name),
        _ => None,
    }
}

/// A literal assigned to a column can be a parameter of the column's type: both are read by the same function.
fn assigned(value: &Node, column: usize, relation: &Relation, literals: &mut Vec<ShareLiteral>) {
    let ty = relation.columns[column].type_oid;
    if let Some((location, kind)) = literal(value)
        && reads(ty, kind)
    {
        literals.push(ShareLiteral { location, type_oid: ty, kind });
    }
}

/// The type's input function reads such a literal.
pub(crate) fn reads(ty: u32, kind: LiteralKind) -> bool {
    match kind {
        LiteralKind::Number => type_oid::is_number(ty),
        LiteralKind::String => is_read_from_text(ty),
    }
}

/// The type's input function means what an assigned string literal means.
pub(crate) fn is_read_from_text(ty: u32) -> bool {
    READ_FROM_TEXT.contains(&ty) || type_oid::is_number(ty)
}

/// `condition` holds for one row at most. Its literals that are compared by `=` are noted.
fn finds_one(condition: Option<&Node>, relation: &Relation, literals: &mut Vec<ShareLiteral>) -> bool {
    let mut equal = Vec::new();
    if let Some(condition) = condition {
        conjuncts(condition, relation, &mut equal, literals);
    }
    relation.unique.iter().any(|index| index.columns.iter().all(|c| equal.contains(c)))
}

/// `condition` holds for as many rows at most as there are integers between two parameters.
fn finds_few(condition: &Node, relation: &Relation, cx: &Context) -> Option<ParameterRange> {
    let own = [">=", ">", "<=", "<"].into_iter().all(|name| cx.is_own_operator(name));
    let mut equal = Vec::new();
    conjuncts(condition, relation, &mut equal, &mut Vec::new());
    relation.unique.iter().filter(|_| own).find_map(|index| {
        let mut others = index.columns.iter().filter(|c| !equal.contains(c));
        let (&column, None) = (others.next()?, others.next()) else { return None };
        narrow::between(condition, relation, column, cx)
    })
}

fn conjuncts(node: &Node, relation: &Relation, equal: &mut Vec<usize>, literals: &mut Vec<ShareLiteral>) {
    match &node.node {
        Some(NodeEnum::BoolExpr(b)) if b.boolop == ast::BoolExprType::AndExpr as i32 => {
            b.args.iter().for_each(|a| conjuncts(a, relation, equal, literals));
        }
        Some(NodeEnum::AExpr(e)) if e.kind == ast::AExprKind::AexprOp as i32 && names::strings(&e.name) == ["="] => {
            let (Some(left), Some(right)) = (e.lexpr.as_deref(), e.rexpr.as_deref()) else { return };
            let found = column(left, relation).map(|c| (c, right)).or(column(right, relation).map(|c| (c, left)));
            let Some((column, value)) = found else { return };
            if !matches!(
                keys::constant(value),
                Some(KeyExpr::Literal { .. } | KeyExpr::Param(_) | KeyExpr::CastParam(..))
            ) {
                return;
            }
            equal.push(column);
            let ty = relation.columns[column].type_oid;
            // A float4 is compared with a number as float8: there a parameter of the column's type differs.
            if let Some((location, kind)) = literal(value)
                && match kind {
                    LiteralKind::Number => type_oid::is_integer(ty) || ty == type_oid::NUMERIC,
                    LiteralKind::String => READ_FROM_TEXT.contains(&ty) || type_oid::is_integer(ty),
                }
            {
                literals.push(ShareLiteral { location, type_oid: ty, kind });
            }
        }
        _ => {}
    }
}

fn column(node: &Node, relation: &Relation) -> Option<usize> {
    relation.column(names::column(node)?.last()?)
}

/// A bare number or string, without a cast.
fn literal(node: &Node) -> Option<(usize, LiteralKind)> {
    let Some(NodeEnum::AConst(_)) = &node.node else { return None };
    match keys::constant(node)? {
        KeyExpr::Literal { location, kind, .. } => Some((location?, kind)),
        _ => None,
    }
}

/// bool, bytea, text, json, char(n), varchar, date, time, timestamp, timestamptz, uuid, jsonb (pg_type.dat)
const READ_FROM_TEXT: [u32; 12] = [
    type_oid::BOOL,
    type_oid::BYTEA,
    type_oid::TEXT,
    type_oid::JSON,
    type_oid::BPCHAR,
    type_oid::VARCHAR,
    type_oid::DATE,
    type_oid::TIME,
    type_oid::TIMESTAMP,
    type_oid::TIMESTAMPTZ,
    type_oid::UUID,
    type_oid::JSONB,
];

/// No subquery, no cursor, no code that uses tables, and only functions of PostgreSQL's own that are not volatile, give one value, and say nothing of the session or the
/// transaction they are called in, which are a batch's. The clock may be read: a batch begins after all in it have come.
fn is_harmless(statement: &NodeEnum, cx: &Context) -> bool {
    struct Look<'c, 'a> {
        cx: &'c Context<'a>,
        harmless: bool,
        selects: usize,
    }
    impl<'a> Visit<'a> for Look<'_, '_> {
        fn node(&mut self, n: &'a NodeEnum) -> bool {
            match n {
                NodeEnum::SubLink(_) | NodeEnum::CurrentOfExpr(_) => self.harmless = false,
                // What a read's code writes would be undone with another statement of its batch.
                n if needs::of(n, self.cx).is_some() || needs::runs_text(n, self.cx) => self.harmless = false,
                NodeEnum::FuncCall(f) => {
                    let mut overloads = self.cx.functions(&f.funcname).peekable();
                    self.harmless &= f.over.is_none()
                        && !standby::speaks_of_server(names::last(&f.funcname))
                        && overloads.peek().is_some()
                        && overloads.all(|o| {
                            o.volatility != Volatility::Volatile
                                && !o.user_defined
                                && !o.returns_set
                                && !o.reads_herd_tables
                        });
                }
                _ => {}
            }
            self.harmless
        }
        fn select(&mut self, _: &'a ast::SelectStmt) -> bool {
            self.selects += 1;
            self.harmless
        }
    }
    let mut look = Look { cx, harmless: true, selects: 0 };
    walk::below(statement, &mut look);
    // The statement itself is seen, too; and INSERT's VALUES is a SELECT to the grammar.
    let own = matches!(statement, NodeEnum::InsertStmt(_) | NodeEnum::SelectStmt(_));
    look.harmless && look.selects <= usize::from(own)
}

//! Writes to views over the herd's tables by rules: the statement becomes the rule's action, as PostgreSQL's rewriter has it
//! (`rewriteRuleAction` in rewriteHandler.c), and that is planned as if a client had sent it.
//!
//! What an UPDATE or DELETE finds in the view, and what it sets, stands as one subquery beside the action, so that no name of one means
//! something of the other; OLD and NEW are its columns. Values that an INSERT is given stand in the action itself. Which rules these are:
//! `rules/read.rs`; all others are refused, where they are made and where they are met. Only home has the rules: it is asked before
//! ([`Whole::by_rule`](crate::types::Whole::by_rule)) whether it understands the statement, and whether who asks may run it. How the action
//! is planned is not known here.

mod insert;
mod read;
mod returning;
mod rows;

pub use read::why_not;

use catalog::{Relation, RelationKind};
use sql::ast::{self, Node};
use sql::{NodeEnum, build, relations, search};

use crate::types::ByRule;
use crate::{Context, Refusal, Result, views};
use read::{Event, Rule};

/// The alias of what stands for OLD and NEW.
const ROW: &str = "herd: row";

/// What a statement that writes to a view with rules becomes.
pub enum Ruled {
    /// Home does it as it is: its rules leave nothing of it.
    Nothing,
    /// PostgreSQL's own error, which home is asked for.
    Wrong,
    Action(Box<NodeEnum>),
}

/// With the view's name; `None`: no rule has a say in it. `with`: the statement may have WITH queries, which may write.
pub fn of(statement: &NodeEnum, with: bool, cx: &Context) -> Result<Option<(Ruled, ByRule)>> {
    if with && let Some(view) = search::find(statement, |n| target(n).and_then(|(rv, event)| ruled(rv, event, cx))) {
        return Err(refusal(&view.relation.name, "in a WITH query"));
    }
    let Some((rv, event)) = target(statement) else { return Ok(None) };
    let Some(found) = ruled(rv, event, cx) else { return Ok(None) };
    let (view, oid) = (found.relation.name.clone(), found.relation.oid);
    let ruled = found.rewritten(statement, event, cx)?;
    let wrong = matches!(ruled, Ruled::Wrong);
    Ok(Some((ruled, ByRule { view, oid, wrong })))
}

/// The refusal of a write by rules.
fn refusal(view: &str, why: &str) -> Refusal {
    Refusal::new(
        format!("writing to view \"{view}\" by its rules {why} is not supported"),
        "Write to the tables themselves.",
    )
}

fn target(statement: &NodeEnum) -> Option<(&ast::RangeVar, Event)> {
    match statement {
        NodeEnum::InsertStmt(s) => s.relation.as_ref().map(|rv| (rv, Event::Insert)),
        NodeEnum::UpdateStmt(s) => s.relation.as_ref().map(|rv| (rv, Event::Update)),
        NodeEnum::DeleteStmt(s) => s.relation.as_ref().map(|rv| (rv, Event::Delete)),
        _ => None,
    }
}

/// A view over the herd's tables with rules for what is done to it.
struct View<'a> {
    relation: &'a Relation,
    /// `None`: its text can't be read.
    rules: Option<Vec<std::result::Result<Rule, &'static str>>>,
}

fn ruled<'a>(rv: &ast::RangeVar, event: Event, cx: &Context<'a>) -> Option<View<'a>> {
    let relation = cx.relation(rv).filter(|r| r.kind == RelationKind::View && r.statement_triggers)?;
    if !relation.view.as_ref().is_some_and(|v| views::reads_herd(&v.query, cx)) {
        return None;
    }
    let rules = read::of_view(relation.oid, event, cx);
    let any = rules.as_ref().is_none_or(|rules| !rules.is_empty());
    any.then_some(View { relation, rules })
}

impl View<'_> {
    fn rewritten(self, statement: &NodeEnum, event: Event, cx: &Context) -> Result<Ruled> {
        let refuse = |why: &str| refusal(&self.relation.name, why);
        let Some(rules) = self.rules.filter(|_| !cx.snapshot.locked.contains(&self.relation.oid)) else {
            return Err(Refusal::locked(&self.relation.name));
        };
        let rules: Vec<Rule> = rules.into_iter().collect::<std::result::Result<_, _>>().map_err(refuse)?;
        if self.relation.triggers {
            return Err(refuse("beside triggers"));
        }
        // Whatever of the statement they leave would be PostgreSQL's to do with the view, which it does not.
        if rules.iter().all(|r| r.condition.is_some()) {
            return Ok(Ruled::Wrong);
        }
        let mut acting = rules.into_iter().filter(|r| r.action.is_some());
        let (rule, action) = match (acting.next(), acting.next()) {
            (None, _) => return Ok(Ruled::Nothing),
            (Some(mut rule), None) => match rule.action.take() {
                Some(action) => (rule, action),
                None => return Ok(Ruled::Nothing),
            },
            (Some(_), Some(_)) => return Err(refuse("of which several do something")),
        };
        self::may_act(&action, cx).map_err(refuse)?;
        let view = self.relation;
        match (statement, action) {
            (NodeEnum::InsertStmt(s), NodeEnum::InsertStmt(action)) => insert::by(s, *action, view, cx),
            (NodeEnum::UpdateStmt(s), NodeEnum::UpdateStmt(action)) => rows::update(s, rule, *action, view, cx),
            (NodeEnum::DeleteStmt(s), NodeEnum::DeleteStmt(action)) => rows::delete(s, rule, *action, view),
            _ => Err(refuse(event.otherwise())),
        }
    }
}

/// In PostgreSQL the action reads and writes with the rights of the view's owner; here with those of who asks, which home's word has been
/// had for. Policies of row-level security would be others', then.
fn may_act(action: &NodeEnum, cx: &Context) -> std::result::Result<(), &'static str> {
    if views::another_equality(std::slice::from_ref(action), cx).is_some() {
        return Err("while the search path has an operator = of its own");
    }
    for rv in relations::of(action) {
        let Some(relation) = cx.relation(rv) else { continue };
        if relation.row_security {
            return Err("that use tables with row-level security");
        }
        if relation.kind == RelationKind::View && relation.statement_triggers {
            return Err("that use views with rules");
        }
        if relation.view.as_ref().is_some_and(|v| v.security_invoker) {
            return Err("that use views with security_invoker");
        }
    }
    Ok(())
}

/// It may be another value each time: PostgreSQL evaluates it as often as the rule names it.
fn is_volatile(value: &NodeEnum, cx: &Context) -> bool {
    cx.calls_volatile(value) || search::any(value, |n| cx.calls_volatile(n))
}

/// The position of a view's column.
fn position(view: &Relation, name: &str) -> Option<usize> {
    view.columns.iter().position(|c| c.name == name)
}

/// A value as one of the view's column's type, which home has said it may be given.
fn of_column(value: Node, view: &Relation, at: usize, cx: &Context) -> Result<Node> {
    use wire::type_oid::FIRST_NORMAL_OBJECT_ID;
    let column = &view.columns[at];
    let is_domain = cx.snapshot.types.get(&column.type_oid).is_none_or(|t| matches!(t.kind, b'd' | b'a'));
    let length = (column.typmod >= 0).then(|| LENGTHS.iter().find(|(oid, _)| *oid == column.type_oid)).flatten();
    let unknown = column.typmod >= 0 && ARRAYS.contains(&column.type_oid);
    if unknown || column.type_oid >= FIRST_NORMAL_OBJECT_ID && is_domain {
        return Err(refusal(
            &view.name,
            &format!("that give column \"{}\", of type {},", column.name, column.type_name),
        ));
    }
    // A cast makes shorter what an assignment refuses.
    let text = match length {
        Some((_, name)) => format!("SELECT pg_catalog.{name}(NULL::pg_catalog.{name}, {}, false)", column.typmod),
        None => format!("SELECT NULL::{}", column.type_name),
    };
    let unreadable = || refusal(&view.name, &format!("that give column \"{}\"", column.name));
    let Some(NodeEnum::SelectStmt(mut select)) = sql::parse(&text, true)?.pop() else { return Err(unreadable()) };
    let Some(NodeEnum::ResTarget(mut target)) = select.target_list.pop().and_then(|n| n.node) else {
        return Err(unreadable());
    };
    let mut made = *target.val.take().ok_or_else(unreadable)?;
    let cast = match &mut made.node {
        Some(NodeEnum::FuncCall(f)) => f.args.first_mut().and_then(|a| a.node.as_mut()),
        other => other.as_mut(),
    };
    let Some(NodeEnum::TypeCast(cast)) = cast else { return Err(unreadable()) };
    cast.arg = Some(Box::new(value));
    let nowhere = |n: &mut NodeEnum| match n {
        NodeEnum::TypeCast(c) => c.location = -1,
        NodeEnum::FuncCall(f) => f.location = -1,
        _ => {}
    };
    made.node.iter_mut().for_each(nowhere);
    Ok(made)
}

/// Strings of characters and of bits that have lengths (pg_type.dat), and the functions that see to these (pg_proc.dat).
const LENGTHS: [(u32, &str); 4] = [(1042, "bpchar"), (1043, "varchar"), (1560, "bit"), (1562, "varbit")];
/// Arrays of them.
const ARRAYS: [u32; 4] = [1014, 1015, 1561, 1563];

/// What a column gets that is given nothing, or DEFAULT.
fn missing(view: &Relation, at: usize) -> Result<Node> {
    match view.columns[at].default {
        Some(_) => {
            Err(refusal(&view.name, &format!("with the view's own default of column \"{}\"", view.columns[at].name)))
        }
        None => Ok(build::node(NodeEnum::AConst(ast::AConst { isnull: true, location: -1, val: None }))),
    }
}

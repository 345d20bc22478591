//! Which rules a view has, and what of them can be a statement in the place of the client's: DO INSTEAD NOTHING, and one INSERT of a row, UPDATE
//! or DELETE for the same. It does not know statements that meet them.

use catalog::Oid;
use sql::ast::{self, CmdType, Node};
use sql::{NodeEnum, names, own, relations, search};

use crate::Context;

/// What is done to a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Insert,
    Update,
    Delete,
}

impl Event {
    fn of(s: &ast::RuleStmt) -> Option<Event> {
        match CmdType::try_from(s.event) {
            Ok(CmdType::CmdInsert) => Some(Event::Insert),
            Ok(CmdType::CmdUpdate) => Some(Event::Update),
            Ok(CmdType::CmdDelete) => Some(Event::Delete),
            _ => None,
        }
    }

    /// What rules for it do that can't be its statement.
    pub fn otherwise(self) -> &'static str {
        match self {
            Event::Insert => "that do something else than INSERT",
            Event::Update => "that do something else than UPDATE",
            Event::Delete => "that do something else than DELETE",
        }
    }
}

/// A rule that does its action INSTEAD.
pub struct Rule {
    pub condition: Option<Box<Node>>,
    /// `None`: NOTHING.
    pub action: Option<NodeEnum>,
}

impl Rule {
    fn of(s: ast::RuleStmt) -> Result<Rule, &'static str> {
        let event = Event::of(&s).ok_or("ON SELECT")?;
        if !s.instead {
            return Err("that do something ALSO");
        }
        let mut actions = s.actions.into_iter();
        let action = match (actions.next().and_then(|n| n.node), actions.next()) {
            (None, _) => return Ok(Rule { condition: s.where_clause, action: None }),
            (Some(action), None) => action,
            (Some(_), Some(_)) => return Err("that do several things"),
        };
        let plain = match (event, &action) {
            (Event::Insert, NodeEnum::InsertStmt(i)) => {
                if s.where_clause.is_some() {
                    return Err("ON INSERT with a condition");
                }
                if i.on_conflict_clause.is_some() || i.r#override > ast::OverridingKind::OverridingNotSet as i32 {
                    return Err("with ON CONFLICT or OVERRIDING");
                }
                if i.select_stmt.is_some() && row(i).is_none() {
                    return Err("that INSERT something else than one row");
                }
                i.with_clause.is_none()
            }
            (Event::Update, NodeEnum::UpdateStmt(u)) => u.with_clause.is_none(),
            (Event::Delete, NodeEnum::DeleteStmt(d)) => d.with_clause.is_none(),
            _ => return Err(event.otherwise()),
        };
        // Names in values that are put into it would mean its WITH queries.
        let named = |n: &NodeEnum| matches!(n, NodeEnum::CommonTableExpr(_));
        if event == Event::Insert && search::any(&action, named) {
            return Err("with WITH queries");
        }
        match plain && !search::any(&action, changes) {
            true => Ok(Rule { condition: s.where_clause, action: Some(action) }),
            false => Err("with WITH queries"),
        }
    }
}

/// It is a statement that writes.
pub fn changes(n: &NodeEnum) -> bool {
    matches!(n, NodeEnum::InsertStmt(_) | NodeEnum::UpdateStmt(_) | NodeEnum::DeleteStmt(_) | NodeEnum::MergeStmt(_))
}

/// The values of the one row that an action inserts: VALUES, or a SELECT of nothing but them.
pub fn row(insert: &ast::InsertStmt) -> Option<Vec<Node>> {
    let Some(NodeEnum::SelectStmt(s)) = insert.select_stmt.as_deref().and_then(|n| n.node.as_ref()) else {
        return None;
    };
    let mut bare = ast::SelectStmt { target_list: vec![], values_lists: vec![], ..(**s).clone() };
    bare.limit_option = sql::build::select().limit_option;
    if bare != sql::build::select() {
        return None;
    }
    let values = |row: &Node| match &row.node {
        Some(NodeEnum::List(row)) => Some(row.items.clone()),
        _ => None,
    };
    match (&s.values_lists[..], &s.target_list[..]) {
        ([only], []) => values(only),
        ([], targets) => targets
            .iter()
            .map(|t| match &t.node {
                Some(NodeEnum::ResTarget(t)) => t.val.as_deref().cloned(),
                _ => None,
            })
            .collect(),
        _ => None,
    }
}

/// Why a rule on a view over the herd's tables can't be made. `others`: of those that it has.
pub fn why_not(s: &ast::RuleStmt, view: Oid, snapshot: &catalog::Snapshot) -> Option<&'static str> {
    let event = Event::of(s);
    let acts = match Rule::of(s.clone()) {
        Ok(rule) => rule.action.is_some(),
        Err(why) => return Some(why),
    };
    let on = snapshot.code.attached.iter().filter(|a| a.what == "rule" && a.table == view && a.name != s.rulename);
    let also = on
        .filter_map(|a| statement(a.definition.as_deref()?))
        .any(|other| Event::of(&other) == event && !other.actions.is_empty());
    (acts && also).then_some("of which several do something")
}

fn statement(definition: &str) -> Option<ast::RuleStmt> {
    match sql::parse(definition, true).ok()?.pop()? {
        NodeEnum::RuleStmt(s) => Some(*s),
        _ => None,
    }
}

/// The rules that a view has for this; `None`: the text of one can't be had now.
pub fn of_view(view: Oid, event: Event, cx: &Context) -> Option<Vec<Result<Rule, &'static str>>> {
    let mut rules = vec![];
    for a in cx.snapshot.code.attached.iter().filter(|a| a.what == "rule" && a.table == view) {
        let s = statement(a.definition.as_deref()?)?;
        if Event::of(&s) == Some(event) {
            rules.push(Rule::of(own_names(s)));
        }
    }
    Some(rules)
}

/// What PostgreSQL's text leaves unqualified is its own.
fn own_names(mut s: ast::RuleStmt) -> ast::RuleStmt {
    for action in s.actions.iter_mut().filter_map(|n| n.node.as_mut()) {
        relations::replace(action, &mut |node| {
            if let Some(NodeEnum::RangeVar(rv)) = &mut node.node
                && rv.schemaname.is_empty()
            {
                rv.schemaname = "pg_catalog".into();
            }
        });
        own::qualify(action);
    }
    if let Some(condition) = s.where_clause.as_deref_mut() {
        own::qualify_expression(condition);
    }
    s
}

/// A reference to a column of OLD or NEW, as the catalog writes it: whether it is of NEW, and which.
pub fn of_row(n: &NodeEnum) -> Option<(bool, &str)> {
    let NodeEnum::ColumnRef(c) = n else { return None };
    match names::strings(&c.fields)[..] {
        ["new", column] if !names::has_star(c) => Some((true, column)),
        ["old", column] if !names::has_star(c) => Some((false, column)),
        _ => None,
    }
}

/// It names OLD or NEW in another way: as a whole row.
pub fn is_whole(n: &NodeEnum) -> bool {
    let NodeEnum::ColumnRef(c) = n else { return false };
    matches!(names::strings(&c.fields)[..], ["new" | "old"])
}

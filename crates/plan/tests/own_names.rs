//! No text of a plan looks anything up along a search path that the statement itself does not: what planning adds is PostgreSQL's own by
//! its name. Of every statement of the golden files, as it is and with all of its own names qualified.

#[path = "golden_herd/mod.rs"]
mod golden_herd;

use std::collections::BTreeSet;
use std::path::Path;

use plan::{
    Change, Context, Finish, InTurn, Insert, InsertRows, InsertSelect, Made, Piece, Planned, ReferenceWrite, Text,
};
use sql::ast::AExprKind::*;
use sql::{NodeEnum, ast, build, names, search};

#[test]
fn plans_look_up_nothing_that_statements_do_not() {
    let snapshot = golden_herd::snapshot();
    let search_path = ["pg_catalog".to_owned(), "public".to_owned()];
    let temporary = [catalog::TemporaryRelation::named("scratch")];
    let (mut seen, mut faults) = (0, vec![]);
    for statement in statements() {
        let Ok(mut trees) = sql::parse(&statement, true) else { continue };
        let written = trees.remove(0);
        let mut qualified = written.clone();
        qualify(&mut qualified, &snapshot);
        for tree in [written, qualified] {
            let sql = sql::deparse(&tree).unwrap();
            let tree = sql::parse(&sql, true).unwrap().remove(0);
            let Ok(plan) = plan::plan(&tree, &sql, &Context::new(&snapshot, &search_path, &temporary)) else {
                continue;
            };
            let mut asked = looked_up(&tree);
            asked.extend(of_bodies(&tree, &snapshot));
            let mut texts = vec![];
            of_plan(&plan, &mut texts);
            for text in texts {
                let parsed = sql::parse(&text, true).unwrap_or_else(|e| panic!("{e}: {text}\nof {sql}")).remove(0);
                seen += 1;
                let added: Vec<_> = looked_up(&parsed).difference(&asked).cloned().collect();
                if !added.is_empty() {
                    faults.push(format!("{sql}\n  {text}\n  {}", added.join(", ")));
                }
            }
        }
    }
    assert!(seen > 500, "only {seen} texts");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// What the functions look up whose calls are replaced by their queries: they would do so on the nodes, too, along their caller's path.
fn of_bodies(tree: &NodeEnum, snapshot: &catalog::Snapshot) -> BTreeSet<String> {
    let code = &snapshot.code;
    let mut found = BTreeSet::new();
    search::each(tree, |n| {
        let NodeEnum::FuncCall(f) = n else { return };
        let name = names::last(&f.funcname);
        for routine in code.routines.iter().filter(|r| r.open && r.name == name) {
            let body = routine.definition.split("$body$").nth(1).unwrap();
            found.extend(looked_up(&sql::parse(body, true).unwrap().remove(0)));
        }
    });
    found
}

#[test]
fn what_is_looked_up_is_found() {
    let found = |sql: &str| {
        let all = looked_up(&sql::parse(sql, true).unwrap().remove(0));
        all.into_iter().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(found("SELECT count(*), - a, NULLIF(a, 0) FROM t WHERE a = 1"), "- = AexprNullif = count()");
    assert_eq!(
        found("SELECT a FROM t JOIN u USING (a) WHERE a IN (1) OR a IN (SELECT 1) ORDER BY a USING <"),
        "< = ANY AexprIn = USING"
    );
    assert_eq!(found("SELECT CASE a WHEN 1 THEN 2 END FROM t WHERE a LIKE b"), "AexprLike ~~ CASE");
    assert_eq!(found("SELECT pg_catalog.count(*) FROM t WHERE a OPERATOR(pg_catalog.=) ANY (SELECT 1)"), "");
}

/// Those behind `> ` in the golden files.
fn statements() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut all: Vec<String> = vec![];
    for entry in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let mut before = false;
        for line in text.lines() {
            match line.strip_prefix('>') {
                Some(line) if before => all.last_mut().unwrap().push_str(&format!("\n{line}")),
                Some(line) => all.push(line.to_owned()),
                None => {}
            }
            before = line.starts_with('>');
        }
    }
    all
}

/// Names all that is PostgreSQL's own by its schema, as a careful user would.
fn qualify(statement: &mut NodeEnum, snapshot: &catalog::Snapshot) {
    struct Qualify<'a>(&'a catalog::Snapshot);
    impl sql::walk::VisitMut for Qualify<'_> {
        fn node(&mut self, n: &mut NodeEnum) -> bool {
            match n {
                NodeEnum::FuncCall(f) if f.funcname.len() == 1 => {
                    let name = names::last(&f.funcname).to_owned();
                    if self.0.builtin_functions.contains_key(&name) {
                        f.funcname = build::own_name(&name);
                    }
                }
                NodeEnum::AExpr(e) if e.name.len() == 1 && names::last(&e.name) != "@@@" => {
                    if matches!(ast::AExprKind::try_from(e.kind), Ok(AexprOp | AexprOpAny | AexprOpAll)) {
                        e.name = build::own_name(names::last(&e.name));
                    }
                }
                _ => {}
            }
            true
        }
    }
    let mut node = build::node(statement.clone());
    sql::walk::walk_mut(&mut node, &mut Qualify(snapshot));
    *statement = node.node.unwrap();
}

/// What a search path decides on.
fn looked_up(tree: &NodeEnum) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    search::each(tree, |n| {
        let (name, what) = match n {
            NodeEnum::FuncCall(f) => (&f.funcname, "()".to_owned()),
            NodeEnum::AExpr(e) => match ast::AExprKind::try_from(e.kind).unwrap() {
                AexprOp | AexprOpAny | AexprOpAll => (&e.name, String::new()),
                kind => {
                    found.insert(format!("{kind:?} {}", names::last(&e.name)));
                    return;
                }
            },
            NodeEnum::SubLink(s) if s.testexpr.is_some() && s.oper_name.is_empty() => {
                found.insert("= ANY".into());
                return;
            }
            NodeEnum::SubLink(s) => (&s.oper_name, String::new()),
            NodeEnum::SortBy(s) => (&s.use_op, String::new()),
            NodeEnum::CaseExpr(c) if c.arg.is_some() => {
                found.insert("CASE".into());
                return;
            }
            NodeEnum::JoinExpr(j) if j.is_natural || !j.using_clause.is_empty() => {
                found.insert("USING".into());
                return;
            }
            _ => return,
        };
        if name.len() == 1 {
            found.insert(format!("{}{what}", names::last(name)));
        }
    });
    found
}

/// As nodes get it, with something in each place.
fn shown(text: &Text) -> String {
    let piece = |p: &Piece| match p {
        Piece::Sql(sql) => sql.clone(),
        Piece::Param(n) => format!("${n}"),
        Piece::Now => "'now'".into(),
        Piece::Evaluated(_) => "NULL".into(),
        Piece::Rows(_) => "* FROM rows".into(),
        Piece::Array(_) => String::new(),
        Piece::Type { .. } => "pg_catalog.int8".into(),
    };
    text.pieces().iter().map(piece).collect()
}

fn of_plan(plan: &Planned, texts: &mut Vec<String>) {
    let whole = plan.whole();
    texts.extend(whole.rewritten.iter().chain(&whole.by_parent).cloned());
    match plan {
        Planned::Forward(_) => {}
        Planned::Query { tree, .. } => tree.iter().for_each(|finish| of_finish(finish, texts)),
        Planned::Insert { rows, .. } => match rows {
            Insert::Row => {}
            Insert::Rows(insert) => {
                let rows: Vec<_> = insert.rows.iter().map(shown).collect();
                texts.push(format!("{}{}{}", shown(&insert.head), rows.join(", "), shown(&insert.tail)));
                texts.extend(insert.evaluate.iter().map(|e| format!("SELECT {}", shown(&e.expression))));
            }
            Insert::Each { part, .. } => texts.push(shown(&part.text)),
            Insert::Select(select) => of_insert_select(select, texts),
            Insert::Copies(write) => of_reference(write, texts),
        },
        Planned::Modify { change, .. } => match change {
            Change::Refused(_) => {}
            Change::Each(part) => texts.push(shown(&part.text)),
            Change::Stay(s) => texts.push(shown(&s.part.text)),
            Change::Move(m) => {
                texts.extend(m.in_place.iter().map(|part| shown(&part.text)));
                texts.push(shown(&m.delete.text));
                texts.push(of_rows(&m.insert));
            }
            Change::From(from) => {
                from.reads.iter().for_each(|read| {
                    texts.push(read.sql.clone());
                    of_plan(&read.plan, texts);
                });
                texts.push(shown(&from.each().text));
                match &from.made {
                    Made::Move(m) => texts.push(of_rows(&m.insert)),
                    Made::InTwo(m) => texts.push(shown(&m.inserts.text)),
                    Made::Each(_) | Made::Stay(_) | Made::Copies(_) => {}
                }
            }
            Change::Copies(write) => of_reference(write, texts),
        },
        Planned::InTurn { turns, .. } => turns.iter().for_each(|turns| of_turns(turns, texts)),
    }
}

fn of_turns(turns: &InTurn, texts: &mut Vec<String>) {
    for turn in &turns.turns {
        texts.push(shown(&turn.text));
        texts.extend(turn.query.iter().filter_map(|q| q.columns.as_ref()).map(shown));
        of_plan(&turn.plan, texts);
    }
}

fn of_rows(insert: &InsertRows) -> String {
    format!("{}{}{}", shown(&insert.head), shown(&Piece::Rows(0).into()), shown(&insert.tail))
}

fn of_insert_select(insert: &InsertSelect, texts: &mut Vec<String>) {
    texts.push(insert.source_sql.clone());
    texts.push(of_rows(&insert.insert));
    of_plan(&insert.source, texts);
}

fn of_finish(finish: &Finish, texts: &mut Vec<String>) {
    texts.extend(finish.parts().into_iter().map(|part| shown(&part.text)));
    match finish {
        Finish::PassOn { .. } => {}
        Finish::Merge(merge) => texts.extend(merge.otherwise.iter().map(shown)),
        Finish::AddUp(add) => texts.push(shown(&add.otherwise)),
        Finish::Statement(statement) => {
            texts.push(shown(&statement.text));
            statement.ways.iter().for_each(|way| of_turns(way, texts));
        }
    }
}

fn of_reference(write: &ReferenceWrite, texts: &mut Vec<String>) {
    texts.extend(write.everywhere.iter().chain(&write.by_rows).chain(&write.returned).map(shown));
    texts.extend(write.compared.iter().map(|c| shown(&c.text)));
    if let Some(by_key) = &write.by_key {
        texts.push(shown(&by_key.on_home));
        texts.push(shown(&by_key.on_copies));
    }
    if let Some(unread) = &write.unread {
        of_insert_select(unread, texts);
    }
}

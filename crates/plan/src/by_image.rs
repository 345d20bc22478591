//! Changes of a reference table that are made on home, where no key finds the rows again on the other copies (see `by_key.rs`): they are found by
//! what they were as a whole, as PostgreSQL sends it, whatever the settings. Rows that are alike are told apart by a number; whichever of them is taken, the copies come out alike. A
//! copy where another transaction has taken it first has changed fewer rows, which the executor sees.

use catalog::{Relation, quote_ident};
use sql::ast::{self, CmdType, Node};
use sql::{NodeEnum, build, relations};
use wire::type_oid;

use crate::by_key::{self, COPY, ROWS, arms, set_by, shown};
use crate::text::{Piece, Text};
use crate::types::ByKey;
use crate::{Context, Result};

/// From here on RETURNING knows what rows were.
const RETURNS_OLD: i32 = 180_000;
const OLD: &str = "old";

/// By a key where there is one.
pub fn or_by_key(statement: &NodeEnum, relation: &Relation, cx: &Context) -> Result<Option<ByKey>> {
    Ok(match by_key::plan(statement, relation, cx)? {
        Some(by_key) => Some(by_key),
        None => plan(statement, relation, cx)?,
    })
}

/// `None`: home can't say what the rows were.
fn plan(statement: &NodeEnum, relation: &Relation, cx: &Context) -> Result<Option<ByKey>> {
    // Object ids of users' own types, which differ from node to node, are part of what a row is sent as.
    let foreign = relation.columns.iter().any(|c| c.type_oid >= type_oid::FIRST_NORMAL_OBJECT_ID);
    if relation.triggers || relation.statement_triggers || relation.row_security || foreign {
        return Ok(None);
    }
    let knows_old = cx.snapshot.server_version >= RETURNS_OLD;
    let mut on_home = statement.clone();
    let (returning, target, verbs, set) = match &mut on_home {
        NodeEnum::DeleteStmt(d) => {
            (&mut d.returning_clause, shown(&d.relation, relation), vec![CmdType::CmdDelete], vec![])
        }
        NodeEnum::UpdateStmt(u) if knows_old => {
            let set = set_by(&u.target_list, relation);
            (&mut u.returning_clause, OLD.to_string(), vec![CmdType::CmdUpdate], set)
        }
        NodeEnum::MergeStmt(m) if knows_old => {
            let (verbs, set) = arms(m, relation);
            (&mut m.returning_clause, OLD.to_string(), verbs, set)
        }
        _ => return Ok(None),
    };
    let is_merge = matches!(statement, NodeEnum::MergeStmt(_));
    let inserts = verbs.contains(&CmdType::CmdInsert);
    // What is called so is another thing.
    let named = |rv: &&ast::RangeVar| {
        let name = rv.alias.as_ref().map_or(&rv.relname, |a| &a.aliasname);
        name == OLD || name == "new"
    };
    let renames = returning.as_ref().is_some_and(|r| !r.options.is_empty());
    if target == OLD && (relations::of(statement).iter().any(named) || renames) {
        return Ok(None);
    }
    let written = (0..relation.columns.len()).filter(|c| !relation.columns[*c].generated);
    let columns: Vec<usize> = written.filter(|c| inserts || set.contains(c)).collect();
    if columns.is_empty() && verbs.iter().any(|v| *v != CmdType::CmdDelete) {
        return Ok(None);
    }
    let called = match statement {
        NodeEnum::DeleteStmt(_) => target.clone(),
        NodeEnum::UpdateStmt(s) => shown(&s.relation, relation),
        NodeEnum::MergeStmt(s) => shown(&s.relation, relation),
        _ => return Ok(None),
    };
    let whole = build::node(NodeEnum::ColumnRef(ast::ColumnRef {
        fields: vec![build::string(&target), build::node(NodeEnum::AStar(ast::AStar {}))],
        location: -1,
    }));
    let image = build::own_call("encode", vec![build::own_call("record_send", vec![whole]), build::text("hex")]);
    let mut values: Vec<Node> = vec![image];
    values.extend(columns.iter().map(|c| build::column(&[&called, &relation.columns[*c].name])));
    let mut types: Vec<String> = vec!["text".into()];
    types.extend(columns.iter().map(|c| relation.columns[*c].type_name.clone()));
    if is_merge {
        let Some(action) = crate::reads::parse_expression("merge_action()") else { return Ok(None) };
        values.push(action);
        types.push("text".into());
    }
    returning.get_or_insert_default().exprs.extend(values.into_iter().map(|v| build::target(v, None)));
    let copies = Copies { relation, columns: &columns, set: &set };
    let on_copies = match statement {
        NodeEnum::UpdateStmt(_) => {
            copies.found(format!("UPDATE {} AS {COPY} SET {} FROM ", copies.table(), copies.set()))
        }
        NodeEnum::DeleteStmt(_) => copies.found(format!("DELETE FROM {} AS {COPY} USING ", copies.table())),
        _ => copies.merge(&verbs),
    };
    Ok(Some(ByKey { on_home: cx.text(on_home)?, types, on_copies }))
}

/// What the copies are told: the rows' first column is what a row was, behind it are those of `columns`.
struct Copies<'r> {
    relation: &'r Relation,
    columns: &'r [usize],
    set: &'r [usize],
}

impl Copies<'_> {
    /// Between what stands in front and behind: home's rows with the places of the copy's own.
    fn rows(&self, join: &str) -> (String, String) {
        let numbered = |image: &str| format!("pg_catalog.row_number() OVER (PARTITION BY {image})");
        let own = "pg_catalog.encode(pg_catalog.record_send(t.*), 'hex') COLLATE \"C\"";
        let head = format!("(SELECT h.*, f.place FROM (SELECT r.*, {} AS number FROM (SELECT ", numbered("r.c0"));
        let tail = format!(
            ") AS r) AS h {join} (SELECT t.ctid AS place, {own} AS image, {} AS number FROM {} AS t) AS f \
             ON f.image OPERATOR(pg_catalog.=) h.c0 AND f.number OPERATOR(pg_catalog.=) h.number) AS {ROWS}",
            numbered(own),
            self.table()
        );
        (head, tail)
    }

    fn found(&self, verb: String) -> Text {
        let (head, tail) = self.rows("JOIN");
        let tail = format!("{tail} WHERE {COPY}.ctid OPERATOR(pg_catalog.=) {ROWS}.place");
        Text::all([format!("{verb}{head}").into(), Piece::Rows(0).into(), tail.into()])
    }

    /// The last column of the rows says what home has done.
    fn merge(&self, verbs: &[CmdType]) -> Text {
        let action = self.columns.len() + 1;
        let is = |verb: &str| format!("{ROWS}.c{action} OPERATOR(pg_catalog.=) '{verb}'");
        let mut arms = String::new();
        if verbs.contains(&CmdType::CmdUpdate) {
            arms += &format!(" WHEN MATCHED AND {} THEN UPDATE SET {}", is("UPDATE"), self.set());
        }
        if verbs.contains(&CmdType::CmdDelete) {
            arms += &format!(" WHEN MATCHED AND {} THEN DELETE", is("DELETE"));
        }
        if verbs.contains(&CmdType::CmdInsert) {
            let names: Vec<String> = self.columns.iter().map(|c| self.name(*c)).collect();
            let values: Vec<String> = (1..action).map(|i| format!("{ROWS}.c{i}")).collect();
            arms += &format!(
                " WHEN NOT MATCHED AND {} THEN INSERT ({}) OVERRIDING SYSTEM VALUE VALUES ({})",
                is("INSERT"),
                names.join(", "),
                values.join(", ")
            );
        }
        // What home has inserted was nothing.
        let (head, tail) = self.rows("LEFT JOIN");
        let tail = format!("{tail} ON {COPY}.ctid OPERATOR(pg_catalog.=) {ROWS}.place{arms}");
        Text::all([
            format!("MERGE INTO {} AS {COPY} USING {head}", self.table()).into(),
            Piece::Rows(0).into(),
            tail.into(),
        ])
    }

    fn set(&self) -> String {
        let value = |(i, c): (usize, &usize)| format!("{} = {ROWS}.c{}", self.name(*c), i + 1);
        let set = self.columns.iter().enumerate().filter(|(_, c)| self.set.contains(c));
        set.map(value).collect::<Vec<_>>().join(", ")
    }

    fn table(&self) -> String {
        catalog::qualified(&self.relation.schema, &self.relation.name)
    }

    fn name(&self, column: usize) -> String {
        quote_ident(&self.relation.columns[column].name)
    }
}

//! Changes of a reference table that are made on home, whose rows the other copies take over by a key.
//!
//! A statement that reads other rows than the one it changes is not run on every node: what others commit in that moment one
//! node has and another has not yet; nor is one whose values could differ from node to node. Home runs it, and returns of each row what has become of it, found again by a unique key
//! that the statement leaves alone; the other copies are told these values. Writes to one row come in the same order on all
//! nodes, since its lock is held to the end of the transaction, so equal copies stay equal. What the values are is not known
//! here, nor how a copy waits for rows that home has already.

use catalog::{Relation, UniqueIndex, quote_ident};
use sql::ast::{self, CmdType, Node};
use sql::{NodeEnum, build, relations, search};
use wire::type_oid;

use crate::reads::parse_expression;
use crate::text::{Piece, Text};
use crate::types::ByKey;
use crate::{Context, Result};

/// From here on MERGE returns rows.
pub const MERGE_RETURNS: i32 = 170_000;
/// The names of the copy's table and of home's rows in texts for copies. `c0`, `c1`, … are the rows' columns.
pub(crate) const COPY: &str = "herd_copy";
pub(crate) const ROWS: &str = "herd_rows";

/// Whether what a statement writes depends on other rows than the one it writes: those of tables it reads, or of whatever code
/// may read; and MERGE goes by whether there is a row at all.
pub fn reads_others(statement: &NodeEnum, cx: &Context) -> bool {
    let own = |n: &NodeEnum| matches!(n, NodeEnum::FuncCall(f) if cx.functions(&f.funcname).any(|f| f.schema != "pg_catalog"));
    // The first is its target.
    matches!(statement, NodeEnum::MergeStmt(_)) || relations::of(statement).len() > 1 || search::any(statement, own)
}

/// `None`: the rows can't be found again, or the copies would do more with them than take them over.
pub fn plan(statement: &NodeEnum, relation: &Relation, cx: &Context) -> Result<Option<ByKey>> {
    if relation.triggers || relation.statement_triggers || relation.row_security {
        return Ok(None);
    }
    let mut on_home = statement.clone();
    let (target, returning, verbs, set) = match &mut on_home {
        NodeEnum::UpdateStmt(u) => {
            let set = set_by(&u.target_list, relation);
            (shown(&u.relation, relation), &mut u.returning_clause, vec![CmdType::CmdUpdate], set)
        }
        NodeEnum::DeleteStmt(d) => {
            (shown(&d.relation, relation), &mut d.returning_clause, vec![CmdType::CmdDelete], vec![])
        }
        NodeEnum::InsertStmt(i) => {
            let list = i.on_conflict_clause.as_ref().map(|c| set_by(&c.target_list, relation)).unwrap_or_default();
            (shown(&i.relation, relation), &mut i.returning_clause, vec![CmdType::CmdInsert], list)
        }
        NodeEnum::MergeStmt(m) if cx.snapshot.server_version >= MERGE_RETURNS => {
            let (verbs, set) = arms(m, relation);
            (shown(&m.relation, relation), &mut m.returning_clause, verbs, set)
        }
        _ => return Ok(None),
    };
    let Some(key) = key(relation, &set) else { return Ok(None) };
    let is_merge = matches!(statement, NodeEnum::MergeStmt(_));
    let inserts = verbs.contains(&CmdType::CmdInsert);
    // The key first, then what is written.
    let mut columns = key.columns.clone();
    let written = (0..relation.columns.len()).filter(|c| !relation.columns[*c].generated);
    columns.extend(written.filter(|c| !key.columns.contains(c) && (inserts || set.contains(c))));
    let mut types: Vec<String> = columns.iter().map(|c| relation.columns[*c].type_name.clone()).collect();
    let mut values: Vec<Node> = columns.iter().map(|c| build::column(&[&target, &relation.columns[*c].name])).collect();
    if is_merge {
        let Some(action) = parse_expression("merge_action()") else { return Ok(None) };
        values.push(action);
        types.push("text".into());
    }
    let returning = returning.get_or_insert_default();
    returning.exprs.extend(values.into_iter().map(|v| build::target(v, None)));
    let copies = Copies { relation, key, columns: &columns, set: &set };
    let on_copies = match statement {
        NodeEnum::UpdateStmt(_) => copies.update(),
        NodeEnum::DeleteStmt(_) => copies.delete(),
        NodeEnum::InsertStmt(_) => copies.upsert(),
        _ => copies.merge(&verbs),
    };
    let Some(on_copies) = on_copies else { return Ok(None) };
    Ok(Some(ByKey { on_home: cx.text(on_home)?, types, on_copies }))
}

/// What the table is called in the statement.
pub(crate) fn shown(rv: &Option<ast::RangeVar>, relation: &Relation) -> String {
    let alias = rv.as_ref().and_then(|rv| rv.alias.as_ref());
    alias.map_or(relation.name.clone(), |a| a.aliasname.clone())
}

/// What the arms of a MERGE do, and which columns they set.
pub(crate) fn arms(m: &ast::MergeStmt, relation: &Relation) -> (Vec<CmdType>, Vec<usize>) {
    let (mut verbs, mut set) = (vec![], vec![]);
    for arm in &m.merge_when_clauses {
        let Some(NodeEnum::MergeWhenClause(arm)) = &arm.node else { continue };
        let verb = CmdType::try_from(arm.command_type).unwrap_or(CmdType::Undefined);
        if verb == CmdType::CmdUpdate {
            set.extend(set_by(&arm.target_list, relation));
        }
        verbs.push(verb);
    }
    set.sort_unstable();
    set.dedup();
    (verbs, set)
}

/// Columns that a list of SET gives values, without those that each copy computes.
pub(crate) fn set_by(list: &[Node], relation: &Relation) -> Vec<usize> {
    let column = |n: &Node| match &n.node {
        Some(NodeEnum::ResTarget(t)) => relation.column(&t.name),
        _ => None,
    };
    let mut set: Vec<usize> = list.iter().filter_map(column).filter(|c| !relation.columns[*c].generated).collect();
    set.sort_unstable();
    set.dedup();
    set
}

/// A unique index by which the rows are found again: none of its columns is set, none can be NULL, and PostgreSQL's own `=`
/// is what it goes by.
fn key<'r>(relation: &'r Relation, set: &[usize]) -> Option<&'r UniqueIndex> {
    let stays = |c: &usize| {
        let column = &relation.columns[*c];
        let plain = column.type_oid < type_oid::FIRST_NORMAL_OBJECT_ID && column.collation_deterministic;
        plain && column.not_null && !column.generated && !set.contains(c)
    };
    relation.unique.iter().find(|u| u.plain && !u.columns.is_empty() && u.columns.iter().all(stays))
}

/// What the copies are told: columns of the rows are those of `columns`, in their order.
struct Copies<'r> {
    relation: &'r Relation,
    key: &'r UniqueIndex,
    columns: &'r [usize],
    set: &'r [usize],
}

impl Copies<'_> {
    fn update(&self) -> Option<Text> {
        let set = self.set_from(&format!("{ROWS}.c"), false)?;
        Some(self.over_rows(format!("UPDATE {} AS {COPY} SET {set} FROM (SELECT ", self.table()), self.found()))
    }

    fn delete(&self) -> Option<Text> {
        Some(self.over_rows(format!("DELETE FROM {} AS {COPY} USING (SELECT ", self.table()), self.found()))
    }

    /// A row that home has inserted, or has changed because of its key.
    fn upsert(&self) -> Option<Text> {
        let key: Vec<String> = self.key.columns.iter().map(|c| self.name(*c)).collect();
        let set = self.set_from("excluded.", true)?;
        let head = format!("INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE SELECT ", self.table(), self.names());
        let tail = format!(" ON CONFLICT ({}) DO UPDATE SET {set}", key.join(", "));
        Some(Text::all([head.into(), Piece::Rows(0).into(), tail.into()]))
    }

    /// The last column of the rows says what home has done.
    fn merge(&self, verbs: &[CmdType]) -> Option<Text> {
        let action = self.columns.len();
        let is = |verb: &str| format!("{ROWS}.c{action} OPERATOR(pg_catalog.=) '{verb}'");
        let mut arms = String::new();
        if verbs.contains(&CmdType::CmdUpdate) {
            let set = self.set_from(&format!("{ROWS}.c"), false)?;
            arms += &format!(" WHEN MATCHED AND {} THEN UPDATE SET {set}", is("UPDATE"));
        }
        if verbs.contains(&CmdType::CmdDelete) {
            arms += &format!(" WHEN MATCHED AND {} THEN DELETE", is("DELETE"));
        }
        if verbs.contains(&CmdType::CmdInsert) {
            let values: Vec<String> = (0..action).map(|i| format!("{ROWS}.c{i}")).collect();
            let insert = format!("INSERT ({}) OVERRIDING SYSTEM VALUE VALUES ({})", self.names(), values.join(", "));
            arms += &format!(" WHEN NOT MATCHED AND {} THEN {insert}", is("INSERT"));
        }
        if arms.is_empty() {
            return None;
        }
        let tail = format!(") AS {ROWS} ON {}{arms}", self.by_key());
        Some(self.over_rows(format!("MERGE INTO {} AS {COPY} USING (SELECT ", self.table()), tail))
    }

    fn over_rows(&self, head: String, tail: String) -> Text {
        Text::all([head.into(), Piece::Rows(0).into(), tail.into()])
    }

    fn found(&self) -> String {
        format!(") AS {ROWS} WHERE {}", self.by_key())
    }

    fn by_key(&self) -> String {
        let equal = |(i, c): (usize, &usize)| format!("{COPY}.{} OPERATOR(pg_catalog.=) {ROWS}.c{i}", self.name(*c));
        self.key.columns.iter().enumerate().map(equal).collect::<Vec<_>>().join(" AND ")
    }

    /// What is set, from columns of the rows by their number or by their name. `None`: nothing is.
    fn set_from(&self, source: &str, by_name: bool) -> Option<String> {
        let value = |(i, c): (usize, &usize)| match by_name {
            true => format!("{} = {source}{}", self.name(*c), self.name(*c)),
            false => format!("{} = {source}{i}", self.name(*c)),
        };
        let set = self.columns.iter().enumerate().filter(|(_, c)| self.set.contains(c));
        let set: Vec<String> = set.map(value).collect();
        (!set.is_empty()).then(|| set.join(", "))
    }

    fn table(&self) -> String {
        catalog::qualified(&self.relation.schema, &self.relation.name)
    }

    fn name(&self, column: usize) -> String {
        quote_ident(&self.relation.columns[column].name)
    }

    fn names(&self) -> String {
        self.columns.iter().map(|c| self.name(*c)).collect::<Vec<_>>().join(", ")
    }
}

//! Golden tests: SQL in, plan out. `golden/*.txt` holds the statements and what they come to on the herd of `golden_herd`.

#[path = "golden_herd/mod.rs"]
mod golden_herd;
#[path = "../../sql/tests/golden_support/mod.rs"]
mod golden_support;

use std::fmt::Write;
use std::path::Path;

use golden_herd::snapshot;
use plan::{
    AddFunction, AddUp, Cell, Change, ChangeFrom, Context, Count, Finish, Insert, InsertSelect, KeyExpr, LimitEnd,
    Made, Merge, Planned, Recipients, ReferenceWrite, Refusal, Semijoin, Slice, SplitInsert, Statement, TableKeys,
    Turn,
};

#[test]
fn plans_are_what_the_golden_files_say() {
    let snapshot = snapshot();
    let search_path = ["pg_catalog".to_owned(), "public".to_owned()];
    let temporary = [catalog::TemporaryRelation::named("scratch")];
    let context = Context::new(&snapshot, &search_path, &temporary);
    golden_support::check(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden"), |sql| show(sql, &context));
}

fn show(sql: &str, context: &Context) -> String {
    let statement = match sql::parse(sql, true) {
        Ok(mut statements) => statements.remove(0),
        Err(error) => return format!("syntax error: {error}"),
    };
    match plan::plan(&statement, sql, context) {
        Ok(plan) => show_plan(&plan, sql),
        Err(refusal) => show_refusal(&refusal),
    }
}

fn show_refusal(r: &Refusal) -> String {
    let hint = r.hint.as_ref().map_or(String::new(), |hint| format!("\n  hint: {hint}"));
    format!("refused {}: {}{hint}", r.sqlstate, r.message)
}

/// First what is known of every use of a table, then how one shard is named, then what several nodes would do.
fn show_plan(plan: &Planned, sql: &str) -> String {
    let mut out = String::new();
    let whole = plan.whole();
    for table in &whole.tables {
        writeln!(out, "{}", show_keys(table)).unwrap();
    }
    let flags = [
        (whole.needs_home, "needs home"),
        (whole.reads_reference, "reads reference tables"),
        (whole.writes, "writes"),
        (!whole.template, "for these literals only"),
    ];
    let flags: Vec<_> = flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, name)| name).collect();
    if !flags.is_empty() {
        writeln!(out, "{}", flags.join(", ")).unwrap();
    }
    if let Some(text) = &whole.rewritten {
        writeln!(out, "read as: {text}").unwrap();
    }
    if whole.unread {
        writeln!(out, "described on home as it is written").unwrap();
    }
    if let Planned::Insert { rows: Insert::Rows(insert), .. } = plan {
        for (n, evaluation) in insert.evaluate.iter().enumerate() {
            writeln!(out, "value {n}: {}", evaluation.expression).unwrap();
        }
    }
    let text = whole.rewritten.as_deref().unwrap_or(sql);
    match &whole.splices {
        _ if whole.tables.is_empty() => {}
        Some(splices) => writeln!(out, "one shard: {}", spliced(splices, text)).unwrap(),
        None => writeln!(out, "one shard: through the parent").unwrap(),
    }
    if let Some(share) = &whole.share {
        let literals: Vec<_> = share.literals.iter().map(|l| format!("{}::{}", l.location, l.type_oid)).collect();
        let kind = if share.writes { "writes" } else { "reads" };
        let few = share.between.map_or(String::new(), |between| {
            let [low, high] = [between.low, between.high].map(|end| plus(&format!("${}", end.parameter), end.plus));
            format!(", few keys between {low} and {high}")
        });
        writeln!(out, "shares a lane of {kind}{few}; parameters at [{}]", literals.join(", ")).unwrap();
    }
    if let Some(s) = plan.share_rows() {
        let columns: Vec<_> = s.columns.iter().map(|c| s.relation.columns[*c].name.as_str()).collect();
        let cell = |c: &Cell| match c {
            Cell::Literal { text, .. } => text.clone(),
            Cell::Param(n) => format!("${n}"),
            Cell::Fixed(text) => (*text).to_owned(),
            Cell::Null => "NULL".to_owned(),
            Cell::Now => "now".to_owned(),
        };
        let rows: Vec<String> =
            s.rows.iter().map(|r| format!("({})", r.iter().map(cell).collect::<Vec<_>>().join(", "))).collect();
        writeln!(out, "shares rows of ({}): {}", columns.join(", "), rows.join(" ")).unwrap();
    }
    out + &show_several(plan)
}

fn spliced(splices: &[plan::Splice], text: &str) -> String {
    let mut text = text.to_owned();
    for s in splices.iter().rev() {
        let alias = s.alias.as_ref().map_or(String::new(), |alias| format!(" AS {alias}"));
        text.replace_range(s.start..s.end, &format!("<{}>{alias}", s.table));
    }
    text.replace('\n', " ")
}

/// `$1 + 99`
fn plus(value: &str, plus: i64) -> String {
    match plus {
        0 => value.to_owned(),
        1.. => format!("{value} + {plus}"),
        _ => format!("{value} - {}", -plus),
    }
}

fn show_keys(table: &TableKeys) -> String {
    let key = table.relation.distribution().map(|d| d.key.clone()).unwrap_or_default();
    let columns = key.iter().zip(&table.columns).map(|(column, values)| {
        let name = table.relation.columns.get(*column).map_or("what is hidden", |c| &c.name);
        let values: Vec<_> = values.iter().map(show_key).collect();
        if values.is_empty() { format!("{name} any") } else { format!("{name} = {}", values.join(" | ")) }
    });
    let first =
        key.first().and_then(|column| table.relation.columns.get(*column)).map_or("what is hidden", |c| &c.name);
    let limits = table.limits.iter().map(|limit| {
        let end = if limit.end == LimitEnd::Low { ">" } else { "<" };
        format!("{first} {end}{} {}", if limit.inclusive { "=" } else { "" }, plus(&show_key(&limit.value), limit.plus))
    });
    let columns: Vec<_> = columns.chain(limits).collect();
    let keys = if columns.is_empty() { "by its rows".into() } else { columns.join(", ") };
    format!("table {}: {keys}", table.relation.name)
}

fn show_key(key: &KeyExpr) -> String {
    match key {
        KeyExpr::Literal { text, kind: plan::LiteralKind::Number, .. } => text.clone(),
        KeyExpr::Literal { text, .. } => format!("'{text}'"),
        KeyExpr::Param(n) | KeyExpr::CastParam(n, _) => format!("${n}"),
        KeyExpr::ParamArray(n) | KeyExpr::CastParamArray(n, _) => format!("any element of ${n}"),
        KeyExpr::Null => "NULL".into(),
        KeyExpr::Evaluated(n) => format!("value {n}"),
    }
}

fn show_several(plan: &Planned) -> String {
    let body = match plan {
        Planned::Forward(_) | Planned::Insert { rows: Insert::Row, .. } => String::new(),
        Planned::Query { tree: Err(refusal), .. } | Planned::Modify { change: Change::Refused(refusal), .. } => {
            return format!("several: {}", show_refusal(refusal));
        }
        Planned::InTurn { turns: Err(refusal), .. } => return format!("several: {}", show_refusal(refusal)),
        Planned::InTurn { turns: Ok(turns), .. } => turns.turns.iter().map(show_turn).collect(),
        Planned::Query { tree: Ok(finish), .. } => show_finish(finish),
        Planned::Insert { rows, .. } => match rows {
            Insert::Row => String::new(),
            Insert::Rows(insert) => show_insert(insert),
            Insert::Each { part, .. } => format!("\n  rows stay on their nodes: {}", part.text),
            Insert::Select(insert) => show_insert_select(insert),
            Insert::Copies(write) => show_reference(write),
        },
        Planned::Modify { change: Change::Each(part), .. } => format!("\n  each: {}", part.text),
        Planned::Modify { change: Change::Stay(s), .. } => {
            format!("\n  in place: {}\n  otherwise {}", s.part.text, show_refusal(&s.otherwise))
        }
        Planned::Modify { change: Change::Move(m), .. } => {
            format!("\n  delete: {}\n  insert: {}…{}", m.delete.text, m.insert.head, m.insert.tail)
        }
        Planned::Modify { change: Change::From(from), .. } => show_from(from),
        Planned::Modify { change: Change::Copies(write), .. } => show_reference(write),
    };
    format!("several: {}{body}", plan.strategy().as_str())
}

fn show_from(from: &ChangeFrom) -> String {
    let mut out = String::new();
    for (n, read) in from.reads.iter().enumerate() {
        let plan = show_plan(&read.plan, &read.sql).replace('\n', "\n    ");
        write!(out, "\n  read {n}: {}\n    {plan}", read.sql).unwrap();
    }
    if let Some(split) = &from.split {
        let nodes = if split.everywhere { ", all nodes" } else { "" };
        write!(out, "\n  read {} goes by its last {} columns{nodes}", split.read, split.keys).unwrap();
    }
    let Recipients::Shards(uses) = &from.each().target;
    let verb = if matches!(from.made, Made::Move(_)) { "delete" } else { "each" };
    write!(out, "\n  rows {:?}\n  {verb} of uses {uses:?}: {}", from.to, from.each().text).unwrap();
    out
}

fn show_turn(turn: &Turn) -> String {
    let name = turn.query.as_ref().map_or("itself", |q| &q.name);
    let kept = if turn.query.as_ref().is_some_and(|q| !q.unnamed) { ", rows kept" } else { "" };
    format!("\n  {name}{kept}: {}\n    {}", turn.text, show_several(&turn.plan).replace('\n', "\n    "))
}

fn returned(returning: bool) -> &'static str {
    if returning { "\n  returns rows" } else { "" }
}

fn show_finish(finish: &Finish) -> String {
    let mut out = String::new();
    for (n, part) in finish.parts().into_iter().enumerate() {
        let Recipients::Shards(uses) = &part.target;
        write!(out, "\n  part {n} of uses {uses:?}: {}", part.text).unwrap();
    }
    match finish {
        Finish::PassOn { slice, .. } => write!(out, "\n  append{}", show_slice(slice)).unwrap(),
        Finish::Merge(merge) => out += &show_merge(merge),
        Finish::AddUp(AddUp { functions, otherwise, .. }) => {
            let names = functions.iter().map(|f| match f {
                AddFunction::Sum => "sum",
                AddFunction::Min => "min",
                AddFunction::Max => "max",
            });
            write!(out, "\n  combine {}, or: {otherwise}", names.collect::<Vec<_>>().join(", ")).unwrap();
        }
        Finish::Statement(Statement { text, reads_home, lookups, semijoins, ways, shuffle, .. }) => {
            write!(out, "\n  finish: {text}{}", if *reads_home { "\n  on home" } else { "" }).unwrap();
            for (n, by) in lookups.iter().enumerate().filter(|(_, by)| !by.is_empty()) {
                write!(out, "\n  rows {n} are looked up by columns {by:?}").unwrap();
            }
            for semijoin in semijoins {
                let Semijoin { child, partner, columns, text, .. } = semijoin;
                write!(out, "\n  or where part {partner} has few {columns:?}, part {child}: {text}").unwrap();
            }
            for way in ways {
                let turns: String = way.turns.iter().map(show_turn).collect();
                write!(out, "\n  or where less moves:{}", turns.replace('\n', "\n  ")).unwrap();
            }
            if let Some(shuffle) = shuffle {
                let by = shuffle.by.iter().map(|by| by.as_ref().map_or("to all".to_string(), |key| key.name.clone()));
                let more = [(shuffle.adds_up, ", adds up"), (shuffle.reads_more, ", reads more")];
                let more: String = more.iter().filter(|(is, _)| *is).map(|(_, what)| *what).collect();
                write!(out, "\n  or shuffled by {}{more}:", by.collect::<Vec<_>>().join(", ")).unwrap();
                for part in &shuffle.parts {
                    write!(out, "\n    each node: {part}").unwrap();
                }
                write!(out, "\n    finish: {}", shuffle.text).unwrap();
            }
        }
    }
    out
}

fn show_merge(merge: &Merge) -> String {
    let keys = merge.sort.iter().map(|key| match (key.descending, key.nulls_first) {
        (false, false) => "ascending",
        (false, true) => "ascending nulls first",
        (true, true) => "descending",
        (true, false) => "descending nulls last",
    });
    let how = if merge.bytewise { "" } else { ", collations differ" };
    let or = merge.otherwise.as_ref().map_or(String::new(), |text| format!("\n  or: {text}"));
    format!("\n  merge {}{how}{}{or}", keys.collect::<Vec<_>>().join(", "), show_slice(&merge.slice))
}

fn show_slice(slice: &Slice) -> String {
    let each = [("offset", slice.offset), ("limit", slice.limit)].map(|(name, count)| match count {
        Some(Count::Constant(n)) => format!(", {name} {n}"),
        Some(Count::Param(n)) => format!(", {name} ${n}"),
        None => String::new(),
    });
    each.concat() + if slice.locks { ", locked one by one" } else { "" }
}

fn show_insert(insert: &SplitInsert) -> String {
    let SplitInsert { relation, head, tail, .. } = insert;
    let mut out = format!("\n  into {}: {head}…{tail}{}", relation.name, returned(insert.returning));
    for (row, keys) in insert.rows.iter().zip(&insert.keys) {
        let keys: Vec<_> = keys.iter().map(show_key).collect();
        write!(out, "\n  row {row} by {}", keys.join(", ")).unwrap();
    }
    out
}

fn show_insert_select(insert: &InsertSelect) -> String {
    let columns: Vec<_> = insert.columns.iter().map(|c| insert.relation.columns[*c].name.as_str()).collect();
    let source = show_plan(&insert.source, &insert.source_sql).replace('\n', "\n    ");
    format!(
        "\n  rows pass through the router: {}…{}\n  columns {}\n  source: {}\n    {source}",
        insert.insert.head,
        insert.insert.tail,
        columns.join(", "),
        insert.source_sql
    )
}

fn show_reference(write: &ReferenceWrite) -> String {
    let mut out = match &write.everywhere {
        Ok(text) => format!("\n  everywhere: {text}"),
        Err(refusal) => format!("\n  not everywhere, {}", show_refusal(refusal)),
    };
    if let Some(by_key) = &write.by_key {
        write!(
            out,
            "\n  on home, then by key: {}\n  of {}: {}",
            by_key.on_home,
            by_key.types.join(", "),
            by_key.on_copies
        )
        .unwrap();
    }
    if let Some(text) = &write.by_rows {
        write!(out, "\n  on home, then its rows everywhere: {text}").unwrap();
    }
    if let Some(text) = &write.returned {
        write!(out, "\n  then: {text}").unwrap();
    }
    out
}

//! Functions, and which of them read distributed or reference tables.
//!
//! A body is searched for names as words, in whatever language it is: names found in a comment or a string count, too,
//! because a string may be run as SQL. What is built from parts at run time cannot be found.

use std::collections::{HashMap, HashSet};

use super::facts::NOT_SYSTEM;
use crate::load::cells;
use crate::{CatalogError, Function, FunctionKind, Placement, Query, Snapshot, Volatility};

pub(super) async fn load_builtin<Q: Query>(
    q: &mut Q,
) -> Result<HashMap<String, Vec<Function>>, CatalogError<Q::Error>> {
    let sql = "SELECT DISTINCT proname, 'pg_catalog', prokind, provolatile, proretset, false \
               FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace ORDER BY proname";
    let mut functions: HashMap<String, Vec<Function>> = HashMap::new();
    for mut row in cells(q, sql).await? {
        let name = row.text();
        functions.entry(name).or_default().push(function(&mut row));
    }
    Ok(functions)
}

fn function(row: &mut crate::cells::Cells) -> Function {
    Function {
        schema: row.text(),
        kind: match row.char() {
            b'a' => FunctionKind::Aggregate,
            b'w' => FunctionKind::Window,
            b'p' => FunctionKind::Procedure,
            _ => FunctionKind::Function,
        },
        volatility: match row.char() {
            b'i' => Volatility::Immutable,
            b's' => Volatility::Stable,
            _ => Volatility::Volatile,
        },
        returns_set: row.boolean(),
        user_defined: row.boolean(),
        reads_herd_tables: false,
    }
}

pub(super) async fn load_user<Q: Query>(q: &mut Q, snapshot: &mut Snapshot) -> Result<(), CatalogError<Q::Error>> {
    // An aggregate's body is the functions it calls. C functions cannot be looked into, and are taken not to read tables.
    let sql = format!(
        "SELECT p.proname, n.nspname, p.prokind, p.provolatile, p.proretset, \
                NOT EXISTS (SELECT FROM pg_depend e WHERE e.classid = 'pg_proc'::regclass AND e.objid = p.oid AND e.deptype = 'e'), \
                CASE WHEN a.aggfnoid IS NOT NULL THEN concat_ws(' ', a.aggtransfn, a.aggfinalfn, a.aggcombinefn, a.aggmtransfn, a.aggmfinalfn) \
                     WHEN l.lanname NOT IN ('c', 'internal') THEN concat(p.prosrc, ' ', pg_get_function_sqlbody(p.oid)) END \
         FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace JOIN pg_language l ON l.oid = p.prolang \
         LEFT JOIN pg_aggregate a ON a.aggfnoid = p.oid \
         WHERE {NOT_SYSTEM}"
    );
    let mut loaded = Vec::new();
    for mut row in cells(q, &sql).await? {
        let name = row.text();
        let function = function(&mut row);
        loaded.push((name, function, row.text()));
    }

    let reads = readers(snapshot, &loaded);
    for (i, (name, mut function, _)) in loaded.into_iter().enumerate() {
        function.reads_herd_tables = reads.contains(&i);
        let overloads = snapshot.functions.entry(name).or_default();
        if !overloads.contains(&function) {
            overloads.push(function);
        }
    }
    Ok(())
}

/// Positions of the functions that name a herd table, or a view or function that does, however far away.
fn readers(snapshot: &Snapshot, functions: &[(String, Function, String)]) -> HashSet<usize> {
    let herd_tables = snapshot.relations.values().filter(|r| !matches!(r.placement, Placement::Local));
    let mut tainted = Names::default();
    herd_tables.for_each(|r| tainted.add(&r.name));

    let views = snapshot.relations.values().filter_map(|r| Some((r.name.as_str(), Body::of(r.view.as_ref()?))));
    let bodies = functions.iter().map(|(name, _, body)| (name.as_str(), Body::of(body)));
    let mut clean: Vec<(Option<usize>, &str, Body)> = views.map(|(name, body)| (None, name, body)).collect();
    clean.extend(bodies.enumerate().map(|(i, (name, body))| (Some(i), name, body)));

    let mut readers = HashSet::new();
    loop {
        let (hit, rest): (Vec<_>, Vec<_>) = clean.into_iter().partition(|(_, _, body)| body.mentions(&tainted));
        if hit.is_empty() {
            return readers;
        }
        for (function, name, _) in hit {
            tainted.add(name);
            readers.extend(function);
        }
        clean = rest;
    }
}

#[derive(Default)]
struct Names {
    words: HashSet<String>,
    /// Names that are not one word, such as `"order lines"`, are searched for as text.
    odd: Vec<String>,
}

impl Names {
    fn add(&mut self, name: &str) {
        let name = name.to_lowercase();
        if name.chars().all(is_word) {
            self.words.insert(name);
        } else {
            self.odd.push(name.replace('"', "\"\""));
        }
    }
}

struct Body {
    text: String,
    words: HashSet<String>,
}

impl Body {
    fn of(text: &str) -> Self {
        let text = text.to_lowercase();
        let words = text.split(|c| !is_word(c)).filter(|w| !w.is_empty()).map(str::to_string).collect();
        Body { text, words }
    }

    fn mentions(&self, names: &Names) -> bool {
        !self.words.is_disjoint(&names.words) || names.odd.iter().any(|name| self.text.contains(name))
    }
}

fn is_word(c: char) -> bool {
    // Not '$', though identifiers may hold it: "$$SELECT … FROM t$$" has to show t.
    c.is_alphanumeric() || c == '_'
}
